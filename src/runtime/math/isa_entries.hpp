// The columns of the table of math functions, one per instruction set: [function][0: f32, 1: f64],
// in the order of math_list.hpp. Defined by vector_math_isa.cpp.
#pragma once

#include "runtime/math/vector_math.hpp"

extern "C" {
extern __attribute__((visibility("hidden"))) const telamon::math::MathEntry
    telamon_generic_math_entries[][2];
extern __attribute__((visibility("hidden"))) const telamon::math::MathEntry
    telamon_avx2_math_entries[][2];
extern __attribute__((visibility("hidden"))) const telamon::math::MathEntry
    telamon_avx512_math_entries[][2];
}
