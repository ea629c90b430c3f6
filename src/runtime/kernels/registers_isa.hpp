// Elements by registers, and the operations of reductions on them, for *_isa.cpp files only.
#pragma once

#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(simd::kBytes)));  // gcc ignores it on an alias
  static constexpr std::int64_t kLanes = simd::kBytes / sizeof(T);
};
/// Complex numbers as they lie, real and imaginary parts in turn: for sums, which are those of the parts.
template <> struct VectorOf<Complex64> {
  using Type = VectorOf<float>::Type;
  static constexpr std::int64_t kLanes = simd::kBytes / sizeof(Complex64);
};
template <> struct VectorOf<Complex128> {
  using Type = VectorOf<double>::Type;
  static constexpr std::int64_t kLanes = simd::kBytes / sizeof(Complex128);
};

// The operations on registers. Sums and products of integers are taken on unsigned types.
TELAMON_INLINE auto combine(Add, auto a, auto b) { return a + b; }
TELAMON_INLINE auto combine(Mul, auto a, auto b) { return a * b; }
TELAMON_INLINE auto combine(And, auto a, auto b) { return a & b; }
TELAMON_INLINE auto combine(Or, auto a, auto b) { return a | b; }
TELAMON_INLINE auto combine(Xor, auto a, auto b) { return a ^ b; }
template <class V>
TELAMON_INLINE V combine(Max, V a, V b) {
  const V larger = a > b ? a : b;
  return a != a ? a : larger;
}
template <class V>
TELAMON_INLINE V combine(Min, V a, V b) {
  const V smaller = a < b ? a : b;
  return a != a ? a : smaller;
}

template <class V, class T>
TELAMON_INLINE V load_from(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

/// Whether any lane of a comparison holds.
TELAMON_INLINE bool any_lane(auto compared) {
  std::uint64_t words[sizeof compared / 8], any = 0;
  __builtin_memcpy(words, &compared, sizeof compared);
  for (const std::uint64_t word : words) any |= word;
  return any != 0;
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
