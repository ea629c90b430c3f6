// Emitter: how a lowering rule writes native code, without any of the code generator in sight.
//
// A rule of the `element` form combines the scalars of its operands; one of the `index` form reads
// its operands at computed indices (composing such rules is what fuses them into one loop); one of
// the `kernel` form writes loops over whole buffers. All values are vectors of lanes underneath: the
// same rule serves scalar and vector code, so a rule must not branch on values, but select.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "telamon/config.hpp"
#include "telamon/dtype.hpp"
#include "telamon/shape.hpp"

namespace telamon {
inline namespace v1 {

/// A value in generated code: one element of some array (many lanes at once, out of sight).
class Scalar {
 public:
  Scalar() = default;
  Scalar(void* value, DType dtype) : value_(value), dtype_(dtype) {}
  DType dtype() const { return dtype_; }
  void* value() const { return value_; }  ///< the code generator's own handle

 private:
  void* value_ = nullptr;
  DType dtype_ = DType::f32;
};
using Scalars = std::vector<Scalar>;

/// The index of one element: one i64 per dimension.
using Index = std::vector<Scalar>;

/// An operand that can be read at any index. Reading out of bounds is undefined: clamp first.
class Source {
 public:
  Source(Shape shape, DType dtype, std::function<Scalar(const Index&)> read)
      : shape_(std::move(shape)), dtype_(dtype), read_(std::move(read)) {}
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Scalar operator()(const Index& index) const { return read_(index); }

 private:
  Shape shape_;
  DType dtype_;
  std::function<Scalar(const Index&)> read_;
};

/// A dense row-major array in memory, for rules of the `kernel` form.
class Buffer {
 public:
  Buffer(Shape shape, DType dtype, void* pointer)
      : shape_(std::move(shape)), dtype_(dtype), pointer_(pointer) {}
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  void* pointer() const { return pointer_; }  ///< the code generator's own handle

 private:
  Shape shape_;
  DType dtype_;
  void* pointer_;
};

enum class Compare : std::uint8_t { eq, ne, lt, le, gt, ge };

/// Writes instructions. Arithmetic follows the primitives of the same names: integers wrap, integer
/// division by zero gives -1, shifts by the width or more give 0, max and min propagate NaN.
class TELAMON_API Emitter {
 public:
  virtual ~Emitter();

  virtual Scalar constant(DType dtype, double value) = 0;
  virtual Scalar constant_int(DType dtype, std::int64_t value) = 0;
  Scalar index(std::int64_t value) { return constant_int(DType::i64, value); }

  virtual Scalar neg(Scalar x) = 0;
  virtual Scalar abs(Scalar x) = 0;
  virtual Scalar sign(Scalar x) = 0;
  virtual Scalar sqrt(Scalar x) = 0;
  virtual Scalar floor(Scalar x) = 0;
  virtual Scalar ceil(Scalar x) = 0;
  virtual Scalar round_even(Scalar x) = 0;
  virtual Scalar round_away(Scalar x) = 0;
  virtual Scalar is_finite(Scalar x) = 0;  ///< bool
  virtual Scalar not_(Scalar x) = 0;       ///< logical on bool, bitwise on integers

  virtual Scalar add(Scalar a, Scalar b) = 0;
  virtual Scalar sub(Scalar a, Scalar b) = 0;
  virtual Scalar mul(Scalar a, Scalar b) = 0;
  virtual Scalar div(Scalar a, Scalar b) = 0;
  virtual Scalar rem(Scalar a, Scalar b) = 0;  ///< sign of the dividend
  virtual Scalar max(Scalar a, Scalar b) = 0;
  virtual Scalar min(Scalar a, Scalar b) = 0;
  virtual Scalar and_(Scalar a, Scalar b) = 0;
  virtual Scalar or_(Scalar a, Scalar b) = 0;
  virtual Scalar xor_(Scalar a, Scalar b) = 0;
  virtual Scalar shift_left(Scalar a, Scalar b) = 0;
  virtual Scalar shift_right_logical(Scalar a, Scalar b) = 0;
  virtual Scalar shift_right_arithmetic(Scalar a, Scalar b) = 0;

  virtual Scalar compare(Compare how, Scalar a, Scalar b) = 0;  ///< bool
  virtual Scalar select(Scalar condition, Scalar if_true, Scalar if_false) = 0;
  /// Of numbers in ascending order, as `sort` has it, the one at `rank`.
  virtual Scalar order_statistic(std::span<const Scalar> x, std::size_t rank) = 0;
  virtual Scalar convert(Scalar x, DType dtype) = 0;  ///< as convert_element_type
  virtual Scalar bitcast(Scalar x, DType dtype) = 0;  ///< same width
  /// A function by name: of floats ("exp", "pow", ...: runtime/math), or counting bits of integers.
  virtual Scalar math(std::string_view name, std::span<const Scalar> args) = 0;
  Scalar math(std::string_view name, Scalar x) {
    return math(name, std::span<const Scalar>(&x, 1));
  }

  /// For the `kernel` form: scalar (one-lane) loads, stores and loops.
  virtual Scalar load(const Buffer& buffer, const Index& index) = 0;
  virtual void store(const Buffer& buffer, const Index& index, Scalar value) = 0;
  /// for (i = begin; i < end; ++i) body(i)
  virtual void loop(Scalar begin, Scalar end, const std::function<void(Scalar i)>& body) = 0;
  /// if (condition) then()
  virtual void if_then(Scalar condition, const std::function<void()>& then) = 0;
  /// Copies all elements (same dtype and size).
  virtual void copy(const Buffer& from, const Buffer& to) = 0;
};

}  // namespace v1
}  // namespace telamon
