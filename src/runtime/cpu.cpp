// Finds the host's instruction set.
#include "runtime/cpu.hpp"

#include <algorithm>
#include <array>
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

bool multiplies_bf16_pairs([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  static const bool supported = __builtin_cpu_supports("avx512bf16") != 0;
  return isa == Isa::avx512 && supported;
#else
  return false;
#endif
}

namespace {

std::optional<Isa> looked_at;

constexpr int kMostLevels = 4;

// Not sysconf(_SC_LEVEL3_CACHE_SIZE), which on some processors counts the caches of others, too.
std::array<std::int64_t, kMostLevels> read_cache_sizes() {
  std::array<std::int64_t, kMostLevels> sizes{};
  for (int index = 0;; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::ifstream of_level(folder + "level"), of_type(folder + "type"), of_size(folder + "size");
    int level = 0;
    std::string type;
    std::int64_t size = 0;
    char unit = 0;
    if (!(of_level >> level && of_type >> type && of_size >> size >> unit)) return sizes;
    if (type == "Instruction" || level < 1 || level > kMostLevels) continue;
    sizes[static_cast<std::size_t>(level - 1)] = size << (unit == 'M' ? 20 : 10);
  }
}
const std::array<std::int64_t, kMostLevels>& cache_sizes() {
  static const auto sizes = read_cache_sizes();
  return sizes;
}

}  // namespace

Isa target_isa() { return looked_at ? *looked_at : host_isa(); }
void generate_for(Isa isa) { looked_at = isa; }

std::int64_t data_cache_bytes(int level) {
  const bool known = level >= 1 && level <= kMostLevels;
  return known ? cache_sizes()[static_cast<std::size_t>(level - 1)] : 0;
}
std::int64_t last_cache_bytes() { return std::ranges::max(cache_sizes()); }

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
