// telamon cache: what lies in the disk cache, and how to empty it.
#include <iostream>
#include <stdexcept>

#include "commands.hpp"
#include "core/counted.hpp"
#include "runtime/disk_cache.hpp"

namespace telamon_tool {
namespace {

namespace cache = telamon::runtime::disk_cache;

void print_contents() {
  const telamon::DiskCacheContents c = telamon::disk_cache_contents();
  if (c.folder.empty()) {
    std::cout << "the disk cache is switched off: TELAMON_CACHE_DIR is none, or neither it nor "
                 "HOME is set\n";
    return;
  }
  std::cout << c.folder << "\n  programs: " << c.files << ", " << size_text(c.bytes)
            << " of at most " << size_text(c.bound) << " of the disk\n";
  if (const std::string why = cache::refusal(); !why.empty())
    std::cout << "  not used: " << why << '\n';
}

}  // namespace

void add_cache(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("cache", "compiled programs on disk");
  command->require_subcommand(1);
  command->add_subcommand("info", "where they lie and how many there are")->callback([&code] {
    print_contents();
    code = 0;
  });
  command->add_subcommand("clear", "removes them all")->callback([&code] {
    const cache::Cleared cleared = cache::clear();
    std::cout << "removed " << telamon::detail::counted(cleared.removed, "program") << '\n';
    if (!cleared.failure.empty()) throw std::runtime_error(cleared.failure);
    code = 0;
  });
}

}  // namespace telamon_tool
