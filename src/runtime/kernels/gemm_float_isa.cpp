// Matrix products of floats, for one instruction set: register tiles over blocks that stay in the caches
// (Goto, van de Geijn: Anatomy of high-performance matrix multiplication, 2008).
//
// Every element of the result is one sum over k from first to last, fused where the set can, whatever
// the tile it lies in: blocks of k continue from the result as it stands. So a row of a batch gives what
// the matrix alone would give, where that is not cut into parts (gemm.cpp), and one thread what several give.
#include "runtime/kernels/gemm_tile.hpp"
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

/// The widest register tile, in vectors; and the rows of one of `Vectors`: as many as there are
/// registers for, beside a row of b and an element of a.
#if defined(TELAMON_ISA_AVX512)
constexpr int kWidest = 4;
template <int Vectors> constexpr int kRows = Vectors == 4 ? 6 : Vectors == 3 ? 8 : 12;
#else
constexpr int kWidest = 2;
template <int Vectors> constexpr int kRows = 6;
#endif

/// A block of k: rows of a, some vectors of columns of b, and the results they add to.
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

template <class V, int Rows, int Vectors, class T>
void register_tile(const Block<T>& t, std::int64_t row) {
  constexpr int kLanes = simd::Lanes<V>::kCount;
  const std::int64_t a_row = t.a_row, a_next = t.a_next, b_row = t.b_row, c_row = t.c_row,
                     last = t.count;
  const T* a = t.a + row * a_row;
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
        sum = simd::fma(from_a, from_b[j.value], sum);
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

template <class V, int Vectors, class T>
void column_strip(const Block<T>& t, std::int64_t rows) {
  constexpr int kMost = kRows<Vectors>;
  constexpr std::int64_t kFar = 2048 / sizeof(T);
  const bool far_results = t.c_row > kFar, far_rows = t.a_row > kFar;
  // Of the next strip as much as makes all of it in the end.
  const std::int64_t tiles = rows / kMost;
  const bool far_strip = t.next != nullptr && t.next_row > kFar && tiles > 0;
  const std::int64_t each = far_strip ? (t.k + tiles - 1) / tiles : 0;
  const T* next = t.next;
  std::int64_t i = 0, left = each == 0 ? 0 : t.k;
  for (; i + kMost <= rows; i += kMost) {
    if (const std::int64_t after = i + kMost; after + kMost <= rows) {
      if (far_results) fetch_rows<Vectors, V>(t.c + after * t.c_row, t.c_row, kMost);
      if (far_rows) fetch_rows<2, V>(t.a + after * t.a_row, t.a_row, kMost);
    }
    const std::int64_t now = left < each ? left : each;
    fetch_rows<Vectors, V>(next, t.next_row, now);
    next += now * t.next_row;
    left -= now;
    register_tile<V, kMost, Vectors>(t, i);
  }
  if constexpr (kMost > 6) {
    for (; i + 6 <= rows; i += 6) register_tile<V, 6, Vectors>(t, i);
  }
  for (; i + 4 <= rows; i += 4) register_tile<V, 4, Vectors>(t, i);
  for (; i + 2 <= rows; i += 2) register_tile<V, 2, Vectors>(t, i);
  if (i < rows) register_tile<V, 1, Vectors>(t, i);
}

template <class V, class T>
void strip_of(int vectors, const Block<T>& t, std::int64_t rows) {
  if (vectors == 1) column_strip<V, 1>(t, rows);
  else if (vectors == 2) column_strip<V, 2>(t, rows);
#if defined(TELAMON_ISA_AVX512)
  else if (vectors == 3) column_strip<V, 3>(t, rows);
  else column_strip<V, 4>(t, rows);
#endif
}

/// to[j * to_row + i] = from[i * from_row + j] for i < rows, j < columns.
template <class V, class T>
void transpose_block(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                     T* to, std::int64_t to_row) {
  constexpr std::int64_t kCount = simd::Lanes<V>::kCount;
  std::int64_t i = 0;
  for (; i + kCount <= rows; i += kCount) {
    std::int64_t j = 0;
    for (; j + kCount <= columns; j += kCount) {
      V block[kCount];
      for (std::int64_t x = 0; x < kCount; ++x) {
        __builtin_memcpy(&block[x], from + (i + x) * from_row + j, sizeof(V));
      }
      transpose(block);
      for (std::int64_t x = 0; x < kCount; ++x) {
        __builtin_memcpy(to + (j + x) * to_row + i, &block[x], sizeof(V));
      }
    }
    for (; j < columns; ++j) {
      for (std::int64_t x = i; x < i + kCount; ++x) to[j * to_row + x] = from[x * from_row + j];
    }
  }
  for (; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) to[j * to_row + i] = from[i * from_row + j];
  }
}

// ---- packing ---------------------------------------------------------------------------------------

/// k rows of `width` columns of b, side by side, with zeros up to whole vectors.
template <class V, class T>
void pack_strip(const GemmTile& t, const T* b, std::int64_t k, std::int64_t width, T* to) {
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  const std::int64_t padded = (width + kLanes - 1) / kLanes * kLanes;
  if (t.b_column == 1) {
    for (std::int64_t i = 0; i < k; ++i, b += t.b_row, to += padded) {
      if (width == padded) {
        for (std::int64_t j = 0; j < width; j += kLanes) __builtin_memcpy(to + j, b + j, sizeof(V));
      } else {
        for (std::int64_t j = 0; j < padded; ++j) to[j] = j < width ? b[j] : T(0);
      }
    }
    return;
  }
  if (width < padded) {
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t j = width; j < padded; ++j) to[i * padded + j] = 0;
    }
  }
  if (t.b_row == 1) return transpose_block<V>(b, t.b_column, width, k, to, padded);
  for (std::int64_t i = 0; i < k; ++i) {
    for (std::int64_t j = 0; j < width; ++j) to[i * padded + j] = b[i * t.b_row + j * t.b_column];
  }
}

/// m rows of a block of a, k adjacent.
template <class V, class T>
void pack_rows(const GemmTile& t, const T* a, std::int64_t k, T* to) {
  if (t.a_row == 1) return transpose_block<V>(a, t.a_column, k, t.m, to, k);
  for (std::int64_t i = 0; i < t.m; ++i) {
    for (std::int64_t j = 0; j < k; ++j) to[i * k + j] = a[i * t.a_row + j * t.a_column];
  }
}

// ---- a few rows ------------------------------------------------------------------------------------

/// Adds the products with `Depth` rows of b from row k on, which are followed to their ends side by side.
template <class V, int Rows, int Depth>
void follow_rows(const GemmTile& t, std::int64_t k) {
  using T = simd::ScalarOf<V>;
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  const std::int64_t b_row = t.b_row, c_row = t.c_row;
  const T* const b = static_cast<const T*>(t.b) + k * b_row;
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
      from_b[d.value] = load_lanes<V>(b + d.value * b_row + j, count);
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
template <class V, int Rows>
void few_rows(const GemmTile& t) {
  using T = simd::ScalarOf<V>;
  constexpr int kStreams = 6;
  for (std::int64_t i = 0; i < Rows; ++i)
    __builtin_memset(static_cast<T*>(t.c) + i * t.c_row, 0,
                     static_cast<std::size_t>(t.n) * sizeof(T));
  std::int64_t k = 0;
  for (; k + kStreams <= t.k; k += kStreams) follow_rows<V, Rows, kStreams>(t, k);
  for (; k + 2 <= t.k; k += 2) follow_rows<V, Rows, 2>(t, k);
  if (k < t.k) follow_rows<V, Rows, 1>(t, k);
}

template <class V>
void float_gemm(const GemmTile& t) {
  using T = simd::ScalarOf<V>;
  constexpr std::int64_t kLanes = simd::Lanes<V>::kCount;
  // What is small, or used for a few rows or columns only, is read as it lies where that lies together for one k, and
  // not far from the next: a block of it stays in the caches. (On Zen 3 the transpose of 100000 x 64 times such a
  // matrix takes 0.78 of the time, of 100000 x 32 0.63.)
  constexpr std::int64_t kSmall = 256 << 10, kFew = 128, kLine = 64, kNear = 512;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const bool near_a = t.a_row == 1 && t.a_column * kSize <= kNear && t.n <= kFew;
  const bool near_b = t.b_row * kSize <= kNear / 2 && t.b_row * kSize % kLine == 0 && t.m <= kFew;
  // Of rows that lie pages apart each line has the same sets of the caches to go to, where a strip of many does not stay
  // (on Zen 3, 1024 x 128 times 128 x 1024 takes 0.46 of the time when it is packed, 24 x 128 times that 0.73).
  constexpr std::int64_t kPage = 4096, kManyRows = 16;
  const bool shares_sets =
      t.b_row > 0 && t.b_row * kSize % kPage == 0 && t.k >= kManyRows && t.n > kLanes;
  const bool large = t.k * t.n * kSize > kSmall;
  const bool pack_b = t.b_column != 1 || (t.m >= 24 && (large || shares_sets) && !near_b);
  if (!pack_b && t.m <= kernels::kFewRows && t.n > 4 * kWidest * kLanes) {
    constexpr void (*kLoops[kernels::kFewRows])(const GemmTile&) = {few_rows<V, 1>, few_rows<V, 2>,
                                                                    few_rows<V, 3>, few_rows<V, 4>};
    return kLoops[t.m - 1](t);
  }
  T* const packed_b = static_cast<T*>(t.workspace);
  T* const packed_a = packed_b + t.depth * kWidest * kLanes;
  // For few strips of b, packing takes longer than it saves.
  const bool pack_a = (t.a_column != 1 && !near_a) ||
                      (pack_b && t.n >= 8 * kWidest * kLanes && t.a_row >= t.far / kSize);
  Block<T> block{};
  block.c_row = t.c_row;
  for (std::int64_t kk = 0; kk < t.k || kk == 0; kk += t.depth) {
    block.k = t.k - kk < t.depth ? t.k - kk : t.depth;
    block.first = kk == 0;
    block.a = static_cast<const T*>(t.a) + kk * t.a_column;
    block.a_row = t.a_row;
    block.a_next = t.a_column;
    if (pack_a && t.k > 1) {
      pack_rows<V>(t, block.a, block.k, packed_a);
      block.a = packed_a;
      block.a_row = block.k;
      block.a_next = 1;
    }
    // Strips as wide as there are registers for, the last two evened out.
    std::int64_t vectors = (t.n + kLanes - 1) / kLanes;
    for (std::int64_t j = 0; vectors > 0;) {
      const int now = static_cast<int>(vectors <= kWidest      ? vectors
                                       : vectors < 2 * kWidest ? (vectors + 1) / 2
                                                               : kWidest);
      const std::int64_t width = t.n - j < now * kLanes ? t.n - j : now * kLanes;
      const T* const from = static_cast<const T*>(t.b) + kk * t.b_row + j * t.b_column;
      block.b = from;
      block.b_row = t.b_row;
      if (pack_b || width < now * kLanes) {
        pack_strip<V>(t, block.b, block.k, width, packed_b);
        block.b = packed_b;
        block.b_row = now * kLanes;
      }
      block.next = pack_b && vectors > now && t.b_column == 1 ? from + width : nullptr;
      block.next_row = t.b_row;
      block.c = static_cast<T*>(t.c) + j;
      block.count = width - (now - 1) * kLanes;
      strip_of<V>(now, block, t.m);
      j += width;
      vectors -= now;
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
  return dtype == DType::f32 ? float_gemm<F32> : dtype == DType::f64 ? float_gemm<F64> : nullptr;
}
