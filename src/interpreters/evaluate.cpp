// Evaluation: the interpreter at the bottom of the stack. It has no tracers; a primitive is applied
// by its `impl` rule to concrete arrays.
//
// The rule runs with the interpreter stack set aside: it may call library functions, and those must
// be evaluated too, even while a trace is under way above.
#include "core/nans.hpp"
#include "core/rule_results.hpp"
#include "core/trace.hpp"
#include "runtime/profile.hpp"
#include "telamon/debug.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

namespace {

Arrays apply(const PrimitiveBase& primitive, const Params& params, std::span<const Array> args) {
  const auto& impl = primitive.rules().impl;
  if (!impl) missing_rule(primitive, "impl");
  if (!tracing_under_way()) return impl(params, args);
  const EvalScope scope;
  return impl(params, args);
}

}  // namespace

Arrays evaluate(const PrimitiveBase& primitive, const Params& params, std::span<const Array> args) {
  const runtime::ProfileSpan span("eager", [&] { return primitive.name(); });
  Arrays results = apply(primitive, params, args);
  if (are_unusable(results)) {
    const std::vector<Aval> operands = result_avals(args), given = result_avals(results);
    const EvalScope scope;
    compare_with_abstract_eval(primitive, ResultOf::impl, params, operands, given);
  }
  if (debug_nans()) refuse_nan(primitive, args, results);
  return results;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
