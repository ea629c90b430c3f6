// Goldens that are wrong, with what is right and why.
#pragma once

#include <string>

#include "interop/json_program.hpp"

namespace telamon_tool {

/// Puts the right values in place of a wrong golden of this check ("hvp"), in the JSON of its case.
/// Gives the reason, or nothing where the golden stands.
std::string correct_golden(telamon::interop::Json& test, const std::string& check);

}  // namespace telamon_tool
