// The error where TELAMON_DUMP names a folder that cannot be written to.
#pragma once

#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// What TELAMON_DUMP asks for cannot be written: a fault of the environment, and not of the program.
class TELAMON_API DumpError : public ValueError {
 public:
  using ValueError::ValueError;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
