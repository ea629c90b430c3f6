// Shape: the sizes of an array's dimensions. Up to four live inline, so avals cost no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "telamon/config.hpp"
#include "telamon/detail/inline_vector.hpp"
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

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  explicit Shape(std::span<const std::int64_t> dims) : dims_(dims.begin(), dims.end()) {}
  Shape(const std::vector<std::int64_t>& dims) : dims_(dims.begin(), dims.end()) {}
  Shape(std::size_t n, std::int64_t value) : dims_(n, value) {}

  std::size_t size() const { return dims_.size(); }
  int ndim() const { return static_cast<int>(size()); }
  bool empty() const { return dims_.empty(); }
  std::int64_t* data() { return dims_.data(); }
  const std::int64_t* data() const { return dims_.data(); }
  std::int64_t* begin() { return dims_.begin(); }
  std::int64_t* end() { return dims_.end(); }
  const std::int64_t* begin() const { return dims_.begin(); }
  const std::int64_t* end() const { return dims_.end(); }
  std::int64_t& operator[](std::size_t i) { return dims_[i]; }
  std::int64_t operator[](std::size_t i) const { return dims_[i]; }
  std::int64_t back() const { return dims_.back(); }
  std::int64_t front() const { return dims_.front(); }
  operator std::span<const std::int64_t>() const { return {data(), size()}; }

  void push_back(std::int64_t v) { dims_.push_back(v); }
  void pop_back() { dims_.pop_back(); }
  void resize(std::size_t n, std::int64_t value = 0) { dims_.resize(n, value); }
  void insert(std::size_t pos, std::int64_t v) { dims_.insert(dims_.begin() + pos, v); }
  void erase(std::size_t pos) { dims_.erase(dims_.begin() + pos); }
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

  bool operator==(const Shape& o) const = default;
  TELAMON_API std::size_t hash() const;
  TELAMON_API std::string to_string() const;  ///< as a Python tuple: "(2, 3)", "(3,)", "()"

 private:
  detail::InlineVector<std::int64_t, 4> dims_;
};

TELAMON_API std::ostream& operator<<(std::ostream& os, const Shape& shape);

}  // namespace v1
}  // namespace telamon
