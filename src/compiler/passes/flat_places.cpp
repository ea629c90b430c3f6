// Places of index vectors, counted in rows (flat_places.hpp).
#include "compiler/passes/flat_places.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/passes/numbers.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

/// Arithmetic on the columns of indices.
class Places {
 public:
  Places(JaxprBuilder& b, const Aval& column) : b_(b), column_(column) {}

  Atom number(std::int64_t x) { return filled(b_, x, column_); }
  Atom op(const PrimitiveBase& primitive, Atoms inputs) {
    return Atom::var(b_.add_eqn1(primitive, Params(), std::move(inputs), column_));
  }
  Atom compare(const PrimitiveBase& primitive, Atoms inputs) {
    return Atom::var(b_.add_eqn1(primitive, Params(), std::move(inputs), condition()));
  }
  Atom both(const Atom& a, const Atom& b) {
    return Atom::var(b_.add_eqn1(and_p, Params(), {a, b}, condition()));
  }

 private:
  Aval condition() const { return Aval(column_.shape, DType::bool_); }

  JaxprBuilder& b_;
  const Aval column_;
};

}  // namespace

bool has_flat_places(const Jaxpr& jaxpr, const Eqn& scatter, const Eqn& indices) {
  const auto& d = scatter.params.as<ScatterParams>().dimension_numbers;
  const Shape& operand = jaxpr.aval(scatter.inputs[0]).shape;
  const Shape& updates = jaxpr.aval(scatter.inputs[2]).shape;
  const Aval& vectors = jaxpr.aval(scatter.inputs[1]);
  const auto leading = d.inserted_window_dims.size();
  if (indices.primitive != &concatenate_p || vectors.ndim() != 2 || leading < 2 ||
      indices.inputs.size() != leading || !d.operand_batching_dims.empty() ||
      (vectors.dtype != DType::i32 && vectors.dtype != DType::i64))
    return false;
  for (std::size_t k = 0; k < leading; ++k) {
    const auto dim = static_cast<std::int64_t>(k);
    const Aval& column = jaxpr.aval(indices.inputs[k]);
    if (d.inserted_window_dims[k] != dim || !d.scatter_dims_to_operand_dims.contains(dim) ||
        column.shape != Shape{vectors.shape[0], 1} || operand[k] == 0)
      return false;
  }
  // Windows are whole rows.
  const std::size_t row = operand.size() - leading;
  if (updates.size() != row + 1 || d.update_window_dims.contains(0)) return false;
  for (std::size_t k = 0; k < row; ++k) {
    if (updates[k + 1] != operand[leading + k]) return false;
  }
  return listed_rows(jaxpr, scatter).shape[0] < std::numeric_limits<std::int32_t>::max();
}

Aval listed_rows(const Jaxpr& jaxpr, const Eqn& scatter) {
  const auto& d = scatter.params.as<ScatterParams>().dimension_numbers;
  const Aval& operand = jaxpr.aval(scatter.outputs[0]);
  Shape out{1};
  for (std::size_t k = 0; k < operand.shape.size(); ++k) {
    if (k < d.inserted_window_dims.size()) out[0] *= operand.shape[k];
    else out.push_back(operand.shape[k]);
  }
  return operand.with_shape(out);
}

Atom scatter_at_flat_places(JaxprBuilder& b, const Eqn& scatter, const Shape& of, const Atom& rows,
                            const Atoms& columns, const Atom& updates) {
  const auto& old = scatter.params.as<ScatterParams>();
  const auto& d = old.dimension_numbers;
  Places places(b, b.aval(columns[0]));
  const auto first = [&] { return places.number(0); };
  Atom place = first();
  std::optional<Atom> inside;
  const std::size_t leading = columns.size();
  for (std::size_t dim = 0; dim < leading; ++dim) {
    const auto& to = d.scatter_dims_to_operand_dims;
    const auto k = static_cast<std::size_t>(
        std::find(to.begin(), to.end(), static_cast<std::int64_t>(dim)) - to.begin());
    const Atom size = places.number(of[dim]);
    Atom index = columns[k];
    if (old.wraps) {
      const Atom is_below = places.compare(lt_p, {index, first()});
      index = places.op(select_n_p, {is_below, index, places.op(add_p, {index, size})});
    }
    if (old.mode == GatherScatterMode::clip) {
      index = places.op(max_p, {index, first()});
      index = places.op(min_p, {index, places.number(of[dim] - 1)});
    } else {
      const Atom is_inside =
          places.both(places.compare(ge_p, {index, first()}), places.compare(lt_p, {index, size}));
      inside = inside ? places.both(*inside, is_inside) : is_inside;
    }
    place = dim == 0 ? index : places.op(add_p, {places.op(mul_p, {place, size}), index});
  }
  const Aval result = b.aval(rows);
  if (inside) place = places.op(select_n_p, {*inside, places.number(result.shape[0]), place});
  ScatterParams params = old;
  params.dimension_numbers.inserted_window_dims =
      params.dimension_numbers.scatter_dims_to_operand_dims = Shape{0};
  params.indices_are_sorted = params.wraps = false;
  return Atom::var(b.add_eqn1(*scatter.primitive, Params::of(std::move(params)),
                              {rows, place, updates}, result, Effect::none, scatter.where));
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
