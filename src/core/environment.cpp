// What the library's environment variables may hold, and what is said when they hold something else.
#include "core/environment.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

// Each may be followed by "=" and a level: core/log.hpp.
constexpr std::string_view kLog[] = {"compile", "jit", "cache", "memory", "threads", "all"};
// Lowering is not among them: without it there is no program.
constexpr std::string_view kDisable[] = {"fold_constants",
                                         "simplify",
                                         "cse",
                                         "dce",
                                         "update_chains",
                                         "update_loops",
                                         "join_loops",
                                         "residuals",
                                         "loops",
                                         "fuse",
                                         "epilogues",
                                         "matmul",
                                         "join_parts",
                                         "fold_places",
                                         "parallel",
                                         "merge_siblings",
                                         "cells",
                                         "turned_rows",
                                         "in_place",
                                         "update_in_place",
                                         "reuse_memory",
                                         "place_in_results",
                                         "partial_reductions",
                                         "columns_first",
                                         "row_blocks",
                                         "transpose_tiles",
                                         "inline_kernels",
                                         "keep_in_registers",
                                         "moves",
                                         "carried_moves",
                                         "reorder",
                                         "batch_members",
                                         "short_axes",
                                         "merge_axes",
                                         "both_ways",
                                         "recompute",
                                         "streaming",
                                         "small_floats",
                                         "row_lookups",
                                         "flat_lookups",
                                         "wraps",
                                         "padded_sums",
                                         "row_updates",
                                         "row_groups",
                                         "chosen_sums",
                                         "tiles",
                                         "segments",
                                         "overlap_segments",
                                         "quick_segments",
                                         "input_tables",
                                         "loop_stages",
                                         "interleave",
                                         "divide_ahead",
                                         "load_columns",
                                         "short_rows",
                                         "defer_sums",
                                         "zero_signs",
                                         "mirrored_sums",
                                         "weave_columns",
                                         "compute_places",
                                         "schedule",
                                         "share_kernels",
                                         "entry_parts",
                                         "carry_tables",
                                         "native_kernels",
                                         "write_out_rows",
                                         "seams",
                                         "column_tiles",
                                         "accumulators",
                                         "count_trips",
                                         "next_tiles"};
constexpr std::string_view kIsa[] = {"generic", "avx2", "avx512"};
constexpr std::string_view kGuard[] = {"before", "behind"};
constexpr std::string_view kSwitch[] = {"0", "1"};

struct Variable {
  std::string_view name;
  std::span<const std::string_view> words;
};
constexpr Variable kVariables[] = {{"TELAMON_LOG", kLog},
                                   {"TELAMON_DISABLE", kDisable},
                                   {"TELAMON_ISA", kIsa},
                                   {"TELAMON_GUARD", kGuard},
                                   {"TELAMON_CHECK_LEAKS", kSwitch},
                                   {"TELAMON_CHECK_CONSTANTS", kSwitch},
                                   {"TELAMON_EXPLAIN_CACHE_MISSES", kSwitch},
                                   {"TELAMON_PERF_MAP", kSwitch},
                                   {"TELAMON_DEBUG_NANS", kSwitch}};

void complain_once(const std::string& text) {
  static auto* const mutex = new std::mutex;
  static auto* const said = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  if (said->insert(text).second) std::fprintf(stderr, "telamon: %s\n", text.c_str());
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool environment_knows(const char* variable, std::string_view word) {
  const auto words = environment_words(variable);
  if (std::find(words.begin(), words.end(), word) != words.end()) return true;
  std::string known;
  for (const std::string_view w : words) known += (known.empty() ? "" : ", ") + std::string(w);
  ignore_word(variable, word, "there is no such word");
  complain_once(std::string(variable) + " knows " + known);  // once for all words
  return false;
}

std::span<const std::string_view> environment_words(std::string_view variable) {
  for (const Variable& v : kVariables) {
    if (v.name == variable) return v.words;
  }
  return {};
}

std::vector<std::string_view> environment_list(const char* variable) {
  const char* text = std::getenv(variable);
  std::vector<std::string_view> words;
  for (std::string_view rest = text == nullptr ? "" : text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = trimmed(rest.substr(0, comma));
    if (!word.empty()) words.push_back(word);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return words;
}

std::set<std::string_view> environment_set(const char* variable) {
  std::set<std::string_view> known;
  for (const std::string_view word : environment_list(variable)) {
    if (environment_knows(variable, word)) known.insert(word);
  }
  return known;
}

bool environment_lists(const char* variable, std::string_view word) {
  return environment_set(variable).contains(word);
}

std::string environment_word(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' && environment_knows(variable, text) ? text : "";
}

std::optional<int> environment_number(const char* variable, int least, int most) {
  const char* value = std::getenv(variable);
  const std::string_view text = value == nullptr ? "" : value;
  if (text.empty()) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least && number <= most)
    return number;
  ignore_environment(variable, "it takes a whole number from " + std::to_string(least) + " to " +
                                   std::to_string(most));
  return std::nullopt;
}

std::string environment_path(std::string_view path) {
  static const auto* const start = [] {
    std::error_code gone;  // then paths stay as they are
    return new std::filesystem::path(std::filesystem::current_path(gone));
  }();
  return (*start / path).string();
}

void ignore_environment(const char* variable, const std::string& why) {
  const char* value = std::getenv(variable);
  complain_once(std::string(variable) + "=" + (value == nullptr ? "" : value) +
                " is ignored: " + why);
}

void ignore_word(const char* variable, std::string_view word, const std::string& why) {
  complain_once(std::string(variable) + ": '" + std::string(word) + "' is ignored: " + why);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
