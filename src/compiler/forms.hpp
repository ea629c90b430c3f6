// What the compiler knows of an equation: the form of its lowering and what evaluating one element
// costs.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

enum class Form : std::uint8_t {
  ops,        ///< to be expanded by the lowering pass
  element,    ///< element i of the result from element i of each operand
  index,      ///< element i of the result from any elements of the operands
  reshape,    ///< element i of the result is element i of the operand, counted in row-major order
  reduction,  ///< folds over axes of its operand
  dot,        ///< dot_general
  kernel,     ///< loops over whole buffers
  host,       ///< a C++ function over buffers
  region,     ///< a loop or a branch: scan, while, cond
  barrier,    ///< optimization_barrier: its results are its operands' memory, when all are there
};

/// The lowering of a primitive for this platform; NotImplementedError when there is none.
const Lowering& lowering_of(const PrimitiveBase& primitive);
Form form_of(const Jaxpr& jaxpr, const Eqn& eqn);

/// Whether an equation is of one of these primitives.
inline bool one_of(const Eqn& eqn, std::initializer_list<const PrimitiveBase*> primitives) {
  return std::find(primitives.begin(), primitives.end(), eqn.primitive) != primitives.end();
}

/// Whether a primitive works element by element.
bool works_by_element(const PrimitiveBase& primitive);

/// The axes of a reduction.
Shape reduction_axes(const Eqn& eqn);

/// argmax and argmin fold the extreme and its place together.
bool finds_place(const Eqn& eqn);
/// Whether that serves the axis at hand: short rows are better folded twice.
bool folds_place(const Params& params, const Aval& operand);
/// What the place is counted in while it is sought: as wide as the elements, if that is enough.
DType place_type(const Aval& operand);

/// The longest rows whose columns are taken apart in registers.
constexpr std::int64_t kShortRow = 8;
/// Numbers of the largest matrices that simplify takes apart, those of 4 x 4.
constexpr std::int64_t kSmallMatrix = 16;
/// The most columns that are put together in registers.
constexpr std::size_t kMostWoven = 256;
/// Whether an equation puts a short row together from one column each: (n, 1), (n, 1), ... -> (n, k).
bool weaves(const Jaxpr& jaxpr, const Eqn& eqn);
/// The same of a concatenation of these.
bool weaves(const Params& params, const Avals& parts, const Aval& out);

/// Whether an equation puts parts of one shape one after the other, where these lie in memory: (1, n), (1, n), ... -> (k, n).
bool stacks(const Jaxpr& jaxpr, const Eqn& eqn);

/// Whether an equation puts an array together of so many parts that code which asks of each index where it
/// lies, part by part, takes longer than to have all parts in memory and to copy them one by one.
bool joins_parts(const Jaxpr& jaxpr, const Eqn& eqn);

/// Whether every result has the bits of an operand's element, wherever that is: nothing is computed with them, and they may
/// be those of a 16-bit float.
bool moves_elements(const Eqn& eqn);

/// About how many cycles a vector of results takes, operands not counted: 1 for an addition.
int element_cost(const Eqn& eqn);
/// That of the cheapest functions that are called, exp and log.
constexpr int kCallCost = 15;

/// Whether an equation reads a window of its first operand (dynamic_slice, gather), of what size, and whether it begins
/// along an axis where the program says.
bool reads_window(const Eqn& eqn);
const Shape& window_of(const Eqn& eqn);
bool begins_anywhere(const Eqn& eqn, std::size_t axis);

/// The dimension of the result of a transpose along which its operand is contiguous.
std::size_t contiguous_dim(const Jaxpr& jaxpr, const Eqn& transpose);
/// Bytes of a row up to which vectors compute its place sooner than single instructions, if that takes more than so many cycles:
/// of longer rows it does not matter.
constexpr std::int64_t kLongestAtPlace = 64;
constexpr int kLittleForPlace = 1;
/// Of what a gather looks up at one place, how many elements lie side by side: those behind all axes of places.
std::int64_t row_at_place(const Jaxpr& jaxpr, const Eqn& gather);
/// Whether an equation looks up short rows, of which the kernel that needs columns can take these (look_up_columns).
bool looks_up_short_rows(const Jaxpr& jaxpr, const Eqn& eqn);

/// Whether an equation writes or adds windows at places that an operand says.
inline bool is_scatter(const Eqn& eqn) { return one_of(eqn, {&scatter_p, &scatter_add_p}); }

/// How far apart the elements are that a slice takes along an axis.
inline std::int64_t stride_of(const SliceParams& p, std::size_t axis) {
  return p.strides.empty() ? 1 : p.strides[axis];
}
/// Whether it takes all of an axis of an array of this shape.
inline bool takes_whole_axis(const SliceParams& p, const Shape& from, std::size_t axis) {
  return p.start_indices[axis] == 0 && p.limit_indices[axis] == from[axis] &&
         stride_of(p, axis) == 1;
}
/// Whether a pad leaves an axis as it is, for which it says this.
inline bool pads_nothing(const std::array<std::int64_t, 3>& low_high_interior) {
  return low_high_interior == std::array<std::int64_t, 3>{0, 0, 0};
}

/// Whether each element of a result that a window is written over would have to look for itself in the window: the window
/// cuts rows at a place that nobody knows. The array is better stored first (400 x 250 numbers: 0.2 of the time). Short
/// rows that are written whole, colours of an image, say, lie in rows of more.
bool looks_for_window(const Jaxpr& jaxpr, const Eqn& eqn);

/// Whether an array may not stay in the second cache of its own accord, among others: what is smaller is
/// no reason to go through arrays in parts.
inline bool is_large(const Aval& a) { return detail::checked_bytes(a) >= 256 << 10; }
/// Whether a program, or a loop or branch of it, reads or computes anything large.
bool has_large_values(const Jaxpr& jaxpr);

inline bool is_barrier(Form f) {
  return f == Form::dot || f == Form::kernel || f == Form::host || f == Form::region ||
         f == Form::barrier;
}
/// Whether a primitive is a loop or a branch.
bool is_region(const PrimitiveBase& primitive);
inline bool is_fusible(Form f) {
  return f == Form::element || f == Form::index || f == Form::reshape;
}

/// Whether the library knows what an operation gives for known operands; what users define may do anything.
bool can_be_evaluated(const PrimitiveBase& primitive);
/// What it gives for these. Nothing where it cannot be evaluated, or where that is an error, which the program is to meet
/// when it runs.
std::optional<Arrays> evaluated(const PrimitiveBase& primitive, const Params& params,
                                const Arrays& operands);

/// What a fold does with two numbers: add for reduce_sum, ...; null where it is no fold of that kind.
const Primitive<>* combination(const PrimitiveBase* reduction);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
