// Programs that LLVM fails to select instructions for once it has combined operations: they are compiled without.
#include "compiler/support.hpp"
#include "core/sanitizers.hpp"
#include "telamon/numpy.hpp"
#if defined(TELAMON_ASAN)
#include <sanitizer/lsan_interface.h>
#endif

namespace telamon::testing {
namespace {

/// A row with its ends put around it, as periodic stencils have them.
Array wrapped(const Array& x) {
  const std::int64_t n = x.shape()[0];
  return lax::concatenate(Arrays{lax::slice(x, {n - 2}, {n}), x, lax::slice(x, {0}, {2})}, 0);
}

/// Of the bits: sums whose last vector has few lanes that count.
Array weighted_sum(const Array& x) {
  const Array bits =
      lax::convert_element_type(lax::bitcast_convert_type(x, DType::i32), DType::i64);
  const Array i = lax::iota(DType::i64, x.shape());
  return lax::reduce_sum(bits * (i * i + i) + bits, {0});
}

// LLVM 19, with AVX-512 and rows of 16.
TEST(LlvmErrors, OfCombinedOperationsAreNoneOfTheProgram) {
#if defined(TELAMON_ASAN)
  const __lsan::ScopedDisabler disabled;  // what LLVM was about is leaked (llvm_session.hpp)
#endif
  const Program sums = [](std::span<const Array> x) {
    const Array y = wrapped(x[0]);
    return Arrays{weighted_sum(y), weighted_sum(y + y)};
  };
  for (const std::int64_t n : {14, 15, 16, 17, 1024}) check(sums, {uniform({n}, DType::f32)});
}

}  // namespace
}  // namespace telamon::testing
