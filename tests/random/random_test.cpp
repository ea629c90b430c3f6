// Random numbers are JAX's, bit for bit. The literals were printed by JAX 0.10.2 with 64-bit types on
// (jax_enable_x64); the comment at each gives the expression, with r = jax.random, k = r.PRNGKey.
#include <numeric>

#include "numpy/expect.hpp"

namespace telamon_test {
namespace {

namespace random = tl::random;
using random::key;
using testing::HasSubstr;

TEST(Threefry, BlockFunctionHasTheKnownAnswers) {
  // The test vectors of Random123 (Salmon et al., 2011): key, counter, result.
  struct Case {
    std::uint32_t k0, k1, x0, x1, y0, y1;
  };
  const Case cases[] = {
      {0, 0, 0, 0, 0x6b200159, 0x99ba4efe},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x1cb996fc, 0xbb002be7},
      {0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3, 0xc4923a9c, 0x483df7a0},
  };
  for (const Case& c : cases) {
    const auto word = [](std::uint32_t w) { return Array(std::vector<std::uint32_t>{w}); };
    const Arrays y = tl::lax::threefry2x32(word(c.k0), word(c.k1), word(c.x0), word(c.x1));
    EXPECT_EQ(y[0].item<std::uint32_t>(), c.y0);
    EXPECT_EQ(y[1].item<std::uint32_t>(), c.y1);
  }
}

TEST(Keys, AreTheTwoWordsOfTheSeed) {
  expect_array<std::uint32_t>(key(0), {2}, {0, 0});
  expect_array<std::uint32_t>(key((std::uint64_t{1} << 40) + 7), {2}, {256, 7});  // k(2**40 + 7)
}

TEST(Keys, SplitAsInJax) {
  // r.split(k(0), 4)
  expect_array<std::uint32_t>(random::split(key(0), 4), {4, 2},
                              {1797259609, 2579123966, 928981903, 3453687069, 4146024105,
                               2718843009, 2467461003, 3840466878});
}

TEST(Keys, FoldInGivesTheKeysOfSplit) {
  const Array keys = random::split(key(0), 4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(tl::array_equal(random::fold_in(key(0), i), keys(i)));
  // r.fold_in(k(42), 7)
  expect_array<std::uint32_t>(random::fold_in(key(42), 7), {2}, {2547012911, 1371500959});
}

TEST(Keys, OfWrongTypeAreNamed) {
  const std::string text =
      error_of<tl::TypeError>([] { return random::uniform(tl::zeros({3}), {2}); });
  EXPECT_THAT(text, HasSubstr("needs a key, u32[2], got f32[3]"));
  EXPECT_THAT(text, HasSubstr("random_test.cpp"));
}

TEST(Bits, OfEveryWidthAreJaxBits) {
  // r.bits(k(1701), (5,), 'uint8'), (5,) 'uint16', (3,) 'uint32', (3,) 'uint64'
  expect_array<std::uint8_t>(random::bits(key(1701), {5}, tl::u8), {5}, {37, 59, 52, 178, 111});
  expect_array<std::uint16_t>(random::bits(key(1701), {5}, tl::u16), {5},
                              {42789, 29755, 60468, 48050, 8815});
  expect_array<std::uint32_t>(random::bits(key(1701), {3}), {3},
                              {1111271205, 2679469115, 974515252});
  expect_array<std::uint64_t>(random::bits(key(1701), {3}, tl::u64), {3},
                              {3182764935064573181u, 366096495144982249u, 241365115613244543u});
}

TEST(Bits, OfMatricesAndScalarsCountRowMajor) {
  // r.bits(k(5), (2, 3), 'uint32'), r.bits(k(5), (), 'uint32')
  expect_array<std::uint32_t>(
      random::bits(key(5), {2, 3}), {2, 3},
      {2003086470, 3955154020, 3160280976, 408371909, 3927703089, 2910825445});
  expect_array<std::uint32_t>(random::bits(key(5), {}), {}, {2003086470});
}

TEST(Uniform, IsJaxBitForBit) {
  // r.uniform(k(3), (4,), 'float32'), 'float64', and 'float32' from -2 to 5
  expect_array<float>(
      random::uniform(key(3), {4}), {4},
      {0.07405257225036621f, 0.938144326210022f, 0.6489570140838623f, 0.9756209850311279f});
  expect_array<double>(
      random::uniform(key(3), {4}, tl::f64), {4},
      {0.8653929000279257, 0.4532044109693594, 0.2385376809645079, 0.2042374079588094});
  expect_near<float>(
      random::uniform(key(3), {4}, tl::f32, -2.0, 5.0), {4},
      {-1.4816319942474365f, 4.567010402679443f, 2.542699098587036f, 4.829346656799316f}, 1.2e-7);
}

TEST(Normal, IsJaxWithinTheErrorOfErfInv) {
  // r.normal(k(3), (4,), 'float32'), 'float64'
  expect_near<float>(
      random::normal(key(3), {4}), {4},
      {-1.4462569952011108f, 1.5393810272216797f, 0.38250625133514404f, 1.970701813697815f}, 1e-6);
  expect_near<double>(
      random::normal(key(3), {4}, tl::f64), {4},
      {1.1048739767803086, -0.11756943795234803, -0.7110143201629989, -0.8265806018037718}, 1e-13);
}

TEST(Normal, HasMeanZeroAndVarianceOne) {
  const Array x = random::normal(key(11), {20000});
  EXPECT_NEAR(tl::mean(x).item<double>(), 0, 0.03);
  EXPECT_NEAR(tl::var(x).item<double>(), 1, 0.04);
}

TEST(Randint, IsJaxInEveryDtype) {
  // r.randint(k(9), (8,), 0, 10, 'int32')
  expect_array<int>(random::randint(key(9), {8}, 0, 10), {8}, {7, 1, 4, 3, 3, 4, 7, 7});
  // r.randint(k(9), (4,), -10**12, 10**12, 'int64')
  expect_array<std::int64_t>(random::randint(key(9), {4}, std::int64_t{-1000000000000},
                                             std::int64_t{1000000000000}, tl::i64),
                             {4}, {831340022825, -643292439193, -291154305289, 100566632111});
  // r.randint(k(9), (8,), 0, 256, 'uint8'): the bound is beyond the dtype
  expect_array<std::uint8_t>(random::randint(key(9), {8}, 0, 256, tl::u8), {8},
                             {1, 161, 184, 125, 227, 66, 83, 5});
  // r.randint(k(9), (8,), -128, 127, 'int8')
  expect_array<std::int8_t>(random::randint(key(9), {8}, -128, 127, tl::i8), {8},
                            {-86, -62, 126, 75, -10, 46, -121, -31});
}

TEST(Randint, OfAnEmptyRangeIsItsLowerBound) {
  expect_array<int>(random::randint(key(9), {3}, 5, 5), {3}, {5, 5, 5});
}

// JAX clips such bounds, and draws from another range than it was asked for.
TEST(Randint, RefusesBoundsThatTheDtypeCannotHold) {
  EXPECT_THAT(error_of<tl::ValueError>([] { return random::randint(key(9), {3}, 0, 300, tl::u8); }),
              HasSubstr("random::randint: maxval is out of the range of u8, got 300; pass a wider "
                        "dtype"));
  EXPECT_THAT(
      message_of<tl::ValueError>([] { return random::randint(key(9), {3}, -5, 3, tl::u8); }),
      HasSubstr("minval is out of the range of u8, got -5"));
  EXPECT_THROW(random::randint(key(9), {3}, 0, std::int64_t{1} << 40), tl::ValueError);
  EXPECT_THROW(random::randint(key(9), {3}, 128, 129, tl::i8), tl::ValueError);
  EXPECT_EQ(random::randint(key(9), {3}, -128, 128, tl::i8).size(), 3);
  EXPECT_EQ(random::randint(key(9), {2}, 0, Array({100, 256}), tl::u8).size(), 2);
}

TEST(Random, RefusesSizesByTheNameOfTheFunction) {
  const std::int64_t huge = std::int64_t{1} << 50;
  for (const std::int64_t n : {std::int64_t{-3}, huge, huge << 12}) {
    const auto named = [](const std::string& name, const auto& f) {
      EXPECT_THAT(error_of([&] { return f(); }), testing::AllOf(HasSubstr("random::" + name + ": "),
                                                                HasSubstr("random_test.cpp")));
    };
    named("uniform", [&] { return random::uniform(key(1), {n}); });
    named("normal", [&] { return random::normal(key(1), {n, 2}); });
    named("randint", [&] { return random::randint(key(1), {n}, 0, 5); });
    named("bernoulli", [&] { return random::bernoulli(key(1), 0.5, Shape{n}); });
    named("bits", [&] { return random::bits(key(1), {n}); });
    named("split", [&] { return random::split(key(1), n); });
  }
}

TEST(Permutation, IsJax) {
  // r.permutation(k(4), 10)
  expect_array<int>(random::permutation(key(4), 10), {10}, {8, 6, 4, 7, 9, 5, 1, 3, 0, 2});
  // r.permutation(k(4), jnp.arange(12).reshape(4, 3)), axis=0 and 1
  const Array x = tl::arange(12).reshape({4, 3});
  expect_array<int>(random::permutation(key(4), x), {4, 3}, {3, 4, 5, 9, 10, 11, 0, 1, 2, 6, 7, 8});
  expect_array<int>(random::permutation(key(4), x, 1), {4, 3},
                    {1, 0, 2, 4, 3, 5, 7, 6, 8, 10, 9, 11});
}

TEST(Permutation, OfManyTakesTwoRoundsAndLosesNothing) {
  const Array p = random::permutation(key(4), 3000);
  // r.permutation(k(4), 3000)[:8]
  expect_array<int>(p(tl::slice(0, 8)), {8}, {2860, 2443, 626, 2299, 1609, 221, 923, 1114});
  std::vector<int> expected(3000);
  std::iota(expected.begin(), expected.end(), 0);
  expect_array<int>(tl::sort(p), {3000}, expected);
}

// NumPy refuses such bounds, and JAX gives infinities.
TEST(Uniform, FillsRangesWhoseWidthOverflows) {
  for (const auto& [dtype, end] : {std::pair{tl::f64, 1e308}, {tl::f32, 3e38}}) {
    const auto draw = [&, d = dtype](const Array& low, const Array& high) {
      return random::uniform(key(3), {1000}, d, low, high);
    };
    const Array low = tl::asarray(-end, dtype), high = tl::asarray(end, dtype);
    const Array x = draw(low, high);
    EXPECT_TRUE(bool(tl::all((x >= low) & (x < high))));
    const Array u = random::uniform(key(3), {1000}, dtype, -1.0, 1.0);
    EXPECT_TRUE(tl::allclose(x / end, u, {.rtol = 1e-6, .atol = 1e-6}));
    EXPECT_TRUE(tl::array_equal(random::uniform(key(3), {1000}, dtype, -end, end), x));
    EXPECT_TRUE(tl::array_equal(tl::jit(draw)(low, high), x));
    const auto width = [&](const Array& at) { return tl::sum(draw(-at, at) / end); };
    EXPECT_TRUE(bool(tl::isfinite(tl::grad(width)(high))));
  }
}

TEST(Uniform, OfTracedBoundsHasTheNumbersOfKnownOnes) {
  const auto draw = [](const Array& low, const Array& high) {
    return random::uniform(key(3), {64}, tl::f32, low, high);
  };
  const Array low = tl::asarray(-2.0, tl::f32), high = tl::asarray(5.0, tl::f32);
  const Array x = random::uniform(key(3), {64}, tl::f32, -2.0, 5.0);
  EXPECT_TRUE(tl::array_equal(tl::jit(draw)(low, high), x));
  EXPECT_TRUE(tl::array_equal(draw(tl::full({64}, low), high), x));
}

TEST(Permutation, RefusesANegativeNumber) {
  EXPECT_THAT(error_of<tl::ValueError>([] { (void)random::permutation(key(0), -1); }),
              HasSubstr("random::permutation: a number of elements must not be negative, got -1"));
}

TEST(Bernoulli, ComparesUniformsWithTheProbability) {
  // r.bernoulli(k(6), jnp.float32(0.3), (10,))
  expect_array<bool>(random::bernoulli(key(6), 0.3, Shape{10}), {10},
                     {false, true, true, true, false, false, false, true, false, false});
}

TEST(Random, OfArraysOfKeysIsAVmap) {
  const Array keys = random::split(key(0), 3);
  const Array all = tl::vmap([](const Array& k) { return random::uniform(k, {2}); })(keys);
  ASSERT_EQ(all.shape(), (Shape{3, 2}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(tl::array_equal(all(i), random::uniform(keys(i), {2})));
}

TEST(Random, UnderJitIsTheSame) {
  const auto draw = [](const Array& k) { return random::normal(k, {3, 2}); };
  EXPECT_TRUE(tl::allclose(tl::jit(draw)(key(8)), draw(key(8))));
}

TEST(Gumbel, NumbersAreThoseOfJax) {
  // r.gumbel(k(5), (4,), dtype='float32'), r.gumbel(k(5), (3,))
  expect_near<float>(random::gumbel(key(5), {4}), {4},
                     {0.27081865f, 2.49587345f, 1.18161416f, -0.85570019f}, 1e-6);
  expect_near<double>(random::gumbel(key(5), {3}, tl::f64), {3},
                      {0.7870860216630391, -1.1164936934226324, 1.7256444640935666}, 1e-14);
}

TEST(Categorical, IndicesAreThoseOfJax) {
  // r.categorical(k(0), [0.5, -1.0, 2.0, 0.0], shape=(12,))
  const Array logits({0.5, -1.0, 2.0, 0.0});
  expect_array<std::int32_t>(random::categorical(key(0), logits, -1, Shape{12}), {12},
                             {2, 2, 2, 1, 3, 2, 2, 2, 0, 2, 2, 2});
  // of l = float32 [[0.1, 1.2, -0.3], [2.0, 0.0, 0.5]]: categorical(k(7), l), (k(7), l, axis=0),
  // (k(3), l, axis=0, shape=(4, 3)), (k(3), l, shape=(4, 2))
  const Array rows({{0.1f, 1.2f, -0.3f}, {2.0f, 0.0f, 0.5f}});
  expect_array<std::int32_t>(random::categorical(key(7), rows), {2}, {1, 0});
  expect_array<std::int32_t>(random::categorical(key(7), rows, 0), {3}, {1, 0, 1});
  expect_array<std::int32_t>(random::categorical(key(3), rows, 0, Shape{4, 3}), {4, 3},
                             {1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 1});
  expect_array<std::int32_t>(random::categorical(key(3), rows, -1, Shape{4, 2}), {4, 2},
                             {1, 0, 1, 0, 2, 0, 0, 2});
}

TEST(Categorical, NeverGivesWhatHasNoProbability) {
  // r.categorical(k(9), [-inf, 0., -inf, 1.], shape=(10,))
  const Array logits({-tl::inf, 0.0, -tl::inf, 1.0});
  expect_array<std::int32_t>(random::categorical(key(9), logits, -1, Shape{10}), {10},
                             {3, 3, 3, 1, 1, 3, 1, 1, 3, 1});
}

TEST(Categorical, IsFoundAsOftenAsProbable) {
  const Array p({0.1, 0.2, 0.7});
  const Array found = random::categorical(key(4), tl::log(p), -1, Shape{20000});
  const Array counts = tl::sum(tl::one_hot(found, 3, tl::f64), 0) / 20000;
  EXPECT_LT(tl::max(tl::abs(counts - p)).item<double>(), 0.01);
}

TEST(Categorical, NamesWrongArguments) {
  const auto text = [](const auto& f) { return message_of(f); };
  const Array logits({{0.5, -1.0}, {2.0, 0.0}});
  EXPECT_THAT(text([&] { random::categorical(key(0), tl::ones({3, 0})); }),
              HasSubstr("random::categorical: there is nothing to choose from along axis -1 of "
                        "f32[3,0]"));
  EXPECT_THAT(text([&] { random::categorical(key(0), logits, 2); }),
              HasSubstr("axis 2 is out of bounds"));
  EXPECT_THAT(text([&] { random::categorical(key(0), logits, -1, Shape{3}); }),
              HasSubstr("must end with that of the logits less their axis"));
  EXPECT_THAT(text([&] { random::categorical(key(0), Array({1, 2})); }),
              HasSubstr("needs dtype f32 or f64"));
}

}  // namespace
}  // namespace telamon_test
