// tanh of f32 by a table, for AVX-512. For vector_math_isa.cpp only.
#pragma once

#include <cstdint>

#include "runtime/math/simd.hpp"
#include "runtime/math/simd_wide.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

// ---- tanh a, for a = |x|, is a polynomial of t = a - c about a number c of its row, of which the hyperbolic tangent is nearly
// an f32. The row is that of the highest bits of a + kFirst: steps grow as the function flattens, four to an octave, and those of
// four octaves are told apart by four bits. Of 0 it is t + ..., which rounds no small number. It takes two thirds of the time of
// the exponential and the quotient of the other way. (The last rows reach beyond what rounds to 1.)
struct TanhSteps {
  static constexpr float kFirst = 0.625F, kMost = 9.25F;
  static constexpr int kDegree = 5, kBits = 21;  // below exponent and two bits of the mantissa
  Rows<F32, 16, kDegree + 2> rows;               // the highest power first, and c
  constexpr TanhSteps() : rows{} {
    constexpr float kAll[16][kDegree + 2] = {
        {0.13001774f, 0.00046541076f, -0.33335513f, 3.0267586e-07f, 1.0f, 0.0f, 0.0f},
        {0.09583179f, 0.11402134f, -0.28760332f, -0.1810775f, 0.9647726f, 0.18768968f,
         0.18994140625f},
        {0.042745207f, 0.15763709f, -0.21980678f, -0.27468947f, 0.90860164f, 0.30232158f,
         0.31207275390625f},
        {-0.02651272f, 0.16384277f, -0.0955251f, -0.3628524f, 0.7879106f, 0.46053165f,
         0.49798583984375f},
        {-0.063565485f, 0.10067836f, 0.040608548f, -0.3792905f, 0.5988534f, 0.63336134f,
         0.74700927734375f},
        {-0.04643073f, 0.027162738f, 0.10406706f, -0.31855914f, 0.41732466f, 0.7633317f,
         1.004150390625f},
        {-0.019400036f, -0.0121456785f, 0.10837306f, -0.23826957f, 0.28099608f, 0.847941f,
         1.248779296875f},
        {0.0011939927f, -0.02490245f, 0.07599598f, -0.13489343f, 0.14595814f, 0.9241439f,
         1.61669921875f},
        {0.004451634f, -0.0151798325f, 0.034317426f, -0.054608136f, 0.056211736f, 0.97148764f,
         2.11810302734375f},
        {0.0023578159f, -0.0064917426f, 0.013441233f, -0.020592906f, 0.020811688f, 0.98953944f,
         2.6240234375f},
        {0.0009748985f, -0.0025228027f, 0.005071114f, -0.00766565f, 0.007695833f, 0.99614465f,
         3.124755859375f},
        {0.00023679479f, -0.00058044767f, 0.0011102629f, -0.0016706549f, 0.0016741926f, 0.9991626f,
         3.88897705078125f},
        {3.2174386e-05f, -8.389798e-05f, 0.00016051832f, -0.00024034941f, 0.0002406604f,
         0.99987966f, 4.859130859375f},
        {4.3979935e-06f, -1.0784546e-05f, 2.0533316e-05f, -3.083417e-05f, 3.087671e-05f,
         0.99998456f, 5.88592529296875f},
        {5.913963e-07f, -1.5405445e-06f, 2.9426699e-06f, -4.4048634e-06f, 4.4105295e-06f,
         0.9999978f, 6.85888671875f},
        {3.9044487e-08f, -1.14010554e-07f, 1.4219134e-07f, -1.8798919e-07f, 2.243505e-07f,
         0.9999999f, 8.3505859375f},
    };
    const auto first = static_cast<int>(__builtin_bit_cast(std::uint32_t, kFirst) >> kBits);
    for (int row = 0; row < 16; ++row) {
      for (int i = 0; i < kDegree + 2; ++i) rows.set((first + row) % 16, i, kAll[row][i]);
    }
  }
};
constexpr TanhSteps kTanhSteps;

TELAMON_INLINE F32 tanh(F32 x) {
  using R = TanhSteps;
  const F32 a = at_most(abs(x), constant<F32, R::kMost>());
  const auto [c] = look_up(kTanhSteps.rows, (U32)(a + constant<F32, R::kFirst>()) >> R::kBits);
  const F32 t = a - c[R::kDegree + 1];
  F32 p = c[0];
  for (int i = 1; i <= R::kDegree; ++i) p = fma(p, t, c[i]);
  return copysign(p, x);
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
