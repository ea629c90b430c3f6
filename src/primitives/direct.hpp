// Elementwise operations on values, at once: what an eager call costs on a few numbers.
//
// A primitive is applied by finding the interpreter of its operands, by the rule of that interpreter,
// and by an eager kernel over strided views. Where nothing is traced and all operands are plain, only
// the kernel's inner loop is left to do.
#pragma once

#include "runtime/kernels/elementwise.hpp"
#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// op(x), op(x, y): the same as to bind the primitive that has this kernel as its evaluation rule. An
/// empty handle where that is to be done, because something is traced or observed, the operands are
/// not dense values of one float type (of a number type for arithmetic and comparisons) and of one
/// shape (or some of few elements and a scalar), or there are enough of them for several threads.
Array apply_direct(kernels::Op op, const Array& x);
Array apply_direct(kernels::Op op, const Array& x, const Array& y);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
