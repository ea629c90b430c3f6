// What primitives share that call a program and bring rules of their own.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "interpreters/program_calls.hpp"
#include "telamon/detail/custom_calls.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The transpose of a program that is linear in the operands that are; a jit equation.
std::vector<Tangent> transpose_program(const Jaxpr& jaxpr, const std::string& name,
                                       std::span<const Tangent> cts,
                                       std::span<const LinearInput> inputs);

/// "vmap:3:i:0,-," : how a rule was mapped, in the keys of mapped rules.
std::string batch_key(const AxisInfo& axis, std::span<const BatchAxis> axes);

/// A rule of one example as the rule of a batch: operands mapped along `axes`, results at axis 0.
JvpRule batched_rule(const JvpRule& rule, const AxisInfo& axis, std::vector<BatchAxis> axes);
VjpForward batched_rule(const VjpForward& rule, const AxisInfo& axis, std::vector<BatchAxis> axes);
/// Residuals mapped along `residual_axes`, cotangents of results at axis 0; those of arguments come
/// at `argument_axes`, and are summed over the batch where the argument is not mapped.
VjpBackward batched_rule(const VjpBackward& rule, const AxisInfo& axis,
                         std::vector<BatchAxis> residual_axes,
                         std::vector<BatchAxis> argument_axes);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
