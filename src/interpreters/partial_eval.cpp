// Partial evaluation at trace time: what is known is computed now, what is not is recorded for later.
// Values that the recorded part needs of the known part are its residuals. A known tracer is just its
// value, at a lower level; unknown ones are variables of the jaxpr under construction.
// partial_eval_jaxpr.cpp splits programs in the same way.
#include <algorithm>

#include "core/check.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "jaxpr/builder.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

class PartialEvalTracer final : public Tracer {
 public:
  PartialEvalTracer(MainTrace& main, Array known)
      : Tracer(main, known), known_(std::move(known)), atom_(Atom::var(0)) {}
  PartialEvalTracer(MainTrace& main, const Aval& aval, Atom atom)
      : Tracer(main, aval), atom_(std::move(atom)) {}
  bool is_known() const { return known_.has_value(); }
  const Array& known() const { return known_; }
  const Atom& atom() const { return atom_; }
  const Array* lowered() const override { return is_known() ? &known_ : nullptr; }
  std::optional<Array> known_value() const override {
    return is_known() ? detail::known_value(known_) : std::nullopt;
  }
  const Tracer& hidden_by() const override {
    const Tracer* inner = is_known() ? as_tracer(known_) : nullptr;
    return inner ? inner->hidden_by() : *this;
  }

 private:
  Array known_;
  Atom atom_;
};

// The equation alone in a jaxpr, as rules for higher-order primitives want to see it.
Jaxpr jaxpr_of_equation(const PrimitiveBase& primitive, const Params& params,
                        std::vector<Aval> in_avals, const AbstractResult& result) {
  const int n = static_cast<int>(in_avals.size());
  Eqn eqn{&primitive, params, {}, {}, result.effect, current_call_site()};
  Atoms outs;
  for (int i = 0; i < n; ++i) eqn.inputs.push_back(Atom::var(i));
  for (std::size_t i = 0; i < result.avals.size(); ++i) {
    eqn.outputs.push_back(n + static_cast<int>(i));
    outs.push_back(Atom::var(eqn.outputs.back()));
  }
  in_avals.insert(in_avals.end(), result.avals.begin(), result.avals.end());
  return Jaxpr(n, std::move(in_avals), {std::move(eqn)}, std::move(outs));
}

class PartialEvalTrace final : public Trace {
 public:
  explicit PartialEvalTrace(std::string name) : name_(std::move(name)) {}
  std::string describe() const override { return name_; }
  JaxprBuilder& builder() { return builder_; }

  Array add_input(const Aval& aval) { return unknown(aval, Atom::var(builder_.add_input(aval))); }
  Array pure(const Array& x) override { return Array::holder_of(new PartialEvalTracer(main(), x)); }
  Array lift(const Array& x) override { return pure(x); }

  /// The variable (or literal) that stands for a tracer in the jaxpr; a known value becomes a const.
  Atom instantiate(const Array& x) {
    const auto& t = tracer_cast<PartialEvalTracer>(x);
    return t.is_known() ? builder_.capture(detail::full_lower(t.known())) : t.atom();
  }

  Arrays process_primitive(const PrimitiveBase& primitive, const Params& params,
                           std::span<const Array> tracers) override {
    const auto is_known = [](const Array& x) {
      return tracer_cast<PartialEvalTracer>(x).is_known();
    };
    if (std::all_of(tracers.begin(), tracers.end(), is_known)) {
      BorrowedArrays values;  // the tracers hold them
      for (const Array& x : tracers) values.push_back(tracer_cast<PartialEvalTracer>(x).known());
      return primitive.bind_erased(params, values);
    }
    if (const auto closed = close_call(primitive, params, tracers)) {
      return process_primitive(primitive, closed->params,
                               closed_operands(main(), closed->consts, tracers));
    }
    if (std::any_of(tracers.begin(), tracers.end(), is_known)) {
      if (auto outs = process_split(primitive, params, tracers)) return std::move(*outs);
    }
    Atoms inputs;
    InlineVector<Aval, 4> avals;
    inputs.reserve(tracers.size());
    avals.reserve(tracers.size());
    for (const Array& x : tracers) {
      inputs.push_back(instantiate(x));
      avals.emplace_back(x.aval());
    }
    const AbstractResult result = abstract_eval(primitive, params, avals);
    return record(primitive, params, std::move(inputs), result);
  }

 private:
  Array unknown(const Aval& aval, Atom atom) {
    return Array::holder_of(new PartialEvalTracer(main(), aval, std::move(atom)));
  }

  Arrays record(const PrimitiveBase& primitive, const Params& params, Atoms inputs,
                const AbstractResult& result) {
    const Vars& outputs = builder_.add_eqn(primitive, params, std::move(inputs), result.avals,
                                           result.effect, current_call_site());
    Arrays outs;
    outs.reserve(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      outs.push_back(unknown(result.avals[i], Atom::var(outputs[i])));
    return outs;
  }

  Arrays record(const Jaxpr& program, Atoms inputs) {
    const Atoms results = builder_.inline_jaxpr(program, std::move(inputs));
    Arrays outs;
    outs.reserve(results.size());
    for (const Atom& a : results) outs.push_back(unknown(builder_.aval(a), a));
    return outs;
  }

  // Lets a rule of the primitive split the equation: its known half is bound below, at once.
  std::optional<Arrays> process_split(const PrimitiveBase& primitive, const Params& params,
                                      std::span<const Array> tracers) {
    const RuleTable& rules = primitive.rules();
    if (!rules.partial_eval && !rules.partial_eval_values) return std::nullopt;
    std::vector<bool> unknown_in;
    std::vector<std::optional<Array>> values;
    std::vector<Aval> avals;
    Arrays known_in;
    for (const Array& x : tracers) {
      const auto& t = tracer_cast<PartialEvalTracer>(x);
      unknown_in.push_back(!t.is_known());
      values.push_back(t.is_known() ? std::optional(t.known()) : std::nullopt);
      avals.push_back(x.aval());
      if (t.is_known()) known_in.push_back(t.known());
    }
    std::optional<PartialEvalResult> split;
    if (rules.partial_eval_values) split = rules.partial_eval_values(params, values);
    if (!split) {
      if (!rules.partial_eval) return std::nullopt;
      const AbstractResult result = abstract_eval(primitive, params, avals);
      const Jaxpr around = jaxpr_of_equation(primitive, params, avals, result);
      split = rules.partial_eval(params, around, around.eqns()[0], unknown_in,
                                 std::vector<bool>(result.avals.size(), false), {});
    }
    const auto num_known_out = static_cast<std::size_t>(
        std::count(split->unknown_out.begin(), split->unknown_out.end(), false));
    const Arrays known_out = split->known_values    ? *split->known_values
                             : split->known_program ? eval_jaxpr(*split->known_program, known_in)
                                                    : primitive.bind_erased(split->known, known_in);

    Atoms inputs;
    std::vector<Aval> staged_avals;
    for (const Residual& r : split->residuals) {
      const auto i = static_cast<std::size_t>(r.index);
      const Array& value = r.kind == Residual::Kind::input    ? known_in[i]
                           : r.kind == Residual::Kind::output ? known_out[i]
                                                              : known_out[num_known_out + i];
      inputs.push_back(builder_.capture(detail::full_lower(value)));
      staged_avals.push_back(value.aval());
    }
    for (std::size_t i = 0; i < tracers.size(); ++i) {
      if (!unknown_in[i]) continue;
      inputs.push_back(tracer_cast<PartialEvalTracer>(tracers[i]).atom());
      staged_avals.push_back(avals[i]);
    }
    Arrays unknown_out;
    if (split->staged_program) {
      unknown_out = record(*split->staged_program, std::move(inputs));
    } else {
      const AbstractResult staged = abstract_eval(primitive, split->staged, staged_avals);
      if (!staged.avals.empty() || staged.effect != Effect::none)
        unknown_out = record(primitive, split->staged, std::move(inputs), staged);
    }
    Arrays outs;
    std::size_t k = 0, u = 0;
    for (const bool is_unknown : split->unknown_out)
      outs.push_back(is_unknown ? unknown_out[u++] : known_out[k++]);
    return outs;
  }

  std::string name_;
  JaxprBuilder builder_;
};

struct PartialInput {
  Array known;  // empty when unknown
  Aval aval;
};

// f applied to known arrays and unknown avals: known results, and a jaxpr (consts, then unknown
// inputs) -> unknown results, and those known ones that `instantiate_out` asks for.
PartiallyEvaluated partial_eval(const FlatFunction& f, std::span<const PartialInput> inputs,
                                std::string name,
                                const std::function<bool(std::size_t)>& instantiate_out) {
  return under_new_main(
      std::make_unique<PartialEvalTrace>(std::move(name)), [&](const NewMain& scope) {
        auto& trace = scope.trace<PartialEvalTrace>();
        Arrays args;
        args.reserve(inputs.size());
        for (const PartialInput& in : inputs)
          args.push_back(in.known.has_value() ? in.known : trace.add_input(in.aval));
        PartiallyEvaluated result;
        Atoms outs;
        const Arrays results = f(args);
        for (std::size_t i = 0; i < results.size(); ++i) {
          const Array raised = full_raise(scope.main(), results[i]);
          const auto& t = tracer_cast<PartialEvalTracer>(raised);
          if (t.is_known() && !instantiate_out(i)) {
            result.known_out.emplace_back(t.known());
          } else {
            result.known_out.emplace_back(std::nullopt);
            outs.push_back(trace.instantiate(raised));
          }
        }
        ClosedJaxpr closed = trace.builder().build(std::move(outs));
        result.jaxpr = std::move(closed.jaxpr);
        result.consts = std::move(closed.consts);
        return result;
      });
}

}  // namespace

PartiallyEvaluated partial_eval_flat(const FlatFunction& f,
                                     std::span<const std::optional<Array>> values,
                                     std::span<const Aval> avals, std::string name) {
  std::vector<PartialInput> inputs;
  for (std::size_t i = 0; i < values.size(); ++i)
    inputs.push_back({values[i].value_or(Array()), avals[i]});
  return partial_eval(f, inputs, std::move(name), [](std::size_t) { return false; });
}

Linearized linearize_flat(const FlatFunction& f, std::span<const Array> primals, std::string name) {
  std::vector<PartialInput> inputs;
  for (const Array& x : primals) inputs.push_back({x, x.aval()});
  for (const Array& x : primals) {
    if (is_inexact(x.dtype())) inputs.push_back({{}, x.aval().tangent()});
  }
  Linearized result;
  const std::size_t n = primals.size();
  std::size_t num_out = 0;
  PartiallyEvaluated split = partial_eval(
      [&](std::span<const Array> args) {
        std::vector<Tangent> tangents;
        std::size_t next = n;
        for (std::size_t i = 0; i < n; ++i) {
          if (is_inexact(args[i].dtype())) tangents.emplace_back(args[next++]);
          else tangents.emplace_back(Zero{args[i].aval().tangent()});
        }
        JvpResult out = jvp_flat(f, args.first(n), tangents);
        num_out = out.primals.size();
        Arrays outs = std::move(out.primals);
        for (const Tangent& t : out.tangents) {
          result.nonzero_out.push_back(!t.is_zero());
          if (!t.is_zero()) outs.push_back(t.array());
        }
        return outs;
      },
      inputs, std::move(name), [&](std::size_t i) { return i >= num_out; });
  for (std::size_t i = 0; i < num_out; ++i) {
    if (!split.known_out[i]) {
      throw TypeError(
          "a result of a linearized function depends on its tangents: the rule of a custom_jvp "
          "function must compute its results from the primals alone");
    }
    result.primals_out.push_back(*split.known_out[i]);
  }
  result.jaxpr = std::move(split.jaxpr);
  result.consts = std::move(split.consts);
  return result;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
