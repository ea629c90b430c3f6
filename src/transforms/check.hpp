// What check_grads and check_primitive share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

/// The values, rounded to the aval's dtype.
Array array_from(const std::vector<double>& values, const Aval& aval);

/// Sum of the products of all floating elements; empty handles count as zero.
double inner_product(std::span<const Array> a, std::span<const Array> b);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
