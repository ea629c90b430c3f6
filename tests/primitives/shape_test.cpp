// broadcast_in_dim, reshape, squeeze, expand_dims, transpose, rev, concatenate, split, stack, unstack,
// pad, slice, iota: values against loops, every rule against the implementation.
#include <limits>
#include <numeric>

#include "support.hpp"
#include "telamon/grad.hpp"
#include "telamon/jit.hpp"

namespace telamon_test {
namespace {

template <class P>
Example on(const Primitive<P>& primitive, const P& params, const std::vector<Shape>& shapes,
           std::vector<std::vector<int>> linear = {{0}}) {
  return example(primitive, params,
                 [&](int seed) {
                   Arrays args;
                   for (const Shape& s : shapes)
                     args.push_back(f64_sample(s, seed + 10 * static_cast<int>(args.size())));
                   return args;
                 },
                 {.linear = std::move(linear)});
}

TEST(BroadcastInDim, RepeatsAndExpands) {
  const struct {
    Shape from, shape, dims;
  } cases[] = {{{}, {2, 3}, {}},
               {{5}, {2, 5}, {1}},
               {{5}, {5, 2}, {0}},
               {{1, 3}, {4, 3}, {0, 1}},
               {{2, 4}, {2, 3, 4, 1}, {0, 2}},
               {{3}, {0, 3}, {1}},
               {{1}, {1}, {0}},
               {{2, 1, 3}, {2, 2, 5, 3}, {0, 2, 3}}};
  for (const auto& c : cases) {
    const Example a = on(broadcast_in_dim_p, {c.shape, c.dims}, {c.from});
    const Reader x(a.args()[0]);
    expect_elements(a.eval(a.args())[0], c.shape, [&](const Shape& index) {
      Shape from;
      for (std::size_t i = 0; i < c.from.size(); ++i) {
        from.push_back(c.from[i] == 1 ? 0 : index[static_cast<std::size_t>(c.dims[i])]);
      }
      return x(from);
    });
    check_rules(a);
  }
}

TEST(BroadcastInDim, SharesItsOperandsMemory) {
  const Array y = broadcast_in_dim_p.bind1({{1 << 20, 1 << 20, 3}, {2}}, {Array({1.0, 2.0, 3.0})});
  EXPECT_EQ(y.shape(), (Shape{1 << 20, 1 << 20, 3}));
  EXPECT_EQ(slice_p.bind1({{5, 7, 0}, {6, 8, 3}, {}}, {y}).to_vector<double>(),
            (std::vector<double>{1, 2, 3}));
}

TEST(BroadcastInDim, RefusesWhatDoesNotFit) {
  const Array x = f64_sample({2, 3});
  const auto bind = [&](BroadcastInDimParams p) {
    return [&x, p] { broadcast_in_dim_p.bind(p, {x}); };
  };
  EXPECT_THAT(message_of<ShapeError>(bind({{2, 4}, {0, 1}})),
              HasSubstr("broadcast_in_dim of f64[2,3]: dimension 1 of size 3 cannot become "
                        "dimension 1 of (2, 4)"));
  EXPECT_THAT(message_of<ShapeError>(bind({{2, 3}, {0}})),
              HasSubstr("must have one entry per operand dimension"));
  EXPECT_THAT(message_of<ValueError>(bind({{3, 2}, {1, 0}})),
              HasSubstr("must be strictly increasing"));
  EXPECT_THAT(message_of<IndexError>(bind({{2, 3}, {0, 2}})),
              HasSubstr("broadcast dimension 2 is out of range for rank 2"));
}

TEST(Reshape, KeepsRowMajorOrder) {
  const struct {
    Shape from, to;
  } cases[] = {{{2, 3, 4}, {6, 4}},
               {{12}, {3, 2, 2}},
               {{1, 1}, {}},
               {{}, {1, 1}},
               {{3, 5}, {15}},
               {{0, 3}, {3, 0, 2}},
               {{3, 1, 2}, {1, 3, 2, 1}},
               {{4, 6}, {3, 8}},
               {{2, 3, 5, 2}, {6, 1, 10}},
               {{2, 1, 6}, {4, 3}}};
  for (const auto& c : cases) {
    const Example a = on(reshape_p, {c.to}, {c.from});
    EXPECT_EQ(values(a.eval(a.args())[0]), values(a.args()[0]));
    check_rules(a);
  }
}

TEST(Reshape, RefusesAnotherNumberOfElements) {
  EXPECT_THAT(message_of<ShapeError>([] { reshape_p.bind({{4, 2}}, {f64_sample({2, 3})}); }),
              HasSubstr("reshape of f64[2,3]: cannot become (4, 2): 6 and 8 elements"));
  EXPECT_THAT(message_of<ShapeError>([] { reshape_p.bind({{-2, -3}}, {f64_sample({2, 3})}); }),
              HasSubstr("sizes must not be negative"));
}

TEST(Squeeze, AndExpandDimsAreInverse) {
  const struct {
    Shape with, without, dims;
  } cases[] = {{{3, 1, 2}, {3, 2}, {1}},
               {{1, 1}, {}, {0, 1}},
               {{1, 3, 1, 2, 1}, {3, 2}, {4, 0, 2}},
               {{1, 0}, {0}, {0}}};
  for (const auto& c : cases) {
    const Example s = on(squeeze_p, {c.dims}, {c.with}),
                  e = on(expand_dims_p, {c.dims}, {c.without});
    EXPECT_EQ(s.eval(s.args())[0].shape(), c.without);
    EXPECT_EQ(e.eval(e.args())[0].shape(), c.with);
    for (const Example& a : {s, e}) {
      EXPECT_EQ(values(a.eval(a.args())[0]), values(a.args()[0]));
      check_rules(a);
    }
  }
  EXPECT_THAT(message_of<ShapeError>([] { squeeze_p.bind({{0}}, {f64_sample({2, 1})}); }),
              HasSubstr("squeeze of f64[2,1]: dimension 0 must be of size 1"));
  EXPECT_THAT(message_of<ValueError>([] { expand_dims_p.bind({{1, 1}}, {f64_sample({2})}); }),
              HasSubstr("names one dimension twice"));
}

TEST(Transpose, PermutesDimensions) {
  for (const Shape& perm :
       {Shape{1, 0}, Shape{2, 0, 1}, Shape{0, 2, 1}, Shape{3, 1, 0, 2}, Shape{0, 1}, Shape{}}) {
    Shape shape{2, 3, 4, 5};
    shape.resize(perm.size());
    const Example a = on(transpose_p, {perm}, {shape});
    const Reader x(a.args()[0]);
    const Array y = a.eval(a.args())[0];
    expect_elements(y, y.shape(), [&](const Shape& index) {
      Shape from(index.size(), 0);
      for (std::size_t i = 0; i < index.size(); ++i)
        from[static_cast<std::size_t>(perm[i])] = index[i];
      return x(from);
    });
    check_rules(a);
  }
  EXPECT_THAT(message_of<ValueError>([] { transpose_p.bind({{0, 0}}, {f64_sample({2, 3})}); }),
              HasSubstr("names one dimension twice"));
}

TEST(Transpose, OfLargeMatricesOfEverySizeOfElement) {
  for (const DType d : {DType::u8, DType::i16, DType::f32, DType::f64}) {
    const Array x = sample(d, {37, 53}), y = transpose_p.bind1({{1, 0}}, {x});
    const Reader read(x);
    expect_elements(y, {53, 37}, [&](const Shape& i) { return read({i[1], i[0]}); });
  }
}

TEST(Rev, ReversesTheNamedDimensions) {
  for (const Shape& dims : {Shape{0}, Shape{1}, Shape{0, 1}, Shape{}}) {
    const Example a = on(rev_p, {dims}, {Shape{3, 5}});
    const Reader x(a.args()[0]);
    expect_elements(a.eval(a.args())[0], {3, 5}, [&](const Shape& i) {
      return x({dims.contains(0) ? 2 - i[0] : i[0], dims.contains(1) ? 4 - i[1] : i[1]});
    });
    check_rules(a);
  }
  const Example empty = on(rev_p, {{0}}, {Shape{0, 2}});
  check_rules(empty);
}

TEST(Concatenate, JoinsAlongADimension) {
  const struct {
    std::vector<Shape> from;
    std::int64_t dimension;
    Shape to;
  } cases[] = {{{{2, 3}, {4, 3}}, 0, {6, 3}},
               {{{2, 1}, {2, 3}, {2, 0}}, 1, {2, 4}},
               {{{3}}, 0, {3}},
               {{{0, 2}, {0, 2}}, 0, {0, 2}}};
  for (const auto& c : cases) {
    std::vector<int> all(c.from.size());
    std::iota(all.begin(), all.end(), 0);
    const Example a = on(concatenate_p, {c.dimension}, c.from, {{0}, all});
    const auto d = static_cast<std::size_t>(c.dimension);
    expect_elements(a.eval(a.args())[0], c.to, [&](Shape i) {
      std::size_t k = 0;
      while (i[d] >= c.from[k][d]) i[d] -= c.from[k++][d];
      return Reader(a.args()[k])(i);
    });
    check_rules(a);
  }
  EXPECT_THAT(
      message_of<ShapeError>(
          [] { concatenate_p.bind({0}, {f64_sample({2, 3}), f64_sample({2, 4})}); }),
      HasSubstr(
          "concatenate of f64[2,3], f64[2,4]: shapes must be equal except along dimension 0"));
  EXPECT_THAT(message_of<TypeError>(
                  [] { concatenate_p.bind({0}, {f64_sample({2}), sample(DType::f32, {2})}); }),
              HasSubstr("concatenate of f64[2], f32[2]: operands must have one dtype"));
}

TEST(Split, GivesTheParts) {
  const struct {
    Shape from, sizes;
    std::int64_t axis;
  } cases[] = {{{5, 2}, {2, 0, 3}, 0}, {{2, 4}, {1, 1, 2}, 1}, {{3}, {3}, 0}};
  for (const auto& c : cases) {
    const Example a = on(split_p, {c.sizes, c.axis}, {c.from});
    const Arrays parts = a.eval(a.args());
    expect_close(concatenate_p.bind({c.axis}, parts)[0], a.args()[0], 0, "split and joined");
    check_rules(a);
  }
  EXPECT_THAT(message_of<ShapeError>([] { split_p.bind({{1, 1}, 0}, {f64_sample({3})}); }),
              HasSubstr("split of f64[3]: sizes (1, 1) must add up to the size of dimension 0"));
}

TEST(Stack, AndUnstackAreInverse) {
  for (std::int64_t axis = 0; axis <= 2; ++axis) {
    const Example s = on(stack_p, {axis}, {Shape{2, 3}, Shape{2, 3}, Shape{2, 3}}, {{0}, {0, 2}});
    const Array y = s.eval(s.args())[0];
    EXPECT_EQ(y.shape(static_cast<int>(axis)), 3);
    const Arrays parts = unstack_p.bind({axis}, {y});
    for (std::size_t i = 0; i < 3; ++i) expect_close(parts[i], s.args()[i], 0, "unstacked");
    check_rules(s);
    const Example u = on(unstack_p, {axis}, {Shape{2, 3, 4}});
    check_rules(u);
  }
  EXPECT_THAT(message_of<ShapeError>([] { stack_p.bind({0}, {f64_sample({2}), f64_sample({3})}); }),
              HasSubstr("stack of f64[2], f64[3]: operands must have one shape"));
}

TEST(Pad, AddsCropsAndSpreads) {
  using Config = std::vector<std::array<std::int64_t, 3>>;
  const struct {
    Shape from;
    Config config;
  } cases[] = {{{3}, {{1, 2, 0}}},
               {{4}, {{0, 0, 2}}},
               {{5}, {{-1, -2, 0}}},
               {{5, 3}, {{-2, 1, 1}, {2, -1, 0}}},
               {{2}, {{-1, -1, 0}}},
               {{0, 2}, {{1, 2, 0}, {0, 1, 0}}},
               {{}, {}},
               {{4}, {{-1, 3, 3}}},
               {{4}, {{-4, -3, 2}}},
               {{2, 3}, {{0, 0, 0}, {-5, 4, 1}}}};
  for (const auto& c : cases) {
    const Example a = on(pad_p, {c.config}, {c.from, Shape{}}, {{0}, {1}, {0, 1}});
    const Reader x(a.args()[0]);
    const double value = a.args()[1].item<double>();
    const Array y = a.eval(a.args())[0];
    expect_elements(y, y.shape(), [&](const Shape& index) {
      Shape from;
      for (std::size_t d = 0; d < index.size(); ++d) {
        const std::int64_t i = index[d] - c.config[d][0], step = c.config[d][2] + 1;
        if (i < 0 || i % step != 0 || i / step >= c.from[d]) return value;
        from.push_back(i / step);
      }
      return x(from);
    });
    check_rules(a);
  }
  EXPECT_THAT(message_of<ShapeError>(
                  [] { pad_p.bind({{{-2, -2, 0}}}, {f64_sample({3}), f64_sample({})}); }),
              HasSubstr("pad of f64[3], f64[]: dimension 0 would get the negative size -1"));
  EXPECT_THAT(
      message_of<ValueError>([] { pad_p.bind({{{0, 0, -1}}}, {f64_sample({3}), f64_sample({})}); }),
      HasSubstr("interior padding must not be negative, but is -1 for dimension 0"));
}

TEST(Slice, TakesEveryStrideth) {
  const struct {
    Shape from, start, limit, strides;
  } cases[] = {{{4}, {0}, {4}, {}},
               {{7, 3}, {2, 1}, {5, 3}, {}},
               {{17}, {1}, {16}, {3}},
               {{4}, {2}, {2}, {}},
               {{5, 6}, {0, 1}, {5, 6}, {2, 2}},
               {{5}, {4}, {5}, {4}},
               {{}, {}, {}, {}},
               {{6}, {6}, {6}, {2}}};
  for (const auto& c : cases) {
    const Example a = on(slice_p, {c.start, c.limit, c.strides}, {c.from});
    const Reader x(a.args()[0]);
    const Array y = a.eval(a.args())[0];
    expect_elements(y, y.shape(), [&](Shape i) {
      for (std::size_t d = 0; d < i.size(); ++d)
        i[d] = c.start[d] + i[d] * (c.strides.empty() ? 1 : c.strides[d]);
      return x(i);
    });
    check_rules(a);
  }
  EXPECT_THAT(
      message_of<IndexError>([] { slice_p.bind({{1}, {5}, {}}, {f64_sample({4})}); }),
      HasSubstr("slice of f64[4]: needs 0 <= start <= limit <= size, but dimension 0 has 1, 5, 4"));
}

TEST(Iota, CountsAlongItsDimension) {
  for (const DType d : {DType::i32, DType::f32, DType::u8, DType::i64, DType::f64}) {
    const Example a = example(iota_p, {d, {3, 4}, 1}, Arrays{});
    const Array y = a.eval({})[0];
    EXPECT_EQ(y.dtype(), d);
    expect_elements(y, {3, 4}, [](const Shape& i) { return static_cast<double>(i[1]); });
    check_rules(a);
  }
  EXPECT_THAT(message_of<IndexError>([] { iota_p.bind({DType::i32, {3}, 1}, {}); }),
              HasSubstr("dimension 1 is out of range"));
}

TEST(Iota2x32, GivesTheWordsOfTheIndex) {
  const Arrays words = iota_2x32_shape_p.bind({{2, 3}}, {});
  EXPECT_EQ(words[0].to_vector<int>(), std::vector<int>(6, 0));
  EXPECT_EQ(words[1].to_vector<int>(), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  check_rules(example(iota_2x32_shape_p, {{2, 3}}, Arrays{}));
}

TEST(ShapePrimitives, CopyEveryDtype) {
  for (const DType d : {DType::bool_, DType::i8, DType::i16, DType::i32, DType::i64, DType::u8,
                        DType::u16, DType::u32, DType::u64, DType::f32, DType::f64}) {
    const Array x = sample(d, {3, 4});
    const Array y =
        concatenate_p.bind({0}, split_p.bind({{1, 2}, 0}, {rev_p.bind1({{0, 1}}, {x})}))[0];
    expect_close(rev_p.bind1({{1, 0}}, {y}), x, 0, std::string(short_name(d)));
  }
}

const RuleExamples kShapeExamples([] {
  return std::vector<Example>{
      on(broadcast_in_dim_p, {{2, 3, 4, 1}, {0, 2}}, {Shape{2, 4}}),
      on(reshape_p, {{3, 4}}, {Shape{2, 3, 2}}),
      on(transpose_p, {{2, 0, 1}}, {Shape{2, 3, 4}}),
      on(squeeze_p, {{1}}, {Shape{3, 1, 2}}),
      on(expand_dims_p, {{0, 2}}, {Shape{3}}),
      on(rev_p, {{1}}, {Shape{2, 3}}),
      on(concatenate_p, {1}, {Shape{2, 1}, Shape{2, 3}}, {{0}, {1}, {0, 1}}),
      on(split_p, {{1, 0, 3}, 1}, {Shape{2, 4}}),
      on(stack_p, {1}, {Shape{2, 3}, Shape{2, 3}}, {{1}, {0, 1}}),
      on(unstack_p, {1}, {Shape{2, 3}}),
      on(pad_p, {{{-1, 2, 1}, {1, 0, 0}}}, {Shape{3, 2}, Shape{}}, {{0}, {1}, {0, 1}}),
      on(slice_p, {{1, 0}, {5, 2}, {2, 1}}, {Shape{6, 3}}),
      example(iota_p, {i32, {3, 4}, 1}, Arrays{}),
      example(iota_2x32_shape_p, {{2, 3}}, Arrays{}),
  };
});

TEST(Pad, OfWidthsBeyondAnyArrayIsAnErrorAndDoesNotOverflow) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min(),
                         kMax = std::numeric_limits<std::int64_t>::max();
  const Array x = f64_sample({3}), zero = f64_sample({});
  const std::array<std::int64_t, 3> refused[] = {{kMax, kMax, 0}, {kMax, kMin, 0}, {kMin, kMax, 0},
                                                 {kMin, kMin, 0}, {0, 0, kMax},    {1, 0, kMax / 2},
                                                 {kMax, 0, kMax}, {0, kMax, 0}};
  for (const auto& widths : refused) {
    EXPECT_THAT(message_of<ValueError>([&] { pad_p.bind({{widths}}, {x, zero}); }),
                HasSubstr("of dimension 0 is too large: at most 2^60 elements"));
  }
  // Cropped to nothing and padded again: only the value is left.
  const std::int64_t far = std::int64_t{1} << 59;
  EXPECT_EQ(pad_p.bind({{{-far, far, 0}}}, {x, zero})[0].shape(), Shape{3});
}

// The zeros around it would be more than pad adds.
TEST(Slice, OfNothingIsDifferentiatedInAnyLength) {
  constexpr std::int64_t kLong = std::int64_t{1} << 61;
  const auto f = [](const Array& x) {
    return lax::reduce_sum(lax::slice(x, {1, 0}, {3, 0}), {0, 1});
  };
  const Array x = lax::full({kLong, 0}, f32, 1);
  EXPECT_EQ(grad(f)(x).shape(), (Shape{kLong, 0}));
  EXPECT_EQ(jit(grad(f))(x).shape(), (Shape{kLong, 0}));
}

TEST(Slice, TakesStridesOfAnyLength) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const SliceParams params{Shape{1}, Shape{3}, Shape{kMax}};
  const Array x = f64_sample({3});
  const Array y = slice_p.bind(params, {x})[0];
  ASSERT_EQ(y.shape(), Shape{1});
  EXPECT_EQ(y.to_vector<double>()[0], x.to_vector<double>()[1]);
}

}  // namespace
}  // namespace telamon_test
