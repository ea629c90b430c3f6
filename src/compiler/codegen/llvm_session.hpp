// What the process shares among all compilations: the target, the linker and the symbols that
// generated code may call. No LLVM type is seen here: native code is an address with an owner.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// The version of LLVM, the processor and the generated instruction set, for reports.
std::string target_description();

/// The processor that code is generated for, with its features.
const std::string& target_features();

/// Whether the process is ending and LLVM may be gone: nothing more is generated, programs are
/// interpreted.
bool process_ends();

/// Deletes, but not while an exception passes. LLVM is built without exceptions: memory that runs out
/// within it leaves tables whose size is no longer that of their memory. Nothing may touch these any
/// more, so they are leaked.
struct LeakWhenUnwinding {
  int outer = std::uncaught_exceptions();
  template <class T>
  void operator()(T* object) const {
    if (std::uncaught_exceptions() <= outer) delete object;
  }
};
/// Owns an object of LLVM's.
template <class T>
using LlvmPtr = std::unique_ptr<T, LeakWhenUnwinding>;

/// Machine code in memory, given back when the last owner is gone.
class TELAMON_API NativeCode {
 public:
  virtual ~NativeCode();
  void* entry() const { return entry_; }

 protected:
  void* entry_ = nullptr;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
