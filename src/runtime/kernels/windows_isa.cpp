// Places of windows, and sums of windows of adjacent elements, for one instruction set.
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/long_runs_isa.hpp"
#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

/// Component by component: offset += start * step, or kOutside for good.
template <class T>
void window_offsets(std::int64_t n, const char* indices, std::int64_t stride,
                    const kernels::Starts& starts, std::int64_t step, std::int64_t* offsets) {
  using kernels::kOutside;
  const auto add = [=, s = starts](T index, std::int64_t offset) {
    const auto wanted = static_cast<std::int64_t>(index);
    std::int64_t start = wanted;
    if constexpr (sizeof(T) == 8 && !std::is_signed_v<T>) start = start < 0 ? INT64_MAX : start;
    if constexpr (std::is_signed_v<T>) start += start < 0 ? s.wrap : 0;
    const std::int64_t low = start < 0 ? 0 : start, place = low > s.last ? s.last : low;
    const bool dropped = !s.clips & (place != start);
    return dropped ? kOutside : offset + place * step;
  };
  const auto add_all = [&](std::int64_t count, const T* index, std::int64_t* to) {
    TELAMON_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) to[i] = add(index[i], to[i]);
  };
  if (stride == sizeof(T)) return add_all(n, reinterpret_cast<const T*>(indices), offsets);
  // Components that lie apart are put side by side, for which there are vectors.
  constexpr std::int64_t kBlock = 256;
  T block[kBlock];
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t count = n - i < kBlock ? n - i : kBlock;
    for (std::int64_t k = 0; k < count; ++k)
      block[k] = *reinterpret_cast<const T*>(indices + (i + k) * stride);
    add_all(count, block, offsets + i);
  }
}

template <class T>
void add_elements(std::int64_t n, const std::int64_t* offsets, char* operand, const char* slices,
                  std::int64_t stride) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (offsets[i] < 0) continue;
    T* to = reinterpret_cast<T*>(operand + offsets[i]);
    *to = Add::apply(*to, *reinterpret_cast<const T*>(slices + i * stride));
  }
}

/// Adds some of n elements, kBytes at a time; returns how many are left.
template <int kBytes, class T>
TELAMON_INLINE std::int64_t add_vectors(std::int64_t n, T*& to, const T*& from) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr std::int64_t kLanes = kBytes / static_cast<std::int64_t>(sizeof(T));
  for (; n >= kLanes; n -= kLanes, to += kLanes, from += kLanes) {
    Vector x, y;
    __builtin_memcpy(&x, to, sizeof x);
    __builtin_memcpy(&y, from, sizeof y);
    x += y;
    __builtin_memcpy(to, &x, sizeof x);
  }
  return n;
}

/// Rows of a few vectors, of which the last has `last` elements; with `Runs`, in long runs to the same place.
template <bool Runs, int Vectors, class T>
void add_short_rows(std::int64_t n, const std::int32_t* inside, const std::int64_t* offsets,
                    char* operand, const char* slices, std::int64_t stride, std::int64_t last) {
  using V = std::conditional_t<sizeof(T) == 8, simd::F64, simd::F32>;
  using Float = simd::ScalarOf<V>;
  typedef T Vector __attribute__((vector_size(sizeof(V))));
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  const auto count = [=](auto v) { return v.value + 1 < Vectors ? kLanes : last; };
  const auto load = [&](const char* row, auto v) __attribute__((always_inline)) {
    const Float* const from = reinterpret_cast<const Float*>(row) + v.value * kLanes;
    return reinterpret_cast<Vector>(simd::load_lanes<V>(from, count(v)));
  };
  Vector sums[Vectors];
  char* to = nullptr;
  const auto store = [&]() __attribute__((always_inline)) {
    repeat<Vectors>([&](auto v) __attribute__((always_inline)) {
      Float* const row = reinterpret_cast<Float*>(to) + v.value * kLanes;
      simd::store_lanes<V>(row, reinterpret_cast<V>(sums[v.value]), count(v));
    });
  };
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t ahead = inside[i + kernels::kAhead];
    __builtin_prefetch(operand + offsets[ahead]);
    __builtin_prefetch(slices + ahead * stride);
    char* const place = operand + offsets[inside[i]];
    if (!Runs || place != to) {
      if (Runs && i > 0) store();
      to = place;
      repeat<Vectors>([&](auto v) __attribute__((always_inline)) { sums[v.value] = load(to, v); });
    }
    repeat<Vectors>([&](auto v) __attribute__((always_inline)) {
      sums[v.value] += load(slices + inside[i] * stride, v);
    });
    if (!Runs) store();
  }
  if (Runs && n > 0) store();
}
template <class T>
void add_rows(std::int64_t n, const std::int32_t* inside, const std::int64_t* offsets,
              char* operand, const char* slices, std::int64_t stride, std::int64_t elements) {
  using namespace kernels;
  if constexpr (sizeof(T) >= 4) {
    constexpr std::int64_t kLanes = simd::kBytes / static_cast<std::int64_t>(sizeof(T));
    const auto run = [&](auto loop, std::int64_t last) {
      loop(n, inside, offsets, operand, slices, stride, last);
    };
    if (elements <= 2 * kLanes) {
      const bool one = elements <= kLanes;
      const std::int64_t last = one ? elements : elements - kLanes;
      if (has_long_runs(n, [=](std::int64_t i) { return offsets[inside[i]]; }))
        return run(one ? add_short_rows<true, 1, T> : add_short_rows<true, 2, T>, last);
      // Whole vectors: what is stored in pieces does not come back as one.
      if (last == kLanes)
        return run(one ? add_short_rows<false, 1, T> : add_short_rows<false, 2, T>, last);
    }
  }
  const auto bytes = elements * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t fetched = bytes < kFetched ? bytes : kFetched;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t ahead = inside[i + kAhead];
    for (std::int64_t line = 0; line < fetched; line += kLine) {
      __builtin_prefetch(operand + offsets[ahead] + line);
      __builtin_prefetch(slices + ahead * stride + line);
    }
    T* to = reinterpret_cast<T*>(operand + offsets[inside[i]]);
    const T* from = reinterpret_cast<const T*>(slices + inside[i] * stride);
    std::int64_t left = add_vectors<simd::kBytes>(elements, to, from);
    left = add_vectors<16>(left, to, from);
    for (; left > 0; --left, ++to, ++from) *to = Add::apply(*to, *from);
  }
}

template <class T>
constexpr kernels::AddLoops kAddLoops{add_elements<T>, add_rows<T>};

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::WindowOffsets TELAMON_ISA_SYMBOL(window_offsets)(
    telamon::DType dtype) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  switch (dtype) {
    case telamon::DType::i8: return window_offsets<std::int8_t>;
    case telamon::DType::i16: return window_offsets<std::int16_t>;
    case telamon::DType::i32: return window_offsets<std::int32_t>;
    case telamon::DType::i64: return window_offsets<std::int64_t>;
    case telamon::DType::u16: return window_offsets<std::uint16_t>;
    case telamon::DType::u32: return window_offsets<std::uint32_t>;
    case telamon::DType::u64: return window_offsets<std::uint64_t>;
    default: return window_offsets<std::uint8_t>;
  }
}
extern "C" void TELAMON_ISA_SYMBOL(keep_offsets)(std::int64_t n, std::int64_t low,
                                                 std::int64_t bytes, std::int64_t* offsets) {
  // kOutside is far below all others.
  const auto first = static_cast<std::uint64_t>(low), size = static_cast<std::uint64_t>(bytes);
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const bool here = static_cast<std::uint64_t>(offsets[i]) - first < size;
    offsets[i] = here ? offsets[i] : telamon::kernels::kOutside;
  }
}
extern "C" const telamon::kernels::AddLoops* TELAMON_ISA_SYMBOL(add_loops)(telamon::DType dtype) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  switch (dtype) {
    case telamon::DType::i8:
    case telamon::DType::u8: return &kAddLoops<std::uint8_t>;
    case telamon::DType::i16:
    case telamon::DType::u16: return &kAddLoops<std::uint16_t>;
    case telamon::DType::i32:
    case telamon::DType::u32: return &kAddLoops<std::uint32_t>;
    case telamon::DType::i64:
    case telamon::DType::u64: return &kAddLoops<std::uint64_t>;
    case telamon::DType::f32: return &kAddLoops<float>;
    case telamon::DType::f64: return &kAddLoops<double>;
    default: return nullptr;
  }
}
