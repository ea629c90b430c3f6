"""Workloads of arrays by JAX: calls, elementwise, reductions, products, networks, gather and scatter, sorting."""
import inputs
import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, workload
from inputs import ids, u, u64, z
from jax import lax
from jax_common import arrays, chain10, compiled, eager, layernorm, mlp_loss

# ---- B01: what a call costs ----
ONE = np.float32(1)
workload("B01.eager_neg", "ns")(lambda: eager(lax.neg, ONE))
workload("B01.eager_add_16", "ns")(lambda: eager(lambda a, b: a + b, u(1, 16), u(2, 16)))
workload("B01.eager_sin_1M")(lambda: eager(jnp.sin, u(1, 1 << 20), bytes=8 << 20))
workload("B01.eager_grad")(lambda: eager(jax.grad(lambda x: jnp.sin(x) * x), ONE, note="grad(sin(x) * x), no jit"))
workload("B01.jit_scalar_add", "ns")(lambda: compiled(lambda x: x + 1, ONE))
workload("B01.jit_matmul_2", "ns")(lambda: compiled(jnp.dot, u(1, (2, 2)), u(2, (2, 2))))
workload("B01.jit_matmul_100")(lambda: compiled(jnp.dot, u(1, (100, 100)), u(2, (100, 100)), flops=2e6))
for _n in (10, 100, 1000):  # a list of scalars, summed from the first on
    workload(f"B01.jit_sum_args_{_n}")(lambda n=_n: compiled(sum, [np.float32(i) for i in range(n)]))


# ---- B02: elementwise ----
def horner10(x):
    y = jnp.full_like(x, 0.1)
    for c in (0.2, -0.3, 0.4, -0.5, 0.6, -0.7, 0.8, -0.9, 1.0, -1.1):
        y = y * x + c
    return y


def four(a, b, c, d):
    return a * b + jnp.sin(c) * jnp.exp(-d)


def normal_cdf(x):
    return 0.5 * (1 + lax.erf(x * 0.7071067811865476))


def black_scholes(S, K, r, s, T):
    d1 = (jnp.log(S / K) + (r + 0.5 * s * s) * T) / (s * jnp.sqrt(T))
    d2 = d1 - s * jnp.sqrt(T)
    return S * normal_cdf(d1) - K * jnp.exp(-r * T) * normal_cdf(d2)


def gelu10(x):
    for _ in range(10):
        x = x * (1 + lax.erf(x * 0.7071067811865476)) * 0.5
    return x


M = 1 << 20
for _s, _n in {"1k": 1 << 10, "16k": 1 << 14, "1M": M}.items():
    workload(f"B02.chain10_f32_{_s}")(lambda n=_n: compiled(chain10, u(1, n), bytes=8 * n))
for _s, _n in {"1k": 1 << 10, "16k": 1 << 14, "256k": 1 << 18, "1M": M, "32M": 1 << 25}.items():
    workload(f"B02.horner10_f32_{_s}")(lambda n=_n: compiled(horner10, u(1, n), bytes=8 * n))
OF_SPECIALS = {"sin": jnp.sin, "pow": lambda v: v**1.7, "exp": jnp.exp, "log": jnp.log, "tanh": jnp.tanh,
               "erf": lax.erf, "erfc": lax.erfc, "log1p": jnp.log1p, "logistic": jax.nn.sigmoid}
FLUSHED = {"B02.log_f32_64k_special_denormal": dict(outputs=list, note="XLA takes denormals for zeros: not compared")}
for _id, _f, _type, _operand in inputs.SPECIALS:
    workload(_id, x64=_type == "f64")(lambda f=_f, t=_type, x=_operand, more=FLUSHED.get(_id, {}): compiled(
        OF_SPECIALS[f], inputs.specials(t, x), **more))
workload("B02.chain10_f64_1M", x64=True)(lambda: compiled(chain10, u64(1, M), bytes=16 * M))
workload("B02.chain10_grad_1M")(lambda: compiled(jax.grad(lambda x: chain10(x).sum()), u(1, M), bytes=8 * M))
workload("B02.gelu10")(lambda: compiled(gelu10, z(1, (1000, 1024)), bytes=8 * 1024000))
def blurred(x):
    y = 0.25 * (x[2:] + 2 * x[1:-1] + x[:-2])
    return 0.25 * (y[:, :-2] + 2 * y[:, 1:-1] + y[:, 2:])


workload("B02.blur_rgb")(lambda: compiled(blurred, u(1, (512, 512, 3)), bytes=24 * 512 * 512))
workload("B02.upsample")(lambda: compiled(
    lambda x: 0.5 * jnp.repeat(jnp.repeat(x, 2, 0), 2, 1), u(1, (512, 512)), bytes=20 * 512 * 512))


def joined(x):
    parts = [x[i * 4096:(i + 1) * 4096] for i in range(24)]
    return jnp.concatenate([p * (i + 1.0) if i % 2 == 0 else p + x[:4096] for i, p in enumerate(parts)])


workload("B02.join_24")(lambda: compiled(joined, u(1, 24 * 4096), bytes=8 * 24 * 4096))
workload("B02.bcast_add")(lambda: compiled(lambda a, b: a + b, u(1, (1024, 4096)), u(2, (1, 4096)), bytes=32 * M))
for _s in ((64, 64), (4096, 4096), (100000, 30)):
    workload("B02.transpose_%dx%d" % _s)(lambda s=_s: compiled(jnp.transpose, u(1, s), bytes=8 * s[0] * s[1]))
workload("B02.transposed_add")(
    lambda: compiled(lambda a, b: a + b.T, u(1, (1024, 4096)), u(2, (4096, 1024)), bytes=48 * M))


@workload("B02.four_1M")
def _():
    return compiled(four, *[u(i, M) for i in range(1, 5)], bytes=20 * M)


@workload("B02.four_grad_1M")
def _():
    gradient = jax.grad(lambda *x: four(*x).sum(), (0, 1, 2, 3))
    return compiled(gradient, *[u(i, M) for i in range(1, 5)], bytes=32 * M)


@workload("B02.black_scholes")
def _():
    greeks = jax.vmap(jax.value_and_grad(black_scholes, (0, 1, 2, 3, 4)))
    args = inputs.black_scholes_inputs()
    return compiled(greeks, *args, bytes=11 * 4 * len(args[0]), note="price and 5 greeks of 256k options")


# ---- B03: reductions ----
def lse_f64(x):
    return x.max() + jnp.log(jnp.sum(jnp.exp(x - x.max())))


def layernorm_inputs():
    return z(1, (1000, 4096)), u(2, 4096), u(3, 4096)


def square():
    return u(1, (1024, 1024))


workload("B03.max_pool")(
    lambda: compiled(lambda x: x.reshape(512, 2, 512, 2).max((1, 3)), u(1, (1024, 1024)), bytes=5 * M))
workload("B03.sum_all")(lambda: compiled(jnp.sum, u(1, (10, 1024, 128)), bytes=4 * 10 * 1024 * 128))
workload("B03.sum_ax0")(lambda: compiled(lambda x: x.sum(0), square(), bytes=4 * M))
workload("B03.sum_ax1")(lambda: compiled(lambda x: x.sum(1), square(), bytes=4 * M))


def erosion(x):
    return jnp.stack([x[i:1022 + i, j:1022 + j] for i in range(3) for j in range(3)]).min(0)


workload("B03.erosion")(lambda: compiled(erosion, square(), bytes=8 * M))


def total_variation(x):
    return jnp.sqrt((x - jnp.roll(x, 1, 1)) ** 2 + (x - jnp.roll(x, 1, 0)) ** 2 + 1e-3).sum()


workload("B03.total_variation")(lambda: compiled(total_variation, square(), bytes=4 * M))
workload("B03.softmax")(lambda: compiled(lambda x: jax.nn.softmax(x, 2), z(1, (32, 16, 1024)), bytes=4 * M))
workload("B03.logsumexp")(lambda: compiled(lambda x: jax.nn.logsumexp(x, 1), z(1, (1024, 1024)), bytes=4 * M))
workload("B03.layernorm")(lambda: compiled(layernorm, *layernorm_inputs(), bytes=8 * 4096000))
workload("B03.cumsum")(lambda: compiled(lambda x: jnp.cumsum(x, 1), square(), bytes=8 * M))
workload("B03.cummax")(lambda: compiled(lambda x: lax.cummax(x, 1), u(1, (1000, 1000)), bytes=8e6))
workload("B03.cummax_u8_ax0")(lambda: compiled(lambda x: lax.cummax(x, 0), inputs.bytes_of_picture(), bytes=2e6))
workload("B03.argmax")(lambda: compiled(lambda x: jnp.argmax(x, 1), square(), bytes=4 * M))
workload("B03.lse_f64_1280k", x64=True)(lambda: compiled(lse_f64, u64(31337, 1280000), bytes=8 * 1280000))
workload("B03.lse_grad_f64_1280k", x64=True)(
    lambda: compiled(jax.grad(lse_f64), u64(31337, 1280000), bytes=16 * 1280000))


@workload("B03.layernorm_vjp")
def _():
    def f(x, w, b, g):
        return jax.vjp(layernorm, x, w, b)[1](g)

    return compiled(f, *layernorm_inputs(), z(4, (1000, 4096)), bytes=12 * 4096000)


# ---- SWEEP: rows of every length, along the last axis and (strided) along the first ----
def sweep_softmax(length, strided):
    x, _, _ = inputs.sweep_inputs(length, strided)
    return compiled(lambda x: jax.nn.softmax(x, 0 if strided else 1), x, bytes=2 * x.nbytes)


def sweep_layernorm(length, strided):
    x, w, b = inputs.sweep_inputs(length, strided)
    if strided:
        w, b = w[:, None], b[:, None]
    return compiled(lambda x, w, b: layernorm(x, w, b, 0 if strided else 1), x, w, b, bytes=2 * x.nbytes)


def sweep_sum(length, strided):
    x, _, _ = inputs.sweep_inputs(length, strided)
    return compiled(lambda x: x.sum(0 if strided else 1), x, bytes=x.nbytes)


for _length in inputs.SWEEP_LENGTHS:
    for _strided in (False, True):
        _tail = f"{_length}_strided" if _strided else f"{_length}"
        workload(f"SWEEP.softmax_{_tail}")(lambda n=_length, s=_strided: sweep_softmax(n, s))
        workload(f"SWEEP.layernorm_{_tail}")(lambda n=_length, s=_strided: sweep_layernorm(n, s))
        workload(f"SWEEP.sum_{_tail}")(lambda n=_length, s=_strided: sweep_sum(n, s))


# ---- B04: products ----
def matmul(n, numbers, **more):
    return compiled(jnp.dot, numbers(1, (n, n)), numbers(2, (n, n)), flops=2 * n**3, **more)


for _n in inputs.SQUARES:
    workload(f"B04.matmul_{_n}")(lambda n=_n: matmul(n, u))
for _n in inputs.SQUARES_F64:
    workload(f"B04.matmul_f64_{_n}", x64=True)(lambda n=_n: matmul(n, u64))
workload("B04.gemv_4096")(lambda: compiled(jnp.dot, u(1, (1, 4096)), u(2, (4096, 4096)), bytes=64 * M))
workload("B04.matvec_4096")(lambda: compiled(jnp.dot, u(1, (4096, 4096)), u(2, 4096), bytes=64 * M))
workload("B04.inner_8M")(lambda: compiled(jnp.dot, u(1, 8 * M), u(2, 8 * M), bytes=64 * M))
workload("B04.tall_100000x64", "ms")(
    lambda: compiled(lambda a, b: a.T @ b, u(1, (100000, 64)), u(2, (100000, 64)), flops=2 * 100000 * 64**2))

workload("B04.tall_100000x10")(
    lambda: compiled(lambda a, b: a.T @ b, u(1, (100000, 10)), u(2, (100000, 10)), flops=2 * 100000 * 10**2))
workload("B04.wide_3x100000")(
    lambda: compiled(lambda a, b: a @ b.T, u(1, (3, 100000)), u(2, (3, 100000)), flops=2 * 100000 * 3**2))
workload("B04.layer_8x512")(
    lambda: compiled(lambda x, w: x @ w.T, u(1, (8, 512)), u(2, (1000, 512)), flops=2 * 8 * 512 * 1000))
workload("B04.narrow_1000x300x3")(
    lambda: compiled(lambda a, b: a @ b, u(1, (1000, 300)), u(2, (300, 3)), flops=2 * 1000 * 300 * 3))


def batch_small(n, numbers):
    return compiled(jnp.matmul, numbers(1, (1024, n, n)), numbers(2, (1024, n, n)), flops=2048 * n**3)


for _n in inputs.SMALL_SQUARES:
    workload(f"B04.batch_small_{_n}")(lambda n=_n: batch_small(n, u))
workload("B04.batch_small_f64_8", x64=True)(lambda: batch_small(8, u64))


@workload("B04.batch_16x768", "ms")
def _():
    shape = 16, 768, 768
    return compiled(lambda a, b: a @ b.swapaxes(1, 2), u(1, shape), u(2, shape), flops=32 * 768**3)


workload("B04.heads_4x128x8x32")(
    lambda: compiled(lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b), u(1, inputs.HEADS), u(2, inputs.HEADS),
                     flops=2 * 4 * 8 * 128 * 128 * 32))


def sums_of_integers(a, b):
    return jnp.matmul(a, b, preferred_element_type=jnp.int32 if a.dtype == jnp.int8 else None)


for _id, _name, _a, _b, _bytes in inputs.PRODUCTS_OF_INTEGERS:
    workload(_id)(lambda n=_name, a=_a, b=_b, m=_bytes: compiled(
        sums_of_integers, *inputs.integer_operands(n, a, b), bytes=m, no_limit="" if m else "type"))


def of_type(dtype, a, b, **more):
    return compiled(jnp.dot, jnp.asarray(a, dtype), jnp.asarray(b, dtype), tolerance=1e-2, **more)


for _name, _type in {"bf16": jnp.bfloat16, "f16": jnp.float16}.items():
    workload(f"B04.matvec_{_name}_4096")(lambda t=_type: of_type(t, u(1, (4096, 4096)), u(2, 4096), bytes=32 * M))
workload("B04.matmul_bf16_512")(
    lambda: of_type(jnp.bfloat16, u(1, (512, 512)), u(2, (512, 512)), no_limit="type"))
workload("B04.matvec_c64_2048")(
    lambda: compiled(jnp.dot, inputs.c64(1, (2048, 2048)), inputs.c64(3, 2048), bytes=32 * M))
OF_LAYERS = {"bias_relu": lambda x, w, b: jax.nn.relu(x @ w + b), "bias_tanh": lambda x, w, b: jnp.tanh(x @ w + b),
             "residual": lambda x, w, b: x @ w + b + x}
for _f, _n in inputs.LAYERS:
    workload(f"B04.{_f}_{_n}")(lambda f=_f, n=_n: compiled(OF_LAYERS[f], *inputs.layer_inputs(n), flops=2 * n**3))


# ---- B05: a network's step; PEG: its gradients example by example ----
def mlp_step(sizes, batch, flops):
    """Donated parameters; the outputs are those after one step: W0, b0, W1, b1, ..."""
    params, x, y = jax.block_until_ready(jax.device_put(inputs.mlp_inputs(sizes, batch)))

    def step(p, x, y):
        return jax.tree.map(lambda a, g: a - 1e-3 * g, p, jax.grad(mlp_loss)(p, x, y))

    step = jax.jit(step, donate_argnums=0)
    first = [np.asarray(a) for a in arrays(step(jax.tree.map(jnp.copy, params), x, y))]

    def call():
        nonlocal params
        params = step(params, x, y)

    return Case(call, outputs=lambda: first, flops=flops, note="SGD step, donated")


workload("B05.mlp_step", "ms")(lambda: mlp_step([784, 1024, 1024, 10], 128, 1.224e9))
workload("B05.mlp_digits_step")(lambda: mlp_step(inputs.DIGITS, 64, 3 * 2 * 64 * (64 * 128 + 128 * 10)))
workload("B05.mlp_step_100k", "ms")(lambda: mlp_step([32, 64, 10], 100_000, 2 * 100_000 * (2 * 32 * 64 + 3 * 64 * 10)))


@workload("B05.logistic_grad")
def _():
    def loss(w, x, y):
        z = x @ w
        return jnp.mean(jnp.logaddexp(0, z) - y * z)

    return compiled(jax.grad(loss), *inputs.logistic_inputs(), bytes=4 * 100_000 * 33)


@workload("B05.labels_grad")
def _():
    def loss(w, x, labels):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x @ w), labels, 1))

    work = {"bytes": 4 * 100_000 * 33, "flops": 4 * 100_000 * 32 * 10}
    return compiled(jax.grad(loss), *inputs.labels_inputs(), **work)


@workload("PEG.mlp_digits")
def _():
    def gradient(p, x, y):
        return jax.grad(mlp_loss)(p, x[None], y[None])

    params, x, y = inputs.mlp_inputs(inputs.DIGITS, 64)
    size = 64 * (64 * 128 + 128 + 128 * 10 + 10)
    return compiled(jax.vmap(gradient, (None, 0, 0)), params, x, y, bytes=4 * size, note="W0, b0, W1, b1 of each of 64")


# ---- B06: convolutions ----
def conv(x, w, stride, padding):
    return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")


def cnn_loss(p, x, y):
    x = pool(jax.nn.relu(conv(x, p[0], 2, "SAME") + p[1]))
    x = pool(jax.nn.relu(conv(x, p[2], 2, "VALID") + p[3]))
    x = jax.nn.relu(x.reshape(x.shape[0], -1) @ p[4] + p[5])
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ p[6] + p[7]) * y, 1))


@workload("B06.cnn_step", "ms")
def _():
    def step(p, x, y):
        return jax.tree.map(lambda a, g: a - 1e-3 * g, p, jax.grad(cnn_loss)(p, x, y))

    return compiled(step, *inputs.cnn_inputs(), flops=136e6)


workload("B06.conv3x3_fwd", "ms")(
    lambda: compiled(lambda x, w: conv(x, w, 1, "SAME"), u(1, (8, 32, 32, 64)), z(2, (3, 3, 64, 64)), flops=604e6))


# ---- B07: a transformer block ----
def block(p, x):
    Wqkv, Wo, W1, W2, g1, g2, b = p
    B, T, d = x.shape
    q, k, v = (layernorm(x, g1, b) @ Wqkv).reshape(B, T, 3, 8, d // 8).transpose(2, 0, 3, 1, 4)
    s = (q @ k.swapaxes(-1, -2)) * (d // 8) ** -0.5
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -1e9)
    x = x + (jax.nn.softmax(s, -1) @ v).transpose(0, 2, 1, 3).reshape(B, T, d) @ Wo
    return x + jax.nn.gelu(layernorm(x, g2, b) @ W1) @ W2


workload("B07.block_fwd", "ms")(lambda: compiled(block, *inputs.block_inputs(), flops=872e6))


@workload("B07.block_fwdbwd", "ms")
def _():
    gradient = jax.grad(lambda p, x: (block(p, x) ** 2).mean(), (0, 1))
    return compiled(gradient, *inputs.block_inputs(), flops=2.6e9, note="gradients of the parameters and of x")


# ---- B13: gather and scatter ----
MILLION = 1000000
workload("B13.gather")(
    lambda: compiled(lambda t, i: t[i], u(1, (50000, 64)), ids(2, 16384, 50000), bytes=8 * 16384 * 64))


def frames(x, window):
    return x[jnp.arange(0, 1950 * 128, 128)[:, None] + jnp.arange(512)] * window


workload("B13.frames")(lambda: compiled(frames, u(1, 250000), u(2, 512), bytes=4 * (250000 + 1950 * 512)))
workload("B13.corners")(
    lambda: compiled(lambda t, i: t[i], u(1, 16384), ids(2, 600000, 16384).reshape(200000, 3), bytes=8 * 600000))


def sampled(picture, y, x):
    i, j = jnp.floor(y).astype(jnp.int32), jnp.floor(x).astype(jnp.int32)
    v, u = (y - i)[:, None], (x - j)[:, None]
    above = picture[i, j] * (1 - u) + picture[i, j + 1] * u
    below = picture[i + 1, j] * (1 - u) + picture[i + 1, j + 1] * u
    return above * (1 - v) + below * v


workload("B13.sample_rgb")(lambda: compiled(sampled, *inputs.sample_inputs(), bytes=4 * (256 * 256 * 3 + 5 * 40000)))


def spline(x, c):
    i = x.astype(jnp.int32)
    t = x - i
    return ((c[i, 3] * t + c[i, 2]) * t + c[i, 1]) * t + c[i, 0]


workload("B13.spline")(lambda: compiled(spline, *inputs.spline_inputs(), bytes=8 * 50000))


@workload("B13.scatter_add")
def _():
    def f(t, i, g):
        return jax.vjp(lambda t: t[i], t)[1](g)[0]

    args = u(1, (50000, 64)), ids(2, 16384, 50000), u(3, (16384, 64))
    return compiled(f, *args, bytes=4 * 50000 * 64 + 12 * 16384 * 64, note="gradient of an embedding")


@workload("B13.deposit", "ns")
def _():
    def f(i, w):
        return jnp.zeros(16384).at[i].add(w)

    return compiled(f, ids(1, MILLION, 16384), u(2, MILLION), per=MILLION, note="an addition")


@workload("B13.segment_sum", "ns")
def _():
    def f(v, i):
        return jax.ops.segment_sum(v, i, 65536)

    return compiled(f, u(1, MILLION), ids(2, MILLION, 65536), per=MILLION, note="an edge")


@workload("B13.segment_sum_sorted", "ns")
def _():
    def f(v, i):
        return jax.ops.segment_sum(v, i, 10000, indices_are_sorted=True)

    return compiled(f, u(1, MILLION), inputs.sorted_ids(2, MILLION, 10000), per=MILLION, note="an edge")


workload("B13.segment_rows_3")(
    lambda: compiled(lambda v, i: jax.ops.segment_sum(v, i, 16384), u(1, (200000, 3)), ids(2, 200000, 16384)))
workload("B13.set_rows_8")(
    lambda: compiled(lambda v, i: jnp.zeros((200000, 8)).at[i].set(v), u(1, (200000, 8)), inputs.scattered(200000)))


@workload("B13.set_columns")
def _():
    def f(a):
        return lax.fori_loop(0, 400, lambda j, m: m.at[:, j].set(a[j]), jnp.zeros_like(a))

    return compiled(f, u(1, (400, 400)), items=400 * 400)


@workload("B13.deposit_2d", "ns")
def _():
    def f(i, j, w):
        return jnp.zeros((256, 256)).at[i, j].add(w)

    return compiled(f, ids(1, MILLION, 256), ids(2, MILLION, 256), u(3, MILLION), per=MILLION, note="an addition")


@workload("B13.histogram", "ns")
def _():
    def f(x):
        return jnp.zeros(256, jnp.int32).at[(x * 256).astype(jnp.int32)].add(1)

    return compiled(f, u(1, MILLION), per=MILLION, note="256 bins, an element")


# ---- B14: sorting ----
workload("B14.sort", "ms")(lambda: compiled(jnp.sort, u(1, M), items=M, note="2^20 f32"))
workload("B14.argsort", "ms")(lambda: compiled(jnp.argsort, u(1, M), items=M))
workload("B14.sort_ax1", "ms")(lambda: compiled(lambda x: jnp.sort(x, 1), square(), items=M))
workload("B14.sort_ax0", "ms")(lambda: compiled(lambda x: jnp.sort(x, 0), square(), items=M))


def medians(x):
    around = [x[i:i + 512, j:j + 512] for i in range(3) for j in range(3)]
    return jnp.sort(jnp.stack(around, -1), -1)[..., 4]


workload("B14.median_3x3", "ms")(lambda: compiled(medians, u(1, (514, 514)), items=512 * 512))
workload("B14.topk", "ms")(lambda: compiled(lambda x: lax.top_k(x, 32), u(1, (64, 32768)), items=64 * 32768))
workload("B14.sort_grad", "ms")(
    lambda: compiled(jax.grad(lambda x, w: (jnp.sort(x) * w).sum()), u(1, M), u(2, M), items=M))
