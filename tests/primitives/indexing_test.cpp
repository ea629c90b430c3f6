// dynamic_slice, dynamic_update_slice, gather, scatter, scatter_add against direct interpreters of
// their definitions, and every rule.
#include <cmath>
#include <limits>

#include "support.hpp"
#include "telamon/jvp.hpp"

namespace telamon_test {
namespace {

Array i32s(const Shape& shape, const std::vector<double>& v) { return make(DType::i32, shape, v); }
Array index(double i, DType dtype = DType::i32) { return make(dtype, {}, {i}); }

// ---- dynamic slices ----------------------------------------------------------------------------
struct DynamicCase {
  Shape shape, window;
  std::vector<std::vector<double>> starts;  ///< three sets
  DType dtype = DType::i32;
};
const DynamicCase kDynamic[] = {{{7}, {3}, {{2}, {0}, {4}}},
                                {{4, 5}, {2, 3}, {{1, 0}, {2, 2}, {9, -4}}},
                                {{7}, {3}, {{6}, {-3}, {100}}, DType::i64},
                                {{4}, {4}, {{2}, {0}, {1}}},
                                {{3, 3}, {2, 1}, {{1, 200}, {0, 1}, {2, 2}}, DType::u8},
                                {{4}, {0}, {{1}, {2}, {3}}},
                                {{}, {}, {{}, {}, {}}}};

Shape clamped(const DynamicCase& c, const Arrays& args, std::size_t first) {
  Shape out;
  for (std::size_t d = 0; d < c.shape.size(); ++d) {
    const auto start = static_cast<std::int64_t>(args[first + d].item<double>());
    out.push_back(std::max<std::int64_t>(0, std::min(start, c.shape[d] - c.window[d])));
  }
  return out;
}

TEST(DynamicSlice, ClampsItsStarts) {
  for (const DynamicCase& c : kDynamic) {
    SCOPED_TRACE(c.shape.to_string());
    const Example a = example(dynamic_slice_p, {c.window},
                              [&](int k) {
                                Arrays args = {f64_sample(c.shape, k)};
                                for (const double s : c.starts[static_cast<std::size_t>(k)])
                                  args.push_back(index(s, c.dtype));
                                return args;
                              },
                              {.linear = {{0}}});
    for (const Arrays& args : a.operands) {
      const Reader x(args[0]);
      const Shape start = clamped(c, args, 1);
      expect_elements(a.eval(args)[0], c.window, [&](Shape i) {
        for (std::size_t d = 0; d < i.size(); ++d) i[d] += start[d];
        return x(i);
      });
    }
    check_rules(a);
  }
  EXPECT_THAT(
      message_of<ShapeError>([] { dynamic_slice_p.bind({{4}}, {f64_sample({3}), index(0)}); }),
      HasSubstr(
          "dynamic_slice of f64[3], i32[]: a window of shape (4,) does not fit into the operand"));
  EXPECT_THAT(message_of<ShapeError>(
                  [] { dynamic_slice_p.bind({{1, 1}}, {f64_sample({3, 3}), index(0)}); }),
              HasSubstr("one start per dimension"));
  EXPECT_THAT(
      message_of<TypeError>([] { dynamic_slice_p.bind({{1}}, {f64_sample({3}), f64_sample({})}); }),
      HasSubstr("starts must be integer scalars"));
}

TEST(DynamicUpdateSlice, ReplacesTheClampedWindow) {
  for (const DynamicCase& c : kDynamic) {
    SCOPED_TRACE(c.shape.to_string());
    const Example a =
        example(dynamic_update_slice_p, {},
                [&](int k) {
                  Arrays args = {f64_sample(c.shape, k), f64_sample(c.window, k + 10)};
                  for (const double s : c.starts[static_cast<std::size_t>(k)])
                    args.push_back(index(s, c.dtype));
                  return args;
                },
                {.linear = {{0}, {1}, {0, 1}}});
    for (const Arrays& args : a.operands) {
      const Reader x(args[0]), u(args[1]);
      const Shape start = clamped(c, args, 2);
      expect_elements(a.eval(args)[0], c.shape, [&](const Shape& i) {
        Shape at = i;
        bool inside = true;
        for (std::size_t d = 0; d < i.size(); ++d) {
          at[d] -= start[d];
          inside = inside && at[d] >= 0 && at[d] < c.window[d];
        }
        return inside ? u(at) : x(i);
      });
    }
    check_rules(a);
  }
  EXPECT_THAT(
      message_of<ShapeError>(
          [] { dynamic_update_slice_p.bind({}, {f64_sample({3}), f64_sample({4}), index(0)}); }),
      HasSubstr(
          "dynamic_update_slice of f64[3], f64[4], i32[]: a window of shape (4,) does not fit"));
}

// ---- gather and scatter ------------------------------------------------------------------------
struct Indexing {
  std::string name;
  Shape operand, indices;
  GatherDimensionNumbers d;
  Shape window;
  Shape slices;  ///< of gather's result, of scatter's updates
  double low = 0, high = 3;
};
const Indexing kIndexing[] = {
    {"rows", {4, 3}, {5, 1}, {{1}, {0}, {0}, {}, {}}, {1, 3}, {5, 3}},
    {"rows out of bounds", {4, 3}, {5, 1}, {{1}, {0}, {0}, {}, {}}, {1, 3}, {5, 3}, -2, 6},
    {"windows", {5, 4}, {3, 2}, {{1, 2}, {}, {0, 1}, {}, {}}, {2, 2}, {3, 2, 2}, -1, 4},
    {"windows before", {5, 4}, {3, 2}, {{0, 1}, {}, {0, 1}, {}, {}}, {2, 3}, {2, 3, 3}, -1, 4},
    {"columns", {4, 3}, {5, 1}, {{0}, {1}, {1}, {}, {}}, {4, 1}, {4, 5}},
    {"points", {4, 3}, {6, 2}, {{}, {0, 1}, {0, 1}, {}, {}}, {1, 1}, {6}},
    {"points swapped", {4, 3}, {6, 2}, {{}, {0, 1}, {1, 0}, {}, {}}, {1, 1}, {6}},
    {"grid of indices", {4, 3}, {2, 5, 1}, {{2}, {0}, {0}, {}, {}}, {1, 3}, {2, 5, 3}},
    {"window between", {4, 3}, {2, 5, 1}, {{1}, {0}, {0}, {}, {}}, {1, 3}, {2, 3, 5}},
    {"batching", {3, 5}, {3, 1}, {{1}, {}, {1}, {0}, {0}}, {1, 2}, {3, 2}, -1, 5},
    {"two batching", {2, 4, 3}, {3, 2, 1}, {{}, {1}, {1}, {0, 2}, {1, 0}}, {1, 1, 1}, {3, 2}, 0, 4},
    {"one vector", {4, 3}, {1}, {{0}, {0}, {0}, {}, {}}, {1, 3}, {3}},
    {"no vectors", {4, 3}, {0, 1}, {{1}, {0}, {0}, {}, {}}, {1, 3}, {0, 3}},
    {"empty vectors", {4, 3}, {2, 0}, {{1, 2}, {}, {}, {}, {}}, {4, 2}, {2, 4, 2}},
    {"partial window", {4, 3, 2}, {3, 1}, {{1, 2}, {0}, {0}, {}, {}}, {1, 2, 1}, {3, 2, 1}, 0, 4},
};
constexpr GatherScatterMode kModes[] = {GatherScatterMode::clip, GatherScatterMode::fill_or_drop,
                                        GatherScatterMode::promise_in_bounds};

/// Integers between low and high, without pattern.
Array random_indices(const Indexing& c, int seed, DType dtype = DType::i32) {
  const Array order = sample(DType::i32, c.indices, seed);
  std::vector<double> v = values(order);
  for (double& x : v) x = c.low + std::fmod(x * 7 + seed, c.high - c.low + 1);
  return make(dtype, c.indices, v);
}

/// For every element of slices: the operand index it belongs to, and whether its window is in bounds.
void for_each_element(
    const Indexing& c, const Array& indices, bool clip,
    const std::function<void(const Shape& slice, const Shape& operand, bool inside)>& visit) {
  const Reader read(indices);
  for_all(c.slices, [&](const Shape& at) {
    Shape batch;
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (!c.d.offset_dims.contains(static_cast<std::int64_t>(k))) batch.push_back(at[k]);
    }
    Shape start(c.operand.size(), 0);
    for (std::size_t k = 0; k < c.d.start_index_map.size(); ++k) {
      Shape vector = batch;
      vector.push_back(static_cast<std::int64_t>(k));
      start[static_cast<std::size_t>(c.d.start_index_map[k])] =
          static_cast<std::int64_t>(read(vector));
    }
    bool inside = true;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const std::int64_t last = c.operand[i] - c.window[i];
      if (clip) start[i] = std::max<std::int64_t>(0, std::min(start[i], last));
      inside = inside && start[i] >= 0 && start[i] <= last;
    }
    for (std::size_t j = 0; j < c.d.operand_batching_dims.size(); ++j) {
      start[static_cast<std::size_t>(c.d.operand_batching_dims[j])] =
          batch[static_cast<std::size_t>(c.d.start_indices_batching_dims[j])];
    }
    std::size_t k = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const auto axis = static_cast<std::int64_t>(i);
      if (c.d.collapsed_slice_dims.contains(axis) || c.d.operand_batching_dims.contains(axis))
        continue;
      start[i] += at[static_cast<std::size_t>(c.d.offset_dims[k++])];
    }
    visit(at, start, inside);
  });
}

TEST(Gather, FollowsItsDimensionNumbers) {
  for (const Indexing& c : kIndexing) {
    for (const GatherScatterMode mode : kModes) {
      SCOPED_TRACE(c.name + " " + std::string(to_string(mode)));
      const GatherParams p{c.d, c.window, mode, {}, false, false};
      const Example a =
          example(gather_p, p,
                  [&](int k) { return Arrays{f64_sample(c.operand, k), random_indices(c, k)}; },
                  {.differentiate = false});
      const Reader x(a.args()[0]);
      std::vector<double> want;
      for_each_element(
          c, a.args()[1], mode != GatherScatterMode::fill_or_drop,
          [&](const Shape&, const Shape& from, bool inside) {
            want.push_back(inside ? x(from) : std::numeric_limits<double>::quiet_NaN());
          });
      expect_close(a.eval(a.args())[0], make(DType::f64, c.slices, want), 0, "value");
      check_rules(a);
      GatherParams filled = p;
      filled.fill_value = 0;
      // What is out of bounds against the promise is clipped by gather, and dropped by its transpose.
      Example b{&gather_p, Params::of(filled), a.operands, {.linear = {{0}}}};
      if (mode == GatherScatterMode::promise_in_bounds)
        b.options = {.grads = {.order = 2, .modes = GradMode::forward}};
      check_rules(b);
    }
  }
}

TEST(Gather, FillsByDtype) {
  const GatherParams p{
      {{}, {0}, {0}, {}, {}}, {1}, GatherScatterMode::fill_or_drop, {}, false, false};
  const auto out_of_bounds = [&](DType d) {
    return gather_p.bind1(p, {sample(d, {3}), i32s({1}, {7})});
  };
  EXPECT_TRUE(std::isnan(out_of_bounds(DType::f32).item<double>()));
  EXPECT_EQ(out_of_bounds(DType::i32).item<std::int64_t>(),
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(out_of_bounds(DType::i64).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(out_of_bounds(DType::u8).item<int>(), 255);
  EXPECT_EQ(out_of_bounds(DType::u64).item<std::uint64_t>(), ~std::uint64_t{0});
  EXPECT_TRUE(out_of_bounds(DType::bool_).item<bool>());
  GatherParams with = p;
  with.fill_value = -5;
  EXPECT_EQ(gather_p.bind1(with, {sample(DType::f64, {3}), i32s({1}, {-1})}).item<double>(), -5);
  for (const DType d : {DType::i8, DType::u8, DType::i32, DType::u32, DType::bool_}) {
    check_rules(example(gather_p, p, {sample(d, {3}), i32s({2, 1}, {1, 9})}));
  }
}

TEST(Gather, TakesEveryIndexDtype) {
  const GatherParams p{{{1}, {0}, {0}, {}, {}}, {1, 2}, GatherScatterMode::clip, {}, false, false};
  for (const DType d : {DType::i8, DType::u8, DType::i64, DType::u32, DType::u64}) {
    const Array y = gather_p.bind1(
        p, {make(DType::f64, {3, 2}, {0, 1, 2, 3, 4, 5}), make(d, {2, 1}, {2, 100})});
    EXPECT_EQ(values(y), (std::vector<double>{4, 5, 4, 5}));
  }
}

TEST(Gather, RefusesInconsistentDimensionNumbers) {
  const auto bind = [](const GatherDimensionNumbers& d, const Shape& sizes, const Shape& indices) {
    return [=] {
      gather_p.bind({d, sizes, GatherScatterMode::clip, {}, false, false},
                    {f64_sample({4, 3}), sample(DType::i32, indices)});
    };
  };
  EXPECT_THAT(message_of<ShapeError>(bind({{1}, {0}, {0}, {}, {}}, {1, 3}, {5, 2})),
              HasSubstr("gather of f64[4,3], i32[5,2]: the last dimension of the indices must have "
                        "the size of the map"));
  EXPECT_THAT(message_of<ShapeError>(bind({{1}, {0}, {0}, {}, {}}, {1, 4}, {5, 1})),
              HasSubstr("a window of shape (1, 4) does not fit"));
  EXPECT_THAT(message_of<ShapeError>(bind({{1}, {0}, {0}, {}, {}}, {2, 3}, {5, 1})),
              HasSubstr("which is left out of it, must be 1"));
  EXPECT_THAT(message_of<ShapeError>(bind({{1, 2}, {0}, {0}, {}, {}}, {1, 3}, {5, 1})),
              HasSubstr("must be as many as the operand dimensions"));
  EXPECT_THAT(message_of<IndexError>(bind({{2}, {0}, {0}, {}, {}}, {1, 3}, {5, 1})),
              HasSubstr("window dimension 2 is out of range"));
  EXPECT_THAT(message_of<ShapeError>(bind({{}, {1}, {1}, {0}, {0}}, {1, 1}, {5, 1})),
              HasSubstr("batching dimensions"));
}

TEST(Scatter, AppliesUpdatesInOrder) {
  for (const Indexing& c : kIndexing) {
    for (const GatherScatterMode mode : kModes) {
      SCOPED_TRACE(c.name + " " + std::string(to_string(mode)));
      const ScatterDimensionNumbers d{c.d.offset_dims, c.d.collapsed_slice_dims,
                                      c.d.start_index_map, c.d.operand_batching_dims,
                                      c.d.start_indices_batching_dims};
      const ScatterParams p{d, false, false, mode};
      const auto operands = [&](int k) {
        return Arrays{f64_sample(c.operand, k), random_indices(c, k), f64_sample(c.slices, k + 20)};
      };
      const CheckPrimitiveOptions linear{.linear = {{0}, {2}, {0, 2}}};
      const Example replace = example(scatter_p, p, operands, linear),
                    add = example(scatter_add_p, p, operands, linear);
      const Arrays& args = replace.args();
      // Added one by one; replaced likewise, by the number of the index vector.
      std::vector<double> sum = values(args[0]), last = sum;
      std::vector<std::int64_t> last_vector(sum.size(), -1);
      const Reader update(args[2]);
      for_each_element(c, args[1], mode == GatherScatterMode::clip,
                       [&](const Shape& at, const Shape& to, bool inside) {
                         if (!inside) return;
                         std::int64_t flat = 0, vector = 0;
                         for (std::size_t i = 0; i < to.size(); ++i)
                           flat = flat * c.operand[i] + to[i];
                         for (std::size_t k = 0; k < at.size(); ++k) {
                           if (!c.d.offset_dims.contains(static_cast<std::int64_t>(k)))
                             vector = vector * c.slices[k] + at[k];
                         }
                         const auto place = static_cast<std::size_t>(flat);
                         sum[place] += update(at);
                         if (vector >= last_vector[place]) {
                           last_vector[place] = vector;
                           last[place] = update(at);
                         }
                       });
      expect_close(add.eval(args)[0], make(DType::f64, c.operand, sum), 1e-12, "scatter_add");
      expect_close(replace.eval(args)[0], make(DType::f64, c.operand, last), 0, "scatter");
      for (const Example& a : {replace, add}) { check_rules(a); }
    }
  }
}

/// The operand's size added to components below 0.
Array counted_from_the_end(const Indexing& c, const Array& indices) {
  std::vector<double> v = values(indices);
  const auto components = c.d.start_index_map.size();
  for (std::size_t k = 0; k < v.size(); ++k) {
    const std::int64_t axis = c.d.start_index_map[k % components];
    if (v[k] < 0) v[k] += static_cast<double>(c.operand[static_cast<std::size_t>(axis)]);
  }
  return make(DType::i64, c.indices, v);
}

TEST(Scatter, ThatWrapsCountsFromTheEnd) {
  for (Indexing c : kIndexing) {
    c.low = -7, c.high = 6;
    for (const GatherScatterMode mode : kModes) {
      SCOPED_TRACE(c.name + " " + std::string(to_string(mode)));
      const ScatterDimensionNumbers d{c.d.offset_dims, c.d.collapsed_slice_dims,
                                      c.d.start_index_map, c.d.operand_batching_dims,
                                      c.d.start_indices_batching_dims};
      const ScatterParams plain{d, false, false, mode}, wraps{d, false, false, mode, true};
      const CheckPrimitiveOptions linear{.linear = {{0}, {2}, {0, 2}}};
      for (const auto* scatter : {&scatter_p, &scatter_add_p}) {
        const Example a = example(
            *scatter, wraps,
            [&](int k) {
              return Arrays{f64_sample(c.operand, k), random_indices(c, k),
                            f64_sample(c.slices, k + 20)};
            },
            linear);
        const Arrays& x = a.args();
        const Array want = scatter->bind1(plain, {x[0], counted_from_the_end(c, x[1]), x[2]});
        expect_close(a.eval(x)[0], want, 0, "value");
        check_rules(a);
      }
    }
  }
}

TEST(ScatterAdd, ThatWrapsTakesEveryIndexDtype) {
  const ScatterParams p{{{}, {0}, {0}, {}, {}}, false, false, GatherScatterMode::clip, true};
  const Array x = lax::full({200}, DType::f32, 0), one = lax::full({3}, DType::f32, 1);
  for (const DType d : {DType::i8, DType::i16, DType::i32, DType::i64}) {
    const Array i = make(d, {3, 1}, {-128, -1, 127});
    const Array y = scatter_add_p.bind1(p, {x, i, one});
    for (const int at : {72, 199, 127}) EXPECT_EQ(values(y)[static_cast<std::size_t>(at)], 1) << at;
    const auto by = [&](const Array& w) { return scatter_add_p.bind1(p, {x, i, w}); };
    EXPECT_EQ(values(std::get<0>(vjp(by, one).second(lax::iota(DType::f32, {200})))),
              (std::vector<double>{72, 199, 127}));
  }
  for (const DType d : {DType::u8, DType::u32, DType::u64}) {  // the highest, all of them
    const Array i = lax::sub(make(d, {3, 1}, {0, 0, 0}), make(d, {3, 1}, {1, 1, 1}));
    EXPECT_EQ(values(scatter_add_p.bind1(p, {x, i, one})).back(), 3);
  }
}

TEST(ScatterAdd, WrapsIntegers) {
  const ScatterParams p{{{}, {0}, {0}, {}, {}}, false, false, GatherScatterMode::clip};
  const Array y = scatter_add_p.bind1(p, {make(DType::u8, {2}, {250, 1}), i32s({3, 1}, {0, 0, 1}),
                                          make(DType::u8, {3}, {5, 5, 5})});
  EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{4, 6}));
}

TEST(Scatter, RefusesUpdatesOfAnotherShape) {
  const ScatterParams p{{{1}, {0}, {0}, {}, {}}, false, false, GatherScatterMode::clip};
  EXPECT_THAT(
      message_of<ShapeError>([&] {
        scatter_p.bind(p, {f64_sample({4, 3}), i32s({2, 1}, {0, 1}), f64_sample({3, 3})});
      }),
      HasSubstr("scatter of f64[4,3], i32[2,1], f64[3,3]: the updates must have shape (2, 3)"));
  EXPECT_THAT(message_of<TypeError>([&] {
                scatter_add_p.bind(
                    p, {f64_sample({4, 3}), i32s({2, 1}, {0, 1}), sample(DType::f32, {2, 3})});
              }),
              HasSubstr("operand and updates must have one dtype"));
  EXPECT_THAT(message_of<TypeError>([&] {
                scatter_p.bind(p, {f64_sample({4, 3}), f64_sample({2, 1}), f64_sample({2, 3})});
              }),
              HasSubstr("indices must be integers"));
}

const RuleExamples kIndexingExamples([] {
  const Array x = f64_sample({4, 3}), rows = i32s({2, 1}, {2, -1});
  const CheckPrimitiveOptions both{.linear = {{0}, {2}, {0, 2}}};
  std::vector<Example> all{
      example(dynamic_slice_p, {{2, 2}}, {x, index(1), index(9)}, {.linear = {{0}}}),
      example(dynamic_update_slice_p, {}, {x, f64_sample({2, 2}, 1), index(1), index(-3)},
              {.linear = {{0}, {1}, {0, 1}}})};
  for (const GatherScatterMode mode : {GatherScatterMode::clip, GatherScatterMode::fill_or_drop}) {
    all.push_back(example(gather_p, {{{1}, {0}, {0}, {}, {}}, {1, 3}, mode, 0.0, false, false},
                          {x, rows}, {.linear = {{0}}}));
    const ScatterParams p{{{1}, {0}, {0}, {}, {}}, false, false, mode};
    for (const auto* scatter : {&scatter_p, &scatter_add_p})
      all.push_back(example(*scatter, p, {x, rows, f64_sample({2, 3}, 1)}, both));
  }
  return all;
});

}  // namespace
}  // namespace telamon_test
