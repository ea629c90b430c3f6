// The format is that of tools/perf/Documentation/jit-interface.txt in Linux: START SIZE symbolname, in
// hexadecimal, a line per function.
#include "compiler/executable/perf_map.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "core/environment.hpp"
#include "core/process_mutex.hpp"
#include "core/side_file.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
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
  if (begun_by != self) {  // what is there is of a process that had its number before
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) error = errno;
    else begun_by = self;
  }
  if (error == 0) error = detail::append_to_file(path, lines);
  if (error != 0) {
    detail::ignore_environment("TELAMON_PERF_MAP",
                               path + " cannot be written: " + std::strerror(error));
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
