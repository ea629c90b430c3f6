// Arithmetic of trees of arrays as vectors.
#include "solvers/vectors.hpp"

#include <algorithm>
#include <cmath>

#include "telamon/indexing.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {
namespace solvers {
namespace {

// The scalar in the dtype of x, so that leaves keep theirs.
Array as(const Array& scalar, const Array& x) { return asarray(scalar, x.dtype()); }

template <class F>
Arrays leafwise(const Arrays& x, const Arrays& y, F f) {
  Arrays out;
  out.reserve(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(f(x[i], y[i]));
  return out;
}

}  // namespace

Arrays add(const Arrays& x, const Arrays& y) {
  return leafwise(x, y, [](const Array& a, const Array& b) { return a + b; });
}
Arrays subtract(const Arrays& x, const Arrays& y) {
  return leafwise(x, y, [](const Array& a, const Array& b) { return a - b; });
}
Arrays add_scaled(const Arrays& x, const Array& a, const Arrays& y) {
  return leafwise(x, y, [&](const Array& u, const Array& v) { return u + as(a, v) * v; });
}
Arrays select(const Array& condition, const Arrays& x, const Arrays& y) {
  return leafwise(x, y, [&](const Array& a, const Array& b) { return where(condition, a, b); });
}

Array dot(const Arrays& x, const Arrays& y) {
  Array total;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Array part = sum(x[i] * y[i]);
    total = total.has_value() ? total + part : part;
  }
  return total;
}

Array largest(const Arrays& x) {
  Array most;
  for (const Array& leaf : x) {
    if (leaf.size() == 0) continue;
    const Array here = max(abs(leaf));
    most = most.has_value() ? maximum(most, here) : here;
  }
  return most.has_value() ? most : asarray(0.0, x.empty() ? DType::f64 : x[0].dtype());
}

Arrays zeros_like(const Arrays& x) {
  Arrays out;
  for (const Array& leaf : x) out.push_back(telamon::zeros_like(leaf));
  return out;
}

Arrays list(std::span<const Array> x) { return {x.begin(), x.end()}; }

std::int64_t num_elements(const Arrays& x) {
  std::int64_t n = 0;
  for (const Array& leaf : x) n += leaf.size();
  return n;
}

double precision(const Arrays& x) {
  double coarsest = 0x1p-52;
  for (const Array& leaf : x) {
    switch (leaf.dtype()) {
      case DType::f32: coarsest = std::max(coarsest, 0x1p-23); break;
      case DType::f16: coarsest = std::max(coarsest, 0x1p-10); break;
      case DType::bf16: coarsest = std::max(coarsest, 0x1p-7); break;
      default: break;
    }
  }
  return coarsest;
}

Array ravel(const Arrays& x) {
  Arrays flat;
  for (const Array& leaf : x) flat.push_back(telamon::ravel(leaf));
  return flat.size() == 1 ? flat[0] : concatenate(flat);
}

Arrays unravel(const Array& flat, const Arrays& like) {
  Arrays out;
  std::int64_t next = 0;
  for (const Array& leaf : like) {
    const Array part = flat(slice(next, next + leaf.size()));
    out.push_back(asarray(reshape(part, leaf.shape()), leaf.dtype()));
    next += leaf.size();
  }
  return out;
}

}  // namespace solvers
}  // namespace v1
}  // namespace telamon
