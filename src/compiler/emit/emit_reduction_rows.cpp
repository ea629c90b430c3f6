// Folds along the last dimension: lanes run along the rows, or over as many rows as there are lanes.
#include <algorithm>
#include <limits>

#include "compiler/emit/emit_reduction.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// The integers that have the bits of such numbers.
DType bits_of(DType type) { return type == DType::f64 ? DType::u64 : DType::u32; }
std::int64_t twice_infinity(DType type) {
  return type == DType::f64 ? static_cast<std::int64_t>(0xFFE0'0000'0000'0000) : 0xFF00'0000;
}
/// Whether the greater of two such integers is one instruction.
bool has_maximum_of_bits(DType type) {
  return type == DType::f32 ? runtime::target_isa() != runtime::Isa::generic
                            : runtime::target_isa() == runtime::Isa::avx512;
}

}  // namespace

void ReductionEmitter::for_each_row(const LoopBounds& bounds) {
  std::vector<std::size_t> outer = outer_dims();
  LoopBounds around = bounds;
  if (!turned_.transposes.empty()) {
    const auto at = std::find(outer.begin(), outer.end(), turned_.dim) - outer.begin();
    const auto [begin, end] = bounds[static_cast<std::size_t>(at)];
    outer.erase(outer.begin() + at);
    around.erase(around.begin() + at);
    return for_each(outer, around, [&] { turned_rows(begin, end); });
  }
  const bool blocks = k_.plan.emit.row_blocks && !part_ && short_rows(outer);
  if (blocks) around.pop_back();
  for_each(outer, around, [&] {
    if (blocks) row_blocks(outer.back(), around.empty());
    else row();
  });
}

// Rows of a few vectors: folding the lanes of each would cost more than the sums.
bool ReductionEmitter::short_rows(const std::vector<std::size_t>& outer) const {
  return lanes_ > 1 && folded_.size() == 1 && !outer.empty() && outer.back() + 1 == folded_[0] &&
         dims_[folded_[0]].size > 0 && dims_[folded_[0]].size <= 2 * lanes_ &&
         dims_[outer.back()].size >= lanes_ && kernel_.members.size() <= 8 && count() <= 2;
}

// As many rows as there are lanes at a time; their lanes are folded together.
void ReductionEmitter::row_blocks(std::size_t rows, bool chunked) {
  const std::size_t inner = folded_[0];
  const std::int64_t size = dims_[rows].size;
  const std::int64_t columns = dims_[inner].size, rest = columns % lanes_, whole = columns - rest;
  const Scalar begin = chunked ? k_.begin : gen_.index(0),
               end = chunked ? k_.end : gen_.index(size);
  // A tile may have any number of them.
  const Scalar stop = end_of_whole_steps(gen_, begin, end, lanes_);
  gen_.loop_carried(begin, stop, lanes_, {}, [&](Scalar base, const Scalars&) {
    prefetch_rows(base, columns);
    std::vector<Scalars> partial;
    for (int r = 0; r < lanes_; ++r) {
      index_[rows] = gen_.add(base, gen_.index(r));
      gen_.set_lanes(lanes_, lanes_);
      Scalars acc = identities(1);
      for (std::int64_t c = 0; c < whole; c += lanes_) {
        index_[inner] = gen_.lane_index(gen_.index(c));
        accumulate(acc, 0, false);
      }
      if (rest > 0) {
        gen_.set_lanes(lanes_, static_cast<int>(rest));
        index_[inner] = gen_.lane_index(gen_.index(whole));
        accumulate(acc, 0, true);
      }
      partial.push_back(std::move(acc));
    }
    gen_.set_lanes(lanes_, lanes_);
    const Scalars out = gen_.fold_rows(
        std::move(partial), [&](const Scalars& a, const Scalars& b) { return combine(a, b); });
    index_[rows] = gen_.lane_index(base);
    finish(out);
    gen_.set_lanes(1, 1);
    return Scalars{};
  });
  // The last rows one by one.
  gen_.loop(stop, end, [&](Scalar r) {
    index_[rows] = r;
    row();
  });
}

// Overlapping loads of short rows keep the processor from seeing the stream: twice as slow.
void ReductionEmitter::prefetch_rows(Scalar base, std::int64_t columns) {
  constexpr std::int64_t kAhead = 2048, kLine = 64;  // bytes
  if (!kernel_.linear || dims_.size() != 2) return;
  for (const int v : k_.step.reads) {
    const Value& operand = k_.value(v);
    if (operand.aval.size() != kernel_.shape.num_elements() || operand.bytes() < 1 << 20) continue;
    const DType dtype = operand.aval.dtype;
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    const Scalar first = gen_.mul(base, gen_.index(columns));
    for (std::int64_t at = 0; at < columns * lanes_ * bytes; at += kLine) {
      gen_.prefetch(value_at_.pointer(v), dtype,
                    gen_.add(first, gen_.index((kAhead + at) / bytes)));
    }
  }
}

void ReductionEmitter::row() {
  if (dims_.empty()) {  // one element
    gen_.set_lanes(1, 1);
    Scalars acc;
    for (std::size_t r = 0; r < count(); ++r) acc.push_back(identity(r));
    if (kernel_.shape.num_elements() > 0) accumulate(acc, 0, false);
    return finish(acc);
  }
  const std::size_t inner = dims_.size() - 1;
  std::vector<std::size_t> around = folded_;
  around.pop_back();
  gen_.set_lanes(lanes_, lanes_);
  const Scalar blocks = gen_.index(whole_blocks());
  Scalars acc = identities(copies());
  nans_apart_ = keeps_nans_apart();
  if (nans_apart_) {
    seen_.resize(count());
    for (const Slot& slot : slots_)
      acc.push_back(gen_.splat(gen_.constant_int(bits_of(slot.dtype), 0)));
  }
  acc = across(fold_nest(around, 0, std::move(acc), [&](Scalars a) {
    if (is_split(inner)) return seamed_lanes(inner, from_, to_, copies(), std::move(a));
    return rest_of_row(seamed_lanes(inner, gen_.index(0), blocks, copies(), std::move(a)));
  }));
  nans_apart_ = false;
  finish(acc);
}

bool ReductionEmitter::is_extreme(std::size_t slot) const {
  const DType type = slots_[slot].dtype;
  return (type == DType::f32 || type == DType::f64) &&
         one_of(eqn(slots_[slot].e), {&reduce_min_p, &reduce_max_p});
}

// To let each NaN replace what was there takes three instructions, each of which waits for the one before. Apart, they are
// the numbers whose bits but for the sign are more than those of infinity: an addition and a maximum of integers. Minima of
// rows of 100 f64 take 0.75 of the time (Zen 5).
bool ReductionEmitter::keeps_nans_apart() const {
  if (copies() == 1) return false;
  bool any = false;
  for (std::size_t s = 0; s < count(); ++s) {
    if (finds_place(eqn(slots_[s].e))) return false;
    if (!is_extreme(s)) continue;
    if (!has_maximum_of_bits(slots_[s].dtype)) return false;
    any = true;
  }
  return any;
}

void ReductionEmitter::note_nans(Scalars& acc) {
  for (std::size_t s = 0; s < seen_.size(); ++s) {
    Scalars& all = seen_[s];
    if (all.empty()) continue;
    for (Scalar& x : all) {
      x = gen_.bitcast(x, bits_of(slots_[s].dtype));
      x = gen_.add(x, x);
    }
    // In pairs: what is carried waits once for each trip.
    for (; all.size() > 1; all.resize(all.size() / 2)) {
      for (std::size_t i = 0; i < all.size() / 2; ++i)
        all[i] = gen_.max(all[2 * i], all[2 * i + 1]);
    }
    Scalar& most = acc[acc.size() - count() + s];
    most = gen_.max(most, all[0]);
    all.clear();
  }
}

std::optional<DType> ReductionEmitter::widest_place() const {
  std::optional<DType> type;
  for (const Slot& s : slots_) {
    if (s.place && (!type || size_of(*type) < size_of(s.dtype))) type = s.dtype;
  }
  return type;
}

std::int64_t ReductionEmitter::whole_blocks() const {
  const std::int64_t step = lanes_ * copies();
  return dims_.back().size / step * step;
}

// The last vectors of a row, into the first accumulators.
Scalars ReductionEmitter::rest_of_row(Scalars a) {
  const std::size_t inner = dims_.size() - 1;
  const std::int64_t size = dims_[inner].size, rest = size % lanes_, whole = size - rest;
  a = seamed_lanes(inner, gen_.index(whole_blocks()), gen_.index(whole), 1, std::move(a));
  if (rest > 0) {
    gen_.set_lanes(lanes_, static_cast<int>(rest));
    index_[inner] = gen_.lane_index(gen_.index(whole));
    accumulate(a, 0, true);
    gen_.set_lanes(lanes_, lanes_);
    note_nans(a);
  }
  return a;
}

Scalars ReductionEmitter::row_rest() {
  gen_.set_lanes(lanes_, lanes_);
  return across(rest_of_row(identities(copies())));
}

int ReductionEmitter::copies() const {
  if (!turned_.transposes.empty()) return 1;  // they have as many rows
  // What is done to an extreme and its place takes twice as long before the next can begin.
  const int most = widest_place() ? 2 * kAccumulators : kAccumulators;
  if (!k_.plan.emit.accumulators || dims_.back().size < most * lanes_) return 1;
  // Long computations hide how long an addition takes, and need the registers themselves.
  constexpr std::size_t kLong = 16;
  const int registers = runtime::target_vector_registers();
  const bool crowded = 2 * most * static_cast<int>(count()) > registers;
  return crowded && kernel_.members.size() >= kLong ? 1 : most;
}

// Accumulators, then lanes, folded together.
Scalars ReductionEmitter::across(Scalars acc) {
  const auto rest = acc.end() - static_cast<std::ptrdiff_t>(nans_apart_ ? count() : 0);
  const Scalars most(rest, acc.end());
  acc.erase(rest, acc.end());
  Scalars out = fold_lanes(acc);
  for (std::size_t s = 0; s < most.size(); ++s) {
    if (!is_extreme(s)) continue;
    const Scalar infinity =
                     gen_.constant_int(bits_of(slots_[s].dtype), twice_infinity(slots_[s].dtype)),
                 nan = gen_.constant(slots_[s].dtype, std::numeric_limits<double>::quiet_NaN());
    out[s] = gen_.select(gen_.any_lane(gen_.compare(Compare::gt, most[s], infinity)), nan, out[s]);
  }
  gen_.set_lanes(1, 1);
  return out;
}

// for (i = from; i < to; i += copies * lanes) acc[c] = combine(acc[c], x[i + c * lanes ...])
//
// Of several accumulators, which begin as identities, i says where an extreme is, one register for all lanes
// of all of them; the rest follows from where it is found, after the loop. Lanes that are never replaced
// have nothing better than their first element.
//
// `bases`: the first and the last index of a vector that there may be.
Scalars ReductionEmitter::lanes_loop(std::size_t inner, Scalar from, Scalar to, int copies,
                                     Scalars acc,
                                     std::optional<std::pair<std::int64_t, std::int64_t>> bases) {
  const std::int64_t step = lanes_ * copies;
  const std::optional<DType> type = widest_place();
  const bool tells_trips = k_.plan.emit.count_trips && copies > 1 && type;
  // Carried as a vector: where it is one number, each use takes it to a register of vectors again.
  if (tells_trips) acc.push_back(gen_.splat(gen_.convert(from, *type)));
  acc = lanes_carried(from, to, step, std::move(acc), [&](Scalar base, const Scalars& carried) {
    Scalars a = carried;
    if (tells_trips) trip_ = a.back();
    for (int c = 0; c < copies; ++c) {
      const Scalar first = gen_.add(base, gen_.index(c * lanes_));
      index_[inner] =
          gen_.lane_index(bases ? gen_.within(first, bases->first, bases->second) : first);
      accumulate(a, static_cast<std::size_t>(c) * count(), false);
    }
    note_nans(a);
    if (tells_trips) a.back() = gen_.add(*trip_, gen_.constant_int(*type, step));
    trip_ = {};
    return a;
  });
  if (!tells_trips) return acc;
  acc.pop_back();
  return place_lanes(std::move(acc), copies);
}

// Between seams, indices are known well enough to decide which operand is read. The blocks that a seam runs through go
// to the first accumulators, as does what is left of a part.
Scalars ReductionEmitter::seamed_lanes(std::size_t inner, Scalar from, Scalar to, int copies,
                                       Scalars acc) {
  if (seams_.empty()) return lanes_loop(inner, from, to, copies, std::move(acc));
  std::int64_t begin = 0;
  const std::optional<KnownBounds> known = CodeGen::known_bounds(from, to);
  const std::int64_t whole = dims_[inner].size / lanes_ * lanes_, step = lanes_ * copies;
  for (const std::int64_t end : blocks_between(seams_, lanes_, whole)) {
    const std::pair bases{begin, end - lanes_};
    Scalar low = gen_.max(from, gen_.index(begin));
    const Scalar high = gen_.min(to, gen_.index(end));
    const std::int64_t length =
        known ? std::min(known->last, end) - std::max(known->first, begin) : end - begin;
    begin = end;
    if (length <= 0) continue;
    if (known && length == lanes_) {  // no loop: the places of its elements are constants
      index_[inner] = gen_.lane_index(low);
      accumulate(acc, 0, false);
      note_nans(acc);
      continue;
    }
    if (copies > 1 && length >= step) {
      const Scalar all = gen_.max(gen_.sub(high, low), gen_.index(0)), one = gen_.index(step);
      const Scalar rest = gen_.add(low, gen_.mul(gen_.div(all, one), one));
      acc = lanes_loop(inner, low, rest, copies, std::move(acc), bases);
      low = rest;
    }
    acc = lanes_loop(inner, low, high, 1, std::move(acc), bases);
  }
  return acc;
}

Scalars ReductionEmitter::place_lanes(Scalars acc, int copies) {
  for (int c = 0; c < copies; ++c) {
    for (std::size_t s = 0; s < count(); ++s) {
      if (!slots_[s].place) continue;
      Scalar& place = acc[static_cast<std::size_t>(c) * count() + s];
      const Scalar lane = gen_.lane_index(gen_.index(c * lanes_));
      place = gen_.add(place, gen_.convert(lane, slots_[s].dtype));
    }
  }
  return acc;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
