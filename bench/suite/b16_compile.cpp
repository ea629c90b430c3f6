// B16: how long programs of many operations take to trace, to compile and to run. Every program differs
// from all before it in one number, so that no cache has it.
//   trace     make_jaxpr of the function
//   compile   what the backend took of it
//   total     the first call of the jitted function, from its definition to the result in hand
//   steady    a later call
#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "programs.hpp"

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

Arrays vector_and_scalars() { return {u(1, {1024}), number(.9f), number(.1f)}; }
/// Two matrices of n columns.
Arrays matrices(std::int64_t n) { return {u(1, {n, n}), .05 * z(2, {n, n}), number(.1f)}; }

Case compilation(const MakeProgram& make, const Arrays& x = vector_and_scalars()) {
  const auto most = std::make_shared<double>(0);
  Case c;
  c.measure = [=](double seconds) {
    static int serial = 0;
    const auto next = [&] { return make(1 + 1e-6 * ++serial); };
    forget_peak();
    compiled([](const Array& v) { return sin(v) * v + 1; })(u(1, {1024}));  // the backend starts
    Samples out;
    const auto begin = Clock::now();
    do {
      const Program traced = next();
      auto start = Clock::now();
      static_cast<void>(make_jaxpr(traced)(x[0], x[1], x[2]));
      out["trace"].push_back(since(start));
      const Program program = next();
      start = Clock::now();
      const auto f = compiled(program);
      static_cast<void>(f(x[0], x[1], x[2]));
      out["total"].push_back(since(start));
      out["compile"].push_back(last_executable().microseconds() * 1e-6);
      for (int i = 0; i < 5; ++i) {
        start = Clock::now();
        static_cast<void>(f(x[0], x[1], x[2]));
        out["steady"].push_back(since(start));
      }
    } while (since(begin) < seconds);
    *most = peak();
    return out;
  };
  c.outputs = [=] { return std::vector{output_of(compiled(make(1))(x[0], x[1], x[2]))}; };
  c.note_after = [most] { return fmt::format("peak RSS {:.0f} MB", *most); };
  c.tolerance = 1e-3;
  return c;
}

const bool sizes = [] {
  for (const std::int64_t n : {10, 100, 1000, 10'000}) {
    Register("B16.compile_" + std::to_string(n), "ms", [n] { return compilation(straight(n)); });
  }
  for (const std::int64_t n : {10, 100, 300, 475, 1000, 10'000}) {
    Register("B16.compile_grad_" + std::to_string(n), "ms",
             [n] { return compilation(gradient(straight(n))); });
  }
  return true;
}();
const Register loop("B16.unrolled_192", "ms", [] { return compilation(unrolled(192)); });
const Register loop_grad("B16.unrolled_192_grad", "ms",
                         [] { return compilation(gradient(unrolled(192))); });

const Register kernels("B16.products_330", "ms",
                       [] { return compilation(products(330), matrices(8)); });
const Register kernels_grad("B16.products_70_grad", "ms",
                            [] { return compilation(gradient(products(70)), matrices(100)); });
const Register means("B16.row_means_200", "ms",
                     [] { return compilation(row_means(200), matrices(100)); });
const Register rotations("B16.rolls_250", "ms", [] { return compilation(rolls(250)); });

}  // namespace
}  // namespace bench
