// Composition of index-to-value generators.
#include "compiler/emit/generator.hpp"

#include <algorithm>
#include <set>

#include "compiler/forms.hpp"
#include "compiler/known_ranges.hpp"
#include "core/concrete.hpp"
#include "core/integers.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

Point origin(CodeGen& gen, const Shape& shape) {
  return {shape, Index(shape.size(), gen.index(0)), gen.index(0)};
}

bool is_zero(Scalar index) {
  std::int64_t known = 1;
  return CodeGen::known_constant(index, known) && known == 0;
}
/// Whether the point is the first element of an array.
bool is_first(const Point& at) {
  return at.flat ? is_zero(*at.flat) : std::all_of(at.indices->begin(), at.indices->end(), is_zero);
}

}  // namespace

Generator::Key Generator::key(Var v, const Point& at) const {
  Key k{v, gen_.active(), {}};
  if (is_first(at)) return k;  // known by either: a fold's only result is, and is read by the other
  if (at.flat) {
    k.index = {nullptr, at.flat->value()};
  } else {
    for (const Scalar s : *at.indices) k.index.push_back(s.value());
  }
  return k;
}

Scalar Generator::flat(const Point& at) {
  return at.flat ? *at.flat : gen_.flat_index(at.shape, *at.indices);
}

Index Generator::indices(const Point& at) {
  if (at.indices) return *at.indices;
  Index out(at.shape.size(), gen_.index(0));
  Scalar rest = *at.flat;
  std::int64_t left = at.shape.num_elements();
  for (std::size_t d = 0; d < at.shape.size(); ++d) {
    if (at.shape[d] == 1) continue;
    left /= at.shape[d];
    if (left == 1) {
      out[d] = rest;
      break;
    }
    const Scalar stride = gen_.index(left);
    out[d] = gen_.div(rest, stride);
    rest = gen_.rem(rest, stride);
  }
  return out;
}

// Groups of dimensions with equal products: all but 1 to 1 groups need indices that are known.
std::optional<Index> Generator::split_constants(const Point& at, const Shape& shape) {
  Index to(shape.size(), gen_.index(0));
  std::size_t i = 0, d = 0;
  while (true) {
    while (i < at.shape.size() && at.shape[i] == 1) ++i;
    while (d < shape.size() && shape[d] == 1) ++d;
    if (i == at.shape.size() || d == shape.size()) break;
    std::size_t i2 = i + 1, d2 = d + 1;
    std::int64_t m = at.shape[i], n = shape[d];
    while (m != n) {
      if (m < n && i2 < at.shape.size()) m = detail::wrapping_mul(m, at.shape[i2++]);
      else if (n < m && d2 < shape.size()) n = detail::wrapping_mul(n, shape[d2++]);
      else return std::nullopt;
    }
    if (i2 == i + 1 && d2 == d + 1) {
      to[d] = (*at.indices)[i];
    } else {
      std::int64_t flat = 0, k = 0;
      for (std::size_t a = i; a < i2; ++a) {
        if (!CodeGen::known_constant((*at.indices)[a], k)) return std::nullopt;
        flat = flat * at.shape[a] + k;
      }
      for (std::size_t a = d2; a-- > d;) {
        to[a] = gen_.index(flat % shape[a]);
        flat /= shape[a];
      }
    }
    i = i2;
    d = d2;
  }
  return to;
}

// Dimensions of the new shape that are products of dimensions of the old one keep their indices;
// anything else is known by its row-major number only.
Point Generator::reshaped(const Point& at, const Shape& shape) {
  Point out{shape, std::nullopt, at.flat};
  if (!at.indices) return out;
  if (auto split = split_constants(at, shape)) {
    out.indices = std::move(split);
    return out;
  }
  Index to(shape.size(), gen_.index(0));
  std::size_t i = 0;
  const auto skip_ones = [&] {
    while (i < at.shape.size() && at.shape[i] == 1) ++i;
  };
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    std::int64_t n = 1;
    Scalar index = gen_.index(0);
    for (skip_ones(); n < shape[d] && i < at.shape.size(); ++i, skip_ones()) {
      index = gen_.add(gen_.mul(index, gen_.index(at.shape[i])), (*at.indices)[i]);
      n *= at.shape[i];
    }
    if (n != shape[d]) {
      out.flat = flat(at);
      return out;
    }
    to[d] = index;
  }
  out.indices = std::move(to);
  return out;
}

Scalar Generator::literal(const Array& scalar) {
  const DType dtype = scalar.dtype();
  if (is_float(dtype)) return gen_.constant(dtype, scalar.item<double>());
  if (dtype == DType::u64)
    return gen_.constant_int(dtype, static_cast<std::int64_t>(scalar.item<std::uint64_t>()));
  return gen_.constant_int(dtype, scalar.item<std::int64_t>());
}

void Generator::define(Var v, const Point& at, Scalar value) { known_[key(v, at)] = value; }

Scalar Generator::operator()(const Atom& atom, const Point& at) {
  return atom.is_literal() ? literal(atom.literal()) : (*this)(atom.var(), at);
}

Scalar Generator::operator()(Var v, const Point& at) {
  const Key k = key(v, at);
  if (const auto found = known_.find(k); found != known_.end() && gen_.is_live(found->second))
    return found->second;
  const int e = producer_[static_cast<std::size_t>(v)];
  Scalar value;
  if (e >= 0 && kernel_.members.contains(e)) {
    value = compute(scope_.jaxpr.eqns()[static_cast<std::size_t>(e)], v, at);
  } else {
    value = outside(v, at);
  }
  known_[k] = value;
  return value;
}

Scalar Generator::compute(const Eqn& eqn, Var v, const Point& at) {
  switch (form_of(jaxpr(), eqn)) {
    case Form::element: return element(eqn, v, at);
    case Form::reshape:
      return (*this)(eqn.inputs[0], reshaped(at, jaxpr().aval(eqn.inputs[0]).shape));
    case Form::index: return at_index(eqn, v, at);
    default: return other(eqn, v, at);
  }
}

// What a rule makes of the operands' elements: of all results, since it makes these together.
Scalar Generator::element(const Eqn& eqn, Var v, const Point& at) {
  Scalars operands;
  for (const Atom& a : eqn.inputs) {
    const Shape& shape = jaxpr().aval(a).shape;
    operands.push_back((*this)(a, shape == at.shape ? at : origin(gen_, shape)));
  }
  const auto* rule = std::get_if<Lowering::Element>(&lowering_of(*eqn.primitive).form);
  const Scalars results = rule != nullptr
                              ? rule->f(gen_, eqn.params, operands)
                              : Scalars{gen_.bitcast(operands[0], jaxpr().aval(v).dtype)};
  Scalar result;
  for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
    if (eqn.outputs[i] == v) result = results[i];
    else define(eqn.outputs[i], at, results[i]);
  }
  return result;
}

// What a rule reads of the operands at indices of its own.
Scalar Generator::at_index(const Eqn& eqn, Var v, const Point& at) {
  if (eqn.primitive == &broadcast_in_dim_p) {
    const Atom& x = eqn.inputs[0];
    const Aval& from = jaxpr().aval(x);
    if (from.size() == 1) return (*this)(x, origin(gen_, from.shape));
    // Dimensions that are added move nothing: the place of a fold stays one.
    if (from.size() == jaxpr().aval(v).size()) return (*this)(x, reshaped(at, from.shape));
  }
  if (eqn.primitive == &concatenate_p) {
    if (const auto part = only_part(eqn, at)) return *part;
  }
  if (const auto column = column_at(eqn, at)) return *column;
  if (const auto column = column_looked_up(eqn, v, at)) return *column;
  return with_params(eqn, eqn.params, indices(at));
}

std::vector<Source> Generator::sources_of(const Eqn& eqn) {
  std::vector<Source> sources;
  for (const Atom& a : eqn.inputs) {
    const Aval& aval = jaxpr().aval(a);
    sources.emplace_back(aval.shape, aval.dtype, [this, a](const Index& index) {
      const Shape& shape = jaxpr().aval(a).shape;
      return (*this)(
          a, shape.num_elements() == 1 ? origin(gen_, shape) : Point{shape, index, std::nullopt});
    });
  }
  return sources;
}

Scalar Generator::with_params(const Eqn& eqn, const Params& params, const Index& at) {
  return std::get<Lowering::AtIndex>(lowering_of(*eqn.primitive).form)
      .f(gen_, params, sources_of(eqn), at);
}

// One column of an array with short rows, or of small matrices, that lies in memory: all of them are read together.
std::optional<Scalar> Generator::column_at(const Eqn& eqn, const Point& at) {
  if (!plan_.emit.load_columns || eqn.primitive != &slice_p || !eqn.inputs[0].is_var() ||
      gen_.lanes() == 1 || !reads_arrays())
    return {};
  const Var x = eqn.inputs[0].var();
  const Aval& of = scope_.jaxpr.aval(x);
  const auto& p = eqn.params.as<SliceParams>();
  if (in_memory(x) < 0) return {};
  if (stride_of(p, of.shape.size() - 1) > 1) return column_of_steps(eqn, at);
  const bool plain = std::all_of(p.strides.begin(), p.strides.end(), [](auto s) { return s == 1; });
  if (!plain) return {};
  Index index = indices(at);
  std::int64_t row = 1, column = 0;  // elements of what is the same for all lanes
  std::size_t d = index.size();
  for (; d > 1 && p.limit_indices[d - 1] - p.start_indices[d - 1] == 1; --d) {
    column += p.start_indices[d - 1] * row;
    row *= of.shape[d - 1];
    index[d - 1] = gen_.index(0);
  }
  if (row < 2 || row > static_cast<std::int64_t>(kMostWoven)) return {};
  if (row > kSmallMatrix && 4 * slices_of(in_memory(x)) < row) return {};
  for (; d > 0; --d) index[d - 1] = gen_.add(index[d - 1], gen_.index(p.start_indices[d - 1]));
  const Point first{of.shape, index, std::nullopt};
  if (!gen_.goes_by_rows(flat(first), static_cast<int>(row))) return {};
  return columns(x, first, static_cast<int>(row))[static_cast<std::size_t>(column)];
}

// Of what is put together, the part that all lanes are known to lie in: of others not even functions are called.
std::optional<Scalar> Generator::only_part(const Eqn& eqn, const Point& at) {
  const auto d = static_cast<std::size_t>(eqn.params.as<ConcatenateParams>().dimension);
  Index index = indices(at);
  const IndexRange range = CodeGen::lies_in(index[d]);
  if (!range.known()) return {};
  std::int64_t end = 0;
  for (const Atom& a : eqn.inputs) {
    const Shape& shape = jaxpr().aval(a).shape;
    const std::int64_t start = end;
    end += shape[d];
    if (range.low < start || range.high >= end) continue;
    index[d] = shape[d] == 1 ? gen_.index(0) : gen_.sub(index[d], gen_.index(start));
    return (*this)(
        a, shape.num_elements() == 1 ? origin(gen_, shape) : Point{shape, index, std::nullopt});
  }
  return {};
}

// Of slices with the same steps that begin side by side, what lies between two steps is a row, of which each has a column.
std::optional<Scalar> Generator::column_of_steps(const Eqn& eqn, const Point& at) {
  const auto& p = eqn.params.as<SliceParams>();
  const Shape& out = scope_.jaxpr.aval(eqn.outputs[0]).shape;
  const std::size_t last = out.size() - 1;
  const std::int64_t step = p.strides[last], start = p.start_indices[last];
  if (out[last] < 2 || step > static_cast<std::int64_t>(kMostWoven)) return {};
  std::set<std::int64_t> starts;
  for (const int e : kernel_.members) {
    const Eqn& other = scope_.jaxpr.eqns()[static_cast<std::size_t>(e)];
    if (other.primitive != &slice_p || !(other.inputs[0] == eqn.inputs[0])) continue;
    const auto& q = other.params.as<SliceParams>();
    if (q.strides == p.strides && scope_.jaxpr.aval(other.outputs[0]).shape == out &&
        std::equal(q.start_indices.begin(), q.start_indices.end() - 1, p.start_indices.begin()))
      starts.insert(q.start_indices[last]);
  }
  std::int64_t begin = *starts.begin(), end = begin;
  for (const std::int64_t s : starts) {
    if (s > start && (s != end || end - begin == step)) break;
    if (s != end || end - begin == step) begin = end = s;
    ++end;
  }
  if (end - begin < 2) return {};
  Index index = indices(at);
  for (std::size_t d = 0; d < index.size(); ++d)
    index[d] = gen_.add(gen_.mul(index[d], gen_.index(p.strides[d])),
                        gen_.index(d == last ? begin : p.start_indices[d]));
  const Var x = eqn.inputs[0].var();
  const Point first{scope_.jaxpr.aval(x).shape, index, std::nullopt};
  if (!gen_.goes_by_rows(flat(first), static_cast<int>(step))) return {};
  return columns(x, first, static_cast<int>(end - begin))[static_cast<std::size_t>(start - begin)];
}

// One column of short rows that lanes look up, each its own: rows are read at once.
std::optional<Scalar> Generator::column_looked_up(const Eqn& eqn, Var v, const Point& at) {
  if (!plan_.emit.load_columns || gen_.lanes() == 1 || !reads_arrays() ||
      !kernel_.looked_up.contains(v))
    return {};
  const Var x = eqn.inputs[0].var();
  const Aval& of = scope_.jaxpr.aval(x);
  const std::int64_t k = of.shape.back();
  const Index index = indices(at);
  if (in_memory(x) < 0 || !CodeGen::known_bounds(index.back(), index.back())) return {};
  const auto column =
      static_cast<std::size_t>(CodeGen::known_bounds(index.back(), index.back())->first);
  std::vector<Source> sources = sources_of(eqn);
  sources[0] = Source(of.shape, of.dtype, [&, this](const Index& to) {
    Shape rows = of.shape;
    rows.pop_back();
    Index row = to;
    row.pop_back();
    return gen_.look_up_columns(pointer(in_memory(x)), of.dtype,
                                flat(Point{rows, row, std::nullopt}), static_cast<int>(k))[column];
  });
  return std::get<Lowering::AtIndex>(lowering_of(*eqn.primitive).form)
      .f(gen_, eqn.params, sources, index);
}

// How many parts of an array the kernel takes.
std::int64_t Generator::slices_of(int value) {
  if (slices_.empty()) {
    for (const int e : kernel_.members) {
      const Eqn& eqn = scope_.jaxpr.eqns()[static_cast<std::size_t>(e)];
      if (eqn.primitive == &slice_p && eqn.inputs[0].is_var())
        ++slices_[in_memory(eqn.inputs[0].var())];
    }
  }
  return slices_[value];
}

Scalars Generator::columns(Var x, const Point& first, int k) {
  return gen_.load_columns(pointer(in_memory(x)), scope_.jaxpr.aval(x).dtype, flat(first), k);
}

int Generator::in_memory(Var x) const {
  const int e = producer_[static_cast<std::size_t>(x)];
  if (e < 0 || !kernel_.members.contains(e)) return scope_.value_of[static_cast<std::size_t>(x)];
  const Eqn& eqn = scope_.jaxpr.eqns()[static_cast<std::size_t>(e)];
  return eqn.primitive == &reshape_p && eqn.inputs[0].is_var() ? in_memory(eqn.inputs[0].var())
                                                               : -1;
}

Scalar Generator::outside(Var v, const Point& at) {
  const int from = scope_.value_of[static_cast<std::size_t>(v)];
  if (from < 0) throw InternalError("a fused kernel reads a value that is not in memory");
  const Scalar index = flat(at);
  if (next_ != nullptr) ask_for_next(from, index);
  return gen_.known_to_lie_in(gen_.load(pointer(from), scope_.jaxpr.aval(v).dtype, index),
                              known_range(scope_.jaxpr, producer_, Atom::var(v)));
}

void Generator::ask_for_next(int value, Scalar index) {
  constexpr std::int64_t kLine = 64;
  const auto found = next_->find(value);
  if (found == next_->end() || gen_.lanes() == 1) return;
  const DType dtype = plan_.values[static_cast<std::size_t>(value)].aval.dtype;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  for (std::int64_t at = 0; at < gen_.lanes() * size; at += kLine)
    gen_.prefetch(pointer(value), dtype, gen_.add(index, gen_.index(found->second + at / size)));
}

Scalar Generator::other(const Eqn& eqn, Var, const Point&) {
  throw InternalError("equation of primitive '" + std::string(eqn.primitive->name()) +
                      "' cannot be fused");
}

void Generator::store_columns(Var root, const Point& at, int k,
                              const std::function<Scalar(int)>& column) {
  const int value = scope_.value_of[static_cast<std::size_t>(root)];
  const DType dtype = plan_.values[static_cast<std::size_t>(value)].aval.dtype;
  const int e = producer_[static_cast<std::size_t>(root)];
  if (!stacks(scope_.jaxpr, scope_.jaxpr.eqns()[static_cast<std::size_t>(e)]))
    return gen_.store_columns(pointer(value), dtype, gen_.mul(flat(at), gen_.index(k)), k, column);
  const Scalar place = flat(at);
  for (int i = 0; i < k; ++i) {
    const Scalar to = gen_.add(place, gen_.index(i * at.shape.num_elements()));
    gen_.store(pointer(value), dtype, to, column(i));
  }
}

void Generator::store(int value, const Point& at, Scalar x) {
  const Value& v = plan_.values[static_cast<std::size_t>(value)];
  gen_.store(pointer(value), v.aval.dtype, flat(at), x);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
