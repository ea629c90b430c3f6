// How our own loops compute a matrix product: the tiles of least cost.
#include "compiler/emit/dot_tiles.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "compiler/codegen/codegen.hpp"
#include "core/element.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

Pieces pieces_of(std::int64_t whole, std::int64_t most) {
  const std::int64_t count = detail::ceil_div(whole, most), size = detail::ceil_div(whole, count);
  const std::int64_t shorter = count * size - whole;
  return {size, count - shorter, shorter};
}

/// How the results are cut into tiles that are summed in registers.
struct ResultTiles {
  Pieces rows, vectors;
};

// What the tiles take, in quarters of a multiplication. A processor does two of them at a time, nearly as many
// loads (of a row of b, and of a column of a), and eight while a sum waits for the one before: ten sums are enough.
// Tiles begin and end. Another size of tile is more code to be generated, and has to be worth it.
std::int64_t cost_of_tiles(const ResultTiles& t, std::int64_t k) {
  constexpr std::int64_t kMultiplication = 4, kLoad = 5, kInFlight = 10, kEnds = 24;
  std::int64_t cost = 0, sizes = 0;
  for (const Pieces::Kind rows : t.rows.kinds()) {
    for (const Pieces::Kind vectors : t.vectors.kinds()) {
      if (rows.count * vectors.count == 0) continue;
      const std::int64_t sums = rows.size * vectors.size;
      const std::int64_t step =
          std::max(kMultiplication * std::max(sums, kInFlight), kLoad * (rows.size + vectors.size));
      const std::int64_t each =
          detail::saturating_add(detail::saturating_mul(k, step), kMultiplication * (sums + kEnds));
      cost = detail::saturating_add(cost, detail::saturating_mul(rows.count * vectors.count, each));
      ++sizes;
    }
  }
  return detail::saturating_add(cost, cost / 64 * sizes);
}

// So many rows, this many elements apart, have room in the first cache side by side, which has eight places for all lines that
// are so many times 4 KiB apart, and a few of them are for others.
std::int64_t most_rows_apart(std::int64_t elements, DType dtype) {
  constexpr std::uint64_t kApart = 4096, kLine = 64, kPlaces = 6;
  // Of shapes that are only compiled for, it may be any number.
  const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * size_of(dtype);
  return static_cast<std::int64_t>(kPlaces * kApart /
                                   std::max(std::gcd(bytes % kApart, kApart), kLine));
}

// The cheapest tiles, of no more rows than that, for whose sums, a row of b and an element of a there are registers.
ResultTiles cheapest_tiles(std::int64_t m, std::int64_t vectors, std::int64_t k,
                           std::int64_t most_rows) {
  const std::int64_t registers = runtime::target_vector_registers();
  ResultTiles best{pieces_of(m, 1), pieces_of(vectors, 1)};
  for (std::int64_t wide = 1; wide <= registers / 4; ++wide) {
    for (std::int64_t high = 1; (high + 1) * wide < registers && high <= most_rows; ++high) {
      const ResultTiles t{pieces_of(m, high), pieces_of(vectors, wide)};
      if (cost_of_tiles(t, k) < cost_of_tiles(best, k)) best = t;
    }
  }
  return best;
}

// Of one row times what memory holds, tiles would read each term a page apart from the one before. Integers are added in any
// order: rows of b are followed from end to end, while the sums wait in the cache.
bool reads_rows_once(const DotTiles& t, const Kernel& kernel) {
  constexpr std::int64_t kMemory = 1 << 20, kCache = 256 << 10;
  const MatrixProduct& p = t.product;
  const auto bytes = [](std::int64_t n, DType d) {
    return detail::saturating_mul(n, static_cast<std::int64_t>(size_of(d)));
  };
  return p.m == 1 && p.rhs.column == 1 && is_integer(t.out) && !kernel.goes_on() &&
         p.n >= 4 * t.lanes && p.k >= kRowsOnce && bytes(p.n, t.out) <= kCache &&
         bytes(detail::saturating_mul(p.k, p.n), t.rhs) >= kMemory;
}

// Sums of 16 bits, of which as many are in a vector as there are pairs of terms: these need not be put together, but each
// factor is broadcast. All wraps around as it does in longer sums. Measured on Zen 4 for one row of 4,096 times a matrix:
// 0.56 (i8) and 0.92 (i16) of the time, with AVX2 0.52 and 0.88. Tiles take 0.5 to 0.8 with AVX2, where no vector has a mask,
// but 1.1 with AVX-512, where a broadcast of 16 bits takes as long as a product.
bool wants_short_sums(const DotTiles& t, bool tiles) {
  const MatrixProduct& p = t.product;
  constexpr std::size_t kShort = 2;
  if (!is_integer(t.out) || std::max({size_of(t.lhs), size_of(t.rhs), size_of(t.out)}) > kShort)
    return false;
  const auto lanes = static_cast<std::int64_t>(runtime::target_vector_bytes() / kShort);
  return !tiles || (runtime::target_isa() == runtime::Isa::avx2 && p.n % lanes == 0);
}

void sum_shorts(DotTiles& t) {
  t.sum = DType::i16;
  t.lanes = static_cast<int>(runtime::target_vector_bytes() / size_of(t.sum));
}

void turn(DotTiles& t) {
  MatrixProduct& p = t.product;
  std::swap(t.lhs, t.rhs);
  std::swap(p.m, p.n);
  std::swap(p.lhs, p.rhs);
  std::swap(p.lhs.row, p.lhs.column);
  std::swap(p.rhs.row, p.rhs.column);
}

// Vectors no wider than need be: those of 4 or 8 columns have no mask.
void cut_into_vectors(DotTiles& t) {
  const MatrixProduct& p = t.product;
  t.lanes = static_cast<int>(std::min(static_cast<std::uint64_t>(t.lanes),
                                      std::bit_ceil(static_cast<std::uint64_t>(p.n))));
  const std::int64_t vectors = detail::ceil_div(p.n, t.lanes);
  const ResultTiles tiles = cheapest_tiles(p.m, vectors, p.k, most_rows_apart(p.lhs.row, t.lhs));
  t.rows = tiles.rows;
  t.columns = tiles.vectors;
}

// The sums of a few rows and columns at a time, which share what they load, all in registers. Larger tiles gain nothing, for
// each sum ends in one over lanes.
void cut_into_sums(DotTiles& t) {
  constexpr std::int64_t kMost = 4, kSums = 12;
  const MatrixProduct& p = t.product;
  if (p.k == 1) t.lanes = 1;
  const std::int64_t most_rows = std::min(p.m, kMost);
  // Of b a register for each column, one of a, and one of a product that is not fused with its sum.
  const bool fused = is_float(t.sum) && runtime::target_isa() != runtime::Isa::generic;
  const std::int64_t registers = runtime::target_vector_registers() - (fused ? 1 : 2);
  t.rows = pieces_of(p.m, kMost);
  t.columns = pieces_of(p.n, std::min({kMost, kSums / most_rows, registers / (most_rows + 1)}));
}

// Products of bytes, four at a time, where the processor has an instruction for it. For lanes along columns bytes of four rows
// of b are put together, once for all rows of a tile: on Zen 4, 256 x 256 times 256 x 256 takes 0.44 of the time with pairs,
// 100 x 8 times 8 x 100 0.76, three rows of 300 times 300 x 1,000 0.61. Along the terms 1,000 x 1,000 times 1,000 x 8 takes
// 0.72, a large matrix times a vector 0.9.
bool takes_quads(const DotTiles& t) {
  constexpr std::int64_t kLeastTerms = 8, kLeastRows = 3;
  const MatrixProduct& p = t.product;
  if (t.sum != DType::i32 || !p.of_bytes || p.lhs.column != 1 || !CodeGen::has_quads(t.lanes))
    return false;
  if (t.way == DotTiles::Way::terms) return p.rhs.row == 1 && p.k >= 4 * t.lanes;
  return t.way == DotTiles::Way::columns && p.rhs.column == 1 && p.k >= kLeastTerms &&
         t.rows.size >= kLeastRows;
}

// Of one product those pieces of which there are more; a row is folded by one thread.
DotTiles::Shared what_is_shared(const DotTiles& t, const Kernel& kernel) {
  if (t.product.batch != 1) return DotTiles::Shared::batch;
  return !kernel.reductions.empty() || t.rows.count() >= t.columns.count()
             ? DotTiles::Shared::rows
             : DotTiles::Shared::columns;
}

}  // namespace

std::optional<DotTiles> dot_tiles(const Scope& scope, const Kernel& kernel) {
  const Eqn& eqn = scope.jaxpr.eqns()[static_cast<std::size_t>(kernel.eqn)];
  const Aval &lhs = scope.jaxpr.aval(eqn.inputs[0]), &rhs = scope.jaxpr.aval(eqn.inputs[1]);
  const auto product = matrix_product(lhs, rhs, eqn.params.as<DotGeneralParams>());
  if (!product) return std::nullopt;
  DotTiles t{.product = *product,
             .lhs = lhs.dtype,
             .rhs = rhs.dtype,
             .out = scope.jaxpr.aval(eqn.outputs[0]).dtype,
             .sum = {}};
  // Sums of short integers wrap around as those of longer ones do, whose products come in pairs.
  t.sum = detail::is_small_float(t.out)                                   ? DType::f32
          : product->of_shorts && is_integer(t.out) && size_of(t.out) < 4 ? DType::i32
                                                                          : t.out;
  const std::size_t widest =
      std::max({size_of(t.lhs), size_of(t.rhs), size_of(t.sum), std::size_t{4}});
  t.lanes = static_cast<int>(runtime::target_vector_bytes() / widest);
  if (product->batch == 0 || product->m == 0 || product->n == 0) return t;
  // A matrix times a vector, lanes along the rows of the result, is the vector, a row, times the matrix's transpose.
  const DotLanes along = dot_lanes(*product);
  t.turned = along == DotLanes::rows;
  if (t.turned) turn(t);
  const MatrixProduct& p = t.product;
  if (along == DotLanes::contraction) {
    t.way = DotTiles::Way::terms;
    cut_into_sums(t);
  } else if (reads_rows_once(t, kernel)) {
    t.way = DotTiles::Way::rows_once;
    if (wants_short_sums(t, false)) sum_shorts(t);
    t.rows = pieces_of(p.m, 1);
    t.columns = pieces_of(detail::ceil_div(p.n, t.lanes), 1);
  } else {
    if (wants_short_sums(t, true)) sum_shorts(t);
    cut_into_vectors(t);
  }
  t.quads = takes_quads(t);
  // Whole numbers of 16 bits, whose products two at a time are one instruction. All wraps around as it does one by one. Lanes
  // along the terms load both numbers of each pair at once.
  const bool side_by_side = t.way != DotTiles::Way::terms || (p.lhs.column == 1 && p.rhs.row == 1);
  t.pairs = !t.quads && side_by_side && (t.sum == DType::i32 || t.sum == DType::u32) && p.k > 1 &&
            p.of_shorts && CodeGen::has_pairs(t.lanes);
  t.shared = what_is_shared(t, kernel);
  return t;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
