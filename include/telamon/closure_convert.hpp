// closure_convert: makes arguments of what a function captured.
#pragma once

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "telamon/detail/call.hpp"
#include "telamon/detail/linear_call.hpp"
#include "telamon/detail/located.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// What closure_convert makes: f with the hoisted values as a further argument.
template <class Result, class Args>
class Converted;
template <class Result, class... A>
class Converted<Result, std::tuple<A...>> {
 public:
  /// Without the default argument, for transformations.
  using signature = Result(const A&..., const std::vector<Array>&);

  Converted(ConvertedClosure closure, Result prototype)
      : closure_(std::make_shared<const ConvertedClosure>(std::move(closure))),
        prototype_(std::move(prototype)) {}
  // No moves: a moved-from one is a copy, and stays valid.
  Converted(const Converted&) = default;
  Converted& operator=(const Converted&) = default;
  Result operator()(const A&... args, const std::vector<Array>& hoisted,
                    SourceLocation where = SourceLocation::current()) const {
    return in_call("closure_convert", where, [&] {
      Arrays leaves;
      flatten_into(std::tuple<A...>(args...), leaves, "the function that closure_convert made",
                   "args");
      return with_leaves(prototype_, closure_->call(leaves, hoisted));
    });
  }

 private:
  std::shared_ptr<const ConvertedClosure> closure_;
  Result prototype_;
};

struct ClosureConvert {
  template <class F, class... X>
  static auto call(SourceLocation where, F f, const X&... example) {
    return in_transform("closure_convert", where, [&] {
      const auto args = bind_args<F>(example...);
      using Args = std::remove_const_t<decltype(args)>;
      using Result = ReturnedBy<F, Args>;
      Arrays leaves;
      flatten_into(args, leaves, "closure_convert", "args");
      TreeCall call(f, args);
      ConvertedClosure closure = convert_closure(call.flat(), leaves);
      std::vector<Array> hoisted = closure.hoisted;
      closure.hoisted.clear();
      return std::pair{Converted<Result, Args>(std::move(closure), call.prototype()),
                       std::move(hoisted)};
    });
  }
};

}  // namespace detail

/// f with what it captured made explicit, so that it can be differentiated with respect to it:
///   auto [g, hoisted] = tl::closure_convert(f, x);      // x: an example of the argument
///   g(x, hoisted) == f(x)
/// Hoisted are the traced floating-point values; f is traced for this.
inline constexpr detail::Located<detail::ClosureConvert> closure_convert{};

}  // namespace v1
}  // namespace telamon
