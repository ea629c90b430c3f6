// The part of the session that speaks LLVM: for the code generator's own files.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <string>

#include "compiler/codegen/llvm_session.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A module and the context that owns its types.
struct OwnedModule {
  LlvmPtr<llvm::LLVMContext> context;
  LlvmPtr<llvm::Module> module;
};

/// An empty module for the host.
OwnedModule make_module(const std::string& name);
/// The attributes that every generated function needs for full-width vectors.
void set_target_attributes(llvm::Function& function);
/// Whether the processor gathers no faster than it loads one number after the other.
bool gathers_one_by_one();
/// The object file of the module. `quick`: LLVM's fast instruction selection and register allocation.
std::string object_file(llvm::Module& module, bool quick);
/// The assembly text of the module, which knows no frames from then on.
std::string assembly(llvm::Module& module, bool quick);
std::string ir_text(const llvm::Module& module);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
