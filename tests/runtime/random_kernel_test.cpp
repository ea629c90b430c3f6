// Threefry-2x32: known answers and layouts.
#include "runtime/kernels/random.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace telamon;
using kernels::contiguous_view;
using Words = std::vector<std::uint32_t>;

TEST(Threefry, GivesTheKnownAnswersOfRandom123) {
  // From the authors' kat_vectors file, threefry2x32 with 20 rounds.
  Words k0 = {0, 0xffffffff, 0x13198a2e}, k1 = {0, 0xffffffff, 0x03707344};
  Words x0 = {0, 0xffffffff, 0x243f6a88}, x1 = {0, 0xffffffff, 0x85a308d3};
  Words y0(3), y1(3);
  const auto view = [](Words& w) { return contiguous_view(w.data(), u32, Shape{3}); };
  kernels::run_threefry2x32(view(k0), view(k1), view(x0), view(x1), view(y0), view(y1));
  EXPECT_EQ(y0, (Words{0x6b200159, 0x1cb996fc, 0xc4923a9c}));
  EXPECT_EQ(y1, (Words{0x99ba4efe, 0xbb002be7, 0x483df7a0}));
}

TEST(Threefry, TakesScalarKeysAndAnyLength) {
  for (std::int64_t n : {0, 1, 5, 1023, 1025, 200000}) {
    std::uint32_t key0 = 12, key1 = 34;
    Words keys0(static_cast<std::size_t>(n), key0), keys1(keys0.size(), key1), x0(keys0.size()),
        x1(keys0.size());
    for (std::size_t i = 0; i < x0.size(); ++i) x0[i] = static_cast<std::uint32_t>(i), x1[i] = 7;
    Words a0(x0.size()), a1(x0.size()), b0(x0.size()), b1(x0.size());
    const auto view = [&](Words& w) { return contiguous_view(w.data(), u32, Shape{n}); };
    const auto scalar = [](std::uint32_t& w) { return contiguous_view(&w, u32, Shape{}); };
    kernels::run_threefry2x32(scalar(key0), scalar(key1), view(x0), view(x1), view(a0), view(a1));
    kernels::run_threefry2x32(view(keys0), view(keys1), view(x0), view(x1), view(b0), view(b1));
    EXPECT_EQ(a0, b0);
    EXPECT_EQ(a1, b1);
  }
}

}  // namespace
