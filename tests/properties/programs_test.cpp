// Random programs: whatever is composed with whatever, all compositions agree.
//
// A program is a list of instructions over a growing list of values, as in a stack machine, some of
// them grouped into jitted, vmapped or differentiated calls. It is run plainly, jitted, batched and
// differentiated in both modes, and the answers are compared. A failing program prints itself as C++.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

struct Instruction {
  enum class Kind { unary, binary, reduce, jit, vmap, jvp, grad } kind;
  int op = 0;
  std::size_t a = 0, b = 0;
  std::vector<Instruction> body;  // of the transformed calls, over {a, b}
};

using Program = std::vector<Instruction>;
constexpr const char* kUnary[] = {"tl::sin", "tl::tanh", "tl::logistic", "tl::square", "-"};
constexpr const char* kBinary[] = {"+", "-", "*", "tl::maximum"};

Array apply_unary(int op, const Array& x) {
  switch (op) {
    case 0: return tl::sin(x);
    case 1: return tl::tanh(x);
    case 2: return tl::lax::logistic(x);
    case 3: return tl::square(x) * 0.5;
    default: return -x;
  }
}
Array apply_binary(int op, const Array& x, const Array& y) {
  switch (op) {
    case 0: return x + y;
    case 1: return x - y;
    case 2: return tl::sin(x) * y;
    default: return tl::maximum(x, y);
  }
}

// All values are vectors of one length (scalars inside vmap), so any two fit together.
Array run(const Program& program, Array x, Array y) {
  std::vector<Array> values = {x, y};
  for (const Instruction& in : program) {
    const Array& a = values[in.a];
    const Array& b = values[in.b];
    switch (in.kind) {
      case Instruction::Kind::unary: values.push_back(apply_unary(in.op, a)); break;
      case Instruction::Kind::binary: values.push_back(apply_binary(in.op, a, b)); break;
      case Instruction::Kind::reduce: values.push_back(b + tl::sum(tl::sin(a)) * 0.1); break;
      case Instruction::Kind::jit:
        values.push_back(tl::jit([&](Array u, Array v) { return run(in.body, u, v); })(a, b));
        break;
      case Instruction::Kind::vmap:
        if (a.ndim() == 0) values.push_back(run(in.body, a, b));
        else values.push_back(tl::vmap([&](Array u, Array v) { return run(in.body, u, v); })(a, b));
        break;
      case Instruction::Kind::jvp:
        values.push_back(tl::jvp([&](Array u) { return run(in.body, u, b); }, std::tuple{a},
                                 std::tuple{tl::sin(b)})
                             .second);
        break;
      case Instruction::Kind::grad:
        values.push_back(tl::grad([&](Array u) { return tl::sum(run(in.body, u, b)); })(a));
        break;
    }
  }
  return values.back();
}

std::string text(const Program& program, const std::string& indent) {
  std::ostringstream out;
  std::size_t next = 2;
  for (const Instruction& in : program) {
    out << indent << "Array v" << next++ << " = ";
    switch (in.kind) {
      case Instruction::Kind::unary: out << kUnary[in.op] << "(v" << in.a << ");\n"; break;
      case Instruction::Kind::binary:
        out << kBinary[in.op] << "(v" << in.a << ", v" << in.b << ");\n";
        break;
      case Instruction::Kind::reduce:
        out << "v" << in.b << " + tl::sum(tl::sin(v" << in.a << ")) * 0.1;\n";
        break;
      case Instruction::Kind::jvp:
        out << "tl::jvp([v1 = v" << in.b << "](Array v0) {\n"
            << text(in.body, indent + "  ") << indent << "}, std::tuple{v" << in.a
            << "}, std::tuple{tl::sin(v" << in.b << ")}).second;\n";
        break;
      case Instruction::Kind::grad:
        out << "tl::grad([v1 = v" << in.b << "](Array v0) {  // of the sum of the last\n"
            << text(in.body, indent + "  ") << indent << "})(v" << in.a << ");\n";
        break;
      default:
        out << (in.kind == Instruction::Kind::jit ? "tl::jit" : "tl::vmap")
            << "([](Array v0, Array v1) {\n"
            << text(in.body, indent + "  ") << indent << "})(v" << in.a << ", v" << in.b << ");\n";
    }
  }
  return out.str();
}

Program random_program(std::mt19937& random, int size, int depth) {
  Program program;
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int i = 0; i < size; ++i) {
    const std::size_t available = program.size() + 2;
    Instruction in{Instruction::Kind::unary, 0, below(available), below(available), {}};
    switch (below(depth > 0 ? 10 : 6)) {
      case 0:
      case 1: in.op = static_cast<int>(below(5)); break;
      case 2:
      case 3:
      case 4:
        in.kind = Instruction::Kind::binary;
        in.op = static_cast<int>(below(4));
        break;
      case 5: in.kind = Instruction::Kind::reduce; break;
      case 6:
        in.kind = Instruction::Kind::jit;
        in.body = random_program(random, 3, depth - 1);
        break;
      case 7:
        in.kind = Instruction::Kind::vmap;
        in.body = random_program(random, 3, depth - 1);
        break;
      case 8:
        in.kind = Instruction::Kind::jvp;
        in.body = random_program(random, 3, depth - 1);
        break;
      default: in.kind = Instruction::Kind::grad; in.body = random_program(random, 3, depth - 1);
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

// The smallest failing prefix is printed: programs are lists, so prefixes are programs.
void check_seeds(int first, int count, int size, int depth) {
  for (int seed = first; seed < first + count; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Program program = random_program(random, size, depth);
    if (!fails(program)) continue;
    Program prefix;
    for (const Instruction& in : program) {
      prefix.push_back(in);
      if (fails(prefix)) break;
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + "\nArray program(Array v0, Array v1) {\n" +
                 text(prefix, "  ") + "}");
    check(prefix);
    ADD_FAILURE() << "compositions disagree";
    return;
  }
}

TEST(Programs, AllCompositionsAgree) { check_seeds(1, 12, 6, 2); }
TEST(Programs, LONG_AllCompositionsAgree) { check_seeds(1000, 100, 9, 3); }

}  // namespace
}  // namespace telamon_test
