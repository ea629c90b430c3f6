// The type-erased halves of telamon/custom.hpp: what the primitives carry, over flat lists of arrays.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "telamon/detail/flat.hpp"
#include "telamon/detail/rule_handle.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// (primals, tangents) -> (results, their tangents).
using FlatJvpRule = Function<JvpResult(std::span<const Array>, std::span<const Tangent>)>;
using JvpRule = RuleHandle<FlatJvpRule>;
/// (residuals, cotangents of the results) -> cotangents of the arguments.
using FlatBackward =
    Function<std::vector<Tangent>(std::span<const Array>, std::span<const Tangent>)>;
using VjpBackward = RuleHandle<FlatBackward>;
/// arguments -> (results, residuals), and the rule that takes these residuals.
struct ForwardResult {
  Arrays results, residuals;
  VjpBackward bwd;
};
using FlatForward = Function<ForwardResult(std::span<const Array>)>;
using VjpForward = RuleHandle<FlatForward>;

/// A call in final style: functions that live as long as the call.
struct CustomJvpCall {
  std::string name;
  bool symbolic_zeros = false;
  FlatFunction fun;
  FlatJvpRule rule;
  Function<JvpRule()> durable;  ///< the rule for a program
};
struct CustomVjpCall {
  std::string name;
  bool symbolic_zeros = false;
  FlatFunction fun;
  FlatForward fwd;
  Function<VjpForward()> durable;
};
TELAMON_API Arrays custom_jvp_arrays(const CustomJvpCall& call, std::span<const Array> args);
TELAMON_API Arrays custom_vjp_arrays(const CustomVjpCall& call, std::span<const Array> args);

/// Tangents as a rule takes them: zeros as arrays or, when symbolic, as empty handles. TypeError when
/// a leaf that is not differentiable has a tangent.
TELAMON_API Arrays rule_tangents(const std::string& name, std::span<const Tangent> tangents,
                                 const std::vector<bool>& differentiable, bool symbolic_zeros);
/// What a jvp rule returned, checked; empty tangents are zeros.
TELAMON_API JvpResult custom_jvp_result(const std::string& name, Arrays results, Arrays tangents);
/// What a bwd rule returned, checked against the arguments; empty cotangents are zeros.
TELAMON_API std::vector<Tangent> custom_vjp_cotangents(const std::string& name,
                                                       const std::vector<Aval>& arguments,
                                                       std::span<const Array> given,
                                                       const std::vector<bool>& differentiated,
                                                       const LeafName& leaf_name);

}  // namespace detail

/// A call of a function that brings its derivative. In programs it carries its body (whose first
/// `num_consts` operands are what the function captured) and its rule, a C++ function.
struct CustomJvpParams {
  Jaxpr call_jaxpr;
  detail::JvpRule jvp;  ///< None: the body is differentiated
  std::string name;
  int num_consts = 0;
  bool symbolic_zeros = false;
  const detail::CustomJvpCall* call = nullptr;  ///< in final style, instead of body and rule
};
extern TELAMON_API const Primitive<CustomJvpParams> custom_jvp_call_p;

struct CustomVjpParams {
  Jaxpr call_jaxpr;
  detail::VjpForward fwd;  ///< None: the body is differentiated
  std::string name;
  int num_consts = 0;
  bool symbolic_zeros = false;
  const detail::CustomVjpCall* call = nullptr;
};
extern TELAMON_API const Primitive<CustomVjpParams> custom_vjp_call_p;

/// The tangent map of a custom_vjp function, of which only the transpose is known. Operands:
/// residuals, then the tangents of those arguments that `nonzero` marks.
struct CustomLinParams {
  detail::VjpBackward bwd;
  std::string name;
  int num_res = 0;
  std::vector<bool> nonzero;
  std::vector<Shape> out_shapes;  ///< of all results of the function
  std::vector<DType> out_dtypes;  ///< of their tangents: float0 has no result here
};
extern TELAMON_API const Primitive<CustomLinParams> custom_lin_p;

}  // namespace v1
}  // namespace telamon
