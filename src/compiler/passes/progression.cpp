// How the elements of integer arrays count, from what makes them.
#include "compiler/passes/progression.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Whether integers of this type, and an index, hold them: what they do not hold wraps around.
bool holds(DType dtype, const Progression& p) {
  constexpr std::int64_t kMostIndex = (std::int64_t{1} << 31) - 1;
  const int bits = static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  const std::int64_t most = bits >= 31 ? kMostIndex : (std::int64_t{1} << bits) - 1;
  return p.least >= (is_signed_integer(dtype) ? -most - 1 : 0) && p.most <= most;
}
/// The progression in an array of this shape; nothing where numbers are too large for an index.
std::optional<Progression> over(const Shape& shape, std::int64_t first,
                                std::vector<std::int64_t> steps) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  Progression p{first, std::move(steps), first, first};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) p.steps[d] = 0;
    const std::int64_t step = p.steps[d], trips = shape[d] - 1;
    if (step != 0 && (trips > kMost / std::abs(step))) return std::nullopt;
    (step < 0 ? p.least : p.most) += step * trips;
    if (p.least < -kMost || p.most > kMost) return std::nullopt;
  }
  return p;
}

using ProgressionRule = std::optional<Progression>(Simplifier&, const Eqn&, const Shape& out,
                                                   int depth);

std::optional<Progression> counts(Simplifier&, const Eqn& e, const Shape& out, int) {
  std::vector<std::int64_t> steps(out.size(), 0);
  steps[static_cast<std::size_t>(e.params.as<IotaParams>().dimension)] = 1;
  return over(out, 0, std::move(steps));
}
std::optional<Progression> converted(Simplifier& s, const Eqn& e, const Shape&, int depth) {
  return progression(s, e.inputs[0], depth);
}
// Dimensions of one element come and go.
std::optional<Progression> reshaped(Simplifier& s, const Eqn& e, const Shape& out, int depth) {
  const Shape in = s.aval(e.inputs[0]).shape;
  const auto p = progression(s, e.inputs[0], depth);
  if (!p) return std::nullopt;
  std::vector<std::int64_t> steps(out.size(), 0);
  std::size_t from = 0;
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (out[d] == 1) continue;
    while (from < in.size() && in[from] == 1) ++from;
    if (from == in.size() || in[from] != out[d]) return std::nullopt;
    steps[d] = p->steps[from++];
  }
  return over(out, p->first, std::move(steps));
}
std::optional<Progression> spread(Simplifier& s, const Eqn& e, const Shape& out, int depth) {
  const auto p = progression(s, e.inputs[0], depth);
  if (!p) return std::nullopt;
  const Shape& dims = e.params.as<BroadcastInDimParams>().broadcast_dimensions;
  std::vector<std::int64_t> steps(out.size(), 0);
  for (std::size_t k = 0; k < dims.size(); ++k)
    steps[static_cast<std::size_t>(dims[k])] = p->steps[k];
  return over(out, p->first, std::move(steps));
}
std::optional<Progression> summed(Simplifier& s, const Eqn& e, const Shape& out, int depth) {
  const auto x = progression(s, e.inputs[0], depth);
  const auto y = x ? progression(s, e.inputs[1], depth) : std::nullopt;
  if (!y) return std::nullopt;
  const std::int64_t sign = e.primitive == &sub_p ? -1 : 1;
  std::vector<std::int64_t> steps = x->steps;
  for (std::size_t d = 0; d < out.size(); ++d) steps[d] += sign * y->steps[d];
  return over(out, x->first + sign * y->first, std::move(steps));
}
std::optional<Progression> multiplied(Simplifier& s, const Eqn& e, const Shape& out, int depth) {
  for (const std::size_t i : {0, 1}) {
    const auto by = progression(s, e.inputs[1 - i], depth);
    const auto x = by && by->is_number() ? progression(s, e.inputs[i], depth) : std::nullopt;
    if (!x) continue;
    std::vector<std::int64_t> steps = x->steps;
    for (std::int64_t& step : steps) step *= by->first;
    return over(out, x->first * by->first, std::move(steps));
  }
  return std::nullopt;
}
// select(i < 0, i, i + size) of what is not below 0. What is compared may be i in fewer bits.
std::optional<Progression> wrapped(Simplifier& s, const Eqn& e, const Shape&, int depth) {
  const Eqn* below = s.defined_by(e.inputs[0], lt_p);
  const Atom kept = e.inputs[1];
  if (below == nullptr || !s.is(below->inputs[1], 0)) return std::nullopt;
  const Atom compared = below->inputs[0];
  auto p = progression(s, kept, depth);
  if (!p || p->least < 0) return std::nullopt;
  if (compared == kept) return p;
  const auto q = progression(s, compared, depth);
  return q && q->first == p->first && q->steps == p->steps ? p : std::nullopt;
}

}  // namespace

std::optional<Progression> progression(Simplifier& s, const Atom& a, int depth) {
  constexpr int kDeepest = 10;
  static constexpr std::pair<const PrimitiveBase*, ProgressionRule*> kRules[] = {
      {&iota_p, counts},
      {&reshape_p, reshaped},
      {&broadcast_in_dim_p, spread},
      {&convert_element_type_p, converted},
      {&add_p, summed},
      {&sub_p, summed},
      {&mul_p, multiplied},
      {&select_n_p, wrapped}};
  const Aval aval = s.aval(a);
  if (!is_integer(aval.dtype) || aval.size() == 0 || depth > kDeepest) return std::nullopt;
  std::optional<Progression> found;
  if (const auto number = s.whole_number(a)) {
    found = over(aval.shape, *number, std::vector<std::int64_t>(aval.shape.size(), 0));
  } else if (const Eqn* e = s.definition(a)) {
    const auto* const rule = std::find_if(std::begin(kRules), std::end(kRules),
                                          [&](const auto& r) { return r.first == e->primitive; });
    if (rule != std::end(kRules)) found = rule->second(s, *e, aval.shape, depth + 1);
  }
  return found && holds(aval.dtype, *found) ? found : std::nullopt;
}

std::optional<std::size_t> counted_dimension(Simplifier& s, const Atom& a) {
  const auto p = progression(s, a);
  if (!p || p->first != 0 || p->is_number()) return std::nullopt;
  std::optional<std::size_t> along;
  for (std::size_t d = 0; d < p->steps.size(); ++d) {
    if (p->steps[d] == 0) continue;
    if (p->steps[d] != 1 || along) return std::nullopt;
    along = d;
  }
  const Aval aval = s.aval(a);
  const Progression with_size{0, {}, 0, aval.shape[*along]};
  return holds(aval.dtype, with_size) ? along : std::nullopt;
}

std::vector<Progression> progressions(Simplifier& s, const Atom& places, const Shape& map) {
  const Eqn* stack = map.size() > 1 ? s.defined_by(places, concatenate_p) : nullptr;
  const Atoms parts = stack == nullptr ? Atoms{places} : stack->inputs;
  // Components lie side by side.
  const std::int64_t last = s.aval(places).ndim() - 1;
  const auto is_column = [&](const Atom& a) { return s.aval(a).shape.back() == 1; };
  if (parts.size() != map.size() || !std::all_of(parts.begin(), parts.end(), is_column) ||
      (stack != nullptr && stack->params.as<ConcatenateParams>().dimension != last))
    return {};
  std::vector<Progression> all;
  for (const Atom& part : parts) {
    auto column = progression(s, part);
    if (!column) return {};
    all.push_back(std::move(*column));
  }
  return all;
}

std::vector<std::size_t> dimensions_of_places(const GatherDimensionNumbers& d, const Shape& out) {
  std::vector<std::size_t> dims;
  for (std::size_t k = 0; k < out.size(); ++k)
    if (!d.offset_dims.contains(static_cast<std::int64_t>(k))) dims.push_back(k);
  return dims;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
