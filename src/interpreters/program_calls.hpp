// The rules of primitives that call one program (jit, checkpoint, the bodies of custom calls): each
// transforms the program and binds the primitive again with the result.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "interpreters/interpreters.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Binds the primitive with another program.
using Rebind = std::function<Arrays(const Jaxpr& program, const Arrays& args)>;

/// The avals of the results, after a check of the operands; `what` names the primitive.
AbstractResult type_of_call(const char* what, const Jaxpr& program, std::span<const Aval> in);
JvpResult jvp_of_call(const Jaxpr& program, std::span<const Array> primals,
                      std::span<const Tangent> tangents, const Rebind& bind);
BatchResult batch_of_call(const Jaxpr& program, const AxisInfo& axis, std::span<const Array> args,
                          std::span<const BatchAxis> axes, const Rebind& bind);
/// The program is linear in the operands that are.
std::vector<Tangent> transpose_of_call(const Jaxpr& program, std::span<const Tangent> cts,
                                       std::span<const LinearInput> inputs, const Rebind& bind);

/// Tangents with the zeros taken out, and where they were.
struct DenseTangents {
  Arrays arrays;
  std::vector<bool> nonzero;
};
DenseTangents dense_tangents(std::span<const Tangent> tangents);
/// The inverse: `avals` are those of the values that the tangents belong to.
std::vector<Tangent> sparse_tangents(std::span<const Array> arrays,
                                     const std::vector<bool>& nonzero,
                                     const std::vector<Aval>& avals);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
