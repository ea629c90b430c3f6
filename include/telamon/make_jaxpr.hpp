// make_jaxpr and eval_shape: tracing without computing.
#pragma once

#include <utility>

#include "telamon/detail/call.hpp"
#include "telamon/detail/located.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {

namespace detail {

template <class F>
class JaxprMaker {
 public:
  JaxprMaker(F f, SourceLocation where) : f_(std::move(f)), where_(where) {}
  template <class... X>
  ClosedJaxpr operator()(const X&... x) const {
    return in_transform("make_jaxpr", where_, [&] {
      const auto args = bind_args<F>(x...);
      Arrays leaves;
      flatten_into(args, leaves, "make_jaxpr", "args");
      TreeCall call(*f_, args);
      return stage_arrays(call.flat(), leaves, "make_jaxpr");
    });
  }

 private:
  Callee<F> f_;
  SourceLocation where_;
};

struct EvalShape {
  template <class F, class... X>
  static auto call(SourceLocation where, F f, const X&... x) {
    return in_transform("eval_shape", where, [&] {
      const auto args = bind_args<F>(x...);
      Arrays leaves;
      flatten_into(args, leaves, "eval_shape", "args");
      TreeCall call(f, args);
      const ClosedJaxpr closed = stage_arrays(call.flat(), leaves, "eval_shape");
      return call.result(placeholders(closed.jaxpr.out_avals()));
    });
  }
};

}  // namespace detail

/// The program that f traces to, for arguments of these shapes and dtypes:
///   std::cout << tl::make_jaxpr(tl::grad(f))(3.0);
template <class F>
auto make_jaxpr(F f, SourceLocation where = SourceLocation::current()) {
  return detail::JaxprMaker<F>(std::move(f), where);
}

/// The result of f as placeholders: the right structure, shapes and dtypes, nothing computed, and
/// no storage to speak of:  auto y = tl::eval_shape(f, x...);
inline constexpr detail::Located<detail::EvalShape> eval_shape{};

}  // namespace v1
}  // namespace telamon
