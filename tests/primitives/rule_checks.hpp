// Checks of single rules: each rule of a primitive is called directly and compared with its
// implementation rule, or with a loop over examples.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "telamon/primitives.hpp"

namespace telamon::testing {

using detail::RuleTable;

/// An array of any dtype with the given values, row-major.
Array make(DType dtype, const Shape& shape, const std::vector<double>& values);
/// Distinct values without pattern, between -2 and 2 (integers: 0, 1, 2, ... shuffled); another set
/// for each `seed`.
Array sample(DType dtype, const Shape& shape, int seed = 0);
inline Array f64_sample(const Shape& shape, int seed = 0) {
  return sample(DType::f64, shape, seed);
}
std::vector<double> values(const Array& x);

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

void expect_close(const Array& got, const Array& want, double tolerance, const std::string& what);
/// Elements given by a formula of their index.
void expect_elements(const Array& got, const Shape& shape,
                     const std::function<double(const Shape&)>& want);

/// A primitive with parameters and three sets of operands of the same avals.
struct Application {
  const PrimitiveBase* primitive;
  Params params;
  std::vector<Arrays> examples;
  const Arrays& args() const { return examples[0]; }
  Arrays eval(const Arrays& x) const { return primitive->bind_erased(params, x); }
};
template <class P>
Application application(const Primitive<P>& primitive, const P& params,
                        const std::function<Arrays(int)>& example) {
  return {&primitive, Params::of(params), {example(0), example(1), example(2)}};
}

/// abstract_eval gives the avals of what impl gives.
void check_avals(const Application& a);
/// The jvp rule against central finite differences, in random directions.
void check_jvp(const Application& a, double tolerance = 1e-6);
/// <f(v) - f(0), w> = <v, transpose(w)> with the operands `linear` set to v, the others fixed.
void check_transpose(const Application& a, const std::vector<int>& linear);
/// The batch rule against a loop over examples, for every choice of axes of every operand.
void check_batch(const Application& a);
/// The lowering rule (at_index, kernel, reduction, ops or call) against impl.
void check_lowering(const Application& a);
/// The same through jit, whatever the backend makes of the lowering rule.
void check_compiled(const Application& a);
/// All of the above but derivatives.
inline void check_rules(const Application& a) {
  check_avals(a);
  check_batch(a);
  check_lowering(a);
  check_compiled(a);
}

/// The message of the Error of type E that f throws; a failure when it throws none.
template <class E, class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const E& e) { return e.message(); } catch (const Error& e) {
    ADD_FAILURE() << "another error: " << e.message();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace telamon::testing
