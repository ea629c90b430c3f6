// Primitives that exist only in these tests: effects, and parameters that hold jaxprs in every way.
// And the names that all these tests use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jaxpr/builder.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"

namespace test {

/// Passes its operand on, with an ordered effect.
extern const telamon::Primitive<> print_p;
/// Passes its operand on, with an unordered effect.
extern const telamon::Primitive<> count_p;
/// No result, an ordered effect.
extern const telamon::Primitive<> send_p;
/// Says it is an f64[] whatever it gets.
extern const telamon::Primitive<> two_results_p;

struct BranchesParams {
  std::vector<telamon::Jaxpr> branches;
};
extern const telamon::Primitive<BranchesParams> branches_p;

struct LoopParams {
  telamon::Jaxpr cond_jaxpr;
  telamon::Jaxpr body_jaxpr;
  std::optional<telamon::Jaxpr> epilogue;
  int unroll = 1;
};
extern const telamon::Primitive<LoopParams> loop_p;

struct ManyParams {
  std::string label;
  double scale = 1;
  float ratio = 0.5f;
  bool flag = true;
  telamon::Shape axes;
  std::optional<telamon::DType> dtype;
  std::vector<std::string> names;
};
extern const telamon::Primitive<ManyParams> many_p;

/// A name that needs quotes.
extern const telamon::Primitive<> quoted_p;

}  // namespace test

namespace tl = telamon;
using tl::Array;
using tl::Arrays;
using tl::Atom;
using tl::Aval;
using tl::DType;
using tl::Jaxpr;
using tl::Params;
using tl::parse_jaxpr;
using tl::Var;
using tl::detail::JaxprBuilder;

inline const Aval kF64{{}, DType::f64, false};
inline const Aval kVector{{3}, DType::f64, false};
