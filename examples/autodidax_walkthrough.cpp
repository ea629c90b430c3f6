// Autodidax, walked through: every example of "JAX core from scratch", Parts 1 to 5, in C++.
//
// Part 1 interprets a function in three ways: evaluation, jvp, vmap. Part 2 records it as a jaxpr.
// Part 3 compiles it with jit. Part 4 splits its jvp into linearize, and transposes that into vjp
// and grad. Part 5 adds control flow: cond. All numbers and programs below are printed by the library as it runs.
#include <iostream>
#include <map>
#include <string>
#include <telamon/telamon.hpp>
#include <tuple>
#include <vector>

namespace tl = telamon;
using tl::Array;

namespace {

void part(const std::string& title) {
  std::cout << "\n" << title << "\n" << std::string(title.size(), '=') << "\n";
}
void step(const std::string& title) { std::cout << "\n-- " << title << "\n"; }

/// Prints the error that `body` must raise.
template <class Error, class Body>
void expect(const char* name, Body body) {
  try {
    body();
    std::cout << "There was no " << name << ".\n";
  } catch (const Error& error) { std::cout << name << ": " << error.message() << "\n"; }
}

// The tutorial's numbers are float64 scalars: strong ones, unlike a bare C++ `3.0`, which is weakly
// typed and so prints as ~f64[].
Array f64(double value) { return tl::asarray(value); }
const Array three = f64(3.0);

Array f(Array x) {
  Array y = tl::sin(x) * 2.0;
  Array z = -y + x;
  return z;
}

/// The derivative of a function of one number.
template <class F>
auto deriv(F function) {
  return [function](Array x) {
    return tl::jvp(function, std::tuple{x}, std::tuple{tl::ones_like(x)}).second;
  };
}

// ---- Part 1 ------------------------------------------------------------------------------------

void evaluation() {
  step("evaluation: the interpreter at the bottom of the stack");
  std::cout << f(three) << "\n";
}

void forward_mode() {
  step("jvp: primal-tangent pairs flow through the function");
  const auto sin = [](Array x) { return tl::sin(x); };
  const auto [y, sin_deriv_at_3] = tl::jvp(sin, std::tuple{three}, std::tuple{f64(1.0)});
  std::cout << sin_deriv_at_3 << "\n" << tl::cos(three) << "\n";

  const auto [value, tangent] = tl::jvp(f, std::tuple{three}, std::tuple{f64(1.0)});
  std::cout << value << "\n" << tangent << "\n";

  step("jvp of jvp: interpreters stack");
  std::cout << deriv(sin)(three) << "\n";
  std::cout << deriv(deriv(sin))(three) << "\n";
  std::cout << deriv(deriv(deriv(sin)))(three) << "\n";
  std::cout << deriv(deriv(deriv(deriv(sin))))(three) << "\n";

  step("C++ control flow on a value that is being differentiated");
  const auto branching = [](Array x) { return x > 0.0 ? 2.0 * x : x; };
  std::cout << deriv(branching)(three) << "\n" << deriv(branching)(f64(-3.0)) << "\n";
}

struct HiThere {
  Array hi;
  std::vector<Array> there;
};

std::string show(const HiThere& tree) {
  std::string text;
  tl::tree_map_with_path(
      [&](const std::string& path, Array leaf) {
        text += (text.empty() ? "" : ", ") + path + ": " + leaf.to_string();
        return leaf;
      },
      tree);
  return "{" + text + "}";
}

void pytrees() {
  step("pytrees: results may be any nested aggregate");
  const auto g = [](Array x) {
    Array y = tl::sin(x) * 2.0;
    Array z = -y + x;
    return HiThere{z, {x, y}};
  };
  const auto [y, ydot] = tl::jvp(g, std::tuple{three}, std::tuple{f64(1.0)});
  std::cout << show(y) << "\n" << show(ydot) << "\n";
  std::cout << tl::tree_structure(y).to_string() << "\n";
}

void batching() {
  step("vmap: the function sees one scalar, the primitives see the whole vector");
  const auto add_one_to_a_scalar = [](Array scalar) {
    std::cout << "inside, the argument is " << scalar << "\n";
    return 1.0 + scalar;
  };
  const Array vector_in = tl::arange(3.0, tl::f64);
  const Array vector_out = tl::vmap(add_one_to_a_scalar)(vector_in);
  std::cout << vector_in << "\n" << vector_out << "\n";

  step("jacfwd is vmap of jvp over the standard basis");
  const Array x = tl::arange(3.0, tl::f64);
  const auto sin = [](Array v) { return tl::sin(v); };
  const auto pushforward = [&](Array v) {
    return tl::jvp(sin, std::tuple{x}, std::tuple{v}).second;
  };
  std::cout << tl::vmap(pushforward)(tl::eye(3, tl::none, 0, tl::f64)) << "\n";
  std::cout << tl::jacfwd(sin)(x) << "\n";

  step("what the tutorial leaves open: other axes, and arguments that are not mapped");
  const Array matrix = tl::reshape(tl::arange(6.0, tl::f64), {2, 3});
  const auto total = [](Array v) { return tl::sum(v); };
  std::cout << tl::vmap(total, {.in_axes = 1})(matrix) << "\n";
  const auto scaled = [](Array v, Array s) { return v * s; };
  std::cout << tl::vmap(scaled, {.in_axes = {0, tl::none}})(matrix, three) << "\n";

  step("and tracers that outlive their transformation");
  Array leaked;
  const auto leak = [&](Array v) { return leaked = tl::sin(v); };
  tl::vmap(leak)(x);
  expect<tl::LeakedTracerError>("LeakedTracerError", [&] { tl::cos(leaked); });
}

// ---- Part 2 ------------------------------------------------------------------------------------

void staging() {
  step("make_jaxpr records what a function does");
  const auto doubled = tl::make_jaxpr([](Array x) { return 2.0 * x; })(three);
  std::cout << doubled << "\n" << tl::typecheck_jaxpr(doubled.jaxpr).to_string() << "\n";
  std::cout << tl::make_jaxpr(f)(three) << "\n";

  step("omnistaging: what does not depend on the arguments is recorded too");
  std::cout << tl::make_jaxpr([] { return tl::lax::mul(f64(2.0), f64(2.0)); })() << "\n";

  step("parameters of equations");
  const auto with_params = [](Array x) {
    return tl::lax::broadcast_in_dim(tl::lax::reduce_sum(x, {0}), {2, 3}, {});
  };
  std::cout << tl::make_jaxpr(with_params)(tl::arange(3.0, tl::f64)) << "\n";

  step("make_jaxpr of vmap, and of grad");
  std::cout << tl::make_jaxpr(tl::vmap(f))(tl::arange(3.0, tl::f64)) << "\n";
  std::cout << tl::make_jaxpr(tl::grad(f))(three) << "\n";
}

void typechecking() {
  step("typecheck finds programs that make no sense");
  // The parser refuses such text by itself, so these programs are made by hand.
  const tl::Aval real{{}, tl::f64, false};
  const auto eqn = [](const tl::PrimitiveBase& primitive, std::vector<tl::Var> in, tl::Var out) {
    tl::Atoms operands;
    for (const tl::Var v : in) operands.push_back(tl::Atom::var(v));
    return tl::Eqn{&primitive, {}, std::move(operands), {out}, tl::Effect::none, {}};
  };
  const auto check = [](int inputs, std::vector<tl::Aval> avals, std::vector<tl::Eqn> eqns) {
    expect<tl::TypeError>("TypeError", [&] {
      tl::typecheck_jaxpr(
          tl::Jaxpr(inputs, std::move(avals), std::move(eqns), {tl::Atom::var(inputs)}));
    });
  };
  check(1, {real, real}, {eqn(tl::sin_p, {2}, 1)});
  check(1, {real, real}, {eqn(tl::sin_p, {0}, 1), eqn(tl::sin_p, {0}, 1)});
  check(1, {real, real, real}, {eqn(tl::sin_p, {0}, 2), eqn(tl::sin_p, {0}, 1)});
  check(1, {{{3}, tl::f64, false}, real}, {eqn(tl::sin_p, {0}, 1)});
  check(2, {real, {{}, tl::f32, false}, real}, {eqn(tl::add_p, {0, 1}, 2)});
}

void evaluating_jaxprs() {
  step("eval_jaxpr binds primitives, so it can be transformed like any function");
  const tl::Jaxpr program = tl::make_jaxpr(f)(three).jaxpr;
  const auto run = [&](Array x) { return tl::eval_jaxpr(program, std::vector<Array>{x})[0]; };
  std::cout << run(three) << "\n" << tl::grad(run)(three) << "\n";
  std::cout << (tl::make_jaxpr(run)(three).jaxpr == program ? "traced again, it is the same program"
                                                            : "the programs differ")
            << "\n";
}

// ---- Part 3 ------------------------------------------------------------------------------------

void compilation() {
  step("jit traces on the first call");
  const auto g = tl::jit([](Array x, Array y) {
    std::cout << "tracing!\n";
    return tl::sin(x) * tl::cos(y);
  });
  std::cout << g(f64(3.0), f64(4.0)) << "\n";
  step("and not on the second");
  std::cout << g(f64(4.0), f64(5.0)) << "\n";

  step("a reduction");
  const auto sum = tl::jit([](Array x) { return tl::lax::reduce_sum(x, {0}); });
  std::cout << sum(Array({1.0, 2.0, 3.0})) << "\n";

  step("jit of a second derivative");
  std::cout << deriv(deriv(f))(three) << "\n";
  std::cout << tl::jit(deriv(deriv(f)))(three) << "\n";

  step("control flow on traced values cannot be compiled");
  expect<tl::ConcretizationError>(
      "ConcretizationError", [] { tl::jit([](Array x) { return x > 0.0 ? 2.0 * x : x; })(three); });
}

void transformed_jit() {
  step("jvp and vmap of jit transform the recorded program: one trace serves all");
  const auto g = tl::jit([](Array x) {
    std::cout << "tracing!\n";
    Array y = tl::sin(x) * 2.0;
    Array z = -y + x;
    return z;
  });
  for (int call = 0; call < 2; ++call) {
    const auto [y, ydot] = tl::jvp(g, std::tuple{three}, std::tuple{f64(1.0)});
    std::cout << y << " " << ydot << "\n";
  }
  std::cout << tl::vmap(g)(tl::arange(3.0, tl::f64)) << "\n";

  step("the program of jvp(jit(f))");
  const auto jitted = tl::jit(f, {.name = "f"});
  const auto pushed = [&](Array x, Array dx) {
    return tl::jvp(jitted, std::tuple{x}, std::tuple{dx});
  };
  std::cout << tl::make_jaxpr(pushed)(three, f64(1.0)) << "\n";
}

void nested_jit() {
  step("jit of jit");
  const auto inner = tl::jit(
      [](Array x) {
        std::cout << "tracing inner!\n";
        return tl::sin(x) * 2.0;
      },
      {.name = "inner"});
  const auto outer = [&](Array x) {
    const Array y = inner(x);  // first, so that the program has one order
    return y + inner(x + 1.0);
  };
  std::cout << tl::make_jaxpr(outer)(three) << "\n";
  std::cout << tl::jit(outer)(three) << " " << outer(three) << "\n";
}

// ---- Part 4 ------------------------------------------------------------------------------------

void linear_maps() {
  step("linearize: the tangents' program, staged out; it does no primal work again");
  const auto sin = [](Array x) { return tl::sin(x); };
  const auto [y, sin_lin] = tl::linearize(sin, three);
  std::cout << y << " " << tl::sin(three) << "\n";
  std::cout << sin_lin(1.0) << " " << tl::cos(three) << "\n";
  std::cout << sin_lin.jaxpr() << "\n";
  const auto [z, f_lin] = tl::linearize(f, three);
  std::cout << z << " " << f_lin(1.0) << "\n" << f_lin.jaxpr() << "\n";

  step("linearize of a shared constant");
  const auto twice = [](Array x) { return three * x + three * x; };
  std::cout << tl::linearize(twice, three).second(1.0) << "\n";

  step("linearize of jit, and of nested jit");
  const auto [v, v_lin] = tl::linearize(tl::jit(f), three);
  std::cout << v << " " << v_lin(1.0) << "\n";
  const auto g = tl::jit([](Array x, Array w) { return tl::cos(x) + w; });
  const auto h = tl::jit([&](Array x) { return g(x, tl::sin(x) * 2.0); });
  const auto [u, u_lin] = tl::linearize(h, three);
  std::cout << u << " " << u_lin(1.0) << "\n";
}

void reverse_mode() {
  step("vjp: the transpose of the linear program");
  const auto sin = [](Array x) { return tl::sin(x); };
  const auto [y, pullback] = tl::vjp(sin, three);
  std::cout << std::get<0>(pullback(1.0)) << " " << tl::cos(three) << "\n";

  step("grad");
  std::cout << tl::grad(f)(three) << "\n";
  expect<tl::TypeError>("TypeError",
                        [] { tl::grad([](Array x) { return x; })(Array({1.0, 2.0})); });

  step("grad of nested jits");
  const auto g = tl::jit([](Array x) { return tl::cos(x) * 2.0; });
  const auto h = tl::jit([&](Array x) { return g(x * 2.0); });
  std::cout << tl::grad(h)(three) << "\n";

  step("grad(jit(f)) is two calls: forward, which passes residuals on, and backward");
  std::cout << tl::make_jaxpr(tl::grad(tl::jit(f, {.name = "f"})))(three) << "\n";

  step("grad through C++ control flow");
  const auto branching = [](Array x) { return x > 0.0 ? x * x : -x; };
  std::cout << tl::grad(branching)(three) << " " << tl::grad(branching)(f64(-3.0)) << "\n";
}

// ---- All at once -------------------------------------------------------------------------------

/// jit inside jvp inside jit, closing over tracers of every level.
Array with_nested_calls(Array x) {
  const auto bar = tl::jit([](Array y_outer, Array x_outer) {
    const auto baz = [&](Array w) {
      Array q = tl::jit([&](Array) { return y_outer; })(x_outer);
      q = q + tl::jit([&] { return y_outer; })();
      q = q + tl::jit([&](Array y) { return w + y; })(y_outer);
      q = tl::jit([&](Array) {
            return tl::jit([](Array v) { return tl::sin(v); })(x_outer) * y_outer;
          })(f64(1.0)) +
          q;
      return q;
    };
    const auto [p, t] = tl::jvp(baz, std::tuple{x_outer + 1.0}, std::tuple{y_outer});
    return t + x_outer * p;
  });
  return bar(x, x);
}

void nested_calls() {
  step("nested calls: every composition gives the same value");
  const auto g = with_nested_calls;
  const auto one = std::tuple{f64(1.0)};
  const auto at = std::tuple{three};
  const auto second = [](const auto& pair) { return pair.second; };
  std::cout << "eager          " << g(three) << "\n"
            << "jit            " << tl::jit(g)(three) << "\n"
            << "jvp            " << tl::jvp(g, at, one).first << "\n"
            << "jvp(jit)       " << tl::jvp(tl::jit(g), at, one).first << "\n";

  step("first derivatives");
  std::cout << "grad           " << tl::grad(g)(three) << "\n"
            << "grad(jit)      " << tl::grad(tl::jit(g))(three) << "\n"
            << "jit(grad(jit)) " << tl::jit(tl::grad(tl::jit(g)))(three) << "\n"
            << "jvp            " << second(tl::jvp(g, at, one)) << "\n"
            << "jvp(jit)       " << second(tl::jvp(tl::jit(g), at, one)) << "\n";

  step("second derivatives");
  std::cout
      << "grad(grad)      " << tl::grad(tl::grad(g))(three) << "\n"
      << "grad(grad(jit)) " << tl::grad(tl::grad(tl::jit(g)))(three) << "\n"
      << "grad(jit(grad)) " << tl::grad(tl::jit(tl::grad(g)))(three) << "\n"
      << "jit(grad(grad)) " << tl::jit(tl::grad(tl::grad(g)))(three) << "\n"
      << "jvp(grad)       " << second(tl::jvp(tl::grad(g), at, one)) << "\n"
      << "jvp(jit(grad))  " << second(tl::jvp(tl::jit(tl::grad(g)), at, one)) << "\n"
      << "jit(jvp(grad))  " << tl::jit([&](Array x) {
           return tl::jvp(tl::grad(with_nested_calls), std::tuple{x}, std::tuple{f64(1.0)}).second;
         })(three)
      << "\n";
}

// ---- Part 5 ------------------------------------------------------------------------------------

/// x squared or zero, by a predicate whose value need not be known.
Array square_if(Array pred, Array x) {
  return tl::cond(pred, [](Array v) { return v * v; }, [](Array v) { return 0.0 * v; }, x);
}

void branches() {
  step("cond: both branches are traced, one of them runs");
  std::cout << tl::cond(true, [] { return Array(3); }, [] { return Array(4); }) << "\n";
  const auto by_sign = [](Array x) {
    return tl::cond(
        x > 0.0, [](Array v) { return tl::sin(v); }, [](Array v) { return v * 2.0; }, x);
  };
  std::cout << tl::make_jaxpr(by_sign)(three) << "\n";

  step("under each transformation");
  const auto increment = [](Array x) {
    return tl::cond(true, [&] { return x + 1.0; }, [&] { return 0.0 * x; });
  };
  const auto square = [](Array x) { return square_if(true, x); };
  const auto one_or_two = [](Array p) {
    return tl::cond(p, [] { return Array(1); }, [] { return Array(2); });
  };
  std::cout << "jvp            "
            << tl::jvp(square, std::tuple{f64(1.0)}, std::tuple{f64(1.0)}).second << "\n"
            << "vmap           " << tl::vmap(increment)(Array({1.0, 2.0, 3.0})) << "\n"
            << "jit            " << tl::jit(one_or_two)(false) << "\n";
  const auto either = [](Array x) {
    return tl::cond(true, [&] { return x; }, [&] { return 0.0 * x; });
  };
  std::cout << "linearize      " << tl::linearize(either, f64(1.0)).second(3.14) << "\n"
            << "linearize(jit) " << tl::linearize(tl::jit(either), f64(1.0)).second(3.14) << "\n"
            << "grad           " << tl::grad(square)(f64(1.0)) << "\n"
            << "vmap over pred " << tl::vmap(square_if)(Array({true, false}), Array({3.0, 4.0}))
            << "\n";

  step("branches must agree");
  expect<tl::TypeError>("TypeError", [] {
    tl::cond(true, [] { return tl::ones({3}); }, [] { return tl::ones({2}); });
  });
}

}  // namespace

int main() {
  part("Part 1: transformations as interpreters");
  evaluation();
  forward_mode();
  pytrees();
  batching();
  part("Part 2: jaxprs");
  staging();
  typechecking();
  evaluating_jaxprs();
  part("Part 3: jit");
  compilation();
  transformed_jit();
  nested_jit();
  part("Part 4: linearize, vjp and grad");
  linear_maps();
  reverse_mode();
  nested_calls();
  part("Part 5: the control flow primitive cond");
  branches();
}
