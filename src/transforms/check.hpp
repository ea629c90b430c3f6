// What check_grads and check_primitive share.
#pragma once

#include <cstdint>
#include <span>

#include "core/concrete.hpp"
#include "core/element.hpp"
#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Normal deviates, the same in every run and on every platform.
class Random {
 public:
  Array like(const Aval& aval);

 private:
  double uniform();  // in (0, 1)
  double normal();
  std::uint64_t state_ = 0;
};

/// Random tangents of values that have one; empty handles for the others.
Arrays random_tangents(Random& random, std::span<const Array> xs);

/// The real part of the sum of conj(a) b over all inexact elements, as of vectors of twice as many reals;
/// empty handles count as zero.
double inner_product(std::span<const Array> a, std::span<const Array> b);

/// The conjugates of complex arrays, the others as they are. The adjoint of a map J in this inner product is
/// conj(J'(conj(v))), where J' is the transpose: that of multiplication by a number multiplies by the same.
Arrays conjugated(std::span<const Array> xs);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
