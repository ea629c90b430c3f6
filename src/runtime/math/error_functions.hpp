// erf of f32 by a table, and erfc, for AVX-512. For vector_math_isa.cpp only.
#pragma once

#include "runtime/math/exponentials.hpp"
#include "runtime/math/simd.hpp"
#include "runtime/math/simd_wide.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace simd {

// ---- erf a, for a = |x|, is a polynomial of t = a - k step about the multiple of the step that is next to a. The one about 0 is
// t + t P(t), which rounds what is small but once. One polynomial for all of a, or two that are chosen from, take three times as
// many fused operations, of which a processor starts one or two in a cycle; permutations of one register go beside them.
// (With AVX2, where a table is two, its halves with polynomials of twice the terms gain 8 %.)
struct ErfSteps {
  static constexpr float kStep = 17.0F / 64, kMost = 4;  // a step of few bits, so that t is exact
  static constexpr int kDegree = 5;
  Rows<F32, 16, kDegree + 1> rows;  // the highest power first
  constexpr ErfSteps() : rows{} {
    constexpr float kAll[16][kDegree + 1] = {
        {0.11212942f, 0.0f, -0.3761217f, 0.0f, 0.12837917f, 0.0f},
        {0.075713046f, 0.13188376f, -0.30103812f, -0.2792976f, 1.0515083f, 0.29282323f},
        {-0.001691819f, 0.18230507f, -0.123539746f, -0.4520415f, 0.8509139f, 0.54752845f},
        {-0.059355516f, 0.13701694f, 0.05381536f, -0.47650146f, 0.5979623f, 0.740237f},
        {-0.06589414f, 0.048299126f, 0.15298973f, -0.3877125f, 0.3649029f, 0.8670583f},
        {-0.036868587f, -0.02221231f, 0.16293815f, -0.25682297f, 0.1933731f, 0.93965334f},
        {-0.0051472234f, -0.048859134f, 0.121027246f, -0.14182456f, 0.08898772f, 0.9757977f},
        {0.01089487f, -0.042802934f, 0.07011139f, -0.06612758f, 0.035561446f, 0.9914503f},
        {0.012437568f, -0.02626798f, 0.033037916f, -0.026227025f, 0.012340819f, 0.997346f},
        {0.008071982f, -0.0123480745f, 0.012929824f, -0.008895116f, 0.0037189808f, 0.9992774f},
        {0.003831644f, -0.004983607f, 0.0042532957f, -0.0025816942f, 9.732385e-04f, 0.9998277f},
        {0.001430937f, -0.0015796301f, 0.0011849602f, -6.452306e-04f, 2.2117197e-04f, 0.99996406f},
        {4.3437319e-04f, -4.7562865e-04f, 2.8103314e-04f, -1.3763545e-04f, 4.364722e-05f,
         0.99999344f},
        {1.0911907e-04f, 2.07405e-04f, 5.69475e-05f, -3.2423057e-05f, 7.4799523e-06f, 0.999999f},
        {2.2938366e-05f, 2.4505547e-04f, 9.886191e-06f, -9.928541e-06f, 1.1131589e-06f, 0.9999999f},
        {4.065295e-06f, 1.7736602e-04f, 1.4733796e-06f, -4.547116e-06f, 1.4385728e-07f, 1.0f},
    };
    for (int row = 0; row < 16; ++row) {
      for (int i = 0; i <= kDegree; ++i) rows.set(row, i, kAll[row][i]);
    }
  }
};
constexpr ErfSteps kErfSteps;

TELAMON_INLINE F32 erf(F32 x) {
  using R = ErfSteps;
  const F32 a = at_most(abs(x), constant<F32, R::kMost>());
  const F32 shift = constant<F32, Shift<F32>::kValue>();
  const F32 shifted = fma(a, constant<F32, 1 / R::kStep>(), shift), k = shifted - shift;
  const F32 t = fma(k, constant<F32, -R::kStep>(), a);
  const auto [c] = look_up(kErfSteps.rows, (U32)shifted);
  F32 p = c[0];
  for (int i = 1; i < R::kDegree; ++i) p = fma(p, t, c[i]);
  return copysign(fma(p, t, k == 0 ? t : c[R::kDegree]), x);
}

// ---- erfc a = e^(-a^2) G(a) / (1 + 2 a) for a = |x|, and 2 - erfc a for negative x. G is smooth in
// t = (a - k) / (a + k), and next to 1 everywhere (Shepherd & Laframboise, Chebyshev approximation of
// (1 + 2x) exp(x^2) erfc x, Mathematics of Computation 36, 1981).

template <class V> struct ErfcRange;
template <> struct ErfcRange<F32> {
  static constexpr float kCentre = 2, kMost = 10.0625f;  // beyond kMost erfc is 0
};
template <> struct ErfcRange<F64> {
  static constexpr double kCentre = 4, kMost = 27.25;
};
TELAMON_INLINE F32 scaled_erfc(F32 t) {
  static constexpr float kP[] = {-0.000409181783f, -0.00124077022f, 0.00132073404f, 0.0086424239f,
                                 -0.0080618728f,   -0.0542076863f,  0.164055586f,   -0.166031078f,
                                 -0.0927639902f,   1.27697837f};
  return horner<kP>(t);
}
TELAMON_INLINE F64 scaled_erfc(F64 t) {
  static constexpr double kP[] = {
      -8.596345752151402e-09, -8.597913499935894e-09,  1.0171101656329334e-07,
      5.6683246408744435e-08, -8.197772663522738e-07,  3.121745309825206e-07,
      5.708453671017045e-06,  -1.1233322370137657e-05, -2.4399770913867432e-05,
      0.00015062606318136626, -0.00019925623057902308, -0.0007577743760633114,
      0.005031969841634934,   -0.016197733889718985,   0.03716751555778476,
      -0.0663303658274523,    0.09373283499682847,     -0.10103906603558993,
      0.06809705425474183,    0.015379652102606537,    -0.13962111684056297,
      1.2329951186255526};
  return horner<kP>(t);
}
template <class V> TELAMON_INLINE V erfc(V x) {
  using R = ErfcRange<V>;
  const V one = constant<V, 1>(), a = at_most(abs(x), constant<V, R::kMost>());
  const V t =
      (a + a) / (a + constant<V, R::kCentre>()) - one;  // so that next to -1 it is as exact as a
  const V g = scaled_erfc(t) / fma(a, constant<V, 2>(), one);
  // What the rounding of a^2 lost would be a relative error of the power.
  const V square = a * a, lost = fma(a, a, -square);
  const auto n = round_product<-Ln2<V>::kInverse>(square);
  V r = fma(n.value, constant<V, -Ln2<V>::kHigh>(), -square);
  r = fma(n.value, constant<V, -Ln2<V>::kLow>(), r) - lost;
  const V power = fma(product_of_small(r, r), exp_tail<true>(r), r);
  const V y = times_power(fma(g, power, g), n.value, -a, -R::kMost);
  return x < 0 ? constant<V, 2>() - y : y;
}

}  // namespace simd
}  // namespace
}  // namespace v1
}  // namespace telamon
