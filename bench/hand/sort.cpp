// B14 by hand: radix sort of long vectors; of many short rows 16 at a time through Batcher's network.
#include <algorithm>
#include <bit>

#include "hand.hpp"
#include "lines.hpp"

namespace bench {
namespace {

constexpr std::size_t kMany = 1 << 20, kSide = 1024;
using Keys = std::vector<std::uint32_t>;

/// Unsigned numbers in the order of the floats (no NaN among them), and back.
std::uint32_t key_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return bits ^ (static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31) | 0x80000000u);
}
float float_of(std::uint32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}

struct Sorting {
  Floats x, w, out;
  Ints places;
  Keys a, b;
  std::vector<std::uint64_t> pair_a, pair_b;
};

/// Least significant digit first: three passes of 11 bits over T, whose key starts at bit `Shift`.
template <int Shift, class T, class Key, class Last>
void radix_sort(std::size_t n, std::vector<T>& a, std::vector<T>& b, Key key, Last last) {
  constexpr std::uint32_t kDigits = 2048;
  std::uint32_t count[3][kDigits] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const T x = key(i);
    const auto k = static_cast<std::uint32_t>(x >> Shift);
    a[i] = x;
    ++count[0][k % kDigits], ++count[1][(k >> 11) % kDigits], ++count[2][k >> 22];
  }
  for (auto& row : count) {
    std::uint32_t sum = 0;
    for (std::uint32_t& c : row) c = std::exchange(sum, sum + c);
  }
  for (std::size_t i = 0; i < n; ++i) b[count[0][(a[i] >> Shift) % kDigits]++] = a[i];
  for (std::size_t i = 0; i < n; ++i) a[count[1][(b[i] >> (Shift + 11)) % kDigits]++] = b[i];
  for (std::size_t i = 0; i < n; ++i) last(count[2][(a[i] >> (Shift + 22)) % kDigits]++, a[i]);
}
/// The places of the numbers in ascending order.
template <class Last>
void radix_argsort(Sorting& s, Last last) {
  radix_sort<32>(
      kMany, s.pair_a, s.pair_b,
      [&](std::size_t i) { return std::uint64_t{key_of(s.x[i])} << 32 | i; }, last);
}

template <class Work>
Case million(Sorting s, Work work, const char* note) {
  Case c = by_hand(std::move(s), work, [](const Sorting& r) {
    return std::vector{r.places.empty() ? output(r.out) : output(r.places)};
  });
  c.items = kMany;
  c.note = note;
  return c;
}
Sorting numbers() {
  Sorting s;
  s.x = uf(1, kMany);
  return s;
}

const Register sort_vector("B14.sort", "ms", [] {
  Sorting s = numbers();
  s.out.resize(kMany), s.a.resize(kMany), s.b.resize(kMany);
  return million(
      std::move(s),
      [](Sorting& r) {
        radix_sort<0>(
            kMany, r.a, r.b, [&](std::size_t i) { return key_of(r.x[i]); },
            [&](std::uint32_t at, std::uint32_t k) { r.out[at] = float_of(k); });
      },
      "2^20 f32, radix");
});
const Register argsort("B14.argsort", "ms", [] {
  Sorting s = numbers();
  s.places.resize(kMany), s.pair_a.resize(kMany), s.pair_b.resize(kMany);
  return million(
      std::move(s),
      [](Sorting& r) {
        radix_argsort(r, [&](std::uint32_t at, std::uint64_t k) {
          r.places[at] = static_cast<std::int32_t>(k & 0xffffffffu);
        });
      },
      "2^20 f32, radix");
});
const Register sort_grad("B14.sort_grad", "ms", [] {
  Sorting s = numbers();
  s.w = uf(2, kMany);
  s.out.resize(kMany), s.pair_a.resize(kMany), s.pair_b.resize(kMany);
  return million(
      std::move(s),
      [](Sorting& r) {
        radix_argsort(r,
                      [&](std::uint32_t at, std::uint64_t k) { r.out[k & 0xffffffffu] = r.w[at]; });
      },
      "radix");
});

// ---- many rows of 1024 numbers -------------------------------------------------------------------
using Group = std::int32_t[kSide][kLanes];

/// Signed numbers in the order of the floats; its own inverse.
std::int32_t ordered(std::int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }

/// Batcher's odd-even merge sort of 16 columns at once.
void sort_columns(Group& v) {
  for (int t = 0; t < 10; ++t) {
    const std::size_t p = std::size_t{1} << t;
    for (std::size_t k = p; k >= 1; k /= 2) {
      for (std::size_t j = k % p; j + k < kSide; j += 2 * k) {
        for (std::size_t i = j; i < std::min(j + k, kSide - k); ++i) {
          if (i >> (t + 1) != (i + k) >> (t + 1)) continue;
          std::int32_t *low = v[i], *high = v[i + k];
#pragma omp simd
          for (std::size_t l = 0; l < kLanes; ++l) {
            const std::int32_t a = low[l], b = high[l];
            low[l] = a < b ? a : b;
            high[l] = a < b ? b : a;
          }
        }
      }
    }
  }
}
/// Floats to numbers in their order, or back.
void convert(Group& v) {
  for (auto& row : v) {
#pragma omp simd
    for (std::size_t l = 0; l < kLanes; ++l) row[l] = ordered(row[l]);
  }
}

/// 1024 sequences of 1024 numbers, sixteen at once: load(x, k, group) and store(group, k, out) say
/// where the k-th sixteen lie.
template <class Load, class Store>
Case sequences(Load load, Store store, const char* note) {
  Sorting s = numbers();
  s.out.resize(kMany);
  return million(
      std::move(s),
      [load, store](Sorting& r) {
        alignas(64) static Group v;
        for (std::size_t k = 0; k < kSide / kLanes; ++k) {
          load(r.x.data(), k, v);
          convert(v);
          sort_columns(v);
          convert(v);
          store(v, k, r.out.data());
        }
      },
      note);
}

const Register sort_ax0("B14.sort_ax0", "ms", [] {
  return sequences(
      [](const float* x, std::size_t k, Group& v) {
        for (std::size_t i = 0; i < kSide; ++i)
          store_line(v[i], load_line(x + i * kSide + k * kLanes));
      },
      [](const Group& v, std::size_t k, float* out) {
        for (std::size_t i = 0; i < kSide; ++i)
          store_line(out + i * kSide + k * kLanes, load_line(v[i]));
      },
      "1024 columns, 16 at once");
});

const Register sort_ax1("B14.sort_ax1", "ms", [] {
  return sequences(
      [](const float* x, std::size_t k, Group& v) {
        rows_to_columns<kSide>(x + k * kLanes * kSide, reinterpret_cast<float*>(v));
      },
      [](const Group& v, std::size_t k, float* out) {
        columns_to_rows<kSide>(reinterpret_cast<const float*>(v), out + k * kLanes * kSide);
      },
      "1024 rows, 16 at once");
});

}  // namespace
}  // namespace bench
