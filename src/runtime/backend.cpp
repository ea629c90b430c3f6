// Finds backends by name.
#include "runtime/backend.hpp"

#include <cstdlib>

#if TELAMON_WITH_LLVM
#include "compiler/compile.hpp"
#define TELAMON_HAS_COMPILER 1
#else
#define TELAMON_HAS_COMPILER 0
#endif

namespace telamon {
inline namespace v1 {
namespace runtime {

Executable::~Executable() = default;
void Executable::execute(std::span<const Array> inputs, const std::vector<bool>& donated,
                         Arrays& outputs, const char* call) const {
  outputs.assign(num_outputs_, Array());
  try {
    execute_into(inputs, donated, outputs, call);
  } catch (...) {
    outputs.clear();
    throw;
  }
}
Backend::~Backend() = default;

namespace {

std::string_view default_backend() {
  static const std::string name = [] {
    const char* wanted = std::getenv("TELAMON_BACKEND");
    if (wanted != nullptr && *wanted != '\0') return std::string(wanted);
    return std::string(TELAMON_HAS_COMPILER ? "llvm" : "interpret");
  }();
  return name;
}

}  // namespace

const Backend& find_backend(std::string_view name) {
  const bool is_default = name.empty();
  if (is_default) name = default_backend();
  if (name == "interpret") return interpret_backend();
#if TELAMON_HAS_COMPILER
  if (name == "llvm") return llvm_backend();
#endif
  throw ValueError("Unknown backend '" + std::string(name) + "'" +
                   (is_default ? " in the environment's TELAMON_BACKEND" : "") +
                   ": this build has interpret" + (TELAMON_HAS_COMPILER ? " and llvm" : ""));
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
