// The parts of a scatter_add: enough for many threads, each of so many updates that its table, which is filled
// and added once, costs little beside them; of equal numbers of rows if that can be.
#include "runtime/scatter_parts.hpp"

#include <algorithm>
#include <cmath>

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

constexpr std::int64_t kLeast = 1 << 16;  // updates that are worth several threads
constexpr std::int64_t kLeastOfPart =
    16384;  // updates of a part: what is computed for them fits into a cache
// Times the parts: updates of a part for each element of a table. In longer windows an update takes less time, and so the
// table more of it: two parts of 12 updates for each cost one thread 0.03 of rows of up to four f32, 0.16 of rows of eight.
constexpr double kEach = 3, kEachOfLong = 3.5;
constexpr std::int64_t kLongBytes = 16;
constexpr std::int64_t kMany = 64;          // of them, beside which the table costs nothing
constexpr std::int64_t kFullLanes = 16;     // rows of whole vectors are preferred
constexpr std::int64_t kDividedBytes = 64;  // windows from here on are shared out along the operand

/// Even numbers of parts, from the most to the fewest: those of whole vectors of rows, else of equal numbers of
/// rows, else the most.
std::int64_t number_of_parts(std::int64_t rows, std::int64_t fewest, std::int64_t most) {
  std::int64_t equal = 0;
  const std::int64_t first = most / 2 * 2;
  for (std::int64_t parts = first; parts >= fewest; parts -= 2) {
    if (rows % parts != 0) continue;
    if (rows / parts % kFullLanes == 0) return parts;
    if (equal == 0) equal = parts;
  }
  return equal > 0 ? equal : first;
}

}  // namespace

std::int64_t rows_of_part(const ScatterParams& params, const Aval& operand, const Shape& indices,
                          const Shape& updates) {
  const ScatterDimensionNumbers& d = params.dimension_numbers;
  const std::int64_t rows = indices[0], all = updates.num_elements(), table = operand.size();
  const bool by_rows = indices.size() > 1 && !updates.empty() && updates[0] == rows &&
                       !d.update_window_dims.contains(0) &&
                       !d.scatter_indices_batching_dims.contains(0);
  if (!by_rows || is_complex(operand.dtype) || all < kLeast || table == 0) return rows;
  std::int64_t window = static_cast<std::int64_t>(size_of(operand.dtype));
  for (const std::int64_t dim : d.update_window_dims)
    window *= updates[static_cast<std::size_t>(dim)];
  if (window >= kDividedBytes) return rows;
  // Two parts double what is done to tables; the more there are, the less each may add to that.
  const double times = static_cast<double>(all) / static_cast<double>(table);
  const double each = window > kLongBytes ? kEachOfLong : kEach;
  const std::int64_t worthwhile =
      std::max(static_cast<std::int64_t>(std::sqrt(times / each)), all / table / kMany);
  const std::int64_t most = std::min({all / kLeastOfPart, worthwhile, rows});
  return most < 2 ? rows : rows / number_of_parts(rows, std::max<std::int64_t>(most / 2, 2), most);
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
