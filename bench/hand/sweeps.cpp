// SWEEP by hand: softmax, normalisation and plain sums over rows of every length, along the last axis and (strided)
// along the first.
#include <string>

#include "lines.hpp"
#include "rows.hpp"

namespace bench {
namespace {

struct Sweep {
  Floats x, w, b, out;
  std::size_t rows, n;
};
Case sweep(std::size_t n, void (*work)(Sweep&)) {
  const std::size_t rows = (std::size_t{1} << 20) / n;
  Case c = by_hand(Sweep{zf(1, rows * n), uf(2, n), uf(3, n), Floats(rows * n), rows, n}, work,
                   [](const Sweep& s) { return std::vector{output(s.out)}; });
  c.bytes = 8. * static_cast<double>(rows * n);
  return c;
}

/// Short rows in groups of 16, turned so that the loops run across rows; the last ones by `single`.
template <int N, class Columns, class Single>
void turned(Sweep& s, Columns columns, Single single) {
  alignas(64) float in[N * kLanes], out[N * kLanes];
  std::size_t i = 0;
  for (; i + kLanes <= s.rows; i += kLanes) {
    rows_to_columns<N>(&s.x[i * N], in);
    columns(in, out);
    columns_to_rows<N>(out, &s.out[i * N]);
  }
  for (; i < s.rows; ++i) single(&s.x[i * N], &s.out[i * N]);
}
template <int N>
void softmax_short(Sweep& s) {
  turned<N>(
      s, [](const float* x, float* out) { softmax_columns<kLanes>(x, out, N, kLanes); },
      [](const float* x, float* out) { softmax_row(x, out, N); });
}
template <int N>
void layernorm_short(Sweep& s) {
  const float *w = s.w.data(), *b = s.b.data();
  turned<N>(
      s, [=](const float* x, float* out) { layernorm_columns<kLanes>(x, w, b, out, N, kLanes); },
      [=](const float* x, float* out) { layernorm_row(x, w, b, out, N); });
}
void softmax(Sweep& s) {
  if (s.n == 7) return softmax_short<7>(s);
  for (std::size_t i = 0; i < s.rows; ++i) softmax_row(&s.x[i * s.n], &s.out[i * s.n], s.n);
}
void layernorm(Sweep& s) {
  if (s.n == 7) return layernorm_short<7>(s);
  if (s.n == 64) return layernorm_short<64>(s);
  for (std::size_t i = 0; i < s.rows; ++i) {
    layernorm_row(&s.x[i * s.n], s.w.data(), s.b.data(), &s.out[i * s.n], s.n);
  }
}
/// So many columns at once that they fit the second-level cache; with short ones, whole pages of each row.
template <std::size_t Width>
void softmax_groups(Sweep& s) {
  by_columns<Width>(
      s.rows, [&](std::size_t k) { softmax_columns<Width>(&s.x[k], &s.out[k], s.n, s.rows); },
      [&](std::size_t k) { softmax_columns<1>(&s.x[k], &s.out[k], s.n, s.rows); });
}
template <std::size_t Width>
void layernorm_groups(Sweep& s) {
  const float *w = s.w.data(), *b = s.b.data();
  by_columns<Width>(
      s.rows,
      [&](std::size_t k) { layernorm_columns<Width>(&s.x[k], w, b, &s.out[k], s.n, s.rows); },
      [&](std::size_t k) { layernorm_columns<1>(&s.x[k], w, b, &s.out[k], s.n, s.rows); });
}
void softmax_strided(Sweep& s) {
  if (s.n <= 64) softmax_groups<64 * kLanes>(s);
  else s.rows >= 4 * kLanes ? softmax_groups<4 * kLanes>(s) : softmax_groups<kLanes>(s);
}
void layernorm_strided(Sweep& s) {
  if (s.n <= 64) layernorm_groups<64 * kLanes>(s);
  else s.rows >= 4 * kLanes ? layernorm_groups<4 * kLanes>(s) : layernorm_groups<kLanes>(s);
}

// ---- plain sums ----------------------------------------------------------------------------------
void sum_rows(Sweep& s) {
  if (s.n != 7) {
    for (std::size_t i = 0; i < s.rows; ++i) s.out[i] = lane_sum(&s.x[i * s.n], s.n);
    return;
  }
  std::size_t i = 0;
  for (; i + kLanes <= s.rows; i += kLanes) {
    float x[7 * kLanes];
    rows_to_columns<7>(&s.x[i * 7], x);
    Line sum = load_line(x);
    for (std::size_t j = 1; j < 7; ++j) sum += load_line(x + j * kLanes);
    store_line(&s.out[i], sum);
  }
  for (; i < s.rows; ++i) s.out[i] = lane_sum(&s.x[i * 7], 7);
}
/// Four rows at a time go into blocks of results that stay in the first-level cache.
void sum_columns(Sweep& s) {
  constexpr std::size_t kBlock = 2048;
  for (std::size_t k = 0; k < s.rows; k += kBlock) {
    const std::size_t width = std::min(kBlock, s.rows - k);
    float* out = &s.out[k];
    std::fill(out, out + width, 0.f);
    std::size_t j = 0;
    for (; j + 4 <= s.n; j += 4) {
      const float* a = &s.x[j * s.rows + k];
      const float *b = a + s.rows, *c = b + s.rows, *d = c + s.rows;
#pragma omp simd
      for (std::size_t l = 0; l < width; ++l) out[l] += (a[l] + b[l]) + (c[l] + d[l]);
    }
    for (; j < s.n; ++j) {
      const float* a = &s.x[j * s.rows + k];
#pragma omp simd
      for (std::size_t l = 0; l < width; ++l) out[l] += a[l];
    }
  }
}
Case sum_case(std::size_t n, void (*work)(Sweep&)) {
  const std::size_t rows = (std::size_t{1} << 20) / n;
  Case c = by_hand(Sweep{zf(1, rows * n), {}, {}, Floats(rows), rows, n}, work,
                   [](const Sweep& s) { return std::vector{output(s.out)}; });
  c.bytes = 4. * static_cast<double>(rows * n);
  return c;
}

const bool sweeps = [] {
  for (const std::size_t n : {7, 64, 1000, 4096, 65536}) {
    const std::string tail = std::to_string(n);
    Register("SWEEP.sum_" + tail, "us", [n] { return sum_case(n, sum_rows); });
    Register("SWEEP.sum_" + tail + "_strided", "us", [n] { return sum_case(n, sum_columns); });
    Register("SWEEP.softmax_" + tail, "us", [n] { return sweep(n, softmax); });
    Register("SWEEP.layernorm_" + tail, "us", [n] { return sweep(n, layernorm); });
    Register("SWEEP.softmax_" + tail + "_strided", "us", [n] { return sweep(n, softmax_strided); });
    Register("SWEEP.layernorm_" + tail + "_strided", "us",
             [n] { return sweep(n, layernorm_strided); });
  }
  return true;
}();

}  // namespace
}  // namespace bench
