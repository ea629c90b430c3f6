// Roles, weights and the choice of what is taken apart, declared in members.hpp.
#include "compiler/passes/members.hpp"

#include <array>

#include "compiler/codegen/codegen.hpp"
#include "compiler/executable/program_store.hpp"
#include "compiler/forms.hpp"
#include "core/element.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLeastMembers = 64;
constexpr std::int64_t kLong = 17;             // axes along which lanes may run
constexpr std::int64_t kLongest = 32;          // axes of a member
constexpr std::int64_t kMostNumbers = 256;     // of an array, for each member
constexpr std::int64_t kMostProducts = 1'024;  // of two arrays, for each member
constexpr std::int64_t kMostOfMatrix = 64;     // the same with a matrix that all members share
constexpr std::int64_t kMostTerms = 4;     // of sums that are short: there is little to load again
constexpr std::int64_t kMostFactors = 64;  // numbers of matrices that registers nearly hold
// Numbers of a member that are computed: for few members compiling takes longer than it saves.
constexpr std::int64_t kLeastMost = 1'000, kMostForMember = 32;
constexpr std::int64_t kMostSorted = 16;   // numbers, of which any two may be compared
constexpr std::int64_t kOfComparison = 7;  // operations that bring two numbers in order
constexpr std::int64_t kLeastTurned =
    16;  // numbers of a member that no vector of their operands has

bool is_move(const Eqn& eqn) {
  if (eqn.primitive == &dynamic_update_slice_p)  // at a place that is known
    return std::all_of(eqn.inputs.begin() + 2, eqn.inputs.end(),
                       [](const Atom& a) { return a.is_literal(); });
  return one_of(eqn, {&reshape_p, &transpose_p, &slice_p, &broadcast_in_dim_p, &concatenate_p,
                      &pad_p, &rev_p});
}
/// The axis along which sorts and running sums of one array go.
std::optional<std::int64_t> axis_gone_along(const Eqn& eqn) {
  if (running(eqn.primitive) != nullptr) return eqn.params.as<CumulativeParams>().axis;
  if (eqn.primitive != &sort_p || eqn.inputs.size() != 1) return std::nullopt;
  return eqn.params.as<SortParams>().dimension;
}
/// The arrays of which it moves elements: the first operands.
std::size_t arrays_moved(const Eqn& eqn) {
  if (eqn.primitive == &concatenate_p) return eqn.inputs.size();
  return eqn.primitive == &dynamic_update_slice_p ? 2 : 1;
}
bool is_whole(const SliceParams& p, const Shape& from, std::size_t d) {
  return p.start_indices[d] == 0 && p.limit_indices[d] == from[d] &&
         (p.strides.empty() || p.strides[d] == 1);
}

/// By variable: whether it is made of literals and positions alone, and small.
std::vector<bool> known_variables(const Jaxpr& jaxpr) {
  std::vector<bool> known(static_cast<std::size_t>(jaxpr.num_vars()));
  const auto is_known = [&](const Atom& a) {
    return a.is_literal() || known[static_cast<std::size_t>(a.var())];
  };
  for (const Eqn& eqn : jaxpr.eqns()) {
    if (eqn.effect != Effect::none || eqn.outputs.size() != 1 || eqn.params.has_jaxprs() ||
        !can_be_evaluated(*eqn.primitive))
      continue;
    const Aval& out = jaxpr.aval(eqn.outputs[0]);
    known[static_cast<std::size_t>(eqn.outputs[0])] =
        out.size() > 0 && out.size() <= kMostNumbers &&
        std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_known);
  }
  return known;
}

/// Which axes of all arrays go together, and which of them an equation tells apart along.
class AxisClasses {
 public:
  explicit AxisClasses(const Jaxpr& jaxpr) : jaxpr_(jaxpr) {
    for (Var v = 0; v < jaxpr.num_vars(); ++v) {
      first_.push_back(count_);
      count_ += jaxpr.aval(v).ndim();
    }
    sets_ = DisjointSets(static_cast<std::size_t>(count_));
    told_.resize(static_cast<std::size_t>(count_));
    for (const Eqn& eqn : jaxpr.eqns()) look_at(eqn);
    for (int node = 0; node < count_; ++node) {
      if (told_[static_cast<std::size_t>(node)])
        told_[static_cast<std::size_t>(sets_.find(node))] = true;
    }
  }

  int count() const { return count_; }
  int class_of(Var v, int d) { return sets_.find(first_[static_cast<std::size_t>(v)] + d); }
  bool is_told(int axis_class) const { return told_[static_cast<std::size_t>(axis_class)]; }

 private:
  static int to_int(std::size_t n) { return static_cast<int>(n); }
  const Shape& shape(const Atom& a) const { return jaxpr_.aval(a).shape; }
  int node(const Atom& a, int d) const { return first_[static_cast<std::size_t>(a.var())] + d; }
  void tell(const Atom& a, int d) {
    if (a.is_var()) told_[static_cast<std::size_t>(node(a, d))] = true;
  }
  // Sums over a batch are taken of whole arrays.
  void fold(const Atom& a, int d) {
    if (shape(a)[static_cast<std::size_t>(d)] < kLong) tell(a, d);
  }
  // Axes of one element are none.
  void join(const Atom& a, int d, const Atom& b, int t) {
    if (!a.is_var() || !b.is_var()) return;
    const std::int64_t size = shape(a)[static_cast<std::size_t>(d)];
    if (size > 1 && size == shape(b)[static_cast<std::size_t>(t)])
      sets_.join(node(a, d), node(b, t));
  }
  void join_all(const Atom& a, const Atom& b) {
    for (int d = 0; d < shape(a).ndim(); ++d) join(a, d, b, d);
  }

  void look_at(const Eqn& eqn) {
    if (eqn.outputs.size() != 1) return;
    const Atom out = Atom::var(eqn.outputs[0]);
    const PrimitiveBase* p = eqn.primitive;
    if (combination(p) != nullptr) {
      const Shape over = reduction_axes(eqn);
      int to = 0;
      for (int d = 0; d < shape(eqn.inputs[0]).ndim(); ++d) {
        if (over.contains(d)) fold(eqn.inputs[0], d);
        else join(eqn.inputs[0], d, out, to++);
      }
    } else if (p == &dot_general_p) {
      multiply(eqn, out);
    } else if (is_move(eqn)) {
      move(eqn, out);
    } else if (const std::optional<std::int64_t> axis = axis_gone_along(eqn)) {
      for (int d = 0; d < shape(out).ndim(); ++d) {
        if (d != *axis) {
          join(eqn.inputs[0], d, out, d);
          continue;
        }
        tell(eqn.inputs[0], d);
        tell(out, d);
      }
    } else if (form_of(jaxpr_, eqn) == Form::element) {
      for (const Atom& a : eqn.inputs) {
        if (shape(a) == shape(out)) join_all(a, out);
      }
    }
  }

  void multiply(const Eqn& eqn, const Atom& out) {
    const auto& dn = eqn.params.as<DotGeneralParams>().dimension_numbers;
    const Atom &x = eqn.inputs[0], &y = eqn.inputs[1];
    int to = 0;
    for (std::size_t k = 0; k < dn.lhs_batch.size(); ++k, ++to) {
      join(x, static_cast<int>(dn.lhs_batch[k]), out, to);
      join(y, static_cast<int>(dn.rhs_batch[k]), out, to);
    }
    const auto free = [&](const Atom& a, const Shape& batch, const Shape& contracting) {
      for (int d = 0; d < shape(a).ndim(); ++d) {
        if (contracting.contains(d)) fold(a, d);
        else if (!batch.contains(d)) join(a, d, out, to++);
      }
    };
    free(x, dn.lhs_batch, dn.lhs_contracting);
    free(y, dn.rhs_batch, dn.rhs_contracting);
  }

  void move(const Eqn& eqn, const Atom& out) {
    const PrimitiveBase* p = eqn.primitive;
    const Atom& x = eqn.inputs[0];
    const Shape& from = shape(x);
    if (p == &reshape_p) return reshape(x, out);
    for (std::size_t d = 0; d < from.size(); ++d) {
      const int at = to_int(d);
      bool passes = true;
      int made = at;
      if (p == &broadcast_in_dim_p) {
        made = static_cast<int>(eqn.params.as<BroadcastInDimParams>().broadcast_dimensions[d]);
      } else if (p == &transpose_p) {
        const Shape& order = eqn.params.as<TransposeParams>().permutation;
        made = static_cast<int>(std::find(order.begin(), order.end(), at) - order.begin());
      } else if (p == &slice_p) {
        passes = is_whole(eqn.params.as<SliceParams>(), from, d);
      } else if (p == &concatenate_p) {
        passes = eqn.params.as<ConcatenateParams>().dimension != at;
      } else if (p == &pad_p) {
        passes =
            eqn.params.as<PadParams>().padding_config[d] == std::array<std::int64_t, 3>{0, 0, 0};
      } else if (p == &rev_p) {
        passes = !eqn.params.as<DimensionsParams>().dimensions.contains(at);
      } else if (p == &dynamic_update_slice_p) {
        passes = shape(eqn.inputs[1])[d] == from[d];
      }
      for (std::size_t i = 0; i < arrays_moved(eqn); ++i) {
        if (passes) join(eqn.inputs[i], at, out, made);
        else tell(eqn.inputs[i], at);
      }
      if (!passes) tell(out, made);
    }
  }

  // Axes pass that have as many elements before them as behind the reshape; what is merged or cut is told apart.
  void reshape(const Atom& x, const Atom& out) {
    const Shape &from = shape(x), &to = shape(out);
    std::int64_t before = 1, made = 1;
    std::size_t d = 0, t = 0;
    while (d < from.size() || t < to.size()) {
      if (d < from.size() && from[d] == 1) {
        ++d;
      } else if (t < to.size() && to[t] == 1) {
        ++t;
      } else if (d < from.size() && t < to.size() && before == made && from[d] == to[t]) {
        join(x, to_int(d), out, to_int(t));
        before *= from[d++];
        made *= to[t++];
      } else if (t == to.size() || (d < from.size() && before <= made)) {
        tell(x, to_int(d));
        before *= from[d++];
      } else {
        tell(out, to_int(t));
        made *= to[t++];
      }
    }
  }

  const Jaxpr& jaxpr_;
  std::vector<int> first_;  // by variable: the node of its first axis
  int count_ = 0;
  DisjointSets sets_;
  std::vector<bool> told_;
};

/// Of each axis of the batch that an array has: f(its place in that, in another; -1: not there).
template <class F> bool all_axes(const BatchAxes& from, const BatchAxes& to, F&& f) {
  return std::all_of(from.begin(), from.end(), [&](const BatchAxis& a) {
    const auto found =
        std::find_if(to.begin(), to.end(), [&](const BatchAxis& b) { return a.axis == b.axis; });
    return f(static_cast<std::size_t>(a.position), found == to.end() ? -1 : found->position);
  });
}
bool have_the_same(const BatchAxes& a, const BatchAxes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const BatchAxis& p, const BatchAxis& q) { return p.axis == q.axis; });
}

constexpr std::int64_t kLongRun = 2;  // vectors
std::int64_t lanes_of(const Aval& a) {
  return static_cast<std::int64_t>(runtime::target_vector_bytes() /
                                   std::max<std::size_t>(size_of(a.dtype), 4));
}
/// Whether rows are whole vectors, of which no more than an eighth is empty. Most of a row lies in as many
/// vectors as all of it, however full.
bool fills_vectors(const Aval& a, bool of_part) {
  const std::int64_t lanes = lanes_of(a);
  const std::int64_t row = a.shape.back(), all = (row + lanes - 1) / lanes * lanes;
  return of_part ? row >= lanes : 8 * row >= 7 * all;
}

}  // namespace

const Primitive<>* running(const PrimitiveBase* cumulative) {
  if (cumulative == &cumsum_p) return &add_p;
  if (cumulative == &cumprod_p) return &mul_p;
  if (cumulative == &cummax_p) return &max_p;
  return cumulative == &cummin_p ? &min_p : nullptr;
}

// Long axes are those of batches, as are short ones before them, of batches of batches. But directions of a Jacobian, which
// are known, and what lies behind, are numbers of a member.
Batch::Batch(const Jaxpr& jaxpr) {
  AxisClasses classes(jaxpr);
  const auto n = static_cast<std::size_t>(classes.count());
  const std::vector<bool> known = known_variables(jaxpr);
  std::vector<bool> leads(n), follows(n);  // a long one; or that is not so everywhere
  const auto is_long = [&](Var v, int d) {
    return jaxpr.aval(v).shape[static_cast<std::size_t>(d)] >= kLong &&
           !classes.is_told(classes.class_of(v, d));
  };
  for (Var v = 0; v < jaxpr.num_vars(); ++v) {
    int last = jaxpr.aval(v).ndim() - 1;
    while (last >= 0 && !is_long(v, last)) --last;
    for (int d = 0; d < jaxpr.aval(v).ndim(); ++d) {
      const auto c = static_cast<std::size_t>(classes.class_of(v, d));
      if (d < last) leads[c] = true;
      if ((d > last && last >= 0) || known[static_cast<std::size_t>(v)]) follows[c] = true;
    }
  }
  const auto is_batch = [&](Var v, int d) {
    const int c = classes.class_of(v, d);
    const auto at = static_cast<std::size_t>(c);
    return jaxpr.aval(v).shape[static_cast<std::size_t>(d)] > 1 && !classes.is_told(c) &&
           (is_long(v, d) || (leads[at] && !follows[at]));
  };
  // Those of arrays with the most of them first: their order is that of all.
  std::vector<int> number(n, -1);
  std::vector<std::vector<Var>> by_count;
  for (Var v = 0; v < jaxpr.num_vars(); ++v) {
    std::size_t count = 0;
    for (int d = 0; d < jaxpr.aval(v).ndim(); ++d) count += is_batch(v, d) ? 1 : 0;
    by_count.resize(std::max(by_count.size(), count + 1));
    by_count[count].push_back(v);
  }
  axes_.resize(static_cast<std::size_t>(jaxpr.num_vars()));
  mixed_.resize(axes_.size());
  for (std::size_t count = by_count.size(); count-- > 1;) {
    for (const Var v : by_count[count]) {
      BatchAxes& axes = axes_[static_cast<std::size_t>(v)];
      for (int d = 0; d < jaxpr.aval(v).ndim(); ++d) {
        if (!is_batch(v, d)) continue;
        int& axis = number[static_cast<std::size_t>(classes.class_of(v, d))];
        if (axis < 0) {
          axis = static_cast<int>(sizes_.size());
          sizes_.push_back(jaxpr.aval(v).shape[static_cast<std::size_t>(d)]);
        }
        if (!axes.empty() && axes.back().axis >= axis) mixed_[static_cast<std::size_t>(v)] = true;
        axes.push_back({axis, d});
      }
    }
  }
}

bool can_be_evaluated(const PrimitiveBase& primitive) {
  return is_own_operation(primitive) && primitive.rules().impl != nullptr;
}

MemberRoles::MemberRoles(const Jaxpr& jaxpr)
    : jaxpr_(jaxpr), batch_(jaxpr), known_(known_variables(jaxpr)) {
  for (Var v = 0; v < jaxpr.num_vars(); ++v) kind_.push_back(kind_of(v));
}

MemberRoles::Kind MemberRoles::kind_of(Var v) const {
  const Aval& aval = jaxpr_.aval(v);
  if (aval.size() == 0 || batch_.is_mixed(v) || numbers(v) > kMostNumbers) return Kind::other;
  const Shape one = of_one(v);
  if (std::any_of(one.begin(), one.end(), [](std::int64_t n) { return n > kLongest; }))
    return Kind::other;
  return batch_.axes(v).empty() ? Kind::shared : Kind::member;
}

Shape MemberRoles::of_one(Var v) const {
  Shape shape = jaxpr_.aval(v).shape;
  for (const BatchAxis& a : batch_.axes(v)) shape[static_cast<std::size_t>(a.position)] = 1;
  return shape;
}

MemberRole MemberRoles::role(const Eqn& eqn) const {
  if (eqn.effect != Effect::none || eqn.outputs.size() != 1) return MemberRole::none;
  const Atom out = Atom::var(eqn.outputs[0]);
  if (!is_member(out)) return MemberRole::none;
  const PrimitiveBase* p = eqn.primitive;
  if (combination(p) != nullptr) {
    const Atom& x = eqn.inputs[0];
    const Shape over = reduction_axes(eqn);
    const bool within = is_member(x) && !detail::is_small_float(jaxpr_.aval(x).dtype) &&
                        std::none_of(over.begin(), over.end(), [&](std::int64_t d) {
                          return is_at(batch_.axes(x.var()), d);
                        });
    return within ? MemberRole::folded : MemberRole::none;
  }
  if (p == &dot_general_p) return multiplies(eqn) ? MemberRole::product : MemberRole::none;
  if (p == &iota_p) return MemberRole::counted;
  if (is_move(eqn)) return moves_within(eqn) ? MemberRole::moved : MemberRole::none;
  if (const std::optional<std::int64_t> axis = axis_gone_along(eqn)) {
    const Aval& of = jaxpr_.aval(out);
    if (!is_member(eqn.inputs[0]) || !is_native(of.dtype) || of.dtype == DType::bool_ ||
        is_at(batch_.axes(out.var()), *axis))
      return MemberRole::none;
    if (eqn.primitive != &sort_p) return MemberRole::summed;
    return of.shape[static_cast<std::size_t>(*axis)] <= kMostSorted ? MemberRole::sorted
                                                                    : MemberRole::none;
  }
  if (form_of(jaxpr_, eqn) != Form::element) return MemberRole::none;
  const Shape& shape = jaxpr_.aval(out).shape;
  const bool same = std::all_of(eqn.inputs.begin(), eqn.inputs.end(), [&](const Atom& a) {
    const Shape& s = jaxpr_.aval(a).shape;
    return s.empty() || s == shape;
  });
  return same ? MemberRole::element : MemberRole::none;
}

std::int64_t MemberRoles::steps(const Eqn& eqn, MemberRole role) const {
  const std::int64_t made = numbers(eqn.outputs[0]);
  switch (role) {
    case MemberRole::element:
    case MemberRole::summed: return made;
    case MemberRole::folded: return numbers(eqn.inputs[0].var());
    case MemberRole::product: return 2 * multiplications(eqn);
    case MemberRole::sorted: {
      const auto axis = static_cast<std::size_t>(*axis_gone_along(eqn));
      return made * (jaxpr_.aval(eqn.outputs[0]).shape[axis] - 1) / 2 * kOfComparison;
    }
    case MemberRole::none:
    case MemberRole::moved:
    case MemberRole::counted: break;
  }
  return 0;
}

std::int64_t MemberRoles::multiplications(const Eqn& dot) const {
  const Aval& x = jaxpr_.aval(dot.inputs[0]);
  std::int64_t terms = 1;
  for (const std::int64_t d : dot.params.as<DotGeneralParams>().dimension_numbers.lhs_contracting)
    terms *= x.shape[static_cast<std::size_t>(d)];
  return numbers(dot.outputs[0]) * terms;
}

// By the classes of its axes an equation moves nothing along the batch but where it begins to repeat numbers.
bool MemberRoles::moves_within(const Eqn& eqn) const {
  const PrimitiveBase* p = eqn.primitive;
  const Atom& x = eqn.inputs[0];
  const BatchAxes& to = batch_.axes(eqn.outputs[0]);
  if (p == &broadcast_in_dim_p) {
    if (is_shared(x)) return true;
    const Shape& dims = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
    return is_member(x) &&
           all_axes(batch_.axes(x.var()), to, [&](std::size_t d, int at) { return dims[d] == at; });
  }
  return std::all_of(
      eqn.inputs.begin(), eqn.inputs.begin() + static_cast<std::ptrdiff_t>(arrays_moved(eqn)),
      [&](const Atom& a) { return is_member(a) && have_the_same(batch_.axes(a.var()), to); });
}

bool MemberRoles::is_of_members(const Eqn& dot) const {
  const Atom &x = dot.inputs[0], &y = dot.inputs[1];
  if (is_known(x) || is_known(y)) return true;
  if (!is_member(x) || !is_member(y)) return false;
  if (multiplications(dot) <= kMostTerms * numbers(dot.outputs[0])) return true;
  return have_the_same(batch_.axes(x.var()), batch_.axes(y.var())) &&
         numbers(x.var()) + numbers(y.var()) <= kMostFactors;
}

// Axes of the batch that both operands have are multiplied member by member; those of one are free.
bool MemberRoles::multiplies(const Eqn& eqn) const {
  const Atom &x = eqn.inputs[0], &y = eqn.inputs[1];
  const DType dtype = jaxpr_.aval(eqn.outputs[0]).dtype;
  const auto fits = [&](const Atom& a) {
    return a.is_var() && jaxpr_.aval(a).dtype == dtype && (is_member(a) || is_shared(a));
  };
  if ((dtype != DType::f32 && dtype != DType::f64) || !fits(x) || !fits(y)) return false;
  if (multiplications(eqn) > (is_of_members(eqn) ? kMostProducts : kMostOfMatrix)) return false;
  const auto& dn = eqn.params.as<DotGeneralParams>().dimension_numbers;
  const BatchAxes &of_x = batch_.axes(x.var()), &of_y = batch_.axes(y.var());
  const auto is_pair = [&](std::int64_t a, std::int64_t b) {
    for (std::size_t k = 0; k < dn.lhs_batch.size(); ++k) {
      if (dn.lhs_batch[k] == a && dn.rhs_batch[k] == b) return true;
    }
    return false;
  };
  const auto is_free = [](const Shape& paired, const Shape& contracting, std::size_t d) {
    const auto a = static_cast<std::int64_t>(d);
    return !paired.contains(a) && !contracting.contains(a);
  };
  return all_axes(of_x, of_y,
                  [&](std::size_t d, int at) {
                    return at < 0 ? is_free(dn.lhs_batch, dn.lhs_contracting, d)
                                  : is_pair(static_cast<std::int64_t>(d), at);
                  }) &&
         all_axes(of_y, of_x, [&](std::size_t d, int at) {
           return at >= 0 || is_free(dn.rhs_batch, dn.rhs_contracting, d);
         });
}

MemberChoice::MemberChoice(const Jaxpr& jaxpr, std::int64_t& most)
    : jaxpr_(jaxpr),
      roles_(jaxpr),
      sets_(static_cast<std::size_t>(jaxpr.num_vars())),
      free_(static_cast<std::size_t>(jaxpr.num_vars())) {
  for (const Eqn& eqn : jaxpr.eqns()) {
    role_.push_back(roles_.role(eqn));
    if (role_.back() == MemberRole::none) continue;
    for (const Atom& a : eqn.inputs) {
      if (roles_.is_member(a) && !free_[static_cast<std::size_t>(a.var())])
        sets_.join(a.var(), eqn.outputs[0]);
    }
    if (roles_.is_free(eqn)) free_[static_cast<std::size_t>(eqn.outputs[0])] = true;
  }
  weigh(most);
}

MemberRole MemberChoice::role(std::size_t e) {
  const Eqn& eqn = jaxpr_.eqns()[e];
  if (role_[e] == MemberRole::none || roles_.is_free(eqn)) return role_[e];
  const int set = sets_.find(eqn.outputs[0]);
  return chosen_[static_cast<std::size_t>(set)] ? role_[e] : MemberRole::none;
}

// Whether numbers stay in their order, and are the same for more members at most.
bool MemberChoice::repeats_only(const Eqn& eqn) const {
  if (eqn.primitive == &reshape_p) return true;
  if (eqn.primitive != &broadcast_in_dim_p) return false;
  const Atom& x = eqn.inputs[0];
  return roles_.is_shared(x) || roles_.numbers(x.var()) == roles_.numbers(eqn.outputs[0]);
}

// How many elements at least lie side by side as they did before, where an array is cut or put together.
std::int64_t run_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  const auto shape = [&](const Atom& a) -> const Shape& { return jaxpr.aval(a).shape; };
  const Shape& to = jaxpr.aval(eqn.outputs[0]).shape;
  std::int64_t run = 1;
  for (std::size_t d = to.size(); d-- > 0;) {
    std::int64_t part = to[d];
    bool ends = false;
    if (eqn.primitive == &slice_p) {
      const auto& p = eqn.params.as<SliceParams>();
      ends = !is_whole(p, shape(eqn.inputs[0]), d);
      if (!p.strides.empty() && p.strides[d] != 1) part = 1;
    } else if (eqn.primitive == &pad_p) {
      const auto& config = eqn.params.as<PadParams>().padding_config[d];
      ends = config != std::array<std::int64_t, 3>{0, 0, 0};
      if (ends) part = config[2] > 0 ? 1 : shape(eqn.inputs[0])[d];
    } else if (eqn.primitive == &concatenate_p) {
      ends = static_cast<std::size_t>(eqn.params.as<ConcatenateParams>().dimension) == d;
      for (const Atom& a : eqn.inputs) part = std::min(part, shape(a)[d]);
    } else {
      return 1;
    }
    run *= part;
    if (ends) break;
  }
  return run;
}

// Whether lanes run along the batch, or rows of a member are whole vectors, in any case.
bool MemberChoice::keeps_vectors(const Eqn& eqn) const {
  const auto ends_with_batch = [&](const Atom& a) {
    return is_at(roles_.batch().axes(a.var()), jaxpr_.aval(a).ndim() - 1);
  };
  const auto is_last = [&](const Atom& a) { return !roles_.is_member(a) || ends_with_batch(a); };
  const auto row = [&](const Atom& a) { return jaxpr_.aval(a).shape.back(); };
  const bool of_part =
      eqn.primitive == &slice_p && 2 * row(Atom::var(eqn.outputs[0])) > row(eqn.inputs[0]);
  const auto is_long = [&](const Atom& a) {
    return roles_.is_member(a) && !ends_with_batch(a) && fills_vectors(jaxpr_.aval(a), of_part);
  };
  const Atom out = Atom::var(eqn.outputs[0]);
  const std::int64_t run = run_of(jaxpr_, eqn), lanes = lanes_of(jaxpr_.aval(out));
  if (run >= kLongRun * lanes || (run <= lanes && 8 * run >= 7 * lanes)) return true;
  if (is_last(out) && std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_last)) return true;
  if (combination(eqn.primitive) != nullptr) return is_long(eqn.inputs[0]);
  if (!is_long(out)) return false;
  return eqn.primitive == &broadcast_in_dim_p ||
         std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_long);
}

void MemberChoice::weigh(std::int64_t& most) {
  /// Of a set: elements of arrays, and numbers of a member.
  struct Weight {
    std::int64_t computed = 0, turned = 0, around = 0;
    std::int64_t numbers = 0, turned_numbers = 0, members = 0;
  };
  const auto n = static_cast<std::size_t>(jaxpr_.num_vars());
  std::vector<Weight> weights(n);
  std::vector<bool> is_around(n);
  const auto of = [&](Var v) -> Weight& {
    return weights[static_cast<std::size_t>(sets_.find(v))];
  };
  const auto surround = [&](const Atom& a) {
    if (!roles_.is_member(a) || is_around[static_cast<std::size_t>(a.var())]) return;
    is_around[static_cast<std::size_t>(a.var())] = true;
    of(a.var()).around += jaxpr_.aval(a).size();
  };
  for (Var v = 0; v < jaxpr_.num_inputs(); ++v) surround(Atom::var(v));
  for (const Atom& a : jaxpr_.outs()) surround(a);
  for (std::size_t e = 0; e < role_.size(); ++e) {
    const Eqn& eqn = jaxpr_.eqns()[e];
    if (role_[e] == MemberRole::none) {
      for (const Atom& a : eqn.inputs) surround(a);
      for (const Var v : eqn.outputs) surround(Atom::var(v));
      continue;
    }
    const Atom out = Atom::var(eqn.outputs[0]);
    Weight& w = of(out.var());
    const std::int64_t numbers = roles_.numbers(out.var()), elements = jaxpr_.aval(out).size();
    const std::int64_t steps = roles_.steps(eqn, role_[e]);
    w.members = std::max(w.members, elements / numbers);
    w.numbers += steps;
    w.computed += elements / numbers * steps;
    if (role_[e] == MemberRole::element || repeats_only(eqn) || keeps_vectors(eqn) ||
        (role_[e] == MemberRole::product && !roles_.is_of_members(eqn)))
      continue;
    w.turned += elements;
    w.turned_numbers += role_[e] == MemberRole::sorted ? kLeastTurned : numbers;
  }
  for (const Weight& w : weights) {
    const std::int64_t allowed = std::min(most, kLeastMost + kMostForMember * w.members);
    chosen_.push_back(2 * w.computed >= 3 * w.around && 2 * w.turned >= w.around &&
                      w.turned_numbers >= kLeastTurned && w.members >= kLeastMembers &&
                      w.numbers <= allowed);
    if (chosen_.back()) most -= w.numbers;
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
