// linear_call: a linear function with its transpose.
#pragma once

#include <optional>
#include <type_traits>

#include "telamon/detail/call.hpp"
#include "telamon/detail/linear_call.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {

/// f(residuals, x), which is linear in x, with its transpose given:
/// transpose(residuals, cotangent) -> cotangent of x. Residuals, x and results are any trees.
template <class F, class Transpose, class Residuals, class X>
auto linear_call(F f, Transpose transpose, const Residuals& residuals, const X& x,
                 SourceLocation where = SourceLocation::current()) {
  return detail::in_transform("linear_call", where, [&] {
    using Result = std::decay_t<std::invoke_result_t<F&, const Residuals&, const X&>>;
    static_assert(std::is_invocable_r_v<X, Transpose&, const Residuals&, const Result&>,
                  "linear_call: the transpose must take the residuals and a cotangent of the "
                  "function's result type, and return a cotangent of the linear argument's type");
    if (detail::is_null_function(f) || detail::is_null_function(transpose))
      detail::null_function_error();
    Arrays res, linear;
    detail::flatten_into(residuals, res, "linear_call", "residuals");
    detail::flatten_into(x, linear, "linear_call", "x");
    std::optional<Result> prototype;
    const auto forward = [&](std::span<const Array> xs) {
      const Result y = f(detail::with_leaves(residuals, xs.first(res.size())),
                         detail::with_leaves(x, xs.subspan(res.size())));
      prototype.emplace(detail::without_leaves(y));
      Arrays results;
      detail::flatten_into(y, results, "the function of linear_call");
      return results;
    };
    const auto backward = [&](std::span<const Array> xs) {
      const X ct = transpose(detail::with_leaves(residuals, xs.first(res.size())),
                             detail::with_leaves(*prototype, xs.subspan(res.size())));
      Arrays cotangents;
      detail::flatten_into(ct, cotangents, "the transpose of linear_call");
      return cotangents;
    };
    const Arrays outs = detail::linear_call_arrays(forward, backward, res, linear);
    return detail::with_leaves(*prototype, outs);
  });
}

}  // namespace v1
}  // namespace telamon
