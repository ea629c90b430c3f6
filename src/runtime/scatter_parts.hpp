// How many updates are summed apart, a matter of shapes alone: eager evaluation and compiled programs take
// sums at places in this order.
#pragma once

#include <cstdint>

#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// A scatter_add of many more updates than its operand has elements is taken in parts, so that threads share
/// it: rows of the first dimension of indices and updates, so many of them in a part. Each part is summed
/// into a table of its own, which begins with -0.0 (x + -0.0 is x, also where x is -0.0); these are added to
/// the operand, one after the other; then come the rows that are left over, fewer than a part has. All rows
/// where it is taken in one piece.
TELAMON_API std::int64_t rows_of_part(const ScatterParams& params, const Aval& operand,
                                      const Shape& indices, const Shape& updates);

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
