// The log: what the library does, a line at a time, to standard error.
//
//   TELAMON_LOG=compile,memory=debug     subsystems, each with the least level to show ("info" unless
//                                        said; all=LEVEL stands for every subsystem)
//   [telamon 10432 compile] step  fuse  105.2 us
//
// The number counts microseconds from the start of the process. A line is one write, whichever
// threads speak. Where nothing is asked for, a log statement is one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Who speaks: passes and programs, traces and misses of jit, executables found again, the
/// allocator, the pool.
enum class Subsystem : std::uint8_t { compile, jit, cache, memory, threads };
/// `error` is what does not work, `warn` what users should change, `info` happens once per program or library, `debug` more often.
enum class LogLevel : std::uint8_t { off, error, warn, info, debug };

/// Four bits for each subsystem: the level up to which it speaks.
TELAMON_API extern std::atomic<std::uint32_t> log_levels;

inline bool logs(Subsystem who, LogLevel level) {
  const std::uint32_t all = log_levels.load(std::memory_order_relaxed);
  return ((all >> (4 * static_cast<unsigned>(who))) & 15u) >= static_cast<unsigned>(level);
}

/// Reads TELAMON_LOG again where it has changed. Traces and compilations begin with it.
TELAMON_API void read_log_settings();

/// Writes the line, without asking whether it is wanted.
TELAMON_API void write_log(Subsystem who, std::string_view line);

/// Writes text(), which is called only where somebody reads it:
///   log(Subsystem::cache, LogLevel::info, [&] { return "stored " + name; });
template <class Text>
void log(Subsystem who, LogLevel level, Text&& text) {
  if (logs(who, level)) [[unlikely]]
    write_log(who, text());
}

/// Microseconds since the library was loaded: the clock of the log and of profiles.
TELAMON_API double microseconds_since_start();

}  // namespace detail
}  // namespace v1
}  // namespace telamon
