// Building of error texts: call, message, call site, transformations under way.
#include "telamon/error.hpp"

#include <cctype>
#include <string_view>

#include "core/size_errors.hpp"
#include "core/trace.hpp"
#include "telamon/detail/function.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace {

/// Whether the text has the name as a word; not in its advice, which is behind a semicolon.
bool names(std::string_view text, std::string_view name) {
  text = text.substr(0, text.find(';'));
  const auto in_word = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (std::size_t at = 0; (at = text.find(name, at)) != text.npos; ++at)
    if (!in_word(at - 1) && !in_word(at + name.size())) return true;  // 0 - 1 is beyond the text
  return false;
}

std::string full_text(const std::string& message) {
  std::string text = message;
  if (const SourceLocation where = detail::error_site()) {
    // What is wrong may be found by a function that the called one is made of.
    if (where.call && !names(message, where.call)) text.insert(0, std::string(where.call) + ": ");
    text += "\n  at " + where.to_string();
  }
  if (const std::string transforms = detail::transforms_under_way(); !transforms.empty()) {
    text += "\n  while tracing " + transforms;
  }
  return text;
}

}  // namespace

Error::Error(const std::string& message)
    : std::runtime_error(full_text(message)), message_(message), where_(detail::error_site()) {}

// When the library is loaded. Leaked: arrays are made until the very end of the process.
static const auto* const spare_out_of_memory = new std::exception_ptr(
    std::make_exception_ptr(detail::UnnamedOutOfMemoryError("out of memory")));

namespace detail {

void throw_spare_out_of_memory() { std::rethrow_exception(*spare_out_of_memory); }

void name_lack_of_memory(const char* what) {
  rethrow_lack_of_memory([&] { return std::string(what); });
}

void null_function_error() {
  throw ValueError(
      "the function to transform is null: a null function pointer, or a std::function that is "
      "empty "
      "because nothing was put in or because it was moved from");
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  const std::string path(file);
  throw InternalError("internal error: " + message + " (invariant '" + condition + "' at " +
                      path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line) +
                      "); this is a fault of Telamon, please report it");
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
