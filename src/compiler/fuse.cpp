// Greedy fusion from the results backwards. An equation joins the kernels of its consumers when
// recomputing it is cheap or only one of them needs it; else it becomes a root: its result is stored,
// if possible by a kernel that computes it anyway. Kernels that share an iteration space merge.
//
//   let b = exp a, c = reduce_sum[axes=(1,)] b, d = broadcast_in_dim c, e = div b d
//   ->  kernel 1: for each row: b = exp a, stored; c += b          kernel 2: e = b / c[row]
//
// A value is recomputed by the same arithmetic wherever it is recomputed, so results do not depend on
// these decisions.
#include "compiler/fuse.hpp"

#include <algorithm>

#include "compiler/index_space.hpp"
#include "compiler/reachability.hpp"
#include "compiler/segments.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr int kCheap = 6;  // recompute rather than store
constexpr int kCheapSingle = 64;
constexpr std::size_t kMaxMembers = 300;  // LLVM is superlinear in the size of a function
constexpr std::size_t kMaxRoots = 8, kMaxRootsSmall = 32;
constexpr std::int64_t kSmall = 4096;
constexpr std::int64_t kLarge = 1 << 14, kExpansion = 8;
/// Whether `to` elements are many for each of `from`; sizes go up to 2^62.
constexpr bool expands(std::int64_t from, std::int64_t to) { return to / kExpansion >= from; }
constexpr int kStridedCost = 12;  // a vector of elements that do not lie side by side

// One column of an array of several.
bool reads_with_stride(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.primitive != &slice_p) return false;
  const Shape &from = jaxpr.aval(eqn.inputs[0]).shape, &to = jaxpr.aval(eqn.outputs[0]).shape;
  return to.num_elements() > 1 && to.back() == 1 && from.back() > 1;
}

class Fuser {
 public:
  Fuser(const Jaxpr& jaxpr, const PlanOptions& options, const std::set<int>& forced)
      : jaxpr_(jaxpr), options_(options), forced_(forced), producer_(producers(jaxpr)) {
    const std::size_t n = jaxpr.eqns().size();
    uses_.resize(n);
    is_out_.assign(n, false);
    where_.resize(n);
    in_memory_.assign(n, false);
    for (const Eqn& eqn : jaxpr.eqns()) forms_.push_back(form_of(jaxpr, eqn));
    for (const auto& chain : options.updates) {
      for (const Update& u : chain) {
        Form& form = forms_[static_cast<std::size_t>(u.eqn)];
        if (form != Form::region) form = Form::kernel;
      }
    }
    for (std::size_t c = 0; c < n; ++c) {
      for (const Atom& a : eqn(c).inputs) {
        if (const int p = producer(a); p >= 0)
          uses_[static_cast<std::size_t>(p)].push_back({static_cast<int>(c), a.var()});
      }
    }
    for (const Atom& a : jaxpr.outs()) {
      if (const int p = producer(a); p >= 0) is_out_[static_cast<std::size_t>(p)] = true;
    }
    find_costs();
    if (options.fuse && options.both_ways) find_crossed();
  }

  Fusion run() {
    int next_effect = -1;
    for (int e = static_cast<int>(jaxpr_.eqns().size()) - 1; e >= 0; --e) {
      place(e);
      if (eqn(e).effect != Effect::ordered) continue;
      if (next_effect >= 0) chain_effects(e, next_effect);
      next_effect = e;
    }
    std::vector<bool> in_place;
    for (const auto& chain : options_.updates) in_place.push_back(read_before(chain));
    return {ordered(), in_memory_, std::move(in_place)};
  }

 private:
  struct Use {
    int consumer;
    Var var;
  };

  const Eqn& eqn(std::size_t e) const { return jaxpr_.eqns()[e]; }
  const Eqn& eqn(int e) const { return eqn(static_cast<std::size_t>(e)); }
  Form form(int e) const { return forms_[static_cast<std::size_t>(e)]; }
  int producer(const Atom& a) const {
    return a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
  }
  // One element where an equation has effects and no results.
  const Shape& shape(int e) const {
    static const Shape kNone;
    return eqn(e).outputs.empty() ? kNone : jaxpr_.aval(eqn(e).outputs[0]).shape;
  }
  std::int64_t size(int e) const { return shape(e).num_elements(); }
  const std::vector<Use>& uses(int e) const { return uses_[static_cast<std::size_t>(e)]; }
  Cluster& cluster(int k) { return clusters_[static_cast<std::size_t>(k)]; }

  // The cost of an element with all that would be recomputed for it. Single elements are computed
  // outside the loops over larger values, but in a chain of them each recomputes those before.
  void find_costs() {
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      int cost = element_cost(eqn(e)) + (reads_with_stride(jaxpr_, eqn(e)) ? kStridedCost : 0);
      for (const Atom& a : eqn(e).inputs) {
        const int p = producer(a);
        if (p < 0 || !is_fusible(form(p)) || forced_.contains(p)) continue;
        if (expands(size(p), size(static_cast<int>(e)))) continue;  // hoisted, or stored
        const int c = costs_[static_cast<std::size_t>(p)];
        if (uses(p).size() == 1 || c <= kCheap ||
            (size(static_cast<int>(e)) == 1 && recomputable(p)))
          cost = std::min(cost + c, 1 << 20);
      }
      costs_.push_back(cost);
    }
  }

  Align align_of(const Use& use, int e, int k) const {
    const Cluster& c = clusters_[static_cast<std::size_t>(k)];
    const Form f = form(use.consumer);
    if (f == Form::reduction) {
      const auto in = [&](const std::vector<int>& folded) {
        return std::find(folded.begin(), folded.end(), use.consumer) != folded.end();
      };
      return in(c.kernel.reductions) || in(c.kernel.columns) ? Align::iteration : Align::other;
    }
    if (is_woven(c, use.consumer)) return Align::iteration;
    const auto found = c.align.find(use.consumer);
    if (found == c.align.end()) return Align::other;
    if (f == Form::element && shape(e) == shape(use.consumer)) return found->second;
    if (f == Form::reshape) return found->second;
    return Align::other;
  }

  // Whether the cluster stores rows that an equation puts together of their columns.
  bool is_woven(const Cluster& c, int e) const {
    return !c.kernel.woven.empty() && weaves(jaxpr_, eqn(e)) &&
           c.kernel.woven.contains(eqn(e).outputs[0]);
  }
  // The loops that store an equation's results.
  const Shape& space(int e) const {
    return weaves(jaxpr_, eqn(e)) && eqn(e).inputs[0].is_var() ? jaxpr_.aval(eqn(e).inputs[0]).shape
                                                               : shape(e);
  }

  std::set<int> consumer_clusters(int e) const {
    std::set<int> all;
    for (const Use& u : uses(e)) {
      for (const int k : where_[static_cast<std::size_t>(u.consumer)]) all.insert(k);
    }
    return all;
  }

  void add_feed(int from, int to) {
    cluster(from).feeds.insert(to);
    reach_.add_edge(from, to);
  }

  // Whether cluster k may compute and store e: nothing that reads e's memory comes before k.
  bool may_produce(int k, int e) {
    for (const int l : consumer_clusters(e)) {
      if (l != k && reach_.reaches(l, k)) return false;
    }
    return true;
  }

  struct Usage {
    int aligned = 0, other = 0;
    bool mixed = false;      // aligned in two ways
    bool expanding = false;  // evaluated more often than it has elements
    Align align = Align::other;
  };
  Usage usage(int e, int k) const {
    Usage u;
    for (const Use& use : uses(e)) {
      const auto& at = where_[static_cast<std::size_t>(use.consumer)];
      if (std::find(at.begin(), at.end(), k) == at.end()) continue;
      const Align a = align_of(use, e, k);
      if (a == Align::other) {
        ++u.other;
        u.expanding |= size(use.consumer) > size(e);
      } else {
        u.mixed |= u.aligned > 0 && u.align != a;
        ++u.aligned;
        u.align = a;
      }
    }
    return u;
  }
  // Single elements are computed once per kernel, outside its loops.
  bool recomputable(int e) const {
    const int cost = costs_[static_cast<std::size_t>(e)];
    return cost <= kCheap || (size(e) == 1 && cost <= kCheapSingle);
  }

  // Whether k can evaluate e wherever it needs it without doing expensive work twice.
  bool can_inline(int e, int k) {
    if (!has_room(cluster(k), e)) return false;
    if (recomputable(e) || size(e) == 1) return true;
    const Usage u = usage(e, k);
    return !u.mixed && !u.expanding && (u.aligned > 0 ? 1 : 0) + u.other <= 1;
  }
  // Whether a use computes e anew for each row of something much larger: as b is in a + b[None, :]. The
  // same for each column is computed once per row.
  bool repeats(const Use& use, int e) const {
    if (costs_[static_cast<std::size_t>(e)] < 2 ||
        eqn(use.consumer).primitive != &broadcast_in_dim_p)
      return false;
    const std::int64_t to = size(use.consumer);
    const Shape& dims = eqn(use.consumer).params.as<BroadcastInDimParams>().broadcast_dimensions;
    return to >= kLarge && expands(size(e), to) && !dims.empty() && shape(e).back() > 1 &&
           dims.back() + 1 == static_cast<std::int64_t>(shape(use.consumer).size());
  }
  bool trivial(int e) const {
    return form(e) == Form::reshape || costs_[static_cast<std::size_t>(e)] == 0;
  }

  // LLVM is superlinear in the size of a function, but loops over elements at one index can be cut into
  // functions. `numbers`, which are computed outside, stay in one.
  bool has_room(const Cluster& c, int e) const {
    if (c.kernel.members.size() < kMaxMembers) return true;
    const bool cut = c.uncut == 0 && can_cut(jaxpr_, eqn(e), form(e), c.kernel.shape);
    if (!options_.segments || c.form != Form::element || !cut) return trivial(e) && !is_cut(c);
    return size(e) == c.kernel.shape.num_elements() || c.numbers < kMaxMembers;
  }
  bool is_cut(const Cluster& c) const {
    return options_.segments && c.form == Form::element && c.uncut == 0;
  }
  void insert(int e, Cluster& c) {
    if (!c.kernel.members.insert(e).second) return;
    if (!can_cut(jaxpr_, eqn(e), form(e), c.kernel.shape)) ++c.uncut;
    else if (size(e) != c.kernel.shape.num_elements()) ++c.numbers;
  }

  void add_member(int e, int k) {
    Cluster& c = cluster(k);
    const Usage u = usage(e, k);
    insert(e, c);
    c.align[e] = u.mixed || u.other > 0 ? Align::other : u.align;
    where_[static_cast<std::size_t>(e)].push_back(k);
  }

  int new_cluster(int e, Form f) {
    Cluster c;
    c.form = f;
    c.position = e;
    if (!eqn(e).outputs.empty()) c.kernel.shape = space(e);
    if (!is_full(c)) open_.push_back(static_cast<int>(clusters_.size()));
    clusters_.push_back(std::move(c));
    reach_.add_node();
    return static_cast<int>(clusters_.size()) - 1;
  }

  void store(int e, int k) {
    in_memory_[static_cast<std::size_t>(e)] = true;
    for (const int l : consumer_clusters(e)) {
      if (l != k) add_feed(k, l);
    }
  }

  void place(int e) {
    if (uses(e).empty() && !is_out_[static_cast<std::size_t>(e)] && eqn(e).effect == Effect::none)
      return;
    if (is_barrier(form(e))) {
      const int k = new_cluster(e, form(e));
      cluster(k).kernel.eqn = e;
      where_[static_cast<std::size_t>(e)].push_back(k);
      store(e, k);
    } else if (form(e) == Form::reduction) {
      place_reduction(e);
    } else {
      place_element(e);
    }
  }

  // ---- elementwise and indexing equations --------------------------------------------------------
  void place_element(int e) {
    bool needs_memory = is_out_[static_cast<std::size_t>(e)] || forced_.contains(e) ||
                        eqn(e).effect != Effect::none || !options_.fuse;
    for (const Use& u : uses(e)) needs_memory |= is_barrier(form(u.consumer)) || repeats(u, e);
    const std::set<int> readers = consumer_clusters(e);
    if (!needs_memory) {
      bool everywhere = readers.size() == 1 || recomputable(e);
      for (const int k : readers) everywhere = everywhere && can_inline(e, k);
      if (everywhere) {
        for (const int k : readers) add_member(e, k);
        return;
      }
    }
    make_root(e, readers);
  }

  void make_root(int e, const std::set<int>& readers) {
    int best = -1;
    const bool alone = options_.alone.contains(e);
    if (options_.fuse && !alone) {
      // A kernel that needs the value at its own index anyway ...
      for (const int k : readers) {
        if (may_root(k, e)) best = k;
      }
      // ... or any other over the same space, the newest first.
      std::erase_if(open_, [&](int k) { return is_full(cluster(k)); });
      for (auto k = open_.rbegin(); best < 0 && k != open_.rend(); ++k) {
        if (!readers.contains(*k) && may_root(*k, e)) best = *k;
      }
    }
    if (best < 0) best = new_cluster(e, Form::element);
    if (alone) std::erase(open_, best);
    Cluster& c = cluster(best);
    const Usage u = usage(e, best);
    const Align align = u.align == Align::reduced ? Align::reduced : Align::iteration;
    auto& roots = align == Align::reduced ? c.kernel.epilogue : c.kernel.roots;
    for (const Var v : eqn(e).outputs) roots.push_back(v);
    if (!(space(e) == shape(e))) c.kernel.woven.insert(eqn(e).outputs[0]);
    insert(e, c);
    // What is computed at other indices, too, asks that of its operands.
    c.align[e] = u.other > 0 ? Align::other : align;
    c.position = std::max(c.position, e);
    where_[static_cast<std::size_t>(e)].push_back(best);
    store(e, best);
  }

  // No value of the kernel's space can join it any more.
  bool is_full(const Cluster& c) const {
    if (c.form != Form::element && c.form != Form::reduction) return true;
    const std::size_t roots = c.kernel.roots.size() + c.kernel.epilogue.size();
    return roots >= kMaxRootsSmall || (c.kernel.members.size() >= kMaxMembers && !is_cut(c));
  }

  bool may_root(int k, int e) {
    Cluster& c = cluster(k);
    if (is_full(c) || !has_room(c, e)) return false;
    const Usage u = usage(e, k);
    if (u.mixed || (u.other > 0 && !recomputable(e))) return false;
    if (u.other > 0 && u.aligned > 0) return false;
    if (c.form == Form::element) {
      if (!(c.kernel.shape == space(e))) return false;
    } else if (weaves(jaxpr_, eqn(e))) {
      return false;
    } else if (u.align == Align::reduced) {
      if (!(reduced_shape(c.kernel) == shape(e))) return false;
    } else if (u.align != Align::iteration || !(c.kernel.shape == shape(e))) {
      return false;
    }
    const std::size_t roots = c.kernel.roots.size() + c.kernel.epilogue.size();
    if (size(e) > kSmall && roots >= kMaxRoots) return false;
    return may_produce(k, e);
  }

  // ---- reductions --------------------------------------------------------------------------------
  static Shape reduced_shape(const Kernel& k) {
    Shape r;
    for (std::size_t d = 0; d < k.shape.size(); ++d) {
      if (!k.axes.contains(static_cast<std::int64_t>(d))) r.push_back(k.shape[d]);
    }
    return r;
  }

  void place_reduction(int e) {
    const Shape& operand = jaxpr_.aval(eqn(e).inputs[0]).shape;
    const Shape axes = reduction_axes(eqn(e));
    const std::set<int> readers = consumer_clusters(e);
    int best = -1;
    if (options_.fuse) {
      for (int k = static_cast<int>(clusters_.size()) - 1; best < 0 && k >= 0; --k) {
        const Cluster& c = cluster(k);
        const bool folds_alike = c.form == Form::reduction && c.kernel.shape == operand &&
                                 c.kernel.axes == axes && c.kernel.reductions.size() < 6;
        const bool over_results = c.form == Form::element && c.kernel.woven.empty() &&
                                  c.kernel.shape == shape(e) && !(operand == c.kernel.shape);
        if (!folds_alike && !over_results) continue;
        const Usage u = usage(e, k);
        if (u.other > 0 || u.mixed) continue;
        const bool sibling =
            options_.merge_siblings && folds_alike && (u.aligned == 0 || u.align == Align::reduced);
        const bool epilogue = over_results && u.align == Align::iteration && !crossed_.contains(e);
        if ((sibling || epilogue) && may_produce(k, e)) best = k;
      }
    }
    if (best < 0) best = new_cluster(e, Form::reduction);
    Cluster& c = cluster(best);
    if (c.form ==
        Form::element) {  // what was computed from the reduced values becomes the epilogue
      c.form = Form::reduction;
      c.kernel.epilogue = std::move(c.kernel.roots);
      c.kernel.roots.clear();
      for (auto& [member, align] : c.align) {
        if (align == Align::iteration) align = Align::reduced;
      }
    }
    c.kernel.kind = Kernel::Kind::reduction;
    c.kernel.shape = operand;
    c.kernel.axes = axes;
    c.kernel.reductions.push_back(e);
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
  int cluster_of(int e) const { return where_[static_cast<std::size_t>(e)].front(); }

  // Sums of the columns of a space whose rows another kernel folds.
  void merge_crossed(int k) {
    for (int other = 0; other < static_cast<int>(clusters_.size()); ++other) {
      if (other == k || cluster(other).form != Form::reduction) continue;
      const bool rows = folds_rows(cluster(k).kernel.axes, cluster(k).kernel.shape);
      const int to = rows ? k : other, from = rows ? other : k;
      const Cluster &a = cluster(to), &b = cluster(from);
      if (!(a.kernel.shape == b.kernel.shape) || !folds_rows(a.kernel.axes, a.kernel.shape) ||
          !folds_columns(b.kernel.axes, b.kernel.shape) || !b.kernel.epilogue.empty() ||
          a.kernel.reductions.size() + a.kernel.columns.size() + b.kernel.reductions.size() > 8 ||
          a.kernel.members.size() + b.kernel.members.size() > kMaxMembers ||
          reach_.reaches(to, from) || reach_.reaches(from, to) || !same_alignment(a, b))
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
  static bool folds_rows(const Shape& axes, const Shape& shape) {
    return axes.size() == 1 && axes[0] + 1 == static_cast<std::int64_t>(shape.size());
  }
  static bool folds_columns(const Shape& axes, const Shape& shape) {
    return axes.size() + 1 == shape.size() &&
           !axes.contains(static_cast<std::int64_t>(shape.size()) - 1);
  }

  // Pairs of a sum along rows and one over columns that read or compute the same, neither needed for
  // the other.
  void find_crossed() {
    constexpr std::int64_t kLeastRow = 32, kLeastColumn = 16;
    constexpr std::size_t kMost = 200;
    std::vector<int> candidates;
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      if (forms_[e] != Form::reduction || !eqn(e).inputs[0].is_var() || finds_place(eqn(e)))
        continue;
      const Shape &operand = jaxpr_.aval(eqn(e).inputs[0]).shape, axes = reduction_axes(eqn(e));
      if (operand.size() < 2 || operand.back() < kLeastRow ||
          operand.num_elements() < kLeastColumn * operand.back() || operand.num_elements() < kSmall)
        continue;
      if (folds_rows(axes, operand) || folds_columns(axes, operand))
        candidates.push_back(static_cast<int>(e));
    }
    if (candidates.size() < 2 || candidates.size() > kMost) return;
    std::vector<std::set<int>> needed(candidates.size());  // equations
    std::vector<std::set<Var>> shared(candidates.size());  // variables of the operand's size
    for (std::size_t i = 0; i < candidates.size(); ++i)
      find_needed(candidates[i], needed[i], shared[i]);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      for (std::size_t j = 0; j < candidates.size(); ++j) {
        const int a = candidates[i], b = candidates[j];
        const Shape &s = jaxpr_.aval(eqn(a).inputs[0]).shape,
                    &t = jaxpr_.aval(eqn(b).inputs[0]).shape;
        if (!(s == t) || !folds_rows(reduction_axes(eqn(a)), s) ||
            !folds_columns(reduction_axes(eqn(b)), s) || needed[i].contains(b) ||
            needed[j].contains(a))
          continue;
        const bool common = std::any_of(shared[i].begin(), shared[i].end(),
                                        [&](Var v) { return shared[j].contains(v); });
        if (common) crossed_.insert({a, b});
      }
    }
  }
  void find_needed(int e, std::set<int>& needed, std::set<Var>& shared) const {
    std::vector<int> todo = {e};
    const std::int64_t n = jaxpr_.aval(eqn(e).inputs[0]).size();
    while (!todo.empty()) {
      const int at = todo.back();
      todo.pop_back();
      for (const Atom& a : eqn(at).inputs) {
        if (!a.is_var()) continue;
        const int p = producer(a);
        const bool spread = p >= 0 && eqn(p).primitive == &broadcast_in_dim_p;
        if (jaxpr_.aval(a).size() == n && !spread) shared.insert(a.var());
        if (p >= 0 && needed.insert(p).second) todo.push_back(p);
      }
    }
  }

  // Another kernel that folds the same axes of the same space can be done in the same pass.
  void merge_siblings(int k) {
    for (int other = 0; other < static_cast<int>(clusters_.size()); ++other) {
      Cluster &a = cluster(k), &b = cluster(other);
      if (other == k || b.form != Form::reduction || !(b.kernel.shape == a.kernel.shape) ||
          !(b.kernel.axes == a.kernel.axes))
        continue;
      if (a.kernel.reductions.size() + b.kernel.reductions.size() > 6 ||
          a.kernel.members.size() + b.kernel.members.size() > kMaxMembers)
        continue;
      if (reach_.reaches(k, other) || reach_.reaches(other, k) || !same_alignment(a, b)) continue;
      absorb(k, other);
    }
  }
  static bool same_alignment(const Cluster& a, const Cluster& b) {
    return std::all_of(b.align.begin(), b.align.end(), [&](const auto& entry) {
      const auto found = a.align.find(entry.first);
      return found == a.align.end() || found->second == entry.second;
    });
  }
  void absorb(int k, int other) {
    Cluster &a = cluster(k), &b = cluster(other);
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(a.kernel.roots, b.kernel.roots);
    append(a.kernel.reductions, b.kernel.reductions);
    append(a.kernel.columns, b.kernel.columns);
    append(a.kernel.epilogue, b.kernel.epilogue);
    a.kernel.members.insert(b.kernel.members.begin(), b.kernel.members.end());
    a.align.insert(b.align.begin(), b.align.end());
    a.feeds.insert(b.feeds.begin(), b.feeds.end());
    a.position = std::max(a.position, b.position);
    for (Cluster& c : clusters_) {
      if (c.feeds.erase(other) != 0) c.feeds.insert(k);
    }
    reach_.merge(k, other);
    for (auto& at : where_) {
      const auto found = std::find(at.begin(), at.end(), other);
      if (found == at.end()) continue;
      if (std::find(at.begin(), at.end(), k) == at.end()) *found = k;
      else at.erase(found);
    }
    b = Cluster();
    b.form = Form::ops;  // nothing is left of it
  }

  // ---- order -------------------------------------------------------------------------------------
  // Ordered effects happen in order. Known before earlier equations are placed, so that none of them
  // joins a kernel that must wait for an effect which needs it.
  void chain_effects(int first, int second) {
    const int k = where_[static_cast<std::size_t>(first)].front();
    const int l = where_[static_cast<std::size_t>(second)].front();
    if (k != l) add_feed(k, l);
  }

  // Everything else that reads what the chain writes over is done before. False where it cannot be.
  bool read_before(const UpdateChain& chain) {
    for (const Update& update : chain) {
      const Atom& old = eqn(update.eqn).inputs[static_cast<std::size_t>(update.operand)];
      const int k = where_[static_cast<std::size_t>(update.eqn)].front();
      for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
        const auto& in = eqn(e).inputs;
        const auto reads = std::count_if(in.begin(), in.end(), [&](const Atom& a) {
          return a.is_var() && old.is_var() && a.var() == old.var();
        });
        if (reads == 0) continue;
        if (static_cast<int>(e) == update.eqn) {
          if (reads > 1) return false;
          continue;
        }
        // Another name for the same memory may be read at any time.
        const Form f = form(static_cast<int>(e));
        if (f == Form::barrier || (f == Form::reshape && in_memory_[e])) return false;
        for (const int reader : where_[e]) {
          if (reader == k || reach_.reaches(k, reader)) return false;
          add_feed(reader, k);
        }
      }
    }
    return true;
  }

  std::vector<Cluster> ordered() {
    std::vector<int> waiting(clusters_.size(), 0);
    for (const Cluster& c : clusters_) {
      for (const int next : c.feeds) ++waiting[static_cast<std::size_t>(next)];
    }
    std::set<std::pair<int, int>> ready;  // by position
    for (std::size_t k = 0; k < clusters_.size(); ++k) {
      if (waiting[k] == 0) ready.insert({clusters_[k].position, static_cast<int>(k)});
    }
    std::vector<Cluster> out;
    std::size_t done = 0;
    while (!ready.empty()) {
      const int k = ready.begin()->second;
      ready.erase(ready.begin());
      for (const int next : cluster(k).feeds) {
        if (--waiting[static_cast<std::size_t>(next)] == 0)
          ready.insert({cluster(next).position, next});
      }
      ++done;
      if (cluster(k).form != Form::ops) out.push_back(std::move(cluster(k)));
    }
    if (done != clusters_.size()) throw InternalError("fusion made a cycle of kernels");
    return out;
  }

  const Jaxpr& jaxpr_;
  const PlanOptions& options_;
  const std::set<int>& forced_;  // equations whose results must be stored
  std::vector<int> producer_;
  std::vector<Form> forms_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> is_out_, in_memory_;
  std::vector<int> costs_;
  std::set<int> crossed_;  // reductions that fold a space the other way than another one does
  std::vector<std::vector<int>> where_;  // the clusters that evaluate an equation
  std::vector<Cluster> clusters_;
  Reachability reach_;     // of clusters, along `feeds`
  std::vector<int> open_;  // clusters that may get further roots
};

}  // namespace

Fusion fuse(const Jaxpr& jaxpr, const PlanOptions& options) {
  const std::vector<int> producer = producers(jaxpr);
  std::set<int> forced = options.alone;
  while (true) {
    Fusion fusion = Fuser(jaxpr, options, forced).run();
    const std::size_t before = forced.size();
    for (Cluster& c : fusion.clusters) {
      c.kernel.can_be_cut = c.form == Form::element && c.uncut == 0 && c.kernel.woven.empty();
      if (!is_barrier(c.form)) index_kernel(jaxpr, c.kernel, producer, forced);
    }
    if (forced.size() == before) return fusion;
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
