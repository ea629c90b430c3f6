// scan, while_loop, fori_loop, cond, switch_ and associative_scan over flat leaves: trace the bodies,
// check them, bind the primitive.
#include <algorithm>
#include <cmath>
#include <limits>

#include "control_flow/bodies.hpp"
#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using namespace control_flow;

std::string shapes_text(std::span<const Array> xs) {
  std::string text;
  for (const Array& x : xs)
    text += (text.empty() ? "" : ", ") +
            (x.ndim() == 0 ? std::string("none") : std::to_string(x.shape(0)));
  return text;
}

std::int64_t scan_length(std::span<const Array> xs, const std::optional<std::int64_t>& given) {
  if (xs.empty()) {
    if (!given) throw ValueError("scan got no values to scan over and `length` not provided.");
    if (*given < 0) throw ValueError("scan got a negative `length`, " + std::to_string(*given));
    return *given;
  }
  for (const Array& x : xs) {
    if (x.ndim() == 0)
      throw ValueError("scan got value with no leading axis to scan over: " + x.aval().to_string());
  }
  const auto differs = [&](std::int64_t n) {
    return std::any_of(xs.begin(), xs.end(), [n](const Array& x) { return x.shape(0) != n; });
  };
  if (given && differs(*given)) {
    throw ValueError("scan got `length` argument of " + std::to_string(*given) +
                     " which disagrees with leading axis sizes [" + shapes_text(xs) + "].");
  }
  if (differs(xs[0].shape(0))) {
    throw ValueError("scan got values with different leading axis sizes: " + shapes_text(xs) + ".");
  }
  return xs[0].shape(0);
}

// Traces the body until the types of the carry are what the body gives.
ClosedJaxpr trace_carry(const char* what, const TracedBody& body, const TreeDef& carry,
                        Arrays& init, const std::vector<Aval>& rows) {
  ClosedJaxpr program = traced_to_fixpoint(init, 0, [&](const std::vector<Aval>& types) {
    ClosedJaxpr once = traced(body.f, followed_by(types, rows), what);
    check_carry_structure(what, carry, body.structure());
    return once;
  });
  check_carry_types(what, carry, init, program.jaxpr.out_avals());
  return program;
}

// How many steps lead from one known integer to another, of any width and sign.
std::int64_t known_steps(const Array& lower, const Array& upper) {
  struct Bound {
    bool negative;
    std::uint64_t bits;  // two's complement
  };
  const auto bound = [](const Array& x) -> Bound {
    if (is_unsigned_integer(x.dtype())) return {false, x.item<std::uint64_t>()};
    const auto value = x.item<std::int64_t>();
    return {value < 0, static_cast<std::uint64_t>(value)};
  };
  const Bound from = bound(lower), to = bound(upper);
  if (from.negative == to.negative ? from.bits >= to.bits : to.negative) return 0;
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::uint64_t steps = to.bits - from.bits;  // modulo 2^64
  const bool wraps = from.negative && !to.negative && steps < to.bits;
  if (wraps || steps > kMost) {
    throw ValueError("fori_loop: from " + lower.to_string() + " to " + upper.to_string() +
                     " are more than 2^63 - 1 steps, which no loop can count");
  }
  return static_cast<std::int64_t>(steps);
}

Arrays joined_operands(const Arrays& consts, std::span<const Array> more) {
  Arrays all = consts;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

Arrays scan_arrays(const TracedBody& body, const TreeDef& carry, std::span<const Array> init,
                   std::span<const Array> xs, const ScanOptions& options) {
  ScanParams p;
  p.length = scan_length(xs, options.length);
  p.reverse = options.reverse;
  p.unroll = options.unroll;
  if (p.unroll < 1)
    throw ValueError("scan: unroll must be positive, got " + std::to_string(p.unroll));
  std::vector<Aval> rows;
  for (const Array& x : xs) {
    rows.push_back(x.aval().strong());
    rows.back().shape.erase(0);
  }
  Arrays operands(init.begin(), init.end());
  const ClosedJaxpr program = trace_carry("scan", body, carry, operands, rows);
  p.jaxpr = remembered(program.jaxpr);
  p.num_consts = program.num_consts();
  p.num_carry = static_cast<int>(init.size());
  operands.insert(operands.end(), xs.begin(), xs.end());
  return scan_p.bind(p, joined_operands(program.consts, operands));
}

namespace {

// A loop as its two programs and what they captured.
struct TracedLoop {
  ClosedJaxpr test, step;

  Arrays consts() const { return joined_operands(test.consts, step.consts); }
  WhileParams params() const {
    WhileParams p;
    p.cond_jaxpr = test.jaxpr;
    p.body_jaxpr = step.jaxpr;
    p.cond_nconsts = test.num_consts();
    p.body_nconsts = step.num_consts();
    return p;
  }
};

// The same loop with its condition's answer as the first carry, which the body renews after each
// step. A condition with effects is so asked as often as the loop asks it, however the loop is
// transformed: steps that do nothing, and pieces of the loop, look at the answer.
TracedLoop with_answer(const TracedLoop& loop) {
  const Aval answer{Shape(), DType::bool_, false};
  const std::size_t test_consts = loop.test.consts.size(), step_consts = loop.step.consts.size();
  const auto test_in = loop.test.jaxpr.in_avals(), step_in = loop.step.jaxpr.in_avals();
  std::vector<Aval> avals(test_in.begin(), test_in.end());
  avals.insert(avals.begin() + loop.test.num_consts(), answer);
  TracedLoop result = loop;
  result.test.consts.clear();
  avals.erase(avals.begin(), avals.begin() + loop.test.num_consts());
  result.test.jaxpr =
      stage_flat([](std::span<const Array> x) { return Arrays{x[0]}; }, avals).jaxpr;
  result.step.consts = loop.consts();
  avals.assign(test_in.begin(), test_in.begin() + loop.test.num_consts());
  avals.insert(avals.end(), step_in.begin(), step_in.end());
  const std::size_t at = test_consts + step_consts;
  avals.insert(avals.begin() + static_cast<std::ptrdiff_t>(at), answer);
  result.step.jaxpr =
      stage_flat(
          [&](std::span<const Array> x) {
            const Arrays next = eval_jaxpr(
                loop.step.jaxpr,
                joined_operands(taken(x, counting(test_consts, step_consts)), x.subspan(at + 1)));
            const Arrays for_test = joined_operands(taken(x, counting(0, test_consts)), next);
            return joined_operands(eval_jaxpr(loop.test.jaxpr, for_test), next);
          },
          avals)
          .jaxpr;
  return result;
}

// The loop with the number of steps so far as its first carry, which ends it after `most`.
TracedLoop counted(const TracedLoop& loop, std::int64_t most) {
  const auto with_counter = [](const ClosedJaxpr& program,
                               const std::function<Arrays(Array, const Arrays&)>& rest) {
    const auto in = program.jaxpr.in_avals();
    std::vector<Aval> avals(in.begin(), in.end());
    avals.insert(avals.begin() + program.num_consts(), {Shape(), DType::i32, false});
    ClosedJaxpr with = program;
    with.jaxpr = stage_flat(
                     [&](std::span<const Array> x) {
                       Arrays args(x.begin(), x.end());
                       args.erase(args.begin() + program.num_consts());
                       return rest(x[static_cast<std::size_t>(program.num_consts())],
                                   eval_jaxpr(program.jaxpr, args));
                     },
                     avals)
                     .jaxpr;
    return with;
  };
  return {with_counter(loop.test,
                       [&](const Array& i, const Arrays& outs) {
                         const Array more = lax::lt(i, static_cast<double>(most));
                         return Arrays{and_p.bind1({}, {more, outs[0]})};
                       }),
          with_counter(loop.step, [&](const Array& i, const Arrays& outs) {
            return joined_operands(Arrays{lax::add(i, 1)}, outs);
          })};
}

Array no_steps() { return zeros_of({Shape(), DType::i32, false}); }

// The same loop, each step of which is a checkpoint around up to `size` of the steps: reverse mode
// keeps the carry before each such piece and, while it works on one, the residuals of its steps.
TracedLoop in_pieces(const TracedLoop& loop, std::int64_t size) {
  WhileParams piece = counted(loop, size).params();
  piece.max_steps = size;
  const auto cond_in = loop.test.jaxpr.in_avals(), body_in = loop.step.jaxpr.in_avals();
  std::vector<Aval> avals(cond_in.begin(), cond_in.begin() + loop.test.num_consts());
  avals.insert(avals.end(), body_in.begin(), body_in.end());
  const Jaxpr steps =
      stage_flat(
          [&](std::span<const Array> x) {
            Arrays args(x.begin(), x.end());
            args.insert(args.begin() + piece.cond_nconsts + piece.body_nconsts, no_steps());
            Arrays outs = while_p.bind(piece, args);
            outs.erase(outs.begin());
            return outs;
          },
          avals)
          .jaxpr;
  const CheckpointParams again{.jaxpr = steps, .policy = {}, .name = "while_loop"};
  TracedLoop pieces = loop;
  pieces.step.consts = loop.consts();
  pieces.step.jaxpr =
      stage_flat([&](std::span<const Array> x) { return checkpoint_p.bind(again, x); }, avals)
          .jaxpr;
  return pieces;
}

void check_max_steps(const WhileOptions& options) {
  if (options.checkpoint && !options.max_steps)
    throw ValueError("while_loop: checkpoint needs max_steps, whose root is the size of a piece");
  if (!options.max_steps) return;
  if (*options.max_steps < 0 || *options.max_steps > std::numeric_limits<std::int32_t>::max())
    throw ValueError("while_loop: max_steps must be a count of at most 2^31 - 1, got " +
                     std::to_string(*options.max_steps));
}

}  // namespace

Arrays while_arrays(const TracedBody& condition, const TracedBody& body, const TreeDef& carry,
                    std::span<const Array> init, const WhileOptions& options) {
  check_max_steps(options);
  Arrays operands(init.begin(), init.end());
  TracedLoop loop;
  loop.step = trace_carry("while_loop", body, carry, operands, {});
  loop.test = traced(condition.f, avals_of(operands), "while_loop");
  const TreeDef tested = condition.structure();
  if (tested.kind() != TreeKind::leaf) {
    throw TypeError("while_loop: the condition must return a boolean scalar, but got pytree " +
                    tested.to_string() + ".");
  }
  const Aval holds = loop.test.jaxpr.out_avals()[0];
  if (holds.dtype != DType::bool_ || !holds.shape.empty()) {
    throw TypeError("while_loop: the condition must return a boolean scalar, but got output type " +
                    holds.to_string() + ".");
  }
  std::size_t num_in_front = 0;  // of the carry: counters, the answer of the condition
  std::optional<std::int64_t> bound = options.max_steps;
  if (bound && loop.test.jaxpr.effect() != Effect::none) {
    operands = joined_operands(
        eval_jaxpr(loop.test.jaxpr, joined_operands(loop.test.consts, operands)), operands);
    loop = with_answer(loop);
    ++num_in_front;
  }
  const auto count = [&] {
    loop = counted(loop, *bound);
    operands.insert(operands.begin(), no_steps());
    ++num_in_front;
  };
  constexpr std::int64_t kWorthPieces = 8;
  if (bound) count();
  if (options.checkpoint && *bound >= kWorthPieces) {
    const auto size = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(*bound))));
    loop = in_pieces(loop, size);
    bound = (*bound + size - 1) / size;
    count();
  }
  WhileParams p = loop.params();
  p.max_steps = bound;
  p.cond_jaxpr = remembered(p.cond_jaxpr);
  p.body_jaxpr = remembered(p.body_jaxpr);
  Arrays outs = while_p.bind(p, joined_operands(loop.consts(), operands));
  outs.erase(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(num_in_front));
  return outs;
}

Arrays fori_arrays(const Array& lower, const Array& upper, const TracedBody& body,
                   const TreeDef& carry, std::span<const Array> init, const ForiOptions& options) {
  for (const Array* bound : {&lower, &upper}) {
    if (!bound->has_value()) empty_operand_error("fori_loop", bound == &lower ? 0 : 1);
    if (bound->ndim() != 0 || !is_integer(bound->dtype()))
      throw TypeError("fori_loop: bounds must be integer scalars, got " +
                      bound->aval().to_string());
  }
  if (options.unroll < 1)
    throw ValueError("fori_loop: unroll must be positive, got " + std::to_string(options.unroll));
  TypeInfo type =
      promote_types({lower.dtype(), lower.weak_type()}, {upper.dtype(), upper.weak_type()});
  // C++ numbers count in the default type of integers where that holds them.
  const auto is_short = [](const Array& x) {
    if (default_int() != DType::i32) return true;
    if (x.is_tracer()) return size_of(x.dtype()) <= size_of(DType::i32);
    const auto value = x.item<std::int64_t>();
    return value == static_cast<std::int32_t>(value);
  };
  if (type.weak) type = {is_short(lower) && is_short(upper) ? default_int() : DType::i64, true};
  if (!lower.weak_type() && !upper.weak_type() && lower.dtype() != upper.dtype() &&
      !is_integer(promote_types({lower.dtype(), false}, {upper.dtype(), false}).dtype)) {
    throw TypeError("fori_loop: no integer dtype holds both bounds, " + lower.aval().to_string() +
                    " and " + upper.aval().to_string() + "; convert one of them with astype");
  }
  const auto as_index = [&](const Array& x) {
    if (!x.is_tracer()) return convert_scalar(x, type.dtype);
    return x.dtype() == type.dtype ? x
                                   : convert_element_type_p.bind1({.new_dtype = type.dtype}, {x});
  };
  // The index comes first in the carry.
  Arrays operands(init.begin(), init.end());
  const Aval index{Shape(), type.dtype, false};
  const auto counted = [&](std::span<const Array> x) {
    return followed_by(Arrays{lax::add(x[0], 1)}, body.f(x));
  };
  const ClosedJaxpr step = traced_to_fixpoint(operands, 1, [&](const std::vector<Aval>& types) {
    ClosedJaxpr once = traced(counted, followed_by(std::vector{index}, types), "fori_loop");
    check_carry_structure("fori_loop", carry, body.structure());
    return once;
  });
  const std::vector<Aval> outs = step.jaxpr.out_avals();
  check_carry_types("fori_loop", carry, operands, std::span<const Aval>(outs).subspan(1));
  Arrays results;
  if (!lower.is_tracer() && !upper.is_tracer()) {
    ScanParams p;
    p.length = known_steps(lower, upper);
    p.unroll = options.unroll;
    p.jaxpr = remembered(step.jaxpr);
    p.num_consts = step.num_consts();
    p.num_carry = static_cast<int>(operands.size()) + 1;
    Arrays all = joined_operands(step.consts, Arrays{as_index(lower)});
    results = scan_p.bind(p, joined_operands(all, operands));
  } else {
    if (options.unroll != 1) {
      throw ValueError(
          "Can only use `unroll` in `fori_loop` if the loop bounds are statically known; of " +
          lower.aval().to_string() + " and " + upper.aval().to_string() +
          " one is traced, so it is a while loop.");
    }
    // And the bound second.
    const auto in = step.jaxpr.in_avals();
    std::vector<Aval> avals(in.begin(), in.end());
    const auto at = static_cast<std::size_t>(step.num_consts()) + 1;
    avals.insert(avals.begin() + static_cast<std::ptrdiff_t>(at), index);
    WhileParams p;
    p.body_nconsts = step.num_consts();
    p.body_jaxpr = remembered(stage_flat(
                                  [&](std::span<const Array> x) {
                                    Arrays args(x.begin(), x.end());
                                    args.erase(args.begin() + static_cast<std::ptrdiff_t>(at));
                                    Arrays next = eval_jaxpr(step.jaxpr, args);
                                    next.insert(next.begin() + 1, x[at]);
                                    return next;
                                  },
                                  avals)
                                  .jaxpr);
    avals.erase(avals.begin(), avals.begin() + step.num_consts());
    p.cond_jaxpr = remembered(
        stage_flat([](std::span<const Array> x) { return Arrays{lax::lt(x[0], x[1])}; }, avals)
            .jaxpr);
    Arrays all = joined_operands(step.consts, Arrays{as_index(lower), as_index(upper)});
    results = while_p.bind(p, joined_operands(all, operands));
    results.erase(results.begin());
  }
  results.erase(results.begin());
  return results;
}

namespace {

// The names of branches in errors.
struct BranchNames {
  bool is_switch;
  std::string what() const { return is_switch ? "switch_" : "cond"; }
  std::string name(std::size_t i) const {
    if (is_switch) return "branch " + std::to_string(i);
    return i == 1 ? "the true branch" : "the false branch";
  }
  // The branch that the others are compared with comes first in messages.
  std::size_t reference() const { return is_switch ? 0 : 1; }
};

void check_structures(const BranchNames& names, std::span<const TracedBody> branches) {
  const std::size_t first = names.reference();
  const TreeDef expected = branches[first].structure();
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const TreeDef given = branches[i].structure();
    if (given == expected) continue;
    throw TypeError(names.what() +
                    " branch outputs must have the same pytree structure, but they differ:\n\n" +
                    "The output of " + names.name(first) + " is " + expected.to_string() +
                    " but that of " + names.name(i) + " is " + given.to_string() +
                    describe_difference(expected, given) + ".\n\nRevise " + names.name(first) +
                    " and/or " + names.name(i) + " so that they have the same pytree structure.");
  }
}

void check_types(const BranchNames& names, const TreeDef& tree,
                 const std::vector<std::vector<Aval>>& outs) {
  const std::size_t first = names.reference();
  for (std::size_t i = 0; i < outs.size(); ++i) {
    std::string differences;
    for (std::size_t k = 0; k < outs[i].size(); ++k) {
      const Aval &a = outs[first][k], &b = outs[i][k];
      if (a.same_type(b)) continue;
      const std::string path = tree.leaf_paths()[k].to_string();
      differences += "The output of " + names.name(first) +
                     (path.empty() ? "" : " at path " + path) + " has type " + a.to_string() +
                     " but the corresponding output of " + names.name(i) + " has type " +
                     b.to_string() + ", " + type_difference(a, b) + ".\n";
    }
    if (differences.empty()) continue;
    throw TypeError(names.what() + " branches must have equal output types but they differ.\n\n" +
                    differences + "\nRevise " + names.name(first) + " and/or " + names.name(i) +
                    " so that all output types match.");
  }
}

// A weak result takes the type that the other branches give.
std::vector<Aval> common_types(const std::vector<std::vector<Aval>>& outs) {
  std::vector<Aval> common = outs[0];
  for (std::size_t k = 0; k < common.size(); ++k) {
    for (const auto& branch : outs) {
      if (converts_to(common[k], branch[k])) common[k] = branch[k];
    }
  }
  return common;
}

Array branch_index(const BranchNames& names, const Array& given, std::size_t num_branches) {
  if (given.ndim() != 0) {
    throw TypeError((names.is_switch ? "switch_: the branch index must be a scalar, got "
                                     : "cond: the predicate must be a scalar, got ") +
                    given.aval().to_string() + " of shape " + given.shape().to_string() + ".");
  }
  if (!names.is_switch) {
    if (is_complex(given.dtype()))
      throw TypeError("cond: the predicate must be a boolean or a real number, got " +
                      given.aval().to_string());
    const Array truth =
        given.dtype() == DType::bool_ ? given : lax::ne(given, zeros_of(given.aval().strong()));
    return convert_element_type_p.bind1({.new_dtype = DType::i32}, {truth});
  }
  if (!is_integer(given.dtype()))
    throw TypeError("switch_: the branch index must be an integer, got " +
                    given.aval().to_string());
  const auto last = static_cast<double>(num_branches - 1);
  const Array low = lax::full(Shape(), given.dtype(), 0);
  const Array high = lax::full(Shape(), given.dtype(), last);
  const Array clamped = clamp_p.bind1({}, {low, given, high});
  return given.dtype() == DType::i32
             ? clamped
             : convert_element_type_p.bind1({.new_dtype = DType::i32}, {clamped});
}

}  // namespace

Arrays cond_arrays(bool is_switch, const Array& index, std::span<const TracedBody> branches,
                   std::span<const Array> operands) {
  const BranchNames names{is_switch};
  if (branches.empty()) throw ValueError("switch_: there are no branches");
  if (!index.has_value()) empty_operand_error(is_switch ? "switch_" : "cond", 0);
  const Array which = branch_index(names, index, branches.size());
  const std::vector<Aval> avals = avals_of(operands);
  std::vector<ClosedJaxpr> programs;
  std::vector<std::vector<Aval>> outs;
  for (const TracedBody& branch : branches) {
    programs.push_back(traced(branch.f, avals, is_switch ? "switch_" : "cond"));
    outs.push_back(programs.back().jaxpr.out_avals());
  }
  check_structures(names, branches);
  std::vector<Aval> common = common_types(outs);
  for (auto& types : outs) {
    for (std::size_t k = 0; k < types.size(); ++k)
      if (converts_to(types[k], common[k])) types[k] = common[k];
  }
  check_types(names, branches[0].structure(), outs);

  // Every branch takes what any of them captured.
  Arrays consts;
  std::vector<Order> own;
  for (const ClosedJaxpr& program : programs) {
    Order mine;
    for (const Array& c : program.consts) {
      const auto found =
          std::find_if(consts.begin(), consts.end(), [&](const Array& x) { return x.is_same(c); });
      mine.push_back(static_cast<std::size_t>(found - consts.begin()));
      if (found == consts.end()) consts.push_back(c);
    }
    own.push_back(std::move(mine));
  }
  std::vector<Aval> all_avals = avals_of(consts);
  append(all_avals, avals);
  CondParams p;
  for (std::size_t b = 0; b < programs.size(); ++b) {
    const ClosedJaxpr joined = stage_flat(
        [&](std::span<const Array> x) {
          Arrays args = taken(x, own[b]);
          args.insert(args.end(), x.begin() + static_cast<std::ptrdiff_t>(consts.size()), x.end());
          Arrays results = eval_jaxpr(programs[b].jaxpr, args);
          for (std::size_t k = 0; k < results.size(); ++k) {
            const Aval& type = common[k];
            if (results[k].dtype() != type.dtype || results[k].weak_type() != type.weak_type)
              results[k] = convert_element_type_p.bind1(
                  {.new_dtype = type.dtype, .weak_type = type.weak_type}, {results[k]});
          }
          return results;
        },
        all_avals);
    p.branches.push_back(remembered(joined.jaxpr));
  }
  const Arrays args = joined_operands(consts, operands);
  if (p.branches.size() == 1) return eval_jaxpr(p.branches[0], args);
  return cond_p.bind(p, joined_operands(Arrays{which}, args));
}

std::int64_t leading_size(const char* what, std::span<const Array> xs) {
  if (xs.empty()) throw ValueError(std::string(what) + ": there are no arrays to go through");
  for (const Array& x : xs) {
    if (x.ndim() == 0)
      throw ValueError(std::string(what) + ": there is no leading axis to go along in a scalar, " +
                       x.aval().to_string());
    if (x.shape(0) != xs[0].shape(0))
      throw ValueError(std::string(what) + ": leading axis sizes differ: " + shapes_text(xs));
  }
  return xs[0].shape(0);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
