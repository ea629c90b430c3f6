// Blocks in one arena, by the steps in which they live.
#include "compiler/plan/packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace telamon_test {
namespace {

using namespace telamon::compiler;

Packing packed(std::vector<Block> blocks, bool reuse = true) {
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return std::pair(a.range.first, a.size) < std::pair(b.range.first, b.size);
  });
  Packing packing;
  for (const Block& b : blocks) packing.add(b.range, b.size);
  packing.pack(reuse);
  return packing;
}
double ratio(const Packing& p) {
  return static_cast<double>(p.bytes) / static_cast<double>(p.most_alive);
}

void expect_apart(const Packing& packing) {
  for (const Block& a : packing.blocks()) {
    EXPECT_LE(a.offset + a.needed, packing.bytes);
    EXPECT_EQ(a.offset % kAlignment, 0);
    for (const Block& b : packing.blocks()) {
      if (&a < &b && !a.range.apart(b.range))
        EXPECT_TRUE(a.end() <= b.offset || b.end() <= a.offset);
    }
  }
}

/// Blocks that begin anywhere and live for a few steps, or for many.
std::vector<Block> random_blocks(std::mt19937& random, int n) {
  const auto below = [&](int k) { return static_cast<int>(random() % static_cast<unsigned>(k)); };
  std::vector<Block> blocks;
  for (int i = 0; i < n; ++i) {
    const int first = below(n), lives = 1 + below(below(4) == 0 ? n : 6);
    const std::int64_t units = 1 + below(below(2) == 0 ? 8 : 500);
    blocks.push_back({{first, std::min(first + lives, n)}, kAlignment * units});
  }
  return blocks;
}

TEST(Packing, GivesMemoryToWhatComesLater) {
  const Packing p = packed({{{0, 1}, 128}, {{1, 2}, 64}, {{2, 3}, 128}});
  EXPECT_EQ(p.bytes, 192);
  EXPECT_EQ(p.most_alive, 192);
  EXPECT_EQ(packed({{{0, 1}, 128}, {{2, 3}, 64}}, false).bytes, 192);
}

TEST(Packing, LetsABlockLiveOnUnderAnotherName) {
  Packing p;
  const std::int64_t block = p.add({0, 1}, 64);
  p.add({2, 3}, 64);
  p.extend(block, 3);
  p.pack(true);
  EXPECT_EQ(p.bytes, 128);
}

// The sets of the first cache go by the place in a page, and kernels read and write many values side by side.
TEST(Packing, BeginsLargeBlocksAtDifferentPlacesOfAPage) {
  for (const std::int64_t bytes : {1 << 15, 100'032, 1 << 20}) {
    const Packing p = packed(std::vector<Block>(8, {{0, 1}, bytes}));
    expect_apart(p);
    std::set<std::int64_t> places;
    for (const Block& b : p.blocks()) places.insert(b.offset % 4096);
    EXPECT_EQ(places.size(), 8U) << bytes;
    for (const std::int64_t place : places) EXPECT_EQ(place % 512, 0) << bytes;
    EXPECT_EQ(p.most_alive, 8 * bytes) << "what is needed";
    EXPECT_LE(ratio(p), 1.032) << bytes;
  }
}

TEST(Packing, FindsAPlaceWhereNeitherOrderNorSizeDoes) {
  // In the order in which they begin and by size these take 1.2 times as much, by what finds no place 1.09 times.
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const Packing p = packed(random_blocks(random, 6 + i));
    expect_apart(p);
    EXPECT_LE(ratio(p), 1.05) << i;
  }
}

TEST(Packing, PlacesThousandsOfBlocksApart) {
  std::mt19937 random(2);
  for (const int n : {1000, 3000, 6000}) {
    const Packing p = packed(random_blocks(random, n));
    expect_apart(p);
    EXPECT_LE(ratio(p), n < 4096 ? 1.1 : 1.5) << n;
  }
}

}  // namespace
}  // namespace telamon_test
