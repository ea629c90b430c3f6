// linear_call: a linear function whose transpose is given rather than derived.
//   y = f(r, x), linear in x:   dy = f(r, dx) + df/dr dr      x' = ft(r, y')
#include "telamon/detail/linear_call.hpp"

#include "control_flow/calls.hpp"
#include "core/counted.hpp"
#include "core/trace.hpp"

namespace telamon {
inline namespace v1 {
namespace {

/// The operands by what they are for.
template <class T>
struct Operands {
  std::span<const T> callee_consts, transpose_consts, residuals, linear;
  Operands(const LinearCallParams& p, std::span<const T> all) {
    const auto take = [&](int n) {
      const auto part = all.first(static_cast<std::size_t>(n));
      all = all.subspan(part.size());
      return part;
    };
    callee_consts = take(p.num_callee_consts);
    transpose_consts = take(p.num_transpose_consts);
    residuals = take(p.num_res);
    linear = all;
  }
  std::vector<T> of_callee() const {
    std::vector<T> args(callee_consts.begin(), callee_consts.end());
    args.insert(args.end(), residuals.begin(), residuals.end());
    args.insert(args.end(), linear.begin(), linear.end());
    return args;
  }
};

Arrays run(const LinearCallParams& p, std::span<const Array> args) {
  return eval_jaxpr(p.callee, Operands<Array>(p, args).of_callee());
}

AbstractResult type_of(const LinearCallParams& p, std::span<const Aval> in) {
  const auto callee_in = static_cast<std::size_t>(p.callee.num_inputs());
  if (p.num_callee_consts < 0 || p.num_transpose_consts < 0 || p.num_res < 0 ||
      in.size() != callee_in + static_cast<std::size_t>(p.num_transpose_consts) ||
      callee_in <
          static_cast<std::size_t>(p.num_callee_consts) + static_cast<std::size_t>(p.num_res)) {
    throw TypeError("linear_call: " + detail::counted(in.size(), "operand") +
                    " where its callee takes " + std::to_string(callee_in) + ", of which " +
                    std::to_string(p.num_res) + " are residuals");
  }
  return detail::type_of_call("linear_call", p.callee, Operands<Aval>(p, in).of_callee());
}

// The tangents of the linear operands go through the call itself; those of all others through the
// callee's derivative.
JvpResult differentiate(const LinearCallParams& p, std::span<const Array> primals,
                        std::span<const Tangent> tangents) {
  const Operands<Array> x(p, primals);
  const Operands<Tangent> dx(p, tangents);
  const Arrays outs = linear_call_p.bind(p, primals);
  std::vector<Tangent> sums;
  for (const Array& y : outs) sums.emplace_back(Zero{y.aval().tangent()});
  const auto nonzero = [](std::span<const Tangent> ts) {
    return std::any_of(ts.begin(), ts.end(), [](const Tangent& t) { return !t.is_zero(); });
  };
  if (nonzero(dx.linear)) {
    Arrays args(primals.begin(), primals.end() - static_cast<std::ptrdiff_t>(x.linear.size()));
    for (const Tangent& t : dx.linear) args.push_back(t.instantiate());
    const Arrays moved = linear_call_p.bind(p, args);
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (sums[i].aval().dtype != DType::float0) sums[i] = moved[i];
  }
  if (nonzero(dx.callee_consts) || nonzero(dx.residuals)) {
    std::vector<Tangent> partial = dx.of_callee();
    for (std::size_t i = partial.size() - dx.linear.size(); i < partial.size(); ++i)
      partial[i] = Zero{partial[i].aval()};
    const JvpResult along = detail::jvp_flat(
        [&](std::span<const Array> a) { return eval_jaxpr(p.callee, a); }, x.of_callee(), partial);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = detail::add_tangents(sums[i], along.tangents[i]);
  }
  return {outs, sums};
}

std::vector<Tangent> transposed(const LinearCallParams& p, std::span<const Tangent> cts,
                                std::span<const LinearInput> inputs) {
  const Operands<LinearInput> in(p, inputs);
  Arrays args;
  for (const auto& part : {in.transpose_consts, in.residuals}) {
    for (const LinearInput& r : part) {
      if (r.is_linear())
        throw TypeError("linear_call is transposed with respect to its linear operands only");
      args.push_back(r.array());
    }
  }
  for (const Tangent& ct : cts) args.push_back(ct.instantiate());
  const Arrays outs = eval_jaxpr(p.transpose, args);
  if (outs.size() != in.linear.size()) {
    throw TypeError("linear_call: the transpose gives " +
                    detail::counted(outs.size(), "cotangent") + " for " +
                    detail::counted(in.linear.size(), "linear operand"));
  }
  std::vector<Tangent> result;
  for (std::size_t i = 0; i < inputs.size() - outs.size(); ++i)
    result.emplace_back(Zero{inputs[i].aval().tangent()});
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (!outs[i].aval().same_type(in.linear[i].aval().tangent())) {
      throw TypeError("linear_call: the transpose gives " + outs[i].aval().to_string() +
                      " as cotangent of a linear operand of type " +
                      in.linear[i].aval().to_string());
    }
    if (in.linear[i].is_linear()) result.emplace_back(outs[i]);
    else result.emplace_back(Zero{in.linear[i].aval().tangent()});
  }
  return result;
}

// All results at axis 0; so are the cotangents that the mapped transpose takes, and gives.
BatchResult vectorise(const LinearCallParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  const std::vector<BatchAxis> given(axes.begin(), axes.end());
  const Operands<BatchAxis> at(p, given);
  Arrays moved(args.begin(), args.end());
  std::vector<BatchAxis> where = given;
  const std::size_t first = given.size() - at.linear.size();
  for (std::size_t i = first; i < moved.size(); ++i) {
    moved[i] = detail::batch_at_front(moved[i], where[i], axis.size);
    where[i] = 0;
  }
  const Operands<BatchAxis> now(p, where);
  LinearCallParams mapped = p;
  mapped.callee = detail::batch_jaxpr(p.callee, axis, now.of_callee(),
                                      std::vector<bool>(p.callee.outs().size(), true))
                      ->jaxpr;
  std::vector<BatchAxis> back(now.transpose_consts.begin(), now.transpose_consts.end());
  back.insert(back.end(), now.residuals.begin(), now.residuals.end());
  back.insert(back.end(), p.callee.outs().size(), 0);
  mapped.transpose = detail::batch_jaxpr(p.transpose, axis, back,
                                         std::vector<bool>(p.transpose.outs().size(), true))
                         ->jaxpr;
  Arrays outs = linear_call_p.bind(mapped, moved);
  const std::size_t n = outs.size();
  return {std::move(outs), std::vector<BatchAxis>(n, 0)};
}

}  // namespace

const Primitive<LinearCallParams> linear_call_p{"linear_call", [] {
                                                  return Rules<LinearCallParams>{
                                                      .impl = run,
                                                      .abstract_eval = type_of,
                                                      .jvp = differentiate,
                                                      .transpose = transposed,
                                                      .batch = vectorise,
                                                      .lower = ops<LinearCallParams>(run),
                                                  };
                                                }};

namespace detail {

Arrays linear_call_arrays(const FlatFunction& callee, const FlatFunction& transpose,
                          std::span<const Array> residuals, std::span<const Array> linear) {
  if (!tracing_under_way()) {
    Arrays all(residuals.begin(), residuals.end());
    all.insert(all.end(), linear.begin(), linear.end());
    return callee(all);
  }
  std::vector<Aval> avals = avals_of(residuals), back = avals;
  for (const Array& x : linear) avals.push_back(x.aval());
  ClosedJaxpr forward = stage_flat(callee, avals, "linear_call");
  for (const Aval& aval : forward.jaxpr.out_avals()) back.push_back(aval.tangent());
  ClosedJaxpr backward = stage_flat(transpose, back, "linear_call, transpose");
  Arrays operands = forward.consts;
  operands.insert(operands.end(), backward.consts.begin(), backward.consts.end());
  operands.insert(operands.end(), residuals.begin(), residuals.end());
  operands.insert(operands.end(), linear.begin(), linear.end());
  return linear_call_p.bind({forward.jaxpr, backward.jaxpr, forward.num_consts(),
                             backward.num_consts(), static_cast<int>(residuals.size())},
                            operands);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
