// Places of windows, and sums of single elements, for one instruction set.
#include "runtime/kernels/add_indexed.hpp"
#include "runtime/kernels/isa_loops.hpp"
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

// What goes to one place over and over, as sorted segments do, waits in memory for the sum before it to come back: so
// that sum stays in a register until another place comes. The processor cannot foresee that where it happens often:
// runs of four took 1.1 (single numbers) to 1.3 (rows) as long on Zen 3 as they do in memory, of sixteen 0.5 to 0.85,
// of a hundred 0.3 to 0.65.

/// Whether most of n places are in long runs of the same, from those that are looked at: a few pairs.
template <class Place>
TELAMON_INLINE bool has_long_runs(std::int64_t n, const Place& place) {
  constexpr std::int64_t kApart = 4, kStep = 8;
  if (n < 2 * kStep) return false;
  const auto differs = [&](std::int64_t i) __attribute__((always_inline)) {
    return place(i) != place(i + kApart) ? 1 : 0;
  };
  if (differs(0) + differs(n / 2) == 2) return false;  // most often it is that
  std::int64_t pairs = 0, differ = 0;
  for (std::int64_t i = 0; i + kApart < n; i += kStep, ++pairs) differ += differs(i);
  return 4 * differ <= pairs;
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
/// Rows of `Count` elements, fewer than a vector has: two and three, as of points, take 0.7 to 0.85 and 0.8 to 1 of the
/// time that the loop over rows of any length takes for them (Zen 3).
template <int Count, class T>
void add_few_elements(std::int64_t n, const std::int32_t* inside, const std::int64_t* offsets,
                      char* operand, const char* slices, std::int64_t stride, std::int64_t) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t ahead = inside[i + kernels::kAhead];
    __builtin_prefetch(operand + offsets[ahead]);
    __builtin_prefetch(slices + ahead * stride);
    T* const to = reinterpret_cast<T*>(operand + offsets[inside[i]]);
    const T* const from = reinterpret_cast<const T*>(slices + inside[i] * stride);
    repeat<Count>([&](auto k) __attribute__((always_inline)) {
      to[k.value] = Add::apply(to[k.value], from[k.value]);
    });
  }
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
      if (elements == 2) return run(add_few_elements<2, T>, 2);
      if (elements == 3) return run(add_few_elements<3, T>, 3);
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

/// Calls use(start) for an index, unless it is dropped.
template <class Index, class Use>
TELAMON_INLINE void with_place(Index index, const kernels::Starts& starts, const Use& use) {
  auto start = static_cast<std::int64_t>(index);
  start += starts.wrap & (start >> 63);  // no branch: signs may come in any order
  if (static_cast<std::uint64_t>(start) <= static_cast<std::uint64_t>(starts.last)) [[likely]]
    use(start);
  else if (starts.clips) use(start < 0 ? 0 : starts.last);
}

constexpr std::int64_t kTables = 4;
constexpr std::int64_t kBlock = 32;  // indices that are looked at together

/// Calls use(i, start, i % kTables) for dense indices in their order. Blocks of which all are in bounds,
/// as most are, cost one look at all of them at once; of these use_runs(i) takes what has long runs of the same index.
template <class Index, class Use, class UseRuns = std::nullptr_t>
TELAMON_INLINE void for_each_place(std::int64_t n, const Index* index,
                                   const kernels::Starts& starts, const Use& use,
                                   const UseRuns& use_runs = nullptr) {
  using Unsigned = std::make_unsigned_t<Index>;
  // Of an index's own type, in which a long dimension may have more places than it has numbers from 0 on.
  const auto last = static_cast<Unsigned>(
      std::min<std::uint64_t>(static_cast<std::uint64_t>(starts.last),
                              static_cast<std::uint64_t>(std::numeric_limits<Index>::max())));
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    Unsigned highest = 0;  // numbers below 0 are higher than all others
    for (std::int64_t k = 0; k < kBlock; ++k) {
      const auto x = static_cast<Unsigned>(index[i + k]);
      highest = highest < x ? x : highest;
    }
    if constexpr (!std::is_null_pointer_v<UseRuns>) {
      if (highest <= last && has_long_runs(kBlock, [=](std::int64_t k) { return index[i + k]; })) {
        use_runs(i);
        continue;
      }
    }
    if (highest <= last) [[likely]] {
#pragma GCC unroll 32
      for (std::int64_t k = 0; k < kBlock; ++k)
        use(i + k, static_cast<std::int64_t>(index[i + k]), k % kTables);
    } else {
      for (std::int64_t k = i; k < i + kBlock; ++k)
        with_place(index[k], starts, [&](std::int64_t place) { use(k, place, k % kTables); });
    }
  }
  for (; i < n; ++i)
    with_place(index[i], starts, [&](std::int64_t place) { use(i, place, i % kTables); });
}

/// Dense indices; kStep: of the slices, in elements.
template <int kStep, class Index, class T>
void add_dense(std::int64_t n, const Index* index, const kernels::Starts& starts, T* operand,
               const T* slices) {
  const auto add = [=](std::int64_t i, std::int64_t place, std::int64_t) {
    operand[place] = Add::apply(operand[place], slices[kStep * i]);
  };
  // The sum stays in a register as long as the index does: through memory each would wait for the one before it.
  for_each_place(n, index, starts, add, [=](std::int64_t i) {
    Index place = index[i];
    T sum = operand[place];
    for (std::int64_t k = i; k < i + kBlock; ++k) {
      if (index[k] != place) {
        operand[place] = sum;
        place = index[k];
        sum = operand[place];
      }
      sum = Add::apply(sum, slices[kStep * k]);
    }
    operand[place] = sum;
  });
}

constexpr std::int64_t kTable = 1024;     // elements
constexpr std::int64_t kEachOfTable = 4;  // times that each is added to, to be worth the tables

/// Whole numbers come out the same in any order: in several tables, so that no sum waits for the one
/// before it.
template <int kStep, class Index, class T>
void add_to_tables(std::int64_t n, const Index* index, const kernels::Starts& starts, T* operand,
                   const T* slices) {
  T tables[kTables][kTable];
  for (auto& table : tables)
    __builtin_memset(table, 0, static_cast<std::size_t>(starts.last + 1) * sizeof(T));
  const T first = slices[0];
  for_each_place(n, index, starts, [&](std::int64_t i, std::int64_t place, std::int64_t t) {
    tables[t][place] = Add::apply(tables[t][place], kStep == 0 ? first : slices[i]);
  });
  for (std::int64_t k = 0; k <= starts.last; ++k) {
    for (const auto& table : tables) operand[k] = Add::apply(operand[k], table[k]);
  }
}

template <class Index, class T>
void add_indexed(std::int64_t n, const char* indices, std::int64_t stride,
                 const kernels::Starts& starts, std::int64_t step, char* operand,
                 const char* slices, std::int64_t slice_stride) {
  if (stride == sizeof(Index) && step == sizeof(T) &&
      (slice_stride == sizeof(T) || slice_stride == 0)) {
    const auto* index = reinterpret_cast<const Index*>(indices);
    T* to = reinterpret_cast<T*>(operand);
    const T* from = reinterpret_cast<const T*>(slices);
    if (std::is_integral_v<T> && starts.last < kTable && n >= kEachOfTable * (starts.last + 1)) {
      return slice_stride == 0 ? add_to_tables<0>(n, index, starts, to, from)
                               : add_to_tables<1>(n, index, starts, to, from);
    }
    return slice_stride == 0 ? add_dense<0>(n, index, starts, to, from)
                             : add_dense<1>(n, index, starts, to, from);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    with_place(*reinterpret_cast<const Index*>(indices + i * stride), starts,
               [&](std::int64_t place) {
                 T* to = reinterpret_cast<T*>(operand + place * step);
                 *to = Add::apply(*to, *reinterpret_cast<const T*>(slices + i * slice_stride));
               });
  }
}
template <class Index>
kernels::AddIndexed add_indexed_of(DType dtype) {
  switch (dtype) {
    case DType::i32:
    case DType::u32: return add_indexed<Index, std::uint32_t>;
    case DType::i64:
    case DType::u64: return add_indexed<Index, std::uint64_t>;
    case DType::f32: return add_indexed<Index, float>;
    case DType::f64: return add_indexed<Index, double>;
    default: return nullptr;
  }
}

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
extern "C" telamon::kernels::AddIndexed TELAMON_ISA_SYMBOL(add_indexed)(telamon::DType index_dtype,
                                                                        telamon::DType dtype) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  switch (index_dtype) {
    case telamon::DType::i32: return add_indexed_of<std::int32_t>(dtype);
    case telamon::DType::i64: return add_indexed_of<std::int64_t>(dtype);
    case telamon::DType::u32: return add_indexed_of<std::uint32_t>(dtype);
    default: return nullptr;
  }
}
