// What the rules of a primitive return, compared with what abstract_eval says.
//
// Comparing takes about as long as a small operation, so only what could not be used at all is compared
// at each use. check_primitive compares types.
#pragma once

#include <span>
#include <string>

#include "core/trace.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

enum class ResultOf : std::uint8_t { impl, jvp, batch };

/// Whether there is nothing to go on with: no results, or one that is an empty Array.
bool are_unusable(const Arrays& results);

/// TypeError unless there are as many results as abstract_eval gives for these operands, of the same
/// shapes and dtypes. `results`: of empty handles float0.
void compare_with_abstract_eval(const PrimitiveBase& primitive, ResultOf rule, const Params& params,
                                std::span<const Aval> operands, std::span<const Aval> results);

/// TypeError: "the jvp rule of 'p' " + `fault`.
[[noreturn]] void wrong_results(const PrimitiveBase& primitive, ResultOf rule,
                                const std::string& fault);

/// The avals of arrays; that of an empty handle is a float0.
std::vector<Aval> result_avals(std::span<const Array> arrays);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
