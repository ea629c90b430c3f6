"""Start and compile latency of JAX: B00 and B16, measured in processes of their own.

As a program (jax_compile.py NAME N): compiles one such program again and again and prints JSON; see compile_here, and
find_here for the NAME cache_hit.
"""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time

import inputs
import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, process_start, time_call, workload
from inputs import u, z

# ---- B00: from the start of the process ----
IMPORT = "import jax, jax.numpy as jnp\n"
SYNC = IMPORT + "jax.config.update('jax_cpu_enable_async_dispatch', False)\n"
JIT_GRAD = SYNC + "jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(x)*x)))(jnp.arange(1024.)).block_until_ready()"
STARTS = {
    "B00.python": "",
    "B00.import": IMPORT,
    "B00.first_op": SYNC + "jnp.negative(1.0).block_until_ready()",
    "B00.first_grad": SYNC + "jax.grad(lambda x: jnp.sin(x)*x)(1.0).block_until_ready()",
    "B00.first_jit": SYNC + "jax.jit(lambda x: jnp.sum(jnp.sin(x)*x))(jnp.arange(1024.)).block_until_ready()",
    "B00.first_jit_grad": JIT_GRAD,
}
for _name, _code in STARTS.items():
    workload(_name, "ms")(lambda code=_code: process_start(code))


@workload("B00.second_start", "ms")
def _():
    """first_jit_grad with a warm cache on disk."""
    folder = tempfile.TemporaryDirectory()
    env = dict(os.environ, JAX_COMPILATION_CACHE_DIR=folder.name, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
               JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1")
    case = process_start(JIT_GRAD, env)
    measure = case.measure
    case.measure = lambda seconds: (measure(seconds), f"{len(os.listdir(folder.name))} files in the cache")
    return case


@workload("B00.size", "MB")
def _():
    files = [f for name in ("jax", "jaxlib") for f in importlib.metadata.files(name)]
    size = sum(f.locate().stat().st_size for f in files if f.locate().exists()) / 1e6
    return Case(measure=lambda seconds: {"time": [size]}, outputs=list, note="jax and jaxlib, installed")


# ---- B16: programs of many operations ----
PATIENCE = min(90, float(os.environ.get("TELAMON_BENCH_PATIENCE", 90)))  # seconds that one program may take
TRACING = 5e-3  # seconds of tracing one new program after the other, two at least, before it is compiled


def straight(n):
    """(f, arguments): n operations on 1024 elements in a straight line."""
    return inputs.program(n, jnp), (u(1, 1024),)


def unrolled(n):
    """A loop of n trips, unrolled by hand."""

    def f(x, a, b):
        for _ in range(n):
            x = jnp.sin(x) * a + x * b
        return x

    return f, (u(1, 1024), np.float32(0.9), np.float32(0.1))


def products(n, size):
    def f(x, a):
        y = x
        for _ in range(n):
            y = jnp.tanh(y @ a + x)
        return y

    return f, (u(1, (size, size)), 0.05 * z(2, (size, size)))


def row_means(n):
    def f(x):
        for _ in range(n):
            x = x - 0.5 * x.mean(1, keepdims=True)
        return x

    return f, (u(1, (100, 100)),)


def rolls(n):
    def f(x):
        for _ in range(n):
            x = (jnp.roll(x, 1) + x) * 0.5
        return x

    return f, (u(1, 1024),)


def turns(n):
    """x, of 32 x 64, turned n times."""

    def f(x):
        for _ in range(n):
            x = jnp.sin(x.reshape(64, 32).T)
        return x

    return f, (u(1, (32, 64)),)


def joints(n):
    """Of each row of x the product of as many rotations about an axis: arms of n joints."""

    def arm(angles):
        m = jnp.eye(3)
        for i in range(n):
            c, s = jnp.cos(angles[i]), jnp.sin(angles[i])
            m = m @ jnp.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        return m

    return jax.vmap(arm), (u(1, (50, n)),)


def carries(n):
    """A loop that carries the n rows of x, each an array of its own."""

    def f(x):
        return jnp.stack(jax.lax.fori_loop(0, 10, lambda i, rows: [jnp.sin(r) * 0.5 for r in rows], list(x)))

    return f, (u(1, (n, 8)),)


PROGRAMS = {
    "carries": carries,
    "joints": joints,
    "products": lambda n: products(n, 8),
    "products_grad": lambda n: with_gradient(products(n, 100)),
    "row_means": row_means,
    "rolls": rolls,
    "straight": straight,
    "turns_grad": lambda n: with_gradient(turns(n)),
    "unrolled": unrolled,
    "straight_grad": lambda n: with_gradient(straight(n)),
    "unrolled_grad": lambda n: with_gradient(unrolled(n)),
}


def with_gradient(program):
    """The gradient of the sum of the results by the first argument."""
    f, args = program
    return jax.grad(lambda *a: f(*a).sum()), args


def compile_here(name, n):
    """Seconds of each phase, a new function each time: the phases known so far are printed as they come, as JSON."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.jit(lambda x: jnp.sin(x) * x + 1)(u(1, 1024)).block_until_ready()  # the backend starts
    times = {}

    def add(phase, seconds):
        times.setdefault(phase, []).append(seconds)
        print(json.dumps(times), flush=True)

    for _ in range(4 if n <= 100 else 1):
        first, traces = time.perf_counter(), 0
        while traces < 2 or time.perf_counter() - first < TRACING:
            traces += 1
            f, args = PROGRAMS[name](n)
            args = jax.device_put(args)
            start = time.perf_counter()
            jax.jit(f).trace(*args)
            add("trace", time.perf_counter() - start)
        f, args = PROGRAMS[name](n)
        args = jax.device_put(args)
        start = time.perf_counter()
        traced = jax.jit(f).trace(*args)
        middle = time.perf_counter()
        add("trace", middle - start)
        executable = traced.lower().compile()
        end = time.perf_counter()
        add("compile", end - middle)
        executable(*args).block_until_ready()
        add("first_run", time.perf_counter() - end)
        add("total", time.perf_counter() - start)
        jax.clear_caches()
    for x in time_call(lambda: executable(*args), 0.2):
        times.setdefault("steady", []).append(x)
    print(json.dumps(times), flush=True)


def find_here(n):
    """As compile_here, for a program that a cache on disk has: compiling it once more, and all from its definition."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    times = {"time": [], "total": []}
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        for attempt in range(6 if n <= 1000 else 3):
            f, args = straight(n)
            args = jax.device_put(args)
            start = time.perf_counter()
            traced = jax.jit(f).trace(*args)
            middle = time.perf_counter()
            executable = traced.lower().compile()
            end = time.perf_counter()
            executable(*args).block_until_ready()
            if attempt > 0:  # the first one fills it
                times["time"].append(end - middle)
                times["total"].append(time.perf_counter() - start)
            jax.clear_caches()
    print(json.dumps(times), flush=True)


def compile_apart(name, n):
    """({phase: samples}, note)"""
    child = [sys.executable, os.path.abspath(__file__), name, str(n)]
    try:
        run = subprocess.run(child, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired as e:
        lines = (e.stdout or b"").decode().splitlines()
        times = json.loads(lines[-1]) if lines else {}
        # Where no total is known: figures.py takes it for a lower bound by this note.
        return {"total": [PATIENCE]} | times, f"not finished after {PATIENCE:g} s, stopped"
    if run.returncode:
        raise RuntimeError(run.stderr[-300:])
    return json.loads(run.stdout.splitlines()[-1]), ""


def compile_case(name, n):
    f, args = PROGRAMS[name](n)  # evaluated, for the results: compiled gradients of long programs do not end
    return Case(measure=lambda seconds: compile_apart(name, n), outputs=lambda: [f(*args)],
                note="trace, compile, first run; a new function")


for _n in (10, 100, 1000, 10000):
    workload(f"B16.compile_{_n}", "ms")(lambda n=_n: compile_case("straight", n))
for _n in (10, 100, 300, 475, 1000, 10000):  # XLA computes shared values again and again: past 450 the run explodes
    workload(f"B16.compile_grad_{_n}", "ms")(lambda n=_n: compile_case("straight_grad", n))
for _n in (100, 1000, 10000):
    workload(f"B16.cache_hit_{_n}", "ms")(
        lambda n=_n: Case(measure=lambda seconds: compile_apart("cache_hit", n),
                          outputs=lambda: [straight(n)[0](u(1, 1024))], note="found on disk by a new function"))
workload("B16.unrolled_192", "ms")(lambda: compile_case("unrolled", 192))
workload("B16.unrolled_192_grad", "ms")(lambda: compile_case("unrolled_grad", 192))
workload("B16.products_330", "ms")(lambda: compile_case("products", 330))  # many kernels
workload("B16.products_70_grad", "ms")(lambda: compile_case("products_grad", 70))
workload("B16.row_means_200", "ms")(lambda: compile_case("row_means", 200))
workload("B16.carries_1000", "ms")(lambda: compile_case("carries", 1000))
workload("B16.rolls_250", "ms")(lambda: compile_case("rolls", 250))
workload("B16.turns_100_grad", "ms")(lambda: compile_case("turns_grad", 100))
workload("B16.joints_100", "ms")(lambda: compile_case("joints", 100))

if __name__ == "__main__":
    if sys.argv[1] == "cache_hit":
        find_here(int(sys.argv[2]))
    else:
        compile_here(sys.argv[1], int(sys.argv[2]))
