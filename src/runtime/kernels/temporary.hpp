// Memory of a kernel's own, for copies and partial results.
#pragma once

#include "runtime/array_memory.hpp"
#include "runtime/kernels/elementwise.hpp"
#include "telamon/aval.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {

/// A dense array that lives as long as the object.
class Temporary {
 public:
  Temporary(const Shape& shape, DType dtype)
      : bytes_(static_cast<std::size_t>(detail::checked_bytes({shape, dtype}))),
        data_(runtime::allocate_array(bytes_)),
        view_(contiguous_view(data_, dtype, shape)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() { runtime::deallocate_array(data_, bytes_); }

  const View& view() const { return view_; }
  char* data() const { return view_.data; }

 private:
  std::size_t bytes_;
  void* data_;
  View view_;
};

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
