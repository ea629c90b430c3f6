// The vector math functions: one register of operands in, one register of results out.
//
// The same functions serve generated code, which calls them by symbol, and the eager loops. Each
// exists per instruction set, for f32 and f64, with the platform's vector calling convention:
//   <W x T> f(<W x T> x)   or   <W x T> f(<W x T> x, <W x T> y)
// where W x T fills `runtime::vector_bytes(isa)`: 16 f32 or 8 f64 for avx512. A lane's result never
// depends on the other lanes; its time may. A register takes a longer way if it has a very large angle, a
// remainder whose quotient has many digits, or a power of a negative number, and without AVX-512 also if it
// has a logarithm of anything but positive normal numbers, or an exponential that is denormal or nearly so.
// What we have not written ourselves comes from glibc's libmvec, or from scalar libm elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/cpu.hpp"
#include "telamon/dtype.hpp"

namespace telamon {
inline namespace v1 {
namespace math {

/// One build of a function. `symbol` is the name to declare in generated code; `address` is what to
/// bind it to (an absolute symbol: the name need not be exported from this library).
struct MathEntry {
  void* address = nullptr;
  const char* symbol = nullptr;
  /// Whether a call leaves the upper half of the vector registers as they are (ymm8 to ymm15; with AVX-512 zmm16 to
  /// zmm31, k4 to k7 and rsi), besides what all functions leave: LLVM's convention intel_ocl_bicc. Loops keep
  /// values and constants there across the call.
  bool keeps_registers = false;
};

/// A math function under the name of its primitive: "exp", "log1p", "atan2", "erf_inv", ...
struct MathFunction {
  const char* name;
  int arity;                         ///< 1 or 2
  float ulp_f32, ulp_f64;            ///< bounds of the error over all operands, as tested
  MathEntry f32[runtime::kNumIsas];  ///< by Isa; null where that set was not built
  MathEntry f64[runtime::kNumIsas];
};

/// All functions, sorted by name.
TELAMON_API std::span<const MathFunction> math_functions();

/// The function of that name, or null.
TELAMON_API const MathFunction* find_math_function(std::string_view name);

/// One build of a function; address and symbol are null if there is none.
TELAMON_API MathEntry find_math(std::string_view name, DType dtype,
                                runtime::Isa isa = runtime::host_isa());

/// out[i] = function(x[i]) or function(x[i], y[i]) for n contiguous f32 or f64, by the build for
/// `isa`. `out` may be `x` or `y`.
TELAMON_API void run(const MathFunction& function, DType dtype, runtime::Isa isa, std::int64_t n,
                     const void* x, const void* y, void* out);

}  // namespace math
}  // namespace v1
}  // namespace telamon
