// Algebraic simplification as a table of rules, and constant folding.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/simplify.hpp"
#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

bool integral(const Aval& a) { return is_integer(a.dtype); }

bool is_elementwise(const PrimitiveBase& p) {
  const Lowering* lowering = p.rules().lowering();
  return lowering != nullptr && std::holds_alternative<Lowering::Element>(lowering->form);
}

// ---- arithmetic ----------------------------------------------------------------------------------
std::optional<Atom> add_zero(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const int i : {0, 1}) {
    const Atom& x = e.inputs[static_cast<std::size_t>(1 - i)];
    const Atom& zero = e.inputs[static_cast<std::size_t>(i)];
    if (s.is(zero, -0.0) || (integral(out) && s.is(zero, 0))) return x;  // x + -0 = x for every x
  }
  return std::nullopt;
}
std::optional<Atom> sub_zero(Simplifier& s, const Eqn& e, const Aval&) {
  if (s.is(e.inputs[1], 0)) return e.inputs[0];  // x - +0 = x for every x
  return std::nullopt;
}
std::optional<Atom> mul_one(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.is(e.inputs[1], 1)) return e.inputs[0];
  if (s.is(e.inputs[0], 1)) return e.inputs[1];
  if (integral(out)) {
    if (s.is(e.inputs[1], 0)) return e.inputs[1];
    if (s.is(e.inputs[0], 0)) return e.inputs[0];
  }
  return std::nullopt;
}
// x / c = x * (1/c) where 1/c is exact: powers of two, away from the ends of the range.
std::optional<Atom> div_constant(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.is(e.inputs[1], 1)) return e.inputs[0];
  const Array* c = is_float(out.dtype) ? s.splat(e.inputs[1]) : nullptr;
  if (c == nullptr || (out.dtype != DType::f32 && out.dtype != DType::f64)) return std::nullopt;
  const double v = c->item<double>();
  int exponent = 0;
  if (std::abs(std::frexp(v, &exponent)) != 0.5 || std::abs(exponent) > 100) return std::nullopt;
  const Array inverse = detail::convert_scalar(Array(1 / v), out.dtype);
  Atom factor = Atom::literal(inverse);
  if (!out.shape.empty()) {
    factor =
        s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, {}}, {factor}, out.strong());
  }
  return s.make(mul_p, NoParams{}, {e.inputs[0], factor}, out);
}
std::optional<Atom> power_one(Simplifier&, const Eqn& e, const Aval&) {
  if (e.params.as<IntegerPowParams>().y == 1) return e.inputs[0];
  return std::nullopt;
}
std::optional<Atom> twice(Simplifier& s, const Eqn& e, const Aval&) {  // -(-x), !(!x)
  if (const Eqn* inner = s.defined_by(e.inputs[0], *e.primitive)) return inner->inputs[0];
  return std::nullopt;
}
std::optional<Atom> identity(Simplifier&, const Eqn& e, const Aval&) { return e.inputs[0]; }
std::optional<Atom> select_known(Simplifier& s, const Eqn& e, const Aval&) {
  const Array* which = s.splat(e.inputs[0]);
  if (which == nullptr) return std::nullopt;
  const auto last = static_cast<std::int64_t>(e.inputs.size()) - 2;
  return e.inputs[static_cast<std::size_t>(
      1 + std::clamp<std::int64_t>(which->item<std::int64_t>(), 0, last))];
}
// select(c, x, x) = x
std::optional<Atom> select_same(Simplifier&, const Eqn& e, const Aval&) {
  for (std::size_t i = 2; i < e.inputs.size(); ++i) {
    if (!(e.inputs[i] == e.inputs[1])) return std::nullopt;
  }
  return e.inputs[1];
}
// select(!c, x, y) = select(c, y, x)
std::optional<Atom> select_of_not(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* inner = s.defined_by(e.inputs[0], not_p);
  if (inner == nullptr || s.aval(e.inputs[0]).dtype != DType::bool_ || e.inputs.size() != 3)
    return std::nullopt;
  return s.make(select_n_p, NoParams{}, {inner->inputs[0], e.inputs[2], e.inputs[1]}, out);
}
std::optional<Atom> convert_same(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.aval(e.inputs[0]).dtype == out.dtype) return e.inputs[0];
  return std::nullopt;
}
/// Whether every value of `from` is one of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to || from == DType::bool_) return !is_complex(to);
  const auto digits = [](DType t) {  // bits of whole numbers that all fit
    switch (t) {
      case DType::f16: return 11;
      case DType::bf16: return 8;
      case DType::f32: return 24;
      case DType::f64: return 53;
      default: return static_cast<int>(8 * size_of(t)) - (is_signed_integer(t) ? 1 : 0);
    }
  };
  if (is_integer(from)) {
    if (is_integer(to) && is_signed_integer(from) && !is_signed_integer(to)) return false;
    return (is_integer(to) || is_float(to)) && digits(from) <= digits(to);
  }
  return (is_float(from) && to == DType::f64) ||
         ((from == DType::f16 || from == DType::bf16) && to == DType::f32);
}
std::optional<Atom> convert_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* inner = s.defined_by(e.inputs[0], convert_element_type_p);
  if (inner == nullptr) return std::nullopt;
  const DType from = s.aval(inner->inputs[0]).dtype, through = s.aval(e.inputs[0]).dtype;
  if (!is_lossless(from, through)) return std::nullopt;
  // What is too large for an integer wraps if it comes from an integer, but not from a float.
  if (is_integer(from) && is_float(through) && is_integer(out.dtype) &&
      !is_lossless(from, out.dtype))
    return std::nullopt;
  return s.make(convert_element_type_p, e.params, {inner->inputs[0]}, out);
}

/// An integer atom in i32, if that is an equation as cheap and no value of it is out of range.
std::optional<Atom> narrowed(Simplifier& s, const Atom& a) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const Aval aval = s.aval(a);
  if (aval.dtype != DType::i64 && aval.dtype != DType::u64) return std::nullopt;
  const Aval narrow{aval.shape, DType::i32, false};
  if (const Eqn* iota = s.defined_by(a, iota_p)) {
    IotaParams p = iota->params.as<IotaParams>();
    if (p.shape[static_cast<std::size_t>(p.dimension)] > kMost) return std::nullopt;
    p.dtype = DType::i32;
    return s.make(iota_p, p, {}, narrow);
  }
  const Array* c = s.splat(a);
  if (c == nullptr || aval.dtype != DType::i64) return std::nullopt;
  const auto value = c->item<std::int64_t>();
  if (value > kMost || value < -kMost) return std::nullopt;
  const Atom literal = Atom::literal(detail::convert_scalar(Array(value), DType::i32));
  if (aval.shape.empty() || a.is_literal()) return literal;
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{aval.shape, {}}, {literal}, narrow);
}
// Rows of the identity: what is compared are positions, which take half the width of a result in f32.
std::optional<Atom> compare_positions(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.defined_by(e.inputs[0], iota_p) == nullptr && s.defined_by(e.inputs[1], iota_p) == nullptr)
    return std::nullopt;
  const auto x = narrowed(s, e.inputs[0]), y = x ? narrowed(s, e.inputs[1]) : std::nullopt;
  if (!x || !y) return std::nullopt;
  return s.make(*e.primitive, e.params, {*x, *y}, out);
}

// ---- shape ---------------------------------------------------------------------------------------
std::optional<Atom> same_shape(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.aval(e.inputs[0]).shape == out.shape) return e.inputs[0];
  return std::nullopt;
}
std::optional<Atom> reshape_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  if (const auto same = same_shape(s, e, out)) return same;
  if (const Eqn* inner = s.defined_by(e.inputs[0], reshape_p)) {
    return s.make(reshape_p, ReshapeParams{out.shape}, {inner->inputs[0]}, out);
  }
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b != nullptr && s.aval(b->inputs[0]).shape.empty()) {
    return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, {}}, {b->inputs[0]}, out);
  }
  return std::nullopt;
}
std::optional<Atom> transpose_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape& outer = e.params.as<TransposeParams>().permutation;
  bool in_order = true;
  for (std::size_t d = 0; d < outer.size(); ++d)
    in_order &= outer[d] == static_cast<std::int64_t>(d);
  if (in_order) return e.inputs[0];
  const Eqn* inner = s.defined_by(e.inputs[0], transpose_p);
  if (inner == nullptr) return std::nullopt;
  Shape both;
  for (const std::int64_t d : outer)
    both.push_back(inner->params.as<TransposeParams>().permutation[static_cast<std::size_t>(d)]);
  return s.make(transpose_p, TransposeParams{both}, {inner->inputs[0]}, out);
}
std::optional<Atom> broadcast_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto& outer = e.params.as<BroadcastInDimParams>();
  if (s.aval(e.inputs[0]).shape == out.shape) return e.inputs[0];
  const Eqn* inner = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (inner == nullptr) return std::nullopt;
  Shape both;
  for (const std::int64_t d : inner->params.as<BroadcastInDimParams>().broadcast_dimensions) {
    both.push_back(outer.broadcast_dimensions[static_cast<std::size_t>(d)]);
  }
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, both}, {inner->inputs[0]}, out);
}
// Along a dimension of one element there is nothing to count.
std::optional<Atom> iota_of_one(Simplifier& s, const Eqn& e, const Aval& out) {
  const auto d = static_cast<std::size_t>(e.params.as<IotaParams>().dimension);
  if (out.shape[d] != 1 || is_complex(out.dtype)) return std::nullopt;
  const Atom zero = Atom::literal(detail::convert_scalar(Array(0), out.dtype));
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, {}}, {zero}, out.strong());
}
std::optional<Atom> fold_nothing(Simplifier&, const Eqn& e, const Aval&) {
  if (e.params.as<AxesParams>().axes.empty()) return e.inputs[0];
  return std::nullopt;
}
// Over axes of length 1: nothing is combined.
std::optional<Atom> fold_of_one(Simplifier& s, const Eqn& e, const Aval& out) {
  const Aval& in = s.aval(e.inputs[0]);
  if (in.size() != out.size() || in.size() == 0) return std::nullopt;
  return s.make(reshape_p, ReshapeParams{out.shape}, {e.inputs[0]}, out);
}
// The largest of equal numbers is that number. Sums of floats are left alone: n additions of x round
// otherwise than n * x.
std::optional<Atom> reduction_of_repeated(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* b = s.defined_by(e.inputs[0], broadcast_in_dim_p);
  if (b == nullptr || s.aval(e.inputs[0]).size() == 0) return std::nullopt;
  const Shape& axes = e.params.as<AxesParams>().axes;
  Shape dims;
  for (const std::int64_t d : b->params.as<BroadcastInDimParams>().broadcast_dimensions) {
    if (axes.contains(d)) return std::nullopt;
    dims.push_back(d - std::count_if(axes.begin(), axes.end(), [d](auto x) { return x < d; }));
  }
  return s.make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, dims}, {b->inputs[0]}, out);
}
std::optional<Atom> concatenate_one(Simplifier&, const Eqn& e, const Aval&) {
  if (e.inputs.size() == 1) return e.inputs[0];
  return std::nullopt;
}

struct Entry {
  const PrimitiveBase* primitive;
  Rule rule;
};
const std::vector<Entry>& rules() {
  static const auto* table = new std::vector<Entry>{
      {&add_p, add_zero},
      {&add_p, sum_of_pads},
      {&sub_p, sub_zero},
      {&mul_p, mul_one},
      {&div_p, div_constant},
      {&integer_pow_p, power_one},
      {&neg_p, twice},
      {&not_p, twice},
      {&copy_p, identity},
      {&stop_gradient_p, identity},
      {&select_n_p, select_known},
      {&select_n_p, select_same},
      {&select_n_p, select_of_not},
      {&select_n_p, select_update},
      {&convert_element_type_p, convert_same},
      {&convert_element_type_p, convert_chain},
      {&eq_p, compare_positions},
      {&ne_p, compare_positions},
      {&lt_p, compare_positions},
      {&le_p, compare_positions},
      {&gt_p, compare_positions},
      {&ge_p, compare_positions},
      {&reshape_p, reshape_chain},
      {&transpose_p, transpose_chain},
      {&transpose_p, transpose_of_dot},
      {&broadcast_in_dim_p, broadcast_chain},
      {&iota_p, iota_of_one},
      {&slice_p, same_shape},
      {&slice_p, slice_chain},
      {&slice_p, slice_of_splat},
      {&slice_p, slice_of_concatenation},
      {&dynamic_slice_p, slice_from_known},
      {&gather_p, gather_of_range},
      {&concatenate_p, concatenate_one},
      {&concatenate_p, concatenation_of_parts},
      {&dot_general_p, dot_of_transpose},
      {&dot_general_p, dot_of_broadcasts},
      {&reduce_sum_p, fold_nothing},
      {&reduce_max_p, fold_nothing},
      {&reduce_min_p, fold_nothing},
      {&reduce_prod_p, fold_nothing},
      {&reduce_sum_p, fold_of_one},
      {&reduce_max_p, fold_of_one},
      {&reduce_min_p, fold_of_one},
      {&reduce_prod_p, fold_of_one},
      {&reduce_max_p, reduction_of_repeated},
      {&reduce_min_p, reduction_of_repeated},
      {&reduce_and_p, reduction_of_repeated},
      {&reduce_or_p, reduction_of_repeated},
      {&reduce_sum_p, reduction_of_transpose},
      {&reduce_max_p, reduction_of_transpose},
      {&reduce_min_p, reduction_of_transpose},
      {&reduce_prod_p, reduction_of_transpose},
  };
  return *table;
}

}  // namespace

Jaxpr Simplifier::run(const Jaxpr& jaxpr) {
  detail::Renaming renamed(jaxpr);
  const std::vector<int> uses = detail::use_counts(jaxpr);
  const std::vector<bool> taken_up = transposes_taken_up(jaxpr);
  for (const Aval& aval : jaxpr.in_avals()) {
    renamed.push(Atom::var(builder_.add_input(aval)));
    definitions_.push_back(-1);
  }
  for (const Eqn& eqn : jaxpr.eqns()) {
    Eqn e = eqn;
    bool changed = false;
    e.params = detail::map_jaxprs(eqn.params, simplify, changed);
    e.inputs = renamed(eqn.inputs);
    const Avals avals = renamed.out_avals(eqn);
    if (eqn.effect == Effect::none && eqn.outputs.size() == 1) {
      if (const auto atom = rewrite(e, avals[0])) {
        if (atom->is_var() && uses[static_cast<std::size_t>(eqn.outputs[0])] != 1) {
          used_once_.erase(atom->var());
        }
        if (atom->is_var() && taken_up[static_cast<std::size_t>(eqn.outputs[0])])
          taken_up_.insert(atom->var());
        renamed.push(*atom);
        continue;
      }
    }
    const auto results = emit(*e.primitive, e.params, e.inputs, avals, e.effect, e.where);
    if (results.size() == 1 && uses[static_cast<std::size_t>(eqn.outputs[0])] == 1) {
      used_once_.insert(results[0]);
    }
    if (results.size() == 1 && taken_up[static_cast<std::size_t>(eqn.outputs[0])])
      taken_up_.insert(results[0]);
    renamed.push(results);
  }
  // What the rules made superfluous is for the next passes: equal equations are merged first.
  return builder_.build(renamed(jaxpr.outs()), detail::JaxprBuilder::DeadCode::keep).jaxpr;
}

const Eqn* Simplifier::definition(const Atom& a) const {
  if (a.is_literal()) return nullptr;
  const int e = definitions_[static_cast<std::size_t>(a.var())];
  return e < 0 ? nullptr : &builder_.eqns()[static_cast<std::size_t>(e)];
}

const Eqn* Simplifier::defined_by(const Atom& a, const PrimitiveBase& p) const {
  const Eqn* eqn = definition(a);
  return eqn != nullptr && eqn->primitive == &p ? eqn : nullptr;
}

const Array* Simplifier::splat(const Atom& a) const {
  if (a.is_literal()) return &a.literal();
  const Eqn* b = defined_by(a, broadcast_in_dim_p);
  return b != nullptr && b->inputs[0].is_literal() ? &b->inputs[0].literal() : nullptr;
}

bool Simplifier::is(const Atom& a, double value) const {
  const Array* s = splat(a);
  if (s == nullptr || is_complex(s->dtype())) return false;
  const double v = s->item<double>();
  return v == value && std::signbit(v) == std::signbit(value);
}

Atom Simplifier::make(const PrimitiveBase& p, Params params, Atoms inputs, const Aval& out) {
  Eqn e{&p, std::move(params), std::move(inputs), {}, Effect::none, {}};
  if (const auto atom = rewrite(e, out)) return *atom;
  const Var made = emit(p, e.params, e.inputs, {out}, Effect::none, {})[0];
  used_once_.insert(made);
  return Atom::var(made);
}

Vars Simplifier::emit(const PrimitiveBase& p, const Params& params, Atoms inputs,
                      const Avals& avals, Effect effect, SourceLocation where) {
  const auto vars = builder_.add_eqn(p, params, std::move(inputs), avals, effect, where);
  const int e = static_cast<int>(builder_.eqns().size()) - 1;
  for (const Var v : vars) {
    if (definitions_.size() <= static_cast<std::size_t>(v))
      definitions_.resize(static_cast<std::size_t>(v) + 1, -1);
    definitions_[static_cast<std::size_t>(v)] = e;
  }
  return vars;
}

std::optional<Atom> Simplifier::rewrite(const Eqn& eqn, const Aval& out) {
  if (auto known = fold(eqn, out)) return known;
  for (const Entry& entry : rules()) {
    if (entry.primitive != eqn.primitive) continue;
    auto atom = entry.rule(*this, eqn, out);
    // A literal operand may be a scalar where the result is not: then the rule does not fit.
    if (atom && aval(*atom).shape == out.shape && aval(*atom).dtype == out.dtype) return atom;
  }
  return element_of_transposes(*this, eqn, out);
}

// A scalar computed from literals only is a literal; an array whose elements are all computed from the
// same literals is one of them, spread.
std::optional<Atom> Simplifier::fold(const Eqn& eqn, const Aval& out) {
  if (eqn.inputs.empty() || !eqn.primitive->has_rule("impl")) return std::nullopt;
  if (eqn.params.has_jaxprs() || eqn.primitive->rules().impl == nullptr) return std::nullopt;
  const bool scalar = out.shape.empty();
  if (!scalar && !is_elementwise(*eqn.primitive)) return std::nullopt;
  Arrays x;
  for (const Atom& a : eqn.inputs) {
    const Array* known = scalar && !a.is_literal() ? nullptr : splat(a);
    if (known == nullptr) return std::nullopt;
    x.push_back(*known);
  }
  const detail::EvalScope scope;
  const Arrays y = eqn.primitive->rules().impl(eqn.params, x);
  const Atom value = Atom::literal(detail::contiguous(y.at(0)));
  if (scalar) return value;
  if (y.size() != 1 || !y[0].shape().empty() || y[0].dtype() != out.dtype) return std::nullopt;
  return make(broadcast_in_dim_p, BroadcastInDimParams{out.shape, {}}, {value}, out.strong());
}

Jaxpr simplify(const Jaxpr& jaxpr) { return Simplifier().run(jaxpr); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
