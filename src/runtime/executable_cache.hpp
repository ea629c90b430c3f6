// Executables are memos of their jaxprs: compiled once, on first use, and freed with the program, or when
// it has too many memos (jaxpr/memos.hpp) and nobody runs them.
#pragma once

#include <memory>

#include "runtime/backend.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// The executable of `jaxpr` for a backend ("" is the default one); while there is a profile, one that
/// tells it of its steps. Compiles at most once, whichever
/// thread asks first; others wait for it. An error leaves nothing behind: the next call tries again.
std::shared_ptr<const Executable> executable_for(const Jaxpr& jaxpr, const std::string& backend,
                                                 const CompileOptions& options);

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
