// Arithmetic of 64-bit integers that C++ has not: sums and products modulo 2^64, as arrays have them; those that stop at
// the largest number, for sizes and costs that are only compared; quotients and multiples that are rounded up.
#pragma once

#include <cstdint>
#include <limits>

namespace telamon {
inline namespace v1 {
namespace detail {

constexpr std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
constexpr std::int64_t wrapping_sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
constexpr std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// Of numbers that are not negative; the largest of all where what they make is larger.
constexpr std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return a > kMost - b ? kMost : a + b;
}
constexpr std::int64_t saturating_mul(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return b != 0 && a > kMost / b ? kMost : a * b;
}

/// a / b rounded up, for a that are not negative.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
/// The next multiple of b, a itself where it is one, for a that are not negative.
constexpr std::int64_t rounded_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace detail
}  // namespace v1
}  // namespace telamon
