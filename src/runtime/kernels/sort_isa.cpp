// Sorting of unsigned integers, for one instruction set.
//
// A long run is cut by quicksort whose partition moves whole registers (Bramas: A novel hybrid
// quicksort algorithm vectorized using AVX-512, 2017), until its pieces are short. Short pieces lie side
// by side, one in each lane, and go through a bitonic network whose comparators are the minimum and the
// maximum of two registers (Batcher 1968), all of them in the same direction.
#include "runtime/kernels/cut_isa.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"
#include "runtime/kernels/transpose_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::kSortTileRows;
using kernels::SortRun;

template <class T> constexpr T kLast = static_cast<T>(~T{0});

using V32 = RegisterOf<std::uint32_t>;
using V64 = RegisterOf<std::uint64_t>;

/// a, b = min(a, b), max(a, b)
template <class V>
TELAMON_INLINE void order(V& a, V& b) {
  const V x = a, y = b;
  a = x < y ? x : y;
  b = x < y ? y : x;
}
#if defined(TELAMON_ISA_AVX512)
TELAMON_INLINE void order(V32& a, V32& b) {
  const __m512i x = (__m512i)a, y = (__m512i)b;
  a = (V32)_mm512_maskz_min_epu32(0xffff, x, y);  // the plain forms trip -Wuninitialized in gcc 12
  b = (V32)_mm512_maskz_max_epu32(0xffff, x, y);
}
TELAMON_INLINE void order(V64& a, V64& b) {
  const __m512i x = (__m512i)a, y = (__m512i)b;
  a = (V64)_mm512_maskz_min_epu64(0xff, x, y);
  b = (V64)_mm512_maskz_max_epu64(0xff, x, y);
}
#elif defined(TELAMON_ISA_AVX2)
TELAMON_INLINE void order(V32& a, V32& b) {
  const __m256i x = (__m256i)a, y = (__m256i)b;
  a = (V32)_mm256_min_epu32(x, y);
  b = (V32)_mm256_max_epu32(x, y);
}
#endif

// ---- The network: rows of a tile are registers, each lane is a piece of its own ---------------------

/// Batcher's odd-even merge sort of sixteen keys (Knuth, The Art of Computer Programming 5.2.2M).
struct SixteenKeys {
  static constexpr int kCount = 63;
  unsigned char pair[kCount][2] = {};
  constexpr SixteenKeys() {
    int n = 0;
    for (int p = 8; p > 0; p /= 2) {
      for (int q = 8, r = 0, d = p; d > 0; d = q - p, q /= 2, r = p) {
        for (int i = 0; i + d < 16; ++i) {
          if ((i & p) != r) continue;
          pair[n][0] = static_cast<unsigned char>(i);
          pair[n++][1] = static_cast<unsigned char>(i + d);
        }
        if (q == p) break;
      }
    }
  }
};
constexpr SixteenKeys kSixteen;
template <class V>
TELAMON_INLINE void sort_sixteen(V* r) {
  V x[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) x[i] = r[i];
#pragma GCC unroll 63
  for (int i = 0; i < SixteenKeys::kCount; ++i)
    order(x[kSixteen.pair[i][0]], x[kSixteen.pair[i][1]]);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = x[i];
}

/// The last four steps of a merge: distances 8, 4, 2, 1 within sixteen rows.
template <class V>
TELAMON_INLINE void finish_sixteen(V* r) {
  V x[16];
  for (int i = 0; i < 16; ++i) x[i] = r[i];
#pragma GCC unroll 4
  for (int distance = 8; distance > 0; distance /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if ((i & distance) == 0) order(x[i], x[i + distance]);
    }
  }
  for (int i = 0; i < 16; ++i) r[i] = x[i];
}

/// Two steps at once, of distances 2 * d and d.
template <class V>
TELAMON_INLINE void two_steps(V* r, int rows, int d) {
  for (int base = 0; base < rows; base += 4 * d) {
    for (int i = base; i < base + d; ++i) {
      V w = r[i], x = r[i + d], y = r[i + 2 * d], z = r[i + 3 * d];
      order(w, y);
      order(x, z);
      order(w, x);
      order(y, z);
      r[i] = w;
      r[i + d] = x;
      r[i + 2 * d] = y;
      r[i + 3 * d] = z;
    }
  }
}
/// The first step of merging blocks of k / 2 rows: row i with its mirror image in the block of k.
template <class V>
TELAMON_INLINE void mirror(V* r, int rows, int k) {
  for (int base = 0; base + k / 2 < rows; base += k) {
    const int beyond = base + k > rows ? base + k - rows : 0;
    for (int i = beyond; i < k / 2; ++i) order(r[base + i], r[base + k - 1 - i]);
  }
}
/// The same together with the next step, of distance k / 4.
template <class V>
TELAMON_INLINE void mirror_and_step(V* r, int rows, int k) {
  for (int base = 0; base + k / 2 < rows; base += k) {
    V *low = r + base, *high = r + base + k - 1;
    for (int i = 0; i < k / 4; ++i) {
      V w = low[i], x = low[i + k / 4], y = high[-i - k / 4], z = high[-i];
      order(w, z);
      order(x, y);
      order(w, x);
      order(y, z);
      low[i] = w;
      low[i + k / 4] = x;
      high[-i - k / 4] = y;
      high[-i] = z;
    }
  }
}

/// Sorts every lane of a tile; rows: a multiple of 16. Behind these, up to the next power of two, there are rows of the
/// last of all keys: these stay where they are, so that steps that only meet them are left out.
template <class V>
void sort_tile(V* r, int rows) {
  for (int i = 0; i < rows; i += 16) sort_sixteen(r + i);
  for (int k = 32; k < 2 * rows; k *= 2) {
    int d = k / 2;  // the distance that is next
    int steps = 0;  // left before the last four
    for (int left = k; left > 16; left /= 2) ++steps;
    if (steps % 2 == 1) {
      mirror(r, rows, k);
      d /= 2;
    } else {
      mirror_and_step(r, rows, k);
      d /= 4;
    }
    for (; d >= 16; d /= 4) two_steps(r, rows, d / 2);
    for (int i = 0; i < rows; i += 16) finish_sixteen(r + i);
  }
}

// ---- Pieces into lanes and back -----------------------------------------------------------------

/// Keys, or registers of keys, as they are written.
template <class T>
class Turn {
 public:
  explicit Turn(const kernels::KeyBits& bits)
      : if_clear_(static_cast<T>(bits.if_clear)),
        either_(static_cast<T>(bits.if_set ^ bits.if_clear)) {}
  TELAMON_INLINE T operator()(T key) const {
    return key ^ if_clear_ ^ (key >> (kBits - 1) != 0 ? either_ : T{0});
  }
  TELAMON_INLINE RegisterOf<T> operator()(RegisterOf<T> keys) const {
    typedef SignedBitsOf<T> Signed __attribute__((vector_size(simd::kBytes)));
    const auto set = (RegisterOf<T>)((Signed)keys >> (kBits - 1));
    return keys ^ if_clear_ ^ (set & either_);
  }

 private:
  static constexpr int kBits = 8 * sizeof(T);
  T if_clear_, either_;
};

/// The first n keys of a register, 0 < n < kLanes<T>; the others are the last of all keys.
template <class T>
TELAMON_INLINE RegisterOf<T> load_first(const T* from, std::int64_t n) {
  RegisterOf<T> x = RegisterOf<T>{} - 1;
#if defined(TELAMON_ISA_AVX512)
  const unsigned lanes = (1u << n) - 1;
  if constexpr (sizeof(T) == 4)
    x = (RegisterOf<T>)_mm512_mask_loadu_epi32((__m512i)x, static_cast<__mmask16>(lanes), from);
  else x = (RegisterOf<T>)_mm512_mask_loadu_epi64((__m512i)x, static_cast<__mmask8>(lanes), from);
#else
  for (std::int64_t i = 0; i < n; ++i) x[i] = from[i];
#endif
  return x;
}
template <class T>
TELAMON_INLINE void store_first(T* to, const RegisterOf<T>& x, std::int64_t n) {
#if defined(TELAMON_ISA_AVX512)
  const unsigned lanes = (1u << n) - 1;
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(lanes), (__m512i)x);
  else _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(lanes), (__m512i)x);
#else
  for (std::int64_t i = 0; i < n; ++i) to[i] = x[i];
#endif
}

/// Up to one piece for each lane. What a piece lacks is filled up with the last of all keys.
template <class T>
struct Pieces {
  Pieces(void* room, const kernels::KeyBits& turned)
      : tile(static_cast<RegisterOf<T>*>(room)), turn(turned) {}

  const T* from[kLanes<T>];
  T* to[kLanes<T>];
  std::int64_t size[kLanes<T>];
  int count = 0;
  RegisterOf<T>* tile;
  Turn<T> turn;

  void add(const T* keys, std::int64_t n, T* out) {
    from[count] = keys;
    to[count] = out;
    size[count] = n;
    if (++count == kLanes<T>) sort();
  }
  void move_to(Pieces& others) {
    for (int j = 0; j < count; ++j) others.add(from[j], size[j], to[j]);
    count = 0;
  }

  void sort() {
    if (count == 0) return;
    constexpr int kN = kLanes<T>;
    std::int64_t longest = 0;
    for (int j = 0; j < count; ++j) longest = size[j] > longest ? size[j] : longest;
    const int rows = static_cast<int>((longest + 15) / 16 * 16);
    for (int r = 0; r < rows; r += kN) {
      RegisterOf<T> x[kN];
      for (int j = 0; j < kN; ++j) x[j] = j < count ? piece(j, r) : filler();
      transpose(x);
      for (int j = 0; j < kN; ++j) tile[r + j] = x[j];
    }
    int whole = 16;
    while (whole < rows) whole *= 2;
    for (int r = rows; r < whole; ++r) tile[r] = filler();
    sort_tile(tile, rows);
    for (int r = 0; r < longest; r += kN) {
      RegisterOf<T> x[kN];
      for (int j = 0; j < kN; ++j) x[j] = turn(tile[r + j]);
      transpose(x);
      for (int j = 0; j < count; ++j) {
        if (r + kN <= size[j]) store<T>(to[j] + r, x[j]);
        else if (r < size[j]) store_first<T>(to[j] + r, x[j], size[j] - r);
      }
    }
    count = 0;
  }

 private:
  static TELAMON_INLINE RegisterOf<T> filler() { return RegisterOf<T>{} - 1; }
  TELAMON_INLINE RegisterOf<T> piece(int j, int r) const {
    if (r + kLanes<T> <= size[j]) return load<T>(from[j] + r);
    return r < size[j] ? load_first<T>(from[j] + r, size[j] - r) : filler();
  }
};

/// Short and long pieces apart, since a tile has as many rows as its longest piece.
template <class T>
class PiecesBySize {
 public:
  PiecesBySize(void* room, const kernels::KeyBits& turned)
      : short_(room, turned), long_(room, turned) {}

  const Turn<T>& turn() const { return long_.turn; }
  /// A run that is not cut, as others beside it are not.
  void add_run(const SortRun& run) {
    long_.add(static_cast<const T*>(run.keys), run.n, static_cast<T*>(run.out));
  }
  /// Of at most `longest` keys.
  void add(const T* keys, std::int64_t n, T* out, std::int64_t longest) {
    (n <= longest / 4 * 3 ? short_ : long_).add(keys, n, out);
  }
  void finish() {
    short_.move_to(long_);
    long_.sort();
  }

 private:
  Pieces<T> short_, long_;
};

// ---- Quicksort ----------------------------------------------------------------------------------

/// Moves the keys below `pivot` to `low` and the others to the front of `keys`, in their order, and
/// returns the number of the former.
template <class T>
std::int64_t partition(T* keys, std::int64_t n, T pivot, T* low) {
  std::int64_t i = 0, below = 0;
#if defined(TELAMON_ISA_AVX512) || defined(TELAMON_ISA_AVX2)
  // Several registers at a time: where one is stored to depends on the counts of all before it, and
  // these are found beforehand. With AVX-512 1.7 times as fast as one by one.
  constexpr int kN = kLanes<T>, kAtOnce = 4;
  const Cut<T> cut(pivot);
  const auto move = [&](RegisterOf<T> x, unsigned mask, std::int64_t at) {
    store<T>(low + below, cut.front(x, mask));
    store<T>(keys + at - below, cut.front(x, ~mask & ((1u << kN) - 1)));
  };
  for (; i + kAtOnce * kN <= n; i += kAtOnce * kN) {
    RegisterOf<T> x[kAtOnce];
    unsigned mask[kAtOnce];
    std::int64_t count[kAtOnce];
    for (int j = 0; j < kAtOnce; ++j) {
      x[j] = load<T>(keys + i + j * kN);
      mask[j] = cut.below(x[j]);
      count[j] = __builtin_popcount(mask[j]);
    }
    for (int j = 0; j < kAtOnce; ++j) {
      move(x[j], mask[j], i + j * kN);
      below += count[j];
    }
  }
  for (; i + kN <= n; i += kN) {
    const RegisterOf<T> x = load<T>(keys + i);
    const unsigned mask = cut.below(x);
    move(x, mask, i);
    below += __builtin_popcount(mask);
  }
#endif
  for (; i < n; ++i) {
    const T x = keys[i];
    low[below] = x;
    keys[i - below] = x;
    below += x < pivot ? 1 : 0;
  }
  return below;
}

/// x[4] becomes the median of nine keys, or of nine in each lane (Devillard 1998).
template <class V>
TELAMON_INLINE void order_median(V* x) {
  constexpr unsigned char kPairs[19][2] = {{1, 2}, {4, 5}, {7, 8}, {0, 1}, {3, 4}, {6, 7}, {1, 2},
                                           {4, 5}, {7, 8}, {0, 3}, {5, 8}, {4, 7}, {3, 6}, {1, 4},
                                           {2, 5}, {4, 7}, {4, 2}, {6, 4}, {4, 2}};
#pragma GCC unroll 19
  for (int i = 0; i < 19; ++i) order(x[kPairs[i][0]], x[kPairs[i][1]]);
}
constexpr std::int64_t kSampled = 16;  // neighbours: lanes of one register or more
/// Of nine times kSampled keys, `step` apart, the medians of those at the same place.
template <class T>
TELAMON_INLINE void put_medians(const T* keys, std::int64_t step, T* medians) {
  for (std::int64_t k = 0; k < kSampled; k += kLanes<T>) {
    RegisterOf<T> x[9];
    for (int i = 0; i < 9; ++i) x[i] = load<T>(keys + i * step + k);
    order_median(x);
    store<T>(medians + k, x[4]);
  }
}
/// Of at least kSampled keys.
template <class T>
T sampled_median(const T* keys, std::int64_t n) {
  constexpr std::int64_t kFew = 256, kMany = 65536;
  T medians[9 * kSampled];
  const std::int64_t groups = n < kMany ? 1 : 9, each = n / groups, step = (each - kSampled) / 8;
  if (n < kFew) {
    for (std::int64_t i = 0; i < 9; ++i) medians[i] = keys[i * step];
  } else {
    for (std::int64_t g = 0; g < groups; ++g)
      put_medians(keys + g * each, step, medians + g * kSampled);
    if (groups > 1) put_medians(medians, kSampled, medians);
  }
  order_median(medians);
  return medians[4];
}
/// The middle of the range of the keys: halves whatever is there in as many steps as a key has bits.
template <class T>
T middle(const T* keys, std::int64_t n) {
  T lowest = keys[0], highest = keys[0];
  for (std::int64_t i = 1; i < n; ++i) {
    lowest = keys[i] < lowest ? keys[i] : lowest;
    highest = keys[i] > highest ? keys[i] : highest;
  }
  return static_cast<T>(lowest + (highest - lowest) / 2 + (highest > lowest ? 1 : 0));
}

/// Cuts a run into pieces of at most `shortest` keys, in ascending order. Left parts move to the scratch
/// memory, right parts stay: each then has as much of the other memory for its own scratch.
template <class T>
void quicksort(const SortRun& run, std::int64_t shortest, PiecesBySize<T>& pieces) {
  if (run.n <= shortest) return pieces.add_run(run);
  struct Part {
    T *keys, *scratch;
    std::int64_t n;
    int depth;
  };
  Part waiting[192];
  int count = 0;
  T* out = static_cast<T*>(run.out);
  int depth_limit = 8;
  for (std::int64_t left = run.n; left > shortest; left /= 2) depth_limit += 2;
  waiting[count++] = {static_cast<T*>(run.keys), static_cast<T*>(run.scratch), run.n, 0};
  while (count > 0) {
    const Part part = waiting[--count];
    if (part.n <= shortest) {
      if (part.n > 0) pieces.add(part.keys, part.n, out, shortest);
      out += part.n;
      continue;
    }
    const T pivot =
        part.depth < depth_limit ? sampled_median(part.keys, part.n) : middle(part.keys, part.n);
    std::int64_t below = partition(part.keys, part.n, pivot, part.scratch);
    if (below > 0) {
      waiting[count++] = {part.keys, part.scratch + below, part.n - below, part.depth + 1};
      waiting[count++] = {part.scratch, part.keys + (part.n - below), below, part.depth + 1};
      continue;
    }
    // The pivot is the lowest key, and perhaps all there is.
    below = pivot == kLast<T> ? part.n : partition<T>(part.keys, part.n, pivot + 1, part.scratch);
    for (std::int64_t i = 0; i < below; ++i) out[i] = pieces.turn()(pivot);
    out += below;
    if (below < part.n)
      waiting[count++] = {part.keys, part.scratch + below, part.n - below, part.depth + 1};
  }
}

template <class T>
void sort_runs(const SortRun* runs, std::int64_t count, void* tile) {
  if (count == 0) return;
  PiecesBySize<T> pieces(tile, runs[0].turned);  // as all are
  // As many runs as there are lanes are cut alike, unless a tile holds them as they are: into pieces for half of its rows,
  // which the fastest cache holds, but enough of them to use all lanes.
  for (std::int64_t first = 0; first < count; first += kLanes<T>) {
    const std::int64_t last = first + kLanes<T> < count ? first + kLanes<T> : count;
    std::int64_t keys = 0;
    for (std::int64_t i = first; i < last; ++i) keys += runs[i].n;
    std::int64_t shortest = keys / kLanes<T>;
    if (shortest < 64) shortest = 64;
    if (shortest > kSortTileRows) shortest = kSortTileRows / 2;
    for (std::int64_t i = first; i < last; ++i) quicksort<T>(runs[i], shortest, pieces);
  }
  pieces.finish();
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" void TELAMON_ISA_SYMBOL(sort_runs)(int key_bytes, const telamon::kernels::SortRun* runs,
                                              std::int64_t count, void* tile) {
  if (key_bytes == 4) telamon::loops::sort_runs<std::uint32_t>(runs, count, tile);
  else telamon::loops::sort_runs<std::uint64_t>(runs, count, tile);
}
extern "C" std::int64_t TELAMON_ISA_SYMBOL(sort_partition)(int key_bytes, void* keys,
                                                           std::int64_t n, std::uint64_t pivot,
                                                           void* low) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  if (key_bytes == 8)
    return partition(static_cast<std::uint64_t*>(keys), n, pivot, static_cast<std::uint64_t*>(low));
  return partition(static_cast<std::uint32_t*>(keys), n, static_cast<std::uint32_t>(pivot),
                   static_cast<std::uint32_t*>(low));
}
