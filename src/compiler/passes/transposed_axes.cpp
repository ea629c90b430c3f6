// The last axes of what a transpose makes become one where they lie side by side in its operand, too, and both are in memory
// anyway.
//
//   let t:f32[4096,100,3] = transpose[(2,0,1)] x:f32[100,3,4096]
//   ->  let y:f32[300,4096] = reshape x, s:f32[4096,300] = transpose[(1,0)] y, t = reshape s
//
// Rows that are written are as long as the axes together then, and squares of elements are turned in registers. So lie the
// states of a batch of loops whose state is carried with the batch last (carried_moves.cpp).
#include <algorithm>

#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

constexpr std::int64_t kLeastElements = 1024;
constexpr std::int64_t kLongRow = 32;  // elements: lanes run well along such rows

/// Which variables lie in memory whatever reads them, and which are read by no kernel that would compute them on the spot.
class InMemory {
 public:
  explicit InMemory(const Jaxpr& jaxpr)
      : made_(static_cast<std::size_t>(jaxpr.num_vars())),
        fused_(static_cast<std::size_t>(jaxpr.num_vars())) {
    for (Var v = 0; v < jaxpr.num_inputs(); ++v) made_[static_cast<std::size_t>(v)] = true;
    for (const Eqn& e : jaxpr.eqns()) {
      const bool barrier = is_barrier(form_of(jaxpr, e));
      for (const Var v : e.outputs) made_[static_cast<std::size_t>(v)] = barrier;
      for (const Atom& a : e.inputs) {
        if (a.is_var() && !barrier) fused_[static_cast<std::size_t>(a.var())] = true;
      }
    }
  }
  bool is_read_and_made(const Eqn& e) const {
    return e.inputs[0].is_var() && made_[static_cast<std::size_t>(e.inputs[0].var())] &&
           !fused_[static_cast<std::size_t>(e.outputs[0])];
  }

 private:
  std::vector<bool> made_, fused_;
};

/// The axes of the result, those of its rows together: the last ones that follow each other in the operand, too.
std::vector<Shape> runs_of(const Shape& permutation) {
  std::size_t first = permutation.size() - 1;
  while (first > 0 && permutation[first - 1] + 1 == permutation[first]) --first;
  std::vector<Shape> runs;
  for (std::size_t d = 0; d < permutation.size(); ++d) {
    if (d <= first) runs.emplace_back();
    runs.back().push_back(permutation[d]);
  }
  return runs;
}

/// The transpose with each run as one axis.
Atom merged(JaxprBuilder& b, const std::vector<Shape>& runs, const Atom& x, const Aval& out) {
  std::vector<std::size_t> order(runs.size());  // of the operand: the runs as they lie there
  for (std::size_t r = 0; r < runs.size(); ++r) order[r] = r;
  std::sort(order.begin(), order.end(),
            [&](std::size_t r, std::size_t s) { return runs[r][0] < runs[s][0]; });
  const Aval aval = b.aval(x);
  const auto size = [&](const Shape& run) {
    std::int64_t n = 1;
    for (const std::int64_t axis : run) n *= aval.shape[static_cast<std::size_t>(axis)];
    return n;
  };
  Shape from, to, permutation(runs.size(), 0);
  for (std::size_t place = 0; place < order.size(); ++place) {
    from.push_back(size(runs[order[place]]));
    permutation[order[place]] = static_cast<std::int64_t>(place);
  }
  for (const Shape& run : runs) to.push_back(size(run));
  const auto reshaped = [&](const Atom& a, const Shape& shape) {
    return Atom::var(
        b.add_eqn1(reshape_p, Params::of(ReshapeParams{shape}), {a}, out.with_shape(shape)));
  };
  const Atom turned =
      Atom::var(b.add_eqn1(transpose_p, Params::of(TransposeParams{std::move(permutation)}),
                           {reshaped(x, from)}, out.with_shape(to)));
  return reshaped(turned, out.shape);
}

}  // namespace

Jaxpr merge_transposed_axes(const Jaxpr& jaxpr) {
  const Jaxpr inside = detail::map_regions(jaxpr, merge_transposed_axes);
  const InMemory memory(inside);
  JaxprBuilder b;
  Renaming renamed(inside);
  renamed.push_inputs(b);
  bool any = false;
  for (const Eqn& e : inside.eqns()) {
    if (e.primitive == &transpose_p && memory.is_read_and_made(e) &&
        inside.aval(e.outputs[0]).ndim() > 0) {
      const Aval& out = inside.aval(e.outputs[0]);
      const auto runs = runs_of(e.params.as<TransposeParams>().permutation);
      if (runs.size() > 1 && runs.back().size() > 1 && out.shape.back() < kLongRow &&
          out.size() >= kLeastElements) {
        renamed.push(merged(b, runs, renamed(e.inputs[0]), out));
        any = true;
        continue;
      }
    }
    renamed.push_eqn(b, e);
  }
  return any ? b.build(renamed(inside.outs())).jaxpr : inside;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
