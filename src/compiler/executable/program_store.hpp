// Executables in the disk cache.
//
// The key is a hash of the lowered program, the switches, the processor and this build of the library:
// whatever the passes, the emitter and LLVM make of it follows from that, so a program that is found
// skips all of them. What comes before, lowering, is a small part of a compilation, and expands
// the primitives of users whose rules are other primitives; so what is left are the library's own
// operations, which the build stands for. Programs with other operations of users (element by
// element, kernels, calls) go through all passes, and only their image is looked for, by the text of
// the IR.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/plan.hpp"
#include "runtime/backend.hpp"
#include "runtime/disk_cache.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// What it takes to run a program besides its code and constants.
struct Launch {
  std::int64_t arena_bytes = 0;
  std::vector<std::vector<int>> reusable;   ///< Plan::reusable
  std::vector<std::int64_t> written_after;  ///< Plan::written_after
  std::vector<InResult> in_results;         ///< Plan::in_results
  std::vector<HostStep> host_steps;
};
Launch launch_of(const Plan& plan);

/// An executable as another process left it.
struct StoredProgram {
  Launch launch;
  ExecutableInfo info;   ///< without name and times
  runtime::Pages pages;  ///< with the image at their begin
  std::string_view image;
};

/// What compiles a program, and for what: this build of the library, LLVM and the processor.
TELAMON_API const std::string& this_build();

/// The key of a lowered program, of which these inputs may be donated, as `build` compiles it; none when it has
/// operations that are not the library's own, or parameters that their text does not say completely.
TELAMON_API std::optional<runtime::disk_cache::Key> program_key(
    const Jaxpr& lowered, const std::vector<bool>& donated, const runtime::CompileOptions& options,
    const std::string& build = this_build());
/// The key of an image by the text of its IR.
runtime::disk_cache::Key image_key(const std::string& ir);

TELAMON_API std::optional<StoredProgram> find_program(const runtime::disk_cache::Key& key);
/// Stores the program if its host steps can be made again from their equations.
void store_program(const runtime::disk_cache::Key& key, const Plan& plan,
                   const ExecutableInfo& info, std::string_view image);

/// The operations that programs are known by, sorted.
TELAMON_API std::span<const std::string_view> stored_operations();
/// Whether a primitive is one of them, and is lowered as this library does.
bool is_own_operation(const PrimitiveBase& primitive);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
