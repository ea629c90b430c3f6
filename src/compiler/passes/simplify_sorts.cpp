// Sorts of short lines: a network of comparisons, for all lines at once.
//
//   let b[n,3] = sort[dimension=1] a   ->   let x, y, z = the columns of a[n,1], (x, y) in order, (y, z), (x, y), ...
#include <algorithm>

#include "compiler/codegen/codegen.hpp"
#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLongest = 16;
constexpr std::int64_t kForLine = 4;          // equations that each line of a sort pays for
constexpr std::size_t kMostEquations = 5000;  // of the program: calls compile sooner

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

/// Puts elements i and i + 1 in order, by the first operand.
void order(Simplifier& s, Lines& lines, std::size_t i) {
  const Atom key = lines[0][i], next = lines[0][i + 1];
  if (lines.size() == 1 && !is_float(s.aval(key).dtype)) {
    const Aval aval = s.aval(key);
    lines[0][i] = s.make(min_p, NoParams{}, {key, next}, aval);
    lines[0][i + 1] = s.make(max_p, NoParams{}, {key, next}, aval);
    return;
  }
  const Atom swapped = changes_places(s, key, next);
  for (Atoms& parts : lines) {
    const Atom a = parts[i], b = parts[i + 1];
    parts[i] = s.make(select_n_p, NoParams{}, {swapped, a, b}, s.aval(a));
    parts[i + 1] = s.make(select_n_p, NoParams{}, {swapped, b, a}, s.aval(a));
  }
}

/// Whether the lines pay for compiling the equations, and the program has room for them.
bool is_worth_it(const Simplifier& s, const Eqn& e, std::int64_t n) {
  const Aval& key = s.aval(e.inputs[0]);
  const auto operands = static_cast<std::int64_t>(e.inputs.size());
  const std::int64_t each = 2 * operands + (is_float(key.dtype) ? 4 : operands > 1 ? 1 : 0);
  const std::int64_t equations = n * (n - 1) / 2 * each;
  return equations <= kForLine * (key.size() / n) &&
         s.num_equations() + static_cast<std::size_t>(equations) <= kMostEquations;
}

}  // namespace

std::optional<Atoms> sort_of_few_together(Simplifier& s, const Eqn& e) {
  const auto& p = e.params.as<SortParams>();
  const auto d = static_cast<std::size_t>(p.dimension);
  const Aval first = s.aval(e.inputs[0]);
  const std::int64_t n = first.shape[d];
  if (p.num_keys != 1 || n < 2 || n > kLongest || !is_worth_it(s, e, n) ||
      !std::all_of(e.inputs.begin(), e.inputs.end(),
                   [&](const Atom& a) { return a.is_var() && is_native(s.aval(a).dtype); }))
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
  // Neighbours alone, so that equal elements keep their order: the largest comes to the end, then the next.
  for (auto end = static_cast<std::size_t>(n); end-- > 1;) {
    for (std::size_t i = 0; i < end; ++i) order(s, lines, i);
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
