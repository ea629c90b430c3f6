// LSTM and GRU cells against their formulas written out, and their gradients.
#include <cmath>

#include "control_flow/support.hpp"

namespace telamon_test {
namespace {

namespace nn = tl::nn;
using tl::random::key;
using Matrix = std::vector<std::vector<double>>;

Matrix matrix(const Array& x) {
  Matrix out;
  for (std::int64_t i = 0; i < x.shape(0); ++i) out.push_back(values(x(i)));
  return out;
}
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
/// sum_i x[i] w[i][column]
double product(const std::vector<double>& x, const Matrix& w, std::size_t column) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * w[i][column];
  return sum;
}

constexpr std::int64_t kInputs = 3, kHidden = 4;
nn::Lstm some_lstm() { return nn::lstm_init(key(1), kInputs, kHidden, tl::f64); }
nn::Gru some_gru() {
  nn::Gru cell = nn::gru_init(key(2), kInputs, kHidden, tl::f64);
  cell.b = rows({3 * kHidden});  // so that every term counts
  cell.b_n = rows({kHidden}, 5);
  return cell;
}

TEST(Lstm, IsItsFormula) {
  const nn::Lstm cell = some_lstm();
  const Array x = rows({kInputs}), h = rows({kHidden}, 1), c = rows({kHidden}, 2);
  const nn::LstmState next = nn::lstm(cell, {h, c}, x);
  const Matrix w_x = matrix(cell.w_x), w_h = matrix(cell.w_h);
  const auto b = values(cell.b), xs = values(x), hs = values(h), cs = values(c);
  for (std::size_t k = 0; k < kHidden; ++k) {
    const auto gate = [&](std::size_t number) {
      const std::size_t column = number * kHidden + k;
      return product(xs, w_x, column) + product(hs, w_h, column) + b[column];
    };
    const double memory = logistic(gate(1)) * cs[k] + logistic(gate(0)) * std::tanh(gate(2));
    EXPECT_NEAR(value(next.c(static_cast<int>(k))), memory, 1e-14);
    EXPECT_NEAR(value(next.h(static_cast<int>(k))), logistic(gate(3)) * std::tanh(memory), 1e-14);
  }
}

TEST(Gru, IsItsFormula) {
  const nn::Gru cell = some_gru();
  const Array x = rows({kInputs}), h = rows({kHidden}, 1);
  const Array next = nn::gru(cell, h, x);
  const Matrix w_x = matrix(cell.w_x), w_h = matrix(cell.w_h);
  const auto b = values(cell.b), b_n = values(cell.b_n), xs = values(x), hs = values(h);
  for (std::size_t k = 0; k < kHidden; ++k) {
    const auto of_x = [&](std::size_t number) {
      return product(xs, w_x, number * kHidden + k) + b[number * kHidden + k];
    };
    const auto of_h = [&](std::size_t number) { return product(hs, w_h, number * kHidden + k); };
    const double r = logistic(of_x(0) + of_h(0)), z = logistic(of_x(1) + of_h(1));
    const double n = std::tanh(of_x(2) + r * (of_h(2) + b_n[k]));
    EXPECT_NEAR(value(next(static_cast<int>(k))), (1 - z) * n + z * hs[k], 1e-14);
  }
}

TEST(RecurrentCells, HaveRightDerivatives) {
  const nn::LstmState state{rows({kHidden}), rows({kHidden}, 1)};
  const auto lstm = [](const nn::Lstm& cell, const nn::LstmState& s, const Array& x) {
    return nn::lstm(cell, s, x);
  };
  tl::check_grads(lstm, std::tuple{some_lstm(), state, rows({kInputs}, 2)}, {.order = 2});
  const auto gru = [](const nn::Gru& cell, const Array& h, const Array& x) {
    return nn::gru(cell, h, x);
  };
  tl::check_grads(gru, std::tuple{some_gru(), rows({kHidden}), rows({kInputs}, 2)}, {.order = 2});
}

TEST(RecurrentCells, RunOverSequencesAndDifferentiateThroughThem) {
  const Array xs = rows({5, kInputs});
  const auto last = [&](const nn::Lstm& cell) {
    const auto step = [&](const nn::LstmState& s, const Array& x) {
      return std::pair{nn::lstm(cell, s, x), tl::none};
    };
    return tl::sum(tl::scan(step, nn::lstm_start(cell), xs).first.h);
  };
  const auto by_hand = [&](const nn::Lstm& cell) {
    nn::LstmState s = nn::lstm_start(cell);
    for (int t = 0; t < 5; ++t) s = nn::lstm(cell, s, xs(t));
    return tl::sum(s.h);
  };
  const nn::Lstm cell = some_lstm();
  EXPECT_NEAR(value(last(cell)), value(by_hand(cell)), 1e-14);
  const nn::Lstm got = tl::jit(tl::grad(last))(cell), want = tl::grad(by_hand)(cell);
  expect_equal(got.w_x, want.w_x);
  expect_equal(got.w_h, want.w_h);
  expect_equal(got.b, want.b);
}

TEST(RecurrentCells, TakeBatches) {
  const Array x = rows({6, kInputs}), h = rows({6, kHidden}, 1);
  const nn::Gru cell = some_gru();
  const auto one = [&](const Array& state, const Array& input) {
    return nn::gru(cell, state, input);
  };
  expect_equal(nn::gru(cell, h, x), tl::vmap(one)(h, x));
  const nn::LstmState start = nn::lstm_start(some_lstm(), {6});
  EXPECT_EQ(start.c.aval().to_string(), "f64[6,4]");
  EXPECT_EQ(nn::lstm(some_lstm(), start, x).h.aval().to_string(), "f64[6,4]");
}

TEST(RecurrentCells, StartWithSmallWeightsAndAnOpenForgetGate) {
  const nn::Lstm cell = nn::lstm_init(key(0), 7, 16);
  EXPECT_EQ(cell.w_x.aval().to_string(), "f32[7,64]");
  EXPECT_EQ(cell.w_h.aval().to_string(), "f32[16,64]");
  EXPECT_LE(value(tl::max(tl::abs(cell.w_h))), 0.25);
  EXPECT_GT(value(tl::max(tl::abs(cell.w_h))), 0.2);
  expect_near(tl::sum(cell.b.reshape({4, 16}), 1), {0, 16, 0, 0});
}

TEST(RecurrentCells, NameShapesThatDoNotFit) {
  const nn::Gru cell = some_gru();
  EXPECT_ERROR(ShapeError, nn::gru(cell, rows({kHidden}), rows({kInputs + 1})),
               "nn::gru: w_x f64[3,12]");
  EXPECT_ERROR(ShapeError, nn::gru(cell, rows({2, kHidden}), rows({kInputs})), "do not fit");
  EXPECT_ERROR(ValueError, nn::lstm_init(key(0), 0, 3), "sizes must be positive");
}

TEST(RecurrentCells, NameTheLineThatWantsTooManyHiddenUnits) {
  constexpr std::int64_t kMany = std::int64_t{1} << 62;
  const auto key_of_both = key(0);
  const auto expect_refused = [](int line, const std::string& wanted, const auto& f) {
    const std::string text = error_of<tl::ValueError>(f);
    EXPECT_THAT(text, ::testing::HasSubstr(wanted + " do not fit into 64 bits"));
    EXPECT_THAT(text, ::testing::HasSubstr("recurrent_test.cpp:" + std::to_string(line)));
  };
  const std::string many = std::to_string(kMany);
  expect_refused(__LINE__ + 1, "nn::lstm_init: hidden is too large: 4 gates of " + many,
                 [&] { return nn::lstm_init(key_of_both, 3, kMany); });
  expect_refused(__LINE__ + 1, "nn::gru_init: hidden is too large: 3 gates of " + many,
                 [&] { return nn::gru_init(key_of_both, 3, kMany); });
}

}  // namespace
}  // namespace telamon_test
