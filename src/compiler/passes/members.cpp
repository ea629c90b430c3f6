// Roles, weights and the choice of what is taken apart.
#include "compiler/passes/members.hpp"

#include "compiler/codegen/codegen.hpp"
#include "compiler/forms.hpp"
#include "compiler/plan/dot.hpp"
#include "core/element.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLongest = 32;          // axes of a member
constexpr std::int64_t kMostProducts = 1'024;  // of two arrays, for each member
constexpr std::int64_t kMostOfMatrix = 64;     // the same with a matrix that all members share
constexpr std::int64_t kMostTerms = 4;     // of sums that are short: there is little to load again
constexpr std::int64_t kMostFactors = 64;  // numbers of matrices that registers nearly hold
constexpr std::int64_t kLongRun = 2;       // vectors
constexpr std::int64_t kLeastTurned = 16;  // numbers that no vector of their operands has

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

std::int64_t lanes_of(const Aval& a) {
  return static_cast<std::int64_t>(runtime::target_vector_bytes() /
                                   std::max<std::size_t>(size_of(a.dtype), 4));
}
/// Whether rows are whole vectors, of which no more than an eighth is empty. Most of a row lies in as many
/// vectors as all of it, however full.
bool fills_vectors(const Aval& a, bool of_part) {
  const std::int64_t lanes = lanes_of(a);
  const std::int64_t row = a.shape.back(), all = detail::rounded_up(row, lanes);
  return of_part ? row >= lanes : 8 * row >= 7 * all;
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
      ends = !takes_whole_axis(p, shape(eqn.inputs[0]), d);
      if (stride_of(p, d) != 1) part = 1;
    } else if (eqn.primitive == &pad_p) {
      const auto& config = eqn.params.as<PadParams>().padding_config[d];
      ends = !pads_nothing(config);
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

/// Whether a long row of a member is every second to fourth number of a longer one, or rows are put between each other that
/// way: what vectors are shuffled for.
bool interleaves(const Jaxpr& jaxpr, const Eqn& eqn, const BatchAxes& axes) {
  constexpr std::int64_t kMostApart = 4;
  if (!one_of(eqn, {&slice_p, &pad_p, &concatenate_p})) return false;
  const Aval& out = jaxpr.aval(eqn.outputs[0]);
  const Shape &to = out.shape, &from = jaxpr.aval(eqn.inputs[0]).shape;
  if (to.empty() || from.size() != to.size()) return false;
  const std::size_t last = to.size() - 1;
  const auto is_long = [&](const Shape& shape, std::size_t d) {
    return !is_at(axes, static_cast<std::int64_t>(d)) && shape[d] >= kLongRun * lanes_of(out);
  };
  // Rows lie in a dimension of their own before or after, or not.
  const auto are_apart = [&](const Shape& woven, const Shape& row) {
    return last > 0 && woven[last] <= kMostApart && row[last] == 1 && is_long(row, last - 1);
  };
  const auto all_others = [&](auto&& is_whole) {
    for (std::size_t d = 0; d < last; ++d)
      if (!is_whole(d)) return false;
    return true;
  };
  if (eqn.primitive == &slice_p) {
    const auto& p = eqn.params.as<SliceParams>();
    const std::int64_t stride = stride_of(p, last);
    return all_others([&](std::size_t d) { return takes_whole_axis(p, from, d); }) &&
           ((stride > 1 && stride <= kMostApart && is_long(to, last)) || are_apart(from, to));
  }
  if (eqn.primitive == &pad_p) {
    const auto& config = eqn.params.as<PadParams>().padding_config;
    const std::int64_t apart = config[last][2] + 1;
    return all_others([&](std::size_t d) { return pads_nothing(config[d]); }) &&
           ((apart > 1 && apart <= kMostApart && is_long(from, last)) || are_apart(to, from));
  }
  const bool along_last = eqn.params.as<ConcatenateParams>().dimension == to.ndim() - 1;
  return along_last && std::all_of(eqn.inputs.begin(), eqn.inputs.end(), [&](const Atom& a) {
           return are_apart(to, jaxpr.aval(a).shape);
         });
}

/// Numbers of a member for which what compiling takes is won back, in one of two ways: by running, where there are many
/// members, or by kernels that would have to be compiled otherwise, each of which takes as long as so many numbers.
std::int64_t most_numbers(std::int64_t members, std::int64_t kernels) {
  constexpr std::int64_t kManyMembers = 64, kLeast = 1'000, kOfMember = 32, kOfKernel = 32;
  const std::int64_t by_running = members >= kManyMembers ? kLeast + kOfMember * members : 0;
  return std::max(by_running, kOfKernel * kernels);
}

}  // namespace

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
  if (moves_to_known_places(eqn)) return moves_within(eqn) ? MemberRole::moved : MemberRole::none;
  if (running(p) != nullptr) {
    const DType of = jaxpr_.aval(out).dtype;
    const bool within = is_member(eqn.inputs[0]) && is_native(of) && of != DType::bool_ &&
                        !is_at(batch_.axes(out.var()), eqn.params.as<CumulativeParams>().axis);
    return within ? MemberRole::summed : MemberRole::none;
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
    case MemberRole::none:
    case MemberRole::moved:
    case MemberRole::counted: break;
  }
  return 0;
}

std::int64_t MemberRoles::multiplications(const Eqn& dot) const {
  return numbers(dot.outputs[0]) * terms_of(jaxpr_, dot);
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

// Whether an equation that is not taken apart is, for the most part, a kernel of its own.
static bool has_own_kernel(MemberRole role, const Eqn& eqn) {
  return role != MemberRole::element && eqn.primitive != &reshape_p &&
         eqn.primitive != &broadcast_in_dim_p;
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
  if (interleaves(jaxpr_, eqn, roles_.batch().axes(out.var()))) return true;
  if (is_last(out) && std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_last)) return true;
  if (combination(eqn.primitive) != nullptr) return is_long(eqn.inputs[0]);
  if (!is_long(out)) return false;
  return eqn.primitive == &broadcast_in_dim_p ||
         std::all_of(eqn.inputs.begin(), eqn.inputs.end(), is_long);
}

void MemberChoice::weigh(std::int64_t& most) {
  /// Of a set: elements of arrays (of which there may be more than integers count), and numbers of a member.
  struct Weight {
    double computed = 0, turned = 0, around = 0;
    std::int64_t numbers = 0, turned_numbers = 0, members = 0, kernels = 0;
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
    of(a.var()).around += static_cast<double>(jaxpr_.aval(a).size());
  };
  for (Var v = 0; v < jaxpr_.num_inputs(); ++v) surround(Atom::var(v));
  for (const Atom& a : jaxpr_.outs()) surround(a);
  for (std::size_t e = 0; e < role_.size(); ++e) {
    if (role_[e] != MemberRole::none) continue;
    for (const Atom& a : jaxpr_.eqns()[e].inputs) surround(a);
    for (const Var v : jaxpr_.eqns()[e].outputs) surround(Atom::var(v));
  }
  // Numbers of members are put in their places where they leave, in whatever order.
  const auto turns_what_leaves = [&](const Eqn& eqn) {
    return eqn.primitive == &transpose_p && is_around[static_cast<std::size_t>(eqn.outputs[0])];
  };
  for (std::size_t e = 0; e < role_.size(); ++e) {
    const Eqn& eqn = jaxpr_.eqns()[e];
    if (role_[e] == MemberRole::none) continue;
    const Atom out = Atom::var(eqn.outputs[0]);
    Weight& w = of(out.var());
    const std::int64_t numbers = roles_.numbers(out.var()), elements = jaxpr_.aval(out).size();
    const std::int64_t steps = roles_.steps(eqn, role_[e]);
    const std::int64_t members = elements / numbers;
    w.members = std::max(w.members, members);
    w.numbers += steps;
    w.computed += static_cast<double>(members) * static_cast<double>(steps);
    w.kernels += has_own_kernel(role_[e], eqn) ? 1 : 0;
    if (role_[e] == MemberRole::element || repeats_only(eqn) || keeps_vectors(eqn) ||
        turns_what_leaves(eqn) || (role_[e] == MemberRole::product && !roles_.is_of_members(eqn)))
      continue;
    w.turned += static_cast<double>(elements);
    w.turned_numbers += numbers;
  }
  for (const Weight& w : weights) {
    const std::int64_t allowed = std::min(most, most_numbers(w.members, w.kernels));
    chosen_.push_back(2 * w.computed >= 3 * w.around && 2 * w.turned >= w.around &&
                      w.turned_numbers >= kLeastTurned && w.numbers > 0 && w.numbers <= allowed);
    if (chosen_.back()) most -= w.numbers;
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
