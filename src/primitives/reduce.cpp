// Reductions over the dimensions `axes`: sum, prod, max, min, and, or, xor. A reduction over nothing
// gives the identity: 0, 1, the lowest or the highest value, all bits set, 0, 0.
#include <limits>

#include "core/result_place.hpp"
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"
#include "runtime/kernels/reduce.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using Fold = kernels::ReduceOp;

// ---- types -------------------------------------------------------------------------------------
using Accepts = bool (*)(DType);
bool arithmetic(DType d) { return d != DType::bool_; }
bool ordered(DType d) { return !is_complex(d); }
bool bitwise(DType d) { return d == DType::bool_ || is_integer(d); }

/// Builds the abstract evaluation rule of a reduction that takes the accepted dtypes.
auto reduced_aval(const char* name, Accepts accepts, const char* accepted) {
  return [=](const AxesParams& p, std::span<const Aval> avals) -> AbstractResult {
    check_arity(name, avals, 1);
    if (!accepts(avals[0].dtype)) dtype_error(name, avals, std::string("takes ") + accepted);
    check_axes(name, avals, "axis", p.axes, avals[0].ndim());
    return avals[0].with_shape(taken(avals[0].shape, other_axes(p.axes, avals[0].ndim())));
  };
}

template <Fold kFold>
auto reduce_impl(const char* name, Accepts accepts, const char* accepted) {
  return [aval = reduced_aval(name, accepts, accepted)](const AxesParams& p,
                                                        std::span<const Array> x) {
    Array out = make_result(aval(p, avals_of(x)).avals[0]);
    kernels::run_reduce(kFold, view_of(x[0]), p.axes, view_of(out));
    return Arrays{out};
  };
}

// ---- derivatives -------------------------------------------------------------------------------
/// The result in the operand's shape again.
Array broadcast_back(const Array& y, const Shape& axes, const Shape& shape) {
  return lax::broadcast_in_dim(y, shape, other_axes(axes, static_cast<int>(shape.size())));
}

/// d max(x) = sum(dx [x = max]) / count(x = max): ties share the derivative equally.
JvpResult chooser_jvp(const Primitive<AxesParams>& primitive, const AxesParams& p, const Array& x,
                      const Tangent& dx) {
  const Array y = primitive.bind1(p, {x});
  const Array chosen =
      lax::convert_element_type(lax::eq(x, broadcast_back(y, p.axes, x.shape())), dx.aval().dtype);
  const Array count = lax::reduce_sum(chosen, p.axes);
  return {{y}, {lax::div(lax::reduce_sum(lax::mul(dx.array(), chosen), p.axes), count)}};
}

/// The product along the first dimension, by halves: x[0:n/2] * x[n/2:n] until one is left. Written
/// in differentiable steps that never divide, it is right where elements are zero, in every order.
Array product_tree(Array x) {
  if (x.shape(0) == 0) {
    Shape shape = x.shape();
    shape.erase(0);
    return lax::full(shape, x.dtype(), 1);
  }
  while (x.shape(0) > 1) {
    const std::int64_t n = x.shape(0), half = (n + 1) / 2;
    Array rest = lax::slice_in_dim(x, half, n, 1, 0);
    if (n - half < half) {
      std::vector<std::array<std::int64_t, 3>> config(x.shape().size(), {0, 0, 0});
      config[0][1] = 1;
      rest = lax::pad(rest, lax::scalar(1.0, x.dtype()), config);
    }
    x = lax::mul(lax::slice_in_dim(x, 0, half, 1, 0), rest);
  }
  return lax::squeeze(x, {0});
}

JvpResult prod_jvp(const AxesParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
  const auto product = [&](std::span<const Array> args) {
    const Shape kept = other_axes(p.axes, args[0].ndim());
    const Array front = lax::transpose(args[0], concatenated(p.axes, kept));
    const std::int64_t n = taken(args[0].shape(), p.axes).num_elements();
    return Arrays{product_tree(lax::reshape(front, inserted(taken(args[0].shape(), kept), 0, n)))};
  };
  JvpResult result = jvp_flat(product, x, dx);
  return {reduce_prod_p.bind(p, x), std::move(result.tangents)};
}

// ---- batching and lowering ---------------------------------------------------------------------
std::int64_t shift_axes(AxesParams& p, const Array&, int axis) {
  p.axes = shifted(p.axes, axis);
  return axis - count_below(p.axes, axis);
}

template <Fold kFold>
Scalar identity_scalar(Emitter& e, const Params&, DType dtype) {
  if (kFold == Fold::sum || kFold == Fold::or_ || kFold == Fold::xor_)
    return e.constant_int(dtype, 0);
  if (kFold == Fold::prod) return e.constant_int(dtype, 1);
  if (is_float(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return e.constant(dtype, kFold == Fold::max ? -infinity : infinity);
  }
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  const bool is_signed = is_signed_integer(dtype);
  const std::int64_t lowest =
      is_signed ? static_cast<std::int64_t>(~std::uint64_t{0} << (bits - 1)) : 0;
  if (dtype == DType::bool_) return e.constant_int(dtype, kFold == Fold::max ? 0 : 1);
  if (kFold == Fold::max) return e.constant_int(dtype, lowest);
  if (kFold == Fold::min && is_signed) return e.constant_int(dtype, ~lowest);
  const bool wide = is_signed || bits == 64;
  return e.constant_int(dtype, wide ? -1 : (std::int64_t{1} << bits) - 1);  // all bits set
}

template <Fold kFold>
Scalar combine_scalars(Emitter& e, const Params&, Scalar a, Scalar b) {
  switch (kFold) {
    case Fold::sum: return e.add(a, b);
    case Fold::prod: return e.mul(a, b);
    case Fold::max: return e.max(a, b);
    case Fold::min: return e.min(a, b);
    case Fold::and_: return e.and_(a, b);
    case Fold::or_: return e.or_(a, b);
    default: return e.xor_(a, b);
  }
}

template <Fold kFold>
Lowering fold_lowering() {
  return {Lowering::Reduction{identity_scalar<kFold>, combine_scalars<kFold>,
                              [](const Params& p) { return p.as<AxesParams>().axes; }}};
}

/// What all reductions have in common.
template <Fold kFold>
Rules<AxesParams> reduction(const char* name, const Primitive<AxesParams>& primitive,
                            Accepts accepts, const char* accepted) {
  return {
      .impl = reduce_impl<kFold>(name, accepts, accepted),
      .abstract_eval = reduced_aval(name, accepts, accepted),
      .batch = batch_in_place(primitive, shift_axes),
      .lower = fold_lowering<kFold>(),
      .exempt = {{"transpose", "not linear"}},
  };
}

Rules<AxesParams> bitwise_reduction(Rules<AxesParams> rules) {
  rules.exempt = {{"jvp", "bool and integers have no tangents"},
                  {"transpose", "bool and integers have no tangents"}};
  return rules;
}

}  // namespace
}  // namespace detail

// d sum(x) = sum(dx); transposed: broadcast.
const Primitive<AxesParams> reduce_sum_p{
    "reduce_sum", [] {
      using namespace detail;
      Rules<AxesParams> rules =
          reduction<Fold::sum>("reduce_sum", reduce_sum_p, arithmetic, "numbers");
      rules.jvp = linear_jvp(reduce_sum_p);
      rules.transpose =
          linear_transpose<AxesParams>([](const AxesParams& p, const Array& ct, const Aval& x) {
            return broadcast_back(ct, p.axes, x.shape);
          });
      rules.exempt = {};
      return rules;
    }};

// d prod(x) = sum_i dx_i prod_{j != i} x_j, by differentiating a tree of products.
const Primitive<AxesParams> reduce_prod_p{"reduce_prod", [] {
                                            using namespace detail;
                                            Rules<AxesParams> rules =
                                                reduction<Fold::prod>("reduce_prod", reduce_prod_p,
                                                                      arithmetic, "numbers");
                                            rules.jvp = prod_jvp;
                                            return rules;
                                          }};

// Of 0.0 and -0.0 the greatest and the least are either, as the order of the fold has it: max(x, y) is y where neither is
// greater, in every kernel. Ordering them too would make folds in the caches half as slow again.
const Primitive<AxesParams> reduce_max_p{
    "reduce_max", [] {
      using namespace detail;
      Rules<AxesParams> rules =
          reduction<Fold::max>("reduce_max", reduce_max_p, ordered, "real values");
      rules.jvp = [](const AxesParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
        return chooser_jvp(reduce_max_p, p, x[0], dx[0]);
      };
      return rules;
    }};

const Primitive<AxesParams> reduce_min_p{
    "reduce_min", [] {
      using namespace detail;
      Rules<AxesParams> rules =
          reduction<Fold::min>("reduce_min", reduce_min_p, ordered, "real values");
      rules.jvp = [](const AxesParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
        return chooser_jvp(reduce_min_p, p, x[0], dx[0]);
      };
      return rules;
    }};

const Primitive<AxesParams> reduce_and_p{
    "reduce_and", [] {
      using namespace detail;
      return bitwise_reduction(
          reduction<Fold::and_>("reduce_and", reduce_and_p, bitwise, "bool or integers"));
    }};
const Primitive<AxesParams> reduce_or_p{
    "reduce_or", [] {
      using namespace detail;
      return bitwise_reduction(
          reduction<Fold::or_>("reduce_or", reduce_or_p, bitwise, "bool or integers"));
    }};
const Primitive<AxesParams> reduce_xor_p{
    "reduce_xor", [] {
      using namespace detail;
      return bitwise_reduction(
          reduction<Fold::xor_>("reduce_xor", reduce_xor_p, bitwise, "bool or integers"));
    }};

}  // namespace v1
}  // namespace telamon
