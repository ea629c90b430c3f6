// Trees of arrays as vectors: what the solvers compute with, over leaves.
#pragma once

#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace solvers {

Arrays add(const Arrays& x, const Arrays& y);
Arrays subtract(const Arrays& x, const Arrays& y);
/// x + a y
Arrays add_scaled(const Arrays& x, const Array& a, const Arrays& y);
Arrays select(const Array& condition, const Arrays& x, const Arrays& y);
Array dot(const Arrays& x, const Arrays& y);
/// The largest element, in absolute value; NaN if there is one.
Array largest(const Arrays& x);
Arrays zeros_like(const Arrays& x);
Arrays list(std::span<const Array> x);
std::int64_t num_elements(const Arrays& x);

/// The distance from 1 to the next larger number of the coarsest dtype among the leaves.
double precision(const Arrays& x);

/// The elements of all leaves in one vector, and back to the shapes and dtypes of `like`.
Array ravel(const Arrays& x);
Arrays unravel(const Array& flat, const Arrays& like);

}  // namespace solvers
}  // namespace v1
}  // namespace telamon
