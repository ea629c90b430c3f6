// minimize: from trees to one vector, what the methods share, and back.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/trace.hpp"
#include "optim/objective.hpp"
#include "telamon/indexing.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace optim {
namespace {

Array status_of(Status s) { return count(static_cast<std::int64_t>(s)); }

Array largest(const Array& gradient) { return max(abs(gradient)); }

/// The leaves one behind the other, in their common dtype.
Array joined(std::span<const Array> leaves, DType dtype) {
  Arrays flat;
  for (const Array& x : leaves) flat.push_back(ravel(x).astype(dtype));
  return concatenate(flat);
}
Arrays parted(const Array& x, std::span<const Aval> avals) {
  Arrays leaves;
  std::int64_t begin = 0;
  for (const Aval& aval : avals) {
    const std::int64_t end = begin + aval.shape.num_elements();
    leaves.push_back(x(slice(begin, end)).reshape(aval.shape).astype(aval.dtype));
    begin = end;
  }
  return leaves;
}

}  // namespace

State initial_state(const Objective& f, const Array& x0, double gtol) {
  const Point point = evaluate(f, x0);
  const Array norm = largest(point.gradient);
  const Array finite = isfinite(point.value) & isfinite(norm);
  const Array status = where(finite, where(norm <= gtol, status_of(Status::converged), kRunning),
                             status_of(Status::not_finite));
  return {point, count(0), count(1), status.astype(DType::i32)};
}

State next_state(const State& state, const LineSearch& found, const Options& options) {
  const Array converged = largest(found.point.gradient) <= options.gtol;
  const Array status =
      where(converged, status_of(Status::converged),
            where(found.succeeded, kRunning, status_of(Status::line_search_failed)));
  return {found.point, state.iterations + 1, state.evaluations + found.evaluations,
          status.astype(DType::i32)};
}

Array is_running(const State& state, std::int64_t max_iterations) {
  return (state.status == kRunning) & (state.iterations < max_iterations);
}

}  // namespace optim

namespace detail {

MinimizeResult minimize_arrays(const FlatFunction& f, std::span<const Array> x0,
                               const LeafName& leaf_name, const optim::Options& options) {
  using namespace optim;
  std::vector<Aval> avals;
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < x0.size(); ++i) {
    avals.push_back(x0[i].aval().strong());
    dtypes.push_back(x0[i].dtype());
    if (!is_float(x0[i].dtype())) {
      throw TypeError("minimize: the variables must be of floating-point dtypes, but " +
                      leaf_name(i) + " is " + x0[i].aval().to_string());
    }
  }
  if (x0.empty()) throw TypeError("minimize: there are no variables");
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    throw ValueError("minimize: " + std::string(name) + " must be at least " +
                     std::to_string(least) + ", got " + std::to_string(value));
  };
  if (options.method > Method::newton_cg) {
    throw ValueError("minimize: there is no method of number " +
                     std::to_string(static_cast<int>(options.method)));
  }
  at_least("history", options.history, 1);
  at_least("line_search_steps", options.line_search_steps, 1);
  at_least("max_iterations", options.max_iterations.value_or(0), 0);
  if (!(options.gtol >= 0))
    throw ValueError(fmt::format("minimize: gtol must not be negative, got {}", options.gtol));
  DType dtype = dtypes[0];
  for (const DType d : dtypes) dtype = promote_types({dtype, false}, {d, false}).dtype;

  const Objective objective = [&](const Array& x) {
    const Array value = f(parted(x, avals)).at(0);
    if (value.ndim() != 0 || !is_float(value.dtype()))
      throw TypeError("minimize: the function must return a real scalar, got " +
                      value.aval().to_string());
    return value.astype(dtype);
  };
  const Array start = joined(x0, dtype);
  if (start.size() == 0) throw ValueError("minimize: x0 has no elements");
  Options all = options;
  all.max_iterations = options.max_iterations.value_or(200 * start.size());

  const State first = initial_state(objective, start, options.gtol);
  constexpr std::array kMethods = {minimize_bfgs, minimize_lbfgs, minimize_newton_cg};
  const State last = kMethods.at(static_cast<std::size_t>(options.method))(objective, first, all);
  const Array status = where(last.status == kRunning,
                             count(static_cast<std::int64_t>(Status::max_iterations)), last.status);
  return {parted(last.point.x, avals),
          last.point.value,
          parted(last.point.gradient, avals),
          optim::largest(last.point.gradient),
          last.iterations,
          last.evaluations,
          status == static_cast<int>(Status::converged),
          status};
}

void check_leaves_like(const char* step, std::span<const Array> params, const char* name,
                       std::span<const Array> others,
                       const Function<KeyPath(std::size_t leaf)>& path) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Aval &p = params[i].aval(), &o = others[i].aval();
    if (!is_inexact(p.dtype)) {
      throw TypeError(std::string(step) + ": " + path(i).to_string("params") + " is " +
                      p.to_string() + ", but parameters must be of floating-point dtypes");
    }
    if (p.same_type(o)) continue;
    throw TypeError(std::string(step) + ": " + path(i).to_string(name) + " is " + o.to_string() +
                    ", but " + path(i).to_string("params") + " is " + p.to_string() + ": a " +
                    name + " must have the shape and dtype of its parameter");
  }
}

std::string status_text(const Array& status) {
  if (status.size() != 1) {
    throw TypeError("message() is of one problem, and this result is of " +
                    std::to_string(status.size()) + ", with the status " +
                    status.aval().to_string() +
                    "; take one out of it: tl::tree_map([&](Array a) { return a(i); }, result)");
  }
  switch (static_cast<optim::Status>(status.item<int>())) {
    case optim::Status::converged: return "converged: the gradient is below gtol";
    case optim::Status::max_iterations: return "max_iterations were not enough";
    case optim::Status::line_search_failed:
      return "the line search found no smaller value: the precision may be exhausted, or the "
             "gradient wrong";
    case optim::Status::not_finite:
      return "the function or its gradient is not finite at the start";
  }
  throw ValueError("minimize: no status of number " + status.to_string());
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
