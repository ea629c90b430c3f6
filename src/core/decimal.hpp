// Floating-point numbers as text: what std::from_chars reads, and what it refuses since it is out of range.
#pragma once

#include <charconv>
#include <clocale>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whether all of the text is a number, which goes to `value`. One that is out of range is nearer to infinity
/// or zero than to any other, which strtod says: that of the C locale, since others have decimal commas.
template <class F>
bool read_decimal(std::string_view text, F& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return false;
  if (error == std::errc::result_out_of_range) {
    static const locale_t c_locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
    value = static_cast<F>(::strtod_l(std::string(text).c_str(), nullptr, c_locale));
  }
  return true;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
