// Identities: stop_gradient, whose derivative is zero, and copy, whose result is new memory.
#include <cstring>

#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;

// clang-format off: a primitive is a paragraph
/// stop_gradient(x) = x.   d stop_gradient(x) = 0
const Primitive<> stop_gradient_p{"stop_gradient", [] { return unary(stop_gradient_p, {
    .accepts = kAny,
    .impl = [](const NoParams&, const Aval&, std::span<const Array> x) { return x[0]; },
    .zero_derivative = "by definition",
    .lower = emit_operand(),
}); }};

/// copy(x) = x, in a buffer of its own.   d copy(x) = copy(dx)
const Primitive<> copy_p{"copy", [] { return unary(copy_p, {
    .accepts = kAny,
    .impl = [](const NoParams&, const Aval& out, std::span<const Array> x) {
      const Array dense = detail::contiguous(x[0]);
      if (!dense.is_same(x[0])) return dense;  // a view: its elements were just copied
      Array result = detail::make_uninitialized(out);
      const auto bytes = static_cast<std::size_t>(out.size()) * size_of(out.dtype);
      auto* to = detail::mutable_data_of<std::byte>(result);
      if (bytes > 0) std::memcpy(to, detail::data_of<std::byte>(dense), bytes);
      return result;
    },
    .jvp = [](Array dx, Array, Array) { return lax::copy(dx); },
    .transpose = [](Array ct) { return lax::copy(ct); },
    .lower = emit_operand(),
}); }};
// clang-format on

}  // namespace v1
}  // namespace telamon
