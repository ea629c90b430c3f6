// Pytrees: what needs no C++ type of the tree.
#include "telamon/tree.hpp"

#include "core/counted.hpp"

#include <algorithm>
#include <cstring>

namespace telamon {
inline namespace v1 {
namespace {

template <class T>
bool same_elements(const Array& a, const Array& b, DType read_as) {
  const auto n = static_cast<std::size_t>(a.size()) * (is_complex(a.dtype()) ? 2 : 1);
  std::vector<T> x(n), y(n);
  detail::read_all(a, read_as, x.data());
  detail::read_all(b, read_as, y.data());
  return x == y;
}

}  // namespace

namespace detail {

bool arrays_equal(const Array& a, const Array& b) {
  if (!a.aval().same_type(b.aval())) return false;
  switch (kind_of(a.dtype())) {
    case Kind::boolean: return same_elements<std::uint8_t>(a, b, DType::bool_);
    case Kind::signed_int: return same_elements<std::int64_t>(a, b, DType::i64);
    case Kind::unsigned_int: return same_elements<std::uint64_t>(a, b, DType::u64);
    case Kind::floating: return same_elements<double>(a, b, DType::f64);
    case Kind::complex: return same_elements<double>(a, b, DType::c128);
    case Kind::float0: return true;
  }
  return false;
}

}  // namespace detail

Arrays tree_transpose(const TreeDef& outer, const TreeDef& inner, std::span<const Array> leaves,
                      SourceLocation where) {
  const detail::TransformSite site(nullptr, where);
  const std::size_t rows = outer.num_leaves(), columns = inner.num_leaves();
  if (leaves.size() != rows * columns) {
    throw TypeError("tree_transpose: " + detail::counted(leaves.size(), "leaf", "leaves") +
                    " cannot fill " + outer.to_string() + " of " + inner.to_string());
  }
  Arrays out;
  out.reserve(leaves.size());
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < rows; ++i) out.push_back(leaves[i * columns + j]);
  return out;
}

}  // namespace v1
}  // namespace telamon
