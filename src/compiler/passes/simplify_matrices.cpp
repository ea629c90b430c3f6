// Small matrices, one for each row of an array: what they are made of are columns, whatever their rows.
//
//   let r = concatenate[dimension=1] a b, q = concatenate[dimension=1] c d, ..., m = concatenate[dimension=1] r[n,1,2] q[n,1,2]
//   ->  let x = concatenate[dimension=1] a b c d, m = reshape[n,2,2] x
//
// which is written by one kernel (codegen_columns.cpp). What is computed of such matrices element by element, and products
// of them, are computed of the columns: split_short_axes takes x apart, and m need not be in memory.
#include <algorithm>

#include "compiler/forms.hpp"
#include "compiler/passes/simplify.hpp"
#include "core/concrete.hpp"
#include "core/integers.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// What `a` is with dimensions of one element added to it.
Atom without_added(Simplifier& s, const Atom& a) {
  const Eqn* e = s.used_once(a) ? s.definition(a) : nullptr;
  const bool adds =
      e != nullptr &&
      (e->primitive == &reshape_p ||
       (e->primitive == &broadcast_in_dim_p && s.aval(e->inputs[0]).size() == s.aval(a).size()));
  return adds ? e->inputs[0] : a;
}

std::int64_t size_behind(const Shape& shape, std::size_t d) {
  std::int64_t n = 1;
  while (++d < shape.size()) n = detail::wrapping_mul(n, shape[d]);
  return n;
}

/// The numbers along an axis of the rows of matrices, each in the shape of `column`: of rows that are put together of them,
/// or that are the same for all matrices.
std::optional<Atoms> columns_of_row(Simplifier& s, const Atom& row, std::size_t axis,
                                    const Aval& column) {
  const Atom bare = without_added(s, row);
  const Shape &shape = s.aval(row).shape, &of = s.aval(bare).shape;
  const std::int64_t count = shape[axis], behind = size_behind(shape, axis);
  const auto is_axis = [&](std::int64_t dimension) {
    const auto d = static_cast<std::size_t>(dimension);
    return of[d] == count && size_behind(of, d) == behind;
  };
  if (const Eqn* c = s.used_once(bare) ? s.defined_by(bare, concatenate_p) : nullptr) {
    const std::int64_t d = c->params.as<ConcatenateParams>().dimension;
    const Atoms parts = c->inputs;
    // There may be as many parts as columns where some are empty, and others wider.
    const auto is_column = [&](const Atom& a) {
      return s.aval(a).shape[static_cast<std::size_t>(d)] == 1;
    };
    if (!is_axis(d) || !std::all_of(parts.begin(), parts.end(), is_column)) return std::nullopt;
    Atoms columns;
    for (const Atom& a : parts)
      columns.push_back(s.make(reshape_p, ReshapeParams{column.shape}, {a}, column));
    return columns;
  }
  const Eqn* b = s.defined_by(bare, broadcast_in_dim_p);
  if (b == nullptr) return std::nullopt;
  const Shape& dims = b->params.as<BroadcastInDimParams>().broadcast_dimensions;
  const Atom same = b->inputs[0];
  const Aval number = column.with_shape({1});
  if (dims.size() != 1 || !is_axis(dims[0]) || s.aval(same).size() != count) return std::nullopt;
  Atoms columns;
  for (std::int64_t k = 0; k < count; ++k) {
    const Atom one = s.make(slice_p, SliceParams{{k}, {k + 1}, {}}, {same}, number);
    const BroadcastInDimParams p{column.shape, {column.ndim() - 1}};
    columns.push_back(s.make(broadcast_in_dim_p, p, {one}, column));
  }
  return columns;
}

/// Matrices of rows that lie side by side along `axis` - 1, their numbers along `axis`.
std::optional<Atom> matrices_of_rows(Simplifier& s, const Atoms& rows, std::size_t axis,
                                     const Aval& out) {
  Shape shape = out.shape;
  const std::int64_t count = shape.back();
  shape.pop_back();
  const std::size_t last = shape.size() - 1;
  if (out.size() == 0 || static_cast<std::int64_t>(rows.size()) != shape[last]) return std::nullopt;
  shape[last] *= count;
  const Aval whole = out.with_shape(shape).strong();
  shape[last] = 1;
  const Aval column = out.with_shape(shape).strong();
  const ConcatenateParams p{static_cast<std::int64_t>(last)};
  if (whole.shape.back() > kSmallMatrix ||
      !weaves(Params::of(p), Avals(static_cast<std::size_t>(whole.shape.back()), column), whole) ||
      std::none_of(rows.begin(), rows.end(), [&](const Atom& row) {
        return s.defined_by(without_added(s, row), concatenate_p) != nullptr;
      }))
    return std::nullopt;
  Atoms columns;
  for (const Atom& row : rows) {
    const std::optional<Atoms> some = columns_of_row(s, row, axis, column);
    if (!some) return std::nullopt;
    columns.insert(columns.end(), some->begin(), some->end());
  }
  const Atom all = s.make(concatenate_p, p, std::move(columns), whole);
  return s.make(reshape_p, ReshapeParams{out.shape}, {all}, out);
}

}  // namespace

// Rows of matrices one below the other, each made of columns, are made of the columns of all: written once.
std::optional<Atom> concatenation_of_rows(Simplifier& s, const Eqn& e, const Aval& out) {
  const std::int64_t d = e.params.as<ConcatenateParams>().dimension;
  if (out.ndim() < 3 || d + 2 != out.ndim()) return std::nullopt;
  return matrices_of_rows(s, e.inputs, static_cast<std::size_t>(d) + 1, out);
}

// Planes of planes that a transpose makes matrices: as rows one below the other.
std::optional<Atom> transpose_of_planes(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* c = s.used_once(e.inputs[0]) ? s.defined_by(e.inputs[0], concatenate_p) : nullptr;
  if (c == nullptr || out.ndim() < 3 || c->params.as<ConcatenateParams>().dimension != 0)
    return std::nullopt;
  const Shape& permutation = e.params.as<TransposeParams>().permutation;
  for (std::int64_t d = 0; d < out.ndim(); ++d) {
    if (permutation[static_cast<std::size_t>(d)] != (d + 2) % out.ndim()) return std::nullopt;
  }
  const Atoms rows = c->inputs;
  return matrices_of_rows(s, rows, 1, out);
}

namespace {

/// Rows of columns, or of what is computed of such, that small matrices are made of by a reshape.
const Atom* rows_of_matrices(const Simplifier& s, const Atom& a, const Shape& rows) {
  const Eqn* r = s.defined_by(a, reshape_p);
  return r != nullptr && s.aval(r->inputs[0]).shape == rows && s.of_columns(r->inputs[0])
             ? &r->inputs[0]
             : nullptr;
}

/// A broadcast to matrices, made as one to their rows: of one number for each matrix, or of one matrix.
std::optional<Atom> broadcast_to_rows(Simplifier& s, const Eqn& e, const Aval& rows) {
  const Shape& dims = e.params.as<BroadcastInDimParams>().broadcast_dimensions;
  const std::int64_t matrix = rows.ndim() - 1;  // its first dimension
  Atom x = e.inputs[0];
  const Aval from = s.aval(x);
  BroadcastInDimParams p{rows.shape, {}};
  Shape shape;
  std::int64_t of_matrix = 1;
  for (std::size_t k = 0; k < from.shape.size(); ++k) {
    if (dims[k] < matrix) {
      shape.push_back(from.shape[k]);
      p.broadcast_dimensions.push_back(dims[k]);
    } else {
      of_matrix *= from.shape[k];
    }
  }
  if (of_matrix != 1) {
    if (of_matrix != rows.shape.back()) return std::nullopt;
    shape.push_back(of_matrix);
    p.broadcast_dimensions.push_back(matrix);
  }
  if (!(shape == from.shape))
    x = s.make(reshape_p, ReshapeParams{shape}, {x}, from.with_shape(shape));
  return s.make(broadcast_in_dim_p, p, {x}, rows.strong());
}

}  // namespace

// Matrices, f(reshape(x)), are computed as rows of all their numbers, of which short_axes makes columns.
std::optional<Atom> element_of_matrices(Simplifier& s, const Eqn& e, const Aval& out) {
  if (out.ndim() < 3 || out.size() == 0 || !is_elementwise(e)) return std::nullopt;
  Shape rows = out.shape;
  rows.pop_back();
  rows[rows.size() - 1] *= out.shape.back();
  if (rows.back() < 2 || rows.back() > kSmallMatrix) return std::nullopt;
  bool found = false;
  for (const Atom& a : e.inputs) {
    if (s.aval(a).shape.empty()) continue;
    const bool of_columns = rows_of_matrices(s, a, rows) != nullptr;
    if (!of_columns && s.defined_by(a, broadcast_in_dim_p) == nullptr) return std::nullopt;
    found |= of_columns;
  }
  if (!found) return std::nullopt;
  Atoms inputs;
  for (const Atom& a : e.inputs) {
    const Aval aval = s.aval(a);
    if (aval.shape.empty()) {
      inputs.push_back(a);
    } else if (const Atom* const x = rows_of_matrices(s, a, rows)) {
      inputs.push_back(*x);
    } else {
      const Eqn broadcast = *s.definition(a);
      const auto made = broadcast_to_rows(s, broadcast, aval.with_shape(rows));
      if (!made) return std::nullopt;
      inputs.push_back(*made);
    }
  }
  const Atom made = s.make(*e.primitive, e.params, std::move(inputs), out.with_shape(rows));
  return s.make(reshape_p, ReshapeParams{out.shape}, {made}, out);
}

namespace {

/// A vector or a matrix for each of some dimensions in front, as products take it: rows, or columns, of so many terms.
struct Factor {
  bool by_rows;
  std::int64_t count;  ///< of rows, or columns
};
std::optional<Factor> small_factor(const Aval& a, const Shape& batch, const Shape& contracting,
                                   std::int64_t terms) {
  if (batch.empty() || contracting.size() > 1 || a.shape.size() > batch.size() + 2)
    return std::nullopt;
  std::int64_t numbers = a.size();
  for (std::size_t d = 0; d < batch.size(); ++d) {
    if (batch[d] != static_cast<std::int64_t>(d)) return std::nullopt;
    numbers /= a.shape[d];
  }
  if (numbers > kSmallMatrix) return std::nullopt;
  return Factor{contracting.empty() || contracting[0] + 1 == a.ndim(), numbers / terms};
}

/// The numbers of vectors or matrices, row by row, in the shape of `column`.
Atoms numbers_of(Simplifier& s, const Atom& a, const Aval& column) {
  const Aval aval = s.aval(a);
  Shape rows = column.shape;
  rows[rows.size() - 1] = aval.size() / column.size();
  const Atom* const found = aval.ndim() > column.ndim() ? rows_of_matrices(s, a, rows) : nullptr;
  const Atom x = found != nullptr ? *found : a;
  const Shape shape = s.aval(x).shape;
  Atoms numbers;
  for (std::int64_t k = 0; k < rows.back(); ++k) {
    SliceParams p{Shape(shape.size(), 0), shape, {}};
    std::int64_t at = k;
    for (std::size_t d = shape.size(); d + 1 > column.shape.size(); --d) {
      p.start_indices[d - 1] = at % shape[d - 1];
      p.limit_indices[d - 1] = p.start_indices[d - 1] + 1;
      at /= shape[d - 1];
    }
    Shape one = column.shape;
    one.resize(shape.size(), 1);
    const Atom number = s.make(slice_p, p, {x}, column.with_shape(one));
    numbers.push_back(s.make(reshape_p, ReshapeParams{column.shape}, {number}, column));
  }
  return numbers;
}

}  // namespace

// Parts of matrices are made of some of the columns.
std::optional<Atom> slice_of_matrices(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape from = s.aval(e.inputs[0]).shape;
  const auto& p = e.params.as<SliceParams>();
  if (from.size() < 3 || out.size() == 0) return std::nullopt;
  const std::size_t matrix = from.size() - 2;
  Shape rows = from;
  rows.pop_back();
  rows[matrix] *= from.back();
  if (!leaves_dimensions(from, p, matrix) || rows_of_matrices(s, e.inputs[0], rows) == nullptr)
    return std::nullopt;
  rows[matrix] = 1;
  const Atom x = e.inputs[0];
  const SliceParams cut = p;
  const Atoms all = numbers_of(s, x, out.with_shape(rows).strong());
  Atoms some;
  for (std::int64_t i = cut.start_indices[matrix]; i < cut.limit_indices[matrix];
       i += stride_of(cut, matrix)) {
    for (std::int64_t j = cut.start_indices.back(); j < cut.limit_indices.back();
         j += stride_of(cut, matrix + 1))
      some.push_back(all[static_cast<std::size_t>(i * from.back() + j)]);
  }
  rows[matrix] = static_cast<std::int64_t>(some.size());
  const ConcatenateParams joined{static_cast<std::int64_t>(matrix)};
  const Atom made = s.make(concatenate_p, joined, std::move(some), out.with_shape(rows).strong());
  return s.make(reshape_p, ReshapeParams{out.shape}, {made}, out);
}

// Products of matrices of which some are made of columns.
std::optional<Atom> dot_of_matrices(Simplifier& s, const Eqn& e, const Aval& out) {
  // Of few matrices, a large kernel takes longer to compile than it gains.
  constexpr std::int64_t kLeast = 64;
  constexpr std::size_t kMostEquations = 10'000;
  if (e.inputs[0].is_literal() || e.inputs[1].is_literal() || out.size() == 0 ||
      s.num_equations() > kMostEquations)
    return std::nullopt;
  const Aval x = s.aval(e.inputs[0]), y = s.aval(e.inputs[1]);
  if ((out.dtype != DType::f32 && out.dtype != DType::f64) || x.dtype != out.dtype ||
      y.dtype != out.dtype)
    return std::nullopt;
  const DotDimensionNumbers& dn = e.params.as<DotGeneralParams>().dimension_numbers;
  const bool outer = dn.lhs_contracting.empty();
  const std::int64_t terms = outer ? 1 : x.shape[static_cast<std::size_t>(dn.lhs_contracting[0])];
  if (x.size() == 0 || y.size() == 0) return std::nullopt;
  const auto f = small_factor(x, dn.lhs_batch, dn.lhs_contracting, terms),
             g = small_factor(y, dn.rhs_batch, dn.rhs_contracting, terms);
  const std::size_t batch = dn.lhs_batch.size();
  if (!f || !g || f->count * g->count > kSmallMatrix) return std::nullopt;
  Shape shape = x.shape;
  shape.resize(batch);
  shape.push_back(1);
  const Aval column = out.with_shape(shape).strong();
  if (column.size() < kLeast) return std::nullopt;
  const auto is_of_columns = [&](const Atom& a) {
    Shape rows = shape;
    rows[batch] = s.aval(a).size() / column.size();
    return s.aval(a).ndim() > column.ndim() && rows_of_matrices(s, a, rows) != nullptr;
  };
  // Of what lies in memory, products are better off if little is read, and so little summed that lanes along a sum are idle:
  // times vectors, squares. On Zen 3, such of 2 x 2 to 4 x 4 f32 take 0.2 to 0.6 of the time, of 4 x 4 f64 1.2.
  constexpr std::size_t kFull = 32;  // bytes
  const bool reads_little =
      (outer || f->count == 1 || g->count == 1 || e.inputs[0] == e.inputs[1]) &&
      static_cast<std::size_t>(terms) * size_of(out.dtype) < kFull;
  if (!reads_little && !is_of_columns(e.inputs[0]) && !is_of_columns(e.inputs[1]))
    return std::nullopt;
  const Atom lhs = e.inputs[0], rhs = e.inputs[1];
  const Atoms a = numbers_of(s, lhs, column), b = numbers_of(s, rhs, column);
  const auto number = [&](const Atoms& of, const Factor& factor, std::int64_t i, std::int64_t k) {
    return of[static_cast<std::size_t>(factor.by_rows ? i * terms + k : k * factor.count + i)];
  };
  Atoms sums;
  for (std::int64_t i = 0; i < f->count; ++i) {
    for (std::int64_t j = 0; j < g->count; ++j) {
      Atom sum = s.filled(0, column);
      for (std::int64_t k = 0; k < terms; ++k) {
        const Atom product =
            s.make(mul_p, NoParams{}, {number(a, *f, i, k), number(b, *g, j, k)}, column);
        sum = s.make(add_p, NoParams{}, {sum, product}, column);
      }
      sums.push_back(sum);
    }
  }
  Shape rows = shape;
  rows[batch] = f->count * g->count;
  const ConcatenateParams all{static_cast<std::int64_t>(batch)};
  const Atom made = s.make(concatenate_p, all, std::move(sums), column.with_shape(rows));
  return s.make(reshape_p, ReshapeParams{out.shape}, {made}, out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
