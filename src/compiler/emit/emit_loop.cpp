// Kernels whose every result has the shape of the loop nest.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/costs.hpp"
#include "compiler/fusion/index_space.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::size_t kMostOfParts = 3 * kMaxMembers;  // equations

// Whether so many equations wait for each other that it would take too much of the stack to ask each, one within the other,
// what it is made of. (Otherwise what is asked for first is needed first.)
bool is_deep(const KernelContext& k) {
  constexpr int kDeep = 300;
  if (k.kernel().members.size() <= kDeep) return false;
  std::map<int, int> depth;
  int deepest = 0;
  for (const int e : k.kernel().members) {
    int& own = depth[e];
    for (const Atom& a : k.eqn(e).inputs) {
      const int from = a.is_var() ? k.producer[static_cast<std::size_t>(a.var())] : -1;
      if (const auto found = depth.find(from); found != depth.end())
        own = std::max(own, found->second + 1);
    }
    deepest = std::max(deepest, own);
  }
  return deepest > kDeep;
}

}  // namespace

void compute_in_order(const KernelContext& k, Generator& value_at, const Point& at) {
  if (!is_deep(k)) return;
  const std::int64_t size = at.shape.num_elements();
  for (const int e : k.kernel().members) {
    const Eqn& eqn = k.eqn(e);
    if (form_of(k.scope.jaxpr, eqn) != Form::element || eqn.outputs.size() != 1) continue;
    const Shape& shape = k.scope.jaxpr.aval(eqn.outputs[0]).shape;
    if (shape.num_elements() == size)
      value_at(Atom::var(eqn.outputs[0]), value_at.reshaped(at, shape));
  }
}

// Whether what a kernel stores may lie where something is that it has not read yet.
static bool may_overwrite(const KernelContext& k) {
  const auto is_known = [](const Location& l) {
    return l.kind == Location::Kind::arena || l.kind == Location::Kind::chunk;
  };
  const auto may_lie_at = [&](int read, int written) {
    const Location from = k.value(read).location, to = k.value(written).location;
    return !is_known(from) || !is_known(to) || from == to;
  };
  const std::set<int>& in_place = k.kernel().in_place;
  return std::any_of(in_place.begin(), in_place.end(), [&](int read) {
    return std::any_of(k.step.writes.begin(), k.step.writes.end(),
                       [&](int written) { return may_lie_at(read, written); });
  });
}

void store_roots(KernelContext& k, Generator& value_at, const Point& at) {
  const Kernel& kernel = k.kernel();
  compute_in_order(k, value_at, at);
  // All are computed before the first is stored, which may overwrite an operand. Where it does not, many columns are stored as
  // they are computed: all of them would wait on the stack (Kronecker products of 3 x 3 and 4 x 4: 0.65 of the time). Of fewer,
  // loops in stages are the faster, which store last (36: 0.96).
  constexpr int kMany = 64;
  const bool overwrites = !kernel.woven.empty() && may_overwrite(k);
  std::vector<std::function<void()>> stores;
  for (const Var v : kernel.roots) {
    const int to = k.value_of(v);
    const Atoms columns = columns_of_root(k.scope.jaxpr, kernel, k.producer, v);
    const auto value = [&](int c) { return value_at(columns[static_cast<std::size_t>(c)], at); };
    const auto size = static_cast<int>(columns.size());
    const bool woven = kernel.woven.contains(v);
    if (woven && size > kMany && !overwrites) {
      value_at.store_columns(v, at, size, value);
      continue;
    }
    Scalars values;
    for (int c = 0; c < size; ++c) values.push_back(value(c));
    stores.emplace_back([&value_at, &at, v, to, woven, size, values] {
      if (woven)
        value_at.store_columns(v, at, size,
                               [&](int c) { return values[static_cast<std::size_t>(c)]; });
      else value_at.store(to, at, values[0]);
    });
  }
  for (const auto& store : stores) store();
}

// With what it is made of, a small result stays in the last cache (x + 2x of 4 MiB on Zen 3: 0.67 of the time). Machines
// whose vectors have 64 bytes are the faster there (Zen 4, 2x of 6 MiB: 0.62, of 8 MiB 0.74, of 12 MiB 1), where
// Zen 3 does not gain.
std::int64_t stays_in_cache() {
  const std::int64_t least = 2 * kStreamingOne;
  return runtime::target_vector_bytes() == 64 ? std::max(least, runtime::last_cache_bytes() / 2)
                                              : least;
}

bool should_stream(const KernelContext& k, std::int64_t least) {
  if (!k.plan.emit.streaming) return false;
  std::int64_t bytes = 0;
  for (const Var v : k.kernel().roots) {
    const Value& value = k.value(k.value_of(v));
    if (value.location.kind != Location::Kind::result || value.aval.dtype == DType::bool_)
      return false;
    bytes = std::max(bytes, value.bytes());
  }
  if (bytes < least || k.bytes() <= stays_in_cache()) return false;
  // Parts that are stored one after the other begin where lines do only if they are whole lines.
  constexpr std::int64_t kWhole = 64;
  if (k.kernel().shape.num_elements() % kWhole != 0 &&
      stacks_parts(k.scope.jaxpr, k.kernel(), k.producer))
    return false;
  // What was just read is in the caches: stores past these would have to throw it out.
  const auto is_overwritten = [&](int read) {
    const Location at = k.value(read).location;
    return std::any_of(k.step.writes.begin(), k.step.writes.end(),
                       [&](int w) { return k.value(w).location == at; });
  };
  if (std::any_of(k.step.reads.begin(), k.step.reads.end(), is_overwritten)) return false;
  for (const Step& s : k.plan.steps) {
    for (const int w : k.step.writes) {
      if (std::find(s.reads.begin(), s.reads.end(), w) != s.reads.end()) return false;
    }
  }
  return true;
}

// Whether this is all of the outermost loop, and known to be.
static bool is_whole(const KernelContext& k) {
  const Shape& shape = k.kernel().shape;
  return CodeGen::known_bounds(k.begin, k.end) == KnownBounds{0, shape[outer_dim(shape)]};
}

// Rows of a small matrix that have more in common, by columns of operands that are the same in all of
// them, than its columns have: what is the same is computed once where the loop over rows is inside.
static bool columns_first(const KernelContext& k, std::size_t inner) {
  constexpr std::int64_t kMost = 1 << 11;  // elements: all lie in the nearest cache
  const Kernel& kernel = k.kernel();
  if (!k.plan.emit.columns_first || inner == 0 || kernel.shape.num_elements() > kMost ||
      !is_whole(k))
    return false;
  int in_rows = 0, in_columns = 0;
  for (const int e : kernel.members) {
    const Eqn& eqn = k.eqn(e);
    if (k.scope.jaxpr.aval(eqn.outputs[0]).shape != kernel.shape) continue;
    const auto along = static_cast<std::int64_t>(inner);
    bool same_rows = false;
    if (eqn.primitive == &iota_p) {
      same_rows = eqn.params.as<IotaParams>().dimension == along;
    } else if (eqn.primitive == &broadcast_in_dim_p &&
               k.scope.jaxpr.aval(eqn.inputs[0]).size() > 1) {
      const Shape& dims = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
      const Shape& from = k.scope.jaxpr.aval(eqn.inputs[0]).shape;
      for (std::size_t d = 0; d < dims.size(); ++d)
        same_rows |= dims[d] == along && from.num_elements() == from[d];
    } else {
      continue;
    }
    ++(same_rows ? in_rows : in_columns);
  }
  return in_rows > in_columns + 1;
}

// Whether a result of the kernel lies where an argument did that was donated: lines that were just read
// are in the caches, and stores past these would have to throw them out. None: it cannot.
static std::optional<Scalar> is_in_place(KernelContext& k) {
  CodeGen& gen = k.gen;
  std::optional<Scalar> any;
  for (const Var v : k.kernel().roots) {
    const Value& value = k.value(k.value_of(v));
    const Scalar to = gen.address(gen.pointer(value.location));
    for (const int a : k.plan.reusable[static_cast<std::size_t>(value.location.index)]) {
      const Scalar from = gen.address(gen.pointer(k.value(a).location));
      const Scalar same = gen.compare(Compare::eq, to, from);
      any = any ? gen.or_(*any, same) : same;
    }
  }
  return any;
}

// Whether the rows of a small kernel are written out one after the other: what an index decides (a padding,
// a row of the identity) is decided by the compiler then, and there is no loop to go round.
static bool writes_rows_out(const KernelContext& k, std::size_t inner, int lanes) {
  constexpr std::int64_t kMostRows = 16, kMost = 512;  // kMost: operations on vectors
  constexpr std::size_t kFewSteps = 8;  // of the program: others take long enough to compile
  const Shape& shape = k.kernel().shape;
  if (!k.plan.emit.write_out_rows || !k.plan.emit.inline_kernels || inner == 0 || k.by_columns ||
      k.plan.steps.size() > kFewSteps || !is_whole(k))
    return false;
  const std::int64_t columns = shape[inner], rows = shape.num_elements() / columns;
  const std::int64_t vectors = rows * detail::ceil_div(columns, lanes);
  // Columns that are put together are a few shuffles each, and in LLVM each of these is slow.
  const std::int64_t each = k.kernel().woven.empty() ? 1 : 4;
  return rows <= kMostRows &&
         detail::saturating_mul(vectors, each * cost_of(k.scope, k.kernel())) <= kMost;
}

/// body(index) for each index of these sizes, without a loop.
static void each_index(CodeGen& gen, std::span<const std::int64_t> sizes,
                       const std::function<void(const Index&)>& body) {
  Index index;
  const std::function<void()> nest = [&] {
    if (index.size() == sizes.size()) return gen.region([&] { body(index); });
    for (std::int64_t i = 0; i < sizes[index.size()]; ++i) {
      index.push_back(gen.index(i));
      nest();
      index.pop_back();
    }
  };
  nest();
}

// Whether this is a part of a loop of so many trips, over what the last cache may hold. A single thread
// reads and writes memory faster past that cache; several are as fast through it, and faster by far where
// arrays are found there again. None: it is the whole, or too large.
static std::optional<Scalar> is_part_in_cache(KernelContext& k, std::int64_t trips) {
  if (!k.is_shared && CodeGen::known_bounds(k.begin, k.end)) return {};
  const std::int64_t cache = runtime::last_cache_bytes();
  if (k.bytes() > cache + cache / 4) return {};  // most of it is still there
  if (k.is_shared) return k.is_shared;
  return k.gen.compare(Compare::lt, k.gen.sub(k.end, k.begin), k.gen.index(trips));
}

/// The loops of a kernel, the outermost of so many trips: with stores that go around the caches, if that is
/// wanted, but not where the result takes the place of what was just read or is shared by threads.
static void streaming_or_not(KernelContext& k, bool wanted, std::int64_t trips,
                             const std::function<void(bool streams)>& loops) {
  CodeGen& gen = k.gen;
  const auto emit = [&](bool streaming) {
    gen.set_streaming(streaming);
    loops(streaming);
    gen.set_streaming(false);
    if (streaming) gen.finish_streaming();
  };
  if (!wanted) return emit(false);
  const std::optional<Scalar> in_place = is_in_place(k), part = is_part_in_cache(k, trips);
  if (!in_place && !part) return emit(true);
  const Scalar through = in_place && part ? gen.or_(*in_place, *part)
                         : in_place       ? *in_place
                                          : *part;
  gen.if_then(through, [&] { emit(false); });
  gen.if_then(gen.not_(through), [&] { emit(true); });
}

namespace {

/// The loops of a kernel over more than one element, in one of their forms.
class LoopEmitter {
 public:
  explicit LoopEmitter(KernelContext& k)
      : k_(k),
        gen_(k.gen),
        kernel_(k.kernel()),
        shape_(kernel_.shape),
        inner_(inner_dim(shape_)),
        cut_(outer_dim(shape_)),
        lanes_(vector_lanes(k)) {
    // Of a single row that lanes run across, there is a single element.
    const bool across = kernel_.linear || cut_ == inner_;
    if (across && k.unit % lanes_ != 0) lanes_ = 1;
    outer_ = bounds_of(gen_, std::span(shape_.data(), inner_));
    if (cut_ < inner_ && !k.by_columns && !kernel_.linear) outer_[cut_] = {k.begin, k.end};
  }

  void run() {
    const bool one_row = shape_.num_elements() == shape_[inner_];
    if ((!kernel_.linear || one_row) && emit_gaps(k_, inner_, lanes_, outer_)) return;
    if (kernel_.linear) return flat();
    const auto around = [&](const std::function<void(bool)>& loops) {
      streaming_or_not(k_, rows_are_aligned() && streams(kStreamingOne), trips(), loops);
    };
    if (emit_transposed(k_, inner_, lanes_, outer_, around)) return;
    seams_ = find_seams(k_, shape_[inner_], lanes_, kMostOfParts);
    if (columns_first(k_, inner_)) return columns_outside();
    if (writes_rows_out(k_, inner_, lanes_)) return written_out();
    std::size_t equations = 0;
    in_parts_ = count_parts(kernel_.members, 0, equations) && equations <= most_of_parts();
    if (rows_of_group(k_.plan, kernel_, lanes_) > 1 && !k_.by_columns && !in_parts_)
      return short_rows();
    rows();
  }

 private:
  static constexpr std::int64_t kTogether = 4;  // short rows that are found by indices, of a trip

  // Along all dimensions at once.
  void flat() {
    const std::int64_t size = shape_.num_elements();
    const auto around = [&](const std::function<void(bool)>& loops) {
      streaming_or_not(k_, streams(kStreamingOne), size, loops);
    };
    if (emit_permuted(k_, around)) return;
    around([&](bool) {
      Generator values = k_.generator();
      const auto block = [&](Scalar base) {
        store_roots(k_, values, {shape_, std::nullopt, gen_.lane_index(base)});
      };
      seamed_loop(k_, find_seams(k_, size, lanes_, kMostOfParts), k_.begin, k_.end, size, lanes_,
                  block, overlapping());
    });
  }
  // Vectors of columns, and for each of them all rows.
  void columns_outside() {
    Generator values = k_.generator();
    const auto column = [&](Scalar base) {
      loop_nest(gen_, outer_, [&](const Index& index) { block(values, index, base); });
    };
    seamed_loop(k_, seams_, gen_.index(0), gen_.index(shape_[inner_]), shape_[inner_], lanes_,
                column, {.loads_leave = true, .narrow_tail = true});
  }
  void written_out() {
    Generator values = k_.generator();
    each_index(gen_, std::span(shape_.data(), inner_),
               [&](const Index& index) { row(values, index); });
  }
  void short_rows() {
    const bool aligned = short_rows_are_aligned(k_, lanes_);
    streaming_or_not(k_, aligned && streams(kStreamingOne), trips(), [&](bool past_caches) {
      Generator values = k_.generator();
      emit_short_rows(k_, values, inner_, lanes_, past_caches,
                      [&](const Index& index) { row(values, index); });
    });
  }
  void rows() {
    const bool whole = rows_are_aligned() && !k_.by_columns && seams_.empty();
    streaming_or_not(k_, whole && streams(2 * kStreamingOne), trips(), [&](bool) {
      Generator values = k_.generator();
      const auto one = [&](const Index& index) { row(values, index); };
      if (in_parts_) return part_by_part(one);
      if (looks_up_short_rows()) return several_rows(values);
      if (const auto blocks = neighbours(values))
        loop_nest_in_blocks(gen_, outer_, blocks->dim, blocks->size, one);
      else loop_nest(gen_, outer_, one);
    });
  }
  // The loops around the lanes, apart for the parts of what is put together along one of them: of each vector of rows all
  // parts would be computed, and one chosen (eight planes of u8 on Zen 4: 0.2 of the time).
  void part_by_part(const std::function<void(const Index&)>& body) {
    Index index;
    each_part(kernel_.members, index, body);
  }
  // A large kernel that goes through all parts at once is much code, too.
  std::size_t most_of_parts() const { return std::max(kMostOfParts, 3 * kernel_.members.size()); }
  // Adds how many equations all parts are; whether there are several.
  bool count_parts(const std::set<int>& members, std::size_t d, std::size_t& equations) const {
    if (equations > most_of_parts()) return false;
    if (d == inner_) {
      equations += find_seams(k_, members, shape_[inner_], lanes_, kMostOfParts).equations;
      return false;
    }
    const std::vector<OuterPart> parts = parts_along(k_, members, d);
    bool several = parts.size() > 1;
    for (const OuterPart& part : parts) several |= count_parts(part.members, d + 1, equations);
    return several;
  }
  void each_part(const std::set<int>& members, Index& index,
                 const std::function<void(const Index&)>& body) {
    const std::size_t d = index.size();
    if (d == inner_) {
      seams_ = find_seams(k_, members, shape_[inner_], lanes_, kMostOfParts).at;
      return body(index);
    }
    const auto [begin, end] = outer_[d];
    const bool all = CodeGen::known_bounds(begin, end) == KnownBounds{0, shape_[d]};
    for (std::int64_t from = 0; const auto& [to, made_of] : parts_along(k_, members, d)) {
      const Scalar first = all ? gen_.index(from) : gen_.max(begin, gen_.index(from));
      const Scalar last = all ? gen_.index(to) : gen_.min(end, gen_.index(to));
      gen_.loop(first, last, [&](Scalar i) {
        index.push_back(gen_.within(i, from, to - 1));
        each_part(made_of, index, body);
        index.pop_back();
      });
      from = to;
    }
  }
  // Of short rows that are moved, some that lie next to each other where they come from are moved one after the other: a line
  // of the cache has several of them, and those that follow each other in the result may be so far apart that the cache has
  // no room for their lines until the next ones are read (4,096 x 100 points in f32 on Zen 4: 0.2 of the time). Nor may the lines
  // that a block writes be too many.
  struct Blocks {
    std::size_t dim;
    std::int64_t size;
  };
  std::optional<Blocks> neighbours(const Generator& values) const {
    constexpr std::int64_t kLongest = 128, kVeryShort = 16;  // bytes of a row
    std::size_t next = inner_;  // the dimension along which rows of the result follow each other
    while (next > 0 && shape_[next - 1] == 1) --next;
    if (next-- == 0) return {};
    for (const int e : kernel_.members) {
      const std::optional<std::size_t> d = dim_of_rows(k_.scope, kernel_, k_.eqn(e));
      if (!d || *d >= next) continue;
      const Atom& x = k_.eqn(e).inputs[0];
      const Aval& from = k_.scope.jaxpr.aval(x);
      const auto size = static_cast<std::int64_t>(size_of(from.dtype));
      const Shape& order = k_.eqn(e).params.as<TransposeParams>().permutation;
      const std::int64_t row = shape_[inner_] * size,
                         lines = lines_held(step_of(from.shape, order[next]) * size),
                         streams =
                             lines_held(step_of(shape_, static_cast<std::int64_t>(*d)) * size);
      if (row < kLongest && shape_[next] > lines && values.in_memory(x.var()) >= 0)
        return Blocks{*d, std::min<std::int64_t>(row < kVeryShort ? 16 : 8, streams)};
    }
    return {};
  }
  static std::int64_t step_of(const Shape& shape, std::int64_t axis) {
    return std::accumulate(shape.begin() + axis + 1, shape.end(), std::int64_t{1},
                           std::multiplies<>());
  }
  // Of lines so many bytes apart, the number that the first cache surely holds, beside as many others: a set of it has eight
  // lines, those whose addresses are the same but for multiples of 4 KiB.
  static std::int64_t lines_held(std::int64_t step) {
    constexpr std::int64_t kWays = 8, kSets = 64, kLine = 64;
    return kWays / 2 * std::min(kSets, kSets * kLine / std::gcd(step, kSets * kLine));
  }

  // Whether each row is a vector, or a part of one, of rows that are found by indices: the loop is much of that (480 by 640
  // rows of three f32 on Zen 4: 0.7 of the time if four are a trip).
  bool looks_up_short_rows() const {
    return k_.plan.emit.write_out_rows && inner_ > 0 && !k_.by_columns && shape_[inner_] > 1 &&
           shape_[inner_] <= lanes_ && shape_[inner_ - 1] >= 2 * kTogether &&
           cost_of(k_.scope, kernel_) <= kMostOfTrip / kTogether &&
           std::any_of(kernel_.members.begin(), kernel_.members.end(),
                       [&](int e) { return k_.eqn(e).primitive == &gather_p; });
  }
  void several_rows(Generator& values) {
    LoopBounds around = outer_;
    const auto [first, last] = around.back();
    around.pop_back();
    loop_nest(gen_, around, [&](const Index& index) {
      const auto row_of = [&](Scalar number) {
        Index all = index;
        all.push_back(number);
        row(values, all);
      };
      const Scalar whole = end_of_whole_steps(gen_, first, last, kTogether);
      gen_.loop_carried(first, whole, kTogether, {}, [&](Scalar number, const Scalars&) {
        for (std::int64_t i = 0; i < kTogether; ++i)
          gen_.scope([&] { row_of(gen_.add(number, gen_.index(i))); });
        return Scalars{};
      });
      gen_.loop(whole, last, row_of);
    });
  }

  void row(Generator& values, const Index& index) {
    const bool part = cut_ == inner_ || k_.by_columns;
    const Scalar first = part ? k_.begin : gen_.index(0);
    const Scalar last = part ? k_.end : gen_.index(shape_[inner_]);
    seamed_loop(
        k_, seams_, first, last, shape_[inner_], lanes_,
        [&](Scalar base) { block(values, index, base); }, overlapping());
  }
  // The vector from `base` on of the row that these indices are of.
  void block(Generator& values, const Index& index, Scalar base) {
    Index full = index;
    full.push_back(gen_.lane_index(base));
    full.resize(shape_.size(), gen_.index(0));
    store_roots(k_, values, {shape_, full, std::nullopt});
  }

  BlockOptions overlapping() const {
    return {.loads_leave = true,
            .overlap = {k_.plan.emit.loop_stages, k_.plan.emit.interleave},
            .narrow_tail = true};
  }
  // Rows of whole vectors begin where lines of the cache do.
  bool rows_are_aligned() const { return kernel_.woven.empty() && shape_[inner_] % lanes_ == 0; }
  std::int64_t trips() const { return shape_[k_.by_columns ? inner_ : cut_]; }
  // Kernels over rows mostly follow others over the same rows: what the last cache may hold is left there.
  bool streams(std::int64_t one) const {
    return should_stream(k_, kernel_.roots.size() == 1 ? one : kStreamingBytes);
  }

  KernelContext& k_;
  CodeGen& gen_;
  const Kernel& kernel_;
  const Shape& shape_;
  std::size_t inner_;  ///< the innermost dimension that is not 1: lanes run along it
  std::size_t cut_;    ///< the outermost that is not 1: chunks have parts of it
  int lanes_;
  LoopBounds outer_;                 ///< of the dimensions around it
  std::vector<std::int64_t> seams_;  ///< along it
  bool in_parts_ = false;  ///< goes through what is put together around the rows part by part
};

}  // namespace

void emit_loop(KernelContext& k) {
  const Shape& shape = k.kernel().shape;
  if (shape.num_elements() == 0) return;
  if (k.kernel().segments) return emit_segments(k);
  if (shape.num_elements() > 1) return LoopEmitter(k).run();
  Generator value_at = k.generator();
  k.gen.set_lanes(1, 1);
  store_roots(k, value_at, {shape, Index(shape.size(), k.gen.index(0)), k.gen.index(0)});
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
