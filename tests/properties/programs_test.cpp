// Random programs: whatever is composed with whatever, all compositions agree.
//
// A program is a list of instructions over a growing list of values, as in a stack machine, some of
// them grouped into functions that are jitted, vmapped, differentiated, or become branches and bodies
// of loops. It is run plainly, jitted, batched and differentiated in both modes, and the answers are
// compared. A failing program prints itself as C++.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <random>
#include <regex>
#include <sstream>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

// ---- formulas ----------------------------------------------------------------------------------
using Body = std::function<Array(Array, Array)>;

/// What an instruction computes: C++ over the values `a` and `b` and, in calls, a function `body` of
/// two values. The same text is run and printed.
struct Formula {
  const char* text;
  Array (*apply)(const Array& a, const Array& b, const Body& body);
};
#define FORMULA(...)                                                           \
  Formula {                                                                    \
    #__VA_ARGS__,                                                              \
        []([[maybe_unused]] const Array& a, [[maybe_unused]] const Array& b,   \
           [[maybe_unused]] const Body& body) -> Array { return __VA_ARGS__; } \
  }

// All values are vectors of one length (scalars inside vmap), so any two fit together.
const Formula kUnary[] = {FORMULA(tl::sin(a)), FORMULA(tl::tanh(a)), FORMULA(tl::lax::logistic(a)),
                          FORMULA(tl::square(a) * 0.5), FORMULA(-a)};
const Formula kBinary[] = {FORMULA(a + b), FORMULA(a - b), FORMULA(tl::sin(a) * b),
                           FORMULA(tl::maximum(a, b))};
const Formula kReduce = FORMULA(b + tl::sum(tl::sin(a)) * 0.1);
const Formula kCalls[] = {
    FORMULA(tl::jit(body)(a, b)),
    FORMULA(a.ndim() == 0 ? body(a, b) : tl::vmap(body)(a, b)),
    FORMULA(
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
    FORMULA(a.ndim() == 0
                ? body(a, b)
                : tl::map([&](std::pair<Array, Array> r) { return body(r.first, r.second); },
                          std::pair{a, b}, {.batch_size = 2})),
    FORMULA(tl::custom_jvp(body,
                           [body](std::tuple<Array, Array> p, std::tuple<Array, Array> t) {
                             return tl::jvp(body, p, t);
                           })(a, b)),
    FORMULA(tl::checkpoint(body)(a, b)),
};
#undef FORMULA

// ---- programs ----------------------------------------------------------------------------------
struct Instruction {
  const Formula* formula;
  std::size_t a = 0, b = 0;
  std::vector<Instruction> body;  // of the calls, over {a, b}
};
using Program = std::vector<Instruction>;

Array run(const Program& program, Array x, Array y) {
  std::vector<Array> values = {x, y};
  for (const Instruction& in : program) {
    const Body body = [&in](Array u, Array v) { return run(in.body, u, v); };
    values.push_back(in.formula->apply(values[in.a], values[in.b], body));
  }
  return values.back();
}

// ---- programs as text ----------------------------------------------------------------------------
std::string name_of(const char* letter, std::size_t i) { return letter + std::to_string(i); }

std::string statement(const Instruction& in, std::size_t number) {
  std::string formula = in.formula->text;
  for (const auto& [word, name] :
       {std::pair{"a", name_of("v", in.a)}, std::pair{"b", name_of("v", in.b)},
        std::pair{"body", name_of("f", number)}}) {
    formula = std::regex_replace(formula, std::regex("\\b" + std::string(word) + "\\b"), name);
  }
  return "const Array " + name_of("v", number) + " = " + formula + ";\n";
}

/// The program as C++: the statements of a function of v0 and v1.
std::string text(const Program& program, const std::string& indent) {
  std::string out;
  std::size_t next = 2;
  for (const Instruction& in : program) {
    if (!in.body.empty()) {
      out += indent + "const auto " + name_of("f", next) + " = [](Array v0, Array v1) {\n" +
             text(in.body, indent + "  ") + indent + "};\n";
    }
    out += indent + statement(in, next++);
  }
  return out + indent + "return " + name_of("v", next - 1) + ";\n";
}
std::string text(const Program& program) {
  return "Array program(Array v0, Array v1) {\n" + text(program, "  ") + "}\n";
}

// ---- random programs -----------------------------------------------------------------------------
Program random_program(std::mt19937& random, int size, int depth) {
  Program program;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int i = 0; i < size; ++i) {
    const std::size_t available = program.size() + 2;
    Instruction in{&kReduce, below(available), below(available), {}};
    const std::size_t kind = below(depth > 0 ? 10 : 6);
    if (kind < 2) in.formula = &kUnary[below(std::size(kUnary))];
    else if (kind < 5) in.formula = &kBinary[below(std::size(kBinary))];
    else if (kind > 5) {
      in.formula = &kCalls[below(std::size(kCalls))];
      in.body = random_program(random, 2 + static_cast<int>(below(2)), depth - 1);
    }
    program.push_back(std::move(in));
  }
  return program;
}

void expect_close(const Array& got, const Array& want, const char* what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  const auto g = values(got), w = values(want);
  for (std::size_t i = 0; i < g.size(); ++i) {
    EXPECT_NEAR(g[i], w[i], 1e-9 * (1 + std::fabs(w[i]))) << what << ", element " << i;
  }
}

// All the ways to run one program and its derivative.
void check_program(const Program& program) {
  const Array x({0.3, -0.8, 1.1}), y({0.9, 0.2, -0.4}), dx({1.0, -0.5, 0.25}), dy({0.3, 0.7, -1.0});
  const auto g = [&](Array a, Array b) { return run(program, a, b); };
  const Array value = g(x, y);
  expect_close(tl::jit(g)(x, y), value, "jit");
  const auto [primal, tangent] = tl::jvp(g, std::tuple{x, y}, std::tuple{dx, dy});
  expect_close(primal, value, "jvp, primal");
  expect_close(tl::jvp(tl::jit(g), std::tuple{x, y}, std::tuple{dx, dy}).second, tangent,
               "jvp of jit");
  const auto push = [&](Array a, Array b, Array da, Array db) {
    return tl::jvp(g, std::tuple{a, b}, std::tuple{da, db}).second;
  };
  expect_close(tl::jit(push)(x, y, dx, dy), tangent, "jit of jvp");
  expect_close(tl::linearize(g, x, y).second(dx, dy), tangent, "linearize");

  const Array ct({0.2, 1.0, -0.6});
  const auto [ax, ay] = tl::vjp(g, x, y).second(ct);
  const auto dot = [](const Array& a, const Array& b) { return tl::sum(a * b).item<double>(); };
  EXPECT_NEAR(dot(ct, tangent), dot(ax, dx) + dot(ay, dy), 1e-9 * (1 + std::fabs(dot(ct, tangent))))
      << "<ct, J v> = <J' ct, v>";
  const auto scalar = [&](Array a, Array b) { return tl::sum(run(program, a, b) * ct); };
  expect_close(tl::grad(scalar)(x, y), ax, "grad");
  expect_close(tl::jit(tl::grad(scalar))(x, y), ax, "jit of grad");
  expect_close(tl::grad(tl::jit(scalar))(x, y), ax, "grad of jit");

  const Array xs = tl::stack({x, y, dx}), ys = tl::stack({y, dx, dy});
  const Array batched = tl::vmap(g)(xs, ys);
  const Array batched_grad = tl::vmap(tl::grad(scalar))(xs, ys);
  for (int i = 0; i < 3; ++i) {
    expect_close(batched(i), g(xs(i), ys(i)), "vmap");
    expect_close(batched_grad(i), tl::grad(scalar)(xs(i), ys(i)), "vmap of grad");
  }
  expect_close(tl::jit(tl::vmap(tl::jit(g)))(xs, ys), batched, "jit of vmap of jit");
  const auto gradient_along = [&](Array a) {
    return tl::jvp([&](Array u) { return tl::grad(scalar)(u, y); }, std::tuple{a}, std::tuple{dx})
        .second;
  };
  const auto slope_gradient = [&](Array a) {
    return tl::grad([&](Array u) {
      return tl::sum(
          tl::jvp([&](Array w) { return run(program, w, y); }, std::tuple{u}, std::tuple{dx})
              .second *
          ct);
    })(a);
  };
  expect_close(gradient_along(x), slope_gradient(x),
               "forward over reverse against reverse over forward");
}

void check(const Program& program) {
  try {
    check_program(program);
  } catch (const std::exception& e) { ADD_FAILURE() << e.what(); }
}

bool fails(const Program& program) {
  ::testing::TestPartResultArray results;
  const ::testing::ScopedFakeTestPartResultReporter intercept(
      ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
  check(program);
  return results.size() > 0;
}

// Programs of one step less: a prefix, a call's body in its place, a shorter body, or an instruction
// that reads its operand's operand.
std::vector<Program> smaller(const Program& program) {
  std::vector<Program> all;
  if (program.size() > 1) all.emplace_back(program.begin(), program.end() - 1);
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Instruction& in = program[i];
    if (program.size() > 1 &&
        i + 1 < program.size()) {  // leave it out: who read it reads operand a
      Program shorter;
      for (std::size_t k = 0; k < program.size(); ++k) {
        if (k == i) continue;
        Instruction other = program[k];
        for (std::size_t* operand : {&other.a, &other.b}) {
          if (*operand == i + 2) *operand = in.a;
          else if (*operand > i + 2) --*operand;
        }
        shorter.push_back(std::move(other));
      }
      all.push_back(std::move(shorter));
    }
    for (Program& body : smaller(in.body)) {
      Program other = program;
      other[i].body = std::move(body);
      all.push_back(std::move(other));
    }
    if (program.size() == 1 && !in.body.empty()) all.push_back(in.body);
  }
  return all;
}

// A small program that fails as well.
Program shrunk(Program program) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Program& candidate : smaller(program)) {
      if (!fails(candidate)) continue;
      program = std::move(candidate);
      changed = true;
      break;
    }
  }
  return program;
}

void check_seeds(int first, int count, int size, int depth) {
  for (int seed = first; seed < first + count; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Program program = random_program(random, size, depth);
    if (!fails(program)) continue;
    const Program small = shrunk(program);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text(small));
    check(small);
    ADD_FAILURE() << "compositions disagree";
    return;
  }
}

bool has(const Program& program, const Formula& call) {
  return std::any_of(program.begin(), program.end(), [&](const Instruction& in) {
    return in.formula == &call || has(in.body, call);
  });
}

// The program of this seed as it was printed: a function `program`, compiled as part of this file.
constexpr unsigned kPrintedSeed = 56648;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "properties/printed_program.inc"
#pragma GCC diagnostic pop

TEST(Programs, PrintThemselvesAsTheCppThatRan) {
  std::mt19937 random(kPrintedSeed);
  const Program interpreted = random_program(random, 10, 2);
  std::ifstream file(TELAMON_SOURCE_DIR "/tests/properties/printed_program.inc");
  std::stringstream printed;
  printed << file.rdbuf();
  EXPECT_EQ(printed.str(), text(interpreted));
  for (const Formula& call : kCalls) {
    EXPECT_TRUE(has(interpreted, call)) << "the program has no " << call.text;
  }
  const Array x({0.3, -0.8, 1.1}), y({0.9, 0.2, -0.4});
  EXPECT_EQ(values(program(x, y)), values(run(interpreted, x, y)));
  const auto of_source = [&](Array a) { return tl::sum(program(a, y)); };
  const auto of_list = [&](Array a) { return tl::sum(run(interpreted, a, y)); };
  expect_close(tl::grad(of_source)(x), tl::grad(of_list)(x), "grad");
}

TEST(Programs, AllCompositionsAgree) { check_seeds(1, 300, 4, 2); }

// 10,000 programs.
class RandomPrograms : public testing::TestWithParam<int> {};
TEST_P(RandomPrograms, AllCompositionsAgree) { check_seeds(GetParam(), 500, 5, 2); }
INSTANTIATE_TEST_SUITE_P(LONG_Seeds, RandomPrograms, testing::Range(1000, 11000, 500));

}  // namespace
}  // namespace telamon_test
