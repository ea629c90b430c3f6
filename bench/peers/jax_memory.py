"""MEM by JAX: the temporary memory of the compiled programs, which holds what is neither an argument nor a result.

What a call of a library (YNNPACK) takes for itself is not in it, so a figure is the least that JAX needs. The programs
MEM.products have no figure: each branch is one such call, with both of its products.
"""
import inputs
import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, workload
from inputs import u
from jax_arrays import block
from jax_common import mlp_loss
from jax_models import gmm


def memory_of(f, *args):
    memory = jax.jit(f).lower(*args).compile().memory_analysis()
    return Case(measure=lambda seconds: {"arena": [memory.temp_size_in_bytes / 1e6]}, outputs=list, no_limit="size",
                note="temporary memory of XLA's plan, without that of library calls")


# ---- networks and mixtures ----
@workload("MEM.mlp_step", "MB")
def _():
    def step(p, x, y):
        return jax.tree.map(lambda a, g: a - 1e-3 * g, p, jax.grad(mlp_loss)(p, x, y))

    return memory_of(step, *inputs.mlp_inputs([784, 1024, 1024, 10], 128))


@workload("MEM.block_fwdbwd", "MB")
def _():
    return memory_of(jax.grad(lambda p, x: (block(p, x) ** 2).mean(), (0, 1)), *inputs.block_inputs())


for _d, _k in ((10, 25), (32, 50), (64, 100)):
    workload(f"MEM.gmm_gradient_{_d}_{_k}", "MB", x64=True)(
        lambda d=_d, k=_k: memory_of(jax.grad(gmm, (0, 1, 2, 3)), *inputs.gmm_inputs(d, k)))


# ---- programs of many branches, each of which can be done with before the next ----
def branches(n, branch):
    """The sum of what each branch makes of a product of its own."""

    def f(a):
        products = [(a * float(i)) @ a for i in range(1, n + 1)]
        return sum(branch(x) for x in products)

    return memory_of(f, np.float32(0.01) * u(1, (1024, 1024)))


BRANCHES = {"running_sums": lambda x: jnp.cumsum(x, 1).sum(), "sorted": lambda x: (jnp.sort(x, 1) ** 2).sum()}
for _name, _branch in BRANCHES.items():
    for _n in (6, 24):
        workload(f"MEM.{_name}_{_n}", "MB")(lambda n=_n, branch=_branch: branches(n, branch))


def random_products(x):
    """Products of all widths, each of something made before and used again at the end: blocks of many sizes."""
    widths = 64, 192, 400, 800, 1024, 1600, 2560
    random = np.random.RandomState(1)  # its 32 bits are those of std::mt19937(1)

    def below(n):
        return int(random.randint(0, 1 << 32, dtype=np.uint32)) % n

    made = [x]
    for _ in range(40):
        a, b = made[below(len(made))], made[below(len(made))]
        made.append(a @ (jnp.full((a.shape[1], widths[below(7)]), 0.01, jnp.float32) + b.sum() * 1e-6))
    return x.sum() + sum((a**2).sum() for a in made)


workload("MEM.many_sizes", "MB")(lambda: memory_of(random_products, u(1, (512, 256))))
workload("MEM.many_sizes_gradient", "MB")(lambda: memory_of(jax.grad(random_products), u(1, (512, 256))))
