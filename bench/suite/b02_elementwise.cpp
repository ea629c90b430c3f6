// B02: elementwise programs, from one kilobyte to more than any cache.
#include <fmt/format.h>

#include <functional>
#include <limits>
#include <string>

#include "models.hpp"

namespace bench {
namespace {

using namespace telamon;

Array horner10(const Array& x) {
  Array y = full_like(x, .1);
  for (const double c : {.2, -.3, .4, -.5, .6, -.7, .8, -.9, 1., -1.1}) y = y * x + c;
  return y;
}
Array four(const Array& a, const Array& b, const Array& c, const Array& d) {
  return a * b + sin(c) * exp(-d);
}

struct Size {
  const char* name;
  std::int64_t n;
};
void by_size(const char* name, Array (*f)(const Array&), std::initializer_list<Size> sizes) {
  for (const Size s : sizes) {
    Register(fmt::format("B02.{}_f32_{}", name, s.name), "us", [f, n = s.n] {
      return moving(8. * static_cast<double>(n), go(compiled(f), u(1, {n})));
    });
  }
}
const bool sizes = [] {
  by_size("chain10", chain10, {{"1k", 1 << 10}, {"16k", 1 << 14}, {"1M", 1 << 20}});
  by_size(
      "horner10", horner10,
      {{"1k", 1 << 10}, {"16k", 1 << 14}, {"256k", 1 << 18}, {"1M", 1 << 20}, {"32M", 1 << 25}});
  return true;
}();

constexpr std::int64_t kSpecials = 1 << 16;  // numbers of a row
Array ordinary(DType dtype) { return 4 * (dtype == f64 ? u64(1, {kSpecials}) : u(1, {kSpecials})); }
Array with_special(DType dtype, double special) {
  return where(arange(kSpecials) % 16 == 0, special, ordinary(dtype));
}
struct Special {
  const char* suffix;
  double operand;
};
/// A function of ordinary numbers, and of the same with a special one in sixteen, which may not take much longer.
void with_specials(const char* name, DType dtype, Array (*f)(const Array&),
                   std::initializer_list<Special> specials) {
  const std::string id = fmt::format("B02.{}_{}_64k", name, dtype == f64 ? "f64" : "f32");
  const auto add = [=](const std::string& whole, std::function<Array()> input) {
    Register(whole, "us", [=] {
      return moving(2. * (dtype == f64 ? 8 : 4) * kSpecials, go(compiled(f), input()));
    });
  };
  add(id, [dtype] { return ordinary(dtype); });
  for (const Special& s : specials) {
    add(id + "_special" + s.suffix, [dtype, x = s.operand] { return with_special(dtype, x); });
  }
}
const bool specials = [] {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {f32, f64}) {
    with_specials("sin", dtype, [](const Array& x) { return sin(x); }, {{"", 1e30}});
    with_specials("pow", dtype, [](const Array& x) { return power(x, 1.7); }, {{"", 0}});
  }
  // exp(-inf) is what a mask makes of a softmax; exp(-100), logistic(-95) and erfc(9.5) are denormal. Squares and higher
  // powers of the small operands are, too, or underflow.
  with_specials("exp", f32, [](const Array& x) { return exp(x); },
                {{"_inf", -kInf}, {"_denormal", -100}, {"_small", 1e-12}});
  with_specials("log", f32, [](const Array& x) { return log(x); },
                {{"_zero", 0}, {"_denormal", 1e-40}});
  with_specials("log1p", f32, [](const Array& x) { return log1p(x); }, {{"_small", 1e-12}});
  with_specials("logistic", f32, [](const Array& x) { return sigmoid(x); },
                {{"_inf", -kInf}, {"_denormal", -95}, {"_small", 1e-12}});
  with_specials("tanh", f32, [](const Array& x) { return tanh(x); },
                {{"_inf", kInf}, {"_large", 1e30}, {"_small", 1e-12}});
  with_specials("erf", f32, [](const Array& x) { return erf(x); },
                {{"_inf", kInf}, {"_large", 1e30}, {"_small", 1e-6}});
  with_specials("erfc", f32, [](const Array& x) { return erfc(x); },
                {{"_inf", kInf}, {"_denormal", 9.5}});
  return true;
}();

const Register chain10_f64("B02.chain10_f64_1M", "us", [] {
  return moving(16 << 20, go(compiled(chain10), u64(1, {1 << 20})));
});
const Register chain10_grad("B02.chain10_grad_1M", "us", [] {
  const auto total = [](const Array& x) { return sum(chain10(x)); };
  return moving(8 << 20, go(compiled(grad(total)), u(1, {1 << 20})));
});
const Register four_terms("B02.four_1M", "us", [] {
  const Shape n{1 << 20};
  return moving(20 << 20, go(compiled(four), u(1, n), u(2, n), u(3, n), u(4, n)));
});
const Register four_grad("B02.four_grad_1M", "us", [] {
  const Shape n{1 << 20};
  const auto total = [](const Array& a, const Array& b, const Array& c, const Array& d) {
    return sum(four(a, b, c, d));
  };
  return moving(32 << 20,
                go(compiled(grad<0, 1, 2, 3>(total)), u(1, n), u(2, n), u(3, n), u(4, n)));
});
const Register gelu10("B02.gelu10", "us", [] {
  const auto f = [](Array x) {
    for (int i = 0; i < 10; ++i) x = x * (1 + erf(x * .7071067811865476)) * .5;
    return x;
  };
  return moving(8. * 1024000, go(compiled(f), z(1, {1000, 1024})));
});

/// S, K, r, s, T: price, strike, rate, volatility, years.
Array option_price(const Array& S, const Array& K, const Array& r, const Array& s, const Array& T) {
  const Array d1 = (log(S / K) + (r + .5 * s * s) * T) / (s * sqrt(T));
  const Array d2 = d1 - s * sqrt(T);
  const auto N = [](const Array& x) { return .5 * (1 + erf(x * .7071067811865476)); };
  return S * N(d1) - K * exp(-r * T) * N(d2);
}
const Register black_scholes("B02.black_scholes", "us", [] {
  const Shape n{1 << 18};
  Case c = go(compiled(vmap(value_and_grad<0, 1, 2, 3, 4>(option_price))), 100 + 20 * z(1, n),
              90 + 20 * u(2, n), .01 + .05 * u(3, n), .1 + .3 * u(4, n), .2 + u(5, n));
  c.bytes = 11. * 4 * (1 << 18);
  c.note = "price + 5 greeks, 256k options";
  return c;
});

/// A picture of three colours, down its columns and along its rows.
Array blurred(const Array& x) {
  const Array y = .25 * (x(slice(2, {})) + 2 * x(slice(1, -1)) + x(slice({}, -2)));
  const Array left = y(slice(), slice({}, -2)), right = y(slice(), slice(2, {}));
  return .25 * (left + 2 * y(slice(), slice(1, -1)) + right);
}
const Register blur_rgb("B02.blur_rgb", "us", [] {
  return moving(8. * 3 * 512 * 512, go(compiled(blurred), u(1, {512, 512, 3})));
});
/// A picture twice as wide and as high, and half as bright.
Array upsampled(const Array& x) { return .5 * repeat(repeat(x, 2, 0), 2, 1); }
const Register upsample("B02.upsample", "us", [] {
  return moving(20. * 512 * 512, go(compiled(upsampled), u(1, {512, 512})));
});
/// As many parts as a state may have, each computed in its own way.
Array joined(const Array& x) {
  std::vector<Array> parts;
  for (std::int64_t i = 0; i < 24; ++i) {
    const Array part = x(slice(i * 4096, (i + 1) * 4096));
    parts.push_back(i % 2 == 0 ? part * static_cast<float>(i + 1) : part + x(slice(0, 4096)));
  }
  return concatenate(parts);
}
const Register join("B02.join_24", "us",
                    [] { return moving(8. * 24 * 4096, go(compiled(joined), u(1, {24 * 4096}))); });
const Register bcast_add("B02.bcast_add", "us", [] {
  return moving(32 << 20, go(compiled([](const Array& a, const Array& b) { return a + b; }),
                             u(1, {1024, 4096}), u(2, {1, 4096})));
});
const bool transposes = [] {
  for (const Shape& shape : {Shape{64, 64}, Shape{4096, 4096}, Shape{100'000, 30}}) {
    Register(fmt::format("B02.transpose_{}x{}", shape[0], shape[1]), "us", [shape] {
      return moving(8. * static_cast<double>(shape.num_elements()),
                    go(compiled([](const Array& x) { return transpose(x); }), u(1, shape)));
    });
  }
  return true;
}();
const Register transposed_add("B02.transposed_add", "us", [] {
  return moving(48 << 20,
                go(compiled([](const Array& a, const Array& b) { return a + transpose(b); }),
                   u(1, {1024, 4096}), u(2, {4096, 1024})));
});

}  // namespace
}  // namespace bench
