// Fusion of reductions: with what is computed of their results, with those that fold the same axes of the
// same space, and sums of rows with sums of columns.
#include <algorithm>
#include <iterator>

#include "compiler/fusion/fuser.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

void add_all(std::vector<int>& to, const std::vector<int>& more) {
  std::vector<int> all;
  std::set_union(to.begin(), to.end(), more.begin(), more.end(), std::back_inserter(all));
  to = std::move(all);
}

bool meet(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int x) { return std::binary_search(b.begin(), b.end(), x); });
}

// Whether one pass over both keeps no more alive than one over either: what reads nothing that the other reads would
// wait for it in vain, and all that waits for that, too.
template <class A, class B>
bool share_memory(const A& a, const B& b) {
  const auto within = [](const std::vector<int>& x, const std::vector<int>& y) {
    return std::includes(y.begin(), y.end(), x.begin(), x.end());
  };
  if (!within(a.stored, b.stored) && !within(b.stored, a.stored)) return false;
  return a.stored.empty() == b.stored.empty() || meet(a.given, b.given);
}

}  // namespace

Shape Fuser::reduced_shape(const Kernel& k) {
  Shape r;
  for (std::size_t d = 0; d < k.shape.size(); ++d) {
    if (!k.axes.contains(static_cast<std::int64_t>(d))) r.push_back(k.shape[d]);
  }
  return r;
}

// A cluster whose fold of the same space this one joins, or that becomes what follows it; -1: there is none.
int Fuser::cluster_for_reduction(int e, const std::set<int>& readers) {
  if (!options_.fuse) return -1;
  const Shape& operand = jaxpr_.aval(eqn(e).inputs[0]).shape;
  const Shape axes = reduction_axes(eqn(e));
  for (int k = static_cast<int>(clusters_.size()) - 1; k >= 0; --k) {
    const Cluster& c = cluster(k);
    const bool folds_alike = c.form == Form::reduction && c.kernel.shape == operand &&
                             c.kernel.axes == axes && c.kernel.reductions.size() < 6 &&
                             share_memory(work_of(e), c);
    const bool over_results = c.form == Form::element && c.kernel.woven.empty() &&
                              c.kernel.shape == shape(e) && !(operand == c.kernel.shape);
    if ((!folds_alike && !over_results) || !may_produce(k, readers)) continue;
    const Usage u = usage(e, k);
    if (u.other > 0 || u.mixed) continue;
    const bool sibling =
        options_.merge_siblings && folds_alike && (u.aligned == 0 || u.align == Align::reduced);
    const bool epilogue = over_results && u.align == Align::iteration && !crossed_.contains(e);
    if (epilogue || (sibling && share_work(e, c.kernel.reductions.front()))) return k;
  }
  return -1;
}

void Fuser::place_reduction(int e) {
  const std::set<int> readers = consumer_clusters(e);
  const Work& work = work_of(e);
  int best = cluster_for_reduction(e, readers);
  if (best < 0) best = new_cluster(e, Form::reduction);
  Cluster& c = cluster(best);
  if (c.form == Form::element) {  // what was computed from the reduced values becomes the epilogue
    c.form = Form::reduction;
    c.kernel.epilogue = std::move(c.kernel.roots);
    c.kernel.roots.clear();
    for (auto& [member, align] : c.align) {
      if (align == Align::iteration) align = Align::reduced;
    }
  }
  c.kernel.kind = Kernel::Kind::reduction;
  c.kernel.shape = jaxpr_.aval(eqn(e).inputs[0]).shape;
  c.kernel.axes = reduction_axes(eqn(e));
  c.kernel.reductions.push_back(e);
  add_all(c.stored, work.stored);
  add_all(c.given, work.given);
  c.kernel.members.insert(e);
  c.align[e] = Align::reduced;
  c.position = std::max(c.position, e);
  where_[static_cast<std::size_t>(e)].push_back(best);
  bool elsewhere = is_out_[static_cast<std::size_t>(e)];
  for (const int l : readers) elsewhere |= l != best;
  if (elsewhere) store(e, best);
  if (options_.fuse && options_.merge_siblings) merge_siblings(best);
  if (crossed_.contains(e)) merge_crossed(cluster_of(e));
}

void Fuser::merge_crossed(int k) {
  for (int other = 0; other < static_cast<int>(clusters_.size()); ++other) {
    if (other == k || cluster(other).form != Form::reduction) continue;
    const bool rows = folds_rows(cluster(k).kernel.axes, cluster(k).kernel.shape);
    const int to = rows ? k : other, from = rows ? other : k;
    const Cluster &a = cluster(to), &b = cluster(from);
    if (!(a.kernel.shape == b.kernel.shape) || !folds_rows(a.kernel.axes, a.kernel.shape) ||
        !folds_columns(b.kernel.axes, b.kernel.shape) || !b.kernel.epilogue.empty() ||
        a.kernel.reductions.size() + a.kernel.columns.size() + b.kernel.reductions.size() > 12 ||
        a.kernel.members.size() + b.kernel.members.size() > kMaxMembers ||
        reach_.reaches(to, from) || reach_.reaches(from, to) || !same_alignment(a, b) ||
        !share_work(a, b))
      continue;
    const auto crossed = [&](int f) { return crossed_.contains(f); };
    const auto places = [&](int f) { return finds_place(eqn(f)); };
    if (std::any_of(b.kernel.reductions.begin(), b.kernel.reductions.end(), places)) continue;
    if (!std::any_of(a.kernel.reductions.begin(), a.kernel.reductions.end(), crossed) ||
        !std::any_of(b.kernel.reductions.begin(), b.kernel.reductions.end(), crossed))
      continue;
    std::vector<int>& columns = cluster(from).kernel.columns;
    columns = std::move(cluster(from).kernel.reductions);
    cluster(from).kernel.reductions.clear();
    absorb(to, from);
    if (to != k) return;
  }
}

bool Fuser::folds_columns(const Shape& axes, const Shape& shape) {
  return axes.size() + 1 == shape.size() &&
         !axes.contains(static_cast<std::int64_t>(shape.size()) - 1);
}

void Fuser::find_crossed() {
  std::vector<int> candidates;
  for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
    if (forms_[e] != Form::reduction || !eqn(e).inputs[0].is_var() || finds_place(eqn(e))) continue;
    const Shape &operand = jaxpr_.aval(eqn(e).inputs[0]).shape, axes = reduction_axes(eqn(e));
    if (operand.size() < 2 || operand.back() < kLeastCrossedRow ||
        operand.num_elements() < kLeastCrossedColumn * operand.back() ||
        operand.num_elements() < kSmallSpace)
      continue;
    if (folds_rows(axes, operand) || folds_columns(axes, operand))
      candidates.push_back(static_cast<int>(e));
  }
  if (candidates.size() < 2 || candidates.size() > kMostCrossed) return;
  std::vector<Needs> needs;
  for (const int e : candidates) needs.push_back(find_needed(e));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    for (std::size_t j = 0; j < candidates.size(); ++j) {
      const int a = candidates[i], b = candidates[j];
      const Shape &s = jaxpr_.aval(eqn(a).inputs[0]).shape,
                  &t = jaxpr_.aval(eqn(b).inputs[0]).shape;
      if (!(s == t) || !folds_rows(reduction_axes(eqn(a)), s) ||
          !folds_columns(reduction_axes(eqn(b)), s) || needs[i].eqns[static_cast<std::size_t>(b)] ||
          needs[j].eqns[static_cast<std::size_t>(a)])
        continue;
      bool common = false;
      for (std::size_t v = 0; !common && v < needs[i].shared.size(); ++v)
        common = needs[i].shared[v] && needs[j].shared[v];
      if (common && share_work(a, b)) crossed_.insert({a, b});
    }
  }
}

Fuser::Needs Fuser::find_needed(int e) const {
  Needs needs{std::vector<bool>(jaxpr_.eqns().size()),
              std::vector<bool>(static_cast<std::size_t>(jaxpr_.num_vars()))};
  std::vector<int> todo = {e};
  const std::int64_t n = jaxpr_.aval(eqn(e).inputs[0]).size();
  while (!todo.empty()) {
    const int at = todo.back();
    todo.pop_back();
    for (const Atom& a : eqn(at).inputs) {
      if (!a.is_var()) continue;
      const int p = producer(a);
      const bool spread = p >= 0 && eqn(p).primitive == &broadcast_in_dim_p;
      if (jaxpr_.aval(a).size() == n && !spread)
        needs.shared[static_cast<std::size_t>(a.var())] = true;
      if (p < 0 || needs.eqns[static_cast<std::size_t>(p)]) continue;
      needs.eqns[static_cast<std::size_t>(p)] = true;
      todo.push_back(p);
    }
  }
  return needs;
}

const Fuser::Work& Fuser::work_of(int e) {
  const auto [found, is_new] = work_.try_emplace(e);
  if (!is_new) return found->second;
  Work& work = found->second;
  const std::int64_t n = jaxpr_.aval(eqn(e).inputs[0]).size();
  std::set<int> seen, stored, given;
  std::vector<int> todo = {e};
  for (std::size_t next = 0; next < todo.size(); ++next) {
    for (const Atom& a : eqn(todo[next]).inputs) {
      const int p = producer(a);
      if (p < 0 && a.is_var() && jaxpr_.aval(a).size() == n) given.insert(a.var());
      if (p < 0) continue;
      const bool fusible = is_fusible(form(p)) && size(p) == n && !forced_.contains(p);
      if ((!fusible || is_read_from_memory(p)) && is_much(p)) stored.insert(p);
      if (fusible && seen.size() < kMaxMembers && seen.insert(p).second) todo.push_back(p);
    }
  }
  work.eqns.assign(seen.begin(), seen.end());
  work.stored.assign(stored.begin(), stored.end());
  work.given.assign(given.begin(), given.end());
  for (const int p : work.eqns) work.cost += element_costs_[static_cast<std::size_t>(p)];
  return work;
}

bool Fuser::share_work(int a, int b) {
  if (a == b) return true;
  const Work &x = work_of(a), &y = work_of(b);
  const int less = std::min(x.cost, y.cost);
  if (less <= kLittleWork) return true;
  std::vector<int> both;
  std::set_intersection(x.eqns.begin(), x.eqns.end(), y.eqns.begin(), y.eqns.end(),
                        std::back_inserter(both));
  int common = 0;
  for (const int e : both) common += element_costs_[static_cast<std::size_t>(e)];
  return 2 * common >= less;
}

bool Fuser::share_work(const Cluster& a, const Cluster& b) {
  const auto any = [](const Kernel& k) {
    return k.reductions.empty() ? k.columns.front() : k.reductions.front();
  };
  return share_work(any(a.kernel), any(b.kernel));
}

bool Fuser::is_much(int e) const {
  std::int64_t bytes = 0;
  for (const Var v : eqn(e).outputs) bytes += weight_of(jaxpr_.aval(v));
  return bytes >= kMuchForOne && !is_out_[static_cast<std::size_t>(e)];
}

void Fuser::merge_siblings(int k) {
  for (int other = 0; other < static_cast<int>(clusters_.size()); ++other) {
    Cluster &a = cluster(k), &b = cluster(other);
    if (other == k || b.form != Form::reduction || !(b.kernel.shape == a.kernel.shape) ||
        !(b.kernel.axes == a.kernel.axes) || !share_memory(a, b))
      continue;
    if (a.kernel.reductions.size() + b.kernel.reductions.size() > 6 ||
        a.kernel.members.size() + b.kernel.members.size() > kMaxMembers)
      continue;
    if (reach_.reaches(k, other) || reach_.reaches(other, k) || !same_alignment(a, b)) continue;
    if (!share_work(a, b)) continue;
    absorb(k, other);
  }
}

bool Fuser::same_alignment(const Cluster& a, const Cluster& b) {
  return std::all_of(b.align.begin(), b.align.end(), [&](const auto& entry) {
    const auto found = a.align.find(entry.first);
    return found == a.align.end() || found->second == entry.second;
  });
}

void Fuser::absorb(int k, int other) {
  Cluster &a = cluster(k), &b = cluster(other);
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(a.kernel.roots, b.kernel.roots);
  append(a.kernel.reductions, b.kernel.reductions);
  append(a.kernel.columns, b.kernel.columns);
  append(a.kernel.epilogue, b.kernel.epilogue);
  a.kernel.members.insert(b.kernel.members.begin(), b.kernel.members.end());
  a.lowest = std::min(a.lowest, b.lowest);
  a.highest = std::max(a.highest, b.highest);
  a.calls += b.calls;
  a.align.insert(b.align.begin(), b.align.end());
  a.feeds.insert(b.feeds.begin(), b.feeds.end());
  add_all(a.stored, b.stored);
  add_all(a.given, b.given);
  a.position = std::max(a.position, b.position);
  for (std::size_t c = 0; c < clusters_.size(); ++c) {
    if (reach_.reaches(static_cast<int>(c), other) && clusters_[c].feeds.erase(other) != 0)
      clusters_[c].feeds.insert(k);
  }
  reach_.merge(k, other);
  used_ = -1;
  std::set<int> evaluated = b.kernel.members;
  if (b.kernel.eqn >= 0) evaluated.insert(b.kernel.eqn);
  for (const int e : evaluated) {
    auto& at = where_[static_cast<std::size_t>(e)];
    const auto found = std::find(at.begin(), at.end(), other);
    if (found == at.end()) continue;
    if (std::find(at.begin(), at.end(), k) == at.end()) *found = k;
    else at.erase(found);
  }
  b = Cluster();
  b.form = Form::ops;  // nothing is left of it
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
