// Samples, comparisons, and the checker of rules as a test.
#include "support.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace telamon_test {

Array make(DType dtype, const Shape& shape, const std::vector<double>& values) {
  return lax::convert_element_type(Array(values, shape), dtype);
}

Array sample(DType dtype, const Shape& shape, int seed) {
  if (is_complex(dtype)) {
    const std::vector<double> re = values(f64_sample(shape, seed)),
                              im = values(f64_sample(shape, seed + 17));
    std::vector<double> parts;
    for (std::size_t i = 0; i < re.size(); ++i) parts.insert(parts.end(), {re[i], im[i]});
    return lax::convert_element_type(Array::from_data(parts.data(), c128, shape), dtype);
  }
  const auto n = static_cast<std::size_t>(shape.num_elements());
  std::vector<double> v(n);
  std::iota(v.begin(), v.end(), 0.0);
  std::mt19937 random(static_cast<unsigned>(1234 + seed));
  std::shuffle(v.begin(), v.end(), random);
  if (is_float(dtype)) {
    for (double& x : v) x = (x + 0.37 + 0.01 * seed) / static_cast<double>(n) * 4 - 2;
  }
  if (dtype == boolean) {
    for (double& x : v) x = std::fmod(x, 2);
  }
  return make(dtype, shape, v);
}

std::vector<double> values(const Array& x) { return x.to_vector<double>(); }
std::vector<std::complex<double>> complex_values(const Array& x) {
  std::vector<std::complex<double>> z;
  for (const Complex128 v : x.to_vector<Complex128>()) z.emplace_back(v.re, v.im);
  return z;
}

void for_all(const Shape& shape, const std::function<void(const Shape&)>& f) {
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    Shape index(shape.size(), 0);
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    f(index);
  }
}

double Reader::operator()(const Shape& index) const {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape_.size(); ++d) at = at * shape_[d] + index[d];
  return values_.at(static_cast<std::size_t>(at));
}

void expect_close(const Array& got, const Array& want, double tolerance, const std::string& what) {
  try {
    detail::check_close(got, want, tolerance, tolerance, what);
  } catch (const CheckFailure& e) { ADD_FAILURE() << e.message(); }
}

void expect_elements(const Array& got, const Shape& shape,
                     const std::function<double(const Shape&)>& want) {
  std::vector<double> v;
  for_all(shape, [&](const Shape& index) { v.push_back(want(index)); });
  expect_close(got, make(got.dtype(), shape, v), 1e-12, "elements");
}

Array tangent_along(const Function& f, std::span<const Array> args, std::size_t i) {
  const Function of_one = [&](std::span<const Array> x) {
    Arrays all(args.begin(), args.end());
    all[i] = x[0];
    return f(all);
  };
  const Arrays tangents{lax::ones_like(args[i])};
  return detail::jvp_arrays(of_one, args.subspan(i, 1), tangents, {}).tangents[0];
}

std::vector<double> pushed(const Function& f, const Arrays& args, std::size_t i) {
  const Array t = tangent_along(f, args, i);
  return t.dtype() == DType::float0 ? std::vector<double>{} : t.to_vector<double>();
}

std::vector<double> pulled(const Function& f, const Arrays& args, std::size_t i) {
  const auto lin = detail::linearize_arrays(f, args, "test");
  Arrays cotangents;
  for (const Array& y : lin.primals) cotangents.push_back(lax::ones_like(y));
  return lin.map.transpose(cotangents)[i].to_vector<double>();
}

void check_rules(const Example& e) {
  CheckPrimitiveOptions options = e.options;
  options.examples.assign(e.operands.begin() + 1, e.operands.end());
  std::string what(e.primitive->name());
  for (const Array& x : e.args()) what += " " + x.aval().to_string();
  try {
    detail::check_primitive_erased(*e.primitive, e.params, e.args(), options);
  } catch (const std::exception& error) { ADD_FAILURE() << what << ": " << error.what(); }
}

std::vector<std::vector<Example> (*)()>& RuleExamples::makers() {
  static std::vector<std::vector<Example> (*)()> all;
  return all;
}

std::vector<Example> RuleExamples::of(const PrimitiveBase& primitive) {
  std::vector<Example> found;
  for (const auto make_examples : makers()) {
    for (Example& e : make_examples()) {
      if (e.primitive == &primitive) found.push_back(std::move(e));
    }
  }
  return found;
}

std::map<std::string, std::string>& CheckedElsewhere::all() {
  static std::map<std::string, std::string> primitives;
  return primitives;
}

}  // namespace telamon_test
