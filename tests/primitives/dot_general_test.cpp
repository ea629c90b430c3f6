// dot_general against a direct sum over its dimension numbers, and every rule.
#include <cmath>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon_test {
namespace {

struct Case {
  Shape lhs, rhs;
  DotDimensionNumbers d;
};
const Case kCases[] = {
    {{5}, {5}, {{0}, {0}, {}, {}}},
    {{3, 5}, {5}, {{1}, {0}, {}, {}}},
    {{3, 4}, {4, 2}, {{1}, {0}, {}, {}}},
    {{4, 3}, {2, 4}, {{0}, {1}, {}, {}}},
    {{3}, {2}, {{}, {}, {}, {}}},
    {{2, 3, 4}, {2, 4, 5}, {{2}, {1}, {0}, {0}}},
    {{4, 2, 3}, {2, 5, 4}, {{0}, {2}, {1}, {0}}},
    {{2, 3, 4}, {4, 2, 5}, {{0, 2}, {1, 0}, {}, {}}},
    {{2, 3, 4}, {4, 5, 2}, {{2, 0}, {0, 2}, {}, {}}},
    {{2, 3, 4, 5}, {3, 2, 5}, {{3}, {2}, {0, 1}, {1, 0}}},
    {{3, 2}, {3}, {{}, {}, {0}, {0}}},
    {{2, 0}, {0, 3}, {{1}, {0}, {}, {}}},
    {{0, 3}, {3, 2}, {{1}, {0}, {}, {}}},
    {{}, {}, {{}, {}, {}, {}}},
    {{}, {2, 3}, {{}, {}, {}, {}}},
};

Shape rest(const Shape& shape, const Shape& used) {
  Shape out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!used.contains(static_cast<std::int64_t>(i))) out.push_back(static_cast<std::int64_t>(i));
  }
  return out;
}

/// Sums over all combinations of a lhs and a rhs index whose contracting and batch parts agree.
Array direct(const Case& c, const Array& lhs, const Array& rhs) {
  Shape lhs_used = c.d.lhs_batch, rhs_used = c.d.rhs_batch;
  for (const auto a : c.d.lhs_contracting) lhs_used.push_back(a);
  for (const auto a : c.d.rhs_contracting) rhs_used.push_back(a);
  const Shape lhs_free = rest(c.lhs, lhs_used), rhs_free = rest(c.rhs, rhs_used);
  Shape shape;
  const auto append = [&](const Shape& from, const Shape& axes, Shape& to) {
    for (const auto a : axes) to.push_back(from[static_cast<std::size_t>(a)]);
  };
  append(c.lhs, c.d.lhs_batch, shape);
  append(c.lhs, lhs_free, shape);
  append(c.rhs, rhs_free, shape);
  std::vector<double> out(static_cast<std::size_t>(shape.num_elements()), 0);
  const Reader x(lhs), y(rhs);
  for_all(c.lhs, [&](const Shape& i) {
    for_all(c.rhs, [&](const Shape& j) {
      Shape from_i, from_j, at;
      append(i, lhs_used, from_i);
      append(j, rhs_used, from_j);
      if (from_i != from_j) return;
      append(i, c.d.lhs_batch, at);
      append(i, lhs_free, at);
      append(j, rhs_free, at);
      std::int64_t flat = 0;
      for (std::size_t k = 0; k < at.size(); ++k) flat = flat * shape[k] + at[k];
      out[static_cast<std::size_t>(flat)] += x(i) * y(j);
    });
  });
  return make(lhs.dtype(), shape, out);
}

TEST(DotGeneral, SumsOverItsDimensionNumbers) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.lhs.to_string() + " " + c.rhs.to_string());
    const Example a = example(
        dot_general_p, {c.d, {}},
        [&](int seed) { return Arrays{f64_sample(c.lhs, seed), f64_sample(c.rhs, seed + 10)}; },
        {.native_rtol = 1e-14, .linear = {{0}, {1}}});
    expect_close(a.eval(a.args())[0], direct(c, a.args()[0], a.args()[1]), 1e-12, "value");
    check_rules(a);
  }
}

TEST(DotGeneral, OfEveryDtype) {
  const Case c{{3, 4}, {4, 2}, {{1}, {0}, {}, {}}};
  for (const DType d :
       {DType::i8, DType::i32, DType::i64, DType::u8, DType::u32, DType::u64, DType::f32}) {
    const Array x = sample(d, c.lhs), y = sample(d, c.rhs, 1);
    expect_close(dot_general_p.bind1({c.d, {}}, {x, y}), direct(c, x, y), 1e-6,
                 std::string(short_name(d)));
  }
  const Array x = make(DType::bool_, {2, 2}, {1, 0, 0, 0}),
              y = make(DType::bool_, {2, 2}, {1, 0, 1, 1});
  EXPECT_EQ(dot_general_p.bind1({c.d, {}}, {x, y}).to_vector<int>(),
            (std::vector<int>{1, 0, 0, 0}));
}

TEST(DotGeneral, AccumulatesInThePreferredType) {
  const Array x = make(DType::i8, {1, 3}, {100, 100, 100}),
              y = make(DType::i8, {3, 1}, {100, 100, 100});
  const Array z = dot_general_p.bind1({{{1}, {0}, {}, {}}, DType::i32}, {x, y});
  EXPECT_EQ(z.dtype(), DType::i32);
  EXPECT_EQ(z.item<int>(), 30000);
  const Array a = sample(DType::f32, {2, 3}), b = sample(DType::f32, {3, 2}, 1);
  const DotGeneralParams p{{{1}, {0}, {}, {}}, DType::f64};
  const std::vector<Tangent> ct = {sample(DType::f64, {2, 2})};
  const std::vector<LinearInput> inputs = {UndefPrimal{a.aval()}, b};
  EXPECT_EQ(dot_general_p.rules().transpose(Params::of(p), ct, inputs)[0].aval().dtype, DType::f32);
}

TEST(DotGeneral, LargeProducts) {
  const Case c{{33, 29}, {29, 31}, {{1}, {0}, {}, {}}};
  const Array x = f64_sample(c.lhs), y = f64_sample(c.rhs, 3);
  expect_close(dot_general_p.bind1({c.d, {}}, {x, y}), direct(c, x, y), 1e-12, "value");
}

TEST(DotGeneral, MappedTwiceIsStillOneEquation) {
  const auto dot = [](const Array& x, const Array& y) {
    return lax::dot_general(x, y, {{0}, {0}, {}, {}});
  };
  const auto inner = vmap(dot, {.in_axes = {0, none}});
  const auto matmul = vmap(inner, {.in_axes = {none, 1}, .out_axes = 1});
  const Array a = f64_sample({3, 4}), b = f64_sample({4, 2});
  expect_close(matmul(a, b), dot_general_p.bind1({{{1}, {0}, {}, {}}, {}}, {a, b}), 1e-12,
               "matmul");
  EXPECT_EQ(count_eqns(make_jaxpr(matmul)(a, b).jaxpr), 1);
}

TEST(DotGeneral, RefusesWhatDoesNotFit) {
  const auto dot = [](const Shape& x, const Shape& y, const DotDimensionNumbers& d) {
    return [=] { dot_general_p.bind({d, {}}, {f64_sample(x), f64_sample(y)}); };
  };
  EXPECT_THAT(message_of<ShapeError>(dot({3, 4}, {3, 2}, {{1}, {0}, {}, {}})),
              HasSubstr("dot_general of f64[3,4], f64[3,2]: contracting dimensions (1,) and (0,) "
                        "must have equal sizes"));
  EXPECT_THAT(message_of<ShapeError>(dot({3, 4}, {2, 4}, {{1}, {1}, {0}, {0}})),
              HasSubstr("batch dimensions (0,) and (0,)"));
  EXPECT_THAT(message_of<ValueError>(dot({3, 4}, {3, 4}, {{0}, {0}, {0}, {0}})),
              HasSubstr("names one dimension twice"));
  EXPECT_THAT(message_of<IndexError>(dot({3}, {3}, {{1}, {0}, {}, {}})),
              HasSubstr("lhs dimension 1 is out of range"));
  EXPECT_THAT(message_of<TypeError>([] {
                dot_general_p.bind({{{0}, {0}, {}, {}}, {}},
                                   {f64_sample({2}), sample(DType::f32, {2})});
              }),
              HasSubstr("operands must have one dtype"));
}

const RuleExamples kDotGeneralExamples([] {
  std::vector<Example> all;
  for (const DType dtype : {i8, i32, i64, u8, u32, u64, f32, f64}) {
    all.push_back(example(dot_general_p, {{{2}, {1}, {0}, {0}}, {}},
                          {sample(dtype, {2, 3, 2}), sample(dtype, {2, 2, 2}, 1)},
                          {.grads = {.order = 1}, .native_rtol = 1e-6, .linear = {{0}, {1}}}));
  }
  return all;
});

}  // namespace
}  // namespace telamon_test
