// The part of the session that speaks LLVM: for the code generator's own files.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "compiler/llvm_session.hpp"
#include "runtime/cpu.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A module and the context that owns its types.
struct OwnedModule {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

/// An empty module for the host.
OwnedModule make_module(const std::string& name);
/// The attributes that every generated function needs for full-width vectors.
void set_target_attributes(llvm::Function& function);
/// Times of the steps of code generation, in microseconds.
struct CodegenTimes {
  double codegen = 0, link = 0;
};
/// Compiles and links; `entry` is the name of the function to find. `object` is what was linked.
std::shared_ptr<NativeCode> compile_module(llvm::Module& module, const std::string& entry,
                                           CodegenTimes& times, std::string& object);
/// The assembly text of the module.
std::string assembly(llvm::Module& module);
std::string ir_text(const llvm::Module& module);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
