// Matrix products in our own loops: what is too small for a call, integers. Cheap arithmetic that follows
// (bias, activation, residual) is done on the results while they lie in registers, and so are folds of their rows: a row of
// tiles has a vector for each row and fold, whose lanes are folded when it ends. Sums of what stands at extremes begin again
// in a lane whenever that has a new one: after each tile, which knows all of its elements still.
//
// Lanes run along the dimension that lies contiguously in memory: the columns of the result, or the
// contraction (then each result is a sum over lanes), or the rows of the result. Multiplication and
// addition are fused into one rounding here, and only here.
#include <algorithm>
#include <span>

#include "compiler/emit/dot_tiles.hpp"
#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "core/element.hpp"
#include "core/integers.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

class DotEmitter {
 public:
  explicit DotEmitter(KernelContext& k)
      : k_(k),
        gen_(k.gen),
        value_at_(k.generator()),
        product_(k.eqn(k.kernel().eqn).outputs[0]),
        t_(tiles_of(k)) {
    const Eqn& eqn = k.eqn(k.kernel().eqn);
    // Literals have memory of their own, in the order of the operands; nothing follows such a product.
    const auto operand = [&](std::size_t i) {
      const Atom& a = eqn.inputs[i];
      return k.gen.pointer(k.value(a.is_var() ? k.value_of(a.var()) : k.step.reads[i]).location);
    };
    a_ = operand(t_.turned ? 1 : 0);
    b_ = operand(t_.turned ? 0 : 1);
    if (!has_epilogue()) c_ = k.gen.pointer(k.value(k.step.writes[0]).location);
  }

  void run() {
    if (p_.batch == 0 || p_.m == 0 || p_.n == 0) return;
    if (t_.shared != DotTiles::Shared::batch) {
      batch_ = gen_.index(0);
      return one_product();
    }
    gen_.loop(k_.begin, k_.end, [&](Scalar batch) {
      batch_ = batch;
      one_product();
    });
  }

 private:
  static const DotTiles& tiles_of(const KernelContext& k) {
    if (k.kernel().dot_tiles == nullptr)
      throw InternalError("dot_general whose dimensions are not grouped reached the loops");
    return *k.kernel().dot_tiles;
  }
  void one_product() {
    switch (t_.way) {
      case DotTiles::Way::columns: return columns();
      case DotTiles::Way::terms: return sums_over_lanes();
      case DotTiles::Way::rows_once: return rows_once();
    }
  }
  Scalar product_index(const MatrixProduct::Strides& s, Scalar row, Scalar column) {
    return gen_.add(
        gen_.add(gen_.mul(batch_, gen_.index(s.batch)), gen_.mul(row, gen_.index(s.row))),
        gen_.mul(column, gen_.index(s.column)));
  }
  Scalar lhs(Scalar row, Scalar k) {
    return gen_.convert(gen_.load(a_, t_.lhs, product_index(p_.lhs, row, k)), t_.sum);
  }
  Scalar rhs(Scalar k, Scalar column) {
    return gen_.convert(gen_.load(b_, t_.rhs, product_index(p_.rhs, k, column)), t_.sum);
  }
  bool has_epilogue() const { return k_.kernel().goes_on(); }

  // Combines each fold of a row with a number of it, or a vector.
  void store(Scalar row, Scalar column, Scalar x, std::span<Scalar> folds) {
    x = gen_.convert(x, t_.out);
    if (has_epilogue()) {
      const Point at{k_.kernel().shape, index_of(row, column), {}};
      value_at_.define(product_, at, x);
      for (std::size_t f = 0; f < folds.size(); ++f) {
        if (chosen(f) != nullptr) continue;
        const Scalar term = value_at_(fold(f).inputs[0], at);
        folds[f] = combine(f, folds[f], gen_.mask_lanes(term, identity(f)));
      }
      return store_roots(k_, value_at_, at);
    }
    gen_.store(c_, t_.out, result_index(row, column), x);
  }
  Scalar result_index(Scalar row, Scalar column) {
    return product_index({p_.m * p_.n, p_.n, 1}, row, column);
  }

  // ---- folds of rows -----------------------------------------------------------------------------
  std::size_t num_folds() const { return k_.kernel().reductions.size(); }
  const Eqn& fold(std::size_t f) const { return k_.eqn(k_.kernel().reductions[f]); }
  const Lowering::Reduction& rule(std::size_t f) const {
    return std::get<Lowering::Reduction>(lowering_of(*fold(f).primitive).form);
  }
  Scalar identity(std::size_t f) {
    return rule(f).identity(gen_, fold(f).params, k_.scope.jaxpr.aval(fold(f).inputs[0]).dtype);
  }
  Scalar combine(std::size_t f, Scalar a, Scalar b) {
    return rule(f).combine(gen_, fold(f).params, a, b);
  }
  /// Of a sum of what stands at extremes.
  const ChosenSum* chosen(std::size_t f) const {
    const auto found = k_.kernel().chosen.find(k_.kernel().reductions[f]);
    return found == k_.kernel().chosen.end() ? nullptr : &found->second;
  }
  std::size_t number_of(int fold) const {
    const std::vector<int>& all = k_.kernel().reductions;
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), fold) - all.begin());
  }
  // What there is of a sum after an extreme has become another one, maybe: NaN equals none.
  Scalar still_chosen(Scalar sum, Scalar before, Scalar now) {
    return gen_.select(gen_.compare(Compare::eq, before, now), sum,
                       gen_.splat(gen_.constant_int(sum.dtype(), 0)));
  }
  // Goes on with the sums of what stands at the extremes of a row, when these are known of some more of its vectors:
  // `vectors` calls a function with the row and the column of each.
  void add_chosen(const std::function<void(const std::function<void(Scalar, Scalar)>&)>& vectors,
                  const Scalars& before, std::span<Scalar> folds) {
    for (std::size_t f = 0; f < folds.size(); ++f) {
      const ChosenSum* const sum = chosen(f);
      if (sum == nullptr) continue;
      const std::size_t extreme = number_of(sum->extreme);
      folds[f] = still_chosen(folds[f], before[extreme], folds[extreme]);
      vectors([&](Scalar row, Scalar column) {
        const Point at{k_.kernel().shape, index_of(row, column), {}};
        const Scalar x = value_at_(fold(extreme).inputs[0], at);
        value_at_.define(k_.eqn(sum->mask).outputs[0], at, gen_.constant_int(DType::bool_, 1));
        const Scalar term = gen_.mask_lanes(value_at_(fold(f).inputs[0], at), identity(f));
        const Scalar is_extreme = gen_.compare(Compare::eq, x, folds[extreme]);
        folds[f] = gen_.select(is_extreme, combine(f, folds[f], term), folds[f]);
      });
    }
  }
  Scalars begin_folds(int rows) {
    Scalars all;
    for (int r = 0; r < rows; ++r) {
      for (std::size_t f = 0; f < num_folds(); ++f) all.push_back(gen_.splat(identity(f)));
    }
    return all;
  }
  // What the rows from this one on are folded to, and what follows.
  void end_folds(Scalar row, int rows, const Scalars& all) {
    if (all.empty()) return;
    const Kernel& kernel = k_.kernel();
    const int lanes = gen_.lanes();
    Scalars folded;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t f = i % num_folds();
      Scalar lanes_of = all[i];
      if (const ChosenSum* const sum = chosen(f)) {
        const std::size_t extreme = i - f + number_of(sum->extreme);
        lanes_of = still_chosen(lanes_of, all[extreme], gen_.splat(folded[extreme]));
      }
      const auto both = [&](Scalar a, Scalar b) { return combine(f, a, b); };
      folded.push_back(gen_.fold_lanes(lanes_of, both));
    }
    gen_.set_lanes(1, 1);
    auto next = folded.begin();
    for (int r = 0; r < rows; ++r) {
      Point at{kernel.shape, index_of(gen_.add(row, gen_.index(r)), gen_.index(0)), {}};
      at.shape.pop_back();
      at.indices->pop_back();
      std::vector<std::pair<Var, Scalar>> results;
      for (std::size_t f = 0; f < num_folds(); ++f) {
        const Var v = fold(f).outputs[0];
        results.emplace_back(v, gen_.convert(*next++, k_.scope.jaxpr.aval(v).dtype));
        value_at_.define(v, at, results.back().second);
      }
      for (const Var v : kernel.epilogue) results.emplace_back(v, value_at_(v, at));
      for (const auto& [v, x] : results) {
        if (k_.value_of(v) >= 0) value_at_.store(k_.value_of(v), at, x);
      }
    }
    gen_.set_lanes(lanes, lanes);
  }
  // By the dimensions of the result: those of the batch, of the rows and of the columns, of which one at
  // most is not 1.
  Index index_of(Scalar row, Scalar column) {
    const Shape& shape = k_.kernel().shape;
    const auto& dn = k_.eqn(k_.kernel().eqn).params.as<DotGeneralParams>().dimension_numbers;
    const Aval& lhs = k_.scope.jaxpr.aval(k_.eqn(k_.kernel().eqn).inputs[0]);
    const std::size_t batch = dn.lhs_batch.size();
    const std::size_t rows = static_cast<std::size_t>(lhs.ndim()) - dn.lhs_contracting.size();
    Index index;
    const auto append = [&](Scalar number, std::size_t first, std::size_t last) {
      const Shape group(std::span(shape.data() + first, last - first));
      for (const Scalar i : value_at_.indices({group, std::nullopt, number})) index.push_back(i);
    };
    append(batch_, 0, batch);
    append(t_.turned ? column : row, batch, rows);
    append(t_.turned ? row : column, rows, shape.size());
    return index;
  }
  // Two terms of 16 bits, as add_pairs takes them.
  Scalar pair_of(Scalar low, Scalar high) {
    return gen_.or_(gen_.and_(low, gen_.constant_int(t_.sum, 0xffff)),
                    gen_.shift_left(high, gen_.constant_int(t_.sum, 16)));
  }
  Scalar multiply_add(Scalar a, Scalar b, Scalar c) { return gen_.fma(a, b, c); }

  // ---- four terms of bytes at a time ---------------------------------------------------------------
  // One of two has no sign: bytes of b that have one get 128 more, others 128 less. `corrections` takes that back.
  bool has_sign() const { return t_.lhs == DType::i8; }
  Scalar add_quads(Scalar a, Scalar b, Scalar c) {
    return has_sign() ? gen_.add_quads(b, a, c) : gen_.add_quads(a, b, c);
  }
  Scalar moved(Scalar quads) {
    return gen_.xor_(quads, gen_.constant_int(DType::i32, -0x7f7f7f80));
  }
  Scalar taken_back(Scalar sum) {
    return gen_.mul(sum, gen_.constant_int(t_.sum, has_sign() ? -128 : 128));
  }
  Scalar quads_of_row(Scalar row, Scalar k) {
    return gen_.load_quads(a_, t_.lhs, product_index(p_.lhs, row, k), gen_.lanes());
  }
  Scalar add_ones(Scalar a, Scalar sum) {
    return add_quads(a, gen_.splat(gen_.constant_int(DType::i32, 0x01010101)), sum);
  }
  // Of each of so many rows of a: what its sums begin with.
  Scalars corrections(Scalar row, int rows) {
    if (!t_.quads) return {};
    const int lanes = gen_.lanes();
    const std::int64_t whole = p_.k - p_.k % (4 * lanes);
    Scalars sums(static_cast<std::size_t>(rows), gen_.splat(gen_.constant_int(t_.sum, 0)));
    const auto for_rows_of = [&](Scalars so_far, const auto& add) {
      for (int r = 0; r < rows; ++r) {
        Scalar& sum = so_far[static_cast<std::size_t>(r)];
        sum = add(gen_.add(row, gen_.index(r)), sum);
      }
      return so_far;
    };
    sums = gen_.loop_carried(
        gen_.index(0), gen_.index(whole), 4 * lanes, sums, [&](Scalar k, const Scalars& so_far) {
          return for_rows_of(
              so_far, [&](Scalar r, Scalar sum) { return add_ones(quads_of_row(r, k), sum); });
        });
    for (std::int64_t k = whole; k < p_.k; k += lanes) {  // masked loads give zeros
      gen_.set_lanes(lanes, static_cast<int>(std::min<std::int64_t>(lanes, p_.k - k)));
      const Scalar at = gen_.lane_index(gen_.index(k));
      sums = for_rows_of(sums, [&](Scalar r, Scalar sum) { return gen_.add(sum, lhs(r, at)); });
    }
    gen_.set_lanes(lanes, lanes);
    for (Scalar& s : sums)
      s = taken_back(gen_.fold_lanes(s, [&](Scalar x, Scalar y) { return gen_.add(x, y); }));
    return sums;
  }

  // A tile of `rows` x (`vectors` * lanes) results, in registers over the whole contraction. The last vector
  // has `last` columns. `meanwhile` is called within each k. Sums begin with the number of their row, if there are such. The
  // folds of its rows, with these results.
  Scalars tile(Scalar row, int rows, Scalar column, int vectors, int last, Scalars folds,
               const Scalars& begin, const std::function<void(Scalar)>& meanwhile) {
    const int lanes = gen_.lanes();
    const auto at = [&](int r, int v) {
      return static_cast<std::size_t>(r) * static_cast<std::size_t>(vectors) +
             static_cast<std::size_t>(v);
    };
    const auto look_at = [&](int v) { gen_.set_lanes(lanes, v + 1 < vectors ? lanes : last); };
    // From its own corners of the operands on, what a tile reads differs by constants, which addresses have
    // room for.
    const Scalar zero = gen_.index(0);
    const Pointer a = gen_.offset(a_, t_.lhs, product_index(p_.lhs, row, zero));
    const Pointer b = gen_.offset(b_, t_.rhs, product_index(p_.rhs, zero, column));
    const auto place = [&](const MatrixProduct::Strides& s, Scalar i, Scalar j) {
      return gen_.add(gen_.mul(i, gen_.index(s.row)), gen_.mul(j, gen_.index(s.column)));
    };
    const auto element = [&](Pointer of, DType type, const MatrixProduct::Strides& s, Scalar i,
                             Scalar j) {
      return gen_.convert(gen_.load(of, type, place(s, i, j)), t_.sum);
    };
    // Four terms from k on, or as many as there are, zeros beside them.
    const auto add_four = [&](Scalar k, int terms, const Scalars& carried) {
      Scalars next = carried, from_b;
      for (int v = 0; v < vectors; ++v) {
        look_at(v);
        Scalar bytes[4];
        for (int i = 0; i < 4; ++i) {
          const Scalar from =
              place(p_.rhs, gen_.add(k, gen_.index(i)), gen_.lane_index(gen_.index(v * lanes)));
          bytes[i] =
              i < terms ? gen_.load(b, t_.rhs, from) : gen_.splat(gen_.constant_int(t_.rhs, 0));
        }
        from_b.push_back(moved(gen_.quads(bytes)));
      }
      for (int r = 0; r < rows; ++r) {
        const auto of_a = [&](int i) {
          return place(p_.lhs, gen_.index(r), gen_.add(k, gen_.index(i)));
        };
        Scalar from_a =
            terms == 4 ? gen_.load_quads(a, t_.lhs, of_a(0), 1) : gen_.constant_int(t_.sum, 0);
        for (int i = 0; i < terms && terms < 4; ++i) {
          const Scalar byte = gen_.and_(gen_.convert(gen_.load(a, t_.lhs, of_a(i)), t_.sum),
                                        gen_.constant_int(t_.sum, 0xff));
          from_a = gen_.or_(from_a, gen_.shift_left(byte, gen_.constant_int(t_.sum, 8 * i)));
        }
        for (int v = 0; v < vectors; ++v) {
          Scalar& sum = next[at(r, v)];
          sum = add_quads(from_a, from_b[static_cast<std::size_t>(v)], sum);
        }
      }
      return next;
    };
    // The terms from k on, one or more, of all sums.
    const auto add_terms = [&](Scalar k, int terms, const Scalars& carried) {
      for (int i = 0; i < terms; ++i) meanwhile(gen_.add(k, gen_.index(i)));
      if (t_.quads) return add_four(k, terms, carried);
      const auto operand = [&](const auto& term) {
        if (!t_.pairs) return term(k);
        if (terms == 1) return gen_.and_(term(k), gen_.constant_int(t_.sum, 0xffff));
        const Scalar low = term(k);
        return pair_of(low, term(gen_.add(k, gen_.index(1))));
      };
      Scalars next = carried, from_b;
      for (int v = 0; v < vectors; ++v) {
        look_at(v);
        from_b.push_back(operand([&](Scalar i) {
          return element(b, t_.rhs, p_.rhs, i, gen_.lane_index(gen_.index(v * lanes)));
        }));
      }
      for (int r = 0; r < rows; ++r) {
        const Scalar from_a =
            operand([&](Scalar i) { return element(a, t_.lhs, p_.lhs, gen_.index(r), i); });
        for (int v = 0; v < vectors; ++v) {
          const Scalar x = from_b[static_cast<std::size_t>(v)];
          Scalar& sum = next[at(r, v)];
          sum = t_.pairs ? gen_.add_pairs(from_a, x, sum) : multiply_add(from_a, x, sum);
        }
      }
      return next;
    };
    const int step = t_.quads ? 4 : t_.pairs ? 2 : 1, rest = static_cast<int>(p_.k % step);
    const std::int64_t whole = p_.k - rest;
    Scalars sums(at(rows, 0), gen_.splat(gen_.constant_int(t_.sum, 0)));
    for (std::size_t i = 0; i < sums.size() && !begin.empty(); ++i)
      sums[i] = gen_.splat(begin[i / static_cast<std::size_t>(vectors)]);
    sums = gen_.loop_carried(
        zero, gen_.index(whole), step, sums,
        [&](Scalar k, const Scalars& carried) { return add_terms(k, step, carried); });
    if (rest > 0) sums = add_terms(gen_.index(whole), rest, sums);
    for (int r = 0; r < rows; ++r) {
      const auto of_row =
          std::span(folds).subspan(static_cast<std::size_t>(r) * num_folds(), num_folds());
      const Scalars before(of_row.begin(), of_row.end());
      const Scalar number = gen_.add(row, gen_.index(r));
      const auto for_vectors = [&](const auto& body) {
        for (int v = 0; v < vectors; ++v) {
          look_at(v);
          body(v, gen_.lane_index(gen_.add(column, gen_.index(v * lanes))));
        }
      };
      for_vectors([&](int v, Scalar from) { store(number, from, sums[at(r, v)], of_row); });
      add_chosen(
          [&](const auto& body) { for_vectors([&](int, Scalar from) { body(number, from); }); },
          before, of_row);
    }
    gen_.set_lanes(lanes, lanes);
    return folds;
  }

  // Of what the next product of a batch reads and writes each tile asks for its share, a little with each k: matrices of
  // some pages end before a processor sees how they go on, and smaller ones before it pays (on Zen 3: 100 products of
  // 64 x 64 x 64 in f64 take 0.65 of the time, 1,000 of 48 x 48 x 48 in f32 0.75 to 0.85; of 16 x 16 x 16 they took 1.02
  // and more; on Zen 4 with AVX-512 those of 64 x 64 x 64 in f32 0.78, where all that a tile asks for at once made others
  // wait).
  void ask_for_next(Scalar k, Scalar row, int rows, Scalar vector, int count,
                    std::int64_t vectors) {
    constexpr std::int64_t kBatch = 2 << 20, kMatrix = 4 << 10, kLargest = 128 << 10, kLine = 64,
                           kMost = 2;  // lines with each k
    if (!k_.plan.emit.next_tiles || k_.bytes() < kBatch) return;
    const auto ask = [&](Pointer of, DType type, std::int64_t batch, std::int64_t elements) {
      const auto size = static_cast<std::int64_t>(size_of(type));
      const std::int64_t bytes = elements * size, line = kLine / size;
      if (batch != elements || bytes < kMatrix || bytes > kLargest) return;
      // Of each row of results so many lines: not of more rows than there are lines.
      if (p_.m > 2 * bytes / kLine) return;
      const std::int64_t of_row = detail::ceil_div(bytes, kLine * p_.m);
      const std::int64_t of_vector = detail::ceil_div(rows * of_row, vectors);
      const std::int64_t of_k = detail::ceil_div(of_vector * count * line, p_.k);
      if (of_k > kMost * line) return;
      const Scalar first =
          gen_.add(gen_.mul(row, gen_.index(of_row)), gen_.mul(vector, gen_.index(of_vector)));
      const Scalar at =
          gen_.add(gen_.add(gen_.mul(gen_.add(batch_, gen_.index(1)), gen_.index(batch)),
                            gen_.mul(first, gen_.index(line))),
                   gen_.mul(k, gen_.index(of_k)));
      for (std::int64_t i = 0; i < of_k; i += line)
        gen_.prefetch(of, type, gen_.add(at, gen_.index(i)));
    };
    ask(a_, t_.lhs, p_.lhs.batch, p_.m * p_.k);
    ask(b_, t_.rhs, p_.rhs.batch, p_.k * p_.n);
    if (!has_epilogue()) ask(c_, t_.out, p_.m * p_.n, p_.m * p_.n);
  }

  void columns() {
    const std::int64_t lanes = t_.lanes, vectors = detail::ceil_div(p_.n, lanes);
    const int last = static_cast<int>(p_.n - (vectors - 1) * lanes);
    gen_.set_lanes(t_.lanes, t_.lanes);
    for_rows([&](Scalar row, int rows) {
      const Scalars begin = corrections(row, rows);
      const Scalars folds = through_columns(
          last < lanes, begin_folds(rows),
          [&](Scalar vector, int count, bool masked, const Scalars& carried) {
            return tile(row, rows, gen_.mul(vector, gen_.index(lanes)), count,
                        masked ? last : t_.lanes, carried, begin,
                        [&](Scalar k) { ask_for_next(k, row, rows, vector, count, vectors); });
          });
      end_folds(row, rows, folds);
    });
    gen_.set_lanes(1, 1);
  }
  // Rows of b from end to end, some of them side by side.
  void rows_once() {
    const std::int64_t whole = p_.k - p_.k % kRowsOnce;
    add_rows(gen_.index(0), kRowsOnce, true);
    gen_.loop_carried(gen_.index(kRowsOnce), gen_.index(whole), kRowsOnce, {},
                      [&](Scalar k, const Scalars& none) {
                        add_rows(k, kRowsOnce, false);
                        return none;
                      });
    gen_.loop_carried(gen_.index(whole), gen_.index(p_.k), 1, {},
                      [&](Scalar k, const Scalars& none) {
                        add_rows(k, 1, false);
                        return none;
                      });
  }
  // Adds the products with so many rows of b from the k-th on, or begins with them.
  void add_rows(Scalar k, int rows, bool first) {
    const Scalar zero = gen_.index(0);
    const bool pairs = rows > 1 && t_.pairs;
    // Terms of rows, one or two at a time.
    const auto terms = [&](const auto& term) {
      Scalars all;
      for (int i = 0; i < rows; ++i) {
        const Scalar x = term(gen_.add(k, gen_.index(i)));
        if (pairs && i % 2 == 1) all.back() = pair_of(all.back(), x);
        else all.push_back(x);
      }
      return all;
    };
    const Scalars a = terms([&](Scalar i) { return lhs(zero, i); });
    const auto vector = [&](Scalar column) {
      const Scalars b = terms([&](Scalar i) { return rhs(i, column); });
      Scalar sum = first ? gen_.splat(gen_.constant_int(t_.sum, 0))
                         : gen_.convert(gen_.load(c_, t_.out, result_index(zero, column)), t_.sum);
      for (std::size_t i = 0; i < a.size(); ++i)
        sum = pairs ? gen_.add_pairs(a[i], b[i], sum) : multiply_add(a[i], b[i], sum);
      store(zero, column, sum, {});
    };
    through_columns(p_.n % t_.lanes != 0, {}, [&](Scalar i, int, bool last, const Scalars& none) {
      gen_.set_lanes(t_.lanes, last ? static_cast<int>(p_.n % t_.lanes) : t_.lanes);
      vector(gen_.lane_index(gen_.mul(i, gen_.index(t_.lanes))));
      return none;
    });
    gen_.set_lanes(1, 1);
  }
  // body(first, size) for the rows of all tiles, or of those that this chunk has.
  void for_rows(const std::function<void(Scalar, int)>& body) {
    through_pieces(t_.rows, t_.shared == DotTiles::Shared::rows, false, {},
                   [&](Scalar i, int size, bool, const Scalars& none) {
                     body(i, size);
                     return none;
                   });
  }
  using Carried = std::function<Scalars(Scalar, int, bool, const Scalars&)>;
  // body(first, size, apart, carried) for the columns, with numbers that each piece hands on to the next. The last
  // piece may be told apart from the others.
  Scalars through_columns(bool last_apart, Scalars carried, const Carried& body) {
    return through_pieces(t_.columns, t_.shared == DotTiles::Shared::columns, last_apart,
                          std::move(carried), body);
  }
  Scalars through_pieces(const Pieces& p, bool shared, bool last_apart, Scalars carried,
                         const Carried& body) {
    std::int64_t first = 0, before = 0;
    const auto pieces = [&](std::int64_t count, std::int64_t size, bool apart) {
      // Where the chunk begins and ends among these pieces.
      const auto bound = [&](Scalar piece) {
        const Scalar here = gen_.sub(piece, gen_.index(before));
        const Scalar within = gen_.max(gen_.min(here, gen_.index(count)), gen_.index(0));
        return gen_.add(gen_.mul(within, gen_.index(size)), gen_.index(first));
      };
      const bool chunk = shared && k_.in_chunks;
      const Scalar begin = chunk ? bound(k_.begin) : gen_.index(first),
                   end = chunk ? bound(k_.end) : gen_.index(first + count * size);
      carried = gen_.loop_carried(begin, end, size, std::move(carried),
                                  [&](Scalar i, const Scalars& so_far) {
                                    return body(i, static_cast<int>(size), apart, so_far);
                                  });
      first += count * size;
      before += count;
    };
    const bool of_longer = last_apart && p.shorter == 0, of_shorter = last_apart && p.shorter > 0;
    pieces(p.longer - (of_longer ? 1 : 0), p.size, false);
    pieces(p.shorter - (of_shorter ? 1 : 0), p.size - 1, false);
    if (last_apart) pieces(1, of_longer ? p.size : p.size - 1, true);
    return carried;
  }

  void sums_over_lanes() {
    for_rows([&](Scalar row, int rows) {
      through_columns(false, {}, [&](Scalar column, int count, bool, const Scalars& none) {
        sums_of(t_.lanes, row, rows, column, count);
        return none;
      });
    });
  }
  void sums_of(int lanes, Scalar row, int rows, Scalar column, int columns) {
    const std::int64_t rest = p_.k % lanes, whole = p_.k - rest;
    // Terms up to there are taken several at a time.
    const int each = t_.quads ? 4 : t_.pairs ? 2 : 1;
    const std::int64_t several = each > 1 ? p_.k - p_.k % (each * lanes) : 0;
    const auto numbers = [&](Scalar first, int count) {
      Scalars all;
      for (int i = 0; i < count; ++i) all.push_back(gen_.add(first, gen_.index(i)));
      return all;
    };
    const Scalars of_rows = numbers(row, rows), of_columns = numbers(column, columns);
    gen_.set_lanes(lanes, lanes);
    const auto step = [&](Scalars sums, const auto& of_b, const auto& of_a, const auto& add) {
      Scalars b;
      for (const Scalar j : of_columns) b.push_back(of_b(j));
      auto sum = sums.begin();
      for (const Scalar i : of_rows) {
        const Scalar a = of_a(i);
        for (const Scalar x : b) {
          *sum = add(a, x, *sum);
          ++sum;
        }
      }
      return sums;
    };
    const auto one_each = [&](Scalar k, const Scalars& acc) {
      return step(
          acc, [&](Scalar j) { return rhs(k, j); }, [&](Scalar i) { return lhs(i, k); },
          [&](Scalar a, Scalar b, Scalar c) { return multiply_add(a, b, c); });
    };
    const auto two_each = [&](Scalar k, const Scalars& acc) {
      return step(
          acc, [&](Scalar j) { return gen_.load_pairs(b_, t_.rhs, product_index(p_.rhs, k, j)); },
          [&](Scalar i) { return gen_.load_pairs(a_, t_.lhs, product_index(p_.lhs, i, k)); },
          [&](Scalar a, Scalar b, Scalar c) { return gen_.add_pairs(a, b, c); });
    };
    // After the sums stands what corrects those of each row.
    const auto four_each = [&](Scalar k, const Scalars& acc) {
      Scalars next = step(
          acc,
          [&](Scalar j) {
            return moved(gen_.load_quads(b_, t_.rhs, product_index(p_.rhs, k, j), lanes));
          },
          [&](Scalar i) { return quads_of_row(i, k); },
          [&](Scalar a, Scalar b, Scalar c) { return add_quads(a, b, c); });
      for (std::size_t r = 0; r < of_rows.size(); ++r) {
        Scalar& sum = next[next.size() - of_rows.size() + r];
        sum = add_ones(quads_of_row(of_rows[r], k), sum);
      }
      return next;
    };
    const std::size_t results = of_rows.size() * of_columns.size();
    Scalars sums(results + (t_.quads ? of_rows.size() : 0),
                 gen_.splat(gen_.constant_int(t_.sum, 0)));
    sums = gen_.loop_carried(gen_.index(0), gen_.index(several), each * lanes, sums,
                             [&](Scalar k, const Scalars& acc) {
                               return t_.quads ? four_each(k, acc) : two_each(k, acc);
                             });
    for (std::size_t i = 0; i < results && t_.quads; ++i)
      sums[i] = gen_.add(sums[i], taken_back(sums[results + i / of_columns.size()]));
    sums.resize(results);
    sums = gen_.loop_carried(
        gen_.index(several), gen_.index(whole), lanes, sums,
        [&](Scalar base, const Scalars& acc) { return one_each(gen_.lane_index(base), acc); });
    if (rest > 0) {  // masked loads give zeros
      gen_.set_lanes(lanes, static_cast<int>(rest));
      sums = one_each(gen_.lane_index(gen_.index(whole)), sums);
      gen_.set_lanes(lanes, lanes);
    }
    for (Scalar& s : sums)
      s = gen_.fold_lanes(s, [&](Scalar x, Scalar y) { return gen_.add(x, y); });
    gen_.set_lanes(1, 1);
    auto sum = sums.begin();
    for (const Scalar i : of_rows) {
      for (const Scalar j : of_columns) store(i, j, *sum++, {});
    }
  }

  KernelContext& k_;
  CodeGen& gen_;
  Generator value_at_;
  Var product_;
  const DotTiles& t_;
  const MatrixProduct& p_ = t_.product;
  Pointer a_, b_, c_;
  Scalar batch_;
};

}  // namespace

void emit_dot(KernelContext& k) { DotEmitter(k).run(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
