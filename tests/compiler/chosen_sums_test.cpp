// Sums weighted by which element of its row is the extreme add up these elements alone, unless others are as large or
// add something, too: then all of them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitives.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The same with and without the pass, but for the order of sums, for one and for two threads. Gives the program.
std::string check_sums(const Program& f, const Arrays& inputs, double tolerance = 1e-12) {
  const Jaxpr jaxpr = stage(f, inputs);
  const auto check_types = [](std::string_view, const Jaxpr& j, const Arrays&) {
    typecheck_jaxpr(j);
  };
  const Compiled with = compile(jaxpr, {.keep_programs = true, .after_pass = check_types});
  const Compiled without = compile(jaxpr, {.contract = false, .disabled = {"chosen_sums"}});
  const Arrays want = execute(without, inputs);
  for (const int threads : {1, 2}) {
    const WithThreads scope(threads);
    const Arrays got = execute(with, inputs);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto a = got[i].to_vector<double>(), b = want[i].to_vector<double>();
      for (std::size_t k = 0; k < a.size(); ++k) {
        if (same_bits(a[k], b[k])) continue;
        EXPECT_LE(std::abs(a[k] - b[k]), tolerance * (1 + std::abs(b[k])))
            << a[k] << " " << b[k] << " at " << k << " of " << with->text("chosen_sums");
      }
    }
  }
  return with->text("chosen_sums");
}

Array distances(const Array& centres, const Array& points) {
  return sum(square(centres), 1) - 2 * matmul(points, centres.T());
}
/// Of the distances of points to the nearest of some centres.
Arrays gradient(std::span<const Array> x) {
  const auto cost = [&](const Array& c) { return sum(x[2] * min(distances(c, x[1]), 1)); };
  return {grad(cost)(x[0])};
}
Arrays points(DType dtype, std::int64_t n, std::int64_t k, std::int64_t d) {
  return {uniform({k, d}, dtype, -1, 1, 3), uniform({n, d}, dtype, -1, 1, 4),
          uniform({n}, dtype, -1, 1, 5)};
}

TEST(ChosenSums, AddWhatIsNearest) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const auto& [n, k, d] :
         {std::tuple{300, 32, 8}, {1000, 33, 5}, {500, 100, 1}, {20'000, 40, 6}}) {
      const double tolerance = dtype == DType::f64 ? 1e-12 : 3e-5;
      EXPECT_THAT(check_sums(gradient, points(dtype, n, k, d), tolerance), HasSubstr("scatter_add"))
          << n;
    }
  }
}

TEST(ChosenSums, OfLargestElementsOfRowsAndColumnsAndOfWeightsOfUnits) {
  for (const int axis : {0, 1}) {
    const Program f = [&](std::span<const Array> x) {
      const auto loss = [&](const Array& w, const Array& b) {
        const Array y = matmul(x[0], w) + b;
        return sum(x[1] * (axis == 1 ? max(y, 1) : max(y.T(), 0)));
      };
      const auto [dw, db] = grad<0, 1>(loss)(x[2], x[3]);
      return Arrays{dw, db};
    };
    const std::string program =
        check_sums(f, {uniform({700, 9}, DType::f64, -1, 1, 2), uniform({700}, DType::f64),
                       uniform({9, 41}, DType::f64, -1, 1, 6), uniform({41}, DType::f64)});
    EXPECT_THAT(program, HasSubstr("scatter_add")) << axis;
  }
}

TEST(ChosenSums, MayBeAddedToEachOther) {
  const Program f = [](std::span<const Array> x) {
    const auto loss = [&](const Array& w) {
      return sum(max(matmul(x[0], w) + matmul(x[1], w), 1));
    };
    return Arrays{grad(loss)(x[2])};
  };
  const Array w = uniform({9, 41}, DType::f64, -1, 1, 6);
  EXPECT_THAT(check_sums(f, {uniform({700, 9}, DType::f64), uniform({700, 9}, DType::f64), w}),
              HasSubstr("scatter_add"));
}

// Equal extremes share their weight.
TEST(ChosenSums, OfSeveralExtremesAreAsBefore) {
  const Arrays whole = {lax::round(uniform({40, 4}, DType::f64, -2, 2, 3)),
                        lax::round(uniform({600, 4}, DType::f64, -2, 2, 4)),
                        uniform({600}, DType::f64, -1, 1, 5)};
  EXPECT_THAT(check_sums(gradient, whole), HasSubstr("cond"));
  Arrays one = points(DType::f64, 600, 40, 4);
  one[0] = one[0].at(7).set(one[0](8));
  EXPECT_THAT(check_sums(gradient, one), HasSubstr("cond"));
}

TEST(ChosenSums, OfNumbersThatAreNotFiniteAreAsBefore) {
  for (const double x : {kInf, -kInf, std::numeric_limits<double>::quiet_NaN()}) {
    for (const std::size_t operand : {0, 1, 2}) {
      Arrays in = points(DType::f64, 600, 40, 4);
      in[operand] = operand == 2 ? in[2].at(9).set(x) : in[operand].at(9, 2).set(x);
      EXPECT_THAT(check_sums(gradient, in), HasSubstr("cond"));
    }
  }
}

TEST(ChosenSums, InLoopsAddToWhatTheyCarry) {
  const Program f = [](std::span<const Array> x) {
    const auto step = [&](const Array&, const Array& c) {
      return c + .001 * grad([&](const Array& y) { return sum(min(distances(y, x[1]), 1)); })(c);
    };
    return Arrays{fori_loop(0, 3, step, x[0])};
  };
  EXPECT_THAT(check_sums(f, points(DType::f64, 400, 64, 4)), HasSubstr("scatter_add"));
}

Array nearest(const Array& y);

// The sum of -0 and nothing is 0.
TEST(ChosenSums, OfNothingAddedToNegativeZerosAreZeros) {
  const Program f = [](std::span<const Array> x) {
    const Array mask = nearest(x[0]);
    return Arrays{sum(mask, 0) + x[2], x[3] + matmul(mask.T(), x[1])};
  };
  // No row has its extreme in one of the halves.
  const Array far = where(lax::iota(DType::f64, {2000, 32}, 1) < 20, 0.0, 5.0);
  const Arrays inputs = {uniform({2000, 32}, DType::f64) + far,
                         uniform({2000, 3}, DType::f64, 1, 2), -zeros({32}, DType::f64),
                         -zeros({32, 3}, DType::f64)};
  EXPECT_THAT(check_sums(f, inputs), HasSubstr("cond"));
  for (const Array& y : execute(compile(stage(f, inputs)), inputs)) {
    const std::vector<double> got = y.to_vector<double>();
    EXPECT_TRUE(std::none_of(got.begin(), got.end(), [](double v) { return std::signbit(v); }))
        << y.to_string();
    EXPECT_TRUE(std::any_of(got.begin(), got.end(), [](double v) { return v == 0; }));
  }
}

// As to what a loop carries: no zeros are written, and added to.
TEST(ChosenSums, AreAddedToInputsWhereTheyBelong) {
  const Program f = [](std::span<const Array> x) {
    const Array mask = nearest(x[0]);
    return Arrays{sum(mask, 0) + x[2], x[3] + matmul(mask.T(), x[1])};
  };
  const std::string program =
      check_sums(f, {uniform({200, 64}, DType::f64), uniform({200, 3}, DType::f64),
                     uniform({64}, DType::f64, -1, 1, 2), uniform({64, 3}, DType::f64, -1, 1, 3)});
  EXPECT_EQ(parse_jaxpr(program).eqns().back().primitive, &cond_p) << program;
  // Of short floats each block has a sum of its own.
  const std::string of_short =
      check_sums(f,
                 {uniform({200, 64}, DType::f32), uniform({200, 3}, DType::f32),
                  uniform({64}, DType::f32, -1, 1, 2), uniform({64, 3}, DType::f32, -1, 1, 3)},
                 1e-5);
  EXPECT_EQ(parse_jaxpr(of_short).eqns().back().primitive, &add_p) << of_short;
}

/// 1 where an element is the least of its row.
Array nearest(const Array& y) {
  const Array least = expand_dims(min(y, 1), 1);
  return lax::convert_element_type(lax::eq(y, broadcast_to(least, y.shape())), y.dtype());
}

TEST(ChosenSums, LeaveMasksThatOthersRead) {
  const Arrays in = points(DType::f64, 600, 40, 4);
  const auto of = [&](const std::function<Arrays(const Array& y, const Array& points)>& f) {
    return check_sums([&](std::span<const Array> x) { return f(distances(x[0], x[1]), x[1]); }, in);
  };
  EXPECT_THAT(of([](auto& y, auto& p) { return Arrays{matmul(nearest(y).T(), p)}; }),
              HasSubstr("cond"));
  EXPECT_THAT(of([](auto& y, auto& p) { return Arrays{matmul(nearest(y).T(), p), nearest(y)}; }),
              Not(HasSubstr("cond")));
  EXPECT_THAT(of([](auto& y, auto& p) { return Arrays{matmul((nearest(y) * y).T(), p)}; }),
              Not(HasSubstr("cond")));
  EXPECT_THAT(check_sums(gradient, points(DType::f64, 600, 10, 4)), Not(HasSubstr("cond")));
}

/// The largest elements of rows, as numbers.
Array largest(const Array& y, DType dtype) {
  const Array most = lax::broadcast_in_dim(lax::reduce_max(y, {1}), y.shape(), {0});
  return lax::convert_element_type(lax::eq(y, most), dtype);
}
/// The program of sums of the largest elements of rows, and that it computes these.
std::string check_largest(const std::function<Array(const Array& y, const Array& e)>& f) {
  return check_sums([&](std::span<const Array> x) { return Arrays{f(x[0], x[1])}; },
                    {uniform({500, 40}, DType::f64, -1, 1, 3), uniform({500, 8}, DType::f64)});
}
Array over_rows(const Array& a, const Array& b) {
  return lax::dot_general(a, b, {.lhs_contracting = {0}, .rhs_contracting = {0}});
}

TEST(ChosenSums, MayBeWeightedBySumsOfRowsOfMoreThanTheMask) {
  for (const bool exponential : {false, true}) {
    check_largest([&](const Array& y, const Array& e) {
      const Array m = largest(y, DType::f64);
      const Array r = lax::reduce_sum(exponential ? lax::exp(m) : m + 1.0, {1});
      return over_rows(m * lax::broadcast_in_dim(1.0 / r, y.shape(), {0}), e);
    });
  }
}

TEST(ChosenSums, MayBeWeightedByArraysOfOneElement) {
  for (const Shape& shape : {Shape{1}, Shape{1, 1}}) {
    const Shape dims = shape.size() == 1 ? Shape{1} : Shape{0, 1};
    const std::string program = check_largest([&](const Array& y, const Array& e) {
      const Array w = lax::reshape(lax::slice(e, {0, 0}, {1, 1}), shape);
      return over_rows(largest(y, DType::f64) * lax::broadcast_in_dim(w, y.shape(), dims), e);
    });
    EXPECT_THAT(program, HasSubstr("scatter_add"));
  }
}

TEST(ChosenSums, LeaveProductsInBatchesAndSumsOfOtherTypes) {
  const auto leaves = [](const std::function<Array(const Array& y, const Array& e)>& f) {
    EXPECT_THAT(check_largest(f), Not(HasSubstr("cond")));
  };
  leaves([](auto& y, auto&) {
    return lax::dot_general(
        largest(y, DType::f64), y * 2.0,
        {.lhs_contracting = {0}, .rhs_contracting = {0}, .lhs_batch = {1}, .rhs_batch = {1}});
  });
  leaves([](auto& y, auto& e) { return over_rows(largest(y, DType::bool_), lax::gt(e, 0.5)); });
  leaves([](auto& y, auto&) { return lax::reduce_sum(largest(y, DType::i32), {0}); });
  leaves([](auto& y, auto& e) {
    return over_rows(largest(y, DType::i32), lax::convert_element_type(e * 9.0, DType::i32));
  });
}

// Sums of one mask may wait for sums of another, and what uses one for what another needs; but none for itself.
TEST(ChosenSums, StandTogetherWhereNoneWaitsForItself) {
  const auto branches = [](const std::function<Array(const Array& y, const Array& e)>& f) {
    const std::string program = check_largest(f);
    std::int64_t n = 0;
    for (std::size_t at = 0; (at = program.find("= cond", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  const auto of_all = [](const Array& a, const Array& like) {
    return lax::broadcast_in_dim(lax::reduce_sum(a, {0}), like.shape(), {});
  };
  EXPECT_EQ(branches([](auto& y, auto& e) {
              const Array m = largest(y, DType::f64), n = largest(lax::sin(2.0 * y), DType::f64);
              const Array a = lax::reduce_sum(m, {0}), b = lax::reduce_sum(n, {0});
              const Array half = lax::exp(a) * b;
              return (over_rows(m, e) + over_rows(n, lax::sin(e))) *
                     lax::broadcast_in_dim(half, {40, 8}, {0});
            }),
            2);
  EXPECT_EQ(branches([&](auto& y, auto& e) {
              const Array m = largest(y, DType::f64), n = largest(lax::sin(y), DType::f64);
              return over_rows(n, e * of_all(lax::reduce_sum(m * 2.0, {0}), e));
            }),
            2);
  EXPECT_EQ(branches([&](auto& y, auto& e) {
              const Array m = largest(y, DType::f64), n = largest(lax::sin(y), DType::f64);
              const Array own = e * of_all(lax::reduce_sum(m * 2.0, {0}), e);
              return over_rows(m, own) + over_rows(n, own);
            }),
            1);
  // Either alone waits for the other alone.
  EXPECT_EQ(branches([&](auto& y, auto& e) {
              const Array m = largest(y, DType::f64), n = largest(lax::sin(y), DType::f64);
              const Array a = lax::reduce_sum(m * 2.0, {0}), b = lax::reduce_sum(n * 3.0, {0});
              return over_rows(m, e * of_all(b, e)) + over_rows(n, e * of_all(a, e));
            }),
            1);
}

TEST(ChosenSums, MoveNoEffects) {
  const auto rewritten = [](const Program& f) {
    const Jaxpr jaxpr = stage(f, {uniform({500, 40}, DType::f64), uniform({500, 8}, DType::f64)});
    std::vector<Eqn> eqns = jaxpr.eqns();
    for (Eqn& e : eqns) {
      if (e.primitive == &exp_p || e.primitive == &sin_p) e.effect = Effect::ordered;
    }
    const Jaxpr out =
        compiler::sum_chosen({jaxpr.num_inputs(), jaxpr.avals(), std::move(eqns), jaxpr.outs()});
    std::string order;
    for (const Eqn& e : out.eqns()) {
      if (e.effect != Effect::none || e.primitive == &cond_p)
        order += std::string(e.primitive->name()) + " ";
    }
    return order;
  };
  EXPECT_EQ(rewritten([](std::span<const Array> x) {
              const Array m = largest(x[0], DType::f64), a = lax::reduce_sum(m, {0});
              const Array before = lax::sin(x[1]), after = lax::exp(a);
              return Arrays{over_rows(m, before), after};
            }),
            "sin cond exp ");
  EXPECT_EQ(rewritten([](std::span<const Array> x) {
              const Array m = largest(x[0], DType::f64), a = lax::reduce_sum(m, {0});
              const Array before = lax::exp(a), after = lax::sin(x[1]);
              return Arrays{over_rows(m, after), before};
            }),
            "exp sin ");
}

// One by one, what is small would be lost.
TEST(ChosenSums, AreTakenBeforeTheyAreAddedToSomethingLarge) {
  const Program f = [](std::span<const Array> x) {
    const auto reach = [&](const Array& c) { return sum(max(matmul(x[1], c.T()), 1)); };
    return Arrays{x[2] + grad(reach)(x[0])};
  };
  const Shape shape{40, 3};
  const auto inputs = [&](DType dtype) {
    return Arrays{lax::convert_element_type(uniform(shape, DType::f32, .5, 1.5, 3), dtype),
                  lax::convert_element_type(uniform({4000, 3}, DType::f32, .5, 1.5, 4), dtype),
                  lax::convert_element_type(uniform(shape, DType::f32, 1e7, 1.1e7, 5), dtype)};
  };
  const Compiled executable = compile(stage(f, inputs(DType::f32)), {.keep_programs = true});
  EXPECT_THAT(executable->text("chosen_sums"), HasSubstr("scatter_add"));
  const auto got = execute(executable, inputs(DType::f32))[0].to_vector<double>(),
             want = f(inputs(DType::f64))[0].to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1);
}

// An f32 would lose much of so many that are added one by one.
TEST(ChosenSums, AreOfSomeThousandsInShortFloats) {
  const auto is_rewritten = [](DType dtype, std::int64_t rows) {
    const Program f = [&](std::span<const Array> x) {
      return Arrays{lax::reduce_sum(largest(x[0], dtype), {0})};
    };
    const Jaxpr program = compiler::sum_chosen(stage(f, {uniform({rows, 40}, dtype)}));
    return program.to_string().find("scatter_add") != std::string::npos;
  };
  EXPECT_TRUE(is_rewritten(DType::f32, 16'384));
  EXPECT_FALSE(is_rewritten(DType::f32, 16'385));
  EXPECT_TRUE(is_rewritten(DType::f64, 16'385));
}

// Blocks of rows run side by side, each with its branch.
TEST(ChosenSums, RunInChunks) {
  const Compiled executable =
      compile(stage(gradient, points(DType::f64, 20'000, 100, 8)), {.keep_programs = true});
  EXPECT_THAT(executable->text("chosen_sums"), HasSubstr("scatter_add"));
  EXPECT_THAT(executable->text("plan"), HasSubstr("in chunks"));
  EXPECT_THAT(executable->text("plan"), HasSubstr("branch"));
}

}  // namespace
}  // namespace telamon::testing
