// Shape: the sizes of an array's dimensions. Up to six live inline, so avals cost no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "telamon/config.hpp"
#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {

class Shape;
namespace detail {
/// What `num_elements` does when the product of the dimensions overflows on the way.
TELAMON_API std::int64_t num_elements_of_large(const Shape& shape);
/// IndexError: `what` ("index", "axis") is an unsigned number that no array has.
[[noreturn]] TELAMON_API void no_such_integer(std::uint64_t value, const char* what,
                                              SourceLocation where);
/// An integer of any C++ type as a signed one; nothing wraps around.
template <class T> constexpr std::int64_t signed_integer(T value, const char* what,
                                                         SourceLocation where = {}) {
  if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t))
    if (value > static_cast<T>(std::numeric_limits<std::int64_t>::max()))
      no_such_integer(value, what, where);
  return static_cast<std::int64_t>(value);
}
}  // namespace detail

/// An axis of an array, as functions take it: any integer, of which negative ones count from the end.
/// IndexError for unsigned numbers that do not fit into 63 bits, which would wrap around to -1.
class Axis {
 public:
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  constexpr Axis(T axis, SourceLocation where = SourceLocation::current())
      : value_(detail::signed_integer(axis, "axis", where)) {}
  constexpr operator std::int64_t() const { return value_; }

 private:
  std::int64_t value_;
};

/// The same where there may be none: `tl::none`, or any integer. (A std::optional<Axis> would convert
/// within the standard library, and take that for the caller.)
class OptionalAxis : public std::optional<std::int64_t> {
 public:
  OptionalAxis(std::nullopt_t) {}
  OptionalAxis(std::optional<std::int64_t> axis) : optional(axis) {}
  OptionalAxis(Axis axis) : optional(std::int64_t{axis}) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  OptionalAxis(T axis, SourceLocation where = SourceLocation::current())
      : optional(detail::signed_integer(axis, "axis", where)) {}
};

/// The most dimensions that an array has: ShapeError beyond.
inline constexpr std::size_t kMaxDimensions = 32;

/// A small vector of 64-bit integers with value semantics; used for shapes, axes and permutations.
/// `Shape{2, 3}` is a 2x3 matrix, `Shape{}` a scalar.
class Shape {
 public:
  using value_type = std::int64_t;
  static constexpr std::size_t kInline = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) { assign(dims.begin(), dims.end()); }
  explicit Shape(std::span<const std::int64_t> dims) {
    assign(dims.data(), dims.data() + dims.size());
  }
  Shape(const std::vector<std::int64_t>& dims) { assign(dims.data(), dims.data() + dims.size()); }
  Shape(std::size_t n, std::int64_t value) { resize(n, value); }
  Shape(const Shape& o) { assign(o.begin(), o.end()); }
  Shape(Shape&& o) noexcept { steal(o); }
  Shape& operator=(const Shape& o) {
    if (this != &o) {
      size_ = 0;
      assign(o.begin(), o.end());
    }
    return *this;
  }
  Shape& operator=(Shape&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~Shape() { release(); }

  std::size_t size() const { return size_; }
  int ndim() const { return static_cast<int>(size_); }
  bool empty() const { return size_ == 0; }
  std::int64_t* data() { return heap_ ? heap_ : inline_; }
  const std::int64_t* data() const { return heap_ ? heap_ : inline_; }
  std::int64_t* begin() { return data(); }
  std::int64_t* end() { return data() + size_; }
  const std::int64_t* begin() const { return data(); }
  const std::int64_t* end() const { return data() + size_; }
  std::int64_t& operator[](std::size_t i) { return data()[i]; }
  std::int64_t operator[](std::size_t i) const { return data()[i]; }
  std::int64_t back() const { return data()[size_ - 1]; }
  std::int64_t front() const { return data()[0]; }
  operator std::span<const std::int64_t>() const { return {data(), size_}; }

  void push_back(std::int64_t v) {
    reserve(size_ + 1);
    data()[size_++] = v;
  }
  void pop_back() { --size_; }
  void resize(std::size_t n, std::int64_t value = 0) {
    reserve(n);
    for (std::size_t i = size_; i < n; ++i) data()[i] = value;
    size_ = n;
  }
  void insert(std::size_t pos, std::int64_t v) {
    push_back(v);
    for (std::size_t i = size_ - 1; i > pos; --i) data()[i] = data()[i - 1];
    data()[pos] = v;
  }
  void erase(std::size_t pos) {
    for (std::size_t i = pos; i + 1 < size_; ++i) data()[i] = data()[i + 1];
    --size_;
  }
  bool contains(std::int64_t v) const {
    for (std::int64_t d : *this)
      if (d == v) return true;
    return false;
  }
  std::vector<std::int64_t> to_vector() const { return {begin(), end()}; }

  /// The number of elements: the product of the dimensions (1 for a scalar). ShapeError when there
  /// are more than 2^63 - 1.
  std::int64_t num_elements() const {
    std::int64_t n = 1;
    for (std::int64_t d : *this) {
      if (__builtin_mul_overflow(n, d, &n)) return detail::num_elements_of_large(*this);
    }
    return n;
  }

  bool operator==(const Shape& o) const {
    if (size_ != o.size_) return false;
    for (std::size_t i = 0; i < size_; ++i)
      if (data()[i] != o.data()[i]) return false;
    return true;
  }
  TELAMON_API std::size_t hash() const;
  TELAMON_API std::string to_string() const;  ///< as a Python tuple: "(2, 3)", "(3,)", "()"

 private:
  void assign(const std::int64_t* first, const std::int64_t* last) {
    const auto n = static_cast<std::size_t>(last - first);
    reserve(n);
    for (std::size_t i = 0; i < n; ++i) data()[i] = first[i];
    size_ = n;
  }
  void reserve(std::size_t n) {
    if (n <= (heap_ ? capacity_ : kInline)) return;
    const std::size_t capacity = n * 2;
    auto* grown = new std::int64_t[capacity];
    for (std::size_t i = 0; i < size_; ++i) grown[i] = data()[i];
    delete[] heap_;
    heap_ = grown;
    capacity_ = capacity;
  }
  void release() {
    delete[] heap_;
    heap_ = nullptr;
    size_ = 0;
  }
  void steal(Shape& o) noexcept {
    heap_ = o.heap_;
    capacity_ = o.capacity_;
    size_ = o.size_;
    if (!heap_)
      for (std::size_t i = 0; i < size_; ++i) inline_[i] = o.inline_[i];
    o.heap_ = nullptr;
    o.size_ = 0;
  }

  std::size_t size_ = 0;
  std::int64_t inline_[kInline] = {};
  std::int64_t* heap_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace v1
}  // namespace telamon
