// Stable sorting by keys that have been mapped to unsigned integers of the same order.
//
// Each line is sorted by its last key first, then by the one before, and so on: stability makes that
// the lexicographic order. A sort permutes (key, position) pairs: by insertion when there are few, by
// bytes from the lowest otherwise, skipping bytes in which all keys agree. The pairs' final order then
// gathers every operand.
#include "runtime/kernels/sort.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/cursor.hpp"
#include "runtime/kernels/temporary.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kChunk = 16 * 1024;  // elements worth a chunk of their own
constexpr std::size_t kInsertion = 40;      // elements up to which insertion is faster

struct Entry {
  std::uint64_t key;
  std::int64_t position;
};

// ---- Keys: unsigned integers in the order of the elements

template <class T>
std::uint64_t key_of(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Bits kSign = Bits(1) << (8 * sizeof(T) - 1);
    if (x != x) return std::numeric_limits<Bits>::max();  // NaNs are equal and last
    const Bits bits = std::bit_cast<Bits>(x == 0 ? T(0) : x);
    return (bits & kSign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(x)) ^ (std::uint64_t{1} << 63);
  } else {
    return x;
  }
}

/// Writes keys[i].key for the element at keys[i].position of a line.
using WriteKeys = void (*)(std::span<Entry> entries, const char* line, std::int64_t stride);
template <class T>
void write_keys(std::span<Entry> entries, const char* line, std::int64_t stride) {
  for (Entry& entry : entries) {
    T x;
    std::memcpy(&x, line + entry.position * stride, sizeof x);
    entry.key = key_of(x);
  }
}

/// A key as it lies in memory: complex numbers and 16-bit floats have been taken apart before.
struct Key {
  View view;
  WriteKeys write;
};
WriteKeys writer(DType dtype) {
  switch (dtype) {
    case DType::bool_:
    case DType::u8: return write_keys<std::uint8_t>;
    case DType::i8: return write_keys<std::int8_t>;
    case DType::i16: return write_keys<std::int16_t>;
    case DType::i32: return write_keys<std::int32_t>;
    case DType::i64: return write_keys<std::int64_t>;
    case DType::u16: return write_keys<std::uint16_t>;
    case DType::u32: return write_keys<std::uint32_t>;
    case DType::u64: return write_keys<std::uint64_t>;
    case DType::f32: return write_keys<float>;
    case DType::f64: return write_keys<double>;
    default: return nullptr;
  }
}

// ---- Sorting entries

void insertion_sort(std::span<Entry> entries) {
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const Entry entry = entries[i];
    std::size_t j = i;
    for (; j > 0 && entries[j - 1].key > entry.key; --j) entries[j] = entries[j - 1];
    entries[j] = entry;
  }
}

void radix_sort(std::span<Entry> entries, std::vector<Entry>& scratch) {
  std::uint64_t all_set = ~std::uint64_t{0}, any_set = 0;
  bool sorted = true;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    all_set &= entries[i].key;
    any_set |= entries[i].key;
    sorted = sorted && (i == 0 || entries[i - 1].key <= entries[i].key);
  }
  if (sorted) return;
  const std::uint64_t varying = all_set ^ any_set;
  scratch.resize(entries.size());
  Entry* from = entries.data();
  Entry* to = scratch.data();
  for (int shift = 0; shift < 64; shift += 8) {
    if (((varying >> shift) & 0xff) == 0) continue;
    std::size_t starts[257] = {};
    for (std::size_t i = 0; i < entries.size(); ++i) ++starts[((from[i].key >> shift) & 0xff) + 1];
    for (int b = 0; b < 256; ++b) starts[b + 1] += starts[b];
    for (std::size_t i = 0; i < entries.size(); ++i)
      to[starts[(from[i].key >> shift) & 0xff]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries.data()) std::copy_n(from, entries.size(), entries.data());
}

void sort_line(std::span<Entry> entries, std::vector<Entry>& scratch, std::span<const Key> keys,
               std::span<const char* const> lines, std::span<const std::int64_t> strides) {
  for (std::size_t i = 0; i < entries.size(); ++i)
    entries[i].position = static_cast<std::int64_t>(i);
  for (std::size_t k = keys.size(); k-- > 0;) {
    keys[k].write(entries, lines[k], strides[k]);
    if (entries.size() <= kInsertion) insertion_sort(entries);
    else radix_sort(entries, scratch);
  }
}

void gather(std::span<const Entry> entries, const char* from, std::int64_t from_stride, char* to,
            std::int64_t to_stride, std::size_t size) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::memcpy(to + static_cast<std::int64_t>(i) * to_stride,
                from + entries[i].position * from_stride, size);
  }
}

/// The view without `axis`: where the lines begin.
View line_starts(const View& view, std::size_t axis) {
  View starts = view;
  starts.shape.erase(axis);
  starts.strides.erase(axis);
  return starts;
}

/// The part of a complex number at `offset`, as an array of floats.
View part_of(const View& z, DType part, std::int64_t offset) {
  return {z.data + offset, part, z.shape, z.strides};
}

/// The views that are compared, most significant first. 16-bit floats are widened into `wide`.
std::vector<Key> keys_of(std::span<const View> in, std::vector<std::unique_ptr<Temporary>>& wide) {
  std::vector<Key> keys;
  for (const View& view : in) {
    if (is_complex(view.dtype)) {
      const DType part = view.dtype == DType::c64 ? DType::f32 : DType::f64;
      keys.push_back({part_of(view, part, 0), writer(part)});
      keys.push_back({part_of(view, part, static_cast<std::int64_t>(size_of(part))), writer(part)});
    } else if (view.dtype == DType::f16 || view.dtype == DType::bf16) {
      wide.push_back(std::make_unique<Temporary>(view.shape, DType::f32));
      run_convert(view, wide.back()->view());
      keys.push_back({wide.back()->view(), writer(DType::f32)});
    } else {
      keys.push_back({view, writer(view.dtype)});
    }
    if (keys.back().write == nullptr) {
      throw NotImplementedError("sort has no evaluation rule for dtype " +
                                std::string(short_name(view.dtype)));
    }
  }
  return keys;
}

/// The address of each view's line number `line`.
std::vector<const char*> addresses(std::span<const View> views, std::size_t axis,
                                   std::int64_t line) {
  std::vector<const char*> at;
  for (const View& view : views) {
    Cursor cursor(line_starts(view, axis));
    cursor.seek(line);
    at.push_back(cursor.at());
  }
  return at;
}

}  // namespace

void run_sort(std::span<const View> in, int axis, int num_keys, std::span<const View> out) {
  TELAMON_CHECK(
      in.size() == out.size() && num_keys >= 1 && static_cast<std::size_t>(num_keys) <= in.size(),
      "sort has as many results as operands, and keys among them");
  const auto dimension = static_cast<std::size_t>(axis);
  const std::int64_t length = in[0].shape[dimension];
  if (in[0].shape.num_elements() == 0) return;
  std::vector<std::unique_ptr<Temporary>> wide;
  const std::vector<Key> keys = keys_of(in.first(static_cast<std::size_t>(num_keys)), wide);
  std::vector<View> key_views;
  std::vector<std::int64_t> key_strides;
  for (const Key& key : keys) {
    key_views.push_back(key.view);
    key_strides.push_back(key.view.strides[dimension]);
  }
  const std::int64_t lines = in[0].shape.num_elements() / length;
  const std::int64_t step = std::max<std::int64_t>(kChunk / length, 1);
  runtime::parallel_for((lines + step - 1) / step, [&](std::int64_t chunk) {
    std::vector<Entry> entries(static_cast<std::size_t>(length)), scratch;
    for (std::int64_t line = chunk * step; line < std::min(lines, (chunk + 1) * step); ++line) {
      sort_line(entries, scratch, keys, addresses(key_views, dimension, line), key_strides);
      const auto from = addresses(in, dimension, line), to = addresses(out, dimension, line);
      for (std::size_t i = 0; i < in.size(); ++i) {
        gather(entries, from[i], in[i].strides[dimension], const_cast<char*>(to[i]),
               out[i].strides[dimension], size_of(in[i].dtype));
      }
    }
  });
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
