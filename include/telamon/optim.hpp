// Optimisation: minima of functions of any pytree, and the update rules that training loops use.
//
//   auto result = tl::optim::minimize(loss, model);              // BFGS
//   result.x; result.value; result.success; result.message();
//
//   auto [next, state] = tl::optim::adam_step(params, gradient, state, 1e-3);
//
// minimize works under jit and vmap. Reverse mode does not go through it: it is a loop without bound. For the
// derivative of a minimum, give gradient = 0 to custom_root, with minimize as solver (docs/how-to/equations.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "telamon/detail/call.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace optim {

enum class Method : std::uint8_t {
  bfgs,       ///< an estimate of the inverse Hessian: a matrix, so for few variables
  lbfgs,      ///< the same from the last `history` steps: for many variables
  newton_cg,  ///< Newton's method, its equations solved by conjugate gradients with products H v
};

struct Options {
  Method method = Method::bfgs;
  /// Converged when no component of the gradient is larger.
  double gtol = 1e-5;
  std::optional<std::int64_t> max_iterations = {};  ///< default: 200 for each variable
  std::int64_t line_search_steps = 20;              ///< evaluations in one line search
  std::int64_t history = 10;                        ///< of lbfgs
};

/// Why minimize ended.
enum class Status : std::int32_t {
  converged,
  max_iterations,      ///< they were used up
  line_search_failed,  ///< no smaller value was found: often the limit of the precision
  not_finite,          ///< value or gradient is infinite or NaN where it started
};

/// A pytree like any other: minimize can be jitted and mapped.
template <class X>
struct Result {
  X x;
  Array value;        ///< f(x)
  X gradient;         ///< at x
  Array grad_norm;    ///< the largest component of the gradient
  Array iterations;   ///< i32
  Array evaluations;  ///< i32: of f and its gradient
  Array success;      ///< bool: converged
  Array status;       ///< i32, a Status

  /// The status in words; needs the concrete result of one problem: vmap gives one status for each.
  std::string message(SourceLocation where = SourceLocation::current()) const;
};

}  // namespace optim

namespace detail {

struct MinimizeResult {
  Arrays x;
  Array value;
  Arrays gradient;
  Array grad_norm, iterations, evaluations, success, status;
};
TELAMON_API MinimizeResult minimize_arrays(const FlatFunction& f, std::span<const Array> x0,
                                           const LeafName& leaf_name,
                                           const optim::Options& options);
TELAMON_API std::string status_text(const Array& status);
/// TypeError, which names the leaf, where a gradient, or a velocity, has another shape or dtype than its parameter,
/// or that is no float.
TELAMON_API void check_leaves_like(const char* step, std::span<const Array> params,
                                   const char* name, std::span<const Array> others,
                                   const Function<KeyPath(std::size_t leaf)>& path);

/// The same of trees, and where they differ, or a leaf is empty.
template <class P>
void check_like(const char* step, const P& params, const char* name, const P& others) {
  Arrays p, o;
  flatten_into(params, p, step, "params");
  flatten_into(others, o, step, name);
  check_same_structure(std::string(step) + ": params and " + name, params, others);
  check_leaves_like(step, p, name, o,
                    [&](std::size_t i) { return tree_structure(params).leaf_paths()[i]; });
}

}  // namespace detail

namespace optim {

template <class X>
std::string Result<X>::message(SourceLocation where) const {
  return detail::in_call("message()", where, [&] {
    detail::check_no_empty_leaf(status, "message()", "status");
    return detail::status_text(status);
  });
}

/// A minimum of the scalar-valued f(x) near x0. Each iteration searches along a direction for a point
/// that fulfils the strong Wolfe conditions.
///   auto best = tl::jit([&](Model m) { return tl::optim::minimize(loss, m); })(model);
template <class F, class X>
auto minimize(F f, const X& x0, const Options& options = {},
              SourceLocation where = SourceLocation::current()) {
  return detail::in_call("minimize", where, [&] {
    const auto args = bind_args<F>(x0);
    using Variables = std::tuple_element_t<0, std::remove_const_t<decltype(args)>>;
    static_assert(std::is_convertible_v<result_of<F, X>, Array>,
                  "minimize needs a function that returns one scalar Array");
    Arrays leaves;
    const Variables& start = std::get<0>(args);
    detail::flatten_into(start, leaves, "minimize", "x0");
    detail::TreeCall call(f, args);
    detail::MinimizeResult out =
        detail::minimize_arrays(call.flat(), leaves, detail::leaf_names(start, "x0"), options);
    return Result<Variables>{detail::with_leaves(start, out.x),
                             std::move(out.value),
                             detail::with_leaves(start, out.gradient),
                             std::move(out.grad_norm),
                             std::move(out.iterations),
                             std::move(out.evaluations),
                             std::move(out.success),
                             std::move(out.status)};
  });
}

// ---- update rules ------------------------------------------------------------------------------
// Gradients must be like the parameters: a TypeError names the leaf of another shape or dtype.

/// x - rate * gradient.
template <class P>
P sgd_step(const P& params, const P& gradient, const Operand& rate) {
  return detail::in_call("sgd_step", rate.where, [&] {
    detail::check_like("sgd_step", params, "gradient", gradient);
    detail::check_no_empty_leaf(rate.array, "sgd_step", "rate");
    return tree_map([&](const Array& p, const Array& g) { return p - rate.array * g; }, params,
                    gradient);
  });
}
/// With momentum: velocity = momentum * velocity + gradient, x - rate * velocity. Gives the next
/// parameters and the next velocity, which starts at zero.
template <class P>
std::pair<P, P> sgd_step(const P& params, const P& gradient, const P& velocity, const Operand& rate,
                         const Operand& momentum = 0.9) {
  return detail::in_call("sgd_step", rate.where, [&]() -> std::pair<P, P> {
    detail::check_like("sgd_step", params, "gradient", gradient);
    detail::check_like("sgd_step", params, "velocity", velocity);
    detail::check_no_empty_leaf(rate.array, "sgd_step", "rate");
    detail::check_no_empty_leaf(momentum.array, "sgd_step", "momentum");
    P next = tree_map([&](const Array& v, const Array& g) { return momentum.array * v + g; },
                      velocity, gradient);
    P moved =
        tree_map([&](const Array& p, const Array& v) { return p - rate.array * v; }, params, next);
    return {std::move(moved), std::move(next)};
  });
}

/// The method Adam (Kingma and Ba, 2015): steps by running averages of gradients, scaled by those of
/// their squares.
struct AdamOptions {
  double mean_decay = 0.9, square_decay = 0.999, epsilon = 1e-8;
};
template <class P>
struct AdamState {
  P mean, square;
  Array step;  ///< f64: the steps so far
};
template <class P>
AdamState<P> adam_init(const P& params, SourceLocation where = SourceLocation::current()) {
  return detail::in_call("adam_init", where, [&]() -> AdamState<P> {
    detail::check_no_empty_leaf(params, "adam_init", "params");
    const P zero = tree_map([](const Array& p) { return zeros_like(p); }, params);
    return {zero, zero, zeros({}, DType::f64)};
  });
}
/// The next parameters and the next state.
template <class P>
std::pair<P, AdamState<P>> adam_step(const P& params, const P& gradient, const AdamState<P>& state,
                                     const Operand& rate, const AdamOptions& options = {}) {
  return detail::in_call("adam_step", rate.where, [&]() -> std::pair<P, AdamState<P>> {
    detail::check_like("adam_step", params, "gradient", gradient);
    detail::check_no_empty_leaf(state, "adam_step", "state");
    detail::check_like("adam_step", params, "state.mean", state.mean);
    detail::check_like("adam_step", params, "state.square", state.square);
    detail::check_no_empty_leaf(rate.array, "adam_step", "rate");
    const auto average = [](double decay) {
      return [decay](const Array& a, const Array& x) { return decay * a + (1 - decay) * x; };
    };
    AdamState<P> next;
    next.step = state.step + 1.0;
    next.mean = tree_map(average(options.mean_decay), state.mean, gradient);
    next.square = tree_map(average(options.square_decay), state.square,
                           tree_map([](const Array& g) { return telamon::square(g); }, gradient));
    // The averages start at zero; dividing by 1 - decay^step makes up for it.
    const Array mean_scale = 1.0 / (1.0 - power(options.mean_decay, next.step));
    const Array square_scale = 1.0 / (1.0 - power(options.square_decay, next.step));
    const auto descend = [&](const Array& p, const Array& m, const Array& v) {
      const Array mean = m * mean_scale.astype(p.dtype());
      const Array size = sqrt(v * square_scale.astype(p.dtype())) + options.epsilon;
      return p - (rate.array * mean / size).astype(p.dtype());
    };
    P moved = tree_map(descend, params, next.mean, next.square);
    return {std::move(moved), std::move(next)};
  });
}

}  // namespace optim
}  // namespace v1
}  // namespace telamon
