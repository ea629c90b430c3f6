// Short lists of Arrays for calls that must cost nothing: on the stack, and without references where
// somebody else holds the arrays.
#pragma once

#include <cstddef>
#include <new>
#include <span>

#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Arrays that others hold for as long as the list is there: it counts no references.
class BorrowedArrays {
 public:
  BorrowedArrays() = default;
  BorrowedArrays(const BorrowedArrays&) = delete;
  BorrowedArrays& operator=(const BorrowedArrays&) = delete;
  ~BorrowedArrays() {
    if (capacity_ > kInline) ::operator delete(items_);
  }
  void push_back(const Array& x) {
    if (size_ == capacity_) grow(2 * capacity_);
    ::new (static_cast<void*>(items_ + size_++)) Array(Array::Borrowed{}, x.node_or_null());
  }
  void reserve(std::size_t n) {
    if (n > capacity_) grow(n);
  }
  std::size_t size() const { return size_; }
  const Array& operator[](std::size_t i) const { return items_[i]; }
  operator std::span<const Array>() const { return {items_, size_}; }

 private:
  static constexpr std::size_t kInline = 16;

  // The elements are never destroyed: that would give back references that they did not take.
  void grow(std::size_t capacity) {
    auto* grown = static_cast<Array*>(::operator new(capacity * sizeof(Array)));
    for (std::size_t i = 0; i < size_; ++i)
      ::new (static_cast<void*>(grown + i)) Array(Array::Borrowed{}, items_[i].node_or_null());
    if (capacity_ > kInline) ::operator delete(items_);
    items_ = grown;
    capacity_ = capacity;
  }

  std::size_t size_ = 0, capacity_ = kInline;
  alignas(Array) std::byte inline_[kInline * sizeof(Array)];
  Array* items_ = reinterpret_cast<Array*>(inline_);
};

/// Places for results: empty handles at first.
class ArrayPlaces {
 public:
  ArrayPlaces() = default;
  ArrayPlaces(const ArrayPlaces&) = delete;
  ArrayPlaces& operator=(const ArrayPlaces&) = delete;
  void resize(std::size_t n) {
    size_ = n;
    if (n > kInline) many_.resize(n);
  }
  std::size_t size() const { return size_; }
  Array* data() { return size_ > kInline ? many_.data() : inline_; }
  Array& operator[](std::size_t i) { return data()[i]; }
  operator std::span<Array>() { return {data(), size_}; }

 private:
  static constexpr std::size_t kInline = 6;
  std::size_t size_ = 0;
  Array inline_[kInline];
  Arrays many_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
