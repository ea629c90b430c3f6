// Generated code as debuggers see it. They learn of code that lies in no file by the "JIT Compilation
// Interface" of GDB's manual: a list of object files in memory, and a function that is called after each
// change of it, where a debugger that is attached has a breakpoint.
//   (gdb) backtrace
//   #0  telamon_avx512_exp_f32 () from libtelamon.so
//   #1  telamon:step ()
// To be listed takes a microsecond, so all code is: a debugger may be attached at any time.
#pragma once

#include <memory>
#include <string_view>

#include "compiler/executable/native_image.hpp"
#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Code that debuggers know, until it is destroyed.
class TELAMON_API KnownCode {
 public:
  /// The code of an image that lies at `begin`; `program` as in names_of_functions.
  KnownCode(std::string_view program, const NativeImage& image, const char* begin);
  ~KnownCode();
  KnownCode(const KnownCode&) = delete;
  KnownCode& operator=(const KnownCode&) = delete;

 private:
  struct Entry;
  std::unique_ptr<Entry> entry_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
