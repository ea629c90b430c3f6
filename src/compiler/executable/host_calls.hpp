// What generated code calls back: host functions (large matrix products, `call` lowerings) and the thread pool.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "compiler/codegen/codegen.hpp"
#include "runtime/profile.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A C++ function over the memory of its operands and results. It may throw: the trampoline keeps
/// the exception.
using HostFunction =
    std::function<void(std::span<const void* const> in, std::span<void* const> out)>;

/// A step of a program that is such a function.
struct HostStep {
  HostFunction function;
  std::vector<Location> in, out;
};

/// Behind Context::host. Several chunks of a region may call at once.
struct HostState {
  const std::vector<HostStep>* steps = nullptr;
  const std::vector<runtime::ProfileLabelPtr>* labels = nullptr;  ///< of the steps, for profiles
  std::atomic_flag failing;          ///< somebody keeps the first error
  std::atomic<bool> stopped{false};  ///< it is kept: nothing new begins
  std::exception_ptr error;
  std::int64_t failed = 0;  ///< the step that threw it
};

/// Runs a host step. 1 when it or another one threw: generated code then returns at once and the
/// executable rethrows the first error. Nothing ever unwinds through generated frames.
int host_call(Context* context, std::int64_t step) noexcept;

/// Copies numbers[0] bytes from the first buffer to the second, unless they are the same, by all threads.
void copy_array(void* const* buffers, const std::int64_t* numbers) noexcept;

/// Opens a span of the step's label, or closes that of step ~mark.
void mark_step_of_profile(Context* context, std::int64_t mark) noexcept;

/// Runs kernel(context', b, e, where) for chunks [b, e) of at least `grain` that cover [0, end), at most
/// `most` of them if that is not 0. The context of each has a slice of its own while it runs, one of those
/// that lie side by side from arena + slice on, as many as chunks. 1 when a host step threw.
TELAMON_API int parallel_kernel(Context* context, KernelFunction kernel, const std::int64_t* where,
                                std::int64_t end, std::int64_t grain, std::int64_t most,
                                std::int64_t slice, std::int64_t slice_bytes) noexcept;

/// The address of a value of the program at hand.
inline void* address_of(const Context& c, Location where) {
  switch (where.kind) {
    case Location::Kind::argument: return const_cast<void*>(c.args[where.index]);
    case Location::Kind::result:
    case Location::Kind::in_result: return c.results[where.index];
    case Location::Kind::arena: return c.arena + where.index;
    case Location::Kind::chunk: return c.chunk + where.index;
    case Location::Kind::arena_slot: return *reinterpret_cast<void**>(c.arena + where.index);
    case Location::Kind::chunk_slot: return *reinterpret_cast<void**>(c.chunk + where.index);
    case Location::Kind::none: break;
  }
  return nullptr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
