// The compiler: from a jaxpr to an executable of native code.
#pragma once

#include "compiler/executable/executable.hpp"
#include "compiler/plan/plan.hpp"
#include "runtime/backend.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Runs all passes. The story is told in compile.cpp.
std::shared_ptr<const runtime::Executable> compile(const Jaxpr& jaxpr,
                                                   const runtime::CompileOptions& options);

/// The plan of a program, in an executable's parts, without code and without a trace in the history.
NativeExecutable::Parts plan_again(const Jaxpr& jaxpr, const runtime::CompileOptions& options);

/// The end of the story alone: memory, code and linking for a plan made by hand. `signature` gives
/// the avals of the results.
TELAMON_API std::shared_ptr<const runtime::Executable> compile_plan(
    std::unique_ptr<Plan> plan, const Jaxpr& signature, const runtime::CompileOptions& options);

}  // namespace compiler

namespace runtime {
const Backend& llvm_backend();
}

}  // namespace v1
}  // namespace telamon
