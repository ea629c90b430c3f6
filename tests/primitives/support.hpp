// What tests of primitives share: arrays of samples, comparisons with formulas of the index, flat
// derivatives, and examples of primitives for the checker of rules.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "telamon/check.hpp"
#include "telamon/lax.hpp"
#include "telamon/primitives.hpp"

namespace telamon_test {

using namespace telamon;
using ::testing::HasSubstr;

// ---- arrays ------------------------------------------------------------------------------------
/// An array of any dtype with the given values, row-major.
Array make(DType dtype, const Shape& shape, const std::vector<double>& values);
/// Distinct values without pattern, between -2 and 2 (integers: 0, 1, 2, ... shuffled; complex numbers: of
/// such parts); another set for each `seed`.
Array sample(DType dtype, const Shape& shape, int seed = 0);
inline Array f64_sample(const Shape& shape, int seed = 0) { return sample(f64, shape, seed); }
std::vector<double> values(const Array& x);
std::vector<std::complex<double>> complex_values(const Array& x);

/// Visits all indices of a shape.
void for_all(const Shape& shape, const std::function<void(const Shape&)>& f);
/// One element of an array, read at an index.
class Reader {
 public:
  explicit Reader(const Array& x) : shape_(x.shape()), values_(values(x)) {}
  double operator()(const Shape& index) const;

 private:
  Shape shape_;
  std::vector<double> values_;
};

/// Same type, and elements within this tolerance, relative above 1.
void expect_close(const Array& got, const Array& want, double tolerance, const std::string& what);
/// Elements given by a formula of their index.
void expect_elements(const Array& got, const Shape& shape,
                     const std::function<double(const Shape&)>& want);

// ---- functions ---------------------------------------------------------------------------------
using Function = detail::FlatFunction;

template <class P>
Function function_of(const Primitive<P>& primitive, const P& params = {}) {
  return [&primitive, params](std::span<const Array> x) { return primitive.bind(params, x); };
}

/// The tangent of the first result where argument `i` has one of ones, and the others have none.
Array tangent_along(const Function& f, std::span<const Array> args, std::size_t i);

/// The derivative of the first result along argument `i`, by pushing a tangent of ones.
std::vector<double> pushed(const Function& f, const Arrays& args, std::size_t i);
/// The same by pulling a cotangent of ones.
std::vector<double> pulled(const Function& f, const Arrays& args, std::size_t i);

// ---- rules -------------------------------------------------------------------------------------
/// A primitive with parameters and up to three sets of operands of the same types.
struct Example {
  const PrimitiveBase* primitive;
  Params params;
  std::vector<Arrays> operands;
  CheckPrimitiveOptions options = {};
  const Arrays& args() const { return operands[0]; }
  Arrays eval(const Arrays& x) const { return primitive->bind_erased(params, x); }
};
template <class P>
Example example(const Primitive<P>& primitive, const P& params, Arrays args,
                CheckPrimitiveOptions options = {}) {
  return {&primitive, Params::of(params), {std::move(args)}, std::move(options)};
}
template <class P>
Example example(const Primitive<P>& primitive, const P& params,
                const std::function<Arrays(int)>& operands, CheckPrimitiveOptions options = {}) {
  return {
      &primitive, Params::of(params), {operands(0), operands(1), operands(2)}, std::move(options)};
}

/// check_primitive; what it finds is a failure of the test.
void check_rules(const Example& e);

/// Examples of some primitives, for the test that checks the rules of every registered one. A file
/// that tests a primitive declares them at namespace scope:
///   const RuleExamples kExamples([] { return std::vector{example(neg_p, {}, {x})}; });
class RuleExamples {
 public:
  explicit RuleExamples(std::vector<Example> (*make)()) { makers().push_back(make); }
  static std::vector<Example> of(const PrimitiveBase& primitive);

 private:
  static std::vector<std::vector<Example> (*)()>& makers();
};

/// A primitive that no example of operands can check: where its rules are checked instead, and why.
class CheckedElsewhere {
 public:
  CheckedElsewhere(std::string name, std::string where) {
    all()[std::move(name)] = std::move(where);
  }
  static std::map<std::string, std::string>& all();
};

}  // namespace telamon_test
