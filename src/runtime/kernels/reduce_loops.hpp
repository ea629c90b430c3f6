// The contiguous loops that reductions are made of.
#pragma once

#include <cstdint>

namespace telamon {
inline namespace v1 {
namespace kernels {

/// Reduces n > 0 contiguous elements to one.
using ReduceLoop = void (*)(std::int64_t n, const char* in, char* out);
struct ScanLoop {
  /// Lines of n > 0 elements that follow each other: out[0] = in[0], out[i] = out[i - 1] op in[i], or the
  /// same from the end.
  void (*lines)(std::int64_t lines, std::int64_t n, const char* in, char* out, bool reverse);
  /// Side by side, for 16-bit floats only: running[i] = running[i] op in[i], and out[i] is that, rounded.
  void (*row)(std::int64_t n, const char* in, float* running, char* out);
};
struct ArgLoop {
  /// The index of the extreme among n > 0 contiguous elements.
  std::int64_t (*run)(std::int64_t n, const char* in);
  /// Side by side: where in[i] beats best_values[i] (or is the first NaN), both records are replaced.
  void (*row)(std::int64_t n, const char* in, char* best_values, std::int64_t* best,
              std::int64_t index);
};

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
