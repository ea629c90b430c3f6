// ShapedArray: printing and hashing.
#include "telamon/aval.hpp"

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

std::string ShapedArray::to_long_string() const {
  std::string text = "ShapedArray(";
  text += long_name(dtype);
  return text + "[" + dimensions(shape) + "]" + (weak_type ? ", weak_type=True)" : ")");
}

std::size_t ShapedArray::hash() const {
  const auto tag = static_cast<std::size_t>(dtype) * 2 + (weak_type ? 1 : 0);
  return (shape.hash() ^ tag) * 0x9e3779b97f4a7c15u;
}

}  // namespace v1
}  // namespace telamon
