// What is moved about, computed with element by element and moved back: the same bits without the moves.
#include <algorithm>
#include <limits>
#include <random>

#include "compiler/support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

/// [n, m] -> [n, m], in another order.
Array turned(const Array& x) {
  const Shape& shape = x.shape();
  return lax::transpose(lax::reshape(x, {shape[1], shape[0]}), {1, 0});
}
Array turned_back(const Array& x) { return lax::reshape(lax::transpose(x, {1, 0}), x.shape()); }
Program of(const std::function<Array(const Array&)>& f) {
  return [f](std::span<const Array> x) { return Arrays{f(x[0])}; };
}
std::size_t transposes(const std::string& text) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find("= transpose", at)) != std::string::npos; ++at) ++n;
  return n;
}
std::size_t left(const Program& f, const Arrays& inputs) {
  return transposes(check(f, inputs)->text("jaxpr"));
}
const Shape kShape{12, 20};

TEST(Moves, OfGradientsVanish) {
  const auto sines = [](const Array& x) {
    Array y = x;
    for (int i = 0; i < 5; ++i) y = lax::sin(turned(y) * .5);
    return sum(y);
  };
  const auto f = [&](const Array& x) { return grad(sines)(x); };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Compiled e = check(of(f), {uniform(kShape, dtype)});
    EXPECT_EQ(transposes(e->text("jaxpr")), 0u);
    EXPECT_EQ(e->info().kernels, 1);
  }
}

// Who tells elements apart by their places has them there: once, whoever asks.
TEST(Moves, AreMadeWhereTheyAreAskedFor) {
  const auto f = [](const Array& x) {
    const Array y = lax::exp(turned(x)), z = turned_back(y * y + 1.);
    return z - x + lax::rev(y, {0}) * lax::rev(y, {1});
  };
  EXPECT_EQ(left(of(f), {uniform(kShape, DType::f64)}), 1u);
}

// Nothing is moved more often than it was.
TEST(Moves, AreLeftWhereNoneIsSaved) {
  const auto whole = [](const std::function<Array(const Array&)>& f) {
    const Arrays x = {uniform(kShape, DType::f64)};
    EXPECT_EQ(check(of(f), x)->text("jaxpr"),
              check(of(f), x, -1, 0, {.disabled = {"moves"}})->text("jaxpr"));
  };
  whole([](const Array& x) { return lax::sin(turned(x)) + lax::cos(turned(x)); });
  whole([](const Array& x) { return turned(lax::sin(turned(x))); });
  whole([](const Array& x) { return lax::sin(turned(x)) + x; });
}

// Numbers that are the same everywhere have no place; infinities, NaN and zeros are those of the program.
TEST(Moves, TakeRepeatedNumbersAlong) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> numbers;
  for (int i = 0; i < 48; ++i)
    for (const double v : {-0.0, 0.0, inf, -inf, inf - inf}) numbers.push_back(v * (i % 3));
  const auto f = [](std::span<const Array> x) {
    const Array same = lax::broadcast_in_dim(x[1], kShape, {});
    const Array y = lax::select(lax::gt(turned(x[0]), same), same, turned(x[0]) * same);
    return Arrays{turned_back(y), turned_back(lax::neg(y)) * x[0], turned_back(y - same)};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Compiled e = check(f, {Array(numbers, kShape).astype(dtype), Array(-2.).astype(dtype)});
    EXPECT_EQ(transposes(e->text("jaxpr")), 0u);
  }
}

// Within loops and branches, too.
TEST(Moves, OfLoopsVanish) {
  const auto f = [](const Array& x) {
    return fori_loop(
        0, 4, [](const Array&, const Array& y) { return turned_back(lax::sin(turned(y))) * .5; },
        x);
  };
  EXPECT_EQ(left(of(f), {uniform(kShape, DType::f64)}), 0u);
}

// Any moves, in any order, of values that are used once or often, and gradients through them: the bits of the eager program.
TEST(Moves, AtRandomGiveTheSameBits) {
  const std::vector<Shape> shapes = {{24},      {4, 6},    {6, 4}, {2, 3, 4},
                                     {4, 1, 6}, {2, 2, 6}, {1, 24}};
  int fewer = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const auto program = [&](const Array& x, const Array& y) {
      std::mt19937 random(seed);
      const auto below = [&](std::size_t n) { return random() % n; };
      Arrays all{x, y};
      const auto some = [&] {
        return all[all.size() - 1 - below(std::min<std::size_t>(all.size(), 3))];
      };
      const auto in_any_order = [&](const Array& a) {
        Shape order;
        for (std::int64_t d = 0; d < a.ndim(); ++d) order.push_back(d);
        std::shuffle(order.begin(), order.end(), random);
        return lax::transpose(a, order);
      };
      for (int step = 0; step < 12; ++step) {
        const Array a = some(), b = some();
        switch (below(8)) {
          case 0:
          case 1: all.push_back(lax::reshape(a, shapes[below(shapes.size())])); break;
          case 2:
          case 3: all.push_back(in_any_order(a)); break;
          case 4: all.push_back(lax::sin(a) * a); break;
          case 5: all.push_back(lax::select(lax::gt(a, a * 0. + .25), a, lax::neg(a))); break;
          case 6: all.push_back(a * .5 + lax::reshape(b, a.shape())); break;
          default: all.push_back(below(4) == 0 ? lax::rev(a, {0}) : lax::exp(a * -.5));
        }
      }
      return all.back();
    };
    const auto f = [&](std::span<const Array> x) {
      const auto [by_x, by_y] = grad<0, 1>(
          [&](const Array& a, const Array& b) { return sum(program(a, b)); })(x[0], x[1]);
      return Arrays{program(x[0], x[1]), by_x, by_y};
    };
    const Arrays x = {uniform({4, 6}, DType::f64), uniform({2, 3, 4}, DType::f64, -1, 1, 2)};
    const Compiled with = check(f, x), without = check(f, x, -1, 0, {.disabled = {"moves"}});
    const std::size_t now = transposes(with->text("jaxpr")),
                      before = transposes(without->text("jaxpr"));
    EXPECT_LE(now, before);
    fewer += now < before ? 1 : 0;
  }
  EXPECT_GT(fewer, 20);
}

}  // namespace
}  // namespace telamon::testing
