// What one run of an executable does and needs, read off its program and its plan.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/compile.hpp"
#include "compiler/executable/executable.hpp"
#include "compiler/forms.hpp"
#include "compiler/plan/dot.hpp"
#include "core/element.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/kernels/gemm.hpp"
#include "runtime/kernels/sort.hpp"
#include "runtime/thread_pool.hpp"
#include "runtime/work.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// How many elements of an operand an equation reads for `wanted` elements of its result, all of them at most.
double elements_read(const Jaxpr& jaxpr, const Eqn& eqn, const Atom& operand, double wanted) {
  const auto all = static_cast<double>(jaxpr.aval(operand).size());
  // Of a slice, or rows of a gather: as many as the result has. Of bits that make up wider ones: several.
  const bool one_each = is_fusible(form_of(jaxpr, eqn)) && eqn.primitive != &bitcast_convert_type_p;
  return one_each ? std::min(all, wanted) : all;
}

/// How many elements a kernel reads of each value that its equations find in memory.
std::map<int, double> elements_read(const Scope& scope, const Step& step) {
  const Jaxpr& jaxpr = scope.jaxpr;
  const std::set<int>& members = step.kernel.members;
  const std::set<int> writes(step.writes.begin(), step.writes.end());
  std::map<Var, double> of;  // what the members wanted so far, from the last to the first
  std::map<int, double> read;
  std::set<Var> inside;
  for (const int e : members) {
    const Vars& outputs = jaxpr.eqns()[static_cast<std::size_t>(e)].outputs;
    inside.insert(outputs.begin(), outputs.end());
  }
  for (auto e = members.rbegin(); e != members.rend(); ++e) {
    const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(*e)];
    double wanted = 0;
    for (const Var v : eqn.outputs) {
      const auto all = static_cast<double>(jaxpr.aval(v).size());
      const bool stored = writes.contains(scope.value_of[static_cast<std::size_t>(v)]);
      const auto found = of.find(v);
      wanted = std::max(wanted, stored || found == of.end() ? all : std::min(all, found->second));
    }
    for (const Atom& a : eqn.inputs) {
      if (!a.is_var()) continue;
      const double elements = elements_read(jaxpr, eqn, a, wanted);
      if (inside.contains(a.var())) of[a.var()] += elements;
      else read[scope.value_of[static_cast<std::size_t>(a.var())]] += elements;
    }
  }
  return read;
}

/// Bytes that steps read and write, and the loops whose trips are not known.
class Traffic {
 public:
  /// `donated`: arguments are that may be.
  Traffic(const Plan& plan, bool donated) : plan_(plan), donated_(donated) {}

  double of(const std::vector<Step>& steps) {
    double bytes = 0;
    for (const Step& s : steps) bytes += of(s);
    return bytes;
  }
  int unknown_loops = 0;

 private:
  double of(const Step& s) {
    switch (s.kind) {
      case Step::Kind::loop:
        if (s.trips < 0) ++unknown_loops;
        return static_cast<double>(std::max<std::int64_t>(s.trips < 0 ? 1 : s.trips, 0)) *
               of(s.bodies[0]);
      case Step::Kind::repeat: return of(s.bodies[0]) + of(s.bodies[1]);
      case Step::Kind::branch: {
        double dearest = 0;
        for (const auto& body : s.bodies) dearest = std::max(dearest, of(body));
        return dearest;
      }
      case Step::Kind::kernel: return of_kernel(s);
      case Step::Kind::copy:
        if (donated_ && plan_.may_be_idle(s)) return 0;
        return all_of(s.reads) + all_of(s.writes);
      default: return all_of(s.reads) + all_of(s.writes);
    }
  }

  // Of what an equation overwrites where it lies: the updates, which are read and written.
  double of_kernel(const Step& s) const {
    if (const auto update = update_in_place(s)) {
      const std::vector<int> others(s.reads.begin() + 1, s.reads.end());
      return all_of(others) + (update->adds ? 2 : 1) * all_of(update->value);
    }
    const auto elements = elements_read(plan_.scopes[static_cast<std::size_t>(s.scope)], s);
    double bytes = all_of(s.writes);
    for (const int v : s.reads) {
      const auto found = elements.find(v);
      const auto size = static_cast<double>(size_of(value(v).aval.dtype));
      bytes += found == elements.end() ? all_of(v) : std::min(all_of(v), found->second * size);
    }
    return bytes;
  }

  struct InPlace {
    int value;  ///< what is written over a part of the operand
    bool adds;
  };
  std::optional<InPlace> update_in_place(const Step& s) const {
    if (s.kernel.kind != Kernel::Kind::update && s.kernel.kind != Kernel::Kind::emitted)
      return std::nullopt;
    const Jaxpr& jaxpr = plan_.scopes[static_cast<std::size_t>(s.scope)].jaxpr;
    const PrimitiveBase* const p = jaxpr.eqns()[static_cast<std::size_t>(s.kernel.eqn)].primitive;
    const bool scatters = p->rules().updates_operand;
    if (!scatters && p != &dynamic_update_slice_p) return std::nullopt;
    if (s.reads[0] != s.writes[0] && value(s.reads[0]).location != value(s.writes[0]).location)
      return std::nullopt;
    return InPlace{s.reads[scatters ? 2 : 1], p == &scatter_add_p};
  }

  const Value& value(int v) const { return plan_.values[static_cast<std::size_t>(v)]; }
  double all_of(int v) const { return static_cast<double>(value(v).bytes()); }
  double all_of(const std::vector<int>& values) const {
    double bytes = 0;
    for (const int v : values) bytes += all_of(v);
    return bytes;
  }

  const Plan& plan_;
  const bool donated_;
};

/// What the calls of a program take for themselves, each in its turn: the most of them.
std::int64_t scratch_of(const Jaxpr& jaxpr) {
  std::int64_t most = 0;
  for (const Eqn& eqn : jaxpr.eqns()) {
    for (const Jaxpr& body : eqn.params.jaxprs()) most = std::max(most, scratch_of(body));
    if (eqn.primitive == &dot_general_p) {
      const Aval &lhs = jaxpr.aval(eqn.inputs[0]), &rhs = jaxpr.aval(eqn.inputs[1]);
      const DType dtype = lhs.dtype;
      // Those of small floats that are left are calls.
      const auto product = detail::is_small_float(dtype)
                               ? matrix_product(lhs, rhs, eqn.params.as<DotGeneralParams>())
                               : large_product(jaxpr, eqn);
      if (product) {
        most = std::max(most, kernels::matmul_scratch(
                                  dtype, {product->batch, product->m, product->n, product->k},
                                  runtime::num_threads()));
      }
    }
    if (eqn.primitive != &sort_p) continue;
    const auto axis = static_cast<int>(eqn.params.as<SortParams>().dimension);
    most = std::max(most, kernels::sort_scratch(detail::avals_of(jaxpr, eqn.inputs), axis,
                                                runtime::num_threads()));
  }
  return most;
}

}  // namespace

CostAnalysis NativeExecutable::cost_analysis() const {
  return with_plan([this](const Parts& parts) { return cost_of(parts); });
}

CostAnalysis NativeExecutable::cost_of(const Parts& parts) const {
  runtime::Work work = runtime::count_work(parts.jaxpr);
  Traffic traffic(*parts.plan, parts.options.donated.has_value());
  CostAnalysis cost;
  cost.flops = work.flops;
  cost.transcendentals = work.transcendentals;
  cost.bytes_accessed = traffic.of(parts.plan->steps);
  cost.kernels = info_.kernels;
  cost.library_calls = info_.library_calls;
  cost.unknown = std::move(work.unknown);
  for (int i = 0; i < traffic.unknown_loops; ++i)
    cost.unknown.emplace_back("the trips of a loop depend on a value: one is counted");
  return cost;
}

MemoryAnalysis NativeExecutable::memory_analysis(const std::vector<bool>& donated) const {
  return with_plan([&](const Parts& parts) { return memory_of(parts, donated); });
}

// Reductions that share a kernel keep all that they read alive until it runs.
std::int64_t NativeExecutable::live_bound_of(const Parts& parts) const {
  runtime::CompileOptions apart = parts.options;
  apart.disabled.insert("merge_siblings");
  return std::min(parts.plan->live_bytes, plan_again(parts_.source, apart).plan->live_bytes);
}

MemoryAnalysis NativeExecutable::memory_of(const Parts& parts,
                                           const std::vector<bool>& donated) const {
  const Plan& plan = *parts.plan;
  const auto num_consts = static_cast<std::int64_t>(parts.consts.size());
  MemoryAnalysis memory;
  memory.arena = plan.arena_bytes;
  memory.live_bound = live_bound_of(parts);
  memory.scratch = scratch_of(parts.jaxpr);
  const std::vector<Aval>& avals = parts.jaxpr.avals();
  for (std::int64_t i = 0; i < parts.jaxpr.num_inputs(); ++i) {
    const Value argument{avals[static_cast<std::size_t>(i)], {}};
    (i < num_consts ? memory.constants : memory.arguments) += argument.bytes();
  }
  for (const detail::DenseType& result : results_)
    memory.results += static_cast<std::int64_t>(result.bytes());
  if (donated.empty()) return memory;
  std::vector<bool> left = donated;
  hand_over(plan.reusable, [&](std::size_t o, int argument) {
    const auto i = static_cast<std::size_t>(argument - num_consts);
    if (argument < num_consts || !left[i]) return false;
    left[i] = false;
    memory.aliased += static_cast<std::int64_t>(results_[o].bytes());
    return true;
  });
  return memory;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
