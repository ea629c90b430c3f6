// Puts object files into memory: the linker (JITLink) without the rest of LLVM. Loading an object from
// the disk cache starts no code generator and no JIT session.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/llvm_session.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Makes `symbol` callable from generated code. What objects of other processes may call is known
/// without: the runtime's entry points and all math functions.
void define_symbol(const std::string& symbol, void* address);

/// Several object files as one: the first may call functions of the others.
std::string join_objects(std::vector<std::string> objects);

/// Links an object file, or several that were joined, into this process; `entry` is the name of the
/// function to find. Programs see none of each other's symbols. InternalError when the object is malformed or lacks a symbol. `program`
/// is what `perf` calls it.
std::shared_ptr<NativeCode> load_object(std::string_view object, const std::string& entry,
                                        std::string_view program);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
