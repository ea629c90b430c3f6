// The format is that of tools/perf/Documentation/jit-interface.txt in Linux: START SIZE symbolname, in
// hexadecimal, a line per function.
#include "compiler/perf_map.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

#include "core/environment.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
bool perf_map_wanted() { return detail::environment_word("TELAMON_PERF_MAP") == "1"; }

void name_code(std::string_view program, const NativeImage& image, const char* begin) {
  std::string lines;
  for (const ImageFunction& f : image.functions) {
    lines += fmt::format("{:x} {:x} telamon:{}{}\n", reinterpret_cast<std::uintptr_t>(begin) + f.at,
                         f.bytes, program, f.at == image.entry ? "" : fmt::format(":{}", f.name));
  }
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  const std::string path = fmt::format("/tmp/perf-{}.map", getpid());
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    std::fwrite(lines.data(), 1, lines.size(), file);
    std::fclose(file);
  } else {
    detail::ignore_environment("TELAMON_PERF_MAP", path + " cannot be written");
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
