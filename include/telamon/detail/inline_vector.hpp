// InlineVector: a std::vector that holds up to N elements in itself, for the short lists of which programs
// are made (shapes, operands, results): most of them then cost no allocation.
//
// Of the interface of std::vector it has what the library uses; iterators are pointers. Elements move without
// throwing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace telamon {
inline namespace v1 {
namespace detail {

template <class T, std::size_t N>
class InlineVector {
  static constexpr bool kPlain = std::is_trivially_copyable_v<T>;

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() noexcept {}
  explicit InlineVector(std::size_t n, const T& value = T()) : InlineVector() { resize(n, value); }
  // Delegating: what is there when an element cannot be copied is destroyed.
  InlineVector(std::initializer_list<T> items) : InlineVector(items.begin(), items.end()) {}
  template <std::forward_iterator It> InlineVector(It first, It last) : InlineVector() {
    append(first, last);
  }
  InlineVector(std::vector<T> items) : InlineVector() {
    append(std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
  }
  InlineVector(const InlineVector& o) : InlineVector() { copy(o); }
  // As it lies there, if it is short.
  InlineVector(const InlineVector& o)
    requires kPlain
      : size_(o.size_), capacity_(o.capacity_), storage_(NotCleared{}) {
    if (!o.on_heap()) [[likely]]
      copy_storage(o);
    else copy_long(o);
  }
  InlineVector(InlineVector&& o) noexcept { steal(o); }
  InlineVector& operator=(const InlineVector& o) {
    if (this != &o) {
      clear();
      copy(o);
    }
    return *this;
  }
  InlineVector& operator=(InlineVector&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~InlineVector() { free(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return on_heap() ? storage_.heap : storage_.items; }
  const T* data() const { return on_heap() ? storage_.heap : storage_.items; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& front() { return *data(); }
  const T& front() const { return *data(); }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void reserve(std::size_t n) {
    if (n > capacity_) grow(n);
  }
  template <class... Args> T& emplace_back(Args&&... args) {
    if (size_ == capacity_) {
      T x(std::forward<Args>(args)...);  // before the old elements move: it may be made of one
      grow(2 * std::size_t{size_} + 2);
      return add(std::move(x));
    }
    return add(std::forward<Args>(args)...);
  }
  void push_back(const T& x) { emplace_back(x); }
  void push_back(T&& x) { emplace_back(std::move(x)); }
  void pop_back() {
    --size_;
    std::destroy_at(data() + size_);
  }
  void clear() {
    std::destroy_n(data(), size_);
    size_ = 0;
  }
  void resize(std::size_t n, T value = T()) {  // by value: it may be an element
    while (size_ > n) pop_back();
    reserve(n);
    while (size_ < n) add(value);
  }
  /// Neither here nor in `insert` is the range a part of this list.
  template <class It> void assign(It first, It last) {
    clear();
    append(first, last);
  }
  void assign(std::size_t n, T value) {
    clear();
    resize(n, std::move(value));
  }
  template <class It> T* insert(const T* before, It first, It last) {
    const std::ptrdiff_t at = before - data();
    for (std::ptrdiff_t i = at; first != last; ++first, ++i) insert(data() + i, *first);
    return data() + at;
  }
  T* insert(const T* before, T x) {
    const std::ptrdiff_t at = before - data();
    push_back(std::move(x));
    for (std::ptrdiff_t i = size_ - 1; i > at; --i) std::swap(data()[i], data()[i - 1]);
    return data() + at;
  }
  T* erase(const T* first, const T* last) {
    const auto at = first - data();
    std::move(data() + (last - data()), end(), data() + at);
    for (auto n = last - first; n > 0; --n) pop_back();
    return data() + at;
  }
  T* erase(const T* at) { return erase(at, at + 1); }

  bool operator==(const InlineVector& o) const {
    return std::equal(begin(), end(), o.begin(), o.end());
  }

 private:
  struct NotCleared {};
  union Storage {
    Storage() noexcept { clear(); }
    explicit Storage(NotCleared) noexcept {}
    // All of it is copied then, which wants to see defined bytes.
    void clear() noexcept {
      if constexpr (kPlain) std::memset(static_cast<void*>(items), 0, sizeof items);
    }
    ~Storage() {}
    T items[N];
    T* heap;
  };

  bool on_heap() const { return capacity_ > N; }
  template <class... Args> T& add(Args&&... args) {
    T* const made = std::construct_at(data() + size_, std::forward<Args>(args)...);
    ++size_;
    return *made;
  }
  template <class It> void append(It first, It last) {
    reserve(size_ + static_cast<std::size_t>(std::distance(first, last)));
    for (; first != last; ++first) add(*first);
  }
  void copy_storage(const InlineVector& o) noexcept {
    std::memcpy(static_cast<void*>(&storage_), static_cast<const void*>(&o.storage_),
                sizeof storage_);
  }
  void copy(const InlineVector& o) {  // into an empty one
    if constexpr (kPlain) {
      if (!o.on_heap() && !on_heap()) {
        copy_storage(o);
        size_ = o.size_;
        return;
      }
    }
    append(o.begin(), o.end());
  }
  // Over members that mean nothing yet. Apart, that copies of short ones are few instructions.
  [[gnu::noinline]] void copy_long(const InlineVector& o) {
    size_ = 0;
    capacity_ = N;
    storage_.clear();
    append(o.begin(), o.end());
  }
  void steal(InlineVector& o) noexcept {  // into one that holds nothing
    if constexpr (kPlain) {
      copy_storage(o);
    } else if (o.on_heap()) {
      storage_.heap = o.storage_.heap;
    } else {
      for (std::size_t i = 0; i < o.size_; ++i) {
        std::construct_at(storage_.items + i, std::move(o.storage_.items[i]));
        std::destroy_at(o.storage_.items + i);
      }
    }
    size_ = std::exchange(o.size_, 0);
    capacity_ = std::exchange(o.capacity_, static_cast<std::uint32_t>(N));
  }
  void grow(std::size_t n) {
    T* const old = data();
    T* const items = static_cast<T*>(::operator new(n * sizeof(T)));
    for (std::size_t i = 0; i < size_; ++i) {
      std::construct_at(items + i, std::move(old[i]));
      std::destroy_at(old + i);
    }
    if (on_heap()) ::operator delete(storage_.heap);
    storage_.heap = items;
    capacity_ = static_cast<std::uint32_t>(n);
  }
  void free() noexcept {
    std::destroy_n(data(), size_);
    if (on_heap()) ::operator delete(storage_.heap);
  }
  void release() noexcept {
    free();
    size_ = 0;
    capacity_ = N;
  }

  std::uint32_t size_ = 0, capacity_ = N;
  Storage storage_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
