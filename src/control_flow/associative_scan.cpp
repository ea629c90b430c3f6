// associative_scan: prefixes by pairs. Neighbours are combined, the half as long sequence is scanned,
// and its results are the odd ones; each even one is one combination away.
#include <algorithm>

#include "control_flow/bodies.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

class PrefixScan {
 public:
  PrefixScan(const FlatFunction& combine, int axis) : combine_(combine), axis_(axis) {}

  Arrays operator()(const Arrays& x) const {
    const std::int64_t n = x[0].shape(axis_);
    if (n < 2) return x;
    const Arrays pairs = combine(sliced(x, 0, n - 1, 2), sliced(x, 1, n, 2));
    const Arrays odd = (*this)(pairs);
    const Arrays rest = sliced(x, 2, n, 2);
    const Arrays before = n % 2 == 0 ? sliced(odd, 0, n / 2 - 1, 1) : odd;
    const Arrays even = rest[0].shape(axis_) == 0 ? rest : combine(before, rest);
    Arrays result;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Array first[] = {lax::slice_in_dim(x[i], 0, 1, 1, axis_), even[i]};
      result.push_back(interleave(lax::concatenate(first, axis_), odd[i]));
    }
    return result;
  }

 private:
  Arrays combine(const Arrays& a, const Arrays& b) const {
    Arrays both = a;
    both.insert(both.end(), b.begin(), b.end());
    Arrays out = combine_(both);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i >= a.size() || !out[i].aval().same_type(a[i].aval()))
        throw TypeError("associative_scan: the function must give what it takes, but it gives " +
                        out[i].aval().to_string() + " for " + a[i].aval().to_string());
    }
    return out;
  }
  Arrays sliced(const Arrays& x, std::int64_t start, std::int64_t limit,
                std::int64_t stride) const {
    Arrays out;
    for (const Array& a : x)
      out.push_back(lax::slice_in_dim(a, std::min(start, limit), limit, stride, axis_));
    return out;
  }
  // a[0], b[0], a[1], b[1], ...; a may be one longer.
  Array interleave(const Array& a, const Array& b) const {
    const std::int64_t n = b.shape(axis_);
    const Array pair[] = {lax::slice_in_dim(a, 0, n, 1, axis_), b};
    Shape shape = b.shape();
    shape[static_cast<std::size_t>(axis_)] = 2 * n;
    const Array both = lax::reshape(lax::stack(pair, axis_ + 1), shape);
    if (a.shape(axis_) == n) return both;
    const Array parts[] = {both, lax::slice_in_dim(a, n, n + 1, 1, axis_)};
    return lax::concatenate(parts, axis_);
  }

  const FlatFunction& combine_;
  std::int64_t axis_;
};

}  // namespace

Arrays associative_scan_arrays(const FlatFunction& combine, Arrays elems,
                               const AssociativeScanOptions& options) {
  if (elems.empty()) return elems;
  int axis = options.axis;
  for (Array& x : elems) {
    const int positive = axis < 0 ? axis + x.ndim() : axis;
    if (positive < 0 || positive >= x.ndim())
      throw ValueError("associative_scan: axis " + std::to_string(options.axis) +
                       " is out of range for " + x.aval().to_string());
    if (&x == &elems.front()) axis = positive;
    if (positive != axis || x.shape(axis) != elems[0].shape(axis)) {
      throw ValueError(
          "Array inputs to associative_scan must have the same first dimension. (saw: " +
          elems[0].aval().to_string() + ", " + x.aval().to_string() + ")");
    }
    if (options.reverse) x = lax::rev(x, {axis});
  }
  Arrays result = PrefixScan(combine, axis)(elems);
  if (options.reverse) {
    for (Array& x : result) x = lax::rev(x, {axis});
  }
  return result;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
