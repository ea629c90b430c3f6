// What the library has done so far: counters, and what is known of each compiled program. Tests use
// it ("this program is one kernel and was traced once"), and so may anyone who wonders about time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {

/// Counts since the start of the process (or the last reset), over all threads.
struct Counters {
  std::int64_t traces = 0;             ///< functions traced by jit
  std::int64_t lowerings = 0;          ///< jaxprs given to a backend
  std::int64_t compiles = 0;           ///< executables made
  std::int64_t cache_hits = 0;         ///< jit calls whose signature was known
  std::int64_t kernels = 0;            ///< kernels in all executables made
  std::int64_t executions = 0;         ///< executables run
  std::int64_t donations = 0;          ///< arrays whose memory became that of a result
  std::int64_t donations_skipped = 0;  ///< arrays in donated arguments that were left alone
  std::int64_t evictions = 0;  ///< programs that jit forgot, as a function had too many signatures
  /// Transformed programs and executables that a program forgot, as it had too many.
  std::int64_t memo_evictions = 0;
};
TELAMON_API Counters counters();
TELAMON_API void reset_counters();

struct PassTime {
  std::string name;
  double microseconds = 0;
};

/// What one compilation made.
struct ExecutableInfo {
  std::string name;                ///< of the jitted function
  std::string backend;             ///< "llvm", "interpret"
  int kernels = 0;                 ///< loops over arrays that were generated
  int library_calls = 0;           ///< calls of large matrix products and of C++ functions
  std::vector<std::string> steps;  ///< one line for each kernel and call, in order
  std::size_t arena_bytes = 0;     ///< memory for intermediate values
  std::vector<PassTime> passes;    ///< in order, with their times
  double microseconds() const {
    double total = 0;
    for (const PassTime& p : passes) total += p.microseconds;
    return total;
  }
};
/// The latest executables (at most 256 are remembered), oldest first.
TELAMON_API std::vector<ExecutableInfo> history();
/// The newest entry of the history; an empty one when there is none.
TELAMON_API ExecutableInfo last_executable();
TELAMON_API void clear_history();

}  // namespace v1
}  // namespace telamon
