"""A function written in JAX."""

import jax.numpy as jnp


def loss(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["w"]) + params["b"] - y) ** 2)


def predict(w, b, x):
    return jnp.tanh(x @ w) + b
