// Loads OpenBLAS: at the first large matrix product, since opening it costs 5 ms.
#include "runtime/blas.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "core/environment.hpp"
#include "core/log.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

void* open_library() {
  const char* wanted = std::getenv("TELAMON_BLAS");
  if (wanted != nullptr && *wanted != '\0') {
    if (std::string_view(wanted) == "none") return nullptr;
    if (void* library = dlopen(wanted, RTLD_NOW | RTLD_LOCAL)) return library;
    detail::ignore_environment("TELAMON_BLAS", dlerror());
  }
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

// The file of an opened library that has sgemm_.
std::string file_of(void* opened) {
  Dl_info info{};
  void* const symbol = dlsym(opened, "sgemm_");
  return symbol != nullptr && dladdr(symbol, &info) != 0 ? info.dli_fname : "a library";
}

void* library() {
  static void* const handle = [] {
    const double start = detail::microseconds_since_start();
    void* opened = open_library();
    detail::log(detail::Subsystem::blas, detail::LogLevel::info, [&] {
      const double us = detail::microseconds_since_start() - start;
      return opened == nullptr
                 ? std::string("no BLAS library: own loops only")
                 : file_of(opened) + " loaded in " + std::to_string(static_cast<int>(us)) + " us";
    });
    if (opened != nullptr) {
      if (void* set = dlsym(opened, "openblas_set_num_threads")) {
        reinterpret_cast<void (*)(int)>(set)(1);
      }
    }
    return opened;
  }();
  return handle;
}

}  // namespace

void* blas_symbol(const char* name) {
  void* const handle = library();
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

const Blas& blas() {
  static const Blas functions{reinterpret_cast<Sgemm>(blas_symbol("sgemm_")),
                              reinterpret_cast<Dgemm>(blas_symbol("dgemm_"))};
  return functions;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
