// Ordinary differential equations: solutions at requested times, with gradients.
//
//   struct Ball { Array height, speed; };
//   auto fall = [](const Ball& b, Array t, Array g) { return Ball{b.speed, -g}; };
//   Ball path = tl::ode::odeint(fall, Ball{h0, v0}, tl::linspace(0.0, 1.0, 11), 9.81);
//   path.height                                            // f64[11]: one row for each time
//
// The state and the arguments are any pytrees; values that f captures are arguments too. Solutions
// work under jit, vmap and grad; see Gradient for the two ways to differentiate.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>

#include "telamon/control_flow.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace ode {

enum class Method : std::uint8_t {
  dopri5,  ///< Dormand and Prince (1980), order 5(4): steps chosen by the estimated error
  rk4,     ///< the classical method of order 4: `steps` equal steps between neighbouring times
};

/// How reverse mode goes through a solution.
enum class Gradient : std::uint8_t {
  /// Solves the adjoint equation backwards: memory does not grow with the number of steps. Accurate
  /// to the tolerances; reverse mode only.
  adjoint,
  /// Differentiates the steps that were made: exact for the computed solution, forward and reverse,
  /// in memory for `max_steps` (rk4: all) steps.
  discrete,
};

struct Options {
  Method method = Method::dopri5;
  /// A step of dopri5 is accepted when its error is below atol + rtol |y|, in the root mean square.
  /// An rtol that a leaf's dtype cannot resolve counts as the least that it can.
  double rtol = 1.4e-8, atol = 1.4e-8;
  /// dopri5: at most so many steps, rejected ones included, between two neighbouring times.
  std::int64_t max_steps = 4096;
  /// rk4: so many steps between two neighbouring times.
  std::int64_t steps = 1;
  /// Unless given: adjoint for dopri5, discrete for rk4.
  std::optional<Gradient> gradient = {};
};

}  // namespace ode

namespace detail {

/// Solutions of y' = f(y, t, args). `operands` are the leaves of y, the times, the leaves of args; f
/// takes such leaves with one time, and gives those of y'.
TELAMON_API Arrays odeint_arrays(const TracedBody& f, const TreeDef& state,
                                 std::span<const Array> operands, const ode::Options& options);

template <class F, class Y, class... Args>
auto odeint_call(F& f, const Y& y0, const Operand& ts, const ode::Options& options,
                 const Args&... args) {
  return in_call("odeint", ts.where, [&] {
    const auto bound = bind_args<F>(y0, ts.array, args...);
    using Bound = std::remove_const_t<decltype(bound)>;
    using State = std::tuple_element_t<0, Bound>;
    static_assert(std::is_same_v<std::tuple_element_t<1, Bound>, Array>,
                  "odeint: the time parameter of f(y, t, ...) must be a tl::Array");
    using Call = BodyCall<F, Bound>;
    static_assert(std::is_convertible_v<typename Call::Result, State>,
                  "odeint: f(y, t, ...) must return the derivative of y, of the type of y");
    Arrays leaves;
    constexpr const char* kNames[] = {"y0", "ts", "args"};
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (flatten_into(std::get<I>(bound), leaves, "odeint", kNames[I]), ...);
    }(std::make_index_sequence<std::tuple_size_v<Bound>>());
    Call call(f, bound, "the derivative that f returns to odeint");
    const State& state = std::get<0>(bound);
    return with_leaves(state, odeint_arrays(call.body(), tree_structure(state), leaves, options));
  });
}

}  // namespace detail

namespace ode {

/// The solution of y' = f(y, t), y(ts[0]) = y0, at the times ts, which increase or decrease: a tree
/// like y0 whose leaves have a leading axis for the times.
///
/// When dopri5 runs out of steps or its step becomes too small, the states from there to the time that
/// was not reached are NaN; and where values are known (outside jit and vmap), a ValueError says so.
template <class F, class Y>
auto odeint(F f, const Y& y0, const Operand& ts, const Options& options = {}) {
  return detail::odeint_call(f, y0, ts, options);
}
/// The same for y' = f(y, t, args).
template <class F, class Y, class Args>
auto odeint(F f, const Y& y0, const Operand& ts, const Args& args, const Options& options = {}) {
  return detail::odeint_call(f, y0, ts, options, args);
}

}  // namespace ode
}  // namespace v1
}  // namespace telamon
