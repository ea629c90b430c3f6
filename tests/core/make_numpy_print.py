"""Writes numpy_print.jsonl: arrays and the text that NumPy's str() gives for them.

One case a line: dtype, shape, the buffer in hexadecimal (or "arange" for 0, 1, 2, ...), text.
Usage: python make_numpy_print.py > numpy_print.jsonl
"""

import json

import numpy as np

rng = np.random.default_rng(20240607)
F = [np.float16, np.float32, np.float64]
I = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 2.5, 1e-4, 9.9e-5, 1e-5, 1e-8, 123456.789, 1e7, 99999999.0, 1e8,
           1e15, 1e16, 1.5e16, 1e22, 1e100, 1e300, 5e-324, 1e-300, 0.1411200080598672, np.nan, np.inf, -np.inf,
           65504.0, 16777216.0, 3.4e38, 1.17e-38, 12345678.9, 0.00012345, 1e-3, 100.0, 3.0000000001]


def emit(x, data=None):
    short = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bool": "bool"}
    name = x.dtype.name
    stem = name.rstrip("0123456789")
    print(json.dumps({"dtype": short[stem] + name[len(stem):], "shape": list(x.shape),
                      "data": data or np.ascontiguousarray(x).tobytes().hex(), "text": str(x)}))


def floats():
    with np.errstate(all="ignore"):
        for t in F:
            for v in SPECIAL:
                emit(np.array(v, t))
                emit(np.array([v], t))
            for n in (2, 3, 5, 12):
                for scale in (1e-6, 1e-3, 1.0, 1e2, 1e4, 1e9):
                    emit((rng.standard_normal(n) * scale).astype(t))
            for _ in range(60):
                n = int(rng.integers(1, 9))
                emit(np.array(rng.choice(SPECIAL, n), t))
                emit(np.round(rng.standard_normal(n) * 10.0 ** rng.integers(-3, 6), int(rng.integers(0, 5))).astype(t))
                emit((10.0 ** rng.uniform(-30 if t != np.float16 else -4, 30 if t != np.float16 else 4, n)).astype(t))
            for shape in [(2, 3), (3, 1), (2, 2, 2), (1, 4, 3), (20,), (40,), (4, 12), (2, 30), (1, 1, 1, 2), (0,), (3, 0), (2, 0, 2)]:
                emit(rng.standard_normal(shape).astype(t))
                emit((rng.standard_normal(shape) * 1e5).astype(t))
            emit(np.arange(8, dtype=t))
            emit(np.zeros((2, 2), t))
            emit(np.ones(100, t))


def complexes():
    with np.errstate(all="ignore"):
        for t in (np.complex64, np.complex128):
            for re in (0.0, -0.0, 1.0, -2.5, 0.1, 1e-7, 1e20, np.nan, np.inf):
                for im in (0.0, -0.0, 1.0, -2.5, 1 / 3, 1e17, np.nan, -np.inf):
                    z = np.zeros((), t)
                    z.real, z.imag = re, im
                    emit(z)
            for shape in [(1,), (3,), (2, 2), (12,)]:
                emit((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(t))
                emit((np.round(rng.standard_normal(shape), 1) + 1j * np.round(rng.standard_normal(shape) * 1e6)).astype(t))


def integers():
    for t in I:
        info = np.iinfo(t)
        emit(np.array(info.min, t))
        emit(np.array(info.max, t))
        emit(np.array([info.min, 0, info.max], t))
        for shape in [(5,), (3, 4), (2, 2, 3), (50,), (0,)]:
            emit(rng.integers(info.min, info.max, shape, dtype=t, endpoint=True))
            emit(rng.integers(0, 9, shape).astype(t))
    for shape in [(), (1,), (2,), (3, 2), (20,)]:
        emit(rng.integers(0, 2, shape).astype(bool))
    emit(np.array([True, True]))
    emit(np.array(False))


def summarised():
    for t in (np.float32, np.float64, np.int32, np.uint8):
        for shape in [(1000,), (1001,), (5000,), (2, 600), (200, 10), (7, 7, 21), (6, 6, 28), (10, 10, 10, 2), (3, 400), (1001, 1)]:
            emit(np.arange(np.prod(shape)).astype(t).reshape(shape), "arange")


floats()
complexes()
integers()
summarised()
