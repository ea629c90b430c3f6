// Which kernels are worth several threads, and where they are cut into chunks: multiples of what a vector, a line or a
// tile takes, of at least so much work that the pool is worth it.
#include <algorithm>

#include "compiler/emit/dot_tiles.hpp"
#include "compiler/emit/emit.hpp"
#include "compiler/emit/emit_reduction.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/index_space.hpp"
#include "compiler/plan/segments.hpp"
#include "core/integers.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kBlock = 64;          // a multiple of all lane counts
constexpr std::int64_t kColumns = 512;       // fewer side by side are no stream
constexpr std::int64_t kTransposeTile = 16;  // a multiple of all numbers of lanes
constexpr std::int64_t kMostChunks = 64;     // balance any machine, and cost nothing

const Eqn& eqn_of(const Scope& scope, int e) {
  return scope.jaxpr.eqns()[static_cast<std::size_t>(e)];
}

/// Where a kernel may be cut: trips of its outermost loop, in multiples of so many.
struct Cuts {
  std::int64_t extent = 1, unit = 1;
  bool by_columns = false;
};

/// Whether tiles are transposed whose rows are trips of the outermost loop.
bool tiles_outermost(const Scope& scope, const Kernel& k) {
  return std::any_of(k.members.begin(), k.members.end(), [&](int e) {
    const Eqn& eqn = eqn_of(scope, e);
    const std::size_t outer = outer_dim(k.shape);
    return eqn.primitive == &transpose_p && contiguous_dim(scope, k, eqn).value_or(outer) == outer;
  });
}

// Where rows of the operand become columns, chunks are of as many tiles as make a stream of it, if there are chunks
// enough for all threads.
std::int64_t tiles_at_once(const Scope& scope, const Kernel& k) {
  constexpr std::int64_t kMost = 16, kLeastChunks = 16;
  const auto turns_rows = [&](int e) {
    const Eqn& eqn = eqn_of(scope, e);
    if (eqn.primitive != &transpose_p) return false;
    const Shape& order = eqn.params.as<TransposeParams>().permutation;
    return order[outer_dim(k.shape)] + 1 == static_cast<std::int64_t>(order.size());
  };
  if (std::none_of(k.members.begin(), k.members.end(), turns_rows)) return 1;
  const std::int64_t rows = k.shape[outer_dim(k.shape)];
  return std::clamp<std::int64_t>(rows / (kLeastChunks * kTransposeTile), 1, kMost);
}

Cuts cuts_of_loop(const Plan& plan, const Scope& scope, const Kernel& k) {
  const std::int64_t size = k.shape.num_elements();
  if (k.linear) return {size, kBlock};
  const std::size_t inner = inner_dim(k.shape), outer = outer_dim(k.shape);
  const std::int64_t rows = k.shape[outer], columns = k.shape[inner];
  if (inner == outer) return {rows, kBlock};
  const bool is_matrix = rows * columns == size;
  if (tiles_outermost(scope, k)) {
    const std::int64_t tiles = tiles_at_once(scope, k) * kTransposeTile;
    // Points that become planes are a few long rows.
    if (rows < 2 * tiles && is_matrix) return {columns, kBlock, true};
    return {rows, tiles};
  }
  const bool short_rows = rows_of_group(plan, k, vector_lanes(scope.jaxpr, k)) > 1;
  return {rows, short_rows && is_matrix ? kBlock : 1};
}

// As the emitter goes: over what is kept first, or else over columns of results.
Cuts cuts_of_reduction(const Scope& scope, const Kernel& k, std::int64_t cost) {
  const std::vector<FoldDim> dims = merged_dims(k);
  const auto kept = [](const FoldDim& d) { return !d.folded; };
  const auto first = std::find_if(dims.begin(), dims.end(), kept);
  const std::int64_t extent = first == dims.end() ? 1 : first->size;
  const bool along_results = !dims.empty() && kept(dims.back());
  // Columns within others are not cut, but few of these leave it to parts of what is folded.
  constexpr std::int64_t kFewAround = 16;
  const bool within = along_results && first + 1 != dims.end() && extent >= kFewAround;
  if (along_results && !within && (first != dims.begin() || dims.size() == 1)) {
    // Where columns are too short to be folded in parts, a narrow stream is better than none.
    const std::int64_t work = detail::saturating_mul(k.shape.num_elements(), cost);
    const bool narrow = extent < 4 * kColumns && work / (2 * kLeastPart) < extent;
    return {extent, narrow ? kBlock : kColumns};
  }
  const TurnedOperands turned = turned_operands(scope, k, dims);
  if (!turned.transposes.empty() && static_cast<std::ptrdiff_t>(turned.dim) == first - dims.begin())
    return {extent, kTransposeTile};
  // Short rows are folded as many at a time as there are lanes (row_blocks in emit_reduction_rows.cpp):
  // chunks are of rows if there is nothing around these.
  const bool short_rows =
      !along_results && dims.size() <= 2 && (dims.empty() || dims.back().size <= 2 * kBlock);
  return {extent, short_rows ? kBlock : 1};
}

/// Trips of the thread that has most, for each of so many, when each has as many of the chunks as another or one less.
std::int64_t most_trips(std::int64_t chunks, std::int64_t grain, std::int64_t threads) {
  return detail::ceil_div(chunks, threads) * grain * threads;
}

// Of a few chunks one thread may have one more than another, and the last is short: they are up to half as long, an even
// number of them, of which two threads and four have as nearly the same as there is, unless they can not be cut there.
Chunking in_even_chunks(const Cuts& cuts, std::int64_t grain) {
  constexpr std::int64_t kMany = 16;
  const std::int64_t chunks = detail::ceil_div(cuts.extent, grain);
  if (chunks > kMany) return {cuts.extent, grain, cuts.by_columns};
  const auto grain_of = [&](std::int64_t n) {
    return detail::ceil_div(cuts.extent, n * cuts.unit) * cuts.unit;
  };
  const auto uneven = [&](std::int64_t of) {
    const std::int64_t n = detail::ceil_div(cuts.extent, of);
    return most_trips(n, of, 2) + most_trips(n, of, 4);
  };
  grain = grain_of(2 * chunks);
  for (std::int64_t n = 2 * chunks - 1; n >= chunks; --n) {
    if (uneven(grain_of(n)) < uneven(grain)) grain = grain_of(n);
  }
  return {cuts.extent, grain, cuts.by_columns};
}

Chunking chunks_of_nest(const Plan& plan, const Scope& scope, const Kernel& k) {
  const std::int64_t size = k.shape.num_elements();
  if (k.kind == Kernel::Kind::loop && size <= 1) return {1, 0};
  const std::int64_t cost = cost_of(scope, k);
  Cuts cuts = k.kind == Kernel::Kind::loop ? cuts_of_loop(plan, scope, k)
                                           : cuts_of_reduction(scope, k, cost);
  // Of kernels that are cut, whole trips of their loops: each reads all of the code.
  if (k.segments && cuts.extent >= 2 * k.segments->lanes * k.segments->vectors)
    cuts.unit = std::max(cuts.unit, k.segments->lanes * k.segments->vectors);
  const std::int64_t each = std::max<std::int64_t>(
      detail::saturating_mul(size / std::max<std::int64_t>(cuts.extent, 1), cost), 1);
  const std::int64_t grain =
      std::max(detail::rounded_up(detail::ceil_div(kParallelCost, each), cuts.unit),
               detail::rounded_up(cuts.extent / kMostChunks, cuts.unit));
  // Rather than few chunks of columns, parts of the rows (cut_reduction in plan.cpp). The last may lack a quarter.
  const std::int64_t least = cuts.unit == kColumns ? 4 : 2;
  if (grain == 0 || detail::saturating_mul(4, cuts.extent) < (4 * least - 1) * grain)
    return {cuts.extent, 0, cuts.by_columns};
  return in_even_chunks(cuts, grain);
}

Chunking chunks_of_cells(const Scope& scope, const Kernel& k) {
  const std::int64_t extent = k.shape.empty() ? 1 : k.shape[0];
  const std::int64_t trips = expected_trips(eqn_of(scope, k.eqn));
  const std::int64_t each =
      detail::saturating_mul(k.shape.num_elements() / std::max<std::int64_t>(extent, 1),
                             detail::saturating_mul(k.cell->work, trips));
  const std::int64_t unit = k.shape.ndim() > 1 ? 1 : 2 * kBlock;
  const std::int64_t grain =
      detail::rounded_up(std::max(detail::ceil_div(kParallelCost, std::max<std::int64_t>(each, 1)),
                                  extent / kMostChunks),
                         unit);
  if (grain == 0 || extent < 2 * grain) return {extent, 0};
  return in_even_chunks({extent, unit}, grain);
}

// Where all rows of b are gone through, each thread has a piece of them: short pieces are no stream. (On Zen 4 two threads took
// 0.8 to 2.5 times as long with pieces of 128 and 256 bytes as one with whole rows of 4 to 16 KiB, 0.5 to 0.7 with those of
// 2 KiB, 0.6 to 0.9 with those of 1 KiB.)
Chunking pieces_of_rows(const DotTiles& t, std::int64_t grain) {
  constexpr std::int64_t kPiece = 2048, kLeast = 1024;  // bytes
  const std::int64_t extent = t.extent();
  const std::int64_t row = extent * t.lanes * static_cast<std::int64_t>(size_of(t.rhs));
  const std::int64_t wanted = row >= 2 * kLeast ? std::max<std::int64_t>(row / kPiece, 2) : 1;
  const std::int64_t pieces = std::min(wanted, extent / grain) / 2 * 2;
  return {extent, pieces == 0 ? 0 : detail::ceil_div(extent, pieces)};
}

Chunking chunks_of_dot(const Kernel& k) {
  if (k.dot_tiles == nullptr) return {1, 0};
  const MatrixProduct& p = k.dot_tiles->product;
  const std::int64_t extent = k.dot_tiles->extent();
  // Of short vectors reading and writing is most of it.
  std::int64_t cost = p.work_of_one() / 4;
  for (const auto& [rows, columns] : {std::pair(p.m, p.k), {p.k, p.n}, {p.m, p.n}})
    cost = detail::saturating_add(cost, detail::saturating_mul(rows, columns));
  const std::int64_t each = k.dot_tiles->shared == DotTiles::Shared::batch
                                ? cost
                                : cost / std::max<std::int64_t>(extent, 1);
  const std::int64_t grain = std::max(
      {kParallelCost / std::max<std::int64_t>(each, 1), extent / kMostChunks, std::int64_t{1}});
  if (k.dot_tiles->way == DotTiles::Way::rows_once) return pieces_of_rows(*k.dot_tiles, grain);
  if (grain * 2 > extent) return {extent, 0};
  return in_even_chunks({extent, 1}, grain);
}

}  // namespace

std::int64_t cost_of(const Scope& scope, const Kernel& k) {
  std::int64_t cost = 2;
  for (const int e : k.members) cost += element_cost(eqn_of(scope, e));
  return cost;
}

Chunking chunking(const Plan& plan, const Step& step) {
  const Kernel& k = step.kernel;
  const Scope& scope = plan.scopes[static_cast<std::size_t>(step.scope)];
  switch (k.kind) {
    case Kernel::Kind::emitted:
    case Kernel::Kind::update: return {1, 0};
    case Kernel::Kind::cells: return chunks_of_cells(scope, k);
    case Kernel::Kind::dot: return chunks_of_dot(k);
    case Kernel::Kind::loop:
    case Kernel::Kind::reduction: break;
  }
  return chunks_of_nest(plan, scope, k);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
