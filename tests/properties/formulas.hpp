// What random programs are made of: C++ over two values, run and printed from one text.
#pragma once

#include <functional>

#include "transforms/support.hpp"

namespace telamon_test {

using Body = std::function<Array(Array, Array)>;

/// Whether the body of a call may read values around it, and which derivatives it has.
enum class Kind { free, closed, forward, forward_closed, reverse_closed };

/// What an instruction computes: C++ over the values `a` and `b` and, in calls, a function `body` of
/// two values.
struct Formula {
  const char* text;
  Array (*apply)(const Array& a, const Array& b, const Body& body);
  Kind kind = Kind::free;

  bool captures() const { return kind == Kind::free || kind == Kind::forward; }
  bool in_forward() const { return kind != Kind::reverse_closed; }
  bool in_reverse() const { return kind != Kind::forward && kind != Kind::forward_closed; }
};
#define FORMULA_OF(kind, ...)                                                   \
  Formula {                                                                     \
    #__VA_ARGS__,                                                               \
        []([[maybe_unused]] const Array& a, [[maybe_unused]] const Array& b,    \
           [[maybe_unused]] const Body& body) -> Array { return __VA_ARGS__; }, \
        Kind::kind                                                              \
  }
#define FORMULA(...) FORMULA_OF(free, __VA_ARGS__)

// All values are vectors of one length (scalars inside vmap), so any two fit together.
const Formula kUnary[] = {FORMULA(tl::sin(a)), FORMULA(tl::tanh(a)), FORMULA(tl::lax::logistic(a)),
                          FORMULA(tl::square(a) * 0.5), FORMULA(-a)};
const Formula kBinary[] = {
    FORMULA(a + b), FORMULA(a - b), FORMULA(tl::sin(a) * b), FORMULA(tl::maximum(a, b)),
    FORMULA(tl::where(a > b, 1.0, 2.0) * b),  // weakly typed
    FORMULA(a*((b > 0.0).astype(tl::DType::i32) * 2 - 1)),
    FORMULA(tl::optimization_barrier(std::pair{a * b, b}).first),
    FORMULA(tl::linear_call([](Array r, Array v) { return v * r; },
                            [](Array r, Array v) { return v * r; }, tl::sin(b), a)),
    // Every start grows, so that the loop ends: 1.5 * c + 0.3 stays at -0.6 for ever.
    FORMULA(a + tl::while_loop([](Array c) { return tl::sum(c * c) < 3.0; },
                               [](Array c) { return 1.5 * tl::abs(c) + 0.3; },
                               tl::stop_gradient(b)))};
const Formula kReduce = FORMULA(b + tl::sum(tl::sin(a)) * 0.1);
const Formula kCalls[] = {
    FORMULA(tl::jit(body)(a, b)),
    FORMULA_OF(closed, a.ndim() == 0 ? body(a, b) : tl::vmap(body)(a, b)),
    FORMULA_OF(
        forward,
        tl::jvp([&](Array u) { return body(u, b); }, std::tuple{a}, std::tuple{tl::sin(b)}).second),
    FORMULA(tl::grad([&](Array u) { return tl::sum(body(u, b)); })(a)),
    FORMULA(tl::cond(
        tl::sum(a) > 0.1, body, [&](Array u, Array v) { return body(v, u) - u; }, a, b)),
    FORMULA(tl::switch_(tl::sum((a > b).astype(tl::DType::i32)),
                        std::tuple{body, [](Array u, Array v) { return u - v; },
                                   [](Array u, Array v) { return u * tl::sin(v); }},
                        a, b)),
    FORMULA(tl::scan(
                [&](Array c, Array x) {
                  const Array y = tl::tanh(body(c, x));
                  return std::pair{y, c - y};
                },
                a, tl::stack({a, b, b}))
                .first),
    FORMULA(tl::sum(
        tl::scan([&](Array c, Array x) { return std::pair{tl::sin(c) * 0.9, body(b, x) * c}; }, a,
                 tl::stack({b, a}), {.reverse = true})
            .second,
        0)),
    FORMULA(tl::fori_loop(
        0, 3, [&](Array i, Array c) { return tl::sin(body(c, b)) - 0.1 * i.astype(c.dtype()); },
        a)),
    FORMULA(tl::while_loop([&](Array c) { return tl::sum(c * c) < 4.0; },
                           [&](Array c) { return 1.5 * c + tl::tanh(body(c, b)) + 0.2; }, a,
                           {.max_steps = 4})),
    FORMULA_OF(closed,
               a.ndim() == 0
                   ? body(a, b)
                   : tl::map([&](std::pair<Array, Array> r) { return body(r.first, r.second); },
                             std::pair{a, b}, {.batch_size = 2})),
    FORMULA_OF(forward_closed,
               tl::custom_jvp(body,
                              [body](std::tuple<Array, Array> p, std::tuple<Array, Array> t) {
                                return tl::jvp(body, p, t);
                              })(a, b)),
    FORMULA(tl::checkpoint(body)(a, b)),
    FORMULA(std::get<0>(tl::vjp([&](Array u) { return body(u, b); }, a).second(tl::sin(b)))),
    FORMULA_OF(forward, tl::linearize([&](Array u) { return body(u, b); }, a).second(tl::sin(b))),
    FORMULA(tl::jit([&](Array u, Array v, int n) { return body(u, v) / n; },
                    {.donate = {0}, .static_argnums = {2}})(a + 0.5, b, 2)),
    FORMULA(b* tl::fori_loop(  // a weakly typed number is carried
        0, 2, [&](Array, Array c) { return 0.5 * c + tl::sum(body(a, b)) * 0.1; }, 0.5)),
    FORMULA(a.ndim() == 0
                ? body(a, b)
                : tl::associative_scan([](Array u, Array v) { return tl::tanh(v) * 0.5 + u; },
                                       body(a, b))),
    FORMULA(tl::while_loop(
                [&](std::pair<Array, Array> c) {
                  return (c.first < 5) & (tl::sum(c.second * c.second) < 4.0);
                },
                [&](std::pair<Array, Array> c) {
                  return std::pair{c.first + 1, 1.5 * c.second + tl::tanh(body(c.second, b)) + 0.2};
                },
                std::pair{Array(0), a}, {.max_steps = 9, .checkpoint = true})
                .second),
    FORMULA(tl::scan(
                [&](Array c) {
                  const auto other = [](Array u, Array v) {
                    return tl::while_loop([](Array w) { return tl::sum(w * w) < 1.0; },
                                          [](Array w) { return w * 1.5 + 0.3; }, u - v,
                                          {.max_steps = 3});
                  };
                  return std::pair{tl::cond(tl::sum(c) > 0.0, body, other, c, b), tl::none};
                },
                a, tl::none, {.length = 3, .reverse = true})
                .first),
    FORMULA_OF(closed,
               tl::custom_vmap(body,
                               [body](std::int64_t, std::array<bool, 2> mapped, Array u, Array v) {
                                 const auto axis = [&](int i) {
                                   return mapped[i] ? tl::Axes(0) : tl::Axes(tl::none);
                                 };
                                 const tl::Axes axes{axis(0), axis(1)};
                                 return std::pair{tl::vmap(body, {.in_axes = axes})(u, v), true};
                               })(a, b)),
    FORMULA(tl::custom_linear_solve([&](Array x) { return x * (2.0 + tl::sin(b)); }, body(a, b),
                                    [&](auto, Array y) { return y / (2.0 + tl::sin(b)); },
                                    {.symmetric = true})),
    FORMULA(tl::custom_root([&](Array z) { return z * 3.0 - body(a, b); }, a,
                            [](auto f, Array z) { return z - f(z) / 3.0; },
                            [](auto g, Array y) { return y / g(tl::ones_like(y)); })),
    // Forward mode through it is an error, as in JAX.
    FORMULA_OF(
        reverse_closed,
        tl::custom_vjp(
            body, [body](Array u, Array v) { return std::pair{body(u, v), std::tuple{u, v}}; },
            [body](std::tuple<Array, Array> r, Array ct) {
              return tl::vjp(body, std::get<0>(r), std::get<1>(r)).second(ct);
            })(a, b)),
};
#undef FORMULA
#undef FORMULA_OF

}  // namespace telamon_test
