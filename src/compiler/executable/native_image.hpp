// Linked code that lies nowhere yet: what the disk cache holds, and what the loader puts into memory.
// Its parts call each other by distances, which need no more linking wherever they come to lie. The
// rest are fixups: places that depend on where the image lies, or the functions that it calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

struct ImageFixup {
  enum class Kind : std::uint16_t {
    base,      ///< eight bytes, an address as if the image began at 0: its begin is added
    function,  ///< eight bytes: the address of a function of the process
    call,  ///< four bytes, the distance from their end to a stub that jumps to a function of the process:
           ///< the distance to the function itself where it is near enough
  };
  std::uint32_t at = 0;  ///< offset in the code
  Kind kind = Kind::base;
  std::uint16_t symbol = 0;  ///< of a function
};

struct ImageFunction {
  std::string_view name;
  std::int64_t at = 0, bytes = 0;
};

/// A view of the bytes that it was read from.
struct NativeImage {
  std::string_view code;
  std::int64_t entry = 0;                 ///< offset of the entry point
  std::vector<ImageFixup> fixups;         ///< by place
  std::vector<std::string_view> symbols;  ///< of functions of the process
  std::vector<ImageFunction> functions;   ///< its own, for profilers and debuggers
  /// How to get from their frames to those of their callers, as in the section .eh_frame of object files:
  /// as if it lay kFramesAt after the begin.
  std::string_view frames;
};
/// Half as far as the distances in `frames` reach, so that they reach every function.
constexpr std::int64_t kFramesAt = std::int64_t{1} << 30;

/// The code comes first.
TELAMON_API std::string to_bytes(const NativeImage& image);
/// InternalError when the bytes are no image: no fixup of an image lies outside of it.
TELAMON_API NativeImage image_of(std::string_view bytes);
/// Makes the image's code run where it lies: at `begin`, with its `symbols` at these addresses.
TELAMON_API void apply_fixups(char* begin, const NativeImage& image,
                              const std::vector<std::uintptr_t>& functions);
/// What profilers and debuggers call its functions, in their order: the one where it is entered has the
/// name of the program, `telamon:step`, the others follow that, `telamon:step:exp_mul_0`.
TELAMON_API std::vector<std::string> names_of_functions(const NativeImage& image,
                                                        std::string_view program);
/// Its functions with their bytes, and what they call of the process.
std::string image_text(const NativeImage& image);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
