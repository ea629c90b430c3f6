// Puts linked code into memory. What the disk cache holds is loaded without any of LLVM.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "compiler/codegen/llvm_session.hpp"
#include "runtime/pages.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// The code of an image (link_objects) that lies at the begin of these pages, in which it is run. What it
/// calls of the process is found by name: the runtime's entry points, the native kernels and all math
/// functions. InternalError when it is no image, or there is no function of that name. `program` is what
/// `perf` calls it.
TELAMON_API std::shared_ptr<NativeCode> load_image(runtime::Pages pages, std::string_view image,
                                                   std::string_view program);
/// The same of an image that lies elsewhere.
TELAMON_API std::shared_ptr<NativeCode> load_image(std::string_view image,
                                                   std::string_view program);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
