// Evaluation of elementwise primitives by the eager kernels, and their usual lowerings.
#include "primitives/elementwise.hpp"

#include <array>

#include "core/check.hpp"
#include "core/result_place.hpp"

namespace telamon {
inline namespace v1 {
namespace families {

kernels::View view_of(const Array& x) {
  return {reinterpret_cast<char*>(detail::concrete_node(x).data()), x.dtype(), x.shape(),
          detail::byte_strides(x)};
}

Array run_kernel(Op op, DType dtype, const Aval& out, std::span<const Array> x,
                 const void* params) {
  TELAMON_CHECK(x.size() <= kernels::kMaxOperands, "an eager kernel has at most three operands");
  Array result = detail::make_result(out);
  std::array<kernels::View, kernels::kMaxOperands> in;
  for (std::size_t i = 0; i < x.size(); ++i) in[i] = view_of(x[i]);
  kernels::run_elementwise(op, dtype, {in.data(), x.size()}, view_of(result), params);
  return result;
}

Lowering math(const char* name, int cycles) {
  return {Lowering::Element{[name](Emitter& e, const Params&, std::span<const Scalar> x) {
            return Scalars{e.math(name, x)};
          }},
          {cycles, 0}};
}
Lowering emit(Scalar (Emitter::*instruction)(Scalar)) {
  return element([instruction](Emitter& e, Scalar x) { return (e.*instruction)(x); });
}
Lowering emit(Scalar (Emitter::*instruction)(Scalar, Scalar)) {
  return element([instruction](Emitter& e, Scalar x, Scalar y) { return (e.*instruction)(x, y); });
}
Lowering emit(Compare how) {
  return element([how](Emitter& e, Scalar x, Scalar y) { return e.compare(how, x, y); });
}
Lowering emit_operand() {
  return element([](Emitter&, Scalar x) { return x; });
}

DType unsigned_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return DType::u8;
    case 2: return DType::u16;
    case 4: return DType::u32;
    default: return DType::u64;
  }
}
Scalar as_dtype(Emitter& e, Scalar x, DType dtype) {
  return x.dtype() == dtype ? x : e.bitcast(x, dtype);
}

std::vector<Tangent> cotangents(std::span<const LinearInput> x, const std::optional<Tangent>& ct_x,
                                const std::optional<Tangent>& ct_y) {
  std::vector<Tangent> cts;
  cts.reserve(2);
  for (const auto* ct : {&ct_x, &ct_y}) {
    const LinearInput& operand = x[cts.size()];
    const bool given = operand.is_linear() && ct->has_value();
    cts.push_back(given ? **ct : Tangent(Zero{operand.aval().tangent()}));
  }
  return cts;
}

void refuse_nonlinear(std::string_view name, std::span<const LinearInput> x) {
  std::string operands;
  for (const LinearInput& in : x) {
    operands += (operands.empty() ? "" : ", ") + in.aval().to_string() +
                (in.is_linear() ? " (linear)" : "");
  }
  throw TypeError(std::string(name) +
                  " is not linear in these operands and cannot be transposed: " + operands);
}

}  // namespace families
}  // namespace v1
}  // namespace telamon
