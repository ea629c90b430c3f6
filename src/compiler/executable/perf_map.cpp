// The format is that of tools/perf/Documentation/jit-interface.txt in Linux: START SIZE symbolname, in
// hexadecimal, a line per function.
#include "compiler/executable/perf_map.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#include "core/environment.hpp"
#include "core/side_file.hpp"
#include "telamon/detail/text.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// A blank would end the symbol for those who read words.
std::string symbol_of(std::string_view program) {
  std::string symbol = detail::one_line(program);
  std::replace(symbol.begin(), symbol.end(), ' ', '_');
  return symbol;
}

}  // namespace

bool perf_map_wanted() { return detail::environment_word("TELAMON_PERF_MAP") == "1"; }

void name_code(std::string_view program, const NativeImage& image, const char* begin) {
  const std::string symbol = symbol_of(program);
  std::string lines;
  for (const ImageFunction& f : image.functions) {
    lines += fmt::format("{:x} {:x} telamon:{}{}\n", reinterpret_cast<std::uintptr_t>(begin) + f.at,
                         f.bytes, symbol, f.at == image.entry ? "" : fmt::format(":{}", f.name));
  }
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  const std::string path = fmt::format("/tmp/perf-{}.map", getpid());
  if (const int error = detail::append_to_file(path, lines)) {
    detail::ignore_environment("TELAMON_PERF_MAP",
                               path + " cannot be written: " + std::strerror(error));
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
