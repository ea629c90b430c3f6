// The order in which passes fold what they have taken apart: that of lanes (fold_lanes in codegen.hpp), as a tree of halves.
#pragma once

#include <cstddef>

namespace telamon {
inline namespace v1 {
namespace compiler {

/// All terms (at least one) as one, by combine(a, b): of five, ((0 + 4) + 2) + (1 + 3).
template <class Terms, class Combine> auto fold_halves(Terms terms, Combine&& combine) {
  std::size_t half = 1;
  while (2 * half < terms.size()) half *= 2;
  for (std::size_t count = terms.size(); half > 0; count = half, half /= 2) {
    for (std::size_t i = half; i < count; ++i) terms[i - half] = combine(terms[i - half], terms[i]);
  }
  return terms[0];
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
