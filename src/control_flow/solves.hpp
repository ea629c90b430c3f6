// What custom_linear_solve and custom_root share: programs over own consts and unknowns, of which some
// stand beside others in one equation.
#pragma once

#include <functional>

#include "control_flow/bodies.hpp"
#include "core/trace.hpp"
#include "telamon/detail/solves.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

inline std::size_t size(int n) { return static_cast<std::size_t>(n); }

/// "f64[2] and f64[3]" unless `outs` start with the types of `like`.
std::optional<std::string> unlike(std::span<const Aval> outs, std::span<const Aval> like);

/// The map, each of whose results is compared with the unknowns: `check(types of the results, types)`.
/// Weakly typed unknowns may become what the map gives. `map` must outlive it.
detail::FlatFunction checked(
    const detail::FlatFunction& map, std::span<const Array> unknowns,
    std::function<void(std::span<const Aval> outs, std::span<const Aval> like)> check);

/// The program as a function of its unknowns. `program` must outlive it.
detail::FlatFunction applied(const ClosedJaxpr& program);

/// The program with the results in `used` and those of its consts that they read. Appends to
/// `used_in` which consts these are, and counts them in `num_consts`.
Jaxpr prune_program(const Jaxpr& program, int& num_consts, const Mask& used, Mask& used_in);

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
