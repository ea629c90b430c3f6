// B10 by hand: arrays whose last axis is short.
#include <cmath>
#include <string>

#include "hand.hpp"

namespace bench {
namespace {

struct Array {
  Floats in, out;
};
constexpr std::size_t kRows = 1 << 16, kPoints = 1024;

template <int K>
void unit_rows(Array& a) {
  constexpr std::size_t kBlock = 64;
  for (std::size_t i = 0; i < kRows; i += kBlock) {
    const float* __restrict x = &a.in[i * K];
    float* __restrict out = &a.out[i * K];
    float scale[kBlock];
    for (std::size_t r = 0; r < kBlock; ++r) {
      float sum = 0;
      for (std::size_t k = 0; k < K; ++k) sum += x[r * K + k] * x[r * K + k];
      scale[r] = 1 / std::sqrt(sum);
    }
    for (std::size_t r = 0; r < kBlock; ++r) {
      for (std::size_t k = 0; k < K; ++k) out[r * K + k] = x[r * K + k] * scale[r];
    }
  }
}
/// Points times a matrix and shifted, a block of coordinates after the other.
struct Turned {
  Floats in, turn, by, out;
};
template <int K>
void turn(Turned& t) {
  constexpr std::size_t kBlock = 64;
  for (std::size_t i = 0; i < kRows; i += kBlock) {
    float columns[K][kBlock], sums[K][kBlock];
    for (std::size_t k = 0; k < K; ++k) {
      for (std::size_t r = 0; r < kBlock; ++r) columns[k][r] = t.in[(i + r) * K + k];
    }
    for (std::size_t j = 0; j < K; ++j) {
      for (std::size_t r = 0; r < kBlock; ++r) {
        float sum = 0;
        for (std::size_t k = 0; k < K; ++k) sum += columns[k][r] * t.turn[j * K + k];
        sums[j][r] = sum + t.by[j];
      }
    }
    for (std::size_t r = 0; r < kBlock; ++r) {
      for (std::size_t k = 0; k < K; ++k) t.out[(i + r) * K + k] = sums[k][r];
    }
  }
}
/// Quaternions as matrices of 3 x 3.
void rotations(Array& a) {
  for (std::size_t i = 0; i < kRows; ++i) {
    const float* q = &a.in[i * 4];
    float* __restrict m = &a.out[i * 9];
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    m[0] = 1 - 2 * (y * y + z * z), m[1] = 2 * (x * y - w * z), m[2] = 2 * (x * z + w * y);
    m[3] = 2 * (x * y + w * z), m[4] = 1 - 2 * (x * x + z * z), m[5] = 2 * (y * z - w * x);
    m[6] = 2 * (x * z - w * y), m[7] = 2 * (y * z + w * x), m[8] = 1 - 2 * (x * x + y * y);
  }
}
template <int K>
void distances(Array& a) {
  float columns[K][kPoints];
  for (std::size_t j = 0; j < kPoints; ++j) {
    for (std::size_t k = 0; k < K; ++k) columns[k][j] = a.in[j * K + k];
  }
  for (std::size_t i = 0; i < kPoints; ++i) {
    const float* point = &a.in[i * K];
    float* __restrict out = &a.out[i * kPoints];
    for (std::size_t j = 0; j < kPoints; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < K; ++k)
        sum += (point[k] - columns[k][j]) * (point[k] - columns[k][j]);
      out[j] = sum;
    }
  }
}

/// Forces of springs between neighbours on a grid: of a row to the right and down, coordinates side by side.
constexpr std::size_t kCloth = 256;
struct Springs {
  float k[3][kCloth] = {};
};
inline void springs(const Springs& from, const Springs& to, std::size_t shift, std::size_t n,
                    Springs& out) {
  for (std::size_t j = 0; j < n; ++j) {
    const float x = to.k[0][j + shift] - from.k[0][j], y = to.k[1][j + shift] - from.k[1][j],
                z = to.k[2][j + shift] - from.k[2][j];
    const float length = std::sqrt(x * x + y * y + z * z + 1e-6F);
    const float f = (length - .5F) / length;
    out.k[0][j] = f * x, out.k[1][j] = f * y, out.k[2][j] = f * z;
  }
}
void cloth(Array& a) {
  Springs row, below, right, down, up;
  const auto read = [&](std::size_t i, Springs& to) {
    for (std::size_t j = 0; j < kCloth; ++j) {
      for (std::size_t k = 0; k < 3; ++k) to.k[k][j] = a.in[(i * kCloth + j) * 3 + k];
    }
  };
  read(0, row);
  for (std::size_t i = 0; i < kCloth; ++i) {
    springs(row, row, 1, kCloth - 1, right);
    down = Springs{};
    if (i + 1 < kCloth) {
      read(i + 1, below);
      springs(row, below, 0, kCloth, down);
    }
    float* __restrict out = &a.out[i * kCloth * 3];
    for (std::size_t k = 0; k < 3; ++k) {
      out[k] = right.k[k][0] + down.k[k][0] - up.k[k][0];
      for (std::size_t j = 1; j < kCloth; ++j)
        out[j * 3 + k] = right.k[k][j] - right.k[k][j - 1] + down.k[k][j] - up.k[k][j];
    }
    row = below;
    up = down;
  }
}

template <int K>
void register_both() {
  const std::string tail = "_" + std::to_string(K);
  const auto results = [](const Array& a) { return std::vector{output(a.out)}; };
  Register("B10.unit_rows" + tail, "us", [results] {
    return by_hand(Array{zf(1, kRows * K), Floats(kRows * K)}, unit_rows<K>, results);
  });
  Register("B10.distances" + tail, "us", [results] {
    return by_hand(Array{uf(1, kPoints * K), Floats(kPoints * kPoints)}, distances<K>, results);
  });
}
template <int K>
void register_turned() {
  Register("B10.turned_points_" + std::to_string(K), "us", [] {
    return by_hand(Turned{zf(1, kRows * K), zf(2, std::size_t{K} * K), zf(3, K), Floats(kRows * K)},
                   turn<K>, [](const Turned& t) { return std::vector{output(t.out)}; });
  });
}
/// Points with coordinates x, y and z of other places.
template <int X, int Y, int Z>
void swizzle(Array& a) {
  const float* __restrict x = a.in.data();
  float* __restrict out = a.out.data();
  for (std::size_t i = 0; i < kRows; ++i) {
    out[3 * i] = x[3 * i + X];
    out[3 * i + 1] = x[3 * i + Y];
    out[3 * i + 2] = x[3 * i + Z];
  }
}
const bool all = [] {
  const auto points = [](void (*f)(Array&)) {
    return by_hand(Array{zf(1, kRows * 3), Floats(kRows * 3)}, f,
                   [](const Array& a) { return std::vector{output(a.out)}; });
  };
  Register("B10.swizzled_points", "us", [=] { return points(swizzle<2, 0, 1>); });
  Register("B10.flipped_points", "us", [=] { return points(swizzle<2, 1, 0>); });
  Register("B10.rotations", "us", [] {
    return by_hand(Array{zf(1, kRows * 4), Floats(kRows * 9)}, rotations,
                   [](const Array& a) { return std::vector{output(a.out)}; });
  });
  Register("B10.cloth", "us", [] {
    constexpr std::size_t kSize = kCloth * kCloth * 3;
    return by_hand(Array{uf(1, kSize), Floats(kSize)}, cloth,
                   [](const Array& a) { return std::vector{output(a.out)}; });
  });
  register_turned<2>();
  register_turned<3>();
  register_turned<4>();
  register_both<2>();
  register_both<4>();
  register_both<5>();
  register_both<8>();
  register_both<9>();
  register_both<16>();
  return true;
}();

}  // namespace
}  // namespace bench
