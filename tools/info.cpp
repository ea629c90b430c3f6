// telamon info: what this build and this machine have.
#include <iostream>

#include "commands.hpp"
#include "runtime/allocator.hpp"
#include "runtime/backend.hpp"
#include "runtime/blas.hpp"
#include "runtime/cpu.hpp"
#include "runtime/thread_pool.hpp"
#include "telamon/telamon.hpp"

namespace telamon_tool {

void add_info(CLI::App& app, int& code) {
  app.add_subcommand("info", "version, host features, libraries")->callback([&code] {
    namespace tl = telamon;
    std::cout << "telamon " << TELAMON_VERSION_MAJOR << '.' << TELAMON_VERSION_MINOR << '.'
              << TELAMON_VERSION_PATCH << '\n'
              << "instruction set: " << tl::runtime::isa_name(tl::runtime::host_isa()) << '\n'
              << "default backend: " << tl::runtime::find_backend().name() << '\n'
              << "BLAS: " << (tl::runtime::blas() ? "found" : "none (own loops)") << '\n'
              << "threads: " << tl::runtime::num_threads() << '\n'
              << "memory cached: " << tl::runtime::allocator_stats().cached << " bytes\n"
              << "primitives: " << tl::PrimitiveBase::all().size() << '\n';
    code = 0;
  });
}

}  // namespace telamon_tool
