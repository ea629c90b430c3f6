// The types of several arrays at once.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

inline std::vector<Aval> avals_of(std::span<const Array> arrays) {
  std::vector<Aval> avals;
  avals.reserve(arrays.size());
  for (const Array& x : arrays) avals.push_back(x.aval());
  return avals;
}

/// As many, each of the same shape and dtype: weak types are no difference.
inline bool same_types(std::span<const Aval> a, std::span<const Aval> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Aval& x, const Aval& y) { return x.same_type(y); });
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
