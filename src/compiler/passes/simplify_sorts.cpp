// Sorts of short lines: a network of comparisons, for all lines at once.
//
//   let b[n,3] = sort[dimension=1] a   ->   let x, y, z = the columns of a[n,1], (x, y) in order, (y, z), (x, y), ...
#include "compiler/codegen/codegen.hpp"
#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLongest = 16;  // of n elements n (n - 1) / 2 pairs are put in order
constexpr std::int64_t kFewLines = 8;  // fewer are not worth so many equations

/// Puts two neighbours in order. Those that are equal stay where they are, as zeros of both signs and NaN, which come last.
void order(Simplifier& s, Atom& a, Atom& b) {
  const Aval aval = s.aval(a), truth = aval.with_dtype(DType::bool_);
  const NoParams none;
  Atom low = a;
  if (is_float(aval.dtype)) {
    const Atom is_number = s.make(eq_p, none, {b, b}, truth);
    const Atom in_order = s.make(le_p, none, {a, b}, truth);
    const Atom swapped =
        s.make(and_p, none, {s.make(not_p, none, {in_order}, truth), is_number}, truth);
    low = s.make(select_n_p, none, {swapped, a, b}, aval);
    b = s.make(select_n_p, none, {swapped, b, a}, aval);
  } else {
    low = s.make(min_p, none, {a, b}, aval);
    b = s.make(max_p, none, {a, b}, aval);
  }
  a = low;
}

}  // namespace

std::optional<Atom> sort_of_few(Simplifier& s, const Eqn& e, const Aval& out) {
  if (e.inputs.size() != 1 || !e.inputs[0].is_var() || !is_native(out.dtype)) return std::nullopt;
  const auto d = static_cast<std::size_t>(e.params.as<SortParams>().dimension);
  const std::int64_t n = out.shape[d];
  if (n < 2 || n > kLongest || out.size() < kFewLines * n) return std::nullopt;
  Shape one = out.shape;
  one[d] = 1;
  const Aval part = out.with_shape(one);
  Atoms parts;
  for (std::int64_t i = 0; i < n; ++i) {
    SliceParams p{Shape(one.size(), 0), out.shape, Shape(one.size(), 1)};
    p.start_indices[d] = i;
    p.limit_indices[d] = i + 1;
    parts.push_back(s.make(slice_p, p, {e.inputs[0]}, part));
  }
  // Neighbours alone, so that equal elements keep their order: the largest comes to the end, then the next.
  for (std::size_t end = parts.size(); end-- > 1;) {
    for (std::size_t i = 0; i < end; ++i) order(s, parts[i], parts[i + 1]);
  }
  return s.make(concatenate_p, ConcatenateParams{static_cast<std::int64_t>(d)}, std::move(parts),
                out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
