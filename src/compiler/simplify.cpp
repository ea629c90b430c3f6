// Algebraic simplification as a table of rules, and constant folding.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "compiler/dot.hpp"
#include "compiler/passes.hpp"
#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

/// The program under construction, with what is known of its variables.
class Simplifier {
 public:
  Jaxpr run(const Jaxpr& jaxpr) {
    Renaming renamed(jaxpr);
    const std::vector<int> uses = detail::use_counts(jaxpr);
    for (const Aval& aval : jaxpr.in_avals()) {
      renamed.push(Atom::var(builder_.add_input(aval)));
      definitions_.push_back(-1);
    }
    for (const Eqn& eqn : jaxpr.eqns()) {
      Eqn e = eqn;
      bool changed = false;
      e.params = detail::map_jaxprs(eqn.params, simplify, changed);
      e.inputs = renamed(eqn.inputs);
      const std::vector<Aval> avals = renamed.out_avals(eqn);
      if (eqn.effect == Effect::none && eqn.outputs.size() == 1) {
        if (const auto atom = rewrite(e, avals[0])) {
          if (atom->is_var() && uses[static_cast<std::size_t>(eqn.outputs[0])] != 1) {
            used_once_.erase(atom->var());
          }
          renamed.push(*atom);
          continue;
        }
      }
      const auto results = emit(*e.primitive, e.params, e.inputs, avals, e.effect, e.where);
      if (results.size() == 1 && uses[static_cast<std::size_t>(eqn.outputs[0])] == 1) {
        used_once_.insert(results[0]);
      }
      renamed.push(results);
    }
    // What the rules made superfluous is for the next passes: equal equations are merged first.
    return builder_.build(renamed(jaxpr.outs()), JaxprBuilder::DeadCode::keep).jaxpr;
  }

  const Aval& aval(const Atom& a) const { return builder_.aval(a); }

  /// The equation that defines an atom, if it is of this primitive.
  const Eqn* defined_by(const Atom& a, const PrimitiveBase& p) const {
    if (a.is_literal()) return nullptr;
    const int e = definitions_[static_cast<std::size_t>(a.var())];
    if (e < 0) return nullptr;
    const Eqn& eqn = builder_.eqns()[static_cast<std::size_t>(e)];
    return eqn.primitive == &p ? &eqn : nullptr;
  }

  /// Whether nothing but the equation being rewritten reads the atom: then what defines it goes away.
  bool used_once(const Atom& a) const { return !a.is_literal() && used_once_.contains(a.var()); }

  /// The scalar that all elements of the atom are.
  const Array* splat(const Atom& a) const {
    if (a.is_literal()) return &a.literal();
    const Eqn* b = defined_by(a, broadcast_in_dim_p);
    return b != nullptr && b->inputs[0].is_literal() ? &b->inputs[0].literal() : nullptr;
  }
  bool is(const Atom& a, double value) const {
    const Array* s = splat(a);
    if (s == nullptr || is_complex(s->dtype())) return false;
    const double v = s->item<double>();
    return v == value && std::signbit(v) == std::signbit(value);
  }

  template <class P>
  Atom make(const Primitive<P>& p, const P& params, std::vector<Atom> inputs, const Aval& out) {
    return make(p, Params::of(params), std::move(inputs), out);
  }
  /// The equation, simplified. Its result is for one reader.
  Atom make(const PrimitiveBase& p, Params params, std::vector<Atom> inputs, const Aval& out) {
    Eqn e{&p, std::move(params), std::move(inputs), {}, Effect::none, {}};
    if (const auto atom = rewrite(e, out)) return *atom;
    const Var made = emit(p, e.params, e.inputs, {out}, Effect::none, {})[0];
    used_once_.insert(made);
    return Atom::var(made);
  }

 private:
  std::vector<Var> emit(const PrimitiveBase& p, const Params& params, std::vector<Atom> inputs,
                        const std::vector<Aval>& avals, Effect effect, SourceLocation where) {
    const auto vars = builder_.add_eqn(p, params, std::move(inputs), avals, effect, where);
    const int e = static_cast<int>(builder_.eqns().size()) - 1;
    for (const Var v : vars) {
      if (definitions_.size() <= static_cast<std::size_t>(v))
        definitions_.resize(static_cast<std::size_t>(v) + 1, -1);
      definitions_[static_cast<std::size_t>(v)] = e;
    }
    return vars;
  }

  std::optional<Atom> rewrite(const Eqn& eqn, const Aval& out);
  std::optional<Atom> fold(const Eqn& eqn, const Aval& out);

  JaxprBuilder builder_;
  std::vector<int> definitions_;
  std::set<Var> used_once_;
};

using Rule = std::optional<Atom> (*)(Simplifier&, const Eqn&, const Aval&);
std::optional<Atom> element_of_transposes(Simplifier& s, const Eqn& e, const Aval& out);

bool integral(const Aval& a) { return is_integer(a.dtype); }

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
std::optional<Atom> convert_same(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.aval(e.inputs[0]).dtype == out.dtype) return e.inputs[0];
  return std::nullopt;
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
std::optional<Atom> transpose_of_dot(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> transpose_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape& outer = e.params.as<TransposeParams>().permutation;
  bool in_order = true;
  for (std::size_t d = 0; d < outer.size(); ++d)
    in_order &= outer[d] == static_cast<std::int64_t>(d);
  if (in_order) return e.inputs[0];
  const Eqn* inner = s.defined_by(e.inputs[0], transpose_p);
  if (inner == nullptr) return transpose_of_dot(s, e, out);
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
std::optional<Atom> reduction_of_transpose(Simplifier& s, const Eqn& e, const Aval& out);
std::optional<Atom> simpler_reduction(Simplifier& s, const Eqn& e, const Aval& out) {
  if (e.params.as<AxesParams>().axes.empty()) return e.inputs[0];
  return reduction_of_transpose(s, e, out);
}
std::optional<Atom> concatenate_one(Simplifier&, const Eqn& e, const Aval&) {
  if (e.inputs.size() == 1) return e.inputs[0];
  return std::nullopt;
}

// ---- transposes move outwards, until something takes them up --------------------------------------
Shape permuted(const Shape& dims, const Shape& permutation) {
  Shape out;
  for (const std::int64_t d : dims) out.push_back(permutation[static_cast<std::size_t>(d)]);
  return out;
}
/// The operand of a transpose that nothing else reads, if `a` is one of this permutation (or of any,
/// which becomes the permutation).
const Atom* transposed(Simplifier& s, const Atom& a, const Shape*& permutation) {
  const Eqn* inner = s.used_once(a) ? s.defined_by(a, transpose_p) : nullptr;
  if (inner == nullptr) return nullptr;
  const Shape& this_one = inner->params.as<TransposeParams>().permutation;
  if (permutation != nullptr && *permutation != this_one) return nullptr;
  permutation = &this_one;
  return &inner->inputs[0];
}
// f(transpose(x), transpose(y)) = transpose(f(x, y)), element by element.
std::optional<Atom> element_of_transposes(Simplifier& s, const Eqn& e, const Aval& out) {
  const Lowering* lowering = e.primitive->rules().lowering();
  if (lowering == nullptr || !std::holds_alternative<Lowering::Element>(lowering->form))
    return std::nullopt;
  const Shape* permutation = nullptr;
  std::vector<Atom> inputs;
  for (const Atom& a : e.inputs) {
    const Atom* x = s.aval(a).shape.empty() ? &a : transposed(s, a, permutation);
    if (x == nullptr && s.splat(a) == nullptr) return std::nullopt;
    inputs.push_back(x == nullptr ? a : *x);
  }
  if (permutation == nullptr) return std::nullopt;
  const TransposeParams outer{*permutation};
  Shape shape(outer.permutation.size(), 0);
  for (std::size_t d = 0; d < shape.size(); ++d)
    shape[static_cast<std::size_t>(outer.permutation[d])] = out.shape[d];
  for (Atom& x : inputs) {
    const Array* all = s.splat(x);
    if (all == nullptr || s.aval(x).shape.empty() || s.aval(x).shape == shape) continue;
    x = s.make(broadcast_in_dim_p, BroadcastInDimParams{shape, {}}, {Atom::literal(*all)},
               s.aval(x).with_shape(shape));
  }
  const Atom inner = s.make(*e.primitive, e.params, std::move(inputs), out.with_shape(shape));
  return s.make(transpose_p, outer, {inner}, out);
}
// A fold of transpose(x) is one of x over other axes; what is left of the transpose comes after it.
std::optional<Atom> reduction_of_transpose(Simplifier& s, const Eqn& e, const Aval& out) {
  const Shape* permutation = nullptr;
  const Atom* x = transposed(s, e.inputs[0], permutation);
  if (x == nullptr) return std::nullopt;
  const Shape axes = e.params.as<AxesParams>().axes;
  Shape from = permuted(axes, *permutation);
  std::sort(from.begin(), from.end());
  const auto before = [&](const Shape& dims, std::int64_t d) {
    return std::count_if(dims.begin(), dims.end(), [d](std::int64_t x) { return x < d; });
  };
  Shape shape, order;
  for (std::int64_t d = 0; d < permutation->ndim(); ++d) {
    if (!from.contains(d)) shape.push_back(s.aval(*x).shape[static_cast<std::size_t>(d)]);
    if (axes.contains(d)) continue;
    const std::int64_t source = (*permutation)[static_cast<std::size_t>(d)];
    order.push_back(source - before(from, source));
  }
  const Atom inner =
      s.make(*e.primitive, Params::of(AxesParams{from}), {*x}, out.with_shape(shape));
  return s.make(transpose_p, TransposeParams{order}, {inner}, out);
}

// ---- matrix products -----------------------------------------------------------------------------
// dot(transpose(x), y) reads x as it lies: the dimensions get other numbers. The free dimensions of x
// must come in the same order, and each group must lie side by side in memory.
std::optional<Atom> dot_of_transpose(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const std::size_t side : {0, 1}) {
    const Eqn* inner = s.defined_by(e.inputs[side], transpose_p);
    if (inner == nullptr) continue;
    const Shape& permutation = inner->params.as<TransposeParams>().permutation;
    DotGeneralParams params = e.params.as<DotGeneralParams>();
    DotDimensionNumbers& dn = params.dimension_numbers;
    Shape& batch = side == 0 ? dn.lhs_batch : dn.rhs_batch;
    Shape& contracting = side == 0 ? dn.lhs_contracting : dn.rhs_contracting;
    const Shape free = permuted(free_dims(permutation.ndim(), batch, contracting), permutation);
    if (!std::is_sorted(free.begin(), free.end())) continue;
    batch = permuted(batch, permutation);
    contracting = permuted(contracting, permutation);
    std::vector<Atom> inputs = e.inputs;
    inputs[side] = inner->inputs[0];
    if (!matrix_product(s.aval(inputs[0]), s.aval(inputs[1]), params)) continue;
    return s.make(dot_general_p, params, std::move(inputs), out);
  }
  return std::nullopt;
}
// transpose(dot(x, y)) = dot(y, x) where it exchanges the free dimensions of x and y. Products and
// their sums are the same numbers.
std::optional<Atom> transpose_of_dot(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* dot = s.defined_by(e.inputs[0], dot_general_p);
  if (dot == nullptr || !s.used_once(e.inputs[0])) return std::nullopt;
  const Shape& permutation = e.params.as<TransposeParams>().permutation;
  DotGeneralParams params = dot->params.as<DotGeneralParams>();
  DotDimensionNumbers& dn = params.dimension_numbers;
  const std::int64_t batch = dn.lhs_batch.ndim();
  const std::int64_t rows = s.aval(dot->inputs[0]).ndim() - batch - dn.lhs_contracting.ndim();
  Shape exchanged;
  for (std::int64_t d = 0; d < batch; ++d) exchanged.push_back(d);
  for (std::int64_t d = batch + rows; d < permutation.ndim(); ++d) exchanged.push_back(d);
  for (std::int64_t d = batch; d < batch + rows; ++d) exchanged.push_back(d);
  if (permutation != exchanged) return std::nullopt;
  std::swap(dn.lhs_batch, dn.rhs_batch);
  std::swap(dn.lhs_contracting, dn.rhs_contracting);
  return s.make(dot_general_p, params, {dot->inputs[1], dot->inputs[0]}, out);
}

// ---- updates -------------------------------------------------------------------------------------
// The gather that reads the windows which a scatter writes to; 0 where it drops the update.
GatherParams windows_of(const ScatterParams& p, const Shape& operand, const Shape& updates) {
  const ScatterDimensionNumbers& d = p.dimension_numbers;
  GatherParams out;
  out.dimension_numbers = {d.update_window_dims, d.inserted_window_dims,
                           d.scatter_dims_to_operand_dims, d.operand_batching_dims,
                           d.scatter_indices_batching_dims};
  auto window_dim = d.update_window_dims.begin();
  for (std::int64_t k = 0; k < operand.ndim(); ++k) {
    const auto lists = [&](const Shape& dims) {
      return std::find(dims.begin(), dims.end(), k) != dims.end();
    };
    const bool one = lists(d.inserted_window_dims) || lists(d.operand_batching_dims);
    out.slice_sizes.push_back(one ? 1 : updates[static_cast<std::size_t>(*window_dim++)]);
  }
  out.mode = p.mode == GatherScatterMode::clip ? p.mode : GatherScatterMode::fill_or_drop;
  out.fill_value = 0;
  return out;
}

/// What an equation that overwrites a part of its first operand writes there, and how to read it.
struct Overwriting {
  Eqn eqn;
  std::size_t update;  ///< which operand
  Shape window;        ///< its shape
  Atom read(Simplifier& s, const Atom& from) const {
    const Aval aval = s.aval(from).with_shape(window).strong();
    std::vector<Atom> inputs{from};
    if (eqn.primitive == &dynamic_update_slice_p) {
      inputs.insert(inputs.end(), eqn.inputs.begin() + 2, eqn.inputs.end());
      return s.make(dynamic_slice_p, DynamicSliceParams{window}, std::move(inputs), aval);
    }
    inputs.push_back(eqn.inputs[1]);
    const auto& p = eqn.params.as<ScatterParams>();
    return s.make(gather_p, windows_of(p, s.aval(from).shape, window), std::move(inputs), aval);
  }
};
std::optional<Overwriting> overwriting(Simplifier& s, const Atom& a) {
  for (const PrimitiveBase* p : {static_cast<const PrimitiveBase*>(&dynamic_update_slice_p),
                                 static_cast<const PrimitiveBase*>(&scatter_p),
                                 static_cast<const PrimitiveBase*>(&scatter_add_p)}) {
    const Eqn* eqn = s.defined_by(a, *p);
    if (eqn == nullptr) continue;
    const std::size_t update = p == &dynamic_update_slice_p ? 1 : 2;
    return Overwriting{*eqn, update, s.aval(eqn->inputs[update]).shape};
  }
  return std::nullopt;
}
// Whether `a` is `old` with a small part overwritten, once or several times.
bool updates(Simplifier& s, Atom a, const Atom& old) {
  constexpr int kMost = 8;
  for (int i = 0; i < kMost; ++i) {
    const auto o = overwriting(s, a);
    if (!o || 2 * o->window.num_elements() > s.aval(a).size()) return false;
    a = o->eqn.inputs[0];
    if (a == old) return true;
  }
  return false;
}
// select(p, y, update(y, u, i)) = update(y, select(p, y[i], u), i): the loop that carries y can do it in
// place. Reads and writes treat indices out of bounds alike, and what is written twice is written in
// the same order. Where u is added, -0 is instead.
std::optional<Atom> select_update(Simplifier& s, const Eqn& e, const Aval& out) {
  if (const auto known = select_known(s, e, out)) return known;
  if (e.inputs.size() != 3) return std::nullopt;
  for (const std::size_t side : {1, 2}) {
    const Atom& old = e.inputs[3 - side];
    if (old.is_literal() || !updates(s, e.inputs[side], old)) continue;
    const Overwriting o = *overwriting(s, e.inputs[side]);
    const bool adds = o.eqn.primitive == &scatter_add_p;
    if (adds && !is_float(out.dtype) && !is_integer(out.dtype)) return std::nullopt;
    const auto either = [&](const Atom& which, const Atom& updated, const Atom& kept,
                            const Aval& aval) {
      std::vector<Atom> inputs = {which, updated, kept};
      if (side == 2) std::swap(inputs[1], inputs[2]);
      return s.make(select_n_p, NoParams{}, std::move(inputs), aval);
    };
    Atom base = o.eqn.inputs[0];
    if (!(base == old)) base = either(e.inputs[0], base, old, out);
    const Atom which = s.aval(e.inputs[0]).shape.empty() ? e.inputs[0] : o.read(s, e.inputs[0]);
    const Aval window = out.with_shape(o.window).strong();
    Atom kept = Atom::literal(detail::convert_scalar(Array(-0.0), out.dtype));
    if (!adds) kept = o.read(s, base);
    else if (!o.window.empty())
      kept = s.make(broadcast_in_dim_p, BroadcastInDimParams{o.window, {}}, {kept}, window);
    std::vector<Atom> inputs = o.eqn.inputs;
    inputs[0] = base;
    inputs[o.update] = either(which, inputs[o.update], kept, window);
    if (o.eqn.primitive == &dynamic_update_slice_p)
      return s.make(dynamic_update_slice_p, NoParams{}, std::move(inputs), out);
    const auto& scatter = adds ? scatter_add_p : scatter_p;
    return s.make(scatter, o.eqn.params.as<ScatterParams>(), std::move(inputs), out);
  }
  return std::nullopt;
}

struct Entry {
  const PrimitiveBase* primitive;
  Rule rule;
};
const std::vector<Entry>& rules() {
  static const auto* table = new std::vector<Entry>{
      {&add_p, add_zero},
      {&sub_p, sub_zero},
      {&mul_p, mul_one},
      {&div_p, div_constant},
      {&integer_pow_p, power_one},
      {&neg_p, twice},
      {&not_p, twice},
      {&copy_p, identity},
      {&stop_gradient_p, identity},
      {&select_n_p, select_update},
      {&convert_element_type_p, convert_same},
      {&reshape_p, reshape_chain},
      {&transpose_p, transpose_chain},
      {&broadcast_in_dim_p, broadcast_chain},
      {&slice_p, same_shape},
      {&reduce_sum_p, simpler_reduction},
      {&reduce_max_p, simpler_reduction},
      {&reduce_min_p, simpler_reduction},
      {&reduce_prod_p, simpler_reduction},
      {&concatenate_p, concatenate_one},
      {&dot_general_p, dot_of_transpose},
  };
  return *table;
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

// A scalar computed from literals only is a literal.
std::optional<Atom> Simplifier::fold(const Eqn& eqn, const Aval& out) {
  if (!out.shape.empty() || eqn.inputs.empty() || !eqn.primitive->has_rule("impl"))
    return std::nullopt;
  if (eqn.params.has_jaxprs() || eqn.primitive->rules().impl == nullptr) return std::nullopt;
  Arrays x;
  for (const Atom& a : eqn.inputs) {
    if (!a.is_literal()) return std::nullopt;
    x.push_back(a.literal());
  }
  const detail::EvalScope scope;
  const Arrays y = eqn.primitive->rules().impl(eqn.params, x);
  return Atom::literal(detail::contiguous(y.at(0)));
}

}  // namespace

Jaxpr simplify(const Jaxpr& jaxpr) { return Simplifier().run(jaxpr); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
