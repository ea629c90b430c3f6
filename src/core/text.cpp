// Text of numbers and strings, and the cursor that reads them back.
#include "telamon/detail/text.hpp"

#include <cxxabi.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <system_error>

#include "core/decimal.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

template <class T>
void append_number(std::string& out, T value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  out.append(buffer.data(), end);
}

template <class T>
void append_floating(std::string& out, T value) {
  if (std::isnan(value)) {
    out += "nan";
    return;
  }
  const std::size_t begin = out.size();
  append_number(out, value);  // "inf" and "-inf" come out as such
  if (std::isfinite(value) && out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Control characters by their escapes.
void append_visible(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '\n') out += "\\n";
  else if (c == '\t') out += "\\t";
  else if (byte < 0x20 || byte == 0x7f) ((out += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
  else out += c;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void append_integer(std::string& out, std::int64_t value) { append_number(out, value); }
void append_integer(std::string& out, std::uint64_t value) { append_number(out, value); }
void append_float(std::string& out, double value) { append_floating(out, value); }
void append_float(std::string& out, float value) { append_floating(out, value); }

void append_quoted(std::string& out, std::string_view text) {
  out += '\'';
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    append_visible(out, c);
  }
  out += '\'';
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) append_visible(out, c);
  return out;
}

std::string type_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return status == 0 ? name.get() : mangled;
}

void TextReader::skip_blanks() {
  while (pos_ < text_.size() && is_blank(text_[pos_])) ++pos_;
}

void TextReader::fail(const std::string& what) const {
  std::string message = "cannot read ";
  message += name_.empty() ? "value" : "parameter '" + std::string(name_) + "'";
  message += " from `" + std::string(text_) + "`: " + what + " (at character " +
             std::to_string(pos_) + ")";
  throw ParseError(message);
}

bool TextReader::next_is(char c) {
  skip_blanks();
  return pos_ < text_.size() && text_[pos_] == c;
}

bool TextReader::accept(char c) {
  if (!next_is(c)) return false;
  ++pos_;
  return true;
}

void TextReader::expect(char c) {
  if (!accept(c)) fail(std::string("expected '") + c + "'");
}

bool TextReader::accept_word(std::string_view word) {
  skip_blanks();
  if (text_.substr(pos_, word.size()) != word) return false;
  const std::size_t end = pos_ + word.size();
  if (end < text_.size() && is_word_char(text_[end])) return false;
  pos_ = end;
  return true;
}

bool TextReader::at_end() {
  skip_blanks();
  return pos_ == text_.size();
}

void TextReader::expect_end() {
  if (!at_end()) fail("unexpected text after the value");
}

bool TextReader::read_bool() {
  if (accept_word("True") || accept_word("true") || accept_word("1")) return true;
  if (accept_word("False") || accept_word("false") || accept_word("0")) return false;
  fail("expected True or False");
}

std::string_view TextReader::number_token() {
  skip_blanks();
  std::size_t end = pos_;
  while (end < text_.size() &&
         (is_word_char(text_[end]) || text_[end] == '.' || text_[end] == '+' || text_[end] == '-'))
    ++end;
  return text_.substr(pos_, end - pos_);
}

std::int64_t TextReader::read_signed(std::int64_t min, std::int64_t max) {
  const std::string_view token = number_token();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error == std::errc::invalid_argument || end != token.data() + token.size())
    fail("expected an integer");
  if (error != std::errc() || value < min || value > max) fail("integer out of range");
  pos_ += token.size();
  return value;
}

std::uint64_t TextReader::read_unsigned(std::uint64_t max) {
  const std::string_view token = number_token();
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error == std::errc::invalid_argument || end != token.data() + token.size())
    fail("expected a non-negative integer");
  if (error != std::errc() || value > max) fail("integer out of range");
  pos_ += token.size();
  return value;
}

namespace {

template <class T>
bool parse_floating(std::string_view token, T& value) {
  const bool negative = !token.empty() && token.front() == '-';
  const std::string_view digits = token.substr(negative ? 1 : 0);
  if (digits == "nan" || digits == "NaN") value = std::numeric_limits<T>::quiet_NaN();
  else if (digits == "inf" || digits == "Infinity") value = std::numeric_limits<T>::infinity();
  else if (!read_decimal(digits, value)) return false;
  if (negative) value = -value;
  return true;
}

}  // namespace

template <class T>
T TextReader::read_floating() {
  T value = 0;
  skip_blanks();
  if (next_is('"') || next_is('\'')) {  // JSON has no nan or inf, so files quote them
    if (!parse_floating(read_string(), value)) fail("expected a number");
    return value;
  }
  const std::string_view token = number_token();
  if (!parse_floating(token, value)) fail("expected a number");
  pos_ += token.size();
  return value;
}
template float TextReader::read_floating();
template double TextReader::read_floating();

std::string TextReader::read_string() {
  skip_blanks();
  std::string out;
  if (pos_ < text_.size() && (text_[pos_] == '\'' || text_[pos_] == '"')) {
    const char quote = text_[pos_++];
    while (true) {
      if (pos_ >= text_.size()) fail("unterminated string");
      char c = text_[pos_++];
      if (c == quote) return out;
      if (c == '\\') {
        if (pos_ >= text_.size()) fail("unterminated string");
        c = text_[pos_++];
        if (c == 'n') c = '\n';
        else if (c == 't') c = '\t';
        else if (c == 'x') {
          const int high = pos_ < text_.size() ? hex_digit(text_[pos_]) : -1;
          const int low = pos_ + 1 < text_.size() ? hex_digit(text_[pos_ + 1]) : -1;
          if (high < 0 || low < 0) fail("bad \\x escape");
          c = static_cast<char>(high * 16 + low);
          pos_ += 2;
        }
      }
      out += c;
    }
  }
  while (pos_ < text_.size() && is_word_char(text_[pos_])) out += text_[pos_++];
  if (out.empty()) fail("expected a name or a string");
  return out;
}

std::string_view TextReader::read_balanced() {
  skip_blanks();
  const std::size_t begin = pos_;
  int depth = 0;
  char quote = 0;
  for (; pos_ < text_.size(); ++pos_) {
    const char c = text_[pos_];
    if (quote) {
      if (c == '\\') ++pos_;
      else if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (depth == 0) break;
      if (--depth == 0) {
        ++pos_;
        return text_.substr(begin, pos_ - begin);
      }
    } else if (c == ',' && depth == 0) {
      break;
    }
  }
  if (depth || quote || pos_ == begin) fail("unbalanced brackets");
  return text_.substr(begin, pos_ - begin);
}

char TextReader::open_sequence() {
  if (accept('(')) return ')';
  if (accept('[')) return ']';
  fail("expected a sequence");
}

bool TextReader::next_element(char close, bool first) {
  if (accept(close)) return false;
  if (first) return true;
  if (!accept(',')) fail(std::string("expected ',' or '") + close + "'");
  return !accept(close);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
