// Orders of dimensions: order[d] is the one that comes d-th.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "telamon/shape.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// permutation[d] for each of the dimensions.
inline Shape permuted(const Shape& dims, const Shape& permutation) {
  Shape out;
  for (const std::int64_t d : dims) out.push_back(permutation[static_cast<std::size_t>(d)]);
  return out;
}

/// Where each dimension comes.
inline Shape inverse(const Shape& order) {
  Shape out(order.size(), 0);
  for (std::size_t d = 0; d < order.size(); ++d)
    out[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  return out;
}

inline bool is_identity(const Shape& order) { return std::is_sorted(order.begin(), order.end()); }

/// The order that makes these numbers ascend, of which no two are the same.
inline Shape sorting(const Shape& numbers) {
  Shape order;
  for (std::size_t d = 0; d < numbers.size(); ++d) order.push_back(static_cast<std::int64_t>(d));
  std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    return numbers[static_cast<std::size_t>(i)] < numbers[static_cast<std::size_t>(j)];
  });
  return order;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
