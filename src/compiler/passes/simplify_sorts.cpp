// Sorts of short lines: a network of comparisons, for all lines at once.
//
//   let b[n,3] = sort[dimension=1] a   ->   let x, y, z = the columns of a[n,1], (x, y) in order, (y, z), (x, y), ...
//
// Where few places are wanted, each is an operation of its own, which knows what it can leave out:
//
//   let b[n,9] = sort[dimension=1] a, c[n,1] = b[:,4:5]
//   ->  let x0, ..., x8 = the columns of a, c = order_statistic[rank=4] x0 ... x8
#include <algorithm>
#include <map>
#include <set>

#include "compiler/codegen/codegen.hpp"
#include "compiler/codegen/sorting_network.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLongest = 16;
constexpr std::int64_t kShortestSelected = 4,
                       kLongestSelected = 32;  // of two or three, comparisons are as few
constexpr std::int64_t kForLine = 4;           // equations that each line of a sort pays for
constexpr std::size_t kMostEquations = 5000;   // of the program: calls compile sooner

/// Of each operand: the first elements of all lines, the second ones, and so on.
using Lines = std::vector<Atoms>;

/// Whether elements change places with those after them: those that are equal do not, as zeros of both signs, nor NaN, which
/// come last.
Atom changes_places(Simplifier& s, const Atom& a, const Atom& b) {
  const NoParams none;
  const Aval truth = s.aval(a).with_dtype(DType::bool_);
  if (!is_float(s.aval(a).dtype)) return s.make(gt_p, none, {a, b}, truth);
  const Atom is_number = s.make(eq_p, none, {b, b}, truth);
  const Atom in_order = s.make(le_p, none, {a, b}, truth);
  return s.make(and_p, none, {s.make(not_p, none, {in_order}, truth), is_number}, truth);
}

/// Whether equal elements are the same ones, and need not keep their order.
bool equal_are_same(const Simplifier& s, const Lines& lines) {
  return lines.size() == 1 && !is_float(s.aval(lines[0][0]).dtype);
}
void order_same(Simplifier& s, Atoms& line) {
  for (const Comparison& c : sorting_network(line.size())) {
    const Atom a = line[c.low], b = line[c.high];
    const Aval aval = s.aval(a);
    line[c.low] = s.make(min_p, NoParams{}, {a, b}, aval);
    line[c.high] = s.make(max_p, NoParams{}, {a, b}, aval);
  }
}

/// Puts elements i and i + 1 in order, by the first operand.
void order(Simplifier& s, Lines& lines, std::size_t i) {
  const Atom swapped = changes_places(s, lines[0][i], lines[0][i + 1]);
  for (Atoms& parts : lines) {
    const Atom a = parts[i], b = parts[i + 1];
    parts[i] = s.make(select_n_p, NoParams{}, {swapped, a, b}, s.aval(a));
    parts[i + 1] = s.make(select_n_p, NoParams{}, {swapped, b, a}, s.aval(a));
  }
}

/// In ascending order, each by itself.
void select(Simplifier& s, Atoms& line) {
  const Atoms all = line;
  for (std::size_t i = 0; i < line.size(); ++i)
    line[i] = s.make(order_statistic_p, OrderStatisticParams{static_cast<std::int64_t>(i)}, all,
                     s.aval(all[i]));
}

/// Whether the lines pay for compiling the equations, and the program has room for them.
bool is_worth_it(const Simplifier& s, const Eqn& e, std::int64_t n) {
  const Aval& key = s.aval(e.inputs[0]);
  const auto operands = static_cast<std::int64_t>(e.inputs.size());
  const std::int64_t each = 2 * operands + (is_float(key.dtype) ? 4 : operands > 1 ? 1 : 0);
  // Of places that are selected, about so many instructions for a few of them.
  const std::int64_t all = n * (n - 1) / 2 * each;
  const std::int64_t equations = s.result_selected() ? std::min(24 * n, all) : all;
  return equations <= kForLine * (key.size() / n) &&
         s.num_equations() + static_cast<std::size_t>(equations) <= kMostEquations;
}

}  // namespace

// More than a quarter of the places, each for itself, take longer to compile than all of them do.
std::vector<bool> sorts_selected(const Jaxpr& jaxpr) {
  // Of each sort, the places that are wanted; for others, nothing.
  struct Sort {
    std::size_t dimension;
    std::int64_t length;
    std::set<std::int64_t> places = {};
    bool all = false;
  };
  std::map<Var, Sort> sorts;
  for (const Eqn& e : jaxpr.eqns()) {
    for (const Atom& a : e.inputs) {
      const auto sort = a.is_var() ? sorts.find(a.var()) : sorts.end();
      if (sort == sorts.end()) continue;
      auto& [d, length, places, all] = sort->second;
      all |= e.primitive != &slice_p;
      if (all) continue;
      const auto& p = e.params.as<SliceParams>();
      for (std::int64_t i = p.start_indices[d]; i < p.limit_indices[d]; i += stride_of(p, d))
        places.insert(i);
    }
    if (e.primitive != &sort_p || e.inputs.size() != 1) continue;
    const auto d = static_cast<std::size_t>(e.params.as<SortParams>().dimension);
    const std::int64_t length = jaxpr.aval(e.outputs[0]).shape[d];
    if (length >= kShortestSelected && length <= kLongestSelected)
      sorts.emplace(e.outputs[0], Sort{d, length});
  }
  for (const Atom& a : jaxpr.outs()) {
    if (a.is_var()) sorts.erase(a.var());
  }
  std::vector<bool> selected(static_cast<std::size_t>(jaxpr.num_vars()));
  for (const auto& [v, sort] : sorts) {
    selected[static_cast<std::size_t>(v)] =
        !sort.all && 4 * static_cast<std::int64_t>(sort.places.size()) < sort.length + 4;
  }
  return selected;
}

std::optional<Atoms> sort_of_few_together(Simplifier& s, const Eqn& e) {
  const auto& p = e.params.as<SortParams>();
  const auto d = static_cast<std::size_t>(p.dimension);
  const Aval first = s.aval(e.inputs[0]);
  const std::int64_t n = first.shape[d];
  if (p.num_keys != 1 || n < 2 || n > (s.result_selected() ? kLongestSelected : kLongest) ||
      !is_worth_it(s, e, n) || !std::all_of(e.inputs.begin(), e.inputs.end(), [&](const Atom& a) {
        return a.is_var() && is_native(s.aval(a).dtype);
      }))
    return std::nullopt;
  Lines lines;
  for (const Atom& x : e.inputs) {
    SliceParams part{Shape(first.shape.size(), 0), first.shape, Shape(first.shape.size(), 1)};
    Aval one = s.aval(x);
    one.shape[d] = 1;
    lines.emplace_back();
    for (std::int64_t i = 0; i < n; ++i) {
      part.start_indices[d] = i;
      part.limit_indices[d] = i + 1;
      lines.back().push_back(s.make(slice_p, part, {x}, one));
    }
  }
  if (s.result_selected()) {
    select(s, lines[0]);
  } else if (equal_are_same(s, lines)) {
    order_same(s, lines[0]);
  } else {
    // Neighbours alone, so that equal elements keep their order: the largest comes to the end, then the next.
    for (auto end = static_cast<std::size_t>(n); end-- > 1;) {
      for (std::size_t i = 0; i < end; ++i) order(s, lines, i);
    }
  }
  Atoms results;
  for (std::size_t k = 0; k < lines.size(); ++k)
    results.push_back(s.make(concatenate_p, ConcatenateParams{p.dimension}, std::move(lines[k]),
                             s.aval(e.inputs[k])));
  return results;
}

std::optional<Atom> sort_of_few(Simplifier& s, const Eqn& e, const Aval&) {
  const auto sorted = sort_of_few_together(s, e);
  return sorted ? std::optional(sorted->front()) : std::nullopt;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
