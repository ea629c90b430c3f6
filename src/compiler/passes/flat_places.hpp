// Index vectors that are put together of columns, as one place each among the rows of an array:
//
//   scatter_add x concatenate(i, j) u   ->   scatter_add reshape(x) (select inside (add (mul i 256) j) outside) u
//   gather[mode=clip] x concatenate(i, j)   ->   gather reshape(x) (add (mul (clamp i) 256) (clamp j))
//
// A place takes half of the memory of two indices, or a third of that of three, and is looked at once.
#pragma once

#include "jaxpr/rewrite.hpp"
#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Places of i32 from 0 to `last`: those outside become the nearest.
Atom places_within(detail::JaxprBuilder& b, const Atom& places, std::int64_t last);

/// Whether a scatter updates rows of its operand, one for each index vector, of which `indices` makes the columns of several
/// leading dimensions.
bool has_flat_places(const Jaxpr& jaxpr, const Eqn& scatter, const Eqn& indices);

/// The operand of such a scatter, as the list of its rows.
Aval listed_rows(const Jaxpr& jaxpr, const Eqn& scatter);

/// The same scatter of `updates` into `rows`, which are listed rows of an operand of shape `of`, at the places that these
/// columns of indices say: what lies outside in any of them is dropped, or moved to the end of its dimension, as before.
Atom scatter_at_flat_places(detail::JaxprBuilder& b, const Eqn& scatter, const Shape& of,
                            const Atom& rows, const Atoms& columns, const Atom& updates);

/// Whether a gather reads whole rows of its operand, one for each index vector, of which the numbers say where along several
/// leading dimensions.
bool looks_up_rows(const Jaxpr& jaxpr, const Eqn& gather);

/// The same gather of `operand`, listed by rows, at the places that these columns of indices say.
Atom gather_at_flat_places(detail::JaxprBuilder& b, const Eqn& gather, const Atom& operand,
                           const Atoms& columns, const Aval& out);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
