// What tests of primitives share: binding without ceremony, and flat derivatives.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "telamon/check.hpp"
#include "telamon/lax.hpp"
#include "telamon/primitives.hpp"

namespace telamon_test {

using namespace telamon;

/// The message of the error that f throws; "" when it throws none.
template <class E = Error, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& e) { return e.message(); }
  return "";
}

template <class T>
Array vector_of(const std::vector<T>& values, DType dtype = dtype_of<T>) {
  const Array x(values);
  return dtype == dtype_of<T> ? x : lax::convert_element_type(x, dtype);
}

using Function = detail::FlatFunction;

template <class P>
Function function_of(const Primitive<P>& primitive, const P& params = {}) {
  return [&primitive, params](std::span<const Array> x) { return primitive.bind(params, x); };
}

/// The derivative of the first result along argument `i`, by pushing a tangent of ones.
inline std::vector<double> pushed(const Function& f, const Arrays& args, std::size_t i) {
  Arrays tangents(args.size());
  tangents[i] = lax::ones_like(args[i]);
  const Array t = detail::jvp_arrays(f, args, tangents, {}).tangents[0];
  return t.dtype() == DType::float0 ? std::vector<double>{} : t.to_vector<double>();
}

/// The same by pulling a cotangent of ones.
inline std::vector<double> pulled(const Function& f, const Arrays& args, std::size_t i) {
  const auto lin = detail::linearize_arrays(f, args, "test");
  Arrays cotangents;
  for (const Array& y : lin.primals) cotangents.push_back(lax::ones_like(y));
  return lin.map.transpose(cotangents)[i].to_vector<double>();
}

}  // namespace telamon_test
