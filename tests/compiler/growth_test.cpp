// Programs of many operands, kernels or results: what is made of one that is four times as long is at most about
// four times as much. Counted in instructions, kernels and steps, not in time.
#include <algorithm>
#include <string>

#include "compiler/support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

Arrays many(int n, const Shape& shape, DType dtype = DType::f32) {
  Arrays out;
  for (int i = 0; i < n; ++i)
    out.push_back(uniform(shape, dtype, -1, 1, static_cast<unsigned>(i + 1)));
  return out;
}

std::int64_t lines(const Compiled& f, const char* stage) {
  const std::string text = f->text(stage);
  return std::count(text.begin(), text.end(), '\n');
}

CompileOptions without(const char* word) {
  return {.contract = false, .name = word, .disabled = {word}};
}

// ---- many parts ------------------------------------------------------------------------------------

Program joined(std::int64_t axis) {
  return [=](std::span<const Array> x) { return Arrays{lax::concatenate(x, axis)}; };
}

TEST(Growth, ManyPartsAreCopiedByACall) {
  const Compiled few = check(joined(0), many(100, {3}), 0),
                 more = check(joined(0), many(400, {3}), 0);
  EXPECT_EQ(few->info().library_calls, 1);
  EXPECT_EQ(lines(few, "ir"), lines(more, "ir"));
  const Compiled code = check(joined(0), many(100, {3}), 1, 0, without("join_parts"));
  EXPECT_GT(lines(code, "ir"), 3 * lines(few, "ir"));
}

TEST(Growth, PartsHaveAnyShapeAndType) {
  for (const DType dtype : {DType::f64, DType::i32, DType::u8, DType::bool_}) {
    check(joined(0), many(40, {3, 2}, dtype), 0);
    check(joined(1), many(40, {3, 2}, dtype), 0);
    check(joined(1), many(40, {4, 3, 2}, dtype), 0);
  }
  Arrays unequal;
  for (std::int64_t i = 0; i < 50; ++i) unequal.push_back(uniform({2, i % 4}, DType::f32));
  check(joined(1), unequal, 0);
  check(joined(0), many(40, {0, 2}), -1);
  check(joined(0), many(40, {3, 0}), -1);
  check(joined(1), many(40, {300, 50}), 0);  // by several threads
}

TEST(Growth, PartsAreComputedBefore) {
  const Program f = [](std::span<const Array> x) {
    Arrays parts;
    for (const Array& a : x) parts.push_back(lax::sin(a));
    parts.push_back(lax::full({8}, DType::f32, 0.5));
    parts.push_back(parts.front());
    const Array all = lax::concatenate(parts, 0);
    return Arrays{lax::exp(all), lax::reduce_sum(all, {0}), all};
  };
  check(f, many(60, {8}));
}

TEST(Growth, PartsMayComeFromWithinALoop) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{fori_loop(
        0, 5,
        [](const Array& i, const Array& c) {
          Arrays parts;
          for (int k = 0; k < 48; ++k) parts.push_back(c(slice(k, k + 1)) * (1 + i));
          std::reverse(parts.begin(), parts.end());
          return concatenate(parts) * 0.5f;
        },
        x[0])};
  };
  check(f, {uniform({48}, DType::f32)});
}

TEST(Growth, PartsHaveDerivatives) {
  const Program f = [](std::span<const Array> x) {
    const auto total = [](const Arrays& parts) { return sum(sin(concatenate(parts))); };
    return grad(total)(Arrays(x.begin(), x.end()));
  };
  check(f, many(64, {5}), -1, 2);
}

}  // namespace
}  // namespace telamon::testing
