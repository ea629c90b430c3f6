// Matrices of bf16 as words of two terms each, for processors that multiply these at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/kernels/elementwise.hpp"
#include "runtime/kernels/temporary.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// A batch of matrices of words. The rest of the last word is 0 where the terms are odd in number.
struct Bf16Words {
  std::unique_ptr<Temporary> memory;
  View view;  ///< of u32
  std::uint16_t
      least;  ///< the least magnitude other than 0, minus 1, as bits; 0xffff where all are 0
};
/// The words of matrices whose terms lie along their dimension `terms`, 1 or 2; nothing where neither rows nor columns are
/// contiguous.
TELAMON_API std::optional<Bf16Words> bf16_words(const View& matrices, std::size_t terms);

/// Whether sums of products of numbers of these least magnitudes, rounded to f32, are the same where denormal numbers count
/// for zeros: no operand is one, and no sum can be.
TELAMON_API bool has_normal_sums(std::uint16_t least_of_a, std::uint16_t least_of_b);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
