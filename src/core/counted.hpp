// Numbers of things in messages.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// "1 argument", "2 arguments"; counted(2, "leaf", "leaves") is "2 leaves".
template <std::integral N>
std::string counted(N n, std::string_view one, std::string_view many = {}) {
  std::string text = std::to_string(n) + " ";
  if (n == 1 || many.empty()) text += one;
  else text += many;
  if (n != 1 && many.empty()) text += 's';
  return text;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
