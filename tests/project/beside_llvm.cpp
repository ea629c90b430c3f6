// A program that holds another LLVM besides Telamon's, of the same version. Both compile; Telamon from before main to
// after it.
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "telamon/telamon.hpp"

namespace tl = telamon;

namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}

double slope_of_a_new_jit() {
  const auto cubes = [](tl::Array x) { return tl::sum(x * x * x); };
  return tl::jit(tl::grad(cubes))(tl::Array(2.0)).item<double>();
}

/// The other LLVM compiles `answer`, a function without operands.
bool other_llvm_compiles() {
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
  LLVMContextRef context = LLVMContextCreate();
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("other", context);
  LLVMTypeRef type = LLVMFunctionType(LLVMInt32TypeInContext(context), nullptr, 0, 0);
  LLVMValueRef function = LLVMAddFunction(module, "answer", type);
  LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);
  LLVMPositionBuilderAtEnd(builder, LLVMAppendBasicBlockInContext(context, function, "entry"));
  LLVMBuildRet(builder, LLVMConstInt(LLVMInt32TypeInContext(context), 42, 0));
  char* triple = LLVMGetDefaultTargetTriple();
  LLVMTargetRef target = nullptr;
  char* message = nullptr;
  check(!LLVMGetTargetFromTriple(triple, &target, &message), "the other LLVM knows no target");
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
      target, triple, "", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
  LLVMMemoryBufferRef text = nullptr;
  check(!LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &message, &text),
        "the other LLVM compiles nothing");
  const bool found = std::strstr(LLVMGetBufferStart(text), "answer:") != nullptr;
  LLVMDisposeMemoryBuffer(text);
  LLVMDisposeTargetMachine(machine);
  LLVMDisposeMessage(triple);
  LLVMDisposeBuilder(builder);
  LLVMDisposeModule(module);
  LLVMContextDispose(context);
  return found;
}

struct CheckAtExit {
  ~CheckAtExit() { check(slope_of_a_new_jit() == 12, "a jit after main"); }
};
const CheckAtExit at_exit;  // destroyed after the globals below

const tl::Array weights({1.0, 2.0, 3.0});
const auto weighted = tl::jit([](tl::Array x) { return tl::sum(x * weights); });
const double before_main = weighted(tl::Array({1.0, 1.0, 1.0})).item<double>();

}  // namespace

int main() {
  check(before_main == 6, "a jit before main");
  check(other_llvm_compiles(), "the other LLVM");
  check(slope_of_a_new_jit() == 12, "a jit in main");
  check(weighted(tl::Array({0.0, 0.0, 1.0})).item<double>() == 3,
        "a jit of namespace scope, in main");
  std::puts("two compilers, one process");
}
