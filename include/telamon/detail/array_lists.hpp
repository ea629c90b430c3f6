// Short lists of Arrays for calls that must cost nothing: on the stack, and without references where
// somebody else holds the arrays.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Memory for Arrays, on the stack unless there are many. It makes and destroys none of them.
template <std::size_t Inline>
class ArrayMemory {
 public:
  ArrayMemory() = default;
  ArrayMemory(const ArrayMemory&) = delete;
  ArrayMemory& operator=(const ArrayMemory&) = delete;
  ~ArrayMemory() { free(); }
  /// For `capacity` of them, the first `size` of which are there and move. Apart, that push_back stays short.
  [[gnu::noinline]] void grow(std::size_t capacity, std::size_t size) {
    void* const grown = ::operator new(capacity * sizeof(Array));
    if (size > 0) std::memcpy(grown, static_cast<const void*>(items_), size * sizeof(Array));
    free();
    items_ = static_cast<Array*>(grown);
    capacity_ = capacity;
  }
  std::size_t capacity() const { return capacity_; }
  Array* data() const { return items_; }

 private:
  void free() {
    if (capacity_ > Inline) ::operator delete(items_);
  }
  std::size_t capacity_ = Inline;
  alignas(Array) std::byte inline_[Inline * sizeof(Array)];
  Array* items_ = reinterpret_cast<Array*>(inline_);
};

/// Arrays that others hold for as long as the list is there: it counts no references.
class BorrowedArrays {
 public:
  // The elements are never destroyed: that would give back references that they did not take.
  void push_back(const Array& x) {
    if (next_ == end_) [[unlikely]]
      grow(2 * size());
    ::new (static_cast<void*>(next_++)) Array(Array::Borrowed{}, x.node_or_null());
  }
  /// For n more, which saves push_back to look for it again and again.
  void make_room(std::size_t n) {
    const std::size_t most = memory_.capacity();
    if (size() + n > most) grow(size() + n > 2 * most ? size() + n : 2 * most);
  }
  std::size_t size() const { return static_cast<std::size_t>(next_ - memory_.data()); }
  const Array& operator[](std::size_t i) const { return memory_.data()[i]; }
  operator std::span<const Array>() const { return {memory_.data(), size()}; }

 private:
  [[gnu::noinline]] void grow(std::size_t capacity) {
    const std::size_t held = size();
    memory_.grow(capacity, held);
    next_ = memory_.data() + held;
    end_ = memory_.data() + capacity;
  }
  ArrayMemory<16> memory_;
  Array* next_ = memory_.data();  // pointers, for they are all that push_back needs
  Array* end_ = memory_.data() + memory_.capacity();
};

/// Places for results: empty handles at first.
class ArrayPlaces {
 public:
  ArrayPlaces() = default;
  ~ArrayPlaces() { std::destroy_n(memory_.data(), size_); }
  ArrayPlaces(const ArrayPlaces&) = delete;
  ArrayPlaces& operator=(const ArrayPlaces&) = delete;
  /// n of them, once.
  void make(std::size_t n) {
    if (n > memory_.capacity()) memory_.grow(n, 0);
    for (Array* place = memory_.data(); size_ < n; ++size_) ::new (place++) Array();
  }
  Array* data() { return memory_.data(); }
  /// All results have been swapped for empty handles, which need no destruction.
  void forget() { size_ = 0; }
  operator std::span<Array>() { return {memory_.data(), size_}; }

 private:
  std::size_t size_ = 0;
  ArrayMemory<16> memory_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
