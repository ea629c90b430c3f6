// Functions of neural networks: activations, softmax, one-hot.
#include <cmath>

#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {

// maximum(x, 0), bools with it, but as a selection, so that the derivative at 0 is 0; `x <= 0` lets
// NaN through.
Array relu(const Operand& x) {
  return detail::in_call("relu", {&x}, [&] {
    const auto [a, zero] = detail::promote("relu", x.array, 0);
    return lax::select(lax::le(a, zero), zero, a);
  });
}

Array silu(const Operand& x) {
  return detail::in_call("silu", {&x}, [&] {
    const Array a = detail::inexact(x.array);
    return lax::mul(a, lax::logistic(a));
  });
}

Array softplus(const Operand& x) {
  return detail::in_call("softplus", {&x}, [&] { return logaddexp(x, 0); });
}

// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))   (Hendrycks and Gimpel, 2016)
Array gelu(const Operand& x) {
  return detail::in_call("gelu", {&x}, [&] {
    const Array a = detail::strong(detail::inexact(x.array));
    const Array inner =
        multiply(add(a, multiply(lax::integer_pow(a, 3), 0.044715)), std::sqrt(2 / pi));
    return multiply(a, multiply(add(lax::tanh(inner), 1.0), 0.5));
  });
}

// x Phi(x) = x/2 (1 + erf(x / sqrt 2))
Array gelu_exact(const Operand& x) {
  return detail::in_call("gelu_exact", {&x}, [&] {
    const Array a = detail::strong(detail::inexact(x.array));
    return multiply(a, multiply(add(lax::erf(multiply(a, std::sqrt(0.5))), 1.0), 0.5));
  });
}

namespace {
/// x less its largest element along the axes, which gets no derivative: it cancels in the result.
Array shifted(const Array& x, const AxisList& axes) {
  if (x.size() == 0) return x;
  return subtract(x, lax::stop_gradient(max(x, {.axes = axes, .keepdims = true})));
}
}  // namespace

Array softmax(const Operand& x, const AxisList& axes) {
  return detail::in_call("softmax", {&x}, [&] {
    const Array e = lax::exp(shifted(detail::inexact(x.array), axes));
    return divide(e, sum(e, {.axes = axes, .keepdims = true}));
  });
}

Array log_softmax(const Operand& x, const AxisList& axes) {
  return detail::in_call("log_softmax", {&x}, [&] {
    const Array a = shifted(detail::inexact(x.array), axes);
    return subtract(a, lax::log(sum(lax::exp(a), {.axes = axes, .keepdims = true})));
  });
}

Array one_hot(const Operand& x, std::int64_t num_classes, std::optional<DType> dtype) {
  return detail::in_call("one_hot", {&x}, [&] {
    if (x.array.dtype() == DType::bool_) detail::type_error("one_hot", "numbers", x.array);
    const Array index = detail::strong(x.array);
    Shape shape = index.shape();
    shape.push_back(num_classes);
    detail::check_dense("one_hot", {shape, dtype.value_or(default_float())});
    const Array columns = lax::iota(index.dtype(), shape, index.ndim());
    const Array hit =
        lax::eq(lax::broadcast_in_dim(index, shape, detail::iota_axes(index.ndim())), columns);
    return lax::convert_element_type(hit, dtype.value_or(default_float()));
  });
}

}  // namespace v1
}  // namespace telamon
