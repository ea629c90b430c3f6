// The functions and operators of array programs, as in NumPy: they promote dtypes, broadcast shapes
// and then apply primitives (see lax.hpp for the strict forms).
//
//   Array y = tl::mean(tl::square(tl::matmul(x, w) + b), {.axes = {0}, .keepdims = true});
//
// - C++ scalars are weakly typed: `f32_array * 2.0` is f32, `i32_array * 0.5` the default float.
// - Axes may be negative. Shapes broadcast from the right; a TypeError shows the operands' avals.
// - Functions that need floats turn integers and bools into the default float first.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/none.hpp"

namespace telamon {
inline namespace v1 {

// ---- operators (elementwise) -------------------------------------------------------------------
TELAMON_API Array operator+(const Operand& x);
TELAMON_API Array operator-(const Operand& x);
/// Logical not. (It takes an Array, since an Operand would compete with `!bool(x)`.)
TELAMON_API Array operator!(const Array& x);
TELAMON_API Array operator~(const Operand& x);
TELAMON_API Array operator+(const Operand& x, const Operand& y);
TELAMON_API Array operator-(const Operand& x, const Operand& y);
TELAMON_API Array operator*(const Operand& x, const Operand& y);
/// True division: integers give the default float.
TELAMON_API Array operator/(const Operand& x, const Operand& y);
/// The remainder with the divisor's sign, as in Python (not as in C++).
TELAMON_API Array operator%(const Operand& x, const Operand& y);
TELAMON_API Array operator&(const Operand& x, const Operand& y);
TELAMON_API Array operator|(const Operand& x, const Operand& y);
TELAMON_API Array operator^(const Operand& x, const Operand& y);
TELAMON_API Array operator<<(const Operand& x, const Operand& y);
/// Arithmetic for signed integers, logical for unsigned ones.
TELAMON_API Array operator>>(const Operand& x, const Operand& y);
TELAMON_API Array operator==(const Operand& x, const Operand& y);
TELAMON_API Array operator!=(const Operand& x, const Operand& y);
TELAMON_API Array operator<(const Operand& x, const Operand& y);
TELAMON_API Array operator<=(const Operand& x, const Operand& y);
TELAMON_API Array operator>(const Operand& x, const Operand& y);
TELAMON_API Array operator>=(const Operand& x, const Operand& y);
TELAMON_API Array& operator+=(Array& x, const Operand& y);
TELAMON_API Array& operator-=(Array& x, const Operand& y);
TELAMON_API Array& operator*=(Array& x, const Operand& y);
TELAMON_API Array& operator/=(Array& x, const Operand& y);
TELAMON_API Array& operator%=(Array& x, const Operand& y);
TELAMON_API Array& operator&=(Array& x, const Operand& y);
TELAMON_API Array& operator|=(Array& x, const Operand& y);
TELAMON_API Array& operator^=(Array& x, const Operand& y);

// ---- elementwise -------------------------------------------------------------------------------
TELAMON_API Array sin(const Operand& x);
TELAMON_API Array cos(const Operand& x);
TELAMON_API Array tan(const Operand& x);
TELAMON_API Array asin(const Operand& x);
TELAMON_API Array acos(const Operand& x);
TELAMON_API Array atan(const Operand& x);
TELAMON_API Array sinh(const Operand& x);
TELAMON_API Array cosh(const Operand& x);
TELAMON_API Array tanh(const Operand& x);
TELAMON_API Array asinh(const Operand& x);
TELAMON_API Array acosh(const Operand& x);
TELAMON_API Array atanh(const Operand& x);
TELAMON_API Array exp(const Operand& x);
TELAMON_API Array exp2(const Operand& x);
TELAMON_API Array expm1(const Operand& x);
TELAMON_API Array log(const Operand& x);
TELAMON_API Array log2(const Operand& x);
TELAMON_API Array log10(const Operand& x);
TELAMON_API Array log1p(const Operand& x);
TELAMON_API Array sqrt(const Operand& x);
TELAMON_API Array rsqrt(const Operand& x);
TELAMON_API Array cbrt(const Operand& x);
TELAMON_API Array erf(const Operand& x);
TELAMON_API Array erf_inv(const Operand& x);
TELAMON_API Array square(const Operand& x);
TELAMON_API Array reciprocal(const Operand& x);
TELAMON_API Array abs(const Operand& x);
TELAMON_API Array sign(const Operand& x);
TELAMON_API Array floor(const Operand& x);
TELAMON_API Array ceil(const Operand& x);
/// To the nearest integer (or decimal), halves to the even neighbour.
TELAMON_API Array round(const Operand& x, int decimals = 0);
TELAMON_API Array isnan(const Operand& x);
TELAMON_API Array isinf(const Operand& x);
TELAMON_API Array isfinite(const Operand& x);
TELAMON_API Array logical_not(const Operand& x);

TELAMON_API Array add(const Operand& x, const Operand& y);
TELAMON_API Array subtract(const Operand& x, const Operand& y);
TELAMON_API Array multiply(const Operand& x, const Operand& y);
TELAMON_API Array divide(const Operand& x, const Operand& y);
TELAMON_API Array negative(const Operand& x);
TELAMON_API Array floor_divide(const Operand& x, const Operand& y);
/// The remainder with the divisor's sign.
TELAMON_API Array remainder(const Operand& x, const Operand& y);
TELAMON_API Array mod(const Operand& x, const Operand& y);
/// The remainder with the dividend's sign.
TELAMON_API Array fmod(const Operand& x, const Operand& y);
/// A C++ integer exponent up to 4096 becomes integer_pow, differentiable at 0 too, and larger ones pow.
/// A negative one -n is 1 / x^n, as in JAX: 0 where x^n overflows, though x^-n may be a small number.
/// Integers to a negative C++ integer are a TypeError.
TELAMON_API Array power(const Operand& x, const Operand& y);
TELAMON_API Array arctan2(const Operand& y, const Operand& x);
TELAMON_API Array hypot(const Operand& x, const Operand& y);
TELAMON_API Array maximum(const Operand& x, const Operand& y);
TELAMON_API Array minimum(const Operand& x, const Operand& y);
/// log(exp(x) + exp(y)) without overflow.
TELAMON_API Array logaddexp(const Operand& x, const Operand& y);
TELAMON_API Array logical_and(const Operand& x, const Operand& y);
TELAMON_API Array logical_or(const Operand& x, const Operand& y);
TELAMON_API Array logical_xor(const Operand& x, const Operand& y);
/// x where the condition holds, else y.
TELAMON_API Array where(const Operand& condition, const Operand& x, const Operand& y);
/// Limits x from below and above; `none` leaves a side open. A C++ integer beyond the range of an
/// integer array limits nothing: clip(u8_array, -1, 300) is the array.
TELAMON_API Array clip(const Operand& x, const std::optional<Operand>& low,
                       const std::optional<Operand>& high = none);

struct Tolerance {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;
};
/// |x - y| <= atol + rtol * |y|, elementwise; infinities are close to themselves.
TELAMON_API Array isclose(const Operand& x, const Operand& y, const Tolerance& tolerance = {});
/// Whether all elements are close. Needs concrete values.
TELAMON_API bool allclose(const Operand& x, const Operand& y, const Tolerance& tolerance = {});
/// Whether shapes and all elements are equal. Needs concrete values.
TELAMON_API bool array_equal(const Operand& x, const Operand& y);

// ---- reductions --------------------------------------------------------------------------------
/// Which axes a function works on: all of them (the default), one, or a list.
class AxisList {
 public:
  AxisList() = default;
  AxisList(std::nullopt_t) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  AxisList(T axis) : list_(Shape{detail::signed_integer(axis, "axis")}) {}
  AxisList(std::initializer_list<std::int64_t> axes) : list_(Shape(axes)) {}
  AxisList(Shape axes) : list_(std::move(axes)) {}
  bool all() const { return !list_.has_value(); }
  const Shape& list() const { return *list_; }

 private:
  std::optional<Shape> list_;
};

/// Whether reduced axes stay, with one element each. Said by a bool alone: the axes {0, 1} are not axis 0 and `true`, but do
/// not compile; they are {.axes = {0, 1}}.
class KeepDims {
 public:
  template <std::same_as<bool> Bool> constexpr KeepDims(Bool keep) : keep_(keep) {}
  constexpr operator bool() const { return keep_; }

 private:
  bool keep_;
};

struct Reduce {
  AxisList axes = {};
  KeepDims keepdims = false;
};
struct VarianceOptions {
  AxisList axes = {};
  KeepDims keepdims = false;
  double ddof = 0;  ///< the divisor is n - ddof; NaN when that is not positive
};

/// A reduction is an object that is called like a function:
///   sum(x), sum(x, 0), sum(x, {.axes = {0, 1}, .keepdims = true}), vmap(sum)(x)
/// (A function's default arguments are lost when it is passed to a transformation.)
template <class Options>
struct Reduction {
  Array (*reduce)(const Operand& x, const Options& options);
  Array operator()(const Operand& x, const Options& options = {}) const {
    return reduce(x, options);
  }
  template <class Integer>
    requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>)
  Array operator()(const Operand& x, Integer axis) const {
    Options options;
    options.axes = AxisList(axis);
    return reduce(x, options);
  }
};
namespace detail {
namespace numpy {
TELAMON_API Array sum(const Operand& x, const Reduce& options);
TELAMON_API Array prod(const Operand& x, const Reduce& options);
TELAMON_API Array mean(const Operand& x, const Reduce& options);
TELAMON_API Array max(const Operand& x, const Reduce& options);
TELAMON_API Array min(const Operand& x, const Reduce& options);
TELAMON_API Array all(const Operand& x, const Reduce& options);
TELAMON_API Array any(const Operand& x, const Reduce& options);
TELAMON_API Array var(const Operand& x, const VarianceOptions& options);
TELAMON_API Array std_(const Operand& x, const VarianceOptions& options);
TELAMON_API Array logsumexp(const Operand& x, const Reduce& options);
}  // namespace numpy
}  // namespace detail
inline constexpr Reduction<Reduce> sum{detail::numpy::sum};  ///< bool counts in the default int
inline constexpr Reduction<Reduce> prod{detail::numpy::prod};
inline constexpr Reduction<Reduce> mean{detail::numpy::mean};  ///< of integers: the default float
inline constexpr Reduction<Reduce> max{detail::numpy::max};
inline constexpr Reduction<Reduce> min{detail::numpy::min};
inline constexpr Reduction<Reduce> all{detail::numpy::all};
inline constexpr Reduction<Reduce> any{detail::numpy::any};
inline constexpr Reduction<VarianceOptions> var{detail::numpy::var};
inline constexpr Reduction<VarianceOptions> std_{detail::numpy::std_};  ///< the standard deviation
/// log(sum(exp(x))) without overflow.
inline constexpr Reduction<Reduce> logsumexp{detail::numpy::logsumexp};

/// The index of the first largest element (a NaN counts as largest); of the flattened array when
/// no axis is given. The default int.
TELAMON_API Array argmax(const Operand& x, OptionalAxis axis = none, bool keepdims = false);
TELAMON_API Array argmin(const Operand& x, OptionalAxis axis = none, bool keepdims = false);
/// Running sums along an axis; of the flattened array when none is given. Integers keep their dtype
/// (and wrap around), bools count in the default int.
TELAMON_API Array cumsum(const Operand& x, OptionalAxis axis = none);
TELAMON_API Array cumprod(const Operand& x, OptionalAxis axis = none);
TELAMON_API Array cummax(const Operand& x, OptionalAxis axis = none);
TELAMON_API Array cummin(const Operand& x, OptionalAxis axis = none);
/// Differences of neighbours, n times.
TELAMON_API Array diff(const Operand& x, std::int64_t n = 1, Axis axis = -1);

// ---- shapes ------------------------------------------------------------------------------------
/// One dimension may be -1: it is inferred.
TELAMON_API Array reshape(const Operand& x, const Shape& shape);
TELAMON_API Array ravel(const Operand& x);
/// Axes in a new order; reversed when none are given.
TELAMON_API Array transpose(const Operand& x, const AxisList& permutation = {});
TELAMON_API Array swapaxes(const Operand& x, Axis axis1, Axis axis2);
TELAMON_API Array moveaxis(const Operand& x, Axis source, Axis destination);
/// New axes of size 1 at these positions of the result.
TELAMON_API Array expand_dims(const Operand& x, const AxisList& axes);
/// Removes axes of size 1 (all of them when none are given).
TELAMON_API Array squeeze(const Operand& x, const AxisList& axes = {});
TELAMON_API Array broadcast_to(const Operand& x, const Shape& shape);
TELAMON_API Arrays broadcast_arrays(const Arrays& xs,
                                    SourceLocation where = SourceLocation::current());
TELAMON_API Array flip(const Operand& x, const AxisList& axes = {});
TELAMON_API Array concatenate(const Arrays& xs, Axis axis = 0,
                              SourceLocation where = SourceLocation::current());
TELAMON_API Array stack(const Arrays& xs, Axis axis = 0,
                        SourceLocation where = SourceLocation::current());
/// The rows along an axis, at most 2^20 of them: else a ValueError.
TELAMON_API Arrays unstack(const Operand& x, Axis axis = 0);
/// Into equal parts (at most 2^20, else a ValueError), or before each of the given indices.
TELAMON_API Arrays split(const Operand& x, std::int64_t sections, Axis axis = 0);
TELAMON_API Arrays split(const Operand& x, const Shape& indices, Axis axis = 0);
/// How much to add before and after each dimension: {{1, 2}, {0, 0}} names every dimension, {1, 2}
/// and 1 hold for all of them.
class PadWidths {
 public:
  using Pair = std::pair<std::int64_t, std::int64_t>;
  PadWidths() = default;
  PadWidths(std::int64_t width) : PadWidths(width, width) {}
  PadWidths(std::int64_t before, std::int64_t after) : widths_{{before, after}}, uniform_(true) {}
  PadWidths(std::initializer_list<Pair> widths) : widths_(widths) {}
  PadWidths(std::vector<Pair> widths) : widths_(std::move(widths)) {}
  /// One pair for each of `ndim` dimensions; ValueError when there are more or fewer.
  TELAMON_API std::vector<Pair> of(int ndim) const;

 private:
  std::vector<Pair> widths_;
  bool uniform_ = false;
};
TELAMON_API Array pad(const Operand& x, const PadWidths& widths, const Operand& value = 0);
TELAMON_API Array tile(const Operand& x, const Shape& repetitions);
/// Each element `count` times in a row; of the flattened array when no axis is given.
TELAMON_API Array repeat(const Operand& x, std::int64_t count, OptionalAxis axis = none);
/// Elements shifted along an axis, what falls off comes in again; of the flattened array when no
/// axis is given.
TELAMON_API Array roll(const Operand& x, std::int64_t shift, OptionalAxis axis = none);
/// The lower triangle: zero above the k-th diagonal.
TELAMON_API Array tril(const Operand& x, std::int64_t k = 0);
TELAMON_API Array triu(const Operand& x, std::int64_t k = 0);
/// The k-th diagonal of a matrix, or a matrix with that diagonal.
TELAMON_API Array diag(const Operand& x, std::int64_t k = 0);
/// The diagonal over two axes, as the last axis of the result.
TELAMON_API Array diagonal(const Operand& x, std::int64_t offset = 0, Axis axis1 = 0,
                           Axis axis2 = 1);

// ---- creation ----------------------------------------------------------------------------------
/// Strong: a C++ scalar becomes an array of its own (or the given) dtype.
TELAMON_API Array asarray(const Operand& x, std::optional<DType> dtype = none);
namespace detail {
TELAMON_API Array array_of(const Array& values, std::optional<DType> dtype, SourceLocation where);
}
/// array({1.0, 2.0}) is f64[2]; array({1, 2}, f32) is f32[2]. TypeError where an integer does not fit the
/// dtype.
template <ElementType T>
Array array(std::initializer_list<T> values, std::optional<DType> dtype = none,
            SourceLocation where = SourceLocation::current()) {
  return detail::array_of(Array(values), dtype, where);
}
template <ElementType T>
Array array(const std::vector<T>& values, std::optional<DType> dtype = none,
            SourceLocation where = SourceLocation::current()) {
  return detail::array_of(Array(values), dtype, where);
}
TELAMON_API Array zeros(const Shape& shape, std::optional<DType> dtype = none,
                        SourceLocation where = SourceLocation::current());
TELAMON_API Array ones(const Shape& shape, std::optional<DType> dtype = none,
                       SourceLocation where = SourceLocation::current());
/// C++ numbers give the default float or the default int unless a dtype is named.
TELAMON_API Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype = none);
TELAMON_API Array zeros_like(const Operand& x, std::optional<DType> dtype = none);
TELAMON_API Array ones_like(const Operand& x, std::optional<DType> dtype = none);
TELAMON_API Array full_like(const Operand& x, const Operand& value,
                            std::optional<DType> dtype = none);
/// n rows, m (or n) columns, ones on the k-th diagonal.
TELAMON_API Array eye(std::int64_t n, std::optional<std::int64_t> m = none, std::int64_t k = 0,
                      std::optional<DType> dtype = none,
                      SourceLocation where = SourceLocation::current());
/// 0, 1, ... below `stop`. Integers give the default int, floating numbers the default float.
TELAMON_API Array arange(const Operand& stop, std::optional<DType> dtype = none);
TELAMON_API Array arange(const Operand& start, const Operand& stop, const Operand& step = 1,
                         std::optional<DType> dtype = none);
struct LinspaceOptions {
  bool endpoint = true;
  std::optional<DType> dtype = none;
};
/// `count` numbers from start to stop, evenly spaced.
TELAMON_API Array linspace(const Operand& start, const Operand& stop, std::int64_t count = 50,
                           const LinspaceOptions& options = {});
/// Coordinate matrices; `ij` indexing: the first array varies along the first axis.
TELAMON_API Arrays meshgrid(const Arrays& xs, bool ij = false,
                            SourceLocation where = SourceLocation::current());

// ---- products ----------------------------------------------------------------------------------
/// Matrix product: the last two axes; leading ones broadcast; vectors are promoted as in NumPy.
TELAMON_API Array matmul(const Operand& x, const Operand& y);
/// The last axis of x with the second to last of y.
TELAMON_API Array dot(const Operand& x, const Operand& y);
TELAMON_API Array vdot(const Operand& x, const Operand& y);   ///< of the flattened arrays
TELAMON_API Array inner(const Operand& x, const Operand& y);  ///< over the last axes
TELAMON_API Array outer(const Operand& x, const Operand& y);
/// Contracts the last `axes` axes of x with the first of y, or the listed pairs.
TELAMON_API Array tensordot(const Operand& x, const Operand& y, std::int64_t axes = 2);
TELAMON_API Array tensordot(const Operand& x, const Operand& y, const Shape& x_axes,
                            const Shape& y_axes);
/// Einstein summation: einsum("ij,jk->ik", x, y). Ellipsis, diagonals ("ii->i") and implicit
/// results are understood.
TELAMON_API Array einsum(std::string_view subscripts, const Operand& x,
                         const std::optional<Operand>& y = none,
                         const std::optional<Operand>& z = none,
                         const std::optional<Operand>& w = none);
TELAMON_API Array einsum(std::string_view subscripts, const Arrays& operands,
                         SourceLocation where = SourceLocation::current());
TELAMON_API Array trace(const Operand& x, std::int64_t offset = 0, Axis axis1 = 0, Axis axis2 = 1);
/// The vector product over the last axis (of size 3).
TELAMON_API Array cross(const Operand& x, const Operand& y);

inline constexpr double inf = __builtin_huge_val();
inline constexpr double nan = __builtin_nan("");
inline constexpr double pi = 3.141592653589793238462643383279502884;
struct NormOptions {
  std::optional<double> ord =
      none;  ///< none: 2 (of matrices: Frobenius); any number, tl::inf, -tl::inf
  AxisList axes = {};
  KeepDims keepdims = false;
};
/// The vector norm along one axis, the matrix norm of two (the orders 1, -1, inf and -inf), or over
/// all elements when no order is given.
TELAMON_API Array norm(const Operand& x, const NormOptions& options = {});
/// Not of integers alone: norm(x, {0, 1}) would be of the order 0, along axis 1. It is {.axes = {0, 1}}.
template <std::integral T> Array norm(const Operand& x, std::initializer_list<T> axes) = delete;

// ---- neural networks ---------------------------------------------------------------------------
TELAMON_API Array relu(const Operand& x);  ///< its derivative at 0 is 0
TELAMON_API Array sigmoid(const Operand& x);
TELAMON_API Array silu(const Operand& x);
TELAMON_API Array softplus(const Operand& x);
/// x * Phi(x), by the tanh approximation.
TELAMON_API Array gelu(const Operand& x);
/// x * Phi(x), by erf.
TELAMON_API Array gelu_exact(const Operand& x);
TELAMON_API Array softmax(const Operand& x, const AxisList& axes = -1);
TELAMON_API Array log_softmax(const Operand& x, const AxisList& axes = -1);
/// Rows of zeros with a one at each index (none where the index is out of range); the new axis is
/// last.
TELAMON_API Array one_hot(const Operand& x, std::int64_t num_classes,
                          std::optional<DType> dtype = none);

// ---- sorting, gathering ------------------------------------------------------------------------
/// Ascending and stable; NaNs last. `none` flattens first.
TELAMON_API Array sort(const Operand& x, OptionalAxis axis = -1);
TELAMON_API Array argsort(const Operand& x, OptionalAxis axis = -1);
/// Elements at the given positions; of the flattened array when no axis is given. Negative indices
/// count from the end; of an index out of range as in JAX: NaN, the lowest signed integer, the
/// highest unsigned one, true. IndexError: there are indices, and the axis has no elements.
TELAMON_API Array take(const Operand& x, const Operand& indices, OptionalAxis axis = none);
/// x[i][indices[i][j]]: indices of x's shape but for `axis`; in other axes, either may have one element
/// for all of the other's. Out of range as in take.
TELAMON_API Array take_along_axis(const Operand& x, const Operand& indices, Axis axis);
/// result[k] = the sum of data[i] over all i with segment_ids[i] == k; ids out of range are
/// dropped.
TELAMON_API Array segment_sum(const Operand& data, const Operand& segment_ids,
                              std::int64_t num_segments);

}  // namespace v1
}  // namespace telamon
