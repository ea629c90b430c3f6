// Choices by element: select_n and clamp. `which` and the bounds may be scalars.
#include "interpreters/interpreters.hpp"
#include "primitives/elementwise.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;
using namespace families::formula;

namespace {

/// x in the shape of `like`: x is a scalar or has it already.
Array expand(const Array& x, const Array& like) {
  return x.ndim() == 0 ? lax::broadcast(x, like.shape()) : x;
}

// Aligns the batch axes of full operands, which have one shape, and of those that may be scalars.
// A scalar stays one unless it is mapped: then it varies along the batch axis alone.
AlignedBatch align_with_scalars(const AxisInfo& axis, std::span<const Array> args,
                                std::span<const BatchAxis> axes,
                                std::span<const std::size_t> full) {
  Arrays full_args;
  std::vector<BatchAxis> full_axes;
  for (const std::size_t i : full) {
    full_args.push_back(args[i]);
    full_axes.push_back(axes[i]);
  }
  const AlignedBatch aligned = align_batch(axis, full_args, full_axes);
  const Array& example = aligned.args[0];
  AlignedBatch batch{{args.begin(), args.end()}, aligned.axis};
  for (std::size_t i = 0; i < args.size(); ++i) {
    const int ndim = args[i].ndim() - (axes[i] ? 1 : 0);
    if (ndim > 0) {
      batch.args[i] = axes[i] ? detail::move_axis(args[i], *axes[i], batch.axis)
                              : broadcast_axis(args[i], batch.axis, axis.size);
    } else if (axes[i]) {
      batch.args[i] = lax::broadcast_in_dim(args[i], example.shape(), {batch.axis});
    }
  }
  for (std::size_t k = 0; k < full.size(); ++k) batch.args[full[k]] = aligned.args[k];
  return batch;
}

// ---- select_n ----------------------------------------------------------------------------------
template <class Operand>
void check_select(std::span<const Operand> x, const auto& aval_of) {
  if (x.size() < 2) throw TypeError("select must have at least one case");
  const Aval &which = aval_of(x[0]), &first = aval_of(x[1]);
  std::string shapes, dtypes;
  bool same_shapes = true, same_dtypes = true;
  for (const Operand& operand : x.subspan(1)) {
    const Aval& c = aval_of(operand);
    shapes += (shapes.empty() ? "" : ", ") + c.shape.to_string();
    dtypes += (dtypes.empty() ? "" : ", ") + std::string(short_name(c.dtype));
    same_shapes = same_shapes && c.shape == first.shape;
    same_dtypes = same_dtypes && c.dtype == first.dtype;
  }
  if (!same_shapes)
    throw ShapeError("select cases must have the same shapes, got [" + shapes + "].");
  if (!same_dtypes)
    throw TypeError("select requires arguments to have the same dtypes, got " + dtypes + ".");
  if (!which.shape.empty() && which.shape != first.shape) {
    throw ShapeError(
        "select `which` must be scalar or have the same shape as cases, got `which` shape " +
        which.shape.to_string() + " but case shape " + first.shape.to_string() + ".");
  }
  if (!kBoolsOrInts.contains(which.dtype)) {
    throw TypeError("select `which` must be boolean or integer type, got " +
                    std::string(short_name(which.dtype)) + ".");
  }
  if (which.dtype == DType::bool_ && x.size() > 3) {
    throw TypeError("select with boolean `which` cannot have > 2 cases, got " +
                    std::to_string(x.size() - 1) + ".");
  }
}

Aval select_aval(std::span<const Aval> x) {
  check_select(x, [](const Aval& a) -> const Aval& { return a; });
  Aval out = x[1];
  for (const Aval& c : x.subspan(1)) out.weak_type = out.weak_type && c.weak_type;
  return out;
}

// Case i where which = i; the first below, the last above. One kernel per case.
Arrays select_impl(std::span<const Array> x) {
  check_select(x, [](const Array& a) -> const Aval& { return a.aval(); });
  Aval out = x[1].aval();
  for (const Array& c : x.subspan(1)) out.weak_type = out.weak_type && c.weak_type();
  Array result = x[1];
  for (std::size_t i = 2; i < x.size(); ++i) {
    Array condition = x[0];
    if (condition.dtype() != DType::bool_) {
      const Array operands[] = {x[0], lax::full_like(x[0], static_cast<double>(i - 1))};
      condition = run_kernel(Op::ge, x[0].dtype(), {x[0].shape(), DType::bool_, false}, operands);
    }
    const Array operands[] = {condition, result, x[i]};
    result = run_kernel(Op::select, out.dtype, out, operands);
  }
  return {result};
}

JvpResult select_jvp(std::span<const Array> x, std::span<const Tangent> t) {
  Array out = select_n_p.bind({}, x)[0];
  Arrays tangents{x[0]};
  bool all_zero = true;
  for (std::size_t i = 1; i < x.size(); ++i) {
    all_zero = all_zero && t[i].is_zero();
    tangents.push_back(t[i].is_zero() ? lax::zeros_like(x[i]) : t[i].array());
  }
  if (all_zero) return {{out}, {Zero{out.aval().tangent()}}};
  return {{out}, {select_n_p.bind({}, tangents)[0]}};
}

// The cotangent goes to the case that was chosen, zeros to the others.
std::vector<Tangent> select_transpose(std::span<const Tangent> ct, std::span<const LinearInput> x) {
  if (x[0].is_linear()) refuse_nonlinear("select_n", x);
  std::vector<Tangent> cts = detail::zero_cotangents(x);
  if (ct[0].is_zero()) return cts;
  const Array &g = ct[0].array(), &which = x[0].array();
  const Array zeros = lax::zeros_like(g);
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (!x[i].is_linear()) continue;
    if (x.size() == 2) {
      cts[i] = g;
    } else if (which.dtype() == DType::bool_) {
      cts[i] = i == 1 ? lax::select(which, zeros, g) : lax::select(which, g, zeros);
    } else {
      const double last = static_cast<double>(x.size() - 2), k = static_cast<double>(i - 1);
      const Array bound = lax::full_like(which, k);
      const Array chosen = k == 0      ? lax::le(which, bound)
                           : k == last ? lax::ge(which, bound)
                                       : lax::eq(which, bound);
      cts[i] = lax::select(chosen, g, zeros);
    }
  }
  return cts;
}

BatchResult select_batch(const AxisInfo& axis, std::span<const Array> x,
                         std::span<const BatchAxis> axes) {
  std::vector<std::size_t> cases;
  for (std::size_t i = 1; i < x.size(); ++i) cases.push_back(i);
  const AlignedBatch batch = align_with_scalars(axis, x, axes, cases);
  return {select_n_p.bind({}, batch.args), {batch.axis}};
}

Scalar emit_select(Emitter& e, const NoParams&, std::span<const Scalar> x) {
  if (x.size() == 2) return x[1];
  if (x[0].dtype() == DType::bool_) return e.select(x[0], x[2], x[1]);
  Scalar result = x[1];
  for (std::size_t i = 2; i < x.size(); ++i) {
    const Scalar bound = e.constant_int(x[0].dtype(), static_cast<std::int64_t>(i - 1));
    result = e.select(e.compare(Compare::ge, x[0], bound), x[i], result);
  }
  return result;
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// select_n(which, case0, case1, ...) = case_which.   d select_n = select_n(which, d case0, ...)
const Primitive<> select_n_p{"select_n", [] { return Rules<>{
    .impl = [](const NoParams&, std::span<const Array> x) { return select_impl(x); },
    .abstract_eval = [](const NoParams&, std::span<const Aval> x) {
      return AbstractResult(select_aval(x));
    },
    .jvp = [](const NoParams&, std::span<const Array> x, std::span<const Tangent> t) {
      return select_jvp(x, t);
    },
    .transpose = [](const NoParams&, std::span<const Tangent> ct, std::span<const LinearInput> x) {
      return select_transpose(ct, x);
    },
    .batch = [](const NoParams&, const AxisInfo& axis, std::span<const Array> x,
                std::span<const BatchAxis> axes) {
      return select_batch(axis, x, axes);
    },
    .lower = element<NoParams>(emit_select),
}; }};
// clang-format on

// ---- clamp -------------------------------------------------------------------------------------
namespace {

Aval clamp_aval(std::span<const Aval> operands) {
  detail::check_arity("clamp", operands, 3);
  const Aval &low = operands[0], &x = operands[1], &high = operands[2];
  const auto check_bound = [&x](const char* name, const Aval& bound) {
    if (bound.shape.empty() || bound.shape == x.shape) return;
    const std::string n(name);
    throw ShapeError("clamp requires " + n + ".shape == operand.shape or " + n +
                     ".shape == (), got " + n + ".shape=" + bound.shape.to_string() +
                     ", operand.shape=" + x.shape.to_string() + ".");
  };
  check_bound("min", low);
  check_bound("max", high);
  const Aval same_shape[] = {low.with_shape(x.shape), x, high.with_shape(x.shape)};
  return ElementwiseTypes{"clamp", kOrdered}(std::span<const Aval>(same_shape));
}

JvpResult clamp_jvp(std::span<const Array> operands, std::span<const Tangent> t) {
  const Array& x = operands[1];
  const Array low = expand(operands[0], x), high = expand(operands[2], x);
  Array out = clamp_p.bind1({}, {operands[0], x, operands[2]});
  std::vector<Tangent> terms;
  const auto add = [&](const Tangent& dt, const Array& where) {
    const Array g = expand(dt.array(), x);
    terms.emplace_back(lax::select(where, g, lax::zeros_like(g)));
  };
  if (!t[0].is_zero()) add(t[0], lax::bitwise_and(lax::gt(low, x), lax::lt(low, high)));
  if (!t[1].is_zero()) add(t[1], lax::bitwise_and(lax::gt(x, low), lax::lt(x, high)));
  if (!t[2].is_zero()) add(t[2], lax::lt(high, x));
  Tangent dz = sum_tangents(out.aval(), terms);
  return {{std::move(out)}, {std::move(dz)}};
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// clamp(low, x, high) = min(max(x, low), high)
/// d clamp = dx where low < x < high, dhigh where high < x, dlow where x < low < high, else 0
const Primitive<> clamp_p{"clamp", [] { return Rules<>{
    .impl = [](const NoParams&, std::span<const Array> x) {
      const Aval avals[] = {x[0].aval(), x[1].aval(), x[2].aval()};
      return Arrays{run_kernel(Op::clamp, x[1].dtype(), clamp_aval(avals), x)};
    },
    .abstract_eval = [](const NoParams&, std::span<const Aval> x) {
      return AbstractResult(clamp_aval(x));
    },
    .jvp = [](const NoParams&, std::span<const Array> x, std::span<const Tangent> t) {
      return clamp_jvp(x, t);
    },
    .batch = [](const NoParams&, const AxisInfo& axis, std::span<const Array> x,
                std::span<const BatchAxis> axes) {
      const std::size_t full[] = {1};
      const AlignedBatch batch = align_with_scalars(axis, x, axes, full);
      return BatchResult{clamp_p.bind({}, batch.args), {batch.axis}};
    },
    .lower = element<NoParams>([](Emitter& e, const NoParams&, std::span<const Scalar> x) {
      return e.min(e.max(x[1], x[0]), x[2]);
    }),
    .exempt = {{"transpose", "never linear in its operands"}},
}; }};
// clang-format on

}  // namespace v1
}  // namespace telamon
