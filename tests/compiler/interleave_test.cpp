// Loops over chains of arithmetic: several trips side by side, with the bits of one after the other.
#include "support.hpp"

namespace telamon::testing {
namespace {

Array polynomial(const Array& x, const Array& c) {
  Array y = c;
  for (int i = 0; i < 12; ++i) y = lax::add(lax::mul(y, x), c);
  return y;
}
bool is_interleaved(const Compiled& e) {
  return e->text("ir").find("several") != std::string::npos;
}

TEST(Interleave, GivesTheBitsOfEagerFunctionsWhateverTheLength) {
  const auto f = [](std::span<const Array> x) { return Arrays{polynomial(x[0], x[1])}; };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto of = [&](const Shape& shape) {
      return is_interleaved(check(f, {uniform(shape, dtype), uniform(shape, dtype, -1, 1, 2)}, 1));
    };
    for (const std::int64_t n : {1, 16, 255, 1000, 1024, 1040, 4096}) {
      SCOPED_TRACE(n);
      of({n});
    }
    // Whole turns; a vector, and a part of one, beyond the last; the same row by row.
    for (const std::int64_t n : {8192, 8192 + 16, 8192 + 5, 9000}) {
      SCOPED_TRACE(n);
      EXPECT_TRUE(of({n}));
      EXPECT_TRUE(of({3, n}));
    }
    // In chunks, by several threads: their bounds are known only then.
    EXPECT_TRUE(of({2'000'003}));
  }
}

// Too many constants for the registers of any instruction set, beside what several trips have there.
TEST(Interleave, HasManyConstantsInMemory) {
  const auto f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 26; ++i) y = lax::sub(lax::mul(y, x[0]), 0.25 - 0.01 * i);
    return Arrays{lax::mul(lax::div(y, 3.0), 0.25)};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Compiled e = check(f, {uniform({9001}, dtype, -1, 1)}, 1);
    EXPECT_TRUE(is_interleaved(e));
    EXPECT_NE(e->text("ir").find("@constants = private constant"), std::string::npos);
    const auto few = [](std::span<const Array> x) { return Arrays{polynomial(x[0], x[0])}; };
    const Compiled other = check(few, {uniform({9001}, dtype, -1, 1)}, 1);
    EXPECT_EQ(other->text("ir").find("@constants"), std::string::npos);
  }
}

// The same of numbers that only the call brings.
TEST(Interleave, HasManyNumbersOfTheCallInMemory) {
  const auto f = [](std::span<const Array> x) {
    Array y = x[0];
    for (std::size_t i = 1; i < x.size(); ++i)
      y = lax::sub(lax::mul(y, x[0]), lax::broadcast_in_dim(x[i], x[0].shape(), {}));
    return Arrays{y};
  };
  const auto many = [](DType dtype) {
    Arrays x{uniform({9001}, dtype, -1, 1)};
    for (unsigned i = 1; i < 30; ++i) x.push_back(uniform({}, dtype, -1, 1, i + 1));
    return x;
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Arrays x = many(dtype);
    const Compiled e = check(f, x, 1);
    EXPECT_TRUE(is_interleaved(e));
    EXPECT_NE(e->text("ir").find("%invariants = alloca"), std::string::npos);
    const auto few = [](std::span<const Array> y) {
      return Arrays{polynomial(y[0], lax::broadcast_in_dim(y[1], y[0].shape(), {}))};
    };
    const Compiled other = check(few, {x[0], x[1]}, 1);
    EXPECT_TRUE(is_interleaved(other));
    EXPECT_EQ(other->text("ir").find("%invariants"), std::string::npos);
  }
}

TEST(Interleave, KeepsConditionsIntegersAndSeveralResultsApart) {
  const auto f = [](std::span<const Array> x) {
    const Array y = polynomial(x[0], x[1]), less = lax::lt(y, x[0]);
    const Array z = polynomial(lax::select(less, y, x[0]), y);
    const Array n = lax::convert_element_type(lax::floor(z), DType::i32);
    return Arrays{z, less, lax::mul(n, n), y};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Arrays x = {uniform({9001}, dtype, -1, 1), uniform({9001}, dtype, -1, 1, 2)};
    EXPECT_TRUE(is_interleaved(check(f, x, 1)));
  }
}

TEST(Interleave, WritesOverWhatItReads) {
  const auto f = [](std::span<const Array> x) { return Arrays{polynomial(x[0], x[0])}; };
  const auto fresh = [] { return Arrays{uniform({10'001}, DType::f32)}; };
  const Compiled e = compile(stage(f, fresh()));
  EXPECT_TRUE(is_interleaved(e));
  Arrays donated = fresh();
  Arrays got;
  e->execute(donated, {true}, got, "test");
  expect_equal(got[0], f(fresh())[0], 0, "in place");
}

// Of joined arrays each part has its loop; of operands that are repeated, or read backwards, indices differ.
TEST(Interleave, OfPartsAndOfOperandsReadElsewhere) {
  const auto f = [](std::span<const Array> x) {
    const Array joined = lax::concatenate(Arrays{x[0], lax::rev(x[1], {0})}, 0);
    const Array row = lax::broadcast_in_dim(joined, {5, joined.size()}, {1});
    return Arrays{polynomial(joined, joined), polynomial(row, lax::neg(row))};
  };
  const Arrays x = {uniform({4099}, DType::f32), uniform({5003}, DType::f32, -1, 1, 2)};
  EXPECT_TRUE(is_interleaved(check(f, x)));
}

TEST(Interleave, IsNotDoneOfShortChainsShortLoopsAndWideSums) {
  const auto short_chain = [](std::span<const Array> x) { return Arrays{lax::mul(x[0], x[0])}; };
  EXPECT_FALSE(is_interleaved(check(short_chain, {uniform({10'000}, DType::f32)}, 1)));
  const auto chain = [](std::span<const Array> x) { return Arrays{polynomial(x[0], x[0])}; };
  EXPECT_FALSE(is_interleaved(check(chain, {uniform({30}, DType::f64)}, 1)));
  // Sums of products that do not wait for each other keep a processor busy.
  const auto wide = [](std::span<const Array> x) {
    Arrays terms;
    for (int i = 0; i < 64; ++i) terms.push_back(lax::mul(x[i % 2], 1.5 + i));
    while (terms.size() > 1) {
      Arrays next;
      for (std::size_t i = 0; i + 1 < terms.size(); i += 2)
        next.push_back(lax::add(terms[i], terms[i + 1]));
      terms = next;
    }
    return terms;
  };
  EXPECT_FALSE(is_interleaved(
      check(wide, {uniform({10'000}, DType::f32), uniform({10'000}, DType::f32, -1, 1, 2)}, 1)));
}

// Lines that lie in memory are asked for ahead; those in caches are there soon enough, and so are those
// of loops that do little else than read.
TEST(Interleave, AsksAheadForWhatLiesInMemory) {
  const auto prefetches = [](const Compiled& e) {
    const std::string ir = e->text("ir");
    int n = 0;
    for (std::size_t at = 0; (at = ir.find("call void @llvm.prefetch", at)) != std::string::npos;
         ++at)
      ++n;
    return n;
  };
  const auto asked = [&](const auto& f, std::int64_t n, DType dtype) {
    const Compiled e = check(f, {uniform({n}, dtype), uniform({n}, dtype, -1, 1, 2)}, 1);
    EXPECT_TRUE(is_interleaved(e));
    return prefetches(e);
  };
  const auto f = [](std::span<const Array> x) { return Arrays{polynomial(x[0], x[0])}; };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::int64_t large = (1 << 20) / static_cast<std::int64_t>(size_of(dtype)) + 13;
    EXPECT_EQ(asked(f, 8192, dtype), 0);
    EXPECT_GE(asked(f, large, dtype), 1);
    const auto of_two = [](std::span<const Array> x) {
      return Arrays{polynomial(polynomial(x[0], x[0]), lax::mul(x[1], x[1]))};
    };
    EXPECT_GE(asked(of_two, large, dtype), 2);
    const auto reads = [](std::span<const Array> x) { return Arrays{lax::mul(x[0], x[1])}; };
    const Arrays x = {uniform({large}, dtype), uniform({large}, dtype, -1, 1, 2)};
    EXPECT_EQ(prefetches(check(reads, x, 1)), 0);
  }
}

}  // namespace
}  // namespace telamon::testing
