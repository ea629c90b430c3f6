// Staging: primitives are not applied but recorded, as equations of a jaxpr. The trace is dynamic
// (omnistaging), so primitives without traced operands are recorded too and nothing is computed.
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "jaxpr/builder.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

class StageTracer final : public Tracer {
 public:
  StageTracer(MainTrace& main, const Aval& aval, Atom atom)
      : Tracer(main, aval), atom_(std::move(atom)) {}
  const Atom& atom() const { return atom_; }

 private:
  Atom atom_;
};

class StageTrace final : public Trace {
 public:
  explicit StageTrace(std::string name) : name_(std::move(name)) {}
  std::string describe() const override { return name_; }
  JaxprBuilder& builder() { return builder_; }

  Array add_input(const Aval& aval) { return tracer(aval, Atom::var(builder_.add_input(aval))); }
  Array pure(const Array& x) override { return tracer(x.aval(), builder_.capture(x)); }
  Array lift(const Array& x) override { return pure(x); }

  Arrays process_primitive(const PrimitiveBase& primitive, const Params& params,
                           std::span<const Array> tracers) override {
    if (const auto closed = close_call(primitive, params, tracers)) {
      return process_primitive(primitive, closed->params,
                               closed_operands(main(), closed->consts, tracers));
    }
    Atoms inputs;
    InlineVector<Aval, 4> avals;
    inputs.reserve(tracers.size());
    avals.reserve(tracers.size());
    for (const Array& x : tracers) {
      inputs.push_back(tracer_cast<StageTracer>(x).atom());
      avals.emplace_back(x.aval());
    }
    const AbstractResult result = abstract_eval(primitive, params, avals);
    const Vars& outputs = builder_.add_eqn(primitive, params, std::move(inputs), result.avals,
                                           result.effect, current_call_site());
    Arrays outs;
    outs.reserve(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      outs.push_back(tracer(result.avals[i], Atom::var(outputs[i])));
    return outs;
  }

 private:
  Array tracer(const Aval& aval, Atom atom) {
    return Array::holder_of(new StageTracer(main(), aval, std::move(atom)));
  }
  std::string name_;
  JaxprBuilder builder_;
};

}  // namespace

ClosedJaxpr stage_flat(const FlatFunction& f, std::span<const Aval> avals, std::string name) {
  return under_new_main(std::make_unique<StageTrace>(std::move(name)), [&](const NewMain& scope) {
    const NewDynamic dynamic(scope.main());
    auto& trace = scope.trace<StageTrace>();
    Arrays inputs;
    inputs.reserve(avals.size());
    for (const Aval& aval : avals) inputs.push_back(trace.add_input(aval));
    Atoms outs;
    for (const Array& out : f(inputs)) {
      const Array raised = full_raise(scope.main(), out);
      outs.push_back(tracer_cast<StageTracer>(raised).atom());
    }
    return trace.builder().build(std::move(outs));
  });
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
