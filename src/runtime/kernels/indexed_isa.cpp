// Updates of rows of adjacent elements at places that indices along one dimension name, or two, or a list, for one
// instruction set.
#include <bit>
#include <limits>
#include <utility>

#include "runtime/kernels/halves_isa.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/listed_isa.hpp"
#include "runtime/kernels/loop_isa.hpp"
#include "runtime/kernels/pairs_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::IndexedArrays;

/// Adjacent numbers in a register. Vectors of one lane would lie in memory.
template <class T, int kCount>
struct Several {
  typedef T Vector __attribute__((vector_size(kCount * sizeof(T))));
};
template <class T>
struct Several<T, 1> {
  using Vector = T;
};
/// A row of a few numbers, as vectors as large as they may be: of seven four, two and one.
template <class T, int kCount>
struct Row {
  static constexpr int kMost = static_cast<int>(simd::kBytes / sizeof(T));
  static constexpr int kFirst =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(kCount < kMost ? kCount : kMost)));
  static constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  static constexpr std::int64_t kRestAt = kFirst * static_cast<std::int64_t>(sizeof(T));
  static constexpr int kNumbers = kCount;
  using Element = T;
  using Vector = typename Several<T, kFirst>::Vector;
  Vector first;
  Row<T, kCount - kFirst> rest;

  static TELAMON_INLINE Row load(const char* from) {
    Row row;
    __builtin_memcpy(&row.first, from, sizeof row.first);
    row.rest = Row<T, kCount - kFirst>::load(from + kRestAt);
    return row;
  }
  TELAMON_INLINE void store(char* to) const {
    __builtin_memcpy(to, &first, sizeof first);
    rest.store(to + kRestAt);
  }
  TELAMON_INLINE void add(const char* from) {
    Vector y;
    __builtin_memcpy(&y, from, sizeof y);
    if constexpr (kIsSmallFloat<T>) first = add_halves(first, y);  // of one
    else first += y;
    rest.add(from + kRestAt);
  }
};
template <class T>
struct Row<T, 0> {
  static TELAMON_INLINE Row load(const char*) { return {}; }
  TELAMON_INLINE void store(char*) const {}
  TELAMON_INLINE void add(const char*) {}
};

// A row of three, five, six or seven numbers that 32 bytes hold may be read in one piece, which is half the loads: 200,000
// rows of three f32 at places in any order take 0.76 of the time on Zen 5. With AVX-512 it is stored in one piece, too
// (0.91 of that), else in several, for which one load waits until they reach the cache: this is for places that do not come
// again soon. 64 bytes, which lie in two lines almost always, took twice as long as pieces.
#if defined(TELAMON_ISA_AVX2) || defined(TELAMON_ISA_AVX512)
template <class T, int kCount>
constexpr bool kReadWhole =
    kIsFloat<T> && kCount > 2 && !std::has_single_bit(static_cast<unsigned>(kCount)) &&
    kCount * sizeof(T) <= 32;

/// The first kCount numbers of a vector; nothing behind them is touched.
template <int kCount>
TELAMON_INLINE auto load_first(const float* from) {
  if constexpr (kCount < 4) {
    const auto lanes = typename Several<std::int32_t, 4>::Vector{0, 1, 2, 3};
    return _mm_maskload_ps(from, reinterpret_cast<__m128i>(lanes < kCount));
  } else {
    const auto lanes = typename Several<std::int32_t, 8>::Vector{0, 1, 2, 3, 4, 5, 6, 7};
    return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(lanes < kCount));
  }
}
template <int kCount>
TELAMON_INLINE auto load_first(const double* from) {
  const auto lanes = typename Several<std::int64_t, 4>::Vector{0, 1, 2, 3};
  return _mm256_maskload_pd(from, reinterpret_cast<__m256i>(lanes < kCount));
}
#if defined(TELAMON_ISA_AVX512)
constexpr __mmask8 mask_of(int count) { return static_cast<__mmask8>((1 << count) - 1); }
template <int kCount>
TELAMON_INLINE void store_first(float* to, __m128 x) {
  _mm_mask_storeu_ps(to, mask_of(kCount), x);
}
template <int kCount>
TELAMON_INLINE void store_first(float* to, __m256 x) {
  _mm256_mask_storeu_ps(to, mask_of(kCount), x);
}
template <int kCount>
TELAMON_INLINE void store_first(double* to, __m256d x) {
  _mm256_mask_storeu_pd(to, mask_of(kCount), x);
}
#else
template <int kCount, class T, class Vector>
TELAMON_INLINE void store_first(T* to, const Vector& x) {
  Row<T, kCount>::load(reinterpret_cast<const char*>(&x)).store(reinterpret_cast<char*>(to));
}
#endif
template <class T, int kCount>
struct WholeRow {
  using Element = T;
  static constexpr int kBytes = Row<T, kCount>::kBytes;
  decltype(load_first<kCount>(static_cast<const T*>(nullptr))) all;

  static TELAMON_INLINE WholeRow load(const char* from) {
    return {load_first<kCount>(reinterpret_cast<const T*>(from))};
  }
  TELAMON_INLINE void store(char* to) const { store_first<kCount>(reinterpret_cast<T*>(to), all); }
  TELAMON_INLINE void add(const char* from) { all += load(from).all; }
};
template <class R, bool = kReadWhole<typename R::Element, R::kNumbers>>
struct WholeOrNot {
  using Type = R;
};
template <class R>
struct WholeOrNot<R, true> {
  using Type = WholeRow<typename R::Element, R::kNumbers>;
};
template <class R>
using WholeOf = typename WholeOrNot<R>::Type;
#else
template <class R>
using WholeOf = R;
#endif

// What is done to a row of the operand by one of the slices.
struct ReplaceRow {
  template <class R>
  static TELAMON_INLINE void apply(char* operand, const char* slice) {
    R::load(slice).store(operand);
  }
};
struct AddRow {
  template <class R>
  static TELAMON_INLINE void apply(char* operand, const char* slice) {
    R row = R::load(operand);
    row.add(slice);
    row.store(operand);
  }
};

/// Calls use(place) for an index, unless it is dropped.
template <class Index, class Use>
TELAMON_INLINE void with_place(Index index, const kernels::Starts& starts, const Use& use) {
  auto start = static_cast<std::int64_t>(index);
  start += starts.wrap & (start >> 63);  // no branch: signs may come in any order
  if (static_cast<std::uint64_t>(start) <= static_cast<std::uint64_t>(starts.last)) [[likely]]
    use(start);
  else if (starts.clips) use(start < 0 ? 0 : starts.last);
}

constexpr std::int64_t kBlock = 32;  // indices that are looked at together

/// For dense indices in their order: calls use_block(i) for kBlock of them that are all in bounds as they are, as most
/// are, which costs one look at all of them at once, and which says how many it used, maybe more; use_others(i, count) for
/// the others, kBlock at most.
template <class Index, class UseBlock, class UseOthers>
TELAMON_INLINE void for_each_block(std::int64_t n, const Index* index,
                                   const kernels::Starts& starts, const UseBlock& use_block,
                                   const UseOthers& use_others) {
  using Unsigned = std::make_unsigned_t<Index>;
  // Of an index's own type, in which a long dimension may have more places than it has numbers from 0 on.
  constexpr auto kHighest = static_cast<std::uint64_t>(std::numeric_limits<Index>::max());
  const auto known = static_cast<std::uint64_t>(starts.last);
  const auto last = static_cast<Unsigned>(known < kHighest ? known : kHighest);
  std::int64_t i = 0;
  while (i + kBlock <= n) {
    Unsigned highest = 0;  // numbers below 0 are higher than all others
    for (std::int64_t k = 0; k < kBlock; ++k) {
      const auto x = static_cast<Unsigned>(index[i + k]);
      highest = highest < x ? x : highest;
    }
    if (highest <= last) [[likely]] {
      i += use_block(i);
      continue;
    }
    use_others(i, kBlock);
    i += kBlock;
  }
  if (i < n) use_others(i, n - i);
}
/// The same; calls use(i, place) for each of the others that has a place.
template <class Index, class UseBlock, class Use>
TELAMON_INLINE void for_each_place(std::int64_t n, const Index* index,
                                   const kernels::Starts& starts, const UseBlock& use_block,
                                   const Use& use) {
  const auto use_others = [&](std::int64_t first,
                              std::int64_t count) __attribute__((always_inline)) {
    for (std::int64_t i = first; i < first + count; ++i)
      with_place(index[i], starts, [&](std::int64_t place) { use(i, place); });
  };
  for_each_block(n, index, starts, use_block, use_others);
}

/// Lists those of `count` rows, kBlock at most, that go to the part, whatever their indices are.
template <class Index>
TELAMON_INLINE void list_any(Listing<Index>& listing, const Index* index, std::int64_t i,
                             std::int64_t count, const kernels::Starts& starts) {
  constexpr auto kMost = static_cast<std::int64_t>(INT32_MAX);
  if (std::is_same_v<Index, std::int32_t> && count == kBlock && starts.last < kMost &&
      starts.wrap <= kMost) {
    const auto last = static_cast<Index>(starts.last), wrap = static_cast<Index>(starts.wrap);
    Index places[kBlock];
    for (std::int64_t k = 0; k < kBlock; ++k)
      places[k] = place_of<Index>(index[i + k], starts.clips, last, wrap);
    listing.template append<kBlock>(places, i);
    return;
  }
  for (const std::int64_t end = i + count; i < end; ++i) {
    const auto start = static_cast<std::int64_t>(index[i]);
    listing.append_one(place_of(start, starts.clips, starts.last, starts.wrap), i);
  }
}

// What goes to one place over and over, as sorted segments do, waits in memory for the sum before it to come back: so
// that sum stays in a register until another place comes. The processor cannot foresee when that is where runs are of
// any length: of five on average they took 1.9 times as long on Zen 4 as they do in memory, of eight as long, of sixteen
// half, of a hundred 0.15.

/// Whether places of blocks of rows are in long runs of the same, looked at every few blocks: to change between the two
/// ways from block to block is what the processor cannot foresee either.
class Runs {
 public:
  /// Of the first block of n indices; more are looked at where there are some.
  template <class Index>
  TELAMON_INLINE bool in(const Index* index, std::int64_t n) {
    if (blocks_ == 0) {
      blocks_ = n >= kBlocks * kBlock ? kBlocks : 1;
      found_ = blocks_ == 1 ? most_are_long<4, kBlock / 4>(index) : most_are_long<18, 14>(index);
    }
    --blocks_;
    return found_;
  }

 private:
  static constexpr int kBlocks = 8;

  /// From pairs: half of those in runs of eight are the same.
  template <std::int64_t kPairs, std::int64_t kStep, class Index>
  static TELAMON_INLINE bool most_are_long(const Index* index) {
    constexpr std::int64_t kApart = 4;
    static_assert((kPairs - 1) * kStep + kApart < (kPairs > 4 ? kBlocks : 1) * kBlock);
    int same = 0;
    for (std::int64_t pair = 0; pair < kPairs; ++pair)
      same += index[pair * kStep] == index[pair * kStep + kApart] ? 1 : 0;
    return 2 * same > kPairs;
  }

  int blocks_ = 0;
  bool found_ = false;
};

/// Whether kCount indices are all the same as this; those of 32 bits two at a time.
template <std::int64_t kCount, class Index>
TELAMON_INLINE bool all_are(const Index* index, Index place) {
  using Two = std::conditional_t<sizeof(Index) == 4, std::uint64_t, Index>;
  constexpr std::int64_t kEach = sizeof(Index) == 4 ? 2 : 1;
  Two both = static_cast<std::make_unsigned_t<Index>>(place);
  if constexpr (kEach == 2) both |= both << 32;
  for (std::int64_t i = 0; i < kCount; i += kEach) {
    Two x;
    __builtin_memcpy(&x, index + i, sizeof x);
    if (x != both) return false;
  }
  return true;
}

/// kBlock of n rows, and as many more as go where the last of them goes; these are in bounds, too. The sum stays in a
/// register as long as the index does. Returns how many were added.
template <class R, class Index>
std::int64_t add_runs(std::int64_t n, const Index* index, std::int64_t step, char* operand,
                      const char* slices, std::int64_t slice_stride) {
  constexpr std::int64_t kTogether = 4;
  std::int64_t k = 0;
  while (k < kBlock) {
    const Index place = index[k];
    char* const to = operand + static_cast<std::int64_t>(place) * step;
    R sum = R::load(to);
    for (; k + kTogether <= n && all_are<kTogether>(index + k, place); k += kTogether) {
      repeat<kTogether>([&](auto u) __attribute__((always_inline)) {
        sum.add(slices + (k + u.value) * slice_stride);
      });
    }
    for (; k < n && index[k] == place; ++k) sum.add(slices + k * slice_stride);
    sum.store(to);
  }
  return k;
}

/// Whether places come again soon, or are all near each other, as those of a band are, from half of a block.
template <class Index>
__attribute__((noinline)) bool has_neighbours(const Index* index) {
  constexpr std::size_t kHalf = kBlock / 2, kSoon = 8;
  constexpr Index kNear = 100;
  constexpr std::size_t kAll = kHalf * sizeof(Index),
                        kVector = kAll < simd::kBytes ? kAll : std::size_t{simd::kBytes};
  typedef Index PlaceVector __attribute__((vector_size(kVector)));
  const auto load = [](const Index* from) __attribute__((always_inline)) {
    PlaceVector x;
    __builtin_memcpy(&x, from, sizeof x);
    return x;
  };
  const auto in_bits = [](const auto& x) __attribute__((always_inline)) {
    Bits bits{};
    __builtin_memcpy(&bits, &x, sizeof x);
    return bits;
  };
  Bits same{}, far{};
  repeat<kAll / kVector>([&](auto v) __attribute__((always_inline)) {
    const Index* const from = index + v.value * (kVector / sizeof(Index));
    const PlaceVector x = load(from);
    auto again = x == load(from + 1);
    repeat<kSoon - 1>(
        [&](auto k) __attribute__((always_inline)) { again |= x == load(from + k.value + 2); });
    same |= in_bits(again);
    const PlaceVector away = x - *index;
    far |= in_bits((away > kNear) | (away < -kNear));
  });
  return any_of(same) || !any_of(far);
}

// Rows of most of a line are fetched beforehand where most come from beyond the second cache: 200,000 of 64 bytes added to
// 65,536 take 0.65 of the time on Zen 5, of 48 bytes put at places of their own 0.85. Of 32 bytes they took as long.
constexpr std::int64_t kLater = 16, kFetchedRow = 32, kFarBytes = std::int64_t{1} << 19;
/// Fetches the row at an index, which may lead anywhere.
template <class Index>
TELAMON_INLINE void fetch_row(Index index, std::int64_t step, const char* operand) {
  const auto offset = static_cast<std::uint64_t>(index) * static_cast<std::uint64_t>(step);
  __builtin_prefetch(
      reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(operand) + offset), 1);
}

/// kBlock rows at places `step` bytes apart.
template <class Op, class R, bool kFetches = false, class Index>
TELAMON_INLINE void run_rows(const Index* index, std::int64_t step, char* operand,
                             const char* slices, std::int64_t slice_stride) {
  using T = typename R::Element;
  constexpr std::int64_t kUnrolled = R::kBytes == sizeof(T) && !kIsSmallFloat<T> ? kBlock
                                     : R::kBytes <= 16                           ? 8
                                                                                 : 4;
  for (std::int64_t k = 0; k < kBlock; k += kUnrolled) {
    repeat<kUnrolled>([&](auto u) __attribute__((always_inline)) {
      const auto place = static_cast<std::int64_t>(index[k + u.value]);
      if constexpr (kFetches) fetch_row(index[k + u.value + kLater], step, operand);
      Op::template apply<R>(operand + place * step, slices + (k + u.value) * slice_stride);
    });
  }
}

/// Whether places of blocks of rows come again soon, looked at every few blocks.
class Neighbours {
 public:
  template <class Index>
  TELAMON_INLINE bool in(const Index* index) {
    if (blocks_ == 0) {
      found_ = has_neighbours(index);
      blocks_ = kBlocks;
    }
    --blocks_;
    return found_;
  }

 private:
  static constexpr int kBlocks = 8;
  int blocks_ = 0;
  bool found_ = false;
};

/// What was seen of places so far.
struct Seen {
  Neighbours neighbours;
  Runs runs;
};

constexpr std::int64_t kManyPlaces = 2048;  // for which chance seldom leads to the same again soon

/// So many rows, or more of n, at some of so many places; returns how many.
template <class Op, class R, class Index>
TELAMON_INLINE std::int64_t run_block(std::int64_t n, const Index* index, std::int64_t num_places,
                                      Seen& seen, std::int64_t step, char* operand,
                                      const char* slices, std::int64_t slice_stride) {
  if constexpr (std::is_same_v<Op, AddRow>) {
    if constexpr (!std::is_same_v<WholeOf<R>, R>) {
      if (num_places >= kManyPlaces && !seen.neighbours.in(index)) {
        run_rows<Op, WholeOf<R>>(index, step, operand, slices, slice_stride);
        return kBlock;
      }
    }
    if (seen.runs.in(index, n))
      return add_runs<WholeOf<R>>(n, index, step, operand, slices, slice_stride);
  }
  if constexpr (R::kBytes > kFetchedRow) {
    if (num_places * step >= kFarBytes && n >= kBlock + kLater) {
      run_rows<Op, R, true>(index, step, operand, slices, slice_stride);
      return kBlock;
    }
  }
  run_rows<Op, R>(index, step, operand, slices, slice_stride);
  return kBlock;
}

/// Dense indices. The strides are those of the arrays, as constants where they are known.
template <class Op, class R, class Index>
TELAMON_INLINE void run_dense(std::int64_t n, const Index* index, const IndexedArrays& a,
                              std::int64_t step, std::int64_t slice_stride) {
  char* const operand = a.operand;
  const char* const slices = a.slices;
  const std::int64_t num_places = a.starts.last;  // or one more
  Seen seen;
  const auto use = [=](std::int64_t i, std::int64_t place) __attribute__((always_inline)) {
    Op::template apply<R>(operand + place * step, slices + i * slice_stride);
  };
  for_each_place(
      n, index, a.starts,
      [=, &seen](std::int64_t i) __attribute__((always_inline)) {
        return run_block<Op, R>(n - i, index + i, num_places, seen, step, operand,
                                slices + i * slice_stride, slice_stride);
      },
      use);
}

/// What is done to rows that are listed is not inlined: there are many of these loops, each of which lists in two ways.
template <class Op, class R, class Index>
__attribute__((noinline)) void update_listed(ListedRows<Index> rows, std::int64_t num_places,
                                             std::int64_t step, char* first, const char* slices,
                                             std::int64_t slice_stride) {
  const auto update_as = [=]<class As>() __attribute__((always_inline)) {
    rows.for_each([=](std::int64_t place, std::int64_t i) __attribute__((always_inline)) {
      Op::template apply<As>(first + place * step, slices + i * slice_stride);
    });
  };
  if constexpr (std::is_same_v<Op, AddRow> && !std::is_same_v<WholeOf<R>, R>) {
    if (num_places >= kManyPlaces && rows.size() >= kBlock && !has_neighbours(rows.places()))
      return update_as.template operator()<WholeOf<R>>();
  }
  if constexpr (R::kBytes > kFetchedRow) {
    if (num_places * step >= kFarBytes) {
      return rows.for_each_ahead(
          [=](std::int64_t place, std::int64_t)
              __attribute__((always_inline)) { fetch_row(place, step, first); },
          [=](std::int64_t place, std::int64_t i) __attribute__((always_inline)) {
            Op::template apply<R>(first + place * step, slices + i * slice_stride);
          });
    }
  }
  update_as.template operator()<R>();
}

/// Dense indices, of which those count that lead to a part of the operand. Blocks that go there as a whole, as sorted
/// indices do, are not listed.
template <class Op, class R, class Index>
void run_part(std::int64_t n, const Index* index, const IndexedArrays& a) {
  const std::int64_t num_places = a.starts.last, step = a.step, slice_stride = a.slice_stride;
  char *const operand = a.operand, *const first = operand + a.part.first * step;
  const char* const slices = a.slices;
  Seen seen;
  List<Index> list;
  Listing<Index> listing(a.part, list);
  const auto flush = [&]() __attribute__((always_inline)) {
    update_listed<Op, R>(listing.take(), num_places, step, first, slices, slice_stride);
  };
  for_each_block(
      n, index, a.starts,
      [&](std::int64_t i) __attribute__((always_inline)) {
        const std::int64_t rows = listing.template append<kBlock>(index + i, i);
        if (rows == kBlock) {
          listing.drop(rows);
          flush();
          return run_block<Op, R>(kBlock, index + i, num_places, seen, step, operand,
                                  slices + i * slice_stride, slice_stride);
        }
        if (!listing.has_room(kBlock, i + kBlock)) flush();
        return kBlock;
      },
      [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
        list_any(listing, index, i, count, a.starts);
        if (!listing.has_room(kBlock, i + count)) flush();
      });
  flush();
}

// ---- Rows of any number of elements. These are listed, so that they can be fetched beforehand.

inline void fetch(const char* row, std::int64_t bytes) {
  for (std::int64_t line = 0; line < bytes; line += kernels::kLine) __builtin_prefetch(row + line);
}
/// By pieces as large as the row allows, of which the last may overlap the one before it.
template <std::int64_t kPiece = simd::kBytes>
TELAMON_INLINE void copy_row(char* to, const char* from, std::int64_t bytes) {
  if (kPiece > 1 && bytes < kPiece) {
    if constexpr (kPiece > 1) copy_row<kPiece / 2>(to, from, bytes);
    return;
  }
  const auto copy = [=](std::int64_t at) __attribute__((always_inline)) {
    __builtin_memcpy(to + at, from + at, kPiece);
  };
  std::int64_t i = 0;
  for (; i + kPiece <= bytes; i += kPiece) copy(i);
  if (i < bytes) copy(bytes - kPiece);
}
/// Adds some of n elements, kBytes at a time; returns how many are left.
template <int kBytes, class T>
TELAMON_INLINE std::int64_t add_vectors(std::int64_t n, T*& to, const T*& from) {
  typedef T Vector __attribute__((vector_size(kBytes)));
  constexpr auto kCount = static_cast<std::int64_t>(kBytes / sizeof(T));
  for (; n >= kCount; n -= kCount, to += kCount, from += kCount) {
    Vector x, y;
    __builtin_memcpy(&x, to, sizeof x);
    __builtin_memcpy(&y, from, sizeof y);
    x += y;
    __builtin_memcpy(to, &x, sizeof x);
  }
  return n;
}
template <class T>
TELAMON_INLINE void add_row(T* to, const T* from, std::int64_t n) {
  if constexpr (kIsSmallFloat<T>) {
    add_row_of_halves(to, from, n);
  } else {
    std::int64_t left = add_vectors<simd::kBytes>(n, to, from);
    left = add_vectors<16>(left, to, from);
    if constexpr (sizeof(T) <= 2) {
      left = add_vectors<8>(left, to, from);
      left = add_vectors<4>(left, to, from);
    }
    for (; left > 0; --left, ++to, ++from) *to = Add::apply(*to, *from);
  }
}
template <class Op, class T>
TELAMON_INLINE void update_row(char* to, const char* from, std::int64_t bytes) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  if constexpr (std::is_same_v<Op, ReplaceRow>) copy_row(to, from, bytes);
  else add_row(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), bytes / kSize);
}

template <class Op, class T, class Index>
__attribute__((noinline)) void update_long_listed(ListedRows<Index> rows, std::int64_t bytes,
                                                  std::int64_t step, char* first,
                                                  const char* slices, std::int64_t slice_stride) {
  const std::int64_t fetched = bytes < kernels::kFetched ? bytes : kernels::kFetched;
  const auto update = [=](std::int64_t place, std::int64_t i) __attribute__((always_inline)) {
    update_row<Op, T>(first + place * step, slices + i * slice_stride, bytes);
  };
  if (bytes <= kernels::kIndexedBytes) return rows.for_each(update);
  rows.for_each_ahead(
      [=](std::int64_t place, std::int64_t i) __attribute__((always_inline)) {
        fetch(first + place * step, fetched);
        fetch(slices + i * slice_stride, fetched);
      },
      update);
}

template <class Op, class T, class Index>
void run_long(std::int64_t n, const IndexedArrays& a) {
  const std::int64_t step = a.step, slice_stride = a.slice_stride;
  char* const first = a.operand + a.part.first * step;
  List<Index> list;
  Listing<Index> listing(a.part, list);
  const auto flush = [&]() __attribute__((always_inline)) {
    update_long_listed<Op, T>(listing.take(), a.row_bytes, step, first, a.slices, slice_stride);
  };
  const auto flush_before = [&](std::int64_t i) __attribute__((always_inline)) {
    if (!listing.has_room(kBlock, i)) flush();
  };
  if (a.index_stride == sizeof(Index)) {
    const auto* const index = reinterpret_cast<const Index*>(a.indices);
    for_each_block(
        n, index, a.starts,
        [&](std::int64_t i) __attribute__((always_inline)) {
          listing.template append<kBlock>(index + i, i);
          flush_before(i + kBlock);
          return kBlock;
        },
        [&](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
          list_any(listing, index, i, count, a.starts);
          flush_before(i + count);
        });
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto index = *reinterpret_cast<const Index*>(a.indices + i * a.index_stride);
      const auto start = static_cast<std::int64_t>(index);
      listing.append_one(place_of(start, a.starts.clips, a.starts.last, a.starts.wrap), i);
      flush_before(i + 1);
    }
  }
  flush();
}

// A load of a place waits for the vector that was just stored, and so does what comes after that: the places of many pairs
// are found first (0.8 of the time of the loop on Zen 5). Of small vectors, which take longer, the processor does so itself.
constexpr std::int64_t kManyPairs = simd::kBytes > 16 ? 256 : kBlock;

/// Dense pairs of indices.
template <class Op, class R>
TELAMON_INLINE void run_dense_pairs(std::int64_t n, const IndexedArrays& a,
                                    std::int64_t slice_stride) {
  const auto* const pairs = reinterpret_cast<const Pair*>(a.indices);
  const Pair lasts{static_cast<std::uint32_t>(a.starts.last),
                   static_cast<std::uint32_t>(a.second_starts.last)},
      steps{static_cast<std::uint32_t>(a.step), static_cast<std::uint32_t>(a.second_step)};
  const auto run_each = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      with_place(static_cast<std::int32_t>(pairs[i].first), a.starts, [&](std::int64_t x) {
        with_place(static_cast<std::int32_t>(pairs[i].second), a.second_starts,
                   [&](std::int64_t y) {
                     Op::template apply<R>(a.operand + x * a.step + y * a.second_step,
                                           a.slices + i * a.slice_stride);
                   });
      });
    }
  };
  const std::int64_t num_places = (a.starts.last + 1) * (a.second_starts.last + 1);
  Seen seen;
  // Of many pairs at once, or of some where these are not all in bounds.
  const auto run_some = [&](std::int64_t first, std::int64_t count) __attribute__((always_inline)) {
    Place places[kManyPairs];
    if (!find_pairs(count, pairs + first, lasts, steps, places)) return false;
    // A load of each place is faster than to take it out of the vector that was stored.
    asm("" : "+m"(places));
    for (std::int64_t k = 0; k < count; k += kBlock) {
      run_block<Op, R>(kBlock, places + k, num_places, seen, 1, a.operand,
                       a.slices + (first + k) * slice_stride, slice_stride);
    }
    return true;
  };
  std::int64_t i = 0;
  while (i + kBlock <= n) {
    const std::int64_t count = n - i < kManyPairs ? (n - i) / kBlock * kBlock : kManyPairs;
    if (run_some(i, count)) [[likely]] {
      i += count;
      continue;
    }
    for (const std::int64_t end = i + count; i < end; i += kBlock)
      if (kManyPairs == kBlock || !run_some(i, kBlock)) run_each(i, i + kBlock);
  }
  run_each(i, n);
}

template <class Op, class R>
void run_pairs(std::int64_t n, const IndexedArrays& a) {
  if (a.slice_stride == R::kBytes) return run_dense_pairs<Op, R>(n, a, R::kBytes);
  run_dense_pairs<Op, R>(n, a, a.slice_stride);
}

constexpr int kTables = 4;
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
  const auto add = [&](std::int64_t i, std::int64_t place,
                       std::int64_t t) __attribute__((always_inline)) {
    tables[t][place] = Add::apply(tables[t][place], kStep == 0 ? first : slices[i]);
  };
  for_each_place(
      n, index, starts,
      [&](std::int64_t i) __attribute__((always_inline)) {
        repeat<kBlock>([&](auto k) __attribute__((always_inline)) {
          add(i + k.value, static_cast<std::int64_t>(index[i + k.value]), k.value % kTables);
        });
        return kBlock;
      },
      [&](std::int64_t i, std::int64_t place) { add(i, place, i % kTables); });
  for (std::int64_t k = 0; k <= starts.last; ++k) {
    for (const auto& table : tables) operand[k] = Add::apply(operand[k], table[k]);
  }
}
/// False where this is something else.
template <class T, class Index>
TELAMON_INLINE bool add_to_tables(std::int64_t n, const Index* index, const IndexedArrays& a) {
  if (a.starts.last >= kTable || n < kEachOfTable * (a.starts.last + 1)) return false;
  T* to = reinterpret_cast<T*>(a.operand);
  const T* from = reinterpret_cast<const T*>(a.slices);
  a.slice_stride == 0 ? add_to_tables<0>(n, index, a.starts, to, from)
                      : add_to_tables<1>(n, index, a.starts, to, from);
  return true;
}

template <class Op, class R, class Index>
void run(std::int64_t n, const IndexedArrays& a) {
  using T = typename R::Element;
  constexpr std::int64_t kSize = R::kBytes;
  if (a.index_stride == sizeof(Index)) {
    const auto* index = reinterpret_cast<const Index*>(a.indices);
    if (!are_all(a.part)) return run_part<Op, R>(n, index, a);
    if constexpr (kSize == sizeof(T)) {  // single elements, most often side by side
      const bool adjacent = a.step == kSize && (a.slice_stride == kSize || a.slice_stride == 0);
      if constexpr (std::is_same_v<Op, AddRow> && std::is_integral_v<T>) {
        if (adjacent && add_to_tables<T>(n, index, a)) return;
      }
      if (adjacent && a.slice_stride != 0) return run_dense<Op, R>(n, index, a, kSize, kSize);
      if (adjacent) return run_dense<Op, R>(n, index, a, kSize, 0);
    }
    if constexpr (kSize > sizeof(T) && kSize <= 16) {
      if (a.step == kSize && a.slice_stride == kSize)
        return run_dense<Op, R>(n, index, a, kSize, kSize);
    }
    if constexpr (sizeof(Index) == 8) {  // a list of places in bytes
      if (a.step == 1 && a.slice_stride == kSize) return run_dense<Op, R>(n, index, a, 1, kSize);
    }
    return run_dense<Op, R>(n, index, a, a.step, a.slice_stride);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto index = *reinterpret_cast<const Index*>(a.indices + i * a.index_stride);
    with_place(index, a.starts, [&](std::int64_t place) {
      if (has(a.part, place))
        Op::template apply<R>(a.operand + place * a.step, a.slices + i * a.slice_stride);
    });
  }
}

/// Dense pairs, or single indices of this type.
template <class Op, class R, class Index>
constexpr kernels::IndexedLoop kLoopOf = run<Op, R, Index>;
template <class Op, class R>
constexpr kernels::IndexedLoop kLoopOf<Op, R, Pair> = run_pairs<Op, R>;
template <class Index>
constexpr int kMostBytes =
    std::is_same_v<Index, Pair> ? kernels::kPairedBytes : kernels::kIndexedBytes;

/// Null for pairs of indices. What is replaced are bytes, whatever they stand for.
template <class Op, class T, class Index>
constexpr kernels::IndexedLoop kLongLoop =
    run_long<Op, std::conditional_t<std::is_same_v<Op, ReplaceRow>, std::uint8_t, T>, Index>;
template <class Op, class T>
constexpr kernels::IndexedLoop kLongLoop<Op, T, Pair> = nullptr;

/// One for each number of elements from 1 to kMost, and one for more.
template <class Op, class T, class Index, int kMost = kMostBytes<Index> / sizeof(T)>
kernels::IndexedLoop loop_for(std::int64_t elements) {
  struct Table {
    kernels::IndexedLoop of[kMost];
  };
  static constexpr Table kLoops = []<int... k>(std::integer_sequence<int, k...>) {
    return Table{{kLoopOf<Op, Row<T, k + 1>, Index>...}};
  }(std::make_integer_sequence<int, kMost>());
  return elements <= kMost ? kLoops.of[elements - 1] : kLongLoop<Op, T, Index>;
}
/// Of whole words, of fewer bytes than that, and of others.
template <class Index>
kernels::IndexedLoop replace_for(std::int64_t bytes) {
  if (bytes % 4 == 0) return loop_for<ReplaceRow, std::uint32_t, Index>(bytes / 4);
  if (bytes == 2) return loop_for<ReplaceRow, std::uint16_t, Index, 1>(1);
  return loop_for<ReplaceRow, std::uint8_t, Index, 3>(bytes);
}
template <class Index>
kernels::IndexedLoop add_for(DType dtype, std::int64_t elements) {
  constexpr int kFew = 4, kFewLong = 2;  // whole numbers: counts, colours
  switch (dtype) {
    case DType::i8:
    case DType::u8: return loop_for<AddRow, std::uint8_t, Index, kFew>(elements);
    case DType::i16:
    case DType::u16: return loop_for<AddRow, std::uint16_t, Index, kFew>(elements);
    case DType::i32:
    case DType::u32: return loop_for<AddRow, std::uint32_t, Index, kFew>(elements);
    case DType::i64:
    case DType::u64: return loop_for<AddRow, std::uint64_t, Index, kFewLong>(elements);
    case DType::f16: return loop_for<AddRow, Half, Index, 1>(elements);
    case DType::bf16: return loop_for<AddRow, BFloat16, Index, 1>(elements);
    case DType::f32: return loop_for<AddRow, float, Index>(elements);
    case DType::f64: return loop_for<AddRow, double, Index>(elements);
    default: return nullptr;
  }
}
template <class Index>
kernels::IndexedLoop indexed_loop(kernels::WindowOp op, DType dtype, std::int64_t elements) {
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(dtype));
  switch (op) {
    case kernels::WindowOp::replace: return replace_for<Index>(bytes);
    case kernels::WindowOp::add: return add_for<Index>(dtype, elements);
    default: return nullptr;
  }
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::IndexedLoop TELAMON_ISA_SYMBOL(indexed_loop)(
    telamon::kernels::WindowOp op, telamon::DType index_dtype, std::size_t components,
    telamon::DType dtype, std::int64_t elements) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  if (components == 2)
    return index_dtype == telamon::DType::i32 ? indexed_loop<Pair>(op, dtype, elements) : nullptr;
  if (components != 1) return nullptr;
  switch (index_dtype) {
    case telamon::DType::i32: return indexed_loop<std::int32_t>(op, dtype, elements);
    case telamon::DType::i64: return indexed_loop<std::int64_t>(op, dtype, elements);
    default: return nullptr;
  }
}
