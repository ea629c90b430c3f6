// How our own loops compute a matrix product: what lanes run along, the tiles whose sums are in registers, and what threads
// share.
#pragma once

#include <array>

#include "compiler/plan/dot.hpp"
#include "compiler/plan/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A dimension in pieces that differ by one at most: the longer ones come first.
struct Pieces {
  std::int64_t size = 1, longer = 0, shorter = 0;  ///< of the longer ones, and how many there are
  struct Kind {
    std::int64_t size, count;
  };
  std::array<Kind, 2> kinds() const { return {{{size, longer}, {size - 1, shorter}}}; }
  std::int64_t count() const { return longer + shorter; }
};

/// Rows of b that are followed side by side, where one row is multiplied by what memory holds.
inline constexpr int kRowsOnce = 6;

/// What the loops of one product are: chosen by its shapes and types alone.
struct DotTiles {
  MatrixProduct
      product;  ///< with the operands exchanged if `turned`: what lanes would run along rows
  bool turned = false;
  DType lhs, rhs, out, sum;  ///< elements, and what sums are kept as
  enum class Way : std::uint8_t {
    columns,   ///< lanes along the columns of the result, tiles of some rows and vectors
    terms,     ///< lanes along the terms, tiles of some rows and columns
    rows_once  ///< one row: lanes along columns, some rows of b from end to end
  };
  Way way = Way::columns;
  int lanes = 1;
  bool pairs = false;    ///< two terms at a time
  bool quads = false;    ///< four of them
  Pieces rows, columns;  ///< of the tiles; columns count vectors where lanes run along them
  /// What the outermost loop goes through, so that threads may share it: products, or pieces of the only one.
  enum class Shared : std::uint8_t { batch, rows, columns };
  Shared shared = Shared::batch;

  std::int64_t extent() const {
    return shared == Shared::batch  ? product.batch
           : shared == Shared::rows ? rows.count()
                                    : columns.count();
  }
};

/// Of a kernel whose dimensions are grouped (`matrix_product`); nullopt: they are not.
std::optional<DotTiles> dot_tiles(const Scope& scope, const Kernel& kernel);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
