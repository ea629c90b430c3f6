// Constant folding: what depends on nothing that a call brings is computed once, while compiling, by the kernels that
// evaluate it eagerly, and is a constant of the executable from then on.
//
//   f(a) with the captured array c:
//   let b = sin c, d = exp b, e = reduce_sum d, f = add a e   ->   let f = add a k, with k = sum(exp(sin(c)))
//
// That goes for the programs of loops and branches, too, where what they take from outside is known: their constants
// are more operands of the loop or branch.
//
// Constants are inputs of the program: their values are in no code, and in no key of the disk cache, but for places of
// which slices are made (known_places.cpp). Those of captured arrays are evaluated anew by each process; so the work and
// the memory are bounded.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/regions.hpp"
#include "compiler/plan/dot.hpp"
#include "core/concrete.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/checkpoint.hpp"
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
  return works_by_element(*e.primitive) && element_cost(e) <= 1;
}

/// Whether an equation with something to compute has operands that are all known. Most programs have none, which
/// is to be found out quickly: what is in the disk cache is looked for afterwards.
bool has_closed_equations(const Jaxpr& jaxpr, const std::vector<bool>& known_inputs) {
  std::vector<bool> known = known_inputs;
  known.resize(static_cast<std::size_t>(jaxpr.num_vars()));
  const auto is_known = [&](const Atom& a) {
    return a.is_literal() || known[static_cast<std::size_t>(a.var())];
  };
  // A plain loop: std::all_of is written out for four at a time, which are more instructions for two.
  const auto all_known = [&](const Atoms& atoms) {
    for (const Atom& a : atoms)
      if (!is_known(a)) return false;
    return true;
  };
  // Parameters lie all over the memory: hardly any are looked at.
  for (const Eqn& e : jaxpr.eqns()) {
    if (is_region(*e.primitive)) {
      for (const Region& r : regions_of(e)) {
        std::vector<bool> inputs;
        for (int i = 0; i < r.num_consts; ++i)
          inputs.push_back(is_known(e.inputs[r.operand + static_cast<std::size_t>(i)]));
        if (has_closed_equations(*r.jaxpr, inputs)) return true;
      }
      continue;
    }
    if (!all_known(e.inputs) || e.params.has_jaxprs()) continue;
    if (!only_moves(e)) return true;
    for (const Var v : e.outputs) known[static_cast<std::size_t>(v)] = true;
  }
  return false;
}

/// What a program and all those within it may cost.
struct Budget {
  std::int64_t work = 0, bytes = 0;
};

class Folder {
 public:
  /// What is known of a variable.
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

  /// Of leading inputs.
  static std::vector<Value> values_of(const Jaxpr& jaxpr, const Arrays& known) {
    std::vector<Value> out;
    for (const Array& x : known) {
      const Aval& aval = jaxpr.aval(static_cast<Var>(out.size()));
      out.push_back({.known = detail::checked_bytes(aval) <= kMostBytes,
                     .from_inputs = true,
                     .read = aval.size(),
                     .array = x});
    }
    return out;
  }

  /// `inputs`: of the first ones.
  Folder(const Jaxpr& jaxpr, std::vector<Value> inputs, Budget& budget)
      : jaxpr_(jaxpr), values_(std::move(inputs)), budget_(budget) {
    values_.resize(static_cast<std::size_t>(jaxpr.num_vars()));
    for (std::size_t e = 0; e < jaxpr.eqns().size(); ++e) look_at(e);
  }

  /// False where nothing becomes a constant.
  bool find() {
    for (const Atom& a : jaxpr_.outs()) need(a);
    const std::vector<Eqn>& eqns = jaxpr_.eqns();
    for (std::size_t e = eqns.size(); e-- > 0;) choose(e);
    for (std::size_t e = eqns.size(); e-- > 0;) {
      for (const Within& w : within(e)) {
        for (std::size_t i = 0; i < w.num_consts; ++i) {
          const Atom& a = eqns[e].inputs[w.operand + i];
          if (a.is_var() && w.folder->values_[i].evaluated) of(a).evaluated = true;
        }
      }
      if (is_evaluated(eqns[e]))
        for (const Atom& a : eqns[e].inputs)
          if (a.is_var()) of(a).evaluated = true;
    }
    return kept_ > 0;
  }

  /// Evaluates what becomes constant. Errors are for the program to meet when it runs.
  bool evaluate() {
    for (std::size_t i = 0; i < jaxpr_.eqns().size(); ++i) {
      const Eqn& e = jaxpr_.eqns()[i];
      for (const Within& w : within(i)) {
        for (std::size_t k = 0; k < w.num_consts; ++k) {
          Value& input = w.folder->values_[k];
          if (input.evaluated) input.array = array_of(e.inputs[w.operand + k]);
        }
        if (!w.folder->evaluate()) return false;
      }
      if (!is_evaluated(e)) continue;
      Arrays x;
      for (const Atom& a : e.inputs) x.push_back(array_of(a));
      auto y = evaluated(*e.primitive, e.params, x);
      if (!y) return false;
      for (std::size_t k = 0; k < e.outputs.size(); ++k) {
        const Aval& aval = jaxpr_.aval(e.outputs[k]);
        Array& made = y->at(k);
        if (made.shape() != aval.shape || made.dtype() != aval.dtype) return false;
        of(e.outputs[k]).array = std::move(made);
      }
    }
    return true;
  }

  /// The program with the constants as its inputs from `at` on.
  FoldedConstants rewritten(std::size_t at) const {
    std::map<std::size_t, std::vector<FoldedConstants>> inner;
    for (const auto& [e, all] : within_) {
      if (std::none_of(all.begin(), all.end(), [](auto& w) { return w.folder->kept_ > 0; }))
        continue;
      for (const Within& w : all) inner[e].push_back(w.folder->rewritten(0));
    }
    FoldedConstants out;
    detail::JaxprBuilder b;
    detail::Renaming atoms(jaxpr_);
    Atoms constants(values_.size(), Atom::literal(Array(0)));
    std::map<std::size_t, std::vector<Atoms>> inner_constants;
    const auto num_inputs = static_cast<std::size_t>(jaxpr_.num_inputs());
    Atoms inputs;
    for (std::size_t i = 0; i <= num_inputs; ++i) {
      if (i == at) {
        add_constants(b, constants, out.values);
        for (const auto& [e, all] : inner)
          for (const FoldedConstants& f : all)
            inner_constants[e].push_back(add_inputs(b, f, out.values));
      }
      if (i < num_inputs)
        inputs.push_back(Atom::var(b.add_input(jaxpr_.aval(static_cast<Var>(i)))));
    }
    for (const Atom& input : inputs) atoms.push(input);
    for (std::size_t i = 0; i < jaxpr_.eqns().size(); ++i) {
      const Eqn& e = jaxpr_.eqns()[i];
      if (!is_left(e)) {
        for (const Var v : e.outputs) atoms.push(constants[static_cast<std::size_t>(v)]);
        continue;
      }
      Params params = e.params;
      Atoms operands = atoms(e.inputs);
      if (const auto found = inner.find(i); found != inner.end()) {
        std::vector<Jaxpr> programs;
        for (const FoldedConstants& f : found->second) programs.push_back(f.jaxpr);
        params = with_constants(e, programs, inner_constants.at(i), operands);
      }
      atoms.push(b.add_eqn(*e.primitive, params, operands, atoms.out_avals(e), e.effect, e.where));
    }
    out.jaxpr = b.build(atoms(jaxpr_.outs()), detail::JaxprBuilder::DeadCode::keep).jaxpr;
    return out;
  }

 private:
  Value& of(Var v) { return values_[static_cast<std::size_t>(v)]; }
  const Value& of(Var v) const { return values_[static_cast<std::size_t>(v)]; }
  Value& of(const Atom& a) { return of(a.var()); }
  const Value& of(const Atom& a) const { return of(a.var()); }

  Array array_of(const Atom& a) const { return a.is_var() ? of(a).array : a.literal(); }

  /// A program of a loop or branch.
  struct Within {
    std::unique_ptr<Folder> folder;
    std::size_t num_consts, operand;  // as in Region
  };
  std::span<const Within> within(std::size_t eqn) const {
    const auto found = within_.find(eqn);
    return found == within_.end() ? std::span<const Within>() : found->second;
  }
  Value known_of(const Atom& a) const {
    if (a.is_literal()) return {.known = true, .array = {}};
    const Value& v = of(a);
    return {.known = v.known, .from_inputs = v.from_inputs, .read = v.read, .array = {}};
  }
  void look_within(std::size_t eqn) {
    const Eqn& e = jaxpr_.eqns()[eqn];
    for (const Region& r : regions_of(e)) {
      std::vector<Value> inputs;
      for (std::size_t i = 0; i < static_cast<std::size_t>(r.num_consts); ++i)
        inputs.push_back(known_of(e.inputs[r.operand + i]));
      const std::size_t num_consts = inputs.size();
      within_[eqn].push_back(
          {std::make_unique<Folder>(*r.jaxpr, std::move(inputs), budget_), num_consts, r.operand});
    }
  }

  bool small(Var v) const { return detail::checked_bytes(jaxpr_.aval(v)) <= kMostBytes; }
  bool small(const Atom& a) const { return a.is_literal() || small(a.var()); }

  bool is_foldable(const Eqn& e) const {
    return e.effect == Effect::none && !e.inputs.empty() && !e.params.has_jaxprs() &&
           can_be_evaluated(*e.primitive) && e.primitive != &optimization_barrier_p &&
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
    if (e.primitive == &dot_general_p)
      return elements + terms_of(jaxpr_, e) * jaxpr_.aval(e.outputs[0]).size();
    constexpr std::int64_t kOfSorting = 32;
    const bool is_element = is_cheap(e) || element_cost(e) > 1;
    return elements * (is_element ? std::max(1, element_cost(e)) : kOfSorting);
  }

  void look_at(std::size_t eqn) {
    const Eqn& e = jaxpr_.eqns()[eqn];
    if (e.params.has_jaxprs()) return look_within(eqn);
    if (e.primitive == &iota_p) {
      of(e.outputs[0]).known = small(e.outputs[0]);
      return;
    }
    if (!is_foldable(e)) return;
    budget_.work += work_of(e);
    if (budget_.work > kMostWork) return;
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
  void choose(std::size_t eqn) {
    const Eqn& e = jaxpr_.eqns()[eqn];
    for (const Within& w : within(eqn)) kept_ += w.folder->find() ? 1 : 0;
    for (const Var v : e.outputs) {
      Value& value = of(v);
      const std::int64_t bytes = detail::checked_bytes(jaxpr_.aval(v));
      if (!value.known || !value.needed || !value.worth_it || budget_.bytes + bytes > kMostKept)
        continue;
      value.kept = value.evaluated = true;
      budget_.bytes += bytes;
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

  /// Inputs for the constants of a program within.
  static Atoms add_inputs(detail::JaxprBuilder& b, const FoldedConstants& within, Arrays& arrays) {
    Atoms out;
    for (std::size_t i = 0; i < within.values.size(); ++i) {
      out.push_back(Atom::var(b.add_input(within.jaxpr.aval(static_cast<Var>(i)))));
      arrays.push_back(within.values[i]);
    }
    return out;
  }

  const Jaxpr& jaxpr_;
  std::vector<Value> values_;
  std::map<std::size_t, std::vector<Within>> within_;  // by equation
  Budget& budget_;
  int kept_ = 0;
};

}  // namespace

FoldedConstants fold_constants(const Jaxpr& jaxpr, const Arrays& known, std::size_t at) {
  if (!has_closed_equations(jaxpr, std::vector<bool>(known.size(), true))) return {jaxpr, {}};
  Budget budget;
  Folder folder(jaxpr, Folder::values_of(jaxpr, known), budget);
  if (!folder.find() || !folder.evaluate()) return {jaxpr, {}};
  return folder.rewritten(at);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
