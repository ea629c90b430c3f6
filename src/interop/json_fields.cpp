// Fields of JSON objects, and whole files: checked, with the place in the file.
#include "interop/json_fields.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

constexpr int kMaxDepth = 1000;                     // of brackets: readers are recursive
constexpr std::size_t kMaxShown = 40;               // characters of a value in a message
constexpr std::size_t kMaxMessage = 300;            // characters of what the JSON library says
constexpr std::int64_t kMaxBytes = INT64_MAX / 64;  // of one array; far beyond any memory

std::string shortened(std::string text, std::size_t length) {
  if (text.size() > length) text = text.substr(0, length) + "...";
  return text;
}

[[noreturn]] void wrong(const std::string& what, const char* expected, const Json& found) {
  throw ParseError(what + " must be " + expected + ", found " + found_text(found));
}

// How deep brackets nest, those in strings aside.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

std::string found_text(const Json& value) {
  if (value.is_array()) return value.empty() ? "an empty list" : "a list";
  if (value.is_object()) return "an object";
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return shortened(text, kMaxShown);
}

std::string plain_message(const Json::exception& error) {
  std::string text =
      error.what();  // "[json.exception.parse_error.101] parse error at ...: syntax..."
  if (const auto label = text.find("] "); text.starts_with("[json.") && label != std::string::npos)
    text = text.substr(label + 2);
  if (const auto place = text.find(": ");
      text.starts_with("parse error") && place != std::string::npos)
    text = text.substr(place + 2);
  return shortened(std::move(text), kMaxMessage);
}

const Json& member(const Json& object, const char* key) {
  if (!object.is_object())
    throw ParseError("expected an object with '" + std::string(key) + "', found " +
                     found_text(object));
  const auto found = object.find(key);
  if (found == object.end()) throw ParseError("'" + std::string(key) + "' is missing");
  return *found;
}

const Json& list_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_array()) wrong("'" + std::string(key) + "'", "a list", value);
  return value;
}

std::string text_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) wrong("'" + std::string(key) + "'", "a text", value);
  return value.get<std::string>();
}
std::string text_member(const Json& object, const char* key, const std::string& if_absent) {
  return object.is_object() && !object.contains(key) ? if_absent : text_member(object, key);
}

std::int64_t integer(const Json& value, const char* what) {
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT64_MAX
                                               : value.is_number_integer();
  if (!fits) wrong(what, "an integer", value);
  return value.get<std::int64_t>();
}
std::int64_t integer_member(const Json& object, const char* key) {
  return integer(member(object, key), ("'" + std::string(key) + "'").c_str());
}

int count_member(const Json& object, const char* key, std::size_t limit) {
  const std::int64_t count = integer_member(object, key);
  if (count >= 0 && static_cast<std::uint64_t>(count) <= limit) return static_cast<int>(count);
  throw ParseError("'" + std::string(key) + "' must be from 0 to " + std::to_string(limit) +
                   ", found " + std::to_string(count));
}

bool bool_member(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_boolean()) wrong("'" + std::string(key) + "'", "true or false", value);
  return value.get<bool>();
}

Shape shape_member(const Json& object, const char* key) {
  Shape shape;
  std::int64_t left = kMaxBytes;
  for (const Json& size : list_member(object, key)) {
    const std::int64_t n = integer(size, "a size");
    if (n < 0) throw ParseError("a size must not be negative, found " + std::to_string(n));
    left /= std::max<std::int64_t>(n, 1);
    if (left == 0)
      throw ParseError("an array of shape " + found_text(member(object, key)) + " is too large");
    shape.push_back(n);
  }
  return shape;
}

DType dtype_member(const Json& object, const char* key) {
  const std::string name = text_member(object, key);
  const auto dtype = dtype_from_name(name);
  if (!dtype) throw ParseError("unknown dtype '" + name + "'");
  return *dtype;
}

Aval aval_from_json(const Json& json) {
  return {shape_member(json, "shape"), dtype_member(json, "dtype"), false};
}

// ---- files --------------------------------------------------------------------------------------

void check_is_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw ValueError("'" + path + "' is a directory; a file is expected");
  if (!std::ifstream(path, std::ios::binary))
    throw ValueError("cannot open '" + path + "': " + std::strerror(errno));
}

Json parse_json(std::string_view text, const std::string& path, std::size_t first_line) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    throw ParseError("'" + path + "' is empty; a JSON object is expected");
  if (depth_of(text) > kMaxDepth) throw ParseError("'" + path + "' is nested too deeply");
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    const auto until = text.substr(0, std::min<std::size_t>(e.byte, text.size()));
    const auto before = until.substr(0, until.empty() ? 0 : until.size() - 1);
    const auto line =
        first_line + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    const auto newline = before.rfind('\n');
    const auto column =
        newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
    throw ParseError("'" + path + "', line " + std::to_string(line) + ", column " +
                     std::to_string(column + 1) + ": not valid JSON: " + plain_message(e));
  }
}

Json parse_json_file(const std::string& path) {
  check_is_file(path);
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return parse_json(text.str(), path);
}

void check_format(const Json& file, std::initializer_list<const char*> formats) {
  if (!file.is_object())
    throw ParseError("expected an object of format '" + std::string(*formats.begin()) +
                     "', found " + found_text(file));
  const std::string format = text_member(file, "format", *formats.begin());
  std::string known;
  for (const char* f : formats) {
    if (format == f) return;
    known += (known.empty() ? "'" : " or '") + std::string(f) + "'";
  }
  throw ParseError(
      "the format is '" + format + "', but " + known +
      " is what can be read here; write the file again with the tools/jax_export.py of "
      "this version");
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
