// Loops whose state fits into registers.
//
// A loop (or branch) is *cellular* when its state falls apart into cells that go through all trips each
// for itself: vmapped scalar loops, above all, and loops over single numbers, which have one cell. It is
// then emitted inside out: the loop over cells is outside, its lanes are cells, and the trips run
// inside, with the state in registers.
//
//   scan(c -> sin(c) * k, c: f32[1024])   ->   for blocks of 16 cells: for trips: c = sin(c) * k
//
// A dimension of the state is either an axis of cells (all operations keep its elements apart) or small,
// and then unrolled: f32[1024, 3] is 1024 cells of three numbers each.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// What each dimension of a variable is: an axis of cells, or kUnrolled.
using Labels = std::vector<int>;
constexpr int kUnrolled = -1;

/// How many elements these dimensions have together: what a fold over them folds.
std::int64_t elements_along(const Shape& dims, const Shape& shape);
/// The elements of a cell.
std::int64_t unrolled(const Shape& shape, const Labels& labels);
/// How far elements that follow each other along an axis lie from each other; 0 for what has no such axis.
std::int64_t step_along(int axis, const Shape& shape, const Labels& labels);

/// One loop or branch, with those inside it.
struct CellLoop {
  struct Program {
    std::vector<Labels> labels;     ///< of each variable
    std::map<int, CellLoop> loops;  ///< by equation
  };
  std::vector<Labels> results;    ///< of the equation
  std::vector<Program> programs;  ///< the body; condition and body; the branches
  std::vector<std::int64_t>
      axes;                 ///< their sizes, at the outermost loop; the last one runs along lanes
  int values = 0;           ///< numbers per cell that are alive from trip to trip
  bool lies_apart = false;  ///< whether lanes of the state or of rows lie far apart in memory
  int work = 0;             ///< operations per cell and trip
  std::size_t widest = 4;   ///< bytes of the widest type
  /// Of each operand and of each result, for rows that lie in memory as a transposition has them (turned_rows.hpp): the
  /// order of the axes of all rows together. Empty for others.
  std::vector<Shape> turned_operands{}, turned_results{};
};

/// The most numbers of a cell, of one row or of those of several trips, that are moved together where rows lie by cells.
constexpr std::int64_t kMostMovedTogether = 32;

/// Nothing if the loop is not cellular, or too large to be unrolled.
std::optional<CellLoop> cell_loop(const Jaxpr& jaxpr, const Eqn& eqn);

/// As far as it pays: loops without a state that would be kept in registers gain only where trips are short.
std::optional<CellLoop> worthwhile_cell_loop(const Jaxpr& jaxpr, const Eqn& eqn);

/// Whether an equation is cellular where operands and results have these types.
bool is_cellular(const Eqn& eqn, const Avals& operands, const Avals& results);

/// The trips of a scan; a guess for others.
std::int64_t expected_trips(const Eqn& eqn);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
