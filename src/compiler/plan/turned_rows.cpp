// Transpositions before and behind loops over cells: those that move nothing but their rows, whose axes may be merged for it.
#include "compiler/plan/turned_rows.hpp"

#include <algorithm>
#include <optional>

#include "compiler/forms.hpp"
#include "compiler/permutations.hpp"
#include "compiler/plan/plan.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// The same order of the axes of `parts`, which were merged to those of `whole`; nothing if they were not.
std::optional<Shape> order_of_parts(const Shape& order, const Shape& whole, const Shape& parts) {
  std::vector<Shape> merged;
  std::int64_t next = 0;
  const auto size = [&](std::int64_t d) { return parts[static_cast<std::size_t>(d)]; };
  for (const std::int64_t n : whole) {
    std::int64_t product = 1;
    Shape& axes = merged.emplace_back();
    while (next < parts.ndim() && (product < n || size(next) == 1)) {
      product *= size(next);
      axes.push_back(next++);
    }
    if (product != n) return std::nullopt;
  }
  if (next < parts.ndim()) return std::nullopt;
  Shape out;
  for (const std::int64_t d : order)
    for (const std::int64_t part : merged[static_cast<std::size_t>(d)]) out.push_back(part);
  return out;
}

/// Whether rows of a scan, a variable of its body, may lie with their axes in this order: lanes next to each other, as they
/// are along the last axis, or the rows of each cell one after the other, of so many numbers at least.
bool may_be_turned(const Shape& order, const Jaxpr& body, Var row, const CellLoop& loop,
                   std::int64_t least_numbers) {
  const Labels& labels = loop.programs[0].labels[static_cast<std::size_t>(row)];
  const auto label = [&](std::int64_t d) { return labels[static_cast<std::size_t>(d - 1)]; };
  const int lanes = static_cast<int>(loop.axes.size()) - 1;
  if (lanes < 0) return false;
  if (order.back() != 0 && label(order.back()) == lanes) return true;
  const std::int64_t numbers = unrolled(body.aval(row).shape, labels);
  if (numbers < least_numbers || numbers > kMostMovedTogether) return false;
  std::size_t d = 0;
  bool has_lanes = false;
  for (; order[d] != 0; ++d) {
    if (label(order[d]) == kUnrolled) return false;
    has_lanes |= label(order[d]) == lanes;
  }
  for (++d; d < order.size(); ++d) {
    if (order[d] < order[d - 1] || label(order[d]) != kUnrolled) return false;
  }
  return has_lanes;
}

}  // namespace

Transpositions::Transpositions(const Jaxpr& jaxpr, std::vector<Cluster>& clusters)
    : jaxpr_(jaxpr), producer_(producers(jaxpr)), uses_(detail::use_counts(jaxpr)) {
  for (Cluster& c : clusters) {
    if (c.form != Form::element || c.kernel.kind != Kernel::Kind::loop) continue;
    for (const Var v : c.kernel.roots) {
      const int t = producer_[static_cast<std::size_t>(v)];
      if (eqn(t).primitive != &transpose_p || c.kernel.woven.contains(v)) continue;
      const Var from = before_reshape(eqn(t).inputs[0].var());
      const int made_by = producer_[static_cast<std::size_t>(from)];
      if (made_by >= 0 && c.kernel.members.contains(made_by)) continue;
      by_result_[v] = by_operand_[from] = {&c, t, from};
    }
  }
}

const Eqn& Transpositions::eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }

Var Transpositions::before_reshape(Var v) const {
  const int e = producer_[static_cast<std::size_t>(v)];
  const bool reshaped = e >= 0 && uses_[static_cast<std::size_t>(v)] == 1 &&
                        form_of(jaxpr_, eqn(e)) == Form::reshape && eqn(e).inputs[0].is_var();
  return reshaped ? eqn(e).inputs[0].var() : v;
}

// Of one number a cell, elements lie far apart, while kernels of transpositions move tiles: small arrays, in bytes, and
// those that are written alone, are better moved by these (on Zen 4 arrays of 64 KiB that are read and written take
// 1.2 to 1.6 times as long here, of 1 MiB 0.84, of 2 MiB and more 0.4 to 0.8).
bool Transpositions::take(const Stored& t, const Shape& order, const ScanParams& p, Var row,
                          bool single, const CellLoop& loop) {
  constexpr std::int64_t kLarge = std::int64_t{512} << 10;
  const bool large = weight_of(jaxpr_.aval(eqn(t.eqn).outputs[0])) >= kLarge;
  if (!may_be_turned(order, p.jaxpr, row, loop, single && large ? 1 : 2)) return false;
  // Another loop may have taken it.
  Kernel& kernel = t.cluster->kernel;
  if (kernel.members.erase(t.eqn) == 0) return false;
  kernel.roots.erase(std::find(kernel.roots.begin(), kernel.roots.end(), eqn(t.eqn).outputs[0]));
  return true;
}

std::vector<TurnedRow> Transpositions::taken_by(const Eqn& scan, CellLoop& loop,
                                                const std::function<bool(Var)>& stays) {
  std::vector<TurnedRow> out;
  const auto& p = scan.params.as<ScanParams>();
  const auto carries = static_cast<std::size_t>(p.num_carry);
  const auto is_used_once = [&](Var v) { return uses_[static_cast<std::size_t>(v)] == 1; };
  const auto permutation = [&](const Stored& t) -> const Shape& {
    return eqn(t.eqn).params.as<TransposeParams>().permutation;
  };
  for (auto i = static_cast<std::size_t>(p.num_consts) + carries; i < scan.inputs.size(); ++i) {
    if (!scan.inputs[i].is_var() || !is_used_once(scan.inputs[i].var())) continue;
    const Var row = scan.inputs[i].var(), moved = before_reshape(row);
    const auto t = by_result_.find(moved);
    if (t == by_result_.end() || !is_used_once(moved)) continue;
    const Var memory = t->second.from;
    const auto order = order_of_parts(inverse(permutation(t->second)), jaxpr_.aval(moved).shape,
                                      jaxpr_.aval(row).shape);
    if (!order || !stays(memory) || !take(t->second, *order, p, static_cast<Var>(i), true, loop))
      continue;
    loop.turned_operands[i] = *order;
    out.push_back({row, memory});
  }
  const bool reads = !out.empty();
  for (std::size_t i = carries; i < scan.outputs.size(); ++i) {
    const Var row = scan.outputs[i];
    const auto t = by_operand_.find(row);
    const Atom& made = p.jaxpr.outs()[i];
    if (t == by_operand_.end() || !is_used_once(row) || !made.is_var()) continue;
    const auto order =
        order_of_parts(permutation(t->second), jaxpr_.aval(eqn(t->second.eqn).inputs[0]).shape,
                       jaxpr_.aval(row).shape);
    if (!order || !take(t->second, *order, p, made.var(), reads, loop)) continue;
    loop.turned_results[i] = *order;
    out.push_back({row, eqn(t->second.eqn).outputs[0]});
  }
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
