// Indexing as in NumPy: x(0), x(tl::slice(1, 5), tl::ellipsis), x(tl::newaxis, -1), x(rows,
// columns).
//
//   int            one element; the axis disappears. Out of range: IndexError.
//   slice          a range with optional start, stop and step; negative numbers count from the end.
//   ellipsis       as many full slices as are missing.
//   newaxis        a new axis of size 1.
//   Array          integers (concrete or traced): NumPy's advanced indexing. Several index arrays
//                  broadcast; out of range is clamped when reading and dropped when writing. Of
//                  an axis without elements: IndexError when reading, or for a scalar index.
//                  bools: the places where they are true; must be concrete.
//
// x.at(i, j).set(v) and its kin return a changed copy.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/none.hpp"

namespace telamon {
inline namespace v1 {

/// A range of an axis: start, start + step, ... before stop.
struct Slice {
  std::optional<std::int64_t> start = none, stop = none, step = none;
};
/// slice(1, 5), slice(none, none, 2), slice(none, -1); slice() is the whole axis.
inline Slice slice() { return {}; }
inline Slice slice(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                   std::optional<std::int64_t> step = none) {
  return {start, stop, step};
}
namespace detail {
template <class T>
inline constexpr bool kNoIndex =
    std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, bool> || std::is_floating_point_v<T>;
}  // namespace detail
struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis ellipsis{};
inline constexpr NewAxis newaxis{};

/// One index, with the caller's file and line.
class IndexItem {
 public:
  enum class Kind : std::uint8_t { absent, integer, slice, dots, new_axis, array };

  IndexItem() : kind_(Kind::absent) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  IndexItem(T index, SourceLocation where = SourceLocation::current())
      : kind_(Kind::integer),
        where_(where),
        integer_(detail::signed_integer(index, "index", where)) {}
  IndexItem(const Slice& range, SourceLocation where = SourceLocation::current())
      : kind_(Kind::slice), where_(where), slice_(range) {}
  IndexItem(Ellipsis, SourceLocation where = SourceLocation::current())
      : kind_(Kind::dots), where_(where) {}
  IndexItem(NewAxis, SourceLocation where = SourceLocation::current())
      : kind_(Kind::new_axis), where_(where) {}
  IndexItem(Array indices, SourceLocation where = SourceLocation::current())
      : kind_(Kind::array), where_(where), array_(std::move(indices)) {}
  /// What looks like an index and is none: the compiler's message says what to write.
  template <class T>
    requires detail::kNoIndex<T>
  IndexItem(const T&) : kind_(Kind::absent) {
    static_assert(!std::is_same_v<T, std::nullopt_t>,
                  "tl::none is no index: write tl::newaxis for a new axis (NumPy's None), or "
                  "tl::slice() for the whole axis (NumPy's `:`)");
    static_assert(!std::is_same_v<T, bool>,
                  "a bool is no index: write 0 or 1, or tl::newaxis for a new axis; to choose "
                  "elements, index by an Array of bools");
    static_assert(!std::is_floating_point_v<T>,
                  "a floating-point number is no index: convert it to an integer");
  }

  Kind kind() const { return kind_; }
  SourceLocation where() const { return where_; }
  std::int64_t integer() const { return integer_; }
  const Slice& range() const { return slice_; }
  const Array& array() const { return array_; }

 private:
  Kind kind_;
  SourceLocation where_;
  std::int64_t integer_ = 0;
  Slice slice_;
  Array array_;
};

/// The elements x(items...) of an array, to be read or replaced. Every function returns a new
/// array, which is all that it does: x = x.at(0).set(9.0). Values broadcast to the shape of
/// x(items...) and take x's dtype. Where indices repeat: `add` adds all values, `set` keeps the
/// last one in row-major order, and `multiply`, `min` and `max` combine x's element with the last
/// one only.
class TELAMON_API AtIndex {
 public:
  AtIndex(Array x, std::vector<IndexItem> items) : x_(std::move(x)), items_(std::move(items)) {}
  [[nodiscard]] Array get() const;
  [[nodiscard]] Array set(const Operand& value) const;
  [[nodiscard]] Array add(const Operand& value) const;
  [[nodiscard]] Array subtract(const Operand& value) const;
  [[nodiscard]] Array multiply(const Operand& value) const;
  [[nodiscard]] Array divide(const Operand& value) const;
  [[nodiscard]] Array min(const Operand& value) const;
  [[nodiscard]] Array max(const Operand& value) const;

 private:
  Array x_;
  std::vector<IndexItem> items_;
};

}  // namespace v1
}  // namespace telamon
