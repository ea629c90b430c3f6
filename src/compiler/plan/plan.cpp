// From fused clusters to steps over values in memory.
#include "compiler/plan/plan.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "compiler/emit/dot_tiles.hpp"
#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/fuse.hpp"
#include "compiler/fusion/index_space.hpp"
#include "compiler/plan/segments.hpp"
#include "compiler/plan/turned_rows.hpp"
#include "compiler/plan/updates.hpp"
#include "compiler/plan/windows.hpp"
#include "core/check.hpp"
#include "core/integers.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Which clusters read a variable, in the order in which they run.
class Readers {
 public:
  Readers(const Jaxpr& jaxpr, const Fusion& fusion)
      : of_(static_cast<std::size_t>(jaxpr.num_vars())), returned_(of_.size(), false) {
    for (std::size_t c = 0; c < fusion.clusters.size(); ++c) {
      const Kernel& k = fusion.clusters[c].kernel;
      const auto note = [&](int e) {
        for (const Atom& a : jaxpr.eqns()[static_cast<std::size_t>(e)].inputs)
          if (a.is_var()) of_[static_cast<std::size_t>(a.var())].push_back({c, e});
      };
      std::for_each(k.members.begin(), k.members.end(), note);
      if (k.eqn >= 0 && !k.members.contains(k.eqn)) note(k.eqn);
    }
    for (const Atom& out : jaxpr.outs())
      if (out.is_var()) returned_[static_cast<std::size_t>(out.var())] = true;
  }
  /// Whether `update` reads v alone in its cluster, once, and last of all.
  bool end_with(int update, Var v) const {
    const auto& reads = of_[static_cast<std::size_t>(v)];
    return !returned_[static_cast<std::size_t>(v)] && !reads.empty() &&
           reads.back().second == update &&
           (reads.size() == 1 || reads[reads.size() - 2].first < reads.back().first);
  }

 private:
  std::vector<std::vector<std::pair<std::size_t, int>>> of_;  // clusters and equations
  std::vector<bool> returned_;
};

class Planner {
 public:
  Planner(const Jaxpr& jaxpr, const PlanOptions& options, Plan& plan)
      : options_(options),
        plan_(plan),
        producer_(producers(jaxpr)),
        uses_(detail::use_counts(jaxpr)) {
    plan.scopes.push_back(
        {jaxpr, std::vector<int>(static_cast<std::size_t>(jaxpr.num_vars()), -1)});
    plan.num_inputs = jaxpr.num_inputs();
    plan.num_outputs = jaxpr.num_outputs();
  }

  void run() {
    for (int i = 0; i < jaxpr().num_inputs(); ++i) {
      value_of(i) = add_value(jaxpr().aval(i), {Location::Kind::argument, i});
    }
    Fusion fusion = fuse(jaxpr(), options_);
    for (std::size_t e = 0; e < jaxpr().eqns().size(); ++e) {
      if (!fusion.in_memory[e]) continue;
      for (const Var v : jaxpr().eqns()[e].outputs) value_of(v) = add_value(jaxpr().aval(v), {});
    }
    alias(fusion);
    plan_.updates_in_place = fusion.updates_in_place;
    for (const auto& chain : options_.updates) {
      const auto result = [&](const Update& u) -> int& {
        return value_of(eqn(u.eqn).outputs[static_cast<std::size_t>(u.result)]);
      };
      const int last = result(chain.back());
      for (const Update& u : chain) result(u) = last;
      const Update& first = chain.front();
      begins_[{first.eqn, first.operand}] = last;
      // In a loop or a branch, what the first one updates may come to lie there, too.
      overwritten_.insert(last);
      if (const Atom& a = eqn(first.eqn).inputs[static_cast<std::size_t>(first.operand)];
          a.is_var())
        overwritten_.insert(value_of(a.var()));
    }
    names_.assign(plan_.values.size(), 0);
    for (const int v : scope().value_of) {
      if (v >= 0) ++names_[static_cast<std::size_t>(v)];
    }
    update_in_place(fusion);
    place_results();
    if (options_.cells) find_cells(fusion);
    for (Cluster& c : fusion.clusters) add_step(c);
    plan_.steps.insert(plan_.steps.end(), copies_.begin(), copies_.end());
  }

 private:
  const Scope& scope() const { return plan_.scopes[0]; }
  const Jaxpr& jaxpr() const { return plan_.scopes[0].jaxpr; }
  int& value_of(Var v) { return plan_.scopes[0].value_of[static_cast<std::size_t>(v)]; }
  Value& value(int v) { return plan_.values[static_cast<std::size_t>(v)]; }
  const Eqn& eqn(int e) const { return jaxpr().eqns()[static_cast<std::size_t>(e)]; }

  int add_value(const Aval& aval, Location location) {
    plan_.values.push_back({aval, location});
    return static_cast<int>(plan_.values.size()) - 1;
  }

  // A reshape of something in memory is another name for it, and so is what passed a barrier.
  void alias(Fusion& fusion) {
    std::set<Var> reshapes;
    for (std::size_t e = 0; e < jaxpr().eqns().size(); ++e) {
      if (!fusion.in_memory[e]) continue;
      const Eqn& named = jaxpr().eqns()[e];
      switch (form_of(jaxpr(), named)) {
        case Form::barrier:
          for (std::size_t i = 0; i < named.inputs.size(); ++i)
            alias(named.outputs[i], named.inputs[i]);
          break;
        case Form::reshape:
          if (alias(named.outputs[0], reshaped(named.inputs[0]))) reshapes.insert(named.outputs[0]);
          break;
        default: break;
      }
    }
    // Nobody has to store these.
    const auto is_reshape = [&](Var v) { return reshapes.contains(v); };
    for (Cluster& c : fusion.clusters) {
      for (Vars* const stored : {&c.kernel.roots, &c.kernel.epilogue})
        stored->erase(std::remove_if(stored->begin(), stored->end(), is_reshape), stored->end());
    }
  }
  // Of several reshapes, one of another, the operand of the first that has no memory.
  const Atom& reshaped(const Atom& a) const {
    const Atom* of = &a;
    for (int p = made_by(*of); p >= 0 && form_of(jaxpr(), eqn(p)) == Form::reshape;
         p = made_by(*of))
      of = &eqn(p).inputs[0];
    return *of;
  }
  int made_by(const Atom& a) const {
    const bool has_none = a.is_var() && scope().value_of[static_cast<std::size_t>(a.var())] < 0;
    return has_none ? producer_[static_cast<std::size_t>(a.var())] : -1;
  }
  bool alias(Var name, const Atom& of) {
    if (!of.is_var() || value_of(of.var()) < 0) return false;
    value_of(name) = value_of(of.var());
    return true;
  }

  // What an update starts from, if nobody wants it after that, is made where its result will be: the zeros of
  // zeros(n).at(i).add(w) are written once. From the last update to the first of a chain.
  void update_in_place(const Fusion& fusion) {
    if (!options_.update_in_place) return;
    std::vector<bool> is_kernel(jaxpr().eqns().size(), false);
    for (const Cluster& c : fusion.clusters)
      if (c.form == Form::kernel) is_kernel[static_cast<std::size_t>(c.kernel.eqn)] = true;
    const auto updates = [&](std::size_t e) {
      const Eqn& update = jaxpr().eqns()[e];
      return update.inputs[0].is_var() &&
             (update.primitive->rules().updates_operand || (is_kernel[e] && overwrites(update)));
    };
    std::optional<Readers> readers;
    for (std::size_t e = jaxpr().eqns().size(); e-- > 0;) {
      const Eqn& update = jaxpr().eqns()[e];
      if (update.inputs.empty() || !updates(e)) continue;
      const Var from = update.inputs[0].var();
      const int source = producer_[static_cast<std::size_t>(from)];
      if (source < 0 || !fusion.in_memory[static_cast<std::size_t>(source)]) continue;
      const Form form = form_of(jaxpr(), eqn(source));
      if (form == Form::region || form == Form::reshape || form == Form::barrier) continue;
      if (value_of(from) < 0 || !only_name(from)) continue;
      if (value_of(from) == value_of(update.outputs[0])) continue;  // one of a chain
      if (!readers) readers.emplace(jaxpr(), fusion);
      // Before the first update of a chain come all who read what it writes over.
      if (!begins_.contains({static_cast<int>(e), 0}) &&
          !readers->end_with(static_cast<int>(e), from))
        continue;
      value_of(from) = value_of(update.outputs[0]);
      overwritten_.insert(value_of(from));
      ++names_[static_cast<std::size_t>(value_of(from))];
    }
  }

  bool lies_where_its_result_will(int update) {
    const Eqn& e = eqn(update);
    return begins_.contains({update, 0}) ||
           (e.inputs[0].is_var() && value_of(e.inputs[0].var()) == value_of(e.outputs[0]));
  }

  // Results are written where the caller wants them; a value that is an argument or that is returned
  // twice is copied at the end.
  void place_results() {
    for (int o = 0; o < jaxpr().num_outputs(); ++o) {
      const Atom& out = jaxpr().outs()[static_cast<std::size_t>(o)];
      const Location here{Location::Kind::result, o};
      if (out.is_var() && value(value_of(out.var())).location.kind == Location::Kind::none) {
        value(value_of(out.var())).location = here;
        continue;
      }
      Step step;
      step.writes = {add_value(jaxpr().aval(out), here)};
      if (out.is_var()) {
        step.kind = Step::Kind::copy;
        step.reads = {value_of(out.var())};
      } else {
        step.kind = Step::Kind::fill;
        step.constant = out.literal();
      }
      copies_.push_back(std::move(step));
    }
  }

  // Loops over cells, and where their rows lie.
  void find_cells(Fusion& fusion) {
    Transpositions transpositions(jaxpr(), fusion.clusters);
    const auto stays = [&](Var v) {
      return value_of(v) >= 0 && !overwritten_.contains(value_of(v));
    };
    for (const Cluster& c : fusion.clusters) {
      if (c.form != Form::region) continue;
      const Eqn& e = eqn(c.kernel.eqn);
      auto cell = worthwhile_cell_loop(jaxpr(), e);
      if (!cell) continue;
      cell->turned_operands.resize(e.inputs.size());
      cell->turned_results.resize(e.outputs.size());
      // Other names stay what they were: the transposition still counts as a use.
      if (options_.turned_rows && e.primitive == &scan_p) {
        for (const auto& [row, memory] : transpositions.taken_by(e, *cell, stays))
          value_of(row) = value_of(memory);
      }
      cells_.emplace(c.kernel.eqn, std::move(*cell));
    }
  }

  void add_region(const Cluster& c) {
    const int number = c.kernel.eqn;
    const Eqn& e = eqn(number);
    std::vector<int> out;
    std::vector<bool> dies;
    for (const Atom& a : e.inputs) dies.push_back(a.is_literal() || only_use(a.var()));
    for (const Var v : e.outputs) out.push_back(value_of(v));
    if (const auto cell = cells_.find(number); cell != cells_.end()) {
      Step step;
      step.kernel.kind = Kernel::Kind::cells;
      step.kernel.eqn = number;
      step.kernel.members = {step.kernel.eqn};
      step.kernel.name = std::string(e.primitive->name());
      for (const std::int64_t n : cell->second.axes) step.kernel.shape.push_back(n);
      step.kernel.cell = std::make_shared<const CellLoop>(std::move(cell->second));
      for (const Atom& a : e.inputs) step.reads.push_back(in_memory(repeated_number(c, a)));
      step.writes = std::move(out);
      plan_.steps.push_back(std::move(step));
      return;
    }
    const std::vector<int> in = operands(number);
    plan_region(plan_, e, in, dies, out, options_, plan_.steps);
  }
  // Of an operand that a loop over cells does not read from memory: the number that it repeats.
  const Atom& repeated_number(const Cluster& c, const Atom& a) const {
    const int p = a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
    return p >= 0 && c.kernel.members.contains(p) ? eqn(p).inputs[0] : a;
  }
  // Of a variable that an equation reads: whether nothing else does, nor its memory under another name.
  bool only_use(Var v) const { return uses_[static_cast<std::size_t>(v)] == 1 && only_name(v); }
  bool only_name(Var v) const {
    if (v < jaxpr().num_inputs()) return false;
    const auto value = static_cast<std::size_t>(scope().value_of[static_cast<std::size_t>(v)]);
    return value >= names_.size() || names_[value] == 1;
  }

  void add_step(Cluster& c) {
    if (c.form == Form::region) return add_region(c);
    if (c.form == Form::barrier) return fill_literals(eqn(c.kernel.eqn));
    if (is_barrier(c.form) && !c.kernel.goes_on()) return add_alone(c);
    add_nest(c);
  }

  // Of a product in loops: how these go.
  void find_tiles(Kernel& k) {
    if (const auto tiles = dot_tiles(scope(), k))
      k.dot_tiles = std::make_shared<const DotTiles>(*tiles);
  }

  // An equation that is a call, or a kernel, by itself.
  void add_alone(Cluster& c) {
    const Eqn& e = eqn(c.kernel.eqn);
    Step step;
    step.reads = operands(c.kernel.eqn, c.form == Form::host);
    for (const Var v : e.outputs) step.writes.push_back(value_of(v));
    if (c.form == Form::host) {
      step.host = host_function(jaxpr(), e);
      step.name = std::string(e.primitive->name());
    } else if (c.form == Form::dot) {
      c.kernel.kind = Kernel::Kind::dot;
      if (options_.matmul) step.host = matmul_function(jaxpr(), e, step.name);
      if (!step.host) find_tiles(c.kernel);
    } else {
      const bool form = std::holds_alternative<Lowering::Kernel>(lowering_of(*e.primitive).form);
      c.kernel.kind = form ? Kernel::Kind::emitted : Kernel::Kind::update;
      TELAMON_CHECK(form || lies_where_its_result_will(c.kernel.eqn),
                    "a window is written over what is already there");
    }
    if (step.host) {
      step.kind = Step::Kind::host;
      step.eqn = c.kernel.eqn;
    } else {
      step.kernel = c.kernel;
    }
    step.kernel.name = std::string(e.primitive->name());
    plan_.steps.push_back(std::move(step));
  }

  // A loop nest of fused equations.
  void add_nest(Cluster& c) {
    Step step;
    Kernel& k = c.kernel;
    if (c.form == Form::dot) {
      k.kind = Kernel::Kind::dot;
      find_tiles(k);
    }
    find_reads(c, step);
    find_writes(k, step);
    if (step.writes.empty()) return;
    k.name = kernel_name(k);
    step.kernel = std::move(k);
    if (step.kernel.kind == Kernel::Kind::reduction) cut_reduction(step);
    else if (step.kernel.kind == Kernel::Kind::loop && options_.segments) cut_loop(step);
    plan_.steps.push_back(std::move(step));
  }

  // Memory for partial results, where that lets several threads fold.
  void cut_reduction(Step& step) {
    Kernel& k = step.kernel;
    if (!k.columns.empty()) {
      k.part_cost = cost_of(scope(), k);
      add_partials(step, k.columns, reduction_parts(k, k.part_cost));
      return;
    }
    if (!options_.partial_reductions || chunking(plan_, step).grain > 0) return;
    k.part_cost = cost_of(scope(), k);
    const std::int64_t parts = reduction_parts(k, k.part_cost);
    if (parts > 1) add_partials(step, k.reductions, parts);
  }
  void add_partials(Step& step, const std::vector<int>& reductions, std::int64_t parts) {
    for (const int e : reductions) {
      Shape shape = jaxpr().aval(eqn(e).outputs[0]).shape;
      shape.insert(0, parts);
      const Aval& operand = jaxpr().aval(eqn(e).inputs[0]);
      const auto add = [&](Aval aval) {
        step.kernel.partials.push_back(add_value(aval.with_shape(shape), {}));
        step.writes.push_back(step.kernel.partials.back());
      };
      add(operand);
      if (finds_place(eqn(e))) add(Aval{{}, place_type(operand)});
    }
  }

  // A long loop becomes functions, with memory for what they leave each other.
  void cut_loop(Step& step) {
    Kernel& k = step.kernel;
    k.segments = cut_kernel(jaxpr(), k, producer_, options_.overlap_segments);
    if (!k.segments) return;
    const auto [extent, grain, by_columns] = chunking(plan_, step);
    const std::int64_t chunks = grain > 0 ? detail::ceil_div(extent, grain) : 1;
    const std::int64_t tapes = std::min(chunks, num_tapes(*k.segments));
    k.tape = add_value(Aval(Shape{tapes, k.segments->bytes}, DType::u8), {});
    step.writes.push_back(k.tape);
  }

  // All that is left of an optimization_barrier: the memory of its literals.
  void fill_literals(const Eqn& e) {
    for (std::size_t i = 0; i < e.inputs.size(); ++i) {
      if (e.inputs[i].is_var()) continue;
      Step fill;
      fill.kind = Step::Kind::fill;
      fill.constant = e.inputs[i].literal();
      fill.writes = {value_of(e.outputs[i])};
      plan_.steps.push_back(std::move(fill));
    }
  }

  // The operands of an equation in memory, without literals if those are known otherwise. What the first
  // update of a chain writes over is copied to where the chain's result will be, unless that is its place.
  std::vector<int> operands(int e, bool variables_only = false) {
    std::vector<int> out;
    for (std::size_t i = 0; i < eqn(e).inputs.size(); ++i) {
      const Atom& a = eqn(e).inputs[i];
      if (variables_only && a.is_literal()) continue;
      const auto begins = begins_.find({e, static_cast<int>(i)});
      if (begins == begins_.end() || value_of(a.var()) == begins->second) {
        out.push_back(in_memory(a));
        continue;
      }
      Step copy;
      copy.kind = Step::Kind::copy;
      copy.reads = {value_of(a.var())};
      copy.writes = {begins->second};
      plan_.steps.push_back(std::move(copy));
      out.push_back(begins->second);
    }
    return out;
  }

  // The value of a barrier's operand; literals get memory of their own.
  int in_memory(const Atom& a) {
    if (a.is_var()) return value_of(a.var());
    Step fill;
    fill.kind = Step::Kind::fill;
    fill.constant = a.literal();
    fill.writes = {add_value(a.literal().aval(), {})};
    plan_.steps.push_back(fill);
    return fill.writes[0];
  }

  // What a kernel reads, and which of that it reads only where it may be overwritten at once.
  void find_reads(Cluster& c, Step& step) {
    Kernel& k = c.kernel;
    std::set<int> reads, moved;
    is_member_.resize(jaxpr().eqns().size());
    for (const int e : k.members) is_member_[static_cast<std::size_t>(e)] = true;
    std::optional<Windows> windows;
    if (k.kind == Kernel::Kind::loop && !stacks_parts(jaxpr(), k, producer_))
      windows.emplace(jaxpr(), producer_, c);
    for (const int e : k.members) {
      for (std::size_t i = 0; i < eqn(e).inputs.size(); ++i) {
        const Atom& a = eqn(e).inputs[i];
        if (!a.is_var() || is_made_by_member(a.var())) continue;
        const int v = value_of(a.var());
        reads.insert(v);
        if (!is_read_in_place(c, e, a) && !(windows && windows->is_read_in_place(e, i)))
          moved.insert(v);
      }
    }
    for (const int e : k.members) is_member_[static_cast<std::size_t>(e)] = false;
    step.reads.assign(reads.begin(), reads.end());
    if (!k.reductions.empty() || !k.columns.empty()) return;
    std::set_difference(reads.begin(), reads.end(), moved.begin(), moved.end(),
                        std::inserter(k.in_place, k.in_place.end()));
  }
  bool is_made_by_member(Var v) const {
    const int p = producer_[static_cast<std::size_t>(v)];
    return p >= 0 && is_member_[static_cast<std::size_t>(p)];
  }
  // Whether a member reads an operand at the index that the kernel is at.
  bool is_read_in_place(const Cluster& c, int e, const Atom& a) const {
    const auto align = c.align.find(e);
    if (align == c.align.end() || align->second != Align::iteration) return false;
    const Form f = form_of(jaxpr(), eqn(e));
    return f == Form::reshape ||
           (f == Form::element && jaxpr().aval(a).shape == jaxpr().aval(eqn(e).outputs[0]).shape);
  }

  // What a kernel writes, with memory for what it keeps there meanwhile.
  void find_writes(Kernel& k, Step& step) {
    std::set<int> writes;
    for (const Var v : k.roots) writes.insert(value_of(v));
    for (const Var v : k.epilogue) writes.insert(value_of(v));
    const bool down_columns = !k.shape.empty() && !k.axes.contains(k.shape.ndim() - 1);
    for (const int e : k.reductions) {
      const Aval& result = jaxpr().aval(eqn(e).outputs[0]);
      int& v = value_of(eqn(e).outputs[0]);
      // Sums over leading dimensions keep their partial results in memory.
      if (v < 0 && down_columns) v = add_value(result, {});
      if (v >= 0) writes.insert(v);
      if (down_columns && finds_place(eqn(e))) {
        k.extremes[e] = add_value(jaxpr().aval(eqn(e).inputs[0]).with_shape(result.shape), {});
        writes.insert(k.extremes[e]);
      }
    }
    for (const int e : k.columns) {
      int& v = value_of(eqn(e).outputs[0]);
      if (v < 0) v = add_value(jaxpr().aval(eqn(e).outputs[0]), {});
      writes.insert(v);
    }
    step.writes.assign(writes.begin(), writes.end());
  }

  std::string kernel_name(const Kernel& k) const {
    std::string name;
    int listed = 0;
    for (const int e : k.members) {
      if (element_cost(eqn(e)) == 0) continue;
      if (++listed > 4) break;
      if (!name.empty()) name += '_';
      name += eqn(e).primitive->name();
    }
    if (listed > 4) name += "_etc";
    return name.empty() ? "copy" : name;
  }

  const PlanOptions& options_;
  Plan& plan_;
  std::vector<int> producer_;
  std::vector<int> uses_;        // of variables
  std::vector<int> names_;       // of values made before the first step: variables that lie there
  std::vector<bool> is_member_;  // of the kernel whose accesses are being found
  std::vector<Step> copies_;
  std::map<std::pair<int, int>, int>
      begins_;                     // of each chain of updates: its equation and operand, its value
  std::set<int> overwritten_;      // values that updates write over
  std::map<int, CellLoop> cells_;  // of loops that are kernels
};

}  // namespace

std::unique_ptr<Plan> plan_kernels(const Jaxpr& jaxpr, const PlanOptions& options) {
  auto plan = std::make_unique<Plan>();  // host steps refer to it
  Planner(jaxpr, options, *plan).run();
  return plan;
}

namespace {

/// Whether a step fills a value with a scalar.
bool repeats_scalar(const Plan& plan, const Step& s, int value) {
  if (s.kind != Step::Kind::kernel || s.kernel.kind != Kernel::Kind::loop) return false;
  const Scope& scope = plan.scopes[static_cast<std::size_t>(s.scope)];
  return std::any_of(s.kernel.members.begin(), s.kernel.members.end(), [&](int e) {
    const Eqn& eqn = scope.jaxpr.eqns()[static_cast<std::size_t>(e)];
    return scope.value_of[static_cast<std::size_t>(eqn.outputs[0])] == value &&
           eqn.primitive == &broadcast_in_dim_p && scope.jaxpr.aval(eqn.inputs[0]).size() == 1;
  });
}

void count_writes(const Plan& plan, const std::vector<Step>& steps, std::vector<int>& all,
                  std::vector<int>& of_scalars) {
  const auto at = [](std::vector<int>& counts, int v) -> int& {
    return counts[static_cast<std::size_t>(v)];
  };
  for (const Step& s : steps) {
    for (const int v : s.writes) {
      ++at(all, v);
      at(of_scalars, v) += repeats_scalar(plan, s, v) ? 1 : 0;
    }
    for (const Step::Row& r : s.rows) ++at(all, r.base);  // whichever is done to a row
    for (const Step::Carry& c : s.carries) {
      for (const int v : {c.in, c.out, c.first, c.second})
        if (v >= 0) ++at(all, v);
    }
    for (const std::vector<Step>& body : s.bodies) count_writes(plan, body, all, of_scalars);
  }
}

}  // namespace

void find_uniform(Plan& plan) {
  std::vector<int> all(plan.values.size()), of_scalars(plan.values.size());
  count_writes(plan, plan.steps, all, of_scalars);
  for (const Value& view : plan.values) {
    for (const int base : view.bases) ++all[static_cast<std::size_t>(base)];
  }
  for (std::size_t v = 0; v < all.size(); ++v)
    plan.values[v].uniform = all[v] == 1 && of_scalars[v] == 1;
}

static void rescope(std::vector<Step>& steps, int first) {
  for (Step& s : steps) {
    s.scope += first;
    for (auto& body : s.bodies) rescope(body, first);
  }
}

std::vector<Step> splice(Plan& plan, const Plan& body, const std::vector<int>& inputs,
                         const std::vector<int>& outputs) {
  std::vector<int> map;
  for (const Value& v : body.values) {
    const Location where = v.location;
    if (where.kind == Location::Kind::argument) {
      map.push_back(inputs.at(static_cast<std::size_t>(where.index)));
    } else if (where.kind == Location::Kind::result) {
      map.push_back(outputs.at(static_cast<std::size_t>(where.index)));
    } else {
      map.push_back(static_cast<int>(plan.values.size()));
      plan.values.push_back(v);
    }
  }
  const auto renamed = [&](int v) { return v < 0 ? v : map[static_cast<std::size_t>(v)]; };
  for (std::size_t i = 0; i < body.values.size(); ++i) {
    if (body.values[i].location.kind != Location::Kind::none) continue;
    Value& v = plan.values[static_cast<std::size_t>(map[i])];
    v.slot = renamed(v.slot);
    for (int& base : v.bases) base = renamed(base);
  }
  const int first_scope = static_cast<int>(plan.scopes.size());
  for (Scope scope : body.scopes) {
    for (int& v : scope.value_of) v = renamed(v);
    plan.scopes.push_back(std::move(scope));
  }
  std::vector<Step> steps = body.steps;
  rename_values(steps, renamed);
  rescope(steps, first_scope);
  return steps;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
