// JITLink with a context of our own. An ORC session would add a table of symbols and half a
// millisecond at the start of a process; objects of ours need neither: each has one entry point.
#include "compiler/native_loader.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__) && defined(__ELF__)
#include <llvm/ExecutionEngine/JITLink/ELF_x86_64.h>
#else
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#endif
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include <algorithm>
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

/// Memory for the code of one program: filled first, then run. All its objects lie in one mapping, whose
/// pages come with it: a mapping for each of them, and a fault for each page, takes as long as the linking.
class CodeMemory {
 public:
  CodeMemory() = default;
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  ~CodeMemory() {
    for (const Mapping& m : mappings_) ::munmap(m.begin, m.size);
  }
  /// About as many bytes will be wanted in all.
  void expect(std::size_t bytes) { expected_ = bytes; }
  /// Zeros; null when there is no memory. What may be written to while the program runs lies apart.
  char* take(std::size_t bytes, std::size_t align, bool writable) {
    for (Mapping& m : mappings_) {
      const std::size_t at = (m.used + align - 1) / align * align;
      if (m.writable != writable || at + bytes > m.size) continue;
      m.used = at + bytes;
      return m.begin + at;
    }
    if (!map(writable ? bytes : std::max(bytes, expected_), writable)) return nullptr;
    mappings_.back().used = bytes;
    return mappings_.back().begin;
  }
  /// From now on the code can be run, and no longer be written to.
  bool seal() {
    for (Mapping& m : mappings_) {
      const std::size_t used = whole_pages(m.used);
      if (used < m.size) ::munmap(m.begin + used, m.size - used);
      m.size = used;
      if (m.writable) continue;
      if (::mprotect(m.begin, m.size, PROT_READ | PROT_EXEC) != 0) return false;
      __builtin___clear_cache(m.begin, m.begin + m.size);
    }
    return true;
  }

 private:
  struct Mapping {
    char* begin;
    std::size_t size, used;
    bool writable;
  };
  static std::size_t whole_pages(std::size_t bytes) {
    static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return std::max<std::size_t>((bytes + page - 1) / page, 1) * page;
  }
  bool map(std::size_t bytes, bool writable) {
#if defined(MAP_POPULATE)
    constexpr int kPages = MAP_POPULATE;
#else
    constexpr int kPages = 0;
#endif
    const std::size_t size = whole_pages(bytes);
    void* const begin =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kPages, -1, 0);
    if (begin == MAP_FAILED) return false;
    mappings_.push_back({static_cast<char*>(begin), size, 0, writable});
    return true;
  }

  std::size_t expected_ = 0;
  std::vector<Mapping> mappings_;
};

class LinkedCode final : public NativeCode {
 public:
  CodeMemory& memory() { return memory_; }
  void set_entry(void* entry) { entry_ = entry; }

 private:
  CodeMemory memory_;
};

/// What the linker knows of that memory: it is given back with the program, never by object.
class MemoryManager final : public jitlink::JITLinkMemoryManager {
 public:
  explicit MemoryManager(CodeMemory& memory) : memory_(memory) {}

  void allocate(const jitlink::JITLinkDylib*, jitlink::LinkGraph& graph,
                OnAllocatedFunction next) override {
    jitlink::BasicLayout layout(graph);
    for (auto& [group, segment] : layout.segments()) {
      const bool writable = is_writable(group.getMemProt());
      segment.WorkingMem = memory_.take(segment.ContentSize + segment.ZeroFillSize,
                                        segment.Alignment.value(), writable);
      if (segment.WorkingMem == nullptr)
        return next(llvm::make_error<llvm::StringError>("there is no memory for it",
                                                        llvm::inconvertibleErrorCode()));
      segment.Addr = llvm::orc::ExecutorAddr::fromPtr(segment.WorkingMem);
    }
    if (auto error = layout.apply()) return next(std::move(error));
    next(std::make_unique<Filled>());
  }
  void deallocate(std::vector<FinalizedAlloc> parts, OnDeallocatedFunction done) override {
    for (FinalizedAlloc& part : parts) part.release();
    done(llvm::Error::success());
  }

 private:
  struct Filled final : InFlightAlloc {
    void abandon(OnAbandonedFunction done) override { done(llvm::Error::success()); }
    void finalize(OnFinalizedFunction done) override {
      done(FinalizedAlloc(llvm::orc::ExecutorAddr()));
    }
  };
  static bool is_writable(llvm::orc::MemProt protection) {
    return (static_cast<int>(protection) & static_cast<int>(llvm::orc::MemProt::Write)) != 0;
  }
  CodeMemory& memory_;
};

struct Linked {
  std::unordered_map<std::string, void*> functions;  // that this object and those before it define
  std::string error;
};

/// Everything happens in the calling thread, before jitlink::link returns.
class LinkContext final : public jitlink::JITLinkContext {
 public:
  LinkContext(Linked& result, CodeMemory& memory)
      : JITLinkContext(nullptr), result_(result), memory_(memory) {}

  jitlink::JITLinkMemoryManager& getMemoryManager() override { return memory_; }

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
    memory.release();
  }

 private:
  Linked& result_;
  MemoryManager memory_;
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
  code->memory().expect(object.size());
  Linked linked;
  for (std::size_t i = objects.size(); i-- > 0;) {  // the first one calls the others
    auto graph =
        kReadObject(llvm::MemoryBufferRef({objects[i].data(), objects[i].size()}, "telamon"));
    if (!graph)
      throw InternalError("cannot read generated code: " + llvm::toString(graph.takeError()));
    kLink(std::move(*graph), std::make_unique<LinkContext>(linked, code->memory()));
    if (!linked.error.empty()) throw InternalError("cannot link generated code: " + linked.error);
  }
  if (!code->memory().seal())
    throw InternalError("cannot link generated code: the system does not let it be run");
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
