#!/usr/bin/env python3
"""NumPy in the side-by-side, where a workload is natural for it: see harness.py for what this program does."""
import harness

if __name__ == "__main__":
    OPTIONS = harness.read_options()
    harness.limit_threads(OPTIONS.threads)  # before NumPy is imported

import inputs
import numpy as np
from harness import Case, process_start, stable_places, workload
from inputs import ids, u, u64, z


def run(f, *args, **more):
    return Case(lambda: f(*args), **more)


def leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def chain10(x):
    y = np.sin(x * x) + x
    y = np.tanh(np.exp(-y) * 0.5) + 1
    return np.log(y) * x


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layernorm(x, w, b, axis=-1):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + np.float32(1e-5)) * w + b


def square():
    return u(1, (1024, 1024))


workload("B00.import", "ms")(lambda: process_start("import numpy"))
workload("B01.eager_neg", "ns")(lambda: run(np.negative, np.float32(1)))
workload("B01.eager_add_16", "ns")(lambda: run(np.add, u(1, 16), u(2, 16)))
workload("B01.eager_sin_1M")(lambda: run(np.sin, u(1, 1 << 20)))
for _s, _n in {"1k": 1 << 10, "16k": 1 << 14, "1M": 1 << 20}.items():
    workload(f"B02.chain10_f32_{_s}")(lambda n=_n: run(chain10, u(1, n)))
OF_SPECIALS = {"sin": np.sin, "pow": lambda v: v**1.7, "exp": np.exp, "log": np.log, "log1p": np.log1p,
               "tanh": np.tanh}
for _id, _f, _type, _operand in inputs.SPECIALS:
    if _f in OF_SPECIALS:
        workload(_id)(lambda f=_f, t=_type, x=_operand: run(OF_SPECIALS[f], inputs.specials(t, x)))
workload("B02.chain10_f64_1M")(lambda: run(chain10, u64(1, 1 << 20)))
workload("B02.four_1M")(
    lambda: run(lambda a, b, c, d: a * b + np.sin(c) * np.exp(-d), *[u(i, 1 << 20) for i in range(1, 5)]))
def blurred(x):
    y = 0.25 * (x[2:] + 2 * x[1:-1] + x[:-2])
    return 0.25 * (y[:, :-2] + 2 * y[:, 1:-1] + y[:, 2:])


workload("B02.blur_rgb")(lambda: run(blurred, u(1, (512, 512, 3))))


def heated(x):
    x = x.copy()
    for _ in range(50):
        flow = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]
        x[1:-1, 1:-1] += np.float32(0.1) * flow
    return x


workload("B08.heat_512")(lambda: run(heated, u(1, (512, 512)), per=50))


def rope(x, c, s):
    a, b = x[..., :32], x[..., 32:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


workload("B07.rope")(lambda: run(rope, *inputs.rope_inputs()))
workload("B02.upsample")(lambda: run(lambda x: np.float32(0.5) * x.repeat(2, 0).repeat(2, 1), u(1, (512, 512))))
workload("B02.bcast_add")(lambda: run(np.add, u(1, (1024, 4096)), u(2, (1, 4096))))
for _s in ((64, 64), (4096, 4096), (100000, 30)):
    workload("B02.transpose_%dx%d" % _s)(lambda s=_s: run(lambda x: np.ascontiguousarray(x.T), u(1, s)))
workload("B02.transposed_add")(lambda: run(lambda a, b: a + b.T, u(1, (1024, 4096)), u(2, (4096, 1024))))
workload("B03.max_pool")(lambda: run(lambda x: x.reshape(512, 2, 512, 2).max((1, 3)), u(1, (1024, 1024))))
workload("B03.sum_all")(lambda: run(np.sum, u(1, (10, 1024, 128))))
workload("B03.sum_ax0")(lambda: run(lambda x: x.sum(0), square()))
workload("B03.sum_ax1")(lambda: run(lambda x: x.sum(1), square()))


def erosion(x):
    return np.stack([x[i:1022 + i, j:1022 + j] for i in range(3) for j in range(3)]).min(0)


workload("B03.erosion")(lambda: run(erosion, square()))


def total_variation(x):
    return np.sqrt((x - np.roll(x, 1, 1)) ** 2 + (x - np.roll(x, 1, 0)) ** 2 + 1e-3).sum()


workload("B03.total_variation")(lambda: run(total_variation, square()))
workload("B03.cumsum")(lambda: run(lambda x: x.cumsum(1), square()))
workload("B03.cummax")(lambda: run(lambda x: np.maximum.accumulate(x, 1), u(1, (1000, 1000))))
workload("B03.cummax_u8_ax0")(lambda: run(lambda x: np.maximum.accumulate(x, 0), inputs.bytes_of_picture()))
workload("B03.argmax")(lambda: run(lambda x: x.argmax(1), square()))
workload("B03.softmax")(lambda: run(softmax, z(1, (32, 16, 1024))))
workload("B03.layernorm")(lambda: run(layernorm, z(1, (1000, 4096)), u(2, 4096), u(3, 4096)))


def sweep(name, length, strided):
    x, w, b = inputs.sweep_inputs(length, strided)
    axis = 0 if strided else 1
    if name == "softmax":
        return run(softmax, x, axis)
    if name == "sum":
        return run(np.sum, x, axis)
    return run(layernorm, x, w[:, None] if strided else w, b[:, None] if strided else b, axis)


for _f in ("softmax", "layernorm", "sum"):
    for _n in inputs.SWEEP_LENGTHS:
        workload(f"SWEEP.{_f}_{_n}")(lambda f=_f, n=_n: sweep(f, n, False))
        workload(f"SWEEP.{_f}_{_n}_strided")(lambda f=_f, n=_n: sweep(f, n, True))

for _n in inputs.SQUARES:
    workload(f"B04.matmul_{_n}")(lambda n=_n: run(np.dot, u(1, (n, n)), u(2, (n, n)), flops=2 * n**3))
for _n in inputs.SQUARES_F64:
    workload(f"B04.matmul_f64_{_n}")(lambda n=_n: run(np.dot, u64(1, (n, n)), u64(2, (n, n)), flops=2 * n**3))
workload("B04.gemv_4096")(lambda: run(np.dot, u(1, (1, 4096)), u(2, (4096, 4096))))
workload("B04.matvec_4096")(lambda: run(np.dot, u(1, (4096, 4096)), u(2, 4096)))
workload("B04.inner_8M")(lambda: run(np.dot, u(1, 1 << 23), u(2, 1 << 23)))
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
        lambda n=_n: run(np.matmul, u(1, (1024, n, n)), u(2, (1024, n, n)), flops=2048 * n**3))
workload("B04.batch_small_f64_8")(
    lambda: run(np.matmul, u64(1, (1024, 8, 8)), u64(2, (1024, 8, 8)), flops=2048 * 8**3))
workload("B04.batch_16x768", "ms")(
    lambda: run(lambda a, b: a @ b.swapaxes(1, 2), u(1, (16, 768, 768)), u(2, (16, 768, 768)), flops=32 * 768**3))
workload("B04.heads_4x128x8x32")(
    lambda: run(lambda a, b: a.transpose(0, 2, 1, 3) @ b.transpose(0, 2, 3, 1), u(1, inputs.HEADS), u(2, inputs.HEADS),
                flops=2 * 4 * 8 * 128 * 128 * 32))
for _id, _name, _a, _b, _bytes in inputs.PRODUCTS_OF_INTEGERS:
    workload(_id)(lambda n=_name, a=_a, b=_b: run(
        lambda x, y: np.matmul(x, y, dtype=np.int32 if x.dtype == np.int8 else None), *inputs.integer_operands(n, a, b)))
workload("B04.matvec_f16_4096")(
    lambda: run(np.dot, u(1, (4096, 4096), np.float16), u(2, 4096, np.float16), tolerance=1e-2))
workload("B04.matvec_c64_2048")(lambda: run(np.dot, inputs.c64(1, (2048, 2048)), inputs.c64(3, 2048)))
workload("B13.gather")(lambda: run(lambda t, i: t[i], u(1, (50000, 64)), ids(2, 16384, 50000)))
workload("B13.frames")(lambda: run(
    lambda x, w: x[np.arange(0, 1950 * 128, 128)[:, None] + np.arange(512)] * w, u(1, 250000), u(2, 512)))
workload("B13.corners")(lambda: run(lambda t, i: t[i], u(1, 16384), ids(2, 600000, 16384).reshape(200000, 3)))


def sampled(picture, y, x):
    i, j = np.floor(y).astype(np.int32), np.floor(x).astype(np.int32)
    v, u = (y - i.astype(np.float32))[:, None], (x - j.astype(np.float32))[:, None]
    above = picture[i, j] * (1 - u) + picture[i, j + 1] * u
    below = picture[i + 1, j] * (1 - u) + picture[i + 1, j + 1] * u
    return above * (1 - v) + below * v


def spline(x, c):
    i = x.astype(np.int32)
    t = x - i.astype(np.float32)
    return ((c[i, 3] * t + c[i, 2]) * t + c[i, 1]) * t + c[i, 0]


workload("B13.sample_rgb")(lambda: run(sampled, *inputs.sample_inputs()))
workload("B13.spline")(lambda: run(spline, *inputs.spline_inputs()))
workload("B13.deposit", "ns")(
    lambda: run(lambda i, v: np.bincount(i, v, 16384), ids(1, 1000000, 16384), u(2, 1000000), per=1e6,
                note="bincount, sums in f64"))
workload("B13.segment_sum", "ns")(
    lambda: run(lambda v, i: np.bincount(i, v, 65536), u(1, 1000000), ids(2, 1000000, 65536), per=1e6,
                note="bincount, sums in f64"))
workload("B13.segment_sum_sorted", "ns")(
    lambda: run(lambda v, i: np.bincount(i, v, 10000), u(1, 1000000), inputs.sorted_ids(2, 1000000, 10000), per=1e6,
                note="bincount, sums in f64"))


def set_rows(v, i):
    out = np.zeros((200000, 8), np.float32)
    out[i] = v
    return out


workload("B13.set_rows_8")(lambda: run(set_rows, u(1, (200000, 8)), inputs.scattered(200000)))
workload("B13.deposit_2d", "ns")(
    lambda: run(lambda i, j, v: np.bincount(i * 256 + j, v, 65536).reshape(256, 256), ids(1, 1000000, 256),
                ids(2, 1000000, 256), u(3, 1000000), per=1e6, note="bincount, sums in f64"))
workload("B13.histogram", "ns")(
    lambda: run(lambda x: np.bincount((x * 256).astype(np.int32), minlength=256), u(1, 1000000), per=1e6))
workload("B14.sort", "ms")(lambda: run(np.sort, u(1, 1 << 20)))


@workload("B14.argsort", "ms")
def _():
    x = u(1, 1 << 20)
    case = run(np.argsort, x, note="equal ones in any order")
    case.outputs = lambda: [stable_places(x, case.call())]
    return case


workload("B14.sort_ax1", "ms")(lambda: run(lambda x: np.sort(x, 1), square()))
workload("B14.sort_ax0", "ms")(lambda: run(lambda x: np.sort(x, 0), square()))
workload("B14.median_3x3", "ms")(lambda: run(
    lambda x: np.sort(np.lib.stride_tricks.sliding_window_view(x, (3, 3)).reshape(512, 512, 9), -1)[..., 4],
    u(1, (514, 514))))
workload("B15.cholesky_512", "ms")(lambda: run(np.linalg.cholesky, inputs.cholesky_input()))
workload("B17.small_jit_10", "ns")(lambda: run(chain10, u(1, 16)))

if __name__ == "__main__":
    harness.Server(f"numpy {np.__version__}", leaves).run(OPTIONS)
