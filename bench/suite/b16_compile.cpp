// B16: how long programs of many operations take to trace, to compile and to run. Every program differs
// from all before it in one number, so that no cache has it.
//   trace     make_jaxpr of the function; twice or more, each a new one
//   compile   what the backend took of it
//   total     the first call of the jitted function, from its definition to the result in hand
//   steady    a later call; its limit is the arithmetic of programs.hpp
// The disk cache is off (telamon_bench.cpp) but for the rows cache_hit, which have a warm one of their own:
//   time      compiling the program once more, traced anew: its code is found on disk
//   total     the same from the definition of the function to the result in hand
#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "programs.hpp"
#include "temporary_folder.hpp"

namespace bench {
namespace {

using namespace telamon;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// x, a, b -> an array of the shape of x; `one` is 1, or a number that makes the program a new one.
using Program = std::function<Array(const Array& x, const Array& a, const Array& b)>;
using MakeProgram = std::function<Program(double one)>;

MakeProgram straight(std::int64_t n) {
  return [n](double one) -> Program {
    return [f = straight_program(n, .5 * one)](const Array& x, const Array&, const Array&) {
      return f(x);
    };
  };
}
/// A loop of n trips, unrolled.
MakeProgram unrolled(int n) {
  return [n](double one) -> Program {
    return [n, one](Array x, const Array& a, const Array& b) {
      if (one != 1) x = x * one;
      for (int i = 0; i < n; ++i) x = sin(x) * a + x * b;
      return x;
    };
  };
}
// Programs of many kernels, about 1,000 operations each.
Array fresh(const Array& x, double one) { return one == 1 ? x : x * one; }
MakeProgram products(int n) {
  return [n](double one) -> Program {
    return [n, one](const Array& x, const Array& a, const Array&) {
      Array y = fresh(x, one);
      for (int i = 0; i < n; ++i) y = tanh(matmul(y, a) + x);
      return y;
    };
  };
}
MakeProgram row_means(int n) {
  return [n](double one) -> Program {
    return [n, one](const Array& x, const Array&, const Array&) {
      Array y = fresh(x, one);
      for (int i = 0; i < n; ++i) y = y - .5 * mean(y, {.axes = 1, .keepdims = true});
      return y;
    };
  };
}
MakeProgram rolls(int n) {
  return [n](double one) -> Program {
    return [n, one](const Array& x, const Array&, const Array&) {
      Array y = fresh(x, one);
      for (int i = 0; i < n; ++i) y = (roll(y, 1) + y) * .5;
      return y;
    };
  };
}
/// x, of 32 x 64, turned n times.
MakeProgram turns(int n) {
  return [n](double one) -> Program {
    return [n, one](const Array& x, const Array&, const Array&) {
      Array y = fresh(x, one);
      for (int i = 0; i < n; ++i) y = sin(transpose(reshape(y, {64, 32})));
      return y;
    };
  };
}
/// Of each row of x the product of as many rotations about an axis: arms of n joints.
MakeProgram joints(int n) {
  return [n](double one) -> Program {
    const auto arm = [n](const Array& angles) {
      const Array zero(0.f), last = stack({zero, zero, Array(1.f)});
      Array m = eye(3);
      for (int i = 0; i < n; ++i) {
        const Array c = cos(angles(i)), s = sin(angles(i));
        m = matmul(m, stack({stack({c, -s, zero}), stack({s, c, zero}), last}));
      }
      return m;
    };
    return
        [arm, one](const Array& x, const Array&, const Array&) { return vmap(arm)(fresh(x, one)); };
  };
}
/// A loop that carries the n rows of x, each an array of its own.
MakeProgram carries(int n) {
  return [n](double one) -> Program {
    return [n, one](const Array& x, const Array&, const Array&) {
      const Array y = fresh(x, one);
      Arrays rows;
      for (int i = 0; i < n; ++i) rows.push_back(y(i));
      const auto trip = [](const Array&, const Arrays& all) {
        Arrays next;
        for (const Array& row : all) next.push_back(sin(row) * .5);
        return next;
      };
      return stack(fori_loop(0, 10, trip, rows));
    };
  };
}
MakeProgram gradient(MakeProgram make) {
  return [make](double one) -> Program {
    const auto total = [f = make(one)](const Array& x, const Array& a, const Array& b) {
      return sum(f(x, a, b));
    };
    return [total](const Array& x, const Array& a, const Array& b) { return grad(total)(x, a, b); };
  };
}

/// The most memory that the process has had since `forget_peak`, in MB; 0 where that is not known.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }
double peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

constexpr const char* kCompile = "compile";

Arrays vector_and_scalars() { return {u(1, {1024}), number(.9f), number(.1f)}; }
/// Two matrices of n columns.
Arrays matrices(std::int64_t n) { return {u(1, {n, n}), .05 * z(2, {n, n}), number(.1f)}; }

/// Seconds of tracing one new program after the other, two at least: the first of them meets caches full of
/// LLVM's data, and memory that the system has to give first.
constexpr double kTracing = 5e-3;

Case compilation(const MakeProgram& make, const Arrays& x = vector_and_scalars()) {
  const auto most = std::make_shared<double>(0);
  Case c;
  c.measure = [=](double seconds) {
    static int serial = 0;
    const auto next = [&] { return make(1 + 1e-6 * ++serial); };
    give_memory_back();
    forget_peak();
    compiled([](const Array& v) { return sin(v) * v + 1; })(u(1, {1024}));  // the backend starts
    Samples out;
    const auto begin = Clock::now();
    do {
      const auto first = Clock::now();
      for (int i = 0; i < 2 || since(first) < kTracing; ++i) {
        const Program traced = next();
        const auto start = Clock::now();
        static_cast<void>(make_jaxpr(traced)(x[0], x[1], x[2]));
        out["trace"].push_back(since(start));
      }
      const Program program = next();
      auto start = Clock::now();
      const auto f = compiled(program);
      static_cast<void>(f(x[0], x[1], x[2]));
      out["total"].push_back(since(start));
      out["compile"].push_back(last_executable().microseconds() * 1e-6);
      for (int i = 0; i < 20; ++i) {
        start = Clock::now();
        static_cast<void>(f(x[0], x[1], x[2]));
        out["steady"].push_back(since(start));
      }
    } while (since(begin) < seconds);
    *most = peak();
    return out;
  };
  c.outputs = [=] { return std::vector{output_of(compiled(make(1))(x[0], x[1], x[2]))}; };
  c.no_limit = kCompile;  // but for the metric `steady`, where its work is stated
  c.note_after = [most] { return fmt::format("peak RSS {:.0f} MB", *most); };
  c.tolerance = 1e-3;
  return c;
}

/// While it lives, the disk cache is in this folder.
class DiskCache {
 public:
  explicit DiskCache(const TemporaryFolder& folder) {
    setenv("TELAMON_CACHE_DIR", folder.path().c_str(), 1);
  }
  ~DiskCache() { setenv("TELAMON_CACHE_DIR", "none", 1); }
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;
};

Case cache_hit(const MakeProgram& make) {
  const auto folder = std::make_shared<TemporaryFolder>();
  Case c;
  c.measure = [=, x = vector_and_scalars()](double seconds) {
    const DiskCache warm(*folder);
    const auto fresh = [&] { return compiled(make(1)); };
    static_cast<void>(fresh()(x[0], x[1], x[2]));
    Samples out;
    const auto begin = Clock::now();
    const std::int64_t hits = disk_cache_counters().hits;
    do {
      const auto lowered = fresh().lower(x[0], x[1], x[2]);
      auto start = Clock::now();
      static_cast<void>(lowered.compile());
      out["time"].push_back(since(start));
      start = Clock::now();
      static_cast<void>(fresh()(x[0], x[1], x[2]));
      out["total"].push_back(since(start));
    } while (since(begin) < seconds || out["time"].size() < 5);
    const auto times = static_cast<std::int64_t>(2 * out["time"].size());
    if (disk_cache_counters().hits < hits + times) throw std::runtime_error("not found on disk");
    return out;
  };
  c.outputs = [=, x = vector_and_scalars()] {
    return std::vector{output_of(compiled(make(1))(x[0], x[1], x[2]))};
  };
  c.no_limit = kCompile;
  c.note = "found on disk by a new function";
  c.tolerance = 1e-3;
  return c;
}

/// With its limit: `work` multiply-adds for each of so many elements.
Case limited(double work, Case c, double elements = 1024) {
  return computing(2 * elements * work, std::move(c));
}

const bool sizes = [] {
  for (const std::int64_t n : {10, 100, 1000, 10'000}) {
    Register("B16.compile_" + std::to_string(n), "ms",
             [n] { return limited(straight_work(n), compilation(straight(n))); });
  }
  for (const std::int64_t n : {100, 1000, 10'000}) {
    Register("B16.cache_hit_" + std::to_string(n), "ms", [n] { return cache_hit(straight(n)); });
  }
  for (const std::int64_t n : {10, 100, 300, 475, 1000, 10'000}) {
    Register("B16.compile_grad_" + std::to_string(n), "ms",
             [n] { return limited(straight_grad_work(n), compilation(gradient(straight(n)))); });
  }
  return true;
}();
// A trip is a function, a product and a multiply-add; backwards the cosine shares the reduction of the sine.
constexpr double kTrip = kFunction + 2, kTripBack = kFunction / 2 + 2;
const Register loop("B16.unrolled_192", "ms",
                    [] { return limited(192 * kTrip, compilation(unrolled(192))); });
const Register loop_grad("B16.unrolled_192_grad", "ms", [] {
  return limited(192 * (kTrip + kTripBack), compilation(gradient(unrolled(192))));
});

const Register kernels("B16.products_330", "ms", [] {
  return limited(330 * (8 + kFunction + 1), compilation(products(330), matrices(8)), 8 * 8);
});
const Register kernels_grad("B16.products_70_grad", "ms", [] {
  constexpr double kLayer = 2 * 100 + kFunction + 3;  // a product each way
  return limited(70 * kLayer, compilation(gradient(products(70)), matrices(100)), 100 * 100);
});
const Register means("B16.row_means_200", "ms",
                     [] {  // each number is added to its row's, and reduced by it
                       return limited(200 * 2, compilation(row_means(200), matrices(100)),
                                      100 * 100);
                     });
const Register carried("B16.carries_1000", "ms", [] {
  const Arrays x = {u(1, {1000, 8}), number(.9f), number(.1f)};
  return limited(10 * (kFunction + 1), compilation(carries(1000), x), 1000 * 8);
});
const Register rotations("B16.rolls_250", "ms",
                         [] { return limited(250 * 2, compilation(rolls(250))); });
const Register turned("B16.turns_100_grad", "ms", [] {
  const Arrays x = {u(1, {32, 64}), number(.9f), number(.1f)};
  return limited(100 * (kFunction + kFunction / 2 + 1), compilation(gradient(turns(100)), x),
                 32 * 64);
});
const Register jointed("B16.joints_100", "ms", [] {
  const Arrays x = {u(1, {50, 100}), number(.9f), number(.1f)};
  return limited(100 * (kFunction * 1.5 + 27), compilation(joints(100), x), 50);
});

}  // namespace
}  // namespace bench
