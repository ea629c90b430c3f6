"""Workloads of loops, models and small programs by JAX."""
import inputs
import jax
import jax.numpy as jnp
import jax.scipy
import numpy as np
from harness import Case, chaotic, workload
from inputs import LORENZ, u, u64, z, z64
from jax import lax
from jax_common import chain10, compiled, eager, mlp_loss


# ---- B08: loops ----
def logistic(x, trips):
    return lax.scan(lambda c, _: (3.7 * c * (1 - c), None), x, None, length=trips)[0]


def logistic_fori(x, trips):
    return lax.fori_loop(0, trips, lambda _, c: 3.7 * c * (1 - c), x)


def logistic_case(loop, x, trips, note):
    def make(n):
        return compiled(lambda c: loop(c, n), x, per=np.size(x) * n, note=note)

    return chaotic(make, trips)


HALF = np.float32(0.5)
workload("B08.logistic_scan", "ns")(lambda: logistic_case(logistic, HALF, 1000000, "a trip of 1e6"))
workload("B08.logistic_fori", "ns")(lambda: logistic_case(logistic_fori, HALF, 1000000, "a trip of 1e6"))
workload("B08.logistic_vmap_1024", "ns")(
    lambda: logistic_case(jax.vmap(logistic, (0, None)), u(1, 1024), 1000, "an element's trip"))


def heated(x):
    def step(_, x):
        flow = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]
        return x.at[1:-1, 1:-1].add(0.1 * flow)

    return lax.fori_loop(0, 50, step, x)


workload("B08.heat_512")(lambda: compiled(heated, u(1, (512, 512)), per=50, bytes=50 * 8 * 512 * 512, note="a step"))


def rope(x, c, s):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


workload("B07.rope")(lambda: compiled(rope, *inputs.rope_inputs(), bytes=8 * 4 * 512 * 8 * 64))


def small_net(w, x, y):
    out = jax.nn.relu(x @ w[0]) @ w[1]
    return ((out - y).astype(jnp.float32) ** 2).mean()


workload("B05.mlp_bf16_grad")(lambda: compiled(
    jax.grad(small_net), [jnp.asarray(w, jnp.bfloat16) for w in inputs.bf16_weights()],
    *(jnp.asarray(x, jnp.bfloat16) for x in inputs.bf16_examples()), tolerance=2e-2, no_limit="type"))


@workload("B08.logistic_grad", "ns")
def _():
    def last(r):
        return lax.scan(lambda c, _: (r * c * (1 - c), None), jnp.float32(0.5), None, length=100000)[0]

    return compiled(jax.grad(last), np.float32(1.5), per=1e5, note="d/dr, a trip of 1e5")


def lstm_loss(main, extra, state, seq):
    def step(st, xy):
        x, gold = xy
        h_in, new = x * extra[0], []
        for k in range(main.shape[0]):
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

    return -lax.scan(step, state, (seq[:-1], seq[1:]))[1].sum() / ((seq.shape[0] - 1) * seq.shape[1])


workload("B08.lstm", "ns", x64=True)(lambda: compiled(lstm_loss, *inputs.lstm_inputs(), per=1023, note="a step"))


@workload("B08.lstm_grad", "ns", x64=True)
def _():
    f = jax.value_and_grad(lstm_loss, (0, 1))
    return compiled(f, *inputs.lstm_inputs(), per=1023, note="value and gradient, a step")


@workload("B08.gru")
def _():
    def f(W, U, b, xs):
        H = U.shape[0]

        def step(h, x):
            a, c = x @ W + b, h @ U
            r = jax.nn.sigmoid(a[:, :H] + c[:, :H])
            zt = jax.nn.sigmoid(a[:, H : 2 * H] + c[:, H : 2 * H])
            n = jnp.tanh(a[:, 2 * H :] + r * c[:, 2 * H :])
            return (1 - zt) * n + zt * h, None

        return lax.scan(step, jnp.zeros((xs.shape[1], H), jnp.float32), xs)[0]

    return compiled(f, *inputs.gru_inputs(), per=256, note="a step")


def recurrent(w, u, start, xs):
    def step(h, x):
        h = jnp.tanh(w @ h + u @ x)
        return h, h

    return lax.scan(step, start, xs)[1]


workload("B08.vmap_rnn")(lambda: compiled(
    jax.vmap(recurrent, (None, None, 0, 0)), *inputs.vmap_rnn_inputs(), per=50, note="a step"))


def ode_rk4(x):
    n, h = x.shape[0], 2.0 / 100

    def field(x, y):
        return x * jnp.concatenate([jnp.ones(1, x.dtype), y[: n - 1]])

    def step(y, _):
        k1 = field(x, y)
        k2 = field(x, y + h / 2 * k1)
        k3 = field(x, y + h / 2 * k2)
        k4 = field(x, y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lax.scan(step, jnp.zeros(n, x.dtype), None, length=100)[0]


workload("B08.ode_rk4", x64=True)(
    lambda: compiled(ode_rk4, u64(31337, 1000), flops=1000 * 100 * 16, note="n=1000, 100 steps"))
workload("B08.ode_rk4_grad", x64=True)(
    lambda: compiled(jax.grad(lambda x: ode_rk4(x)[99]), u64(31337, 1000), note="d y[99] / dx"))


def ring(c):
    """The sum of 32 numbers after 10,000 steps of the Lorenz-96 system, each number a carry of its own."""

    def step(c, _):
        new = [c[i] + 1e-3 * (c[(i + 1) % 32] * (c[(i + 2) % 32] - c[(i + 31) % 32]) - c[i] + 8) for i in range(32)]
        return tuple(new), None

    return sum(lax.scan(step, c, None, length=10000)[0])


def ring_start():
    return tuple(u64(5, 32))


workload("B08.scan32", "ns", x64=True)(lambda: compiled(ring, ring_start(), per=1e4, tolerance=1e-5, note="a trip"))
workload("B08.scan32_grad", "ns", x64=True)(
    lambda: compiled(jax.grad(ring), ring_start(), per=1e4, tolerance=1e-5, note="a trip"))


# ---- B09: ensembles of ODEs ----
def lorenz(y, p, steps, states=False):
    def field(y):
        return jnp.array([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])

    def step(y, _):
        k1 = field(y)
        k2 = field(y + 0.005 * k1)
        k3 = field(y + 0.005 * k2)
        k4 = field(y + 0.01 * k3)
        y = y + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y if states else None

    last, all_of_them = lax.scan(step, y, None, length=steps)
    return all_of_them if states else last


def lorenz_mean(p, ys):
    return (jax.vmap(lambda y: lorenz(y, p, 200))(ys) ** 2).sum(1).mean()


@workload("B09.vmap_ode", "ns")
def _():
    def make(steps):
        f = jax.vmap(lambda y, p: lorenz(y, p, steps), (0, None))
        more = dict(per=4096 * steps, flops=71 * 4096 * steps, tolerance=2e-3, note="a step of a trajectory")
        return compiled(f, inputs.lorenz_starts(), LORENZ, **more)

    return chaotic(make, 1000, 200)


workload("B09.states_T100", "ns")(lambda: compiled(
    jax.vmap(lambda y, p: lorenz(y, p, 100, states=True), (0, None)), inputs.lorenz_starts(), LORENZ,
    per=4096 * 100, tolerance=2e-3, note="a step of a trajectory"))


def lorenz_case(transform, note="", tolerance=1e-2):
    more = dict(per=4096 * 200, note=note, tolerance=tolerance)
    return compiled(transform(lorenz_mean), LORENZ, inputs.lorenz_starts(), **more)


workload("B09.primal_T200", "ns")(lambda: lorenz_case(lambda f: f))
workload("B09.jacfwd_T200", "ns")(lambda: lorenz_case(jax.jacfwd, "3 tangents"))
workload("B09.grad_T200", "ns")(lambda: lorenz_case(jax.grad))


# ---- B10: N-body ----
def potential(x, m):
    r = x[:, None] - x[None]
    d2 = (r**2).sum(-1) + 1e-4
    return -0.5 * jnp.sum(m[:, None] * m * lax.rsqrt(d2))


def acceleration(x, m):
    return -jax.grad(potential)(x, m) / m[:, None]


def leapfrog(x, v, m, steps=10, h=1e-3):
    for _ in range(steps):
        v = v + h / 2 * acceleration(x, m)
        x = x + h * v
        v = v + h / 2 * acceleration(x, m)
    return x, v


PAIRS = 1024**2


@workload("B10.nbody_energy")
def _():
    x, _, m = inputs.nbody_inputs()
    return compiled(potential, x, m, items=PAIRS)


@workload("B10.nbody_force")
def _():
    x, _, m = inputs.nbody_inputs()
    return compiled(acceleration, x, m, items=PAIRS)


workload("B10.nbody_leapfrog10", "ms")(lambda: compiled(leapfrog, *inputs.nbody_inputs(), items=20 * PAIRS))


@workload("B10.nbody_grad", "ms")
def _():
    def energy(m, x, v):
        x, v = leapfrog(x, v, m)
        return potential(x, m) + 0.5 * jnp.sum(m[:, None] * v * v)

    x, v, m = inputs.nbody_inputs()
    return compiled(jax.grad(energy), m, x, v, items=20 * PAIRS, note="by the masses, through 10 steps")


def unit_rows(x):
    return x * jax.lax.rsqrt((x * x).sum(-1, keepdims=True))


def distances(x):
    return ((x[:, None] - x[None]) ** 2).sum(-1)


def strain(x):
    def of(d):
        return 0.5 * ((jnp.sqrt((d * d).sum(-1) + 1e-6) - 0.5) ** 2).sum()

    return of(x[1:] - x[:-1]) + of(x[:, 1:] - x[:, :-1])


def cloth(x):
    return -jax.grad(strain)(x)


def turned(x, turn, by):
    return x @ turn.T + by


def rotations(q):
    w, x, y, z = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


workload("B10.cloth")(lambda: compiled(cloth, u(1, (256, 256, 3)), bytes=24 * 256 * 256))
workload("B10.rotations")(lambda: compiled(rotations, z(1, (1 << 16, 4)), bytes=4 * (4 + 9) * (1 << 16)))
for _id, _f in {"swizzled": lambda x: x[:, jnp.array([2, 0, 1])], "flipped": lambda x: x[:, ::-1]}.items():
    workload(f"B10.{_id}_points")(lambda f=_f: compiled(f, z(1, (1 << 16, 3)), bytes=8 * 3 * (1 << 16)))
for _k in (2, 3, 4):
    workload(f"B10.turned_points_{_k}")(
        lambda k=_k: compiled(turned, z(1, (1 << 16, k)), z(2, (k, k)), z(3, (k,)), bytes=8 * (1 << 16) * k))
for _k in (2, 4, 5, 8, 9, 16):
    workload(f"B10.unit_rows_{_k}")(lambda k=_k: compiled(unit_rows, z(1, (1 << 16, k)), bytes=8 * (1 << 16) * k))
    workload(f"B10.distances_{_k}")(lambda k=_k: compiled(distances, u(1, (1024, k)), items=PAIRS))


# ---- B11: an Asian option ----
PATHS, DATES = 65536, 64
KEY = np.array([0, 0], np.uint32)
THETA = np.float32(100), np.float32(0.2), np.float32(0.05)


def asian(theta, key):
    S0, s, r = theta
    dt = 1 / DATES
    normals = jax.random.normal(key, (PATHS, DATES))
    S = S0 * jnp.exp(jnp.cumsum((r - 0.5 * s * s) * dt + s * dt**0.5 * normals, 1))
    return jnp.exp(-r) * jnp.maximum(S.mean(1) - 100, 0).mean()


PER_NUMBER = dict(per=PATHS * DATES)
workload("B11.normals", "ns")(
    lambda: compiled(lambda k: jax.random.normal(k, (PATHS, DATES)), KEY, note="threefry, a normal", **PER_NUMBER))
workload("B11.asian_price", "ns")(lambda: compiled(asian, THETA, KEY, note="a step of a path", **PER_NUMBER))
workload("B11.asian_greeks", "ns")(
    lambda: compiled(jax.value_and_grad(asian), THETA, KEY, note="price and 3 greeks, a step", **PER_NUMBER))


# ---- B12: second order, Jacobians ----
def logreg(w, X, y):
    return jnp.mean(jnp.logaddexp(0.0, -y * (X @ w))) + 0.5e-3 * w @ w


workload("B12.grad")(lambda: compiled(jax.grad(logreg), *inputs.logreg_inputs()))
workload("B12.hessian30")(lambda: compiled(jax.hessian(logreg), *inputs.logreg_inputs()))


@workload("B12.hvp")
def _():
    def hvp(w, v, X, y):
        return jax.jvp(lambda w: jax.grad(logreg)(w, X, y), (w,), (v,))[1]

    w, X, y = inputs.logreg_inputs()
    return compiled(hvp, w, z(9, 30), X, y)


@workload("B12.hvp_mlp")
def _():
    def hvp(p, v, x, y):
        return jax.jvp(lambda p: jax.grad(mlp_loss)(p, x, y), (p,), (v,))[1]

    p, x, y = inputs.mlp_inputs(inputs.DIGITS, 64)
    return compiled(hvp, p, jax.tree.map(np.ones_like, p), x, y)


def reprojection(cam, X, w, feat):
    """The error of a point seen by a camera of 11 parameters (bundle adjustment)."""
    r, C, f, uv, k = cam[:3], cam[3:6], cam[6], cam[7:9], cam[9:11]
    angle = jnp.sqrt(r @ r)
    axis, D, c = r / angle, X - C, jnp.cos(angle)
    Y = D * c + jnp.cross(axis, D) * jnp.sin(angle) + axis * (axis @ D) * (1 - c)
    p = Y[:2] / Y[2]
    s = p @ p
    return w * (f * p * (1 + k[0] * s + k[1] * s * s) + uv - feat)


@workload("B12.ba_block", "ns", x64=True)
def _():
    f = jax.vmap(jax.jacrev(reprojection, (0, 1, 2)))
    return compiled(f, *inputs.ba_inputs(), per=31843, note="a block of 2x15")


def hand_of(angles):
    """Where an arm of six joints ends."""
    turn = jnp.eye(4)
    for angle, (length, twist, offset) in zip(angles, inputs.JOINTS):
        c, s, ct, st = jnp.cos(angle), jnp.sin(angle), np.cos(twist), np.sin(twist)
        rows = [[c, -s * ct, s * st, length * c], [s, c * ct, -c * st, length * s], [0, st, ct, offset], [0, 0, 0, 1]]
        turn = turn @ jnp.array(rows)
    return turn[:3, 3]


@workload("B12.arm_jacobian", "ns", x64=True)
def _():
    return compiled(jax.vmap(jax.jacfwd(hand_of)), inputs.u64(1, (20000, 6)), per=20000, note="a Jacobian of 3x6")


def elastic_energy(x, inverse):
    """Of a tetrahedron (neo-Hookean), by its corners and the inverse of its edges at rest."""
    f = (x[1:] - x[0]).T @ inverse
    volume = jnp.log(f[0] @ jnp.cross(f[1], f[2]))
    return 0.5 * (jnp.sum(f * f) - 3) - volume + 0.5 * volume**2


@workload("B12.element_hessian", "ns", x64=True)
def _():
    f = jax.vmap(jax.hessian(elastic_energy))
    return compiled(f, *inputs.elements(), per=4000, note="a Hessian of 12x12")


def tanh3(x, weights):
    for w in weights:
        x = jnp.tanh(w @ x)
    return x


workload("B12.jacfwd_mlp64")(lambda: compiled(jax.jacfwd(tanh3), z(1, 64), 0.1 * z(2, (3, 64, 64))))
workload("B12.jacrev_mlp64")(lambda: compiled(jax.jacrev(tanh3), z(1, 64), 0.1 * z(2, (3, 64, 64))))


# ---- B15: a Gaussian process ----
def gp_loss(t, X, y):
    Z = X / jnp.exp(t[2:])
    s = (Z**2).sum(1)
    K = jnp.exp(2 * t[0]) * jnp.exp(-0.5 * (s[:, None] + s - 2 * Z @ Z.T)) + jnp.exp(2 * t[1]) * jnp.eye(len(y))
    L = jnp.linalg.cholesky(K)
    a = jax.scipy.linalg.solve_triangular(L, y, lower=True)
    return 0.5 * a @ a + jnp.log(jnp.diag(L)).sum() + 0.5 * len(y) * jnp.log(2 * jnp.pi)


def gp_case(f, n):
    return compiled(f, *inputs.gp_inputs(n), note=f"n={n}")


workload("B15.gp_nlml", "ms", x64=True)(lambda: gp_case(gp_loss, 442))
workload("B15.gp_nlml_grad", "ms", x64=True)(lambda: gp_case(jax.value_and_grad(gp_loss), 442))
workload("B15.gp_nlml_grad_2048", "ms", x64=True)(lambda: gp_case(jax.value_and_grad(gp_loss), 2048))
workload("B15.cholesky_512", "ms", x64=True)(
    lambda: compiled(jnp.linalg.cholesky, inputs.cholesky_input(), flops=512**3 / 3))


# ---- GMM and KMEANS: models of gradbench ----
def gmm(alpha, mu, q, l, x):
    """The logarithm of the posterior of a mixture of Gaussians with Wishart prior (gamma 1, m 0).

    Q_k is lower triangular: exp(q_k) on the diagonal, l_k below, column by column.
    """
    (k, d), n = mu.shape, x.shape[0]
    columns, rows = np.triu_indices(d, 1)
    Q = jnp.zeros((k, d, d), x.dtype).at[:, rows, columns].set(l)
    Q = Q.at[:, np.arange(d), np.arange(d)].set(jnp.exp(q))
    distance = jnp.sum(jnp.einsum("kij,nkj->nki", Q, x[:, None] - mu) ** 2, -1)
    main = jax.nn.logsumexp(alpha + q.sum(1) - 0.5 * distance, 1).sum()
    nu = d + 1
    prior = k * (nu * d * np.log(1 / np.sqrt(2)) - jax.scipy.special.multigammaln(nu / 2, d)) - 0.5 * jnp.sum(Q**2)
    return -n * (d / 2 * np.log(2 * np.pi) + jax.nn.logsumexp(alpha)) + main + prior


for _d, _k in ((10, 25), (32, 50), (64, 100)):
    workload(f"GMM.objective_{_d}_{_k}", "ms", x64=True)(
        lambda d=_d, k=_k: compiled(gmm, *inputs.gmm_inputs(d, k), flops=2 * 1000 * k * d * d, note="n=1000"))
    workload(f"GMM.gradient_{_d}_{_k}", "ms", x64=True)(
        lambda d=_d, k=_k: compiled(jax.grad(gmm, (0, 1, 2, 3)), *inputs.gmm_inputs(d, k),
                                    flops=6 * 1000 * k * d * d, note="n=1000; alpha, mu, q, l"))


def kmeans_cost(centres, points):
    """With |c - p|^2 = |c|^2 - 2 c p + |p|^2, which takes JAX a third of the time of the differences."""
    distance = (centres**2).sum(1)[:, None] - 2 * centres @ points.T + (points**2).sum(1)
    return jnp.sum(jnp.min(distance, 0))


def kmeans_direction(centres, points):
    """The gradient over the diagonal of the Hessian: all of it by one product with ones."""
    gradient, diagonal = jax.jvp(lambda c: jax.grad(kmeans_cost)(c, points), (centres,), (jnp.ones_like(centres),))
    return gradient / diagonal


def kmeans_case(f, k, d):
    return compiled(f, *inputs.kmeans_inputs(k, d), items=k * 10000, note=f"k={k}, n=10000, d={d}")


for _size, (_k, _d) in inputs.KMEANS_SIZES.items():
    workload("KMEANS.cost" + _size, "ms", x64=True)(lambda k=_k, d=_d: kmeans_case(kmeans_cost, k, d))
    workload("KMEANS.dir" + _size, "ms", x64=True)(lambda k=_k, d=_d: kmeans_case(kmeans_direction, k, d))


# ---- B17: small and deep ----
@workload("B17.while_newton", x64=True)
def _():
    def kepler(e, M):  # solves x - e sin x = M
        def step(s):
            x, _ = s
            d = (x - e * jnp.sin(x) - M) / (1 - e * jnp.cos(x))
            return x - d, d

        return lax.while_loop(lambda s: jnp.abs(s[1]) > 1e-10, step, (M, jnp.ones_like(M)))[0]

    return compiled(jax.vmap(kepler), *inputs.kepler_inputs(), note="4096 lanes")


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def lorenz96(x):
    return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + 8


workload("B17.small_jit_10", "ns")(lambda: compiled(chain10, u(1, 16), note="10 operations on 16 elements"))
workload("B17.small_jit_10_grad", "ns")(lambda: compiled(jax.value_and_grad(lambda x: chain10(x).sum()), u(1, 16)))
workload("B17.grad_small", "ns", x64=True)(
    lambda: compiled(jax.grad(rosenbrock), u64(1, 10), note="Rosenbrock of 10 variables"))
workload("B17.hessian_small", "ns", x64=True)(
    lambda: compiled(jax.hessian(rosenbrock), u64(1, 10), note="Rosenbrock of 10 variables"))
workload("B17.jacfwd", "ns", x64=True)(lambda: compiled(jax.jacfwd(lorenz96), z64(1, 40), note="Lorenz-96 of 40"))
workload("B17.jacrev", "ns", x64=True)(lambda: compiled(jax.jacrev(lorenz96), z64(1, 40), note="Lorenz-96 of 40"))


def add_one(tree):
    return jax.tree.map(lambda x: x + 1, tree)


for _n in (1, 10, 100, 1000):  # a list of scalars 0, 1, 2, ...; each + 1
    workload(f"B17.jit_leaves_{_n}", "ns" if _n == 1 else "us")(
        lambda n=_n: compiled(add_one, [np.float32(i) for i in range(n)]))


@workload("B17.jit_struct", "ns")
def _():
    """A struct of 12 leaves, each + 1: params {w: 3, b: 2}, opt {m: 3, v: 3} of u(1, 16), u(2, 16), ..., and step = 1.

    The outputs stand in this order, which is that of the seeds.
    """
    x = [u(seed, 16) for seed in range(1, 12)]
    state = {"params": {"w": x[:3], "b": x[3:5]}, "opt": {"m": x[5:8], "v": x[8:11]}, "step": np.float32(1)}
    case = compiled(add_one, state, note="12 leaves")

    def outputs():
        s = case.call()
        return [*s["params"]["w"], *s["params"]["b"], *s["opt"]["m"], *s["opt"]["v"], s["step"]]

    return Case(case.call, outputs=outputs, note=case.note)


def fresh_trace(transform):
    """Traces a new function each time."""
    x = jax.ShapeDtypeStruct((1024,), np.float32)

    def call():
        f = inputs.program(1000, jnp)
        jax.make_jaxpr(transform(lambda x: f(x)))(x)

    return Case(call, outputs=list, note="a new function of 1000 operations")


workload("B17.trace_us")(lambda: fresh_trace(lambda f: f))
workload("B17.grad_trace_us")(lambda: fresh_trace(lambda f: jax.grad(lambda x: f(x).sum())))
workload("B17.vmap_trace_us")(lambda: fresh_trace(jax.vmap))


@workload("B17.eager_grad_100")
def _():
    f = inputs.program(100, jnp)
    return eager(jax.grad(lambda x: f(x).sum()), u(1, 16), note="100 operations on 16 elements, no jit")
