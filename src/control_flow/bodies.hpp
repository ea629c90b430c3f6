// What scan, while_loop and cond share when they trace their functions.
#pragma once

#include <functional>
#include <string>

#include "control_flow/common.hpp"
#include "telamon/control_flow.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

/// Traces f. What it captured became leading inputs.
ClosedJaxpr traced(const detail::FlatFunction& f, const std::vector<Aval>& avals, const char* what);
/// The same program, remembered where it will be evaluated at once (a staged one is remembered as a
/// part of what is staged).
Jaxpr remembered(const Jaxpr& jaxpr);

/// "f64[3]" of "f64[]"... : why two types differ: "so the dtypes do not match".
std::string type_difference(const Aval& a, const Aval& b);
/// Converts weakly typed initial values to the types that the body gives them. Whether any changed.
bool adapt_weak(Arrays& init, std::span<const Aval> out);
/// Traces a body until it gives the types of `init`, whose weak values are made strong or wider on
/// the way. `trace` traces it once, for the types of `init`; its results from `first` on are theirs.
ClosedJaxpr traced_to_fixpoint(
    Arrays& init, std::size_t first,
    const std::function<ClosedJaxpr(const std::vector<Aval>& init)>& trace);
/// The type both may have when one of them is weak: of the value that `a` must be converted to.
bool converts_to(const Aval& weak, const Aval& to);
/// TypeErrors about the carry of `what` ("scan").
void check_carry_structure(const char* what, const TreeDef& in, const TreeDef& out);
void check_carry_types(const char* what, const TreeDef& carry, std::span<const Array> init,
                       std::span<const Aval> out);

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
