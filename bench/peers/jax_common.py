"""JAX with what its workloads share: a case of a compiled function."""
import jax
import jax.numpy as jnp
from harness import Case

jax.config.update("jax_cpu_enable_async_dispatch", False)


def arrays(result):
    """The arrays of a result, in order: they must be there by now, since no timed call waits for them."""
    leaves = jax.tree.leaves(result)
    if not all(x.is_ready() for x in leaves if isinstance(x, jax.Array)):
        raise RuntimeError("a call has returned before its results were there")
    return leaves


def eager(f, *args, **more):
    """A case that calls f(*args)."""
    args = jax.block_until_ready(jax.device_put(args))  # a call whose arguments are still on their way would not wait
    return Case(lambda: f(*args), **more)


def compiled(f, *args, **more):
    return eager(jax.jit(f), *args, **more)


# ---- functions that several groups of workloads use ----
def chain10(x):
    """mul sin add neg exp mul tanh add log mul"""
    y = jnp.sin(x * x) + x
    y = jnp.tanh(jnp.exp(-y) * 0.5) + 1
    return jnp.log(y) * x


def layernorm(x, w, b, axis=-1):
    mean, var = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * w + b


def mlp_predict(params, x):
    """Logarithms of the probabilities."""
    for W, b in params[:-1]:
        x = jnp.tanh(x @ W + b)
    W, b = params[-1]
    y = x @ W + b
    return y - jax.nn.logsumexp(y, 1, keepdims=True)


def mlp_loss(params, x, y):
    return -jnp.mean(jnp.sum(mlp_predict(params, x) * y, 1))
