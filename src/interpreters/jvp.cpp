// Forward-mode differentiation: values become primal-tangent pairs, primitives are applied by their
// `jvp` rules. Zero tangents are symbolic: a primitive whose operands have none is bound as it is.
#include "core/check.hpp"
#include "core/counted.hpp"
#include "core/rule_results.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

class JvpTracer final : public Tracer {
 public:
  /// Without a tangent: it is zero.
  JvpTracer(MainTrace& main, Array primal, Array tangent)
      : Tracer(main, primal), primal_(std::move(primal)), tangent_(std::move(tangent)) {}
  const Array& primal() const { return primal_; }
  Tangent tangent() const {
    if (tangent_.has_value()) return tangent_;
    return Zero{aval().tangent()};
  }
  std::optional<Array> known_value() const override { return detail::known_value(primal_); }
  const Tracer& hidden_by() const override {
    const Tracer* inner = as_tracer(primal_);
    return inner ? inner->hidden_by() : *this;
  }

 private:
  Array primal_, tangent_;
};

class JvpTrace final : public Trace {
 public:
  explicit JvpTrace(std::string name) : name_(std::move(name)) {}
  std::string describe() const override { return name_; }

  Array box(Array primal, const Tangent& tangent) const {
    check_explicit(primal);
    if (!tangent.is_zero()) check_explicit(tangent.array());
    if (tangent.is_zero()) return primal;  // nothing to carry: stays at its own level
    TELAMON_CHECK(
        is_tangent_type(tangent.aval(), primal.aval()),
        "tangent " + tangent.aval().to_string() + " of primal " + primal.aval().to_string());
    return Array::holder_of(new JvpTracer(main(), std::move(primal), tangent.array()));
  }
  Array pure(const Array& x) override {
    return Array::holder_of(new JvpTracer(main(), x, Array()));
  }
  Array lift(const Array& x) override { return pure(x); }

  Arrays process_primitive(const PrimitiveBase& primitive, const Params& params,
                           std::span<const Array> tracers) override {
    BorrowedArrays primals;  // the tracers hold them
    InlineVector<Tangent, 4> tangents;
    tangents.reserve(tracers.size());
    bool all_zero = true;
    for (const Array& x : tracers) {
      const auto& t = tracer_cast<JvpTracer>(x);
      primals.push_back(t.primal());
      tangents.emplace_back(t.tangent());
      all_zero = all_zero && tangents.back().is_zero();
    }
    if (all_zero) return primitive.bind_erased(params, primals);
    const auto& rule = primitive.rules().jvp;
    if (!rule) missing_rule(primitive, "jvp");
    JvpResult result = rule(params, primals, tangents);
    check_results(primitive, params, primals, result);
    Arrays outs;
    outs.reserve(result.primals.size());
    for (std::size_t i = 0; i < result.primals.size(); ++i)
      outs.push_back(box(std::move(result.primals[i]), result.tangents[i]));
    return outs;
  }

 private:
  static void check_results(const PrimitiveBase& primitive, const Params& params,
                            std::span<const Array> primals, const JvpResult& result) {
    if (result.primals.size() != result.tangents.size()) {
      wrong_results(primitive, ResultOf::jvp,
                    "gave " + counted(result.primals.size(), "result") + " and " +
                        counted(result.tangents.size(), "tangent"));
    }
    if (are_unusable(result.primals)) {
      compare_with_abstract_eval(primitive, ResultOf::jvp, params, result_avals(primals),
                                 result_avals(result.primals));
    }
    for (std::size_t i = 0; i < result.primals.size(); ++i) {
      if (result.tangents[i].is_zero()) continue;
      const Aval& primal = result.primals[i].aval();
      const Aval& tangent = result.tangents[i].aval();
      if (is_tangent_type(tangent, primal)) continue;
      wrong_results(primitive, ResultOf::jvp,
                    "gave a tangent of type " + tangent.to_string() + " with result " +
                        std::to_string(i) + " of type " + primal.to_string());
    }
  }

  // What a rule gives belongs to a lower level, unless the rule reached for a tracer of this one.
  void check_explicit(const Array& x) const {
    const Tracer* t = as_tracer(x);
    if (!t || t->main().level() < main().level()) return;
    throw TypeError(
        "Detected differentiation of a function with a rule of its own with respect to a "
        "closed-over value: the rule says how to differentiate with respect to explicit arguments "
        "only. Pass the closed-over value " +
        x.aval().to_string() + " as an argument, and let the rule handle it");
  }

  std::string name_;
};

}  // namespace

JvpResult jvp_flat(const FlatFunction& f, std::span<const Array> primals,
                   std::span<const Tangent> tangents, std::string name) {
  return under_new_main(std::make_unique<JvpTrace>(std::move(name)), [&](const NewMain& scope) {
    auto& trace = scope.trace<JvpTrace>();
    Arrays inputs;
    inputs.reserve(primals.size());
    for (std::size_t i = 0; i < primals.size(); ++i)
      inputs.push_back(trace.box(primals[i], tangents[i]));
    JvpResult result;
    for (const Array& out : f(inputs)) {
      const Array raised = full_raise(scope.main(), out);
      const auto& t = tracer_cast<JvpTracer>(raised);
      result.primals.push_back(t.primal());
      result.tangents.push_back(t.tangent());
    }
    return result;
  });
}

std::shared_ptr<const JvpJaxpr> jvp_jaxpr(const Jaxpr& jaxpr, const std::vector<bool>& nonzero_in,
                                          const std::vector<bool>& instantiate_out) {
  const std::string key = "jvp:" + mask_text(nonzero_in) + ":" + mask_text(instantiate_out);
  return jaxpr.memo<JvpJaxpr>(key, [&] {
    std::vector<Aval> avals(jaxpr.in_avals().begin(), jaxpr.in_avals().end());
    for (std::size_t i = 0; i < nonzero_in.size(); ++i) {
      if (nonzero_in[i]) avals.push_back(jaxpr.in_avals()[i].tangent());
    }
    JvpJaxpr result;
    const auto f = [&](std::span<const Array> args) {
      const auto primals = args.first(nonzero_in.size());
      std::vector<Tangent> tangents;
      std::size_t next = nonzero_in.size();
      for (std::size_t i = 0; i < nonzero_in.size(); ++i) {
        if (nonzero_in[i]) tangents.emplace_back(args[next++]);
        else tangents.emplace_back(Zero{primals[i].aval().tangent()});
      }
      JvpResult out = jvp_flat([&](std::span<const Array> x) { return eval_jaxpr(jaxpr, x); },
                               primals, tangents);
      Arrays outs = std::move(out.primals);
      result.nonzero_out.clear();
      for (std::size_t i = 0; i < out.tangents.size(); ++i) {
        const Tangent& t = out.tangents[i];
        const bool nonzero =
            !t.is_zero() || (instantiate_out[i] && t.aval().dtype != DType::float0);
        result.nonzero_out.push_back(nonzero);
        if (nonzero) outs.push_back(t.instantiate());
      }
      return outs;
    };
    ClosedJaxpr closed = stage_flat(f, avals);
    TELAMON_CHECK(closed.consts.empty(), "the derivative of a closed jaxpr captured a value");
    result.jaxpr = std::move(closed.jaxpr);
    return result;
  });
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
