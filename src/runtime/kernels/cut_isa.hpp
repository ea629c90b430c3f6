// Registers of whole numbers, and which of their lanes are below a bound, moved to the front. For *_isa.cpp files only.
#pragma once

#include <cstdint>

#include "runtime/math/simd.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

template <class T> struct Register;
template <> struct Register<std::uint32_t> {
  typedef std::uint32_t Type __attribute__((vector_size(simd::kBytes)));
};
template <> struct Register<std::uint64_t> {
  typedef std::uint64_t Type __attribute__((vector_size(simd::kBytes)));
};
template <class T> using RegisterOf = typename Register<T>::Type;
template <class T> constexpr int kLanes = simd::kBytes / static_cast<int>(sizeof(T));

template <class T>
TELAMON_INLINE RegisterOf<T> load(const T* from) {
  RegisterOf<T> v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
TELAMON_INLINE void store(T* to, RegisterOf<T> v) {
  __builtin_memcpy(to, &v, sizeof v);
}

#if defined(TELAMON_ISA_AVX2)
/// Which lanes come first when those of a mask are moved to the front, as words of four bytes.
struct FrontTables {
  unsigned char words[256][8] = {}, pairs[16][8] = {};
  constexpr FrontTables() {
    for (int mask = 0; mask < 256; ++mask) {
      int at = 0;
      for (int i = 0; i < 8; ++i) {
        if ((mask >> i & 1) != 0) words[mask][at++] = static_cast<unsigned char>(i);
      }
    }
    for (int mask = 0; mask < 16; ++mask) {
      int at = 0;
      for (int i = 0; i < 4; ++i) {
        if ((mask >> i & 1) == 0) continue;
        pairs[mask][at++] = static_cast<unsigned char>(2 * i);
        pairs[mask][at++] = static_cast<unsigned char>(2 * i + 1);
      }
    }
  }
};
constexpr FrontTables kFront;

TELAMON_INLINE __m256i front(__m256i x, const unsigned char* lanes) {
  long long packed;
  __builtin_memcpy(&packed, lanes, sizeof packed);
  return _mm256_permutevar8x32_epi32(x, _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(packed)));
}
#endif

#if defined(TELAMON_ISA_AVX512) || defined(TELAMON_ISA_AVX2)
/// The lanes below a pivot, as bits, and a register with those of a mask moved to its front.
template <class T>
class Cut {
 public:
  explicit Cut(T pivot) : pivot_(RegisterOf<T>{} + pivot) {}

#if defined(TELAMON_ISA_AVX512)
  TELAMON_INLINE unsigned below(RegisterOf<T> x) const {
    if constexpr (sizeof(T) == 4) return _mm512_cmplt_epu32_mask((__m512i)x, (__m512i)pivot_);
    else return _mm512_cmplt_epu64_mask((__m512i)x, (__m512i)pivot_);
  }
  TELAMON_INLINE static RegisterOf<T> front(RegisterOf<T> x, unsigned mask) {
    if constexpr (sizeof(T) == 4)
      return (RegisterOf<T>)_mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), (__m512i)x);
    else return (RegisterOf<T>)_mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), (__m512i)x);
  }
#else
  TELAMON_INLINE unsigned below(RegisterOf<T> x) const {
    constexpr T kSign = T{1} << (8 * sizeof(T) - 1);
    const auto a = (__m256i)(pivot_ ^ kSign), b = (__m256i)(x ^ kSign);
    if constexpr (sizeof(T) == 4) {
      return static_cast<unsigned>(
          _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b))));
    } else {
      return static_cast<unsigned>(
          _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(a, b))));
    }
  }
  TELAMON_INLINE static RegisterOf<T> front(RegisterOf<T> x, unsigned mask) {
    return (RegisterOf<T>)loops::front((__m256i)x,
                                       sizeof(T) == 4 ? kFront.words[mask] : kFront.pairs[mask]);
  }
#endif

 private:
  RegisterOf<T> pivot_;
};
#endif

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
