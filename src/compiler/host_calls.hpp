// What generated code calls back: host functions (BLAS, `call` lowerings) and the thread pool.
#pragma once

#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "compiler/codegen.hpp"

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

/// Behind Context::host.
struct HostState {
  const std::vector<HostStep>* steps = nullptr;
  std::exception_ptr error;
};

/// Runs a host step. 1 when it threw: generated code then returns at once and the executable
/// rethrows. Nothing ever unwinds through generated frames.
int host_call(Context* context, std::int64_t step) noexcept;

/// Runs kernel(context, b, e) for chunks [b, e) of `grain` that cover [begin, end).
void parallel_kernel(Context* context, KernelFunction kernel, std::int64_t begin, std::int64_t end,
                     std::int64_t grain) noexcept;

/// The address of a value of the program at hand.
inline void* address_of(const Context& c, Location where) {
  switch (where.kind) {
    case Location::Kind::argument: return const_cast<void*>(c.args[where.index]);
    case Location::Kind::result: return c.results[where.index];
    case Location::Kind::arena: return c.arena + where.index;
    case Location::Kind::none: break;
  }
  return nullptr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
