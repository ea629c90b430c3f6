// Matrix products of complex numbers, as products of real ones.
//
// A matrix whose rows lie contiguously is, as it lies, one of real numbers with twice as many columns. So the larger operand
// is not copied, and what is made of the smaller one is small:
//
//   more rows than columns:  c = a [b; i b]              the rows of b and i b in turn, each of 2 n real numbers
//   more columns than rows:  [x; y] = [re a; im a] b     c = x + i y
#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/gemm.hpp"
#include "runtime/kernels/temporary.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

bool rows_are_contiguous(const View& v) {
  return v.shape[2] == 1 || v.strides[2] == static_cast<std::int64_t>(size_of(v.dtype));
}

/// The parts of complex numbers, which lie in turn.
template <class T>
View parts_of_rows(View v) {
  v.dtype = dtype_of<T>;
  v.shape[2] *= 2;
  v.strides[2] = static_cast<std::int64_t>(sizeof(T));
  return v;
}

/// Calls body(batch, i, j, real part, imaginary part) for all elements.
template <class T, class Body>
void for_each_number(const View& v, const Body& body) {
  for (std::int64_t l = 0; l < v.shape[0]; ++l) {
    for (std::int64_t i = 0; i < v.shape[1]; ++i) {
      const char* at = v.data + l * v.strides[0] + i * v.strides[1];
      for (std::int64_t j = 0; j < v.shape[2]; ++j, at += v.strides[2])
        body(l, i, j, reinterpret_cast<const T*>(at)[0], reinterpret_cast<const T*>(at)[1]);
    }
  }
}

void multiply(const GemmBlocks* blocks, const View& lhs, const View& rhs, const View& out) {
  if (blocks != nullptr) run_matmul_in(*blocks, lhs, rhs, out);
  else run_matmul(lhs, rhs, out);
}

template <class T>
void multiply_rows(const GemmBlocks* blocks, const View& lhs, const View& rhs, const View& out) {
  const std::int64_t batch = rhs.shape[0], k = rhs.shape[1], n = rhs.shape[2];
  // Few columns lie contiguously, for inner products.
  constexpr std::int64_t kFew = 4;
  const bool by_columns = n <= kFew;
  const Temporary both(by_columns ? Shape{batch, 2 * n, 2 * k} : Shape{batch, 2 * k, 2 * n},
                       dtype_of<T>);
  const std::int64_t down = by_columns ? 1 : 2 * n, right = by_columns ? 2 * k : 1;
  T* const b = reinterpret_cast<T*>(both.data());
  for_each_number<T>(rhs, [&](std::int64_t l, std::int64_t i, std::int64_t j, T re, T im) {
    T* const to = b + l * 4 * k * n + 2 * (i * down + j * right);
    to[0] = to[down + right] = re;
    to[right] = im;
    to[down] = -im;
  });
  multiply(blocks, parts_of_rows<T>(lhs), by_columns ? transposed(both.view()) : both.view(),
           parts_of_rows<T>(out));
}

template <class T>
void multiply_columns(const GemmBlocks* blocks, const View& lhs, const View& rhs, const View& out) {
  const std::int64_t batch = lhs.shape[0], m = lhs.shape[1], k = lhs.shape[2], n = rhs.shape[2];
  const Temporary apart(Shape{batch, 2 * m, k}, dtype_of<T>);
  const Temporary products(Shape{batch, 2 * m, 2 * n}, dtype_of<T>);
  T* const a = reinterpret_cast<T*>(apart.data());
  for_each_number<T>(lhs, [&](std::int64_t l, std::int64_t i, std::int64_t j, T re, T im) {
    T* const to = a + (2 * l * m + i) * k + j;
    to[0] = re;
    to[m * k] = im;
  });
  multiply(blocks, apart.view(), parts_of_rows<T>(rhs), products.view());
  T* to = reinterpret_cast<T*>(out.data);
  for (std::int64_t l = 0; l < batch; ++l) {
    const T *x = reinterpret_cast<const T*>(products.data()) + 4 * l * m * n, *y = x + 2 * m * n;
    for (std::int64_t i = 0; i < m * n; ++i, x += 2, y += 2, to += 2) {
      to[0] = x[0] - y[1];
      to[1] = x[1] + y[0];
    }
  }
}

template <class T>
void multiply_numbers(const GemmBlocks* blocks, const View& lhs, const View& rhs, const View& out) {
  const bool rows = lhs.shape[1] >= rhs.shape[2];
  const View& larger = rows ? lhs : rhs;
  if (rows_are_contiguous(larger)) {
    if (rows) return multiply_rows<T>(blocks, lhs, rhs, out);
    return multiply_columns<T>(blocks, lhs, rhs, out);
  }
  // A vector is its own transpose; of two of them neither is larger.
  if (rows ? lhs.shape[1] > 1 && rhs.shape[2] == 1 && rows_are_contiguous(transposed(lhs))
           : lhs.shape[1] == 1 && rows_are_contiguous(transposed(rhs))) {
    const View turned =
        contiguous_view(out.data, out.dtype, {out.shape[0], out.shape[2], out.shape[1]});
    return multiply_numbers<T>(blocks, transposed(rhs), transposed(lhs), turned);
  }
  const Temporary copy(larger.shape, larger.dtype);
  run_copy(larger, copy.view());
  multiply_numbers<T>(blocks, rows ? copy.view() : lhs, rows ? rhs : copy.view(), out);
}

}  // namespace

void run_complex_matmul(const GemmBlocks* blocks, const View& lhs, const View& rhs,
                        const View& out) {
  if (out.dtype == DType::c64) multiply_numbers<float>(blocks, lhs, rhs, out);
  else multiply_numbers<double>(blocks, lhs, rhs, out);
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
