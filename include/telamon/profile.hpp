// Profiles: where the time goes, from the trace of a function to each kernel of its executable.
//
//   { const tl::Profile p("trace.json"); step(params); }       // for ui.perfetto.dev, chrome://tracing
//   std::cout << tl::profile([&] { step(params); });           // a table
//   TELAMON_PROFILE=trace.json ./program                       // the whole process
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "telamon/config.hpp"
#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {

/// All spans of one kind: the runs of a kernel, the compilations of a function.
struct ProfileEntry {
  /// "trace", "compile", "pass", "run" (an executable), "kernel", "matmul", "call" (other C++
  /// functions), "loop", "memory" (copies and fills), "threads" (a thread's part of a loop), "eager".
  std::string category;
  std::string name;    ///< "step: exp_mul" is kernel exp_mul of the jitted function step
  std::string detail;  ///< its results and operands: "f32[64,10] <- f32[64,20], f32[20,10]"
  std::int64_t calls = 0;
  double microseconds = 0;  ///< in all, summed over threads
  double self = 0;          ///< of these, those outside the spans within it
};

struct TELAMON_API ProfileReport {
  std::vector<ProfileEntry> entries;  ///< those with the most time of their own first
  double microseconds = 0;            ///< from start to stop
  std::int64_t spans = 0;             ///< counted in `entries`
  std::int64_t omitted = 0;  ///< of these, those that the trace file does not show one by one
  /// A table, a line per entry.
  std::string to_string() const;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const ProfileReport& report);

/// Records while it lives. Executables that run meanwhile have a copy that tells when each of its
/// kernels begins and ends: their first run compiles it, so let one go before what is to be measured.
/// Without a profile nothing of this is in the code. Several may live at once.
///
/// The trace file holds at most 2,000 spans of a kind and 10^6 in all, and says what it omits; reports
/// count all.
class TELAMON_API Profile {
 public:
  /// `path`: the file to write when it ends; none when empty. ValueError when it cannot be written.
  explicit Profile(std::string path = {}, SourceLocation where = SourceLocation::current());
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  /// Ends it, and writes the file. Once; the destructor does it otherwise.
  ProfileReport stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Calls f once and says where its time went.
template <class F>
ProfileReport profile(F&& f, std::string path = {},
                      SourceLocation where = SourceLocation::current()) {
  Profile recording(std::move(path), where);
  std::invoke(f);
  return recording.stop();
}

}  // namespace v1
}  // namespace telamon
