// Kernels over short rows that vectors tear apart, as x + t of points in space: as many rows at a time as are whole
// vectors. What each row has of its columns alone (t) is in these the same vectors every time, which are loaded before the
// loop; everything else lies at the place of the element itself.
#include <algorithm>
#include <numeric>

#include "compiler/emit/emit.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMostVectors = 8;  // at a time: there are registers for as many of one row
constexpr std::int64_t kFewVectors = 4;   // are no trip of a loop by themselves

/// So many rows are so many vectors.
struct RowGroup {
  std::int64_t rows, vectors;
};
RowGroup group_of(std::int64_t row, std::int64_t lanes) {
  const std::int64_t shared = std::gcd(row, lanes);
  const std::int64_t times = std::max<std::int64_t>(kFewVectors * shared / row, 1);
  return {times * lanes / shared, times * row / shared};
}

/// The last dimension that is not 1, which runs along the lanes.
std::size_t inner_dim(const Shape& shape) {
  std::size_t inner = shape.size() - 1;
  while (inner > 0 && shape[inner] == 1) --inner;
  return inner;
}

}  // namespace

Point across_rows(CodeGen& gen, Generator& values, const Shape& shape, Scalar number,
                  std::int64_t first) {
  const std::size_t inner = inner_dim(shape);
  const Scalar row = gen.index(shape[inner]), place = gen.lane_index(gen.index(first));
  const Shape before(std::span(shape.data(), inner));
  Index index = values.indices({before, std::nullopt, gen.add(number, gen.div(place, row))});
  index.push_back(gen.rem(place, row));
  index.resize(shape.size(), gen.index(0));
  const Scalar base = gen.add(gen.mul(number, row), gen.index(first));
  return {shape, std::move(index), gen.lane_index(base)};
}

std::int64_t rows_at_once(const Plan& plan, const Kernel& kernel, int lanes) {
  if (!plan.emit.short_rows || !kernel.alike_in_rows || lanes == 1 || !kernel.woven.empty())
    return 1;
  const std::size_t inner = inner_dim(kernel.shape);
  const std::int64_t row = kernel.shape[inner];
  if (inner == 0 || row < 2 || row % lanes == 0) return 1;
  const RowGroup group = group_of(row, lanes);
  return group.vectors <= kMostVectors && kernel.shape.num_elements() >= 4 * group.rows * row
             ? group.rows
             : 1;
}

void emit_short_rows(KernelContext& k, Generator& values, std::size_t inner, int lanes,
                     const std::function<void(const Index&)>& one_row) {
  CodeGen& gen = k.gen;
  const Shape& shape = k.kernel().shape;
  const std::int64_t row = shape[inner];
  const auto [rows, vectors] = group_of(row, lanes);
  const Shape before(std::span(shape.data(), inner));
  const Scalar each = gen.index(before.num_elements() / before[0]);
  const Scalar first = gen.mul(k.begin, each), last = gen.mul(k.end, each);
  // Of the row with this number: all indices but the last.
  const auto of_row = [&](Scalar number) { return values.indices({before, std::nullopt, number}); };
  const Scalar whole =
      gen.add(first, gen.mul(gen.div(gen.sub(last, first), gen.index(rows)), gen.index(rows)));
  gen.set_lanes(lanes, lanes);
  gen.loop_carried(first, whole, rows, {}, [&](Scalar number, const Scalars&) {
    for (std::int64_t v = 0; v < vectors; ++v) {
      gen.scope(
          [&] { store_roots(k, values, across_rows(gen, values, shape, number, v * lanes)); });
    }
    return Scalars{};
  });
  gen.set_lanes(1, 1);
  gen.loop(whole, last, [&](Scalar number) { one_row(of_row(number)); });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
