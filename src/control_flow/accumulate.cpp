// Recognises what is zero elsewhere, and adds it where the sum lies.
#include "control_flow/accumulate.hpp"

#include <algorithm>
#include <optional>

#include "jaxpr/builder.hpp"
#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kSmall = 64;  // elements: to add them all costs no more

/// What is known of a program's variables.
class Facts {
 public:
  explicit Facts(const Jaxpr& jaxpr)
      : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)), uses_(detail::use_counts(jaxpr)) {}

  /// The number of the equation that gives it, -1 for inputs and literals.
  int position(const Atom& a) const {
    return a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
  }
  const Eqn* producer(const Atom& a) const {
    const int e = position(a);
    return e < 0 ? nullptr : &jaxpr_.eqns()[static_cast<std::size_t>(e)];
  }
  const Eqn* producer(const Atom& a, const PrimitiveBase& p) const {
    const Eqn* eqn = producer(a);
    return eqn != nullptr && eqn->primitive == &p ? eqn : nullptr;
  }
  int uses(const Atom& a) const {
    return a.is_var() ? uses_[static_cast<std::size_t>(a.var())] : 0;
  }
  static std::size_t result(const Eqn& eqn, const Atom& a) {
    return static_cast<std::size_t>(std::find(eqn.outputs.begin(), eqn.outputs.end(), a.var()) -
                                    eqn.outputs.begin());
  }

  bool zero(const Atom& a) const {
    if (a.is_literal()) return !is_complex(a.literal().dtype()) && a.literal().item<double>() == 0;
    const Eqn* b = producer(a, broadcast_in_dim_p);
    return b != nullptr && b->inputs[0].is_literal() && zero(b->inputs[0]);
  }

  /// Of a value used once that is zero but for a part: its first equation, from where on a sum can
  /// take its place. Nothing for other values.
  std::optional<int> sparse_from(const Atom& a, int expected_uses = 1) const {
    if (uses(a) != expected_uses) return std::nullopt;
    const Eqn* eqn = producer(a);
    if (eqn == nullptr || eqn->effect != Effect::none) return std::nullopt;
    const int here = position(a);
    if (eqn->primitive == &dynamic_update_slice_p) {
      if (zero(eqn->inputs[0]))
        return is_part(eqn->inputs[1], a) ? std::optional(here) : std::nullopt;
      return adds_to_window(*eqn) ? sparse_from(eqn->inputs[0], 2) : std::nullopt;
    }
    if (eqn->primitive == &pad_p)
      return pads_with_zeros(*eqn) && is_part(eqn->inputs[0], a) ? std::optional(here)
                                                                 : std::nullopt;
    if (eqn->primitive == &scatter_add_p) return base_from(eqn->inputs[0], here);
    if (eqn->primitive == &add_p) {
      const auto first = sparse_from(eqn->inputs[0]), second = sparse_from(eqn->inputs[1]);
      if (!first || !second || position(eqn->inputs[0]) >= *second) return std::nullopt;
      return first;
    }
    const std::size_t r = result(*eqn, a);
    if (eqn->primitive == &cond_p) {
      const auto& branches = eqn->params.as<CondParams>().branches;
      const bool all = std::all_of(branches.begin(), branches.end(), [&](const Jaxpr& j) {
        const Facts facts(j);
        return facts.zero(j.outs()[r]) || facts.sparse_from(j.outs()[r]);
      });
      return all ? std::optional(here) : std::nullopt;
    }
    if (const auto carried = handed_on(*eqn, r)) return base_from(eqn->inputs[*carried], here);
    return std::nullopt;
  }

  /// The input that a result is with something added to parts of it, if it is used for that only.
  std::optional<std::size_t> added_to(Atom a) const {
    int expected = 1;  // uses, all by the equation that adds to it
    while (const Eqn* eqn = uses(a) == expected ? producer(a) : nullptr) {
      if (eqn->effect != Effect::none) return std::nullopt;
      Atom next = eqn->inputs[0];
      int reads = 1;
      if (eqn->primitive == &dynamic_update_slice_p) {
        if (!adds_to_window(*eqn)) return std::nullopt;
        reads = 2;
      } else if (eqn->primitive != &scatter_add_p) {
        const auto operand = handed_on(*eqn, result(*eqn, a));
        if (!operand) return std::nullopt;
        next = eqn->inputs[*operand];
      }
      if (uses(next) != reads) return std::nullopt;
      a = next;
      expected = reads;
    }
    if (!a.is_var() || position(a) >= 0 || uses(a) != expected) return std::nullopt;
    return static_cast<std::size_t>(a.var());
  }

 private:
  std::optional<int> base_from(const Atom& base, int here) const {
    return zero(base) ? std::optional(here) : sparse_from(base);
  }

  // Columns of a few, as batches of small vectors have them, are added whole: loops over such batches
  // keep them in registers.
  bool is_part(const Atom& part, const Atom& whole) const {
    constexpr std::int64_t kFew = 8;
    return kFew * size(part) <= size(whole);
  }
  std::int64_t size(const Atom& a) const { return a.is_var() ? jaxpr_.aval(a.var()).size() : 1; }

  bool pads_with_zeros(const Eqn& eqn) const {
    const auto& padding = eqn.params.as<PadParams>().padding_config;
    return zero(eqn.inputs[1]) && std::all_of(padding.begin(), padding.end(), [](const auto& p) {
             return p[0] >= 0 && p[1] >= 0 && p[2] == 0;
           });
  }

  // dynamic_update_slice(x, dynamic_slice(x, i) + u, i)
  bool adds_to_window(const Eqn& update) const {
    const Eqn* sum = uses(update.inputs[1]) == 1 ? producer(update.inputs[1], add_p) : nullptr;
    if (sum == nullptr || uses(sum->inputs[0]) != 1) return false;
    const Eqn* old = producer(sum->inputs[0], dynamic_slice_p);
    return old != nullptr && old->inputs[0] == update.inputs[0] &&
           std::equal(old->inputs.begin() + 1, old->inputs.end(), update.inputs.begin() + 2,
                      update.inputs.end());
  }

  // The operand that result r of a loop or branch is with something added to parts of it.
  static std::optional<std::size_t> handed_on(const Eqn& eqn, std::size_t r) {
    if (eqn.primitive == &scan_p) {
      const auto& p = eqn.params.as<ScanParams>();
      if (r >= static_cast<std::size_t>(p.num_carry)) return std::nullopt;
      const auto operand = Facts(p.jaxpr).added_to(p.jaxpr.outs()[r]);
      if (operand != r + static_cast<std::size_t>(p.num_consts)) return std::nullopt;
      return operand;
    }
    if (eqn.primitive != &cond_p) return std::nullopt;
    std::optional<std::size_t> operand;
    for (const Jaxpr& j : eqn.params.as<CondParams>().branches) {
      const auto here = Facts(j).added_to(j.outs()[r]);
      if (!here || (operand && operand != here)) return std::nullopt;
      operand = here;
    }
    return *operand + 1;  // the index comes first
  }

  const Jaxpr& jaxpr_;
  std::vector<int> producer_;
  std::vector<int> uses_;
};

class Accumulation {
 public:
  explicit Accumulation(const Jaxpr& body)
      : body_(body),
        facts_(body),
        base_(static_cast<std::size_t>(body.num_vars())),
        same_(static_cast<std::size_t>(body.num_vars())) {}

  Jaxpr run() {
    for (auto eqn = body_.eqns().rbegin(); eqn != body_.eqns().rend(); ++eqn) plan(*eqn);
    if (!changed_) return body_;
    detail::Renaming renamed(body_);
    renamed.push_inputs(builder_);
    for (const Eqn& eqn : body_.eqns()) emit(eqn, renamed);
    return builder_.build(renamed(body_.outs())).jaxpr;
  }

 private:
  std::optional<Atom>& base(const Atom& a) { return base_[static_cast<std::size_t>(a.var())]; }

  // Which values are to be added to which: an equation's results before its operands.
  void plan(const Eqn& eqn) {
    if (eqn.primitive == &add_p) return plan_sum(eqn);
    for (const Var v : eqn.outputs) {
      const auto& from = base_[static_cast<std::size_t>(v)];
      if (!from) continue;
      const auto hand_on = [&](const Atom& operand) {
        if (!facts_.zero(operand)) base(operand) = from;
      };
      if (eqn.primitive == &scatter_add_p || eqn.primitive == &dynamic_update_slice_p)
        hand_on(eqn.inputs[0]);
      if (eqn.primitive == &scan_p)
        hand_on(eqn.inputs[static_cast<std::size_t>(eqn.params.as<ScanParams>().num_consts) +
                           Facts::result(eqn, Atom::var(v))]);
    }
  }

  void plan_sum(const Eqn& eqn) {
    const Var sum = eqn.outputs[0];
    const Atom &x = eqn.inputs[0], &y = eqn.inputs[1];
    if (const auto& from = base_[static_cast<std::size_t>(sum)]) {
      base(x) = *from;
      base(y) = x;
      same_[static_cast<std::size_t>(sum)] = y;
      return;
    }
    const auto alike = [&](const Atom& a) {
      return a.is_var() && body_.aval(a) == body_.aval(sum);
    };
    if (body_.aval(sum).size() <= kSmall || !alike(x) || !alike(y)) return;
    const auto try_on = [&](const Atom& to, const Atom& added) {
      const auto first = facts_.sparse_from(added);
      if (!first || facts_.position(to) >= *first) return false;
      base(added) = to;
      same_[static_cast<std::size_t>(sum)] = added;
      changed_ = true;
      return true;
    };
    if (facts_.zero(y) || facts_.zero(x)) {
      same_[static_cast<std::size_t>(sum)] = facts_.zero(y) ? x : y;
      changed_ = true;
    } else if (!try_on(x, y)) {
      try_on(y, x);
    }
  }

  void emit(const Eqn& eqn, detail::Renaming& renamed) {
    const auto& same =
        eqn.outputs.size() == 1 ? same_[static_cast<std::size_t>(eqn.outputs[0])] : std::nullopt;
    if (same) return renamed.push(renamed(*same));
    Atoms operands = renamed(eqn.inputs);
    Params params = eqn.params;
    const PrimitiveBase* primitive = eqn.primitive;
    std::vector<std::size_t> based;  // results to which something is added
    for (std::size_t r = 0; r < eqn.outputs.size(); ++r) {
      const auto& from = base_[static_cast<std::size_t>(eqn.outputs[r])];
      if (!from) continue;
      if (eqn.primitive == &pad_p) {  // u in the middle of zeros
        operands[1] = operands[0];
        for (const auto& p : eqn.params.as<PadParams>().padding_config)
          operands.push_back(Atom::literal(Array::from_data(&p[0], DType::i64, {})));
        primitive = &dynamic_update_slice_p;
        params = Params();
      }
      if (primitive == &dynamic_update_slice_p) {
        if (primitive == eqn.primitive && !facts_.zero(eqn.inputs[0])) continue;
        operands[0] = renamed(*from);
        operands[1] = added_to_window(operands);
      } else if (eqn.primitive == &cond_p) {
        based.push_back(r);
        operands.push_back(renamed(*from));
      } else {
        const std::size_t at =
            eqn.primitive == &scan_p
                ? r + static_cast<std::size_t>(eqn.params.as<ScanParams>().num_consts)
                : 0;
        if (facts_.zero(eqn.inputs[at])) operands[at] = renamed(*from);
      }
    }
    if (!based.empty()) {
      CondParams p;
      for (const Jaxpr& j : eqn.params.as<CondParams>().branches)
        p.branches.push_back(added_to_results(j, based));
      params = Params::of(std::move(p));
    }
    renamed.push(builder_.add_eqn(*primitive, std::move(params), std::move(operands),
                                  renamed.out_avals(eqn), eqn.effect, eqn.where));
  }

  // x[i] + u for an update of x by u.
  Atom added_to_window(const Atoms& update) {
    const Aval& window = builder_.aval(update[1]);
    Atoms read = update;
    read.erase(read.begin() + 1);
    const Atom old =
        Atom::var(builder_.add_eqn1(dynamic_slice_p, Params::of(DynamicSliceParams{window.shape}),
                                    read, builder_.aval(update[0]).with_shape(window.shape)));
    return Atom::var(builder_.add_eqn1(add_p, Params(), {old, update[1]}, builder_.aval(old)));
  }

  // The branch with further inputs, to which these of its results are added.
  static Jaxpr added_to_results(const Jaxpr& branch, const std::vector<std::size_t>& results) {
    JaxprBuilder b;
    Atoms args, sums;
    for (const Aval& aval : branch.in_avals()) args.push_back(Atom::var(b.add_input(aval)));
    for (const std::size_t r : results)
      sums.push_back(Atom::var(b.add_input(branch.aval(branch.outs()[r]))));
    Atoms outs = b.inline_jaxpr(branch, args);
    for (std::size_t i = 0; i < results.size(); ++i) {
      Atom& out = outs[results[i]];
      out = Atom::var(b.add_eqn1(add_p, Params(), {sums[i], out}, b.aval(sums[i])));
    }
    return accumulated(b.build(outs).jaxpr);
  }

  const Jaxpr& body_;
  const Facts facts_;
  std::vector<std::optional<Atom>> base_;  // by variable: what it is added to
  std::vector<std::optional<Atom>> same_;  // by variable: what it is the same as
  bool changed_ = false;
  JaxprBuilder builder_;
};

}  // namespace

Jaxpr accumulated(const Jaxpr& body) { return Accumulation(body).run(); }

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
