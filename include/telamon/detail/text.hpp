// The text of parameter and static values, and its way back: numbers, strings, names and the
// brackets between them. The notation is Python's, as jaxprs print it: True, None, (1, 2), (1,),
// 'a'; JSON's spellings (true, null, [1, 2], "a") are read as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

TELAMON_API void append_integer(std::string& out, std::int64_t value);
TELAMON_API void append_integer(std::string& out, std::uint64_t value);
/// The shortest text that reads back as the same value, always with a point or an exponent.
TELAMON_API void append_float(std::string& out, double value);
TELAMON_API void append_float(std::string& out, float value);
/// 'text' with \n, \t, \\, \' and \xNN escapes.
TELAMON_API void append_quoted(std::string& out, std::string_view text);
/// The text with \n, \t and \xNN in place of control characters: it is part of one line.
TELAMON_API std::string one_line(std::string_view text);
/// The name of a C++ type, demangled.
TELAMON_API std::string type_name(const char* mangled);

/// A cursor over such a text. Every read skips blanks first; every failure is a ParseError that
/// quotes the text and the position.
class TELAMON_API TextReader {
 public:
  /// `name` says in errors whose text it is.
  explicit TextReader(std::string_view text, std::string_view name = {})
      : text_(text), name_(name) {}

  bool accept(char c);  ///< consumes `c` if it is next
  void expect(char c);  ///< consumes `c` or fails
  bool accept_word(std::string_view word);
  bool next_is(char c);
  bool at_end();
  void expect_end();

  bool read_bool();
  std::int64_t read_signed(std::int64_t min, std::int64_t max);
  std::uint64_t read_unsigned(std::uint64_t max);
  /// float or double
  template <class T> T read_floating();
  std::string read_string();         ///< quoted, or a bare word
  std::string_view read_balanced();  ///< the raw text of one value with its brackets
  bool accept_none() { return accept_word("None") || accept_word("null"); }

  /// Reads the opening `(` or `[` of a sequence and returns the bracket that will close it.
  char open_sequence();
  /// True while another element follows; consumes separators and, at the end, the closing bracket.
  bool next_element(char close, bool first);

  [[noreturn]] void fail(const std::string& what) const;

 private:
  void skip_blanks();
  std::string_view number_token();
  std::string_view text_, name_;
  std::size_t pos_ = 0;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
