// Vectorisation: a value stands for a batch of values along one axis of an array; primitives are
// applied to whole batches by their `batch` rules. User code sees the shape of one example.
#include <algorithm>

#include "core/check.hpp"
#include "core/counted.hpp"
#include "core/rule_results.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

Aval example_aval(const Aval& batch, int axis) {
  Aval aval = batch;
  aval.shape.erase(static_cast<std::size_t>(axis));
  return aval;
}

class BatchTracer final : public Tracer {
 public:
  BatchTracer(MainTrace& main, Array value, BatchAxis axis)
      : Tracer(main, axis ? example_aval(value.aval(), *axis) : value.aval()),
        value_(std::move(value)),
        axis_(axis) {}
  const Array& value() const { return value_; }
  BatchAxis axis() const { return axis_; }
  const Array* lowered() const override { return axis_ ? nullptr : &value_; }
  std::optional<Array> known_value() const override {
    return axis_ ? std::nullopt : detail::known_value(value_);
  }
  const Tracer& hidden_by() const override {
    const Tracer* inner = axis_ ? nullptr : as_tracer(value_);
    return inner ? inner->hidden_by() : *this;
  }

 private:
  Array value_;
  BatchAxis axis_;
};

class BatchTrace final : public Trace {
 public:
  BatchTrace(AxisInfo axis, std::string name) : axis_(std::move(axis)), name_(std::move(name)) {}
  std::string describe() const override { return name_; }
  Array box(const Array& x, BatchAxis axis) const {
    return axis ? Array::holder_of(new BatchTracer(main(), x, axis)) : x;
  }
  Array pure(const Array& x) override {
    return Array::holder_of(new BatchTracer(main(), x, std::nullopt));
  }
  Array lift(const Array& x) override { return pure(x); }

  Arrays process_primitive(const PrimitiveBase& primitive, const Params& params,
                           std::span<const Array> tracers) override {
    Arrays values;
    std::vector<BatchAxis> axes;
    for (const Array& x : tracers) {
      const auto& t = tracer_cast<BatchTracer>(x);
      values.push_back(t.value());
      axes.push_back(t.axis());
    }
    if (std::none_of(axes.begin(), axes.end(), [](const BatchAxis& a) { return a.has_value(); })) {
      return primitive.bind_erased(params, values);
    }
    if (const auto closed = close_call(primitive, params, tracers)) {
      return process_primitive(primitive, closed->params,
                               closed_operands(main(), closed->consts, tracers));
    }
    refuse_ordered_effects(primitive, params, tracers);
    const auto& rule = primitive.rules().batch;
    if (!rule) missing_rule(primitive, "batch");
    BatchResult result = rule(params, axis_, values, axes);
    check_results(primitive, params, tracers, result);
    Arrays outs;
    outs.reserve(result.values.size());
    for (std::size_t i = 0; i < result.values.size(); ++i)
      outs.push_back(box(result.values[i], result.axes[i]));
    return outs;
  }

 private:
  static void check_results(const PrimitiveBase& primitive, const Params& params,
                            std::span<const Array> tracers, const BatchResult& result) {
    if (result.values.size() != result.axes.size()) {
      wrong_results(primitive, ResultOf::batch,
                    "gave " + counted(result.values.size(), "result") + " and " +
                        counted(result.axes.size(), "batch axis", "batch axes"));
    }
    std::vector<Aval> examples = result_avals(result.values);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      if (!result.axes[i] || !result.values[i].has_value()) continue;
      if (*result.axes[i] < 0 || *result.axes[i] >= examples[i].ndim()) {
        wrong_results(primitive, ResultOf::batch,
                      "gave batch axis " + std::to_string(*result.axes[i]) + " for result " +
                          std::to_string(i) + " of type " + examples[i].to_string());
      }
      examples[i] = example_aval(examples[i], *result.axes[i]);
    }
    if (are_unusable(result.values)) {
      compare_with_abstract_eval(primitive, ResultOf::batch, params, result_avals(tracers),
                                 examples);
    }
  }

  // One program for all examples gives no order between the effects of different examples. Effects
  // are those of host functions; what carries programs or is defined by others says so within.
  static void refuse_ordered_effects(const PrimitiveBase& primitive, const Params& params,
                                     std::span<const Array> tracers) {
    const auto& lowerings = primitive.rules().lower;
    const auto cpu = lowerings.find("cpu");
    const bool on_host =
        cpu == lowerings.end() || std::holds_alternative<Lowering::Call>(cpu->second.form);
    if (!on_host || params.has_jaxprs()) return;
    std::vector<Aval> avals;
    for (const Array& x : tracers) avals.push_back(x.aval());
    if (abstract_eval(primitive, params, avals).effect != Effect::ordered) return;
    throw TypeError(std::string(primitive.name()) +
                    ": ordered effects cannot be mapped by vmap, which runs all examples at once; "
                    "use map or scan, which run them in order, or an unordered effect");
  }

  AxisInfo axis_;
  std::string name_;
};

// The axes (0..ndim-1) with `from` moved to position `to`.
Shape moved(int ndim, int from, int to) {
  Shape permutation;
  for (int i = 0; i < ndim; ++i) {
    if (i != from) permutation.push_back(i);
  }
  permutation.insert(static_cast<std::size_t>(to), from);
  return permutation;
}

Array broadcast_batch(const Array& x, int axis, std::int64_t size) {
  Shape shape = x.shape(), dims;
  shape.insert(static_cast<std::size_t>(axis), size);
  for (int i = 0; i <= x.ndim(); ++i) {
    if (i != axis) dims.push_back(i);
  }
  return broadcast_in_dim_p.bind1({.shape = shape, .broadcast_dimensions = dims}, {x});
}

}  // namespace

BatchResult batch_flat(const FlatFunction& f, const AxisInfo& axis, std::span<const Array> args,
                       std::span<const BatchAxis> in_axes, std::string name) {
  return under_new_main(std::make_unique<BatchTrace>(axis, std::move(name)),
                        [&](const NewMain& scope) {
                          auto& trace = scope.trace<BatchTrace>();
                          Arrays inputs;
                          inputs.reserve(args.size());
                          for (std::size_t i = 0; i < args.size(); ++i)
                            inputs.push_back(trace.box(args[i], in_axes[i]));
                          BatchResult result;
                          for (const Array& out : f(inputs)) {
                            const Array raised = full_raise(scope.main(), out);
                            const auto& t = tracer_cast<BatchTracer>(raised);
                            result.values.push_back(t.value());
                            result.axes.push_back(t.axis());
                          }
                          return result;
                        });
}

Array move_axis(const Array& x, int from, int to) {
  if (from == to) return x;
  return transpose_p.bind1({.permutation = moved(x.ndim(), from, to)}, {x});
}

Array batch_at_front(const Array& x, BatchAxis axis, std::int64_t size) {
  return axis ? move_axis(x, *axis, 0) : broadcast_batch(x, 0, size);
}

Arrays vmap_flat(const FlatFunction& f, const AxisInfo& axis, std::span<const Array> args,
                 std::span<const BatchAxis> in_axes,
                 const std::function<std::vector<BatchAxis>(std::size_t)>& out_axes,
                 std::string name) {
  BatchResult result = batch_flat(f, axis, args, in_axes, std::move(name));
  const std::vector<BatchAxis> wanted = out_axes(result.values.size());
  Arrays outs;
  outs.reserve(result.values.size());
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    const Array& x = result.values[i];
    const BatchAxis have = result.axes[i];
    if (!wanted[i]) {
      if (have) {
        throw ValueError("vmap has mapped output but out_axes is none: result " +
                         std::to_string(i) + " of type " +
                         example_aval(x.aval(), *have).to_string() +
                         " depends on a mapped argument");
      }
      outs.push_back(x);
      continue;
    }
    const int ndim = x.ndim() + (have ? 0 : 1);
    const int to = *wanted[i] < 0 ? *wanted[i] + ndim : *wanted[i];
    if (to < 0 || to >= ndim) {
      throw ValueError("vmap: out_axes " + std::to_string(*wanted[i]) +
                       " is out of range for result " + std::to_string(i) + ", which has " +
                       counted(ndim, "dimension") + " with its batch axis");
    }
    outs.push_back(have ? move_axis(x, *have, to) : broadcast_batch(x, to, axis.size));
  }
  return outs;
}

std::shared_ptr<const BatchJaxpr> batch_jaxpr(const Jaxpr& jaxpr, const AxisInfo& axis,
                                              const std::vector<BatchAxis>& in_axes,
                                              const std::vector<bool>& forced_out) {
  std::string key = "batch:" + std::to_string(axis.size) + ":" + axis.name + ":";
  for (const BatchAxis& a : in_axes) key += a ? std::to_string(*a) + "," : "-,";
  key += ":" + mask_text(forced_out);
  return jaxpr.memo<BatchJaxpr>(key, [&] {
    std::vector<Aval> avals;
    for (std::size_t i = 0; i < in_axes.size(); ++i) {
      Aval aval = jaxpr.in_avals()[i];
      if (in_axes[i]) aval.shape.insert(static_cast<std::size_t>(*in_axes[i]), axis.size);
      avals.push_back(aval);
    }
    BatchJaxpr result;
    ClosedJaxpr closed = stage_flat(
        [&](std::span<const Array> args) {
          BatchResult out =
              batch_flat([&](std::span<const Array> x) { return eval_jaxpr(jaxpr, x); }, axis, args,
                         in_axes, {});
          for (std::size_t i = 0; i < out.values.size(); ++i) {
            if (!forced_out[i]) continue;
            out.values[i] = batch_at_front(out.values[i], out.axes[i], axis.size);
            out.axes[i] = 0;
          }
          result.out_axes = out.axes;
          return out.values;
        },
        avals);
    TELAMON_CHECK(closed.consts.empty(), "the batched form of a closed jaxpr captured a value");
    result.jaxpr = std::move(closed.jaxpr);
    return result;
  });
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
