// The loops that compiled loops are compared with, as a careful person writes them by hand: fixed
// sizes, reused memory, derivatives by hand. hand_loops.cpp is built three times:
//   exact       -ffp-contract=off: the arithmetic that compiled programs do by default
//   contracted  as compilers like it: a * b + c in one rounding
//   fast        -ffast-math: sums in any order, vector versions of exp and tanh
#pragma once

#include <array>
#include <cstddef>

namespace hand {

struct Loops {
  /// Trips of c = 3.7 c (1 - c).
  float (*logistic)(float c, long trips);
  /// d/dr of so many trips of c = r c (1 - c) from 0.5, forwards.
  float (*logistic_grad)(float r, long trips);
  void (*logistic_1024)(const float* c, float* out, long trips);
  /// Layers 2, width 14, 1023 steps: main[2][2][4][14], extra[3][14], state[2][2][14], seq[1024][14].
  double (*lstm)(const double* main, const double* extra, const double* state, const double* seq);
  double (*lstm_grad)(const double* main, const double* extra, const double* state,
                      const double* seq, double* dmain, double* dextra);
  /// Batch 16, width 128: W, U [128][384], b [384], xs [steps][16][128]; gives h [16][128].
  void (*gru)(const float* W, const float* U, const float* b, const float* xs, long steps,
              float* h);
  /// Runge-Kutta 4, 100 steps of y_i' = x_i y_(i-1), 1000 components; y[99] for the gradient.
  void (*ode_rk4)(const double* x, double* y);
  void (*ode_rk4_grad)(const double* x, double* gx);
  /// Trips of c_i += 1e-3 (c_(i+1) (c_(i+2) - c_(i-1)) - c_i + 8), 32 numbers in a ring; the sum of
  /// the last ones, and its gradient.
  double (*scan32)(const double* c, long trips);
  void (*scan32_grad)(const double* c, long trips, double* gradient);
  /// Runge-Kutta 4 of the Lorenz system from y0[4096][3] with parameters p[3]: the last states; the
  /// mean of their squares, and its derivatives for p in forward and in reverse mode.
  void (*lorenz)(const float* y0, const float* p, long steps, float* last);
  float (*lorenz_mean)(const float* y0, const float* p, long steps);
  void (*lorenz_jacfwd)(const float* y0, const float* p, long steps, float* gradient);
  void (*lorenz_grad)(const float* y0, const float* p, long steps, float* gradient);
  /// x - e sin x = M by Newton's iteration, 4096 lanes that finish apart.
  void (*newton_4096)(const double* e, const double* M, double* x);
};

extern const Loops exact, contracted, fast;
inline constexpr std::array kBuilds = {&exact, &contracted, &fast};

}  // namespace hand
