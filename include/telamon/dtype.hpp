// Element types: names, sizes, kinds, and the promotion lattice.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>
#include <type_traits>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {

/// The element type of an array. `float0` is the tangent type of bool, integers and keys: it holds
/// no data and its only value is zero.
enum class DType : std::uint8_t {
  bool_,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
  float0
};
inline constexpr int kNumDTypes = 16;

enum class Kind : std::uint8_t { boolean, signed_int, unsigned_int, floating, complex, float0 };

/// Storage of the 16-bit floats and the complex types. Arithmetic on them lives in the kernels.
struct Half {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};
struct Complex64 {
  float re = 0, im = 0;
};
struct Complex128 {
  double re = 0, im = 0;
};
/// As an Array of the one number prints.
TELAMON_API std::ostream& operator<<(std::ostream& os, Half x);
TELAMON_API std::ostream& operator<<(std::ostream& os, BFloat16 x);
TELAMON_API std::ostream& operator<<(std::ostream& os, Complex64 x);
TELAMON_API std::ostream& operator<<(std::ostream& os, Complex128 x);

TELAMON_API std::size_t size_of(DType dtype);  ///< bytes per element (float0: 0)
TELAMON_API Kind kind_of(DType dtype);
TELAMON_API std::string_view short_name(DType dtype);  ///< "f32", "i64", "bool", "float0"
TELAMON_API std::string_view long_name(DType dtype);   ///< "float32", "int64", "bool", "float0"
TELAMON_API std::optional<DType> dtype_from_name(std::string_view name);  ///< either form
TELAMON_API std::ostream& operator<<(std::ostream& os, DType dtype);      ///< the short one

inline bool is_float(DType d) { return kind_of(d) == Kind::floating; }
inline bool is_complex(DType d) { return kind_of(d) == Kind::complex; }
inline bool is_integer(DType d) {
  return kind_of(d) == Kind::signed_int || kind_of(d) == Kind::unsigned_int;
}
inline bool is_signed_integer(DType d) { return kind_of(d) == Kind::signed_int; }
inline bool is_unsigned_integer(DType d) { return kind_of(d) == Kind::unsigned_int; }
/// Floats and complex numbers have tangents of their own dtype; everything else has float0.
inline bool is_inexact(DType d) { return is_float(d) || is_complex(d); }
inline DType tangent_dtype(DType d) { return is_inexact(d) ? d : DType::float0; }

/// An element type with weakness: what promotion works on.
struct TypeInfo {
  DType dtype;
  bool weak;
  bool operator==(const TypeInfo&) const = default;
};
/// Promotion of two operands (JAX's lattice with 64-bit types on; weak scalars keep the array's
/// width; two weak operands take the wider kind, then the wider width; a weak float with an integer
/// array gives the default float).
TELAMON_API TypeInfo promote_types(TypeInfo a, TypeInfo b);

/// The dtype of creation functions (`zeros`, `linspace`, `uniform`): f32 unless set.
TELAMON_API DType default_float();
TELAMON_API void set_default_float(DType dtype);
/// The dtype of argmax indices, `randint` and sums of bool: i32 unless set.
TELAMON_API DType default_int();
TELAMON_API void set_default_int(DType dtype);

/// DTypeOf<T>: the dtype of a C++ element type.
template <class T> struct DTypeOf;
template <> struct DTypeOf<bool> {
  static constexpr DType value = DType::bool_;
};
template <> struct DTypeOf<Half> {
  static constexpr DType value = DType::f16;
};
template <> struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <> struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <> struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <> struct DTypeOf<Complex64> {
  static constexpr DType value = DType::c64;
};
template <> struct DTypeOf<Complex128> {
  static constexpr DType value = DType::c128;
};
template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
struct DTypeOf<T> {
  static constexpr DType value = std::is_signed_v<T> ? (sizeof(T) == 1   ? DType::i8
                                                        : sizeof(T) == 2 ? DType::i16
                                                        : sizeof(T) == 4 ? DType::i32
                                                                         : DType::i64)
                                                     : (sizeof(T) == 1   ? DType::u8
                                                        : sizeof(T) == 2 ? DType::u16
                                                        : sizeof(T) == 4 ? DType::u32
                                                                         : DType::u64);
};
namespace detail {
/// Complex numbers of other libraries, of the two parts alone: std::complex, whose header this one does without.
template <class T, class Part>
concept ComplexOf =
    sizeof(T) == 2 * sizeof(Part) && std::is_trivially_copyable_v<T> && requires(const T z) {
      { z.real() } -> std::same_as<Part>;
      { z.imag() } -> std::same_as<Part>;
    };
}  // namespace detail
template <detail::ComplexOf<float> T> struct DTypeOf<T> {
  static constexpr DType value = DType::c64;
};
template <detail::ComplexOf<double> T> struct DTypeOf<T> {
  static constexpr DType value = DType::c128;
};
template <class T> inline constexpr DType dtype_of = DTypeOf<T>::value;
/// What an array can be made of: bool, numbers, the 16-bit floats, complex numbers (std::complex too).
template <class T>
concept ElementType = requires { DTypeOf<T>::value; };

inline constexpr DType bool_ = DType::bool_, boolean = DType::bool_, i8 = DType::i8,
                       i16 = DType::i16, i32 = DType::i32, i64 = DType::i64, u8 = DType::u8,
                       u16 = DType::u16, u32 = DType::u32, u64 = DType::u64, f16 = DType::f16,
                       bf16 = DType::bf16, f32 = DType::f32, f64 = DType::f64, c64 = DType::c64,
                       c128 = DType::c128;

}  // namespace v1
}  // namespace telamon
