// debug_nans: the operation and the line where a NaN first appeared.
#include "telamon/debug.hpp"

#include <limits>

#include "support/backends.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

using testing::HasSubstr;

const double kInf = std::numeric_limits<double>::infinity();

std::string nan_of(const std::function<void()>& f) {
  const tl::DebugNans scope;
  return error_of<tl::FloatingPointError>(f);
}

TEST(DebugNans, IsOffUnlessAskedFor) {
  EXPECT_FALSE(tl::debug_nans());
  EXPECT_TRUE(std::isnan(value(tl::sin(kInf))));
  {
    const tl::DebugNans scope;
    EXPECT_TRUE(tl::debug_nans());
    const tl::DebugNans inner(false);
    EXPECT_FALSE(tl::debug_nans());
  }
  EXPECT_FALSE(tl::debug_nans());
}

TEST(DebugNans, NamesOperationAndLineOfAnEagerNan) {
  const int line = __LINE__ + 1;
  const std::string text = nan_of([] { tl::lax::div(Array({1.0, 0.0}), Array({2.0, 0.0})); });
  EXPECT_THAT(text, HasSubstr("invalid value (nan) encountered in div: (f64[2], f64[2]) -> "
                              "(f64[2])"));
  EXPECT_THAT(text, HasSubstr("nans_test.cpp:" + std::to_string(line)));
}

TEST(DebugNans, FindsTheOperationInACompiledProgram) {
  const int line = __LINE__ + 2;
  const auto f = [](Array x) {
    const Array y = tl::sin(x);
    return tl::exp(y) * 2.0;
  };
  for (const char* backend : backends()) {
    const std::string text = nan_of([&] { tl::jit(f, {.backend = backend})(kInf); });
    EXPECT_THAT(text, HasSubstr("encountered in sin")) << backend;
    EXPECT_THAT(text, HasSubstr("nans_test.cpp:" + std::to_string(line))) << backend;
  }
  const auto nested = tl::jit([&](Array x) { return tl::jit(f)(x + 1.0); });
  EXPECT_THAT(nan_of([&] { nested(kInf); }), HasSubstr("encountered in sin"));
  const tl::DebugNans scope;
  EXPECT_NO_THROW(nested(1.0));
}

TEST(DebugNans, LooksIntoBranchesAndLoops) {
  const auto branch = [](Array x) {
    return tl::cond(x > 0.0, [](Array a) { return tl::sin(a); }, [](Array a) { return a; }, x);
  };
  EXPECT_THAT(nan_of([&] { branch(kInf); }), HasSubstr("encountered in sin"));
  EXPECT_THAT(nan_of([&] { tl::jit(branch)(kInf); }), HasSubstr("encountered in sin"));
  const auto loop = [](Array x) {
    return tl::scan([](Array c) { return std::pair{tl::log(c), c}; }, x, tl::none, {.length = 3})
        .first;
  };
  EXPECT_THAT(nan_of([&] { loop(2.0); }), HasSubstr("encountered in log"));
  EXPECT_THAT(nan_of([&] { tl::jit(loop)(2.0); }), HasSubstr("encountered in log"));
  EXPECT_THAT(nan_of([&] { tl::jit(tl::vmap(loop))(Array({9.0, 2.0})); }),
              HasSubstr("encountered in log: (f64[2])"));
  const auto repeated = [](Array x) {
    return tl::while_loop([](Array c) { return c > -1.0; },
                          [](Array c) { return tl::log(c) - 0.1; }, x);
  };
  EXPECT_THAT(nan_of([&] { tl::jit([&](Array x) { return tl::log(repeated(x)); })(2.0); }),
              HasSubstr("encountered in log"));
}

TEST(DebugNans, FindsThoseOfDerivatives) {
  const auto f = [](Array x) { return tl::sqrt(x * x); };
  EXPECT_THAT(nan_of([&] { tl::grad(f)(0.0); }), HasSubstr("encountered in mul"));
  EXPECT_THAT(nan_of([&] { tl::jit(tl::grad(f))(0.0); }), HasSubstr("encountered in mul"));
}

TEST(DebugNans, LeavesDonatedArgumentsToBeLookedAt) {
  const auto f = tl::jit([](Array x) { return tl::log(x); }, {.donate = {0}});
  EXPECT_THAT(nan_of([&] { f(Array({1.0, -1.0})); }), HasSubstr("encountered in log"));
}

TEST(DebugNans, KnowsComplexAndSmallFloats) {
  const Array z = Array({std::nan("")});
  EXPECT_THAT(nan_of([&] { tl::lax::convert_element_type(z, tl::DType::c128); }),
              HasSubstr("encountered in convert_element_type: (f64[1]) -> (c128[1])"));
  const Array h = tl::lax::convert_element_type(Array({kInf}), tl::DType::bf16);
  EXPECT_THAT(nan_of([&] { tl::lax::sub(h, h); }), HasSubstr("encountered in sub"));
}

}  // namespace
}  // namespace telamon_test
