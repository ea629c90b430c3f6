// 16-bit floats are what memory holds, and processors compute in 32 bits: an operation on them is one on f32 whose
// result is rounded, as it is where programs run without a compiler.
//
//   let c:f16 = mul a b, d:f16 = add c a
//   ->  let a32 = convert[f32] a, ..., c = convert[f16] (mul a32 b32), d = convert[f16] (add (convert[f32] c) a32)
//
// A large product with a vector stays one of 16-bit floats, for to read the matrix takes longer than to multiply, and so does
// one of bf16 whose terms the processor takes in pairs.
//
// Where the result is one of the operands' values, nothing is rounded and nothing converted back, nor where it moves them to
// another that computes. Other moves are of 16 bits.
#include <algorithm>
#include <optional>

#include "compiler/codegen/codegen.hpp"
#include "compiler/executable/program_store.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/plan/dot.hpp"
#include "core/element.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/kernels/gemm.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"
#include "telamon/special.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Moves elements from fixed places; where these are few among many, as for a gather, all would be converted.
bool moves(const Eqn& e) {
  return one_of(
      e, {&broadcast_in_dim_p, &reshape_p, &transpose_p, &slice_p, &pad_p, &rev_p, &concatenate_p});
}
/// Whether every result is a value that the small type has, if the operands are.
bool is_exact(const Eqn& e) {
  return moves(e) || one_of(e, {&neg_p, &abs_p, &sign_p, &max_p, &min_p, &clamp_p, &select_n_p,
                                &floor_p, &ceil_p, &round_p, &order_statistic_p, &copy_p,
                                &stop_gradient_p, &reduce_max_p, &reduce_min_p});
}

class Widener {
 public:
  explicit Widener(const Jaxpr& jaxpr)
      : jaxpr_(jaxpr),
        wide_(static_cast<std::size_t>(jaxpr.num_vars())),
        small_(static_cast<std::size_t>(jaxpr.num_vars())),
        readers_(static_cast<std::size_t>(jaxpr.num_vars())) {
    for (const Eqn& e : jaxpr.eqns()) {
      for (const Atom& a : e.inputs)
        if (a.is_var()) ++readers_[static_cast<std::size_t>(a.var())];
    }
    for (const Eqn& e : jaxpr.eqns()) widened_.push_back(computes(e));
    // A move between two that compute is theirs; others move what memory holds, which is half as much.
    const std::vector<bool> computed = widened_;
    std::vector<bool> from_wide(wide_.size(), false), to_wide(wide_.size(), false);
    for (std::size_t e = 0; e < computed.size(); ++e) {
      const Eqn& eqn = jaxpr.eqns()[e];
      if (computed[e] || (can_move(eqn) && any_operand(eqn, from_wide)))
        mark(eqn.outputs, from_wide);
    }
    for (std::size_t e = computed.size(); e-- > 0;) {
      const Eqn& eqn = jaxpr.eqns()[e];
      const bool moved = can_move(eqn) && to_wide[static_cast<std::size_t>(eqn.outputs[0])];
      widened_[e] = computed[e] || (moved && any_operand(eqn, from_wide));
      if (!computed[e] && !moved) continue;
      for (const Atom& a : eqn.inputs)
        if (a.is_var()) to_wide[static_cast<std::size_t>(a.var())] = true;
    }
  }

  Jaxpr run() {
    bool changed = std::find(widened_.begin(), widened_.end(), true) != widened_.end();
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      small(v) = Atom::var(b_.add_input(jaxpr_.aval(v)));
    for (std::size_t e = 0; e < widened_.size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      where_ = eqn.where;
      if (widened_[e]) widen(eqn);
      else keep(eqn, changed);
    }
    if (!changed) return jaxpr_;
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(as_small(a));
    return b_.build(std::move(outs)).jaxpr;
  }

 private:
  bool any_operand(const Eqn& e, const std::vector<bool>& of) const {
    return std::any_of(e.inputs.begin(), e.inputs.end(), [&](const Atom& a) {
      return a.is_var() && of[static_cast<std::size_t>(a.var())];
    });
  }
  static void mark(const Vars& vars, std::vector<bool>& in) {
    for (const Var v : vars) in[static_cast<std::size_t>(v)] = true;
  }

  /// Whether an equation has to do with small floats, all of which can be converted, and has one result.
  bool fits(const Eqn& e) const {
    if (e.effect != Effect::none || e.outputs.size() != 1 || e.params.has_jaxprs()) return false;
    bool any = false, all = true;
    const auto look_at = [&](DType dtype) {
      any |= detail::is_small_float(dtype);
      all &= is_native(dtype) || (detail::is_small_float(dtype) && is_converted(dtype));
    };
    for (const Atom& a : e.inputs) look_at(jaxpr_.aval(a).dtype);
    look_at(jaxpr_.aval(e.outputs[0]).dtype);
    return any && all;
  }
  bool can_move(const Eqn& e) const { return fits(e) && moves(e); }
  bool computes(const Eqn& e) const {
    // Steps from one number to the next, and bits, are other ones in f32; what users' operations are, nobody knows.
    if (!fits(e) || !is_own_operation(*e.primitive) ||
        one_of(e, {&nextafter_p, &reduce_precision_p, &bitcast_convert_type_p,
                   &convert_element_type_p}))
      return false;
    if (e.primitive == &dot_general_p) return !is_large_with_vector(e) && !is_large_of_pairs(e);
    const Lowering* lowering = e.primitive->rules().lowering();
    return lowering != nullptr && (std::holds_alternative<Lowering::Element>(lowering->form) ||
                                   std::holds_alternative<Lowering::Reduction>(lowering->form));
  }

  /// Large products with vectors are the runtime's, which with AVX2 reads the matrix once, as memory holds it. Of one that
  /// others read, too, blocks of rows are widened for all of them.
  bool is_large_with_vector(const Eqn& e) const {
    const Aval &lhs = jaxpr_.aval(e.inputs[0]), &rhs = jaxpr_.aval(e.inputs[1]);
    const DType out = jaxpr_.aval(e.outputs[0]).dtype;
    if (!detail::is_small_float(out) || lhs.dtype != out || rhs.dtype != out ||
        runtime::target_isa() == runtime::Isa::generic)
      return false;
    const auto p = matrix_product(lhs, rhs, e.params.as<DotGeneralParams>());
    if (!p || (p->m > 1 && p->n > 1) || p->work_of_one() < kLeastLargeProduct) return false;
    const Atom& matrix = e.inputs[p->n == 1 ? 0 : 1];
    return matrix.is_var() && readers_[static_cast<std::size_t>(matrix.var())] == 1;
  }

  bool is_large_of_pairs(const Eqn& e) const {
    const Aval &lhs = jaxpr_.aval(e.inputs[0]), &rhs = jaxpr_.aval(e.inputs[1]);
    const DType out = jaxpr_.aval(e.outputs[0]).dtype;
    if (lhs.dtype != DType::bf16 || rhs.dtype != DType::bf16 ||
        (out != DType::bf16 && out != DType::f32))
      return false;
    const auto p = matrix_product(lhs, rhs, e.params.as<DotGeneralParams>());
    return p && kernels::multiplies_by_pairs(runtime::target_isa(), {p->batch, p->m, p->n, p->k});
  }

  std::optional<Atom>& small(Var v) { return small_[static_cast<std::size_t>(v)]; }
  std::optional<Atom>& wide(Var v) { return wide_[static_cast<std::size_t>(v)]; }
  Atom convert(const Atom& a, DType to) {
    return Atom::var(b_.add_eqn1(convert_element_type_p, Params::of(ConvertParams{to}), {a},
                                 b_.aval(a).with_dtype(to), Effect::none, where_));
  }
  Atom as_small(const Atom& a) {
    if (a.is_literal()) return a;
    std::optional<Atom>& out = small(a.var());
    if (!out) out = convert(*wide(a.var()), jaxpr_.aval(a).dtype);
    return *out;
  }
  Atom as_wide(const Atom& a) {
    if (!detail::is_small_float(jaxpr_.aval(a).dtype)) return as_small(a);
    if (a.is_literal()) return literal_of(a.literal(), DType::f32);
    std::optional<Atom>& out = wide(a.var());
    if (!out) out = convert(*small(a.var()), DType::f32);
    return *out;
  }

  /// A whole exponent, as a number that the small type has: that is what a power is taken to.
  Atom exponent(const Atom& k, DType small) {
    if (k.is_literal()) return literal_of(literal_of(k.literal(), small).literal(), DType::f32);
    return convert(convert(as_small(k), small), DType::f32);
  }

  void widen(const Eqn& e) {
    Atoms in;
    for (const Atom& a : e.inputs) in.push_back(as_wide(a));
    if (e.primitive == &pow_p && is_integer(jaxpr_.aval(e.inputs[1]).dtype))
      in[1] = exponent(e.inputs[1], jaxpr_.aval(e.inputs[0]).dtype);
    const Var v = e.outputs[0];
    const Aval& out = jaxpr_.aval(v);
    Params params = e.params;
    if (e.primitive == &dot_general_p && detail::is_small_float(out.dtype)) {
      DotGeneralParams p = params.as<DotGeneralParams>();
      if (p.preferred_element_type) p.preferred_element_type = DType::f32;
      params = Params::of(std::move(p));
    }
    const Aval computed = detail::is_small_float(out.dtype) ? out.with_dtype(DType::f32) : out;
    const Atom result = Atom::var(
        b_.add_eqn1(*e.primitive, std::move(params), std::move(in), computed, e.effect, e.where));
    if (!detail::is_small_float(out.dtype)) small(v) = result;
    else if (is_exact(e)) wide(v) = result;
    else small(v) = convert(result, out.dtype);
  }

  void keep(const Eqn& e, bool& changed) {
    Atoms in;
    for (const Atom& a : e.inputs) in.push_back(as_small(a));
    Params params = detail::map_jaxprs(e.params, widen_small_floats, changed);
    const Vars& out = b_.add_eqn(*e.primitive, std::move(params), std::move(in),
                                 detail::avals_of(jaxpr_, e.outputs), e.effect, e.where);
    for (std::size_t i = 0; i < out.size(); ++i) small(e.outputs[i]) = Atom::var(out[i]);
  }

  const Jaxpr& jaxpr_;
  std::vector<bool> widened_;
  detail::JaxprBuilder b_;
  std::vector<std::optional<Atom>> wide_, small_;  ///< of each variable, as far as it is known
  std::vector<int> readers_;                       ///< how many operands each variable is
  SourceLocation where_;
};

}  // namespace

bool has_small_floats(const Jaxpr& jaxpr) {
  const auto is_small = [](const Aval& a) { return detail::is_small_float(a.dtype); };
  return detail::any_program(jaxpr, [&](const Jaxpr& j) {
    return std::any_of(j.avals().begin(), j.avals().end(), is_small);
  });
}

Jaxpr widen_small_floats(const Jaxpr& jaxpr) {
  return has_small_floats(jaxpr) ? Widener(jaxpr).run() : jaxpr;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
