// Loops whose state is computed in one order and handed on in another: the same numbers without transposes between trips.
#include "compiler/support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

/// How many transposes the bodies of loops have.
std::size_t within_loops(const Compiled& e) {
  const std::string text = e->text("jaxpr");
  std::size_t n = 0;
  for (std::size_t at = text.find("= scan"); at != std::string::npos;
       at = text.find("= scan", at)) {
    const std::size_t begin = text.find("{ lambda", at), end = text.find(" }", begin + 8);
    for (at = begin; (at = text.find("= transpose", at)) < end; ++at) ++n;
    at = end;
  }
  return n;
}

struct Network {
  Array w, u;
  Array operator()(const Array& state, const Array& input) const {
    return tanh(matmul(w, state) + matmul(u, input));
  }
};
Arrays operands(DType dtype, std::int64_t members = 40, std::int64_t states = 24) {
  return {uniform({states, states}, dtype, -.3, .3), uniform({states, 3}, dtype, -1, 1, 2),
          uniform({members, states}, dtype, -1, 1, 3), uniform({members, 9, 3}, dtype, -1, 1, 4)};
}
// The states after all trips, or those of all trips.
Program batch(bool rows, bool reverse = false) {
  return [=](std::span<const Array> x) {
    const Network step{x[0], x[1]};
    const auto run = [&](const Array& start, const Array& inputs) {
      return scan(
          [&](const Array& c, const Array& input) {
            const Array next = step(c, input);
            return std::pair{next, next};
          },
          start, inputs, {.reverse = reverse});
    };
    const auto [last, all] = vmap(run)(x[2], x[3]);
    return rows ? Arrays{last, all} : Arrays{last};
  };
}

TEST(CarriedMoves, OfBatchesOfProductsVanish) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool rows : {false, true}) {
      for (const bool reverse : {false, true}) {
        const Program f = batch(rows, reverse);
        const Compiled with = check(f, operands(dtype), -1, 1e3),
                       without =
                           check(f, operands(dtype), -1, 1e3, {.disabled = {"carried_moves"}});
        EXPECT_LT(within_loops(with), within_loops(without)) << with->text("jaxpr");
      }
    }
  }
}

// What the state was before each trip, too, and who does not care for all of it.
TEST(CarriedMoves, OfRowsThatAreTheStateAsItCame) {
  const auto f = [](std::span<const Array> x) {
    const Network step{x[0], x[1]};
    const auto run = [&](const Array& start, const Array& inputs) {
      return scan([&](const Array& c, const Array& input) { return std::pair{step(c, input), c}; },
                  start, inputs);
    };
    return Arrays{vmap(run)(x[2], x[3]).second};
  };
  const Compiled with = check(f, operands(DType::f64), -1, 1e3),
                 without = check(f, operands(DType::f64), -1, 1e3, {.disabled = {"carried_moves"}});
  EXPECT_LT(within_loops(with), within_loops(without));
}

TEST(CarriedMoves, OfGradientsAndOfLoopsWithin) {
  const auto loss = [](const Array& w, std::span<const Array> x) {
    const Arrays of_w{w, x[1], x[2], x[3]};
    return sum(square(batch(true)(of_w)[1]));
  };
  const auto f = [&](std::span<const Array> x) {
    const auto descend = [&](const Array&, const Array& w) {
      return w - .01 * grad([&](const Array& v) { return loss(v, x); })(w);
    };
    return Arrays{fori_loop(0, 5, descend, x[0])};
  };
  check(f, operands(DType::f64), -1, 1e5);
  check(f, operands(DType::f32, 65, 20), -1, 1e5);
}

// Two states that are handed to each other, of which one is transposed, and one that more than the product reads.
TEST(CarriedMoves, LeaveWhatOthersReadInTheOldOrder) {
  const auto f = [](std::span<const Array> x) {
    const auto step = [&](const std::pair<Array, Array>& c) {
      const auto& [a, b] = c;
      const Array product = matmul(x[0], lax::transpose(a, {1, 0}));  // states x members
      const Array next = lax::transpose(tanh(product), {1, 0});
      return std::pair{std::pair{next + lax::rev(b, {0}), a}, none};
    };
    const auto [a, b] = scan(step, std::pair{x[2], x[2] * .5}, none, {.length = 6}).first;
    return Arrays{a, b};
  };
  check(f, operands(DType::f64), -1, 1e3);
}

TEST(CarriedMoves, AreNotTakenOutOfFewTripsOrOfSmallArrays) {
  for (const auto& [members, states] : {std::pair{40, 24}, std::pair{2, 20}, std::pair{1, 24}}) {
    for (const int length : {1, 2, 3, 4}) {
      const auto f = [&](std::span<const Array> x) {
        const auto step = [&](const Array& c) {
          return std::pair{lax::transpose(matmul(x[0], lax::transpose(c, {1, 0})), {1, 0}), c};
        };
        const auto [last, rows] = scan(step, x[2], none, {.length = length});
        return Arrays{last, rows};
      };
      check(f, operands(DType::f64, members, states), -1, 1e4);
    }
  }
}

}  // namespace
}  // namespace telamon::testing
