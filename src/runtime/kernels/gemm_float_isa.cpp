// Matrix products of floats, for one instruction set: register tiles over blocks that stay in the caches
// (Goto, van de Geijn: Anatomy of high-performance matrix multiplication, 2008).
//
// Every element of the result is one sum over k from first to last, fused where the set can, whatever
// the tile it lies in: blocks of k continue from the result as it stands. So a row of a batch gives what
// the matrix alone would give, where that is not cut into parts (gemm.cpp), and one thread what several give.
#include "runtime/kernels/gemm_tile.hpp"
#include "runtime/kernels/halves_isa.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"
#include "runtime/kernels/transpose_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::GemmTile;
using simd::F32;
using simd::F64;
using simd::load_lanes;
using simd::store_lanes;

/// The rows of a that are packed side by side.
constexpr int kPackedRows = 6;
/// The widest register tile, in vectors; and the rows of one of `Vectors`: as many as there are
/// registers for, beside a row of b and an element of a.
#if defined(TELAMON_ISA_AVX512)
constexpr int kWidest = 4;
template <int Vectors, bool Packed>
constexpr int kRows = Vectors == 4 || Packed ? kPackedRows
                      : Vectors == 3         ? 8
                                             : 12;
#else
constexpr int kWidest = 2;
template <int Vectors, bool Packed> constexpr int kRows = kPackedRows;
#endif

/// A block of k: rows of a, some vectors of columns of b, and the results they add to. Of packed rows of a, those of
/// one register tile lie side by side for each k, one tile after the other.
template <class T>
struct Block {
  std::int64_t k;
  const T* a;
  std::int64_t a_row, a_next;  ///< from one row, and from one k, to the next
  const T* b;
  std::int64_t b_row;  ///< whole vectors can be read
  T* c;
  std::int64_t c_row;
  std::int64_t count;  ///< columns of the last vector that exist
  bool first;          ///< c does not hold anything yet
  const T* next;       ///< k rows that are packed next, or null
  std::int64_t next_row;
};

/// What is added to a sum for one k: the product of two numbers.
struct OfNumbers {
  template <class V> static TELAMON_INLINE V add(V a, V b, V sum) { return simd::fma(a, b, sum); }
};
#if defined(__AVX512BF16__)
/// The products of two pairs of bf16, each in a word, rounded one by one: that of the upper halves comes first.
struct OfPairs {
  static TELAMON_INLINE F32 add(F32 a, F32 b, F32 sum) {
    return (F32)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }
};
#endif

template <class Term, class V, int Rows, int Vectors, bool Packed, class T>
void register_tile(const Block<T>& t, std::int64_t row) {
  constexpr int kLanes = simd::Lanes<V>::kCount;
  const std::int64_t a_row = Packed ? 1 : t.a_row, a_next = Packed ? Rows : t.a_next,
                     b_row = t.b_row, c_row = t.c_row, last = t.count;
  const T* a = t.a + row * (Packed ? t.k : a_row);
  const T* b = t.b;
  T* const c = t.c + row * c_row;
  V sums[Rows * Vectors];
  const auto for_each = [](const auto& f) __attribute__((always_inline)) {
    repeat<Rows>([&](auto i) __attribute__((always_inline)) {
      repeat<Vectors>([&](auto j) __attribute__((always_inline)) { f(i, j); });
    });
  };
  if (t.first) {
    for_each([&](auto i, auto j)
                 __attribute__((always_inline)) { sums[i.value * Vectors + j.value] = V{}; });
  } else {
    for_each([&](auto i, auto j) __attribute__((always_inline)) {
      sums[i.value * Vectors + j.value] = load_lanes<V>(c + i.value * c_row + j.value * kLanes,
                                                        j.value + 1 < Vectors ? kLanes : last);
    });
  }
#pragma GCC unroll 4
  for (std::int64_t k = t.k; k > 0; --k, b += b_row, a += a_next) {
    V from_b[Vectors];
    repeat<Vectors>([&](auto j) __attribute__((always_inline)) {
      from_b[j.value] = load_lanes<V>(b + j.value * kLanes, kLanes);
    });
    repeat<Rows>([&](auto i) __attribute__((always_inline)) {
      const V from_a = simd::splat<V>(a[i.value * a_row]);
      repeat<Vectors>([&](auto j) __attribute__((always_inline)) {
        V& sum = sums[i.value * Vectors + j.value];
        sum = Term::add(from_a, from_b[j.value], sum);
      });
    });
  }
  for_each([&](auto i, auto j) __attribute__((always_inline)) {
    store_lanes<V>(c + i.value * c_row + j.value * kLanes, sums[i.value * Vectors + j.value],
                   j.value + 1 < Vectors ? kLanes : last);
  });
}

// What lies in rows far apart comes late: the processor guesses addresses within a page. So each register tile fetches
// what comes after it (products of 1024 x 1024 on Zen 4 with AVX2: 3 % faster).

/// `count` rows of `Vectors` vectors.
template <int Vectors, class V, class T>
TELAMON_INLINE void fetch_rows(const T* from, std::int64_t row, std::int64_t count) {
  constexpr int kLine = 64 / sizeof(T);
  for (; count > 0; --count, from += row) {
    for (int j = 0; j < Vectors * simd::Lanes<V>::kCount; j += kLine) __builtin_prefetch(from + j);
  }
}

template <class Term, class V, int Vectors, bool Packed, class T>
void column_strip(const Block<T>& t, std::int64_t rows) {
  constexpr int kMost = kRows<Vectors, Packed>;
  constexpr std::int64_t kFar = 2048 / sizeof(T);
  const bool far_results = t.c_row > kFar, far_rows = !Packed && t.a_row > kFar;
  // Of the next strip as much as makes all of it in the end; where many tiles share that, rows half as far apart are
  // worth it, too (512 x 512 x 512 on Zen 3: 0.9 to 0.97 of the time).
  constexpr std::int64_t kMany = 16;
  const std::int64_t tiles = rows / kMost, apart = tiles < kMany ? kFar : kFar / 2;
  const bool far_strip = t.next != nullptr && t.next_row > apart && tiles > 0;
  const std::int64_t each = far_strip ? (t.k + tiles - 1) / tiles : 0;
  const T* next = t.next;
  // Of rows that lie pages apart, the lines of more than eight drive each other out of the first cache.
  constexpr std::int64_t kPage = 4096 / sizeof(T);
  const bool crowded = !Packed && kMost > 8 && t.a_row != 0 && t.a_row % kPage == 0;
  std::int64_t i = 0, left = each == 0 ? 0 : t.k;
  for (; !crowded && i + kMost <= rows; i += kMost) {
    if (const std::int64_t after = i + kMost; after + kMost <= rows) {
      if (far_results) fetch_rows<Vectors, V>(t.c + after * t.c_row, t.c_row, kMost);
      if (far_rows) fetch_rows<2, V>(t.a + after * t.a_row, t.a_row, kMost);
    }
    const std::int64_t now = left < each ? left : each;
    fetch_rows<Vectors, V>(next, t.next_row, now);
    next += now * t.next_row;
    left -= now;
    register_tile<Term, V, kMost, Vectors, Packed>(t, i);
  }
  if constexpr (kMost > 6) {
    for (; i + 6 <= rows; i += 6) register_tile<Term, V, 6, Vectors, Packed>(t, i);
  }
  for (; i + 4 <= rows; i += 4) register_tile<Term, V, 4, Vectors, Packed>(t, i);
  for (; i + 2 <= rows; i += 2) register_tile<Term, V, 2, Vectors, Packed>(t, i);
  if (i < rows) register_tile<Term, V, 1, Vectors, Packed>(t, i);
}

template <class Term, class V, bool Packed, class T>
void strip_of(int vectors, const Block<T>& t, std::int64_t rows) {
  if (vectors == 1) column_strip<Term, V, 1, Packed>(t, rows);
  else if (vectors == 2) column_strip<Term, V, 2, Packed>(t, rows);
#if defined(TELAMON_ISA_AVX512)
  else if (vectors == 3) column_strip<Term, V, 3, Packed>(t, rows);
  else column_strip<Term, V, 4, Packed>(t, rows);
#endif
}

/// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns, and zeros for more i, up to whole vectors.
template <class V, class T>
void transpose_block(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                     T* to, std::int64_t to_row) {
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  for (std::int64_t i = 0; i < rows; i += kLanes, from += kLanes * from_row, to += kLanes) {
    const std::int64_t count = rows - i < kLanes ? rows - i : kLanes;
    std::int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes) {
      V block[kLanes];
      repeat<kLanes>([&](auto x) __attribute__((always_inline)) {
        block[x.value] = V{};
        if (x.value < count)
          __builtin_memcpy(&block[x.value], from + x.value * from_row + j, sizeof(V));
      });
      transpose(block);
      for (std::int64_t x = 0; x < kLanes; ++x)
        __builtin_memcpy(to + (j + x) * to_row, &block[x], sizeof(V));
    }
    for (; j < columns; ++j) {
      for (std::int64_t x = 0; x < kLanes; ++x)
        to[j * to_row + x] = x < count ? from[x * from_row + j] : T(0);
    }
  }
}

// ---- packing ---------------------------------------------------------------------------------------

/// k rows of `width` columns of b, side by side, with zeros up to whole vectors.
template <class V, class T>
void pack_strip(const GemmTile& t, const T* b, std::int64_t k, std::int64_t width, T* to) {
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  const std::int64_t padded = (width + kLanes - 1) / kLanes * kLanes;
  if (t.b_column == 1) {
    const std::int64_t whole = width / kLanes * kLanes;
    for (std::int64_t i = 0; i < k; ++i, b += t.b_row, to += padded) {
      for (std::int64_t j = 0; j < whole; j += kLanes) __builtin_memcpy(to + j, b + j, sizeof(V));
      if (whole < width) {
        const V last = load_lanes<V>(b + whole, width - whole);
        __builtin_memcpy(to + whole, &last, sizeof(V));
      }
    }
    return;
  }
  if (t.b_row == 1) return transpose_block<V>(b, t.b_column, width, k, to, padded);
  for (std::int64_t i = 0; i < k; ++i, to += padded) {
    for (std::int64_t j = 0; j < padded; ++j)
      to[j] = j < width ? b[i * t.b_row + j * t.b_column] : T(0);
  }
}

/// `Rows` rows of a block of a, side by side for each k.
template <class V, int Rows, class T>
void pack_side_by_side(const GemmTile& t, const T* a, std::int64_t k, T* to) {
  constexpr int kLanes = simd::Lanes<V>::kCount;
  const std::int64_t row = t.a_row, column = t.a_column;
  std::int64_t done = 0;
  // Squares of vectors, one of the first rows and one of the last. What is written may reach beyond these rows of the
  // last k of a square, which the next one writes: so one is left.
  if constexpr (Rows == kPackedRows && kLanes < 2 * Rows && 2 * kLanes > Rows) {
    for (; column == 1 && done + kLanes < k; done += kLanes) {
      constexpr int kCount = kLanes < Rows ? kLanes : Rows;
      const auto square = [&](int first) __attribute__((always_inline)) {
        V block[kLanes] = {};
        repeat<kCount>([&](auto i) __attribute__((always_inline)) {
          __builtin_memcpy(&block[i.value], a + (first + i.value) * row + done, sizeof(V));
        });
        transpose(block);
        for (int j = 0; j < kLanes; ++j)
          __builtin_memcpy(to + (done + j) * Rows + first, &block[j], sizeof(V));
      };
      square(0);
      if constexpr (kCount < Rows) square(Rows - kCount);
    }
  }
  for (; done < k; ++done) {
    repeat<Rows>([&](auto i) __attribute__((always_inline)) {
      to[done * Rows + i.value] = a[i.value * row + done * column];
    });
  }
}

/// Rows of a block of a for packed register tiles.
template <class V, class T>
void pack_rows(const GemmTile& t, const T* a, std::int64_t rows, std::int64_t k, T* to) {
  std::int64_t i = 0;
  if (t.a_row == 1) {
    // Of rows that lie side by side whole lines are read, for several register tiles, and squares of vectors written.
    constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
    constexpr std::int64_t kTiles = 32, kBytes = kPackedRows * sizeof(T);
    constexpr bool kWide = sizeof(V) >= kBytes && sizeof(V) < 2 * kBytes;
    for (; i + kTiles * kPackedRows + (kWide ? kLanes : 0) <= rows; i += kTiles * kPackedRows) {
      for (std::int64_t j = 0; j < k; ++j) {
        for (std::int64_t tile = 0; tile < kTiles; ++tile) {
          const std::int64_t row = i + tile * kPackedRows;
          T* const out = to + row * k + j * kPackedRows;
          const T* const in = a + row + j * t.a_column;
          if (kWide && j + 1 < k) __builtin_memcpy(out, in, sizeof(V));
          else __builtin_memcpy(out, in, kBytes);
        }
      }
    }
  }
  const auto pack = [&](auto count) {
    for (; i + count.value <= rows; i += count.value) {
      pack_side_by_side<V, count.value>(t, a + i * t.a_row, k, to + i * k);
    }
  };
  pack(std::integral_constant<int, kPackedRows>{});
  pack(std::integral_constant<int, 4>{});
  pack(std::integral_constant<int, 2>{});
  pack(std::integral_constant<int, 1>{});
}

// ---- a few rows ------------------------------------------------------------------------------------

/// Adds the products with `Depth` rows of b from row k on, which are followed to their ends side by side.
template <class V, int Rows, int Depth, class S>
void follow_rows(const GemmTile& t, std::int64_t k) {
  using T = simd::ScalarOf<V>;
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  const std::int64_t b_row = t.b_row, c_row = t.c_row;
  const S* const b = static_cast<const S*>(t.b) + k * b_row;
  T* const c = static_cast<T*>(t.c);
  V from_a[Rows * Depth];
  repeat<Rows>([&](auto i) __attribute__((always_inline)) {
    repeat<Depth>([&](auto d) __attribute__((always_inline)) {
      from_a[i.value * Depth + d.value] = simd::splat<V>(
          static_cast<const T*>(t.a)[i.value * t.a_row + (k + d.value) * t.a_column]);
    });
  });
  const auto columns = [&](std::int64_t j, std::int64_t count) __attribute__((always_inline)) {
    V from_b[Depth];
    repeat<Depth>([&](auto d) __attribute__((always_inline)) {
      from_b[d.value] = load_widened<V>(b + d.value * b_row + j, count);
    });
    repeat<Rows>([&](auto i) __attribute__((always_inline)) {
      T* const to = c + i.value * c_row + j;
      V sum = load_lanes<V>(to, count);
      repeat<Depth>([&](auto d) __attribute__((always_inline)) {
        sum = simd::fma(from_a[i.value * Depth + d.value], from_b[d.value], sum);
      });
      store_lanes<V>(to, sum, count);
    });
  };
  std::int64_t j = 0;
#pragma GCC unroll 4
  for (; j + kLanes <= t.n; j += kLanes) columns(j, kLanes);
  if (j < t.n) columns(j, t.n - j);
}

/// b is read once, as fast as memory gives it: this many of its rows side by side are fastest. Eight, which
/// often lie in the same sets of the first cache, leave too little room there for what comes next.
template <class V, int Rows, class S>
void add_rows(const GemmTile& t) {
  using T = simd::ScalarOf<V>;
  constexpr int kStreams = 6;
  for (std::int64_t i = 0; i < Rows; ++i)
    __builtin_memset(static_cast<T*>(t.c) + i * t.c_row, 0,
                     static_cast<std::size_t>(t.n) * sizeof(T));
  std::int64_t k = 0;
  for (; k + kStreams <= t.k; k += kStreams) follow_rows<V, Rows, kStreams, S>(t, k);
  for (; k + 2 <= t.k; k += 2) follow_rows<V, Rows, 2, S>(t, k);
  if (k < t.k) follow_rows<V, Rows, 1, S>(t, k);
}

/// Three or four rows of results that lie about pages apart would meet in the same sets of the first cache, and there the
/// rows of b, too: they are summed beside it, page by page, in rows that do not (4 x 512 times 512 x 2048 on Zen 4: 0.84 of
/// the time, 4 x 768 times 768 x 3072 0.75). What a few rows of b are read for is not worth that.
template <class V, int Rows, class S = simd::ScalarOf<V>>
void few_rows(const GemmTile& t) {
  using T = simd::ScalarOf<V>;
  constexpr std::int64_t kPage = 4096 / sizeof(T), kApart = 512 / sizeof(T), kFewTerms = 128;
  const bool crowded = (t.c_row + kApart) % kPage <= 2 * kApart;
  if (Rows < 3 || !crowded || t.k < kFewTerms) return add_rows<V, Rows, S>(t);
  alignas(64) T sums[Rows * (kPage + kApart)];
  for (std::int64_t j = 0; j < t.n; j += kPage) {
    GemmTile part = t;
    part.n = t.n - j < kPage ? t.n - j : kPage;
    part.b = static_cast<const S*>(t.b) + j;
    part.c = sums;
    part.c_row = kPage + kApart;
    add_rows<V, Rows, S>(part);
    for (std::int64_t i = 0; i < Rows; ++i)
      __builtin_memcpy(static_cast<T*>(t.c) + i * t.c_row + j, sums + i * part.c_row,
                       static_cast<std::size_t>(part.n) * sizeof(T));
  }
}

/// Which operands of a tile are packed.
struct Packed {
  bool a, b;
};
template <class V>
Packed packed_operands(const GemmTile& t) {
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(simd::ScalarOf<V>));
  // What is small, or used for a few rows or columns only, is read as it lies where that lies together for one k, and
  // not far from the next: a block of it stays in the caches. (On Zen 3 the transpose of 100000 x 64 times such a
  // matrix takes 0.78 of the time, of 100000 x 32 0.63.)
  constexpr std::int64_t kSmall = 256 << 10, kFew = 128, kLine = 64, kNear = 512;
  const bool near_a = t.a_row == 1 && t.a_column * kSize <= kNear && t.n <= kFew;
  const bool near_b = t.b_row * kSize <= kNear / 2 && t.b_row * kSize % kLine == 0 && t.m <= kFew;
  // Of rows that lie pages apart each line has the same sets of the caches to go to, where a strip of many does not stay
  // (on Zen 3, 1024 x 128 times 128 x 1024 takes 0.46 of the time when it is packed, 24 x 128 times that 0.73).
  constexpr std::int64_t kPage = 4096, kManyRows = 16;
  const bool shares_sets =
      t.b_row > 0 && t.b_row * kSize % kPage == 0 && t.k >= kManyRows && t.n > kLanes;
  const bool large = t.k * t.n * kSize > kSmall;
  const bool b = t.b_column != 1 || (t.m >= 24 && (large || shares_sets) && !near_b);
  // For few strips of b, packing takes longer than it saves.
  const bool a = (t.a_column != 1 && !near_a) ||
                 (b && t.n >= 32 * kWidest * kLanes && t.a_row >= t.blocks.far / kSize);
  return {a && t.k > 1, b};
}

/// Parts of about one size, at most `most`, into which `all` is cut: multiples of `unit` but for the last.
std::int64_t even_part(std::int64_t all, std::int64_t most, std::int64_t unit) {
  if (all <= most) return all;
  most -= most % unit;
  const std::int64_t parts = (all + most - 1) / most;
  return ((all + parts - 1) / parts + unit - 1) / unit * unit;
}

/// Rows of a, packed or not, times the columns [j, end) of b from row `k` on, strip by strip: as wide as there are
/// registers for, the last two evened out. `strips` is the memory for packed ones; where they are `shared` by several
/// blocks of rows they lie there one after the other, as the first of these leaves them.
template <class Term, class V, bool PackedA, class T>
void multiply_strips(const GemmTile& t, Block<T> block, bool pack, bool shared, std::int64_t k,
                     std::int64_t row, std::int64_t rows, std::int64_t j, std::int64_t end,
                     T* strips) {
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  while (j < end) {
    const std::int64_t vectors = (end - j + kLanes - 1) / kLanes;
    const int now = static_cast<int>(vectors <= kWidest      ? vectors
                                     : vectors < 2 * kWidest ? (vectors + 1) / 2
                                                             : kWidest);
    const std::int64_t width = end - j < now * kLanes ? end - j : now * kLanes;
    const T* const from = static_cast<const T*>(t.b) + k * t.b_row + j * t.b_column;
    const bool kept = shared && row > 0;
    block.b = from;
    block.b_row = t.b_row;
    block.next_row = t.b_row;
    block.c = static_cast<T*>(t.c) + row * t.c_row + j;
    block.count = width - (now - 1) * kLanes;
    block.next = nullptr;
    j += width;
    const std::int64_t beyond = now * kLanes - width;
    Block<T> rest = block;
    if (!PackedA && !pack && beyond > 0 && t.b_column == 1 && t.b_row > 0) {
      // Of most rows of b whole vectors can be read: what is beyond them is the next row's.
      const std::int64_t last = (beyond + t.b_row - 1) / t.b_row;
      if (8 * last <= block.k) {
        rest.k = block.k - last;
        strip_of<Term, V, PackedA>(now, rest, rows);
        rest.a += rest.k * block.a_next;
        rest.b += rest.k * block.b_row;
        rest.k = last;
        rest.first = false;
      }
    }
    if (pack || beyond > 0) {
      if (!kept) pack_strip<V>(t, rest.b, rest.k, width, strips);
      rest.b = strips;
      rest.b_row = now * kLanes;
    }
    if (shared) strips += rest.k * rest.b_row;
    if (pack && !kept && t.b_column == 1 && j < end) rest.next = from + width;
    strip_of<Term, V, PackedA>(now, rest, rows);
  }
}

template <class V, class Term = OfNumbers>
void float_gemm(const GemmTile& t) {
  using T = simd::ScalarOf<V>;
  constexpr std::int64_t kStrip = kWidest * simd::Lanes<V>::kCount;
  const Packed packed = packed_operands<V>(t);
  if constexpr (std::is_same_v<Term, OfNumbers>) {
    if (!packed.b && t.m <= kernels::kFewRows && t.n > 4 * kStrip) {
      constexpr void (*kLoops[kernels::kFewRows])(const GemmTile&) = {
          few_rows<V, 1>, few_rows<V, 2>, few_rows<V, 3>, few_rows<V, 4>};
      return kLoops[t.m - 1](t);
    }
  }
  const std::int64_t depth = t.k < 2 ? 1 : even_part(t.k, t.blocks.depth, 1);
  const std::int64_t most_rows =
      even_part(t.m, t.blocks.rows * t.blocks.depth / depth, kPackedRows);
  // Strips that one block of rows meets take turns in the first cache.
  const bool shared = packed.b && most_rows < t.m;
  const std::int64_t strips = (t.n + kStrip - 1) / kStrip, most = t.blocks.columns / kStrip;
  const std::int64_t columns = (!shared || most < 1 ? 1
                                : most < strips     ? most
                                                    : strips) *
                               kStrip,
                     panel = shared ? columns : t.n;
  T* const packed_b = static_cast<T*>(t.workspace);
  T* const packed_a = packed_b + depth * columns;
  Block<T> block{};
  block.c_row = t.c_row;
  for (std::int64_t k = 0; k < t.k || k == 0; k += depth) {
    block.k = t.k - k < depth ? t.k - k : depth;
    block.first = k == 0;
    for (std::int64_t j = 0; j < t.n; j += panel) {
      const std::int64_t end = t.n - j < panel ? t.n : j + panel;
      for (std::int64_t row = 0; row < t.m; row += most_rows) {
        const std::int64_t rows = t.m - row < most_rows ? t.m - row : most_rows;
        block.a = static_cast<const T*>(t.a) + row * t.a_row + k * t.a_column;
        if (packed.a) {
          pack_rows<V>(t, block.a, rows, block.k, packed_a);
          block.a = packed_a;
          multiply_strips<Term, V, true>(t, block, packed.b, shared, k, row, rows, j, end,
                                         packed_b);
        } else {
          block.a_row = t.a_row;
          block.a_next = t.a_column;
          multiply_strips<Term, V, false>(t, block, packed.b, shared, k, row, rows, j, end,
                                          packed_b);
        }
      }
    }
  }
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::GemmLoop TELAMON_ISA_SYMBOL(float_gemm_loop)(telamon::DType dtype) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  using telamon::DType;
  switch (dtype) {
    case DType::f16: return few_rows<F32, 1, telamon::Half>;
    case DType::bf16: return few_rows<F32, 1, telamon::BFloat16>;
    case DType::f32: return float_gemm<F32>;
    case DType::f64: return float_gemm<F64>;
    default: return nullptr;
  }
}
extern "C" telamon::kernels::GemmLoop TELAMON_ISA_SYMBOL(bf16_gemm_loop)() {
#if defined(__AVX512BF16__)
  return telamon::loops::float_gemm<telamon::simd::F32, telamon::loops::OfPairs>;
#else
  return nullptr;
#endif
}
