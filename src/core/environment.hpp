// The environment variables of the library: lists of words, single words, numbers. What a variable
// holds and cannot mean is ignored, and said once on standard error together with what it may hold.
#pragma once

#include <climits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The words that the variable may hold: of TELAMON_LOG, TELAMON_DISABLE, TELAMON_ISA, ...
TELAMON_API std::span<const std::string_view> environment_words(std::string_view variable);

/// Whether the word is one of these; if not, standard error says once that it is ignored, and once which there are.
TELAMON_API bool environment_knows(const char* variable, std::string_view word);

/// The text without the blanks around it.
std::string_view trimmed(std::string_view text);

/// What stands between the commas of the variable's value, without the blanks around it. Valid until the variable is set anew.
TELAMON_API std::vector<std::string_view> environment_list(const char* variable);

/// The words that the variable lists and may hold: what it means, however it is written.
TELAMON_API std::set<std::string_view> environment_set(const char* variable);

/// Whether the variable lists the word: TELAMON_DISABLE=fuse,cse lists "cse". Read anew at each call.
TELAMON_API bool environment_lists(const char* variable, std::string_view word);

/// The word that the variable holds; "" if it is unset, or ignored since there is no such word.
TELAMON_API std::string environment_word(const char* variable);

/// The number from `least` to `most` that the variable holds, if it holds one.
TELAMON_API std::optional<int> environment_number(const char* variable, int least = 1,
                                                  int most = INT_MAX);

/// The path that a variable holds: a relative one counts from where the process was when the library first
/// asked for one, so that it stays the same folder for processes that go elsewhere, as daemons do.
TELAMON_API std::string environment_path(std::string_view path);

/// Says on standard error, once in this process, that the variable is ignored, and why:
///   telamon: TELAMON_NUM_THREADS=many is ignored: it takes a number from 1 to 1024
TELAMON_API void ignore_environment(const char* variable, const std::string& why);

/// The same of one word of a list:
///   telamon: TELAMON_LOG: 'compiler' is ignored: there is no such word
TELAMON_API void ignore_word(const char* variable, std::string_view word, const std::string& why);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
