// Reductions, with what is fused before and after them.
//
// Adjacent dimensions of one kind (kept or folded) count as one where the kernel is linear. If the
// last dimension is folded, lanes run along it: several vector accumulators, combined in a fixed
// tree at the end of each row. If it is kept, lanes run along the results: each lane folds its own
// column, a tile of columns at a time. Where there are too few results to share out, the largest
// folded dimension is cut into parts that are folded apart, and their results in order. Either way
// the order of combination depends on the shape only.
#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/emit.hpp"
#include "compiler/forms.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMaxParts = 64;
constexpr std::int64_t kPartUnit = 1024;  // of the last dimension: whole blocks of any lane count
constexpr int kAccumulators = 4;
constexpr int kColumnVectors = 8;  // narrow arrays: all columns in registers
constexpr std::int64_t kColumnTile =
    4096;  // wide ones: this many partial results stay in the cache

struct FoldDim {
  std::int64_t size;
  bool folded;
};

std::vector<FoldDim> merged_dims(const Kernel& k) {
  std::vector<FoldDim> dims;
  for (std::size_t d = 0; d < k.shape.size(); ++d) {
    const bool folded = k.axes.contains(static_cast<std::int64_t>(d));
    if (k.shape[d] == 1 && k.linear) continue;
    if (k.linear && !dims.empty() && dims.back().folded == folded) dims.back().size *= k.shape[d];
    else dims.push_back({k.shape[d], folded});
  }
  return dims;
}

/// How the folded space is cut into parts.
struct FoldParts {
  std::size_t dim = 0;  ///< of the merged dimensions
  std::int64_t parts = 1, length = 0;

  /// Parts of at least kParallelCost, at most kMaxParts.
  static std::optional<FoldParts> of(const Kernel& k, const std::vector<FoldDim>& dims,
                                     std::int64_t cost) {
    const std::int64_t size = k.shape.num_elements();
    const std::int64_t wanted = std::min(kMaxParts, size * cost / kParallelCost);
    if (wanted < 2) return {};
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
    const std::int64_t unit = out.dim + 1 == dims.size() ? kPartUnit : 1;
    out.length = ((largest + wanted - 1) / wanted + unit - 1) / unit * unit;
    out.parts = (largest + out.length - 1) / out.length;
    if (out.parts < 2 || out.parts * results * 8 > size) return {};
    return out;
  }
  /// Of a kernel that has memory for them.
  static FoldParts of(const Kernel& k, const std::vector<FoldDim>& dims) {
    return *of(k, dims, k.part_cost);
  }
};

class ReductionEmitter {
 public:
  explicit ReductionEmitter(KernelContext& k)
      : k_(k),
        gen_(k.gen),
        kernel_(k.kernel()),
        value_at_(gen_, k.plan, k.scope, kernel_, k.producer),
        lanes_(vector_lanes(k)) {
    for (std::size_t d = 0; d < kernel_.shape.size(); ++d) {
      if (!kernel_.axes.contains(static_cast<std::int64_t>(d)))
        reduced_.push_back(kernel_.shape[d]);
    }
    dims_ = merged_dims(kernel_);
    for (std::size_t d = 0; d < dims_.size(); ++d) (dims_[d].folded ? folded_ : kept_).push_back(d);
  }

  void run() {
    if (reduced_.num_elements() == 0) return;
    if (!kernel_.partials.empty()) return parts();
    std::vector<std::pair<Scalar, Scalar>> bounds = outer_bounds();
    if (!bounds.empty()) bounds[0] = {k_.begin, k_.end};
    const std::vector<std::size_t> outer = outer_dims();
    const bool blocks = k_.plan.emit.row_blocks && along_rows() && short_rows(outer);
    if (blocks) bounds.pop_back();
    for_each_outer(bounds, [&] {
      if (blocks) row_blocks(outer.back(), bounds.empty());
      else if (along_rows()) row();
      else columns(outer.empty());
    });
  }

  // Folds the parts' results.
  void end() {
    split_ = FoldParts::of(kernel_, dims_);
    for_each_outer(outer_bounds(), [&] {
      if (along_rows()) {
        gen_.set_lanes(1, 1);
        Scalars acc;
        for (std::size_t r = 0; r < count(); ++r) acc.push_back(identity(r));
        acc = fold_partials(std::move(acc));
        if (split_->dim + 1 == dims_.size()) {  // what is left of the row beyond the last part
          const Scalars rest = row_rest();
          for (std::size_t r = 0; r < count(); ++r) acc[r] = combine(r, acc[r], rest[r]);
        }
        return finish(acc);
      }
      const std::size_t inner = dims_.size() - 1;
      const std::int64_t size = dims_[inner].size;
      vector_loop(gen_, gen_.index(0), gen_.index(size), size, lanes_, [&](Scalar base) {
        index_[inner] = gen_.lane_index(base);
        finish(fold_partials(identities(1)));
      });
    });
  }

 private:
  using Dim = FoldDim;
  bool along_rows() const { return dims_.empty() || dims_.back().folded; }
  std::vector<std::size_t> outer_dims() const {
    std::vector<std::size_t> outer = kept_;
    if (!along_rows()) outer.pop_back();
    return outer;
  }
  std::vector<std::pair<Scalar, Scalar>> outer_bounds() {
    std::vector<std::pair<Scalar, Scalar>> bounds;
    for (const std::size_t d : outer_dims())
      bounds.emplace_back(gen_.index(0), gen_.index(dims_[d].size));
    return bounds;
  }
  void for_each_outer(const std::vector<std::pair<Scalar, Scalar>>& bounds,
                      const std::function<void()>& body) {
    const std::vector<std::size_t> outer = outer_dims();
    loop_nest(gen_, bounds, [&](const Index& index) {
      index_.assign(dims_.size(), gen_.index(0));
      for (std::size_t i = 0; i < index.size(); ++i) index_[outer[i]] = index[i];
      body();
    });
  }

  // ---- parts -------------------------------------------------------------------------------------
  // The parts [k.begin, k.end), each into its place among the partial results.
  void parts() {
    split_ = FoldParts::of(kernel_, dims_);
    gen_.loop(k_.begin, k_.end, [&](Scalar part) {
      part_ = part;
      const std::int64_t size = dims_[split_->dim].size;
      const bool inner = along_rows() && split_->dim + 1 == dims_.size();
      const std::int64_t limit = inner ? whole_blocks() : size;
      from_ = gen_.mul(part, gen_.index(split_->length));
      to_ = gen_.min(gen_.add(from_, gen_.index(split_->length)), gen_.index(limit));
      for_each_outer(outer_bounds(), [&] {
        if (along_rows()) row();
        else columns(false);
      });
    });
    part_ = {};
  }
  bool is_split(std::size_t d) const { return part_.has_value() && split_->dim == d; }
  Scalar lower(std::size_t d) { return is_split(d) ? from_ : gen_.index(0); }
  Scalar upper(std::size_t d) { return is_split(d) ? to_ : gen_.index(dims_[d].size); }

  Scalar partial_index(Scalar part) {
    return gen_.add(gen_.mul(part, gen_.index(reduced_.num_elements())),
                    value_at_.flat(reduced_point()));
  }
  void store_partials(const Scalars& acc) {
    const Scalar at = partial_index(*part_);
    for (std::size_t r = 0; r < count(); ++r)
      gen_.store(value_at_.pointer(kernel_.partials[r]), dtype(kernel_.reductions[r]), at, acc[r]);
  }
  Scalars fold_partials(Scalars acc) {
    return gen_.loop_carried(
        gen_.index(0), gen_.index(split_->parts), 1, std::move(acc),
        [&](Scalar part, const Scalars& carried) {
          const Scalar at = partial_index(part);
          Scalars next;
          for (std::size_t r = 0; r < count(); ++r) {
            next.push_back(combine(r, carried[r],
                                   gen_.load(value_at_.pointer(kernel_.partials[r]),
                                             dtype(kernel_.reductions[r]), at)));
          }
          return next;
        });
  }
  const Eqn& eqn(int e) const { return k_.eqn(e); }
  const Lowering::Reduction& rule(int e) const {
    return std::get<Lowering::Reduction>(lowering_of(*eqn(e).primitive).form);
  }
  DType dtype(int e) const { return k_.scope.jaxpr.aval(eqn(e).inputs[0]).dtype; }
  std::size_t count() const { return kernel_.reductions.size(); }

  Scalar combine(std::size_t r, Scalar a, Scalar b) {
    const int e = kernel_.reductions[r];
    return rule(e).combine(gen_, eqn(e).params, a, b);
  }
  Scalar identity(std::size_t r) {
    const int e = kernel_.reductions[r];
    return rule(e).identity(gen_, eqn(e).params, dtype(e));
  }

  // The element of the operand's shape at index_.
  Point operand_point() {
    if (!kernel_.linear) return {kernel_.shape, index_, std::nullopt};
    Scalar flat = gen_.index(0);
    std::int64_t stride = 1;
    for (std::size_t d = dims_.size(); d-- > 0;) {
      flat = gen_.add(gen_.mul(index_[d], gen_.index(stride)), flat);
      stride *= dims_[d].size;
    }
    return {kernel_.shape, std::nullopt, flat};
  }
  // The element of the reduced shape.
  Point reduced_point() {
    if (!kernel_.linear) {
      Index kept;
      for (const std::size_t d : kept_) kept.push_back(index_[d]);
      return {reduced_, kept, std::nullopt};
    }
    Scalar flat = gen_.index(0);
    std::int64_t stride = 1;
    for (std::size_t i = kept_.size(); i-- > 0;) {
      flat = gen_.add(gen_.mul(index_[kept_[i]], gen_.index(stride)), flat);
      stride *= dims_[kept_[i]].size;
    }
    return {reduced_, std::nullopt, flat};
  }

  // Folds the element at index_ into the accumulators, storing what is to be stored on the way.
  void accumulate(Scalars& acc, std::size_t first, bool mask) {
    const Point at = operand_point();
    Scalars stored;
    for (const Var v : kernel_.roots) stored.push_back(value_at_(v, at));
    for (std::size_t r = 0; r < count(); ++r) {
      Scalar x = value_at_(eqn(kernel_.reductions[r]).inputs[0], at);
      if (mask) x = gen_.mask_lanes(x, identity(r));
      acc[first + r] = combine(r, acc[first + r], x);
    }
    for (std::size_t i = 0; i < stored.size(); ++i)
      value_at_.store(k_.value_of(kernel_.roots[i]), at, stored[i]);
  }

  // What follows the fold: results and epilogue at the reduced index.
  void finish(const Scalars& acc) {
    if (part_) return store_partials(acc);
    const Point at = reduced_point();
    for (std::size_t r = 0; r < count(); ++r)
      value_at_.define(eqn(kernel_.reductions[r]).outputs[0], at, acc[r]);
    Scalars epilogue;
    for (const Var v : kernel_.epilogue) epilogue.push_back(value_at_(v, at));
    for (std::size_t r = 0; r < count(); ++r) {
      const int v = k_.value_of(eqn(kernel_.reductions[r]).outputs[0]);
      if (v >= 0) value_at_.store(v, at, acc[r]);
    }
    for (std::size_t i = 0; i < epilogue.size(); ++i)
      value_at_.store(k_.value_of(kernel_.epilogue[i]), at, epilogue[i]);
  }

  // Loops over the folded dimensions dims[i...], carrying the accumulators; `innermost` does the last.
  Scalars fold_nest(const std::vector<std::size_t>& dims, std::size_t i, Scalars acc,
                    const std::function<Scalars(Scalars)>& innermost) {
    if (i == dims.size()) return innermost(std::move(acc));
    return gen_.loop_carried(lower(dims[i]), upper(dims[i]), 1, std::move(acc),
                             [&](Scalar n, const Scalars& carried) {
                               index_[dims[i]] = n;
                               return fold_nest(dims, i + 1, carried, innermost);
                             });
  }

  // A vector of identities: the accumulators have to be vectors from the start.
  Scalars identities(int copies) {
    Scalars acc;
    for (int c = 0; c < copies; ++c) {
      for (std::size_t r = 0; r < count(); ++r) acc.push_back(gen_.splat(identity(r)));
    }
    return acc;
  }

  // Rows of a few vectors: folding the lanes of each would cost more than the sums.
  bool short_rows(const std::vector<std::size_t>& outer) const {
    return lanes_ > 1 && folded_.size() == 1 && !outer.empty() && outer.back() + 1 == folded_[0] &&
           dims_[folded_[0]].size > 0 && dims_[folded_[0]].size <= 2 * lanes_ &&
           dims_[outer.back()].size >= lanes_ && kernel_.members.size() <= 8 && count() <= 2;
  }

  // As many rows as there are lanes at a time; their lanes are folded together.
  void row_blocks(std::size_t rows, bool chunked) {
    const std::size_t inner = folded_[0];
    const std::int64_t size = dims_[rows].size, whole_rows = size / lanes_ * lanes_;
    const std::int64_t columns = dims_[inner].size, rest = columns % lanes_, whole = columns - rest;
    const Scalar begin = chunked ? k_.begin : gen_.index(0),
                 end = chunked ? k_.end : gen_.index(size);
    const Scalar stop = gen_.min(end, gen_.index(whole_rows));
    gen_.loop_carried(begin, stop, lanes_, {}, [&](Scalar base, const Scalars&) {
      prefetch_rows(base, columns);
      std::vector<std::vector<Scalar>> partial(count());
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
        for (std::size_t k = 0; k < count(); ++k) partial[k].push_back(acc[k]);
      }
      gen_.set_lanes(lanes_, lanes_);
      Scalars out;
      for (std::size_t k = 0; k < count(); ++k) {
        out.push_back(
            gen_.fold_rows(partial[k], [&](Scalar a, Scalar b) { return combine(k, a, b); }));
      }
      index_[rows] = gen_.lane_index(base);
      finish(out);
      gen_.set_lanes(1, 1);
      return Scalars{};
    });
    // The last rows one by one.
    gen_.loop(gen_.max(begin, gen_.index(whole_rows)), end, [&](Scalar r) {
      index_[rows] = r;
      row();
    });
  }

  // Overlapping loads of short rows keep the processor from seeing the stream: twice as slow.
  void prefetch_rows(Scalar base, std::int64_t columns) {
    constexpr std::int64_t kAhead = 2048, kLine = 64;  // bytes
    if (!kernel_.linear || dims_.size() != 2) return;
    for (const int v : k_.step.reads) {
      const Value& operand = k_.value(v);
      if (operand.aval.size() != kernel_.shape.num_elements() || operand.bytes() < 1 << 20)
        continue;
      const DType dtype = operand.aval.dtype;
      const auto bytes = static_cast<std::int64_t>(size_of(dtype));
      const Scalar first = gen_.mul(base, gen_.index(columns));
      for (std::int64_t at = 0; at < columns * lanes_ * bytes; at += kLine) {
        gen_.prefetch(value_at_.pointer(v), dtype,
                      gen_.add(first, gen_.index((kAhead + at) / bytes)));
      }
    }
  }

  void row() {
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
      if (is_split(inner)) return lanes_loop(inner, from_, to_, copies(), std::move(a));
      return rest_of_row(lanes_loop(inner, gen_.index(0), blocks, copies(), std::move(a)));
    })));
  }

  // Accumulators of a row, and how much of it they share out evenly.
  int copies() const { return dims_.back().size >= kAccumulators * lanes_ ? kAccumulators : 1; }
  std::int64_t whole_blocks() const {
    const std::int64_t step = lanes_ * copies();
    return dims_.back().size / step * step;
  }
  // The last vectors of a row, into the first accumulators.
  Scalars rest_of_row(Scalars a) {
    const std::size_t inner = dims_.size() - 1;
    const std::int64_t size = dims_[inner].size, rest = size % lanes_, whole = size - rest;
    a = lanes_loop(inner, gen_.index(whole_blocks()), gen_.index(whole), 1, std::move(a));
    if (rest > 0) {
      gen_.set_lanes(lanes_, static_cast<int>(rest));
      index_[inner] = gen_.lane_index(gen_.index(whole));
      accumulate(a, 0, true);
      gen_.set_lanes(lanes_, lanes_);
    }
    return a;
  }
  Scalars row_rest() {
    gen_.set_lanes(lanes_, lanes_);
    return across(rest_of_row(identities(copies())));
  }

  // Accumulators, then lanes, folded together.
  Scalars across(Scalars acc) {
    Scalars out;
    for (std::size_t r = 0; r < count(); ++r) {
      for (int width = copies(); width > 1; width /= 2) {
        for (int c = 0; c < width / 2; ++c) {
          Scalar& a = acc[static_cast<std::size_t>(c) * count() + r];
          a = combine(r, a, acc[static_cast<std::size_t>(c + width / 2) * count() + r]);
        }
      }
      out.push_back(gen_.fold_lanes(acc[r], [&](Scalar a, Scalar b) { return combine(r, a, b); }));
    }
    gen_.set_lanes(1, 1);
    return out;
  }

  // for (i = from; i < to; i += copies * lanes) acc[c] = combine(acc[c], x[i + c * lanes ...])
  Scalars lanes_loop(std::size_t inner, Scalar from, Scalar to, int copies, Scalars acc) {
    return gen_.loop_carried(
        from, to, lanes_ * copies, std::move(acc), [&](Scalar base, const Scalars& carried) {
          Scalars a = carried;
          for (int c = 0; c < copies; ++c) {
            index_[inner] = gen_.lane_index(gen_.add(base, gen_.index(c * lanes_)));
            accumulate(a, static_cast<std::size_t>(c) * count(), false);
          }
          return a;
        });
  }

  void columns(bool chunked) {
    const std::size_t inner = dims_.size() - 1;
    const std::int64_t size = dims_[inner].size;
    const Scalar begin = chunked ? k_.begin : gen_.index(0),
                 end = chunked ? k_.end : gen_.index(size);
    const std::int64_t widest = (part_ ? 2 : 1) * kColumnVectors * lanes_;
    if (folded_.size() == 1 && size > widest && dims_[folded_[0]].size > 1) {
      if (part_) return part_of_column_tiles(inner);
      if (have_memory()) return column_tiles(inner, begin, end);
    }
    std::int64_t first = 0, last = 0;
    const bool all = CodeGen::known_constant(begin, first) && CodeGen::known_constant(end, last);
    if (all && size <= widest && kernel_.members.size() <= 8) return narrow_columns(inner);
    vector_loop(gen_, begin, end, size, lanes_, [&](Scalar base) {
      const int active = gen_.active();
      index_[inner] = gen_.lane_index(base);
      Scalars acc = fold_nest(folded_, 0, identities(1), [&](Scalars a) {
        accumulate(a, 0, false);
        return a;
      });
      gen_.set_lanes(lanes_, active);
      finish(acc);
    });
  }

  // All columns in registers: one pass over the rows.
  void narrow_columns(std::size_t inner) {
    const std::int64_t size = dims_[inner].size, vectors = (size + lanes_ - 1) / lanes_;
    const auto at_vector = [&](std::int64_t v) {
      gen_.set_lanes(lanes_, static_cast<int>(std::min<std::int64_t>(lanes_, size - v * lanes_)));
      index_[inner] = gen_.lane_index(gen_.index(v * lanes_));
    };
    gen_.set_lanes(lanes_, lanes_);
    const auto add_row = [&](Scalars a) {
      for (std::int64_t v = 0; v < vectors; ++v) {
        at_vector(v);
        accumulate(a, static_cast<std::size_t>(v) * count(), false);
      }
      gen_.set_lanes(lanes_, lanes_);
      return a;
    };
    // Dimensions of one element are not folded at all.
    const Scalars acc =
        is_stream(inner) ? gen_.loop_carried(stream_end(inner), upper(folded_[0]), 1, stream(inner),
                                             [&](Scalar row, const Scalars& carried) {
                                               index_[folded_[0]] = row;
                                               return add_row(carried);
                                             })
                         : fold_nest(folded_, 0, identities(static_cast<int>(vectors)), add_row);
    for (std::int64_t v = 0; v < vectors; ++v) {
      at_vector(v);
      finish({acc.begin() + v * static_cast<std::int64_t>(count()),
              acc.begin() + (v + 1) * static_cast<std::int64_t>(count())});
    }
    gen_.set_lanes(1, 1);
  }

  // Rows that end within a vector are read as one stream of whole vectors: after `period_rows` rows,
  // lanes stand for the same columns again.
  std::int64_t stream_vectors(std::size_t inner) const {
    const std::int64_t size = dims_[inner].size, period = size / std::gcd(size, lanes_);
    return period >= kAccumulators ? period : (kAccumulators + period - 1) / period * period;
  }
  std::int64_t period_rows(std::size_t inner) const {
    return stream_vectors(inner) * lanes_ / dims_[inner].size;
  }
  bool is_stream(std::size_t inner) const {
    return lanes_ > 1 && kernel_.linear && folded_.size() == 1 && folded_[0] + 1 == inner &&
           static_cast<std::int64_t>(count()) * stream_vectors(inner) <= kColumnVectors &&
           (is_split(folded_[0]) ? split_->length : dims_[folded_[0]].size) >=
               4 * period_rows(inner);
  }
  Scalar stream_end(std::size_t inner) {
    const Scalar rows = gen_.index(period_rows(inner)), from = lower(folded_[0]);
    return gen_.add(from, gen_.mul(gen_.div(gen_.sub(upper(folded_[0]), from), rows), rows));
  }
  // The rows up to stream_end: first each lane by itself, then the rows of the period in order.
  Scalars stream(std::size_t inner) {
    const std::size_t down = folded_[0];
    const std::int64_t size = dims_[inner].size, n = stream_vectors(inner),
                       rows = period_rows(inner);
    const Scalars sums =
        gen_.loop_carried(lower(down), stream_end(inner), rows, identities(static_cast<int>(n)),
                          [&](Scalar row, const Scalars& carried) {
                            Scalars a = carried;
                            index_[down] = row;
                            for (std::int64_t v = 0; v < n; ++v) {
                              index_[inner] = gen_.lane_index(gen_.index(v * lanes_));
                              accumulate(a, static_cast<std::size_t>(v) * count(), false);
                            }
                            return a;
                          });
    Scalars out;
    for (std::int64_t first = 0; first < size; first += lanes_) {
      for (std::size_t k = 0; k < count(); ++k) {
        const auto part = [&](std::int64_t row) {  // the columns from `first` on
          const std::int64_t at = row * size + first, v = at / lanes_;
          const auto sum = [&](std::int64_t i) {
            return sums[static_cast<std::size_t>(std::min(i, n - 1)) * count() + k];
          };
          return gen_.slide(sum(v), sum(v + 1), static_cast<int>(at % lanes_));
        };
        Scalar x = part(0);
        for (std::int64_t row = 1; row < rows; ++row) x = combine(k, x, part(row));
        out.push_back(x);
      }
    }
    return out;
  }

  // The plan gives every reduction over leading dimensions memory for its partial results.
  bool have_memory() const {
    return std::all_of(kernel_.reductions.begin(), kernel_.reductions.end(),
                       [&](int e) { return k_.value_of(eqn(e).outputs[0]) >= 0; });
  }

  std::int64_t tile_rows() const {
    return kernel_.members.size() <= 4 ? 8 : kernel_.members.size() <= 12 ? 4 : 1;
  }

  // The same for a part of the rows, whose partial results have memory of their own.
  void part_of_column_tiles(std::size_t inner) {
    const std::size_t down = folded_[0];
    const std::int64_t size = dims_[inner].size, block = tile_rows();
    const auto pass = [&](Scalar first, Scalar stop, Scalar row, std::int64_t n, bool fresh) {
      vector_loop(gen_, first, stop, size, lanes_, [&](Scalar base) {
        index_[inner] = gen_.lane_index(base);
        Scalars acc;
        if (fresh) acc = identities(1);
        for (std::size_t r = 0; !fresh && r < count(); ++r) {
          acc.push_back(gen_.load(value_at_.pointer(kernel_.partials[r]),
                                  dtype(kernel_.reductions[r]), partial_index(*part_)));
        }
        for (std::int64_t r = 0; r < n; ++r) {
          index_[down] = gen_.add(row, gen_.index(r));
          accumulate(acc, 0, false);
        }
        store_partials(acc);
      });
    };
    const auto passes = [&](Scalar first, Scalar stop, Scalar from, Scalar to, std::int64_t n) {
      gen_.loop_carried(from, to, n, {}, [&](Scalar row, const Scalars&) {
        gen_.region([&] { pass(first, stop, row, n, false); });
        return Scalars{};
      });
    };
    gen_.loop_carried(
        gen_.index(0), gen_.index(size), kColumnTile, {}, [&](Scalar first, const Scalars&) {
          const Scalar stop = gen_.min(gen_.index(size), gen_.add(first, gen_.index(kColumnTile)));
          gen_.region([&] { pass(first, stop, from_, 1, true); });
          const Scalar second = gen_.add(from_, gen_.index(1)), n = gen_.index(block);
          const Scalar whole = gen_.add(second, gen_.mul(gen_.div(gen_.sub(to_, second), n), n));
          passes(first, stop, second, whole, block);
          passes(first, stop, whole, to_, 1);
          return Scalars{};
        });
  }

  // Wide arrays: several rows per pass over a tile of columns, whose partial results lie in the
  // results' memory. Walking down single columns would touch a page per row.
  void column_tiles(std::size_t inner, Scalar begin, Scalar end) {
    const std::size_t down = folded_[0];
    const std::int64_t rows = dims_[down].size, size = dims_[inner].size;
    const std::int64_t block = tile_rows();
    const std::int64_t last = (rows - 1) / block * block;  // the first row of the last pass
    const auto pass = [&](Scalar first, Scalar stop, Scalar row, std::int64_t n, bool fresh,
                          bool final) {
      vector_loop(gen_, first, stop, size, lanes_, [&](Scalar base) {
        index_[inner] = gen_.lane_index(base);
        const Point at = reduced_point();
        Scalars acc;
        if (fresh) acc = identities(1);
        for (std::size_t r = 0; !fresh && r < count(); ++r) {
          const int v = k_.value_of(eqn(kernel_.reductions[r]).outputs[0]);
          acc.push_back(
              gen_.load(value_at_.pointer(v), k_.value(v).aval.dtype, value_at_.flat(at)));
        }
        for (std::int64_t r = 0; r < n; ++r) {
          index_[down] = gen_.add(row, gen_.index(r));
          accumulate(acc, 0, false);
        }
        if (final) return finish(acc);
        for (std::size_t r = 0; r < count(); ++r)
          value_at_.store(k_.value_of(eqn(kernel_.reductions[r]).outputs[0]), at, acc[r]);
      });
    };
    gen_.loop_carried(begin, end, kColumnTile, {}, [&](Scalar first, const Scalars&) {
      const Scalar stop = gen_.min(end, gen_.add(first, gen_.index(kColumnTile)));
      if (last == 0) {
        gen_.region([&] { pass(first, stop, gen_.index(0), rows, true, true); });
        return Scalars{};
      }
      gen_.region([&] { pass(first, stop, gen_.index(0), block, true, false); });
      gen_.loop_carried(gen_.index(block), gen_.index(last), block, {},
                        [&](Scalar row, const Scalars&) {
                          gen_.region([&] { pass(first, stop, row, block, false, false); });
                          return Scalars{};
                        });
      gen_.region([&] { pass(first, stop, gen_.index(last), rows - last, false, true); });
      return Scalars{};
    });
  }

  KernelContext& k_;
  CodeGen& gen_;
  const Kernel& kernel_;
  Generator value_at_;
  int lanes_;
  Shape reduced_;
  std::vector<Dim> dims_;
  std::vector<std::size_t> folded_, kept_;
  Index index_;
  std::optional<FoldParts> split_;
  std::optional<Scalar> part_;  // at hand
  Scalar from_, to_;            // its share of the dimension that is cut
};

}  // namespace

void emit_reduction(KernelContext& k) { ReductionEmitter(k).run(); }
void emit_reduction_end(KernelContext& k) { ReductionEmitter(k).end(); }

std::int64_t reduction_parts(const Kernel& kernel, std::int64_t cost) {
  const auto parts = FoldParts::of(kernel, merged_dims(kernel), cost);
  return parts ? parts->parts : 1;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
