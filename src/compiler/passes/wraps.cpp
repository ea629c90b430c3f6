// Scatters count indices below 0 from the end themselves: what indexing computes for that is one more
// pass over the indices, while a scatter waits for memory anyway. Indices and updates that are broadcast to what a scatter
// reads, as vectors of one number are in programs from JAX, are only seen in another shape: they lie in memory as they are.
#include <algorithm>
#include <optional>

#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

class Wraps {
 public:
  explicit Wraps(const Jaxpr& jaxpr)
      : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)), uses_(detail::use_counts(jaxpr)) {}

  /// What a scatter that wraps may read instead of its indices, component by component; nothing if that
  /// saves nothing.
  std::optional<Atoms> components(const Eqn& scatter) const {
    const auto& p = scatter.params.as<ScatterParams>();
    const Shape& axes = p.dimension_numbers.scatter_dims_to_operand_dims;
    const Eqn* const stack = made_by(scatter.inputs[1], concatenate_p);
    Atoms parts = stack != nullptr ? stack->inputs : Atoms{scatter.inputs[1]};
    if (p.wraps || parts.size() != axes.size()) return std::nullopt;
    const bool alone = stack == nullptr || read_once(scatter.inputs[1]);
    bool any = false;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const Aval& aval = jaxpr_.aval(parts[k]);
      if (aval.shape.back() != 1) return std::nullopt;
      const std::int64_t size =
          jaxpr_.aval(scatter.inputs[0]).shape[static_cast<std::size_t>(axes[k])];
      if (const auto from = before_wrapping(parts[k], size, alone)) {
        parts[k] = *from;
        any = true;
      } else if (const auto all = splat(parts[k]); !all || *all < 0) {
        return std::nullopt;
      }
    }
    return any ? std::optional(std::move(parts)) : std::nullopt;
  }

  /// A broadcast that only adds axes of one element, and that nobody else reads.
  const Eqn* adds_axes(const Atom& a) const {
    const Eqn* const b = made_by(a, broadcast_in_dim_p);
    if (b == nullptr || !b->inputs[0].is_var() || !read_once(a)) return nullptr;
    const Aval& of = jaxpr_.aval(b->inputs[0]);
    return of.ndim() > 0 && of.size() == jaxpr_.aval(a).size() ? b : nullptr;
  }

 private:
  const Eqn* made_by(const Atom& a, const PrimitiveBase& p) const {
    const int e = a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
    if (e < 0) return nullptr;
    const Eqn& eqn = jaxpr_.eqns()[static_cast<std::size_t>(e)];
    return eqn.primitive == &p ? &eqn : nullptr;
  }
  /// What gives something another shape, if it is so. Of few vectors, those of a broadcast are wrapped all at once before
  /// that sooner than one by one by generated code.
  const Eqn* seen_as(const Atom& a) const {
    constexpr std::int64_t kFew = 64;
    const Eqn* const r = made_by(a, reshape_p);
    return r != nullptr || jaxpr_.aval(a).size() < kFew ? r : adds_axes(a);
  }
  bool read_once(const Atom& a) const { return uses_[static_cast<std::size_t>(a.var())] == 1; }
  /// The number that all elements are.
  std::optional<std::int64_t> splat(Atom a) const {
    if (const Eqn* const b = made_by(a, broadcast_in_dim_p)) a = b->inputs[0];
    if (a.is_var() || a.literal().size() != 1) return std::nullopt;
    return a.literal().item<std::int64_t>();
  }

  /// x of select(lt x 0, add x size, x), in whatever shape. It is there anyway as an input of the program,
  /// or takes the place of what only the scatter reads.
  std::optional<Atom> before_wrapping(Atom a, std::int64_t size, bool alone) const {
    for (const Eqn* r = seen_as(a); r != nullptr; r = seen_as(a)) {
      alone = alone && read_once(a);
      a = r->inputs[0];
    }
    const Eqn* const choice = made_by(a, select_n_p);
    if (choice == nullptr || choice->inputs.size() != 3) return std::nullopt;
    const Atom& x = choice->inputs[1];
    const Eqn* const below = made_by(choice->inputs[0], lt_p);
    const Eqn* const sum = made_by(choice->inputs[2], add_p);
    if (below == nullptr || sum == nullptr || !x.is_var()) return std::nullopt;
    const bool there = x.var() < jaxpr_.num_inputs() || (alone && read_once(a));
    const bool added = (sum->inputs[0] == x && splat(sum->inputs[1]) == size) ||
                       (sum->inputs[1] == x && splat(sum->inputs[0]) == size);
    if (!there || !added || !(below->inputs[0] == x) || splat(below->inputs[1]) != 0)
      return std::nullopt;
    return x;
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producer_, uses_;
};

/// The components as index vectors of this type.
Atom stacked(detail::JaxprBuilder& b, Atoms parts, const Aval& indices) {
  Aval single = indices;
  single.shape[single.shape.size() - 1] = 1;
  for (Atom& part : parts) {
    if (b.aval(part).shape == single.shape) continue;
    part =
        Atom::var(b.add_eqn1(reshape_p, Params::of(ReshapeParams{single.shape}), {part}, single));
  }
  if (parts.size() == 1) return parts[0];
  const ConcatenateParams params{indices.ndim() - 1};
  return Atom::var(b.add_eqn1(concatenate_p, Params::of(params), std::move(parts), indices));
}

}  // namespace

bool has_scatters(const Jaxpr& jaxpr) {
  return detail::any_program(jaxpr, [](const Jaxpr& j) {
    return std::any_of(j.eqns().begin(), j.eqns().end(), is_scatter);
  });
}

Jaxpr let_scatters_wrap(const Jaxpr& jaxpr) {
  if (!has_scatters(jaxpr)) return jaxpr;
  bool changed = false;
  const Wraps wraps(jaxpr);
  detail::JaxprBuilder b;
  detail::Renaming atoms(jaxpr);
  atoms.push_inputs(b);
  for (const Eqn& e : jaxpr.eqns()) {
    Params params = detail::map_jaxprs(e.params, let_scatters_wrap, changed);
    Atoms inputs = atoms(e.inputs);
    const auto parts = is_scatter(e) ? wraps.components(e) : std::nullopt;
    if (parts) {
      ScatterParams wrapping = params.as<ScatterParams>();
      wrapping.wraps = true;
      params = Params::of(std::move(wrapping));
      inputs[1] = stacked(b, atoms(*parts), jaxpr.aval(e.inputs[1]));
      changed = true;
    }
    for (std::size_t i = parts ? 2 : 1; is_scatter(e) && i < inputs.size(); ++i) {
      const Eqn* const seen = wraps.adds_axes(e.inputs[i]);
      if (seen == nullptr) continue;
      const Aval to = jaxpr.aval(seen->inputs[0]).with_shape(jaxpr.aval(e.inputs[i]).shape);
      inputs[i] = Atom::var(
          b.add_eqn1(reshape_p, Params::of(ReshapeParams{to.shape}), atoms(seen->inputs), to));
      changed = true;
    }
    atoms.push(b.add_eqn(*e.primitive, std::move(params), std::move(inputs), atoms.out_avals(e),
                         e.effect, e.where));
  }
  return changed ? b.build(atoms(jaxpr.outs())).jaxpr : jaxpr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
