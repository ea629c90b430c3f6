// Names of generated code for `perf`: with TELAMON_PERF_MAP=1, the file /tmp/perf-PID.map, where perf
// looks for functions that no file on disk holds.
//   perf record ./program && perf report          # telamon:step:exp_mul_0, telamon:step, ...
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

bool perf_map_wanted();

/// Adds the functions of an object file that has been linked: `program` is the name of the whole and of
/// its function `entry`; `addresses` tells where functions lie that others may call.
void name_code(std::string_view program, std::string_view object, std::string_view entry,
               const std::unordered_map<std::string, void*>& addresses);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
