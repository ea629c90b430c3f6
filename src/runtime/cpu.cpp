// Finds the host's instruction set.
#include "runtime/cpu.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "core/environment.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

std::string_view isa_name(Isa isa) {
  constexpr std::string_view kNames[kNumIsas] = {"generic", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

Isa supported_isa() {
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks the operating system whether it saves the wide registers.
  static const Isa isa = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::generic;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    return avx512 ? Isa::avx512 : Isa::avx2;
  }();
  return isa;
#else
  return Isa::generic;
#endif
}

Isa host_isa() {
  static const Isa isa = [] {
    const Isa supported = supported_isa();
    const std::string wanted = detail::environment_word("TELAMON_ISA");
    if (wanted.empty()) return supported;
    for (int i = 0; i <= static_cast<int>(supported); ++i) {
      if (isa_name(static_cast<Isa>(i)) == wanted) return static_cast<Isa>(i);
    }
    detail::ignore_environment("TELAMON_ISA",
                               "this processor has " + std::string(isa_name(supported)) + " only");
    return supported;
  }();
  return isa;
}

namespace {
std::optional<Isa> looked_at;
}  // namespace

Isa target_isa() { return looked_at ? *looked_at : host_isa(); }
void generate_for(Isa isa) { looked_at = isa; }

std::int64_t last_cache_bytes() {
  // Not sysconf(_SC_LEVEL3_CACHE_SIZE), which on some processors counts the caches of others, too.
  static const std::int64_t bytes = [] {
    std::int64_t most = 0;
    for (int level = 0;; ++level) {
      std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) +
                         "/size");
      std::int64_t size = 0;
      char unit = 0;
      if (!(file >> size >> unit)) return most;
      most = std::max(most, size << (unit == 'M' ? 20 : 10));
    }
  }();
  return bytes;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
