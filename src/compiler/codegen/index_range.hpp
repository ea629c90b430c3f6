// What indices are known to lie in, and what is computed of them.
#pragma once

#include <cstdint>

#include "telamon/emitter.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// What an index is known to lie in, both ends included.
struct IndexRange {
  static constexpr std::int64_t kFar = std::int64_t{1} << 61;  // sums of two do not overflow
  std::int64_t low = -kFar, high = kFar;
  bool known() const { return low > -kFar && high < kFar; }
};

inline IndexRange operator+(IndexRange a, IndexRange b) {
  if (!a.known() || !b.known()) return {};
  return {a.low + b.low, a.high + b.high};
}
inline IndexRange operator-(IndexRange a) {
  return a.known() ? IndexRange{-a.high, -a.low} : IndexRange{};
}
inline IndexRange operator*(IndexRange a, std::int64_t k) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (!a.known() || k < 0 || k > kMost || a.low < -kMost || a.high > kMost) return {};
  return {a.low * k, a.high * k};
}

/// What integers of a type lie in: of 64 bits, what is known of their sign.
inline IndexRange range_of(DType dtype) {
  const int bits = static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  if (bits > 32) return is_signed_integer(dtype) ? IndexRange{} : IndexRange{0, IndexRange::kFar};
  const std::int64_t most = (std::int64_t{1} << bits) - 1;
  return {is_signed_integer(dtype) ? -most - 1 : 0, most};
}

/// Whether all of a are less than all of b.
inline bool below(IndexRange a, IndexRange b) { return a.known() && b.known() && a.high < b.low; }
inline bool not_above(IndexRange a, IndexRange b) {
  return a.known() && b.known() && a.high <= b.low;
}

/// A comparison that ranges decide: 0 or 1; else -1.
inline int decided(Compare how, IndexRange a, IndexRange b) {
  switch (how) {
    case Compare::lt: return below(a, b) ? 1 : not_above(b, a) ? 0 : -1;
    case Compare::le: return not_above(a, b) ? 1 : below(b, a) ? 0 : -1;
    case Compare::gt: return decided(Compare::lt, b, a);
    case Compare::ge: return decided(Compare::le, b, a);
    case Compare::eq: return below(a, b) || below(b, a) ? 0 : -1;
    case Compare::ne: return below(a, b) || below(b, a) ? 1 : -1;
  }
  return -1;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
