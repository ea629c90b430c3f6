// The format is that of tools/perf/Documentation/jit-interface.txt in Linux: START SIZE symbolname, in
// hexadecimal, a line per function.
#include "compiler/executable/perf_map.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "core/environment.hpp"
#include "core/process_mutex.hpp"
#include "core/side_file.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// When this process began, in seconds since 1970; 0 where that cannot be known.
double began() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  text.erase(0, text.rfind(')') + 1);  // a name may hold anything
  std::istringstream fields(text);
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return 0;
  timespec now{}, up{};
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_BOOTTIME, &up);
  const auto seconds = [](const timespec& t) {
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  return seconds(now) - seconds(up) + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}
/// Removes what is left of a process that had this number before, or a link that somebody put there; not what another
/// runtime of this process has written.
int remove_stale(const std::string& path) {
  constexpr double kInexact = 1;  // seconds
  struct stat s{};
  if (::lstat(path.c_str(), &s) != 0) return errno == ENOENT ? 0 : errno;
  if (S_ISREG(s.st_mode) && static_cast<double>(s.st_mtim.tv_sec) + kInexact >= began()) return 0;
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? 0 : errno;
}

}  // namespace

bool perf_map_wanted() { return detail::environment_word("TELAMON_PERF_MAP") == "1"; }

void name_code(std::string_view program, const NativeImage& image, const char* begin) {
  const std::vector<std::string> names = names_of_functions(image, program);
  std::string lines;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ImageFunction& f = image.functions[i];
    lines += fmt::format("{:x} {:x} {}\n", reinterpret_cast<std::uintptr_t>(begin) + f.at, f.bytes,
                         names[i]);
  }
  static constinit detail::ProcessMutex mutex;
  static pid_t begun_by = 0;
  const std::lock_guard lock(mutex);
  const pid_t self = getpid();
  const std::string path = fmt::format("/tmp/perf-{}.map", self);
  int error = 0;
  if (begun_by != self) error = remove_stale(path);
  if (error == 0) begun_by = self;
  if (error == 0) error = detail::append_to_file(path, lines);
  if (error != 0) {
    detail::ignore_environment("TELAMON_PERF_MAP",
                               path + " cannot be written: " + std::strerror(error));
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
