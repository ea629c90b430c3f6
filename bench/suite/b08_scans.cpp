// B08: loops of cheap bodies, their gradients, recurrent networks.
#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

/// A case of few numbers, whose next ones wait for the last: latencies bound it, not what a processor does at once.
Case chain(Case c) { return unlimited("chain", std::move(c)); }

Array logistic(const Array& c) { return 3.7 * c * (1 - c); }
Array logistic_scan(const Array& x, std::int64_t trips) {
  const auto step = [](const Array& c) { return std::pair{logistic(c), none}; };
  return scan(step, x, none, {.length = trips}).first;
}
Array logistic_of_rate(const Array& r) {
  const auto step = [&](const Array& c) { return std::pair{r * c * (1 - c), none}; };
  return scan(step, full({}, .5, DType::f32), none, {.length = 100'000}).first;
}

/// A case of a million trips of loop(x, trips).
template <class Loop>
Case million_trips(Loop loop) {
  const auto make = [loop](long trips) {
    const auto f = [=](const Array& x) { return loop(x, trips); };
    return go(compiled(f), number(.5f));
  };
  return chain(per(1e6, chaotic(make, 1'000'000), "per trip"));
}
const Register scan_one("B08.logistic_scan", "ns", [] { return million_trips(logistic_scan); });
const Register fori_one("B08.logistic_fori", "ns", [] {
  return million_trips([](const Array& x, std::int64_t trips) {
    return fori_loop(0, trips, [](const Array&, const Array& c) { return logistic(c); }, x);
  });
});
/// Heat that spreads over a plate, whose edges stay as they are.
Array heated(const Array& plate) {
  const Slice within = slice(1, -1), before = slice({}, -2), after = slice(2, {});
  const auto step = [&](const Array&, const Array& x) {
    const Array flow = x(after, within) + x(before, within) + x(within, after) + x(within, before) -
                       4 * x(within, within);
    return x.at(within, within).add(.1 * flow);
  };
  return fori_loop(0, 50, step, plate);
}
const Register heat("B08.heat_512", "us", [] {
  return per(50, moving(50. * 8 * 512 * 512, go(compiled(heated), u(1, {512, 512}))), "per step");
});
const Register grad_one("B08.logistic_grad", "ns", [] {
  return chain(per(1e5, go(compiled(grad(logistic_of_rate)), number(1.5f)), "per trip"));
});
const Register vmap_1024("B08.logistic_vmap_1024", "ns", [] {
  const auto make = [](long trips) {
    const auto f = vmap([trips](const Array& x) { return logistic_scan(x, trips); });
    return go(compiled(f), u(1, {1024}));
  };
  return per(1024e3, computing(3 * 1024e3, chaotic(make, 1000)), "per element and trip");
});

// ADBench's D-LSTM. main[layer] = (weights, biases) of the gates f, i, o, g; extra = w_in, w_out,
// b_out; state[layer] = h, c.
Array lstm_loss(const Array& main, const Array& extra, const Array& state, const Array& seq) {
  const std::int64_t steps = seq.shape(0) - 1, width = seq.shape(1);
  const auto step = [&](const Array& st, const std::pair<Array, Array>& xy) {
    const auto& [x, gold] = xy;
    Array in = x * extra(0);
    Arrays next;
    for (int k = 0; k < main.shape(0); ++k) {
      const Array w = main(k, 0), b = main(k, 1);
      Array h = st(k, 0), c = st(k, 1);
      const Array f = sigmoid(in * w(0) + b(0)), i = sigmoid(h * w(1) + b(1));
      const Array o = sigmoid(in * w(2) + b(2)), g = tanh(h * w(3) + b(3));
      c = c * f + i * g;
      h = o * tanh(c);
      next.push_back(stack({h, c}));
      in = h;
    }
    const Array y = in * extra(1) + extra(2);
    return std::pair{stack(next), sum(gold * (y - log(2 + sum(exp(y)))))};
  };
  const auto rows = std::pair{seq(slice(0, steps)), seq(slice(1, none))};
  return -sum(scan(step, state, rows).second) / static_cast<double>(steps * width);
}
template <class F>
Case lstm_case(F f) {
  std::vector<double> text;
  for (const float x : to_floats(uniform(4, 1024 * 14))) text.push_back(x > .5f ? 1 : 0);
  Case c = go(compiled(std::move(f)), u64(1, {2, 2, 4, 14}), u64(2, {3, 14}), u64(3, {2, 2, 14}),
              Array(text, {1024, 14}));
  return chain(per(1023, std::move(c), "per time step, f64"));
}
const Register lstm("B08.lstm", "ns", [] { return lstm_case(lstm_loss); });
const Register lstm_grad("B08.lstm_grad", "ns",
                         [] { return lstm_case(value_and_grad<0, 1>(lstm_loss)); });

Array gru_last(const Array& W, const Array& U, const Array& b, const Array& xs) {
  const std::int64_t H = U.shape(0);
  const auto step = [&](const Array& h, const Array& x) {
    const Array a = matmul(x, W) + b, c = matmul(h, U);
    const auto part = [&](const Array& y, std::int64_t k) {
      return y(slice(), slice(k * H, (k + 1) * H));
    };
    const Array r = sigmoid(part(a, 0) + part(c, 0)), z = sigmoid(part(a, 1) + part(c, 1));
    const Array n = tanh(part(a, 2) + r * part(c, 2));
    return std::pair{(1 - z) * n + z * h, none};
  };
  return scan(step, zeros({xs.shape(1), H}, DType::f32), xs).first;
}
const Register gru("B08.gru", "us", [] {
  Case c = go(compiled(gru_last), .1 * z(1, {128, 384}), .1 * z(2, {128, 384}),
              zeros({384}, DType::f32), z(4, {256, 16, 128}));
  c.flops = 256. * 2 * 2 * 16 * 128 * 384;  // both products
  return per(256, std::move(c), "per step");
});

/// Recurrent networks that share their weights, all states of each.
const Register vmap_rnn("B08.vmap_rnn", "us", [] {
  const auto run = [](const Array& w, const Array& u, const Array& start, const Array& xs) {
    const auto step = [&](const Array& h, const Array& x) {
      const Array next = tanh(matmul(w, h) + matmul(u, x));
      return std::pair{next, next};
    };
    return scan(step, start, xs).second;
  };
  Case c = go(compiled(vmap(run, {.in_axes = {none, none, 0, 0}})), .1 * z(1, {24, 24}),
              .1 * z(2, {24, 4}), z(3, {256, 24}), z(4, {256, 50, 4}));
  c.flops = 50. * 2 * 256 * 24 * (24 + 4);
  return per(50, std::move(c), "per step");
});

Array ode_rk4(const Array& x) {
  constexpr std::int64_t kSteps = 100;
  const double h = 2.0 / kSteps;
  const auto f = [&](const Array& y) {
    return x * concatenate({ones({1}, x.dtype()), y(slice(none, -1))});
  };
  const auto step = [&](const Array& y) {
    const Array k1 = f(y), k2 = f(y + h / 2 * k1), k3 = f(y + h / 2 * k2), k4 = f(y + h * k3);
    return std::pair{y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), none};
  };
  return scan(step, zeros_like(x), none, {.length = kSteps}).first;
}
const Register ode("B08.ode_rk4", "us", [] {
  Case c = go(compiled(ode_rk4), u64(31337, {1000}));
  c.flops = 1000 * 100 * 16;
  c.note = "n = 1000, 100 steps, f64";
  return c;
});
const Register ode_grad("B08.ode_rk4_grad", "us", [] {
  const auto f = [](const Array& x) { return ode_rk4(x)(99); };
  // The first hundred numbers alone matter; what is pulled back takes twice what the step takes.
  return computing(3 * 100 * 100 * 16, go(compiled(grad(f)), u64(31337, {1000})));
});

// Thirty-two scalars, each a carry of its own.
Array ring_last(const std::vector<Array>& first) {
  constexpr std::int64_t kRing = 32, kTrips = 10'000;
  const auto step = [](const std::vector<Array>& s) {
    std::vector<Array> next;
    const auto at = [&](std::size_t i) { return s[i % kRing]; };
    for (std::size_t i = 0; i < kRing; ++i)
      next.push_back(s[i] + 1e-3 * (at(i + 1) * (at(i + 2) - at(i + 31)) - s[i] + 8));
    return std::pair{next, none};
  };
  Array total(0.0);
  for (const Array& x : scan(step, first, none, {.length = kTrips}).first) total = total + x;
  return total;
}
std::vector<Array> ring_start() {
  std::vector<Array> out;
  for (const double x : uniform(5, 32)) out.emplace_back(x);
  return out;
}
const Register ring("B08.scan32", "ns", [] {
  return chain(per(1e4, go(compiled(ring_last), ring_start()), "32 scalars, per trip, f64"));
});
const Register ring_grad("B08.scan32_grad", "ns", [] {
  return chain(per(1e4, go(compiled(grad(ring_last)), ring_start()), "32 scalars, per trip, f64"));
});

}  // namespace
}  // namespace bench
