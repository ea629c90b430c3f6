// B17: small functions, where the call costs more than the work; trees of arguments; tracing.
#include <array>

#include "models.hpp"
#include "programs.hpp"

namespace bench {
namespace {

using namespace telamon;

/// A case whose time is that of the call.

// x - e sin x = M for x, by Newton's iteration; lanes finish apart.
Array kepler(const Array& e, const Array& M) {
  using State = std::pair<Array, Array>;
  const auto more = [](const State& s) { return abs(s.second) > 1e-10; };
  const auto step = [&](const State& s) {
    const Array& x = s.first;
    const Array d = (x - e * sin(x) - M) / (1 - e * cos(x));
    return State{x - d, d};
  };
  return while_loop(more, step, State{M, ones_like(M)}).first;
}
const Register while_newton("B17.while_newton", "us", [] {
  // For these numbers 4.37 trips on average, each of two functions that share a reduction, a division and five more.
  constexpr double kTrip = 1.5 * kFunction + 6;
  Case c = go(compiled(vmap(kepler)), .9 * u64(1, {4096}), 6.28 * u64(2, {4096}));
  c.flops = 2 * 4.37 * kTrip * 4096;
  return per(1, std::move(c), "4096 lanes, f64");
});

// ---- small functions -----------------------------------------------------------------------------
Array chain_sum(const Array& x) { return sum(chain10(x)); }
Array rosenbrock(const Array& x) {
  const Array next = x(slice(1, none)), here = x(slice(none, -1));
  return sum(100 * square(next - square(here)) + square(1 - here));
}
Array lorenz96(const Array& x) { return (roll(x, -1) - roll(x, 2)) * roll(x, 1) - x + 8; }

const Register small_jit("B17.small_jit_10", "ns",
                         [] { return call(go(compiled(chain10), u(1, {16}))); });
const Register small_jit_grad("B17.small_jit_10_grad", "ns", [] {
  return call(go(compiled(value_and_grad(chain_sum)), u(1, {16})));
});
const Register grad_small("B17.grad_small", "ns", [] {
  return call(per(1, go(compiled(grad(rosenbrock)), u64(1, {10})), "Rosenbrock's function, f64"));
});
const Register hessian_small("B17.hessian_small", "ns", [] {
  return call(
      per(1, go(compiled(hessian(rosenbrock)), u64(1, {10})), "Rosenbrock's function, f64"));
});
const Register forward("B17.jacfwd", "ns", [] {
  Case c = moving(8 * 40 * 40, go(compiled(jacfwd(lorenz96)), z64(1, {40})));
  return per(1, std::move(c), "Lorenz-96, n = 40, f64");
});
const Register reverse("B17.jacrev", "ns", [] {
  Case c = moving(8 * 40 * 40, go(compiled(jacrev(lorenz96)), z64(1, {40})));
  return per(1, std::move(c), "Lorenz-96, n = 40, f64");
});

// ---- arguments of many leaves --------------------------------------------------------------------
template <class T>
Case incremented(T tree) {
  const auto f = [](const T& t) { return tree_map([](const Array& x) { return x + 1; }, t); };
  return call(go(compiled(f), std::move(tree)));
}
const bool leaves = [] {
  for (const int n : {1, 10, 100, 1000}) {
    Register("B17.jit_leaves_" + std::to_string(n), n == 1 ? "ns" : "us", [n] {
      std::vector<Array> xs;
      for (int i = 0; i < n; ++i) xs.push_back(number(static_cast<float>(i)));
      return incremented(xs);
    });
  }
  return true;
}();

struct Parameters {
  std::array<Array, 3> w;
  std::array<Array, 2> b;
};
struct Moments {
  std::array<Array, 3> m, v;
};
struct Training {
  Parameters params;
  Moments opt;
  Array step;
};
const Register jit_struct("B17.jit_struct", "ns", [] {
  const auto x = [](unsigned seed) { return u(seed, {16}); };
  const Training state{
      {{x(1), x(2), x(3)}, {x(4), x(5)}}, {{x(6), x(7), x(8)}, {x(9), x(10), x(11)}}, number(1)};
  return per(1, incremented(state), "12 leaves");
});

// ---- tracing -------------------------------------------------------------------------------------
/// A new function of 1000 operations is traced each time.
template <class Transform>
Case fresh_trace(Transform transform) {
  const Array x = u(1, {1024});
  Case c;
  c.no_limit = "trace";
  c.call = [=] {
    const auto f = straight_program(1000);
    static_cast<void>(make_jaxpr(transform([&](const Array& v) { return f(v); }))(x));
  };
  const std::size_t equations = make_jaxpr(straight_program(1000))(x).jaxpr.eqns().size();
  c.note =
      "a new function of 1000 operations, which are " + std::to_string(equations) + " equations";
  return c;
}
const Register trace_us("B17.trace_us", "us", [] { return fresh_trace([](auto f) { return f; }); });
const Register grad_trace_us("B17.grad_trace_us", "us", [] {
  return fresh_trace([](auto f) { return grad([f](const Array& x) { return sum(f(x)); }); });
});
const Register vmap_trace_us("B17.vmap_trace_us", "us",
                             [] { return fresh_trace([](auto f) { return vmap(f); }); });

const Register eager_grad("B17.eager_grad_100", "us", [] {
  const auto total = [f = straight_program(100)](const Array& x) { return sum(f(x)); };
  return call(per(1, go(grad(total), u(1, {16})), "100 operations on 16 elements, no jit"));
});

}  // namespace
}  // namespace bench
