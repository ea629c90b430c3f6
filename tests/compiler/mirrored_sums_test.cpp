// Sums over pairs of what is the same, or changes its sign, when the pair is turned round: one fold for both.
#include <random>

#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

// How many folds the compiler has made of the two.
std::int64_t folds(const Compiled& f) {
  const std::string text = f->text("jaxpr");
  std::int64_t n = 0;
  for (std::size_t at = text.find("= reduce_sum"); at != std::string::npos;
       at = text.find("= reduce_sum", at + 1))
    ++n;
  return n;
}

Array first_of(const Array& x) { return expand_dims(x, 1); }
Array second_of(const Array& x) { return expand_dims(x, 0); }
Arrays both_sums(const Array& pairs) { return {sum(pairs, 0), sum(pairs, 1)}; }

using OfPairs = std::function<Array(const Array& x, const Array& y)>;
Compiled check_pairs(const OfPairs& f, const Array& x, double tolerance = 0) {
  return check(
      [&](std::span<const Array> a) { return both_sums(f(first_of(a[0]), second_of(a[0]))); }, {x},
      -1, tolerance);
}
// Exact in any order of sums, with zeros of both signs and equal ones.
Array small_integers(const Shape& shape, DType dtype = DType::f64, unsigned seed = 1) {
  const Array x = round(uniform(shape, DType::f64, -2.4, 2.4, seed));
  return x.astype(dtype);
}

TEST(MirroredSums, AreFoldedOnce) {
  const std::map<std::string, OfPairs> once{
      {"sub", [](const Array& x, const Array& y) { return x - y; }},
      {"add", [](const Array& x, const Array& y) { return x + y; }},
      {"mul", [](const Array& x, const Array& y) { return x * y; }},
      {"neg", [](const Array& x, const Array& y) { return -(y - x); }},
      {"cubed", [](const Array& x, const Array& y) { return square(x - y) * (x - y); }},
      {"of_both", [](const Array& x, const Array& y) { return (x - y) * (square(x) + square(y)); }},
      {"turned", [](const Array& x, const Array& y) { return (x - y) - (y - x); }},
      {"abs", [](const Array& x, const Array& y) { return abs(x - y) * (x * y); }},
      {"select",
       [](const Array& x, const Array& y) { return where(abs(x - y) > 1, x - y, 2 * (x - y)); }},
      {"equal", [](const Array& x, const Array& y) { return where(x == y, x * y, x + y); }}};
  for (const auto& [name, f] : once) {
    for (const DType dtype : {DType::f64, DType::f32, DType::i32}) {
      SCOPED_TRACE(name);
      // The reference has both folds.
      EXPECT_EQ(folds(check_pairs(f, small_integers({40}, dtype))), 1);
    }
  }
}

TEST(MirroredSums, OthersAreFoldedBothWays) {
  const std::map<std::string, OfPairs> twice{
      {"weighted", [](const Array& x, const Array& y) { return x - 2 * y; }},
      {"one_sided", [](const Array& x, const Array& y) { return square(x) * y; }},
      {"less", [](const Array& x, const Array& y) { return where(x < y, x, y + 1); }},
      {"sign", [](const Array& x, const Array& y) { return sign(x - y) + x; }},
      {"power", [](const Array& x, const Array& y) { return (x - y) * square(x - y) + 1 + x; }}};
  for (const auto& [name, f] : twice) {
    SCOPED_TRACE(name);
    EXPECT_EQ(folds(check_pairs(f, small_integers({40}))), 2);
  }
}

// 1 / (x - y) is infinite where both are equal, with the same sign for (i, j) and (j, i).
TEST(MirroredSums, WhatTellsZerosApartIsNotMirrored) {
  const Array x({1.0, 2.0, 1.0, 5.0}), apart({1.0, 2.0, 4.0, 5.0});
  const auto inverse = [](const Array& a, const Array& b) { return 1 / (a - b); };
  const auto checked = [&](const Array& of) {
    return check(
        [&](std::span<const Array> a) {
          const Array p = inverse(first_of(a[0]), second_of(a[0]));
          const Array d = first_of(a[0]) - second_of(a[0]);
          const Array q = lax::atan2(d, lax::full_like(d, -1));  // pi, of 0.0; -pi, of -0.0
          Arrays out = both_sums(p);
          for (const Array& s : both_sums(q)) out.push_back(s);
          return out;
        },
        {of}, -1, 16);
  };
  checked(x);
  checked(apart);
}

TEST(MirroredSums, ThereMayBeMoreAxes) {
  for (const Shape& shape : {Shape{30, 30, 3}, Shape{30, 30, 20}}) {
    const Program f = [](std::span<const Array> a) {
      const Array r = expand_dims(a[0], 1) - expand_dims(a[0], 0);
      const Array w = square(sum(square(r), -1)) + 1;
      return both_sums(expand_dims(w, 2) * r);
    };
    const Compiled c = check(f, {small_integers({shape[0], shape[2]})});
    EXPECT_EQ(c->text("jaxpr").find("reduce_sum [ axes=(0,)"), std::string::npos);
  }
  const Program batch = [](std::span<const Array> a) {
    const auto one = [](const Array& x) {
      const Arrays s = both_sums(square(first_of(x) - second_of(x)) * (first_of(x) - second_of(x)));
      return s[0] * 2 + s[1];
    };
    return Arrays{vmap(one)(a[0])};
  };
  EXPECT_EQ(folds(check(batch, {small_integers({5, 40})})), 1);
}

TEST(MirroredSums, ForcesAreGradientsOfEnergies) {
  const auto energy = [](const Array& x, const Array& m) {
    const Array r = expand_dims(x, 1) - expand_dims(x, 0);
    return sum(first_of(m) * second_of(m) * rsqrt(sum(square(r), -1) + 0.1));
  };
  const Program forces = [&](std::span<const Array> a) { return Arrays{grad(energy)(a[0], a[1])}; };
  const Arrays x{uniform({70, 3}, DType::f64), uniform({70}, DType::f64, 1, 2, 2)};
  EXPECT_EQ(check(forces, x, -1, 1e5)->text("jaxpr").find("reduce_sum [ axes=(0,)"),
            std::string::npos);
  const Program in_time = [&](std::span<const Array> a) {
    return Arrays{fori_loop(
        0, 5, [&](const Array&, const Array& p) { return p + 0.01 * grad(energy)(p, a[1]); },
        a[0])};
  };
  check(in_time, x, -1, 1e6);
  const Program second = [&](std::span<const Array> a) {
    const auto force = [&](const Array& p) { return sum(square(grad(energy)(p, a[1]))); };
    return Arrays{grad(force)(a[0])};
  };
  check(second, x, -1, 1e7);
}

TEST(MirroredSums, OfAMatrixAreFoldedBothWays) {
  const Array a = small_integers({30, 30});
  EXPECT_EQ(folds(check([](std::span<const Array> x) { return both_sums(square(x[0])); }, {a})), 2);
  // Not what depends on where it is, but a distance from the diagonal.
  check(
      [](std::span<const Array> x) {
        const Array i = arange(30).astype(DType::f64);
        const Array d = first_of(i) - second_of(i);
        Arrays out = both_sums(d * square(x[1]));
        for (const Array& s : both_sums(where(abs(d) < 3, first_of(x[0]) - second_of(x[0]), d)))
          out.push_back(s);
        return out;
      },
      {small_integers({30}), Array(3.0)});
  check([](std::span<const Array> x) { return both_sums(x[0] - transpose(x[0])); }, {a});
}

// Random expressions of pairs, of which no one knows whether they are mirrored; sums are exact.
TEST(MirroredSums, OfRandomProgramsAreRight) {
  int fewer = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Program f = [seed](std::span<const Array> a) {
      std::mt19937 draw(seed);
      const auto pick = [&](std::size_t n) {
        return std::uniform_int_distribution<std::size_t>(0, n - 1)(draw);
      };
      Arrays pool;
      for (const Array& x : a) {
        pool.push_back(lax::broadcast_in_dim(x, {12, 12}, {0}));
        pool.push_back(lax::broadcast_in_dim(x, {12, 12}, {1}));
      }
      const std::size_t given = pool.size();
      for (int k = 0; k < 9; ++k) {
        const Array &x = pool[pick(pool.size())], &y = pool[pick(pool.size())];
        switch (pick(9)) {
          case 0: pool.push_back(lax::add(x, y)); break;
          case 1: pool.push_back(lax::sub(x, y)); break;
          case 2:
            pool.push_back(lax::mul(lax::clamp(lax::full_like(x, -3), x, lax::full_like(x, 3)), y));
            break;
          case 3: pool.push_back(lax::neg(x)); break;
          case 4: pool.push_back(lax::abs(x)); break;
          case 5: pool.push_back(lax::select_n(lax::eq(x, y), Arrays{x, y})); break;
          case 6: pool.push_back(lax::sign(x)); break;
          case 7: pool.push_back(lax::max(x, y)); break;
          default: {  // the same the other way round
            const std::size_t i = 2 * pick(given / 2);
            pool.push_back(lax::sub(pool[i], pool[i + 1]));
            break;
          }
        }
      }
      Arrays out;
      for (std::size_t i = given; i < pool.size(); ++i) {
        for (const Array& s : both_sums(pool[i])) out.push_back(s);
      }
      return out;
    };
    SCOPED_TRACE(seed);
    const Arrays x{small_integers({12}), small_integers({12}, DType::f64, 2)};
    fewer += folds(check(f, x)) < folds(check(f, x, -1, 0, {.disabled = {"mirrored_sums"}}));
  }
  EXPECT_GT(fewer, 30);
}

}  // namespace
}  // namespace telamon::testing
