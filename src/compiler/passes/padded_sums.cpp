// What is added to a part of a donated argument: as an update of that part, which can be made in place.
//   let p = pad[(3,90,0)] v -0, y = add x p
//   ->   let s = slice[3:10] x, t = add s v, y = dynamic_update_slice x t 3
// -0 added to any number is that number, so no bit changes. Where the array passes through memory anyway the
// sum is as good as it is.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/regions.hpp"
#include "compiler/plan/updates.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// An equation that adds a padded array to its operand `to`.
struct PaddedSum {
  std::size_t to;
  Atom update;
  Shape starts, limits;  ///< of the part
};

class PaddedSums {
 public:
  explicit PaddedSums(const Jaxpr& jaxpr) : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)) {}

  /// With updates of these inputs for the sums.
  Jaxpr rewritten(const std::vector<bool>& inputs) {
    for (const Atom& out : jaxpr_.outs()) {
      Path path;
      const int input = trace(out, &path);
      if (input < 0 || !inputs[static_cast<std::size_t>(input)]) continue;
      for (const auto& [e, operand] : path) on_paths_[e].insert(operand);
    }
    return on_paths_.empty() ? jaxpr_ : rewritten();
  }

 private:
  using Path = std::vector<std::pair<int, std::size_t>>;  // equations and their operands

  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int producer(const Atom& a) const {
    return a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
  }

  // The input that a value is with parts overwritten or added to, and by which equations; -1: none.
  int trace(Atom at, Path* path) {
    for (int e = producer(at); e >= 0; e = producer(at)) {
      const int operand = operand_of(e, at.var());
      if (operand < 0) return -1;
      if (path != nullptr) path->emplace_back(e, operand);
      at = eqn(e).inputs[static_cast<std::size_t>(operand)];
    }
    return at.is_var() ? at.var() : -1;
  }
  int operand_of(int number, Var result) {
    const Eqn& e = eqn(number);
    if (const auto sum = sum_of(e)) return static_cast<int>(sum->to);
    if (overwrites(e)) return 0;
    if (!is_region(*e.primitive)) return -1;
    const auto [found, fresh] = handed_on_.try_emplace(number);
    if (fresh) found->second = handed_on_by(e);
    return found->second[static_cast<std::size_t>(
        std::find(e.outputs.begin(), e.outputs.end(), result) - e.outputs.begin())];
  }
  // Of each result of a region: the operand that it is with parts overwritten or added to.
  static std::vector<int> handed_on_by(const Eqn& e) {
    const auto traced = [](const Jaxpr& j) {
      PaddedSums program(j);
      std::vector<int> out;
      for (const Atom& a : j.outs()) out.push_back(program.trace(a, nullptr));
      return out;
    };
    const std::vector<Jaxpr> programs = e.params.jaxprs();
    std::vector<int> from = traced(programs.back());
    const auto keep_where = [&](const auto& holds) {
      for (std::size_t r = 0; r < from.size(); ++r) from[r] = holds(r) ? from[r] : -1;
    };
    if (e.primitive == &cond_p) {
      for (std::size_t i = 0; i + 1 < programs.size(); ++i)
        keep_where([&, other = traced(programs[i])](std::size_t r) { return from[r] == other[r]; });
    } else {
      const int consts = regions_of(e).back().num_consts;
      keep_where([&](std::size_t r) { return from[r] == static_cast<int>(r) + consts; });
    }
    for (int& operand : from) operand = operand < 0 ? -1 : operand + first_operand(e);
    return from;
  }
  // The operand that is the first input of the last of a region's programs.
  static int first_operand(const Eqn& e) { return static_cast<int>(regions_of(e).back().operand); }

  std::optional<PaddedSum> sum_of(const Eqn& e) const {
    if (e.primitive != &add_p || weight_of(jaxpr_.aval(e.outputs[0])) < kLeastUpdated)
      return std::nullopt;
    for (std::size_t to = 0; to < 2; ++to) {
      const int p = producer(e.inputs[1 - to]);
      if (p < 0 || eqn(p).primitive != &pad_p || !adds_nothing(eqn(p).inputs[1])) continue;
      const Eqn* const pad = &eqn(p);
      const Shape& part = jaxpr_.aval(pad->inputs[0]).shape;
      PaddedSum sum{.to = to, .update = pad->inputs[0]};
      bool inside = true;
      for (std::size_t d = 0; d < part.size(); ++d) {
        const auto [low, high, interior] = pad->params.as<PadParams>().padding_config[d];
        inside = inside && low >= 0 && high >= 0 && interior == 0;
        sum.starts.push_back(low);
        sum.limits.push_back(low + part[d]);
      }
      if (inside && 2 * part.num_elements() <= jaxpr_.aval(e.outputs[0]).size()) return sum;
    }
    return std::nullopt;
  }
  static bool adds_nothing(const Atom& a) {
    if (a.is_var()) return false;
    const Array& x = a.literal();
    if (!is_float(x.dtype())) return is_integer(x.dtype()) && x.item<std::int64_t>() == 0;
    return x.item<double>() == 0 && std::signbit(x.item<double>());
  }

  Jaxpr rewritten() const {
    detail::JaxprBuilder b;
    detail::Renaming atoms(jaxpr_);
    bool changed = false;
    atoms.push_inputs(b);
    for (int i = 0; i < static_cast<int>(jaxpr_.eqns().size()); ++i) {
      const Eqn& e = eqn(i);
      const auto found = on_paths_.find(i);
      const auto sum = found == on_paths_.end() ? std::nullopt : sum_of(e);
      if (sum) {
        atoms.push(updated(b, e, *sum, atoms));
        changed = true;
        continue;
      }
      atoms.push_eqn(b, e,
                     found == on_paths_.end() || !is_region(*e.primitive)
                         ? e.params
                         : inside(e, found->second, changed));
    }
    return changed ? b.build(atoms(jaxpr_.outs())).jaxpr : jaxpr_;
  }
  // Of a region that hands these operands on.
  static Params inside(const Eqn& e, const std::set<std::size_t>& operands, bool& changed) {
    std::vector<bool> inputs(e.inputs.size(), false);  // of a program of it
    for (const std::size_t o : operands)
      inputs[o - static_cast<std::size_t>(first_operand(e))] = true;
    const Jaxpr condition =
        e.primitive == &while_p ? e.params.as<WhileParams>().cond_jaxpr : Jaxpr();
    return detail::map_jaxprs(
        e.params,
        [&](const Jaxpr& j) {
          return e.primitive == &while_p && j.same_as(condition) ? j
                                                                 : PaddedSums(j).rewritten(inputs);
        },
        changed);
  }
  Atom updated(detail::JaxprBuilder& b, const Eqn& e, const PaddedSum& sum,
               const detail::Renaming& atoms) const {
    const Atom x = atoms(e.inputs[sum.to]), update = atoms(sum.update);
    const Aval& out = jaxpr_.aval(e.outputs[0]);
    const Aval part = out.with_shape(b.aval(update).shape);
    const Atom old =
        Atom::var(b.add_eqn1(slice_p, Params::of(SliceParams{sum.starts, sum.limits, {}}), {x},
                             part.strong(), Effect::none, e.where));
    Atoms terms{old, update};
    if (sum.to == 1) std::swap(terms[0], terms[1]);
    const Atom both = Atom::var(
        b.add_eqn1(*e.primitive, e.params, std::move(terms), part.strong(), Effect::none, e.where));
    Atoms inputs{x, both};
    for (const std::int64_t start : sum.starts) inputs.push_back(literal_of(start, DType::i64));
    return Atom::var(b.add_eqn1(dynamic_update_slice_p, Params::of(NoParams{}), std::move(inputs),
                                out, Effect::none, e.where));
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producer_;
  std::map<int, std::vector<int>> handed_on_;      // by regions, once it has been asked
  std::map<int, std::set<std::size_t>> on_paths_;  // equations, and operands that they hand on
};

}  // namespace

Jaxpr update_sums(const Jaxpr& jaxpr, const std::vector<bool>& donated) {
  return PaddedSums(jaxpr).rewritten(donated);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
