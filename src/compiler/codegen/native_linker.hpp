// Object files become an image: the linker (JITLink) without the rest of LLVM.
#pragma once

#include <span>
#include <string>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// The bytes of an image of several object files, each of which may call functions of those after it;
/// `entry` is the name of the function where it is entered. InternalError when an object is malformed, or
/// needs what an image cannot say.
std::string link_objects(std::span<const std::string> objects, const std::string& entry);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
