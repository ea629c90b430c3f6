// What the integers of an array are known to lie in, from what makes them: places that were brought within bounds are not
// looked at again where they are looked up.
#pragma once

#include <functional>
#include <vector>

#include "compiler/codegen/index_range.hpp"
#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A program, or as much of one as there is yet.
struct Definitions {
  std::function<const Eqn*(const Atom&)>
      of;  ///< the equation that makes it; null where there is none
  std::function<Aval(const Atom&)> aval;
};

/// What all elements of `a`, of an integer type, lie in, as far as a few of the equations before it tell.
IndexRange known_range(const Definitions& program, const Atom& a);
/// The same in a whole program, of which `producer` is that of jaxpr/rewrite.hpp.
IndexRange known_range(const Jaxpr& jaxpr, const std::vector<int>& producer, const Atom& a);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
