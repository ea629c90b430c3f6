// Numbers that passes write into programs, and columns that they take apart.
#pragma once

#include <utility>

#include "core/concrete.hpp"
#include "jaxpr/builder.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// The number as a literal of this dtype.
inline Atom literal_of(const Array& number, DType dtype) {
  return Atom::literal(detail::convert_scalar(number, dtype));
}

/// A scalar, repeated in the shape of this type.
inline Atom repeated(detail::JaxprBuilder& b, Atom scalar, const Aval& aval,
                     SourceLocation where = {}) {
  return Atom::var(b.add_eqn1(broadcast_in_dim_p, Params::of(BroadcastInDimParams{aval.shape, {}}),
                              {std::move(scalar)}, aval, Effect::none, where));
}
/// The same of a number.
inline Atom filled(detail::JaxprBuilder& b, const Array& number, const Aval& aval,
                   SourceLocation where = {}) {
  return repeated(b, Atom::literal(detail::convert_scalar(number, aval.dtype, aval.weak_type)),
                  aval, where);
}

/// Element k of each row: (..., n) -> (..., 1).
inline Atom column(detail::JaxprBuilder& b, const Atom& rows, std::int64_t k,
                   SourceLocation where = {}) {
  const Aval all = b.aval(rows);
  const std::size_t last = all.shape.size() - 1;
  SliceParams p{Shape(all.shape.size(), 0), all.shape, Shape(all.shape.size(), 1)};
  p.start_indices[last] = k;
  p.limit_indices[last] = k + 1;
  Aval one = all.strong();
  one.shape[last] = 1;
  return Atom::var(b.add_eqn1(slice_p, Params::of(std::move(p)), {rows}, one, Effect::none, where));
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
