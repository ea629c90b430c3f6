// B16 by hand, its metric `steady`: what the compiled programs compute, written out. Sixteen numbers side by side.
//
// compile_grad_1000   each step and each of its derivatives is code of its own, in functions of fifty steps
// turns_100_grad      the gradient of a sum does not see where the numbers lie: each is by itself
// joints_100          a rotation about the third axis leaves it alone, and turns the other two
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

#include "hand.hpp"
#include "lines.hpp"
#include "sine_and_cosine.hpp"

namespace bench {
namespace {

using Lane = Vector<float>;
constexpr std::size_t kLane = kLanesOf<float>;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Each call has a time of its own, as in what it is compared with.
Case steady(Case c) {
  c.measure = [call = c.call](double seconds) {
    Samples out;
    call();
    const auto begin = Clock::now();
    do {
      const auto start = Clock::now();
      call();
      out["steady"].push_back(since(start));
    } while (since(begin) < seconds || out["steady"].size() < 20);
    return out;
  };
  c.tolerance = 1e-3;
  return c;
}

// ---- the gradient of a thousand operations -------------------------------------------------------
constexpr std::size_t kSteps = 1000, kNumbers = 1024;
/// A step is an operation on the value before it (which has the step's own number) and on an earlier one.
struct Step {
  unsigned operation;
  std::size_t with;
};
/// As in suite/programs.hpp.
constexpr std::array<Step, kSteps> plan() {
  std::array<Step, kSteps> steps{};
  std::uint32_t s = 1;
  for (std::size_t i = 0; i < kSteps; ++i) {
    s = s * 1664525 + 1013904223;
    const std::size_t back = (s >> 20) % 8;
    steps[i] = {s >> 16 & 3, i - std::min(i, back)};
  }
  return steps;
}
constexpr std::array<Step, kSteps> kPlan = plan();

/// So many vectors go through a step together, since each waits for what the last step has made of it.
constexpr std::size_t kTogether = 4;
struct Lanes {
  Lane lane[kTogether];
};
/// All values, the sines of those that are cosines, and the cotangents that are not done with: of sixteen values.
struct Tape {
  Lanes value[kSteps + 1], sine[kSteps], cotangent[16];
};

template <std::size_t I>
inline void forward(Tape& t) {
  constexpr Step kStep = kPlan[I];
#pragma GCC unroll 8
  for (std::size_t k = 0; k < kTogether; ++k) {
    const Lane a = t.value[I].lane[k], b = t.value[kStep.with].lane[k];
    Lane& to = t.value[I + 1].lane[k];
    if constexpr (kStep.operation == 0) {
      to = a - b;
    } else if constexpr (kStep.operation == 1) {
      to = a * b;
    } else if constexpr (kStep.operation == 2) {
      sine_and_cosine(a + b, t.sine[I].lane[k], to);
    } else {
      to = (a > b ? a : b) * .5F;
    }
  }
}

/// Whether no step after this one has the value as its second operand: then nothing has been added to its cotangent.
constexpr bool is_last_use(std::size_t step, std::size_t value) {
  for (std::size_t j = step + 1; j < std::min(kSteps, step + 8); ++j) {
    if (kPlan[j].with == value) return false;
  }
  return true;
}
template <std::size_t I, std::size_t Value>
inline void add(Tape& t, std::size_t k, Lane g) {
  if constexpr (is_last_use(I, Value)) {
    t.cotangent[Value % 16].lane[k] = g;
  } else {
    t.cotangent[Value % 16].lane[k] += g;
  }
}
template <std::size_t I>
inline void backward(Tape& t) {
  constexpr Step kStep = kPlan[I];
#pragma GCC unroll 8
  for (std::size_t k = 0; k < kTogether; ++k) {
    const Lane a = t.value[I].lane[k], b = t.value[kStep.with].lane[k],
               g = t.cotangent[(I + 1) % 16].lane[k];
    Lane by_a, by_b;
    if constexpr (kStep.operation == 0) {
      by_a = g, by_b = -g;
    } else if constexpr (kStep.operation == 1) {
      by_a = g * b, by_b = g * a;
    } else if constexpr (kStep.operation == 2) {
      by_a = by_b = -g * t.sine[I].lane[k];
    } else {  // equal operands share it
      const Lane half = g * .5F;
      by_a = a > b ? half : a < b ? Lane{} : half * .5F;
      by_b = half - by_a;
    }
    if constexpr (kStep.with == I) {
      add<I, I>(t, k, by_a + by_b);
    } else {
      add<I, I>(t, k, by_a);
      add<I, kStep.with>(t, k, by_b);
    }
  }
}

constexpr std::size_t kPart = 50;  // steps of a function
static_assert(kSteps % kPart == 0 && kNumbers % (kTogether * kLane) == 0);
template <std::size_t First, std::size_t... I>
__attribute__((noinline)) void forward_part(Tape& t, std::index_sequence<I...>) {
  (forward<First + I>(t), ...);
}
template <std::size_t First, std::size_t... I>
__attribute__((noinline)) void backward_part(Tape& t, std::index_sequence<I...>) {
  (backward<First + kPart - 1 - I>(t), ...);
}
struct Straight {
  Floats x = uf(1, kNumbers), gradient = Floats(kNumbers);
  alignas(64) Tape tape;

  template <std::size_t... Part>
  void differentiate(std::index_sequence<Part...>) {
    constexpr auto kAll = std::make_index_sequence<kPart>();
    for (std::size_t first = 0; first < kNumbers; first += kTogether * kLane) {
      for (std::size_t k = 0; k < kTogether; ++k)
        tape.value[0].lane[k] = vector_at(&x[first + k * kLane]);
      (forward_part<Part * kPart>(tape, kAll), ...);
      for (Lane& g : tape.cotangent[kSteps % 16].lane) g = Lane{} + 1;
      (backward_part<kSteps - (Part + 1) * kPart>(tape, kAll), ...);
      for (std::size_t k = 0; k < kTogether; ++k)
        store_line(&gradient[first + k * kLane], tape.cotangent[0].lane[k]);
    }
  }
};
const Register straight_grad("B16.compile_grad_1000", "ms", [] {
  return steady(by_hand(
      Straight(), [](Straight& s) { s.differentiate(std::make_index_sequence<kSteps / kPart>()); },
      [](const Straight& s) { return std::vector{output(s.gradient)}; }));
});

// ---- the gradient of a hundred sines of turned arrays --------------------------------------------
struct Turned {
  Floats x = uf(1, 32 * 64), gradient = Floats(32 * 64);

  void differentiate() {
    for (std::size_t i = 0; i < x.size(); i += kTogether * kLane) {
      Lane v[kTogether], g[kTogether];
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kTogether; ++k) {
        v[k] = vector_at(&x[i + k * kLane]);
        g[k] = Lane{} + 1;
      }
      for (int turn = 0; turn < 100; ++turn) {
#pragma GCC unroll 4
        for (std::size_t k = 0; k < kTogether; ++k) {
          Lane sine, cosine;
          sine_and_cosine(v[k], sine, cosine);
          g[k] *= cosine;
          v[k] = sine;
        }
      }
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kTogether; ++k) store_line(&gradient[i + k * kLane], g[k]);
    }
  }
};
const Register turned("B16.turns_100_grad", "ms", [] {
  return steady(by_hand(
      Turned(), [](Turned& t) { t.differentiate(); },
      [](const Turned& t) { return std::vector{output(t.gradient)}; }));
});

// ---- arms of a hundred joints --------------------------------------------------------------------
constexpr std::size_t kArms = 50, kJoints = 100, kPadded = 64;
struct Arms {
  Floats angle = uf(1, kArms* kJoints), out = Floats(kArms * 9);
  Floats rows = Floats(kPadded * kJoints);  // more arms than there are, whose angles are none
  alignas(64) float by_joint[kJoints][kPadded] = {};

  /// Of sixteen arms, the first and the second axis of their last frames.
  void turn_all(std::size_t first, Lane (&x)[3], Lane (&y)[3]) const {
    for (std::size_t j = 0; j < kJoints; ++j) {
      Lane s, c;
      sine_and_cosine(vector_at(&by_joint[j][first]), s, c);
#pragma GCC unroll 3
      for (std::size_t d = 0; d < 3; ++d) {
        const Lane before = x[d];
        x[d] = before * c + y[d] * s;
        y[d] = y[d] * c - before * s;
      }
    }
  }
  void multiply() {
    std::copy(angle.begin(), angle.end(), rows.begin());
    for (std::size_t i = 0; i < kPadded; i += kLane) {
      for (std::size_t k = 0; k < kJoints; k += kLane) {
        const std::size_t j = std::min(k, kJoints - kLane);  // the last square has joints again
        Line square[kLane];
#pragma GCC unroll 16
        for (std::size_t l = 0; l < kLane; ++l) square[l] = load_line(&rows[(i + l) * kJoints + j]);
        turn(square);
#pragma GCC unroll 16
        for (std::size_t l = 0; l < kLane; ++l) store_line(&by_joint[j + l][i], square[l]);
      }
    }
    for (std::size_t i = 0; i < kArms; i += kLane) {
      Lane x[3] = {Lane{} + 1}, y[3] = {Lane{}, Lane{} + 1};
      turn_all(i, x, y);
      for (std::size_t l = 0; l < std::min(kLane, kArms - i); ++l) {
        float* m = &out[(i + l) * 9];
        for (std::size_t d = 0; d < 3; ++d) {
          m[d * 3] = x[d][l];
          m[d * 3 + 1] = y[d][l];
          m[d * 3 + 2] = d == 2 ? 1.F : 0.F;
        }
      }
    }
  }
};
const Register jointed("B16.joints_100", "ms", [] {
  return steady(by_hand(
      Arms(), [](Arms& a) { a.multiply(); },
      [](const Arms& a) { return std::vector{output(a.out)}; }));
});

}  // namespace
}  // namespace bench
