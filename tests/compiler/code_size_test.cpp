// How much code programs are that move elements one by one or column by column: code that would be repeated is a function, or
// a loop. Counted in lines of the IR, not in time.
#include <functional>
#include <sstream>
#include <string>

#include "compiler/in_place.hpp"
#include "compiler/support.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

std::int64_t lines_with(const Compiled& f, const std::string& word) {
  std::istringstream text(f->text("ir"));
  std::int64_t found = 0;
  for (std::string line; std::getline(text, line);)
    found += line.find(word) != std::string::npos ? 1 : 0;
  return found;
}

/// Column (a i + b) mod n of an array of n columns, for each i, and what `of` makes of it, side by side.
Program columns(std::int64_t a, std::int64_t b, std::int64_t count,
                std::function<Array(const Array&)> of = {}) {
  return [=](std::span<const Array> x) {
    const Shape& shape = x[0].shape();
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    Arrays parts;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t c = (a * i + b) % shape.back();
      Shape first(shape.size(), 0), end = shape;
      first[shape.size() - 1] = c;
      end[shape.size() - 1] = c + 1;
      const Array column = lax::slice(x[0], first, end);
      parts.push_back(of ? of(column) : column);
    }
    return Arrays{lax::concatenate(parts, last)};
  };
}

TEST(CodeSize, ElementsThatLieApartAreReadByFunctions) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{lax::transpose(lax::concatenate(Arrays(6, x[0]), 1), {1, 0})};
  };
  for (const DType dtype : {DType::i32, DType::f64, DType::u8, DType::bool_}) {
    const Compiled code = check(f, {uniform({31, 37}, dtype)});
    EXPECT_LT(lines_with(code, " load "), 1200) << dtype;
    expect_same_for_any_number_of_threads(code, {uniform({31, 37}, dtype)});
  }
}

TEST(CodeSize, ManyColumnsAreTakenApartByFunctions) {
  const auto negative = [](const Array& x) { return lax::neg(x); };
  for (const DType dtype : {DType::f32, DType::f64, DType::i8, DType::i16}) {
    for (const std::int64_t n : {33, 43, 120}) {
      const Arrays in{uniform({203, n}, dtype)};
      const Compiled code = check(columns(5, 3, n, negative), in);
      EXPECT_LT(lines_with(code, "shufflevector"), 700) << dtype << " of " << n;
      expect_same_for_any_number_of_threads(code, in);
    }
  }
}

TEST(CodeSize, ColumnsInAnotherOrderAreArrangedRowByRow) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i8, DType::bool_}) {
    for (const std::int64_t n : {16, 19, 32, 47, 128}) {
      for (const std::int64_t count : {n, n / 2 + 9}) {
        const Compiled code = check(columns(7, 2, count), {uniform({203, n}, dtype)});
        if (dtype == DType::f32 && runtime::target_isa() == runtime::Isa::avx512) {
          EXPECT_LT(lines_with(code, "shufflevector"), 80) << n << " columns";
        }
      }
    }
  }
}

TEST(CodeSize, RowsOfAnyNumberOfDimensionsAreArranged) {
  check(columns(3, 1, 40), {uniform({5, 7, 40}, DType::f32)});
  check(columns(11, 0, 64), {uniform({1, 64}, DType::f32)});
  check(columns(11, 0, 64), {uniform({2, 64}, DType::f64)});
  check(columns(0, 4, 32), {uniform({100, 32}, DType::f32)});  // one column, again and again
  // As many vectors, by several threads and past the caches.
  const Arrays large{uniform({100'000, 32}, DType::f32)};
  expect_same_for_any_number_of_threads(check(columns(5, 3, 32), large), large);
}

TEST(CodeSize, RowsAreArrangedWhereTheyLie) {
  for (const std::int64_t n : {32, 40}) {
    const Arrays in{uniform({50, n}, DType::f32)};
    const Program f = columns(9, 5, n);
    expect_same_in_place(f, in, f(in));
  }
}

// Of which a kernel takes one element each, not rows one after the other.
TEST(CodeSize, ElementsOfShortRowsAreReadAlone) {
  const Program f = [](std::span<const Array> x) {
    Arrays parts;
    for (std::int64_t i = 0; i < 43; ++i) {
      const std::int64_t row = (2 * i) % 43;
      parts.push_back(lax::slice(x[0], {row, 4}, {row + 1, 5}));
    }
    return Arrays{lax::concatenate(parts, 0)};
  };
  for (const DType dtype : {DType::f32, DType::i8, DType::bool_}) {
    const Compiled code = check(f, {uniform({43, 43}, dtype)});
    EXPECT_LT(lines_with(code, " load "), 200) << dtype;
  }
}

// A few rows of columns are no more code than one.
TEST(CodeSize, ColumnsOfFewRowsArePutTogetherInALoop) {
  const auto square = [](const Array& x) { return lax::mul(x, x); };
  for (const DType dtype : {DType::f32, DType::f64, DType::i8}) {
    for (const Shape& shape : {Shape{7, 7, 15}, Shape{4, 16, 9}, Shape{8, 8, 12}}) {
      const Compiled code = check(columns(5, 2, shape[2], square), {uniform(shape, dtype)}, 1);
      EXPECT_LT(lines_with(code, "shufflevector"), 250) << shape;
    }
  }
}

// Of hundreds that are put together, each part is stored before the next is computed: they would wait on the stack.
TEST(CodeSize, ColumnsAreStoredAsTheyAreComputed) {
  const auto square = [](const Array& x) { return lax::mul(x, x); };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Arrays in{uniform({192, 120}, dtype)};
    const Compiled code = check(columns(5, 2, 120, square), in, 1);
    const std::string ir = code->text("ir");
    const std::string body = ir.substr(0, ir.find("define internal void @store"));
    if (body.size() == ir.size()) continue;  // fewer lanes: rows are whole vectors
    const std::size_t first = body.find("call void @store");
    EXPECT_NE(body.find(" fmul ", first), std::string::npos) << dtype;
    expect_same_for_any_number_of_threads(code, in);
  }
}

// Elements of columns are read one by one: what is done with a few vectors of many is a loop.
TEST(CodeSize, FewVectorsOfManyColumnsAreALoop) {
  const Program f = [](std::span<const Array> x) {
    Array sum = x[0];
    for (std::int64_t c = 0; c < 40; ++c)
      sum = sum + lax::reshape(lax::slice(lax::sin(x[1]), {0, 3 * c}, {x[1].shape()[0], 3 * c + 1}),
                               x[0].shape());
    return Arrays{sum};
  };
  const auto loads = [&](std::int64_t rows) {
    const Arrays in{uniform({rows}, DType::f32), uniform({rows, 1200}, DType::f32)};
    return lines_with(check(f, in), " load ");
  };
  EXPECT_EQ(loads(64), loads(128));
}

// Bytes for which processors have no scatter: neither 16 addresses in a vector for each store, nor 16 stores in place.
TEST(CodeSize, ElementsThatLieApartAreWrittenByFunctions) {
  const Program f = [](std::span<const Array> x) {
    const auto step = [](const Array& c, const Array& row) {
      return std::pair{lax::rev(c, {2}) + row, none};
    };
    return Arrays{scan(step, x[0], x[1]).first};
  };
  for (const DType dtype : {DType::i8, DType::u8, DType::i16}) {
    const Arrays in{uniform({4, 203, 4}, dtype), uniform({4, 203, 4}, dtype)};
    const Compiled code = check(f, in);
    EXPECT_NE(code->text("plan").find("kernel cells"), std::string::npos);
    EXPECT_EQ(lines_with(code, "masked.scatter"), 0) << dtype;
    EXPECT_LT(lines_with(code, " store "), 800) << dtype;
    expect_same_for_any_number_of_threads(code, in);
  }
}

}  // namespace
}  // namespace telamon::testing
