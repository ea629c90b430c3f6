// Results are bitwise the same for any number of threads, eager and compiled.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "telamon/control_flow.hpp"
#include "telamon/random.hpp"
#include "telamon/threads.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

struct Program {
  std::string name;
  std::function<Array(const Array& x, const Array& y)> f;  // of f32[700,300]
};

const std::vector<Program>& programs() {
  static const std::vector<Program> all = {
      {"elementwise", [](const Array& x, const Array& y) { return tl::sin(x) * y + tl::exp(-x); }},
      {"sum", [](const Array& x, const Array& y) { return tl::sum(x * y); }},
      {"row sums", [](const Array& x, const Array& y) { return tl::sum(x * y, 1); }},
      {"column sums", [](const Array& x, const Array& y) { return tl::sum(x * y, 0); }},
      {"mean and deviation",
       [](const Array& x, const Array&) {
         const Array centered = x - tl::mean(x);
         return centered / tl::sqrt(tl::mean(centered * centered));
       }},
      {"softmax of rows",
       [](const Array& x, const Array&) {
         const Array e = tl::exp(x - tl::max(x, {.axes = {1}, .keepdims = true}));
         return e / tl::sum(e, {.axes = {1}, .keepdims = true});
       }},
      {"product of matrices", [](const Array& x, const Array& y) { return tl::matmul(x, y.T()); }},
      {"cumulative sums", [](const Array& x, const Array&) { return tl::cumsum(x, 1); }},
      {"sorted", [](const Array& x, const Array&) { return tl::sort(x, 1); }},
      {"largest", [](const Array& x, const Array&) { return tl::argmax(x, 0); }},
      {"transposed sum", [](const Array& x, const Array& y) { return x.T() + (y * 2.0).T(); }},
      {"random numbers",
       [](const Array&, const Array&) {
         return tl::random::normal(tl::random::key(3), {700, 300});
       }},
      {"rows added at places",
       [](const Array& x, const Array& y) {
         const Array places = tl::floor(tl::abs(x.T()(0)) * 300.f).astype(tl::DType::i32);
         return tl::zeros({700, 300}, tl::DType::f32).at(places).add(y);
       }},
      {"numbers added at places",
       [](const Array& x, const Array& y) {
         const Array places = tl::floor(tl::abs(x) * 40.f).astype(tl::DType::i32).reshape({-1});
         return tl::zeros({100}, tl::DType::f32).at(places).add(y.reshape({-1}));
       }},
      {"gathered rows",
       [](const Array& x, const Array& y) {
         return y(tl::floor(tl::abs(x.T()(1)) * 300.f).astype(tl::DType::i32));
       }},
      {"scan over rows",
       [](const Array& x, const Array& y) {
         const auto step = [](Array carry, std::pair<Array, Array> row) {
           carry = tl::tanh(carry + row.first * row.second);
           return std::pair{carry, tl::sum(carry)};
         };
         const auto [last, sums] =
             tl::scan(step, tl::zeros({300}, tl::DType::f32), std::pair{x, y});
         return tl::concatenate({last, sums}, 0);
       }},
      {"large products",
       [](const Array& x, const Array& y) {
         return tl::matmul(tl::matmul(x, y.T()), tl::concatenate({x, y}, 1));
       }},
      {"sums within matrices",
       [](const Array& x, const Array& y) { return tl::sum((x * y).reshape({7, 100, 300}), 1); }},
      {"gradient",
       [](const Array& x, const Array& y) {
         const auto loss = [y](const Array& v) { return tl::sum(tl::tanh(tl::matmul(v, y.T()))); };
         return tl::grad(loss)(x);
       }},
  };
  return all;
}

std::vector<float> inputs(std::uint32_t state) {
  std::vector<float> v(700 * 300);
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 16777216.0f * 4 - 2;
  }
  return v;
}

std::vector<unsigned char> bytes_of(const Array& x) {
  if (x.dtype() == tl::DType::i32) {
    const auto v = x.to_vector<std::int32_t>();
    const auto* p = reinterpret_cast<const unsigned char*>(v.data());
    return {p, p + v.size() * sizeof v[0]};
  }
  const auto v = x.to_vector<float>();
  const auto* p = reinterpret_cast<const unsigned char*>(v.data());
  return {p, p + v.size() * sizeof v[0]};
}

TEST(Determinism, OfResultsForAnyNumberOfThreads) {
  const int before = tl::num_threads();
  const Array x(inputs(1), {700, 300}), y(inputs(2), {700, 300});
  for (const Program& p : programs()) {
    const auto compiled = tl::jit(p.f);
    std::vector<unsigned char> eager, native;
    for (const int threads : {1, 2, 3, 5, 1}) {
      tl::set_num_threads(threads);
      const auto e = bytes_of(p.f(x, y)), n = bytes_of(compiled(x, y));
      if (eager.empty()) {
        eager = e;
        native = n;
      }
      EXPECT_EQ(e, eager) << p.name << ", eager, " << threads << " threads";
      EXPECT_EQ(n, native) << p.name << ", compiled, " << threads << " threads";
    }
  }
  tl::set_num_threads(before);
}

}  // namespace
}  // namespace telamon_test
