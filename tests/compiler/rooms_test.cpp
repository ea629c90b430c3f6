// Values in the memory of results that nothing has been written to yet.
#include "compiler/plan/rooms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/compile.hpp"
#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

using namespace compiler;
using ::testing::HasSubstr;

// ---- blocks and rooms ----------------------------------------------------------------------------
Block block(int first, int last, std::int64_t bytes) {
  return {
      {first, last}, detail::rounded_up(bytes, kAlignment), detail::rounded_up(bytes, kAlignment)};
}
std::vector<Request> requests(const std::vector<Block>& blocks) {
  std::vector<Request> all;
  for (const Block& b : blocks) all.push_back({b.needed, b.range});
  return all;
}
/// The most that is alive at one time of what stays in the arena.
std::int64_t most_alive(const std::vector<Block>& blocks, const Housing& housing) {
  std::int64_t most = 0;
  for (const Block& at : blocks) {
    std::int64_t alive = 0;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const bool stays = housing.places[b].room < 0;
      if (stays && blocks[b].range.contains({at.range.first, at.range.first}))
        alive += blocks[b].needed;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(Rooms, TakeWhatEndsBeforeTheResultIsWritten) {
  const std::vector<Block> blocks = {block(0, 1, 640), block(1, 3, 640)};
  const Housing h = fill_rooms(blocks, requests(blocks), {{640, 3}});
  EXPECT_EQ(h.places[0].room, 0);
  EXPECT_EQ(h.places[1].room, -1) << "it is alive when the result is written";
  EXPECT_EQ(h.least_alive, 640);
}

TEST(Rooms, AreLargeEnough) {
  std::vector<Block> blocks = {block(0, 1, 640), block(0, 1, 100)};
  const std::vector<Request> bytes = {{640, {0, 1}}, {100, {0, 1}}};
  EXPECT_EQ(fill_rooms(blocks, bytes, {{639, 3}}).places[0].room, -1);
  // Side by side, each at the begin of a line. What the last one is rounded up to need not be there.
  const Housing h = fill_rooms(blocks, bytes, {{740, 3}});
  EXPECT_EQ(h.places[0].offset, 0);
  EXPECT_EQ(h.places[1].offset, 640);
  EXPECT_EQ(h.least_alive, 0);
  EXPECT_EQ(fill_rooms(blocks, bytes, {{739, 3}}).places[1].room, -1);
}

// The other one is free for longer, and the second block needs that.
TEST(Rooms, AreThoseThatCloseSoon) {
  const std::vector<Block> blocks = {block(0, 1, 640), block(1, 3, 640)};
  const Housing h = fill_rooms(blocks, requests(blocks), {{640, 9}, {640, 2}});
  EXPECT_EQ(h.places[0].room, 1);
  EXPECT_EQ(h.places[1].room, 0);
  EXPECT_EQ(h.least_alive, 0);
}

TEST(Rooms, LeaveInTheArenaWhatMakesItNoLarger) {
  // The second block lives when there is room in the arena anyway, and the last has to stay.
  const std::vector<Block> blocks = {block(0, 0, 640), block(1, 1, 640), block(2, 2, 1280)};
  const Housing h = fill_rooms(blocks, {{640, {0, 0}}, {640, {1, 1}}, {}}, {{640, 9}});
  EXPECT_EQ(h.least_alive, 1280);
  for (const RoomPlace& place : h.places) EXPECT_EQ(place.room, -1);
}

// Each block of a chain lives with the next; the last is still there when the result is written.
TEST(Rooms, HoldEveryOtherBlockOfAChain) {
  for (int n = 2; n < 12; ++n) {
    std::vector<Block> blocks;
    for (int i = 0; i < n; ++i) blocks.push_back(block(i, i + 1, 640));
    const Housing h = fill_rooms(blocks, requests(blocks), {{640, n}});
    EXPECT_EQ(most_alive(blocks, h), 640) << n;
    EXPECT_EQ(h.least_alive, 640) << n;
  }
}

TEST(Rooms, OfRandomSizesHoldEachThingAlone) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int moved = 0, tight = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Block> blocks;
    std::vector<Request> bytes;
    std::vector<Room> rooms;
    for (int i = 0; i < 40; ++i) {
      const int first = below(40);
      const std::int64_t size = 1 + below(5000);
      blocks.push_back(block(first, first + below(8), size));
      bytes.push_back({below(8) == 0 ? 0 : size, blocks.back().range});
    }
    for (int r = below(6); r > 0; --r) rooms.push_back({1 + below(9000), below(50)});
    const Housing h = fill_rooms(blocks, bytes, rooms);
    for (std::size_t a = 0; a < blocks.size(); ++a) {
      const auto [room, offset] = h.places[a];
      if (room < 0) continue;
      ++moved;
      ASSERT_GT(bytes[a].bytes, 0);
      ASSERT_EQ(offset % kAlignment, 0);
      const Room& in = rooms[static_cast<std::size_t>(room)];
      ASSERT_LE(offset + bytes[a].bytes, in.bytes);
      ASSERT_LT(blocks[a].range.last, in.before);
      for (std::size_t b = 0; b < a; ++b) {
        if (h.places[b].room != room || blocks[a].range.apart(blocks[b].range)) continue;
        ASSERT_TRUE(offset + bytes[a].bytes <= h.places[b].offset ||
                    h.places[b].offset + bytes[b].bytes <= offset);
      }
    }
    ASSERT_GE(most_alive(blocks, h), h.least_alive);
    tight += static_cast<double>(most_alive(blocks, h)) <= 1.1 * static_cast<double>(h.least_alive)
                 ? 1
                 : 0;
  }
  EXPECT_GT(moved, 500);
  EXPECT_GT(tight, 200) << "of 300";
}

TEST(Rooms, OfNoneAreNone) {
  EXPECT_EQ(fill_rooms({}, {}, {{640, 3}}).least_alive, 0);
  const std::vector<Block> blocks = {block(0, 1, 640)};
  EXPECT_EQ(fill_rooms(blocks, requests(blocks), {}).least_alive, 640);
  EXPECT_EQ(fill_rooms(blocks, requests(blocks), {{0, 1}, {640, 0}}).least_alive, 640);
}

// ---- programs ------------------------------------------------------------------------------------
const CompileOptions kNothingIsDonated = {.donated = std::vector<bool>{}};

Array weights(unsigned seed, const Shape& shape = {64, 64}) {
  return uniform(shape, DType::f32, -.2, .2, seed);
}

// A step of a network: gradients become new weights where they lie, and what comes before them lies there, too.
TEST(Results, HoldWhatALearningStepNeeds) {
  const auto loss = [](const Array& v, const Array& u, const Array& x) {
    return sum(square(matmul(tanh(matmul(x, v)), u)));
  };
  const Program step = [&](std::span<const Array> x) {
    const auto [dv, du] = grad<0, 1>(loss)(x[0], x[1], x[2]);
    return Arrays{x[0] - 0.1f * dv, x[1] - 0.1f * du};
  };
  const Arrays x = {weights(1), weights(2), weights(3, {16, 64})};
  const Compiled e = check(step, x, -1, 1e4, kNothingIsDonated);
  EXPECT_LE(e->info().arena_bytes, 2U * 16 * 64 * 4) << e->text("plan");
  CompileOptions apart = kNothingIsDonated;
  apart.disabled = {"place_in_results"};
  EXPECT_GE(check(step, x, -1, 1e4, apart)->info().arena_bytes, 64U * 64 * 4);
  // Two at once, from several threads, each with results of its own.
  const Arrays first = execute(e, x), second = execute(e, x);
  for (std::size_t i = 0; i < first.size(); ++i) expect_equal(first[i], second[i], 0, "again");
}

// Weights of 4 MB and more, whose results would go around the caches.
TEST(Results, HoldLargeGradients) {
  const Program step = [](std::span<const Array> x) {
    return Arrays{x[0] - 0.1f * matmul(transpose(x[1]), x[1])};
  };
  const Arrays x = {weights(1, {1100, 1100}), weights(2, {8, 1100})};
  const Compiled e = check(step, x, -1, 1e4, kNothingIsDonated);
  EXPECT_LT(e->info().arena_bytes, 100'000U) << e->text("buffers");
}

// Side by side, in a result that is written after them.
TEST(Results, HoldOthersBeforeTheyAreWritten) {
  const Program f = [](std::span<const Array> x) {
    const Array a = lax::sort(x[0], 1), b = lax::cumsum(x[0], 1), c = matmul(matmul(a, b), a);
    return Arrays{concatenate(Arrays{lax::sort(matmul(c, b), 1), x[0], x[0]}, 1)};
  };
  const Compiled e = check(f, {weights(1)}, -1, 1e5, kNothingIsDonated);
  EXPECT_THAT(e->text("buffers"), HasSubstr("before it")) << e->text("plan");
  EXPECT_THAT(e->text("plan"), HasSubstr("@result0+16384"));
}

// In loops, branches and functions of C++ too.
TEST(Results, HoldWhatLoopsNeed) {
  const Program f = [](std::span<const Array> x) {
    const Array y = fori_loop(
        0, 5,
        [&](const Array& i, const Array& c) {
          return tanh(matmul(c, lax::sort(x[0] + i * 0.1f, 1)));
        },
        x[0]);
    const Array z = cond(
        sum(y) > 0.f, [](const Array& a) { return lax::cumsum(lax::sort(a, 1), 1); },
        [](const Array& a) { return lax::sort(lax::cumsum(a, 1), 1); }, y);
    return Arrays{matmul(z, z), sum(z)};
  };
  for (const int n : {1, 2}) {
    const WithThreads scope(n);
    const Compiled e = check(f, {weights(1)}, -1, 1e5, kNothingIsDonated);
    EXPECT_THAT(e->text("buffers"), HasSubstr("before it"));
  }
}

// Kernels that go through large arrays tile by tile do so all the same: what they keep for each part of the rows does not
// lie where one of them writes.
TEST(Results, HoldNothingThatKeepsKernelsApart) {
  const auto normalised = [](const Array& x, const Array& scale) {
    const Array y = x - mean(x, {.axes = {1}, .keepdims = true});
    return y * rsqrt(mean(y * y, {.axes = {1}, .keepdims = true}) + 1e-5f) * scale;
  };
  const Program f = [&](std::span<const Array> x) {
    const auto [dx, dscale] = vjp(normalised, x[0], x[1]).second(x[2]);
    return Arrays{dx, dscale};
  };
  const Arrays x = {weights(1, {1000, 4096}), weights(2, {4096}), weights(3, {1000, 4096})};
  CompileOptions apart = kNothingIsDonated;
  apart.disabled = {"place_in_results"};
  const auto kernels_apart = [&](const CompileOptions& options) {
    const std::string plan = compile(stage(f, x), options)->text("plan");
    EXPECT_THAT(plan, HasSubstr("tiles "));
    return plan.find("\nkernel") != std::string::npos;
  };
  EXPECT_EQ(kernels_apart(kNothingIsDonated), kernels_apart(apart));
}

// What a long kernel keeps for each of its chunks is found by its place in the arena.
TEST(Results, HoldNoTapes) {
  constexpr std::int64_t n = 600'000;
  const Program f = [](std::span<const Array> x) {
    const Array sorted = lax::sort(x[0], 0);
    Array v = x[0];
    for (int i = 0; i < 330; ++i) v = i % 3 == 0 ? sin(v) : i % 3 == 1 ? v * x[0] : v - x[0];
    const Array twice = lax::concatenate(Arrays{v, v}, 0), sums = lax::cumsum(twice, 0);
    return Arrays{v, twice, sums, sorted - sums(slice(5, n + 5))};
  };
  for (const int threads : {1, 2}) {
    const WithThreads scope(threads);
    const Compiled e = check(f, {uniform({n}, DType::f32)}, -1, 1e5, kNothingIsDonated);
    const std::string plan = e->text("plan");
    const std::size_t tape = plan.find(":u8[");
    ASSERT_NE(tape, std::string::npos) << plan;
    EXPECT_EQ(plan.find("@result", tape), plan.find('@', plan.find('@', tape) + 1)) << plan;
  }
}

// Small values are in the caches where they are.
TEST(Results, HoldNothingSmall) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{matmul(matmul(x[0], x[0]), x[0])};
  };
  EXPECT_GT(check(f, {weights(1, {16, 16})}, -1, 1e4, kNothingIsDonated)->info().arena_bytes, 0U);
}

}  // namespace
}  // namespace telamon::testing
