// The neutral JSON form of arrays and JAX programs (see docs/how-to/jax.md).
#pragma once

#include <nlohmann/json.hpp>

#include "telamon/interop.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {

using Json = nlohmann::json;

/// The format of a file that holds one program, and of a conformance case.
inline constexpr const char* kProgramFormat = "telamon-jaxpr/1";
inline constexpr const char* kCaseFormat = "telamon-case/1";

/// {"dtype", "shape", "data"}. ParseError says what is wrong.
TELAMON_API Array array_from_json(const Json& json);
/// {"jaxpr", "consts"}; MissingPrimitiveError names all primitives that are unknown, nested ones too.
/// What is damaged or of the wrong type is a ParseError that names the equation.
TELAMON_API ClosedJaxpr program_from_json(const Json& closed);

/// ParseError with line and column; `path` is the file that the text comes from, and `first_line` the
/// number of its first line there.
TELAMON_API Json parse_json(std::string_view text, const std::string& path,
                            std::size_t first_line = 1);
/// ValueError when the file cannot be opened, or is a directory.
TELAMON_API void check_is_file(const std::string& path);
TELAMON_API Json parse_json_file(const std::string& path);
/// ParseError unless the object's "format", where it has one, is among these.
TELAMON_API void check_format(const Json& file, std::initializer_list<const char*> formats);

}  // namespace interop
}  // namespace v1
}  // namespace telamon
