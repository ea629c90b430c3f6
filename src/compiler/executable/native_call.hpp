// Calls from C++ into generated code.
#pragma once

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Calls a generated function. -fsanitize=function reads type information that compilers put before
/// a function's first byte; generated code has none.
template <class Function, class... Args>
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
auto call_native(Function* function, Args... args) {
  return function(args...);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
