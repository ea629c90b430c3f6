// Walking a strided array in row-major order: what the N-d kernels share.
#pragma once

#include <cstdint>

#include "runtime/kernels/elementwise.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// A walk over the elements of a view in row-major order. Sizes of 1 are left out and neighbouring
/// dimensions merged where the strides allow it, so a contiguous view is one run, as is a scalar
/// repeated everywhere (stride 0).
class Cursor {
 public:
  /// `view` must have been broadcast to the shape that is walked.
  explicit Cursor(const View& view);

  bool is_contiguous() const { return rank_ == 0 || (rank_ == 1 && stride() == element_size_); }
  bool is_scalar() const { return rank_ == 0 || (rank_ == 1 && stride() == 0); }
  std::int64_t stride() const { return rank_ == 0 ? 0 : strides_[rank_ - 1]; }  ///< of the run
  std::int64_t run_length() const { return rank_ == 0 ? 1 : sizes_[rank_ - 1]; }
  int element_size() const { return static_cast<int>(element_size_); }

  void seek(std::int64_t element);  ///< to the element with that row-major number
  char* at() const { return at_; }
  std::int64_t left_in_run() const { return run_length() - position_; }
  void advance(std::int64_t count);  ///< by at most left_in_run()

  /// Copies the next `count` elements to, or from, contiguous memory.
  void gather(char* to, std::int64_t count);
  void scatter(const char* from, std::int64_t count);

 private:
  char* base_;
  char* at_;
  std::int64_t element_size_;
  std::size_t rank_ = 0;
  Shape sizes_, strides_, index_;
  std::int64_t position_ = 0;  // in the run
};

/// Copies n elements of `size` bytes from one strided run to another.
void copy_run(std::int64_t n, int size, const char* from, std::int64_t from_stride, char* to,
              std::int64_t to_stride);

/// Runs `kernel` over the whole of `out`, in chunks over the thread pool where it is large. Operands
/// have the shape of the result. `cost` is roughly the time of one element in tenths of a nanosecond.
void run_kernel(const Kernel& kernel, std::span<const View> in, const View& out, const void* params,
                int cost);

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
