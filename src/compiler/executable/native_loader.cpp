// An image becomes code: its fixups are filled in.
#include "compiler/executable/native_loader.hpp"

#include <dlfcn.h>

#include <cstring>
#include <unordered_map>
#include <vector>

#include "compiler/executable/debugger.hpp"
#include "compiler/executable/host_calls.hpp"
#include "compiler/executable/native_image.hpp"
#include "compiler/executable/perf_map.hpp"
#include "core/counted.hpp"
#include "core/size_errors.hpp"
#include "runtime/math/vector_math.hpp"
#include "runtime/native_forms.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

NativeCode::~NativeCode() = default;

namespace {

using Symbols = std::unordered_map<std::string_view, void*>;

/// What generated code may call of this library.
Symbols make_symbols() {
  Symbols symbols;
  symbols.emplace("telamon_jit_parallel", reinterpret_cast<void*>(&parallel_kernel));
  symbols.emplace("telamon_jit_host_call", reinterpret_cast<void*>(&host_call));
  symbols.emplace("telamon_jit_copy", reinterpret_cast<void*>(&copy_array));
  symbols.emplace("telamon_jit_mark_step", reinterpret_cast<void*>(&mark_step_of_profile));
  for (const runtime::NamedFunction& f : runtime::native_functions())
    symbols.emplace(f.symbol, reinterpret_cast<void*>(f.function));
  for (const math::MathFunction& f : math::math_functions()) {
    for (const auto* entries : {f.f32, f.f64}) {
      for (int isa = 0; isa < runtime::kNumIsas; ++isa) {
        if (entries[isa].address != nullptr)
          symbols.emplace(entries[isa].symbol, entries[isa].address);
      }
    }
  }
  return symbols;
}

void* find_symbol(std::string_view symbol) {
  static const auto* symbols = new Symbols(make_symbols());  // leaked: code runs until the very end
  if (const auto found = symbols->find(symbol); found != symbols->end()) return found->second;
  // What code generation itself calls: memcpy.
  return dlsym(RTLD_DEFAULT, std::string(symbol).c_str());
}

class LoadedCode final : public NativeCode {
 public:
  LoadedCode(runtime::Pages pages, const NativeImage& image, std::string_view program)
      : pages_(std::move(pages)), known_(program, image, pages_.begin()) {
    entry_ = pages_.begin() + image.entry;
  }

 private:
  runtime::Pages pages_;
  KnownCode known_;  // no longer than there is the code
};

std::vector<std::uintptr_t> addresses_of(const std::vector<std::string_view>& symbols) {
  std::vector<std::uintptr_t> addresses;
  for (const std::string_view symbol : symbols) {
    void* const address = find_symbol(symbol);
    if (address == nullptr)
      throw InternalError("cannot load generated code: there is no function " +
                          std::string(symbol));
    addresses.push_back(reinterpret_cast<std::uintptr_t>(address));
  }
  return addresses;
}

}  // namespace

std::shared_ptr<NativeCode> load_image(runtime::Pages pages, std::string_view bytes,
                                       std::string_view program) {
  const NativeImage image = image_of(bytes);
  apply_fixups(pages.begin(), image, addresses_of(image.symbols));
  if (!pages.make_executable())
    throw InternalError("cannot load generated code: the system does not let it be run");
  if (perf_map_wanted()) name_code(program, image, pages.begin());
  return std::make_shared<LoadedCode>(std::move(pages), image, program);
}

std::shared_ptr<NativeCode> load_image(std::string_view image, std::string_view program) {
  std::optional<runtime::Pages> pages = runtime::Pages::take(image.size());
  if (!pages)
    throw detail::UnnamedOutOfMemoryError(
        "out of memory for " + detail::counted(image.size(), "byte") + " of generated code");
  std::memcpy(pages->begin(), image.data(), image.size());
  const std::string_view copied = pages->bytes();
  return load_image(std::move(*pages), copied, program);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
