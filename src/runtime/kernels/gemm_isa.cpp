// Matrix products of integers and complex numbers, and matrices of floats times a vector, for one
// instruction set. The other products of floats are in gemm_float_isa.cpp.
#include "runtime/kernels/gemm_tile.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::GemmTile;
using simd::F32;
using simd::F64;
using simd::load_lanes;

/// Rows of a times one contiguous vector b: four registers of partial sums along k.
template <class V>
void float_dots(const GemmTile& t) {
  using T = simd::ScalarOf<V>;
  constexpr int kLanes = simd::Lanes<V>::kCount;
  const T* b = static_cast<const T*>(t.b);
  for (std::int64_t row = 0; row < t.m; ++row) {
    const T* a = static_cast<const T*>(t.a) + row * t.a_row;
    V sums[4] = {};
    std::int64_t k = 0;
    for (; k + 4 * kLanes <= t.k; k += 4 * kLanes) {
      for (int j = 0; j < 4; ++j) {
        sums[j] = simd::fma(load_lanes<V>(a + k + j * kLanes, kLanes),
                            load_lanes<V>(b + k + j * kLanes, kLanes), sums[j]);
      }
    }
    for (int j = 0; k < t.k; k += kLanes, ++j) {
      sums[j] = simd::fma(load_lanes<V>(a + k, t.k - k), load_lanes<V>(b + k, t.k - k), sums[j]);
    }
    const V sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    T total[kLanes];
    __builtin_memcpy(total, &sum, sizeof sum);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) total[j] += total[j + half];
    }
    static_cast<T*>(t.c)[row * t.c_row] = total[0];
  }
}

/// Integers modulo 2^w, bool with or and and.
template <class Sum, class Product, class T>
void plain_gemm(const GemmTile& t) {
  for (std::int64_t i = 0; i < t.m; ++i) {
    const T* a = static_cast<const T*>(t.a) + i * t.a_row;
    T* c = static_cast<T*>(t.c) + i * t.c_row;
    for (std::int64_t j = 0; j < t.n; ++j) c[j] = 0;
    for (std::int64_t k = 0; k < t.k; ++k) {
      const T factor = a[k * t.a_column];
      const T* b = static_cast<const T*>(t.b) + k * t.b_row;
      TELAMON_INDEPENDENT
      for (std::int64_t j = 0; j < t.n; ++j) c[j] = Sum::apply(c[j], Product::apply(factor, b[j]));
    }
  }
}

template <class C>
void complex_gemm(const GemmTile& t) {
  for (std::int64_t i = 0; i < t.m; ++i) {
    const C* a = static_cast<const C*>(t.a) + i * t.a_row;
    C* c = static_cast<C*>(t.c) + i * t.c_row;
    for (std::int64_t j = 0; j < t.n; ++j) c[j] = {};
    for (std::int64_t k = 0; k < t.k; ++k) {
      const C x = a[k * t.a_column];
      const C* b = static_cast<const C*>(t.b) + k * t.b_row;
      for (std::int64_t j = 0; j < t.n; ++j) {
        c[j].re += x.re * b[j].re - x.im * b[j].im;
        c[j].im += x.re * b[j].im + x.im * b[j].re;
      }
    }
  }
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::GemmLoop TELAMON_ISA_SYMBOL(gemm_loop)(telamon::DType dtype,
                                                                    bool dots) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  using telamon::DType;
  if (dots)
    return dtype == DType::f32 ? float_dots<F32> : dtype == DType::f64 ? float_dots<F64> : nullptr;
  switch (dtype) {
    case DType::bool_: return plain_gemm<Or, And, std::uint8_t>;
    case DType::i8:
    case DType::u8: return plain_gemm<Add, Mul, std::uint8_t>;
    case DType::i16:
    case DType::u16: return plain_gemm<Add, Mul, std::uint16_t>;
    case DType::i32:
    case DType::u32: return plain_gemm<Add, Mul, std::uint32_t>;
    case DType::i64:
    case DType::u64: return plain_gemm<Add, Mul, std::uint64_t>;
    case DType::c64: return complex_gemm<telamon::Complex64>;
    case DType::c128: return complex_gemm<telamon::Complex128>;
    default: return nullptr;
  }
}
