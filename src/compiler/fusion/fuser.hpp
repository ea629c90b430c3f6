// The state of fusion, which fuse.cpp, fuse_reductions.cpp, fuse_products.cpp and fuse_order.cpp work
// on.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/fusion/costs.hpp"
#include "compiler/fusion/fuse.hpp"
#include "compiler/fusion/reachability.hpp"
#include "compiler/fusion/schedule.hpp"
#include "compiler/plan/segments.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

class Fuser {
 public:
  /// `forced`: equations whose results must be stored.
  Fuser(const Jaxpr& jaxpr, const PlanOptions& options, const std::set<int>& forced,
        const std::set<int>& late_updates);
  Fusion run();

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
  const Shape& shape(int e) const;
  std::int64_t size(int e) const { return shape(e).num_elements(); }
  const std::vector<Use>& uses(int e) const { return uses_[static_cast<std::size_t>(e)]; }
  Cluster& cluster(int k) { return clusters_[static_cast<std::size_t>(k)]; }

  // The cost of an element with all that would be recomputed for it. Single elements are computed
  // outside the loops over larger values, but in a chain of them each recomputes those before.
  void find_costs();
  Align align_of(const Use& use, int e, int k) const;
  // Whether it is a broadcast that repeats nothing: a reshape in all but its name.
  bool adds_dimensions(int e) const;
  // Whether each of so many elements is looked up at a place that e gives, or a coordinate of it: at the same index.
  bool gives_places(const Use& use, int e, std::int64_t elements) const;
  // Whether it computes where short rows begin that are looked up.
  bool is_place_of_rows(int e) const;
  bool is_table_of_rows(int e) const;  // of which columns are taken
  // Whether it looks up short rows, of which a cluster takes columns at its own index.
  bool is_taken_by_columns(int e, const Cluster& c) const;
  // Whether it puts columns side by side in rows, or parts one after the other, in the kernel that makes them.
  bool weaves(int e) const {
    return options_.weave_columns && (compiler::weaves(jaxpr_, eqn(e)) || stacked_.contains(e));
  }
  // Parts that have something in common are made by one kernel, which stores each of them where it will lie.
  void find_stacked();
  bool have_much_in_common(const Atoms& parts) const;
  // Whether the cluster stores rows that an equation puts together of their columns.
  bool is_woven(const Cluster& c, int e) const;
  // The loops that store an equation's results.
  const Shape& space(int e) const;
  std::set<int> consumer_clusters(int e) const;
  void add_feed(int from, int to);
  // Whether cluster k may compute and store what these clusters read: none of them comes before k.
  bool may_produce(int k, const std::set<int>& readers);
  struct Usage {
    int aligned = 0, other = 0;
    bool mixed = false;      // aligned in two ways
    bool expanding = false;  // evaluated more often than it has elements
    Align align = Align::other;
  };
  bool adds_border(int e) const;
  bool is_put_together(int e, int k) const;
  Usage usage(int e, int k);
  // The cost up to which an equation is recomputed rather than stored.
  int cheap(int e) const { return cheap_[static_cast<std::size_t>(e)]; }
  void find_cheap();
  // What it takes to make an element of a large array of small ones, if that is little; else 0.
  int cost_of_small(int e) const;
  // Single elements are computed once per kernel, outside its loops.
  bool recomputable(int e) const;
  // Whether a column is only put beside what is much wider, as where rows are rolled or wrap around: a lane of a row reads it,
  // and stored first it would be a pass over a line of each row.
  bool is_edge_of_rows(int e) const;
  // Whether one of the kernels that read e, all at their own index, can store it for the others: a function of few
  // elements need not be computed twice to save a kernel.
  bool is_at_hand(int e, const std::set<int>& readers);
  // Whether k can evaluate e wherever it needs it without doing expensive work twice.
  bool can_inline(int e, int k);
  // Whether a use computes e anew for each row of something much larger: as b is in a + b[None, :]. The
  // same for each column is computed once per row.
  bool repeats(const Use& use, int e) const;
  bool trivial(int e) const {
    return form(e) == Form::reshape || costs_[static_cast<std::size_t>(e)] == 0;
  }
  // LLVM is superlinear in the size of a function, but loops over elements at one index can be cut into
  // functions; single numbers, which are computed outside the loop, cannot.
  bool has_room(const Cluster& c, int e) const;
  // What an equation would be in functions that a cluster is cut into: a part of these; read before them, at any
  // index; or nothing of the kind.
  enum class Part { of_function, read, none };
  Part part_of(int e, const Cluster& c) const;
  static bool is_of_calls(const Cluster& c) {
    return c.calls >= kManyCalls && kFewCalls * c.calls > c.kernel.members.size();
  }
  bool is_wide(const Cluster& c) const {
    const std::size_t members = c.kernel.members.size();
    const std::size_t width = is_of_calls(c) ? kLeastWidthOfCalls : kLeastWidth;
    return c.form == Form::element && members < kMaxSideBySide &&
           members >= width * static_cast<std::size_t>(c.highest - c.lowest + 1);
  }
  bool is_cut(const Cluster& c) const {
    return options_.segments && c.form == Form::element && c.uncut == 0;
  }
  static bool is_plain(const Cluster& c) {
    return c.kernel.woven.empty() && c.kernel.reads.empty();
  }
  // What is read at other indices and what is put together of columns pays for the way over memory between functions where
  // much is called, and where a kernel has become too large otherwise.
  static bool pays_for_cuts(const Cluster& c) {
    return is_of_calls(c) || c.kernel.members.size() >= kMaxSideBySide;
  }
  bool is_better_cut(const Cluster& c) const {
    const bool pays = c.kernel.members.size() >= kLeastCut && (c.outgrew || pays_for_cuts(c));
    return c.form == Form::element && c.uncut == 0 && (is_plain(c) || pays);
  }
  void insert(int e, Cluster& c);
  void add_member(int e, int k);
  int new_cluster(int e, Form f);
  void store(int e, int k);
  void place(int e);

  // ---- elementwise and indexing equations
  void place_element(int e);
  void make_root(int e, const std::set<int>& readers);
  // No value of the kernel's space can join it any more.
  bool is_full(const Cluster& c) const;
  // That its roots put together.
  std::size_t columns_of(const Cluster& c) const;
  bool may_root(int k, int e, const std::set<int>& readers);
  // Whether a kernel that stores e along with what it stores for others keeps much memory alive.
  bool piles_up(int k, int e, const std::set<int>& readers);
  // Whether both are columns of one array, which is read once for them.
  bool is_column_beside(int e, int other) const;
  bool is_read_by(int e, const std::set<int>& clusters) const;

  // ---- reductions (fuse_reductions.cpp)
  static Shape reduced_shape(const Kernel& k);
  int cluster_for_reduction(int e, const std::set<int>& readers);
  void place_reduction(int e);
  int cluster_of(int e) const { return where_[static_cast<std::size_t>(e)].front(); }
  // Sums of the columns of a space whose rows another kernel folds.
  void merge_crossed(int k);
  static bool folds_rows(const Shape& axes, const Shape& shape) {
    return axes.size() == 1 && axes[0] + 1 == static_cast<std::int64_t>(shape.size());
  }
  static bool folds_columns(const Shape& axes, const Shape& shape);
  // Pairs of a sum along rows and one over columns that read or compute the same, neither needed for
  // the other.
  void find_crossed();
  // By equation and by variable: what a fold needs, and what it shares with others of its space.
  struct Needs {
    std::vector<bool> eqns, shared;
  };
  Needs find_needed(int e) const;
  // The arithmetic on elements of its operand's space that a reduction folds, by number: what is next to it, of
  // as many equations as a kernel has.
  struct Work {
    std::vector<int> eqns;
    int cost = 0;
    std::vector<int> stored;  // large arrays that it reads, by the equations that make them
    std::vector<int> given;   // inputs of the program that it reads, of its operand's size
  };
  const Work& work_of(int e);
  // Whether somebody can read the result of an equation only where it is stored.
  bool is_read_from_memory(int e) {
    const auto any = [](const std::vector<Use>& uses, const auto& reads) {
      return std::any_of(uses.begin(), uses.end(), reads);
    };
    return any(barrier_uses_[static_cast<std::size_t>(e)],
               [&](const Use& u) { return !reads_as_number(u, e); }) ||
           (has_cells_ && any(uses(e), [&](const Use& u) {
              return for_cells_[static_cast<std::size_t>(u.consumer)];
            }));
  }
  // Whether a loop over cells reads the number that e repeats, rather than an array of it.
  bool reads_as_number(const Use& use, int e);
  // Whether the result of an equation lies in memory under other shapes only.
  bool is_named_anew(int e) const;
  // Whether somebody reads e, which joins parts along its rows, from a place on that is not known.
  bool is_cut_anywhere(int e) const;
  // Whether columns are put together in memory before others read them.
  bool is_better_woven(int e) const;
  // Whether the result of an equation is much that is alive only until it has been read.
  bool is_much(int e) const;
  // Whether two folds of one space have most of what is not cheap in common, or little to do.
  bool share_work(int a, int b);
  bool share_work(const Cluster& a, const Cluster& b);
  // Another kernel that folds the same axes of the same space can be done in the same pass.
  void merge_siblings(int k);
  static bool same_alignment(const Cluster& a, const Cluster& b);
  void absorb(int k, int other);

  // ---- updates (fuse_updates.cpp)
  // Whether e, which writes a window over something, is a kernel that is made in place.
  bool is_better_stored_under_window(int e) const;
  // Updates of small parts of what is stored anyway are kernels that are made in place, too.
  void find_small_updates(std::set<int> refused);
  std::set<int> small_updates(const std::set<int>& refused) const;
  // As far as is known before it is placed.
  bool is_stored_anyway(int e) const;
  // Whether everybody else reads e for what is written there, by this update or a later one: before it is written over, as far
  // as is known before kernels are placed. Where it turns out that one comes later, all is placed again without the update.
  bool is_read_for_updates(int e, int update) const;

  // ---- products (fuse_products.cpp)
  // Cheap arithmetic on the results of products in loops goes into these.
  void join_epilogues();
  // The kernel that does nothing else than to go on with the result of product e; -1: none.
  int epilogue_of(int e);
  // A kernel that folds the rows of product e, with little arithmetic, among those that read it; -1: none.
  int fold_of(int e);
  bool folds_rows_of(int e, int k);
  // Sums of what stands at the extremes that a product's kernel finds join it, where all that they wait for are these.
  void join_chosen_sums(int e, int k);
  std::optional<ChosenSum> chosen_sum(int sum, int k) const;
  bool repeats_along_rows(const Atom& x, Var of_rows) const;
  bool needs_folds_of(int k, const Atom& x) const;
  bool is_product_in_loops(int e) const;
  void join_product(int e, int k);

  // ---- order (fuse_order.cpp)
  // Ordered effects happen in order. Known before earlier equations are placed, so that none of them
  // joins a kernel that must wait for an effect which needs it.
  void chain_effects(int first, int second);
  // Everything else that reads what the chain writes over is done before. False where it cannot be.
  bool names_memory(int e) const;
  bool read_before(const UpdateChain& chain);
  // What clusters leave in memory, and which of them read it.
  MemoryGraph memory_graph() const;
  // The clusters in an order that needs little memory.
  std::vector<Cluster> ordered();
  // The equations that read each input of the program.
  std::map<Var, std::vector<int>> readers_of_inputs() const;
  // The clusters of these equations besides k; none where k is not among them, or one must follow it.
  std::set<int> others_first(int k, const std::vector<int>& readers) const;
  // Lets loops that could write results over inputs wait for whatever else reads these: the inputs may
  // be donated. False where no loop has to wait.
  bool wait_for_readers();
  // As far as that takes no more memory.
  void let_loops_wait();

  const Jaxpr& jaxpr_;
  const PlanOptions& options_;
  const std::set<int>& forced_;  // equations whose results must be stored
  std::vector<int> producer_;
  std::vector<Form> forms_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> is_out_, in_memory_;
  std::vector<std::vector<Use>> barrier_uses_;  // those of uses_ that do not fuse
  // Of each equation: it repeats a number for a loop over cells. Whether there is one.
  std::vector<bool> for_cells_;
  bool has_cells_ = false;
  std::vector<int> element_costs_, cheap_, costs_;
  std::vector<int> levels_;  // how many equations wait for each other before one
  std::vector<int>
      of_small_;              // by equation: cost_of_small, until too many kernels would compute it
  std::map<int, Work> work_;  // of reductions, as far as asked for
  std::map<int, bool>
      cellular_;  // loops and branches that are loops over cells, as far as asked for
  std::set<int> small_updates_;
  std::set<int> stacked_;    // what is put together of such parts
  std::set<Var> looked_up_;  // short rows of which columns are taken where they are looked up
  std::set<int> crossed_;    // reductions that fold a space the other way than another one does
  std::vector<std::vector<int>> where_;  // the clusters that evaluate an equation
  std::vector<Cluster> clusters_;
  std::map<int, Usage> usages_;  // of equation `used_`, by cluster
  int used_ = -1;
  Reachability reach_;     // of clusters, along `feeds`
  std::vector<int> open_;  // clusters that may get further roots
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
