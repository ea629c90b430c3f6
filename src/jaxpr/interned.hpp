// Programs that are traced again and again are found again, with all that was derived from them.
#pragma once

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The equal program that was traced before, if it is remembered, with its compiled forms and
/// derivatives; else this one, which then is.
Jaxpr interned(const Jaxpr& jaxpr);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
