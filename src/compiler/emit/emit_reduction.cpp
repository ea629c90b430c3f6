// Reductions, with what is fused before and after them.
//
// Dimensions of one element do not count, and adjacent ones of one kind (kept or folded) count as one where
// the kernel is linear. If the last dimension is folded, lanes run along it: several vector accumulators, combined in
// a fixed tree at the end of each row. If it is kept, lanes run along the results: each lane folds its own
// column, a tile of columns at a time. Where there are too few results to share out, the largest
// folded dimension is cut into parts that are folded apart, and their results in order.
//
// Either way the order of combination depends on the kernel alone, not on threads; but on all of the kernel, so that a sum
// fused with other work may differ in the last bits from the same sum by itself. Lanes are those of the
// widest numbers, accumulators as many as fit beside the rest, dimensions count as one where everything is linear, and
// parts are as long as an element's cost makes worthwhile. By the shape alone, cheap sums of columns would be
// cut like dear ones, or dear ones too short to be cut.
#include "compiler/emit/emit_reduction.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/integers.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMaxParts = 64;
constexpr std::size_t kMostOfParts = 216;  // equations, each of them for several accumulators
constexpr std::int64_t kRowUnit = 8;       // of rows: whole passes over a tile of columns
constexpr std::int64_t kPartUnit = 1024;   // of the last dimension: whole blocks of any lane count

}  // namespace

std::int64_t even_parts(std::int64_t wanted, std::int64_t most) {
  const auto parts = std::bit_ceil(static_cast<std::uint64_t>(std::min(wanted, most)));
  return std::min(static_cast<std::int64_t>(parts), most);
}

std::vector<FoldDim> merged_dims(const Kernel& k) {
  std::vector<FoldDim> dims;
  for (std::size_t d = 0; d < k.shape.size(); ++d) {
    const bool folded = k.axes.contains(static_cast<std::int64_t>(d));
    if (k.shape[d] == 1) continue;
    if (k.linear && !dims.empty() && dims.back().folded == folded)
      dims.back().size = detail::wrapping_mul(dims.back().size, k.shape[d]);
    else dims.push_back({k.shape[d], folded});
  }
  // Over nothing, however long what lies around it is.
  const auto is_empty = [](const FoldDim& d) { return d.folded && d.size == 0; };
  if (std::any_of(dims.begin(), dims.end(), is_empty)) {
    for (FoldDim& d : dims) d.size = d.folded ? 0 : d.size;
  }
  return dims;
}

std::optional<FoldParts> FoldParts::of(const Kernel& k, const std::vector<FoldDim>& dims,
                                       std::int64_t cost) {
  const std::int64_t size = k.shape.num_elements();
  const std::int64_t work = detail::saturating_mul(size, cost);
  if (work < 2 * kParallelCost) return {};
  const std::int64_t wanted = even_parts(work / kParallelCost, kMaxParts);
  // The last of several folded dimensions stays whole: lanes run along it.
  FoldParts out;
  std::int64_t largest = 0, folded = 0, results = 1;
  for (const FoldDim& d : dims) folded += d.folded ? 1 : 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!dims[d].folded) results *= dims[d].size;
    if (!dims[d].folded || dims[d].size <= largest || (folded > 1 && d + 1 == dims.size()))
      continue;
    largest = dims[d].size;
    out.dim = d;
  }
  if (largest == 0) return {};
  std::int64_t each = detail::ceil_div(largest, wanted);
  const std::int64_t around = size / results / largest;  // folded elements of each trip
  if (results > 1) each = std::max(each, kLeastPart / cost / around);
  const std::int64_t unit = out.dim + 1 == dims.size() ? kPartUnit
                            : each >= 2 * kRowUnit     ? kRowUnit
                                                       : 1;
  out.length = detail::rounded_up(each, unit);
  out.parts = detail::ceil_div(largest, out.length);
  if (out.parts < 2 || out.parts * 8 > size / results) return {};
  // Two parts of which one is short leave most of the work to one thread.
  if (out.parts == 2 && 2 * (largest - out.length) < out.length) return {};
  return out;
}

ReductionEmitter::ReductionEmitter(KernelContext& k)
    : k_(k), gen_(k.gen), kernel_(k.kernel()), value_at_(k.generator()), lanes_(vector_lanes(k)) {
  for (std::size_t d = 0; d < kernel_.shape.size(); ++d) {
    if (!kernel_.axes.contains(static_cast<std::int64_t>(d))) reduced_.push_back(kernel_.shape[d]);
  }
  for (const int e : kernel_.reductions) {
    slots_.push_back({e, false, dtype(e)});
    if (finds_place(eqn(e)))
      slots_.push_back({e, true, place_type(k.scope.jaxpr.aval(eqn(e).inputs[0]))});
  }
  dims_ = merged_dims(kernel_);
  for (std::size_t d = 0; d < dims_.size(); ++d) (dims_[d].folded ? folded_ : kept_).push_back(d);
  if (dims_.empty() || (along_rows() && widest_place())) return;
  const std::int64_t rows = !kernel_.columns.empty() ? rows_at_once()
                            : along_rows()           ? 1
                                                     : tile_rows();
  seams_ = find_seams(k, dims_.back().size, lanes_, kMostOfParts / static_cast<std::size_t>(rows));
  if (k.plan.emit.transpose_tiles && seams_.empty())
    turned_ = turned_operands(k.scope, kernel_, dims_);
}

void ReductionEmitter::run() {
  if (reduced_.num_elements() == 0) return;
  if (!kernel_.columns.empty()) return both_ways();
  if (!kernel_.partials.empty()) return parts();
  LoopBounds bounds = outer_bounds();
  if (!bounds.empty()) bounds[0] = {k_.begin, k_.end};
  if (along_rows()) return for_each_row(bounds);
  for_each_outer(bounds, [&] { columns(bounds.empty()); });
}

// Folds the parts' results.
void ReductionEmitter::end() {
  if (!kernel_.columns.empty()) return end_both_ways();
  split_ = FoldParts::of(kernel_, dims_);
  for_each_outer(outer_bounds(), [&] {
    if (along_rows()) {
      gen_.set_lanes(1, 1);
      Scalars acc;
      for (std::size_t r = 0; r < count(); ++r) acc.push_back(identity(r));
      acc = fold_partials(std::move(acc));
      if (split_->dim + 1 == dims_.size()) {  // what is left of the row beyond the last part
        acc = combine(acc, row_rest());
      }
      return finish(acc);
    }
    const std::size_t inner = dims_.size() - 1;
    const std::int64_t size = dims_[inner].size;
    vector_loop(k_, gen_.index(0), gen_.index(size), size, lanes_, [&](Scalar base) {
      index_[inner] = gen_.lane_index(base);
      finish(fold_partials(identities(1)));
    });
  });
}

std::vector<std::size_t> ReductionEmitter::outer_dims() const {
  std::vector<std::size_t> outer = kept_;
  if (!along_rows()) outer.pop_back();
  return outer;
}

LoopBounds ReductionEmitter::outer_bounds() {
  LoopBounds bounds;
  for (const std::size_t d : outer_dims())
    bounds.emplace_back(gen_.index(0), gen_.index(dims_[d].size));
  return bounds;
}

void ReductionEmitter::for_each_outer(const LoopBounds& bounds, const std::function<void()>& body) {
  for_each(outer_dims(), bounds, body);
}

void ReductionEmitter::for_each(const std::vector<std::size_t>& dims, const LoopBounds& bounds,
                                const std::function<void()>& body) {
  loop_nest(gen_, bounds, [&](const Index& index) {
    index_.assign(dims_.size(), gen_.index(0));
    for (std::size_t i = 0; i < index.size(); ++i) index_[dims[i]] = index[i];
    body();
  });
}

// ---- parts -------------------------------------------------------------------------------------
// The parts [k.begin, k.end), each into its place among the partial results.
void ReductionEmitter::parts() {
  split_ = FoldParts::of(kernel_, dims_);
  gen_.loop(k_.begin, k_.end, [&](Scalar part) {
    part_ = part;
    const std::int64_t size = dims_[split_->dim].size;
    const bool inner = along_rows() && split_->dim + 1 == dims_.size();
    const std::int64_t limit = inner ? whole_blocks() : size;
    from_ = gen_.mul(part, gen_.index(split_->length));
    to_ = gen_.min(gen_.add(from_, gen_.index(split_->length)), gen_.index(limit));
    if (along_rows()) for_each_row(outer_bounds());
    else for_each_outer(outer_bounds(), [&] { columns(false); });
  });
  part_ = {};
}

Scalar ReductionEmitter::partial_index(Scalar part) {
  return gen_.add(gen_.mul(part, gen_.index(reduced_.num_elements())),
                  value_at_.flat(reduced_point()));
}

void ReductionEmitter::store_partials(const Scalars& acc) {
  const Scalar at = partial_index(*part_);
  for (std::size_t r = 0; r < count(); ++r)
    gen_.store(value_at_.pointer(kernel_.partials[r]), slots_[r].dtype, at, acc[r]);
}

Scalars ReductionEmitter::fold_partials(Scalars acc) {
  return gen_.loop_carried(
      gen_.index(0), gen_.index(split_->parts), 1, std::move(acc),
      [&](Scalar part, const Scalars& carried) {
        const Scalar at = partial_index(part);
        Scalars next;
        for (std::size_t r = 0; r < count(); ++r)
          next.push_back(gen_.load(value_at_.pointer(kernel_.partials[r]), slots_[r].dtype, at));
        return combine(carried, next);
      });
}

Scalar ReductionEmitter::better(int e, Scalar x, Scalar best) {
  const bool largest = eqn(e).primitive == &argmax_p;
  if (!is_float(best.dtype())) return gen_.compare(largest ? Compare::gt : Compare::lt, x, best);
  const Scalar no_better = gen_.compare(largest ? Compare::le : Compare::ge, x, best);
  return gen_.and_(gen_.not_(no_better), gen_.compare(Compare::eq, best, best));
}

Scalar ReductionEmitter::combine_values(int e, Scalar a, Scalar b) {
  // All of these are of f32 or f64 here: folds of 16-bit floats are calls, or in f32.
  if (nans_apart_ && one_of(eqn(e), {&reduce_min_p, &reduce_max_p})) {
    const Compare replaces = eqn(e).primitive == &reduce_min_p ? Compare::lt : Compare::gt;
    return gen_.select(gen_.compare(replaces, a, b), a, b);
  }
  if (!finds_place(eqn(e))) return rule(e).combine(gen_, eqn(e).params, a, b);
  return eqn(e).primitive == &argmax_p ? gen_.max(a, b) : gen_.min(a, b);
}

Scalars ReductionEmitter::combine(const Scalars& a, const Scalars& b) {
  Scalars out;
  for (std::size_t s = 0; s < count(); ++s) {
    const int e = slots_[s].e;
    if (!finds_place(eqn(e))) {
      out.push_back(combine_values(e, a[s], b[s]));
      continue;
    }
    Scalar same = gen_.compare(Compare::eq, a[s], b[s]);
    if (is_float(slots_[s].dtype)) {
      same = gen_.or_(same, gen_.and_(gen_.compare(Compare::ne, a[s], a[s]),
                                      gen_.compare(Compare::ne, b[s], b[s])));
    }
    const Scalar earlier = gen_.and_(same, gen_.compare(Compare::lt, b[s + 1], a[s + 1]));
    const Scalar other = gen_.or_(better(e, b[s], a[s]), earlier);
    out.push_back(gen_.select(other, b[s], a[s]));
    out.push_back(gen_.select(other, b[s + 1], a[s + 1]));
    ++s;
  }
  return out;
}

// No place is better than the first: where it is the extreme itself, all elements are.
Scalar ReductionEmitter::identity(std::size_t slot) {
  const auto& [e, place, type] = slots_[slot];
  if (place) return gen_.constant_int(type, 0);
  if (!finds_place(eqn(e))) return rule(e).identity(gen_, eqn(e).params, type);
  const PrimitiveBase& fold = eqn(e).primitive == &argmax_p
                                  ? static_cast<const PrimitiveBase&>(reduce_max_p)
                                  : reduce_min_p;
  return std::get<Lowering::Reduction>(lowering_of(fold).form).identity(gen_, {}, type);
}

Scalars ReductionEmitter::take(const Scalars& all, std::size_t first) const {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count())};
}

Scalars ReductionEmitter::fold_lanes(const Scalars& acc) {
  Scalars out;
  for (std::size_t s = 0; s < count(); ++s) {
    const int e = slots_[s].e;
    const auto fold = [&](Scalar a, Scalar b) { return combine_values(e, a, b); };
    Scalars x;
    for (std::size_t i = s; i < acc.size(); i += count()) x.push_back(acc[i]);
    for (std::size_t width = x.size(); width > 1; width /= 2) {
      for (std::size_t c = 0; c < width / 2; ++c) x[c] = fold(x[c], x[c + width / 2]);
    }
    out.push_back(gen_.fold_lanes(x[0], fold));
    if (!finds_place(eqn(e))) continue;
    out.push_back(first_place(acc, s, out.back()));
    ++s;
  }
  return out;
}

Scalar ReductionEmitter::first_place(const Scalars& acc, std::size_t slot, Scalar extreme) {
  const DType type = slots_[slot + 1].dtype;
  const auto least = [&](Scalar a, Scalar b) { return gen_.min(a, b); };
  const Scalar none = gen_.constant_int(
      type, type == DType::i32 ? INT32_MAX : std::numeric_limits<std::int64_t>::max());
  Scalar place;
  for (std::size_t i = slot; i < acc.size(); i += count()) {
    Scalar here = gen_.compare(Compare::eq, acc[i], extreme);
    if (is_float(slots_[slot].dtype))
      here = gen_.or_(here, gen_.compare(Compare::ne, acc[i], acc[i]));
    const Scalar x = gen_.select(here, acc[i + 1], none);
    place = i == slot ? x : least(place, x);
  }
  return gen_.fold_lanes(place, least);
}

int ReductionEmitter::memory_of(std::size_t slot) const {
  const auto& [e, place, type] = slots_[slot];
  if (place || !finds_place(eqn(e))) return k_.value_of(eqn(e).outputs[0]);
  const auto found = kernel_.extremes.find(e);
  return found == kernel_.extremes.end() ? -1 : found->second;
}

Scalars ReductionEmitter::load_memory(Scalar at) {
  Scalars acc;
  for (std::size_t s = 0; s < count(); ++s) {
    const int v = memory_of(s);
    acc.push_back(
        gen_.convert(gen_.load(value_at_.pointer(v), k_.value(v).aval.dtype, at), slots_[s].dtype));
  }
  return acc;
}

void ReductionEmitter::store_memory(Scalar at, const Scalars& acc) {
  for (std::size_t s = 0; s < count(); ++s) {
    const int v = memory_of(s);
    const DType type = k_.value(v).aval.dtype;
    gen_.store(value_at_.pointer(v), type, at, gen_.convert(acc[s], type));
  }
}

// The element of the operand's shape at index_.
Point ReductionEmitter::operand_point() {
  if (in_stream_ >= 0)
    return across_rows(gen_, value_at_, kernel_.shape, index_[folded_[0]], in_stream_);
  if (!kernel_.linear) {
    Index all;
    std::size_t next = 0;
    for (const std::int64_t size : kernel_.shape)
      all.push_back(size == 1 ? gen_.index(0) : index_[next++]);
    return {kernel_.shape, all, std::nullopt};
  }
  Scalar flat = gen_.index(0);
  std::int64_t stride = 1;
  for (std::size_t d = dims_.size(); d-- > 0;) {
    flat = gen_.add(gen_.mul(index_[d], gen_.index(stride)), flat);
    stride = detail::wrapping_mul(stride, dims_[d].size);
  }
  return {kernel_.shape, std::nullopt, flat};
}

// The element of the reduced shape.
Point ReductionEmitter::reduced_point() {
  if (!kernel_.linear) {
    Index kept;
    std::size_t next = 0;
    for (const std::int64_t size : reduced_)
      kept.push_back(size == 1 ? gen_.index(0) : index_[kept_[next++]]);
    return {reduced_, kept, std::nullopt};
  }
  Scalar flat = gen_.index(0);
  std::int64_t stride = 1;
  for (std::size_t i = kept_.size(); i-- > 0;) {
    flat = gen_.add(gen_.mul(index_[kept_[i]], gen_.index(stride)), flat);
    stride = detail::wrapping_mul(stride, dims_[kept_[i]].size);
  }
  return {reduced_, std::nullopt, flat};
}

// Folds the element at index_ into the accumulators, storing what is to be stored on the way.
void ReductionEmitter::accumulate(Scalars& acc, std::size_t first, bool mask) {
  const Point at = operand_point();
  Scalars stored;
  for (const Var v : kernel_.roots) stored.push_back(value_at_(v, at));
  for (std::size_t s = 0; s < count(); ++s) {
    const int e = slots_[s].e;
    Scalar x = value_at_(eqn(e).inputs[0], at);
    if (mask) x = gen_.mask_lanes(x, identity(s));
    Scalar& to = acc[first + s];
    if (!finds_place(eqn(e))) {
      to = combine_values(e, to, x);
      if (nans_apart_ && is_extreme(s)) seen_[s].push_back(x);
      continue;
    }
    const Scalar replaces = better(e, x, to);
    to = gen_.select(replaces, x, to);
    ++s;
    acc[first + s] = gen_.select(replaces, gen_.convert(place(), slots_[s].dtype), acc[first + s]);
  }
  for (std::size_t i = 0; i < stored.size(); ++i)
    value_at_.store(k_.value_of(kernel_.roots[i]), at, stored[i]);
}

// What follows the fold: results and epilogue at the reduced index.
void ReductionEmitter::finish(const Scalars& acc) {
  if (part_) return store_partials(acc);
  Point at = reduced_point();
  std::vector<std::pair<Var, Scalar>> results;
  for (std::size_t s = 0; s < count(); ++s) {
    const Var v = eqn(slots_[s].e).outputs[0];
    if (slots_[s].place || !finds_place(eqn(slots_[s].e)))
      results.emplace_back(v, gen_.convert(acc[s], k_.scope.jaxpr.aval(v).dtype));
  }
  for (const auto& [v, x] : results) value_at_.define(v, at, x);
  // What follows may see them in one shape after the other, and know their place by its number alone.
  const auto reshapes = [&](int e) { return eqn(e).primitive == &reshape_p; };
  if (!at.flat && !kernel_.epilogue.empty() &&
      std::any_of(kernel_.members.begin(), kernel_.members.end(), reshapes)) {
    at.flat = value_at_.flat(at);
    for (const auto& [v, x] : results) value_at_.define(v, at, x);
  }
  if (!kernel_.epilogue.empty()) compute_in_order(k_, value_at_, at);
  Scalars epilogue;
  for (const Var v : kernel_.epilogue) epilogue.push_back(value_at_(v, at));
  for (const auto& [v, x] : results) {
    if (k_.value_of(v) >= 0) value_at_.store(k_.value_of(v), at, x);
  }
  for (std::size_t i = 0; i < epilogue.size(); ++i)
    value_at_.store(k_.value_of(kernel_.epilogue[i]), at, epilogue[i]);
}

Scalars ReductionEmitter::lanes_carried(
    Scalar begin, Scalar end, std::int64_t step, Scalars init,
    const std::function<Scalars(Scalar i, const Scalars& carried)>& body) {
  return k_.plan.emit.divide_ahead ? gen_.loop_ahead(begin, end, step, std::move(init), body)
                                   : gen_.loop_carried(begin, end, step, std::move(init), body);
}

// Loops over the folded dimensions dims[i...], carrying the accumulators; `innermost` does the last.
Scalars ReductionEmitter::fold_nest(const std::vector<std::size_t>& dims, std::size_t i,
                                    Scalars acc, const std::function<Scalars(Scalars)>& innermost) {
  if (i == dims.size()) return innermost(std::move(acc));
  return gen_.loop_carried(lower(dims[i]), upper(dims[i]), 1, std::move(acc),
                           [&](Scalar n, const Scalars& carried) {
                             index_[dims[i]] = n;
                             return fold_nest(dims, i + 1, carried, innermost);
                           });
}

// A vector of identities: the accumulators have to be vectors from the start.
Scalars ReductionEmitter::identities(int copies) {
  Scalars acc;
  for (int c = 0; c < copies; ++c) {
    for (std::size_t r = 0; r < count(); ++r) acc.push_back(gen_.splat(identity(r)));
  }
  return acc;
}

void emit_reduction(KernelContext& k) { ReductionEmitter(k).run(); }
void emit_reduction_end(KernelContext& k) { ReductionEmitter(k).end(); }

std::int64_t reduction_parts(const Kernel& kernel, std::int64_t cost) {
  if (!kernel.columns.empty()) return parts_both_ways(kernel, cost);
  const auto parts = FoldParts::of(kernel, merged_dims(kernel), cost);
  return parts ? parts->parts : 1;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
