// B14 by hand: of a picture the median of each pixel and the eight around it. Columns of three are sorted once for the
// three pixels that see them; the median of nine is that of the largest of their least, the median of their medians, and
// the least of their largest (Devillard 1998).
#include "hand.hpp"

namespace bench {
namespace {

constexpr std::size_t kSide = 512, kAround = kSide + 2;

float least(float a, float b) { return a < b ? a : b; }
float most(float a, float b) { return a > b ? a : b; }
float median(float a, float b, float c) { return most(least(a, b), least(most(a, b), c)); }

struct Picture {
  Floats in = uf(1, kAround* kAround), out = Floats(kSide * kSide);

  void medians() {
    float low[kAround], middle[kAround], high[kAround];
    for (std::size_t i = 0; i < kSide; ++i) {
      const float *x = &in[i * kAround], *y = x + kAround, *z = y + kAround;
      for (std::size_t j = 0; j < kAround; ++j) {
        const float a = least(x[j], y[j]), b = most(x[j], y[j]), c = most(a, z[j]);
        low[j] = least(a, z[j]);
        middle[j] = least(b, c);
        high[j] = most(b, c);
      }
      float* __restrict to = &out[i * kSide];
      for (std::size_t j = 0; j < kSide; ++j) {
        to[j] = median(most(most(low[j], low[j + 1]), low[j + 2]),
                       median(middle[j], middle[j + 1], middle[j + 2]),
                       least(least(high[j], high[j + 1]), high[j + 2]));
      }
    }
  }
};
const Register median_3x3("B14.median_3x3", "ms", [] {
  return by_hand(
      Picture(), [](Picture& p) { p.medians(); },
      [](const Picture& p) { return std::vector{output(p.out)}; });
});

}  // namespace
}  // namespace bench
