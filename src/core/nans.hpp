// Where a NaN first appeared: what `debug_nans` does.
#pragma once

#include <span>
#include <string>

#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whether programs are being evaluated operation by operation, in this thread, to find a NaN: then
/// calls and loops do not use compiled programs.
bool finding_nan();
/// FloatingPointError when a result of this application, which has just been evaluated, holds a NaN.
void refuse_nan(const PrimitiveBase& primitive, std::span<const Array> args,
                std::span<const Array> results);
/// To be called after a compiled program where debug_nans() is on. If its results hold a NaN, runs it
/// operation by operation, which ends with the FloatingPointError of the first that gives one.
void find_nan(const Jaxpr& program, const std::string& name, std::span<const Array> args,
              std::span<const Array> results);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
