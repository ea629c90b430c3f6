// What the compiler's tests share: staging a function, compiling the program, and comparing what it
// computes with eager evaluation.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/backend.hpp"
#include "support/threads.hpp"
#include "telamon/detail/flat.hpp"
#include "telamon/lax.hpp"

namespace telamon::testing {

using telamon_test::WithThreads;
using Program = std::function<Arrays(std::span<const Array>)>;
using runtime::CompileOptions;
using Compiled = std::shared_ptr<const runtime::Executable>;

inline Jaxpr stage(const Program& f, const Arrays& inputs) {
  ClosedJaxpr closed = detail::stage_arrays(f, inputs, "test");
  EXPECT_EQ(closed.num_consts(), 0) << "tests pass what they use";
  return closed.jaxpr;
}

inline Compiled compile(const Jaxpr& jaxpr, CompileOptions options = {}) {
  return runtime::find_backend("llvm").compile(jaxpr, options);
}

inline Arrays execute(const Compiled& executable, const Arrays& inputs,
                      const std::vector<bool>& donated = {}) {
  Arrays outputs;
  executable->execute(inputs, donated, outputs, "test");
  return outputs;
}

/// Bit for bit.
inline void expect_same_for_any_number_of_threads(const Compiled& executable,
                                                  const Arrays& inputs) {
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 2, 3}) {
    const WithThreads scope(threads);
    const Arrays got = execute(executable, inputs);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (threads == 1) first.push_back(got[i].to_vector<double>());
      EXPECT_EQ(got[i].to_vector<double>(), first[i]) << threads << " threads";
    }
  }
}

/// Distance in units in the last place; NaN equals NaN, zeros of either sign are at 0.
inline double ulps(double a, double b, DType dtype) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (a == b) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return 1e30;
  const double eps = dtype == DType::f64 ? std::ldexp(1, -52) : std::ldexp(1, -23);
  return std::abs(a - b) / (std::max({std::abs(a), std::abs(b), 1e-30}) * eps);
}

/// The same bits; any NaN equals any other.
inline bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

/// Floats within `tolerance` ulps (0: the same bits), everything else exactly.
inline void expect_equal(const Array& got, const Array& want, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.aval().to_string(), want.aval().strong().to_string()) << what;
  if (is_float(got.dtype())) {
    const auto a = got.to_vector<double>(), b = want.to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_TRUE(tolerance > 0 ? ulps(a[i], b[i], got.dtype()) <= tolerance
                                : same_bits(a[i], b[i]))
          << what << ": element " << i << " is " << a[i] << ", not " << b[i];
    }
  } else {
    const auto a = got.to_vector<std::int64_t>(), b = want.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << what << ": element " << i;
  }
}

/// Compiles f, checks it against eager evaluation and returns the executable. `kernels` < 0: any.
inline Compiled check(const Program& f, const Arrays& inputs, int kernels = -1,
                      double tolerance = 0, CompileOptions options = {}) {
  const Jaxpr jaxpr = stage(f, inputs);
  Compiled executable = compile(jaxpr, options);
  const std::string what = executable->text("jaxpr") + "\n" + executable->text("plan");
  const Arrays got = execute(executable, inputs), want = f(inputs);
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size() && i < want.size(); ++i) {
    expect_equal(got[i], want[i], tolerance, "result " + std::to_string(i) + " of\n" + what);
  }
  if (kernels >= 0) { EXPECT_EQ(executable->info().kernels, kernels) << what; }
  return executable;
}

/// Values in [low, high), the same at every call with the same seed.
inline Array uniform(const Shape& shape, DType dtype, double low = -2, double high = 2,
                     unsigned seed = 1) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> values(static_cast<std::size_t>(shape.num_elements()));
  for (double& v : values) v = draw(engine);
  return lax::convert_element_type(Array(values, shape), dtype);
}

}  // namespace telamon::testing
