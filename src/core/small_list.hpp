// SmallList: a few values on the stack, for lists that live as long as one call. It holds as many as it is
// made for; more than N of them go to the heap.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <utility>

namespace telamon {
inline namespace v1 {
namespace detail {

template <class T, std::size_t N = 4>
class SmallList {
 public:
  explicit SmallList(std::size_t capacity) {
    if (capacity > N) items_ = static_cast<T*>(::operator new(capacity * sizeof(T)));
  }
  SmallList(const SmallList&) = delete;
  SmallList& operator=(const SmallList&) = delete;
  ~SmallList() {
    for (std::size_t i = size_; i-- > 0;) items_[i].~T();
    if (static_cast<void*>(items_) != static_cast<void*>(inline_)) ::operator delete(items_);
  }

  template <class... Args>
  void emplace_back(Args&&... args) {
    ::new (static_cast<void*>(items_ + size_)) T(std::forward<Args>(args)...);
    ++size_;
  }
  std::size_t size() const { return size_; }
  const T& operator[](std::size_t i) const { return items_[i]; }
  const T& back() const { return items_[size_ - 1]; }
  operator std::span<const T>() const { return {items_, size_}; }

 private:
  std::size_t size_ = 0;
  alignas(T) std::byte inline_[N * sizeof(T)];
  T* items_ = reinterpret_cast<T*>(inline_);
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
