// B13 by hand.
#include <algorithm>
#include <cstring>

#include "hand.hpp"
#include "lines.hpp"

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
struct Frames {
  Floats x, window, out;
};
const Register frames("B13.frames", "us", [] {
  constexpr std::size_t kFrames = 1950, kFrame = 512, kHop = 128;
  return by_hand(
      Frames{uf(1, 250'000), uf(2, kFrame), Floats(kFrames * kFrame)},
      [](Frames& f) {
        for (std::size_t i = 0; i < kFrames; ++i) {
          const float *x = &f.x[i * kHop], *window = f.window.data();
          float* __restrict out = &f.out[i * kFrame];
          for (std::size_t j = 0; j < kFrame; ++j) out[j] = x[j] * window[j];
        }
      },
      [](const Frames& f) { return std::vector{output(f.out)}; });
});
const Register corners("B13.corners", "us", [] {
  constexpr std::size_t kCorners = 600'000;
  return by_hand(
      Rows{uf(1, 16384), {}, indices(2, kCorners, 16384), Floats(kCorners)},
      [](Rows& r) {
        for (std::size_t k = 0; k < kCorners; ++k)
          r.out[k] = r.table[static_cast<std::size_t>(r.i[k])];
      },
      [](const Rows& r) { return std::vector{output(r.out)}; });
});
struct Sampled {
  Floats picture, y, x, out;
};
const Register sample("B13.sample_rgb", "us", [] {
  constexpr std::size_t kSide = 256, kColours = 3, kPixels = 40'000;
  const auto up_to = [](unsigned seed, float most) {
    Floats x = uf(seed, kPixels);
    for (float& e : x) e *= most;
    return x;
  };
  return by_hand(
      Sampled{uf(1, kSide * kSide * kColours), up_to(2, 250.f), up_to(3, 250.f),
              Floats(kPixels * kColours)},
      [](Sampled& s) {
        for (std::size_t k = 0; k < kPixels; ++k) {
          const auto i = static_cast<int>(s.y[k]), j = static_cast<int>(s.x[k]);
          const float v = s.y[k] - static_cast<float>(i), u = s.x[k] - static_cast<float>(j);
          const float* const above =
              &s.picture[(static_cast<std::size_t>(i) * kSide + static_cast<std::size_t>(j)) *
                         kColours];
          const float* const below = above + kSide * kColours;
          for (std::size_t c = 0; c < kColours; ++c) {
            const float upper = above[c] * (1 - u) + above[c + kColours] * u;
            const float lower = below[c] * (1 - u) + below[c + kColours] * u;
            s.out[k * kColours + c] = upper * (1 - v) + lower * v;
          }
        }
      },
      [](const Sampled& s) { return std::vector{output(s.out)}; });
});
struct Spline {
  Floats x, c, out;
};
const Register spline("B13.spline", "us", [] {
  constexpr std::size_t kPoints = 50'000, kPieces = 100;
  Floats x = uf(1, kPoints);
  for (float& e : x) e *= 99.f;
  return by_hand(
      Spline{std::move(x), uf(2, 4 * kPieces), Floats(kPoints)},
      [](Spline& s) {
        for (std::size_t k = 0; k < kPoints; ++k) {
          const auto i = static_cast<int>(s.x[k]);
          const float t = s.x[k] - static_cast<float>(i);
          const float* const c = &s.c[4 * static_cast<std::size_t>(i)];
          s.out[k] = ((c[3] * t + c[2]) * t + c[1]) * t + c[0];
        }
      },
      [](const Spline& s) { return std::vector{output(s.out)}; });
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

const Register sorted("B13.segment_sum_sorted", "ns", [] {
  Deposit d{indices(2, kMany, 10000), uf(1, kMany), Floats(10000)};
  std::sort(d.i.begin(), d.i.end());
  Case c = by_hand(
      std::move(d),
      [](Deposit& s) {  // a sum in a register for each segment
        std::fill(s.out.begin(), s.out.end(), 0.f);
        for (std::size_t n = 0; n < kMany;) {
          const std::int32_t segment = s.i[n];
          float sum = 0;
          for (; n < kMany && s.i[n] == segment; ++n) sum += s.v[n];
          s.out[static_cast<std::size_t>(segment)] = sum;
        }
      },
      [](const Deposit& s) { return std::vector{output(s.out)}; });
  c.per = kMany;
  c.note = "per edge";
  return c;
});

constexpr std::size_t kRows = 200'000;
const Register segments_of_rows("B13.segment_rows_3", "us", [] {
  return by_hand(
      Deposit{indices(2, kRows, 16384), uf(1, kRows * 3), Floats(std::size_t{16384} * 3)},
      [](Deposit& d) {
        std::fill(d.out.begin(), d.out.end(), 0.f);
        for (std::size_t n = 0; n < kRows; ++n) {
          float* __restrict to = &d.out[static_cast<std::size_t>(d.i[n]) * 3];
          for (std::size_t j = 0; j < 3; ++j) to[j] += d.v[n * 3 + j];
        }
      },
      [](const Deposit& d) { return std::vector{output(d.out)}; });
});
const Register set_rows("B13.set_rows_8", "us", [] {
  return by_hand(
      Deposit{scattered(kRows), uf(1, kRows * 8), Floats(kRows * 8)},
      [](Deposit& d) {
        std::fill(d.out.begin(), d.out.end(), 0.f);
        for (std::size_t n = 0; n < kRows; ++n)
          std::memcpy(&d.out[static_cast<std::size_t>(d.i[n]) * 8], &d.v[n * 8], 8 * sizeof(float));
      },
      [](const Deposit& d) { return std::vector{output(d.out)}; });
});
/// Columns that are rows of another matrix: sixteen at a time, in squares.
const Register set_columns("B13.set_columns", "us", [] {
  constexpr std::size_t kSide = 400;
  return by_hand(
      Rows{uf(1, kSide * kSide), {}, {}, Floats(kSide * kSide)},
      [](Rows& r) { transpose(r.table.data(), r.out.data(), kSide, kSide); },
      [](const Rows& r) { return std::vector{output(r.out)}; });
});
struct Plane {
  Ints i, j;
  Floats v, out;
};
const Register plane("B13.deposit_2d", "ns", [] {
  Case c = by_hand(
      Plane{indices(1, kMany, 256), indices(2, kMany, 256), uf(3, kMany), Floats(65536)},
      [](Plane& p) {
        std::fill(p.out.begin(), p.out.end(), 0.f);
        for (std::size_t n = 0; n < kMany; ++n)
          p.out[static_cast<std::size_t>(p.i[n]) * 256 + static_cast<std::size_t>(p.j[n])] +=
              p.v[n];
      },
      [](const Plane& p) { return std::vector{output(p.out)}; });
  c.per = kMany;
  c.note = "per add";
  return c;
});

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
