// The sine and the cosine of an angle, for loops that run along lanes.
#pragma once

#include <cstdint>

#include "hand.hpp"

namespace bench {

/// An angle that is not negative, and less than 2^30.
inline void sine_and_cosine(double x, double& sine, double& cosine) {
  const int n = static_cast<int>(x * .63661977236758134308 + .5);  // quarters of a turn
  const double r = ((x - n * 1.57079625129699707031) - n * 7.54978941586159635335e-8) -
                   n * 5.39030285815811905290e-15;
  const double z = r * r;
  double s = 1.58962301576546568060e-10 * z - 2.50507477628578072866e-8;
  s = s * z + 2.75573136213857245213e-6;
  s = s * z - 1.98412698295895385996e-4;
  s = s * z + 8.33333333332211858878e-3;
  s = s * z - 1.66666666666666307295e-1;
  s = s * z * r + r;
  double c = -1.13585365213876817300e-11 * z + 2.08757008419747316778e-9;
  c = c * z - 2.75573141792967388112e-7;
  c = c * z + 2.48015872888517045348e-5;
  c = c * z - 1.38888888888730564116e-3;
  c = c * z + 4.16666666666665929218e-2;
  c = c * z * z - .5 * z + 1;
  const double p = (n & 1) != 0 ? c : s, q = (n & 1) != 0 ? s : c;
  sine = (n & 2) != 0 ? -p : p;
  cosine = ((n + 1) & 2) != 0 ? -q : q;
}
/// Sixteen angles of less than 128 quarters of a turn, whose products with the first part of pi / 2 are exact. The
/// polynomials are those of Cephes (Moshier 1989).
[[gnu::always_inline]] inline void sine_and_cosine(Vector<float> x, Vector<float>& sine,
                                                   Vector<float>& cosine) {
  using Floats16 = Vector<float>;
  using Bits = Vector<std::int32_t>;
  constexpr std::int32_t kSign = INT32_MIN, kHalf = 0x3f000000;
  const Bits half = (Bits(x) & kSign) | kHalf;  // of the sign of x
  const Bits n = __builtin_convertvector(x * .63661977F + Floats16(half), Bits);
  const Floats16 quarters = __builtin_convertvector(n, Floats16);
  const Floats16 r = (x - quarters * 1.5707855224609375F) - quarters * 1.0804334e-5F;
  const Floats16 z = r * r;
  const Floats16 s =
      ((-1.9515295891e-4F * z + 8.3321608736e-3F) * z - 1.6666654611e-1F) * (z * r) + r;
  const Floats16 c =
      ((2.443315711809948e-5F * z - 1.388731625493765e-3F) * z + 4.166664568298827e-2F) * (z * z) +
      (1 - .5F * z);
  const Floats16 p = (n & 1) != 0 ? c : s, q = (n & 1) != 0 ? s : c;
  sine = Floats16(Bits(p) ^ (n << 30 & kSign));
  cosine = Floats16(Bits(q) ^ ((n + 1) << 30 & kSign));
}

}  // namespace bench
