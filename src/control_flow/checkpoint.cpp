// checkpoint: a call of a program, whose partial evaluation saves no more than a policy allows. The
// staged half computes the other residuals again from the arguments:
//
//   f(x) = sin(sin x)     known:  x -> sin(sin x)
//                         staged: x, dx -> { s = sin x; cos s * cos x * dx }      (differentiated)
//
// A differentiated program reads its operands through an optimization_barrier when it is lowered, so
// that merging equal equations does not bring the first computation's values back to life, and does
// not begin before its cotangents are there.
#include "telamon/checkpoint.hpp"

#include <algorithm>
#include <ostream>

#include "control_flow/calls.hpp"
#include "core/trace.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

CheckpointParams with_jaxpr(const CheckpointParams& p, Jaxpr jaxpr, bool differentiated) {
  return {std::move(jaxpr), p.policy, p.prevent_cse, differentiated, p.name};
}

Arrays run(const CheckpointParams& p, std::span<const Array> args) {
  return eval_jaxpr(p.jaxpr, args);
}

Arrays lowered(const CheckpointParams& p, std::span<const Array> args) {
  if (!p.differentiated || !p.prevent_cse || args.empty()) return eval_jaxpr(p.jaxpr, args);
  return eval_jaxpr(p.jaxpr, optimization_barrier_p.bind({}, args));
}

// Binds checkpoint again with another program.
detail::Rebind again(const CheckpointParams& p, bool differentiated) {
  return [&p, differentiated](const Jaxpr& program, const Arrays& args) {
    return checkpoint_p.bind(with_jaxpr(p, program, differentiated), args);
  };
}

PartialEvalResult split(const CheckpointParams& p, const Jaxpr&, const Eqn&,
                        const std::vector<bool>& unknown_in,
                        const std::vector<bool>& instantiate_out, const Policy& outer) {
  const auto compute = [&] {
    const Policy policy = [&](const Eqn& e) { return p.policy.saves(e) && (!outer || outer(e)); };
    // The policy speaks of values, so calls inside are opened.
    return detail::split_jaxpr(inline_calls(p.jaxpr), unknown_in, instantiate_out, policy);
  };
  std::shared_ptr<const detail::PartialEvalJaxpr> halves;
  if (outer) {
    halves = compute();
  } else {
    const std::string key = "checkpoint:" + p.policy.to_string() + ":" +
                            detail::mask_text(unknown_in) + ":" +
                            detail::mask_text(instantiate_out);
    halves = p.jaxpr.memo<detail::PartialEvalJaxpr>(key, [&] { return *compute(); });
  }
  return {Params::of(with_jaxpr(p, halves->known, p.differentiated)),
          Params::of(with_jaxpr(p, halves->staged, true)), halves->unknown_out, halves->residuals,
          halves->fresh_avals};
}

DceResult prune(const CheckpointParams& p, const std::vector<bool>& used_out) {
  DceJaxpr pruned = dce_jaxpr(p.jaxpr, used_out);
  return {Params::of(with_jaxpr(p, std::move(pruned.jaxpr), p.differentiated)),
          std::move(pruned.used_in)};
}

// ---- policies ----------------------------------------------------------------------------------

constexpr std::array<std::string_view, 6> kPolicies = {
    "nothing_saveable",      "everything_saveable",
    "dots_saveable",         "dots_with_no_batch_dims_saveable",
    "save_only_these_names", "save_anything_except_these_names"};

bool takes_names(CheckpointPolicy::Kind kind) {
  return kind == CheckpointPolicy::Kind::save_only_these_names ||
         kind == CheckpointPolicy::Kind::save_anything_except_these_names;
}

// Names in the list of a policy's text: commas and backslashes within them are escaped, and "\\e" is
// the empty name.
std::string escaped(const std::string& name) {
  if (name.empty()) return "\\e";
  std::string text;
  for (const char c : name) {
    if (c == ',' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

std::vector<std::string> names_in(std::string_view list) {
  if (list.empty()) return {};
  std::vector<std::string> names(1);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '\\' && i + 1 < list.size()) {
      if (list[++i] != 'e') names.back() += list[i];
    } else if (list.substr(i, 2) == ", ") {
      names.emplace_back();
      ++i;
    } else {
      names.back() += list[i];
    }
  }
  return names;
}

}  // namespace

CheckpointPolicy::CheckpointPolicy(Kind kind, std::vector<std::string> names)
    : kind_(kind), names_(std::move(names)) {}

CheckpointPolicy::CheckpointPolicy(std::function<bool(const Eqn&)> saves)
    : kind_(Kind::custom),
      custom_(decltype(custom_)::make("policy", "policy " + std::to_string(detail::next_identity()),
                                      [&] { return saves; })) {}

bool CheckpointPolicy::saves(const Eqn& eqn) const {
  const auto listed = [&] {
    return eqn.primitive == &name_p && std::find(names_.begin(), names_.end(),
                                                 eqn.params.as<NameParams>().name) != names_.end();
  };
  switch (kind_) {
    case Kind::nothing_saveable: return false;
    case Kind::everything_saveable: return true;
    case Kind::dots_saveable: return eqn.primitive == &dot_general_p;
    case Kind::dots_with_no_batch_dims_saveable:
      return eqn.primitive == &dot_general_p &&
             eqn.params.as<DotGeneralParams>().dimension_numbers.lhs_batch.empty();
    case Kind::save_only_these_names: return listed();
    case Kind::save_anything_except_these_names: return !listed();
    case Kind::custom: return (*custom_)(eqn);
  }
  return false;
}

std::size_t CheckpointPolicy::hash() const { return detail::hash_bytes(to_string()); }

std::string CheckpointPolicy::to_string() const {
  if (kind_ == Kind::custom) return custom_.to_string();
  std::string text(kPolicies[static_cast<std::size_t>(kind_)]);
  if (!takes_names(kind_)) return text;
  text += '(';
  for (std::size_t i = 0; i < names_.size(); ++i) text += (i ? ", " : "") + escaped(names_[i]);
  std::string quoted;
  detail::append_quoted(quoted, text + ")");
  return quoted;
}

std::ostream& operator<<(std::ostream& os, const CheckpointPolicy& policy) {
  return os << policy.to_string();
}

CheckpointPolicy CheckpointPolicy::from_text(std::string_view text) {
  const std::string_view word = text.substr(0, text.find('('));
  const auto found = std::find(kPolicies.begin(), kPolicies.end(), word);
  if (found == kPolicies.end()) {
    CheckpointPolicy policy;
    policy.kind_ = Kind::custom;
    policy.custom_ = decltype(policy.custom_)::from_text(text);
    return policy;
  }
  CheckpointPolicy policy(static_cast<Kind>(found - kPolicies.begin()));
  if (word.size() == text.size()) return policy;
  const std::string_view rest = text.substr(word.size() + 1);
  policy.names_ = names_in(rest.substr(0, rest.rfind(')')));
  return policy;
}

const Primitive<CheckpointParams> checkpoint_p{
    "checkpoint", [] {
      return Rules<CheckpointParams>{
          .impl = run,
          .abstract_eval = [](const CheckpointParams& p, std::span<const Aval> in)
              -> AbstractResult { return detail::type_of_call("checkpoint", p.jaxpr, in); },
          .jvp =
              [](const CheckpointParams& p, std::span<const Array> primals,
                 std::span<const Tangent> tangents) {
                return detail::jvp_of_call(p.jaxpr, primals, tangents, again(p, p.differentiated));
              },
          .transpose =
              [](const CheckpointParams& p, std::span<const Tangent> cts,
                 std::span<const LinearInput> inputs) {
                return detail::transpose_of_call(p.jaxpr, cts, inputs, again(p, true));
              },
          .batch =
              [](const CheckpointParams& p, const AxisInfo& axis, std::span<const Array> args,
                 std::span<const BatchAxis> axes) {
                return detail::batch_of_call(p.jaxpr, axis, args, axes, again(p, p.differentiated));
              },
          .partial_eval = split,
          .dce = prune,
          .lower = ops<CheckpointParams>(lowered),
      };
    }};

namespace detail {

Arrays checkpoint_arrays(const FlatFunction& f, std::span<const Array> args,
                         const CheckpointOptions& options) {
  if (!tracing_under_way()) return f(args);
  const std::vector<Aval> avals = avals_of(args);
  ClosedJaxpr body = stage_flat(f, avals, "checkpoint(" + options.name + ")");
  Arrays operands = std::move(body.consts);
  operands.insert(operands.end(), args.begin(), args.end());
  return checkpoint_p.bind(
      {std::move(body.jaxpr), options.policy, options.prevent_cse, false, options.name}, operands);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
