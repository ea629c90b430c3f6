// The text of scalar literals and its way back, bit for bit:
//   2.0   2   True   -inf   nan   nan(0x7ff8000000000001)   (1.0-2.5j):c64   2.0:f32   2.0:~f32
// Undecorated literals are f64, i64 and bool; `nan` is the quiet one without sign or payload.
#pragma once

#include <string>
#include <string_view>

#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

std::string literal_text(const Array& scalar);

/// A number as it is written.
struct NumberText {
  std::string_view digits;    ///< "-2.5e+10", "+inf", "True"
  std::string_view nan_bits;  ///< "x7ff8000000000001" or empty
};
struct LiteralText {
  NumberText re, im;
  bool is_complex = false;
};

/// What a literal without suffix is.
DType undecorated_dtype(const LiteralText& text);
/// Stores the value in a scalar that was just made; false when it does not fit the dtype.
bool read_literal(const LiteralText& text, const Array& scalar);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
