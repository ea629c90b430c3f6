// ReductionEmitter: the loops of a kernel that folds, in their forms. Internal to emit_reduction*.cpp.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

constexpr int kAccumulators = 4;

/// A dimension of more than one element, or several adjacent ones of a kind in linear kernels.
struct FoldDim {
  std::int64_t size;
  bool folded;
};
std::vector<FoldDim> merged_dims(const Kernel& k);

/// A power of two, at least so many parts but for the most there may be: two, four or eight threads have shares alike.
std::int64_t even_parts(std::int64_t wanted, std::int64_t most);

/// How the folded space is cut into parts.
struct FoldParts {
  std::size_t dim = 0;  ///< of the merged dimensions
  std::int64_t parts = 1, length = 0;

  /// Parts of half of kParallelCost, at least, at most kMaxParts: by what is folded and what an element of it costs.
  static std::optional<FoldParts> of(const Kernel& k, const std::vector<FoldDim>& dims,
                                     std::int64_t cost);
  /// Of a kernel that has memory for them.
  static FoldParts of(const Kernel& k, const std::vector<FoldDim>& dims) {
    return *of(k, dims, k.part_cost);
  }
};

/// Tiles of rows (plan/tiles.cpp), and parts that are cut into such, are multiples of so many: of all lane counts.
constexpr std::int64_t kRowsOfTile = 16;
/// Parts of a kernel that folds columns, too.
std::int64_t parts_both_ways(const Kernel& k, std::int64_t cost);
/// The rows that each of them has, but for the last.
std::int64_t rows_of_part(const Kernel& k);

/// Transposes whose operands squares of elements in registers turn: along this dimension, one of those that are kept, they
/// are contiguous (emit_reduction_turned.cpp).
struct TurnedOperands {
  std::size_t dim = 0;  ///< of the merged dimensions
  std::vector<int> transposes;
};
/// Of a kernel that folds rows, by its shapes and types alone.
TurnedOperands turned_operands(const Scope& scope, const Kernel& k,
                               const std::vector<FoldDim>& dims);

class ReductionEmitter {
 public:
  explicit ReductionEmitter(KernelContext& k);
  void run();
  /// Folds the parts' results.
  void end();

 private:
  // ---- what all forms share (emit_reduction.cpp)
  bool along_rows() const { return dims_.empty() || dims_.back().folded; }
  std::vector<std::size_t> outer_dims() const;
  LoopBounds outer_bounds();
  void for_each_outer(const LoopBounds& bounds, const std::function<void()>& body);
  // Loops over some dimensions, with 0 for the others.
  void for_each(const std::vector<std::size_t>& dims, const LoopBounds& bounds,
                const std::function<void()>& body);
  // Rows along which lanes run, one by one or several together: those that these bounds leave.
  void for_each_row(const LoopBounds& bounds);
  bool is_split(std::size_t d) const { return part_.has_value() && split_->dim == d; }
  Scalar lower(std::size_t d) { return is_split(d) ? from_ : gen_.index(0); }
  Scalar upper(std::size_t d) { return is_split(d) ? to_ : gen_.index(dims_[d].size); }
  // ---- parts -------------------------------------------------------------------------------------
  // The parts [k.begin, k.end), each into its place among the partial results.
  void parts();
  Scalar partial_index(Scalar part);
  void store_partials(const Scalars& acc);
  Scalars fold_partials(Scalars acc);
  const Eqn& eqn(int e) const { return k_.eqn(e); }
  const Lowering::Reduction& rule(int e) const {
    return std::get<Lowering::Reduction>(lowering_of(*eqn(e).primitive).form);
  }
  DType dtype(int e) const { return k_.scope.jaxpr.aval(eqn(e).inputs[0]).dtype; }
  /// What is folded: one accumulator for each reduction; for argmax and argmin the extreme, then its
  /// place.
  struct Slot {
    int e;
    bool place;
    DType dtype;
  };
  std::size_t count() const { return slots_.size(); }
  Scalar identity(std::size_t slot);
  Scalar combine_values(int e, Scalar a, Scalar b);
  // Two sets of accumulators become one. Of equal extremes the first place stays.
  Scalars combine(const Scalars& a, const Scalars& b);
  Scalars take(const Scalars& all, std::size_t first) const;
  // Several sets of accumulators, then their lanes.
  Scalars fold_lanes(const Scalars& acc);
  // The first place of the extreme among the lanes of these accumulators.
  Scalar first_place(const Scalars& acc, std::size_t slot, Scalar extreme);
  // Where a slot is kept in memory while columns are folded; -1: nowhere.
  int memory_of(std::size_t slot) const;
  Scalars load_memory(Scalar at);
  void store_memory(Scalar at, const Scalars& acc);
  // The index along the only axis; in loops over vectors of a row, the trip.
  Scalar place() {
    if (trip_) return *trip_;
    return folded_.empty() ? gen_.index(0) : index_[folded_[0]];
  }
  // Whether x, which comes later, replaces the extreme so far: also if it is the first NaN.
  Scalar better(int e, Scalar x, Scalar best);
  // The element of the operand's shape at index_.
  Point operand_point();
  // The element of the reduced shape.
  Point reduced_point();
  // Folds the element at index_ into the accumulators, storing what is to be stored on the way.
  void accumulate(Scalars& acc, std::size_t first, bool mask);
  // What follows the fold: results and epilogue at the reduced index.
  void finish(const Scalars& acc);
  // A loop over vectors of a row: what divides does so a trip ahead.
  Scalars lanes_carried(Scalar begin, Scalar end, std::int64_t step, Scalars init,
                        const std::function<Scalars(Scalar i, const Scalars& carried)>& body);
  // Loops over the folded dimensions dims[i...], carrying the accumulators; `innermost` does the last.
  Scalars fold_nest(const std::vector<std::size_t>& dims, std::size_t i, Scalars acc,
                    const std::function<Scalars(Scalars)>& innermost);
  // A vector of identities: the accumulators have to be vectors from the start.
  Scalars identities(int copies);

  // ---- lanes along rows (emit_reduction_rows.cpp)
  // Rows of a few vectors: folding the lanes of each would cost more than the sums.
  bool short_rows(const std::vector<std::size_t>& outer) const;
  // As many rows as there are lanes at a time; their lanes are folded together.
  void row_blocks(std::size_t rows, bool chunked);
  // Overlapping loads of short rows keep the processor from seeing the stream: twice as slow.
  void prefetch_rows(Scalar base, std::int64_t columns);
  void row();
  // Of the places that are folded, if any are.
  std::optional<DType> widest_place() const;
  // Accumulators of a row, and how much of it they share out evenly.
  int copies() const;
  std::int64_t whole_blocks() const;
  // The last vectors of a row, into the first accumulators.
  Scalars rest_of_row(Scalars a);
  Scalars row_rest();
  // Accumulators, then lanes, folded together.
  Scalars across(Scalars acc);
  // Extremes of numbers, with NaNs kept apart: the most that the bits of any were in each lane come after the accumulators,
  // for each slot.
  bool is_extreme(std::size_t slot) const;
  bool keeps_nans_apart() const;
  void note_nans(Scalars& acc);
  // for (i = from; i < to; i += copies * lanes) acc[c] = combine(acc[c], x[i + c * lanes ...])
  Scalars lanes_loop(std::size_t inner, Scalar from, Scalar to, int copies, Scalars acc,
                     std::optional<std::pair<std::int64_t, std::int64_t>> bases = {});
  // The same, part by part between seams.
  Scalars seamed_lanes(std::size_t inner, Scalar from, Scalar to, int copies, Scalars acc);
  // Trips become places in the row.
  Scalars place_lanes(Scalars acc, int copies);

  // ---- rows of what lies in memory by columns (emit_reduction_turned.cpp)
  // As many rows as there are lanes at a time, square by square.
  void turned_rows(Scalar begin, Scalar end);
  Scalars fold_squares(Scalar first, int rows);
  void add_square(Scalars& acc, Scalar first, int rows, Scalar base, int columns);
  TurnedOperands turned_;

  // ---- lanes along the results (emit_reduction_columns.cpp)
  void columns(bool chunked);
  // All columns in registers: one pass over the rows.
  void narrow_columns(std::size_t inner);
  bool fit_narrow(std::size_t inner) const;
  // Rows that end within a vector are read as one stream of whole vectors: after `period_rows` rows,
  // lanes stand for the same columns again.
  std::int64_t stream_vectors(std::size_t inner) const;
  std::int64_t period_rows(std::size_t inner) const;
  bool is_stream(std::size_t inner) const;
  // Within one: the place from the row at index_ on, which has the column's place then.
  std::int64_t in_stream_ = -1;
  Scalar stream_end(std::size_t inner);
  // The rows up to stream_end: first each lane by itself, then the rows of the period in order.
  Scalars stream(std::size_t inner);
  Scalars fold_period(std::size_t inner, const Scalars& sums);
  // The plan gives every reduction over leading dimensions memory for its partial results.
  bool have_memory() const;
  std::int64_t tile_rows() const;
  // The same for a part of the rows, whose partial results have memory of their own.
  void part_of_column_tiles(std::size_t inner);
  // Wide arrays: several rows per pass over a tile of columns, whose partial results lie in the
  // results' memory. Walking down single columns would touch a page per row.
  void column_tiles(std::size_t inner, Scalar begin, Scalar end);

  // ---- both at once (emit_reduction_both.cpp)
  Scalar column_combine(std::size_t c, Scalar a, Scalar b);
  Scalar column_identity(std::size_t c);
  int rows_at_once() const;
  void both_ways();
  void clear_columns(Scalar first);
  void part_both_ways(Scalar first, Scalar from, Scalar to);
  void rows_both_ways(Scalar row, int n, Scalar first);
  void end_both_ways();

  KernelContext& k_;
  CodeGen& gen_;
  const Kernel& kernel_;
  std::vector<Slot> slots_;
  Generator value_at_;
  int lanes_;
  Shape reduced_;
  std::vector<FoldDim> dims_;
  std::vector<std::size_t> folded_, kept_;
  Index index_;
  std::vector<std::int64_t> seams_;  // along the lanes
  bool nans_apart_ = false;          // of the row at hand
  std::vector<Scalars> seen_;        // of each slot: what has not been asked for NaNs
  std::optional<Scalar> trip_;       // of a loop over vectors that finds places: where it begins
  std::optional<FoldParts> split_;
  std::optional<Scalar> part_;  // at hand
  Scalar from_, to_;            // its share of the dimension that is cut
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
