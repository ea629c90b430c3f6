// Views of strided memory, copies of them, and indices.
#include "primitives/eager.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/result_place.hpp"

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
  Array out = make_result(aval);
  kernels::run_copy(from, view_of(out));
  return out;
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
