// ORC with one dylib: every executable is one object file with its own resource tracker, so that
// its pages go back when it dies (measured: 0.3 KB per compilation stay behind).
#include "compiler/llvm_session.hpp"

#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>

#include <chrono>
#include <mutex>
#include <set>
#include <vector>

#include "compiler/llvm_session_impl.hpp"
#include "compiler/perf_map.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

NativeCode::~NativeCode() = default;

namespace {

using runtime::Isa;

std::string error_text(llvm::Error error) { return llvm::toString(std::move(error)); }

/// The processor to generate for: the host, less what TELAMON_ISA forbids.
struct Target {
  std::string cpu, features;
};

Target find_target() {
  if (runtime::host_isa() == runtime::supported_isa()) {
    Target t{llvm::sys::getHostCPUName().str(), {}};
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
      if (!t.features.empty()) t.features += ',';
      t.features += (feature.second ? "+" : "-") + feature.first().str();
    }
    return t;
  }
  if (runtime::host_isa() == Isa::avx2) return {"haswell", ""};
  return {"", ""};
}

class Session {
 public:
  static Session& get() {
    static auto* session = new Session;  // leaked: code runs until the very end of the process
    return *session;
  }

  llvm::orc::LLJIT& jit() { return *jit_; }
  const llvm::DataLayout& layout() const { return layout_; }
  const Target& target() const { return target_; }
  std::string triple() const { return triple_; }

  /// Target machines are not thread-safe and cost 0.1 ms: they are lent and given back.
  std::unique_ptr<llvm::TargetMachine> borrow_machine() {
    {
      const std::lock_guard lock(mutex_);
      if (!machines_.empty()) {
        auto machine = std::move(machines_.back());
        machines_.pop_back();
        return machine;
      }
    }
    std::string error;
    const llvm::Target* t = llvm::TargetRegistry::lookupTarget(triple_, error);
    if (t == nullptr) throw InternalError("LLVM knows no target " + triple_ + ": " + error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only where an instruction allows it
    return std::unique_ptr<llvm::TargetMachine>(
        t->createTargetMachine(triple_, target_.cpu, target_.features, options, llvm::Reloc::PIC_,
                               llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, true));
  }
  void give_back(std::unique_ptr<llvm::TargetMachine> machine) {
    const std::lock_guard lock(mutex_);
    machines_.push_back(std::move(machine));
  }

  void define(const std::string& symbol, void* address) {
    const std::lock_guard lock(mutex_);
    if (!defined_.insert(symbol).second) return;
    llvm::orc::SymbolMap map;
    map[jit_->mangleAndIntern(symbol)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                          llvm::JITSymbolFlags::Exported};
    if (auto error = jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(map)))) {
      throw InternalError("cannot define symbol " + symbol + ": " + error_text(std::move(error)));
    }
  }

 private:
  Session() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // Loop strength reduction and the IR-level code preparation cost a third of the time of code
    // generation and change nothing in loops that are written as ours are.
    const char* flags[] = {"telamon", "-disable-lsr"};
    llvm::cl::ParseCommandLineOptions(2, flags, "", &llvm::nulls());
    target_ = find_target();
    triple_ = llvm::sys::getProcessTriple();
    auto created =
        llvm::orc::LLJITBuilder().setPlatformSetUp(llvm::orc::setUpInactivePlatform).create();
    if (!created) throw InternalError("cannot start the JIT: " + error_text(created.takeError()));
    jit_ = std::move(*created);
    // What code generation itself may call: memcpy, memset, fmod, ...
    auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
        jit_->getDataLayout().getGlobalPrefix());
    if (process) jit_->getMainJITDylib().addGenerator(std::move(*process));
    else llvm::consumeError(process.takeError());
    auto machine = borrow_machine();
    layout_ = machine->createDataLayout();
    give_back(std::move(machine));
  }

  Target target_;
  std::string triple_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  llvm::DataLayout layout_{""};
  std::mutex mutex_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> machines_;
  std::set<std::string> defined_;
};

class LinkedCode final : public NativeCode {
 public:
  LinkedCode(llvm::orc::ResourceTrackerSP tracker, void* entry) : tracker_(std::move(tracker)) {
    entry_ = entry;
  }
  ~LinkedCode() override {
    if (auto error = tracker_->remove()) llvm::consumeError(std::move(error));
  }

 private:
  llvm::orc::ResourceTrackerSP tracker_;
};

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double us = std::chrono::duration<double, std::micro>(now - last_).count();
    last_ = now;
    return us;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

llvm::SmallVector<char, 0> emit_file(llvm::Module& module, llvm::CodeGenFileType type) {
  Session& session = Session::get();
  auto machine = session.borrow_machine();
  llvm::SmallVector<char, 0> out;
  {
    llvm::raw_svector_ostream stream(out);
    llvm::legacy::PassManager passes;
    if (machine->addPassesToEmitFile(passes, stream, nullptr, type, true)) {
      throw InternalError("LLVM cannot emit code for this target");
    }
    passes.run(module);
  }
  session.give_back(std::move(machine));
  return out;
}

}  // namespace

std::string target_description() {
  return "LLVM " LLVM_VERSION_STRING " for " + Session::get().target().cpu + " (" +
         std::string(runtime::isa_name(runtime::host_isa())) + ")";
}

OwnedModule make_module(const std::string& name) {
  Session& session = Session::get();
  OwnedModule m;
  m.context = std::make_unique<llvm::LLVMContext>();
  m.module = std::make_unique<llvm::Module>(name, *m.context);
  m.module->setDataLayout(session.layout());
  m.module->setTargetTriple(session.triple());
  return m;
}

void define_symbol(const std::string& symbol, void* address) {
  Session::get().define(symbol, address);
}

void set_target_attributes(llvm::Function& function) {
  const std::string bits = std::to_string(runtime::vector_bytes() * 8);
  // Without these LLVM splits 512-bit vectors in two on processors that it believes prefer 256.
  function.addFnAttr("prefer-vector-width", bits);
  function.addFnAttr("min-legal-vector-width", bits);
  function.addFnAttr(llvm::Attribute::NoUnwind);
}

std::shared_ptr<NativeCode> compile_module(llvm::Module& module, const std::string& entry,
                                           CodegenTimes& times) {
  Session& session = Session::get();
  Stopwatch watch;
#ifdef TELAMON_DEBUG_CHECKS
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(module, &stream)) {
    throw InternalError("the generated code is malformed: " + problems + "\n" + ir_text(module));
  }
#endif
  times.optimise = watch.lap();
  llvm::SmallVector<char, 0> object = emit_file(module, llvm::CodeGenFileType::ObjectFile);
  times.codegen = watch.lap();
  // Linking takes the object away.
  const std::string named(object.data(), perf_map_wanted() ? object.size() : 0);
  auto tracker = session.jit().getMainJITDylib().createResourceTracker();
  if (auto error = session.jit().addObjectFile(
          tracker,
          std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object), entry, false))) {
    throw InternalError("cannot link generated code: " + error_text(std::move(error)));
  }
  auto address = session.jit().lookup(entry);
  if (!address) throw InternalError("cannot link: " + error_text(address.takeError()));
  if (!named.empty())
    name_code(module.getModuleIdentifier(), named, entry, address->toPtr<void*>());
  times.link = watch.lap();
  return std::make_shared<LinkedCode>(std::move(tracker), address->toPtr<void*>());
}

std::string assembly(llvm::Module& module) {
  const auto text = emit_file(module, llvm::CodeGenFileType::AssemblyFile);
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
