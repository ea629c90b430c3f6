// The interpreters' entry points, type-erased: flat lists of arrays in, flat lists out. The public
// transformations flatten their arguments, call these and unflatten.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/avals.hpp"
#include "telamon/detail/flat.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

// ---- jvp.cpp -----------------------------------------------------------------------------------
JvpResult jvp_flat(const FlatFunction& f, std::span<const Array> primals,
                   std::span<const Tangent> tangents, std::string name = {});
/// The program (primals, nonzero tangents) -> (primals out, tangents out). A result's tangent is
/// present when it is not zero or when `instantiate_out` asks for it.
struct JvpJaxpr {
  Jaxpr jaxpr;
  std::vector<bool> nonzero_out;
};
std::shared_ptr<const JvpJaxpr> jvp_jaxpr(const Jaxpr& jaxpr, const std::vector<bool>& nonzero_in,
                                          const std::vector<bool>& instantiate_out);

// ---- batch.cpp ---------------------------------------------------------------------------------
/// Maps f over `in_axes`; results are moved (or broadcast) to `out_axes`; an out axis of nullopt
/// for a mapped result is a ValueError.
Arrays vmap_flat(const FlatFunction& f, const AxisInfo& axis, std::span<const Array> args,
                 std::span<const BatchAxis> in_axes,
                 const std::function<std::vector<BatchAxis>(std::size_t)>& out_axes,
                 std::string name = {});
/// The same with the results' batch axes where they come to lie.
BatchResult batch_flat(const FlatFunction& f, const AxisInfo& axis, std::span<const Array> args,
                       std::span<const BatchAxis> in_axes, std::string name);
struct BatchJaxpr {
  Jaxpr jaxpr;
  std::vector<BatchAxis> out_axes;
};
/// The mapped program. `forced_out[i]`: result i gets batch axis 0 even if it is not mapped.
std::shared_ptr<const BatchJaxpr> batch_jaxpr(const Jaxpr& jaxpr, const AxisInfo& axis,
                                              const std::vector<BatchAxis>& in_axes,
                                              const std::vector<bool>& forced_out);
/// Moves axis `from` of x to `to` (a transpose; none when equal).
Array move_axis(const Array& x, int from, int to);
/// x with its batch axis at 0; broadcasts when it is not mapped.
Array batch_at_front(const Array& x, BatchAxis axis, std::int64_t size);

// ---- stage.cpp ---------------------------------------------------------------------------------
/// Traces f at the given avals into a jaxpr whose leading inputs are what f captured.
/// `captured_tracer` (optional) tells whether a captured value was a tracer.
ClosedJaxpr stage_flat(const FlatFunction& f, std::span<const Aval> avals, std::string name = {});

// ---- partial_eval.cpp --------------------------------------------------------------------------
/// Splits a jaxpr by which inputs are unknown.
///   known:  known inputs -> known results, fresh residuals
///   staged: residuals, unknown inputs -> unknown results
struct PartialEvalJaxpr {
  Jaxpr known, staged;
  std::vector<bool> unknown_out;
  std::vector<Residual> residuals;
  std::vector<Aval> fresh_avals;
};
std::shared_ptr<const PartialEvalJaxpr> partial_eval_jaxpr(
    const Jaxpr& jaxpr, const std::vector<bool>& unknown_in,
    const std::vector<bool>& instantiate_out);
/// The same under a policy, not remembered: a policy has no name to remember it by.
std::shared_ptr<const PartialEvalJaxpr> split_jaxpr(const Jaxpr& jaxpr,
                                                    const std::vector<bool>& unknown_in,
                                                    const std::vector<bool>& instantiate_out,
                                                    const Policy& policy);
/// Splits the body of a loop: what does not change from step to step is known, but no equation with
/// an effect is, for it happens in each step.
std::shared_ptr<const PartialEvalJaxpr> hoist_jaxpr(const Jaxpr& jaxpr,
                                                    const std::vector<bool>& changes,
                                                    const std::vector<bool>& instantiate_out);

/// f at the values that are known and, in place of the others, at unknown ones of these types.
struct PartiallyEvaluated {
  std::vector<std::optional<Array>> known_out;  ///< nullopt: a result of the program, in order
  Jaxpr jaxpr;                                  ///< consts, unknown inputs -> unknown results
  Arrays consts;
};
PartiallyEvaluated partial_eval_flat(const FlatFunction& f,
                                     std::span<const std::optional<Array>> values,
                                     std::span<const Aval> avals, std::string name = {});

struct Linearized {
  Arrays primals_out;
  /// (consts, tangents of the inputs) -> tangents of those results that have one.
  Jaxpr jaxpr;
  Arrays consts;
  std::vector<bool> nonzero_out;
};
/// Inputs of float0 tangent take no tangent (they do not appear in the jaxpr).
Linearized linearize_flat(const FlatFunction& f, std::span<const Array> primals,
                          std::string name = {});

// ---- transpose.cpp -----------------------------------------------------------------------------
/// Runs a program backwards that is linear in those inputs that are empty: cotangents of the results in,
/// one cotangent per linear input out. The other inputs are held by who calls.
std::vector<Tangent> backward_pass(const Jaxpr& jaxpr, std::span<const Array> inputs,
                                   std::span<const Tangent> cts);
/// The transposed program: (known inputs, nonzero cotangents) -> cotangents of the linear inputs
/// that are not zero.
struct TransposedJaxpr {
  Jaxpr jaxpr;
  std::vector<bool> nonzero_in_ct;  ///< per linear input
};
std::shared_ptr<const TransposedJaxpr> transpose_jaxpr(const Jaxpr& jaxpr,
                                                       const std::vector<bool>& linear_in,
                                                       const std::vector<bool>& zero_cts);
/// Adds two cotangents, either of which may be zero.
Tangent add_tangents(const Tangent& a, const Tangent& b);

// ---- derive.cpp --------------------------------------------------------------------------------
/// Fills in rules that follow from an `ops` lowering.
void derive_missing_rules(RuleTable& table);

/// "0110": the text of a mask in memo keys.
std::string mask_text(const std::vector<bool>& mask);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
