// B01.eager_sin and B02 by hand. In the fast build the compiler calls the vector functions of libmvec.
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <type_traits>

#include "hand.hpp"
#include "lines.hpp"

namespace bench {
namespace {

/// Inputs and outputs, all of one length.
template <class T>
struct Buffers {
  std::vector<std::vector<T>> in, out;
  std::size_t n() const { return out[0].size(); }
};
template <class T, class Work>
Case elementwise(Buffers<T> buffers, double bytes, Work work) {
  Case c = by_hand(std::move(buffers), work, [](const Buffers<T>& b) {
    std::vector<Output> out;
    for (const auto& x : b.out) out.push_back(output(x));
    return out;
  });
  c.bytes = bytes;
  return c;
}
template <class T>
std::vector<std::vector<T>> blank(std::size_t count, std::size_t n) {
  return std::vector<std::vector<T>>(count, std::vector<T>(n));
}

// ---- one input, one output -----------------------------------------------------------------------
template <class T>
void chain10(const T* __restrict x, T* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    T y = std::sin(x[i] * x[i]) + x[i];
    y = std::tanh(std::exp(-y) * T(.5)) + T(1);
    out[i] = std::log(y) * x[i];
  }
}
/// Sine and cosine in loops of their own: one call of sincos would not become a vector function.
void chain10_grad(const float* __restrict x, float* __restrict out, std::size_t n) {
  constexpr std::size_t kBlock = 512;
  for (std::size_t b = 0; b < n; b += kBlock) {
    float sine[kBlock], cosine[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) sine[i] = std::sin(x[b + i] * x[b + i]);
    keep(sine);
    for (std::size_t i = 0; i < kBlock; ++i) cosine[i] = std::cos(x[b + i] * x[b + i]);
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float v = x[b + i], y = sine[i] + v, dy = 2 * v * cosine[i] + 1;
      const float e = std::exp(-y) * .5f, t = std::tanh(e), w = t + 1;
      out[b + i] = std::log(w) + v * (1 - t * t) * (-e * dy) / w;
    }
  }
}
void horner10(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    float y = .1f;
    for (const float c : {.2f, -.3f, .4f, -.5f, .6f, -.7f, .8f, -.9f, 1.f, -1.1f}) y = y * x[i] + c;
    out[i] = y;
  }
}
template <class T>
void sines(const T* __restrict x, T* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::sin(x[i]);
}
template <class T>
void powers(const T* __restrict x, T* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::pow(x[i], T(1.7));
}
void exponentials(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::exp(x[i]);
}
void logarithms(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::log(x[i]);
}
void logarithms_of_sums(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::log1p(x[i]);
}
void logistics(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = 1 / (1 + std::exp(-x[i]));
}
void tangents(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::tanh(x[i]);
}
void errors(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::erf(x[i]);
}
void complements(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::erfc(x[i]);
}
void gelu10(const float* __restrict x, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    float v = x[i];
    for (int k = 0; k < 10; ++k) v = v * (1 + std::erf(v * .70710678f)) * .5f;
    out[i] = v;
  }
}

template <class T>
using Map = void (*)(const T*, T*, std::size_t);
template <class T>
using Input = std::function<std::vector<T>(unsigned, std::size_t)>;
template <class T>
void map(const std::string& id, std::size_t n, Map<T> f, std::type_identity_t<Input<T>> input,
         double tolerance = 2e-4) {
  Register(id, "us", [n, f, input, tolerance] {
    Case c =
        elementwise<T>({{input(1, n)}, blank<T>(1, n)}, 2. * sizeof(T) * static_cast<double>(n),
                       [f](Buffers<T>& b) { f(b.in[0].data(), b.out[0].data(), b.n()); });
    c.tolerance = tolerance;
    return c;
  });
}
template <class T>
std::vector<T> ordinary(unsigned seed, std::size_t n) {
  const Doubles numbers = uniform(seed, n);
  std::vector<T> x(numbers.begin(), numbers.end());
  for (T& v : x) v *= 4;
  return x;
}
struct Special {
  const char* suffix;
  double operand;
  double tolerance = 2e-4;
};
/// Fast math takes denormal operands for zeros.
#ifdef __FAST_MATH__
constexpr double kOfDenormals = -1;
#else
constexpr double kOfDenormals = 2e-4;
#endif
/// A function of ordinary numbers, and of the same where one in sixteen is a special one.
template <class T>
void with_specials(const std::string& id, Map<T> f, std::initializer_list<Special> specials) {
  map<T>(id, 1 << 16, f, ordinary<T>);
  for (const Special& s : specials) {
    const auto input = [operand = s.operand](unsigned seed, std::size_t n) {
      std::vector<T> x = ordinary<T>(seed, n);
      for (std::size_t i = 0; i < n; i += 16) x[i] = static_cast<T>(operand);
      return x;
    };
    map<T>(id + "_special" + s.suffix, 1 << 16, f, input, s.tolerance);
  }
}

const bool maps = [] {
  map<float>("B01.eager_sin_1M", 1 << 20, sines, uf);
  for (const auto& [name, n] : {std::pair{"1k", 1 << 10}, {"16k", 1 << 14}, {"1M", 1 << 20}}) {
    map<float>(std::string("B02.chain10_f32_") + name, static_cast<std::size_t>(n), chain10, uf);
  }
  for (const auto& [name, n] : {std::pair{"1k", 1 << 10},
                                {"16k", 1 << 14},
                                {"256k", 1 << 18},
                                {"1M", 1 << 20},
                                {"32M", 1 << 25}}) {
    map<float>(std::string("B02.horner10_f32_") + name, static_cast<std::size_t>(n), horner10, uf);
  }
  map<double>("B02.chain10_f64_1M", 1 << 20, chain10, uniform);
  map<float>("B02.chain10_grad_1M", 1 << 20, chain10_grad, uf);
  map<float>("B02.gelu10", 1000 * 1024, gelu10, zf);
  return true;
}();

const bool specials = [] {
  const double inf = std::stod("inf");  // the compiler has no such constant in the fast build
  with_specials<float>("B02.sin_f32_64k", sines, {{"", 1e30}});
  with_specials<double>("B02.sin_f64_64k", sines, {{"", 1e30}});
  with_specials<float>("B02.pow_f32_64k", powers, {{"", 0}});
  with_specials<double>("B02.pow_f64_64k", powers, {{"", 0}});
  with_specials<float>("B02.exp_f32_64k", exponentials,
                       {{"_inf", -inf}, {"_denormal", -100}, {"_small", 1e-12}});
  with_specials<float>("B02.log_f32_64k", logarithms,
                       {{"_zero", 0}, {"_denormal", 1e-40, kOfDenormals}});
  with_specials<float>("B02.log1p_f32_64k", logarithms_of_sums, {{"_small", 1e-12}});
  with_specials<float>("B02.logistic_f32_64k", logistics,
                       {{"_inf", -inf}, {"_denormal", -95}, {"_small", 1e-12}});
  with_specials<float>("B02.tanh_f32_64k", tangents,
                       {{"_inf", inf}, {"_large", 1e30}, {"_small", 1e-12}});
  with_specials<float>("B02.erf_f32_64k", errors,
                       {{"_inf", inf}, {"_large", 1e30}, {"_small", 1e-6}});
  with_specials<float>("B02.erfc_f32_64k", complements, {{"_inf", inf}, {"_denormal", 9.5}});
  return true;
}();

// ---- a * b + sin(c) * exp(-d) --------------------------------------------------------------------
constexpr std::size_t kMillion = 1 << 20;

Buffers<float> four_inputs(std::size_t outputs) {
  return {{uf(1, kMillion), uf(2, kMillion), uf(3, kMillion), uf(4, kMillion)},
          blank<float>(outputs, kMillion)};
}
void four(const float* __restrict a, const float* __restrict b, const float* __restrict c,
          const float* __restrict d, float* __restrict out) {
  for (std::size_t i = 0; i < kMillion; ++i)
    out[i] = a[i] * b[i] + std::sin(c[i]) * std::exp(-d[i]);
}
const Register four_terms("B02.four_1M", "us", [] {
  return elementwise(four_inputs(1), 20. * kMillion, [](Buffers<float>& b) {
    four(b.in[0].data(), b.in[1].data(), b.in[2].data(), b.in[3].data(), b.out[0].data());
  });
});
/// The derivatives for c and d; those for a and b are b and a.
void four_grad(const float* __restrict c, const float* __restrict d, float* __restrict dc,
               float* __restrict dd) {
  constexpr std::size_t kBlock = 512;
  for (std::size_t b = 0; b < kMillion; b += kBlock) {
    float e[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) e[i] = std::exp(-d[b + i]);
    keep(e);
    for (std::size_t i = 0; i < kBlock; ++i) dd[b + i] = -std::sin(c[b + i]) * e[i];
    keep(dd);
    for (std::size_t i = 0; i < kBlock; ++i) dc[b + i] = std::cos(c[b + i]) * e[i];
  }
}
const Register four_gradient("B02.four_grad_1M", "us", [] {
  return elementwise(four_inputs(4), 32. * kMillion, [](Buffers<float>& b) {
    b.out[0] = b.in[1];
    b.out[1] = b.in[0];
    four_grad(b.in[2].data(), b.in[3].data(), b.out[2].data(), b.out[3].data());
  });
});

// ---- prices of options and their derivatives -----------------------------------------------------
constexpr std::size_t kOptions = 1 << 18;

void option_greeks(const std::array<const float*, 5>& in, const std::array<float*, 6>& out) {
  HAND_INDEPENDENT
  for (std::size_t i = 0; i < kOptions; ++i) {
    const float S = in[0][i], K = in[1][i], r = in[2][i], s = in[3][i], T = in[4][i];
    const float root = std::sqrt(T), d1 = (std::log(S / K) + (r + .5f * s * s) * T) / (s * root);
    const float d2 = d1 - s * root, discount = std::exp(-r * T);
    const float n1 = .5f * (1 + std::erf(d1 * .70710678f));
    const float n2 = .5f * (1 + std::erf(d2 * .70710678f));
    const float density = .39894228f * std::exp(-.5f * d1 * d1), vega = S * density * root;
    out[0][i] = S * n1 - K * discount * n2;
    out[1][i] = n1;
    out[2][i] = -discount * n2;
    out[3][i] = K * T * discount * n2;
    out[4][i] = vega;
    out[5][i] = vega * s / (2 * T) + r * K * discount * n2;
  }
}
Floats line(double start, double slope, const Floats& x) {
  Floats y(x);
  for (float& v : y) v *= static_cast<float>(slope);
  keep(y.data());  // two roundings in every build
  for (float& v : y) v += static_cast<float>(start);
  return y;
}
const Register black_scholes("B02.black_scholes", "us", [] {
  Buffers<float> b{{line(100, 20, zf(1, kOptions)), line(90, 20, uf(2, kOptions)),
                    line(.01, .05, uf(3, kOptions)), line(.1, .3, uf(4, kOptions)),
                    line(.2, 1, uf(5, kOptions))},
                   blank<float>(6, kOptions)};
  Case c = elementwise(std::move(b), 11. * 4 * kOptions, [](Buffers<float>& x) {
    std::array<const float*, 5> in;
    std::array<float*, 6> out;
    for (std::size_t k = 0; k < 5; ++k) in[k] = x.in[k].data();
    for (std::size_t k = 0; k < 6; ++k) out[k] = x.out[k].data();
    option_greeks(in, out);
  });
  c.note = "price + 5 greeks, 256k options";
  return c;
});

// ---- neighbours ----------------------------------------------------------------------------------
constexpr std::size_t kPicture = 512, kColours = 3;
const Register blur_rgb("B02.blur_rgb", "us", [] {
  constexpr std::size_t kRow = kPicture * kColours, kOut = kRow - 2 * kColours;
  Buffers<float> b{{uf(1, kPicture * kRow)}, blank<float>(1, (kPicture - 2) * kOut)};
  return elementwise(std::move(b), 24 * kPicture * kPicture, [](Buffers<float>& x) {
    Floats row(kRow);
    for (std::size_t i = 0; i + 2 < kPicture; ++i) {
      const float* __restrict in = &x.in[0][i * kRow];
      float* __restrict y = row.data();
      float* __restrict out = &x.out[0][i * kOut];
      for (std::size_t j = 0; j < kRow; ++j)
        y[j] = .25F * (in[2 * kRow + j] + 2 * in[kRow + j] + in[j]);
      for (std::size_t j = 0; j < kOut; ++j)
        out[j] = .25F * (y[j] + 2 * y[j + kColours] + y[j + 2 * kColours]);
    }
  });
});

/// Heat that spreads over a plate in 50 steps: from one picture to the other.
const Register heat("B08.heat_512", "us", [] {
  constexpr int kSteps = 50;
  constexpr std::size_t kRow = kPicture, kAll = kPicture * kPicture;
  Buffers<float> b{{uf(1, kAll), Floats(kAll)}, blank<float>(1, kAll)};
  return per(kSteps, elementwise(std::move(b), kSteps * 8. * kAll, [](Buffers<float>& x) {
               x.out[0] = x.in[0];
               x.in[1] = x.in[0];
               for (int step = 0; step < kSteps; ++step) {
                 const float* __restrict in = step % 2 == 0 ? x.out[0].data() : x.in[1].data();
                 float* __restrict out = step % 2 == 0 ? x.in[1].data() : x.out[0].data();
                 for (std::size_t i = kRow; i + kRow < kAll; i += kRow) {
                   for (std::size_t j = i + 1; j + 1 < i + kRow; ++j) {
                     const float flow =
                         in[j + kRow] + in[j - kRow] + in[j + 1] + in[j - 1] - 4 * in[j];
                     out[j] = in[j] + .1F * flow;
                   }
                 }
               }
             }));
});

/// Heads of 64 numbers, of which the first half is turned with the second.
const Register rope("B07.rope", "us", [] {
  constexpr std::size_t kBatch = 4, kPlaces = 512, kHeads = 8, kHalf = 32, kHead = 2 * kHalf;
  constexpr std::size_t kAll = kBatch * kPlaces * kHeads * kHead;
  Buffers<float> b{{uf(1, kAll), uf(2, kPlaces * kHalf), uf(3, kPlaces * kHalf)},
                   blank<float>(1, kAll)};
  return elementwise(std::move(b), 8. * kAll, [](Buffers<float>& x) {
    for (std::size_t head = 0; head < kBatch * kPlaces * kHeads; ++head) {
      const std::size_t place = head / kHeads % kPlaces;
      const float* __restrict in = &x.in[0][head * kHead];
      const float* __restrict c = &x.in[1][place * kHalf];
      const float* __restrict s = &x.in[2][place * kHalf];
      float* __restrict out = &x.out[0][head * kHead];
      for (std::size_t j = 0; j < kHalf; ++j) {
        out[j] = in[j] * c[j] - in[kHalf + j] * s[j];
        out[kHalf + j] = in[kHalf + j] * c[j] + in[j] * s[j];
      }
    }
  });
});

const Register upsample("B02.upsample", "us", [] {
  Buffers<float> b{{uf(1, kPicture * kPicture)}, blank<float>(1, 4 * kPicture * kPicture)};
  return elementwise(std::move(b), 20 * kPicture * kPicture, [](Buffers<float>& x) {
    for (std::size_t i = 0; i < 2 * kPicture; ++i) {
      const float* __restrict in = &x.in[0][i / 2 * kPicture];
      float* __restrict out = &x.out[0][i * 2 * kPicture];
      for (std::size_t j = 0; j < kPicture; ++j) out[2 * j] = out[2 * j + 1] = .5F * in[j];
    }
  });
});

/// Parts put together, each computed in its own way.
const Register join("B02.join_24", "us", [] {
  constexpr std::size_t kParts = 24, kPart = 4096;
  Buffers<float> b{{uf(1, kParts * kPart)}, blank<float>(1, kParts * kPart)};
  return elementwise(std::move(b), 8. * kParts * kPart, [](Buffers<float>& x) {
    const float* first = x.in[0].data();
    for (std::size_t i = 0; i < kParts; ++i) {
      const float* part = first + i * kPart;
      float* __restrict out = &x.out[0][i * kPart];
      if (i % 2 == 0) {
        const auto times = static_cast<float>(i + 1);
        for (std::size_t j = 0; j < kPart; ++j) out[j] = part[j] * times;
      } else {
        for (std::size_t j = 0; j < kPart; ++j) out[j] = part[j] + first[j];
      }
    }
  });
});

// ---- broadcast, transposed -----------------------------------------------------------------------
constexpr std::size_t kRows = 1024, kColumns = 4096;

const Register bcast_add("B02.bcast_add", "us", [] {
  Buffers<float> b{{uf(1, kRows * kColumns), uf(2, kColumns)}, blank<float>(1, kRows * kColumns)};
  return elementwise(std::move(b), 32 << 20, [](Buffers<float>& x) {
    const float* __restrict row = x.in[1].data();
    for (std::size_t i = 0; i < kRows; ++i) {
      const float* a = &x.in[0][i * kColumns];
      float* __restrict out = &x.out[0][i * kColumns];
      for (std::size_t j = 0; j < kColumns; ++j) out[j] = a[j] + row[j];
    }
  });
});

/// out = a + b transposed: squares are turned in registers, four of them side by side, so that each page
/// of `a` and `out` gives four lines at a time.
void transposed_add(const float* a, const float* b, float* out) {
  for (std::size_t j0 = 0; j0 < kColumns; j0 += 64) {
    for (std::size_t i0 = 0; i0 < kRows; i0 += 16) {
      for (std::size_t j = j0; j < j0 + 64; j += 16) {
        Line square[16];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < 16; ++k) square[k] = load_line(b + (j + k) * kRows + i0);
        turn(square);
#pragma GCC unroll 16
        for (std::size_t k = 0; k < 16; ++k) {
          const std::size_t at = (i0 + k) * kColumns + j;
          store_line(out + at, load_line(a + at) + square[k]);
        }
      }
    }
  }
}
const bool transposes = [] {
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{64, 64}, {4096, 4096}, {100'000, 30}}) {
    const std::size_t m = rows, n = columns;
    Register("B02.transpose_" + std::to_string(m) + "x" + std::to_string(n), "us", [m, n] {
      return elementwise<float>(
          {{uf(1, m * n)}, blank<float>(1, m * n)}, 8. * static_cast<double>(m * n),
          [m, n](Buffers<float>& b) { transpose(b.in[0].data(), b.out[0].data(), m, n); });
    });
  }
  return true;
}();
const Register transposed("B02.transposed_add", "us", [] {
  Buffers<float> b{{uf(1, kRows * kColumns), uf(2, kRows * kColumns)},
                   blank<float>(1, kRows * kColumns)};
  return elementwise(std::move(b), 48 << 20, [](Buffers<float>& x) {
    transposed_add(x.in[0].data(), x.in[1].data(), x.out[0].data());
  });
});

}  // namespace
}  // namespace bench
