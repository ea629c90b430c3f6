// The log and its settings.
#include "core/log.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include "core/environment.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

constinit std::atomic<std::uint32_t> log_levels{0};

namespace {

constexpr std::string_view kVariable = "TELAMON_LOG";
// In the order of Subsystem, and of LogLevel from `error` on.
constexpr std::array<std::string_view, 5> kSubsystems = {"compile", "jit", "cache", "memory",
                                                         "threads"};
constexpr std::array<std::string_view, 4> kLevels = {"error", "warn", "info", "debug"};

std::chrono::steady_clock::time_point start_time() {
  static const auto start = std::chrono::steady_clock::now();
  return start;
}

/// Off where there is no such level.
LogLevel level_of(std::string_view word) {
  const auto* const found = std::find(kLevels.begin(), kLevels.end(), word);
  return found == kLevels.end() ? LogLevel::off
                                : static_cast<LogLevel>(found - kLevels.begin() + 1);
}

// "compile=debug": the bits of the subsystems that the part before "=" names, set to the level.
std::uint32_t with_word(std::uint32_t levels, std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view who = trimmed(word.substr(0, equals));
  const auto ignore = [&](const std::string& why) { ignore_word(kVariable.data(), word, why); };
  if (equals == std::string_view::npos && level_of(who) != LogLevel::off) {
    ignore("it is a level, of all subsystems with all=" + std::string(who));
    return levels;
  }
  if (who.empty()) {
    ignore("it names no subsystem");
    return levels;
  }
  if (!environment_knows(kVariable.data(), who)) return levels;
  auto level = static_cast<std::uint32_t>(LogLevel::info);
  if (equals != std::string_view::npos) {
    level = static_cast<std::uint32_t>(level_of(trimmed(word.substr(equals + 1))));
    if (level == 0) {
      ignore("the levels are error, warn, info, debug");
      return levels;
    }
  }
  for (std::uint32_t i = 0; i < kSubsystems.size(); ++i) {
    if (who == kSubsystems[i] || who == "all")
      levels = (levels & ~(15u << (4 * i))) | level << (4 * i);
  }
  return levels;
}

struct StartAtLoad {
  StartAtLoad() {
    start_time();
    read_log_settings();
  }
} const start_at_load;

}  // namespace

void read_log_settings() {
  static auto* const mutex = new std::mutex;
  static auto* const read = new std::string;
  const char* value = std::getenv(kVariable.data());
  const std::string_view text = value == nullptr ? "" : value;
  const std::lock_guard lock(*mutex);
  if (text == *read) return;
  *read = text;
  std::uint32_t levels = 0;
  for (const std::string_view word : environment_list(kVariable.data()))
    levels = with_word(levels, word);
  log_levels.store(levels, std::memory_order_relaxed);
}

void write_log(Subsystem who, std::string_view line) {
  char head[64];
  const int length =
      std::snprintf(head, sizeof head, "[telamon %.0f %s] ", microseconds_since_start(),
                    kSubsystems[static_cast<std::size_t>(who)].data());
  std::string text(head, static_cast<std::size_t>(length));
  text += line;
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

double microseconds_since_start() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_time())
      .count();
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
