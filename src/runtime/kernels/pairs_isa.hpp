// Places of indices, and of index vectors of two numbers, for one instruction set. For *_isa.cpp only.
#pragma once

#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

/// The place of an index, or -1 where it is dropped. No branch.
template <class Wide>
TELAMON_INLINE Wide place_of(Wide start, bool clips, Wide last, Wide wrap) {
  start += start < 0 ? wrap : 0;
  const Wide low = start < 0 ? 0 : start, place = low > last ? last : low;
  const bool dropped = !clips & (place != start);
  return dropped ? -1 : place;
}

/// What comparisons of whole vectors make.
typedef std::uint64_t Bits __attribute__((vector_size(simd::kBytes)));
TELAMON_INLINE bool any_of(const Bits& bits) {
#if defined(TELAMON_ISA_AVX512)
  const auto x = reinterpret_cast<__m512i>(bits);
  return _mm512_test_epi64_mask(x, x) != 0;
#elif defined(TELAMON_ISA_AVX2)
  const auto x = reinterpret_cast<__m256i>(bits);
  return _mm256_testz_si256(x, x) == 0;
#else
  return (bits[0] | bits[1]) != 0;
#endif
}

/// Two indices side by side; those below 0 are higher than all others.
struct Pair {
  std::uint32_t first, second;
};

// Two vectors of places become one where an instruction takes every other number of both.
#if defined(TELAMON_ISA_AVX512)
using Place = std::int32_t;
#else
using Place = std::int64_t;
#endif
constexpr std::int64_t kPairsTogether = 32;

/// Where n pairs lead, kPairsTogether of them times a number: first * steps.first + second * steps.second, which are
/// numbers of their type. False where some are out of bounds as they are; then the places mean nothing.
TELAMON_INLINE bool find_pairs(std::int64_t n, const Pair* pairs, const Pair& lasts,
                               const Pair& steps, Place* places) {
  constexpr std::int64_t kPairs = simd::kBytes / static_cast<std::int64_t>(sizeof(Pair));
  typedef std::uint32_t Words __attribute__((vector_size(simd::kBytes)));
  typedef Place PlaceVector __attribute__((vector_size(kPairs * sizeof(Place))));
  const auto repeated = [](const Pair& x) __attribute__((always_inline)) {
    const std::uint64_t both = x.first | (static_cast<std::uint64_t>(x.second) << 32);
    return reinterpret_cast<Words>(both - Bits{});
  };
  const Words last = repeated(lasts), step = repeated(steps);
  Bits outside{};
  for (std::int64_t i = 0; i < n; i += kPairsTogether) {
    repeat<kPairsTogether / kPairs>([&](auto v) __attribute__((always_inline)) {
      const std::int64_t at = i + v.value * kPairs;
      Words x;
      __builtin_memcpy(&x, pairs + at, sizeof x);
      outside |= reinterpret_cast<Bits>(x > last);
      const Words products = x * step;
      const Words second = reinterpret_cast<Words>(reinterpret_cast<Bits>(products) >> 32);
      const Bits sums = reinterpret_cast<Bits>(products + second) & 0xffffffffu;
      const PlaceVector to = __builtin_convertvector(sums, PlaceVector);
      __builtin_memcpy(places + at, &to, sizeof to);
    });
  }
  return !any_of(outside);
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
