// Matrix products in our own loops: what is too small for a call, integers. Cheap arithmetic that follows
// (bias, activation, residual) is done on the results while they lie in registers.
//
// Lanes run along the dimension that lies contiguously in memory: the columns of the result, or the
// contraction (then each result is a sum over lanes), or the rows of the result. Multiplication and
// addition are fused into one rounding here, and only here.
#include <algorithm>
#include <bit>
#include <span>

#include "compiler/emit/emit.hpp"
#include "compiler/plan/dot.hpp"
#include "runtime/target_isa.hpp"
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
        value_at_(k.gen, k.plan, k.scope, k.kernel(), k.producer),
        product_(k.eqn(k.kernel().eqn).outputs[0]) {
    const Eqn& eqn = k.eqn(k.kernel().eqn);
    const Aval &lhs = k.scope.jaxpr.aval(eqn.inputs[0]), &rhs = k.scope.jaxpr.aval(eqn.inputs[1]);
    const auto p = matrix_product(lhs, rhs, eqn.params.as<DotGeneralParams>());
    if (!p) throw InternalError("dot_general whose dimensions are not grouped reached the loops");
    p_ = *p;
    lhs_type_ = lhs.dtype;
    rhs_type_ = rhs.dtype;
    out_type_ = k.scope.jaxpr.aval(eqn.outputs[0]).dtype;
    sum_type_ = out_type_ == DType::f16 || out_type_ == DType::bf16 ? DType::f32 : out_type_;
    // Literals have memory of their own, in the order of the operands; nothing follows such a product.
    const auto operand = [&](std::size_t i) {
      const Atom& a = eqn.inputs[i];
      return k.gen.pointer(k.value(a.is_var() ? k.value_of(a.var()) : k.step.reads[i]).location);
    };
    a_ = operand(0);
    b_ = operand(1);
    if (!has_epilogue()) c_ = k.gen.pointer(k.value(k.step.writes[0]).location);
    const std::size_t widest =
        std::max({size_of(lhs_type_), size_of(rhs_type_), size_of(sum_type_), std::size_t{4}});
    lanes_ = static_cast<int>(runtime::target_vector_bytes() / widest);
  }

  void run() {
    if (p_.batch * p_.m * p_.n == 0) return;
    gen_.loop(k_.begin, k_.end, [&](Scalar batch) {
      batch_ = batch;
      switch (dot_lanes(p_)) {
        case DotLanes::columns: return columns();
        case DotLanes::contraction: return contraction();
        case DotLanes::rows: return rows();
      }
    });
  }

 private:
  Scalar product_index(const MatrixProduct::Strides& s, Scalar row, Scalar column) {
    return gen_.add(
        gen_.add(gen_.mul(batch_, gen_.index(s.batch)), gen_.mul(row, gen_.index(s.row))),
        gen_.mul(column, gen_.index(s.column)));
  }
  Scalar lhs(Scalar row, Scalar k) {
    return gen_.convert(gen_.load(a_, lhs_type_, product_index(p_.lhs, row, k)), sum_type_);
  }
  Scalar rhs(Scalar k, Scalar column) {
    return gen_.convert(gen_.load(b_, rhs_type_, product_index(p_.rhs, k, column)), sum_type_);
  }
  bool has_epilogue() const { return !k_.kernel().roots.empty(); }

  void store(Scalar row, Scalar column, Scalar x) {
    x = gen_.convert(x, out_type_);
    if (has_epilogue()) {
      const Point at{k_.kernel().shape, index_of(row, column), {}};
      value_at_.define(product_, at, x);
      return store_roots(k_, value_at_, at);
    }
    const MatrixProduct::Strides s{p_.m * p_.n, p_.n, 1};
    gen_.store(c_, out_type_, product_index(s, row, column), x);
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
    append(row, batch, rows);
    append(column, rows, shape.size());
    return index;
  }
  Scalar multiply_add(Scalar a, Scalar b, Scalar c) { return gen_.fma(a, b, c); }

  // Blocks of `size` rows of the result: body(first row, rows) with 4 rows at a time, then the rest.
  void row_blocks(std::int64_t size, int block, const std::function<void(Scalar, int)>& body) {
    const std::int64_t whole = size / block * block;
    if (whole > 0) {
      gen_.loop_carried(gen_.index(0), gen_.index(whole), block, {}, [&](Scalar i, const Scalars&) {
        body(i, block);
        return Scalars{};
      });
    }
    if (size > whole) gen_.region([&] { body(gen_.index(whole), static_cast<int>(size - whole)); });
  }

  // A tile of `rows` x (`vectors` * lanes) results, in registers over the whole contraction.
  void tile(Scalar row, int rows, Scalar column, int vectors) {
    std::vector<Scalar> i, j;
    for (int r = 0; r < rows; ++r) i.push_back(gen_.add(row, gen_.index(r)));
    for (int v = 0; v < vectors; ++v)
      j.push_back(gen_.lane_index(gen_.add(column, gen_.index(v * lanes_))));
    Scalars zero(static_cast<std::size_t>(rows * vectors),
                 gen_.splat(gen_.constant_int(sum_type_, 0)));
    const Scalars sums = gen_.loop_carried(
        gen_.index(0), gen_.index(p_.k), 1, zero, [&](Scalar k, const Scalars& acc) {
          Scalars next = acc, b;
          for (const Scalar column_index : j) b.push_back(rhs(k, column_index));
          for (int r = 0; r < rows; ++r) {
            const Scalar a = lhs(i[static_cast<std::size_t>(r)], k);
            for (int v = 0; v < vectors; ++v) {
              Scalar& sum = next[static_cast<std::size_t>(r) * static_cast<std::size_t>(vectors) +
                                 static_cast<std::size_t>(v)];
              sum = multiply_add(a, b[static_cast<std::size_t>(v)], sum);
            }
          }
          return next;
        });
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        store(i[static_cast<std::size_t>(r)], j[static_cast<std::size_t>(v)],
              sums[static_cast<std::size_t>(r) * static_cast<std::size_t>(vectors) +
                   static_cast<std::size_t>(v)]);
      }
    }
  }

  void columns() {
    const std::int64_t rest = p_.n % lanes_, whole = p_.n - rest,
                       pairs = whole / (2 * lanes_) * (2 * lanes_);
    row_blocks(p_.m, 6, [&](Scalar row, int rows) {
      gen_.set_lanes(lanes_, lanes_);
      const auto strip = [&](std::int64_t from, std::int64_t to, int vectors) {
        gen_.loop_carried(gen_.index(from), gen_.index(to), vectors * lanes_, {},
                          [&](Scalar column, const Scalars&) {
                            tile(row, rows, column, vectors);
                            return Scalars{};
                          });
      };
      strip(0, pairs, 2);
      strip(pairs, whole, 1);
      if (rest > 0) {  // vectors no wider than need be: those of 4 or 8 columns have no mask
        gen_.set_lanes(static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(rest))),
                       static_cast<int>(rest));
        gen_.region([&] { tile(row, rows, gen_.index(whole), 1); });
      }
      gen_.set_lanes(1, 1);
    });
  }

  // One result (or four rows of one) at a time, lanes along the contraction.
  void contraction() {
    const int lanes = p_.k == 1 ? 1 : lanes_;
    const std::int64_t rest = p_.k % lanes, whole = p_.k - rest;
    row_blocks(p_.m, 4, [&](Scalar row, int rows) {
      gen_.loop(gen_.index(0), gen_.index(p_.n), [&](Scalar column) {
        std::vector<Scalar> i;
        for (int r = 0; r < rows; ++r) i.push_back(gen_.add(row, gen_.index(r)));
        gen_.set_lanes(lanes, lanes);
        const auto step = [&](Scalar k, Scalars acc) {
          const Scalar b = rhs(k, column);
          for (int r = 0; r < rows; ++r) {
            Scalar& sum = acc[static_cast<std::size_t>(r)];
            sum = multiply_add(lhs(i[static_cast<std::size_t>(r)], k), b, sum);
          }
          return acc;
        };
        Scalars sums(static_cast<std::size_t>(rows), gen_.splat(gen_.constant_int(sum_type_, 0)));
        sums = gen_.loop_carried(
            gen_.index(0), gen_.index(whole), lanes, sums,
            [&](Scalar base, const Scalars& acc) { return step(gen_.lane_index(base), acc); });
        if (rest > 0) {  // masked loads give zeros
          gen_.set_lanes(lanes, static_cast<int>(rest));
          sums = step(gen_.lane_index(gen_.index(whole)), sums);
          gen_.set_lanes(lanes, lanes);
        }
        for (Scalar& s : sums)
          s = gen_.fold_lanes(s, [&](Scalar x, Scalar y) { return gen_.add(x, y); });
        gen_.set_lanes(1, 1);
        for (int r = 0; r < rows; ++r)
          store(i[static_cast<std::size_t>(r)], column, sums[static_cast<std::size_t>(r)]);
      });
    });
  }

  // Lanes along the rows of the result.
  void rows() {
    gen_.loop(gen_.index(0), gen_.index(p_.n), [&](Scalar column) {
      vector_loop(k_, gen_.index(0), gen_.index(p_.m), p_.m, lanes_, [&](Scalar base) {
        const Scalar i = gen_.lane_index(base);
        const Scalars sum = gen_.loop_carried(
            gen_.index(0), gen_.index(p_.k), 1, {gen_.splat(gen_.constant_int(sum_type_, 0))},
            [&](Scalar k, const Scalars& acc) {
              return Scalars{multiply_add(lhs(i, k), rhs(k, column), acc[0])};
            });
        store(i, column, sum[0]);
      });
    });
  }

  KernelContext& k_;
  CodeGen& gen_;
  Generator value_at_;
  Var product_;
  MatrixProduct p_;
  DType lhs_type_, rhs_type_, out_type_, sum_type_;
  Pointer a_, b_, c_;
  int lanes_ = 1;
  Scalar batch_;
};

}  // namespace

void emit_dot(KernelContext& k) { DotEmitter(k).run(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
