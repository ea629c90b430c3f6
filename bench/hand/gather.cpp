// B13 by hand.
#include <algorithm>
#include <cstring>

#include "hand.hpp"

namespace bench {
namespace {

constexpr std::size_t kTable = 50000, kWidth = 64, kPicked = 16384, kMany = 1'000'000;

struct Rows {
  Floats table, g;
  Ints i;
  Floats out;
};
const Register gather("B13.gather", "us", [] {
  Case c = by_hand(
      Rows{uf(1, kTable * kWidth), {}, indices(2, kPicked, kTable), Floats(kPicked * kWidth)},
      [](Rows& r) {
        for (std::size_t k = 0; k < kPicked; ++k) {
          std::memcpy(&r.out[k * kWidth], &r.table[static_cast<std::size_t>(r.i[k]) * kWidth],
                      kWidth * sizeof(float));
        }
      },
      [](const Rows& r) { return std::vector{output(r.out)}; });
  c.bytes = 8. * kPicked * kWidth;
  return c;
});
const Register scatter_add("B13.scatter_add", "us", [] {
  Case c = by_hand(
      Rows{{}, uf(3, kPicked * kWidth), indices(2, kPicked, kTable), Floats(kTable * kWidth)},
      [](Rows& r) {
        std::fill(r.out.begin(), r.out.end(), 0.f);
        for (std::size_t k = 0; k < kPicked; ++k) {
          float* __restrict to = &r.out[static_cast<std::size_t>(r.i[k]) * kWidth];
          const float* g = &r.g[k * kWidth];
          for (std::size_t j = 0; j < kWidth; ++j) to[j] += g[j];
        }
      },
      [](const Rows& r) { return std::vector{output(r.out)}; });
  c.bytes = 4. * kTable * kWidth + 12. * kPicked * kWidth;
  c.note = "embedding gradient";
  return c;
});

/// Values added at places.
struct Deposit {
  Ints i;
  Floats v, out;
};
Case deposit(unsigned seed_places, unsigned seed_values, int k, const char* note) {
  Case c = by_hand(
      Deposit{indices(seed_places, kMany, k), uf(seed_values, kMany),
              Floats(static_cast<std::size_t>(k))},
      [](Deposit& d) {
        std::fill(d.out.begin(), d.out.end(), 0.f);
        for (std::size_t n = 0; n < kMany; ++n) d.out[static_cast<std::size_t>(d.i[n])] += d.v[n];
      },
      [](const Deposit& d) { return std::vector{output(d.out)}; });
  c.per = kMany;
  c.note = note;
  return c;
}
const Register adds("B13.deposit", "ns", [] { return deposit(1, 2, 16384, "per add"); });
const Register segments("B13.segment_sum", "ns", [] { return deposit(2, 1, 65536, "per edge"); });

/// Four tables: a bin that comes twice in a row need not wait for itself.
struct Histogram {
  Floats x;
  Ints out;
};
const Register histogram("B13.histogram", "ns", [] {
  Case c = by_hand(
      Histogram{uf(1, kMany), Ints(256)},
      [](Histogram& h) {
        std::int32_t count[4][256] = {}, bin[kLanes];
        for (std::size_t i = 0; i < kMany; i += kLanes) {
          for (std::size_t l = 0; l < kLanes; ++l)
            bin[l] = static_cast<std::int32_t>(h.x[i + l] * 256);
          for (std::size_t l = 0; l < kLanes; ++l) ++count[l % 4][bin[l]];
        }
        for (std::size_t b = 0; b < 256; ++b) {
          h.out[b] = count[0][b] + count[1][b] + count[2][b] + count[3][b];
        }
      },
      [](const Histogram& h) { return std::vector{output(h.out)}; });
  c.per = kMany;
  c.note = "256 bins, per element";
  return c;
});

}  // namespace
}  // namespace bench
