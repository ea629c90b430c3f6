// The instruction set that code is generated for: the host's, unless somebody wants to look at another's.
#pragma once

#include "runtime/cpu.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// host_isa(), or what `generate_for` said.
TELAMON_API Isa target_isa();

/// From now on generated code is for that instruction set, which this processor may not have: it is to
/// be looked at and not to be run. The kernels that run at once, and fold constants, stay those of the
/// host. Before anything is compiled.
TELAMON_API void generate_for(Isa isa);

inline std::size_t target_vector_bytes() { return vector_bytes(target_isa()); }
inline int target_vector_registers() { return vector_registers(target_isa()); }

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
