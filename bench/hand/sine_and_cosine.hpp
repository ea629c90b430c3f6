// The sine and the cosine of an angle, for loops that run along lanes.
#pragma once

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

}  // namespace bench
