// The plan: what an executable does, as a tree of steps over values in memory.
//
// A step is a kernel (one loop nest, into which any number of equations are fused), a call of a host
// function, a copy, or a region (a loop or a branch) with steps of its own. Straight-line programs
// give a flat list, control flow gives deeper trees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/codegen.hpp"
#include "compiler/executable/host_calls.hpp"
#include "compiler/plan/cells.hpp"
#include "core/integers.hpp"
#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Something in memory: an argument, a result or an intermediate value. Or a view that a loop moves
/// from trip to trip: a row of an array, a component of the carry.
struct Value {
  Aval aval;
  Location location;
  int slot = -1;             ///< of a view: the value that holds its address
  std::vector<int> bases{};  ///< of a view: what it may be a part of
  bool uniform = false;      ///< one number over and over, as find_uniform found
  std::int64_t bytes() const { return detail::checked_bytes(aval); }
};

/// The bytes of an array as what is weighed against others, by plans that nobody may ever run: no machine
/// has more than 2^48, and sums of thousands of them are still numbers.
inline std::int64_t weight_of(const Aval& aval) {
  return std::min(detail::checked_bytes(aval), std::int64_t{1} << 48);
}

/// Smaller arrays, in bytes, of which a part is overwritten are written along with others in one pass: it takes 0.1
/// microseconds.
constexpr std::int64_t kLeastUpdated = 4096;

/// A program whose equations the kernels of some steps evaluate: the executable's, or a region's.
struct Scope {
  Jaxpr jaxpr;
  std::vector<int> value_of;  ///< of each variable: its value, -1 when it is never in memory
};

/// What the code of a plan may do besides the obvious. Each can be switched off.
struct EmitOptions {
  bool parallel = true;           ///< kernels and regions in chunks, by the pool
  bool inline_kernels = true;     ///< small programs are one function
  bool keep_in_registers = true;  ///< what these have between kernels, if it is little
  bool transpose_tiles = true;    ///< transposition in registers
  bool columns_first = true;   ///< small matrices whose rows have much in common, column by column
  bool row_blocks = true;      ///< short rows folded as many at a time as there are lanes
  bool load_columns = true;    ///< columns of short rows are taken from vectors of whole rows
  bool write_out_rows = true;  ///< rows of a few vectors, and few rows of a matrix, are no loops
  bool short_rows = true;    ///< rows that vectors tear apart: as many at a time as are whole ones
  bool accumulators = true;  ///< folds of rows have several vectors under way
  bool count_trips = true;   ///< of argmax and argmin: which trip, rather than which place
  bool column_tiles = true;  ///< folds of columns take a tile of them at a time, row by row
  bool seams = true;         ///< joined and padded arrays: a loop for each part
  bool entry_parts = true;   ///< the entry point, or a body, of many steps is several functions
  bool carry_tables = true;  ///< what loops do for each of many carries is a loop over a table
  bool native_kernels = true;  ///< calls of the runtime's kernels in place of loops
  bool share_kernels = true;   ///< equal kernels are one function
  bool quick_segments = true;  ///< segments are compiled soon rather than well
  bool input_tables = true;    ///< cut kernels read many operands in a loop over where these lie
  bool loop_stages = true;     ///< chains of function calls overlap those of the next trips
  bool interleave = true;      ///< chains of arithmetic are done for several trips side by side
  bool divide_ahead = true;    ///< folds divide, and take roots, for the trip after
  bool next_tiles = true;      ///< tiles, and products, ask for what the next one reads
  bool streaming = true;       ///< large results that are not read again go around the caches
  bool profile = false;        ///< tell when each step begins and ends
};

/// One result beyond what a processor has of caches for itself: memory is written at once, rather than
/// read before, and written when other lines need the room. Several streams of that size gain nothing.
constexpr std::int64_t kStreamingOne = std::int64_t{4} << 20;

struct Segments;
struct DotTiles;

/// Of a sum along rows of what stands where elements are the extreme of their row, and of zeros: the comparison, and the
/// fold that finds the extreme.
struct ChosenSum {
  int mask, extreme;
};

/// One loop nest.
struct Kernel {
  enum class Kind : std::uint8_t { loop, reduction, dot, emitted, update, cells };
  Kind kind = Kind::loop;
  Shape shape;  ///< the iteration space (of reductions: the operand's shape)
  Vars roots;   ///< stored at each index of `shape`
  /// Those of shape (n, k) whose columns are known at an index of (n, 1), and of (k, n) whose parts are at one of (1, n).
  std::set<Var> woven;
  std::set<Var>
      looked_up;  ///< short rows, of which the kernel takes columns: it reads a row at once
  std::vector<int> reductions;  ///< equations folded over `axes`
  Shape axes;
  /// Equations folded over all dimensions but the last, in the same pass: `axes` is the last then.
  std::vector<int> columns;
  Vars epilogue;          ///< stored at each index of the reduced shape
  int eqn = -1;           ///< of dot, emitted, update and cell kernels
  std::set<int> members;  ///< equations that are evaluated inside
  /// Whether the kernel of an equation, a product, stores or folds what it computes of its result.
  bool goes_on() const { return !roots.empty() || !reductions.empty(); }
  bool linear = false;  ///< all accesses are at the flat index
  /// All accesses are at the flat index, or at that of the last dimension alone.
  bool alike_in_rows = false;
  /// All are of rows near each other, or of what is the same along rows or down columns.
  bool of_rows = false;
  bool can_be_cut = false;  ///< of loops: into functions (segments.hpp)
  std::set<int> reads;      ///< of those: members that only move what lies in memory
  std::set<int> in_place;   ///< values read only where they may be overwritten at once
  /// Reductions with too few results to share out: the parts of the folded space are folded apart,
  /// each reduction into its value here, of shape (parts, results). A matter of the shape alone. Where
  /// there are columns, theirs only.
  std::vector<int> partials;
  /// Of argmax and argmin over leading dimensions: where the extremes are kept meanwhile.
  std::map<int, int> extremes{};
  std::map<int, ChosenSum>
      chosen{};                ///< of dot kernels: folds that sum with the extreme, as it is found
  std::int64_t part_cost = 0;  ///< of an element, by which the parts were chosen
  std::string name;
  std::shared_ptr<const DotTiles>
      dot_tiles;                         ///< of dot kernels: what their loops are (dot_tiles.hpp)
  std::shared_ptr<const CellLoop> cell;  ///< of cells: the loop whose state lies in registers
  std::shared_ptr<const Segments>
      segments;   ///< of long loops: the functions that they are cut into
  int tape = -1;  ///< of those: the value in which functions leave each other values
};

struct Step {
  enum class Kind : std::uint8_t { kernel, host, copy, fill, loop, branch, repeat, tiles };
  /// On trip i, `view` is row first + i * every of `base`.
  struct Row {
    int view, base;
    std::int64_t first = 0, every = 1;
  };
  /// `in` is what the trip before wrote as `out`, at first `init`. `out` alternates between two
  /// blocks, which may be the same one; the last trip writes to `first`.
  struct Carry {
    int in, out, init, first, second;
  };
  Kind kind = Kind::kernel;
  int scope = 0;
  Kernel kernel;
  std::vector<int> reads, writes;  ///< values
  HostFunction host;
  int eqn = -1;      ///< of host calls: what the function is made from, in `scope`
  std::string name;  ///< of host calls
  Array constant;    ///< fill: the scalar to store in writes[0]
  // Loops run bodies[0] `trips` times, or as often as the integer value reads[0] says when trips is
  // -1; they store the trip's number in writes[0] if there is one. Branches run the body that the
  // i32 value reads[0] selects, clamped. Repetitions run bodies[0], which writes the bool reads[0], and
  // then bodies[1], as long as it is true. Tiles run the kernels bodies[0] for `grain` of `trips` rows, or
  // columns, at a time (tiles.hpp).
  std::int64_t trips = -1;
  std::vector<std::vector<Step>> bodies;
  std::vector<Row> rows;
  std::vector<Carry> carries;
  /// Loops whose trips are independent, when not 0: the pool runs chunks of at least so many trips.
  /// Values that live in the body alone then exist once per chunk, in slices of the arena.
  std::int64_t grain = 0;
  bool by_columns = false;                  ///< of tiles
  std::int64_t slice = 0, slice_bytes = 0;  ///< set by assign_buffers

  static constexpr std::int64_t kMaxChunks = 64;  ///< of a loop
  std::int64_t num_chunks() const {
    return trips < 0 ? kMaxChunks : std::min(kMaxChunks, detail::ceil_div(trips, grain));
  }
};

/// A place in the memory of a result.
struct InResult {
  std::int64_t result, offset;
  bool operator==(const InResult&) const = default;
};

struct Plan {
  std::vector<Value> values;
  std::vector<Scope> scopes;
  std::vector<Step> steps;
  int num_inputs = 0, num_outputs = 0;
  std::vector<bool> donated;  ///< of each input: whether it may be
  std::int64_t arena_bytes = 0;
  /// The most that is alive at one time beyond what may lie in results: a lower bound of the arena.
  std::int64_t live_bytes = 0;
  /// What lies in results before these are written. The addresses come after those of the results.
  std::vector<InResult> in_results;
  EmitOptions emit{};
  /// reusable[o]: arguments whose memory result o may take over when they are donated.
  std::vector<std::vector<int>> reusable;
  /// written_after[o]: the memory of result o is as it was until so many host steps, in the order of
  /// host_steps, have been done for good. What throws before leaves a donated argument there alone.
  std::vector<std::int64_t> written_after;
  /// For each of PlanOptions::updates: whether nothing reads the old contents after it.
  std::vector<bool> updates_in_place;

  const InResult& in_result(Location at) const {
    return in_results[static_cast<std::size_t>(at.index - num_outputs)];
  }
  /// Of copies: whether they are of an argument whose memory the result may have taken over.
  bool may_be_idle(const Step& copy) const {
    const Location from = values[static_cast<std::size_t>(copy.reads[0])].location,
                   to = values[static_cast<std::size_t>(copy.writes[0])].location;
    if (from.kind != Location::Kind::argument || to.kind != Location::Kind::result) return false;
    const std::vector<int>& over = reusable[static_cast<std::size_t>(to.index)];
    return std::find(over.begin(), over.end(), static_cast<int>(from.index)) != over.end();
  }

  std::string to_string() const;    ///< the steps, and where what they read and write lies
  std::string fused_text() const;   ///< the kernels, with the equations of each
  std::string memory_text() const;  ///< what shares which memory
  /// The largest array that it makes, for errors: "f32[100000,64], of sort at train.cpp:31 in loss".
  std::string largest_text() const;
};

/// An equation whose result `result` is its operand `operand` with parts overwritten.
struct Update {
  int eqn, operand, result;
};
/// Updates of which each one's operand is the result of the one before.
using UpdateChain = std::vector<Update>;

struct PlanOptions {
  bool fuse = true;
  bool merge_siblings = true;  ///< reductions over the same axes of one space share a kernel
  bool both_ways = true;       ///< sums of rows and of columns share a kernel
  bool recompute = true;  ///< large arrays are made of small ones again rather than stored and read
  bool partial_reductions = true;  ///< parts of a large reduction are folded apart
  bool in_place = true;            ///< kernels may store over what they read last
  bool update_in_place = true;     ///< arrays that are overwritten in part stay where they are
  bool reuse_memory = true;
  bool place_in_results = true;  ///< values lie in the memory of results until these are written
  bool tiles = true;             ///< kernels over the same large arrays go together (tiles.hpp)
  bool epilogues = true;   ///< cheap arithmetic on the results of products in loops is done there
  bool matmul = true;      ///< large matrix products are calls of the runtime's
  bool join_parts = true;  ///< arrays put together of many parts are copied part by part, by a call
  bool cells = true;       ///< small loops keep their state in registers
  bool turned_rows = true;       ///< what these read and write down may lie transposed
  bool segments = true;          ///< long kernels are cut into functions rather than into kernels
  bool overlap_segments = true;  ///< these take several vectors at a time
  bool compute_places = true;    ///< large look-ups compute their places, and do not read them
  std::size_t looked_up_bytes = 64;  ///< of rows looked up where columns are needed, at most
  bool weave_columns = true;  ///< columns and parts are put together in the kernel that makes them
  bool schedule = true;       ///< kernels in an order that needs less memory
  /// The last of each chain gives a result of the program. All of its results share one memory.
  std::vector<UpdateChain> updates{};
  std::set<int> alone{};  ///< equations with kernels of their own
};

/// Decides which equations share a loop nest and which values exist in memory.
///   let b = sin a, c = add b 1.0, d = reduce_sum[axes=(0,)] c   ->   one kernel
TELAMON_API std::unique_ptr<Plan> plan_kernels(const Jaxpr& jaxpr, const PlanOptions& options);

/// Finds the values that are a scalar, repeated: what is written once, as that.
void find_uniform(Plan& plan);

/// Gives every value without a location a place in the arena, best fit by live range; finds the
/// arguments that results may reuse.
void assign_buffers(Plan& plan, const PlanOptions& options);

/// renamed(v) in the place of each value v of these steps.
template <class F>
void rename_values(std::vector<Step>& steps, const F& renamed) {
  const auto rename = [&](int& v) { v = renamed(v); };
  for (Step& s : steps) {
    for (std::vector<int>* values : {&s.reads, &s.writes, &s.kernel.partials})
      std::for_each(values->begin(), values->end(), rename);
    std::set<int>& in_place = s.kernel.in_place;
    if (std::any_of(in_place.begin(), in_place.end(), [&](int v) { return renamed(v) != v; })) {
      std::set<int> others;
      for (const int v : in_place) others.insert(renamed(v));
      in_place = std::move(others);
    }
    for (auto& [e, v] : s.kernel.extremes) rename(v);
    rename(s.kernel.tape);
    for (Step::Row& r : s.rows) {
      rename(r.view);
      rename(r.base);
    }
    for (Step::Carry& c : s.carries) {
      for (int* v : {&c.in, &c.out, &c.init, &c.first, &c.second}) rename(*v);
    }
    for (auto& body : s.bodies) rename_values(body, renamed);
  }
}

/// The steps of `body` over the values of `plan`: its inputs and results become these. For regions.
TELAMON_API std::vector<Step> splice(Plan& plan, const Plan& body, const std::vector<int>& inputs,
                                     const std::vector<int>& outputs);

/// Appends the steps of a scan, while or cond over values of `plan`. `dies[i]`: nobody reads operand i
/// afterwards. Results may become other values: `out` is changed.
void plan_region(Plan& plan, const Eqn& eqn, const std::vector<int>& in,
                 const std::vector<bool>& dies, std::vector<int>& out, const PlanOptions& options,
                 std::vector<Step>& steps);

/// A `call` lowering, or the eager kernel of any other primitive, over the equation's variables.
HostFunction host_function(const Jaxpr& jaxpr, const Eqn& eqn);
/// dot_general of floats by the runtime's product where it is large; empty where loops are better.
HostFunction matmul_function(const Jaxpr& jaxpr, const Eqn& eqn, std::string& name);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
