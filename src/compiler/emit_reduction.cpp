// Reductions, with what is fused before and after them.
//
// Adjacent dimensions of one kind (kept or folded) count as one where the kernel is linear. If the
// last dimension is folded, lanes run along it: several vector accumulators, combined in a fixed
// tree at the end of each row. If it is kept, lanes run along the results: each lane folds its own
// column, a tile of columns at a time. Either way the order of combination depends on the shape
// only.
#include <algorithm>

#include "compiler/emit.hpp"
#include "compiler/forms.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr int kAccumulators = 4;
constexpr int kColumnVectors = 8;  // narrow arrays: all columns in registers
constexpr std::int64_t kColumnTile =
    4096;  // wide ones: this many partial results stay in the cache

class ReductionEmitter {
 public:
  explicit ReductionEmitter(KernelContext& k)
      : k_(k),
        gen_(k.gen),
        kernel_(k.kernel()),
        value_at_(gen_, k.plan, k.scope, kernel_, k.producer),
        lanes_(vector_lanes(k)) {
    for (std::size_t d = 0; d < kernel_.shape.size(); ++d) {
      const bool folded = kernel_.axes.contains(static_cast<std::int64_t>(d));
      if (!folded) reduced_.push_back(kernel_.shape[d]);
      if (kernel_.shape[d] == 1 && kernel_.linear) continue;
      if (kernel_.linear && !dims_.empty() && dims_.back().folded == folded)
        dims_.back().size *= kernel_.shape[d];
      else dims_.push_back({kernel_.shape[d], folded});
    }
    for (std::size_t d = 0; d < dims_.size(); ++d) (dims_[d].folded ? folded_ : kept_).push_back(d);
  }

  void run() {
    if (reduced_.num_elements() == 0) return;
    const bool along_rows = dims_.empty() || dims_.back().folded;
    std::vector<std::size_t> outer = kept_;
    if (!along_rows) outer.pop_back();
    std::vector<std::pair<Scalar, Scalar>> bounds;
    for (const std::size_t d : outer) bounds.emplace_back(gen_.index(0), gen_.index(dims_[d].size));
    if (!bounds.empty()) bounds[0] = {k_.begin, k_.end};
    const bool blocks = along_rows && short_rows(outer);
    if (blocks) bounds.pop_back();
    loop_nest(gen_, bounds, [&](const Index& index) {
      index_.assign(dims_.size(), gen_.index(0));
      for (std::size_t i = 0; i < index.size(); ++i) index_[outer[i]] = index[i];
      if (blocks) row_blocks(outer.back(), bounds.empty());
      else if (along_rows) row();
      else columns(outer.empty());
    });
  }

 private:
  struct Dim {
    std::int64_t size;
    bool folded;
  };
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
    return gen_.loop_carried(gen_.index(0), gen_.index(dims_[dims[i]].size), 1, std::move(acc),
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

  void row() {
    if (dims_.empty()) {  // one element
      gen_.set_lanes(1, 1);
      Scalars acc;
      for (std::size_t r = 0; r < count(); ++r) acc.push_back(identity(r));
      if (kernel_.shape.num_elements() > 0) accumulate(acc, 0, false);
      return finish(acc);
    }
    const std::size_t inner = dims_.size() - 1;
    const std::int64_t size = dims_[inner].size, rest = size % lanes_, whole = size - rest;
    const int copies = whole >= kAccumulators * lanes_ ? kAccumulators : 1;
    std::vector<std::size_t> around = folded_;
    around.pop_back();
    gen_.set_lanes(lanes_, lanes_);
    Scalars acc = fold_nest(around, 0, identities(copies), [&](Scalars a) {
      const std::int64_t step = lanes_ * copies, blocks = whole / step * step;
      a = lanes_loop(inner, 0, blocks, copies, std::move(a));
      a = lanes_loop(inner, blocks, whole, 1, std::move(a));
      if (rest > 0) {
        gen_.set_lanes(lanes_, static_cast<int>(rest));
        index_[inner] = gen_.lane_index(gen_.index(whole));
        accumulate(a, 0, true);
        gen_.set_lanes(lanes_, lanes_);
      }
      return a;
    });
    Scalars out;
    for (std::size_t r = 0; r < count(); ++r) {
      for (int width = copies; width > 1; width /= 2) {
        for (int c = 0; c < width / 2; ++c) {
          Scalar& a = acc[static_cast<std::size_t>(c) * count() + r];
          a = combine(r, a, acc[static_cast<std::size_t>(c + width / 2) * count() + r]);
        }
      }
      out.push_back(gen_.fold_lanes(acc[r], [&](Scalar a, Scalar b) { return combine(r, a, b); }));
    }
    gen_.set_lanes(1, 1);
    finish(out);
  }

  // for (i = from; i < to; i += copies * lanes) acc[c] = combine(acc[c], x[i + c * lanes ...])
  Scalars lanes_loop(std::size_t inner, std::int64_t from, std::int64_t to, int copies,
                     Scalars acc) {
    return gen_.loop_carried(gen_.index(from), gen_.index(to), lanes_ * copies, std::move(acc),
                             [&](Scalar base, const Scalars& carried) {
                               Scalars a = carried;
                               for (int c = 0; c < copies; ++c) {
                                 index_[inner] =
                                     gen_.lane_index(gen_.add(base, gen_.index(c * lanes_)));
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
    if (folded_.size() == 1 && size > kColumnVectors * lanes_ && dims_[folded_[0]].size > 1 &&
        have_memory()) {
      return column_tiles(inner, begin, end);
    }
    std::int64_t first = 0, last = 0;
    const bool all = CodeGen::known_constant(begin, first) && CodeGen::known_constant(end, last);
    if (all && size <= kColumnVectors * lanes_ && kernel_.members.size() <= 8)
      return narrow_columns(inner);
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
    const Scalars acc =
        fold_nest(folded_, 0, identities(static_cast<int>(vectors)), [&](Scalars a) {
          for (std::int64_t v = 0; v < vectors; ++v) {
            at_vector(v);
            accumulate(a, static_cast<std::size_t>(v) * count(), false);
          }
          gen_.set_lanes(lanes_, lanes_);
          return a;
        });
    for (std::int64_t v = 0; v < vectors; ++v) {
      at_vector(v);
      finish({acc.begin() + v * static_cast<std::int64_t>(count()),
              acc.begin() + (v + 1) * static_cast<std::int64_t>(count())});
    }
    gen_.set_lanes(1, 1);
  }

  // The plan gives every reduction over leading dimensions memory for its partial results.
  bool have_memory() const {
    return std::all_of(kernel_.reductions.begin(), kernel_.reductions.end(),
                       [&](int e) { return k_.value_of(eqn(e).outputs[0]) >= 0; });
  }

  // Wide arrays: several rows per pass over a tile of columns, whose partial results lie in the
  // results' memory. Walking down single columns would touch a page per row.
  void column_tiles(std::size_t inner, Scalar begin, Scalar end) {
    const std::size_t down = folded_[0];
    const std::int64_t rows = dims_[down].size, size = dims_[inner].size;
    const std::int64_t block = kernel_.members.size() <= 4    ? 8
                               : kernel_.members.size() <= 12 ? 4
                                                              : 1;
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
};

}  // namespace

void emit_reduction(KernelContext& k) { ReductionEmitter(k).run(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
