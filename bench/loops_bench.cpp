// What compiled loops cost beside the same loops by hand (hand_loops.hpp), on the same inputs: the
// workloads B08, B09 and B17.while_newton. Before anything is timed, results are compared. After the
// timings come the ratios.
//
//   loops_bench --benchmark_filter=lstm
//
// `ours` and `contract` are compiled programs, without and with {.contract = true}; the others are by
// hand. Times are the least of the repetitions, per trip where the name of the row says so.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "hand_loops.hpp"
#include "runtime/backend.hpp"
#include "runtime/thread_pool.hpp"
#include "telamon/detail/flat.hpp"
#include "telamon/telamon.hpp"

namespace {

using namespace telamon;
using Program = std::function<Arrays(std::span<const Array>)>;
using Numbers = std::vector<double>;

// ---- inputs --------------------------------------------------------------------------------------
/// As numpy.random.RandomState(seed).random_sample(n).
Numbers uniform(unsigned seed, std::size_t n) {
  std::mt19937 g(seed);
  Numbers out(n);
  for (double& x : out) {
    const double high = g() >> 5, low = g() >> 6;
    x = (high * 67108864.0 + low) / 9007199254740992.0;
  }
  return out;
}
Numbers normal_like(unsigned seed, std::size_t n, double scale) {
  Numbers out = uniform(seed, n);
  for (double& x : out) x = scale * (x - .5) * std::sqrt(12.0);
  return out;
}
/// Not weakly typed, as Array(x) is.
Array number(float x) { return Array(std::vector<float>{x}, {}); }
std::vector<float> floats(const Numbers& x) { return {x.begin(), x.end()}; }

// ---- the workloads -------------------------------------------------------------------------------
struct Workload {
  std::string name;
  double trips;  ///< times are per trip
  Program ours;
  Arrays inputs;
  std::function<Numbers(const hand::Loops&)> by_hand;
  /// Relative to the largest number of the results; negative: chaotic, so only the exact build and the
  /// default of ours are compared, and must agree in every bit.
  double tolerance = 1e-9;
};

Array logistic(const Array& c) { return 3.7 * c * (1 - c); }
Array logistic_scan(const Array& x, std::int64_t trips) {
  return scan([](Array c) { return std::pair{logistic(c), none}; }, x, none, {.length = trips})
      .first;
}

Workload logistic_one(bool fori) {
  static constexpr std::int64_t kTrips = 1'000'000;
  Workload w;
  w.name = fori ? "B08.logistic_fori" : "B08.logistic_scan";
  w.trips = kTrips;
  w.inputs = {number(.5f)};
  w.ours = [fori](std::span<const Array> x) {
    if (!fori) return Arrays{logistic_scan(x[0], kTrips)};
    return Arrays{
        fori_loop(0, kTrips, [](const Array&, const Array& c) { return logistic(c); }, x[0])};
  };
  w.by_hand = [](const hand::Loops& h) { return Numbers{h.logistic(.5f, kTrips)}; };
  w.tolerance = -1;
  return w;
}

Workload logistic_grad() {
  static constexpr std::int64_t kTrips = 100'000;
  Workload w{"B08.logistic_grad", kTrips, {}, {number(1.5f)}, {}, 1e-4};
  w.ours = [](std::span<const Array> x) {
    const auto last = [](const Array& r) {
      const auto step = [&](Array c) { return std::pair{r * c * (1 - c), none}; };
      return scan(step, lax::full({}, DType::f32, .5), none, {.length = kTrips}).first;
    };
    return Arrays{grad(last)(x[0])};
  };
  w.by_hand = [](const hand::Loops& h) { return Numbers{h.logistic_grad(1.5f, kTrips)}; };
  return w;
}

Workload logistic_1024() {
  static constexpr std::int64_t kTrips = 1000;
  const std::vector<float> x = floats(uniform(1, 1024));
  Workload w{"B08.logistic_vmap_1024", 1024.0 * kTrips, {}, {Array(x, {1024})}, {}, -1};
  w.ours = [](std::span<const Array> v) {
    return Arrays{vmap([](const Array& c) { return logistic_scan(c, kTrips); })(v[0])};
  };
  w.by_hand = [x](const hand::Loops& h) {
    static std::vector<float> out(1024);
    h.logistic_1024(x.data(), out.data(), kTrips);
    return Numbers(out.begin(), out.end());
  };
  return w;
}

Array lstm_loss(const Array& main, const Array& extra, const Array& state, const Array& seq) {
  const std::int64_t steps = seq.shape()[0] - 1, width = seq.shape()[1];
  const auto step = [&](const Array& st, const std::pair<Array, Array>& xy) {
    const auto& [x, gold] = xy;
    Array in = x * extra(0);
    Arrays next;
    for (int k = 0; k < 2; ++k) {
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
  const auto rows = std::pair{seq(slice(0, steps)), seq(slice(1, steps + 1))};
  return -sum(scan(step, state, rows).second) / static_cast<double>(steps * width);
}

Workload lstm(bool gradient) {
  const Numbers main = uniform(1, 2 * 8 * 14), extra = uniform(2, 3 * 14),
                state = uniform(3, 2 * 2 * 14);
  Numbers seq = uniform(4, 1024 * 14);
  for (double& s : seq) s = s > .5 ? 1 : 0;
  Workload w{gradient ? "B08.lstm_grad" : "B08.lstm",
             1023,
             {},
             {Array(main, {2, 2, 4, 14}), Array(extra, {3, 14}), Array(state, {2, 2, 14}),
              Array(seq, {1024, 14})},
             {},
             1e-9};
  w.ours = [gradient](std::span<const Array> x) {
    if (!gradient) return Arrays{lstm_loss(x[0], x[1], x[2], x[3])};
    const auto [value, g] = value_and_grad<0, 1>(lstm_loss)(x[0], x[1], x[2], x[3]);
    return Arrays{value, std::get<0>(g), std::get<1>(g)};
  };
  w.by_hand = [=](const hand::Loops& h) {
    if (!gradient) return Numbers{h.lstm(main.data(), extra.data(), state.data(), seq.data())};
    static Numbers out(1 + 2 * 8 * 14 + 3 * 14);
    out[0] = h.lstm_grad(main.data(), extra.data(), state.data(), seq.data(), &out[1],
                         &out[1 + 2 * 8 * 14]);
    return out;
  };
  return w;
}

Workload gru() {
  constexpr std::int64_t kSteps = 256, kBatch = 16, H = 128;
  const std::vector<float> W = floats(normal_like(1, H * 3 * H, .1)),
                           U = floats(normal_like(2, H * 3 * H, .1)), b(3 * H, 0.f),
                           xs = floats(normal_like(4, kSteps * kBatch * H, 1));
  Workload w{"B08.gru",
             kSteps,
             {},
             {Array(W, {H, 3 * H}), Array(U, {H, 3 * H}), Array(b, {3 * H}),
              Array(xs, {kSteps, kBatch, H})},
             {},
             1e-3};
  w.ours = [](std::span<const Array> v) {
    const auto step = [&](const Array& h, const Array& x) {
      const Array a = matmul(x, v[0]) + v[2], c = matmul(h, v[1]);
      const auto part = [](const Array& y, std::int64_t k) {
        return y(ellipsis, slice(k * H, (k + 1) * H));
      };
      const Array r = sigmoid(part(a, 0) + part(c, 0)), z = sigmoid(part(a, 1) + part(c, 1));
      const Array n = tanh(part(a, 2) + r * part(c, 2));
      return std::pair{(1 - z) * n + z * h, none};
    };
    return Arrays{scan(step, zeros({kBatch, H}, DType::f32), v[3]).first};
  };
  w.by_hand = [=](const hand::Loops& h) {
    static std::vector<float> out(kBatch * H);
    h.gru(W.data(), U.data(), b.data(), xs.data(), kSteps, out.data());
    return Numbers(out.begin(), out.end());
  };
  return w;
}

Array ode_rk4_last(const Array& x) {
  constexpr std::int64_t kSteps = 100;
  const double h = 2.0 / kSteps;
  const std::int64_t n = x.shape()[0];
  const Array one = ones({1}, x.dtype());
  const auto f = [&](const Array& y) { return x * concatenate({one, y(slice(0, n - 1))}); };
  const auto step = [&](const Array& y) {
    const Array k1 = f(y), k2 = f(y + h / 2 * k1), k3 = f(y + h / 2 * k2), k4 = f(y + h * k3);
    return std::pair{y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), none};
  };
  return scan(step, zeros({n}, x.dtype()), none, {.length = kSteps}).first;
}

Workload ode_rk4(bool gradient) {
  constexpr std::size_t n = 1000;
  const Numbers x = uniform(31337, n);
  Workload w{gradient ? "B08.ode_rk4_grad" : "B08.ode_rk4", 1, {}, {Array(x, {n})}, {}, 1e-9};
  w.ours = [gradient](std::span<const Array> v) {
    if (!gradient) return Arrays{ode_rk4_last(v[0])};
    return Arrays{grad([](const Array& y) { return ode_rk4_last(y)(99); })(v[0])};
  };
  w.by_hand = [=](const hand::Loops& h) {
    static Numbers out(n);
    (gradient ? h.ode_rk4_grad : h.ode_rk4)(x.data(), out.data());
    return out;
  };
  return w;
}

Workload scan32(bool gradient) {
  static constexpr std::int64_t kTrips = 10'000, kRing = 32;
  const Numbers c = uniform(5, kRing);
  Workload w{gradient ? "B08.scan32_grad" : "B08.scan32", kTrips, {}, {}, {}, 1e-5};
  for (const double x : c) w.inputs.emplace_back(x);
  const auto last = [](const std::vector<Array>& first) {
    const auto step = [](const std::vector<Array>& s) {
      std::vector<Array> next;
      const auto at = [&](std::size_t i) { return s[i % kRing]; };
      for (std::size_t i = 0; i < kRing; ++i)
        next.push_back(s[i] + 1e-3 * (at(i + 1) * (at(i + 2) - at(i + 31)) - s[i] + 8));
      return std::pair{next, none};
    };
    Array sum(0.0);
    for (const Array& x : scan(step, first, none, {.length = kTrips}).first) sum = sum + x;
    return sum;
  };
  w.ours = [gradient, last](std::span<const Array> x) {
    const std::vector<Array> first(x.begin(), x.end());
    if (!gradient) return Arrays{last(first)};
    return Arrays(grad(last)(first));
  };
  w.by_hand = [=](const hand::Loops& h) {
    static Numbers out(kRing);
    if (!gradient) return Numbers{h.scan32(c.data(), kTrips)};
    h.scan32_grad(c.data(), kTrips, out.data());
    return out;
  };
  return w;
}

enum class Lorenz { last, mean, jacfwd, grad };
Workload lorenz(Lorenz what) {
  constexpr std::int64_t n = 4096;
  const std::int64_t steps = what == Lorenz::last ? 1000 : 200;
  static const char* const kNames[] = {"B09.vmap_ode", "B09.primal_T200", "B09.jacfwd_T200",
                                       "B09.grad_T200"};
  std::vector<float> y0 = floats(normal_like(1, n * 3, 1));
  for (std::size_t i = 0; i < y0.size(); ++i) y0[i] += i % 3 == 2 ? 20 : 1;
  const std::vector<float> p = {10, 28, 8.f / 3};
  Workload w{kNames[static_cast<int>(what)],
             static_cast<double>(n * steps),
             {},
             {Array(p, {3}), Array(y0, {n, 3})},
             {},
             what == Lorenz::last ? 1e9 : 2e-2};  // chaotic
  w.ours = [=](std::span<const Array> v) {
    const auto field = [](const Array& y, const Array& q) {
      return stack({q(0) * (y(1) - y(0)), y(0) * (q(1) - y(2)) - y(1), y(0) * y(1) - q(2) * y(2)});
    };
    const auto run = [&](const Array& y, const Array& q) {
      const auto step = [&](const Array& s) {
        const Array k1 = field(s, q), k2 = field(s + .005 * k1, q), k3 = field(s + .005 * k2, q),
                    k4 = field(s + .01 * k3, q);
        return std::pair{s + .01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), none};
      };
      return scan(step, y, none, {.length = steps}).first;
    };
    const auto last = [&](const Array& q, const Array& y) {
      return vmap([&](const Array& one) { return run(one, q); })(y);
    };
    const auto average = [&](const Array& q, const Array& y) {
      const Array end = last(q, y);
      return mean(sum(end * end, {.axes = 1}));
    };
    switch (what) {
      case Lorenz::last: return Arrays{last(v[0], v[1])};
      case Lorenz::mean: return Arrays{average(v[0], v[1])};
      case Lorenz::jacfwd: return Arrays{jacfwd(average)(v[0], v[1])};
      case Lorenz::grad: break;
    }
    return Arrays{grad(average)(v[0], v[1])};
  };
  w.by_hand = [=](const hand::Loops& h) {
    static std::vector<float> out(n * 3);
    if (what == Lorenz::mean) return Numbers{h.lorenz_mean(y0.data(), p.data(), steps)};
    if (what == Lorenz::last) {
      h.lorenz(y0.data(), p.data(), steps, out.data());
      return Numbers(out.begin(), out.end());
    }
    (what == Lorenz::grad ? h.lorenz_grad : h.lorenz_jacfwd)(y0.data(), p.data(), steps,
                                                             out.data());
    return Numbers(out.begin(), out.begin() + 3);
  };
  return w;
}

Workload newton() {
  constexpr std::int64_t n = 4096;
  Numbers e = uniform(1, n), M = uniform(2, n);
  for (double& x : e) x *= .9;
  for (double& x : M) x *= 6.28;
  Workload w{"B17.while_newton", 1, {}, {Array(e, {n}), Array(M, {n})}, {}, 1e-9};
  w.ours = [](std::span<const Array> v) {
    const auto kepler = [](const Array& eccentricity, const Array& mean_anomaly) {
      using State = std::pair<Array, Array>;
      const auto more = [](const State& s) { return abs(s.second) > 1e-10; };
      const auto step = [&](const State& s) {
        const Array& x = s.first;
        const Array d = (x - eccentricity * sin(x) - mean_anomaly) / (1.0 - eccentricity * cos(x));
        return State{x - d, d};
      };
      return while_loop(more, step, State{mean_anomaly, ones_like(mean_anomaly)}).first;
    };
    return Arrays{vmap(kepler)(v[0], v[1])};
  };
  w.by_hand = [=](const hand::Loops& h) {
    static Numbers out(n);
    h.newton_4096(e.data(), M.data(), out.data());
    return out;
  };
  return w;
}

// ---- runs ----------------------------------------------------------------------------------------
constexpr const char* kHand[] = {"exact", "contracted", "fast"};

Numbers numbers(const Arrays& xs) {
  Numbers out;
  for (const Array& x : xs) {
    const auto part = x.to_vector<double>();
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

/// Distance relative to the largest of the wanted numbers.
double distance(const Numbers& got, const Numbers& want) {
  if (got.size() != want.size()) return INFINITY;
  double largest = 0, most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    if (got[i] != want[i]) most = std::max(most, std::abs(got[i] - want[i]));
    if (std::isnan(got[i])) return INFINITY;
  }
  return most == 0 ? 0 : most / largest;
}

std::shared_ptr<const runtime::Executable> compiled(const Workload& w, bool contract) {
  const Jaxpr jaxpr = detail::stage_arrays(w.ours, w.inputs, "bench").jaxpr;
  return runtime::find_backend("llvm").compile(
      jaxpr, {.contract = contract, .name = w.name, .disabled = {}});
}

void run_ours(benchmark::State& state, const Workload& w, bool contract) {
  runtime::set_num_threads(1);
  const auto executable = compiled(w, contract);
  Arrays outputs;
  executable->execute(w.inputs, {}, outputs, "bench");
  const bool comparable = w.tolerance >= 0 || !contract;
  const double far = comparable ? distance(numbers(outputs), w.by_hand(hand::exact)) : 0;
  if (far > std::max(w.tolerance, 0.0)) {
    state.SkipWithError(("differs from the loop by hand by " + std::to_string(far)).c_str());
    return;
  }
  for (auto _ : state) {
    executable->execute(w.inputs, {}, outputs, "bench");
    benchmark::DoNotOptimize(outputs);
  }
}

void run_hand(benchmark::State& state, const Workload& w, const hand::Loops& loops) {
  if (w.tolerance >= 0 && distance(w.by_hand(loops), w.by_hand(hand::exact)) > w.tolerance) {
    state.SkipWithError("builds of the loop by hand differ");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(w.by_hand(loops));
}

/// Prints as usual, and keeps the least time of each row (of the processor: machines may be busy).
class Least : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const double t = run.cpu_accumulated_time / static_cast<double>(run.iterations);
      const auto [at, first] = least_.emplace(run.run_name.function_name, t);
      if (!first) at->second = std::min(at->second, t);
    }
    ConsoleReporter::ReportRuns(runs);
  }
  void print(const std::vector<Workload>& workloads) const {
    std::printf("\n%-24s %10s %10s %10s %10s %10s   %s\n", "ns per trip, least", "ours", "contract",
                kHand[0], kHand[1], kHand[2], "ours/exact contract/contracted contract/fast");
    for (const Workload& w : workloads) {
      const auto time = [&](const char* which) {
        const auto at = least_.find(w.name + "/" + which);
        return at == least_.end() ? NAN : at->second / w.trips * 1e9;
      };
      const double ours = time("ours"), contract = time("contract");
      if (std::isnan(ours) && std::isnan(contract)) continue;
      std::printf("%-24s %10.4g %10.4g %10.4g %10.4g %10.4g   %10.2f %19.2f %13.2f\n",
                  w.name.c_str(), ours, contract, time(kHand[0]), time(kHand[1]), time(kHand[2]),
                  ours / time(kHand[0]), contract / time(kHand[1]), contract / time(kHand[2]));
    }
  }

 private:
  std::map<std::string, double> least_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Workload> workloads = {logistic_one(false),
                                           logistic_one(true),
                                           logistic_grad(),
                                           logistic_1024(),
                                           lstm(false),
                                           lstm(true),
                                           gru(),
                                           ode_rk4(false),
                                           ode_rk4(true),
                                           scan32(false),
                                           scan32(true),
                                           lorenz(Lorenz::last),
                                           lorenz(Lorenz::mean),
                                           lorenz(Lorenz::jacfwd),
                                           lorenz(Lorenz::grad),
                                           newton()};
  for (const Workload& w : workloads) {
    const auto add = [&](const char* which, const auto& run) {
      benchmark::RegisterBenchmark((w.name + "/" + which).c_str(), run)
          ->Unit(benchmark::kMicrosecond)
          ->MinTime(0.05)
          ->Repetitions(5);
    };
    add("ours", [&w](benchmark::State& s) { run_ours(s, w, false); });
    add("contract", [&w](benchmark::State& s) { run_ours(s, w, true); });
    for (std::size_t b = 0; b < hand::kBuilds.size(); ++b)
      add(kHand[b], [&w, b](benchmark::State& s) { run_hand(s, w, *hand::kBuilds[b]); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  Least least;
  benchmark::RunSpecifiedBenchmarks(&least);
  least.print(workloads);
  return 0;
}
