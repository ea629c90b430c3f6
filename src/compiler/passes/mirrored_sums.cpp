// Sums over pairs, of what is the same for (i, j) and (j, i) or changes its sign: forces between bodies, gradients of
// distances. The sum over one of both is that over the other, and arrays are folded one way only.
//
//   let r[n,n] = sub x_i x_j, f = mul (g (square r)) r, a = reduce_sum[axes=(1,)] f, b = reduce_sum[axes=(0,)] f
//   ->   let ..., a = reduce_sum[axes=(1,)] f, b = sub 0 a
//
// Each value gets a number, and another one for the value with both axes swapped; equal numbers are equal
// values, but for a sign that stands beside them. x - y and y - x are the same number with two signs, which is right but
// for the sign of a zero: sums begin with 0 and do not tell, what may tell gets no such number.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/detail/hash.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

struct Number {
  int id = -1;
  bool minus = false;
  bool exact = true;  ///< not but for the sign of a zero
};

/// The numbers of all values of a program in which the axes p and p + 1 are as long as each other.
class Numbers {
 public:
  Numbers(const Jaxpr& jaxpr, std::size_t p) : jaxpr_(jaxpr), p_(p) {
    for (std::vector<Number>* of : {&as_it_is_, &swapped_})
      of->resize(static_cast<std::size_t>(jaxpr.num_vars()));
    for (Var v = 0; v < jaxpr.num_inputs(); ++v) {
      set_apart(v);
      flat_.push_back(next_++);
    }
    for (const Eqn& e : jaxpr.eqns()) {
      for (std::size_t i = 0; i < e.outputs.size(); ++i) flat_.push_back(flat_number(e));
      if (e.outputs.size() != 1 || !is_square(jaxpr.aval(e.outputs[0]))) {
        for (const Var v : e.outputs) set_apart(v);
        continue;
      }
      const auto v = static_cast<std::size_t>(e.outputs[0]);
      const auto as_it_is = number(e, false), swapped = number(e, true);
      if (as_it_is && swapped) {
        as_it_is_[v] = *as_it_is;
        swapped_[v] = *swapped;
      } else {
        set_apart(e.outputs[0]);
      }
    }
  }

  const Number& as_it_is(const Atom& a) const {
    return as_it_is_[static_cast<std::size_t>(a.var())];
  }
  const Number& swapped(const Atom& a) const { return swapped_[static_cast<std::size_t>(a.var())]; }

 private:
  struct Computation {
    const PrimitiveBase* primitive;
    Params params;
    std::vector<std::pair<int, bool>> operands;  ///< numbers and whether they have another sign
    bool operator==(const Computation&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Computation& c) const {
      std::size_t h = detail::combine_hash(std::hash<const void*>{}(c.primitive), c.params.hash());
      for (const auto& [id, minus] : c.operands)
        h = detail::combine_hash(h, 2 * static_cast<std::size_t>(id) + (minus ? 1U : 0U));
      return h;
    }
  };

  bool is_square(const Aval& a) const {
    return a.shape.size() > p_ + 1 && a.shape[p_] == a.shape[p_ + 1] && !is_complex(a.dtype);
  }
  // Equal to nothing else.
  void set_apart(Var v) {
    as_it_is_[static_cast<std::size_t>(v)] = {next_++};
    swapped_[static_cast<std::size_t>(v)] = {next_++};
  }
  struct HashAtom {
    std::size_t operator()(const Atom& a) const { return a.hash(); }
  };
  using Known = std::unordered_map<Computation, int, Hash>;
  Number numbered(Known& known, Computation c) {
    const auto [entry, is_new] = known.try_emplace(std::move(c), next_);
    if (is_new) ++next_;
    return {entry->second};
  }
  Number known(Computation c, bool minus, bool exact) {
    return {numbered(known_, std::move(c)).id, minus, exact};
  }

  std::optional<Number> number(const Eqn& e, bool swap) {
    if (e.primitive == &broadcast_in_dim_p) return of_broadcast(e, swap);
    if (e.primitive == &iota_p) return of_iota(e, swap);
    if (e.primitive == &reshape_p) return of_reshape(e, swap);
    const bool sums = e.primitive == &reduce_sum_p;
    if (sums && !behind_the_pair(reduction_axes(e))) return std::nullopt;
    if (!sums && form_of(jaxpr_, e) != Form::element) return std::nullopt;
    std::vector<Number> x;
    for (const Atom& a : e.inputs) {
      if (!a.is_var() || !is_square(jaxpr_.aval(a))) return std::nullopt;
      x.push_back(swap ? swapped(a) : as_it_is(a));
    }
    return of_operation(e, x);
  }

  std::optional<Number> of_operation(const Eqn& e, const std::vector<Number>& x) {
    const PrimitiveBase* p = e.primitive;
    if (p == &neg_p) return Number{x[0].id, !x[0].minus, x[0].exact};
    if (p == &copy_p) return x[0];
    if (one_of(e, {&add_p, &sub_p})) return of_sum(x[0], x[1], p == &sub_p);
    if (one_of(e, {&square_p, &abs_p}))
      return known({p, e.params, {{x[0].id, false}}}, false, true);
    if (p == &reduce_sum_p || (p == &convert_element_type_p && are_floats(e)))
      return known({p, e.params, {{x[0].id, false}}}, x[0].minus,
                   x[0].exact && (p != &reduce_sum_p || !x[0].minus));
    if (p == &mul_p) {
      return known({p, e.params, in_order({x[0].id, false}, {x[1].id, false})},
                   x[0].minus != x[1].minus, x[0].exact && x[1].exact);
    }
    if (p == &div_p && are_floats(e) && x[1].exact) {
      return known({p, e.params, {{x[0].id, false}, {x[1].id, false}}}, x[0].minus != x[1].minus,
                   x[0].exact);
    }
    if (p == &select_n_p && x[0].exact) return of_choice(e, x);
    // All others may tell one zero from the other.
    if (!std::all_of(x.begin(), x.end(), [](const Number& n) { return n.exact; }))
      return std::nullopt;
    Computation c{p, e.params, {}};
    for (const Number& n : x) c.operands.emplace_back(n.id, n.minus);
    if (one_of(e, {&eq_p, &ne_p, &and_p, &or_p, &xor_p}))
      c.operands = in_order(c.operands[0], c.operands[1]);
    return known(std::move(c), false, true);
  }
  // a + b, or a - b: the one of the lesser number first and without a sign.
  std::optional<Number> of_sum(Number a, Number b, bool minus) {
    b.minus = b.minus != minus;
    const auto terms = in_order({a.id, a.minus}, {b.id, b.minus});
    const bool turned = terms[0].second;
    return known({&add_p,
                  Params::of(NoParams{}),
                  {{terms[0].first, false}, {terms[1].first, terms[1].second != turned}}},
                 turned, a.exact && b.exact && !turned);
  }
  std::optional<Number> of_choice(const Eqn& e, const std::vector<Number>& x) {
    Computation c{e.primitive, e.params, {{x[0].id, x[0].minus}}};
    bool exact = true;
    for (std::size_t i = 1; i < x.size(); ++i) {
      c.operands.emplace_back(x[i].id, x[i].minus != x[1].minus);
      exact = exact && x[i].exact;
    }
    return known(std::move(c), x[1].minus, exact);
  }
  static std::vector<std::pair<int, bool>> in_order(std::pair<int, bool> a,
                                                    std::pair<int, bool> b) {
    return {std::min(a, b), std::max(a, b)};
  }
  bool are_floats(const Eqn& e) const {
    return is_float(jaxpr_.aval(e.inputs[0]).dtype) && is_float(jaxpr_.aval(e.outputs[0]).dtype);
  }
  bool behind_the_pair(const Shape& axes) const {
    return std::all_of(axes.begin(), axes.end(),
                       [&](std::int64_t a) { return a > static_cast<std::int64_t>(p_) + 1; });
  }

  std::optional<Number> of_broadcast(const Eqn& e, bool swap) {
    const auto& params = e.params.as<BroadcastInDimParams>();
    if (e.inputs.size() != 1) return std::nullopt;
    if (e.inputs[0].is_var() && jaxpr_.aval(e.inputs[0]).shape == params.shape)
      return swap ? swapped(e.inputs[0]) : as_it_is(e.inputs[0]);
    // What lies along both axes has its own numbers.
    const auto p = static_cast<std::int64_t>(p_);
    const Shape& along = params.broadcast_dimensions;
    if (e.inputs[0].is_var() && is_square(jaxpr_.aval(e.inputs[0])) && along[p_] == p &&
        along[p_ + 1] == p + 1) {
      const Number& x = swap ? swapped(e.inputs[0]) : as_it_is(e.inputs[0]);
      return known({e.primitive, e.params, {{x.id, false}}}, x.minus, x.exact);
    }
    // What is repeated along some axes: which of its axes lies along which one of these; -1: repeated.
    Shape axes(params.shape.size(), -1);
    const Shape from = shape_of(e.inputs[0]);
    std::int64_t next = 0;
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (from[d] != 1) axes[static_cast<std::size_t>(along[d])] = next++;
    }
    if (swap) std::swap(axes[p_], axes[p_ + 1]);
    return numbered(repeated_, {e.primitive,
                                Params::of(BroadcastInDimParams{params.shape, std::move(axes)}),
                                {{flat(e.inputs[0]), false}}});
  }

  // Of the axes behind the pair.
  std::optional<Number> of_reshape(const Eqn& e, bool swap) {
    const Shape& to = jaxpr_.aval(e.outputs[0]).shape;
    if (e.inputs.size() != 1 || !e.inputs[0].is_var()) return std::nullopt;
    const Shape& from = jaxpr_.aval(e.inputs[0]).shape;
    const auto pair_end = static_cast<std::ptrdiff_t>(p_) + 2;
    if (std::ssize(from) < pair_end || !std::equal(to.begin(), to.begin() + pair_end, from.begin()))
      return std::nullopt;
    const Number& x = swap ? swapped(e.inputs[0]) : as_it_is(e.inputs[0]);
    return known({e.primitive, e.params, {{x.id, false}}}, x.minus, x.exact);
  }

  // ---- flat numbers: of arrays whatever axes of length 1 they have ---------------------------------
  int flat(const Atom& a) {
    if (a.is_var()) return flat_[static_cast<std::size_t>(a.var())];
    const auto [entry, is_new] = literals_.try_emplace(a, next_);
    if (is_new) ++next_;
    return entry->second;
  }
  int flat_number(const Eqn& e) {
    const Shape axes = long_axes(jaxpr_.aval(e.outputs[0]).shape);
    const auto same = [&](const Atom& a) { return long_axes(shape_of(a)) == axes; };
    const bool all = std::all_of(e.inputs.begin(), e.inputs.end(), same);
    if (e.outputs.size() != 1 || e.inputs.empty()) return next_++;
    if (all && (e.primitive == &reshape_p || e.primitive == &broadcast_in_dim_p) &&
        e.inputs.size() == 1)
      return flat(e.inputs[0]);
    Computation c{e.primitive, e.params, {}};
    if (e.primitive == &broadcast_in_dim_p && shape_of(e.inputs[0]).empty()) {
      c.params = Params::of(BroadcastInDimParams{axes, {}});
    } else if (!all || form_of(jaxpr_, e) != Form::element) {
      return next_++;
    }
    for (const Atom& a : e.inputs) c.operands.emplace_back(flat(a), false);
    return numbered(flat_known_, std::move(c)).id;
  }
  static Shape long_axes(const Shape& shape) {
    Shape out;
    std::copy_if(shape.begin(), shape.end(), std::back_inserter(out),
                 [](std::int64_t n) { return n != 1; });
    return out;
  }
  Shape shape_of(const Atom& a) const {
    return a.is_var() ? jaxpr_.aval(a).shape : a.literal().shape();
  }

  std::optional<Number> of_iota(const Eqn& e, bool swap) {
    IotaParams params = e.params.as<IotaParams>();
    const auto p = static_cast<std::int64_t>(p_);
    if (swap && (params.dimension == p || params.dimension == p + 1))
      params.dimension = 2 * p + 1 - params.dimension;
    return known({e.primitive, Params::of(std::move(params)), {}}, false, true);
  }

  const Jaxpr& jaxpr_;
  std::size_t p_;
  std::vector<Number> as_it_is_, swapped_;
  std::vector<int> flat_;
  Known known_, repeated_, flat_known_;
  std::unordered_map<Atom, int, HashAtom> literals_;
  int next_ = 0;
};

class MirroredSums {
 public:
  explicit MirroredSums(const Jaxpr& jaxpr) : jaxpr_(jaxpr) {}

  Jaxpr rewritten() const {
    Jaxpr out = jaxpr_;
    for (const std::int64_t p : summed_pairs()) out = along(out, p);
    return out;
  }
  /// The first axes of pairs of the same length over both of which is summed.
  std::vector<std::int64_t> summed_pairs() const {
    std::map<std::int64_t, int> seen;  // 1: over the first one, 2: over the second
    for (const Eqn& e : jaxpr_.eqns()) {
      const auto axis = axis_of(jaxpr_, e);
      if (!axis) continue;
      if (is_pair(jaxpr_, e, *axis)) seen[*axis] |= 1;
      if (is_pair(jaxpr_, e, *axis - 1)) seen[*axis - 1] |= 2;
    }
    std::vector<std::int64_t> out;
    for (const auto& [p, both] : seen) {
      if (both == 3) out.push_back(p);
    }
    return out;
  }

 private:
  static std::optional<std::int64_t> axis_of(const Jaxpr& jaxpr, const Eqn& e) {
    if (e.primitive != &reduce_sum_p || !e.inputs[0].is_var()) return std::nullopt;
    const Shape axes = reduction_axes(e);
    if (axes.size() != 1 || is_complex(jaxpr.aval(e.inputs[0]).dtype)) return std::nullopt;
    return axes[0];
  }
  static bool is_pair(const Jaxpr& jaxpr, const Eqn& e, std::int64_t p) {
    const Shape& shape = jaxpr.aval(e.inputs[0]).shape;
    const auto i = static_cast<std::size_t>(p);
    return p >= 0 && i + 1 < shape.size() && shape[i] == shape[i + 1] && shape[i] > 1;
  }
  static Jaxpr along(const Jaxpr& jaxpr, std::int64_t p) {
    const Numbers numbers(jaxpr, static_cast<std::size_t>(p));
    std::map<int, int> sums;  // of a number, over which axes
    const auto is_mirrored = [&](const Eqn& e) {
      const Atom& x = e.inputs[0];
      return is_pair(jaxpr, e, p) && numbers.as_it_is(x).id == numbers.swapped(x).id;
    };
    for (const Eqn& e : jaxpr.eqns()) {
      const auto axis = axis_of(jaxpr, e);
      if (axis && (*axis == p || *axis == p + 1) && is_mirrored(e))
        sums[numbers.as_it_is(e.inputs[0]).id] |= *axis == p ? 1 : 2;
    }
    if (std::none_of(sums.begin(), sums.end(), [](const auto& s) { return s.second == 3; }))
      return jaxpr;

    detail::JaxprBuilder b;
    detail::Renaming atoms(jaxpr);
    atoms.push_inputs(b);
    struct Row {
      Atom sum;
      bool minus;
      std::optional<Atom> negative;
    };
    std::map<int, Row> rows;  // by number: over the second axis
    for (const Eqn& e : jaxpr.eqns()) {
      const auto axis = axis_of(jaxpr, e);
      const bool of_pair = axis && (*axis == p || *axis == p + 1) && is_mirrored(e);
      const Number n = of_pair ? numbers.as_it_is(e.inputs[0]) : Number{};
      if (!of_pair || sums[n.id] != 3) {
        atoms.push_eqn(b, e);
        continue;
      }
      const Aval& aval = jaxpr.aval(e.outputs[0]);
      auto row = rows.find(n.id);
      if (row == rows.end()) {
        AxesParams params = e.params.as<AxesParams>();
        params.axes = {p + 1};
        const Atom sum = Atom::var(b.add_eqn1(*e.primitive, Params::of(std::move(params)),
                                              atoms(e.inputs), aval, Effect::none, e.where));
        row = rows.emplace(n.id, Row{sum, n.minus, {}}).first;
      }
      const bool minus =
          (*axis == p ? numbers.swapped(e.inputs[0]).minus : n.minus) != row->second.minus;
      Row& r = row->second;
      if (minus && !r.negative) r.negative = negative(b, r.sum, aval, e);
      atoms.push(minus ? *r.negative : r.sum);
    }
    return b.build(atoms(jaxpr.outs())).jaxpr;
  }
  // 0 - x: 0, as sums are, where -x would be -0.
  static Atom negative(detail::JaxprBuilder& b, const Atom& x, const Aval& aval, const Eqn& e) {
    const Atom zeros = filled(b, 0, aval.strong(), e.where);
    return Atom::var(
        b.add_eqn1(sub_p, Params::of(NoParams{}), {zeros, x}, aval, Effect::none, e.where));
  }

  const Jaxpr& jaxpr_;
};

}  // namespace

bool sums_over_pairs(const Jaxpr& jaxpr) {
  return detail::any_program(
      jaxpr, [](const Jaxpr& j) { return !MirroredSums(j).summed_pairs().empty(); });
}

Jaxpr fold_mirrored_sums(const Jaxpr& jaxpr) {
  return MirroredSums(detail::map_regions(jaxpr, fold_mirrored_sums)).rewritten();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
