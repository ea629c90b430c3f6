// Kernels over short rows that vectors tear apart, as x + t of points in space: as many rows at a time as are whole
// vectors. What each row has of its columns alone (t) is in these the same vectors every time, which are loaded before the
// loop; numbers that each row has of its own are one load and a permutation, rows with others between them a few of both, and
// everything else lies as its rows do.
#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "compiler/emit/emit.hpp"
#include "compiler/fusion/index_space.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMostVectors = 8;  // of a group: what stays the same takes as many registers
constexpr std::int64_t kFewVectors = 4;   // of smaller groups several are one trip of the loop

/// So many rows are so many vectors.
struct RowGroup {
  std::int64_t rows, vectors;
};
RowGroup group_of(std::int64_t row, std::int64_t lanes) {
  const std::int64_t shared = std::gcd(row, lanes);
  const std::int64_t times = std::max<std::int64_t>(kFewVectors * shared / row, 1);
  return {times * lanes / shared, times * row / shared};
}

/// How a kernel goes along rows: by their numbers in one dimension, after which come those of their elements.
struct Along {
  std::size_t dim;
  std::int64_t row;  ///< elements
};
/// None: not in this way.
std::optional<Along> along_rows(const Kernel& kernel, int lanes) {
  const Shape& shape = kernel.shape;
  const std::size_t inner = inner_dim(shape);
  if (inner == 0 || shape[inner] < 2 || shape[inner] % lanes == 0) return std::nullopt;
  const auto serves = [&](std::int64_t rows, std::int64_t row) {
    const RowGroup group = group_of(row, lanes);
    const auto equations = static_cast<std::int64_t>(kernel.members.size()) * group.vectors;
    return group.vectors <= kMostVectors && equations <= kMostOfTrip && rows >= 2 * group.rows;
  };
  std::int64_t row = shape[inner];
  if (kernel.alike_in_rows)
    return serves(shape.num_elements() / row, row) ? std::optional(Along{inner - 1, row})
                                                   : std::nullopt;
  // Where too few short rows follow each other, those of several dimensions are a longer one.
  for (std::size_t d = inner; kernel.of_rows && d-- > dim_of_rows(shape); row *= shape[d])
    if (serves(shape[d], row)) return Along{d, row};
  return std::nullopt;
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

std::int64_t rows_of_group(const Plan& plan, const Kernel& kernel, int lanes) {
  if (!plan.emit.short_rows || lanes == 1 || !kernel.woven.empty()) return 1;
  const auto along = along_rows(kernel, lanes);
  return along ? group_of(along->row, lanes).rows : 1;
}

// Groups begin where rows do that a part, and each index of the dimensions around the rows, begins with.
bool short_rows_are_aligned(const KernelContext& k, int lanes) {
  const Shape& shape = k.kernel().shape;
  const auto [dim, row] = *along_rows(k.kernel(), lanes);
  const std::int64_t each = shape.num_elements() / shape[outer_dim(shape)];
  if (!k.kernel().alike_in_rows && dim > outer_dim(shape) && shape[dim] * row % lanes != 0)
    return false;
  // A kernel by itself is cut at multiples of whole groups if there is nothing around its rows (chunking).
  return (k.unit == 0 && each == row) || std::max<std::int64_t>(k.unit, 1) * each % lanes == 0;
}

void emit_short_rows(KernelContext& k, Generator& values, std::size_t inner, int lanes,
                     bool streams, const std::function<void(const Index&)>& one_row) {
  CodeGen& gen = k.gen;
  const Shape& shape = k.kernel().shape;
  const Along along = *along_rows(k.kernel(), lanes);
  const std::int64_t row = along.row;
  const auto [rows, vectors] = group_of(row, lanes);
  // Rows [first, last), of which index_of(row number) gives the indices up to the number.
  const auto groups = [&](Scalar first, Scalar last, const std::function<Index(Scalar)>& index_of,
                          const std::function<Point(Scalar, std::int64_t)>& point) {
    const Scalar whole = end_of_whole_steps(gen, first, last, rows);
    gen.set_lanes(lanes, lanes);
    gen.set_streaming(streams);
    gen.loop_carried(first, whole, rows, {}, [&](Scalar number, const Scalars&) {
      for (std::int64_t v = 0; v < vectors; ++v)
        gen.scope([&] { store_roots(k, values, point(number, v * lanes)); });
      return Scalars{};
    });
    gen.set_lanes(1, 1);
    gen.set_streaming(false);  // these begin anywhere
    gen.loop(whole, last, [&](Scalar number) {
      const Index before = index_of(number);
      const std::span within(shape.data() + before.size(), inner - before.size());
      loop_nest(gen, bounds_of(gen, within), [&](const Index& index) {
        Index all = before;
        all.insert(all.end(), index.begin(), index.end());
        one_row(all);
      });
    });
  };
  const Shape before(std::span(shape.data(), inner));
  if (k.kernel().alike_in_rows) {
    const Scalar each = gen.index(before.num_elements() / shape[outer_dim(shape)]);
    return groups(
        gen.mul(k.begin, each), gen.mul(k.end, each),
        [&](Scalar number) { return values.indices({before, std::nullopt, number}); },
        [&](Scalar number, std::int64_t first) {
          return across_rows(gen, values, shape, number, first);
        });
  }
  LoopBounds outer = bounds_of(gen, std::span(shape.data(), along.dim + 1));
  outer[outer_dim(shape)] = {k.begin, k.end};
  const auto [first, last] = outer.back();
  outer.pop_back();
  loop_nest(gen, outer, [&](const Index& index) {
    const auto with = [&](Scalar number) {
      Index all = index;
      all.push_back(number);
      return all;
    };
    groups(first, last, with, [&](Scalar number, std::int64_t place_of) {
      Scalar place = gen.lane_index(gen.index(place_of));
      std::int64_t each = row;
      Index all = with(gen.add(number, gen.div(place, gen.index(each))));
      while (all.size() < shape.size()) {
        place = gen.rem(place, gen.index(each));
        each /= shape[all.size()];
        all.push_back(gen.div(place, gen.index(each)));
      }
      return Point{shape, std::move(all), std::nullopt};
    });
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
