// Examples of branches and loops.
#include "support.hpp"
#include "telamon/custom_linear_solve.hpp"
#include "telamon/indexing.hpp"
#include "telamon/make_jaxpr.hpp"
#include "telamon/numpy.hpp"

namespace telamon_test {
namespace {

Array scalar(double x) { return Array(std::vector<double>{x}, {}); }
Array index(int i) { return Array(std::vector<std::int32_t>{i}, {}); }

const RuleExamples kCond([] {
  const CondParams two{{parse_jaxpr("{ lambda a:f64[3], b:f64[] . let c:f64[3] = sin a"
                                    "\n d:f64[] = mul b 2.0 in ( c, d ) }"),
                        parse_jaxpr("{ lambda a:f64[3], b:f64[] . let c:f64[3] = mul a a"
                                    "\n d:f64[] = mul b b in ( c, d ) }")}};
  const Array x({0.5, -1.25, 2.0});
  return std::vector{example(cond_p, two, [&](int i) {
    return Arrays{index(i % 2), i == 1 ? Array({1.5, 0.25, -2.0}) : x, scalar(0.5 + i)};
  })};
});

const RuleExamples kScan([] {
  // h' = tanh(w x + h), y = h' h
  const ScanParams p{
      .jaxpr = parse_jaxpr("{ lambda w:f64[], h:f64[], x:f64[] . let a:f64[] = mul w x"
                           "\n b:f64[] = add a h\n c:f64[] = tanh b\n d:f64[] = mul c h"
                           " in ( c, d ) }"),
      .length = 4,
      .num_consts = 1,
      .num_carry = 1};
  ScanParams backwards = p;
  backwards.reverse = true;
  const Arrays args{scalar(0.75), scalar(-0.5), Array({0.5, -1.25, 2.0, 0.125})};
  return std::vector{example(scan_p, p, args), example(scan_p, backwards, args)};
});

const RuleExamples kWhile([] {
  // Doubles x, until it is at least 10.
  const WhileParams p{
      .cond_jaxpr =
          parse_jaxpr("{ lambda c:f64[], x:f64[], y:f64[] . let a:bool[] = lt x c in ( a ) }"),
      .body_jaxpr = parse_jaxpr("{ lambda k:f64[], x:f64[], y:f64[] . let a:f64[] = mul x 2.0"
                                "\n b:f64[] = mul y k\n d:f64[] = sin b in ( a, d ) }"),
      .cond_nconsts = 1,
      .body_nconsts = 1};
  return std::vector{example(while_p, p, [](int i) {
    return Arrays{scalar(10), scalar(0.75), scalar(1.0 + 3 * i), scalar(0.5 - i)};
  })};
});

const RuleExamples kCustomLinearSolve([] {
  // Sums of all elements so far, whose inverse are differences; beside it, where b is positive.
  const Array b({0.5, -1.25, 2.0});
  const auto traced = [&](auto f) { return make_jaxpr(f)(b).jaxpr; };
  const auto ahead = [](const Array& x) { return x - pad(x(slice(0, 2)), PadWidths(1, 0)); };
  const auto behind = [](const Array& x) { return x - pad(x(slice(1, 3)), PadWidths(0, 1)); };
  const CustomLinearSolveParams p{
      .matvec = traced([](Array x) { return cumsum(x); }),
      .vecmat = traced([](Array x) { return flip(cumsum(flip(x))); }),
      .solve = traced([&](Array x) { return std::pair{ahead(x), x > 0}; }),
      .transpose_solve = traced([&](Array x) { return std::pair{behind(x), x > 0}; })};
  CustomLinearSolveParams forward = p;
  forward.vecmat.reset();
  forward.transpose_solve.reset();
  CheckPrimitiveOptions forward_only;
  forward_only.grads.modes = GradMode::forward;
  return std::vector{example(custom_linear_solve_p, p, {b}),
                     example(custom_linear_solve_p, forward, {b}, forward_only)};
});

}  // namespace
}  // namespace telamon_test
