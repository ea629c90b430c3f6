// telamon info: what this build and this machine have.
#include <fmt/ranges.h>
#include <zlib.h>

#include <iostream>
#include <thread>

#include "commands.hpp"
#include "core/counted.hpp"
#include "core/environment.hpp"
#include "interop/json_program.hpp"
#include "runtime/array_memory.hpp"
#include "runtime/backend.hpp"
#include "runtime/cpu.hpp"
#include "runtime/disk_cache.hpp"
#include "runtime/thread_pool.hpp"
#include "telamon/telamon.hpp"

namespace telamon_tool {
namespace {

namespace rt = telamon::runtime;
using telamon::interop::Json;

std::string disk_cache_description() {
  const telamon::DiskCacheContents c = telamon::disk_cache_contents();
  if (c.folder.empty())
    return "switched off: TELAMON_CACHE_DIR is none, or neither it nor HOME is set";
  const std::string refusal = rt::disk_cache::refusal();
  return telamon::detail::counted(c.files, "program") + " in " + c.folder + ", at most " +
         size_text(c.bound) + (refusal.empty() ? "" : "; not used: " + refusal);
}

/// What TELAMON_DISABLE may name, and after it what it does name.
std::string optimisations() {
  const auto left_out = telamon::detail::environment_set("TELAMON_DISABLE");
  return fmt::format("{}{}{}",
                     fmt::join(telamon::detail::environment_words("TELAMON_DISABLE"), " "),
                     left_out.empty() ? "" : "; left out: ", fmt::join(left_out, " "));
}

void print_info() {
  const rt::Backend& backend = rt::find_backend();
  std::cout << "telamon " << TELAMON_VERSION_MAJOR << '.' << TELAMON_VERSION_MINOR << '.'
            << TELAMON_VERSION_PATCH << '\n'
            << "\nhost\n"
            << "  instruction set: " << rt::isa_name(rt::host_isa()) << " (the processor has "
            << rt::isa_name(rt::supported_isa()) << "), vectors of " << rt::vector_bytes()
            << " bytes\n"
            << "  threads: " << telamon::num_threads() << " (the processor has "
            << std::thread::hardware_concurrency() << ")\n"
            << "  memory: " << size_text(rt::memory_limit())
            << (rt::kGuardsArrays ? ", arrays guarded by pages" : "") << '\n'
            << "\nlibraries\n"
            << "  default backend: " << backend.name() << ", " << backend.description() << '\n'
            << "  fmt: " << FMT_VERSION / 10000 << '.' << FMT_VERSION / 100 % 100 << '.'
            << FMT_VERSION % 100 << '\n'
            << "  nlohmann-json: " << Json::meta().at("version").at("string").get<std::string>()
            << '\n'
            << "  zlib: " << zlibVersion() << '\n'
            << "\ncaches\n"
            << "  array memory kept for reuse: " << size_text(telamon::memory_stats().cached)
            << ", in use: " << size_text(telamon::memory_stats().in_use) << '\n'
            << "  compiled programs: kept by each jitted object, in memory\n"
            << "  on disk: " << disk_cache_description() << '\n'
            << "\noptimisations: " << optimisations() << '\n'
            << "\nprimitives: " << telamon::PrimitiveBase::all().size() << '\n';
}

}  // namespace

void add_info(CLI::App& app, int& code) {
  app.add_subcommand("info", "version, host features, libraries, caches")->callback([&code] {
    print_info();
    code = 0;
  });
}

}  // namespace telamon_tool
