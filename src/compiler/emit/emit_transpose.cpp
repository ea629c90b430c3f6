// Kernels that transpose: one dimension is contiguous in the results, another in the operands. Both
// are read and written by whole vectors where tiles of lanes x lanes elements are transposed in
// registers.
#include <optional>

#include "compiler/emit/emit.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

class TransposeEmitter {
 public:
  /// Lanes run along dimension `inner`.
  TransposeEmitter(KernelContext& k, Generator& value_at, std::size_t inner, int lanes)
      : k_(k),
        gen_(k.gen),
        value_at_(value_at),
        shape_(k.kernel().shape),
        inner_(inner),
        lanes_(lanes) {
    constexpr std::size_t kMaxMembers = 8;  // all of them are emitted for each row of a tile
    if (!k.plan.emit.transpose_tiles || lanes < 2 || shape_[inner] < lanes / 2 ||
        k.kernel().members.size() > kMaxMembers)
      return;
    for (const int e : k.kernel().members) {
      const std::optional<std::size_t> d = contiguous_dim(k.eqn(e));
      if (!d || *d == inner || shape_[*d] < lanes / 2 || (!transposes_.empty() && *d != dim_))
        continue;
      dim_ = *d;
      transposes_.push_back(e);
    }
  }
  bool applies() const { return !transposes_.empty(); }

  void run(const std::vector<std::pair<Scalar, Scalar>>& outer) { nest({}, outer, 0); }

 private:
  // The dimension of the result along which the operand of a transpose is contiguous.
  std::optional<std::size_t> contiguous_dim(const Eqn& eqn) const {
    if (eqn.primitive != &transpose_p || !eqn.inputs[0].is_var()) return {};
    const Aval& x = k_.scope.jaxpr.aval(eqn.inputs[0]);
    if (k_.scope.jaxpr.aval(eqn.outputs[0]).shape != shape_ || x.dtype == DType::bool_) return {};
    std::size_t last = x.shape.size() - 1;
    while (last > 0 && x.shape[last] == 1) --last;
    const Shape& order = eqn.params.as<TransposeParams>().permutation;
    for (std::size_t d = 0; d < order.size(); ++d) {
      if (order[d] == static_cast<std::int64_t>(last)) return d;
    }
    return {};
  }

  // `rows` of a tile: 0 for one row as it comes.
  void nest(const Index& index, const std::vector<std::pair<Scalar, Scalar>>& outer, int rows) {
    const std::size_t d = index.size();
    if (d == outer.size()) return rows > 0 ? tiles(index, rows) : row(index);
    const auto [begin, end] = outer[d];
    const auto next = [&](Scalar i, int n) {
      Index full = index;
      full.push_back(i);
      nest(full, outer, n);
    };
    if (d != dim_) return gen_.loop(begin, end, [&](Scalar i) { next(i, rows); });
    gen_.loop_carried(begin, gen_.add(end, gen_.index(1 - lanes_)), lanes_, {},
                      [&](Scalar i, const Scalars&) {
                        next(i, lanes_);
                        return Scalars{};
                      });
    const Scalar n = gen_.index(lanes_);
    const Scalar done = gen_.add(begin, gen_.mul(gen_.div(gen_.sub(end, begin), n), n));
    const int rest = static_cast<int>(shape_[d] % lanes_);
    const Scalar last = gen_.index(shape_[d] - rest);  // the rows that are left at the very end
    std::int64_t from = 0, to = 0;
    if (CodeGen::known_constant(begin, from) && CodeGen::known_constant(end, to)) {
      if (rest > 0) gen_.region([&] { next(last, rest); });
      return;
    }
    const Scalar at_last = gen_.compare(Compare::eq, done, last);
    if (rest > 0) {
      gen_.if_then(gen_.and_(at_last, gen_.compare(Compare::gt, end, last)),
                   [&] { next(last, rest); });
    }
    gen_.loop(gen_.select(at_last, end, done), end, [&](Scalar i) { next(i, 0); });
  }

  Index at(const Index& index, Scalar along_dim, Scalar along_inner) {
    Index full = index;
    full.push_back(along_inner);
    full.resize(shape_.size(), gen_.index(0));
    full[dim_] = along_dim;
    return full;
  }

  void row(const Index& index) {
    const std::int64_t size = shape_[inner_];
    vector_loop(k_, gen_.index(0), gen_.index(size), size, lanes_, [&](Scalar base) {
      store_roots(k_, value_at_, {shape_, at(index, index[dim_], gen_.lane_index(base)), {}});
    });
  }

  // `rows` rows from index[dim_] on.
  void tiles(const Index& index, int rows) {
    const std::int64_t size = shape_[inner_], rest = size % lanes_;
    gen_.loop_carried(gen_.index(0), gen_.index(size - rest), lanes_, {},
                      [&](Scalar base, const Scalars&) {
                        tile(index, base, rows, lanes_);
                        return Scalars{};
                      });
    if (rest > 0)
      gen_.region([&] { tile(index, gen_.index(size - rest), rows, static_cast<int>(rest)); });
    gen_.set_lanes(1, 1);
  }

  void tile(const Index& index, Scalar base, int rows, int columns) {
    const Scalar first = index[dim_];
    gen_.set_lanes(lanes_, rows);
    std::vector<Scalars> transposed;
    for (const int e : transposes_) {
      const Eqn& eqn = k_.eqn(e);
      const Shape& order = eqn.params.as<TransposeParams>().permutation;
      Scalars in;
      for (int c = 0; c < columns; ++c) {
        const Index to = at(index, gen_.lane_index(first), gen_.add(base, gen_.index(c)));
        Index from(to.size(), gen_.index(0));
        for (std::size_t d = 0; d < to.size(); ++d)
          from[static_cast<std::size_t>(order[d])] = to[d];
        in.push_back(
            value_at_(eqn.inputs[0], {k_.scope.jaxpr.aval(eqn.inputs[0]).shape, from, {}}));
      }
      in.resize(static_cast<std::size_t>(lanes_), in[0]);  // columns that nobody stores
      transposed.push_back(gen_.transpose(std::move(in)));
    }
    gen_.set_lanes(lanes_, columns);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      const Scalar i = gen_.add(first, gen_.index(static_cast<std::int64_t>(r)));
      const Point row{shape_, at(index, i, gen_.lane_index(base)), {}};
      for (std::size_t t = 0; t < transposes_.size(); ++t)
        value_at_.define(k_.eqn(transposes_[t]).outputs[0], row, transposed[t][r]);
      store_roots(k_, value_at_, row);
    }
  }

  KernelContext& k_;
  CodeGen& gen_;
  Generator& value_at_;
  const Shape& shape_;
  std::size_t inner_, dim_ = 0;
  int lanes_;
  std::vector<int> transposes_;
};

}  // namespace

bool emit_transposed(KernelContext& k, Generator& value_at, std::size_t inner, int lanes,
                     const std::vector<std::pair<Scalar, Scalar>>& outer) {
  TransposeEmitter transposes(k, value_at, inner, lanes);
  if (!transposes.applies()) return false;
  transposes.run(outer);
  return true;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
