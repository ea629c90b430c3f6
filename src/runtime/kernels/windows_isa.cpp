// Places of windows, for one instruction set.
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"
#include "runtime/kernels/pairs_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

/// Component by component: offset += place * step, or kOutside for good.
template <class T>
void window_offsets(std::int64_t n, const char* indices, std::int64_t stride,
                    const kernels::Starts& starts, std::int64_t step, std::int64_t* offsets) {
  using kernels::kOutside;
  constexpr std::int64_t kShort = INT32_MAX;
  const auto add_all = [=, s = starts](std::int64_t count, const T* index, std::int64_t* to) {
    // Products of 64 bits take several instructions.
    if (sizeof(T) <= 4 && s.last < kShort && s.wrap <= kShort && s.last * step <= kShort) {
      const auto last = static_cast<std::int32_t>(s.last), wrap = static_cast<std::int32_t>(s.wrap),
                 by = static_cast<std::int32_t>(step);
      TELAMON_INDEPENDENT
      for (std::int64_t i = 0; i < count; ++i) {
        auto start = static_cast<std::int32_t>(index[i]);
        if constexpr (!std::is_signed_v<T>) start = start < 0 ? INT32_MAX : start;
        const std::int32_t place = place_of(start, s.clips, last, wrap);
        to[i] = place < 0 ? kOutside : to[i] + place * by;
      }
      return;
    }
    TELAMON_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) {
      auto start = static_cast<std::int64_t>(index[i]);
      if constexpr (sizeof(T) == 8 && !std::is_signed_v<T>) start = start < 0 ? INT64_MAX : start;
      const std::int64_t place = place_of(start, s.clips, s.last, s.wrap);
      to[i] = place < 0 ? kOutside : to[i] + place * step;
    }
  };
  if (stride == sizeof(T)) return add_all(n, reinterpret_cast<const T*>(indices), offsets);
  // Components that lie apart are put side by side, for which there are vectors.
  constexpr std::int64_t kBlock = 256;
  T block[kBlock];
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t count = n - i < kBlock ? n - i : kBlock;
    const char* const from = indices + i * stride;
    const auto copy = [&](std::int64_t apart) __attribute__((always_inline)) {
      for (std::int64_t k = 0; k < count; ++k)
        block[k] = *reinterpret_cast<const T*>(from + k * apart);
    };
    // Of few components, whose number is known here, whole vectors are read.
    if (stride == 2 * sizeof(T)) copy(2 * sizeof(T));
    else if (stride == 3 * sizeof(T)) copy(3 * sizeof(T));
    else if (stride == 4 * sizeof(T)) copy(4 * sizeof(T));
    else copy(stride);
    add_all(count, block, offsets + i);
  }
}

/// Of at most kWindows index vectors of two numbers that lie side by side, all of them in bounds as they are: offset +=
/// first * steps[0] + second * steps[1]. False, and nothing is done, where some are not.
bool pair_offsets(std::int64_t n, const char* indices, const std::int32_t* lasts,
                  const std::int32_t* steps, std::int64_t* offsets) {
  const auto both = [](const std::int32_t* x) {
    return Pair{static_cast<std::uint32_t>(x[0]), static_cast<std::uint32_t>(x[1])};
  };
  const auto* const pairs = reinterpret_cast<const Pair*>(indices);
  const Pair last = both(lasts), step = both(steps);
  Place places[kernels::kWindows];
  std::int64_t i = n / kPairsTogether * kPairsTogether;
  bool inside = find_pairs(i, pairs, last, step, places);
  for (; i < n; ++i) {
    inside &= pairs[i].first <= last.first && pairs[i].second <= last.second;
    const std::uint32_t place = pairs[i].first * step.first + pairs[i].second * step.second;
    places[i] = static_cast<Place>(place);
  }
  for (std::int64_t k = 0; inside && k < n; ++k) offsets[k] += places[k];
  return inside;
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
extern "C" bool TELAMON_ISA_SYMBOL(pair_offsets)(std::int64_t n, const char* indices,
                                                 const std::int32_t* lasts,
                                                 const std::int32_t* steps, std::int64_t* offsets) {
  return telamon::loops::pair_offsets(n, indices, lasts, steps, offsets);
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
