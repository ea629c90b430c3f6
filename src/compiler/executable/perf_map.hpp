// Names of generated code for `perf`: with TELAMON_PERF_MAP=1, the file /tmp/perf-PID.map, where perf
// looks for functions that no file on disk holds.
//   perf record ./program && perf report          # telamon:step:exp_mul_0, telamon:step, ...
#pragma once

#include <string_view>

#include "compiler/executable/native_image.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

bool perf_map_wanted();

/// Adds the functions of an image that lies at `begin`: `program` is the name of the whole and of the
/// function where it is entered.
void name_code(std::string_view program, const NativeImage& image, const char* begin);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
