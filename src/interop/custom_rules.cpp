// Rules of custom derivatives that are programs.
#include "interop/custom_rules.hpp"

#include "jaxpr/rewrite.hpp"
#include "telamon/detail/value.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

template <class Result>
auto no_rule() {
  return [](auto&&...) -> Result {
    throw InternalError("a rule of a program in a file was applied by reference");
  };
}

}  // namespace

RuleSet::RuleSet() : identity_(detail::next_identity()) {}

int RuleSet::add() {
  rules_.emplace_back();
  return static_cast<int>(rules_.size()) - 1;
}

void RuleSet::set_jvp(int number, std::size_t num_results, ClosedJaxpr jvp) {
  Rule& rule = rules_[static_cast<std::size_t>(number)];
  rule.num_results = num_results;
  rule.jvp = std::move(jvp);
}

void RuleSet::set_vjp(int number, std::size_t num_results, ClosedJaxpr fwd, ClosedJaxpr bwd) {
  Rule& rule = rules_[static_cast<std::size_t>(number)];
  rule.num_results = num_results;
  rule.fwd = std::move(fwd);
  rule.bwd = std::move(bwd);
}

std::string RuleSet::key(const char* kind, int number, bool inside) const {
  return "file " + std::to_string(identity_) + " " + kind + " " + std::to_string(number) +
         (inside ? " inside" : "");
}

// "file 7 jvp 3 inside" -> 3, if the rule is of this file and kind, and a reference.
std::optional<int> RuleSet::referred(const std::string& rule, const char* kind) const {
  const std::string start = "file " + std::to_string(identity_) + " " + kind + " ";
  if (!rule.starts_with(start) || !rule.ends_with(" inside")) return std::nullopt;
  return std::stoi(rule.substr(start.size()));
}

detail::JvpRule RuleSet::jvp(int number, bool inside) const {
  return detail::JvpRule::make("file_jvp", key("jvp", number, inside), [&] {
    if (inside) return detail::FlatJvpRule(no_rule<JvpResult>());
    return detail::FlatJvpRule(
        [set = shared_from_this(), number](std::span<const Array> x, std::span<const Tangent> dx) {
          return set->apply_jvp(number, x, dx);
        });
  });
}

detail::VjpForward RuleSet::fwd(int number, bool inside) const {
  return detail::VjpForward::make("file_fwd", key("fwd", number, inside), [&] {
    if (inside) return detail::FlatForward(no_rule<detail::ForwardResult>());
    return detail::FlatForward([set = shared_from_this(), number](std::span<const Array> x) {
      return set->apply_fwd(number, x);
    });
  });
}

Jaxpr RuleSet::resolved(const Jaxpr& jaxpr) const {
  detail::JaxprBuilder builder;
  detail::Renaming rename(jaxpr);
  rename.push_inputs(builder);
  bool changed = false;
  for (const Eqn& eqn : jaxpr.eqns()) {
    Params params = detail::map_jaxprs(
        eqn.params, [&](const Jaxpr& inner) { return resolved(inner); }, changed);
    if (eqn.primitive == &custom_jvp_call_p) {
      auto p = params.as<CustomJvpParams>();
      if (const auto number = p.jvp ? referred(p.jvp.key(), "jvp") : std::nullopt) {
        p.jvp = jvp(*number, false);
        params = Params::of(std::move(p));
        changed = true;
      }
    } else if (eqn.primitive == &custom_vjp_call_p) {
      auto p = params.as<CustomVjpParams>();
      if (const auto number = p.fwd ? referred(p.fwd.key(), "fwd") : std::nullopt) {
        p.fwd = fwd(*number, false);
        params = Params::of(std::move(p));
        changed = true;
      }
    }
    rename.push_eqn(builder, eqn, std::move(params));
  }
  if (!changed) return jaxpr;
  return builder.build(rename(jaxpr.outs()), detail::JaxprBuilder::DeadCode::keep).jaxpr;
}

Arrays RuleSet::apply(const ClosedJaxpr& program, Arrays args) const {
  args.insert(args.begin(), program.consts.begin(), program.consts.end());
  return eval_jaxpr(resolved(program.jaxpr), args);
}

// jvp: (all inputs, tangents of the float inputs) -> (all outputs, tangents of the float outputs)
JvpResult RuleSet::apply_jvp(int number, std::span<const Array> primals,
                             std::span<const Tangent> tangents) const {
  const Rule& rule = at(number);
  Arrays args(primals.begin(), primals.end());
  for (const Tangent& t : tangents) {
    if (t.aval().dtype != DType::float0) args.push_back(t.instantiate());
  }
  const Arrays outs = apply(*rule.jvp, std::move(args));
  JvpResult result;
  std::size_t next = rule.num_results;
  for (std::size_t i = 0; i < rule.num_results; ++i) {
    result.primals.push_back(outs[i]);
    if (is_inexact(outs[i].dtype())) result.tangents.emplace_back(outs[next++]);
    else result.tangents.emplace_back(Zero{outs[i].aval().tangent()});
  }
  return result;
}

// fwd: inputs -> (all outputs, residuals)
// bwd: (residuals, cotangents of the float outputs) -> cotangents of the float inputs
detail::ForwardResult RuleSet::apply_fwd(int number, std::span<const Array> args) const {
  const Rule& rule = at(number);
  Arrays outs = apply(*rule.fwd, {args.begin(), args.end()});
  const auto n = static_cast<std::ptrdiff_t>(rule.num_results);
  detail::ForwardResult result;
  result.results.assign(outs.begin(), outs.begin() + n);
  result.residuals.assign(outs.begin() + n, outs.end());
  std::vector<Aval> avals;
  std::string text;
  for (const Array& x : args) {
    avals.push_back(x.aval());
    text += x.aval().to_string();
  }
  result.bwd = detail::VjpBackward::make("file_bwd", key("bwd", number, false) + " " + text, [&] {
    return detail::FlatBackward([set = shared_from_this(), number, avals](
                                    std::span<const Array> res, std::span<const Tangent> cts) {
      return set->apply_bwd(number, avals, res, cts);
    });
  });
  return result;
}

std::vector<Tangent> RuleSet::apply_bwd(int number, const std::vector<Aval>& avals,
                                        std::span<const Array> residuals,
                                        std::span<const Tangent> cts) const {
  Arrays args(residuals.begin(), residuals.end());
  for (const Tangent& ct : cts) {
    if (ct.aval().dtype != DType::float0) args.push_back(ct.instantiate());
  }
  const Arrays outs = apply(*at(number).bwd, std::move(args));
  std::vector<Tangent> result;
  std::size_t next = 0;
  for (const Aval& aval : avals) {
    if (aval.tangent().dtype == DType::float0) result.emplace_back(Zero{aval.tangent()});
    else result.emplace_back(outs.at(next++));
  }
  return result;
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
