// An image becomes code: its fixups are filled in.
#include "compiler/native_loader.hpp"

#include <dlfcn.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "compiler/host_calls.hpp"
#include "compiler/native_image.hpp"
#include "compiler/perf_map.hpp"
#include "runtime/math/vector_math.hpp"
#include "runtime/native_forms.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

NativeCode::~NativeCode() = default;

namespace {

/// What generated code may call.
class Symbols {
 public:
  static Symbols& get() {
    static auto* symbols = new Symbols;  // leaked: code runs until the very end of the process
    return *symbols;
  }

  void define(const std::string& symbol, void* address) {
    const std::lock_guard lock(mutex_);
    addresses_.emplace(symbol, address);
  }

  void* find(const std::string& symbol) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = addresses_.find(symbol); found != addresses_.end())
        return found->second;
    }
    return dlsym(RTLD_DEFAULT, symbol.c_str());  // what code generation itself calls: memcpy, fmod
  }

 private:
  Symbols() {
    addresses_.emplace("telamon_jit_parallel", reinterpret_cast<void*>(&parallel_kernel));
    addresses_.emplace("telamon_jit_host_call", reinterpret_cast<void*>(&host_call));
    addresses_.emplace("telamon_jit_mark_step", reinterpret_cast<void*>(&mark_step_of_profile));
    for (const runtime::NamedFunction& f : runtime::native_functions()) {
      addresses_.emplace(f.symbol, reinterpret_cast<void*>(f.function));
    }
    for (const math::MathFunction& f : math::math_functions()) {
      for (const auto* entries : {f.f32, f.f64}) {
        for (int isa = 0; isa < runtime::kNumIsas; ++isa) {
          if (entries[isa].address != nullptr)
            addresses_.emplace(entries[isa].symbol, entries[isa].address);
        }
      }
    }
  }

  std::mutex mutex_;
  std::unordered_map<std::string, void*> addresses_;
};

class LoadedCode final : public NativeCode {
 public:
  LoadedCode(runtime::Pages pages, std::int64_t entry) : pages_(std::move(pages)) {
    entry_ = pages_.begin() + entry;
  }

 private:
  runtime::Pages pages_;
};

std::vector<std::uintptr_t> addresses_of(const std::vector<std::string_view>& symbols) {
  std::vector<std::uintptr_t> addresses;
  for (const std::string_view symbol : symbols) {
    void* const address = Symbols::get().find(std::string(symbol));
    if (address == nullptr)
      throw InternalError("cannot load generated code: there is no function " +
                          std::string(symbol));
    addresses.push_back(reinterpret_cast<std::uintptr_t>(address));
  }
  return addresses;
}

template <class Number>
void add_at(char* place, Number n) {
  Number old;
  std::memcpy(&old, place, sizeof old);
  n += old;
  std::memcpy(place, &n, sizeof n);
}

void fix(char* begin, const ImageFixup& fixup, const std::vector<std::uintptr_t>& functions) {
  char* const place = begin + fixup.at;
  const auto here = reinterpret_cast<std::uintptr_t>(place);
  switch (fixup.kind) {
    case ImageFixup::Kind::base: add_at(place, reinterpret_cast<std::uintptr_t>(begin)); break;
    case ImageFixup::Kind::function:
      std::memcpy(place, &functions[fixup.symbol], sizeof(std::uintptr_t));
      break;
    case ImageFixup::Kind::call: {
      const auto distance = static_cast<std::int64_t>(functions[fixup.symbol] - (here + 4));
      const auto near = static_cast<std::int32_t>(distance);
      if (near == distance) std::memcpy(place, &near, sizeof near);
      break;
    }
  }
}

}  // namespace

void define_symbol(const std::string& symbol, void* address) {
  Symbols::get().define(symbol, address);
}

std::shared_ptr<NativeCode> load_image(runtime::Pages pages, std::string_view bytes,
                                       std::string_view program) {
  const NativeImage image = image_of(bytes);
  const std::vector<std::uintptr_t> functions = addresses_of(image.symbols);
  for (const ImageFixup& fixup : image.fixups) fix(pages.begin(), fixup, functions);
  if (!pages.make_executable())
    throw InternalError("cannot load generated code: the system does not let it be run");
  if (perf_map_wanted()) name_code(program, image, pages.begin());
  return std::make_shared<LoadedCode>(std::move(pages), image.entry);
}

std::shared_ptr<NativeCode> load_image(std::string_view image, std::string_view program) {
  std::optional<runtime::Pages> pages = runtime::Pages::take(image.size());
  if (!pages) throw InternalError("cannot load generated code: there is no memory for it");
  std::memcpy(pages->begin(), image.data(), image.size());
  const std::string_view copied = pages->bytes();
  return load_image(std::move(*pages), copied, program);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
