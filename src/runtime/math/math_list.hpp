// The list of vector math functions, in the order of their names: the only place that lists them.
//
//   OWN1(name, ulp f32, ulp f64)          one operand, ours (vector_math_isa.cpp)
//   OWN2(name, ulp f32, ulp f64)          two operands, ours
//   OWN_FMA(name, ulp f32, ulp f64)       one operand, with FMA ours, else libmvec or libm
//   OWN_512(name, ulp f32, ulp f64)       one operand, with AVX-512 ours, else libmvec or libm
//   OWN_AVX2(name, ulp f32, ulp f64)      one operand, with AVX2 alone ours, else libmvec or libm
//   OWN_F32(name, ulp f32, ulp f64)       one operand, f32 ours, f64 libmvec or libm
//   FMOD(name, ulp f32, ulp f64)          two operands, with FMA ours, else libm's fmod
//   OWN2_FMA(name, ulp f32, ulp f64)      two operands, with FMA f32 ours, with AVX-512 f64, too, else libmvec or libm
//
// The bounds hold for all three instruction sets and are what tests/runtime/vector_math_test.cpp
// asserts. libmvec's worst case over all operands is documented as 4 ULP.
#pragma once

// clang-format off
#define TELAMON_MATH_FUNCTIONS(OWN1, OWN2, OWN_FMA, OWN_512, OWN_AVX2, OWN_F32, OWN2_FMA, FMOD) \
  OWN1(acos, 1.5, 1.5)     \
  OWN1(acosh, 3.5, 3.5)    \
  OWN1(asin, 2.5, 2.5)     \
  OWN1(asinh, 3, 3)        \
  OWN_512(atan, 4, 4)      \
  OWN2(atan2, 3, 3)        \
  OWN1(atanh, 3.5, 3.5)    \
  OWN_AVX2(cbrt, 3, 2)     \
  OWN_FMA(cos, 2.5, 4)     \
  OWN_FMA(cosh, 2.5, 2.5)   \
  OWN_F32(erf, 2, 4)       \
  OWN1(erf_inv, 3, 4.5)    \
  OWN_512(erfc, 4, 4)      \
  OWN1(exp, 1.5, 1.5)      \
  OWN1(exp2, 1.5, 1.5)     \
  OWN1(expm1, 2.5, 3)      \
  OWN1(log, 2, 2)          \
  OWN1(log1p, 1.5, 1.5)    \
  OWN1(logistic, 2.5, 2.5) \
  OWN2_FMA(pow, 2, 2)      \
  FMOD(rem, 0, 0)   \
  OWN_FMA(sin, 2.5, 4)     \
  OWN_FMA(sinh, 3, 3)      \
  OWN_FMA(tan, 4, 4)       \
  OWN1(tanh, 3, 3)
// clang-format on
