// dot_general: sums of products over contracting dimensions, for each index of the batch dimensions.
// Result dimensions: batch, free lhs, free rhs, each in order.
#include <algorithm>
#include <numeric>

#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kName = "dot_general";

// ---- types -------------------------------------------------------------------------------------
Shape free_axes(const Shape& batch, const Shape& contracting, int ndim) {
  return other_axes(concatenated(batch, contracting), ndim);
}

void check_pairs(std::span<const Aval> avals, const char* what, const Shape& lhs,
                 const Shape& rhs) {
  if (lhs.size() != rhs.size() || taken(avals[0].shape, lhs) != taken(avals[1].shape, rhs)) {
    shape_error(kName, avals,
                std::string(what) + " dimensions " + lhs.to_string() + " and " + rhs.to_string() +
                    " must have equal sizes");
  }
}

Aval result_aval(const DotGeneralParams& p, std::span<const Aval> avals) {
  const DotDimensionNumbers& d = p.dimension_numbers;
  check_arity(kName, avals, 2);
  check_same_dtype(kName, avals);
  const Shape lhs_used = concatenated(d.lhs_batch, d.lhs_contracting),
              rhs_used = concatenated(d.rhs_batch, d.rhs_contracting);
  check_axes(kName, avals, "lhs dimension", lhs_used, avals[0].ndim());
  check_axes(kName, avals, "rhs dimension", rhs_used, avals[1].ndim());
  check_pairs(avals, "contracting", d.lhs_contracting, d.rhs_contracting);
  check_pairs(avals, "batch", d.lhs_batch, d.rhs_batch);
  const Shape free = concatenated(taken(avals[0].shape, other_axes(lhs_used, avals[0].ndim())),
                                  taken(avals[1].shape, other_axes(rhs_used, avals[1].ndim())));
  return {concatenated(taken(avals[0].shape, d.lhs_batch), free),
          p.preferred_element_type.value_or(avals[0].dtype), all_weak(avals)};
}

// ---- evaluation --------------------------------------------------------------------------------
/// The operand in dense memory with its dimensions in the given order.
Array in_order(const Array& x, const Shape& order) {
  View from = view_of(x);
  from.shape = taken(from.shape, order);
  from.strides = taken(from.strides, order);
  return kernels::is_contiguous(from) ? x : copy_to_dense({from.shape, x.dtype(), false}, from);
}

struct Sizes {
  std::int64_t batch, m, n, k;
};

/// c = a b for row-major a (m, k) and b (k, n). Rows of b are added up, four at a time.
template <class T>
void multiply(const Sizes& s, const T* a, const T* b, T* c) {
  std::fill_n(c, s.m * s.n, T(0));
  for (std::int64_t i = 0; i < s.m; ++i) {
    T* row = c + i * s.n;
    for (std::int64_t k = 0; k < s.k; ++k) {
      const T factor = a[i * s.k + k];
      const T* from = b + k * s.n;
      for (std::int64_t j = 0; j < s.n; ++j)
        row[j] = wrapping_add(row[j], wrapping_mul(factor, from[j]));
    }
  }
}

/// On bool the product is `and`, the sum is `or`.
void multiply_bool(const Sizes& s, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* c) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      std::uint8_t any = 0;
      for (std::int64_t k = 0; k < s.k; ++k) any |= a[i * s.k + k] & b[k * s.n + j];
      c[i * s.n + j] = any;
    }
  }
}

Arrays evaluate(const DotGeneralParams& p, std::span<const Array> x) {
  const Aval aval = result_aval(p, avals_of(x));
  const DotDimensionNumbers& d = p.dimension_numbers;
  const Shape lhs_free = free_axes(d.lhs_batch, d.lhs_contracting, x[0].ndim());
  const Shape rhs_free = free_axes(d.rhs_batch, d.rhs_contracting, x[1].ndim());
  const Sizes s{taken(x[0].shape(), d.lhs_batch).num_elements(),
                taken(x[0].shape(), lhs_free).num_elements(),
                taken(x[1].shape(), rhs_free).num_elements(),
                taken(x[0].shape(), d.lhs_contracting).num_elements()};
  const Array a = in_order(lax::convert_element_type(x[0], aval.dtype),
                           concatenated(concatenated(d.lhs_batch, lhs_free), d.lhs_contracting));
  const Array b = in_order(lax::convert_element_type(x[1], aval.dtype),
                           concatenated(concatenated(d.rhs_batch, d.rhs_contracting), rhs_free));
  Array out = make_uninitialized(aval);
  with_type(aval.dtype, kName, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < s.batch; ++i) {
      const T* lhs = data_of<T>(a) + i * s.m * s.k;
      const T* rhs = data_of<T>(b) + i * s.k * s.n;
      T* to = mutable_data_of<T>(out) + i * s.m * s.n;
      if constexpr (std::is_same_v<T, std::uint8_t>) {
        if (aval.dtype == DType::bool_) {
          multiply_bool(s, lhs, rhs, to);
          continue;
        }
      }
      multiply(s, lhs, rhs, to);
    }
  });
  return {out};
}

// ---- derivatives -------------------------------------------------------------------------------
/// d(a b) = da b + a db
JvpResult jvp(const DotGeneralParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
  std::vector<Array> terms;
  if (!dx[0].is_zero()) terms.push_back(dot_general_p.bind1(p, {dx[0].array(), x[1]}));
  if (!dx[1].is_zero()) terms.push_back(dot_general_p.bind1(p, {x[0], dx[1].array()}));
  return {dot_general_p.bind(p, x), {terms.size() == 2 ? lax::add(terms[0], terms[1]) : terms[0]}};
}

/// One operand of the product, by its dimensions.
struct Side {
  Shape contracting, batch, free;
};

/// The cotangent of operand `x`, given the other operand's value y:
///   ct(x)[batch, free x, contracted] = sum over free y of ct[batch, free x, free y] y
/// then its dimensions are put in x's order. In ct the batch dimensions come first, then the free
/// ones of lhs, then those of rhs: `x_is_lhs` tells which.
Array pull_back(const Array& ct, const Array& y, const Side& of_x, const Side& of_y, const Aval& x,
                bool x_is_lhs) {
  const auto batches = static_cast<std::int64_t>(of_x.batch.size());
  const auto x_free = static_cast<std::int64_t>(of_x.free.size()),
             y_free = static_cast<std::int64_t>(of_y.free.size());
  const std::int64_t y_start = x_is_lhs ? batches + x_free : batches;
  const Array product = lax::dot_general(
      ct, lax::convert_element_type(y, ct.dtype()),
      {range(y_start, y_start + y_free), of_y.free, range(0, batches), of_y.batch});
  // What is left of y, its contracted dimensions, comes out in y's order.
  Shape by_y(of_y.contracting.size(), 0);
  std::iota(by_y.begin(), by_y.end(), 0);
  std::sort(by_y.begin(), by_y.end(), [&](std::int64_t i, std::int64_t j) {
    return of_y.contracting[static_cast<std::size_t>(i)] <
           of_y.contracting[static_cast<std::size_t>(j)];
  });
  const Shape order =
      concatenated(concatenated(of_x.batch, of_x.free), taken(of_x.contracting, by_y));
  return lax::convert_element_type(lax::transpose(product, inverse_permutation(order)), x.dtype);
}

std::vector<Tangent> transpose(const DotGeneralParams& p, std::span<const Tangent> cts,
                               std::span<const LinearInput> x) {
  std::vector<Tangent> out = zero_cotangents(x);
  if (cts[0].is_zero()) return out;
  const DotDimensionNumbers& d = p.dimension_numbers;
  const Side lhs{d.lhs_contracting, d.lhs_batch,
                 free_axes(d.lhs_batch, d.lhs_contracting, x[0].aval().ndim())};
  const Side rhs{d.rhs_contracting, d.rhs_batch,
                 free_axes(d.rhs_batch, d.rhs_contracting, x[1].aval().ndim())};
  const Array& ct = cts[0].array();
  if (x[0].is_linear()) {
    out[0] = pull_back(ct, x[1].array(), lhs, rhs, x[0].aval(), true);
  } else {
    out[1] = pull_back(ct, x[0].array(), rhs, lhs, x[1].aval(), false);
  }
  return out;
}

// ---- batching ----------------------------------------------------------------------------------
/// Mapped on both sides, the batch axes become a batch dimension; mapped on one side, the batch axis
/// becomes a free dimension. Neither needs a transpose.
BatchResult batch(const DotGeneralParams& p, const AxisInfo&, std::span<const Array> x,
                  std::span<const BatchAxis> axes) {
  DotGeneralParams batched = p;
  DotDimensionNumbers& d = batched.dimension_numbers;
  if (axes[0]) {
    d.lhs_contracting = shifted(d.lhs_contracting, *axes[0]);
    d.lhs_batch = shifted(d.lhs_batch, *axes[0]);
  }
  if (axes[1]) {
    d.rhs_contracting = shifted(d.rhs_contracting, *axes[1]);
    d.rhs_batch = shifted(d.rhs_batch, *axes[1]);
  }
  const Shape lhs_free = free_axes(d.lhs_batch, d.lhs_contracting, x[0].ndim());
  std::int64_t axis = 0;
  if (axes[0] && axes[1]) {
    d.lhs_batch = inserted(d.lhs_batch, 0, *axes[0]);
    d.rhs_batch = inserted(d.rhs_batch, 0, *axes[1]);
  } else if (axes[0]) {
    axis = d.lhs_batch.ndim() + count_below(lhs_free, *axes[0]);
  } else {
    const Shape rhs_free = free_axes(d.rhs_batch, d.rhs_contracting, x[1].ndim());
    axis = d.lhs_batch.ndim() + lhs_free.ndim() + count_below(rhs_free, *axes[1]);
  }
  return {dot_general_p.bind(batched, x), {static_cast<int>(axis)}};
}

}  // namespace
}  // namespace detail

const Primitive<DotGeneralParams> dot_general_p{
    detail::kName, [] {
      using namespace detail;
      return Rules<DotGeneralParams>{
          .impl = evaluate,
          .abstract_eval = result_aval,
          .jvp = jvp,
          .transpose = transpose,
          .batch = batch,
          .exempt = {{"lower", "the compiler chooses between its own loops and BLAS"}},
      };
    }};

}  // namespace v1
}  // namespace telamon
