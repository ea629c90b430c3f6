// Products: matmul, dot, tensordot, einsum, and norms.
#include "numpy/expect.hpp"
#include "telamon/check.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;

Array counting(const Shape& shape) {
  return tl::arange(static_cast<int>(shape.num_elements()), tl::f64).reshape(shape);
}

TEST(Matmul, OfVectorsAndMatrices) {
  const Array m = counting({2, 3}), v({1.0, 2.0, 3.0}), u({1.0, -1.0});
  expect_array<double>(tl::matmul(m, v), {2}, {8, 26});
  expect_array<double>(tl::matmul(u, m), {3}, {-3, -3, -3});
  expect_array<double>(tl::matmul(v, v), {}, {14});
  expect_array<double>(tl::matmul(m, m.T()), {2, 2}, {5, 14, 14, 50});
  expect_array<int>(tl::matmul(Array({{1, 2}}), Array({{3}, {4}})), {1, 1}, {11});
}

TEST(Matmul, BroadcastsLeadingAxes) {
  const Array a = counting({2, 1, 2, 3}), b = counting({4, 3, 2});
  const Array c = tl::matmul(a, b);
  ASSERT_EQ(c.shape(), (Shape{2, 4, 2, 2}));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) EXPECT_TRUE(tl::array_equal(c(i, j), tl::matmul(a(i, 0), b(j))));
  }
  EXPECT_EQ(tl::matmul(a, tl::ones({3})).shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(tl::matmul(tl::ones({3}), b).shape(), (Shape{4, 2}));
  EXPECT_EQ(tl::matmul(tl::ones({5, 2, 3}), tl::ones({3, 4})).shape(), (Shape{5, 2, 4}));
}

TEST(Matmul, NamesTheAxesThatDoNotFit) {
  const Array a = counting({2, 3}), b = counting({4, 5});
  const int line = __LINE__ + 1;
  const std::string text = error_of<tl::ShapeError>([&] { return tl::matmul(a, b); });
  EXPECT_THAT(text, HasSubstr("matmul got incompatible shapes: f64[2,3], f64[4,5]"));
  EXPECT_THAT(text, HasSubstr("Axis 1 of the first has size 3, axis 0 of the second 4"));
  EXPECT_THAT(text, HasSubstr("linalg_test.cpp:" + std::to_string(line)));
  EXPECT_THROW(tl::matmul(2.0, counting({2})), tl::TypeError);
  EXPECT_THROW(tl::matmul(counting({2, 2, 2}), counting({3, 2, 2})), tl::ShapeError);
}

TEST(Matmul, HasGradientsOfBothOperands) {
  tl::check_grads([](const Array& a, const Array& b) { return tl::matmul(a, b); },
                  std::tuple{counting({2, 1, 2, 3}) / 7, counting({2, 3, 2}) / 5}, {});
}

TEST(Dot, OfComplexVectorsIsRefusedWhereOneWouldBeConjugated) {
  const Array x = counting({3}).astype(tl::c64);
  const int line = __LINE__ + 2;
  try {
    tl::vdot(x, x);
    FAIL() << "expected TypeError";
  } catch (const tl::TypeError& e) {
    EXPECT_THAT(e.what(), HasSubstr("vdot requires real numbers as its first operand"));
    EXPECT_THAT(e.what(), HasSubstr("got c64[3]"));
    EXPECT_THAT(e.what(), HasSubstr("linalg_test.cpp:" + std::to_string(line)));
  }
}

TEST(Dot, FollowsNumpy) {
  const Array m = counting({2, 3});
  expect_array<double>(tl::dot(2.0, m), {2, 3}, {0, 2, 4, 6, 8, 10});
  expect_array<double>(tl::dot(m, Array({1.0, 0.0, 1.0})), {2}, {2, 8});
  EXPECT_EQ(tl::dot(counting({2, 3}), counting({4, 3, 5})).shape(), (Shape{2, 4, 5}));
  expect_array<double>(tl::vdot(m, m), {}, {55});
  expect_array<double>(tl::inner(m, m), {2, 2}, {5, 14, 14, 50});
  expect_array<double>(tl::outer(Array({1.0, 2.0}), Array({3.0, 4.0})), {2, 2}, {3, 4, 6, 8});
  EXPECT_EQ(tl::tensordot(counting({2, 3, 4}), counting({3, 4, 5})).shape(), (Shape{2, 5}));
  EXPECT_EQ(tl::tensordot(counting({2, 3}), counting({4, 5}), 0).shape(), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(tl::tensordot(counting({2, 3}), counting({3, 2}), {0, 1}, {1, 0}).shape(), Shape{});
  expect_array<double>(tl::cross(Array({1.0, 0.0, 0.0}), Array({0.0, 1.0, 0.0})), {3}, {0, 0, 1});
}

TEST(Einsum, OfOneOperand) {
  const Array m = counting({3, 3});
  expect_array<double>(tl::einsum("ii", m), {}, {12});
  expect_array<double>(tl::einsum("ii->i", m), {3}, {0, 4, 8});
  expect_array<double>(tl::einsum("ij->ji", counting({2, 3})), {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_array<double>(tl::einsum("ij->j", counting({2, 3})), {3}, {3, 5, 7});
  expect_array<double>(tl::einsum("ba", counting({2, 3})), {3, 2}, {0, 3, 1, 4, 2, 5});
  EXPECT_EQ(tl::einsum("...ij->...ji", counting({5, 2, 3})).shape(), (Shape{5, 3, 2}));
  const Array truths({{true, false}, {false, false}});
  expect_array<bool>(tl::einsum("ij->i", truths), {2}, {true, false});
  expect_array<bool>(tl::einsum("ii->", truths), {}, {true});
  expect_array<bool>(tl::einsum("ij,k->i", truths, Array({false, true})), {2}, {true, false});
}

TEST(Einsum, OfTwoOperandsAgreesWithProducts) {
  const Array a = counting({2, 3}), b = counting({3, 4}), v = counting({3});
  EXPECT_TRUE(tl::array_equal(tl::einsum("ij,jk->ik", a, b), tl::matmul(a, b)));
  EXPECT_TRUE(tl::array_equal(tl::einsum("ij,jk", a, b), tl::matmul(a, b)));
  EXPECT_TRUE(tl::array_equal(tl::einsum("ij,jk->ki", a, b), tl::matmul(a, b).T()));
  EXPECT_TRUE(tl::array_equal(tl::einsum("ij,j->i", a, v), tl::matmul(a, v)));
  EXPECT_TRUE(tl::array_equal(tl::einsum("i,j->ij", v, v), tl::outer(v, v)));
  EXPECT_TRUE(tl::array_equal(tl::einsum("i,i->i", v, v), v * v));
  EXPECT_TRUE(tl::array_equal(tl::einsum("ij,kl->", a, b), tl::sum(a) * tl::sum(b)));
  EXPECT_TRUE(tl::array_equal(tl::einsum("ij,ij->i", a, a), tl::sum(a * a, 1)));
}

TEST(Einsum, BroadcastsEllipses) {
  const Array a = counting({5, 1, 2, 3}), b = counting({4, 3, 2});
  EXPECT_TRUE(tl::array_equal(tl::einsum("...ij,...jk->...ik", a, b), tl::matmul(a, b)));
  EXPECT_EQ(tl::einsum("...i,...i", counting({2, 3}), counting({3})).shape(), Shape{2});
}

TEST(Einsum, OfSeveralOperands) {
  const Array a = counting({2, 3}), b = counting({3, 4}), c = counting({4, 2});
  expect_near<double>(tl::einsum("ij,jk,kl->il", a, b, c), {2, 2},
                      tl::matmul(tl::matmul(a, b), c).to_vector<double>(), 1e-14);
  expect_near<double>(tl::einsum("ij,jk,ki->", Arrays{a, b, c}), {},
                      {tl::trace(tl::matmul(tl::matmul(a, b), c)).item<double>()}, 1e-14);
  const Array attention =
      tl::einsum("bqhd,bkhd->bhqk", counting({2, 3, 4, 5}), counting({2, 6, 4, 5}));
  EXPECT_EQ(attention.shape(), (Shape{2, 4, 3, 6}));
}

TEST(Einsum, ExplainsItsErrors) {
  const Array a = counting({2, 3});
  EXPECT_THAT(error_of<tl::ValueError>([&] { return tl::einsum("ij,jk->ik", a); }),
              HasSubstr("described: 2 operands, given: 1"));
  EXPECT_THAT(error_of<tl::ValueError>([&] { return tl::einsum("ijk->i", a); }),
              HasSubstr("does not have the axes"));
  EXPECT_THAT(error_of<tl::ValueError>([&] { return tl::einsum("ii->i", a); }),
              HasSubstr("2 and 3"));
  EXPECT_THAT(error_of<tl::ValueError>([&] { return tl::einsum("ij->k", a); }),
              HasSubstr("is in no operand"));
  EXPECT_THAT(error_of<tl::ValueError>([&] { return tl::einsum("ij->ii", a); }),
              HasSubstr("occurs twice in the result"));
  EXPECT_THAT(error_of<tl::ValueError>([&] { return tl::einsum("i1->i", a); }),
              HasSubstr("expected letters"));
}

TEST(Einsum, HasGradients) {
  tl::check_grads([](const Array& a, const Array& b) { return tl::einsum("iij,jk->ki", a, b); },
                  std::tuple{counting({2, 2, 3}) / 7, counting({3, 2}) / 5}, {});
}

TEST(Norm, HasTheUsualOrders) {
  const Array v({3.0, -4.0, 0.0});
  EXPECT_EQ(tl::norm(v).item<double>(), 5);
  EXPECT_EQ(tl::norm(v, {.ord = 1}).item<double>(), 7);
  EXPECT_EQ(tl::norm(v, {.ord = tl::inf}).item<double>(), 4);
  EXPECT_EQ(tl::norm(v, {.ord = -tl::inf}).item<double>(), 0);
  EXPECT_EQ(tl::norm(v, {.ord = 0}).item<double>(), 2);
  EXPECT_NEAR(tl::norm(v, {.ord = 3}).item<double>(), 4.497941445275415,
              1e-14);  // numpy.linalg.norm(v, 3)
  expect_array<double>(tl::norm(Array({{3.0, 4.0}, {6.0, 8.0}}), {.axes = 1, .keepdims = true}),
                       {2, 1}, {5, 10});
  EXPECT_EQ(tl::norm(Array({{1.0, 2.0}, {2.0, 4.0}})).item<double>(), 5);
  EXPECT_THAT(
      message_of<tl::NotImplementedError>([&] { (void)(tl::norm(tl::ones({2, 2}), {.ord = 2})); }),
      HasSubstr("norm: of a matrix the orders 1, -1, inf and -inf are there, not 2;"));
}

}  // namespace
}  // namespace telamon_test
