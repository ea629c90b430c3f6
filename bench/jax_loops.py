#!/usr/bin/env python3
"""The loops of loops_bench by JAX, on one thread, and ours beside them.

    python3 bench/jax_loops.py [--only REGEX] [--ours build/release/bench/loops_bench] [--seconds S]

Needs JAX (`pip install jax`). Inputs are those of loops_bench: u(seed, shape) is uniform in [0, 1), z(seed, shape) has
mean 0 and variance 1. Prints nanoseconds per trip, the least of some runs: first JAX, then, with --ours, what loops_bench
gives in the same minute, and their ratio.
"""
import argparse
import os
import re
import subprocess
import sys
import time

import numpy as np

WORKLOADS = {}  # id -> (function that makes (call, trips), whether in 64 bits)


def workload(name, x64=False):
    def register(make):
        WORKLOADS[name] = make, x64
        return make

    return register


def u(seed, shape, dtype=np.float32):
    return np.random.RandomState(seed).random_sample(shape).astype(dtype)


def z(seed, shape, dtype=np.float32):
    return ((np.random.RandomState(seed).random_sample(shape) - 0.5) * 12**0.5).astype(dtype)


def compiled(f, *args):
    """A call of jit(f) that waits for its results."""
    f, args = jax.jit(f), jax.device_put(args)
    return lambda: jax.block_until_ready(f(*args))


# ---- the logistic map ----
def logistic(x, trips):
    return lax.scan(lambda c, _: (3.7 * c * (1 - c), None), x, None, length=trips)[0]


@workload("B08.logistic_scan")
def _():
    return compiled(lambda x: logistic(x, 1_000_000), np.float32(0.5)), 1_000_000


@workload("B08.logistic_fori")
def _():
    def f(x):
        return lax.fori_loop(0, 1_000_000, lambda _, c: 3.7 * c * (1 - c), x)

    return compiled(f, np.float32(0.5)), 1_000_000


@workload("B08.logistic_grad")
def _():
    def last(r):
        return lax.scan(lambda c, _: (r * c * (1 - c), None), jnp.float32(0.5), None, length=100_000)[0]

    return compiled(jax.grad(last), np.float32(1.5)), 100_000


@workload("B08.logistic_vmap_1024")
def _():
    return compiled(jax.vmap(lambda x: logistic(x, 1000)), u(1, 1024)), 1024 * 1000


# ---- recurrent networks ----
def lstm_loss(main, extra, state, seq):
    def step(st, xy):
        x, gold = xy
        h_in, new = x * extra[0], []
        for k in range(2):
            w, b = main[k]
            h, c = st[k]
            f, i = jax.nn.sigmoid(h_in * w[0] + b[0]), jax.nn.sigmoid(h * w[1] + b[1])
            o, g = jax.nn.sigmoid(h_in * w[2] + b[2]), jnp.tanh(h * w[3] + b[3])
            c = c * f + i * g
            h = o * jnp.tanh(c)
            new.append(jnp.stack([h, c]))
            h_in = h
        y = h_in * extra[1] + extra[2]
        return jnp.stack(new), jnp.sum(gold * (y - jnp.log(2 + jnp.sum(jnp.exp(y)))))

    return -jnp.sum(lax.scan(step, state, (seq[:-1], seq[1:]))[1]) / ((seq.shape[0] - 1) * seq.shape[1])


def lstm_inputs():
    f = np.float64
    return u(1, (2, 2, 4, 14), f), u(2, (3, 14), f), u(3, (2, 2, 14), f), (u(4, (1024, 14)) > 0.5).astype(f)


@workload("B08.lstm", x64=True)
def _():
    return compiled(lstm_loss, *lstm_inputs()), 1023


@workload("B08.lstm_grad", x64=True)
def _():
    return compiled(jax.value_and_grad(lstm_loss, (0, 1)), *lstm_inputs()), 1023


@workload("B08.gru")
def _():
    H, batch, steps = 128, 16, 256

    def f(W, U, b, xs):
        def step(h, x):
            a, c = x @ W + b, h @ U
            r = jax.nn.sigmoid(a[:, :H] + c[:, :H])
            zt = jax.nn.sigmoid(a[:, H : 2 * H] + c[:, H : 2 * H])
            n = jnp.tanh(a[:, 2 * H :] + r * c[:, 2 * H :])
            return (1 - zt) * n + zt * h, None

        return lax.scan(step, jnp.zeros((batch, H), jnp.float32), xs)[0]

    weights = 0.1 * z(1, (H, 3 * H)), 0.1 * z(2, (H, 3 * H)), np.zeros(3 * H, np.float32)
    return compiled(f, *weights, z(4, (steps, batch, H))), steps


# ---- differential equations ----
def ode_rk4(x):
    n, h = x.shape[0], 2.0 / 100

    def step(y, _):
        def field(y):
            return x * jnp.concatenate([jnp.ones(1, x.dtype), y[: n - 1]])

        k1 = field(y)
        k2 = field(y + h / 2 * k1)
        k3 = field(y + h / 2 * k2)
        k4 = field(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lax.scan(step, jnp.zeros(n, x.dtype), None, length=100)[0]


@workload("B08.ode_rk4", x64=True)
def _():
    return compiled(ode_rk4, u(31337, 1000, np.float64)), 1


@workload("B08.ode_rk4_grad", x64=True)
def _():
    return compiled(jax.grad(lambda x: ode_rk4(x)[99]), u(31337, 1000, np.float64)), 1


def ring(c):
    """The sum of 32 numbers after 10,000 steps of the Lorenz-96 system, each number a carry of its own."""

    def step(c, _):
        new = [c[i] + 1e-3 * (c[(i + 1) % 32] * (c[(i + 2) % 32] - c[(i + 31) % 32]) - c[i] + 8) for i in range(32)]
        return tuple(new), None

    return sum(lax.scan(step, c, None, length=10_000)[0])


@workload("B08.scan32", x64=True)
def _():
    return compiled(ring, tuple(u(5, 32, np.float64))), 10_000


@workload("B08.scan32_grad", x64=True)
def _():
    return compiled(jax.grad(ring), tuple(u(5, 32, np.float64))), 10_000


PARAMETERS = np.array([10.0, 28.0, 8 / 3], np.float32)


def lorenz(y, p, steps):
    def field(y):
        return jnp.array([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])

    def step(y, _):
        k1 = field(y)
        k2 = field(y + 0.005 * k1)
        k3 = field(y + 0.005 * k2)
        k4 = field(y + 0.01 * k3)
        return y + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lax.scan(step, y, None, length=steps)[0]


def lorenz_mean(p, ys):
    return (jax.vmap(lambda y: lorenz(y, p, 200))(ys) ** 2).sum(1).mean()


def starts():
    return np.float32([1.0, 1.0, 20.0]) + z(1, (4096, 3))


@workload("B09.vmap_ode")
def _():
    return compiled(jax.vmap(lambda y, p: lorenz(y, p, 1000), (0, None)), starts(), PARAMETERS), 4096 * 1000


for _name, _transform in {"primal": lambda f: f, "jacfwd": lambda f: jax.jacfwd(f), "grad": lambda f: jax.grad(f)}.items():

    @workload(f"B09.{_name}_T200")
    def _(transform=_transform):
        return compiled(transform(lorenz_mean), PARAMETERS, starts()), 4096 * 200


# ---- lanes that stop on their own ----
@workload("B17.while_newton", x64=True)
def _():
    def kepler(e, M):
        def step(s):
            x, _ = s
            d = (x - e * jnp.sin(x) - M) / (1 - e * jnp.cos(x))
            return x - d, d

        return lax.while_loop(lambda s: jnp.abs(s[1]) > 1e-10, step, (M, jnp.ones_like(M)))[0]

    return compiled(jax.vmap(kepler), 0.9 * u(1, 4096, np.float64), 6.28 * u(2, 4096, np.float64)), 1


# ---- runs ----
def least(call, seconds):
    """The least time of one call in ns, of the processor: the machine may be busy."""
    call()
    best, end = float("inf"), time.monotonic() + seconds
    while True:
        start = time.process_time_ns()
        call()
        best = min(best, time.process_time_ns() - start)
        if time.monotonic() > end:
            return best


def ours(program, only):
    """What the last table of loops_bench says, by id."""
    text = subprocess.run([program, f"--benchmark_filter={only}.*/ours", "--benchmark_repetitions=3"], capture_output=True, text=True)
    times = {}
    for line in text.stdout.splitlines():
        row = re.match(r"^(B\d\d\.\w+) +([\d.e+-]+) ", line)
        if row:
            times[row[1]] = float(row[2])
    return times


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--only", default="")
    arguments.add_argument("--ours")
    arguments.add_argument("--seconds", type=float, default=2)
    options = arguments.parse_args()
    if os.environ.get("XLA_FLAGS") is None:  # one thread, before JAX is imported
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        cpu = str(min(os.sched_getaffinity(0)))
        os.execvp("taskset", ["taskset", "-c", cpu, sys.executable, *sys.argv])
    global jax, jnp, lax
    import jax
    import jax.numpy as jnp
    from jax import lax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    here = ours(options.ours, options.only) if options.ours else {}
    print(f"{'ns per trip, least':<24} {'JAX ' + jax.__version__:>12} {'ours':>12} {'JAX/ours':>10}")
    for name, (make, x64) in WORKLOADS.items():
        if not re.search(options.only, name):
            continue
        jax.config.update("jax_enable_x64", x64)
        call, trips = make()
        theirs = least(call, options.seconds) / trips
        mine = here.get(name, float("nan"))
        print(f"{name:<24} {theirs:>12.4g} {mine:>12.4g} {theirs / mine:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
