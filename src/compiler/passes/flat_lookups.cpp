// Short rows that are looked up by several indices each are looked up by one: vectors of lanes compute it for as many rows,
// while single instructions combine indices, and compare each with its dimension, row by row.
//
//   let k = concatenate[dimension=1] i j, y:f32[n,3] = gather[slice_sizes=(1,1,3)] x k
//   ->   let p = add (mul (clamp i) 256) (clamp j), y = gather[slice_sizes=(1,3)] (reshape[(65536,3)] x) p
//
// One index that vectors compute anyway, or that is looked up again for each of several rows, they bring within bounds, too.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/known_ranges.hpp"
#include "compiler/passes/flat_places.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kLeast = 64;     // rows that are looked up
constexpr std::int64_t kLongest = 256;  // bytes of a row: of longer ones the places do not matter
constexpr std::size_t kMostEquations = 20'000;

/// The last place that a gather may look up along the axis that its indices are about.
std::int64_t last_place(const Jaxpr& jaxpr, const Eqn& gather) {
  const auto& p = gather.params.as<GatherParams>();
  const auto axis = static_cast<std::size_t>(p.dimension_numbers.start_index_map[0]);
  return jaxpr.aval(gather.inputs[0]).shape[axis] - p.slice_sizes[axis];
}

bool is_worth_it(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.primitive != &gather_p || !eqn.inputs[0].is_var() || !eqn.inputs[1].is_var())
    return false;
  const Aval& out = jaxpr.aval(eqn.outputs[0]);
  const Aval& vectors = jaxpr.aval(eqn.inputs[1]);
  // SSE2 has no products of 64 bits, and no comparisons.
  const bool is_slow =
      vectors.dtype == DType::i64 && runtime::target_isa() == runtime::Isa::generic;
  if (is_slow || !looks_up_rows(jaxpr, eqn)) return false;
  const std::int64_t rows = vectors.size() / vectors.shape.back(), row = out.size() / rows;
  return rows >= kLeast && row > 1 &&
         row * static_cast<std::int64_t>(size_of(out.dtype)) <= kLongest;
}

/// Whether vectors compute what has this, which takes more than one instruction for each: it is stored then.
bool is_computed(const Jaxpr& jaxpr, const std::vector<int>& producers, const Atom& a,
                 int so_far = 0) {
  const int p = a.is_var() ? producers[static_cast<std::size_t>(a.var())] : -1;
  if (p < 0) return false;
  const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(p)];
  const Form form = form_of(jaxpr, eqn);
  if (form != Form::element && form != Form::reshape && eqn.primitive != &broadcast_in_dim_p)
    return false;
  if (form == Form::element) so_far += element_cost(eqn);
  return so_far > kLittleForPlace ||
         std::any_of(eqn.inputs.begin(), eqn.inputs.end(), [&](const Atom& x) {
           return jaxpr.aval(x).size() == jaxpr.aval(a).size() &&
                  is_computed(jaxpr, producers, x, so_far);
         });
}

/// Whether the places of a gather, one index each, are better brought within bounds by vectors before they are looked up:
/// single instructions do so for each row, and for each of those that are looked up at the same place.
bool is_worth_bounding(const Jaxpr& jaxpr, const std::vector<int>& producers, const Eqn& eqn) {
  constexpr std::int64_t kOften = 8;  // rows for each place
  if (eqn.primitive != &gather_p || !eqn.inputs[1].is_var() || form_of(jaxpr, eqn) != Form::index)
    return false;
  const auto& p = eqn.params.as<GatherParams>();
  const Aval &places = jaxpr.aval(eqn.inputs[1]), &out = jaxpr.aval(eqn.outputs[0]);
  const std::int64_t row = row_at_place(jaxpr, eqn);
  if (p.mode == GatherScatterMode::fill_or_drop ||
      p.dimension_numbers.start_index_map.size() != 1 ||
      (places.dtype != DType::i32 && places.dtype != DType::i64) || places.size() < kLeast ||
      out.size() == 0 || window_of(eqn).num_elements() == 1 ||
      last_place(jaxpr, eqn) >= INT32_MAX ||
      row * static_cast<std::int64_t>(size_of(out.dtype)) > kLongestAtPlace)
    return false;
  const IndexRange known = known_range(jaxpr, producers, eqn.inputs[1]);
  if (known.low >= 0 && known.high <= last_place(jaxpr, eqn)) return false;
  return out.size() / (row * places.size()) >= kOften ||
         is_computed(jaxpr, producers, eqn.inputs[1]);
}

/// The index vectors taken apart into columns.
Atoms columns_of(JaxprBuilder& b, const Atom& vectors) {
  Atoms columns;
  for (std::int64_t k = 0; k < b.aval(vectors).shape.back(); ++k)
    columns.push_back(column(b, vectors, k));
  return columns;
}

/// Whether an equation puts index vectors together of columns, one for each index.
bool joins_columns(const Jaxpr& jaxpr, const Eqn& eqn) {
  const Shape& vectors = jaxpr.aval(eqn.outputs[0]).shape;
  return eqn.primitive == &concatenate_p &&
         eqn.params.as<ConcatenateParams>().dimension + 1 ==
             static_cast<std::int64_t>(vectors.size()) &&
         std::all_of(eqn.inputs.begin(), eqn.inputs.end(),
                     [&](const Atom& a) { return jaxpr.aval(a).shape.back() == 1; });
}

}  // namespace

bool has_lookups(const Jaxpr& jaxpr) {
  return detail::any_program(jaxpr, [](const Jaxpr& j) {
    return std::any_of(j.eqns().begin(), j.eqns().end(),
                       [](const Eqn& e) { return e.primitive == &gather_p; });
  });
}

Jaxpr flatten_lookups(const Jaxpr& jaxpr) {
  if (jaxpr.eqns().size() > kMostEquations) return jaxpr;
  bool changed = false;
  const std::vector<int> producers = detail::producers(jaxpr);
  JaxprBuilder b;
  detail::Renaming atoms(jaxpr);
  atoms.push_inputs(b);
  for (const Eqn& e : jaxpr.eqns()) {
    if (is_worth_it(jaxpr, e)) {
      const int p = producers[static_cast<std::size_t>(e.inputs[1].var())];
      const Eqn* const joined = p < 0 ? nullptr : &jaxpr.eqns()[static_cast<std::size_t>(p)];
      const Atoms columns = joined != nullptr && joins_columns(jaxpr, *joined)
                                ? atoms(joined->inputs)
                                : columns_of(b, atoms(e.inputs[1]));
      atoms.push(
          gather_at_flat_places(b, e, atoms(e.inputs[0]), columns, jaxpr.aval(e.outputs[0])));
      changed = true;
      continue;
    }
    if (is_worth_bounding(jaxpr, producers, e)) {
      const Atom places = places_within(b, atoms(e.inputs[1]), last_place(jaxpr, e));
      atoms.push(b.add_eqn(gather_p, e.params, {atoms(e.inputs[0]), places}, atoms.out_avals(e),
                           e.effect, e.where));
      changed = true;
      continue;
    }
    Params params = detail::map_jaxprs(e.params, flatten_lookups, changed);
    atoms.push(b.add_eqn(*e.primitive, std::move(params), atoms(e.inputs), atoms.out_avals(e),
                         e.effect, e.where));
  }
  return changed ? b.build(atoms(jaxpr.outs())).jaxpr : jaxpr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
