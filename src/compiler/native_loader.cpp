// JITLink with a context of our own. An ORC session would add a table of symbols and half a
// millisecond at the start of a process; objects of ours need neither: each has one entry point.
#include "compiler/native_loader.hpp"

#include <dlfcn.h>
#if defined(__x86_64__) && defined(__ELF__)
#include <llvm/ExecutionEngine/JITLink/ELF_x86_64.h>
#else
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#endif
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "compiler/host_calls.hpp"
#include "compiler/perf_map.hpp"
#include "runtime/math/vector_math.hpp"
#include "runtime/native_forms.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

NativeCode::~NativeCode() = default;

namespace {

namespace jitlink = llvm::jitlink;

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

jitlink::InProcessMemoryManager& memory() {
  static auto* manager =
      llvm::cantFail(jitlink::InProcessMemoryManager::Create()).release();  // leaked, as above
  return *manager;
}

class LinkedCode final : public NativeCode {
 public:
  LinkedCode() = default;
  LinkedCode(const LinkedCode&) = delete;
  LinkedCode& operator=(const LinkedCode&) = delete;
  ~LinkedCode() override {
    if (memory_.empty()) return;
    if (auto error = memory().deallocate(std::move(memory_))) llvm::consumeError(std::move(error));
  }
  void add(jitlink::JITLinkMemoryManager::FinalizedAlloc memory) {
    memory_.push_back(std::move(memory));
  }
  void set_entry(void* entry) { entry_ = entry; }

 private:
  std::vector<jitlink::JITLinkMemoryManager::FinalizedAlloc> memory_;
};

struct Linked {
  jitlink::JITLinkMemoryManager::FinalizedAlloc memory;
  std::unordered_map<std::string, void*> functions;  // that this object and those before it define
  std::string error;
};

/// Everything happens in the calling thread, before jitlink::link returns.
class LinkContext final : public jitlink::JITLinkContext {
 public:
  explicit LinkContext(Linked& result) : JITLinkContext(nullptr), result_(result) {}

  jitlink::JITLinkMemoryManager& getMemoryManager() override { return memory(); }

  void notifyFailed(llvm::Error error) override {
    result_.error = llvm::toString(std::move(error));
  }

  void lookup(const LookupMap& symbols,
              std::unique_ptr<jitlink::JITLinkAsyncLookupContinuation> next) override {
    jitlink::AsyncLookupResult found;
    for (const auto& symbol : symbols) {
      const auto own = result_.functions.find(symbol.first.str());
      void* address =
          own != result_.functions.end() ? own->second : Symbols::get().find(symbol.first.str());
      if (address == nullptr) {
        return next->run(llvm::make_error<llvm::StringError>(
            "there is no function " + symbol.first.str(), llvm::inconvertibleErrorCode()));
      }
      found[symbol.first] = {llvm::orc::ExecutorAddr::fromPtr(address),
                             llvm::JITSymbolFlags::Exported};
    }
    next->run(std::move(found));
  }

  llvm::Error notifyResolved(jitlink::LinkGraph& graph) override {
    for (const auto* symbol : graph.defined_symbols()) {
      if (symbol->hasName() && symbol->getScope() != jitlink::Scope::Local)
        result_.functions[symbol->getName().str()] = symbol->getAddress().toPtr<void*>();
    }
    return llvm::Error::success();
  }

  void notifyFinalized(jitlink::JITLinkMemoryManager::FinalizedAlloc memory) override {
    result_.memory = std::move(memory);
  }

 private:
  Linked& result_;
};

// By name, so that the linkers of all other formats and processors stay out of the library.
#if defined(__x86_64__) && defined(__ELF__)
constexpr auto kReadObject = &jitlink::createLinkGraphFromELFObject_x86_64;
constexpr auto kLink = &jitlink::link_ELF_x86_64;
#else
constexpr auto kReadObject =
    static_cast<llvm::Expected<std::unique_ptr<jitlink::LinkGraph> > (*)(llvm::MemoryBufferRef)>(
        &jitlink::createLinkGraphFromObject);
constexpr auto kLink = &jitlink::link;
#endif

constexpr std::string_view kSeveral = "telamon objects\n";

std::vector<std::string_view> split_objects(std::string_view all) {
  if (!all.starts_with(kSeveral)) return {all};
  all.remove_prefix(kSeveral.size());
  std::vector<std::string_view> objects;
  while (!all.empty()) {
    std::uint64_t size = 0;
    if (all.size() >= sizeof size) std::memcpy(&size, all.data(), sizeof size);
    if (all.size() < sizeof size || size > all.size() - sizeof size || size == 0)
      throw InternalError("cannot read generated code: an object is cut short");
    objects.push_back(all.substr(sizeof size, size));
    all.remove_prefix(sizeof size + size);
  }
  return objects;
}

}  // namespace

void define_symbol(const std::string& symbol, void* address) {
  Symbols::get().define(symbol, address);
}

// Each object after its size, unless there is only one.
std::string join_objects(std::vector<std::string> objects) {
  if (objects.size() == 1) return std::move(objects[0]);
  std::string all(kSeveral);
  for (const std::string& object : objects) {
    const std::uint64_t size = object.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size);
    all += object;
  }
  return all;
}

std::shared_ptr<NativeCode> load_object(std::string_view object, const std::string& entry,
                                        std::string_view program) {
  const std::vector<std::string_view> objects = split_objects(object);
  auto code = std::make_shared<LinkedCode>();
  Linked linked;
  for (std::size_t i = objects.size(); i-- > 0;) {  // the first one calls the others
    auto graph =
        kReadObject(llvm::MemoryBufferRef({objects[i].data(), objects[i].size()}, "telamon"));
    if (!graph)
      throw InternalError("cannot read generated code: " + llvm::toString(graph.takeError()));
    kLink(std::move(*graph), std::make_unique<LinkContext>(linked));
    if (!linked.error.empty()) throw InternalError("cannot link generated code: " + linked.error);
    code->add(std::move(linked.memory));
  }
  const auto found = linked.functions.find(entry);
  if (found == linked.functions.end())
    throw InternalError("cannot link generated code: there is no entry point " + entry);
  code->set_entry(found->second);
  if (perf_map_wanted()) {
    for (const std::string_view part : objects) name_code(program, part, entry, linked.functions);
  }
  return code;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
