// The inside of Lowered and Compiled.
#pragma once

#include <memory>
#include <vector>

#include "core/process_mutex.hpp"
#include "runtime/backend.hpp"
#include "telamon/jit.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// What the program has captured, where no call has other values in its place: none of it is traced.
Arrays known_constants(const ClosedJaxpr& program);

struct LoweredProgram {
  ClosedJaxpr program;
  std::vector<bool> donated;  ///< per input of the program; empty when there is none
  JitOptions options;
  const char* call = nullptr;         ///< "jit(loss)", which lives forever
  std::shared_ptr<const void> owner;  ///< keeps the program's entry in its cache alive
  /// The executable that calls run; compiles it when there is none yet.
  std::function<const runtime::Executable&()> executable;

  /// One that has all stages: of the other, those may have stayed in a cache. Compiled when asked for.
  const runtime::Executable& with_stages() const;

 private:
  mutable ProcessMutex mutex_;
  mutable std::shared_ptr<const runtime::Executable> with_stages_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
