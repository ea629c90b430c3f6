#!/usr/bin/env python3
"""torch in the side-by-side: see harness.py for what this program does.

Eager, or (--compile) each function by torch.compile, whose compilation is over before anything is timed: the notes have
its seconds, and how often it has left its graph for the interpreter.
"""
import harness

if __name__ == "__main__":
    OPTIONS = harness.read_options("--compile")
    harness.limit_threads(OPTIONS.threads)  # before torch is imported
    COMPILE = OPTIONS.compile
else:
    COMPILE = False

import math
import re
import time

import inputs
import numpy as np
import torch
import torch.nn.functional as F
from harness import WORKLOADS, Case, chaotic, process_start, stable_places, workload
from inputs import LORENZ, ids, u, u64, z, z64
from torch._dynamo.utils import counters


def tensors(args):
    return [torch.from_numpy(np.ascontiguousarray(x)) for x in args]


def ready(f, args, note=""):
    """f, or what torch.compile makes of it for these arguments, and the note on it."""
    if not COMPILE:
        return f, note
    counters["graph_break"].clear()
    f, start = torch.compile(f, dynamic=False), time.perf_counter()
    f(*args)
    seconds, breaks = time.perf_counter() - start, sum(counters["graph_break"].values())
    return f, f"compiled in {seconds:.1f} s" + (f", graph breaks: {breaks}" if breaks else "")


def run(f, *args, note="", **more):
    args = tensors(args)
    f, note = ready(f, args, note)
    return Case(lambda: f(*args), note=note, **more)


def leaves(result):
    if isinstance(result, torch.Tensor):
        result = result.detach()
        return [(result.float() if result.dtype == torch.bfloat16 else result).numpy()]
    return [leaf for x in result for leaf in leaves(x)]


# ---- derivatives: by the tape, or, where they are compiled, by transforms, which torch.compile takes as a whole ----
def taped_gradients(f, count, args):
    """The value of f, and its gradients by the first arguments."""
    variables = [x.detach().requires_grad_() for x in args[:count]]
    y = f(*variables, *args[count:])
    return y, torch.autograd.grad(y, variables)


def transformed_gradients(f, count, args):
    return torch.func.grad_and_value(f, tuple(range(count)))(*args)[::-1]


gradients_of = transformed_gradients if COMPILE else taped_gradients


def grad(f, count=1, value=False):
    """The gradients of f by its first arguments, and its value before them where asked."""

    def g(*args):
        y, gradients = gradients_of(f, count, args)
        return (y, *gradients) if value else gradients

    return g


def taped_vjp(f, cotangent, *args):
    variables = [x.detach().requires_grad_() for x in args]
    return torch.autograd.grad(f(*variables), variables, cotangent)


def transformed_vjp(f, cotangent, *args):
    return torch.func.vjp(f, *args)[1](cotangent)


vjp = transformed_vjp if COMPILE else taped_vjp


def taped_hvp(f, primals, directions):
    variables = [x.detach().requires_grad_() for x in primals]
    first = torch.autograd.grad(f(*variables), variables, create_graph=True)
    return torch.autograd.grad(first, variables, directions)


def transformed_hvp(f, primals, directions):
    return torch.func.jvp(torch.func.grad(f, tuple(range(len(primals)))), primals, directions)[1]


hvp = transformed_hvp if COMPILE else taped_hvp


def hessian(f):
    if COMPILE:
        return torch.func.hessian(f)
    return lambda x, *args: torch.autograd.functional.hessian(lambda q: f(q, *args), x, vectorize=True)


# ---- B00, B01 ----
workload("B00.import", "ms")(lambda: process_start("import torch"))
workload("B00.first_grad", "ms")(
    lambda: process_start("import torch\nx = torch.tensor(1.0, requires_grad=True)\n(torch.sin(x) * x).backward()"))
workload("B01.eager_neg", "ns")(lambda: run(torch.neg, np.ones((), np.float32)))
workload("B01.eager_add_16", "ns")(lambda: run(torch.add, u(1, 16), u(2, 16)))
workload("B01.eager_sin_1M")(lambda: run(torch.sin, u(1, 1 << 20)))
workload("B01.eager_grad")(lambda: run(grad(lambda x: torch.sin(x) * x), np.ones((), np.float32)))


# ---- B02, B03, SWEEP ----
def chain10(x):
    y = torch.sin(x * x) + x
    y = torch.tanh(torch.exp(-y) * 0.5) + 1
    return torch.log(y) * x


def four(a, b, c, d):
    return a * b + torch.sin(c) * torch.exp(-d)


def layernorm(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b)


def square():
    return u(1, (1024, 1024))


def fours():
    return [u(i, 1 << 20) for i in range(1, 5)]


for _s, _n in {"1k": 1 << 10, "16k": 1 << 14, "1M": 1 << 20}.items():
    workload(f"B02.chain10_f32_{_s}")(lambda n=_n: run(chain10, u(1, n)))
OF_SPECIALS = {"sin": torch.sin, "pow": lambda v: v**1.7, "exp": torch.exp, "log": torch.log, "tanh": torch.tanh,
               "erf": torch.erf, "erfc": torch.erfc, "log1p": torch.log1p, "logistic": torch.sigmoid}
for _id, _f, _type, _operand in inputs.SPECIALS:
    workload(_id)(lambda f=_f, t=_type, x=_operand: run(OF_SPECIALS[f], inputs.specials(t, x)))
workload("B02.chain10_f64_1M")(lambda: run(chain10, u64(1, 1 << 20)))
workload("B02.chain10_grad_1M")(lambda: run(grad(lambda x: chain10(x).sum()), u(1, 1 << 20)))
workload("B02.four_1M")(lambda: run(four, *fours()))
workload("B02.four_grad_1M")(lambda: run(grad(lambda *t: four(*t).sum(), 4), *fours()))
def blurred(x):
    y = 0.25 * (x[2:] + 2 * x[1:-1] + x[:-2])
    return 0.25 * (y[:, :-2] + 2 * y[:, 1:-1] + y[:, 2:])


workload("B02.blur_rgb")(lambda: run(blurred, u(1, (512, 512, 3))))
workload("B02.upsample")(lambda: run(
    lambda x: 0.5 * x.repeat_interleave(2, 0).repeat_interleave(2, 1), u(1, (512, 512))))
workload("B02.bcast_add")(lambda: run(torch.add, u(1, (1024, 4096)), u(2, (1, 4096))))
workload("B02.transposed_add")(lambda: run(lambda a, b: a + b.T, u(1, (1024, 4096)), u(2, (4096, 1024))))
workload("B03.max_pool")(lambda: run(lambda x: x.reshape(512, 2, 512, 2).amax((1, 3)), u(1, (1024, 1024))))
workload("B03.sum_all")(lambda: run(torch.sum, u(1, (10, 1024, 128))))
workload("B03.sum_ax0")(lambda: run(lambda x: x.sum(0), square()))
workload("B03.sum_ax1")(lambda: run(lambda x: x.sum(1), square()))


def erosion(x):
    return torch.stack([x[i:1022 + i, j:1022 + j] for i in range(3) for j in range(3)]).amin(0)


workload("B03.erosion")(lambda: run(erosion, square()))


def total_variation(x):
    return torch.sqrt((x - torch.roll(x, 1, 1)) ** 2 + (x - torch.roll(x, 1, 0)) ** 2 + 1e-3).sum()


workload("B03.total_variation")(lambda: run(total_variation, square()))
workload("B03.softmax")(lambda: run(lambda x: torch.softmax(x, 2), z(1, (32, 16, 1024))))
workload("B03.logsumexp")(lambda: run(lambda x: torch.logsumexp(x, 1), z(1, (1024, 1024))))
workload("B03.layernorm")(lambda: run(layernorm, z(1, (1000, 4096)), u(2, 4096), u(3, 4096)))
workload("B03.cumsum")(lambda: run(lambda x: torch.cumsum(x, 1), square()))
workload("B03.cummax")(lambda: run(lambda x: torch.cummax(x, 1).values, u(1, (1000, 1000)), note="with places"))
workload("B03.cummax_u8_ax0")(
    lambda: run(lambda x: torch.cummax(x, 0).values, inputs.bytes_of_picture(), note="with places"))
workload("B03.argmax")(lambda: run(lambda x: torch.argmax(x, 1), square()))
workload("B03.lse_f64_1280k")(lambda: run(lambda x: torch.logsumexp(x, 0), u64(31337, 1280000)))
workload("B03.lse_grad_f64_1280k")(lambda: run(grad(lambda x: torch.logsumexp(x, 0)), u64(31337, 1280000)))


workload("B03.layernorm_vjp")(
    lambda: run(lambda x, w, b, g: vjp(layernorm, g, x, w, b), z(1, (1000, 4096)), u(2, 4096), u(3, 4096),
                z(4, (1000, 4096))))


def sweep(name, length, strided):
    x, w, b = inputs.sweep_inputs(length, strided)
    axis = 0 if strided else 1
    if name == "softmax":
        return run(lambda x: torch.softmax(x, axis), x)
    if name == "sum":
        return run(lambda x: x.sum(axis), x)
    if strided:
        return run(lambda x, w, b: layernorm(x.T, w, b).T, x, w, b)
    return run(layernorm, x, w, b)


for _f in ("softmax", "layernorm", "sum"):
    for _n in inputs.SWEEP_LENGTHS:
        workload(f"SWEEP.{_f}_{_n}")(lambda f=_f, n=_n: sweep(f, n, False))
        workload(f"SWEEP.{_f}_{_n}_strided")(lambda f=_f, n=_n: sweep(f, n, True))

# ---- B04 ----
for _n in inputs.SQUARES:
    workload(f"B04.matmul_{_n}")(lambda n=_n: run(torch.matmul, u(1, (n, n)), u(2, (n, n)), flops=2 * n**3))
for _n in inputs.SQUARES_F64:
    workload(f"B04.matmul_f64_{_n}")(lambda n=_n: run(torch.matmul, u64(1, (n, n)), u64(2, (n, n)), flops=2 * n**3))
workload("B04.gemv_4096")(lambda: run(torch.matmul, u(1, (1, 4096)), u(2, (4096, 4096))))
workload("B04.matvec_4096")(lambda: run(torch.matmul, u(1, (4096, 4096)), u(2, 4096)))
workload("B04.inner_8M")(lambda: run(torch.matmul, u(1, 1 << 23), u(2, 1 << 23)))
workload("B04.tall_100000x64", "ms")(
    lambda: run(lambda a, b: a.T @ b, u(1, (100000, 64)), u(2, (100000, 64)), flops=2 * 100000 * 64**2))
workload("B04.tall_100000x10")(
    lambda: run(lambda a, b: a.T @ b, u(1, (100000, 10)), u(2, (100000, 10)), flops=2 * 100000 * 10**2))
workload("B04.wide_3x100000")(
    lambda: run(lambda a, b: a @ b.T, u(1, (3, 100000)), u(2, (3, 100000)), flops=2 * 100000 * 3**2))
workload("B04.layer_8x512")(
    lambda: run(lambda x, w: x @ w.T, u(1, (8, 512)), u(2, (1000, 512)), flops=2 * 8 * 512 * 1000))
workload("B04.narrow_1000x300x3")(
    lambda: run(lambda a, b: a @ b, u(1, (1000, 300)), u(2, (300, 3)), flops=2 * 1000 * 300 * 3))
for _n in inputs.SMALL_SQUARES:
    workload(f"B04.batch_small_{_n}")(
        lambda n=_n: run(torch.matmul, u(1, (1024, n, n)), u(2, (1024, n, n)), flops=2048 * n**3))
workload("B04.batch_small_f64_8")(
    lambda: run(torch.matmul, u64(1, (1024, 8, 8)), u64(2, (1024, 8, 8)), flops=2048 * 8**3))
workload("B04.batch_16x768", "ms")(
    lambda: run(lambda a, b: a @ b.transpose(1, 2), u(1, (16, 768, 768)), u(2, (16, 768, 768)), flops=32 * 768**3))
workload("B04.heads_4x128x8x32")(
    lambda: run(lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b), u(1, inputs.HEADS), u(2, inputs.HEADS),
                flops=2 * 4 * 8 * 128 * 128 * 32))
for _id, _name, _a, _b, _bytes in inputs.PRODUCTS_OF_INTEGERS:
    workload(_id)(lambda n=_name, a=_a, b=_b: run(
        torch._int_mm if n == "i8" else torch.matmul, *inputs.integer_operands(n, a, b)))


def of_type(dtype, a, b):
    a, b = (x.to(dtype) for x in tensors((a, b)))
    f, note = ready(torch.matmul, (a, b))
    return Case(lambda: f(a, b), tolerance=1e-2, note=note)


for _name, _type in {"bf16": torch.bfloat16, "f16": torch.float16}.items():
    workload(f"B04.matvec_{_name}_4096")(lambda t=_type: of_type(t, u(1, (4096, 4096)), u(2, 4096)))
workload("B04.matmul_bf16_512")(lambda: of_type(torch.bfloat16, u(1, (512, 512)), u(2, (512, 512))))
workload("B04.matvec_c64_2048")(lambda: run(torch.matmul, inputs.c64(1, (2048, 2048)), inputs.c64(3, 2048)))
OF_LAYERS = {"bias_relu": lambda x, w, b: torch.relu(torch.addmm(b, x, w)),
             "bias_tanh": lambda x, w, b: torch.tanh(torch.addmm(b, x, w)),
             "residual": lambda x, w, b: torch.addmm(b, x, w) + x}
for _f, _n in inputs.LAYERS:
    workload(f"B04.{_f}_{_n}")(lambda f=_f, n=_n: run(OF_LAYERS[f], *inputs.layer_inputs(n), flops=2 * n**3))


# ---- B05, PEG, B06, B07 ----
def mlp_loss(params, x, y):
    for W, b in zip(params[:-2:2], params[1:-2:2]):
        x = torch.tanh(x @ W + b)
    return -(torch.log_softmax(x @ params[-2] + params[-1], 1) * y).sum(1).mean()


def descend(params, x, y):
    for p, g in zip(params, grad(lambda *q: mlp_loss(q, x, y), len(params))(*params)):
        p.sub_(g, alpha=1e-3)


def mlp_case(sizes, batch):
    layers, x, y = inputs.mlp_inputs(sizes, batch)
    x, y = tensors((x, y))

    def fresh():
        return [t.clone() for layer in layers for t in tensors(layer)]

    step, note = ready(descend, (fresh(), x, y))
    params = fresh()
    step(params, x, y)
    first = [p.numpy().copy() for p in params]
    return Case(lambda: step(params, x, y), outputs=lambda: first, note=note)


workload("B05.mlp_step", "ms")(lambda: mlp_case([784, 1024, 1024, 10], 128))
workload("B05.mlp_digits_step")(lambda: mlp_case(inputs.DIGITS, 64))
workload("B05.mlp_step_100k", "ms")(lambda: mlp_case([32, 64, 10], 100_000))


def logistic_loss(w, x, y):
    z = x @ w
    return (F.softplus(z) - y * z).mean()


workload("B05.logistic_grad")(lambda: run(grad(logistic_loss), *inputs.logistic_inputs()))


@workload("B05.labels_grad")
def _():
    w, x, labels = inputs.labels_inputs()
    return run(grad(lambda w, x, labels: F.cross_entropy(x @ w, labels)), w, x, labels.astype(np.int64).ravel())


@workload("PEG.mlp_digits")
def _():
    layers, x, y = inputs.mlp_inputs(inputs.DIGITS, 64)
    params = [t for layer in layers for t in tensors(layer)]

    def gradient(params, x, y):
        return torch.func.grad(lambda p: mlp_loss(p, x[None], y[None]))(params)

    args = (params, *tensors((x, y)))
    f, note = ready(torch.func.vmap(gradient, (None, 0, 0)), args)
    return Case(lambda: f(*args), note=note)


def cnn_loss(*args):
    p, x, y = args[:8], args[8].permute(0, 3, 1, 2), args[9]
    x = F.conv2d(F.pad(x, (3, 3, 3, 3)), p[0].permute(3, 2, 0, 1), p[1], 2)
    x = F.max_pool2d(F.relu(x), 2, 1)
    x = F.max_pool2d(F.relu(F.conv2d(x, p[2].permute(3, 2, 0, 1), p[3], 2)), 2, 1)
    x = F.relu(x.permute(0, 2, 3, 1).reshape(x.shape[0], -1) @ p[4] + p[5])
    return -(torch.log_softmax(x @ p[6] + p[7], 1) * y).sum(1).mean()


@workload("B06.cnn_step", "ms")
def _():
    def step(*args):
        return [x - 1e-3 * g for x, g in zip(args[:8], grad(cnn_loss, 8)(*args))]

    params, x, y = inputs.cnn_inputs()
    return run(step, *params, x, y)


@workload("B06.conv3x3_fwd", "ms")
def _():
    def f(x, w):
        return F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1)

    return run(f, u(1, (8, 32, 32, 64)), z(2, (3, 3, 64, 64)))


def block(Wqkv, Wo, W1, W2, g1, g2, b, x):
    B, T, d = x.shape
    q, k, v = (layernorm(x, g1, b) @ Wqkv).reshape(B, T, 3, 8, d // 8).permute(2, 0, 3, 1, 4)
    s = (q @ k.transpose(-1, -2)) * (d // 8) ** -0.5
    s = s.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -1e9)
    x = x + (torch.softmax(s, -1) @ v).permute(0, 2, 1, 3).reshape(B, T, d) @ Wo
    return x + F.gelu(layernorm(x, g2, b) @ W1, approximate="tanh") @ W2


def block_case(f):
    params, x = inputs.block_inputs()
    return run(f, *params, x)


workload("B07.block_fwd", "ms")(lambda: block_case(block))
workload("B07.block_fwdbwd", "ms")(lambda: block_case(grad(lambda *a: (block(*a) ** 2).mean(), 8)))


def rope(x, c, s):
    a, b = x[..., :32], x[..., 32:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


workload("B07.rope")(lambda: run(rope, *inputs.rope_inputs()))


def small_net(w1, w2, x, y):
    return ((torch.relu(x @ w1) @ w2 - y).float() ** 2).mean()


@workload("B05.mlp_bf16_grad")
def mlp_bf16():
    given = [x.to(torch.bfloat16) for x in tensors((*inputs.bf16_weights(), *inputs.bf16_examples()))]
    f, note = ready(grad(small_net, 2), given)
    return Case(lambda: f(*given), tolerance=2e-2, note=note)


# ---- B08, B09, B10 ----
def logistic(c: torch.Tensor, n: int):
    for _ in range(n):
        c = 3.7 * c * (1 - c)
    return c


logistic = logistic if COMPILE else torch.jit.script(logistic)


def heated(x):
    for _ in range(50):
        flow = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]
        x = x.clone()
        x[1:-1, 1:-1] += 0.1 * flow
    return x


workload("B08.heat_512")(lambda: run(heated, u(1, (512, 512)), per=50))


@workload("B08.logistic_scan", "ns")
def _():
    half, note = np.full((), 0.5, np.float32), "torch.jit.script, 1e4 trips"
    return chaotic(lambda n: run(lambda c: logistic(c, n), half, per=n, note=note), 10000)




def lstm(main, extra, state, seq):
    h, c = [state[k, 0] for k in range(2)], [state[k, 1] for k in range(2)]
    total = 0
    for t in range(1023):
        x = seq[t] * extra[0]
        for k in range(2):
            W, b = main[k, 0], main[k, 1]
            of_x = torch.sigmoid(x * W[0::2] + b[0::2])
            of_h = h[k] * W[1::2] + b[1::2]
            c[k] = c[k] * of_x[0] + torch.sigmoid(of_h[0]) * torch.tanh(of_h[1])
            h[k] = x = of_x[1] * torch.tanh(c[k])
        y = x * extra[1] + extra[2]
        total = total + (seq[t + 1] * (y - torch.log(2 + torch.exp(y).sum()))).sum()
    return -total / (1023 * 14)


workload("B08.lstm", "ns")(lambda: run(lstm, *inputs.lstm_inputs(), per=1023))
workload("B08.lstm_grad", "ns")(lambda: run(grad(lstm, 2, value=True), *inputs.lstm_inputs(), per=1023))


def rk4(field, y, h):
    k1 = field(y)
    k2 = field(y + h / 2 * k1)
    k3 = field(y + h / 2 * k2)
    k4 = field(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def ode(x):
    y, one = torch.zeros_like(x), x.new_ones(1)
    for _ in range(100):
        y = rk4(lambda y: x * torch.cat([one, y[:-1]]), y, 0.02)
    return y


workload("B08.ode_rk4")(lambda: run(ode, u64(31337, 1000)))
workload("B08.ode_rk4_grad")(lambda: run(grad(lambda x: ode(x)[99]), u64(31337, 1000)))


def recurrent(w, u, h, xs):
    states = []
    for x in xs.unbind(1):
        h = torch.tanh(h @ w.T + x @ u.T)
        states.append(h)
    return torch.stack(states, 1)


workload("B08.vmap_rnn")(lambda: run(recurrent, *inputs.vmap_rnn_inputs(), per=50))


def lorenz(p, y, steps):
    def field(y):
        return torch.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])

    for _ in range(steps):
        y = rk4(field, y, 0.01)
    return y


def lorenz_states(p, y):
    states = []
    for _ in range(100):
        y = lorenz(p, y, 1)
        states.append(y)
    return torch.stack(states).permute(2, 0, 1)


def lorenz_mean(p, y):
    return (lorenz(p, y, 200) ** 2).sum(0).mean()


def lorenz_case(f, steps, **more):
    return run(f, LORENZ, inputs.lorenz_starts().T, per=4096 * steps, note="arrays of shape [3, 4096]", **more)


workload("B09.vmap_ode", "ns")(
    lambda: chaotic(lambda n: lorenz_case(lambda p, y: lorenz(p, y, n).T, n, tolerance=2e-3), 1000, 200))
workload("B09.states_T100", "ns")(lambda: lorenz_case(lorenz_states, 100, tolerance=2e-3))
workload("B09.primal_T200", "ns")(lambda: lorenz_case(lorenz_mean, 200, tolerance=1e-2))
workload("B09.grad_T200", "ns")(lambda: lorenz_case(grad(lorenz_mean), 200, tolerance=1e-2))


def potential(x, m):
    r = x[:, None] - x[None]
    return -0.5 * (m[:, None] * m * torch.rsqrt((r**2).sum(-1) + 1e-4)).sum()


@workload("B10.nbody_energy")
def _():
    x, _, m = inputs.nbody_inputs()
    return run(potential, x, m)


@workload("B10.nbody_force")
def _():
    x, _, m = inputs.nbody_inputs()
    return run(lambda x, m: -grad(potential)(x, m)[0] / m[:, None], x, m)


def strain(x):
    def of(d):
        return 0.5 * ((torch.sqrt((d * d).sum(-1) + 1e-6) - 0.5) ** 2).sum()

    return of(x[1:] - x[:-1]) + of(x[:, 1:] - x[:, :-1])


workload("B10.cloth")(lambda: run(lambda x: -grad(strain)(x)[0], u(1, (256, 256, 3))))


# ---- B12 ----
def logreg(w, X, y):
    return F.softplus(-y * (X @ w)).mean() + 0.5e-3 * w @ w


workload("B12.grad")(lambda: run(grad(logreg), *inputs.logreg_inputs()))
workload("B12.hessian30")(lambda: run(hessian(logreg), *inputs.logreg_inputs()))


@workload("B12.hvp")
def _():
    w, X, y = inputs.logreg_inputs()
    return run(lambda w, v, X, y: hvp(lambda q: logreg(q, X, y), (w,), (v,)), w, z(9, 30), X, y)


@workload("B12.hvp_mlp")
def _():
    def f(x, y, *params):
        return hvp(lambda *q: mlp_loss(q, x, y), params, tuple(torch.ones_like(p) for p in params))

    layers, x, y = inputs.mlp_inputs(inputs.DIGITS, 64)
    return run(f, x, y, *[a for layer in layers for a in layer])


def reprojection(cam, X, w, feat):
    """The error of a point seen by a camera of 11 parameters (bundle adjustment)."""
    r, C, f, uv, k = cam[:3], cam[3:6], cam[6], cam[7:9], cam[9:11]
    angle = torch.sqrt(r @ r)
    axis, D, c = r / angle, X - C, torch.cos(angle)
    Y = D * c + torch.linalg.cross(axis, D) * torch.sin(angle) + axis * (axis @ D) * (1 - c)
    p = Y[:2] / Y[2]
    s = p @ p
    return w * (f * p * (1 + k[0] * s + k[1] * s * s) + uv - feat)


@workload("B12.ba_block", "ns")
def _():
    return run(torch.func.vmap(torch.func.jacrev(reprojection, (0, 1, 2))), *inputs.ba_inputs(), per=31843)


def elastic_energy(x, inverse):
    f = (x[1:] - x[0]).T @ inverse
    volume = torch.log(f[0] @ torch.linalg.cross(f[1], f[2]))
    return 0.5 * (torch.sum(f * f) - 3) - volume + 0.5 * volume**2


@workload("B12.element_hessian", "ns")
def _():
    return run(torch.func.vmap(torch.func.hessian(elastic_energy)), *inputs.elements(), per=4000)


def hand_of(angles):
    turn = torch.eye(4, dtype=torch.float64)
    for angle, (length, twist, offset) in zip(angles.unbind(), inputs.JOINTS):
        c, s, ct, st = torch.cos(angle), torch.sin(angle), np.cos(twist), np.sin(twist)
        none = torch.zeros_like(c)
        rows = [[c, -s * ct, s * st, length * c], [s, c * ct, -c * st, length * s]]
        rows += [[none, none + st, none + ct, none + offset], [none, none, none, none + 1]]
        turn = turn @ torch.stack([torch.stack(row) for row in rows])
    return turn[:3, 3]


@workload("B12.arm_jacobian", "ns")
def _():
    return run(torch.func.vmap(torch.func.jacfwd(hand_of)), inputs.u64(1, (20000, 6)), per=20000)


def tanh3(x, weights):
    for w in weights:
        x = torch.tanh(w @ x)
    return x


workload("B12.jacfwd_mlp64")(lambda: run(torch.func.jacfwd(tanh3), z(1, 64), 0.1 * z(2, (3, 64, 64))))
workload("B12.jacrev_mlp64")(lambda: run(torch.func.jacrev(tanh3), z(1, 64), 0.1 * z(2, (3, 64, 64))))


# ---- B13, B14, B15 ----
workload("B13.gather")(lambda: run(lambda t, i: t[i], u(1, (50000, 64)), ids(2, 16384, 50000).astype(np.int64)))
workload("B13.frames")(lambda: run(lambda x, w: x.unfold(0, 512, 128)[:1950] * w, u(1, 250000), u(2, 512)))
workload("B13.corners")(lambda: run(
    lambda t, i: t[i], u(1, 16384), ids(2, 600000, 16384).reshape(200000, 3).astype(np.int64)))


def sampled(picture, y, x):
    i, j = torch.floor(y).long(), torch.floor(x).long()
    v, u = (y - i)[:, None], (x - j)[:, None]
    above = picture[i, j] * (1 - u) + picture[i, j + 1] * u
    below = picture[i + 1, j] * (1 - u) + picture[i + 1, j + 1] * u
    return above * (1 - v) + below * v


def spline(x, c):
    i = x.long()
    t = x - i
    return ((c[i, 3] * t + c[i, 2]) * t + c[i, 1]) * t + c[i, 0]


workload("B13.sample_rgb")(lambda: run(sampled, *inputs.sample_inputs()))
workload("B13.spline")(lambda: run(spline, *inputs.spline_inputs()))
workload("B13.scatter_add")(
    lambda: run(lambda t, i, g: torch.zeros_like(t).index_add_(0, i, g), u(1, (50000, 64)), ids(2, 16384, 50000),
                u(3, (16384, 64))))


def index_add(size):
    return lambda i, v: torch.zeros(size).index_add_(0, i, v)


workload("B13.deposit", "ns")(lambda: run(index_add(16384), ids(1, 1000000, 16384), u(2, 1000000), per=1e6))
workload("B13.segment_sum", "ns")(lambda: run(index_add(65536), ids(2, 1000000, 65536), u(1, 1000000), per=1e6))
workload("B13.segment_sum_sorted", "ns")(
    lambda: run(index_add(10000), inputs.sorted_ids(2, 1000000, 10000), u(1, 1000000), per=1e6))
workload("B13.segment_rows_3")(
    lambda: run(lambda i, v: torch.zeros(16384, 3).index_add_(0, i, v), ids(2, 200000, 16384), u(1, (200000, 3))))
workload("B13.set_rows_8")(
    lambda: run(lambda i, v: torch.zeros(200000, 8).index_copy_(0, i, v), inputs.scattered(200000).astype(np.int64),
                u(1, (200000, 8))))
workload("B13.deposit_2d", "ns")(
    lambda: run(lambda i, j, v: torch.zeros(256, 256).index_put_((i, j), v, accumulate=True),
                ids(1, 1000000, 256).astype(np.int64), ids(2, 1000000, 256).astype(np.int64), u(3, 1000000), per=1e6))
workload("B13.histogram", "ns")(lambda: run(lambda x: torch.histc(x, 256, 0, 1), u(1, 1000000), per=1e6))
workload("B14.sort", "ms")(lambda: run(lambda x: torch.sort(x)[0], u(1, 1 << 20)))
workload("B14.sort_ax1", "ms")(lambda: run(lambda x: torch.sort(x, 1)[0], square()))
workload("B14.sort_ax0", "ms")(lambda: run(lambda x: torch.sort(x, 0)[0], square()))
UNSTABLE = "equal ones in any order"


@workload("B14.argsort", "ms")
def _():
    x = u(1, 1 << 20)
    case = run(torch.argsort, x, note=UNSTABLE)
    case.outputs = lambda: [stable_places(x, case.call())]
    return case


@workload("B14.topk", "ms")
def _():
    def outputs():
        values, places = case.call()
        return [values, stable_places(x, places)]

    x = u(1, (64, 32768))
    case = run(lambda x: torch.topk(x, 32), x, note=UNSTABLE)
    case.outputs = outputs
    return case


def gp_loss(t, X, y):
    Z = X / torch.exp(t[2:])
    s, n = (Z**2).sum(1), len(y)
    K = torch.exp(2 * t[0]) * torch.exp(-0.5 * (s[:, None] + s - 2 * Z @ Z.T))
    C = torch.linalg.cholesky(K + torch.exp(2 * t[1]) * torch.eye(n, dtype=t.dtype))
    a = torch.linalg.solve_triangular(C, y[:, None], upper=False)[:, 0]
    return 0.5 * a @ a + torch.log(torch.diagonal(C)).sum() + 0.5 * n * np.log(2 * np.pi)


workload("B15.gp_nlml", "ms")(lambda: run(gp_loss, *inputs.gp_inputs(442)))
workload("B15.gp_nlml_grad", "ms")(lambda: run(grad(gp_loss, value=True), *inputs.gp_inputs(442)))
workload("B15.gp_nlml_grad_2048", "ms")(lambda: run(grad(gp_loss, value=True), *inputs.gp_inputs(2048)))
workload("B15.cholesky_512", "ms")(lambda: run(torch.linalg.cholesky, inputs.cholesky_input()))


# ---- GMM, KMEANS, B17 ----
def gmm(alpha, mu, q, l, x):
    (k, d), n, nu = mu.shape, len(x), mu.shape[1] + 1
    columns, rows = torch.triu_indices(d, d, 1)
    Q = torch.diag_embed(torch.exp(q)).index_put((torch.arange(k)[:, None], rows, columns), l)
    distance = (((x - mu[:, None]) @ Q.mT) ** 2).sum(-1)  # [k][n]: an einsum of [n][k] is copied first
    main = torch.logsumexp((alpha + q.sum(1))[:, None] - 0.5 * distance, 0).sum()
    gamma = 0.25 * d * (d - 1) * np.log(np.pi) + sum(math.lgamma(0.5 * (nu - i)) for i in range(d))
    prior = -k * (0.5 * nu * d * np.log(2) + gamma) - 0.5 * (Q**2).sum()
    return -n * (0.5 * d * np.log(2 * np.pi) + torch.logsumexp(alpha, 0)) + main + prior


for _d, _k in ((10, 25), (32, 50), (64, 100)):
    workload(f"GMM.objective_{_d}_{_k}", "ms")(lambda d=_d, k=_k: run(gmm, *inputs.gmm_inputs(d, k)))
    workload(f"GMM.gradient_{_d}_{_k}", "ms")(lambda d=_d, k=_k: run(grad(gmm, 4), *inputs.gmm_inputs(d, k)))


def kmeans_cost(centres, points):
    """With |p - c|^2 = |p|^2 - 2 p c + |c|^2: the differences take a tenfold of time and memory."""
    distance = (points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1)
    return distance.min(1).values.sum()


def kmeans_direction(centres, points):
    def gradient(c):
        return torch.func.grad(kmeans_cost)(c, points)

    first, diagonal = torch.func.jvp(gradient, (centres,), (torch.ones_like(centres),))
    return first / diagonal


for _size, (_k, _d) in inputs.KMEANS_SIZES.items():
    workload("KMEANS.cost" + _size, "ms")(lambda k=_k, d=_d: run(kmeans_cost, *inputs.kmeans_inputs(k, d)))
    workload("KMEANS.dir" + _size, "ms")(lambda k=_k, d=_d: run(kmeans_direction, *inputs.kmeans_inputs(k, d)))


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def lorenz96(x):
    return (torch.roll(x, -1) - torch.roll(x, 2)) * torch.roll(x, 1) - x + 8


EAGER = dict(note="eager")
workload("B17.small_jit_10", "ns")(lambda: run(chain10, u(1, 16), **EAGER))


@workload("B17.small_jit_10_grad", "ns")
def _():
    return run(grad(lambda x: chain10(x).sum(), value=True), u(1, 16), **EAGER)


workload("B17.grad_small", "ns")(lambda: run(grad(rosenbrock), u64(1, 10), **EAGER))
workload("B17.hessian_small", "ns")(lambda: run(hessian(rosenbrock), u64(1, 10), **EAGER))
workload("B17.jacfwd", "ns")(lambda: run(torch.func.jacfwd(lorenz96), z64(1, 40), **EAGER))
workload("B17.jacrev", "ns")(lambda: run(torch.func.jacrev(lorenz96), z64(1, 40), **EAGER))


@workload("B17.eager_grad_100")
def _():
    f = inputs.program(100, torch)
    return run(grad(lambda x: f(x).sum()), u(1, 16))


if __name__ == "__main__":
    torch.set_num_threads(OPTIONS.threads)
    if COMPILE:  # not what is about starting and eager calls
        for _id in [x for x in WORKLOADS if re.match(r"B00|.*\.eager_", x)]:
            del WORKLOADS[_id]
    # What was compiled is forgotten: torch compiles a function for a few shapes only, and then leaves it as it is.
    harness.Server(f"torch {torch.__version__}{', torch.compile' if COMPILE else ''}", leaves,
                   end=torch._dynamo.reset if COMPILE else lambda: None).run(OPTIONS)
