// Emission: a plan becomes code. One function per form of kernel; each takes the bounds of the
// outermost loop, so that a kernel can be run in chunks.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "compiler/emit/generator.hpp"
#include "compiler/plan/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// What the emitters of one kernel share.
struct KernelContext {
  CodeGen& gen;
  const Plan& plan;
  const Scope& scope;
  const Step& step;
  const std::vector<int>& producer;  ///< of the scope's variables
  Scalar begin, end;                 ///< the part of the outermost loop to do
  bool in_chunks = false;            ///< that part is a chunk with a slice of the arena
  bool by_columns = false;           ///< that part is one of the innermost dimension instead
  /// Of folds both ways: that part is some rows of a part of theirs, and not some of these parts.
  bool rows_of_part = false;
  std::int64_t unit = 0;  ///< that part begins at a multiple of this; 0: of all lanes
  /// Of a tile: whether threads share the tiles. Else they do if that part is not all of the loop.
  std::optional<Scalar> is_shared = {};
  const NextTile* next_tile = nullptr;  ///< of a tile

  Generator generator() const {
    Generator values(gen, plan, scope, kernel(), producer);
    if (next_tile != nullptr) values.ask_for(*next_tile);
    return values;
  }
  const Kernel& kernel() const { return step.kernel; }
  const Eqn& eqn(int e) const { return scope.jaxpr.eqns()[static_cast<std::size_t>(e)]; }
  int value_of(Var v) const { return scope.value_of[static_cast<std::size_t>(v)]; }
  /// Of what it reads, and of what it writes.
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const int v : step.reads) sum += value(v).bytes();
    for (const int v : step.writes) sum += value(v).bytes();
    return sum;
  }
  const Value& value(int v) const { return plan.values[static_cast<std::size_t>(v)]; }
};

/// Lanes of a vector of the widest data in the kernel: 16 where all is 4 bytes or less and vectors
/// have 64 bytes.
int vector_lanes(const Jaxpr& jaxpr, const Kernel& kernel);
inline int vector_lanes(const KernelContext& k) { return vector_lanes(k.scope.jaxpr, k.kernel()); }
/// Whether a kernel's results are larger than the caches and not read again by this program.
constexpr std::int64_t kStreamingBytes = std::int64_t{16} << 20;
bool should_stream(const KernelContext& k, std::int64_t least = kStreamingBytes);

struct BlockOptions {
  /// Loads of a block that is the only one of its kind may go outside the loops around it: where those
  /// store nothing that the body reads at another index.
  bool loads_leave = false;
  CodeGen::Overlap overlap{};  ///< see CodeGen::loop_overlapping
  /// The last block may have fewer lanes: a power of two of them needs no mask.
  bool narrow_tail = false;
  bool has_loops = false;  ///< blocks are not written out then, which would only be more code
};
/// body(base) for blocks of `lanes` indices from begin to end, the last one masked; `size` is the
/// extent of the whole dimension.
void vector_loop(const KernelContext& k, Scalar begin, Scalar end, std::int64_t size, int lanes,
                 const std::function<void(Scalar base)>& body, BlockOptions options = {});
/// Where each of several loops begins and ends.
using LoopBounds = std::vector<std::pair<Scalar, Scalar>>;
/// Of loops over all indices of dimensions of these sizes.
LoopBounds bounds_of(CodeGen& gen, std::span<const std::int64_t> sizes);
/// Nested loops, the first outermost: body(indices).
void loop_nest(CodeGen& gen, const LoopBounds& bounds,
               const std::function<void(const Index&)>& body);
/// The same with dimension d in blocks, in each of which it is the innermost.
void loop_nest_in_blocks(CodeGen& gen, const LoopBounds& bounds, std::size_t d, std::int64_t block,
                         const std::function<void(const Index&)>& body);
/// Where the last whole step from `begin` on ends that goes no further than `end`.
Scalar end_of_whole_steps(CodeGen& gen, Scalar begin, Scalar end, std::int64_t step);

/// f(i, rows) for tiles of `lanes` rows of all `size` from the first one on, for the rows that are left at the very end, and
/// with 0 for those, one by one, that are left at another end.
void for_each_tile(CodeGen& gen, const std::pair<Scalar, Scalar>& range, std::int64_t size,
                   int lanes, const std::function<void(Scalar i, int rows)>& f);

// ---- seams (emit_seams.cpp)
/// Where a concatenation or a padding along the dimension of the lanes, which has `extent` elements, goes from one operand
/// to the next. Only a guess of where it pays to tell the blocks apart: what is emitted is right anyway. None where the equations
/// that are emitted, of each part what it is made of, and of each block that a seam runs through, would be more than `most`.
std::vector<std::int64_t> find_seams(const KernelContext& k, std::int64_t extent, int lanes,
                                     std::size_t most);
/// The same of these equations of a kernel alone, and how many are emitted; `at` is empty where they are more than `most`.
struct Seams {
  std::vector<std::int64_t> at = {};
  std::size_t equations = 0;
};
Seams find_seams(const KernelContext& k, const std::set<int>& members, std::int64_t extent,
                 int lanes, std::size_t most);
/// A part of a dimension of the loops around the lanes, up to `end`, and of some equations those that it is made of.
struct OuterPart {
  std::int64_t end;
  std::set<int> members;
};
/// What these equations put together along that dimension, part by part; one part where that is nothing.
std::vector<OuterPart> parts_along(const KernelContext& k, const std::set<int>& members,
                                   std::size_t d);
/// The ends of the parts between them and of the blocks of `lanes` that they run through: multiples of `lanes`, but for
/// the last, which is `size`.
std::vector<std::int64_t> blocks_between(const std::vector<std::int64_t>& seams, int lanes,
                                         std::int64_t size);
/// vector_loop, apart for the blocks between seams, where indices are known well enough to decide which
/// operand is read, and for those that a seam runs through.
void seamed_loop(const KernelContext& k, const std::vector<std::int64_t>& seams, Scalar begin,
                 Scalar end, std::int64_t size, int lanes,
                 const std::function<void(Scalar base)>& body, BlockOptions options = {});

/// Computes members that have an element for each of those that `at` is one of, one after the other, if so many wait for
/// each other that it would take too much of the stack to ask each what it is made of.
void compute_in_order(const KernelContext& k, Generator& value_at, const Point& at);
/// Computes what a kernel has for results at an element, and stores it.
void store_roots(KernelContext& k, Generator& value_at, const Point& at);
/// The dimension of a kernel along which the operand of a transpose is contiguous.
std::optional<std::size_t> contiguous_dim(const Scope& scope, const Kernel& kernel, const Eqn& eqn);
/// That along which rows of its operand follow each other there, where these are the rows of the kernel.
std::optional<std::size_t> dim_of_rows(const Scope& scope, const Kernel& kernel, const Eqn& eqn);
/// Where an element of the result of a transpose comes from.
Point before_transpose(const KernelContext& k, const Eqn& eqn, const Index& to);
/// The loops of a kernel with these bounds around lanes along dimension `inner`, if it transposes what tiles
/// of registers can; false, and nothing is emitted, otherwise. `around` calls what it is given to emit them, once or
/// more, and says whether results may go around the caches.
bool emit_transposed(KernelContext& k, std::size_t inner, int lanes, const LoopBounds& outer,
                     const std::function<void(const std::function<void(bool)>&)>& around);

/// The loop of a linear kernel, if it puts columns of an array in another order, which is better done row by row
/// (emit_permuted.cpp); `around` as above.
bool emit_permuted(KernelContext& k,
                   const std::function<void(const std::function<void(bool)>&)>& around);

/// As emit_transposed, of a kernel that pads with gaps along dimension `inner` (emit_gaps.cpp).
bool emit_gaps(KernelContext& k, std::size_t inner, int lanes, const LoopBounds& outer);

/// Equations, times vectors, that one trip of a loop over such rows, or down their columns, has at most.
constexpr std::int64_t kMostOfTrip = 600;
/// The elements of rows of an array, one for each lane: from the place `first` of the row with this number on, through those
/// that follow it.
Point across_rows(CodeGen& gen, Generator& values, const Shape& shape, Scalar number,
                  std::int64_t first);
/// Of kernels over short rows that vectors tear apart (emit_short_rows.cpp): how many rows are whole vectors. 1: it is not
/// such a kernel.
std::int64_t rows_of_group(const Plan& plan, const Kernel& kernel, int lanes);
/// Whether the vectors of such a kernel begin where vectors in memory do, as those that go around the caches have to.
bool short_rows_are_aligned(const KernelContext& k, int lanes);
/// The loops of such a kernel: groups of so many rows, and what is left, of which `one_row` emits each.
void emit_short_rows(KernelContext& k, Generator& values, std::size_t inner, int lanes,
                     bool streams, const std::function<void(const Index&)>& one_row);

void emit_loop(KernelContext& k);
/// The same of a kernel that is cut into functions.
void emit_segments(KernelContext& k);
/// Folds and what follows them; of kernels with partial results, the parts [begin, end) only.
void emit_reduction(KernelContext& k);
/// Of those: folds the partial results, and what follows.
void emit_reduction_end(KernelContext& k);
/// Parts that the folded space is cut into: 1 where that is not worth it.
std::int64_t reduction_parts(const Kernel& kernel, std::int64_t cost);
void emit_dot(KernelContext& k);
void emit_form(KernelContext& k);
/// A cellular loop: cells outside, trips inside, its state in registers.
void emit_cells(KernelContext& k);
/// dynamic_update_slice where the operand lies, if that is where the result is to be.
void emit_update(KernelContext& k);

/// The outermost loop of a kernel, and whether it may be cut into chunks.
struct Chunking {
  std::int64_t extent = 0;  ///< trips of the outermost loop
  std::int64_t grain = 0;   ///< trips per chunk; 0: not worth it
  bool by_columns = false;  ///< of the innermost loop instead
};
Chunking chunking(const Plan& plan, const Step& step);
/// Cycles (of a vector's element) that two threads have each, at least, for the pool to be worth it. Chunks may be half
/// as long, so that their number is even.
constexpr std::int64_t kParallelCost = 100'000;
/// Cycles for a partial result of a fold in parts: one thread folds all of these.
constexpr std::int64_t kLeastPart = 384;
/// Cycles per element of the iteration space, memory included.
std::int64_t cost_of(const Scope& scope, const Kernel& k);

/// Emits the whole program; its entry point is called `name`.
void emit_program(CodeGen& gen, const Plan& plan, const std::string& name);
/// What profiles call each step of a program, in the order in which generated code numbers them.
std::vector<runtime::ProfileLabelPtr> step_labels(const Plan& plan, const std::string& program);
/// The host steps in the order in which generated code numbers them.
std::vector<HostStep> host_steps(const Plan& plan);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
