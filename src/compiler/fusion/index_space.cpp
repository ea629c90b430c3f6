// Follows how the values of a kernel are indexed: by all indices, or by the flat one alone.
#include "compiler/fusion/index_space.hpp"

#include <algorithm>

#include "compiler/forms.hpp"
#include "core/integers.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// The last size that is not 1.
std::int64_t row_length(const Shape& shape) {
  std::int64_t row = 1;
  for (std::size_t d = shape.size(); d-- > 0 && row == 1;) row = shape[d];
  return row;
}

int nontrivial_dims(const Shape& shape) {
  int n = 0;
  for (const std::int64_t d : shape) n += d != 1;
  return n;
}

/// Whether indices of `from` give those of `to` without division.
bool keeps_indices(const Shape& from, const Shape& to) {
  Shape a, b;
  for (const std::int64_t d : from)
    if (d != 1) a.push_back(d);
  for (const std::int64_t d : to)
    if (d != 1) b.push_back(d);
  std::size_t i = 0;
  for (const std::int64_t d : b) {  // each dimension of `to` is a product of dimensions of `from`
    std::int64_t n = 1;
    while (n < d && i < a.size()) n *= a[i++];
    if (n != d) return false;
  }
  return i == a.size();
}

/// Whether elements that an equation moves are found by the flat index: those of one row, or of a number.
bool moves_flat(const Jaxpr& jaxpr, const Eqn& eqn, const Shape& shape) {
  return nontrivial_dims(shape) <= 1 ||
         (eqn.primitive == &broadcast_in_dim_p && jaxpr.aval(eqn.inputs[0]).size() == 1);
}

/// Follows how a kernel's values are indexed: by all indices or by the flat one only.
class IndexWalk {
 public:
  IndexWalk(const Jaxpr& jaxpr, const Kernel& kernel, const std::vector<int>& producer,
            bool last_is_known = false)
      : jaxpr_(jaxpr), kernel_(kernel), producer_(producer), last_is_known_(last_is_known) {}

  /// True when the value can be had from the flat index alone, or with that of the last dimension if that is known.
  bool flat(Var v) {
    Vars seen;
    const bool all = for_each_member(v, seen_flat_, [&](Var x, const Eqn& eqn, Vars& left) {
      seen.push_back(x);
      const Form form = form_of(jaxpr_, eqn);
      if (form == Form::reduction) return true;  // computed before
      if (form != Form::element && form != Form::reshape) return is_flat(eqn, jaxpr_.aval(x).shape);
      for (const Atom& a : eqn.inputs)
        if (a.is_var()) left.push_back(a.var());
      return true;
    });
    for (std::size_t i = 0; !all && i < seen.size(); ++i) seen_flat_.erase(seen[i]);
    return all;
  }

  /// True when all that it reads are rows near each other, or the same element or elements of each row.
  bool by_rows(Var v) {
    return for_each_member(v, seen_by_rows_, [&](Var x, const Eqn& eqn, Vars& left) {
      const Shape& shape = jaxpr_.aval(x).shape;
      const Form f = form_of(jaxpr_, eqn);
      if (f == Form::reduction) return false;
      const bool moves = f != Form::element && f != Form::reshape &&
                         !one_of(eqn, {&broadcast_in_dim_p, &iota_p, &rev_p});
      if (moves && (eqn.primitive != &slice_p || !takes_near_rows(eqn, shape))) return false;
      for (const Atom& a : eqn.inputs) {
        if (!a.is_var()) continue;
        // What lies in memory is found there by its number, whatever the shape.
        if (f == Form::reshape && member(a.var()) >= 0 &&
            !keeps_indices(shape, jaxpr_.aval(a).shape))
          return false;
        left.push_back(a.var());
      }
      return true;
    });
  }

  /// The same with all indices known. Reshapes that lose them ask for `forced` to be stored.
  void full(Var v) {
    for_each_member(v, seen_full_, [&](Var x, const Eqn& eqn, Vars& left) {
      const Form f = form_of(jaxpr_, eqn);
      for (const Atom& a : eqn.inputs) {
        if (!a.is_var() || f == Form::reduction) continue;
        if (f == Form::reshape && !keeps_indices(jaxpr_.aval(x).shape, jaxpr_.aval(a).shape)) {
          const std::set<Var> before = seen_flat_;
          if (!flat(a.var()) && member(a.var()) >= 0) forced.insert(member(a.var()));
          seen_flat_ = before;
        } else {
          left.push_back(a.var());
        }
      }
      return true;
    });
  }

  /// A result that is something with longer rows under another shape: that is stored, and goes along its own.
  void root(Var v) {
    const int e = member(v);
    if (e < 0 || form_of(jaxpr_, eqn(e)) != Form::reshape) return;
    const Atom& a = eqn(e).inputs[0];
    const int of = a.is_var() ? member(a.var()) : -1;
    if (of >= 0 && is_fusible(form_of(jaxpr_, eqn(of))) &&
        row_length(jaxpr_.aval(a).shape) > row_length(jaxpr_.aval(v).shape))
      forced.insert(of);
  }

  std::set<int> forced;

 private:
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int member(Var v) const {
    const int e = producer_[static_cast<std::size_t>(v)];
    return e >= 0 && kernel_.members.contains(e) ? e : -1;
  }
  /// Calls use(x, eqn, left) for v and what that adds to `left`, if a member computes it and it was not seen; false where
  /// one of these calls says so. A chain may be longer than the stack.
  template <class Use>
  bool for_each_member(Var v, std::set<Var>& seen, const Use& use) {
    Vars left = {v};
    while (!left.empty()) {
      v = left.back();
      left.pop_back();
      const int e = member(v);
      if (e >= 0 && seen.insert(v).second && !use(v, eqn(e), left)) return false;
    }
    return true;
  }
  /// The same as flat() for one that moves elements.
  bool is_flat(const Eqn& eqn, const Shape& shape) {
    if (!moves_flat(jaxpr_, eqn, shape)) return last_is_known_ && of_last(eqn, shape);
    for (const Atom& a : eqn.inputs) {
      if (a.is_var() && jaxpr_.aval(a).size() > 1) full(a.var());
    }
    return true;
  }
  /// Whether what a slice takes lies near each other in memory, row after row: a vector of it is in a few others.
  bool takes_near_rows(const Eqn& eqn, const Shape& out) const {
    constexpr std::int64_t kFurthest = 3;  // times as far from each other as in the slice
    const auto& p = eqn.params.as<SliceParams>();
    const Shape& from = jaxpr_.aval(eqn.inputs[0]).shape;
    std::int64_t apart = 1, apart_in_slice = 1;
    for (std::size_t d = out.size(), rows = dim_of_rows(out); d-- > rows;) {
      if (out[d] != 1 && stride_of(p, d) * apart > kFurthest * apart_in_slice) return false;
      apart = detail::wrapping_mul(apart, from[d]);
      apart_in_slice = detail::wrapping_mul(apart_in_slice, out[d]);
    }
    return true;
  }
  /// Whether it is the same in all rows: a row, or the indices in it.
  bool of_last(const Eqn& eqn, const Shape& shape) const {
    const Shape& rows = kernel_.shape;
    if (shape != rows) return false;
    const std::size_t last = inner_dim(rows);
    if (eqn.primitive == &iota_p)
      return eqn.params.as<IotaParams>().dimension == static_cast<std::int64_t>(last);
    if (eqn.primitive != &broadcast_in_dim_p) return false;
    const Shape& from = jaxpr_.aval(eqn.inputs[0]).shape;
    const Shape& dims = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (from[d] != 1 && dims[d] != static_cast<std::int64_t>(last)) return false;
    }
    return true;
  }
  const Jaxpr& jaxpr_;
  const Kernel& kernel_;
  const std::vector<int>& producer_;
  bool last_is_known_;
  std::set<Var> seen_flat_, seen_full_, seen_by_rows_;
};

}  // namespace

Atoms columns_of_root(const Jaxpr& jaxpr, const Kernel& kernel, const std::vector<int>& producer,
                      Var root) {
  if (!kernel.woven.contains(root)) return {Atom::var(root)};
  return jaxpr.eqns()[static_cast<std::size_t>(producer[static_cast<std::size_t>(root)])].inputs;
}

bool stacks_parts(const Jaxpr& jaxpr, const Kernel& kernel, const std::vector<int>& producer) {
  return std::any_of(kernel.woven.begin(), kernel.woven.end(), [&](Var v) {
    const int e = producer[static_cast<std::size_t>(v)];
    return stacks(jaxpr, jaxpr.eqns()[static_cast<std::size_t>(e)]);
  });
}

void store_before_reshapes(const Jaxpr& jaxpr, const std::vector<int>& producer,
                           std::set<int>& forced) {
  std::vector<bool> needs_indices;  // by equation: the flat one will not do
  for (const Eqn& eqn : jaxpr.eqns()) {
    const Form form = form_of(jaxpr, eqn);
    const bool by_element = form == Form::element || form == Form::reshape;
    needs_indices.push_back(form == Form::index &&
                            !moves_flat(jaxpr, eqn, jaxpr.aval(eqn.outputs[0]).shape));
    for (const Atom& a : eqn.inputs) {
      const int p = a.is_var() ? producer[static_cast<std::size_t>(a.var())] : -1;
      if (!by_element || p < 0 || !needs_indices[static_cast<std::size_t>(p)] || forced.contains(p))
        continue;
      if (form == Form::reshape &&
          !keeps_indices(jaxpr.aval(eqn.outputs[0]).shape, jaxpr.aval(a).shape))
        forced.insert(p);
      else needs_indices.back() = true;
    }
  }
}

void index_kernel(const Jaxpr& jaxpr, Kernel& kernel, const std::vector<int>& producer,
                  std::set<int>& forced) {
  if (kernel.can_be_cut) {
    kernel.linear = true;
    IndexWalk walk(jaxpr, kernel, producer);
    for (const int e : kernel.reads)
      walk.flat(jaxpr.eqns()[static_cast<std::size_t>(e)].outputs[0]);
    forced.insert(walk.forced.begin(), walk.forced.end());
    return;
  }
  Vars starts;
  for (const Var v : kernel.roots) {
    for (const Atom& a : columns_of_root(jaxpr, kernel, producer, v)) {
      if (a.is_var()) starts.push_back(a.var());
    }
  }
  starts.insert(starts.end(), kernel.epilogue.begin(), kernel.epilogue.end());
  std::vector<int> folds = kernel.reductions;
  folds.insert(folds.end(), kernel.columns.begin(), kernel.columns.end());
  for (const int e : folds) {
    const Atom& a = jaxpr.eqns()[static_cast<std::size_t>(e)].inputs[0];
    if (a.is_var()) starts.push_back(a.var());
  }
  IndexWalk walk(jaxpr, kernel, producer);
  kernel.linear = std::all_of(starts.begin(), starts.end(), [&](Var v) { return walk.flat(v); });
  if (!kernel.linear) {
    IndexWalk with_last(jaxpr, kernel, producer, true);
    kernel.alike_in_rows =
        std::all_of(starts.begin(), starts.end(), [&](Var v) { return with_last.flat(v); });
    kernel.of_rows =
        std::all_of(starts.begin(), starts.end(), [&](Var v) { return walk.by_rows(v); });
    for (const Var v : starts) walk.full(v);
    for (const Var v : kernel.roots) walk.root(v);
  }
  forced.insert(walk.forced.begin(), walk.forced.end());
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
