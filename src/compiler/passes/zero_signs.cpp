// The sign of a zero is lost in squares, comparisons and sums of several terms; it is handed on by products,
// sums of two and what moves elements. Everything else is taken to need it: 1 / x, above all.
#include "compiler/passes/zero_signs.hpp"

#include <algorithm>

#include "compiler/forms.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

bool loses_sign(const Jaxpr& jaxpr, const Eqn& eqn) {
  // The imaginary part of a square is a product of both parts. Other functions here take no complex numbers, or compare them.
  if (eqn.primitive == &square_p && is_complex(jaxpr.aval(eqn.inputs[0]).dtype)) return false;
  if (eqn.primitive == &reduce_sum_p)
    return jaxpr.aval(eqn.inputs[0]).size() > jaxpr.aval(eqn.outputs[0]).size();
  return one_of(eqn, {&square_p, &abs_p, &exp_p, &exp2_p, &cos_p, &cosh_p, &logistic_p,
                      &is_finite_p, &eq_p, &ne_p, &lt_p, &le_p, &gt_p, &ge_p});
}

bool hands_sign_on(const Eqn& eqn, std::size_t operand) {
  if (eqn.primitive == &div_p) return operand == 0;
  if (eqn.primitive == &integer_pow_p) return eqn.params.as<IntegerPowParams>().y > 0;
  return one_of(eqn, {&add_p,
                      &sub_p,
                      &mul_p,
                      &square_p,
                      &neg_p,
                      &max_p,
                      &min_p,
                      &sqrt_p,
                      &sin_p,
                      &tanh_p,
                      &copy_p,
                      &select_n_p,
                      &broadcast_in_dim_p,
                      &reshape_p,
                      &transpose_p,
                      &slice_p,
                      &concatenate_p,
                      &pad_p,
                      &rev_p,
                      &reduce_sum_p,
                      &reduce_max_p,
                      &reduce_min_p,
                      &convert_element_type_p});
}

}  // namespace

std::vector<bool> zero_signs_that_matter(const Jaxpr& jaxpr) {
  std::vector<bool> matters(static_cast<std::size_t>(jaxpr.num_vars()), false);
  const auto mark = [&](const Atom& a) {
    if (a.is_var()) matters[static_cast<std::size_t>(a.var())] = true;
  };
  for (const Atom& a : jaxpr.outs()) mark(a);
  for (auto eqn = jaxpr.eqns().rbegin(); eqn != jaxpr.eqns().rend(); ++eqn) {
    if (!eqn->inputs.empty() && loses_sign(jaxpr, *eqn)) continue;
    const bool of_result = std::any_of(eqn->outputs.begin(), eqn->outputs.end(),
                                       [&](Var v) { return matters[static_cast<std::size_t>(v)]; });
    for (std::size_t i = 0; i < eqn->inputs.size(); ++i) {
      if (of_result || !hands_sign_on(*eqn, i)) mark(eqn->inputs[i]);
    }
  }
  return matters;
}

bool may_be_minus_zero(const Eqn& eqn) {
  if (one_of(eqn, {&square_p, &abs_p})) return false;
  const auto is_same = [&] {
    return eqn.inputs[0].is_var() && eqn.inputs[1].is_var() &&
           eqn.inputs[0].var() == eqn.inputs[1].var();
  };
  return eqn.primitive != &mul_p || !is_same();
}

bool begins_with_zero(const Jaxpr& jaxpr, const Eqn& sum, const std::vector<int>& producers,
                      const std::vector<bool>* matter) {
  const Var out = sum.outputs[0];
  if (sum.primitive != &reduce_sum_p || !is_float(jaxpr.aval(out).dtype)) return false;
  if (matter == nullptr) return true;
  if (!(*matter)[static_cast<std::size_t>(out)]) return false;
  const int e = producers[static_cast<std::size_t>(sum.inputs[0].var())];
  return e < 0 || may_be_minus_zero(jaxpr.eqns()[static_cast<std::size_t>(e)]);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
