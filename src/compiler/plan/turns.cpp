// Writes the body of a loop several times over: where that is asked for, and where the arrays that it carries change places.
#include "compiler/plan/turns.hpp"

#include <algorithm>

#include "compiler/plan/plan.hpp"
#include "jaxpr/builder.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

// Code for more takes seconds and more (LLVM's time grows faster than its work), and no longer fits into the first cache.
constexpr std::int64_t kMostEquations = 2000;

// A large carry that is what another one was would be copied in each trip:
//   (u, v) -> (v, f u v)
// After as many trips as there are arrays in such a row, each is one that was computed.
static std::int64_t trips_of_rotation(const ScanParams& p, std::int64_t equations) {
  constexpr std::int64_t kLarge = 256 << 10, kMost = 3, kFewEquations = 200;
  if (equations > kFewEquations) return 1;
  // The carry that becomes the next value of this one; -1: it is computed.
  const auto source = [&](int carry) {
    const Atom& out = p.jaxpr.outs()[static_cast<std::size_t>(carry)];
    const int from = out.is_var() ? out.var() - p.num_consts : -1;
    return from >= 0 && from < p.num_carry && from != carry ? from : -1;
  };
  std::int64_t trips = 1;
  for (int carry = 0; carry < p.num_carry; ++carry) {
    if (weight_of(p.jaxpr.aval(p.jaxpr.outs()[static_cast<std::size_t>(carry)])) < kLarge) continue;
    std::int64_t row = 1;
    for (int at = source(carry); at >= 0 && row <= kMost; at = source(at)) ++row;
    if (row <= kMost) trips = std::max(trips, row);
  }
  return trips;
}

std::int64_t trips_of_turn(const ScanParams& p) {
  const std::int64_t equations = std::max<std::int64_t>(count_eqns(p.jaxpr), 1);
  const std::int64_t most = std::min(p.length, kMostEquations / equations);
  const std::int64_t wanted = std::max<std::int64_t>(p.unroll, trips_of_rotation(p, equations));
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(most, 1));
}

Turns turns_of(const ScanParams& p) {
  const std::int64_t copies = trips_of_turn(p);
  return {copies, p.length / copies, p.length % copies};
}

Jaxpr repeated_body(const ScanParams& p, std::int64_t copies) {
  if (copies == 1) return p.jaxpr;
  detail::JaxprBuilder b;
  Atoms consts, state, ys;
  const auto in = p.jaxpr.in_avals();
  const auto inputs = [&](int begin, int end) {
    Atoms atoms;
    for (int i = begin; i < end; ++i)
      atoms.push_back(Atom::var(b.add_input(in[static_cast<std::size_t>(i)])));
    return atoms;
  };
  const int num_fixed = p.num_consts + p.num_carry;
  consts = inputs(0, p.num_consts);
  state = inputs(p.num_consts, num_fixed);
  std::vector<Atoms> rows;
  for (std::int64_t k = 0; k < copies; ++k) rows.push_back(inputs(num_fixed, p.jaxpr.num_inputs()));
  for (const Atoms& xs : rows) {
    Atoms args = consts;
    args.insert(args.end(), state.begin(), state.end());
    args.insert(args.end(), xs.begin(), xs.end());
    const Atoms outs = b.inline_jaxpr(p.jaxpr, args);
    state.assign(outs.begin(), outs.begin() + p.num_carry);
    ys.insert(ys.end(), outs.begin() + p.num_carry, outs.end());
  }
  state.insert(state.end(), ys.begin(), ys.end());
  return b.build(std::move(state)).jaxpr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
