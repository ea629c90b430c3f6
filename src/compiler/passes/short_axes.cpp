// Short last axes, as of points in space: an array of shape (..., 3) in the midst of a computation over
// all pairs becomes three arrays of shape (...). Then lanes run along what is long, nothing of the
// larger shape reaches memory, and a sum over the axis is two additions.
//
//   let r = sub p[n,n,3] q[n,n,3], s = mul r r, d = reduce_sum[axes=(2,)] s
//   ->  let r0 = sub p0[n,n] q0, r1 = sub p1 q1, r2 = sub p2 q2, ..., d = add (add s0 s2) s1
//
// Short rows times a small matrix are sums of columns times numbers.
//
// Worth it where what lies in memory before and after is much smaller than what is computed in between,
// and where rows are folded, of what lies in memory, too: their columns are then taken apart and put together in registers
// (codegen_columns.cpp). What is connected by such equations is taken apart as a whole or not at all.
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/forms.hpp"
#include "compiler/passes/halves.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/short_axis_choice.hpp"
#include "compiler/passes/zero_signs.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

Shape without_last(Shape shape) {
  shape.pop_back();
  return shape;
}
Aval component(const Aval& a) { return a.with_shape(without_last(a.shape)).strong(); }

Aval one_of(const Aval& a) {
  Shape shape = without_last(a.shape);
  shape.push_back(1);
  return a.with_shape(std::move(shape)).strong();
}

class Splitter {
 public:
  Splitter(const Jaxpr& jaxpr, bool zero_signs)
      : jaxpr_(jaxpr),
        producers_(detail::producers(jaxpr)),
        tells_zero_signs_(zero_signs),
        zero_signs_(zero_signs_that_matter(jaxpr)),
        choice_(jaxpr),
        whole_(vars()),
        components_(vars()) {}

  Jaxpr run() {
    bool changed = choice_.any();
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      whole(v) = Atom::var(b_.add_input(jaxpr_.aval(v)));
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      const AxisRole role = choice_.role(e);
      if (role == AxisRole::product) {
        multiply(eqn);
      } else if (role == AxisRole::column && choice_.apart(eqn.inputs[0].var())) {
        const std::int64_t k = eqn.params.as<SliceParams>().start_indices.back();
        where_ = eqn.where;
        whole(eqn.outputs[0]) = reshaped(apart(eqn.inputs[0].var())[static_cast<std::size_t>(k)],
                                         jaxpr_.aval(eqn.outputs[0]));
      } else if (role == AxisRole::folded && choice_.apart(eqn.inputs[0].var())) {
        fold(eqn);
      } else if (role == AxisRole::spread && choice_.apart(eqn.outputs[0])) {
        spread(eqn);
      } else if (role == AxisRole::through && choice_.apart(eqn.outputs[0]) &&
                 !is_small_part(eqn)) {
        through(eqn);
      } else if (role != AxisRole::none && role != AxisRole::through && role != AxisRole::folded &&
                 choice_.apart(eqn.outputs[0])) {
        parts(eqn.outputs[0]) = columns(eqn, role);
      } else {
        keep(eqn, changed);
      }
    }
    if (!changed) return jaxpr_;
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(as_whole(a));
    return b_.build(std::move(outs)).jaxpr;
  }

 private:
  std::size_t vars() const { return static_cast<std::size_t>(jaxpr_.num_vars()); }
  std::optional<Atom>& whole(Var v) { return whole_[static_cast<std::size_t>(v)]; }
  Atoms& parts(Var v) { return components_[static_cast<std::size_t>(v)]; }
  Atom add(const PrimitiveBase& p, Params params, Atoms in, const Aval& out) {
    return Atom::var(b_.add_eqn1(p, std::move(params), std::move(in), out, Effect::none, where_));
  }
  Atom reshaped(Atom a, const Aval& out) {
    return add(reshape_p, Params::of(ReshapeParams{out.shape}), {std::move(a)}, out);
  }

  // Of an array that lies in memory: where the part begins is not known, but that it is no more than half of the
  // array, of which all would be taken apart.
  bool is_small_part(const Eqn& eqn) {
    return eqn.primitive == &dynamic_slice_p && whole(eqn.inputs[0].var()) &&
           2 * jaxpr_.aval(eqn.outputs[0]).size() <= jaxpr_.aval(eqn.inputs[0]).size();
  }

  // x[..., k] for each k.
  Atoms& apart(Var v) {
    Atoms& out = parts(v);
    const Aval& aval = jaxpr_.aval(v);
    if (out.empty()) out = planes(*whole(v), aval, aval.ndim() - 1, component(aval));
    return out;
  }
  // The slices of one element along an axis, without that axis.
  Atoms planes(const Atom& x, const Aval& aval, std::int64_t axis, const Aval& plane) {
    const auto d = static_cast<std::size_t>(axis);
    Atoms out;
    for (std::int64_t k = 0; k < aval.shape[d]; ++k) {
      SliceParams p{Shape(aval.shape.size(), 0), aval.shape, Shape(aval.shape.size(), 1)};
      p.start_indices[d] = k;
      p.limit_indices[d] = k + 1;
      Shape one = aval.shape;
      one[d] = 1;
      out.push_back(
          reshaped(add(slice_p, Params::of(p), {x}, aval.with_shape(one).strong()), plane));
    }
    return out;
  }
  static void append(Atoms& to, const Atoms& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  Atom as_whole(const Atom& a) {
    if (a.is_literal()) return a;
    std::optional<Atom>& out = whole(a.var());
    if (out) return *out;
    const Aval& aval = jaxpr_.aval(a);
    Atoms columns;
    for (const Atom& part : parts(a.var())) columns.push_back(reshaped(part, one_of(aval)));
    ConcatenateParams p;
    p.dimension = static_cast<std::int64_t>(aval.ndim()) - 1;
    out = add(concatenate_p, Params::of(p), std::move(columns), aval);
    return *out;
  }

  void keep(const Eqn& eqn, bool& changed) {
    Atoms in;
    for (const Atom& a : eqn.inputs) in.push_back(as_whole(a));
    const auto split = [&](const Jaxpr& j) { return split_short_axes(j, tells_zero_signs_); };
    Params params = detail::map_jaxprs(eqn.params, split, changed);
    const Vars& out = b_.add_eqn(*eqn.primitive, std::move(params), std::move(in),
                                 detail::avals_of(jaxpr_, eqn.outputs), eqn.effect, eqn.where);
    for (std::size_t i = 0; i < out.size(); ++i) whole(eqn.outputs[i]) = Atom::var(out[i]);
  }

  void fold(const Eqn& eqn) {
    where_ = eqn.where;
    const Atom& x = eqn.inputs[0];
    const Aval of = component(jaxpr_.aval(x));
    const Primitive<>& combine = *combination(eqn.primitive);
    Atom folded = fold_halves(apart(x.var()), [&](const Atom& a, const Atom& b) {
      return add(combine, Params(), {a, b}, of);
    });
    if (needs_zero(eqn)) { folded = add(add_p, Params(), {folded, filled(b_, 0, of, where_)}, of); }
    Shape axes;
    for (const std::int64_t d : reduction_axes(eqn)) {
      if (d + 1 < static_cast<std::int64_t>(jaxpr_.aval(x).ndim())) axes.push_back(d);
    }
    whole(eqn.outputs[0]) = axes.empty() ? folded
                                         : add(*eqn.primitive, Params::of(AxesParams{axes}),
                                               {folded}, jaxpr_.aval(eqn.outputs[0]));
  }

  // Rows times a matrix of numbers, whose products are added in order.
  void multiply(const Eqn& eqn) {
    where_ = eqn.where;
    const Var out = eqn.outputs[0];
    const Aval column = component(jaxpr_.aval(eqn.inputs[0]));
    const Atoms x = apart(eqn.inputs[0].var());
    const Atom by = as_whole(eqn.inputs[1]);
    const Aval& factors = jaxpr_.aval(eqn.inputs[1]);
    const auto terms = static_cast<std::size_t>(
        eqn.params.as<DotGeneralParams>().dimension_numbers.rhs_contracting[0]);
    const std::int64_t columns = factors.size() / static_cast<std::int64_t>(x.size());
    const bool from_zero = !tells_zero_signs_ || zero_signs_[static_cast<std::size_t>(out)];
    Atoms sums;
    for (std::int64_t j = 0; j < columns; ++j) {
      std::optional<Atom> sum;
      if (from_zero) sum = filled(b_, 0, column, where_);
      for (std::size_t k = 0; k < x.size(); ++k) {
        Shape place(factors.shape.size(), j);
        place[terms] = static_cast<std::int64_t>(k);
        const Atom factor = repeated(b_, number_at(by, factors, place), column, where_);
        const Atom product = add(mul_p, Params(), {x[k], factor}, column);
        sum = sum ? add(add_p, Params(), {*sum, product}, column) : product;
      }
      sums.push_back(*sum);
    }
    if (factors.ndim() == 1) whole(out) = sums[0];
    else parts(out) = std::move(sums);
  }
  Atom number_at(const Atom& x, const Aval& aval, const Shape& place) {
    SliceParams p{place, place, {}};
    for (std::int64_t& limit : p.limit_indices) ++limit;
    const Aval one = aval.with_shape(Shape(aval.shape.size(), 1)).strong();
    return reshaped(add(slice_p, Params::of(std::move(p)), {x}, one), one.with_shape({}));
  }

  // Sums begin with 0: those over other axes, too, do so by themselves, and of the rest it cannot always be told.
  bool needs_zero(const Eqn& eqn) const {
    const Aval &of = jaxpr_.aval(eqn.inputs[0]), &out = jaxpr_.aval(eqn.outputs[0]);
    if (of.size() > out.size() * of.shape.back()) return false;
    return begins_with_zero(jaxpr_, eqn, producers_, tells_zero_signs_ ? &zero_signs_ : nullptr);
  }

  void spread(const Eqn& eqn) {
    where_ = eqn.where;
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    BroadcastInDimParams p = eqn.params.as<BroadcastInDimParams>();
    p.shape.pop_back();
    Atom x = as_whole(eqn.inputs[0]);
    if (!p.broadcast_dimensions.empty() && p.broadcast_dimensions.back() == p.shape.ndim()) {
      p.broadcast_dimensions.pop_back();  // a last dimension of one element
      x = reshaped(x, component(jaxpr_.aval(eqn.inputs[0])));
    }
    const Atom one = add(broadcast_in_dim_p, Params::of(std::move(p)), {x}, component(out));
    parts(eqn.outputs[0]).assign(static_cast<std::size_t>(out.shape.back()), one);
  }

  // x[..., k] of a result that only moves what it is made of.
  Atoms columns(const Eqn& eqn, AxisRole role) {
    where_ = eqn.where;
    Atoms out;
    if (role == AxisRole::planes) {
      const Atom x = as_whole(eqn.inputs[0]);
      const Aval& aval = jaxpr_.aval(eqn.inputs[0]);
      const std::int64_t axis = eqn.params.as<TransposeParams>().permutation.back();
      return planes(x, aval, axis, component(jaxpr_.aval(eqn.outputs[0])));
    }
    if (role == AxisRole::padded) return padded(eqn);
    if (role == AxisRole::counted) return counted(eqn);
    for (const Atom& a : eqn.inputs) append(out, columns_of(a));
    if (role == AxisRole::turned) std::reverse(out.begin(), out.end());
    if (role == AxisRole::joined || role == AxisRole::turned) return out;
    const auto& p = eqn.params.as<SliceParams>();
    const std::int64_t step = stride_of(p, p.start_indices.size() - 1);
    Atoms some;
    for (std::int64_t k = p.start_indices.back(); k < p.limit_indices.back(); k += step)
      some.push_back(out[static_cast<std::size_t>(k)]);
    return some;
  }

  // x[..., k] of an operand, whose last axis may be of one element or none.
  Atoms columns_of(const Atom& a) {
    const Aval& aval = jaxpr_.aval(a);
    if (aval.size() == 0) return {};
    return aval.shape.back() == 1 ? Atoms{reshaped(as_whole(a), component(aval))} : apart(a.var());
  }
  Atoms padded(const Eqn& eqn) {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const Aval column = component(out);
    const auto& [low, high, interior] = eqn.params.as<PadParams>().padding_config.back();
    const Atom value = repeated(b_, as_whole(eqn.inputs[1]), column, where_);
    Atoms made(static_cast<std::size_t>(out.shape.back()), value);
    auto at = static_cast<std::size_t>(low);
    for (const Atom& x : columns_of(eqn.inputs[0])) {
      made[at] = x;
      at += static_cast<std::size_t>(interior) + 1;
    }
    return made;
  }

  Atoms counted(const Eqn& eqn) {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const Aval column = component(out);
    Atoms made;
    for (std::int64_t k = 0; k < out.shape.back(); ++k)
      made.push_back(filled(b_, k, column, where_));
    return made;
  }

  void through(const Eqn& eqn) {
    where_ = eqn.where;
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    Atoms made;
    std::map<std::vector<int>, Atom> known;  // components that are all the same stay one
    // Where a part begins along the last axis, which is whole, is no matter.
    const std::size_t operands = eqn.inputs.size() - (eqn.primitive == &dynamic_slice_p ? 1 : 0);
    for (std::size_t k = 0; k < static_cast<std::size_t>(out.shape.back()); ++k) {
      Atoms in;
      std::vector<int> key;
      for (std::size_t i = 0; i < operands; ++i) {
        const Atom& a = eqn.inputs[i];
        in.push_back(a.is_var() && may_be_apart(jaxpr_.aval(a)) ? apart(a.var())[k] : as_whole(a));
        key.push_back(in.back().is_var() ? in.back().var() : -1);
      }
      const auto found = known.find(key);
      made.push_back(found != known.end()
                         ? found->second
                         : known.emplace(key, add(*eqn.primitive, params(eqn), in, component(out)))
                               .first->second);
    }
    parts(eqn.outputs[0]) = std::move(made);
  }
  static Params params(const Eqn& eqn) {
    const PrimitiveBase* p = eqn.primitive;
    if (p == &broadcast_in_dim_p) {
      BroadcastInDimParams out = eqn.params.as<BroadcastInDimParams>();
      out.shape.pop_back();
      out.broadcast_dimensions.pop_back();
      return Params::of(std::move(out));
    }
    if (p == &slice_p) {
      SliceParams out = eqn.params.as<SliceParams>();
      out.start_indices.pop_back();
      out.limit_indices.pop_back();
      if (!out.strides.empty()) out.strides.pop_back();
      return Params::of(std::move(out));
    }
    if (p == &dynamic_slice_p) {
      DynamicSliceParams out = eqn.params.as<DynamicSliceParams>();
      out.slice_sizes.pop_back();
      return Params::of(std::move(out));
    }
    if (p == &pad_p) {
      PadParams out = eqn.params.as<PadParams>();
      out.padding_config.pop_back();
      return Params::of(std::move(out));
    }
    if (p == &reshape_p)
      return Params::of(ReshapeParams{without_last(eqn.params.as<ReshapeParams>().new_sizes)});
    if (p == &transpose_p)
      return Params::of(
          TransposeParams{without_last(eqn.params.as<TransposeParams>().permutation)});
    return eqn.params;
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producers_;
  const bool tells_zero_signs_;
  const std::vector<bool> zero_signs_;  // that matter
  ShortAxisChoice choice_;
  JaxprBuilder b_;
  std::vector<std::optional<Atom>> whole_;
  std::vector<Atoms> components_;
  SourceLocation where_;
};

}  // namespace

Jaxpr split_short_axes(const Jaxpr& jaxpr, bool zero_signs) {
  if (jaxpr.eqns().size() > kMostEquations) return jaxpr;
  return Splitter(jaxpr, zero_signs).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
