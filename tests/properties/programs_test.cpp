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

#include "properties/formulas.hpp"

namespace telamon_test {
namespace {

// ---- programs ----------------------------------------------------------------------------------
struct Instruction;
/// Over `given` values: two arguments and, in a body that captures, the operands of its call.
struct Program {
  std::size_t given = 2;
  std::vector<Instruction> steps;
};
struct Instruction {
  const Formula* formula;
  std::size_t a = 0, b = 0;
  Program body;  // of the calls
};

Array run(const Program& program, std::vector<Array> values) {
  for (const Instruction& in : program.steps) {
    const Array a = values[in.a], b = values[in.b];
    const Body body = [&in, a, b](Array u, Array v) {
      return run(in.body, in.body.given == 2 ? std::vector{u, v} : std::vector{u, v, a, b});
    };
    values.push_back(in.formula->apply(a, b, body));
  }
  return values.back();
}
Array run(const Program& program, const Array& x, const Array& y) {
  return run(program, std::vector{x, y});
}

// ---- programs as text ----------------------------------------------------------------------------
std::string name_of(char letter, std::size_t i) { return letter + std::to_string(i); }

/// The program as C++: the statements of a function of v0 and v1, of w0 and w1 inside a call, ...
std::string text(const Program& program, std::size_t depth = 0) {
  const char value = "vwz"[depth], inner = "vwz"[(depth + 1) % 3], function = "fgh"[depth];
  const std::string indent(2 * depth + 2, ' ');
  std::string out;
  std::size_t next = program.given;
  for (const Instruction& in : program.steps) {
    if (!in.body.steps.empty()) {
      const bool captures = in.body.given > 2;
      out += indent + "const auto " + name_of(function, next) + " = [" + (captures ? "=" : "") +
             "](Array " + inner + "0, Array " + inner + "1) {\n";
      if (captures) {
        out += indent + "  const Array &" + inner + "2 = " + name_of(value, in.a) + ", &" + inner +
               "3 = " + name_of(value, in.b) + ";\n";
      }
      out += text(in.body, depth + 1) + indent + "};\n";
    }
    std::string formula = in.formula->text;
    for (const auto& [word, name] :
         {std::pair{"a", name_of(value, in.a)}, std::pair{"b", name_of(value, in.b)},
          std::pair{"body", name_of(function, next)}}) {
      formula = std::regex_replace(formula, std::regex("\\b" + std::string(word) + "\\b"), name);
    }
    out += indent + "const Array " + name_of(value, next++) + " = " + formula + ";\n";
  }
  return out + indent + "return " + name_of(value, next - 1) + ";\n";
}
std::string function_text(const Program& program) {
  return "Array program(Array v0, Array v1) {\n" + text(program) + "}\n";
}

// ---- random programs -----------------------------------------------------------------------------
enum class Mode { forward, reverse };  ///< which of the rules with one mode only occur

Program random_program(std::mt19937& random, int size, int depth, Mode mode,
                       std::size_t given = 2) {
  Program program{given, {}};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int i = 0; i < size; ++i) {
    const std::size_t available = given + program.steps.size();
    Instruction in{&kReduce, below(available), below(available), {}};
    const std::size_t kind = below(depth > 0 ? 10 : 6);
    if (kind < 2) in.formula = &kUnary[below(std::size(kUnary))];
    else if (kind < 5) in.formula = &kBinary[below(std::size(kBinary))];
    else if (kind > 5) {
      do in.formula = &kCalls[below(std::size(kCalls))];
      while (!(mode == Mode::forward ? in.formula->in_forward() : in.formula->in_reverse()));
      in.body = random_program(random, 2 + static_cast<int>(below(2)), depth - 1, mode,
                               in.formula->captures() ? 4 : 2);
    }
    program.steps.push_back(std::move(in));
  }
  return program;
}

bool has(const Program& program, const Formula& call) {
  return std::any_of(program.steps.begin(), program.steps.end(), [&](const Instruction& in) {
    return in.formula == &call || has(in.body, call);
  });
}
bool mentions(const Program& program, std::string_view word) {
  return std::any_of(program.steps.begin(), program.steps.end(), [&](const Instruction& in) {
    return std::string_view(in.formula->text).find(word) != std::string_view::npos ||
           mentions(in.body, word);
  });
}
bool is_forward(const Program& program) {
  return std::all_of(program.steps.begin(), program.steps.end(), [](const Instruction& in) {
    return in.formula->in_forward() && is_forward(in.body);
  });
}

void expect_close(const Array& got, const Array& want, const char* what) {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  ASSERT_EQ(got.dtype(), want.dtype()) << what;
  const auto g = values(got), w = values(want);
  for (std::size_t i = 0; i < g.size(); ++i) {
    EXPECT_NEAR(g[i], w[i], 1e-9 * (1 + std::fabs(w[i]))) << what << ", element " << i;
  }
}

// The program of a composition prints, parses back to itself and type-checks.
template <class F, class... X>
void expect_sound(const char* what, const F& f, const X&... x) {
  const tl::Jaxpr jaxpr = tl::make_jaxpr(f)(x...).jaxpr;
  tl::typecheck_jaxpr(jaxpr);
  EXPECT_TRUE(tl::parse_jaxpr(jaxpr.to_string()) == jaxpr) << what << "\n" << jaxpr.to_string();
}

// Two points, two directions, and the weights of a sum.
struct Points {
  Array x{{0.3, -0.8, 1.1}}, y{{0.9, 0.2, -0.4}}, dx{{1.0, -0.5, 0.25}}, dy{{0.3, 0.7, -1.0}},
      ct{{0.2, 1.0, -0.6}};
};

// All the ways to run one program and its derivative.
void check_forward(const Program& program, const Points& at) {
  const auto& [x, y, dx, dy, ct] = at;
  const auto g = [&](Array a, Array b) { return run(program, a, b); };
  const auto [primal, tangent] = tl::jvp(g, std::tuple{x, y}, std::tuple{dx, dy});
  expect_close(primal, g(x, y), "jvp, primal");
  expect_close(tl::jvp(tl::jit(g), std::tuple{x, y}, std::tuple{dx, dy}).second, tangent,
               "jvp of jit");
  const auto push = [&](Array a, Array b, Array da, Array db) {
    return tl::jvp(g, std::tuple{a, b}, std::tuple{da, db}).second;
  };
  expect_close(tl::jit(push)(x, y, dx, dy), tangent, "jit of jvp");
  expect_close(tl::linearize(g, x, y).second(dx, dy), tangent, "linearize");
  expect_sound("jvp", push, x, y, dx, dy);

  const auto [ax, ay] = tl::vjp(g, x, y).second(ct);
  const auto dot = [](const Array& a, const Array& b) { return tl::sum(a * b).item<double>(); };
  EXPECT_NEAR(dot(ct, tangent), dot(ax, dx) + dot(ay, dy), 1e-9 * (1 + std::fabs(dot(ct, tangent))))
      << "<ct, J v> = <J' ct, v>";
  const auto scalar = [&](Array a, Array b) { return tl::sum(run(program, a, b) * at.ct); };
  const auto gradient_along = [&](Array a) {
    return tl::jvp([&](Array u) { return tl::grad(scalar)(u, at.y); }, std::tuple{a},
                   std::tuple{at.dx})
        .second;
  };
  const auto slope_gradient = [&](Array a) {
    return tl::grad([&](Array u) {
      return tl::sum(
          tl::jvp([&](Array w) { return run(program, w, at.y); }, std::tuple{u}, std::tuple{at.dx})
              .second *
          at.ct);
    })(a);
  };
  expect_close(gradient_along(x), slope_gradient(x),
               "forward over reverse against reverse over forward");
}

void check_program(const Program& program) {
  const Points at;
  const auto& [x, y, dx, dy, ct] = at;
  const auto g = [&](Array a, Array b) { return run(program, a, b); };
  const auto scalar = [&](Array a, Array b) { return tl::sum(run(program, a, b) * at.ct); };
  const Array value = g(x, y);
  expect_close(tl::jit(g)(x, y), value, "jit");
  const Array ax = std::get<0>(tl::vjp(g, x, y).second(ct));
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
  const Array none = tl::zeros({0, 3}, tl::DType::f64);
  expect_close(tl::vmap(g)(none, none), none, "vmap over nothing");
  expect_close(tl::jit(tl::vmap(g))(none, none), none, "jit of vmap over nothing");
  expect_close(tl::jit(tl::vmap(tl::grad(scalar)))(none, none), none,
               "jit of vmap of grad, over nothing");
  // As in JAX, checkify refuses loops whose condition is mapped.
  if (!mentions(program, "while_loop") ||
      !(mentions(program, "vmap") || mentions(program, "map("))) {
    const auto [error, checked] = tl::checkify(g, tl::all_checks)(x, y);
    EXPECT_FALSE(error.get()) << *error.get();
    expect_close(checked, value, "checkify");
  }
  expect_sound("itself", g, x, y);
  expect_sound("grad", tl::grad<0, 1>(scalar), x, y);
  expect_sound("jit of vmap of grad of jit", tl::jit(tl::vmap(tl::grad(tl::jit(scalar)))), xs, ys);
  if (is_forward(program)) check_forward(program, at);
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

// The body of a call in the place of the program that is nothing else.
Program body_of(const Program& program) {
  const Instruction& call = program.steps[0];
  Program out{program.given, call.body.steps};
  for (Instruction& in : out.steps) {
    for (std::size_t* operand : {&in.a, &in.b}) {
      if (*operand >= call.body.given) *operand += program.given - call.body.given;
      else if (*operand >= 2) *operand = *operand == 2 ? call.a : call.b;
    }
  }
  return out;
}

// Programs of one step less: a prefix, a call's body in its place, a shorter body, or an instruction
// that reads its operand's operand.
std::vector<Program> smaller(const Program& program) {
  std::vector<Program> all;
  const std::size_t size = program.steps.size();
  if (size > 1) all.push_back({program.given, {program.steps.begin(), program.steps.end() - 1}});
  for (std::size_t i = 0; i < size; ++i) {
    const Instruction& in = program.steps[i];
    const std::size_t result = program.given + i;
    if (size > 1 && i + 1 < size) {  // leave it out: who read it reads operand a
      Program shorter{program.given, {}};
      for (std::size_t k = 0; k < size; ++k) {
        if (k == i) continue;
        Instruction other = program.steps[k];
        for (std::size_t* operand : {&other.a, &other.b}) {
          if (*operand == result) *operand = in.a;
          else if (*operand > result) --*operand;
        }
        shorter.steps.push_back(std::move(other));
      }
      all.push_back(std::move(shorter));
    }
    for (Program& body : smaller(in.body)) {
      Program other = program;
      other.steps[i].body = std::move(body);
      all.push_back(std::move(other));
    }
  }
  if (size == 1 && !program.steps[0].body.steps.empty()) all.push_back(body_of(program));
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
    const Mode mode = seed % 4 == 3 ? Mode::reverse : Mode::forward;
    const Program program = random_program(random, size, depth, mode);
    if (!fails(program)) continue;
    const Program small = shrunk(program);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + function_text(small));
    check(small);
    ADD_FAILURE() << "compositions disagree";
    return;
  }
}

// A program that has every call, with random operands and bodies.
Program with_every_call() {
  std::mt19937 random(1);
  Program program;
  for (const Formula& call : kCalls) {
    if (!call.in_forward()) continue;
    const std::size_t available = program.given + program.steps.size();
    program.steps.push_back({&call, random() % available, random() % available,
                             random_program(random, 2, 1, Mode::forward, call.captures() ? 4 : 2)});
  }
  return program;
}

// That program as it was printed: a function `program`, compiled as part of this file.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "properties/printed_program.inc"
#pragma GCC diagnostic pop

TEST(Programs, PrintThemselvesAsTheCppThatRan) {
  const Program interpreted = with_every_call();
  std::ifstream file(TELAMON_SOURCE_DIR "/tests/properties/printed_program.inc");
  std::stringstream printed;
  printed << file.rdbuf();
  EXPECT_EQ(printed.str(), function_text(interpreted));
  const Points at;
  EXPECT_EQ(values(program(at.x, at.y)), values(run(interpreted, at.x, at.y)));
  const auto of_source = [&](Array a) { return tl::sum(program(a, at.y)); };
  const auto of_list = [&](Array a) { return tl::sum(run(interpreted, a, at.y)); };
  expect_close(tl::grad(of_source)(at.x), tl::grad(of_list)(at.x), "grad");
}

TEST(Programs, AllCompositionsAgree) { check_seeds(1, 300, 4, 2); }

// 10,000 programs.
class RandomPrograms : public testing::TestWithParam<int> {};
TEST_P(RandomPrograms, AllCompositionsAgree) { check_seeds(GetParam(), 500, 5, 2); }
INSTANTIATE_TEST_SUITE_P(LONG_Seeds, RandomPrograms, testing::Range(1000, 11000, 500));

}  // namespace
}  // namespace telamon_test
