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

TELAMON_INLINE bool are_all(const kernels::PlaceRange& part) { return part.size == INT64_MAX; }
TELAMON_INLINE bool has(const kernels::PlaceRange& part, std::int64_t place) {
  return static_cast<std::uint64_t>(place) - static_cast<std::uint64_t>(part.first) <
         static_cast<std::uint64_t>(part.size);
}

/// Rows by number, and the places that they go to, counted from the first one of a part.
template <class Index>
class ListedRows {
  using U = std::make_unsigned_t<Index>;

 public:
  TELAMON_INLINE ListedRows(const U* places, const U* numbers, std::int64_t base,
                            std::int64_t count)
      : places_(places), numbers_(numbers), base_(base), count_(count) {}

  TELAMON_INLINE std::int64_t size() const { return count_; }
  TELAMON_INLINE const Index* places() const { return reinterpret_cast<const Index*>(places_); }

  /// Calls use(place, number) for each, in their order.
  template <class Use>
  TELAMON_INLINE void for_each(const Use& use) const {
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < count_; ++k) with(k, use);
  }
  /// The same; calls fetch(place, number) for those that come kLater later.
  template <class Fetch, class Use>
  TELAMON_INLINE void for_each_ahead(const Fetch& fetch, const Use& use) const {
    constexpr std::int64_t kLater = 32;
    for (std::int64_t k = 0; k < kLater && k < count_; ++k) with(k, fetch);
    for (std::int64_t k = 0; k < count_; ++k) {
      if (k + kLater < count_) with(k + kLater, fetch);
      with(k, use);
    }
  }

 private:
  template <class Use>
  TELAMON_INLINE void with(std::int64_t k, const Use& use) const {
    use(static_cast<std::int64_t>(places_[k]), base_ + static_cast<std::int64_t>(numbers_[k]));
  }

  const U *const places_, *const numbers_;
  const std::int64_t base_, count_;
};

template <class Index>
class Listing;

/// The memory of a list. It has no counters in it: these stay in registers though a function gets to see the rows.
template <class Index>
class List {
  friend class Listing<Index>;
  using U = std::make_unsigned_t<Index>;
  static constexpr std::int64_t kMost = 512;
  static constexpr std::int64_t kSpare = simd::kBytes / sizeof(U);  // registers are stored whole
  U places_[kMost + kSpare], numbers_[kMost + kSpare];
};

/// Lists rows that go to the part.
template <class Index>
class Listing {
  static_assert(std::is_signed_v<Index>);
  using U = std::make_unsigned_t<Index>;

 public:
  TELAMON_INLINE Listing(const kernels::PlaceRange& part, List<Index>& list)
      : part_(part),
        places_(list.places_),
        numbers_(list.numbers_),
        first_(static_cast<U>(part.first)) {
    // As many as indices reach: others would be near the first ones again. The highest number stands for -1.
    constexpr auto kReached = static_cast<std::uint64_t>(std::numeric_limits<Index>::max()) + 1;
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
  TELAMON_INLINE void drop(std::int64_t rows) { count_ -= rows; }
  /// For so many rows from number i on. Numbers that are far apart would not fit.
  TELAMON_INLINE bool has_room(std::int64_t rows, std::int64_t i) const {
    return count_ + rows <= List<Index>::kMost && i - base_ < kFarthest;
  }

  /// What is listed, which is forgotten with that.
  TELAMON_INLINE ListedRows<Index> take() {
    const ListedRows<Index> rows(places_, numbers_, base_, count_);
    count_ = 0;
    return rows;
  }

 private:
  static constexpr std::int64_t kFarthest = std::int64_t{1} << 31;

  const kernels::PlaceRange part_;
  U *const places_, *const numbers_;
  const U first_;
  U size_ = 0;
  std::int64_t base_ = 0, count_ = 0;
};

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon
