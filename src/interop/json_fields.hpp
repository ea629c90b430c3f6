// Strict reading of JSON: what is not as expected is a ParseError that names the field, what it should
// be and what it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interop/json_program.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {

/// "a list", "the text "abc"", "-1": for messages.
std::string found_text(const Json& value);

const Json& member(const Json& object, const char* key);
const Json& list_member(const Json& object, const char* key);
std::string text_member(const Json& object, const char* key);
std::string text_member(const Json& object, const char* key, const std::string& if_absent);
std::int64_t integer(const Json& value, const char* what);
std::int64_t integer_member(const Json& object, const char* key);
/// An integer from 0 to `limit`.
int count_member(const Json& object, const char* key, std::size_t limit);
bool bool_member(const Json& object, const char* key);
/// Sizes that are not negative, of an array that memory could hold.
Shape shape_member(const Json& object, const char* key);
DType dtype_member(const Json& object, const char* key);
/// {"dtype", "shape"}
Aval aval_from_json(const Json& json);

/// What the JSON library says, without its own labels.
TELAMON_API std::string plain_message(const Json::exception& error);

}  // namespace interop
}  // namespace v1
}  // namespace telamon
