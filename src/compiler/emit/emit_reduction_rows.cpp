// Folds along the last dimension: lanes run along the rows, or over as many rows as there are lanes.
#include "compiler/emit/emit_reduction.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

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
  finish(across(fold_nest(around, 0, identities(copies()), [&](Scalars a) {
    if (is_split(inner)) return seamed_lanes(inner, from_, to_, copies(), std::move(a));
    return rest_of_row(seamed_lanes(inner, gen_.index(0), blocks, copies(), std::move(a)));
  })));
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
  }
  return a;
}

Scalars ReductionEmitter::row_rest() {
  gen_.set_lanes(lanes_, lanes_);
  return across(rest_of_row(identities(copies())));
}

int ReductionEmitter::copies() const {
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
  const Scalars out = fold_lanes(acc);
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
