// Short rows that are looked up: by one index each, whole where their columns are looked up, and in the kernels that need
// these.
#include <gmock/gmock.h>

#include <limits>

#include "runtime/target_isa.hpp"
#include "support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/indexing.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Whole numbers in [low, high).
Array places(const Shape& shape, double low, double high, DType dtype = DType::i32) {
  return lax::convert_element_type(lax::floor(uniform(shape, DType::f64, low, high)), dtype);
}

/// The bits of eager evaluation, with the passes and without any one of them, by several threads.
Compiled same_as_eager(const Program& f, const Arrays& inputs) {
  const Jaxpr jaxpr = stage(f, inputs);
  const Compiled all = compile(jaxpr);
  const Arrays want = f(inputs);
  std::vector<Compiled> programs = {all};
  for (const char* pass : {"flat_lookups", "row_lookups", "load_columns", "short_axes"})
    programs.push_back(compile(jaxpr, {.disabled = {pass}}));
  for (const int threads : {1, 3}) {
    const WithThreads scope(threads);
    for (const Compiled& c : programs) {
      const Arrays got = execute(c, inputs);
      for (std::size_t i = 0; i < want.size(); ++i)
        expect_equal(got[i], want[i], 0, c->text("jaxpr") + std::to_string(threads));
    }
  }
  return all;
}

/// Rows of the last dimension of x, or of the last two, at index vectors for those before.
Array rows_at(const Array& x, const Array& vectors, GatherScatterMode mode, Shape map) {
  GatherParams p;
  const auto leading = static_cast<std::size_t>(vectors.aval().shape.back());
  const std::int64_t batch = vectors.aval().ndim() - 1;
  for (std::size_t d = 0; d < x.aval().shape.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (d < leading) {
      p.dimension_numbers.collapsed_slice_dims.push_back(dim);
      p.slice_sizes.push_back(1);
    } else {
      p.dimension_numbers.offset_dims.push_back(batch + dim - static_cast<std::int64_t>(leading));
      p.slice_sizes.push_back(x.aval().shape[d]);
    }
  }
  p.dimension_numbers.start_index_map = std::move(map);
  p.mode = mode;
  return lax::gather(x, vectors, p);
}

/// What x has at places along an axis.
Array along_axis(const Array& x, const Array& at, std::int64_t axis) {
  GatherParams p;
  p.dimension_numbers.collapsed_slice_dims = p.dimension_numbers.start_index_map = {axis};
  p.mode = GatherScatterMode::clip;
  p.slice_sizes = x.shape();
  p.slice_sizes[static_cast<std::size_t>(axis)] = 1;
  for (std::int64_t d = 0; d < x.ndim(); ++d) {
    if (d != axis) p.dimension_numbers.offset_dims.push_back(d);
  }
  return lax::gather(x, lax::expand_dims(at, {1}), p);
}

/// That rows of this shape are in memory without what is tested only.
void expect_rows_apart(const Compiled& c, const Jaxpr& jaxpr, const Shape& rows) {
  const std::string in_memory =
      "\\[" + std::to_string(rows[0]) + "," + std::to_string(rows[1]) + "\\]@[0-9]";
  EXPECT_THAT(c->text("plan"), Not(ContainsRegex(in_memory)));
  EXPECT_THAT(compile(jaxpr, {.disabled = {"load_columns"}})->text("plan"),
              ContainsRegex(in_memory));
}

// Inside, outside on either side, and at the ends of the type of indices, which are multiplied.
TEST(Lookups, TakeOneIndexForEachRow) {
  for (const DType index : {DType::i32, DType::i64}) {
    const bool wide = index == DType::i64;
    const std::int64_t least =
        wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
    std::vector<std::int64_t> ends(200, 3);
    for (const std::size_t at : {0, 17, 199}) ends[at] = least;
    for (const std::size_t at : {1, 40, 198}) ends[at] = ~least;
    const Array far = lax::convert_element_type(lax::reshape(Array(ends), {100, 2}), index);
    for (const Array& vectors : {places({100, 2}, 0, 9, index), places({100, 2}, -5, 15, index),
                                 far, places({5, 20, 2}, -2, 11, index)}) {
      for (const auto mode : {GatherScatterMode::clip, GatherScatterMode::fill_or_drop,
                              GatherScatterMode::promise_in_bounds}) {
        for (const Shape& map : {Shape{0, 1}, Shape{1, 0}}) {
          for (const Shape& shape : {Shape{9, 12, 3}, Shape{9, 12, 2, 4}}) {
            if (wide && shape.size() == 4) continue;
            const Array x = uniform(shape, DType::f32);
            const Compiled c = same_as_eager(
                [&](std::span<const Array> a) { return Arrays{rows_at(a[0], a[1], mode, map)}; },
                {x, vectors});
            if (wide && runtime::target_isa() == runtime::Isa::generic) continue;
            const std::string window = shape.size() == 3 ? "(1, 3)" : "(1, 2, 4)";
            EXPECT_THAT(c->text("jaxpr"), HasSubstr("slice_sizes=" + window));
          }
        }
      }
    }
  }
}

// Along any axis, by one index each: vectors bring it within bounds, once for all rows at that place.
TEST(Lookups, BringPlacesWithinBoundsOnce) {
  for (const DType index : {DType::i32, DType::i64}) {
    const bool wide = index == DType::i64;
    std::vector<std::int64_t> ends(90, 3);
    const std::int64_t least =
        wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
    for (const std::size_t at : {0, 17, 89}) ends[at] = least;
    for (const std::size_t at : {1, 40, 88}) ends[at] = ~least;
    for (const Array& at : {places({90}, 0, 30, index), places({90}, -40, 70, index),
                            lax::convert_element_type(Array(ends), index)}) {
      for (const Shape& shape : {Shape{20, 30, 3}, Shape{20, 30}, Shape{20, 30, 2, 4}}) {
        const Program columns = [](std::span<const Array> a) {
          return Arrays{along_axis(a[0], a[1], 1)};
        };
        const Compiled c = same_as_eager(columns, {uniform(shape, DType::f32), at});
        EXPECT_THAT(c->text("jaxpr"), HasSubstr("min"));
        EXPECT_THAT(c->text("plan"), ContainsRegex("writes [0-9]+:i32\\[90,1\\]"));
      }
      // Few rows at each place: only what vectors compute anyway.
      const Array x = uniform({30, 3}, DType::f32);
      const Program rows = [](std::span<const Array> a) {
        return Arrays{along_axis(a[0], a[1], 0)};
      };
      EXPECT_THAT(same_as_eager(rows, {x, at})->text("jaxpr"), Not(HasSubstr("min")));
      const Program wrapped = [](std::span<const Array> a) { return Arrays{a[0](a[1])}; };
      EXPECT_THAT(same_as_eager(wrapped, {x, at})->text("jaxpr"), HasSubstr("min"));
    }
  }
}

// Lanes are taken two at a time, of which LLVM 19 forgot to cut one off where it knows that they are small.
TEST(Lookups, AtPlacesThatAreKnownToBeSmall) {
  for (const DType index : {DType::u8, DType::u16, DType::u32, DType::i64}) {
    for (const std::int64_t n : {4, 5, 8, 16, 70}) {
      const Array at = places({n}, 0, 200, index);
      for (const DType dtype : {DType::i16, DType::f32, DType::f64}) {
        const Array table = lax::iota(dtype, {8});
        same_as_eager(
            [&](std::span<const Array> a) {
              const Array seven = lax::full_like(a[1], 7), wide = a[1].astype(DType::i64);
              return Arrays{along_axis(a[0], lax::bitwise_and(a[1], seven), 0),
                            along_axis(a[0], lax::clamp(0, wide, 2), 0),
                            along_axis(a[0], lax::rem(a[1], seven), 0)};
            },
            {table, at});
      }
    }
  }
}

TEST(Lookups, OfRowsWithoutElementsAreNone) {
  for (const Shape& shape : {Shape{30, 0}, Shape{30, 0, 4}, Shape{0, 30, 0}}) {
    const std::int64_t axis = shape[0] == 0 ? 1 : 0;
    same_as_eager([&](std::span<const Array> a) { return Arrays{along_axis(a[0], a[1], axis)}; },
                  {uniform(shape, DType::f32), places({90}, -40, 70)});
  }
}

// What is known to be inside is not looked at again, wherever it was made.
TEST(Lookups, KnowWhatLiesWithin) {
  const auto clips = [](const Program& f, const Arrays& inputs) {
    const std::string ir = same_as_eager(f, inputs)->text("ir");
    return ir.find("@llvm.smin") != std::string::npos || ir.find("@llvm.smax") != std::string::npos;
  };
  const Array x = uniform({256, 3}, DType::f32), keys = uniform({256}, DType::f32);
  const Array bytes = places({70}, 0, 256, DType::u8);
  EXPECT_FALSE(clips([](auto a) { return Arrays{a[0](argsort(a[1]))}; }, {x, keys}));
  EXPECT_FALSE(clips([](auto a) { return Arrays{a[0](a[1])}; }, {x, bytes}));
  EXPECT_TRUE(clips([](auto a) { return Arrays{a[0](a[1])}; }, {x(slice(0, 250)), bytes}));
  const Array tables = uniform({80, 256}, DType::f32);
  const Compiled best =
      same_as_eager([](auto a) { return Arrays{a[0](argmax(a[1], 1))}; }, {x, tables});
  EXPECT_THAT(best->text("jaxpr"), Not(HasSubstr("= min")));
  EXPECT_TRUE(clips([](auto a) { return Arrays{a[0](argmax(a[1], 1) + 1)}; }, {x, tables}));
  // What is beyond a type wraps around, and half of what is known of 64 bits without a sign is not known with one.
  const Array huge(std::vector<std::uint64_t>(70, 18446744072709551616u));
  EXPECT_TRUE(clips(
      [](auto a) {
        return Arrays{a[0](minimum(lax::convert_element_type(a[1], DType::i64), 9)),
                      lax::lt(minimum(lax::convert_element_type(a[1], DType::i64), 9), 0)};
      },
      {x, huge}));
  const Array large(std::vector<std::int32_t>(70, 2147483647));
  EXPECT_TRUE(clips([](auto a) { return Arrays{a[0](maximum(a[1], 7) + 1)}; }, {x, large}));
}

// Whole numbers that a fill value is: they wrap around, as in JAX.
TEST(Lookups, FillWithNumbersOfEveryType) {
  const Array places = Array({0, 7, -9, 2, 1, 5}).reshape({6, 1});
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::u32, DType::i64, DType::u64}) {
    for (const double fill : {-1., 300., 1e30, -1e30, std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN(), 18446744073709551616.}) {
      const Program f = [&](std::span<const Array> a) {
        GatherParams p;
        p.dimension_numbers.collapsed_slice_dims = p.dimension_numbers.start_index_map = {0};
        p.slice_sizes = {1};
        p.fill_value = fill;
        return Arrays{lax::gather(a[0], a[1], p)};
      };
      check(f, {lax::iota(dtype, {4}), places});
    }
  }
  GatherParams p;
  p.dimension_numbers.collapsed_slice_dims = p.dimension_numbers.start_index_map = {0};
  p.slice_sizes = {1};
  p.fill_value = 300;
  EXPECT_EQ(lax::gather(lax::iota(DType::u8, {4}), places, p).to_vector<int>(),
            (std::vector{0, 44, 44, 2, 1, 44}));
}

// Columns of indices that are computed, in a loop and in a batch, and three at a time.
TEST(Lookups, TakeOneIndexOfColumns) {
  const Array x = uniform({6, 7, 8, 3}, DType::f32);
  const Array y = uniform({300}, DType::f32, -2, 9), z = uniform({300}, DType::f32, -2, 9);
  const auto whole = [](const Array& a) { return lax::convert_element_type(a, DType::i32); };
  const Program look_up = [&](std::span<const Array> a) {
    return Arrays{a[0](whole(a[1]), whole(a[2]), whole(a[1] + a[2]))};
  };
  EXPECT_THAT(same_as_eager(look_up, {x, y, z})->text("jaxpr"), HasSubstr("slice_sizes=(1, 3)"));
  const Program in_loop = [&](std::span<const Array> a) {
    const auto step = [&](const Array& sum, const Array& by) {
      return std::pair(sum + a[0](whole(a[1] + by), whole(a[2]), whole(a[1] + a[2])), none);
    };
    return Arrays{scan(step, lax::full({300, 3}, DType::f32, 0), a[3]).first};
  };
  EXPECT_THAT(same_as_eager(in_loop, {x, y, z, uniform({4}, DType::f32)})->text("jaxpr"),
              HasSubstr("slice_sizes=(1, 3)"));
  same_as_eager(
      [&](std::span<const Array> a) {
        const auto member = [&](const Array& m, const Array& i) {
          return m(whole(i), whole(a[2]));
        };
        return Arrays{vmap(member)(a[0], a[1])};
      },
      {uniform({4, 6, 7, 3}, DType::f32), uniform({4, 300}, DType::f32, -2, 9), z});
}

TEST(Lookups, LeaveOthersAsTheyAre) {
  const Program two = [](std::span<const Array> a) {
    return Arrays{rows_at(a[0], a[1], GatherScatterMode::clip, {0, 1})};
  };
  const auto expect_two = [&](const Array& x, const Array& vectors, const std::string& window) {
    EXPECT_THAT(same_as_eager(two, {x, vectors})->text("jaxpr"),
                HasSubstr("slice_sizes=" + window));
  };
  expect_two(uniform({9, 12, 3}, DType::f32), places({20, 2}, 0, 9), "(1, 1, 3)");    // few
  expect_two(uniform({9, 12, 80}, DType::f32), places({90, 2}, 0, 9), "(1, 1, 80)");  // long
  expect_two(uniform({9, 12, 3}, DType::f32), places({90, 2}, 0, 9, DType::u8), "(1, 1, 3)");
  same_as_eager(two, {uniform({9, 12}, DType::f32), places({90, 2}, 0, 9)});
}

// What lanes need of rows of each length, at places of their own, is taken where they need it.
TEST(Lookups, TakeColumnsWhereTheyAreNeeded) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8, DType::u64}) {
    for (const std::int64_t k : {2, 3, 4, 5, 6, 7, 8}) {
      if (dtype != DType::f32 && k != 3 && k != 4) continue;
      for (const std::int64_t n : {64, 77}) {
        const Program f = [&](std::span<const Array> a) {
          const Array rows = a[0](a[1]);
          Array sum = lax::slice_in_dim(rows, 0, 1, 1, 1);
          for (std::int64_t j = 1; j < k; ++j)
            sum = sum * 3 + lax::slice_in_dim(rows, j, j + 1, 1, 1);
          return Arrays{lax::reshape(sum, {n})};
        };
        const Arrays inputs = {places({50, k}, 0, 99, dtype), places({n}, -20, 70)};
        const Compiled c = same_as_eager(f, inputs);
        // Longer rows than vectors are looked up before.
        if (static_cast<std::size_t>(k) * size_of(dtype) <= runtime::target_vector_bytes())
          expect_rows_apart(c, stage(f, inputs), {n, k});
      }
    }
  }
}

// A table of one row: all lanes take the same.
TEST(Lookups, TakeTheOnlyRow) {
  const Program f = [](std::span<const Array> a) { return Arrays{a[0](a[1], 1) - a[0](a[1], 0)}; };
  const Program filled = [](std::span<const Array> a) {
    const Array rows = rows_at(a[0], a[1](slice(), newaxis), GatherScatterMode::fill_or_drop, {0});
    return Arrays{rows(slice(), 0) - rows(slice(), 1) * rows(slice(), 2)};
  };
  for (const DType index : {DType::i32, DType::i64}) {
    same_as_eager(f, {uniform({1, 2}, DType::f32), places({90}, -2, 2, index)});
    same_as_eager(filled, {uniform({1, 3}, DType::f32), places({90}, -2, 2, index)});
  }
}

// One place for all lanes, for those of each row, and places that are put together with nothing.
TEST(Lookups, TakeARowForManyLanes) {
  const auto columns = [](const Array& rows) {
    return lax::slice_in_dim(rows, 0, 1, 1, rows.ndim() - 1) -
           lax::slice_in_dim(rows, 1, 2, 1, rows.ndim() - 1);
  };
  const Array x = uniform({50, 2}, DType::f32);
  same_as_eager(
      [&](std::span<const Array> a) {
        return Arrays{columns(a[0](broadcast_to(a[1](newaxis), {90})))};
      },
      {x, places({}, 0, 50)});
  same_as_eager(
      [&](std::span<const Array> a) {
        return Arrays{columns(a[0](broadcast_to(a[1](slice(), newaxis), {40, 77})))};
      },
      {x, places({40}, -50, 50)});
  const Program beside_nothing = [](std::span<const Array> a) {
    const Array none = lax::slice_in_dim(a[1], 0, 0, 1, 1);
    return Arrays{
        rows_at(a[0], lax::concatenate(Arrays{none, a[1]}, 1), GatherScatterMode::clip, {0, 1})};
  };
  const Arrays inputs = {uniform({9, 12, 3}, DType::f32), places({90, 2}, 0, 9)};
  check(beside_nothing, inputs, -1, 0, {.disabled = {"simplify"}});
}

// A table that is computed is stored: rows are read from memory.
TEST(Lookups, TakeColumnsOfATableThatIsComputed) {
  const Program f = [](std::span<const Array> a) {
    return Arrays{a[0](a[1], 1) * (a[0] + a[0])(a[1], 0) + (a[0] + a[0])(a[1], 1)};
  };
  EXPECT_THAT(
      same_as_eager(f, {uniform({100, 2}, DType::f32), places({500}, -100, 100)})->text("plan"),
      HasSubstr("writes 2:f32[100,2]@0"));
}

// What is folded along rows needs no rows in memory; what is folded along others does.
TEST(Lookups, FoldRowsWhereTheyAreLookedUp) {
  const Array x = places({50, 3}, -9, 9, DType::f32), i = places({1900}, -20, 70);
  const auto rows = [](std::span<const Array> a) { return a[0](a[1]); };
  const Program sums = [&](std::span<const Array> a) {
    return Arrays{lax::reduce_sum(rows(a), {1})};
  };
  EXPECT_THAT(same_as_eager(sums, {x, i})->text("plan"), Not(HasSubstr("(1900, 3)")));
  const Program products = [&](std::span<const Array> a) { return Arrays{dot(rows(a), a[2])}; };
  const Arrays with_weights = {x, i, places({3}, -9, 9, DType::f32)};
  expect_rows_apart(same_as_eager(products, with_weights), stage(products, with_weights),
                    {1900, 3});
  const Arrays neighbours = {places({100, 3}, -9, 9, DType::f32), places({100, 20}, -20, 120)};
  const Program pull = [&](std::span<const Array> a) {
    const Array d = rows(a) - a[0](slice(), newaxis);
    return Arrays{sum(sum(d * d, -1)(slice(), slice(), newaxis) * d, 1)};
  };
  EXPECT_THAT(same_as_eager(pull, neighbours)->text("plan"), Not(HasSubstr("[100,20,3]@")));
  const Program across = [&](std::span<const Array> a) {
    return Arrays{sum(sum(rows(a), 1) * 2, -1)};
  };
  EXPECT_THAT(same_as_eager(across, neighbours)->text("plan"), HasSubstr("(100, 20, 3)"));
}

// As pictures with colours are sampled, and what its gradient is.
TEST(Lookups, SamplePictures) {
  const auto sample = [](const Array& picture, const Array& y, const Array& x) {
    const auto size = picture.aval().shape;
    const auto whole = [](const Array& a) {
      return lax::convert_element_type(lax::floor(a), DType::i32);
    };
    const auto weight = [](const Array& a) {
      return lax::reshape(a - lax::floor(a), {a.aval().size(), 1});
    };
    const Array i = whole(y), j = whole(x), v = weight(y), u = weight(x);
    const Array above = picture(i, j) * (1 - u) + picture(i, j + 1) * u;
    const Array below = picture(i + 1, j) * (1 - u) + picture(i + 1, j + 1) * u;
    return above * (1 - v) + below * v;
  };
  for (const std::int64_t k : {2, 3, 4, 8}) {
    // Numbers of few bits: all of it is exact.
    const auto quarters = [](double high) {
      return lax::convert_element_type(places({500}, -12, 4 * high), DType::f32) * 0.25f;
    };
    const Arrays inputs = {places({20, 30, k}, -9, 9, DType::f32), quarters(24), quarters(34)};
    const Program f = [&](std::span<const Array> a) { return Arrays{sample(a[0], a[1], a[2])}; };
    const Compiled c = same_as_eager(f, inputs);
    // Longer rows are vectors of narrow registers.
    if (k < 4) expect_rows_apart(c, stage(f, inputs), {500, k});
    const Program derivative = [&](std::span<const Array> a) {
      return Arrays{grad(
          [&](const Array& y) { return lax::reduce_sum(sample(a[0], y, a[2]), {0, 1}); })(a[1])};
    };
    check(derivative, inputs);
  }
}

// Numbers that are looked up in columns that are known; outside, they are filled.
TEST(Lookups, TakeWholeRowsOfColumnsThatAreLookedUp) {
  for (const std::int64_t k : {2, 3, 4, 8}) {
    for (const double low : {0., -200.}) {
      const Array x = uniform({100, k}, DType::f32), i = places({333}, low, low < 0 ? 200 : 100);
      const Program all = [&](std::span<const Array> a) {
        Array sum = a[0](a[1], k - 1);
        for (std::int64_t j = k - 1; j-- > 0;) sum = sum * 0.5f + a[0](a[1], j);
        return Arrays{sum};
      };
      EXPECT_THAT(same_as_eager(all, {x, i})->text("jaxpr"),
                  HasSubstr("slice_sizes=(1, " + std::to_string(k) + ")"));
    }
  }
  const Array x = uniform({100, 8}, DType::f32), i = places({333}, 0, 100);
  const Program few = [](std::span<const Array> a) {
    return Arrays{a[0](a[1], 1) + a[0](a[1], 5) + a[0](a[1], 5)};
  };
  EXPECT_THAT(same_as_eager(few, {x, i})->text("jaxpr"), Not(HasSubstr("slice_sizes=(1, 8)")));
  const Program others = [](std::span<const Array> a) {
    return Arrays{a[0](a[1], 1) + a[0](a[2], 0)};
  };
  EXPECT_THAT(same_as_eager(others, {uniform({100, 2}, DType::f32), i, places({333}, 0, 100)})
                  ->text("jaxpr"),
              Not(HasSubstr("slice_sizes=(1, 2)")))
      << "of other rows";
  const Array cube = uniform({9, 12, 3}, DType::f32);
  const Program two = [](std::span<const Array> a) {
    return Arrays{a[0](a[1], a[2], 0) + a[0](a[1], a[2], 1) * a[0](a[1], a[2], 2)};
  };
  EXPECT_THAT(
      same_as_eager(two, {cube, places({200}, 0, 9), places({200}, -12, 12)})->text("jaxpr"),
      HasSubstr("slice_sizes=(1, 3)"));
}

}  // namespace
}  // namespace telamon::testing
