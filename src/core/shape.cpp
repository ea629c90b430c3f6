// Shape: hashing and printing.
#include "telamon/shape.hpp"

#include <algorithm>
#include <ostream>

#include "core/size_errors.hpp"
#include "telamon/detail/transform_site.hpp"

namespace telamon {
inline namespace v1 {

// FNV-1a over the dimensions, each mixed first (the finaliser of splitmix64, Steele et al. 2014).
std::size_t Shape::hash() const {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const std::int64_t dim : *this) {
    auto x = static_cast<std::uint64_t>(dim) + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    h = (h ^ x ^ (x >> 31)) * 0x100000001b3u;
  }
  return h;
}

std::string Shape::to_string() const {
  std::string text = "(";
  for (std::size_t i = 0; i < size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string((*this)[i]);
  }
  text += size() == 1 ? ",)" : ")";
  return text;
}

std::ostream& operator<<(std::ostream& os, const Shape& shape) { return os << shape.to_string(); }

namespace detail {

std::int64_t num_elements_of_large(const Shape& shape) {
  if (shape.contains(0)) return 0;
  const bool negative = std::any_of(shape.begin(), shape.end(), [](auto n) { return n < 0; });
  throw UnnamedSizeError("the shape " + shape.to_string() +
                         (negative ? " has a negative size" : " has more than 2^63 - 1 elements"));
}

void no_such_integer(std::uint64_t value, const char* what, SourceLocation where) {
  const TransformSite site(nullptr, where);
  throw IndexError(std::string(what) + " " + std::to_string(value) +
                   " is out of bounds: it is beyond 2^63 - 1 (a negative number made unsigned?)");
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
