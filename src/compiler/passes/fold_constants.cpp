// Constant folding: what depends on nothing that a call brings is computed once, while compiling, by the kernels that
// evaluate it eagerly, and is a constant of the executable from then on.
//
//   f(a) with the captured array c:
//   let b = sin c, d = exp b, e = reduce_sum d, f = add a e   ->   let f = add a k, with k = sum(exp(sin(c)))
//
// Constants are inputs of the program: their values are in no code, and in no key of the disk cache. Those of captured
// arrays are evaluated anew by each process; so the work and the memory are bounded.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "compiler/executable/program_store.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMostBytes = 64 << 10;  // of an operand or result
constexpr std::int64_t kMostKept = 1 << 20;    // bytes, of all constants together
constexpr std::int64_t kMostWork = 1 << 22;    // additions of single numbers, about a millisecond

/// What only says where elements are, which the kernels that read them do as well.
bool only_moves(const Eqn& e) {
  return one_of(e, {&reshape_p, &broadcast_in_dim_p, &slice_p, &iota_p, &copy_p, &stop_gradient_p});
}
/// What is no work, but other elements or another order: as cheap as to read the result.
bool is_cheap(const Eqn& e) {
  if (one_of(e, {&transpose_p, &rev_p, &concatenate_p, &pad_p, &gather_p, &dynamic_slice_p}))
    return true;
  const Lowering* lowering = e.primitive->rules().lowering();
  return lowering != nullptr && std::holds_alternative<Lowering::Element>(lowering->form) &&
         element_cost(e) <= 1;
}

/// Whether an equation with something to compute has operands that are all known. Most programs have none, which
/// is to be found out quickly: what is in the disk cache is looked for afterwards.
bool has_closed_equations(const Jaxpr& jaxpr, std::size_t num_known) {
  std::vector<bool> known(static_cast<std::size_t>(jaxpr.num_vars()));
  std::fill_n(known.begin(), num_known, true);
  const auto is_known = [&](const Atom& a) {
    return a.is_literal() || known[static_cast<std::size_t>(a.var())];
  };
  for (const Eqn& e : jaxpr.eqns()) {
    if (!std::all_of(e.inputs.begin(), e.inputs.end(), is_known)) continue;
    if (!only_moves(e)) return true;
    for (const Var v : e.outputs) known[static_cast<std::size_t>(v)] = true;
  }
  return false;
}

class Folder {
 public:
  Folder(const Jaxpr& jaxpr, const Arrays& known)
      : jaxpr_(jaxpr), values_(static_cast<std::size_t>(jaxpr.num_vars())) {
    for (std::size_t i = 0; i < known.size(); ++i) {
      Value& v = values_[i];
      v.known = small(static_cast<Var>(i));
      v.from_inputs = true;
      v.read = jaxpr.aval(static_cast<Var>(i)).size();
      v.array = known[i];
    }
  }

  /// False where nothing becomes a constant.
  bool find() {
    for (const Eqn& e : jaxpr_.eqns()) look_at(e);
    for (const Atom& a : jaxpr_.outs()) need(a);
    const std::vector<Eqn>& eqns = jaxpr_.eqns();
    for (auto e = eqns.rbegin(); e != eqns.rend(); ++e) choose(*e);
    for (auto e = eqns.rbegin(); e != eqns.rend(); ++e) {
      if (is_evaluated(*e))
        for (const Atom& a : e->inputs)
          if (a.is_var()) of(a).evaluated = true;
    }
    return kept_ > 0;
  }

  /// Evaluates what becomes constant. Errors are for the program to meet when it runs.
  bool evaluate() {
    const detail::EvalScope scope;
    for (const Eqn& e : jaxpr_.eqns()) {
      if (!is_evaluated(e)) continue;
      Arrays x;
      for (const Atom& a : e.inputs) x.push_back(a.is_var() ? of(a).array : a.literal());
      Arrays y;
      try {
        y = e.primitive->rules().impl(e.params, x);
      } catch (const Error&) { return false; }
      for (std::size_t i = 0; i < e.outputs.size(); ++i) {
        const Aval& aval = jaxpr_.aval(e.outputs[i]);
        if (y.at(i).shape() != aval.shape || y[i].dtype() != aval.dtype) return false;
        of(e.outputs[i]).array = std::move(y[i]);
      }
    }
    return true;
  }

  /// The program with the constants as its inputs from `at` on.
  FoldedConstants rewritten(std::size_t at) const {
    FoldedConstants out;
    detail::JaxprBuilder b;
    detail::Renaming atoms(jaxpr_);
    Atoms constants(values_.size(), Atom::literal(Array(0)));
    const auto num_inputs = static_cast<std::size_t>(jaxpr_.num_inputs());
    Atoms inputs;
    for (std::size_t i = 0; i <= num_inputs; ++i) {
      if (i == at) add_constants(b, constants, out.values);
      if (i < num_inputs)
        inputs.push_back(Atom::var(b.add_input(jaxpr_.aval(static_cast<Var>(i)))));
    }
    for (const Atom& input : inputs) atoms.push(input);
    for (const Eqn& e : jaxpr_.eqns()) {
      if (!is_left(e)) {
        for (const Var v : e.outputs) atoms.push(constants[static_cast<std::size_t>(v)]);
        continue;
      }
      atoms.push(b.add_eqn(*e.primitive, e.params, atoms(e.inputs), atoms.out_avals(e), e.effect,
                           e.where));
    }
    out.jaxpr = b.build(atoms(jaxpr_.outs()), detail::JaxprBuilder::DeadCode::keep).jaxpr;
    return out;
  }

 private:
  struct Value {
    bool known = false;        ///< it can be evaluated
    bool worth_it = false;     ///< reading it takes less than computing it
    bool from_inputs = false;  ///< not from the text of the program alone
    bool needed = false;       ///< by what is left of the program
    bool kept = false;         ///< it becomes a constant
    bool evaluated = false;    ///< it is kept, or a constant is made of it
    std::int64_t read = 0;     ///< elements of memory that computing it reads
    Array array;
  };
  Value& of(Var v) { return values_[static_cast<std::size_t>(v)]; }
  const Value& of(Var v) const { return values_[static_cast<std::size_t>(v)]; }
  Value& of(const Atom& a) { return of(a.var()); }
  const Value& of(const Atom& a) const { return of(a.var()); }

  bool small(Var v) const { return detail::checked_bytes(jaxpr_.aval(v)) <= kMostBytes; }
  bool small(const Atom& a) const { return a.is_literal() || small(a.var()); }

  bool can_be_evaluated(const Eqn& e) const {
    return e.effect == Effect::none && !e.inputs.empty() && is_own_operation(*e.primitive) &&
           !e.params.has_jaxprs() && e.primitive->rules().impl != nullptr &&
           e.primitive != &optimization_barrier_p &&
           std::all_of(e.outputs.begin(), e.outputs.end(), [&](Var v) { return small(v); }) &&
           std::all_of(e.inputs.begin(), e.inputs.end(),
                       [&](const Atom& a) { return a.is_literal() || of(a).known; });
  }
  /// In additions of single numbers.
  std::int64_t work_of(const Eqn& e) const {
    std::int64_t elements = 0;
    for (const Atom& a : e.inputs) elements += jaxpr_.aval(a).size();
    for (const Var v : e.outputs) elements += jaxpr_.aval(v).size();
    if (only_moves(e)) return elements;
    if (e.primitive == &dot_general_p) {
      const auto& p = e.params.as<DotGeneralParams>();
      std::int64_t depth = 1;
      for (const std::int64_t d : p.dimension_numbers.lhs_contracting)
        depth *= jaxpr_.aval(e.inputs[0]).shape[static_cast<std::size_t>(d)];
      return elements + depth * jaxpr_.aval(e.outputs[0]).size();
    }
    constexpr std::int64_t kOfSorting = 32;
    const bool is_element = is_cheap(e) || element_cost(e) > 1;
    return elements * (is_element ? std::max(1, element_cost(e)) : kOfSorting);
  }

  void look_at(const Eqn& e) {
    if (e.primitive == &iota_p) {
      of(e.outputs[0]).known = small(e.outputs[0]);
      return;
    }
    if (!can_be_evaluated(e)) return;
    work_ += work_of(e);
    if (work_ > kMostWork) return;
    std::int64_t read = 0, size = 0;
    bool from_inputs = false;
    for (const Atom& a : e.inputs) {
      if (a.is_literal()) continue;
      read += of(a).read;
      from_inputs |= of(a).from_inputs;
    }
    for (const Var v : e.outputs) size += jaxpr_.aval(v).size();
    const bool cheap = is_cheap(e);
    const bool worth_it = !only_moves(e) && (!cheap || (read > 0 && size <= read));
    for (const Var v : e.outputs) {
      Value& value = of(v);
      value.known = true;
      value.worth_it = worth_it;
      value.from_inputs = from_inputs;
      value.read = worth_it ? jaxpr_.aval(v).size() : std::min(read, jaxpr_.aval(v).size());
    }
  }

  void need(const Atom& a) {
    if (a.is_var()) of(a).needed = true;
  }
  // Backwards: what the rest of the program needs is a constant, or is computed as it was.
  void choose(const Eqn& e) {
    for (const Var v : e.outputs) {
      Value& value = of(v);
      const std::int64_t bytes = detail::checked_bytes(jaxpr_.aval(v));
      if (!value.known || !value.needed || !value.worth_it || bytes_ + bytes > kMostKept) continue;
      value.kept = value.evaluated = true;
      bytes_ += bytes;
      ++kept_;
    }
    if (is_left(e))
      for (const Atom& a : e.inputs) need(a);
  }
  bool is_left(const Eqn& e) const {
    return e.outputs.empty() || std::any_of(e.outputs.begin(), e.outputs.end(), [&](Var v) {
             const Value& value = of(v);
             return !value.known || (value.needed && !value.kept);
           });
  }
  bool is_evaluated(const Eqn& e) const {
    return std::any_of(e.outputs.begin(), e.outputs.end(), [&](Var v) { return of(v).evaluated; });
  }

  // Numbers that are in the text of the program are literals, which other passes understand.
  void add_constants(detail::JaxprBuilder& b, Atoms& constants, Arrays& arrays) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Value& value = values_[i];
      if (!value.kept) continue;
      const Aval& aval = jaxpr_.aval(static_cast<Var>(i));
      if (aval.shape.empty() && !value.from_inputs) {
        constants[i] = Atom::literal(detail::contiguous(value.array));
        continue;
      }
      constants[i] = Atom::var(b.add_input(aval));
      arrays.push_back(value.array);
    }
  }

  const Jaxpr& jaxpr_;
  std::vector<Value> values_;
  std::int64_t work_ = 0, bytes_ = 0;
  int kept_ = 0;
};

}  // namespace

FoldedConstants fold_constants(const Jaxpr& jaxpr, const Arrays& known, std::size_t at) {
  if (!has_closed_equations(jaxpr, known.size())) return {jaxpr, {}};
  Folder folder(jaxpr, known);
  if (!folder.find() || !folder.evaluate()) return {jaxpr, {}};
  return folder.rewritten(at);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
