// JITLink with a context of our own. An ORC session would add a table of symbols and half a
// millisecond at the start of a process; objects of ours need neither: a program has one entry point.
// Functions of the process get addresses out of reach of everything, so that all ways to them lead
// through tables, and stay right wherever the image comes to lie.
#include "compiler/codegen/native_linker.hpp"

#if defined(__x86_64__) && defined(__ELF__)
#include <llvm/ExecutionEngine/JITLink/ELF_x86_64.h>
#else
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#endif
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/executable/native_image.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

namespace jitlink = llvm::jitlink;
using llvm::orc::ExecutorAddr;

// Where the image seems to lie (0 is no address), and the functions of the process.
constexpr std::uint64_t kBase = 1 << 20, kFar = std::uint64_t{1} << 46, kApart = 16;

llvm::Error failure(const std::string& why) {
  return llvm::make_error<llvm::StringError>(why, llvm::inconvertibleErrorCode());
}

/// What has been linked so far.
struct Linked {
  std::string code;
  std::vector<ImageFixup> fixups;
  std::vector<std::string> symbols;  // functions of the process
  std::unordered_map<std::string, std::size_t> symbol_numbers;
  struct Function {
    std::string name;
    std::int64_t at, bytes;
  };
  std::vector<Function> functions;
  std::unordered_map<std::string, std::uint64_t> addresses;  // of functions that others may call
  std::string frames;
  std::string error;

  std::uint64_t address_of(const std::string& symbol) {
    if (const auto own = addresses.find(symbol); own != addresses.end()) return own->second;
    const auto [number, is_new] = symbol_numbers.emplace(symbol, symbols.size());
    if (is_new) symbols.push_back(symbol);
    return kFar + kApart * number->second;
  }
  bool has(std::uint64_t address) const {
    return address >= kBase && address - kBase <= code.size();
  }
};

/// Every object takes the end of the image.
class MemoryManager final : public jitlink::JITLinkMemoryManager {
 public:
  explicit MemoryManager(Linked& linked) : linked_(linked) {}

  void allocate(const jitlink::JITLinkDylib*, jitlink::LinkGraph& graph,
                OnAllocatedFunction next) override {
    jitlink::BasicLayout layout(graph);
    std::vector<std::pair<jitlink::BasicLayout::Segment*, std::size_t>> places;
    std::size_t end = linked_.code.size();
    for (auto& [group, segment] : layout.segments()) {
      if (is_writable(group.getMemProt()))
        return next(failure("it has variables, which programs keep in their arguments only"));
      const std::size_t align = segment.Alignment.value();
      const std::size_t begin = (end + align - 1) / align * align;
      places.emplace_back(&segment, begin);
      end = begin + segment.ContentSize + segment.ZeroFillSize;
    }
    if (end > kLargest) return next(failure("it is longer than two gigabytes"));
    linked_.code.resize(end);
    for (const auto& [segment, begin] : places) {
      segment->WorkingMem = linked_.code.data() + begin;
      segment->Addr = ExecutorAddr(kBase + begin);
    }
    if (auto error = layout.apply()) return next(std::move(error));
    next(std::make_unique<Filled>());
  }
  void deallocate(std::vector<FinalizedAlloc> parts, OnDeallocatedFunction done) override {
    for (FinalizedAlloc& part : parts) part.release();
    done(llvm::Error::success());
  }

 private:
  static bool is_writable(llvm::orc::MemProt protection) {
    return (static_cast<int>(protection) & static_cast<int>(llvm::orc::MemProt::Write)) != 0;
  }
  static constexpr std::size_t kLargest = (std::size_t{1} << 31) - 1;  // as far as calls reach

  struct Filled final : InFlightAlloc {
    void abandon(OnAbandonedFunction done) override { done(llvm::Error::success()); }
    void finalize(OnFinalizedFunction done) override { done(FinalizedAlloc(ExecutorAddr())); }
  };
  Linked& linked_;
};

/// The function of the process that a stub jumps to, by way of its entry in the table.
const jitlink::Symbol* behind_stub(const jitlink::Symbol& stub) {
  const jitlink::Symbol* at = &stub;
  for (int i = 0; i < 2; ++i) {
    if (!at->isDefined() || at->getBlock().edges_size() != 1) return nullptr;
    at = &at->getBlock().edges().begin()->getTarget();
  }
  return at->isDefined() ? nullptr : at;
}

/// What of an object depends on where the image lies.
class Fixups {
 public:
  Fixups(Linked& linked, const jitlink::LinkGraph& graph) : linked_(linked), graph_(graph) {}

  llvm::Error add(const jitlink::Block& block, const jitlink::Edge& edge) {
    // By name: the numbers are another processor's on each processor.
    const llvm::StringRef kind = graph_.getEdgeKindName(edge.getKind());
    const jitlink::Symbol& target = edge.getTarget();
    const std::uint64_t place = block.getAddress().getValue() + edge.getOffset() - kBase;
    const std::uint64_t address = target.getAddress().getValue();
    if (kind == "Pointer64") {
      if (linked_.has(address)) return place_at(place, ImageFixup::Kind::base, 0);
      if (edge.getAddend() == 0) return function_at(place, ImageFixup::Kind::function, address);
    } else if (kind.starts_with("BranchPCRel32ToPtrJumpStub")) {
      if (const auto* function = behind_stub(target); function != nullptr && edge.getAddend() == 0)
        return function_at(place, ImageFixup::Kind::call, function->getAddress().getValue());
      return llvm::Error::success();
    } else if (!kind.starts_with("Pointer") && !kind.starts_with("MoveWide") &&
               linked_.has(address)) {
      return llvm::Error::success();  // a distance
    }
    return failure("an image cannot hold a fixup of kind " + kind.str());
  }

 private:
  llvm::Error function_at(std::uint64_t place, ImageFixup::Kind kind, std::uint64_t address) {
    const std::uint64_t symbol = (address - kFar) / kApart;
    if (address < kFar || symbol >= linked_.symbols.size() || symbol > UINT16_MAX)
      return failure("an image cannot name so many functions");
    return place_at(place, kind, static_cast<std::uint16_t>(symbol));
  }
  llvm::Error place_at(std::uint64_t place, ImageFixup::Kind kind, std::uint16_t symbol) {
    linked_.fixups.push_back({static_cast<std::uint32_t>(place), kind, symbol});
    return llvm::Error::success();
  }
  Linked& linked_;
  const jitlink::LinkGraph& graph_;
};

/// What debuggers know of frames is no part of the code. It is linked as if it lay where the image says:
/// each record names the function that it is of by a distance.
class Frames {
 public:
  explicit Frames(Linked& linked) : linked_(linked) {}

  /// To a section of another name: the linker would take .eh_frame apart, to find the functions that are
  /// needed, which all are.
  static void set_aside(jitlink::LinkGraph& graph) {
    auto* const section = graph.findSectionByName(".eh_frame");
    if (section == nullptr) return;
    auto& aside = graph.createSection(kSection, section->getMemProt());
    aside.setMemLifetime(llvm::orc::MemLifetime::NoAlloc);
    graph.mergeSections(aside, *section);
  }
  static bool hold(const jitlink::Block& block) { return block.getSection().getName() == kSection; }
  llvm::Error place(jitlink::LinkGraph& graph) const {
    if (jitlink::Block* block = block_of(graph))
      block->setAddress(ExecutorAddr(kBase + kFramesAt + linked_.frames.size()));
    return llvm::Error::success();
  }
  llvm::Error take(jitlink::LinkGraph& graph) const {
    if (const jitlink::Block* block = block_of(graph))
      linked_.frames.append(block->getContent().data(), block->getSize());
    if (linked_.frames.size() > kFramesAt) return failure("it has too many functions");
    return llvm::Error::success();
  }

 private:
  static constexpr const char* kSection = "telamon_frames";
  static jitlink::Block* block_of(jitlink::LinkGraph& graph) {
    const auto* const section = graph.findSectionByName(kSection);
    return section == nullptr || section->blocks().empty() ? nullptr : *section->blocks().begin();
  }
  Linked& linked_;
};

llvm::Error add_fixups(Linked& linked, jitlink::LinkGraph& graph) {
  Fixups fixups(linked, graph);
  for (const jitlink::Block* block : graph.blocks()) {
    if (Frames::hold(*block)) continue;  // all distances
    for (const jitlink::Edge& edge : block->edges()) {
      if (!edge.isRelocation()) continue;
      if (auto error = fixups.add(*block, edge)) return error;
    }
  }
  return llvm::Error::success();
}

/// Everything happens in the calling thread, before jitlink::link returns.
class LinkContext final : public jitlink::JITLinkContext {
 public:
  explicit LinkContext(Linked& linked)
      : JITLinkContext(nullptr), linked_(linked), memory_(linked) {}

  jitlink::JITLinkMemoryManager& getMemoryManager() override { return memory_; }

  void notifyFailed(llvm::Error error) override {
    linked_.error = llvm::toString(std::move(error));
  }

  void lookup(const LookupMap& symbols,
              std::unique_ptr<jitlink::JITLinkAsyncLookupContinuation> next) override {
    jitlink::AsyncLookupResult found;
    for (const auto& symbol : symbols) {
      found[symbol.first] = {ExecutorAddr(linked_.address_of(symbol.first.str())),
                             llvm::JITSymbolFlags::Exported};
    }
    next->run(std::move(found));
  }

  llvm::Error notifyResolved(jitlink::LinkGraph& graph) override {
    for (const auto* symbol : graph.defined_symbols()) {
      if (!symbol->hasName()) continue;
      const std::string name = symbol->getName().str();
      const std::uint64_t address = symbol->getAddress().getValue();
      if (symbol->getScope() != jitlink::Scope::Local) linked_.addresses[name] = address;
      if (symbol->isCallable())
        linked_.functions.push_back({name, static_cast<std::int64_t>(address - kBase),
                                     static_cast<std::int64_t>(symbol->getSize())});
    }
    return llvm::Error::success();
  }

  llvm::Error modifyPassConfig(jitlink::LinkGraph&, jitlink::PassConfiguration& passes) override {
    passes.PostAllocationPasses.emplace_back(
        [this](jitlink::LinkGraph& graph) { return Frames(linked_).place(graph); });
    passes.PostFixupPasses.emplace_back(
        [this](jitlink::LinkGraph& graph) { return Frames(linked_).take(graph); });
    passes.PostFixupPasses.emplace_back(
        [this](jitlink::LinkGraph& graph) { return add_fixups(linked_, graph); });
    return llvm::Error::success();
  }

  void notifyFinalized(jitlink::JITLinkMemoryManager::FinalizedAlloc memory) override {
    memory.release();
  }

 private:
  Linked& linked_;
  MemoryManager memory_;
};

// By name, so that the linkers of all other formats and processors stay out of the library.
#if defined(__x86_64__) && defined(__ELF__)
constexpr auto kReadObject = &jitlink::createLinkGraphFromELFObject_x86_64;
constexpr auto kLink = &jitlink::link_ELF_x86_64;
#else
constexpr auto kReadObject =
    static_cast<llvm::Expected<std::unique_ptr<jitlink::LinkGraph>> (*)(llvm::MemoryBufferRef)>(
        &jitlink::createLinkGraphFromObject);
constexpr auto kLink = &jitlink::link;
#endif

/// Addresses as if the image began at 0.
void begin_at_zero(Linked& linked) {
  for (const ImageFixup& f : linked.fixups) {
    if (f.kind != ImageFixup::Kind::base) continue;
    std::uint64_t address = 0;
    std::memcpy(&address, linked.code.data() + f.at, sizeof address);
    address -= kBase;
    std::memcpy(linked.code.data() + f.at, &address, sizeof address);
  }
}

}  // namespace

std::string link_objects(std::span<const std::string> objects, const std::string& entry) {
  Linked linked;
  for (std::size_t i = objects.size(); i-- > 0;) {
    auto graph =
        kReadObject(llvm::MemoryBufferRef({objects[i].data(), objects[i].size()}, "telamon"));
    if (!graph)
      throw InternalError("cannot read generated code: " + llvm::toString(graph.takeError()));
    Frames::set_aside(**graph);
    kLink(std::move(*graph), std::make_unique<LinkContext>(linked));
    if (!linked.error.empty()) throw InternalError("cannot link generated code: " + linked.error);
  }
  const auto found = linked.addresses.find(entry);
  if (found == linked.addresses.end())
    throw InternalError("cannot link generated code: there is no entry point " + entry);
  begin_at_zero(linked);
  // The linker goes through tables of pointers: in another order each time.
  std::sort(linked.fixups.begin(), linked.fixups.end(),
            [](const ImageFixup& a, const ImageFixup& b) { return a.at < b.at; });
  std::sort(linked.functions.begin(), linked.functions.end(), [](const auto& a, const auto& b) {
    return std::tie(a.at, a.name) < std::tie(b.at, b.name);
  });
  NativeImage image;
  image.code = linked.code;
  image.entry = static_cast<std::int64_t>(found->second - kBase);
  image.fixups = std::move(linked.fixups);
  image.symbols.assign(linked.symbols.begin(), linked.symbols.end());
  for (const Linked::Function& f : linked.functions)
    image.functions.push_back({f.name, f.at, f.bytes});
  image.frames = linked.frames;
  return to_bytes(image);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
