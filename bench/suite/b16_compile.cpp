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

Case compilation(const MakeProgram& make) {
  const Arrays x = {u(1, {1024}), number(.9f), number(.1f)};
  const auto most = std::make_shared<double>(0);
  Case c;
  c.measure = [=](double seconds) {
    static int serial = 0;
    const auto next = [&] { return make(1 + 1e-6 * ++serial); };
    forget_peak();
    compiled([](const Array& v) { return sin(v) * v + 1; })(x[0]);  // the backend starts
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

}  // namespace
}  // namespace bench
