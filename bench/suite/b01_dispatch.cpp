// B01: what a call costs, eager and compiled.
#include <fmt/format.h>

#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

/// A case whose time is that of the call.

const Register eager_neg("B01.eager_neg", "ns", [] {
  return call(go([](const Array& x) { return negative(x); }, number(1)));
});
const Register eager_add("B01.eager_add_16", "ns", [] {
  return call(go([](const Array& a, const Array& b) { return a + b; }, u(1, {16}), u(2, {16})));
});
const Register eager_sin("B01.eager_sin_1M", "us", [] {
  Case c = go([](const Array& x) { return sin(x); }, u(1, {1 << 20}));
  c.bytes = 8 << 20;
  return c;
});
const Register eager_grad("B01.eager_grad", "us", [] {
  Case c = call(go(grad([](const Array& x) { return sin(x) * x; }), number(1)));
  c.note = "grad(sin(x)*x), no jit";
  return c;
});
const Register jit_scalar_add("B01.jit_scalar_add", "ns", [] {
  return call(go(compiled([](const Array& x) { return x + 1; }), number(1)));
});
const Register jit_matmul_2("B01.jit_matmul_2", "ns", [] {
  return computing(16, go(compiled(dot), u(1, {2, 2}), u(2, {2, 2})));
});
const Register jit_matmul_100("B01.jit_matmul_100", "us", [] {
  Case c = go(compiled(dot), u(1, {100, 100}), u(2, {100, 100}));
  c.flops = 2e6;
  return c;
});

/// One argument of n arrays.
const bool jit_sum_args = [] {
  for (const int n : {10, 100, 1000}) {
    Register(fmt::format("B01.jit_sum_args_{}", n), "us", [n] {
      Arrays xs;
      for (int i = 0; i < n; ++i) xs.push_back(number(static_cast<float>(i)));
      const auto total = [](const Arrays& x) {
        Array s = 0;
        for (const Array& one : x) s += one;
        return s;
      };
      return call(go(compiled(total), xs));
    });
  }
  return true;
}();

}  // namespace
}  // namespace bench
