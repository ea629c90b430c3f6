// CodeGen: the Emitter's implementation, and what the compiler's own loops need besides.
//
// A Scalar's handle is a Node. A node is uniform (one value for all lanes), a vector, or *affine*: a
// uniform i64 whose lane l stands for value + l * stride. Index arithmetic on affine nodes stays
// scalar, and a load at an affine index of stride 1 is one vector load.
//
// Instructions float: each is put into the outermost enclosing loop level at which its operands are
// available, and equal ones are made once. So the generators of fused operations may ask for the
// same value any number of times, and what does not depend on the inner loop leaves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/codegen/index_range.hpp"
#include "compiler/codegen/llvm_session.hpp"
#include "telamon/emitter.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// What generated code gets from its caller. Generated code reads the first four fields.
struct Context {
  const void* const* args = nullptr;
  void* const* results = nullptr;
  std::byte* arena = nullptr;
  std::byte* chunk = nullptr;  ///< the slice of the arena that belongs to this chunk of a region
  void* host = nullptr;        ///< the state of host calls
};
using EntryFunction = int (*)(Context*, const void* const* args, void* const* results);
/// `where` tells a kernel where its values lie: equal kernels over different values are one function.
using KernelFunction = void (*)(Context*, std::int64_t begin, std::int64_t end,
                                const std::int64_t* where);

/// Where a value lies in memory while the program runs.
struct Location {
  /// in_result: in the memory of a result before that is written; its address comes after those of the results.
  /// arena_slot, chunk_slot: the address is read there. Loops move what it points to.
  enum class Kind : std::uint8_t {
    none,
    argument,
    result,
    in_result,
    arena,
    chunk,
    arena_slot,
    chunk_slot
  };
  Kind kind = Kind::none;
  std::int64_t index =
      0;  ///< of the argument, result or address; byte offset in the arena or slice
  bool operator==(const Location&) const = default;
};

/// Where a loop between constants begins and ends.
struct KnownBounds {
  std::int64_t first = 0, last = 0;
  bool operator==(const KnownBounds&) const = default;
};

/// A memory address in generated code.
struct Pointer {
  void* handle = nullptr;
};

class CodeGen final : public Emitter {
 public:
  struct Options {
    bool contract = false;
    /// Machine code is to be had soon rather than to be the best: for long straight-line code, which
    /// hardly gains from more.
    bool quick = false;
    bool share_kernels = true;   ///< equal ones are one function
    bool quick_segments = true;  ///< segments are `quick`, unless they contract
  };
  CodeGen(const std::string& name, Options options);
  ~CodeGen() override;

  // ---- functions ---------------------------------------------------------------------------------
  /// A kernel that can be called: its code, and where the values lie that it works on.
  struct KernelCode {
    void* function = nullptr;
    void* where = nullptr;
  };
  /// A KernelFunction; code goes into it until finish_kernel. That gives an earlier function if it is
  /// the same but for the places of its values.
  void begin_kernel(const std::string& name);
  KernelCode finish_kernel();
  /// The entry point `int(Context*, args, results)`.
  void begin_entry(const std::string& name);
  void finish_entry();
  /// A part of the entry point, or of the function of a loop: finished (finish_entry) before that is
  /// begun, which calls it by name.
  void begin_part(const std::string& name);
  void call_part(const std::string& name);
  /// After that, of an entry point which uses the arena for little and at known places: lets LLVM hold
  /// in registers what it keeps there from one kernel to the next.
  void keep_arena_in_registers();
  Scalar kernel_begin() const;  ///< the bounds that the current kernel was called with
  Scalar kernel_end() const;
  void call_kernel(const KernelCode& kernel, Scalar begin, Scalar end);
  /// How the trips of a region or kernel are cut into chunks.
  struct Chunks {
    std::int64_t grain = 1;  ///< trips per chunk, at least
    std::int64_t most = 0;   ///< so many chunks at most; 0: any number
    std::int64_t slice = 0;  ///< where the slices begin in the arena
    std::int64_t slice_bytes = 0;
    bool may_fail = false;  ///< chunks call host functions: leaves the function when one threw
  };
  // ---- segments: functions of long kernels, in modules of their own ------------------------------
  /// Where the code of a segment goes: a module that is compiled apart from this one, and at the same
  /// time. `size` tells how much code that will be.
  CodeGen& part(std::size_t size);
  /// A name that no other segment of this has.
  std::string segment_name(const std::string& kernel);
  /// What a segment works on: `void name(tape, end)`, both addresses.
  struct SegmentArguments {
    Pointer tape;
    Scalar end;
  };
  SegmentArguments begin_segment(const std::string& name);
  /// Gives the name: that of an earlier segment of this part if it is equal.
  std::string finish_segment(std::size_t size);
  /// Calls a segment of a part of this.
  void call_segment(const std::string& name, const SegmentArguments& arguments);

  /// Calls the function for chunks of [0, end) on the thread pool.
  void call_parallel(const KernelCode& kernel, Scalar end, const Chunks& chunks);
  /// Calls back into the runtime; leaves the function when that answers non-zero (the entry point
  /// with 1).
  void call_host(std::int64_t step);
  /// Tells the runtime's profile that a step begins; of ~step, that it ends.
  void mark_step(std::int64_t step);

  /// Calls the native function of this name (runtime/native_forms.hpp): f(addresses, numbers).
  void call_native(const std::string& symbol, const std::vector<Pointer>& buffers,
                   const std::vector<std::int64_t>& numbers);

  // ---- lanes -------------------------------------------------------------------------------------
  /// The lanes of vectors in this kernel, and how many of them count (the rest is masked).
  void set_lanes(int lanes, int active);
  int lanes() const;
  int active() const;
  /// The index base + lane.
  Scalar lane_index(Scalar base);
  /// The place of an element in a dense array of that shape, by rows.
  Scalar flat_index(const Shape& shape, const Index& at);
  /// The same index, known to lie in [low, high]: comparisons that this decides are not emitted.
  Scalar within(Scalar index, std::int64_t low, std::int64_t high);
  /// x in every lane, as a vector.
  Scalar splat(Scalar x);
  /// Lanes beyond `active` replaced.
  Scalar mask_lanes(Scalar x, Scalar replacement);
  /// combine(...combine(lane 0, lane W/2)...): a fixed tree of halves. One uniform value.
  Scalar fold_lanes(Scalar x, const std::function<Scalar(Scalar, Scalar)>& combine);
  /// The same for several vectors that are combined as one: a value and where it was found.
  using Combine = std::function<Scalars(const Scalars&, const Scalars&)>;
  Scalars fold_lanes(Scalars x, const Combine& combine);
  /// The same for as many vectors as there are lanes, at once: lane i of the result is the fold of
  /// rows[i], bit for bit what fold_lanes gives.
  Scalars fold_rows(std::vector<Scalars> rows, const Combine& combine);
  /// Lanes n, n + 1, ... of a and b side by side.
  Scalar slide(Scalar a, Scalar b, int n);
  /// As many vectors as there are lanes: lane j of result i is lane i of rows[j], if that is active.
  Scalars transpose(Scalars rows);
  bool is_uniform(Scalar x) const;
  /// Whether a condition holds in any of the lanes that count. One uniform value.
  Scalar any_lane(Scalar condition);
  /// a * b + c in one rounding.
  Scalar fma(Scalar a, Scalar b, Scalar c);
  /// a * b + d * e + c of i32 or u32, where a and d are the lower and the upper 16 bits of `ad`, b and e those of `be`, all
  /// signed. Of so many lanes, if there is an instruction for it.
  Scalar add_pairs(Scalar ad, Scalar be, Scalar c);
  static bool has_pairs(int lanes);
  /// Vectors of such pairs, next to each other from element `first` on, of i8, u8 or i16.
  Scalar load_pairs(Pointer from, DType dtype, Scalar first);

  /// The products of the four bytes of `with_sign` and of `without`, in each lane, added to c of i32. Of so many lanes, if
  /// there is an instruction for it.
  Scalar add_quads(Scalar without, Scalar with_sign, Scalar c);
  static bool has_quads(int lanes);
  /// Four bytes in each of so many numbers next to each other from byte `first` on, and put together lane by lane.
  Scalar load_quads(Pointer from, DType dtype, Scalar first, int count);
  Scalar quads(const Scalar (&bytes)[4]);

  // ---- memory ------------------------------------------------------------------------------------
  Pointer pointer(Location location);
  /// Of a kernel: numbers that lie one after the other in the table of where its values are, so that a loop may
  /// go through them. Gives the place of the first.
  std::int64_t add_places(std::span<const std::int64_t> indices);
  Scalar place_at(std::int64_t first, Scalar i);  ///< the number at place first + i
  /// The same for a location whose index is known only there.
  Pointer pointer(Location::Kind kind, Scalar index);
  Pointer offset(Pointer base, DType dtype, Scalar elements);
  Scalar load(Pointer from, DType dtype, Scalar index);
  void store(Pointer to, DType dtype, Scalar index, Scalar value);
  /// Vectors of the elements first, first + s, ...; of first + 1, first + 1 + s, ...; up to k - 1. `first` is affine:
  /// lane l stands for first + l * s, where rows of k elements lie: next to each other if s is k, apart if it is more.
  Scalars load_columns(Pointer from, DType dtype, Scalar first, int k);
  /// The same of rows of k elements of which lane l's is the `rows[l]`-th, wherever that is.
  Scalars look_up_columns(Pointer from, DType dtype, Scalar rows, int k);
  /// Whether it is: each lane is at a row of its own, of k elements, one after the other or backwards.
  bool goes_by_rows(Scalar first, int k);
  /// The other way round: as many columns as there are values.
  void store_columns(Pointer to, DType dtype, Scalar first, const Scalars& columns);
  /// The same of k columns, each of which is computed before the first of some that are stored with it.
  void store_columns(Pointer to, DType dtype, Scalar first, int k,
                     const std::function<Scalar(int)>& column);
  /// A row from `to` on, whose elements are those of the row of `length` from `from` on that have these places.
  void store_permuted(Pointer to, Scalar at, Pointer from, Scalar first, DType dtype, int length,
                      const std::vector<int>& places);
  /// Shuffles of registers of `lanes` that this takes.
  static int shuffles_of_permuted(int lanes, const std::vector<int>& places);
  /// An address as an i64, to be kept in a slot or counted up; and back.
  Scalar address(Pointer p);
  Pointer pointer_to(Scalar address);
  /// A load that is neither moved nor merged: of a number, or of a whole vector.
  Scalar load_now(Pointer from, DType dtype, Scalar index);
  /// The same of a vector of conditions as bits, from the given byte on, and back.
  Scalar load_bits(Pointer from, Scalar byte);
  void store_bits(Pointer to, Scalar byte, Scalar conditions);
  /// Asks for the line of the cache that holds this element, or the first of adjacent lanes; any index is allowed.
  void prefetch(Pointer from, DType dtype, Scalar index);
  void copy_bytes(Pointer from, Pointer to, Scalar bytes);
  /// Stores bypass the caches from here on (big results that nobody reads again).
  void set_streaming(bool on);
  /// After the last of such stores: on x86 they are in no order with later ones, and who is told of a result
  /// might not see it.
  void finish_streaming();

  // ---- control -----------------------------------------------------------------------------------
  /// How trips may be made to overlap: chains of function calls are taken apart, chains of arithmetic are done
  /// for several trips side by side.
  struct Overlap {
    bool stages = false, interleave = false;
  };
  /// for (i = begin; i < end; i += step) body(i), about `trips` of them, which do not depend on each
  /// other; step divides end - begin.
  void loop_overlapping(Scalar begin, Scalar end, std::int64_t step, std::int64_t trips,
                        Overlap overlap, const std::function<void(Scalar i)>& body);
  /// for (i = begin; i < end; i += step) carried = body(i, carried); gives the last values.
  Scalars loop_carried(Scalar begin, Scalar end, std::int64_t step, Scalars init,
                       const std::function<Scalars(Scalar i, const Scalars& carried)>& body);
  /// The same, but a body that divides or takes roots does so one trip ahead of what follows.
  Scalars loop_ahead(Scalar begin, Scalar end, std::int64_t step, Scalars init,
                     const std::function<Scalars(Scalar i, const Scalars& carried)>& body);
  /// for (i = begin; i < end; i += step) body(i), where begin < end: that is not asked.
  void loop_entered(Scalar begin, Scalar end, std::int64_t step,
                    const std::function<void(Scalar i)>& body);
  /// carried = init; while (condition(carried)) carried = body(carried); gives the last values.
  Scalars loop_while(Scalars init, const std::function<Scalar(const Scalars& carried)>& condition,
                     const std::function<Scalars(const Scalars& carried)>& body);
  /// Which side of a branch is mostly run.
  enum class Likely : std::uint8_t { either, otherwise };
  /// What one of two sides gives, which alone is run.
  Scalars if_else(Scalar condition, const std::function<Scalars()>& then,
                  const std::function<Scalars()>& otherwise, Likely likely = Likely::either);
  /// Code of which everything may leave that does not depend on it, loads too.
  void scope(const std::function<void()>& body);
  /// Code whose loads stay inside: a kernel within another function.
  void region(const std::function<void()>& body);
  /// Whether x may still be used here (the loop it was computed in has not ended).
  bool is_live(Scalar x) const;
  /// What all lanes of an index are known to lie in.
  static IndexRange lies_in(Scalar x);
  /// x, of which it is known what all lanes lie in.
  static Scalar known_to_lie_in(Scalar x, const IndexRange& range);
  /// Equal constants, as i64.
  static bool known_constant(Scalar x, std::int64_t& value);
  /// Of a loop between equal constants: these.
  static std::optional<KnownBounds> known_bounds(Scalar begin, Scalar end);

  // ---- the end -----------------------------------------------------------------------------------
  std::string ir() const;  ///< of the parts, too
  std::string assembly();
  std::vector<std::string> objects();  ///< an object file of each part
  /// These in one image (native_image.hpp).
  std::string link(const std::vector<std::string>& objects) const;

  // ---- Emitter -----------------------------------------------------------------------------------
  Scalar constant(DType dtype, double value) override;
  Scalar constant_int(DType dtype, std::int64_t value) override;
  Scalar neg(Scalar x) override;
  Scalar abs(Scalar x) override;
  Scalar sign(Scalar x) override;
  Scalar sqrt(Scalar x) override;
  Scalar floor(Scalar x) override;
  Scalar ceil(Scalar x) override;
  Scalar round_even(Scalar x) override;
  Scalar round_away(Scalar x) override;
  Scalar is_finite(Scalar x) override;
  Scalar not_(Scalar x) override;
  Scalar add(Scalar a, Scalar b) override;
  Scalar sub(Scalar a, Scalar b) override;
  Scalar mul(Scalar a, Scalar b) override;
  Scalar div(Scalar a, Scalar b) override;
  Scalar rem(Scalar a, Scalar b) override;
  Scalar max(Scalar a, Scalar b) override;
  Scalar min(Scalar a, Scalar b) override;
  Scalar and_(Scalar a, Scalar b) override;
  Scalar or_(Scalar a, Scalar b) override;
  Scalar xor_(Scalar a, Scalar b) override;
  Scalar shift_left(Scalar a, Scalar b) override;
  Scalar shift_right_logical(Scalar a, Scalar b) override;
  Scalar shift_right_arithmetic(Scalar a, Scalar b) override;
  Scalar compare(Compare how, Scalar a, Scalar b) override;
  Scalar select(Scalar condition, Scalar if_true, Scalar if_false) override;
  Scalar order_statistic(std::span<const Scalar> x, std::size_t rank) override;
  Scalar convert(Scalar x, DType dtype) override;
  Scalar bitcast(Scalar x, DType dtype) override;
  using Emitter::math;
  Scalar math(std::string_view name, std::span<const Scalar> args) override;
  Scalar load(const Buffer& buffer, const Index& index) override;
  void store(const Buffer& buffer, const Index& index, Scalar value) override;
  void loop(Scalar begin, Scalar end, const std::function<void(Scalar i)>& body) override;
  void if_then(Scalar condition, const std::function<void()>& then) override;
  void copy(const Buffer& from, const Buffer& to) override;

  struct Impl;

 private:
  enum class Ahead : std::uint8_t { nothing, quotients };
  enum class Entry : std::uint8_t { asked, certain };
  Scalars only_trip(Scalar begin, const Scalars& init,
                    const std::function<Scalars(Scalar i, const Scalars& carried)>& body);
  Scalars carry(Scalar begin, Scalar end, std::int64_t step, Scalars init,
                const std::function<Scalars(Scalar i, const Scalars& carried)>& body, Ahead ahead,
                Entry entry);
  void require_memory() const;

  LlvmPtr<Impl> impl_;
};

/// Whether generated code computes with values of this dtype (not with complex ones and 16-bit floats).
bool is_native(DType dtype);
/// Whether it converts f32 to them and back: to the 16-bit floats, as far as the processor has instructions for that.
bool is_converted(DType dtype);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
