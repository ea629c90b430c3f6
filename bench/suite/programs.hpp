// Programs of many operations chosen by a generator of numbers, the same for every contender.
//
// The operations are such that values stay between -5 and 5 for 10,000 steps, and neither these nor their
// derivatives ever are denormal: arithmetic on such numbers takes processors many times as long as a limit by
// operations can know.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ours.hpp"

namespace bench {

/// Which operation, and how far back its second operand lies.
struct Step {
  unsigned operation, back;
};
inline std::vector<Step> plan(std::int64_t n) {
  std::vector<Step> steps;
  std::uint32_t s = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    s = s * 1664525 + 1013904223;
    steps.push_back({s >> 16 & 3, (s >> 20) % 8});
  }
  return steps;
}

/// What a program of n steps needs at least, in multiply-adds of one element: one for an operation, and those of
/// functions. Only these are counted: not that what the gradient needs of the values lies in memory meanwhile.
inline double straight_work(std::int64_t n) {
  constexpr double kOf[] = {1, 1, kFunction + 1, 2};  // a - b, a b, cos(a + b), max(a, b) / 2
  double sum = 0;
  for (const Step& step : plan(n)) sum += kOf[step.operation];
  return sum;
}
/// ... and of its gradient: the values once more, then for each step the cotangents of both operands, added
/// to what they have.
inline double straight_grad_work(std::int64_t n) {
  // The sine shares the reduction of its cosine.
  constexpr double kOf[] = {2, 4, kFunction / 2 + 3, 5};
  double sum = straight_work(n);
  for (const Step& step : plan(n)) sum += kOf[step.operation];
  return sum;
}

/// n operations in a straight line. `half` is .5, or a number that makes the program a new one.
inline auto straight_program(std::int64_t n, double half = .5) {
  return [steps = plan(n), half](const Array& x) {
    Arrays v = {x};
    for (const Step& step : steps) {
      const Array& a = v.back();
      const Array& b = v[v.size() - 1 - std::min<std::size_t>(v.size() - 1, step.back)];
      v.push_back(step.operation == 0   ? a - b
                  : step.operation == 1 ? a * b
                  : step.operation == 2 ? telamon::cos(a + b)
                                        : telamon::maximum(a, b) * half);
    }
    return v.back();
  };
}

}  // namespace bench
