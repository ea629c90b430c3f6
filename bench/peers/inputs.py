"""Inputs of the workloads, the same bytes for every contender.

u(seed, shape) is uniform in [0, 1): RandomState(seed).random_sample, which in C++ is
    std::mt19937 g(seed);  ((g() >> 5) * 67108864.0 + (g() >> 6)) / 9007199254740992.0
z scales it to mean 0 and variance 1 (uniform, not normal). Numbers are made in float64, then converted.
"""
import numpy as np


def u(seed, shape, dtype=np.float32):
    return np.random.RandomState(seed).random_sample(shape).astype(dtype)


def z(seed, shape, dtype=np.float32):
    return ((np.random.RandomState(seed).random_sample(shape) - 0.5) * 12**0.5).astype(dtype)


def u64(seed, shape):
    return u(seed, shape, np.float64)


def z64(seed, shape):
    return z(seed, shape, np.float64)


def ids(seed, n, k):
    """n indices below k."""
    return (u64(seed, n) * k).astype(np.int32)


def sample_inputs():
    """A picture with three colours, and where it is sampled."""
    return u(1, (256, 256, 3)), np.float32(250) * u(2, 40000), np.float32(250) * u(3, 40000)


def spline_inputs():
    """Where pieces of polynomials are evaluated, and their coefficients."""
    return np.float32(99) * u(1, 50000), u(2, (100, 4))


def whole(seed, shape, dtype):
    """Whole numbers from -128 to 127."""
    return ((u64(seed, shape) * 256).astype(np.int32) - 128).astype(dtype)


def bytes_of_picture():
    return (whole(1, (1000, 1000), np.int32) + 128).astype(np.uint8)


def c64(seed, shape):
    """Complex numbers, the imaginary parts of the next seed."""
    return (u(seed, shape) + 1j * u(seed + 1, shape)).astype(np.complex64)


def sorted_ids(seed, n, k):
    return np.sort(ids(seed, n, k))


def scattered(n):
    """The numbers below n in an order in which neighbours lie apart; n is no multiple of 7919."""
    return (np.arange(n, dtype=np.int64) * 7919 % n).astype(np.int32)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def ones(*shape):
    return np.ones(shape, np.float32)


# ---- special operands: (id, function (pow: a power of 1.7), type, the operand that one in sixteen is, if any) ----
_OPERANDS = {
    ("sin", "f32"): {"": 1e30}, ("sin", "f64"): {"": 1e30}, ("pow", "f32"): {"": 0}, ("pow", "f64"): {"": 0},
    ("exp", "f32"): {"_inf": -np.inf, "_denormal": -100, "_small": 1e-12}, ("log", "f32"): {"_zero": 0, "_denormal": 1e-40},
    ("log1p", "f32"): {"_small": 1e-12}, ("logistic", "f32"): {"_inf": -np.inf, "_denormal": -95, "_small": 1e-12},
    ("tanh", "f32"): {"_inf": np.inf, "_large": 1e30, "_small": 1e-12},
    ("erf", "f32"): {"_inf": np.inf, "_large": 1e30, "_small": 1e-6},
    ("erfc", "f32"): {"_inf": np.inf, "_denormal": 9.5},
}
SPECIALS = []
for (_f, _type), _operands in _OPERANDS.items():
    _id = f"B02.{_f}_{_type}_64k"
    SPECIALS += [(_id, _f, _type, None), *((f"{_id}_special{x}", _f, _type, _operands[x]) for x in _operands)]


def specials(dtype, operand):
    x = 4 * u(1, 1 << 16, {"f32": np.float32, "f64": np.float64}[dtype])
    if operand is not None:
        x[::16] = operand
    return x


# ---- products: sizes of squares, and of those that come by the thousand ----
SQUARES = (4, 8, 16, 32, 47, 64, 128, 256, 333, 512, 1024, 2048)
SQUARES_F64 = (16, 32, 64, 128, 256, 512, 1024)
SMALL_SQUARES = (8, 16, 32, 64)


# Of integers: shapes of both operands, and the bytes that one call reads at least, by size of an element.
INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32}
_PRODUCTS = {"matmul_%s_256": ((256, 256), (256, 256), 0), "narrow_%s_1000x1000x8": ((1000, 1000), (1000, 8), 10**6),
             "gemv_%s_4096": ((1, 4096), (4096, 4096), 1 << 24)}
PRODUCTS_OF_INTEGERS = [("B04." + _id % _name, _name, _a, _b, _read * _type().itemsize)
                        for _name, _type in INTEGERS.items() for _id, (_a, _b, _read) in _PRODUCTS.items()]


def integer_operands(name, a, b):
    return whole(1, a, INTEGERS[name]), whole(2, b, INTEGERS[name])


def rope_inputs():
    """Heads of 64 numbers, and the cosines and sines of 512 places."""
    return u(1, (4, 512, 8, 64)), u(2, (512, 1, 32)), u(3, (512, 1, 32))


def bf16_weights():
    return 0.05 * z(1, (512, 1024)), 0.05 * z(2, (1024, 256))


def bf16_examples():
    return z(3, (128, 512)), z(4, (128, 256))


HEADS = (4, 128, 8, 32)


def layer_inputs(n):
    """x, w, b"""
    return z(1, (n, n)), 0.05 * z(2, (n, n)), z(3, n)


LAYERS = [("bias_relu", 32), ("bias_relu", 256), ("bias_relu", 1024), ("bias_tanh", 256), ("residual", 256)]

# ---- networks ----
DIGITS = [64, 128, 10]


def mlp_params(sizes):
    """[(W, b), ...]"""
    return [(0.05 * z(10 + i, (m, n)), zeros(n)) for i, (m, n) in enumerate(zip(sizes, sizes[1:]))]


def one_hot(seed, n, k):
    return np.eye(k, dtype=np.float32)[(u(seed, n) * k).astype(int)]


def mlp_inputs(sizes, batch):
    return mlp_params(sizes), u(1, (batch, sizes[0])), one_hot(2, batch, sizes[-1])


def logistic_inputs():
    """Weights, examples, and how likely each is."""
    return z(1, (32,)), z(2, (100_000, 32)), u(3, (100_000,))


def labels_inputs():
    """Weights, examples, and the label of each."""
    return z(1, (32, 10)), z(2, (100_000, 32)), ids(3, 100_000, 10).reshape(-1, 1)


def cnn_inputs():
    """Eight parameters, images NHWC, labels."""
    kernels = 0.1 * z(1, (8, 8, 1, 16)), 0.1 * z(2, (4, 4, 16, 32))
    dense = 0.05 * z(3, (512, 32)), 0.1 * z(4, (32, 10))
    params = [kernels[0], zeros(16), kernels[1], zeros(32), dense[0], zeros(32), dense[1], zeros(10)]
    return params, u(8, (64, 28, 28, 1)), one_hot(9, 64, 10)


def block_inputs():
    """Wqkv, Wo, W1, W2, g1, g2, b of one transformer block of width 256, and x."""
    d = 256
    weights = [0.05 * z(i, s) for i, s in enumerate([(d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)], 1)]
    return [*weights, ones(d), ones(d), zeros(d)], z(9, (4, 128, d))


def sweep_inputs(length, strided):
    """About 2^20 numbers in rows of this length: rows lie along the last axis, or, strided, along the first."""
    rows = 2**20 // length
    return z(1, (length, rows) if strided else (rows, length)), u(2, length), u(3, length)


SWEEP_LENGTHS = (7, 64, 1000, 4096, 65536)


# ---- loops ----
def lstm_inputs():
    """ADBench's D-LSTM: main[layer] = (weights, biases) of gates f i o g; extra; state[layer] = h, c; the sequence."""
    sequence = (u64(4, (1024, 14)) > 0.5).astype(np.float64)
    return u64(1, (2, 2, 4, 14)), u64(2, (3, 14)), u64(3, (2, 2, 14)), sequence


def gru_inputs():
    width, batch, steps = 128, 16, 256
    return 0.1 * z(1, (width, 3 * width)), 0.1 * z(2, (width, 3 * width)), zeros(3 * width), z(4, (steps, batch, width))


LORENZ = np.array([10.0, 28.0, 8 / 3], np.float32)


def vmap_rnn_inputs():
    """Weights of 24 states and of 4 inputs; the states of 256 members, and their inputs of 50 steps."""
    return 0.1 * z(1, (24, 24)), 0.1 * z(2, (24, 4)), z(3, (256, 24)), z(4, (256, 50, 4))


def lorenz_starts():
    return np.float32([1.0, 1.0, 20.0]) + z(1, (4096, 3))


def nbody_inputs(n=1024):
    """x, v, m"""
    return u(1, (n, 3)), 0.1 * z(2, (n, 3)), (0.5 + u(3, n)) / n


def kepler_inputs():
    """e, M"""
    return 0.9 * u64(1, 4096), 6.28 * u64(2, 4096)


# ---- models ----
def logreg_inputs():
    """w, X, y"""
    return 0.1 * z(1, 30), z(2, (569, 30)), np.where(u(3, 569) > 0.5, 1, -1).astype(np.float32)


def ba_inputs():
    """Cameras, points, weights, features of bundle adjustment."""
    p = 31843
    return u64(1, (p, 11)), u64(2, (p, 3)) + np.array([0, 0, 5.0]), u64(3, p), u64(4, (p, 2))


# Lengths, twists and offsets of the joints of an arm (Denavit and Hartenberg).
JOINTS = ((0.1, 1.57, 0.3), (0.4, 0, 0), (0.05, 1.57, 0), (0, -1.57, 0.4), (0, 1.57, 0), (0, 0, 0.1))


def elements():
    """Corners of tetrahedra, and the inverses of their edges at rest."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    return corners + 0.2 * u64(1, (4000, 4, 3)), np.eye(3) + 0.1 * u64(2, (4000, 3, 3))


def gp_inputs(n):
    """Logarithms of the hyperparameters, X, y."""
    return np.r_[0.0, -1.0, np.full(10, 0.5)], z64(1, (n, 10)), z64(2, n)


def cholesky_input():
    a = u64(1, (512, 512))
    return a @ a.T + 512 * np.eye(512)


def gmm_inputs(d, k, n=1000):
    """alpha [k], mu [k][d], q [k][d], l [k][d(d-1)/2], x [n][d]"""
    return z64(2, k), u64(3, (k, d)), z64(4, (k, d)), z64(5, (k, d * (d - 1) // 2)), z64(1, (n, d))


KMEANS_SIZES = {"": (100, 8), "_10_16": (10, 16), "_1000_16": (1000, 16)}  # of rows: centres, numbers of each


def kmeans_inputs(k, d):
    """Centres [k][d], which are the last of the points, and points [10000][d]."""
    points = u64(1, (10000, d))
    return points[-k:], points


def black_scholes_inputs(n=1 << 18):
    """S, K, r, s, T"""
    return 100 + 20 * z(1, n), 90 + 20 * u(2, n), 0.01 + 0.05 * u(3, n), 0.1 + 0.3 * u(4, n), 0.2 + u(5, n)


# ---- programs made of random operations ----
def plan(n):
    """n pairs: which operation, and how far back its second operand lies."""
    s, out = 1, []
    for _ in range(n):
        s = (s * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(((s >> 16) & 3, (s >> 20) % 8))
    return out


def program(n, numpy):
    """x -> the last of n values, each of one of four operations on the last value and an earlier one.

    The same as in suite/programs.hpp, which says why these.
    """
    steps = plan(n)

    def f(x):
        v = [x]
        for operation, back in steps:
            a, b = v[-1], v[max(0, len(v) - 1 - back)]
            if operation == 0:
                v.append(a - b)
            elif operation == 1:
                v.append(a * b)
            elif operation == 2:
                v.append(numpy.cos(a + b))
            else:
                v.append(numpy.maximum(a, b) * 0.5)
        return v[-1]

    return f
