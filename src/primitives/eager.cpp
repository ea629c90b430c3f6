// Strided copies and walks, and the views of memory that they need.
#include "primitives/eager.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace telamon {
inline namespace v1 {
namespace detail {

View part_of(View view, const Shape& index, const Shape& shape) {
  for (std::size_t i = 0; i < index.size(); ++i) view.data += index[i] * view.strides[i];
  view.shape = shape;
  return view;
}

View without_axis(View view, std::size_t axis) {
  view.shape.erase(axis);
  view.strides.erase(axis);
  return view;
}

Array copy_to_dense(const Aval& aval, const View& from) {
  Array out = make_uninitialized(aval);
  kernels::run_copy(from, view_of(out));
  return out;
}

Walk merged_walk(const Shape& shape, const Shape& a, const Shape& b) {
  Walk w;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const std::size_t last = w.shape.size();
    if (last > 0 && w.a[last - 1] == a[i] * shape[i] && w.b[last - 1] == b[i] * shape[i]) {
      w.shape[last - 1] *= shape[i];
      w.a[last - 1] = a[i];
      w.b[last - 1] = b[i];
    } else {
      w.shape.push_back(shape[i]);
      w.a.push_back(a[i]);
      w.b.push_back(b[i]);
    }
  }
  return w;
}

namespace {

/// n elements of a size known to the compiler.
template <std::size_t kSize>
void copy_run(const char* from, char* to, std::int64_t n, std::int64_t from_stride,
              std::int64_t to_stride) {
  for (std::int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, kSize);
}

using CopyRun = void (*)(const char*, char*, std::int64_t, std::int64_t, std::int64_t);
CopyRun copy_run_of(std::size_t size) {
  switch (size) {
    case 1: return copy_run<1>;
    case 2: return copy_run<2>;
    case 4: return copy_run<4>;
    case 8: return copy_run<8>;
    default: return copy_run<16>;
  }
}

}  // namespace

void copy_along(const Walk& walk, std::size_t element_size, const char* a, char* b) {
  const auto size = static_cast<std::int64_t>(element_size);
  const CopyRun copy = copy_run_of(element_size);
  auto* from = const_cast<char*>(a);  // walks are not const-correct; nothing is written here
  for_each_run(walk, from, b,
               [&](char* pa, char* pb, std::int64_t n, std::int64_t sa, std::int64_t sb) {
                 if (sa == size && sb == size) {
                   std::memcpy(pb, pa, static_cast<std::size_t>(n * size));
                 } else {
                   copy(pa, pb, n, sa, sb);
                 }
               });
}

std::int64_t read_index(const char* p, DType dtype) {
  const auto load = [p](auto value) {
    std::memcpy(&value, p, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::bool_:
    case DType::u8: return load(std::uint8_t{});
    case DType::u16: return load(std::uint16_t{});
    case DType::u32: return load(std::uint32_t{});
    case DType::i8: return load(std::int8_t{});
    case DType::i16: return load(std::int16_t{});
    case DType::i32: return load(std::int32_t{});
    case DType::u64: {
      constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      return static_cast<std::int64_t>(std::min(load(std::uint64_t{}), kMax));
    }
    default: return load(std::int64_t{});
  }
}
std::int64_t read_index(const Array& scalar) {
  return read_index(view_of(scalar).data, scalar.dtype());
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
