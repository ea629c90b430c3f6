// Tokens of the text of a jaxpr. Numbers keep their spelling: only the parser knows their dtype.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

struct Token {
  enum class Kind : std::uint8_t { word, number, string, symbol, end };
  Kind kind = Kind::end;
  std::string_view text;     ///< as written; strings with their quotes
  std::size_t begin = 0;     ///< offset in the whole text
  bool starts_line = false;  ///< the first token of its line

  bool is(std::string_view t) const { return kind != Kind::string && text == t; }
};

/// Reads tokens one by one, with one token of look-ahead.
class Lexer {
 public:
  /// Errors begin with `source`: where the text comes from.
  Lexer(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {
    read();
  }
  const Token& peek() const { return next_; }
  Token take();
  /// Consumes the next token if it is this symbol or word.
  bool accept(std::string_view text);
  /// The same, or a ParseError.
  void expect(std::string_view text);
  /// The text of a parameter's value: up to a blank or `]` outside brackets and quotes.
  std::string_view take_value();

  /// Where the token stands: "jaxpr text, 3:14".
  std::string place_of(const Token& at) const;
  /// The text from the token to the end of the one before the next, as it is written.
  std::string_view text_from(const Token& first) const;
  /// ParseError with line and column of the token, and under it the part of that line where it stands:
  ///   jaxpr text, 3:14: expected '=', found 'b'
  ///     let a:f64[] b
  ///                 ^
  [[noreturn]] void fail(const Token& at, const std::string& what) const;
  [[noreturn]] void fail_expected(const std::string& what) const;

 private:
  void read();
  std::string excerpt_at(std::size_t offset) const;
  std::string_view text_;
  std::string source_;
  std::size_t pos_ = 0;
  Token next_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
