// Indices in generated code, as they come from arrays of any integer dtype: for rules of primitives, and for what the
// compiler has loops of its own for.
#pragma once

#include <cstdint>
#include <limits>

#include "telamon/emitter.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

inline Scalar clamp(Emitter& e, Scalar x, std::int64_t low, std::int64_t high) {
  const auto number = [&](std::int64_t n) { return e.constant_int(x.dtype(), n); };
  return e.min(e.max(x, number(low)), number(high));
}

/// An index of any integer dtype as i64; u64 beyond the range saturates.
inline Scalar signed_index(Emitter& e, Scalar x) {
  if (x.dtype() == DType::u64)
    x = e.min(x, e.constant_int(DType::u64, std::numeric_limits<std::int64_t>::max()));
  return e.convert(x, DType::i64);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
