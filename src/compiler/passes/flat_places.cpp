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
  Atom converted(const Atom& a) {
    if (b_.aval(a).dtype == column_.dtype) return a;
    return Atom::var(b_.add_eqn1(convert_element_type_p, Params::of(ConvertParams{column_.dtype}),
                                 {a}, column_));
  }
  /// Those outside at the nearest place from 0 to `last`.
  Atom within(const Atom& a, std::int64_t last) {
    return op(min_p, {op(max_p, {a, number(0)}), number(last)});
  }
  Atom both(const Atom& a, const Atom& b) {
    return Atom::var(b_.add_eqn1(and_p, Params(), {a, b}, condition()));
  }

 private:
  Aval condition() const { return Aval(column_.shape, DType::bool_); }

  JaxprBuilder& b_;
  const Aval column_;
};

/// The places among listed rows of an array of shape `of` that columns of indices say, of which those about dimension `dim` are
/// `columns[k]` with `axes[k] == dim`. Outside is the number of rows, but what is moved to the end of its dimension. Indices of
/// another type become this one once it is known that they are inside.
Atom flat_places(JaxprBuilder& b, const Shape& of, const Atoms& columns, const Shape& axes,
                 DType type, bool clips, bool wraps) {
  const Aval given = b.aval(columns[0]);
  Places places(b, given), flat(b, given.with_dtype(type));
  const auto first = [&] { return places.number(0); };
  std::optional<Atom> place;
  std::optional<Atom> inside;
  std::int64_t rows = 1;
  for (std::size_t dim = 0; dim < columns.size(); ++dim) {
    const auto k = static_cast<std::size_t>(
        std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(dim)) - axes.begin());
    const Atom size = places.number(of[dim]);
    rows *= of[dim];
    Atom index = columns[k];
    if (wraps) {
      const Atom is_below = places.compare(lt_p, {index, first()});
      index = places.op(select_n_p, {is_below, index, places.op(add_p, {index, size})});
    }
    if (clips) {
      index = places.within(index, of[dim] - 1);
    } else {
      const Atom is_inside =
          places.both(places.compare(ge_p, {index, first()}), places.compare(lt_p, {index, size}));
      inside = inside ? places.both(*inside, is_inside) : is_inside;
    }
    index = flat.converted(index);
    place = place ? flat.op(add_p, {flat.op(mul_p, {*place, flat.number(of[dim])}), index}) : index;
  }
  return inside ? flat.op(select_n_p, {*inside, flat.number(rows), *place}) : *place;
}

}  // namespace

Atom places_within(JaxprBuilder& b, const Atom& places, std::int64_t last) {
  const Aval given = b.aval(places).strong();
  const Atom inside = Places(b, given).within(places, last);
  return Places(b, given.with_dtype(DType::i32)).converted(inside);
}

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

Aval listed_rows(const Aval& of, std::size_t leading) {
  Shape out{1};
  for (std::size_t k = 0; k < of.shape.size(); ++k) {
    if (k < leading) out[0] *= of.shape[k];
    else out.push_back(of.shape[k]);
  }
  return of.with_shape(out);
}

Aval listed_rows(const Jaxpr& jaxpr, const Eqn& scatter) {
  return listed_rows(
      jaxpr.aval(scatter.outputs[0]),
      scatter.params.as<ScatterParams>().dimension_numbers.inserted_window_dims.size());
}

Atom scatter_at_flat_places(JaxprBuilder& b, const Eqn& scatter, const Shape& of, const Atom& rows,
                            const Atoms& columns, const Atom& updates) {
  ScatterParams params = scatter.params.as<ScatterParams>();
  ScatterDimensionNumbers& d = params.dimension_numbers;
  const Atom place =
      flat_places(b, of, columns, d.scatter_dims_to_operand_dims, b.aval(columns[0]).dtype,
                  params.mode == GatherScatterMode::clip, params.wraps);
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = Shape{0};
  params.indices_are_sorted = params.wraps = false;
  return Atom::var(b.add_eqn1(*scatter.primitive, Params::of(std::move(params)),
                              {rows, place, updates}, b.aval(rows), Effect::none, scatter.where));
}

bool looks_up_rows(const Jaxpr& jaxpr, const Eqn& gather) {
  const auto& p = gather.params.as<GatherParams>();
  const GatherDimensionNumbers& d = p.dimension_numbers;
  const Shape& operand = jaxpr.aval(gather.inputs[0]).shape;
  const Aval& vectors = jaxpr.aval(gather.inputs[1]);
  const Aval& out = jaxpr.aval(gather.outputs[0]);
  const std::size_t leading = d.collapsed_slice_dims.size(), window = operand.size() - leading;
  if (leading < 2 || !d.operand_batching_dims.empty() || out.size() == 0 ||
      vectors.shape.back() != static_cast<std::int64_t>(leading) ||
      (vectors.dtype != DType::i32 && vectors.dtype != DType::i64))
    return false;
  for (std::size_t k = 0; k < operand.size(); ++k) {
    const auto dim = static_cast<std::int64_t>(k);
    if (k < leading ? d.collapsed_slice_dims[k] != dim || !d.start_index_map.contains(dim)
                    : p.slice_sizes[k] != operand[k])
      return false;
  }
  for (std::size_t k = 0; k < window; ++k) {
    if (d.offset_dims[k] != static_cast<std::int64_t>(out.shape.size() - window + k)) return false;
  }
  return listed_rows(jaxpr.aval(gather.inputs[0]), leading).shape[0] <
         std::numeric_limits<std::int32_t>::max();
}

Atom gather_at_flat_places(JaxprBuilder& b, const Eqn& gather, const Atom& operand,
                           const Atoms& columns, const Aval& out) {
  GatherParams params = gather.params.as<GatherParams>();
  GatherDimensionNumbers& d = params.dimension_numbers;
  const Aval of = b.aval(operand), rows = listed_rows(of, columns.size());
  const Atom place = flat_places(b, of.shape, columns, d.start_index_map, DType::i32,
                                 params.mode != GatherScatterMode::fill_or_drop, false);
  d.collapsed_slice_dims = d.start_index_map = Shape{0};
  Shape window{1};
  for (std::size_t k = 1; k < rows.shape.size(); ++k) window.push_back(rows.shape[k]);
  params.slice_sizes = window;
  params.indices_are_sorted = false;
  const Atom listed = Atom::var(b.add_eqn1(reshape_p, Params::of(ReshapeParams{rows.shape}),
                                           {operand}, rows, Effect::none, gather.where));
  return Atom::var(b.add_eqn1(gather_p, Params::of(std::move(params)), {listed, place}, out,
                              Effect::none, gather.where));
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
