#!/usr/bin/env python3
"""MLX in the side-by-side: see harness.py for what this program does. Functions are compiled unless said otherwise."""
import harness

if __name__ == "__main__":
    OPTIONS = harness.read_options()
    harness.limit_threads(OPTIONS.threads)  # before MLX is imported

import importlib.metadata

import inputs
import mlx.core as mx
import numpy as np
from harness import Case, moments_of_normals, process_start, stable_places, workload
from inputs import LORENZ, ids, u, z


def eager(f, *args, **more):
    args = [mx.array(x) for x in args]
    mx.eval(args)

    def call():
        result = f(*args)
        mx.eval(result)
        return result

    return Case(call, **more)


def compiled(f, *args, **more):
    return eager(mx.compile(f), *args, **more)


def leaves(result):
    if isinstance(result, mx.array):
        return [np.array(result.astype(mx.float32) if result.dtype == mx.bfloat16 else result)]
    return [leaf for x in result for leaf in leaves(x)]


# ---- B00, B01 ----
ONE = np.float32(1)
IMPORT = "import mlx.core as mx\n"
workload("B00.import", "ms")(lambda: process_start(IMPORT))
workload("B00.first_grad", "ms")(
    lambda: process_start(IMPORT + "mx.eval(mx.grad(lambda x: mx.sin(x) * x)(mx.array(1.0)))"))
workload("B00.first_jit", "ms")(
    lambda: process_start(IMPORT + "mx.eval(mx.compile(lambda x: mx.sum(mx.sin(x) * x))(mx.arange(1024.)))"))
workload("B01.eager_neg", "ns")(lambda: eager(mx.negative, ONE))
workload("B01.eager_add_16", "ns")(lambda: eager(mx.add, u(1, 16), u(2, 16)))
workload("B01.eager_sin_1M")(lambda: eager(mx.sin, u(1, 1 << 20)))
workload("B01.eager_grad")(lambda: eager(mx.grad(lambda x: mx.sin(x) * x), ONE))
workload("B01.jit_scalar_add", "ns")(lambda: compiled(lambda x: x + 1, ONE))


# ---- B02, B03, B04 ----
def chain10(x):
    y = mx.sin(x * x) + x
    y = mx.tanh(mx.exp(-y) * 0.5) + 1
    return mx.log(y) * x


def four(a, b, c, d):
    return a * b + mx.sin(c) * mx.exp(-d)


def layernorm(x, w, b):
    return mx.fast.layer_norm(x, w, b, 1e-5)


def square():
    return u(1, (1024, 1024))


def layernorm_inputs():
    return z(1, (1000, 4096)), u(2, 4096), u(3, 4096)


for _s, _n in {"1k": 1 << 10, "16k": 1 << 14, "1M": 1 << 20}.items():
    workload(f"B02.chain10_f32_{_s}")(lambda n=_n: compiled(chain10, u(1, n)))
OF_SPECIALS = {"sin": mx.sin, "pow": lambda v: v**1.7, "exp": mx.exp, "log": mx.log, "tanh": mx.tanh, "erf": mx.erf,
               "log1p": mx.log1p, "logistic": mx.sigmoid}
for _id, _f, _type, _operand in inputs.SPECIALS:
    if _f in OF_SPECIALS and _type == "f32":
        workload(_id)(lambda f=_f, t=_type, x=_operand: compiled(OF_SPECIALS[f], inputs.specials(t, x)))
workload("B02.chain10_grad_1M")(lambda: compiled(mx.grad(lambda x: chain10(x).sum()), u(1, 1 << 20)))
workload("B02.four_1M")(lambda: compiled(four, *[u(i, 1 << 20) for i in range(1, 5)]))


def blurred(x):
    y = 0.25 * (x[2:] + 2 * x[1:-1] + x[:-2])
    return 0.25 * (y[:, :-2] + 2 * y[:, 1:-1] + y[:, 2:])


workload("B02.blur_rgb")(lambda: compiled(blurred, u(1, (512, 512, 3))))
workload("B02.upsample")(lambda: compiled(
    lambda x: 0.5 * mx.repeat(mx.repeat(x, 2, 0), 2, 1), u(1, (512, 512))))
workload("B03.max_pool")(lambda: compiled(lambda x: x.reshape(512, 2, 512, 2).max((1, 3)), u(1, (1024, 1024))))
workload("B03.sum_all")(lambda: compiled(mx.sum, u(1, (10, 1024, 128))))
workload("B03.sum_ax0")(lambda: compiled(lambda x: x.sum(0), square()))
workload("B03.sum_ax1")(lambda: compiled(lambda x: x.sum(1), square()))


def erosion(x):
    return mx.stack([x[i:1022 + i, j:1022 + j] for i in range(3) for j in range(3)]).min(0)


workload("B03.erosion")(lambda: compiled(erosion, square()))


def total_variation(x):
    return mx.sqrt((x - mx.roll(x, 1, 1)) ** 2 + (x - mx.roll(x, 1, 0)) ** 2 + 1e-3).sum()


workload("B03.total_variation")(lambda: compiled(total_variation, square()))
workload("B03.softmax")(lambda: compiled(lambda x: mx.softmax(x, axis=2), z(1, (32, 16, 1024))))
workload("B03.logsumexp")(lambda: compiled(lambda x: mx.logsumexp(x, axis=1), z(1, (1024, 1024))))
workload("B03.layernorm")(lambda: compiled(layernorm, *layernorm_inputs()))
workload("B03.layernorm_vjp")(
    lambda: compiled(lambda x, w, b, g: mx.vjp(layernorm, [x, w, b], [g])[1], *layernorm_inputs(), z(4, (1000, 4096))))
workload("B03.cumsum")(lambda: compiled(lambda x: mx.cumsum(x, axis=1), square()))
workload("B03.cummax")(lambda: compiled(lambda x: mx.cummax(x, axis=1), u(1, (1000, 1000))))
workload("B03.cummax_u8_ax0")(lambda: compiled(lambda x: mx.cummax(x, axis=0), inputs.bytes_of_picture()))
workload("B03.argmax")(lambda: compiled(lambda x: mx.argmax(x, axis=1), square()))
for _n in (64, 256, 333, 512, 1024, 2048):
    workload(f"B04.matmul_{_n}")(lambda n=_n: eager(mx.matmul, u(1, (n, n)), u(2, (n, n)), flops=2 * n**3))
workload("B04.gemv_4096")(lambda: eager(mx.matmul, u(1, (1, 4096)), u(2, (4096, 4096))))
workload("B04.matvec_4096")(lambda: eager(mx.matmul, u(1, (4096, 4096)), u(2, 4096)))
workload("B04.inner_8M")(lambda: eager(mx.inner, u(1, 1 << 23), u(2, 1 << 23)))
workload("B04.tall_100000x64", "ms")(
    lambda: eager(lambda a, b: a.T @ b, u(1, (100000, 64)), u(2, (100000, 64)), flops=2 * 100000 * 64**2))

workload("B04.tall_100000x10")(
    lambda: eager(lambda a, b: a.T @ b, u(1, (100000, 10)), u(2, (100000, 10)), flops=2 * 100000 * 10**2))
workload("B04.wide_3x100000")(
    lambda: eager(lambda a, b: a @ b.T, u(1, (3, 100000)), u(2, (3, 100000)), flops=2 * 100000 * 3**2))
workload("B04.layer_8x512")(
    lambda: eager(lambda x, w: x @ w.T, u(1, (8, 512)), u(2, (1000, 512)), flops=2 * 8 * 512 * 1000))
workload("B04.narrow_1000x300x3")(
    lambda: eager(lambda a, b: a @ b, u(1, (1000, 300)), u(2, (300, 3)), flops=2 * 1000 * 300 * 3))

workload("B04.heads_4x128x8x32")(
    lambda: eager(lambda a, b: mx.einsum("bqhd,bkhd->bhqk", a, b), u(1, inputs.HEADS), u(2, inputs.HEADS),
                  flops=2 * 4 * 8 * 128 * 128 * 32))


def of_type(dtype, a, b):
    return eager(mx.matmul, mx.array(a).astype(dtype), mx.array(b).astype(dtype), tolerance=1e-2)


for _name, _type in {"bf16": mx.bfloat16, "f16": mx.float16}.items():
    workload(f"B04.matvec_{_name}_4096")(lambda t=_type: of_type(t, u(1, (4096, 4096)), u(2, 4096)))
workload("B04.matmul_bf16_512")(lambda: of_type(mx.bfloat16, u(1, (512, 512)), u(2, (512, 512))))
workload("B04.matvec_c64_2048")(lambda: eager(mx.matmul, inputs.c64(1, (2048, 2048)), inputs.c64(3, 2048)))


# ---- B05 ----
def rope(x, c, s):
    a, b = x[..., :32], x[..., 32:]
    return mx.concatenate([a * c - b * s, b * c + a * s], -1)


workload("B07.rope")(lambda: compiled(rope, *inputs.rope_inputs()))


def small_net(w1, w2, x, y):
    return ((mx.maximum(x @ w1, 0) @ w2 - y).astype(mx.float32) ** 2).mean()


workload("B05.mlp_bf16_grad")(lambda: compiled(
    mx.grad(small_net, (0, 1)),
    *(mx.array(x).astype(mx.bfloat16) for x in (*inputs.bf16_weights(), *inputs.bf16_examples())), tolerance=2e-2))


def mlp_loss(params, x, y):
    for W, b in zip(params[:-2:2], params[1:-2:2]):
        x = mx.tanh(x @ W + b)
    o = x @ params[-2] + params[-1]
    return -((o - mx.logsumexp(o, axis=1, keepdims=True)) * y).sum(1).mean()


def mlp_case(sizes, batch):
    layers, x, y = inputs.mlp_inputs(sizes, batch)
    params = [mx.array(a) for layer in layers for a in layer]
    x, y = mx.array(x), mx.array(y)
    step = mx.compile(lambda p, x, y: [a - 1e-3 * g for a, g in zip(p, mx.grad(mlp_loss)(p, x, y))])
    first = [np.array(a) for a in step(params, x, y)]

    def call():
        nonlocal params
        params = step(params, x, y)
        mx.eval(params)

    return Case(call, outputs=lambda: first)


workload("B05.mlp_step", "ms")(lambda: mlp_case([784, 1024, 1024, 10], 128))
workload("B05.mlp_digits_step")(lambda: mlp_case(inputs.DIGITS, 64))
workload("B05.mlp_step_100k", "ms")(lambda: mlp_case([32, 64, 10], 100_000))


@workload("B05.labels_grad")
def _():
    def loss(w, x, labels):
        y = x @ w
        return (mx.logsumexp(y, axis=1, keepdims=True) - mx.take_along_axis(y, labels, axis=1)).mean()

    return compiled(mx.grad(loss), *inputs.labels_inputs())


# ---- B09, B10, B11, B12 ----
def lorenz_step(p, y):
    def field(y):
        return mx.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])

    k1 = field(y)
    k2 = field(y + 0.005 * k1)
    k3 = field(y + 0.005 * k2)
    k4 = field(y + 0.01 * k3)
    return y + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@workload("B09.vmap_ode", "ns")
def _():
    p, start = mx.array(LORENZ), mx.array(np.ascontiguousarray(inputs.lorenz_starts().T))
    step = mx.compile(lorenz_step)

    def steps(n):
        y = start
        for _ in range(n):
            y = step(p, y)
        mx.eval(y)
        return y

    return Case(lambda: steps(50), outputs=lambda: [np.array(steps(200)).T], per=4096 * 50,
                note="no loops in MLX: 50 calls of a compiled step")


def potential(x, m):
    r = x[:, None] - x[None]
    return -0.5 * (m[:, None] * m * mx.rsqrt((r**2).sum(-1) + 1e-4)).sum()


@workload("B10.nbody_energy")
def _():
    x, _, m = inputs.nbody_inputs()
    return compiled(potential, x, m)


@workload("B10.nbody_force")
def _():
    x, _, m = inputs.nbody_inputs()
    return compiled(lambda x, m: -mx.grad(potential)(x, m) / m[:, None], x, m)


def strain(x):
    def of(d):
        return 0.5 * ((mx.sqrt((d * d).sum(-1) + 1e-6) - 0.5) ** 2).sum()

    return of(x[1:] - x[:-1]) + of(x[:, 1:] - x[:, :-1])


workload("B10.cloth")(lambda: compiled(lambda x: -mx.grad(strain)(x), u(1, (256, 256, 3))))


@workload("B11.normals", "ns")
def _():
    key, note = np.array([0, 0], np.uint32), "threefry of another order, moments checked"
    case = compiled(lambda k: mx.random.normal((65536, 64), key=k), key, per=65536 * 64, tolerance=-1, note=note)
    case.outputs = lambda: [moments_of_normals(case.call())]
    return case


def logreg(w, X, y):
    return mx.logaddexp(mx.array(0.0), -y * (X @ w)).mean() + 0.5e-3 * (w * w).sum()


workload("B12.grad")(lambda: compiled(mx.grad(logreg), *inputs.logreg_inputs()))


@workload("B12.hvp")
def _():
    def hvp(w, v, X, y):
        return mx.jvp(lambda q: mx.grad(logreg)(q, X, y), [w], [v])[1]

    w, X, y = inputs.logreg_inputs()
    return compiled(hvp, w, z(9, 30), X, y)


# ---- B13, B14, B17 ----
workload("B13.gather")(lambda: compiled(lambda t, i: t[i], u(1, (50000, 64)), ids(2, 16384, 50000)))
workload("B13.frames")(lambda: compiled(
    lambda x, w: x[mx.arange(0, 1950 * 128, 128)[:, None] + mx.arange(512)] * w, u(1, 250000), u(2, 512)))
workload("B13.corners")(
    lambda: compiled(lambda t, i: t[i], u(1, 16384), ids(2, 600000, 16384).reshape(200000, 3)))


def sampled(picture, y, x):
    i, j = mx.floor(y).astype(mx.int32), mx.floor(x).astype(mx.int32)
    v, u = (y - i)[:, None], (x - j)[:, None]
    above = picture[i, j] * (1 - u) + picture[i, j + 1] * u
    below = picture[i + 1, j] * (1 - u) + picture[i + 1, j + 1] * u
    return above * (1 - v) + below * v


def spline(x, c):
    i = x.astype(mx.int32)
    t = x - i
    return ((c[i, 3] * t + c[i, 2]) * t + c[i, 1]) * t + c[i, 0]


workload("B13.sample_rgb")(lambda: compiled(sampled, *inputs.sample_inputs()))
workload("B13.spline")(lambda: compiled(spline, *inputs.spline_inputs()))
workload("B13.scatter_add")(
    lambda: compiled(lambda t, i, g: mx.zeros_like(t).at[i].add(g), u(1, (50000, 64)), ids(2, 16384, 50000),
                     u(3, (16384, 64))))
workload("B13.deposit", "ns")(
    lambda: compiled(lambda i, v: mx.zeros(16384).at[i].add(v), ids(1, 1000000, 16384), u(2, 1000000), per=1e6))
workload("B13.segment_sum_sorted", "ns")(
    lambda: compiled(lambda i, v: mx.zeros(10000).at[i].add(v), inputs.sorted_ids(2, 1000000, 10000), u(1, 1000000),
                     per=1e6))
workload("B13.segment_rows_3")(
    lambda: compiled(lambda i, v: mx.zeros((16384, 3)).at[i].add(v), ids(2, 200000, 16384), u(1, (200000, 3))))
workload("B13.deposit_2d", "ns")(
    lambda: compiled(lambda i, j, v: mx.zeros((256, 256)).at[i, j].add(v), ids(1, 1000000, 256), ids(2, 1000000, 256),
                     u(3, 1000000), per=1e6))
workload("B14.sort", "ms")(lambda: compiled(mx.sort, u(1, 1 << 20)))
workload("B14.sort_ax1", "ms")(lambda: compiled(lambda x: mx.sort(x, axis=1), square()))


@workload("B14.argsort", "ms")
def _():
    x = u(1, 1 << 20)
    case = compiled(mx.argsort, x, note="equal ones in any order")
    case.outputs = lambda: [stable_places(x, case.call())]
    return case


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


workload("B17.small_jit_10", "ns")(lambda: compiled(chain10, u(1, 16)))
workload("B17.small_jit_10_grad", "ns")(lambda: compiled(mx.value_and_grad(lambda x: chain10(x).sum()), u(1, 16)))
workload("B17.grad_small", "ns")(lambda: compiled(mx.grad(rosenbrock), u(1, 10), note="f32"))

if __name__ == "__main__":
    harness.Server(f"mlx {importlib.metadata.version('mlx')}", leaves).run(OPTIONS)
