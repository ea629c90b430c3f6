// Which of many rows go to a part of an array: that is data, and seldom foreseen, so they are listed first. For *_isa.cpp
// files only.
#pragma once

#include <limits>
#include <type_traits>

#include "runtime/kernels/cut_isa.hpp"
#include "runtime/kernels/window_loops.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

TELAMON_INLINE bool are_all(const kernels::Places& part) { return part.size == INT64_MAX; }
TELAMON_INLINE bool has(const kernels::Places& part, std::int64_t place) {
  return static_cast<std::uint64_t>(place) - static_cast<std::uint64_t>(part.first) <
         static_cast<std::uint64_t>(part.size);
}

/// Rows by number, and the places that they go to, counted from the first one of the part.
template <class Index>
class Listed {
  using U = std::make_unsigned_t<Index>;

 public:
  explicit Listed(const kernels::Places& part) : part_(part), first_(static_cast<U>(part.first)) {
    // As many as indices reach: others would be near the first ones again. The highest number stands for -1.
    constexpr auto kReached = static_cast<std::uint64_t>(std::numeric_limits<Index>::max()) +
                              (std::is_signed_v<Index> ? 1 : 0);
    if (part.first >= 0 && static_cast<std::uint64_t>(part.first) >= kReached) return;
    const std::uint64_t reached = kReached - static_cast<std::uint64_t>(part.first),
                        size = static_cast<std::uint64_t>(part.size);
    size_ = static_cast<U>(size < reached ? size : reached);
  }

  /// Lists those of kRows rows, from number i on, that go to the part; returns how many. All are places as they are, or
  /// -1 where a row is dropped.
  template <std::int64_t kRows>
  TELAMON_INLINE std::int64_t append(const Index* index, std::int64_t i) {
    if (count_ == 0) base_ = i;
    const std::int64_t before = count_;
    const auto number = static_cast<U>(i - base_);
    std::int64_t k = 0;
#if defined(TELAMON_ISA_AVX512) || defined(TELAMON_ISA_AVX2)
    const Cut<U> cut(size_);
    RegisterOf<U> numbers{};
    for (int lane = 0; lane < kLanes<U>; ++lane) numbers[lane] = static_cast<U>(lane);
    numbers += number;
    for (; k < kRows; k += kLanes<U>, numbers += static_cast<U>(kLanes<U>)) {
      const RegisterOf<U> place = load(reinterpret_cast<const U*>(index) + k) - first_;
      const unsigned mask = cut.below(place);
      store<U>(places_ + count_, cut.front(place, mask));
      store<U>(numbers_ + count_, cut.front(numbers, mask));
      count_ += __builtin_popcount(mask);
    }
#endif
    for (; k < kRows; ++k) {
      const U place = static_cast<U>(index[k]) - first_;
      places_[count_] = place;
      numbers_[count_] = number + static_cast<U>(k);
      count_ += place < size_ ? 1 : 0;
    }
    return count_ - before;
  }
  /// Row number i, if it has a place, of 0 and more, in the part.
  TELAMON_INLINE void append_one(std::int64_t place, std::int64_t i) {
    if (count_ == 0) base_ = i;
    places_[count_] = static_cast<U>(place - part_.first);
    numbers_[count_] = static_cast<U>(i - base_);
    const bool listed = (place >= 0) & has(part_, place);
    count_ += listed ? 1 : 0;
  }
  std::int64_t size() const { return count_; }
  const Index* places() const { return reinterpret_cast<const Index*>(places_); }
  TELAMON_INLINE std::int64_t place(std::int64_t k) const {
    return static_cast<std::int64_t>(places_[k]);
  }
  TELAMON_INLINE std::int64_t number(std::int64_t k) const {
    return base_ + static_cast<std::int64_t>(numbers_[k]);
  }
  TELAMON_INLINE void drop(std::int64_t rows) { count_ -= rows; }
  /// For so many rows from number i on. Numbers that are far apart would not fit.
  TELAMON_INLINE bool has_room(std::int64_t rows, std::int64_t i) const {
    return count_ + rows <= kMost && i - base_ < kFarthest;
  }

  /// Calls use(place, number) for what is listed, in its order, and forgets it.
  template <class Use>
  TELAMON_INLINE void flush(const Use& use) {
    const std::int64_t count = count_;
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < count; ++k) with(k, use);
    count_ = 0;
  }
  /// The same; calls fetch(place, number) for those that come kLater later.
  template <class Fetch, class Use>
  TELAMON_INLINE void flush_ahead(const Fetch& fetch, const Use& use) {
    for (std::int64_t k = 0; k < kLater && k < count_; ++k) with(k, fetch);
    for (std::int64_t k = 0; k < count_; ++k) {
      if (k + kLater < count_) with(k + kLater, fetch);
      with(k, use);
    }
    count_ = 0;
  }

 private:
  static constexpr std::int64_t kMost = 512, kLater = 32, kFarthest = std::int64_t{1} << 31;
  static constexpr std::int64_t kSpare = simd::kBytes / sizeof(U);  // registers are stored whole

  template <class Use>
  TELAMON_INLINE void with(std::int64_t k, const Use& use) const {
    use(place(k), number(k));
  }

  const kernels::Places part_;
  const U first_;
  U size_ = 0;
  std::int64_t base_ = 0, count_ = 0;
  U places_[kMost + kSpare], numbers_[kMost + kSpare];
};

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
