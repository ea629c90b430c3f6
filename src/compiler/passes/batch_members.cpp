// Batches of small programs, as vmap makes them: each number of what a member of the batch computes becomes an array of
// its own, with an element for each member.
//
//   let s[n,2,3] = mul a b, t[n,2] = reduce_sum[axes=(2,)] s, u[n,3] = concatenate[dimension=1] t c
//   ->  let s0[n] = mul a0 b0, ..., s5 = mul a5 b5, t0 = add (add s0 s2) s1, t1 = add (add s3 s5) s4, ...
//
// Lanes run along the batch then, whatever shapes a member has, nothing in between reaches memory, and what moves
// numbers about within a member costs nothing. Short last axes of larger arrays are short_axes.cpp's.
//
// Worth it where much more is computed than is read and written, and in many shapes: each change of shape would
// be a kernel of its own, or a shuffle of lanes. What is connected by such equations is taken apart as a whole or not at all.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/disjoint_sets.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/zero_signs.hpp"
#include "core/concrete.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kLeastMembers = 64;
constexpr std::int64_t kMostNumbers = 256;     // of an array, for each member
constexpr std::int64_t kMostProducts = 1'024;  // of two arrays, for each member
constexpr std::int64_t kMostOfMatrix =
    64;  // the same, where one is a matrix that all members share
constexpr std::int64_t kMostComputed = 32'000;  // numbers of a member
constexpr std::int64_t kLeastTurned =
    16;  // numbers of a member whose vectors are not those of what they are made of
constexpr std::size_t kMostEquations = 20'000;

/// The axis of a batch of so many members, where there is one.
std::optional<std::size_t> batch_axis(const Shape& shape, std::int64_t members) {
  std::optional<std::size_t> axis;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != members) continue;
    if (axis) return std::nullopt;
    axis = d;
  }
  return axis;
}
std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t n = 1;
  for (std::size_t d = first; d < last; ++d) n *= shape[d];
  return n;
}

/// How an equation makes the numbers of a member.
enum class Role : std::uint8_t {
  none,     ///< it needs its operands as they are
  element,  ///< each from the same numbers of its operands
  moved,    ///< they are numbers of its operands
  folded,   ///< each from several numbers of its operand
  product,  ///< dot_general
  counted,  ///< iota
};

/// Equations seen from one member of a batch.
class Roles {
 public:
  Roles(const Jaxpr& jaxpr, std::int64_t members)
      : jaxpr_(jaxpr), members_(members), known_(static_cast<std::size_t>(jaxpr.num_vars())) {
    for (const Eqn& eqn : jaxpr.eqns()) {
      if (eqn.effect != Effect::none || eqn.outputs.size() != 1 || eqn.params.has_jaxprs() ||
          !is_shared(Atom::var(eqn.outputs[0])))
        continue;
      known_[static_cast<std::size_t>(eqn.outputs[0])] = std::all_of(
          eqn.inputs.begin(), eqn.inputs.end(), [&](const Atom& a) { return is_known(a); });
    }
  }

  /// What no call changes, and all members share: the directions of a Jacobian.
  bool is_known(const Atom& a) const {
    return a.is_literal() || known_[static_cast<std::size_t>(a.var())];
  }

  bool is_member(const Aval& a) const {
    return a.size() > 0 && a.size() / members_ <= kMostNumbers && batch_axis(a.shape, members_);
  }
  bool is_member(const Atom& a) const { return a.is_var() && is_member(jaxpr_.aval(a)); }
  /// The same for all members.
  bool is_shared(const Atom& a) const {
    const Aval& aval = jaxpr_.aval(a);
    return aval.size() > 0 && aval.size() <= kMostNumbers && !aval.shape.contains(members_);
  }
  std::size_t axis(const Atom& a) const { return *batch_axis(jaxpr_.aval(a).shape, members_); }

  Role role(const Eqn& eqn) const {
    if (eqn.effect != Effect::none || eqn.outputs.size() != 1) return Role::none;
    const Atom out = Atom::var(eqn.outputs[0]);
    if (!is_member(out)) return Role::none;
    const PrimitiveBase* p = eqn.primitive;
    if (combination(p) != nullptr) {
      const bool within =
          is_member(eqn.inputs[0]) && !reduction_axes(eqn).contains(to_signed(axis(eqn.inputs[0])));
      return within ? Role::folded : Role::none;
    }
    if (p == &dot_general_p) return multiplies(eqn) ? Role::product : Role::none;
    if (p == &iota_p) return Role::counted;
    if (one_of(eqn, {&reshape_p, &transpose_p, &slice_p, &broadcast_in_dim_p, &concatenate_p,
                     &pad_p, &rev_p}))
      return moves_within(eqn) ? Role::moved : Role::none;
    if (form_of(jaxpr_, eqn) != Form::element) return Role::none;
    const Shape& shape = jaxpr_.aval(out).shape;
    const bool same = std::all_of(eqn.inputs.begin(), eqn.inputs.end(), [&](const Atom& a) {
      const Shape& s = jaxpr_.aval(a).shape;
      return s.empty() || s == shape;
    });
    return same ? Role::element : Role::none;
  }

  /// Multiplications of a product, for each member.
  std::int64_t multiplications(const Eqn& dot) const {
    const Aval& x = jaxpr_.aval(dot.inputs[0]);
    std::int64_t terms = 1;
    for (const std::int64_t d : dot.params.as<DotGeneralParams>().dimension_numbers.lhs_contracting)
      terms *= x.shape[static_cast<std::size_t>(d)];
    return jaxpr_.aval(dot.outputs[0]).size() / members_ * terms;
  }

 private:
  // Matrices that all members share are multiplied by all of them together.
  bool takes_numbers(const Atom& a) const { return is_member(a) || is_known(a); }
  static std::int64_t to_signed(std::size_t n) { return static_cast<std::int64_t>(n); }

  bool moves_within(const Eqn& eqn) const {
    const PrimitiveBase* p = eqn.primitive;
    const Atom& x = eqn.inputs[0];
    const std::size_t to = axis(Atom::var(eqn.outputs[0]));
    if (p == &broadcast_in_dim_p && is_shared(x)) return true;
    if (!is_member(x)) return false;
    const std::size_t from = axis(x);
    if (p == &broadcast_in_dim_p) {
      const Shape& dims = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
      return dims[from] == to_signed(to);
    }
    if (p == &reshape_p)
      return product(jaxpr_.aval(x).shape, 0, from) ==
             product(jaxpr_.aval(eqn.outputs[0]).shape, 0, to);
    if (p == &slice_p) {
      const auto& s = eqn.params.as<SliceParams>();
      return s.start_indices[from] == 0 && s.limit_indices[from] == members_ &&
             (s.strides.empty() || s.strides[from] == 1);
    }
    if (p == &concatenate_p)
      return eqn.params.as<ConcatenateParams>().dimension != to_signed(to) &&
             std::all_of(eqn.inputs.begin(), eqn.inputs.end(),
                         [&](const Atom& a) { return is_member(a); });
    if (p == &pad_p)
      return eqn.params.as<PadParams>().padding_config[from] ==
             std::array<std::int64_t, 3>{0, 0, 0};
    if (p == &rev_p) return !eqn.params.as<DimensionsParams>().dimensions.contains(to_signed(from));
    return true;  // a transpose
  }

  bool multiplies(const Eqn& eqn) const {
    const Atom &x = eqn.inputs[0], &y = eqn.inputs[1];
    const DType dtype = jaxpr_.aval(eqn.outputs[0]).dtype;
    if ((dtype != DType::f32 && dtype != DType::f64) || jaxpr_.aval(x).dtype != dtype ||
        jaxpr_.aval(y).dtype != dtype ||
        multiplications(eqn) >
            (takes_numbers(x) && takes_numbers(y) ? kMostProducts : kMostOfMatrix))
      return false;
    const auto& dn = eqn.params.as<DotGeneralParams>().dimension_numbers;
    const auto is_free = [&](const Atom& a, const Shape& batch, const Shape& contracting) {
      const auto d = to_signed(axis(a));
      return !batch.contains(d) && !contracting.contains(d);
    };
    if (is_member(x) && is_member(y)) {
      for (std::size_t i = 0; i < dn.lhs_batch.size(); ++i) {
        if (dn.lhs_batch[i] == to_signed(axis(x)) && dn.rhs_batch[i] == to_signed(axis(y)))
          return true;
      }
      return false;
    }
    return is_member(x)
               ? is_shared(y) && is_free(x, dn.lhs_batch, dn.lhs_contracting)
               : is_member(y) && is_shared(x) && is_free(y, dn.rhs_batch, dn.rhs_contracting);
  }

  const Jaxpr& jaxpr_;
  std::int64_t members_;
  std::vector<bool> known_;
};

/// How many members batches may have, those first in which most is computed.
std::vector<std::int64_t> possible_members(const Jaxpr& jaxpr) {
  std::map<std::int64_t, std::int64_t> computed;
  for (const Eqn& eqn : jaxpr.eqns()) {
    for (const Var v : eqn.outputs) {
      const Aval& a = jaxpr.aval(v);
      for (const std::int64_t n : a.shape) {
        if (n >= kLeastMembers && batch_axis(a.shape, n) && a.size() / n <= kMostNumbers)
          computed[n] += a.size() / n;
      }
    }
  }
  std::vector<std::int64_t> out;
  for (const auto& [n, numbers] : computed) out.push_back(n);
  std::sort(out.begin(), out.end(), [&](std::int64_t n, std::int64_t m) {
    return std::pair(computed[n], n) > std::pair(computed[m], m);
  });
  return out;
}

/// Which variables are taken apart: sets of those that equations connect.
class Choice {
 public:
  Choice(const Jaxpr& jaxpr, std::int64_t members)
      : jaxpr_(jaxpr), roles_(jaxpr, members), sets_(static_cast<std::size_t>(jaxpr.num_vars())) {
    for (const Eqn& eqn : jaxpr.eqns()) {
      role_.push_back(roles_.role(eqn));
      if (role_.back() == Role::none) continue;
      for (const Atom& a : eqn.inputs) {
        if (roles_.is_member(a)) sets_.join(a.var(), eqn.outputs[0]);
      }
    }
    weigh(members);
  }

  bool any() const { return std::find(chosen_.begin(), chosen_.end(), true) != chosen_.end(); }
  bool apart(Var v) { return chosen_[static_cast<std::size_t>(sets_.find(v))]; }
  /// `none` for equations that are left as they are.
  Role role(std::size_t e) {
    return role_[e] != Role::none && apart(jaxpr_.eqns()[e].outputs[0]) ? role_[e] : Role::none;
  }
  const Roles& roles() const { return roles_; }

 private:
  /// Numbers of a member in a set.
  struct Weight {
    std::int64_t computed = 0, turned = 0, around = 0;
  };

  // At least two vectors, of which no more than an eighth is empty.
  static bool fills_vectors(const Aval& a) {
    const auto lanes = static_cast<std::int64_t>(runtime::target_vector_bytes() /
                                                 std::max<std::size_t>(size_of(a.dtype), 4));
    const std::int64_t row = a.shape.back(), all = (row + lanes - 1) / lanes * lanes;
    return row > lanes && 8 * row >= 7 * all;
  }
  // Whether lanes run along the batch, or rows of a member are whole vectors, in any case.
  bool keeps_vectors(const Eqn& eqn) const {
    const auto is_long = [&](const Atom& a) {
      const Aval& aval = jaxpr_.aval(a);
      return roles_.is_member(a) && roles_.axis(a) + 1 < aval.shape.size() && fills_vectors(aval);
    };
    const auto is_last = [&](const Atom& a) {
      return !roles_.is_member(a) || roles_.axis(a) + 1 == jaxpr_.aval(a).shape.size();
    };
    const Atom out = Atom::var(eqn.outputs[0]);
    if (is_last(out) && std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_last)) return true;
    if (combination(eqn.primitive) != nullptr) return is_long(eqn.inputs[0]);
    if (!is_long(out)) return false;
    return eqn.primitive == &broadcast_in_dim_p ||
           std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_long);
  }

  void weigh(std::int64_t members) {
    const auto n = static_cast<std::size_t>(jaxpr_.num_vars());
    std::vector<Weight> weights(n);
    std::vector<bool> is_around(n);
    const auto of = [&](Var v) -> Weight& {
      return weights[static_cast<std::size_t>(sets_.find(v))];
    };
    const auto surround = [&](const Atom& a) {
      if (!roles_.is_member(a) || is_around[static_cast<std::size_t>(a.var())]) return;
      is_around[static_cast<std::size_t>(a.var())] = true;
      of(a.var()).around += jaxpr_.aval(a).size() / members;
    };
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v) surround(Atom::var(v));
    for (const Atom& a : jaxpr_.outs()) surround(a);
    for (std::size_t e = 0; e < role_.size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      if (role_[e] == Role::none) {
        for (const Atom& a : eqn.inputs) surround(a);
        for (const Var v : eqn.outputs) surround(Atom::var(v));
        continue;
      }
      Weight& w = of(eqn.outputs[0]);
      const std::int64_t numbers = jaxpr_.aval(eqn.outputs[0]).size() / members;
      if (role_[e] == Role::element) w.computed += numbers;
      if (role_[e] == Role::folded) w.computed += jaxpr_.aval(eqn.inputs[0]).size() / members;
      if (role_[e] == Role::product) w.computed += 2 * roles_.multiplications(eqn);
      const bool stays = keeps_vectors(eqn) || role_[e] == Role::element ||
                         eqn.primitive == &reshape_p ||
                         (eqn.primitive == &broadcast_in_dim_p && roles_.is_shared(eqn.inputs[0]));
      if (!stays) w.turned += numbers;
    }
    chosen_.resize(n);
    for (std::size_t v = 0; v < n; ++v) {
      const Weight& w = weights[v];
      chosen_[v] = 2 * w.computed >= 3 * w.around && w.turned >= kLeastTurned &&
                   2 * w.turned >= w.around && w.computed <= kMostComputed;
    }
  }

  const Jaxpr& jaxpr_;
  Roles roles_;
  DisjointSets sets_;
  std::vector<Role> role_;
  std::vector<bool> chosen_;
};

class Splitter {
 public:
  Splitter(const Jaxpr& jaxpr, std::int64_t members, bool zero_signs, Choice choice)
      : jaxpr_(jaxpr),
        members_(members),
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
      switch (choice_.role(e)) {
        case Role::none: keep(eqn); break;
        case Role::element: numbers(eqn) = elements(eqn); break;
        case Role::moved: numbers(eqn) = moved(eqn); break;
        case Role::folded: numbers(eqn) = folded(eqn); break;
        case Role::product: numbers(eqn) = products(eqn); break;
        case Role::counted: numbers(eqn) = counted(eqn); break;
      }
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(as_whole(a));
    return b_.build(std::move(outs)).jaxpr;
  }

 private:
  const Roles& roles() const { return choice_.roles(); }
  std::optional<Atom>& whole(Var v) { return whole_[static_cast<std::size_t>(v)]; }
  Atoms& numbers(const Eqn& eqn) { return numbers_[static_cast<std::size_t>(eqn.outputs[0])]; }
  Aval of_members(const Aval& a) const { return a.with_shape({members_}).strong(); }
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

  // A number that is the same for all members is kept as one until it meets others.
  Atom repeated(const Atom& number) {
    const Aval aval = b_.aval(number);
    if (!aval.shape.empty()) return number;
    const Shape shape = {members_};
    return add(broadcast_in_dim_p, Params::of(BroadcastInDimParams{shape, {}}), {number},
               aval.with_shape(shape).strong());
  }

  Atom as_whole(const Atom& a) {
    if (a.is_literal()) return a;
    std::optional<Atom>& out = whole(a.var());
    if (out) return *out;
    const Aval& aval = jaxpr_.aval(a);
    const std::size_t axis = roles().axis(a);
    const std::int64_t before = product(aval.shape, 0, axis);
    const std::int64_t behind = product(aval.shape, axis + 1, aval.shape.size());
    const Atoms& all = numbers_[static_cast<std::size_t>(a.var())];
    Atoms planes;
    for (std::int64_t i = 0; i < before; ++i) {
      Atoms columns;
      for (std::int64_t k = 0; k < behind; ++k)
        columns.push_back(
            reshaped(repeated(all[static_cast<std::size_t>(i * behind + k)]), {members_, 1}));
      planes.push_back(joined(std::move(columns), 1));
    }
    if (before > 1) {
      for (Atom& a : planes) a = reshaped(a, {1, members_, behind});
    }
    out = reshaped(joined(std::move(planes), 0), aval.shape);
    return *out;
  }

  // What every member has of an operand, in row-major order: arrays of all members, or numbers.
  const Atoms& numbers_of(const Atom& a) {
    if (a.is_literal()) return literal_ = {a};
    Atoms& out = numbers_[static_cast<std::size_t>(a.var())];
    if (!out.empty()) return out;
    const Aval& aval = jaxpr_.aval(a);
    if (const auto known = known_.find(a.var()); known != known_.end()) {
      const Array all = made_by(reshape_p, ReshapeParams{{aval.size()}}, known->second);
      for (std::int64_t i = 0; i < aval.size(); ++i) {
        const Array one = made_by(slice_p, SliceParams{{i}, {i + 1}, {}}, all);
        out.push_back(
            Atom::literal(detail::contiguous(made_by(reshape_p, ReshapeParams{{}}, one))));
      }
      return out;
    }
    const Atom x = as_whole(a);
    const auto axis = batch_axis(aval.shape, members_);
    Shape at(aval.shape.size(), 0);
    const std::int64_t count = axis ? aval.size() / members_ : aval.size();
    for (std::int64_t i = 0; i < count; ++i) {
      SliceParams p{at, at, Shape(at.size(), 1)};
      for (std::size_t d = 0; d < at.size(); ++d)
        p.limit_indices[d] = axis == d ? members_ : p.start_indices[d] + 1;
      Shape shape = p.limit_indices;
      for (std::size_t d = 0; d < at.size(); ++d) shape[d] -= p.start_indices[d];
      const Atom one =
          at.empty() ? x : add(slice_p, Params::of(p), {x}, aval.with_shape(shape).strong());
      out.push_back(reshaped(one, axis ? Shape{members_} : Shape{}));
      for (std::size_t d = at.size(); d-- > 0;) {
        if (axis == d) continue;
        if (++at[d] < aval.shape[d]) break;
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
    try {
      known_.emplace(eqn.outputs[0], eqn.primitive->rules().impl(eqn.params, x).at(0));
    } catch (const Error&) {  // is for the program to meet when it runs
    }
  }

  void keep(const Eqn& eqn) {
    know(eqn);
    Atoms in;
    for (const Atom& a : eqn.inputs) in.push_back(as_whole(a));
    Avals avals;
    for (const Var v : eqn.outputs) avals.push_back(jaxpr_.aval(v));
    const auto out =
        b_.add_eqn(*eqn.primitive, eqn.params, std::move(in), avals, eqn.effect, eqn.where);
    for (std::size_t i = 0; i < out.size(); ++i) whole(eqn.outputs[i]) = Atom::var(out[i]);
  }

  // One number of the result of an elementwise equation; of literals, a literal.
  Atom element(const PrimitiveBase& p, const Params& params, Atoms in, const Aval& out) {
    const bool known =
        std::all_of(in.begin(), in.end(), [](const Atom& a) { return a.is_literal(); });
    if (known) {
      Arrays x;
      for (const Atom& a : in) x.push_back(a.literal());
      try {
        const Array y = p.rules().impl(params, x).at(0);
        if (detail::is_literal_value(y) && y.dtype() == out.dtype) return Atom::literal(y);
      } catch (const Error&) {  // is for the program to meet when it runs
      }
    }
    for (Atom& a : in) a = repeated(a);
    return add(p, params, std::move(in), of_members(out));
  }
  Atom element(const PrimitiveBase& p, Atoms in, const Aval& out) {
    return element(p, Params(), std::move(in), out);
  }

  Atoms elements(const Eqn& eqn) {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    Atoms made;
    for (std::int64_t i = 0; i < out.size() / members_; ++i) {
      Atoms in;
      for (const Atom& a : eqn.inputs) {
        const Atoms& all = numbers_of(a);
        in.push_back(all[all.size() == 1 ? 0 : static_cast<std::size_t>(i)]);
      }
      made.push_back(element(*eqn.primitive, eqn.params, std::move(in), out));
    }
    return made;
  }

  // Which numbers of the operands they are is what the equation makes of their places, for one member.
  Atoms moved(const Eqn& eqn) {
    Atoms from;
    Arrays places;
    for (const Atom& a : eqn.inputs) {
      const auto first = static_cast<std::int32_t>(from.size());
      const Atoms& all = numbers_of(a);
      from.insert(from.end(), all.begin(), all.end());
      std::vector<std::int32_t> place(all.size());
      for (std::size_t i = 0; i < place.size(); ++i)
        place[i] = first + static_cast<std::int32_t>(i);
      places.push_back(Array(place, of_one(jaxpr_.aval(a).shape)));
    }
    const Array moved = detail::contiguous(eqn.primitive->rules().impl(for_one(eqn), places).at(0));
    const auto* place = detail::data_of<std::int32_t>(moved);
    Atoms made;
    for (std::int64_t i = 0; i < moved.size(); ++i)
      made.push_back(from[static_cast<std::size_t>(place[i])]);
    return made;
  }
  Shape of_one(Shape shape) const {
    if (const auto axis = batch_axis(shape, members_)) shape[*axis] = 1;
    return shape;
  }
  // The parameters for a batch of one member.
  Params for_one(const Eqn& eqn) const {
    const PrimitiveBase* p = eqn.primitive;
    if (p == &reshape_p)
      return Params::of(ReshapeParams{of_one(eqn.params.as<ReshapeParams>().new_sizes)});
    if (p == &broadcast_in_dim_p) {
      auto out = eqn.params.as<BroadcastInDimParams>();
      out.shape = of_one(out.shape);
      return Params::of(std::move(out));
    }
    if (p == &slice_p) {
      auto out = eqn.params.as<SliceParams>();
      out.limit_indices[roles().axis(eqn.inputs[0])] = 1;
      return Params::of(std::move(out));
    }
    return eqn.params;
  }

  // As a tree of halves, in the order of fold_lanes (codegen.hpp).
  Atoms folded(const Eqn& eqn) {
    const Aval& of = jaxpr_.aval(eqn.inputs[0]);
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const Primitive<>& combine = *combination(eqn.primitive);
    Atoms made;
    for (Atoms& terms : terms_of(eqn)) {
      std::size_t half = 1;
      while (2 * half < terms.size()) half *= 2;
      for (; half > 0; half /= 2) {
        for (std::size_t i = half; i < terms.size() && i < 2 * half; ++i)
          terms[i - half] = element(combine, {terms[i - half], terms[i]}, out);
        terms.resize(std::min(terms.size(), half), terms[0]);
      }
      if (needs_zero(eqn)) terms[0] = element(add_p, {zero(of.dtype), terms[0]}, out);
      made.push_back(terms[0]);
    }
    return made;
  }
  // Of each number of the result.
  std::vector<Atoms> terms_of(const Eqn& eqn) {
    const Shape shape = of_one(jaxpr_.aval(eqn.inputs[0]).shape);
    const Shape axes = reduction_axes(eqn);
    const Atoms& all = numbers_of(eqn.inputs[0]);
    std::vector<Atoms> out(static_cast<std::size_t>(jaxpr_.aval(eqn.outputs[0]).size() / members_));
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
  static Atom zero(DType dtype) { return Atom::literal(detail::convert_scalar(Array(0.0), dtype)); }
  // Sums begin with 0.
  bool needs_zero(const Eqn& eqn) const {
    const Var x = eqn.inputs[0].var(), sum = eqn.outputs[0];
    if (eqn.primitive != &reduce_sum_p || !is_float(jaxpr_.aval(sum).dtype)) return false;
    if (!tells_zero_signs_) return true;
    if (!zero_signs_[static_cast<std::size_t>(sum)]) return false;
    const int e = producers_[static_cast<std::size_t>(x)];
    return e < 0 || may_be_minus_zero(jaxpr_.eqns()[static_cast<std::size_t>(e)]);
  }

  // Products are added in order.
  Atoms products(const Eqn& eqn) {
    const auto& dn = eqn.params.as<DotGeneralParams>().dimension_numbers;
    const Factor x = factor(eqn.inputs[0], dn.lhs_batch, dn.lhs_contracting),
                 y = factor(eqn.inputs[1], dn.rhs_batch, dn.rhs_contracting);
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const bool from_zero =
        !tells_zero_signs_ || zero_signs_[static_cast<std::size_t>(eqn.outputs[0])];
    Atoms made;
    for (std::size_t b = 0; b < x.batch; ++b) {
      for (std::size_t i = 0; i < x.free; ++i) {
        for (std::size_t j = 0; j < y.free; ++j) {
          std::optional<Atom> sum;
          if (from_zero) sum = zero(out.dtype);
          for (std::size_t k = 0; k < x.terms; ++k) {
            const Atom term = element(mul_p, {x.at(b, i, k), y.at(b, j, k)}, out);
            sum = sum ? element(add_p, {*sum, term}, out) : term;
          }
          made.push_back(*sum);
        }
      }
    }
    return made;
  }
  /// An operand's numbers for a member, in the order batch, free, contracting.
  struct Factor {
    Atoms numbers;
    std::size_t batch, free, terms;
    const Atom& at(std::size_t b, std::size_t i, std::size_t k) const {
      return numbers[(b * free + i) * terms + k];
    }
  };
  Factor factor(const Atom& a, const Shape& batch, const Shape& contracting) {
    const Shape shape = of_one(jaxpr_.aval(a).shape);
    const Atoms& all = numbers_of(a);
    Shape order = batch;
    for (std::int64_t d = 0; d < shape.ndim(); ++d) {
      if (!batch.contains(d) && !contracting.contains(d)) order.push_back(d);
    }
    for (const std::int64_t d : contracting) order.push_back(d);
    const auto count = [&](const Shape& dims) {
      std::size_t n = 1;
      for (const std::int64_t d : dims)
        n *= static_cast<std::size_t>(shape[static_cast<std::size_t>(d)]);
      return n;
    };
    Factor out{{}, count(batch), 1, count(contracting)};
    out.free = all.size() / (out.batch * out.terms);
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

  Atoms counted(const Eqn& eqn) {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const auto dimension = static_cast<std::size_t>(eqn.params.as<IotaParams>().dimension);
    const auto count = out.size() / members_;
    if (dimension == roles().axis(Atom::var(eqn.outputs[0]))) {
      const Aval one = of_members(out);
      return Atoms(static_cast<std::size_t>(count),
                   add(iota_p, Params::of(IotaParams{out.dtype, one.shape, 0}), {}, one));
    }
    const Shape shape = of_one(out.shape);
    const std::int64_t step = product(shape, dimension + 1, shape.size());
    Atoms made;
    for (std::int64_t i = 0; i < count; ++i)
      made.push_back(
          Atom::literal(detail::convert_scalar(Array(i / step % shape[dimension]), out.dtype)));
    return made;
  }

  const Jaxpr& jaxpr_;
  std::int64_t members_;
  const std::vector<int> producers_;
  const bool tells_zero_signs_;
  const std::vector<bool> zero_signs_;  // that matter
  Choice choice_;
  JaxprBuilder b_;
  std::vector<std::optional<Atom>> whole_;
  std::vector<Atoms> numbers_;
  std::map<Var, Array> known_;
  Atoms literal_;  // the last operand that was one
  SourceLocation where_;
};

}  // namespace

Jaxpr split_batch_members(const Jaxpr& jaxpr, bool zero_signs) {
  if (jaxpr.eqns().size() > kMostEquations) return jaxpr;
  Jaxpr out = detail::map_regions(
      jaxpr, [&](const Jaxpr& j) { return split_batch_members(j, zero_signs); });
  for (const std::int64_t members : possible_members(out)) {
    const Jaxpr from = out;
    Choice choice(from, members);
    if (choice.any()) out = Splitter(from, members, zero_signs, std::move(choice)).run();
  }
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
