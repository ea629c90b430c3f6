// B11 by hand: JAX's random numbers (threefry2x32, key 0 0), an Asian option and its sensitivities.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "hand.hpp"

#define NOINLINE __attribute__((noinline))

namespace bench {
namespace {

constexpr std::uint32_t kPaths = 65536, kSteps = 64;

/// The inverse of the error function: Giles, "Approximating the erfinv function" (2012).
inline float erf_inv(float x) {
  const float w = -std::log((1 - x) * (1 + x)), low = w - 2.5f, high = std::sqrt(w) - 3;
  float p = 2.81022636e-08f, q = -0.000200214257f;
  for (const float c : {3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                        -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f})
    p = c + p * low;
  for (const float c : {0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                        -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f})
    q = c + q * high;
  return (w < 5 ? p : q) * x;
}

/// The number of this counter, as jax.random.normal.
inline float normal(std::uint32_t counter) {
  constexpr std::uint32_t kKeys[3] = {0, 0, 0x1BD11BDA};
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  std::uint32_t a = kKeys[0], b = counter + kKeys[1];
  for (std::uint32_t i = 0; i < 5; ++i) {
    for (const int r : kRotations[i % 2]) {
      a += b;
      b = (b << r | b >> (32 - r)) ^ a;
    }
    a += kKeys[(i + 1) % 3];
    b += kKeys[(i + 2) % 3] + i + 1;
  }
  const std::uint32_t bits = (a ^ b) >> 9 | 0x3f800000;
  float f;
  std::memcpy(&f, &bits, 4);
  constexpr float kLow = -0.99999994f;  // the next number above -1
  return 1.41421356f * erf_inv(std::max(kLow, (f - 1) * (1 - kLow) + kLow));
}

NOINLINE void normals(Floats& out) {
  for (std::uint32_t i = 0; i < kPaths * kSteps; ++i) out[i] = normal(i);
}

struct Option {
  float spot = 100, volatility = .2f, rate = .05f;
  float price = 0, by_spot = 0, by_volatility = 0, by_rate = 0;
};

/// Of the paths b, b + 1, ... at a date.
NOINLINE void normals_of_paths(std::uint32_t b, std::uint32_t date, float* out) {
  for (std::uint32_t l = 0; l < kLanes; ++l) out[l] = normal((b + l) * kSteps + date);
}

/// Paths go side by side in lanes; S_t = S_0 exp((r - s^2 / 2) t + s W_t) and its derivatives.
template <bool kGreeks>
NOINLINE void asian(Option& o) {
  const float s = o.volatility, r = o.rate, dt = 1.f / kSteps, root = std::sqrt(dt),
              discount = std::exp(-r);
  double price = 0, by_spot = 0, by_volatility = 0, by_rate = 0;
  for (std::uint32_t b = 0; b < kPaths; b += kLanes) {
    float W[kLanes] = {}, sum[kLanes] = {}, ds[kLanes] = {}, dr[kLanes] = {}, n[kLanes];
    for (std::uint32_t t = 1; t <= kSteps; ++t) {
      const float time = dt * static_cast<float>(t), drift = (r - .5f * s * s) * time;
      normals_of_paths(b, t - 1, n);
#pragma GCC unroll 1  // else the loop is unrolled before it could become vectors
      for (std::size_t l = 0; l < kLanes; ++l) {
        W[l] += root * n[l];
        const float S = o.spot * std::exp(drift + s * W[l]);
        sum[l] += S;
        if (kGreeks) {
          ds[l] += S * (W[l] - s * time);
          dr[l] += S * time;
        }
      }
    }
    for (std::size_t l = 0; l < kLanes; ++l) {
      const double mean = sum[l] / kSteps, weight = mean > 100 ? discount / double{kPaths} : 0;
      price += weight * (mean - 100);
      by_spot += weight * mean / o.spot;
      by_volatility += weight * ds[l] / kSteps;
      by_rate += weight * (dr[l] / kSteps - (mean - 100));
    }
  }
  o.price = static_cast<float>(price);
  o.by_spot = static_cast<float>(by_spot);
  o.by_volatility = static_cast<float>(by_volatility);
  o.by_rate = static_cast<float>(by_rate);
}

const Register numbers("B11.normals", "ns", [] {
  return per(kPaths * kSteps,
             by_hand(Floats(std::size_t{kPaths} * kSteps), normals,
                     [](const Floats& out) { return std::vector{output(out)}; }),
             "threefry, per number");
});
Case option(void (*work)(Option&), std::size_t results) {
  Case c = by_hand(Option(), work, [results](const Option& o) {
    std::vector<Output> out;
    for (const float* x : {&o.price, &o.by_spot, &o.by_volatility, &o.by_rate}) {
      if (out.size() < results) out.push_back(output(std::span(x, 1)));
    }
    return out;
  });
  c.tolerance = 2e-3;
  return per(kPaths * kSteps, std::move(c), "per path and step");
}
const Register price("B11.asian_price", "ns", [] { return option(asian<false>, 1); });
const Register greeks("B11.asian_greeks", "ns", [] { return option(asian<true>, 4); });

}  // namespace
}  // namespace bench
