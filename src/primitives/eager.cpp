#include "primitives/eager.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

template <std::size_t kSize>
void copy_run(const std::byte* from, std::byte* to, std::int64_t n, std::int64_t from_stride, std::int64_t to_stride) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::memcpy(to, from, kSize);
    from += from_stride;
    to += to_stride;
  }
}

using CopyRun = void (*)(const std::byte*, std::byte*, std::int64_t, std::int64_t, std::int64_t);
CopyRun copy_run_of(std::size_t size) {
  switch (size) {
    case 1: return copy_run<1>;
    case 2: return copy_run<2>;
    case 4: return copy_run<4>;
    case 8: return copy_run<8>;
    default: return copy_run<16>;
  }
}

/// Whether two runs are far apart in both, as in a transposition: then tiles keep cache lines in use.
bool is_transposition(const Walk& w, std::int64_t size) {
  const std::size_t n = w.shape.size();
  return n >= 2 && w.b[n - 1] == size && w.a[n - 1] > size && w.a[n - 2] == size;
}

/// The last two dimensions in tiles of 16 x 16.
void copy_tiles(const Walk& w, const std::byte* from, std::byte* to, CopyRun copy) {
  constexpr std::int64_t kTile = 16;
  const std::size_t n = w.shape.size();
  const std::int64_t rows = w.shape[n - 2], columns = w.shape[n - 1];
  for (std::int64_t r = 0; r < rows; r += kTile) {
    for (std::int64_t c = 0; c < columns; c += kTile) {
      const std::int64_t width = std::min(kTile, columns - c);
      for (std::int64_t i = r; i < std::min(r + kTile, rows); ++i) {
        copy(from + i * w.a[n - 2] + c * w.a[n - 1], to + i * w.b[n - 2] + c * w.b[n - 1], width, w.a[n - 1], w.b[n - 1]);
      }
    }
  }
}

}  // namespace

Strided strided(const Array& x) { return {concrete_node(x).data(), byte_strides(x)}; }

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

void copy_along(const Walk& walk, std::size_t element_size, const std::byte* a, std::byte* b) {
  const auto size = static_cast<std::int64_t>(element_size);
  const CopyRun copy = copy_run_of(element_size);
  auto* from = const_cast<std::byte*>(a);  // walks are not const-correct; nothing is written here
  if (is_transposition(walk, size)) {
    Walk outer{walk.shape, walk.a, walk.b};
    for (Shape* s : {&outer.shape, &outer.a, &outer.b}) {
      s->pop_back();
      s->pop_back();
    }
    return for_each_run(outer, from, b, [&](std::byte* pa, std::byte* pb, std::int64_t n, std::int64_t sa, std::int64_t sb) {
      for (std::int64_t i = 0; i < n; ++i) copy_tiles(walk, pa + i * sa, pb + i * sb, copy);
    });
  }
  for_each_run(walk, from, b, [&](std::byte* pa, std::byte* pb, std::int64_t n, std::int64_t sa, std::int64_t sb) {
    if (sa == size && sb == size) {
      std::memcpy(pb, pa, static_cast<std::size_t>(n * size));
    } else {
      copy(pa, pb, n, sa, sb);
    }
  });
}

void copy_strided(const Shape& shape, std::size_t element_size, const Strided& from, const Strided& to) {
  if (shape.num_elements() == 0) return;
  copy_along(merged_walk(shape, from.strides, to.strides), element_size, from.data, to.data);
}

Array copy_to_dense(const Aval& aval, const Strided& from) {
  Array out = make_uninitialized(aval);
  copy_strided(aval.shape, size_of(aval.dtype), from, strided(out));
  return out;
}

std::int64_t read_index(const std::byte* p, DType dtype) {
  const auto load = [p](auto value) {
    std::memcpy(&value, p, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::bool_: case DType::u8: return load(std::uint8_t{});
    case DType::u16: return load(std::uint16_t{});
    case DType::u32: return load(std::uint32_t{});
    case DType::i8: return load(std::int8_t{});
    case DType::i16: return load(std::int16_t{});
    case DType::i32: return load(std::int32_t{});
    case DType::u64: {
      const std::uint64_t v = load(std::uint64_t{});
      constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      return static_cast<std::int64_t>(std::min(v, kMax));
    }
    default: return load(std::int64_t{});
  }
}
/// Little-endian: the low bytes are the narrower value.
void store_index(std::byte* p, DType dtype, std::int64_t value) { std::memcpy(p, &value, size_of(dtype)); }
std::int64_t read_index(const Array& scalar) { return read_index(concrete_node(scalar).data(), scalar.dtype()); }

}  // namespace detail
}  // namespace v1
}  // namespace telamon
