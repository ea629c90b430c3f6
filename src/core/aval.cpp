// ShapedArray: printing and hashing.
#include "telamon/aval.hpp"

#include <algorithm>
#include <ostream>

#include "core/size_errors.hpp"

namespace telamon {
inline namespace v1 {
namespace {

// "2,3": the dimensions between the brackets.
std::string dimensions(const Shape& shape) {
  std::string text;
  for (const std::int64_t dim : shape) {
    if (!text.empty()) text += ',';
    text += std::to_string(dim);
  }
  return text;
}

}  // namespace

std::string ShapedArray::to_string() const {
  std::string text = weak_type ? "~" : "";
  text += short_name(dtype);
  return text + "[" + dimensions(shape) + "]";
}

std::ostream& operator<<(std::ostream& os, const ShapedArray& aval) {
  return os << aval.to_string();
}

std::string ShapedArray::to_long_string() const {
  std::string text = "ShapedArray(";
  text += long_name(dtype);
  return text + "[" + dimensions(shape) + "]" + (weak_type ? ", weak_type=True)" : ")");
}

std::size_t ShapedArray::hash() const {
  const auto tag = static_cast<std::size_t>(dtype) * 2 + (weak_type ? 1 : 0);
  return (shape.hash() ^ tag) * 0x9e3779b97f4a7c15u;
}

namespace detail {

std::int64_t checked_bytes(const ShapedArray& aval) {
  if (aval.shape.size() > kMaxDimensions) {
    throw UnnamedSizeError("arrays have at most " + std::to_string(kMaxDimensions) +
                           " dimensions, but the type would be " + aval.to_string());
  }
  auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(size_of(aval.dtype), 1));
  bool overflow = false, empty = false;
  for (const std::int64_t n : aval.shape) {
    if (n < 0) {
      throw UnnamedSizeError("sizes must not be negative, but the type would be " +
                             aval.to_string());
    }
    empty = empty || n == 0;
    overflow = __builtin_mul_overflow(bytes, n, &bytes) || overflow;
  }
  if (empty) return 0;
  if (overflow) {
    throw UnnamedSizeError("an array of type " + aval.to_string() +
                           " would have more than 2^63 - 1 bytes; use smaller sizes");
  }
  return bytes;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
