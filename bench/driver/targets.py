"""What is to be reached, and whether it is: the list of targets, and a line's verdict.

A target names lines of the table by a regular expression (an id, or an id and a metric: `B16.compile_100 total`) and
measures each of them by a figure that must be at least, or at most, the bound:
    time      our least time, in the unit of the row                                             at most
    ratio     the least time of the best of `against` over ours: above 1 we are ahead            at least
    limit     the share of what the machine can do                                               at least
    call      our least time without a cached call (CALL), over that of the best of `against`      at most
    speedup   our least time with one thread, in the same rounds, over that with these           at least
    threads   the same, over the number of threads; also met by what is at the machine's limit  at least
    special   our least time over that of the same workload with ordinary operands               at most
    bound     our least figure over that of the metric `bound` of the same workload              at most
    run       the same of sums with the metric `results`, which the values lie in, too             at most
Against hand-written C++ that may contract or reassociate stands Telamon with {.contract = true}.
"""
import re
from dataclasses import dataclass

import figures

CALL = "B01.jit_scalar_add"  # a cached jit call that does nothing
HAND = (figures.HAND, *figures.FREE_HAND)
OF_THREADS = ("speedup", "threads")
TORCH = ("torch", figures.TORCH_COMPILE)  # the better of the two
LIBRARIES = ("jax", "numpy", *TORCH, "mlx", "drjit")


@dataclass
class Target:
    what: str
    lines: str  # matches the whole name of a line
    kind: str
    bound: object  # a number, or a function of the number that ends the workload's id
    against: tuple = ()
    words: str = ""  # of the bound, in the report
    needs: tuple = ()  # of `against`, those without whom nothing is said


COMPILE = {10: 5e-3, 100: 15e-3, 1000: 120e-3, 10000: 1500e-3}  # seconds in all
GRADIENT = 3  # times as long, as with JAX: 258 and 87 ms at 100 operations
LIMIT = 0.9  # the share that counts as all of it
LARGE = (r"B01\.eager_sin_1M|"
         r"B02\.(\w+_(256k|1M|32M)|pow_\w+|gelu10|black_scholes|bcast_add|transpose_(4096x4096|100000x30)|transposed_add)|"
         r"B03\..*|B04\.(matmul_(f64_)?(128|256|333|512|1024|2048)|batch_(16x768|small_(16|32|64))|"
         r"(bias_(relu|tanh)|residual)_(256|1024)|gemv_\w+|matvec_\w+|inner_8M|tall_\w+|wide_\w+|"
         r"narrow_i\w+|heads_\w+|matmul_(bf16|i\d+)_\d+)|B05\.mlp_step|B07\..*|"
         r"B08\.logistic_vmap_1024|B09\..*|B10\..*|B11\..*|B12\.(ba_block|arm_jacobian|element_hessian)|B13\..*|B14\.\w*sort\w*|"
         r"B16\.(compile_(1000|10000)|compile_grad_(300|475|1000|10000)|unrolled_192_grad|products_70_grad) steady|"
         r"GMM\..*|KMEANS\..*|SWEEP\..*")
NOT_LARGE = rf"(?!B00|MEM|({LARGE})$).*"  # but for starts of processes and sizes: small, or one thing after the other
SMALL_PRODUCTS = r"B04\.matmul_(f64_)?(4|8|16|32|47|64)"
ROWS = r"B03\.(softmax|layernorm(_vjp)?|logsumexp|lse\w*|cumsum|cummax\w*|argmax)|B02\.transposed_add|SWEEP\..*"

EVERY_LINE = Target("Every line", r".*", "ratio", 1, LIBRARIES, "ahead of the best library")
TARGETS = [
    EVERY_LINE,
    Target("Cached call of a scalar or a small struct", r"B01\.jit_scalar_add|B17\.jit_(struct|leaves_1)", "time",
           150e-9, words="150 ns"),
    Target("Call with 1,000 arguments", r"B01\.jit_sum_args_1000|B17\.jit_leaves_1000", "time", 15e-6, words="15 us"),
    Target("Small functions: Hessian, gradient, 10 operations on 16 elements",
           r"B17\.(hessian_small|grad_small|small_jit_10(_grad)?|jac\w+)", "call", 2, HAND, "2x of hand plus the call"),
    Target("Eager operation on up to 16 elements", r"B01\.eager_(neg|add_16)", "time", 300e-9, words="300 ns"),
    Target("Eager gradient of sin(x) x", r"B01\.eager_grad", "time", 10e-6, words="10 us"),
    Target("Gradient of a chain of 1,000 operations", r"B16\.compile_grad_1000 steady", "limit", 1 / 1.5,
           words="67 % of the limit of its arithmetic"),
    Target("Vector functions",
           r"B02\.(chain10|four|gelu10|black_scholes|sin|pow|exp|log|tanh|erf)\w*|B01\.eager_sin_1M|B11\..*", "ratio",
           1 / 1.1, ("hand fast",), "1.1x of hand fast"),
    Target("Special operands", r"B02\..*_special\w*", "special", 1.1, words="1.1x of ordinary ones"),
    Target("Large elementwise work and reductions", r"B02\.(horner10_f32_32M|bcast_add)|B03\.sum_(all|ax0|ax1)",
           "limit", LIMIT, words="90 % of the bandwidth"),
    Target("Rows: softmax, layernorm, logsumexp, cumsum, cummax, argmax, a + b.T", ROWS, "ratio", 1 / 1.1,
           (*HAND, *TORCH, "numpy"), "1.1x of hand, torch, NumPy"),
    Target("Short trailing axes: N-body, rows and distances", r"B10\..*", "ratio", 1 / 1.3, HAND, "1.3x of hand"),
    Target("Products from 128 x 128", r"B04\.(matmul_(f64_)?(128|256|333|512|1024|2048)|batch_16x768)", "ratio", 0.95,
           HAND, "0.95 of OpenBLAS, oneDNN"),
    Target("Products with vectors, and of tall matrices", r"B04\.(gemv_4096|matvec_4096|inner_8M|tall_\w+|wide_\w+)",
           "ratio", 0.95, HAND, "0.95 of OpenBLAS, oneDNN"),
    Target("Products of integers, floats of 16 bits, complex numbers, and of heads",
           r"B04\.(\w+_(i8|i16|i32|bf16|f16|c64)_\w+|heads_\w+)", "ratio", 0.95, (*HAND, *LIBRARIES),
           "0.95 of the best of OpenBLAS, oneDNN, loops, libraries"),
    Target("Products up to 64 x 64, our call counted", SMALL_PRODUCTS, "ratio", 0.95, (*HAND, *LIBRARIES),
           "0.95 of the best of OpenBLAS, oneDNN, LIBXSMM, libraries"),
    Target("Products up to 64 x 64, a call counted for both", SMALL_PRODUCTS, "call", 1 / 0.95, (*HAND, *LIBRARIES),
           "1.05x of the best of these plus the call"),
    Target("Products and what follows them", r"B04\.(bias_\w+|residual_\d+)", "ratio", 0.95, (*HAND, "jax", *TORCH),
           "0.95 of the best of OpenBLAS, oneDNN and a loop, JAX, torch"),
    Target("Many small products", r"B04\.batch_small_(f64_)?\d+", "ratio", 1, (*HAND, *LIBRARIES), "ahead of all"),
    Target("Networks and second order", r"B05\..*|B07\..*|B12\..*|PEG\..*", "ratio", 1, ("jax", *TORCH),
           "ahead of JAX, torch", needs=("jax", "torch")),
    Target("Mixtures and k-means", r"GMM\..*|KMEANS\..*", "ratio", 1, ("jax", *TORCH), "ahead of JAX, torch",
           needs=("jax", "torch")),
    Target("Gather, scatter, histogram", r"B13\..*", "ratio", 1 / 1.1, HAND, "1.1x of hand"),
    Target("Sorting", r"B14\.(sort|argsort)(_ax\d)?", "ratio", 1 / 1.2, ("numpy",), "1.2x of NumPy"),
    Target("Compiling n operations, in all", r"B16\.compile_(10|100|1000|10000) total", "time", COMPILE.get,
           words="5, 15, 120, 1500 ms"),
    Target("Compiling the gradient of n operations", r"B16\.compile_grad_(10|100|1000|10000) total", "time",
           lambda n: GRADIENT * COMPILE[n], words="15, 45, 360, 4500 ms"),
    Target("Tracing n operations", r"B16\.compile_\d+ trace", "time", lambda n: n * 1e-6, words="n us"),
    Target("Tracing the gradient of n operations", r"B16\.compile_grad_\d+ trace", "time", lambda n: n * 5e-6,
           words="5 n us"),
    Target("Program found in the disk cache", r"B16\.cache_hit_\d+", "time", 1e-3, words="1 ms"),
    Target("First gradient of a process", r"B00\.first_(grad|jit_grad)", "time", 25e-3, words="25 ms"),
    Target("First jitted gradient with the disk cache", r"B00\.second_start", "time", 5e-3, words="5 ms"),
    Target("Size of the statically linked command", r"B00\.static_size", "time", 60, words="60 MB"),
    Target("Memory of intermediate values, by what is alive at once", r"MEM\..* arena", "bound", 1.1,
           words="1.1x of the bound"),
    Target("Memory of these with results and what one library call takes for itself", r"MEM\..* both", "run", 1.1,
           words="1.1x of the bound of the values with results"),
    Target("Several threads on large work", LARGE, "threads", 0.85, words="efficiency 85 %, or 90 % of the limit"),
    Target("Several threads on all other work", NOT_LARGE, "speedup", 0.95,
           words="no slower than one (but for 5 % of noise)"),
]


@dataclass
class Verdict:
    """Of a target and a line; without a figure it is not measured."""

    name: str
    figure: object
    unit: str  # of a time; "" for a ratio
    met: bool
    worse: float  # how many times the bound is missed: above 1
    at_least: bool = False  # the figure is a lower bound: the other was stopped


def best_ratio(line, against):
    """The worst ratio to those that are named, each to the one of ours it is compared with; None without any."""
    pairs = [(other, figures.CONTRACT if other in figures.FREE_HAND else figures.OURS) for other in against]
    ratios = [line.compared(*pair) for pair in pairs]
    return min((r for r in ratios if r is not None), default=None)


def is_of_stopped(target, line, figure):
    """Whether a ratio is that of a contender which was stopped."""
    return target.kind == "ratio" and any(line.stopped(x) and line.compared(x) == figure for x in target.against)


def ratio_of(ours, other):
    return ours / other if ours and other else None


def of_threads(name):
    """Whether a workload is timed with one thread, too, where others have several."""
    return any(t.kind in OF_THREADS and re.fullmatch(t.lines, name) for t in TARGETS)


def figure_of(target, line, by_name):
    """The number that is compared with the bound, or None."""
    if any(line.least(other) is None for other in target.needs):
        return None
    if target.kind in OF_THREADS:
        times = line.ratio(figures.ONE)
        return times and times / (line.threads if target.kind == "threads" else 1)
    if target.kind == "time":
        return line.least(figures.OURS)
    if target.kind == "special":
        ordinary = by_name.get(line.name.partition("_special")[0])
        return ordinary and ratio_of(line.least(figures.OURS), ordinary.least(figures.OURS))
    if target.kind == "limit":
        return line.of_limit()
    if target.kind == "bound":
        beside = by_name.get(f"{line.id} bound")
        return beside and ratio_of(line.least(figures.OURS), beside.least(figures.OURS))
    if target.kind == "run":
        ours, least, results = (x and x.least(figures.OURS) for x in
                                (line, by_name.get(f"{line.id} bound"), by_name.get(f"{line.id} results")))
        return None if None in (ours, least, results) else ratio_of(ours + results, least + results)
    if target.kind == "ratio":
        return best_ratio(line, target.against)
    call, ours = by_name.get(CALL), line.least(figures.OURS)
    hand = line.best(target.against)
    if not (call and call.least(figures.OURS) and ours and hand):
        return None
    return max(ours - call.least(figures.OURS), 0) / hand[0]


def verdict(target, line, by_name):
    bound = target.bound(int(re.search(r"(\d+)\D*$", line.id)[1])) if callable(target.bound) else target.bound
    figure = figure_of(target, line, by_name)
    if figure is None:
        return Verdict(line.name, None, "", False, 0)
    at_most = target.kind in ("time", "call", "bound", "run", "special")
    worse = figure / bound if at_most else bound / figure
    if target.kind == "threads" and line.of_limit():
        worse = min(worse, LIMIT / line.of_limit())
    return Verdict(line.name, figure, line.unit if target.kind == "time" else "", worse <= 1, worse,
                   is_of_stopped(target, line, figure))


def verdicts(lines):
    """[(target, its verdicts, the worst first)], the targets that are missed by most first, then those unmeasured.
    Those of threads only if these lines are of several."""
    several = any(line.threads > 1 for line in lines)
    by_name = {line.name: line for line in lines}
    out = []
    for target in TARGETS:
        if target.kind in OF_THREADS and not several:
            continue
        found = [verdict(target, line, by_name) for line in lines if re.fullmatch(target.lines, line.name)]
        out.append((target, sorted(found, key=lambda v: -v.worse)))

    def rank(pair):
        missed = max((v.worse for v in pair[1] if v.figure is not None and not v.met), default=0)
        measured = any(v.figure is not None for v in pair[1])
        return (0, -missed) if missed else (2, 0) if measured else (1, 0)

    return sorted(out, key=rank)
