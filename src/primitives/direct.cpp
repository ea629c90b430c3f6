// The direct way from arrays to the inner loop of an eager kernel and back.
#include "primitives/direct.hpp"

#include <new>

#include "core/concrete.hpp"
#include "core/element.hpp"
#include "core/trace.hpp"
#include "runtime/profile.hpp"
#include "telamon/debug.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using kernels::Op;

constexpr std::int64_t kMost = 1024;          // elements: below, no kernel runs in chunks
constexpr std::size_t kRepeatedBytes = 1024;  // of a scalar, written out

/// Operations of which the primitive takes integers wherever there is a kernel for them.
bool takes_integers(Op op) {
  return op == Op::neg || op == Op::abs || op == Op::sign || (op >= Op::add && op <= Op::min) ||
         (op >= Op::eq && op <= Op::ge);
}

/// Whether nobody but evaluation has to see an operation on the value, and its elements are at hand.
bool is_plain(const Array& x) {
  const ArrayNode* const node = x.node_or_null();
  return node != nullptr && node->is_dense() && !known_concrete_node(x).buffer().donated();
}

bool is_known_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

const kernels::Kernel* kernel_for(Op op, DType dtype) {
  const bool known =
      is_known_float(dtype) || ((dtype == DType::i32 || dtype == DType::i64) && takes_integers(op));
  if (!known || tracing_under_way() || runtime::profiling() || debug_nans()) return nullptr;
  const kernels::Kernel& kernel = kernels::host_kernel(op, dtype);
  return kernel ? &kernel : nullptr;
}

std::size_t dtype_bytes(DType dtype) { return dtype == DType::f32 || dtype == DType::i32 ? 4 : 8; }

const char* elements(const Array& x) {
  return reinterpret_cast<const char*>(known_concrete_node(x).data());
}

/// The number x in another type, as often as `count` says.
const char* written_out(const Array& x, DType dtype, std::int64_t count, char* to) {
  const DType from = x.node_or_null()->aval().dtype;
  alignas(8) std::byte one[8];
  if (from == dtype) __builtin_memcpy(one, elements(x), dtype_bytes(dtype));
  else store_element(one, dtype, load_element(known_concrete_node(x).data(), from));
  const auto fill = [&]<class T>(T* out) {
    T value;
    __builtin_memcpy(&value, one, sizeof value);
    for (std::int64_t i = 0; i < count; ++i) out[i] = value;
  };
  if (dtype_bytes(dtype) == 4) fill(reinterpret_cast<std::uint32_t*>(to));
  else fill(reinterpret_cast<std::uint64_t*>(to));
  return to;
}

/// Whether x, a C++ number, takes on the type of the array beside it, and any value of it has one.
bool gives_way(const ShapedArray& x, const ShapedArray& array) {
  if (!x.shape.empty() || !x.weak_type) return false;
  if (x.dtype == array.dtype) return true;
  const bool number = x.dtype == DType::f64 || x.dtype == DType::f32 || x.dtype == DType::i64 ||
                      x.dtype == DType::i32;
  return number && !array.weak_type && is_known_float(array.dtype);
}

// Where memory runs out whoever applies the primitive says of what.
Array run(const kernels::Kernel& kernel, const ShapedArray& like, bool weak, const char* const* in,
          std::int64_t count) try {
  Array result = kernel.out_dtype == like.dtype && weak == like.weak_type
                     ? make_uninitialized(like)
                     : make_uninitialized({like.shape, kernel.out_dtype, weak});
  char* const out = reinterpret_cast<char*>(known_concrete_node(result).data());
  kernel.loop(count, in, out, kernel.bound);
  return result;
} catch (const std::bad_alloc&) { return {}; } catch (const OutOfMemoryError&) {
  return {};
}

}  // namespace

Array apply_direct(Op op, const Array& x) {
  if (!is_plain(x)) return {};
  const ShapedArray& aval = x.node_or_null()->aval();
  const kernels::Kernel* const kernel = kernel_for(op, aval.dtype);
  const std::int64_t count = aval.size();
  if (kernel == nullptr || count > kMost) return {};
  const char* const in[] = {elements(x)};
  return run(*kernel, aval, aval.weak_type, in, count);
}

Array apply_direct(Op op, const Array& x, const Array& y) {
  if (!is_plain(x) || !is_plain(y)) return {};
  const ShapedArray &a = x.node_or_null()->aval(), &b = y.node_or_null()->aval();
  if (a.dtype == b.dtype && a.shape == b.shape) {
    const kernels::Kernel* const kernel = kernel_for(op, a.dtype);
    const std::int64_t count = a.size();
    if (kernel == nullptr || count > kMost) return {};
    const char* const in[] = {elements(x), elements(y)};
    return run(*kernel, a, a.weak_type && b.weak_type, in, count);
  }
  const bool second = gives_way(b, a);
  if (!second && !gives_way(a, b)) return {};
  const ShapedArray& shaped = second ? a : b;
  const kernels::Kernel* const kernel = kernel_for(op, shaped.dtype);
  const std::int64_t count = shaped.size();
  if (kernel == nullptr || count > kMost ||
      static_cast<std::size_t>(count) * dtype_bytes(shaped.dtype) > kRepeatedBytes)
    return {};
  alignas(64) char repeated[kRepeatedBytes];
  const char* const other = written_out(second ? y : x, shaped.dtype, count, repeated);
  const char* const in[] = {second ? elements(x) : other, second ? other : elements(y)};
  return run(*kernel, shaped, a.weak_type && b.weak_type, in, count);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
