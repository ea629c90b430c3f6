// ChunkedList: a list that grows without moving what it holds, in blocks that the allocator keeps for the
// next one. Programs are written into such lists, since fresh pages cost more than what is written there.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "runtime/allocator.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

template <class T>
class ChunkedList {
 public:
  ChunkedList() = default;
  ChunkedList(ChunkedList&& o) noexcept
      : chunks_(std::exchange(o.chunks_, {})), size_(std::exchange(o.size_, 0)) {}
  ChunkedList& operator=(ChunkedList&& o) noexcept {
    std::swap(chunks_, o.chunks_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~ChunkedList() { clear(); }

  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return chunks_[i / kChunk][i % kChunk]; }
  const T& operator[](std::size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  T& back() { return (*this)[size_ - 1]; }

  void push_back(T x) {
    if (size_ == chunks_.size() * kChunk) add_chunk();
    ::new (static_cast<void*>(chunks_[size_ / kChunk] + size_ % kChunk)) T(std::move(x));
    ++size_;
  }
  /// f(element, its position) for one element after the other, which f may move from and which ends then,
  /// while the processor has it at hand: a long list would be read from memory once more to be cleared. f
  /// does not throw. The list is empty then.
  template <class F> void drain(F f) {
    std::size_t i = 0;
    for (T* chunk : chunks_) {
      for (T* x = chunk; x < chunk + kChunk && i < size_; ++x, ++i) {
        f(std::move(*x), i);
        x->~T();
      }
      runtime::deallocate(chunk, kChunk * sizeof(T));
    }
    chunks_.clear();
    size_ = 0;
  }
  void clear() {
    drain([](T&&, std::size_t) {});
  }
  /// All that it holds, in a vector that is as large; it is empty then.
  std::vector<T> take() {
    std::vector<T> all;
    all.reserve(size_);
    drain([&](T&& x, std::size_t) { all.push_back(std::move(x)); });
    return all;
  }

 private:
  static constexpr std::size_t kChunk = 128;

  void add_chunk() {
    if (chunks_.size() == chunks_.capacity()) chunks_.reserve(2 * chunks_.size() + 4);
    chunks_.push_back(static_cast<T*>(runtime::allocate(kChunk * sizeof(T))));
  }

  std::vector<T*> chunks_;
  std::size_t size_ = 0;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
