// The axes of batches: those along which no equation tells elements apart, but for sums over all of them.
#include "compiler/passes/batch_axes.hpp"

#include "compiler/disjoint_sets.hpp"
#include "compiler/forms.hpp"
#include "core/integers.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLong = 17;  // axes along which lanes may run

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
    } else if (moves_to_known_places(eqn)) {
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
        passes = takes_whole_axis(eqn.params.as<SliceParams>(), from, d);
      } else if (p == &concatenate_p) {
        passes = eqn.params.as<ConcatenateParams>().dimension != at;
      } else if (p == &pad_p) {
        passes = pads_nothing(eqn.params.as<PadParams>().padding_config[d]);
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
        before = detail::wrapping_mul(before, from[d++]);
        made = detail::wrapping_mul(made, to[t++]);
      } else if (t == to.size() || (d < from.size() && before <= made)) {
        tell(x, to_int(d));
        before = detail::wrapping_mul(before, from[d++]);
      } else {
        tell(out, to_int(t));
        made = detail::wrapping_mul(made, to[t++]);
      }
    }
  }

  const Jaxpr& jaxpr_;
  std::vector<int> first_;  // by variable: the node of its first axis
  int count_ = 0;
  DisjointSets sets_;
  std::vector<bool> told_;
};

}  // namespace

bool moves_to_known_places(const Eqn& eqn) {
  if (eqn.primitive == &dynamic_update_slice_p)  // at a place that is known
    return std::all_of(eqn.inputs.begin() + 2, eqn.inputs.end(),
                       [](const Atom& a) { return a.is_literal(); });
  return one_of(eqn, {&reshape_p, &transpose_p, &slice_p, &broadcast_in_dim_p, &concatenate_p,
                      &pad_p, &rev_p});
}
std::optional<std::int64_t> axis_gone_along(const Eqn& eqn) {
  if (running(eqn.primitive) != nullptr) return eqn.params.as<CumulativeParams>().axis;
  if (eqn.primitive != &sort_p || eqn.inputs.size() != 1) return std::nullopt;
  return eqn.params.as<SortParams>().dimension;
}
std::size_t arrays_moved(const Eqn& eqn) {
  if (eqn.primitive == &concatenate_p) return eqn.inputs.size();
  return eqn.primitive == &dynamic_update_slice_p ? 2 : 1;
}

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

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
