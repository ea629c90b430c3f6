// Element types: the table of their properties and the promotion lattice.
#include "telamon/dtype.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <ostream>
#include <string>

#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace {

struct Properties {
  std::uint8_t size;
  Kind kind;
  std::string_view short_name;
  std::string_view long_name;
};

constexpr std::array<Properties, kNumDTypes> kProperties = {{
    {1, Kind::boolean, "bool", "bool"},
    {1, Kind::signed_int, "i8", "int8"},
    {2, Kind::signed_int, "i16", "int16"},
    {4, Kind::signed_int, "i32", "int32"},
    {8, Kind::signed_int, "i64", "int64"},
    {1, Kind::unsigned_int, "u8", "uint8"},
    {2, Kind::unsigned_int, "u16", "uint16"},
    {4, Kind::unsigned_int, "u32", "uint32"},
    {8, Kind::unsigned_int, "u64", "uint64"},
    {2, Kind::floating, "f16", "float16"},
    {2, Kind::floating, "bf16", "bfloat16"},
    {4, Kind::floating, "f32", "float32"},
    {8, Kind::floating, "f64", "float64"},
    {8, Kind::complex, "c64", "complex64"},
    {16, Kind::complex, "c128", "complex128"},
    {0, Kind::float0, "float0", "float0"},
}};

[[noreturn]] void no_such_dtype(std::size_t number) {
  throw ValueError("no such dtype: number " + std::to_string(number) + ", of " +
                   std::to_string(kNumDTypes));
}

const Properties& properties(DType dtype) {
  if (static_cast<std::size_t>(dtype) >= kNumDTypes) no_such_dtype(static_cast<std::size_t>(dtype));
  return kProperties[static_cast<std::size_t>(dtype)];
}

// The four steps of the tower bool < integers < floats < complex numbers.
int rank_of(DType dtype) {
  switch (kind_of(dtype)) {
    case Kind::boolean: return 0;
    case Kind::signed_int:
    case Kind::unsigned_int: return 1;
    case Kind::floating: return 2;
    default: return 3;
  }
}

// The complex dtype whose parts have at least `bytes` bytes.
DType complex_of(std::size_t bytes) { return bytes > 4 ? DType::c128 : DType::c64; }

DType wider(DType a, DType b) { return size_of(a) >= size_of(b) ? a : b; }

// Two integers: the wider one of equal signedness, else the smallest signed type that holds both.
// Nothing holds a signed integer and u64: there the lattice goes on to its weak float.
DType promote_integers(DType a, DType b) {
  if (kind_of(a) == kind_of(b)) return wider(a, b);
  const DType s = is_signed_integer(a) ? a : b;
  const DType u = is_signed_integer(a) ? b : a;
  if (size_of(s) > size_of(u)) return s;
  switch (u) {
    case DType::u8: return DType::i16;
    case DType::u16: return DType::i32;
    case DType::u32: return DType::i64;
    default: return DType::f64;
  }
}

// The join of two strong dtypes in JAX's lattice (jax/_src/dtypes.py, `_type_promotion_lattice`).
DType promote_strong(DType a, DType b) {
  if (a == b) return a;
  if (rank_of(a) > rank_of(b)) return promote_strong(b, a);
  if (rank_of(a) < rank_of(b)) {
    // A complex number with a float has parts that hold the float.
    const bool parts = is_complex(b) && is_float(a);
    return parts ? complex_of(std::max(size_of(a), size_of(b) / 2)) : b;
  }
  switch (rank_of(a)) {
    case 1: return promote_integers(a, b);
    case 2: return size_of(a) == size_of(b) ? DType::f32 : wider(a, b);  // f16 with bf16
    default: return wider(a, b);
  }
}

// A weak operand never changes a strong dtype of its own kind or a higher one. With a lower kind it
// brings in its kind: as the default float, or as the complex dtype of the strong float's width.
TypeInfo promote_with_weak(DType strong, DType weak) {
  if (rank_of(weak) <= rank_of(strong)) return {strong, false};
  if (is_complex(weak) && is_float(strong)) return {complex_of(size_of(strong)), false};
  switch (kind_of(weak)) {
    case Kind::floating: return {default_float(), true};
    case Kind::complex: return {complex_of(size_of(default_float())), true};
    default: return {weak, true};
  }
}

constinit std::atomic<DType> default_float_dtype{DType::f32};
constinit std::atomic<DType> default_int_dtype{DType::i32};

[[noreturn]] void reject_default(const char* function, const char* wanted, DType dtype) {
  throw ValueError(std::string(function) + " needs " + wanted + ", got " +
                   std::string(short_name(dtype)));
}

}  // namespace

std::size_t size_of(DType dtype) { return properties(dtype).size; }
Kind kind_of(DType dtype) { return properties(dtype).kind; }
std::string_view short_name(DType dtype) { return properties(dtype).short_name; }
std::ostream& operator<<(std::ostream& os, DType dtype) { return os << short_name(dtype); }
std::string_view long_name(DType dtype) { return properties(dtype).long_name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == short_name(dtype) || name == long_name(dtype)) return dtype;
  }
  return std::nullopt;
}

TypeInfo promote_types(TypeInfo a, TypeInfo b) {
  if (a == b) return a;
  if (a.dtype == b.dtype) return {a.dtype, a.weak && b.weak};
  if (a.weak == b.weak) {
    const DType dtype = promote_strong(a.dtype, b.dtype);
    return {dtype, a.weak || (is_float(dtype) && is_integer(a.dtype) && is_integer(b.dtype))};
  }
  return a.weak ? promote_with_weak(b.dtype, a.dtype) : promote_with_weak(a.dtype, b.dtype);
}

DType default_float() { return default_float_dtype.load(std::memory_order_relaxed); }
void set_default_float(DType dtype) {
  if (!is_float(dtype)) reject_default("set_default_float", "a float dtype", dtype);
  default_float_dtype.store(dtype, std::memory_order_relaxed);
}
DType default_int() { return default_int_dtype.load(std::memory_order_relaxed); }
void set_default_int(DType dtype) {
  if (!is_signed_integer(dtype)) reject_default("set_default_int", "a signed integer dtype", dtype);
  default_int_dtype.store(dtype, std::memory_order_relaxed);
}

}  // namespace v1
}  // namespace telamon
