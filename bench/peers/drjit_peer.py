#!/usr/bin/env python3
"""Dr.Jit in the side-by-side: see harness.py for what this program does.

Needs LLVM: DRJIT_LIBLLVM_PATH=libLLVM.so. Calls are frozen (dr.freeze) unless said otherwise.
"""
import harness

if __name__ == "__main__":
    OPTIONS = harness.read_options()
    harness.limit_threads(OPTIONS.threads)  # before Dr.Jit is imported

import random
import time

import drjit as dr
import inputs
import numpy as np
from drjit.llvm.ad import PCG32, Array3f, Float, Float64, UInt
from harness import Case, chaotic, moments_of_normals, process_start, workload
from inputs import LORENZ, ids, u, u64

M = 1 << 20


def run(f, *args, freeze=True, **more):
    dr.eval(*args)
    f = dr.freeze(f) if freeze else f

    def call():
        result = f(*args)
        dr.eval(result)
        dr.sync_thread()
        return result

    return Case(call, **more)


def leaves(result):
    return [np.array(x) for x in result] if isinstance(result, (tuple, list)) else [np.array(result)]


# ---- B00, B01, B02, B03 ----
IMPORT = "import drjit as dr\nfrom drjit.llvm.ad import Float\n"
FIRST_GRAD = """
x = Float(1.0)
dr.enable_grad(x)
dr.backward(dr.sin(x) * x)
g = dr.grad(x)
dr.eval(g)
dr.sync_thread()"""
workload("B00.import", "ms")(lambda: process_start(IMPORT))
workload("B00.first_grad", "ms")(lambda: process_start(IMPORT + FIRST_GRAD))


def chain10(x):
    y = dr.sin(x * x) + x
    y = dr.tanh(dr.exp(-y) * 0.5) + 1
    return dr.log(y) * x


def chain10_grad(x):
    x = Float(x)
    dr.enable_grad(x)
    dr.backward(dr.sum(chain10(x)))
    return dr.detach(dr.grad(x))


def four(a, b, c, d):
    return a * b + dr.sin(c) * dr.exp(-d)


workload("B01.jit_scalar_add", "ns")(lambda: run(lambda x: x + 1, dr.opaque(Float, 1.0)))
workload("B01.eager_sin_1M")(lambda: run(dr.sin, Float(u(1, M)), freeze=False))
for _s, _n in {"1k": 1 << 10, "16k": 1 << 14, "1M": M}.items():
    workload(f"B02.chain10_f32_{_s}")(lambda n=_n: run(chain10, Float(u(1, n))))
OF_SPECIALS = {  # only functions of Python are frozen
    "sin": lambda v: dr.sin(v), "pow": lambda v: v**1.7, "exp": lambda v: dr.exp(v), "log": lambda v: dr.log(v),
    "tanh": lambda v: dr.tanh(v), "erf": lambda v: dr.erf(v)}
for _id, _f, _type, _operand in inputs.SPECIALS:
    if _f in OF_SPECIALS:
        workload(_id)(lambda f=_f, t=_type, x=_operand: run(
            OF_SPECIALS[f], {"f32": Float, "f64": Float64}[t](inputs.specials(t, x))))
workload("B02.chain10_f64_1M")(lambda: run(chain10, Float64(u64(1, M))))
workload("B02.chain10_grad_1M")(lambda: run(chain10_grad, Float(u(1, M)), freeze=False, note="not frozen"))
workload("B02.four_1M")(lambda: run(four, *[Float(u(i, M)) for i in range(1, 5)]))
workload("B03.sum_all")(lambda: run(lambda x: dr.sum(x), Float(u(1, 10 * 1024 * 128))))
workload("B03.cummax")(lambda: run(
    lambda x: dr.block_prefix_reduce(dr.ReduceOp.Max, x, 1000, exclusive=False), Float(u(1, 1000000))))
workload("B17.small_jit_10", "ns")(lambda: run(chain10, Float(u(1, 16))))


# ---- B08, B09 ----
def repeat(trips, step, *state):
    return dr.while_loop((UInt(0), *state), lambda i, *_: i < trips, lambda i, *s: (i + 1, *step(*s)))[1:]


def logistic(c, trips):
    return repeat(trips, lambda c: (3.7 * c * (1 - c),), c)[0]


def logistic_case(x, trips):
    return chaotic(lambda n: run(lambda c: logistic(c, n), Float(x), per=len(x) * n), trips)


workload("B08.logistic_scan", "ns")(lambda: logistic_case(np.float32([0.5]), 1000000))
workload("B08.logistic_vmap_1024", "ns")(lambda: logistic_case(u(1, 1024), 1000))


def lorenz(steps, x, y, z, s, r, b):
    def field(q):
        return Array3f(s * (q.y - q.x), q.x * (r - q.z) - q.y, q.x * q.y - b * q.z)

    def step(q):
        k1 = field(q)
        k2 = field(q + 0.005 * k1)
        k3 = field(q + 0.005 * k2)
        k4 = field(q + 0.01 * k3)
        return (q + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4),)

    (q,) = repeat(steps, step, Array3f(x, y, z))
    return q.x, q.y, q.z


@workload("B09.vmap_ode", "ns")
def _():
    start = [Float(np.ascontiguousarray(column)) for column in inputs.lorenz_starts().T]

    def make(steps):
        parameters = [dr.opaque(Float, float(p)) for p in LORENZ]
        case = run(lambda *args: lorenz(steps, *args), *start, *parameters, per=4096 * steps)
        case.outputs = lambda: [np.stack(leaves(case.call()), 1)]
        return case

    return chaotic(make, 1000, 200)


# ---- B11, B13 ----
@workload("B11.normals", "ns")
def _():
    def normals(key):
        return dr.sqrt(2.0) * dr.erfinv(1.99999 * PCG32(65536 * 64, key).next_float32() - 0.999995)

    note = "PCG32, not threefry, moments checked"
    case = run(normals, dr.opaque(UInt, 1), per=65536 * 64, tolerance=-1, note=note)
    case.outputs = lambda: [moments_of_normals(case.call())]
    return case


@workload("B13.gather")
def _():
    indices = (ids(2, 16384, 50000)[:, None] * 64 + np.arange(64)).astype(np.uint32).ravel()
    return run(lambda t, i: dr.gather(Float, t, i), Float(u(1, 50000 * 64)), UInt(indices), note="an index an element")


@workload("B13.sample_rgb")
def _():
    def sampled(picture, y, x):
        i, j = UInt(dr.floor(y)), UInt(dr.floor(x))
        v, u = y - Float(i), x - Float(j)

        def colour(i, j):
            return dr.gather(Array3f, picture, i * 256 + j)

        above = colour(i, j) * (1 - u) + colour(i, j + 1) * u
        below = colour(i + 1, j) * (1 - u) + colour(i + 1, j + 1) * u
        return dr.ravel(above * (1 - v) + below * v)

    picture, y, x = inputs.sample_inputs()
    return run(sampled, Float(picture.ravel()), Float(y), Float(x))


@workload("B13.spline")
def _():
    def spline(x, c):
        i = UInt(x)
        t = x - Float(i)
        a, b, d, e = (dr.gather(Float, c, 4 * i + k) for k in (3, 2, 1, 0))
        return ((a * t + b) * t + d) * t + e

    x, c = inputs.spline_inputs()
    return run(spline, Float(x), Float(c.ravel()))


@workload("B13.deposit", "ns")
def _():
    def deposit(i, v):
        out = dr.zeros(Float, 16384)
        dr.scatter_add(out, v, i)
        return out

    return run(deposit, UInt(ids(1, 1000000, 16384).astype(np.uint32)), Float(u(2, 1000000)), per=1e6)


# ---- B17, B16 ----
@workload("B17.while_newton")
def _():
    def kepler(e, M):
        def step(x, _):
            d = (x - e * dr.sin(x) - M) / (1 - e * dr.cos(x))
            return x - d, d

        return dr.while_loop((Float64(M), dr.full(Float64, 1, 4096)), lambda x, d: dr.abs(d) > 1e-10, step)[0]

    return run(kepler, *[Float64(x) for x in inputs.kepler_inputs()])


def compile_case(n):
    x = Float(u(1, 1024))
    dr.eval(x)
    f = inputs.program(n, dr)

    def measure(seconds):
        times = []
        for _ in range(5 if n <= 100 else 2):
            salt = random.random()  # a new literal: a new kernel
            start = time.perf_counter()
            dr.eval(f(x * salt))
            dr.sync_thread()
            times.append(time.perf_counter() - start)
        return {"total": times}

    return Case(lambda: f(x), measure=measure)


for _n in (10, 100, 1000):
    workload(f"B16.compile_{_n}", "ms")(lambda n=_n: compile_case(n))

if __name__ == "__main__":
    dr.set_thread_count(OPTIONS.threads if OPTIONS.threads > 1 else 0)  # 0: no pool, the caller computes
    harness.Server(f"drjit {dr.__version__}", leaves).run(OPTIONS)
