// Places of index vectors of two numbers, for one instruction set. For *_isa.cpp only.
#pragma once

#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

/// Two indices side by side; those below 0 are higher than all others.
struct Pair {
  std::uint32_t first, second;
};

/// Where kCount pairs lead, whole vectors of them: first * steps.first + second * steps.second, which 32 bits hold. False
/// where some are out of bounds as they are; then the places mean nothing.
template <std::int64_t kCount>
TELAMON_INLINE bool find_pairs(const Pair* pairs, const Pair& lasts, const Pair& steps,
                               std::uint64_t* places) {
  constexpr std::int64_t kPairs = simd::kBytes / static_cast<std::int64_t>(sizeof(Pair));
  typedef std::uint32_t Words __attribute__((vector_size(simd::kBytes)));
  typedef std::uint64_t Both __attribute__((vector_size(simd::kBytes)));
  const auto repeated = [](const Pair& x) __attribute__((always_inline)) {
    const std::uint64_t both = x.first | (static_cast<std::uint64_t>(x.second) << 32);
    return reinterpret_cast<Words>(both - Both{});
  };
  const Words last = repeated(lasts), step = repeated(steps);
  Words outside{};
  repeat<kCount / kPairs>([&](auto v) __attribute__((always_inline)) {
    Words x;
    __builtin_memcpy(&x, pairs + v.value * kPairs, sizeof x);
    outside |= reinterpret_cast<Words>(x > last);
    const Words products = x * step;
    const Words second = reinterpret_cast<Words>(reinterpret_cast<Both>(products) >> 32);
    const Both to = reinterpret_cast<Both>(products + second) & 0xffffffffu;
    __builtin_memcpy(places + v.value * kPairs, &to, sizeof to);
  });
  std::uint64_t any = 0;
  for (std::int64_t i = 0; i < kPairs; ++i) any |= reinterpret_cast<Both>(outside)[i];
  return any == 0;
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
