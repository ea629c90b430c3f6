// What the files of elementwise primitives share: evaluation by the eager kernels, short lowerings,
// and strict operators, so that a derivative is written as its formula.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/concrete.hpp"
#include "runtime/kernels/elementwise.hpp"
#include "telamon/families.hpp"
#include "telamon/lax.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace families {

using kernels::Op;

/// A concrete array as the kernels see it.
kernels::View view_of(const Array& x);
/// Runs an eager kernel over concrete arrays. `dtype` is the kernel's: that of the operands.
Array run_kernel(Op op, DType dtype, const Aval& out, std::span<const Array> x,
                 const void* params = nullptr);

/// An impl rule that is one eager kernel.
template <class P = NoParams>
ElementwiseImpl<P> eager(Op op) {
  return [op](const P&, const Aval& out, std::span<const Array> x) {
    return run_kernel(op, x.back().dtype(), out, x);
  };
}

/// A lowering that is one vector math function, the one that the eager kernel calls; about `cycles`
/// for a vector.
Lowering math(const char* name, int cycles);
/// A lowering that is one instruction of the emitter: `emit(&Emitter::add)`.
Lowering emit(Scalar (Emitter::*instruction)(Scalar));
Lowering emit(Scalar (Emitter::*instruction)(Scalar, Scalar));
/// A lowering that is one comparison.
Lowering emit(Compare how);
/// The identity.
Lowering emit_operand();

/// The unsigned integer of the same width.
DType unsigned_of(DType dtype);
/// The bits of x as another dtype of its width.
Scalar as_dtype(Emitter& e, Scalar x, DType dtype);

/// The cotangents of a primitive's two operands: those given for the linear ones, else zero.
std::vector<Tangent> cotangents(std::span<const LinearInput> x, const std::optional<Tangent>& ct_x,
                                const std::optional<Tangent>& ct_y);
/// InternalError: a product of two linear operands, a quotient by one, ... has no transpose.
[[noreturn]] void refuse_nonlinear(std::string_view name, std::span<const LinearInput> x);

/// Strict arithmetic: operands of one shape and dtype, or a number, which takes the array's.
namespace formula {

template <class T>
concept Number = std::is_arithmetic_v<T>;

inline Array operator-(const Array& x) { return lax::neg(x); }
inline Array operator+(const Array& x, const Array& y) { return lax::add(x, y); }
inline Array operator-(const Array& x, const Array& y) { return lax::sub(x, y); }
inline Array operator*(const Array& x, const Array& y) { return lax::mul(x, y); }
inline Array operator/(const Array& x, const Array& y) { return lax::div(x, y); }
template <Number T> Array operator+(const Array& x, T c) { return x + lax::full_like(x, c); }
template <Number T> Array operator-(const Array& x, T c) { return x - lax::full_like(x, c); }
template <Number T> Array operator-(T c, const Array& x) { return lax::full_like(x, c) - x; }
template <Number T> Array operator*(T c, const Array& x) { return lax::full_like(x, c) * x; }
template <Number T> Array operator/(T c, const Array& x) { return lax::full_like(x, c) / x; }
template <Number T> Array operator+(T c, const Array& x) { return lax::full_like(x, c) + x; }

}  // namespace formula
}  // namespace families
}  // namespace v1
}  // namespace telamon
