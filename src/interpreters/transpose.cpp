// Transposition: runs a linear program backwards. Cotangents of the results flow to cotangents of
// the linear inputs, through the `transpose` rules; where a value was used twice, they add up.
#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "core/counted.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

Tangent add_tangents(const Tangent& a, const Tangent& b) {
  if (a.is_zero()) return b;
  if (b.is_zero()) return a;
  return bind_held(add_p, {}, a.array(), b.array());
}

namespace {

class BackwardPass {
 public:
  BackwardPass(const Jaxpr& jaxpr, std::span<const Array> inputs)
      : jaxpr_(jaxpr),
        inputs_(inputs),
        computed_(static_cast<std::size_t>(jaxpr.num_vars()) - inputs.size()),
        cotangents_(static_cast<std::size_t>(jaxpr.num_vars())) {}

  // Equations of known operands are evaluated; the others are linear and wait.
  void forward() {
    linear_.reserve(jaxpr_.eqns().size());
    const auto is_known = [&](const Atom& a) { return value(a).has_value(); };
    Arrays args;
    for (const Eqn& eqn : jaxpr_.eqns()) {
      if (!std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_known)) {
        linear_.push_back(&eqn);
        continue;
      }
      args.clear();
      for (const Atom& a : eqn.inputs) args.push_back(value(a));
      const EqnSite site(eqn.where);
      Arrays outs = eqn.primitive->bind_erased(eqn.params, args);
      for (std::size_t i = 0; i < outs.size(); ++i)
        computed_[static_cast<std::size_t>(eqn.outputs[i]) - inputs_.size()] = std::move(outs[i]);
    }
  }

  void seed(std::span<const Tangent> cts) {
    for (std::size_t i = 0; i < cts.size(); ++i) accumulate(jaxpr_.outs()[i], cts[i]);
  }

  void backward() {
    for (auto it = linear_.rbegin(); it != linear_.rend(); ++it) transpose(**it);
  }

  Tangent cotangent(std::size_t v) const {
    if (cotangents_[v].has_value()) return cotangents_[v];
    return Zero{jaxpr_.avals()[v].tangent()};
  }

 private:
  // Empty where linear.
  const Array& value(const Atom& a) const {
    if (a.is_literal()) return a.literal();
    const auto v = static_cast<std::size_t>(a.var());
    return v < inputs_.size() ? inputs_[v] : computed_[v - inputs_.size()];
  }

  void accumulate(const Atom& a, const Tangent& ct) {
    if (ct.is_zero() || value(a).has_value()) return;
    Array& sum = cotangents_[static_cast<std::size_t>(a.var())];
    TELAMON_CHECK(is_tangent_type(ct.aval(), jaxpr_.aval(a.var())),
                  "cotangent " + ct.aval().to_string() + " for a variable of type " +
                      jaxpr_.aval(a.var()).to_string());
    sum = sum.has_value() ? bind_held(add_p, {}, sum, ct.array()) : ct.array();
  }

  void transpose(const Eqn& eqn) {
    InlineVector<Tangent, 4> cts;
    cts.reserve(eqn.outputs.size());
    bool all_zero = true;
    for (const Var v : eqn.outputs) {
      Array& ct = cotangents_[static_cast<std::size_t>(v)];
      all_zero = all_zero && !ct.has_value();
      if (ct.has_value()) cts.emplace_back(std::exchange(ct, {}));  // nobody reads it again
      else cts.emplace_back(Zero{jaxpr_.aval(v).tangent()});
    }
    if (all_zero) return;
    const EqnSite site(eqn.where);
    const auto& rule = eqn.primitive->rules().transpose;
    if (!rule) missing_rule(*eqn.primitive, "transpose");
    InlineVector<LinearInput, 4> inputs;
    inputs.reserve(eqn.inputs.size());
    for (const Atom& a : eqn.inputs) {
      const Array& x = value(a);
      if (x.has_value()) inputs.emplace_back(x);
      else inputs.emplace_back(UndefPrimal{jaxpr_.aval(a)});
    }
    const std::vector<Tangent> in_cts = rule(eqn.params, cts, inputs);
    TELAMON_CHECK(in_cts.size() == inputs.size(),
                  "the transpose rule of " + std::string(eqn.primitive->name()) + " gave " +
                      counted(in_cts.size(), "cotangent") + " for " +
                      counted(inputs.size(), "operand"));
    for (std::size_t i = 0; i < in_cts.size(); ++i) accumulate(eqn.inputs[i], in_cts[i]);
  }

  const Jaxpr& jaxpr_;
  std::span<const Array> inputs_;
  Arrays computed_;    // by variable, after the inputs
  Arrays cotangents_;  // by variable; empty where zero
  std::vector<const Eqn*> linear_;
};

}  // namespace

std::vector<Tangent> backward_pass(const Jaxpr& jaxpr, std::span<const Array> inputs,
                                   std::span<const Tangent> cts) {
  TELAMON_CHECK(inputs.size() == static_cast<std::size_t>(jaxpr.num_inputs()),
                "a backward pass needs each input, or none in its place");
  BackwardPass pass(jaxpr, inputs);
  pass.forward();
  pass.seed(cts);
  pass.backward();
  std::vector<Tangent> in_cts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].has_value()) in_cts.push_back(pass.cotangent(i));
  }
  return in_cts;
}

std::shared_ptr<const TransposedJaxpr> transpose_jaxpr(const Jaxpr& jaxpr,
                                                       const std::vector<bool>& linear_in,
                                                       const std::vector<bool>& zero_cts) {
  const std::string key = "transpose:" + mask_text(linear_in) + ":" + mask_text(zero_cts);
  return jaxpr.memo<TransposedJaxpr>(key, [&] {
    std::vector<Aval> avals;
    for (std::size_t i = 0; i < linear_in.size(); ++i) {
      if (!linear_in[i]) avals.push_back(jaxpr.in_avals()[i]);
    }
    const std::vector<Aval> out_avals = jaxpr.out_avals();
    for (std::size_t i = 0; i < zero_cts.size(); ++i) {
      if (!zero_cts[i]) avals.push_back(out_avals[i].tangent());
    }
    TransposedJaxpr result;
    const auto f = [&](std::span<const Array> args) {
      std::size_t next = 0;
      BorrowedArrays inputs;
      for (const bool is_linear : linear_in) {
        if (is_linear) inputs.push_back(Array());
        else inputs.push_back(args[next++]);
      }
      std::vector<Tangent> cts;
      for (std::size_t i = 0; i < zero_cts.size(); ++i) {
        if (zero_cts[i]) cts.emplace_back(Zero{out_avals[i].tangent()});
        else cts.emplace_back(args[next++]);
      }
      Arrays outs;
      result.nonzero_in_ct.clear();
      for (const Tangent& ct : backward_pass(jaxpr, inputs, cts)) {
        result.nonzero_in_ct.push_back(!ct.is_zero());
        if (!ct.is_zero()) outs.push_back(ct.array());
      }
      return outs;
    };
    ClosedJaxpr closed = stage_flat(f, avals);
    TELAMON_CHECK(closed.consts.empty(), "the transpose of a closed jaxpr captured a value");
    result.jaxpr = std::move(closed.jaxpr);
    return result;
  });
}

std::string mask_text(const std::vector<bool>& mask) {
  std::string text;
  text.reserve(mask.size());
  for (const bool b : mask) text += b ? '1' : '0';
  return text;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
