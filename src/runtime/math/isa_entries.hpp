// What vector_math_isa.cpp defines for each instruction set.
//
// Entries: its column of the table of math functions, [function][0: f32, 1: f64], in the order of
// math_list.hpp. Run: calls `function` for n contiguous elements.
#pragma once

#include "runtime/math/vector_math.hpp"

#define TELAMON_DECLARE_MATH(isa)                                                              \
  extern "C" __attribute__((visibility("hidden")))                                             \
  const telamon::math::MathEntry telamon_##isa##_math_entries[][2];                            \
  extern "C" __attribute__((visibility("hidden"))) void telamon_##isa##_math_run(              \
      void* function, int arity, bool is_double, std::int64_t n, const void* x, const void* y, \
      void* out);

TELAMON_DECLARE_MATH(generic)
TELAMON_DECLARE_MATH(avx2)
TELAMON_DECLARE_MATH(avx512)
#undef TELAMON_DECLARE_MATH
