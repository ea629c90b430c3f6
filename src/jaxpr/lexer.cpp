// Tokens of the text of a jaxpr.
#include "jaxpr/lexer.hpp"

#include <algorithm>

#include "telamon/detail/text.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::size_t end_of_word(std::string_view text, std::size_t pos) {
  while (pos < text.size() && (is_letter(text[pos]) || is_digit(text[pos]))) ++pos;
  return pos;
}

// Digits, a point and an exponent, after an optional sign; the sign may also go with nan and inf.
std::size_t end_of_number(std::string_view text, std::size_t pos) {
  if (text[pos] == '-' || text[pos] == '+') ++pos;
  if (pos < text.size() && is_letter(text[pos])) return end_of_word(text, pos);
  while (pos < text.size()) {
    const char c = text[pos];
    const bool exponent_sign =
        (c == '-' || c == '+') && (text[pos - 1] == 'e' || text[pos - 1] == 'E');
    if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !exponent_sign) break;
    ++pos;
  }
  return pos;
}

std::size_t end_of_string(std::string_view text, std::size_t pos) {
  const char quote = text[pos++];
  while (pos < text.size() && text[pos] != quote) pos += text[pos] == '\\' ? 2 : 1;
  return std::min(pos + 1, text.size());
}

}  // namespace

void Lexer::read() {
  bool starts_line = pos_ == 0;
  while (pos_ < text_.size() && is_blank(text_[pos_])) starts_line |= text_[pos_++] == '\n';
  next_ = {Token::Kind::end, {}, pos_, starts_line};
  if (pos_ == text_.size()) return;
  const char c = text_[pos_];
  std::size_t end = pos_ + 1;
  if (is_letter(c)) {
    next_.kind = Token::Kind::word;
    end = end_of_word(text_, pos_);
  } else if (is_digit(c) || c == '-' || c == '+') {
    next_.kind = Token::Kind::number;
    end = end_of_number(text_, pos_);
  } else if (c == '\'' || c == '"') {
    next_.kind = Token::Kind::string;
    end = end_of_string(text_, pos_);
  } else {
    next_.kind = Token::Kind::symbol;
  }
  next_.text = text_.substr(pos_, end - pos_);
  pos_ = end;
}

Token Lexer::take() {
  const Token token = next_;
  read();
  return token;
}

bool Lexer::accept(std::string_view text) {
  if (!next_.is(text)) return false;
  read();
  return true;
}

void Lexer::expect(std::string_view text) {
  if (!accept(text)) fail_expected("'" + std::string(text) + "'");
}

std::string_view Lexer::take_value() {
  const std::size_t begin = next_.begin;
  int depth = 0;
  pos_ = begin;
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (depth == 0 && (is_blank(c) || c == ']')) break;
    if (c == '\'' || c == '"') {
      pos_ = end_of_string(text_, pos_);
      continue;
    }
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    ++pos_;
  }
  if (pos_ == begin || depth != 0) fail_expected("the value of the parameter");
  const std::string_view value = text_.substr(begin, pos_ - begin);
  read();
  return value;
}

std::string Lexer::place_of(const Token& at) const {
  const std::string_view before = text_.substr(0, at.begin);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t column = at.begin - (before.find_last_of('\n') + 1) + 1;  // npos + 1 == 0
  return source_ + ", " + std::to_string(line) + ":" + std::to_string(column);
}

std::string_view Lexer::text_from(const Token& first) const {
  const std::string_view text = text_.substr(first.begin, next_.begin - first.begin);
  return text.substr(0, text.find_last_not_of(" \n\t\r") + 1);
}

// The line around this place, with a mark under it.
std::string Lexer::excerpt_at(std::size_t offset) const {
  constexpr std::size_t kBefore = 60, kAfter = 40;
  const std::size_t line = text_.substr(0, offset).find_last_of('\n') + 1;  // npos + 1 == 0
  const std::size_t begin = offset - line > kBefore ? offset - kBefore : line;
  std::string_view rest = text_.substr(offset, kAfter);
  rest = rest.substr(0, rest.find_first_of("\r\n"));
  if (begin == offset && rest.empty()) return {};
  // Control characters are written out, and what stands before the mark decides where it is.
  const std::string before = one_line(text_.substr(begin, offset - begin));
  return "\n  " + before + one_line(rest) + "\n  " + std::string(before.size(), ' ') + "^";
}

void Lexer::fail(const Token& at, const std::string& what) const {
  throw ParseError(place_of(at) + ": " + what + excerpt_at(at.begin));
}

void Lexer::fail_expected(const std::string& what) const {
  const std::string found =
      next_.kind == Token::Kind::end ? "the end of the text" : "'" + std::string(next_.text) + "'";
  fail(next_, "expected " + what + ", found " + found);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
