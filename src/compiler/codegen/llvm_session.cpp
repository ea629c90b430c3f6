// Every executable is one object file, made by a target machine that is lent and given back.
#include "compiler/codegen/llvm_session.hpp"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/PrettyStackTrace.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "compiler/codegen/llvm_session_impl.hpp"
#include "core/log.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

namespace {

using runtime::Isa;

/// The processor to generate for: the host, less what TELAMON_ISA forbids, or one to look at.
struct Target {
  std::string cpu, features;
};

Target find_target() {
  if (runtime::target_isa() == runtime::supported_isa()) {
    Target t{llvm::sys::getHostCPUName().str(), {}};
    // With a part of AVX-512 only, a processor is one with AVX2 to us: the vector functions keep that one's registers.
    const bool has_avx512 = runtime::supported_isa() == Isa::avx512;
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
      const bool used = feature.second && (has_avx512 || !feature.first().starts_with("avx512"));
      if (!t.features.empty()) t.features += ',';
      t.features += (used ? "+" : "-") + feature.first().str();
    }
    return t;
  }
  constexpr const char* kTypical[runtime::kNumIsas] = {"", "haswell", "skylake-avx512"};
  return {kTypical[static_cast<int>(runtime::target_isa())], ""};
}

const Target& target() {
  static const auto* found = new Target(find_target());
  return *found;
}

/// What LLVM gives up with. Its first line says what, the others hold all that it was doing.
struct GaveUp : InternalError {
  explicit GaveUp(std::string_view reason)
      : InternalError("LLVM cannot compile the program: " +
                      std::string(reason.substr(0, reason.find('\n')))) {}
};

class Session {
 public:
  static Session& get() {
    static auto* session = new Session;  // leaked: code runs until the very end of the process
    return *session;
  }

  const llvm::DataLayout& layout() const { return layout_; }
  std::string triple() const { return triple_; }

  /// Target machines are not thread-safe and cost 0.1 ms: they are lent and given back.
  LlvmPtr<llvm::TargetMachine> borrow_machine(bool quick) {
    {
      const std::lock_guard lock(mutex_);
      if (auto& idle = machines_[quick]; !idle.empty()) {
        auto machine = std::move(idle.back());
        idle.pop_back();
        return machine;
      }
    }
    std::string error;
    const llvm::Target* t = llvm::TargetRegistry::lookupTarget(triple_, error);
    if (t == nullptr) throw InternalError("LLVM knows no target " + triple_ + ": " + error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only where an instruction allows it
    return LlvmPtr<llvm::TargetMachine>(t->createTargetMachine(
        triple_, target().cpu, target().features, options, llvm::Reloc::PIC_,
        llvm::CodeModel::Small,
        quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default, true));
  }
  void give_back(LlvmPtr<llvm::TargetMachine> machine, bool quick) {
    const std::lock_guard lock(mutex_);
    machines_[quick].push_back(std::move(machine));
  }

 private:
  Session() {
    // Without handlers LLVM ends the process.
    llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { throw std::bad_alloc(); });
    llvm::install_fatal_error_handler(
        [](void*, const char* reason, bool) { throw GaveUp(reason); });
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // Loop strength reduction, and scheduling once more after registers are allocated, cost a third of the
    // time of code generation and change nothing in loops like ours on processors that reorder.
    // Scheduling compares each access of a block with all before it, until these are so many: most of the time of blocks
    // that read and write a thousand elements.
    // Loads of whole structures may be followed by a step in a register on AArch64. LLVM 19 takes one for it that is found
    // to be zero later: such a register stands for the bytes that were read, and what is read after that is wrong.
    const char* flags[] = {"telamon",
                           "-disable-lsr",
                           "-disable-post-ra",
                           "-disable-x86-domain-reassignment",
                           "-dag-maps-huge-region=128",
#if defined(__aarch64__)
                           "-lower-interleaved-accesses=false"
#endif
    };
    llvm::cl::ParseCommandLineOptions(static_cast<int>(std::size(flags)), flags, "",
                                      &llvm::nulls());
    triple_ = llvm::sys::getProcessTriple();
    auto machine = borrow_machine(false);
    layout_ = machine->createDataLayout();
    give_back(std::move(machine), false);
  }

  std::string triple_;
  llvm::DataLayout layout_{""};
  std::mutex mutex_;
  std::vector<LlvmPtr<llvm::TargetMachine>> machines_[2];  // by `quick`
};

// LLVM's own static objects, most of them made by the first compilations, are destroyed while the
// process ends, before static objects of the user that were made earlier. A handler that is registered
// after them runs before they go.
std::atomic<bool> ending{false};

/// After each use of the code generator: programs that are found on disk do not touch it.
void watch_for_the_end() {
  static std::atomic<unsigned> uses{0};
  // Later uses make ever fewer such objects, so handlers are registered ever more rarely.
  if (std::has_single_bit(uses.fetch_add(1) + 1)) std::atexit([] { ending = true; });
}

/// Forgets the frames that LLVM keeps a list of, for crashes, where they are left by an exception.
struct LeftFrames {
  const void* before = llvm::SavePrettyStackState();
  LeftFrames() = default;
  LeftFrames(const LeftFrames&) = delete;
  LeftFrames& operator=(const LeftFrames&) = delete;
  ~LeftFrames() { llvm::RestorePrettyStackState(before); }
};

llvm::SmallVector<char, 0> try_to_emit_file(llvm::Module& module, llvm::CodeGenFileType type,
                                            bool quick) {
  const LeftFrames frames;
  Session& session = Session::get();
  auto machine = session.borrow_machine(quick);
  llvm::SmallVector<char, 0> out;
  {
    llvm::raw_svector_ostream stream(out);
    const LlvmPtr<llvm::legacy::PassManager> passes(new llvm::legacy::PassManager);
    if (machine->addPassesToEmitFile(*passes, stream, nullptr, type, true)) {
      throw InternalError("LLVM cannot emit code for this target");
    }
    passes->run(module);
  }
  session.give_back(std::move(machine), quick);
  watch_for_the_end();
  return out;
}

/// Puts each instruction in a block of its own. Instructions are selected for a block at a time, so that nothing is
/// combined any more.
void keep_instructions_apart(llvm::Function& function) {
  function.addFnAttr(llvm::Attribute::OptimizeNone);  // or the blocks were put together again
  function.addFnAttr(llvm::Attribute::NoInline);      // asked for with it
  std::vector<llvm::Instruction*> starts;
  for (llvm::BasicBlock& block : function) {
    for (llvm::Instruction& i : block) {
      if (!llvm::isa<llvm::PHINode, llvm::AllocaInst>(i)) starts.push_back(&i);
    }
  }
  for (llvm::Instruction* i : starts) {
    if (i != &i->getParent()->front()) llvm::SplitBlock(i->getParent(), i);
  }
}

/// LLVM's combining of operations may end in one that no instruction does (LLVM 19 with AVX-512: products of 64-bit
/// integers that were made of 32-bit ones, few lanes of which are read). Such a program is compiled again without it:
/// slower code, but right.
llvm::SmallVector<char, 0> emit_file(llvm::Module& module, llvm::CodeGenFileType type, bool quick) {
  try {
    return try_to_emit_file(module, type, quick);
  } catch (const GaveUp& e) {
    detail::log(detail::Subsystem::compile, detail::LogLevel::info, [&] {
      return e.message() + "; it is compiled again without combining operations";
    });
  }
  for (llvm::Function& f : module) {
    if (!f.isDeclaration()) keep_instructions_apart(f);
  }
  return try_to_emit_file(module, type, quick);
}

}  // namespace

bool process_ends() { return ending; }

std::string target_description() {
  return "LLVM " LLVM_VERSION_STRING " for " + target().cpu + " (" +
         std::string(runtime::isa_name(runtime::target_isa())) + ")";
}

const std::string& target_features() {
  static const auto* text = new std::string(target().cpu + " " + target().features + " " +
                                            std::string(runtime::isa_name(runtime::target_isa())));
  return *text;
}

OwnedModule make_module(const std::string& name) {
  Session& session = Session::get();
  OwnedModule m;
  m.context.reset(new llvm::LLVMContext);
  m.module.reset(new llvm::Module(name, *m.context));
  m.module->setDataLayout(session.layout());
  m.module->setTargetTriple(session.triple());
  return m;
}

// Without AVX-512 LLVM takes gathers apart itself, but for addresses in vectors. Those of Zen 4 take 1.1 to 1.25 times as
// long as loads.
bool gathers_one_by_one() {
  return runtime::target_isa() != Isa::avx512 || target().cpu.starts_with("znver");
}

void set_target_attributes(llvm::Function& function) {
  const std::string bits = std::to_string(runtime::target_vector_bytes() * 8);
  // Without these LLVM splits 512-bit vectors in two on processors that it believes prefer 256.
  function.addFnAttr("prefer-vector-width", bits);
  function.addFnAttr("min-legal-vector-width", bits);
  function.addFnAttr(llvm::Attribute::NoUnwind);
  // Nothing throws through generated code, but debuggers look through its frames, at any instruction.
  function.setUWTableKind(llvm::UWTableKind::Async);
}

std::string object_file(llvm::Module& module, bool quick) {
#ifdef TELAMON_DEBUG_CHECKS
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(module, &stream)) {
    throw InternalError("the generated code is malformed: " + problems + "\n" + ir_text(module));
  }
#endif
  const auto file = emit_file(module, llvm::CodeGenFileType::ObjectFile, quick);
  return {file.data(), file.size()};
}

std::string assembly(llvm::Module& module, bool quick) {
  // A text to be read, half of which would be about frames.
  for (llvm::Function& f : module) f.setUWTableKind(llvm::UWTableKind::None);
  const auto text = emit_file(module, llvm::CodeGenFileType::AssemblyFile, quick);
  return {text.data(), text.size()};
}

std::string ir_text(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
