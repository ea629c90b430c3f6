// Folds along the last dimension of what lies in memory along another one, beside what does not: the sum of each row of
// a.T * b. As many rows as there are lanes are folded together. Squares of elements are read along their columns and turned
// in registers, as transposes are (emit_transpose.cpp): a load for each element of `a` took five times as long.
#include <algorithm>

#include "compiler/emit/emit_reduction.hpp"
#include "compiler/fusion/costs.hpp"
#include "core/element.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Elements that are folded, at least: on Zen 4 squares take 6 to 40 ms more to compile, and 0.35 ns less for each f32.
constexpr std::int64_t kLeastTurned = 1 << 17;

}  // namespace

TurnedOperands turned_operands(const Scope& scope, const Kernel& k,
                               const std::vector<FoldDim>& dims) {
  const int lanes = vector_lanes(scope.jaxpr, k);
  if (k.linear || dims.empty() || !dims.back().folded || lanes < 2 ||
      k.shape.num_elements() < kLeastTurned || !k.columns.empty() || dims.back().size < lanes / 2 ||
      k.members.size() > kMostTransposed)
    return {};
  const auto eqn_of = [&](int e) -> const Eqn& {
    return scope.jaxpr.eqns()[static_cast<std::size_t>(e)];
  };
  if (std::any_of(k.reductions.begin(), k.reductions.end(),
                  [&](int e) { return finds_place(eqn_of(e)); }))
    return {};
  // Floats of 16 bits are converted vector by vector, which would take 0.1 s to compile.
  const auto is_small = [&](const Atom& a) {
    return detail::is_small_float(scope.jaxpr.aval(a).dtype);
  };
  TurnedOperands turned;
  for (const int e : k.members) {
    const Eqn& eqn = eqn_of(e);
    if (std::any_of(eqn.inputs.begin(), eqn.inputs.end(), is_small)) return {};
    const std::optional<std::size_t> d = contiguous_dim(scope, k, eqn);
    if (!d || k.shape[*d] < lanes / 2) continue;
    const auto of_one =
        std::count(k.shape.begin(), k.shape.begin() + static_cast<std::ptrdiff_t>(*d), 1);
    const std::size_t dim = *d - static_cast<std::size_t>(of_one);
    if (dims[dim].folded || (!turned.transposes.empty() && dim != turned.dim)) continue;
    turned.dim = dim;
    turned.transposes.push_back(e);
  }
  return turned;
}

// Rows that are left one by one are folded in the same order.
void ReductionEmitter::turned_rows(Scalar begin, Scalar end) {
  for_each_tile(gen_, {begin, end}, dims_[turned_.dim].size, lanes_, [&](Scalar first, int rows) {
    if (rows == 0) {
      index_[turned_.dim] = first;
      return row();
    }
    const Scalars acc = fold_squares(first, rows);
    std::vector<Scalars> partial;
    for (int r = 0; r < lanes_; ++r)
      partial.push_back(take(acc, static_cast<std::size_t>(r < rows ? r : 0) * count()));
    const Scalars out = gen_.fold_rows(
        std::move(partial), [&](const Scalars& a, const Scalars& b) { return combine(a, b); });
    gen_.set_lanes(lanes_, rows);
    index_[turned_.dim] = gen_.lane_index(first);
    finish(out);
    gen_.set_lanes(1, 1);
  });
}

// The accumulators of these rows, one after the other.
Scalars ReductionEmitter::fold_squares(Scalar first, int rows) {
  const std::size_t inner = dims_.size() - 1;
  const std::int64_t size = dims_[inner].size, rest = size % lanes_, whole = size - rest;
  std::vector<std::size_t> around = folded_;
  around.pop_back();
  gen_.set_lanes(lanes_, lanes_);
  return fold_nest(around, 0, identities(rows), [&](Scalars acc) {
    const bool part = is_split(inner);
    acc = gen_.loop_carried(part ? from_ : gen_.index(0), part ? to_ : gen_.index(whole), lanes_,
                            std::move(acc), [&](Scalar base, const Scalars& carried) {
                              Scalars a = carried;
                              add_square(a, first, rows, base, lanes_);
                              return a;
                            });
    if (!part && rest > 0) add_square(acc, first, rows, gen_.index(whole), static_cast<int>(rest));
    return acc;
  });
}

void ReductionEmitter::add_square(Scalars& acc, Scalar first, int rows, Scalar base, int columns) {
  const std::size_t inner = dims_.size() - 1;
  std::vector<Scalars> turned;
  gen_.set_lanes(lanes_, rows);
  index_[turned_.dim] = gen_.lane_index(first);
  for (const int e : turned_.transposes) {
    Scalars in;
    for (int c = 0; c < columns; ++c) {
      index_[inner] = gen_.add(base, gen_.index(c));
      in.push_back(
          value_at_(eqn(e).inputs[0], before_transpose(k_, eqn(e), *operand_point().indices)));
    }
    in.resize(static_cast<std::size_t>(lanes_), in[0]);  // columns that are left out
    turned.push_back(gen_.transpose(std::move(in)));
  }
  gen_.set_lanes(lanes_, columns);
  index_[inner] = gen_.lane_index(base);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    index_[turned_.dim] = gen_.add(first, gen_.index(static_cast<std::int64_t>(r)));
    const Point at = operand_point();
    for (std::size_t t = 0; t < turned_.transposes.size(); ++t)
      value_at_.define(eqn(turned_.transposes[t]).outputs[0], at, turned[t][r]);
    accumulate(acc, r * count(), columns < lanes_);
  }
  gen_.set_lanes(lanes_, lanes_);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
