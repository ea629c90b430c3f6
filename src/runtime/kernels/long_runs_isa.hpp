// Whether places by index repeat, as those of sorted segments do: for *_isa.cpp files only.
#pragma once

#include <cstdint>

#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

// What goes to one place over and over, as sorted segments do, waits in memory for the sum before it to come back: so
// that sum stays in a register until another place comes. The processor cannot foresee that where it happens often:
// runs of four took 1.1 (single numbers) to 1.3 (rows) as long on Zen 3 as they do in memory, of sixteen 0.5 to 0.85,
// of a hundred 0.3 to 0.65.

/// Whether most of n places are in long runs of the same, from those that are looked at: a few pairs.
template <class Place>
TELAMON_INLINE bool has_long_runs(std::int64_t n, const Place& place) {
  constexpr std::int64_t kApart = 4, kStep = 8;
  if (n < 2 * kStep) return false;
  const auto differs = [&](std::int64_t i) __attribute__((always_inline)) {
    return place(i) != place(i + kApart) ? 1 : 0;
  };
  if (differs(0) + differs(n / 2) == 2) return false;  // most often it is that
  std::int64_t pairs = 0, differ = 0;
  for (std::int64_t i = 0; i + kApart < n; i += kStep, ++pairs) differ += differs(i);
  return 4 * differ <= pairs;
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
