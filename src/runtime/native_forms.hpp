// Kernels of the runtime that generated code calls directly, in place of the loops that a primitive's
// `kernel` lowering would write: they use all threads and know nothing of the compiler.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telamon/aval.hpp"
#include "telamon/params.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// Must not throw: nothing unwinds through generated frames.
using NativeFunction = void (*)(void* const* buffers, const std::int64_t* numbers) noexcept;

/// A function with what it is called in object code. Programs of the disk cache find it by this name.
struct NamedFunction {
  const char* symbol = nullptr;
  NativeFunction function = nullptr;
};

struct NativeCall {
  static constexpr int kResult = -1;
  std::vector<std::int64_t> numbers;  ///< a constant of the program
  /// The operands and results whose addresses it gets: i is operand i, kResult - i result i. If the
  /// first operand is not among them, the first result is a copy of it beforehand.
  std::vector<int> buffers = {};
  NamedFunction callee = {};  ///< that of the form
};

struct NativeOperand {
  Aval aval;
  bool uniform = false;  ///< one number over and over: it will do to read the first
};

/// Registers, as a static object, what to call for an equation of a primitive: nothing where loops are
/// better.
class NativeForm {
 public:
  using Make =
      std::function<std::optional<NativeCall>(const Params&, std::span<const NativeOperand>)>;
  NativeForm(std::string_view primitive, NamedFunction callee, Make make);
};

/// The functions of all forms.
std::vector<NamedFunction> native_functions();

/// What was registered for the primitive of this name.
std::optional<NativeCall> native_call(std::string_view primitive, const Params& params,
                                      std::span<const NativeOperand> operands);

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
