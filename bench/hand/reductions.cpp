// B03 by hand: partial results in lanes, so that the loops vectorise in every build.
#include <cmath>

#include "lines.hpp"
#include "rows.hpp"

namespace bench {
namespace {

/// A matrix and what comes of it.
template <class T>
struct Matrix {
  std::vector<T> x, out;
  std::size_t rows, columns;
  const T* row(std::size_t i) const { return &x[i * columns]; }
};
template <class T, class Work>
Case reduction(Matrix<T> m, double bytes, Work work) {
  Case c =
      by_hand(std::move(m), work, [](const Matrix<T>& b) { return std::vector{output(b.out)}; });
  c.bytes = bytes;
  return c;
}
Matrix<float> square(Floats x, std::size_t results) {
  return {std::move(x), Floats(results), 1024, 1024};
}
constexpr std::size_t kMillion = 1 << 20;

const Register sum_all("B03.sum_all", "us", [] {
  return reduction(Matrix<float>{uf(1, 1280 * 1024), Floats(1), 1280, 1024}, 4. * 1280 * 1024,
                   [](Matrix<float>& m) {
                     float sum = 0;
                     for (std::size_t i = 0; i < m.rows; ++i) sum += lane_sum(m.row(i), m.columns);
                     m.out[0] = sum;
                   });
});
const Register sum_ax0("B03.sum_ax0", "us", [] {
  return reduction(square(uf(1, kMillion), 1024), 4 << 20, [](Matrix<float>& m) {
    float* __restrict out = m.out.data();
    for (std::size_t j = 0; j < m.columns; ++j) out[j] = 0;
    for (std::size_t i = 0; i < m.rows; i += 4) {
      const float *a = m.row(i), *b = a + m.columns, *c = b + m.columns, *d = c + m.columns;
      for (std::size_t j = 0; j < m.columns; ++j) out[j] += (a[j] + b[j]) + (c[j] + d[j]);
    }
  });
});
const Register max_pool("B03.max_pool", "us", [] {
  return reduction(square(uf(1, kMillion), kMillion / 4), 5 << 20, [](Matrix<float>& m) {
    for (std::size_t i = 0; i < m.rows; i += 2) {
      const float *a = m.row(i), *b = a + m.columns;
      float* __restrict out = &m.out[i / 2 * (m.columns / 2)];
      for (std::size_t j = 0; j < m.columns / 2; ++j) {
        const float x = a[2 * j] > b[2 * j] ? a[2 * j] : b[2 * j],
                    y = a[2 * j + 1] > b[2 * j + 1] ? a[2 * j + 1] : b[2 * j + 1];
        out[j] = x > y ? x : y;
      }
    }
  });
});
const Register erosion("B03.erosion", "us", [] {
  constexpr std::size_t kSide = 1022;
  return reduction(square(uf(1, kMillion), kSide * kSide), 8 << 20, [](Matrix<float>& m) {
    for (std::size_t i = 0; i < kSide; ++i) {
      const float *a = m.row(i), *b = m.row(i + 1), *c = m.row(i + 2);
      float* __restrict out = &m.out[i * kSide];
      const auto less = [](float x, float y) { return x < y ? x : y; };
      for (std::size_t j = 0; j < kSide; ++j) {
        const auto of_row = [&](const float* x) { return less(less(x[j], x[j + 1]), x[j + 2]); };
        out[j] = less(less(of_row(a), of_row(b)), of_row(c));
      }
    }
  });
});
const Register sum_ax1("B03.sum_ax1", "us", [] {
  return reduction(square(uf(1, kMillion), 1024), 4 << 20, [](Matrix<float>& m) {
    for (std::size_t i = 0; i < m.rows; ++i) m.out[i] = lane_sum(m.row(i), m.columns);
  });
});
/// What a pixel differs from its neighbours on the left and above, of a picture that repeats itself.
const Register total_variation("B03.total_variation", "us", [] {
  return reduction(square(uf(1, kMillion), 1), 4 << 20, [](Matrix<float>& m) {
    const std::size_t n = m.columns;
    const auto term = [](float x, float left, float above) {
      return std::sqrt((x - left) * (x - left) + (x - above) * (x - above) + 1e-3F);
    };
    float sums[16] = {};
    for (std::size_t i = 0; i < m.rows; ++i) {
      const float *x = m.row(i), *above = m.row(i == 0 ? m.rows - 1 : i - 1);
      for (std::size_t l = 0; l < 16; ++l)
        sums[l] += term(x[l], x[l == 0 ? n - 1 : l - 1], above[l]);
      for (std::size_t j = 16; j < n; j += 16) {
        for (std::size_t l = 0; l < 16; ++l) sums[l] += term(x[j + l], x[j + l - 1], above[j + l]);
      }
    }
    m.out[0] = 0;
    for (const float sum : sums) m.out[0] += sum;
  });
});
const Register softmax("B03.softmax", "us", [] {
  return reduction(Matrix<float>{zf(1, 512 * 1024), Floats(512 * 1024), 512, 1024}, 8. * 512 * 1024,
                   [](Matrix<float>& m) {
                     for (std::size_t i = 0; i < m.rows; ++i) {
                       softmax_row(m.row(i), &m.out[i * m.columns], m.columns);
                     }
                   });
});
const Register logsumexp("B03.logsumexp", "us", [] {
  return reduction(square(zf(1, kMillion), 1024), 4 << 20, [](Matrix<float>& m) {
    for (std::size_t i = 0; i < m.rows; ++i) m.out[i] = logsumexp_row(m.row(i), m.columns);
  });
});

/// Running sums: within 16 numbers in four steps, each adding what is 1, 2, 4, 8 places before.
template <int Distance, int... Lane>
Line from_before(Line v, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(Line{}, v, (Lane < Distance ? Lane : 16 + Lane - Distance)...);
}
void cumsum_row(const float* x, float* out, std::size_t n) {
  constexpr auto kAll = std::make_integer_sequence<int, 16>();
  float before = 0;
  for (std::size_t j = 0; j < n; j += 16) {
    Line v = load_line(x + j);
    v += from_before<1>(v, kAll);
    v += from_before<2>(v, kAll);
    v += from_before<4>(v, kAll);
    v += from_before<8>(v, kAll);
    const float all = v[15];
    store_line(out + j, v + before);
    before += all;
  }
}
const Register cumsum("B03.cumsum", "us", [] {
  return reduction(square(uf(1, kMillion), kMillion), 8 << 20, [](Matrix<float>& m) {
    for (std::size_t i = 0; i < m.rows; ++i) {
      cumsum_row(m.row(i), &m.out[i * m.columns], m.columns);
    }
  });
});

/// Running maxima, in the same steps; the numbers are above 0, which stands before them.
void cummax_row(const float* x, float* out, std::size_t n) {
  constexpr auto kAll = std::make_integer_sequence<int, 16>();
  const auto larger = [](auto a, auto b) { return a > b ? a : b; };
  float before = 0;
  std::size_t j = 0;
  for (; j + 16 <= n; j += 16) {
    Line v = load_line(x + j);
    v = larger(v, from_before<1>(v, kAll));
    v = larger(v, from_before<2>(v, kAll));
    v = larger(v, from_before<4>(v, kAll));
    v = larger(v, from_before<8>(v, kAll));
    const float all = v[15];
    store_line(out + j, larger(v, Line{} + before));
    before = larger(before, all);
  }
  for (; j < n; ++j) out[j] = before = larger(before, x[j]);
}
const Register cummax("B03.cummax", "us", [] {
  return reduction(Matrix<float>{uf(1, 1000000), Floats(1000000), 1000, 1000}, 8e6,
                   [](Matrix<float>& m) {
                     for (std::size_t i = 0; i < m.rows; ++i) {
                       cummax_row(m.row(i), &m.out[i * m.columns], m.columns);
                     }
                   });
});
const Register cummax_of_bytes("B03.cummax_u8_ax0", "us", [] {
  struct Bytes {
    std::vector<std::uint8_t> x, out;
  };
  constexpr std::size_t n = 1000;
  Bytes bytes{std::vector<std::uint8_t>(n * n), std::vector<std::uint8_t>(n * n)};
  const Ints numbers = indices(1, n * n, 256);
  std::copy(numbers.begin(), numbers.end(), bytes.x.begin());
  Case c = by_hand(
      std::move(bytes),
      [](Bytes& b) {
        std::copy_n(b.x.begin(), n, b.out.begin());
        for (std::size_t i = n; i < n * n; i += n) {
          const std::uint8_t *x = &b.x[i], *above = &b.out[i - n];
          std::uint8_t* __restrict out = &b.out[i];
          HAND_INDEPENDENT
          for (std::size_t j = 0; j < n; ++j) out[j] = x[j] > above[j] ? x[j] : above[j];
        }
      },
      [](const Bytes& b) { return std::vector{output(Ints(b.out.begin(), b.out.end()))}; });
  c.bytes = 2. * n * n;
  return c;
});

/// The first of the largest: each lane keeps the first of its own.
std::int32_t argmax_row(const float* x, std::int32_t n) {
  constexpr std::int32_t kParts = 32;
  float most[kParts];
  std::int32_t at[kParts];
  for (std::int32_t l = 0; l < kParts; ++l) most[l] = x[l], at[l] = l;
  for (std::int32_t j = kParts; j < n; j += kParts) {
    for (std::int32_t l = 0; l < kParts; ++l) {
      const bool more = x[j + l] > most[l];
      most[l] = more ? x[j + l] : most[l];
      at[l] = more ? j + l : at[l];
    }
  }
  std::int32_t best = 0;
  for (std::int32_t l = 1; l < kParts; ++l) {
    if (most[l] > most[best] || (most[l] == most[best] && at[l] < at[best])) best = l;
  }
  return at[best];
}
const Register argmax("B03.argmax", "us", [] {
  struct Places {
    Floats x;
    Ints out;
  };
  Case c = by_hand(
      Places{uf(1, kMillion), Ints(1024)},
      [](Places& p) {
        for (std::size_t i = 0; i < 1024; ++i) p.out[i] = argmax_row(&p.x[i * 1024], 1024);
      },
      [](const Places& p) { return std::vector{output(p.out)}; });
  c.bytes = 4 << 20;
  return c;
});

// ---- normalisation -------------------------------------------------------------------------------
struct Norm {
  Floats x, w, b, g, out, dw, db;
};
constexpr std::size_t kRows = 1000, kColumns = 4096;

const Register layernorm("B03.layernorm", "us", [] {
  Case c = by_hand(
      Norm{zf(1, kRows * kColumns),
           uf(2, kColumns),
           uf(3, kColumns),
           {},
           Floats(kRows * kColumns),
           {},
           {}},
      [](Norm& n) {
        for (std::size_t i = 0; i < kRows; ++i) {
          layernorm_row(&n.x[i * kColumns], n.w.data(), n.b.data(), &n.out[i * kColumns], kColumns);
        }
      },
      [](const Norm& n) { return std::vector{output(n.out)}; });
  c.bytes = 8. * kRows * kColumns;
  return c;
});

/// With h the normalised row and y = g w: dx = scale (y - mean(y) - h mean(y h)), and dw += g h, db += g.
void layernorm_vjp_row(const float* __restrict x, const float* __restrict w,
                       const float* __restrict g, float* __restrict dx, float* __restrict dw,
                       float* __restrict db) {
  constexpr std::size_t kParts = 32;
  const auto [mean, scale] = moments_of_row(x, kColumns);
  float first[kParts] = {}, second[kParts] = {};
  for (std::size_t j = 0; j < kColumns; j += kParts) {
    for (std::size_t l = 0; l < kParts; ++l) {
      const float h = (x[j + l] - mean) * scale, gl = g[j + l], y = gl * w[j + l];
      first[l] += y;
      second[l] += y * h;
      dw[j + l] += gl * h;
      db[j + l] += gl;
    }
  }
  const float a = lane_sum(first, kParts) / kColumns, b = lane_sum(second, kParts) / kColumns;
  for (std::size_t j = 0; j < kColumns; ++j) {
    dx[j] = scale * (g[j] * w[j] - a - (x[j] - mean) * scale * b);
  }
}
const Register layernorm_vjp("B03.layernorm_vjp", "us", [] {
  Case c = by_hand(
      Norm{zf(1, kRows * kColumns), uf(2, kColumns), uf(3, kColumns), zf(4, kRows * kColumns),
           Floats(kRows * kColumns), Floats(kColumns), Floats(kColumns)},
      [](Norm& n) {
        std::fill(n.dw.begin(), n.dw.end(), 0.f);
        std::fill(n.db.begin(), n.db.end(), 0.f);
        for (std::size_t i = 0; i < kRows; ++i) {
          const std::size_t at = i * kColumns;
          layernorm_vjp_row(&n.x[at], n.w.data(), &n.g[at], &n.out[at], n.dw.data(), n.db.data());
        }
      },
      [](const Norm& n) { return std::vector{output(n.out), output(n.dw), output(n.db)}; });
  c.bytes = 12. * kRows * kColumns;
  return c;
});

// ---- log-sum-exp of a long vector ----------------------------------------------------------------
constexpr std::size_t kLong = 1280000, kBlock = 512;

/// out[i] = exp(x[i] - most) by blocks, which lie one upon another when they are not kept; the sum.
double exponentials(const double* x, double most, double* out, bool kept) {
  double sum = 0;
  for (std::size_t b = 0; b < kLong; b += kBlock) {
    double* __restrict e = out + (kept ? b : 0);
    for (std::size_t i = 0; i < kBlock; ++i) e[i] = std::exp(x[b + i] - most);
    sum += lane_sum(e, kBlock);
  }
  return sum;
}
const Register lse("B03.lse_f64_1280k", "us", [] {
  return reduction(Matrix<double>{uniform(31337, kLong), Doubles(1), 1, kLong}, 8. * kLong,
                   [](Matrix<double>& m) {
                     double e[kBlock];
                     const double most = lane_max(m.x.data(), kLong);
                     m.out[0] = most + std::log(exponentials(m.x.data(), most, e, false));
                   });
});
const Register lse_grad("B03.lse_grad_f64_1280k", "us", [] {
  return reduction(Matrix<double>{uniform(31337, kLong), Doubles(kLong), 1, kLong}, 16. * kLong,
                   [](Matrix<double>& m) {
                     const double most = lane_max(m.x.data(), kLong);
                     const double scale = 1 / exponentials(m.x.data(), most, m.out.data(), true);
                     for (double& v : m.out) v *= scale;
                   });
});

}  // namespace
}  // namespace bench
