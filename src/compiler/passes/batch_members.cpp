// Batches of small programs, as vmap makes them: each number of what a member of the batch computes becomes an array of
// its own, with an element for each member.
//
//   let s[n,2,3] = mul a b, t[n,2] = reduce_sum[axes=(2,)] s, u[n,3] = concatenate[dimension=1] t c
//   ->  let s0[n] = mul a0 b0, ..., s5 = mul a5 b5, t0 = add (add s0 s2) s1, t1 = add (add s3 s5) s4, ...
//
// Lanes run along the batch then, whatever shapes a member has, nothing in between reaches memory, and what moves
// numbers about within a member costs nothing. Batches of batches have several axes; what has some of them only is
// computed for these. Short last axes of larger arrays are short_axes.cpp's.
//
// Worth it where much more is computed than is read and written, and in many shapes: each change of shape would
// be a kernel of its own, or a shuffle of lanes. What is connected by such equations is taken apart as a whole or not at all.
#include <map>
#include <numeric>
#include <optional>

#include "compiler/forms.hpp"
#include "compiler/passes/halves.hpp"
#include "compiler/passes/members.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/zero_signs.hpp"
#include "compiler/plan/dot.hpp"
#include "core/concrete.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::size_t kMostEquations = 20'000;
constexpr std::int64_t kMostComputed = 32'000;  // numbers of a member, of all batches of a program

/// A number of each member: an array with some axes of the batch, those along which it is not the same for all.
struct Number {
  Atom atom;
  std::vector<int> axes;
};
using Numbers = std::vector<Number>;

class Splitter {
 public:
  Splitter(const Jaxpr& jaxpr, bool zero_signs, MemberChoice choice)
      : jaxpr_(jaxpr),
        producers_(detail::producers(jaxpr)),
        tells_zero_signs_(zero_signs),
        zero_signs_(zero_signs_that_matter(jaxpr)),
        choice_(std::move(choice)),
        whole_(static_cast<std::size_t>(jaxpr.num_vars())),
        numbers_(whole_.size()) {}

  Jaxpr run() {
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      whole(v) = Atom::var(b_.add_input(jaxpr_.aval(v)));
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      where_ = eqn.where;
      const MemberRole role = choice_.role(e);
      // What is made anew for members is there for others, too, if they ask for it.
      if (role == MemberRole::none || roles().is_free(eqn)) keep(eqn);
      switch (role) {
        case MemberRole::none: break;
        case MemberRole::element: made(eqn) = elements(eqn); break;
        case MemberRole::moved: made(eqn) = moved(eqn); break;
        case MemberRole::folded: made(eqn) = folded(eqn); break;
        case MemberRole::product: made(eqn) = products(eqn); break;
        case MemberRole::counted: made(eqn) = counted(eqn); break;
        case MemberRole::summed: made(eqn) = summed(eqn); break;
      }
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(as_whole(a));
    return b_.build(std::move(outs)).jaxpr;
  }

 private:
  const MemberRoles& roles() const { return choice_.roles(); }
  std::optional<Atom>& whole(Var v) { return whole_[static_cast<std::size_t>(v)]; }
  Numbers& numbers(Var v) { return numbers_[static_cast<std::size_t>(v)]; }
  Numbers& made(const Eqn& eqn) { return numbers(eqn.outputs[0]); }
  std::vector<int> axes_of(Var v) const {
    std::vector<int> out;
    for (const BatchAxis& a : roles().batch().axes(v)) out.push_back(a.axis);
    return out;
  }
  Shape members(const std::vector<int>& axes) const {
    Shape out;
    for (const int axis : axes) out.push_back(roles().batch().size(axis));
    return out;
  }
  Atom add(const PrimitiveBase& p, Params params, Atoms in, const Aval& out) {
    return Atom::var(b_.add_eqn1(p, std::move(params), std::move(in), out, Effect::none, where_));
  }
  Atom reshaped(Atom a, Shape shape) {
    if (b_.aval(a).shape == shape) return a;
    const Aval out = b_.aval(a).with_shape(shape).strong();
    return add(reshape_p, Params::of(ReshapeParams{std::move(shape)}), {std::move(a)}, out);
  }
  Atom joined(Atoms parts, std::int64_t axis) {
    if (parts.size() == 1) return parts[0];
    Aval out = b_.aval(parts[0]).strong();
    out.shape[static_cast<std::size_t>(axis)] = 0;
    for (const Atom& a : parts)
      out.shape[static_cast<std::size_t>(axis)] += b_.aval(a).shape[static_cast<std::size_t>(axis)];
    return add(concatenate_p, Params::of(ConcatenateParams{axis}), std::move(parts), out);
  }

  // What is the same along an axis of the batch, or for all members, is kept so until it meets others.
  Atom repeated(const Number& number, const std::vector<int>& axes) {
    if (number.axes == axes) return number.atom;
    const Aval aval = b_.aval(number.atom);
    const Shape shape = members(axes);
    Shape dims;
    for (const int axis : number.axes)
      dims.push_back(std::find(axes.begin(), axes.end(), axis) - axes.begin());
    return add(broadcast_in_dim_p, Params::of(BroadcastInDimParams{shape, dims}), {number.atom},
               aval.with_shape(shape).strong());
  }

  Atom as_whole(const Atom& a) {
    if (a.is_literal()) return a;
    std::optional<Atom>& out = whole(a.var());
    if (out) return *out;
    const Aval& aval = jaxpr_.aval(a);
    const std::vector<int> axes = axes_of(a.var());
    Atoms all;
    for (const Number& number : numbers(a.var())) all.push_back(repeated(number, axes));
    const BatchAxes& at = roles().batch().axes(a.var());
    const bool adjacent = at.back().position - at[0].position + 1 == static_cast<int>(at.size());
    out = adjacent ? planes(std::move(all), members(axes), aval, at[0].position)
                   : scattered(std::move(all), members(axes), aval, at);
    return *out;
  }
  // Numbers side by side, a row for each member.
  Atom rows(Atoms all, const Shape& members) {
    Shape one = members;
    one.push_back(1);
    for (Atom& number : all) number = reshaped(number, one);
    return joined(std::move(all), members.ndim());
  }
  // The same for each place before the axes of the batch, one after the other.
  Atom planes(Atoms all, const Shape& members, const Aval& aval, int first) {
    std::int64_t before = 1;
    for (int d = 0; d < first; ++d) before *= aval.shape[static_cast<std::size_t>(d)];
    const auto behind = static_cast<std::ptrdiff_t>(all.size()) / before;
    Atoms parts;
    for (auto from = all.begin(); from != all.end(); from += behind)
      parts.push_back(rows(Atoms(from, from + behind), members));
    if (before > 1) {
      Shape plane = members;
      plane.insert(0, 1);
      plane.push_back(behind);
      for (Atom& part : parts) part = reshaped(part, plane);
    }
    return reshaped(joined(std::move(parts), 0), aval.shape);
  }
  // Dimensions of a member lie between those of the batch.
  Atom scattered(Atoms all, const Shape& members, const Aval& aval, const BatchAxes& axes) {
    Shape shape = members, order;
    for (int d = 0, of_batch = 0; d < aval.ndim(); ++d) {
      if (is_at(axes, d)) {
        order.push_back(of_batch++);
      } else {
        order.push_back(shape.ndim());
        shape.push_back(aval.shape[static_cast<std::size_t>(d)]);
      }
    }
    const Atom numbers = reshaped(rows(std::move(all), members), shape);
    return add(transpose_p, Params::of(TransposeParams{order}), {numbers}, aval.strong());
  }

  // What every member has of an operand, in row-major order.
  const Numbers& numbers_of(const Atom& a) {
    if (a.is_literal()) return literal_ = {{a, {}}};
    Numbers& out = numbers(a.var());
    if (!out.empty()) return out;
    const Aval& aval = jaxpr_.aval(a);
    if (const auto known = known_.find(a.var()); known != known_.end()) {
      const Array all = made_by(reshape_p, ReshapeParams{{aval.size()}}, known->second);
      for (std::int64_t i = 0; i < aval.size(); ++i) {
        const Array one = made_by(slice_p, SliceParams{{i}, {i + 1}, {}}, all);
        out.push_back(
            {Atom::literal(detail::contiguous(made_by(reshape_p, ReshapeParams{{}}, one))), {}});
      }
      return out;
    }
    const Atom x = as_whole(a);
    const std::vector<int> axes = axes_of(a.var());
    const Shape one = roles().of_one(a);
    Shape at(one.size(), 0);
    for (std::int64_t i = 0; i < one.num_elements(); ++i) {
      SliceParams p{at, at, Shape(at.size(), 1)};
      Shape part = one;
      for (std::size_t d = 0; d < at.size(); ++d) {
        const bool whole_axis = is_at(roles().batch().axes(a.var()), static_cast<std::int64_t>(d));
        part[d] = whole_axis ? aval.shape[d] : 1;
        p.limit_indices[d] += part[d];
      }
      const Atom number =
          at.empty() ? x : add(slice_p, Params::of(p), {x}, aval.with_shape(part).strong());
      out.push_back({reshaped(number, members(axes)), axes});
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < one[d]) break;
        at[d] = 0;
      }
    }
    return out;
  }

  template <class P> static Array made_by(const Primitive<P>& p, P params, const Array& x) {
    return p.rules().impl(Params::of(std::move(params)), Arrays{x}).at(0);
  }

  void know(const Eqn& eqn) {
    if (eqn.outputs.size() != 1 || !roles().is_known(Atom::var(eqn.outputs[0]))) return;
    Arrays x;
    for (const Atom& a : eqn.inputs) {
      const auto known = a.is_var() ? known_.find(a.var()) : known_.end();
      if (a.is_var() && known == known_.end()) return;
      x.push_back(a.is_var() ? known->second : a.literal());
    }
    if (const auto y = evaluated(*eqn.primitive, eqn.params, x))
      known_.emplace(eqn.outputs[0], y->at(0));
  }

  void keep(const Eqn& eqn) {
    know(eqn);
    Atoms in;
    for (const Atom& a : eqn.inputs) in.push_back(as_whole(a));
    const Vars& out = b_.add_eqn(*eqn.primitive, eqn.params, std::move(in),
                                 detail::avals_of(jaxpr_, eqn.outputs), eqn.effect, eqn.where);
    for (std::size_t i = 0; i < out.size(); ++i) whole(eqn.outputs[i]) = Atom::var(out[i]);
  }

  // One number of the result of an elementwise equation; of literals, a literal.
  Number element(const PrimitiveBase& p, const Params& params, const Numbers& in, const Aval& out) {
    if (const std::optional<Atom> known = literal(p, params, in, out)) return {*known, {}};
    std::vector<int> axes;
    for (const Number& number : in) axes.insert(axes.end(), number.axes.begin(), number.axes.end());
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    Atoms operands;
    for (const Number& number : in) operands.push_back(repeated(number, axes));
    return {add(p, params, std::move(operands), out.with_shape(members(axes)).strong()), axes};
  }
  Number element(const PrimitiveBase& p, const Numbers& in, const Aval& out) {
    return element(p, Params(), in, out);
  }
  static std::optional<Atom> literal(const PrimitiveBase& p, const Params& params,
                                     const Numbers& in, const Aval& out) {
    Arrays x;
    for (const Number& number : in) {
      if (!number.atom.is_literal()) return std::nullopt;
      x.push_back(number.atom.literal());
    }
    const auto y = evaluated(p, params, x);
    if (!y || !detail::is_literal_value(y->at(0)) || y->at(0).dtype() != out.dtype)
      return std::nullopt;
    return Atom::literal(y->at(0));
  }

  Numbers elements(const Eqn& eqn) {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    Numbers all;
    for (std::int64_t i = 0; i < roles().numbers(eqn.outputs[0]); ++i) {
      Numbers in;
      for (const Atom& a : eqn.inputs) {
        const Numbers& from = numbers_of(a);
        in.push_back(from[from.size() == 1 ? 0 : static_cast<std::size_t>(i)]);
      }
      all.push_back(element(*eqn.primitive, eqn.params, in, out));
    }
    return all;
  }

  // Which numbers of the operands they are is what the equation makes of their places, for one member.
  Numbers moved(const Eqn& eqn) {
    Numbers from;
    Arrays places;
    for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
      const Atom& a = eqn.inputs[i];
      if (eqn.primitive == &dynamic_update_slice_p && i >= 2) {  // where it is written
        places.push_back(a.literal());
        continue;
      }
      const auto first = static_cast<std::int32_t>(from.size());
      const Numbers& all = numbers_of(a);
      from.insert(from.end(), all.begin(), all.end());
      std::vector<std::int32_t> place(all.size());
      std::iota(place.begin(), place.end(), first);
      places.push_back(Array(place, roles().of_one(a)));
    }
    const Array moved = detail::contiguous(eqn.primitive->rules().impl(for_one(eqn), places).at(0));
    const auto* place = detail::data_of<std::int32_t>(moved);
    Numbers all;
    for (std::int64_t i = 0; i < moved.size(); ++i)
      all.push_back(from[static_cast<std::size_t>(place[i])]);
    return all;
  }
  // The parameters for a batch of one member.
  Params for_one(const Eqn& eqn) const {
    const PrimitiveBase* p = eqn.primitive;
    const Shape one = roles().of_one(eqn.outputs[0]);
    if (p == &reshape_p) return Params::of(ReshapeParams{one});
    if (p == &broadcast_in_dim_p) {
      auto out = eqn.params.as<BroadcastInDimParams>();
      out.shape = one;
      return Params::of(std::move(out));
    }
    if (p == &slice_p) {
      auto out = eqn.params.as<SliceParams>();
      for (const BatchAxis& a : roles().batch().axes(eqn.outputs[0]))
        out.limit_indices[static_cast<std::size_t>(a.position)] = 1;
      return Params::of(std::move(out));
    }
    return eqn.params;
  }

  Numbers folded(const Eqn& eqn) {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const Primitive<>& combine = *combination(eqn.primitive);
    const bool from_zero =
        begins_with_zero(jaxpr_, eqn, producers_, tells_zero_signs_ ? &zero_signs_ : nullptr);
    Numbers all;
    for (Numbers& terms : terms_of(eqn)) {
      const Number sum = fold_halves(std::move(terms), [&](const Number& a, const Number& b) {
        return element(combine, {a, b}, out);
      });
      all.push_back(from_zero ? element(add_p, {zero(out.dtype), sum}, out) : sum);
    }
    return all;
  }
  // Of each number of the result.
  std::vector<Numbers> terms_of(const Eqn& eqn) {
    const Shape shape = roles().of_one(eqn.inputs[0]);
    const Shape axes = reduction_axes(eqn);
    const Numbers& all = numbers_of(eqn.inputs[0]);
    std::vector<Numbers> out(static_cast<std::size_t>(roles().numbers(eqn.outputs[0])));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t rest = i, to = 0, step = 1;
      for (std::size_t d = shape.size(); d-- > 0;) {
        const auto size = static_cast<std::size_t>(shape[d]);
        if (!axes.contains(static_cast<std::int64_t>(d))) {
          to += rest % size * step;
          step *= size;
        }
        rest /= size;
      }
      out[to].push_back(all[i]);
    }
    return out;
  }
  static Number zero(DType dtype) { return {literal_of(0, dtype), {}}; }
  // Products are added in order.
  Numbers products(const Eqn& eqn) {
    const auto& dn = eqn.params.as<DotGeneralParams>().dimension_numbers;
    const Factor x = factor(eqn.inputs[0], dn.lhs_batch, dn.lhs_contracting),
                 y = factor(eqn.inputs[1], dn.rhs_batch, dn.rhs_contracting);
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const bool from_zero =
        !tells_zero_signs_ || zero_signs_[static_cast<std::size_t>(eqn.outputs[0])];
    Numbers all;
    for (std::size_t b = 0; b < x.paired; ++b) {
      for (std::size_t i = 0; i < x.free; ++i) {
        for (std::size_t j = 0; j < y.free; ++j) {
          std::optional<Number> sum;
          if (from_zero) sum = zero(out.dtype);
          for (std::size_t k = 0; k < x.terms; ++k) {
            const Number term = element(mul_p, {x.at(b, i, k), y.at(b, j, k)}, out);
            sum = sum ? element(add_p, {*sum, term}, out) : term;
          }
          all.push_back(*sum);
        }
      }
    }
    return all;
  }
  /// An operand's numbers for a member, in the order of batch, free and contracting dimensions of the product.
  struct Factor {
    Numbers numbers;
    std::size_t paired, free, terms;
    const Number& at(std::size_t b, std::size_t i, std::size_t k) const {
      return numbers[(b * free + i) * terms + k];
    }
  };
  Factor factor(const Atom& a, const Shape& paired, const Shape& contracting) {
    const Shape shape = roles().of_one(a);
    const Numbers& all = numbers_of(a);
    const Shape order = grouped_order(shape.ndim(), paired, contracting);
    const auto count = [&](const Shape& dims) {
      std::size_t n = 1;
      for (const std::int64_t d : dims)
        n *= static_cast<std::size_t>(shape[static_cast<std::size_t>(d)]);
      return n;
    };
    Factor out{{}, count(paired), 1, count(contracting)};
    out.free = all.size() / (out.paired * out.terms);
    std::vector<std::size_t> step(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;)
      step[d - 1] = step[d] * static_cast<std::size_t>(shape[d]);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t rest = i, from = 0;
      for (std::size_t o = order.size(); o-- > 0;) {
        const auto d = static_cast<std::size_t>(order[o]);
        const auto size = static_cast<std::size_t>(shape[d]);
        from += rest % size * step[d];
        rest /= size;
      }
      out.numbers.push_back(all[from]);
    }
    return out;
  }

  // f(the places of a row along an axis), for all rows.
  template <class F> static void for_rows(const Shape& shape, std::int64_t axis, F&& f) {
    const auto size = static_cast<std::size_t>(shape[static_cast<std::size_t>(axis)]);
    std::size_t step = 1;
    for (auto d = static_cast<std::size_t>(axis) + 1; d < shape.size(); ++d)
      step *= static_cast<std::size_t>(shape[d]);
    std::vector<std::size_t> places(size);
    for (std::size_t first = 0; first < static_cast<std::size_t>(shape.num_elements()); ++first) {
      if (first / step % size != 0) continue;
      for (std::size_t k = 0; k < size; ++k) places[k] = first + k * step;
      f(places);
    }
  }

  Numbers summed(const Eqn& eqn) {
    const auto& p = eqn.params.as<CumulativeParams>();
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const Primitive<>& combine = *running(eqn.primitive);
    Numbers all = numbers_of(eqn.inputs[0]);
    for_rows(roles().of_one(eqn.outputs[0]), p.axis, [&](std::vector<std::size_t> places) {
      if (p.reverse) std::reverse(places.begin(), places.end());
      for (std::size_t k = 1; k < places.size(); ++k)
        all[places[k]] = element(combine, {all[places[k - 1]], all[places[k]]}, out);
    });
    return all;
  }

  Numbers counted(const Eqn& eqn) {
    const Var v = eqn.outputs[0];
    const Aval& out = jaxpr_.aval(v);
    const std::int64_t dimension = eqn.params.as<IotaParams>().dimension;
    const auto count = roles().numbers(v);
    for (const BatchAxis& a : roles().batch().axes(v)) {
      if (a.position != dimension) continue;
      const Aval one = out.with_shape(members({a.axis})).strong();
      const Atom places = add(iota_p, Params::of(IotaParams{out.dtype, one.shape, 0}), {}, one);
      return Numbers(static_cast<std::size_t>(count), {places, {a.axis}});
    }
    const Shape shape = roles().of_one(v);
    std::int64_t step = 1;
    for (std::size_t d = static_cast<std::size_t>(dimension) + 1; d < shape.size(); ++d)
      step *= shape[d];
    Numbers all;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t number = i / step % shape[static_cast<std::size_t>(dimension)];
      all.push_back({literal_of(number, out.dtype), {}});
    }
    return all;
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producers_;
  const bool tells_zero_signs_;
  const std::vector<bool> zero_signs_;  // that matter
  MemberChoice choice_;
  JaxprBuilder b_;
  std::vector<std::optional<Atom>> whole_;
  std::vector<Numbers> numbers_;
  std::map<Var, Array> known_;
  Numbers literal_;  // the last operand that was one
  SourceLocation where_;
};

// `most`: numbers of a member that may be computed yet, in the program and in its loops and branches.
Jaxpr split(const Jaxpr& jaxpr, bool zero_signs, std::int64_t& most) {
  if (jaxpr.eqns().size() > kMostEquations) return jaxpr;
  const Jaxpr inner =
      detail::map_regions(jaxpr, [&](const Jaxpr& j) { return split(j, zero_signs, most); });
  MemberChoice choice(inner, most);
  return choice.any() ? Splitter(inner, zero_signs, std::move(choice)).run() : inner;
}

}  // namespace

Jaxpr split_batch_members(const Jaxpr& jaxpr, bool zero_signs) {
  std::int64_t most = kMostComputed;
  return split(jaxpr, zero_signs, most);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
