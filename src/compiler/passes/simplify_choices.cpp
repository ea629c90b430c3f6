// One element of each row: what is added to zeros at one place in every row is a comparison of places with positions, which
// fuses with what reads the rows, and goes by blocks of rows as that does. So are gradients of what takes one element of
// each row, as losses of classifiers take the log-probability of each example's label.
//
//   scatter_add(zeros(n, k), i, y)  ->  where(arange(k) == i[:, None], y[:, None], 0)
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/progression.hpp"
#include "compiler/passes/simplify.hpp"
#include "core/concrete.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// One place in each row of an array, counted along `axis`; the other axes are rows, `rows` their sizes.
struct Choice {
  std::size_t axis;
  Shape rows, row_axes;
  Atom places;  ///< of any integer type, in the shape `rows`
};

/// What belongs to each row, in the shape of all rows.
Atom by_rows(Simplifier& s, const Atom& x, const Shape& rows) {
  const Aval aval = s.aval(x);
  return s.make(reshape_p, ReshapeParams{rows}, {x}, aval.with_shape(rows).strong());
}

/// The choice that a gather makes with these parameters, of an array of shape `of`.
std::optional<Choice> one_of_each_row(Simplifier& s, const Shape& of, const Atom& at,
                                      const GatherParams& p) {
  const GatherDimensionNumbers& d = p.dimension_numbers;
  const Shape places = s.aval(at).shape;
  if (of.size() < 2 || at.is_literal() || p.slice_sizes.num_elements() != 1) return std::nullopt;
  Atoms columns{at};
  if (d.start_index_map.size() > 1) {
    const Eqn* const stack = s.defined_by(at, concatenate_p);
    if (stack == nullptr || stack->inputs.size() != d.start_index_map.size() ||
        stack->params.as<ConcatenateParams>().dimension + 1 !=
            static_cast<std::int64_t>(places.size()))
      return std::nullopt;
    columns = stack->inputs;
  }
  constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> dimension(of.size(), kNone);  // of the places, by axis
  for (std::size_t i = 0; i < d.operand_batching_dims.size(); ++i)
    dimension[static_cast<std::size_t>(d.operand_batching_dims[i])] =
        static_cast<std::size_t>(d.start_indices_batching_dims[i]);
  std::optional<std::pair<std::size_t, Atom>> chosen;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const auto axis = static_cast<std::size_t>(d.start_index_map[k]);
    const auto counted = counted_dimension(s, columns[k]);
    if (counted && *counted + 1 < places.size() && places[*counted] == of[axis]) {
      dimension[axis] = *counted;
    } else if (!chosen && s.aval(columns[k]).shape.back() == 1) {
      chosen = {axis, columns[k]};
    } else {
      return std::nullopt;
    }
  }
  if (!chosen || dimension[chosen->first] != kNone) return std::nullopt;
  Choice out{chosen->first, {}, {}, chosen->second};
  std::size_t next = 0;  // rows are in order, and there is one place for each
  for (std::size_t a = 0; a < of.size(); ++a) {
    if (a == out.axis) continue;
    if (dimension[a] == kNone || dimension[a] < next) return std::nullopt;
    next = dimension[a] + 1;
    out.rows.push_back(of[a]);
    out.row_axes.push_back(static_cast<std::int64_t>(a));
  }
  if (s.aval(out.places).size() != out.rows.num_elements()) return std::nullopt;
  out.places = by_rows(s, out.places, out.rows);
  return out;
}

/// The same places as 32-bit integers: those outside of an axis of this size still are, or the nearest inside.
Atom in_32_bits(Simplifier& s, Atom places, std::int64_t size, bool clip) {
  const Aval aval = s.aval(places).strong();
  const auto bound = [&](const PrimitiveBase& p, std::int64_t by) {
    places = s.make(p, Params::of(NoParams{}), {places, s.filled(by, aval)}, aval);
  };
  const bool wide = size_of(aval.dtype) >= size_of(DType::i32);
  const bool same = aval.dtype == DType::i32;
  if (wide && (clip || !same)) bound(min_p, clip ? size - 1 : size);
  if (!is_unsigned_integer(aval.dtype) && (clip || (wide && !same))) bound(max_p, clip ? 0 : -1);
  const Aval out{aval.shape, DType::i32, false};
  if (!same) places = s.make(convert_element_type_p, ConvertParams{DType::i32}, {places}, out);
  if (clip && !wide) places = s.make(min_p, NoParams{}, {places, s.filled(size - 1, out)}, out);
  return places;
}

/// Where each row of an array of shape `of` has its place.
Atom is_chosen(Simplifier& s, const Choice& c, const Atom& places, const Shape& of) {
  const Aval counts{of, DType::i32, false};
  const IotaParams along{DType::i32, of, static_cast<std::int64_t>(c.axis)};
  const Atom here = s.make(iota_p, along, {}, counts);
  const Atom there =
      s.make(broadcast_in_dim_p, BroadcastInDimParams{of, c.row_axes}, {places}, counts);
  return s.make(eq_p, NoParams{}, {here, there}, {of, DType::bool_, false});
}

// Of a row: where nobody writes it down (x + zeros.at[i].add(y), rows of 1,000: 0.45 of the time), and where it is stored:
// rows of 32 take 0.5 to 0.7, of 100 f64 1.6 of the time of filling memory with zeros.
constexpr std::int64_t kLongest = 4096, kLongestStored = 32;
constexpr std::int64_t kFew = 1 << 12;  // elements

}  // namespace

std::vector<bool> values_in_passing(const Jaxpr& jaxpr) {
  const std::vector<Eqn>& eqns = jaxpr.eqns();
  const bool any = std::any_of(eqns.begin(), eqns.end(), is_scatter);
  std::vector<bool> passes(static_cast<std::size_t>(jaxpr.num_vars()), any);
  if (!any) return passes;
  const auto is_wanted = [&](const Atom& a) {
    if (a.is_var()) passes[static_cast<std::size_t>(a.var())] = false;
  };
  for (const Eqn& e : eqns) {
    if (is_elementwise(e) || form_of(jaxpr, e) == Form::reduction) continue;
    std::for_each(e.inputs.begin(), e.inputs.end(), is_wanted);
  }
  std::for_each(jaxpr.outs().begin(), jaxpr.outs().end(), is_wanted);
  return passes;
}

// Into an array whose elements are all the same number, of a type that kernels compute with: small_floats was before.
std::optional<Atom> scatter_to_choices(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto& p = e.params.as<ScatterParams>();
  const Array* const number = s.splat(e.inputs[0]);
  if (number == nullptr || p.wraps || (out.dtype != DType::f32 && out.dtype != DType::f64))
    return std::nullopt;
  const Array before = *number;
  const GatherParams read = windows_of(p, out.shape, s.aval(e.inputs[2]).shape);
  const auto c = one_of_each_row(s, out.shape, e.inputs[1], read);
  if (!c || out.shape[c->axis] > (s.result_in_passing() ? kLongest : kLongestStored))
    return std::nullopt;
  // Short rows that are folded, too few to be taken apart, are better stored (256 x 3: 0.7 of the time).
  if (out.shape[c->axis] <= kShortRow && out.size() < kFew && s.result_folded())
    return std::nullopt;
  const Aval row = out.with_shape(c->rows).strong();
  Atom y = by_rows(s, e.inputs[2], c->rows);
  if (e.primitive == &scatter_add_p) y = s.make(add_p, NoParams{}, {s.filled(before, row), y}, row);
  const Atom places =
      in_32_bits(s, c->places, out.shape[c->axis], p.mode == GatherScatterMode::clip);
  const Atom there = is_chosen(s, *c, places, out.shape);
  const Atom rows =
      s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, c->row_axes}, {y}, out.strong());
  return s.make(select_n_p, NoParams{}, {there, s.filled(before, out), rows}, out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
