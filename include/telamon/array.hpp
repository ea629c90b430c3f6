// Array: the value that all programs compute with, and Operand, the parameter type of all functions.
//
// An Array is one intrusive pointer. Behind it stands either a concrete buffer or a tracer; arrays
// are immutable to the user, so copying a handle is copying the value.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "telamon/aval.hpp"
#include "telamon/config.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/error.hpp"
#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {

class Array;
class IndexItem;  // indexing.hpp
class AtIndex;    // indexing.hpp
using Arrays = std::vector<Array>;

namespace detail {
class BorrowedArrays;

/// Counting references without locked instructions where nobody can interfere: an object that nobody
/// refers to yet is not shared, and the only holder of one is alone, since copying takes a holder.
inline void add_reference(std::atomic<int>& count) {
  if (count.load(std::memory_order_relaxed) == 0) count.store(1, std::memory_order_relaxed);
  else count.fetch_add(1, std::memory_order_relaxed);
}
/// Whether it was the last one.
inline bool drop_reference(std::atomic<int>& count) {
  return count.load(std::memory_order_acquire) == 1 ||
         count.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

/// What an Array points to: the aval, and either a buffer or the state of a tracer.
class TELAMON_API ArrayNode {
 public:
  enum class Kind : std::uint8_t { dense, strided, tracer };
  /// ShapeError when no array can have this type (detail::checked_bytes).
  ArrayNode(Kind kind, ShapedArray aval) : aval_(std::move(aval)), kind_(kind) {
    checked_bytes(aval_);
  }
  /// The type is known to be one of an array, and whoever makes the node is the first to hold it.
  struct Held {};
  ArrayNode(Kind kind, const ShapedArray& aval, Held) : aval_(aval), count_(1), kind_(kind) {}
  ArrayNode(const ArrayNode&) = delete;
  ArrayNode& operator=(const ArrayNode&) = delete;
  virtual ~ArrayNode();

  const ShapedArray& aval() const { return aval_; }
  bool is_tracer() const { return kind_ == Kind::tracer; }
  /// Whether it is a concrete array in row-major order, without gaps.
  bool is_dense() const { return kind_ == Kind::dense; }
  void retain() const { add_reference(count_); }
  void release() const {
    if (drop_reference(count_)) destroy();
  }
  int use_count() const { return count_.load(std::memory_order_acquire); }

 protected:
  ShapedArray aval_;

 private:
  void destroy() const;
  mutable std::atomic<int> count_{0};
  Kind kind_;
};

/// The value of one C++ arithmetic scalar, kept at its own width.
struct ScalarValue {
  DType dtype;
  union {
    bool b;
    std::int64_t i;
    std::uint64_t u;
    double f;
  };
  template <class T>
    requires std::is_arithmetic_v<T>
  static ScalarValue of(T v) {
    ScalarValue s{dtype_of<T>, {}};
    if constexpr (std::is_same_v<T, bool>) s.b = v;
    else if constexpr (std::is_floating_point_v<T>) s.f = static_cast<double>(v);
    else if constexpr (std::is_signed_v<T>) s.i = v;
    else s.u = v;
    return s;
  }
};
TELAMON_API Array make_scalar(ScalarValue value, bool weak);
TELAMON_API Array make_from_data(const void* data, DType dtype, Shape shape);
TELAMON_API void read_item(const Array& x, DType dtype, void* out);  // one element, converted
TELAMON_API void read_all(const Array& x, DType dtype, void* out);   // all elements, converted
/// TypeError: that operand of the function, counted from 0, is an empty handle. At `where`, unless a call
/// is under way whose place is known.
[[noreturn]] TELAMON_API void empty_operand_error(std::string_view function, std::size_t operand,
                                                  SourceLocation where = {});
[[noreturn]] TELAMON_API void empty_array_error();  // of no function
/// The axis counted from 0; IndexError when the array has no such axis.
TELAMON_API std::size_t checked_axis(const ShapedArray& aval, std::int64_t axis,
                                     SourceLocation where);
/// OutOfMemoryError when the elements of an array, as `element_size` bytes each, exceed the machine's
/// memory; `no_memory_for` throws it in any case.
TELAMON_API void check_memory_for(const ShapedArray& aval, std::size_t element_size);
[[noreturn]] TELAMON_API void no_memory_for(const ShapedArray& aval, std::size_t element_size);
/// ShapeError of so many values that are to become an array of this shape.
[[noreturn]] TELAMON_API void values_do_not_fill(const Shape& shape, std::size_t values);
/// A vector for all elements of an array.
template <class T> std::vector<T> vector_for(const ShapedArray& aval) {
  check_memory_for(aval, sizeof(T));
  try {
    return std::vector<T>(static_cast<std::size_t>(aval.size()));
  } catch (const std::bad_alloc&) { no_memory_for(aval, sizeof(T)); }
}
TELAMON_API const IndexItem& no_index();  // an index that is not given

}  // namespace detail

/// An n-dimensional array of one dtype, or a tracer that stands for one.
///
///   Array x({1.0, 2.0, 3.0});            // f64[3]: data keeps its C++ type
///   Array y = 2.0 * x + 1;               // scalars are weakly typed: still f64[3]
///   y.item<double>(); y.to_vector<double>(); std::cout << y;
class TELAMON_API Array {
 public:
  /// An empty handle: it holds no value, and every use of one is a TypeError.
  Array() noexcept = default;
  /// A weakly typed scalar of the C++ type's own width: `Array(2.0)` is a weak f64[]. A bool is
  /// never weak: it has one width only.
  template <class T>
    requires std::is_arithmetic_v<T>
  Array(T value) : Array(detail::make_scalar(detail::ScalarValue::of(value), true)) {}
  /// A vector, matrix or rank-3 array of the C++ type: `Array({1.0f, 2.0f})` is f32[2], and
  /// of std::complex<float> it is c64.
  template <ElementType T>
  explicit Array(std::initializer_list<T> values) : Array(from_list(values)) {}
  template <ElementType T>
  explicit Array(std::initializer_list<std::initializer_list<T>> rows,
                 detail::Caller where = detail::Caller::current())
      : Array(nested(rows, where)) {}
  template <ElementType T>
  explicit Array(std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks,
                 detail::Caller where = detail::Caller::current())
      : Array(nested3(blocks, where)) {}
  /// Copies `values` (row-major) into an array of the given shape (default: a vector).
  template <ElementType T>
  explicit Array(const std::vector<T>& values)
      : Array(values, {static_cast<std::int64_t>(values.size())}) {}
  template <ElementType T>
  Array(const std::vector<T>& values, Shape shape, detail::Caller where = detail::Caller::current())
      : Array(from_vector(values, std::move(shape), where)) {}
  /// Copies `shape.num_elements()` elements of `dtype` from `data`. Bytes that are not 0 are true bools.
  static Array from_data(const void* data, DType dtype, Shape shape,
                         SourceLocation where = SourceLocation::current()) {
    const detail::CallSite site(where);
    return detail::make_from_data(data, dtype, std::move(shape));
  }

  Array(const Array& o) noexcept : node_(o.node_) {
    if (node_) node_->retain();
  }
  Array(Array&& o) noexcept : node_(std::exchange(o.node_, nullptr)) {}
  // Of a name alone: x(0) = 9.0 would change a copy of the element. It is x = x.at(0).set(9.0).
  Array& operator=(const Array& o) & noexcept {
    Array(o).swap(*this);
    return *this;
  }
  Array& operator=(Array&& o) & noexcept {
    Array(std::move(o)).swap(*this);
    return *this;
  }
  ~Array() {
    if (node_) node_->release();
  }
  void swap(Array& o) noexcept { std::swap(node_, o.node_); }

  bool has_value() const { return node_ != nullptr; }
  const ShapedArray& aval(SourceLocation where = SourceLocation::current()) const {
    return given("aval()", where)->aval();
  }
  const Shape& shape(SourceLocation where = SourceLocation::current()) const {
    return given("shape()", where)->aval().shape;
  }
  /// One dimension; negative axes count from the end. IndexError when there is none.
  std::int64_t shape(Axis axis, SourceLocation where = SourceLocation::current()) const {
    const ShapedArray& type = given("shape()", where)->aval();
    return type.shape[detail::checked_axis(type, axis, where)];
  }
  DType dtype(SourceLocation where = SourceLocation::current()) const {
    return given("dtype()", where)->aval().dtype;
  }
  bool weak_type(SourceLocation where = SourceLocation::current()) const {
    return given("weak_type()", where)->aval().weak_type;
  }
  int ndim(SourceLocation where = SourceLocation::current()) const {
    return given("ndim()", where)->aval().shape.ndim();
  }
  std::int64_t size(SourceLocation where = SourceLocation::current()) const {
    return given("size()", where)->aval().shape.num_elements();
  }

  /// The value of a one-element array, converted to T. ConcretizationError on an abstract tracer.
  template <class T> T item(SourceLocation where = SourceLocation::current()) const {
    const detail::CallSite site(where);
    T out{};
    detail::read_item(*this, dtype_of<T>, &out);
    return out;
  }
  /// All elements in row-major order, converted to T.
  template <class T> std::vector<T> to_vector(
      SourceLocation where = SourceLocation::current()) const {
    return detail::in_call("to_vector()", where, [&]() -> std::vector<T> {
      const ShapedArray& type = given("to_vector()", where)->aval();
      if constexpr (std::is_same_v<T, bool>) {
        auto bytes = detail::vector_for<std::uint8_t>(type);
        detail::read_all(*this, DType::bool_, bytes.data());
        return {bytes.begin(), bytes.end()};
      } else {
        auto out = detail::vector_for<T>(type);
        detail::read_all(*this, dtype_of<T>, out.data());
        return out;
      }
    });
  }
  /// Truth of a one-element array; ConcretizationError under jit and vmap (use cond or where).
  explicit operator bool() const;
  /// As NumPy prints: "[1. 2. 3.]"; a tracer prints "Traced<ShapedArray(float32[3])>".
  std::string to_string(SourceLocation where = SourceLocation::current()) const;
  /// Waits until the value is computed (nothing to do on the CPU) and returns the array.
  const Array& block_until_ready() const { return *this; }

  /// NumPy-style indexing: x(0), x(tl::slice(1, 5), tl::ellipsis), x(indices). See indexing.hpp.
  Array operator()(const IndexItem& i, const IndexItem& j = detail::no_index(),
                   const IndexItem& k = detail::no_index(), const IndexItem& l = detail::no_index(),
                   const IndexItem& m = detail::no_index(),
                   const IndexItem& n = detail::no_index()) const;
  /// x.at(i, j).set(v), .add(v), .multiply(v), .min(v), .max(v), .get(): functional updates.
  AtIndex at(const IndexItem& i, const IndexItem& j = detail::no_index(),
             const IndexItem& k = detail::no_index(), const IndexItem& l = detail::no_index(),
             const IndexItem& m = detail::no_index(),
             const IndexItem& n = detail::no_index()) const;
  Array reshape(Shape shape, SourceLocation where = SourceLocation::current()) const;
  Array astype(DType dtype, SourceLocation where = SourceLocation::current()) const;
  Array T(SourceLocation where = SourceLocation::current()) const;  ///< all axes reversed

  bool is_tracer(SourceLocation where = SourceLocation::current()) const {
    return given("is_tracer()", where)->is_tracer();
  }
  /// Whether both handles name the same value (identity, not equality).
  bool is_same(const Array& o) const { return node_ == o.node_; }

  explicit Array(detail::ArrayNode* node) noexcept : node_(node) {
    if (node_) node_->retain();
  }
  /// A handle to a node that was made for it (ArrayNode::Held).
  static Array holder_of(detail::ArrayNode* node) noexcept { return Array(Borrowed{}, node); }
  detail::ArrayNode* node() const {
    if (!node_) detail::empty_array_error();
    return node_;
  }
  detail::ArrayNode* node_or_null() const { return node_; }

 private:
  friend class detail::BorrowedArrays;
  struct Borrowed {};
  Array(Borrowed, detail::ArrayNode* node) noexcept : node_(node) {}  // takes no reference
  detail::ArrayNode* given(const char* function, SourceLocation where) const {
    if (!node_) [[unlikely]]
      detail::empty_operand_error(function, 0, where);
    return node_;
  }

  template <class T> static Array from_list(std::initializer_list<T> values) {
    return detail::make_from_data(values.begin(), dtype_of<T>,
                                  {static_cast<std::int64_t>(values.size())});
  }
  template <class T>
  static Array from_vector(const std::vector<T>& values, Shape shape, SourceLocation where);
  template <class T>
  static Array nested(std::initializer_list<std::initializer_list<T>> rows, SourceLocation where);
  template <class T>
  static Array nested3(
      std::initializer_list<std::initializer_list<std::initializer_list<T>>> blocks,
      SourceLocation where);

  detail::ArrayNode* node_ = nullptr;
};

/// An array or a weakly typed C++ scalar, with the caller's file and line: the parameter type of
/// all functions and operators. The outermost call's location is the one that errors show.
struct Operand {
  Array array;
  SourceLocation where;

  Operand(const Array& a, SourceLocation w = SourceLocation::current()) : array(a), where(w) {}
  Operand(Array&& a, SourceLocation w = SourceLocation::current())
      : array(std::move(a)), where(w) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T value, SourceLocation w = SourceLocation::current()) : array(value), where(w) {}
};

TELAMON_API std::ostream& operator<<(std::ostream& os, const Array& x);

// The parameter is not called T: the member function T hides it here.
template <class U>
Array Array::from_vector(const std::vector<U>& values, Shape shape, SourceLocation where) {
  return detail::in_call("Array", where, [&] {
    if (shape.num_elements() != static_cast<std::int64_t>(values.size()))
      detail::values_do_not_fill(shape, values.size());
    if constexpr (std::is_same_v<U, bool>) {
      std::vector<std::uint8_t> bytes(values.begin(), values.end());
      return detail::make_from_data(bytes.data(), DType::bool_, std::move(shape));
    } else {
      return detail::make_from_data(values.data(), dtype_of<U>, std::move(shape));
    }
  });
}

template <class U>
Array Array::nested(std::initializer_list<std::initializer_list<U>> rows, SourceLocation where) {
  return detail::in_call("Array", where, [&] {
    std::vector<U> flat;
    for (const auto& row : rows) {
      if (row.size() != rows.begin()->size()) throw ShapeError("Array: rows of different lengths");
      flat.insert(flat.end(), row.begin(), row.end());
    }
    const auto n = static_cast<std::int64_t>(rows.size());
    return from_vector(flat, {n, n ? static_cast<std::int64_t>(rows.begin()->size()) : 0}, where);
  });
}

template <class U>
Array Array::nested3(std::initializer_list<std::initializer_list<std::initializer_list<U>>> blocks,
                     SourceLocation where) {
  return detail::in_call("Array", where, [&] {
    std::vector<U> flat;
    Shape shape{static_cast<std::int64_t>(blocks.size()), 0, 0};
    for (const auto& block : blocks) {
      const Array b = nested(block, where);
      if (flat.empty()) {
        shape[1] = b.shape(0);
        shape[2] = b.shape(1);
      }
      if (b.shape(0) != shape[1] || b.shape(1) != shape[2])
        throw ShapeError("Array: blocks of different shapes");
      const auto values = b.template to_vector<U>();
      flat.insert(flat.end(), values.begin(), values.end());
    }
    return from_vector(flat, shape, where);
  });
}

}  // namespace v1
}  // namespace telamon
