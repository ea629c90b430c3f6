// Windows written at places that are known: rows are gone through part by part, before, within and after the window.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <utility>

#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// x with y written from `starts` on.
Array written(const Array& x, const Array& y, const std::vector<int>& starts) {
  Arrays at;
  for (const int s : starts) at.emplace_back(s);
  return lax::dynamic_update_slice(x, y, at);
}

TEST(Seams, OfWindowsAtKnownPlaces) {
  struct Case {
    Shape shape, window;
    std::vector<int>
        starts;  // some beyond the last place of the window, which they are held within
  };
  const std::vector<Case> cases = {
      {{1000}, {40}, {3}},
      {{1000}, {1}, {999}},
      {{1000}, {500}, {-7}},
      {{70, 45}, {10, 40}, {3, 5}},
      {{70, 45}, {70, 44}, {0, 1}},
      {{70, 45}, {1, 3}, {69, 100}},
      {{70, 45}, {68, 43}, {1, 1}},
      {{7, 9, 33}, {2, 9, 32}, {1, 0, 0}},
      {{33, 5, 1}, {30, 5, 1}, {2, 0, 0}},
      {{3, 2000}, {2, 1024}, {1, 512}},
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i8, DType::bf16, DType::bool_}) {
    for (const Case& c : cases) {
      const Array x = uniform(c.shape, dtype, 0, 100), y = uniform(c.window, dtype, 0, 100);
      check([&](std::span<const Array> a) { return Arrays{written(a[0], a[1], c.starts)}; },
            {x, y});
      if (dtype == DType::bool_) continue;
      check(
          [&](std::span<const Array> a) {
            const Array z = written(a[0], a[1] + a[1], c.starts);
            return Arrays{z * z - a[0], max(z, -1)};
          },
          {x, y}, -1, 8);
    }
  }
}

// Parts that are put together along a dimension around the rows are gone through one after the other, each with the seams
// within its own rows, by one thread or by several that begin anywhere.
TEST(Seams, OfPlanes) {
  const auto whole = [](const Shape& shape, DType dtype, unsigned seed) {
    return lax::convert_element_type(lax::floor(uniform(shape, DType::f64, 0, 60, seed)), dtype);
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::bf16}) {
    for (const Shape& shape : {Shape{20, 37}, Shape{9, 128}, Shape{90, 200}}) {
      const Program planes = [](std::span<const Array> a) {
        Arrays shifted;
        for (int k = 0; k < 9; ++k) shifted.push_back(a[0] * a[0] - roll(a[1], k, 1) * a[1] + a[0]);
        return Arrays{stack(shifted, 0) * 2};
      };
      const Program blocks = [](std::span<const Array> a) {
        const Array x = a[0] + a[1], y = roll(a[1], 2, 0) * a[0];
        const Array down = concatenate(Arrays{x, y(slice(1, 5)), x * y, a[1]}, 0);
        const Array up = concatenate(Arrays{y(slice(0, 4)), a[0], x * 3, y}, 0);
        return Arrays{down * up - down};
      };
      const Program beside = [](std::span<const Array> a) {
        const Array x = stack(Arrays{a[0], a[1], a[0] * a[1]}, 1);
        return Arrays{concatenate(Arrays{x * x, roll(x, 1, 2), x + 1}, 1) - 3};
      };
      const Arrays inputs = {whole(shape, dtype, 1), whole(shape, dtype, 2)};
      for (const int threads : {1, 3}) {
        const WithThreads scope(threads);
        const Compiled one = check(planes, inputs, -1, 0);
        EXPECT_THAT(one->text("plan"), Not(ContainsRegex("writes [^\\n]*\\[1,")))
            << one->text("plan");
        check(blocks, inputs, -1, 0);
        check(beside, inputs, -1, 0);
      }
    }
  }
}

// Of each part only what it is made of is emitted: functions of others would be called.
TEST(Seams, OfPlanesCallNoFunctionsOfOthers) {
  const Array x = uniform({40, 64}, DType::f32), short_rows = uniform({40, 5}, DType::f32);
  const Program planes = [](std::span<const Array> a) {
    Arrays all;
    for (int k = 0; k < 8; ++k) all.push_back(lax::tanh(a[0] * static_cast<float>(k)));
    return Arrays{stack(all, 0)};
  };
  for (const Array& a : {x, short_rows}) {
    const std::string ir = check(planes, {a}, -1, 0)->text("ir");
    std::size_t calls = 0;
    for (std::size_t at = ir.find("tanh"); at != std::string::npos; at = ir.find("tanh", at + 1))
      calls += ir.rfind("call", at) > ir.rfind('\n', at);
    EXPECT_GE(calls, 8u);
    EXPECT_LE(calls, 8u * 6);
  }
}

// Where nobody knows the place, the array is copied and the window written over that, with no seams at all.
TEST(Seams, OfWindowsAtUnknownPlacesAreNone) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i8, DType::bf16, DType::bool_}) {
    for (const int start : {-3, 0, 7, 1000}) {
      const Array x = uniform({90, 70}, dtype, 0, 100), y = uniform({20, 33}, dtype, 0, 100);
      const Program f = [](std::span<const Array> a) {
        return Arrays{lax::dynamic_update_slice(a[0], a[1], std::vector{a[2], a[2]})};
      };
      const Compiled e = check(f, {x, y, Array(start)});
      EXPECT_THAT(e->text("plan"), HasSubstr("copy reads 0")) << e->text("plan");
      check(  // what is read afterwards is what it was
          [&](std::span<const Array> a) { return Arrays{f(a)[0], max(a[0], -1), f(a)[0]}; },
          {x, y, Array(start)});
      if (dtype != DType::bool_)
        check([&](std::span<const Array> a) { return Arrays{f(a)[0] * 2 + a[0]}; },
              {x, y, Array(start)}, -1, 8);
    }
  }
}

// What is computed, and read by nobody else, is made where the result will be, and the window written over it.
TEST(Seams, OfWindowsAtUnknownPlacesOfComputedValuesAreNone) {
  const auto at = [](const Array& x, const Array& y, const Array& i) {
    Arrays starts(x.shape().size(), i);
    if (x.shape().size() == 3) starts[2] = Array(0);
    return lax::dynamic_update_slice(x, y, starts);
  };
  const auto twice = [](const Array& x) { return lax::add(x, x); };
  using Inputs = std::span<const Array>;
  const std::map<std::string, Program> programs = {
      {"result", [&](Inputs a) { return Arrays{at(twice(a[0]), a[1], a[2])}; }},
      {"read on", [&](Inputs a) { return Arrays{twice(at(twice(a[0]), a[1], a[2]))}; }},
      {"chain",
       [&](Inputs a) { return Arrays{at(at(twice(a[0]), a[1], a[2]), twice(a[1]), a[3])}; }},
      {"chain, read between",
       [&](Inputs a) {
         const Array first = at(twice(a[0]), a[1], a[2]);
         return Arrays{at(first, twice(a[1]), a[3]), max(first, 0)};
       }},
      {"chain of an argument",
       [&](Inputs a) {
         return Arrays{at(twice(at(a[0], a[1], a[2])), twice(a[1]), a[3]), twice(a[0])};
       }},
      {"returned, too",
       [&](Inputs a) {
         const Array x = twice(a[0]);
         return Arrays{at(x, a[1], a[2]), x};
       }},
      {"twice",
       [&](Inputs a) {
         const Array x = twice(a[0]);
         return Arrays{at(x, a[1], a[2]), at(x, a[1], a[3])};
       }},
      {"window of itself",
       [&](Inputs a) {
         const Array x = twice(a[0]);
         Shape from(x.shape().size(), 3), to = a[1].shape();
         for (std::size_t d = 0; d < to.size(); ++d)
           if (to[d] == x.shape()[d]) from[d] = 0;
           else to[d] += 3;
         return Arrays{at(x, twice(lax::slice(x, from, to)), a[2])};
       }},
      {"of a reshape",
       [&](Inputs a) {
         const Array x = reshape(twice(reshape(a[0], {-1})), a[0].shape());
         return Arrays{at(x, a[1], a[2]), reshape(at(x, a[1], a[3]), {-1})};
       }},
      {"of a constant", [&](Inputs a) { return Arrays{at(zeros_like(a[0]), a[1], a[2])}; }},
      {"loop", [&](Inputs a) {
         const auto step = [&](const Array& i, const Array& x) {
           return at(twice(x) - x, a[1], i * 5 + a[2]);
         };
         return Arrays{fori_loop(0, 3, step, a[0])};
       }}};
  for (const DType dtype : {DType::f32, DType::f64, DType::i8, DType::bf16}) {
    for (const auto& [shape, window] :
         {std::pair<Shape, Shape>{{90, 70}, {20, 33}}, {{80, 40, 3}, {9, 11, 3}}, {{5000}, {40}}}) {
      const Array x = lax::floor(uniform(shape, DType::f32, 0, 20)),
                  y = lax::floor(uniform(window, DType::f32, 0, 20));
      for (const auto& [name, f] : programs) {
        for (const int start : {-3, 7, 1000}) {
          const Compiled e =
              check(f, {lax::convert_element_type(x, dtype), lax::convert_element_type(y, dtype),
                        Array(start), Array(11)});
          if (name == "result" || name == "chain" || name == "read on")
            EXPECT_THAT(e->text("plan"), HasSubstr("kernel update dynamic_update_slice"))
                << name << e->text("jaxpr") << e->text("plan");
        }
      }
    }
  }
}

// Each part of what is put together has a loop of its own, which computes nothing of the others.
TEST(Seams, OfManyComputedParts) {
  const auto parts_of = [](int count, std::int64_t size, int axis) -> Program {
    return [=](std::span<const Array> a) {
      Arrays parts;
      for (int i = 0; i < count; ++i) {
        const std::int64_t first = i * size / 2;
        const Array part = axis == 0 ? a[0](slice(first, first + size))
                                     : a[0](slice(), slice(first, first + size));
        parts.push_back(i % 3 == 0 ? part * (i + 2) : part + part);
      }
      const Array all = lax::concatenate(parts, axis);
      return Arrays{all, max(all * all, -1)};
    };
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::bf16}) {
    for (const int size : {1, 7, 100}) {
      check(parts_of(24, size, 0), {uniform({3000}, dtype, 0, 100)}, -1, 8);
      check(parts_of(24, size, 1), {uniform({5, 3000}, dtype, 0, 100)}, -1, 8);
    }
  }
  const auto joined = [&](std::span<const Array> a) { return Arrays{parts_of(24, 1000, 0)(a)[0]}; };
  const std::string ir = check(joined, {uniform({20000}, DType::f32)})->text("ir");
  std::size_t loops = 0;
  for (std::size_t at = 0; (at = ir.find(" = phi i64", at)) != std::string::npos; ++at) ++loops;
  EXPECT_GE(loops, 24u) << ir;
}

// A window within a window, and beside parts put together, has the seams of all.
TEST(Seams, OfWindowsWithinOthers) {
  check(
      [](std::span<const Array> a) {
        const Array inner = written(a[1], a[2], {2, 5});
        const Array outer = written(lax::concatenate(Arrays{a[0], a[0] * 2}, 1), inner, {4, 30});
        return Arrays{outer, roll(outer, 7, 1) + outer};
      },
      {uniform({50, 40}, DType::f32), uniform({20, 37}, DType::f32), uniform({9, 11}, DType::f32)},
      -1, 8);
  check(  // large ones in chunks
      [](std::span<const Array> a) { return Arrays{written(a[0], a[1], {1, 1}) * 2}; },
      {uniform({1003, 1001}, DType::f32), uniform({1001, 999}, DType::f32)});
}

}  // namespace
}  // namespace telamon::testing
