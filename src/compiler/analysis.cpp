// What one run of an executable does and needs, read off its program and its plan.
#include <algorithm>

#include "compiler/executable/executable.hpp"
#include "compiler/plan/dot.hpp"
#include "runtime/kernels/gemm.hpp"
#include "runtime/kernels/sort.hpp"
#include "runtime/thread_pool.hpp"
#include "runtime/work.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Bytes that steps read and write, and the loops whose trips are not known.
class Traffic {
 public:
  explicit Traffic(const Plan& plan) : plan_(plan) {}

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
      default: break;
    }
    double bytes = 0;
    for (const auto* values : {&s.reads, &s.writes}) {
      for (const int v : *values)
        bytes += static_cast<double>(plan_.values[static_cast<std::size_t>(v)].bytes());
    }
    return bytes;
  }

  const Plan& plan_;
};

/// What the calls of a program take for themselves, each in its turn: the most of them.
std::int64_t scratch_of(const Jaxpr& jaxpr) {
  std::int64_t most = 0;
  for (const Eqn& eqn : jaxpr.eqns()) {
    for (const Jaxpr& body : eqn.params.jaxprs()) most = std::max(most, scratch_of(body));
    if (eqn.primitive == &dot_general_p) {
      if (const auto product = large_product(jaxpr, eqn)) {
        const DType dtype = jaxpr.aval(eqn.outputs[0]).dtype;
        most = std::max(most, kernels::matmul_scratch(dtype, product->m, runtime::num_threads()));
      }
    }
    if (eqn.primitive != &sort_p) continue;
    std::vector<Aval> operands;
    for (const Atom& a : eqn.inputs) operands.push_back(jaxpr.aval(a));
    const auto axis = static_cast<int>(eqn.params.as<SortParams>().dimension);
    most = std::max(most, kernels::sort_scratch(operands, axis, runtime::num_threads()));
  }
  return most;
}

}  // namespace

CostAnalysis NativeExecutable::cost_analysis() const {
  return with_plan([this](const Parts& parts) { return cost_of(parts); });
}

CostAnalysis NativeExecutable::cost_of(const Parts& parts) const {
  runtime::Work work = runtime::count_work(parts.jaxpr);
  Traffic traffic(*parts.plan);
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

MemoryAnalysis NativeExecutable::memory_of(const Parts& parts,
                                           const std::vector<bool>& donated) const {
  const Plan& plan = *parts.plan;
  const auto num_consts = static_cast<std::int64_t>(parts.consts.size());
  MemoryAnalysis memory;
  memory.arena = plan.arena_bytes;
  memory.live_bound = plan.live_bytes;
  memory.scratch = scratch_of(parts.jaxpr);
  const std::vector<Aval>& avals = parts.jaxpr.avals();
  for (std::int64_t i = 0; i < parts.jaxpr.num_inputs(); ++i) {
    const Value argument{avals[static_cast<std::size_t>(i)], {}};
    (i < num_consts ? memory.constants : memory.arguments) += argument.bytes();
  }
  // As the results of a run take over arguments, first come first served.
  std::set<int> taken;
  for (std::size_t o = 0; o < results_.size(); ++o) {
    const auto bytes = static_cast<std::int64_t>(results_[o].bytes());
    memory.results += bytes;
    if (donated.empty() || o >= plan.reusable.size()) continue;
    for (const int argument : plan.reusable[o]) {
      const std::int64_t i = argument - num_consts;
      if (i < 0 || !donated[static_cast<std::size_t>(i)] || !taken.insert(argument).second)
        continue;
      memory.aliased += bytes;
      break;
    }
  }
  return memory;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
