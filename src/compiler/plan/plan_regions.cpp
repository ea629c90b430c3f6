// Loops and branches as steps: their bodies are planned like programs of their own, over values of the
// program around them. Rows of xs and ys are views into the whole arrays, and what one trip hands to
// the next alternates between two blocks of memory, so that nothing is copied from trip to trip. A
// carry of which a trip only overwrites a part, or which it writes after nobody reads the old one any more, stays where
// it is.
#include <algorithm>
#include <optional>
#include <set>

#include "compiler/emit/emit.hpp"
#include "compiler/fusion/index_space.hpp"
#include "compiler/plan/dot.hpp"
#include "compiler/plan/plan.hpp"
#include "compiler/plan/turns.hpp"
#include "compiler/plan/updates.hpp"
#include "core/integers.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// What steps do, as far as it decides whether trips of them are shared out.
struct TripWork {
  std::int64_t cost = 0;    ///< in what kernels count theirs in
  std::int64_t shared = 0;  ///< of it: kernels that threads share
  bool alone = false;       ///< one thread does much of it, unless trips are shared out
  bool updates = false;     ///< of large arrays, among it
};
std::optional<TripWork> work_of(const Plan& plan, const std::vector<Step>& steps);

TripWork work_of_kernel(std::int64_t cost) { return {cost, cost >= 2 * kParallelCost ? cost : 0}; }

std::optional<TripWork> work_of_product(const Scope& scope, const Eqn& e) {
  if (e.primitive != &dot_general_p) return std::nullopt;
  const auto p = matrix_product(scope.jaxpr.aval(e.inputs[0]), scope.jaxpr.aval(e.inputs[1]),
                                e.params.as<DotGeneralParams>());
  if (!p) return std::nullopt;
  return work_of_kernel(p->work() / 4);
}

std::optional<TripWork> work_of_loop(const Plan& plan, const Step& loop) {
  if (loop.trips < 0) return std::nullopt;
  std::optional<TripWork> work = work_of(plan, loop.bodies[0]);
  if (!work) return std::nullopt;
  work->cost = detail::saturating_mul(work->cost, loop.trips);
  work->shared = detail::saturating_mul(work->shared, loop.trips);
  work->alone = work->alone || !loop.carries.empty();
  return work;
}

// As much as the branch that does least, for no one knows which it will be, and all that any of them does.
std::optional<TripWork> work_of_branch(const Plan& plan, const Step& branch) {
  TripWork all;
  std::optional<TripWork> least;
  for (const std::vector<Step>& body : branch.bodies) {
    const std::optional<TripWork> work = work_of(plan, body);
    if (!work) return std::nullopt;
    all.alone |= work->alone;
    all.updates |= work->updates;
    if (!least || work->cost < least->cost) least = work;
  }
  if (!least) return std::nullopt;
  return TripWork{least->cost, least->shared, all.alone, all.updates};
}

std::optional<TripWork> work_of(const Scope& scope, const Kernel& k) {
  constexpr std::int64_t kUpdateCost = 16;
  const auto eqn = [&]() -> const Eqn& {
    return scope.jaxpr.eqns()[static_cast<std::size_t>(k.eqn)];
  };
  switch (k.kind) {
    case Kernel::Kind::dot: return work_of_product(scope, eqn());
    case Kernel::Kind::loop:
    case Kernel::Kind::reduction:
      return work_of_kernel(detail::saturating_mul(k.shape.num_elements(), cost_of(scope, k)));
    case Kernel::Kind::emitted: {
      if (!eqn().primitive->rules().updates_operand) return std::nullopt;
      const std::int64_t updates = scope.jaxpr.aval(eqn().inputs[2]).size();
      return TripWork{
          .cost = detail::saturating_mul(updates, kUpdateCost), .alone = true, .updates = true};
    }
    case Kernel::Kind::update:
      return TripWork{.cost = scope.jaxpr.aval(eqn().inputs[1]).size(), .alone = true};
    default: return std::nullopt;
  }
}

std::optional<TripWork> work_of(const Plan& plan, const Step& s) {
  const Scope& scope = plan.scopes[static_cast<std::size_t>(s.scope)];
  switch (s.kind) {
    case Step::Kind::kernel: return work_of(scope, s.kernel);
    case Step::Kind::host:
      if (s.eqn < 0) return std::nullopt;
      return work_of_product(scope, scope.jaxpr.eqns()[static_cast<std::size_t>(s.eqn)]);
    case Step::Kind::copy:
    case Step::Kind::fill:
      return TripWork{.cost = plan.values[static_cast<std::size_t>(s.writes[0])].aval.size()};
    case Step::Kind::loop: return work_of_loop(plan, s);
    case Step::Kind::branch: return work_of_branch(plan, s);
    default: return std::nullopt;
  }
}

/// Nothing where that is not known, or where steps may not run side by side.
std::optional<TripWork> work_of(const Plan& plan, const std::vector<Step>& steps) {
  constexpr std::int64_t kMostCost = std::int64_t{1} << 40;
  TripWork all{.cost = 1};
  for (const Step& s : steps) {
    const std::optional<TripWork> work = work_of(plan, s);
    if (!work) return std::nullopt;
    all.cost = std::min(detail::saturating_add(all.cost, work->cost), kMostCost);
    all.shared = std::min(detail::saturating_add(all.shared, work->shared), kMostCost);
    all.alone = all.alone || work->alone;
    all.updates = all.updates || work->updates;
  }
  return all;
}

void note_written(const std::vector<Step>& steps, std::set<int>& written) {
  for (const Step& s : steps) {
    written.insert(s.writes.begin(), s.writes.end());
    for (const Step::Carry& c : s.carries) written.insert({c.first, c.second});
    for (const auto& body : s.bodies) note_written(body, written);
  }
}

/// What the steps write that is no result: a chunk has that for itself.
std::int64_t memory_of(const Plan& plan) {
  std::set<int> written;
  note_written(plan.steps, written);
  std::int64_t bytes = 0;
  for (const int w : written) {
    const Value& v = plan.values[static_cast<std::size_t>(w)];
    if (v.location.kind == Location::Kind::none && v.slot < 0)
      bytes = std::min(bytes + weight_of(v.aval), std::int64_t{1} << 60);
  }
  return bytes;
}

/// Which results of a body may be written where inputs lie.
class Replacements {
 public:
  explicit Replacements(const Plan& body)
      : body_(body),
        uses_(body.values.size()),
        results_(static_cast<std::size_t>(body.num_outputs), -1) {
    for (int s = 0; s < std::ssize(body.steps); ++s) visit(step(s), s);
    for (int v = 0; v < std::ssize(body.values); ++v) {
      const Location at = value(v).location;
      if (at.kind != Location::Kind::result) continue;
      int& result = results_[static_cast<std::size_t>(at.index)];
      result = result == -1 ? v : kSeveral;
    }
  }

  /// No step reads that input any more, but the kernel that writes the result, element by element.
  bool is_replaced(int input, std::size_t r) const {
    if (results_[r] < 0) return false;
    const int first = uses(results_[r]).first, last = uses(input).last;
    return first > last || (first >= 0 && first == last && step(first).kind == Step::Kind::kernel &&
                            writes_over(step(first).kernel, input));
  }

 private:
  static constexpr int kSeveral = -2;
  struct Uses {
    int first = -1, last = -1;  ///< steps
  };
  const Step& step(int s) const { return body_.steps[static_cast<std::size_t>(s)]; }
  const Value& value(int v) const { return body_.values[static_cast<std::size_t>(v)]; }
  const Uses& uses(int v) const { return uses_[static_cast<std::size_t>(v)]; }

  // A row that does not end with a vector is stored in part, and what then is read behind it waits until that is done:
  // short rows would take three times as long.
  static bool writes_over(const Kernel& k, int input) {
    constexpr std::int64_t kLongRow = 64;
    const bool short_rows = !k.linear && !k.shape.empty() && k.shape[inner_dim(k.shape)] < kLongRow;
    return k.in_place.contains(input) && !short_rows;
  }

  void visit(const Step& s, int now) {
    for (const int v : s.reads) use(v, now);
    for (const int v : s.writes) use(v, now);
    for (const Step::Row& r : s.rows) use(r.base, now);
    for (const Step::Carry& c : s.carries) {
      for (const int v : {c.init, c.first, c.second}) use(v, now);
    }
    for (const std::vector<Step>& steps : s.bodies) {
      for (const Step& inner : steps) visit(inner, now);
    }
  }
  void use(int v, int now) {
    if (v < 0) return;
    for (const int base : value(v).bases) use(base, now);
    Uses& u = uses_[static_cast<std::size_t>(v)];
    if (u.first < 0) u.first = now;
    u.last = now;
  }

  const Plan& body_;
  std::vector<Uses> uses_;
  std::vector<int> results_;  // of each result: the value that is made where it is wanted
};

class RegionPlanner {
 public:
  RegionPlanner(Plan& plan, const std::vector<int>& in, const std::vector<bool>& dies,
                std::vector<int>& out, const PlanOptions& options, std::vector<Step>& steps)
      : plan_(plan), in_(in), dies_(dies), out_(out), options_(options), steps_(steps) {
    options_.updates.clear();
    options_.alone.clear();
  }

  void scan(const ScanParams& p) {
    const auto [copies, count, rest] = turns_of(p);
    if (rest == 0) return turns(p, copies, 0, count);
    // The trips that are left over go on from where the turns ended.
    const std::vector<int> results = out_;
    const std::vector<Aval> avals = p.jaxpr.out_avals();
    for (std::size_t i = 0; i < static_cast<std::size_t>(p.num_carry); ++i)
      out_[i] = add({avals[i], {}});
    turns(p, copies, 0, count);
    std::copy_n(out_.begin(), p.num_carry, in_.begin() + p.num_consts);
    std::copy_n(results.begin(), p.num_carry, out_.begin());
    std::fill_n(dies_.begin() + p.num_consts, p.num_carry, true);
    turns(p, rest, p.length - rest, 1);
  }

  void repeat(const WhileParams& p) {
    const auto num_carry = out_.size();
    const auto body_consts = static_cast<std::size_t>(p.cond_nconsts);
    const auto first = body_consts + static_cast<std::size_t>(p.body_nconsts);
    Step loop;
    loop.kind = Step::Kind::repeat;
    if (!p.cond_jaxpr.out_avals()[0].shape.empty())
      throw InternalError("a loop with a condition per lane is planned as one with a single one");
    const int holds = add({p.cond_jaxpr.out_avals()[0], {}});
    loop.reads = {holds};
    const auto body = plan_body(p.body_jaxpr, static_cast<std::size_t>(p.body_nconsts), num_carry);
    std::vector<int> inputs, outputs;
    carry(loop, p.body_jaxpr, *body, first, num_carry, inputs, outputs,
          static_cast<std::size_t>(p.body_nconsts));
    std::vector<int> for_cond(in_.begin(), in_.begin() + p.cond_nconsts);
    for_cond.insert(for_cond.end(), inputs.begin(), inputs.end());
    inputs.insert(inputs.begin(), in_.begin() + p.cond_nconsts,
                  in_.begin() + static_cast<std::ptrdiff_t>(first));
    const auto cond = plan_kernels(p.cond_jaxpr, options_);
    loop.bodies.push_back(splice(plan_, *cond, for_cond, {holds}));
    loop.bodies.push_back(splice(plan_, *body, inputs, outputs));
    drop_idle_copies(loop.bodies[1]);
    steps_.push_back(std::move(loop));
  }

  void branch(const CondParams& p) {
    Step branch;
    branch.kind = Step::Kind::branch;
    branch.reads = {in_[0]};
    const std::vector<int> operands(in_.begin() + 1, in_.end());
    // An operand that the branches only write over may be in the same memory as the result. Where it
    // is not, the first update copies it.
    BranchUpdates updates = branch_updates(p, options_);
    for (std::size_t b = 0; b < p.branches.size(); ++b) {
      const auto body =
          plan_with(p.branches[b], std::move(updates.chains[b]), std::move(updates.alone[b]));
      branch.bodies.push_back(splice(plan_, *body, operands, out_));
      drop_idle_copies(branch.bodies.back());
    }
    steps_.push_back(std::move(branch));
  }

 private:
  // `count` turns of so many copies of the body each; the first one's trip is number `first`.
  void turns(const ScanParams& p, std::int64_t copies, std::int64_t first, std::int64_t count) {
    const auto num_carry = static_cast<std::size_t>(p.num_carry);
    const auto num_consts = static_cast<std::size_t>(p.num_consts);
    Step loop;
    loop.kind = Step::Kind::loop;
    loop.trips = count;
    const Jaxpr body = repeated_body(p, copies);
    auto plan = plan_body(body, num_consts, num_carry);
    if (num_carry == 0) share_out(loop, body, plan);
    std::vector<int> inputs(in_.begin(), in_.begin() + p.num_consts), outputs;
    carry(loop, body, *plan, num_consts, num_carry, inputs, outputs);
    const std::vector<Aval> results = p.jaxpr.out_avals();
    for (std::int64_t k = 0; k < copies; ++k) {
      const std::int64_t trip = first + k;
      const auto row_of = [&](const Aval& aval, int base) {
        const int view = add_view(aval, {base});
        if (p.reverse) loop.rows.push_back({view, base, p.length - 1 - trip, -copies});
        else loop.rows.push_back({view, base, trip, copies});
        return view;
      };
      for (std::size_t i = num_consts + num_carry; i < in_.size(); ++i)
        inputs.push_back(row_of(p.jaxpr.aval(static_cast<Var>(i)), in_[i]));
      for (std::size_t i = num_carry; i < results.size(); ++i)
        outputs.push_back(row_of(results[i], out_[i]));
    }
    loop.bodies = {splice(plan_, *plan, inputs, outputs)};
    drop_idle_copies(loop.bodies[0]);
    steps_.push_back(std::move(loop));
  }

  // Trips that hand each other nothing run in chunks, where memory for each chunk costs little. Their
  // kernels are then not shared out again.
  void share_out(Step& loop, const Jaxpr& body, std::unique_ptr<Plan>& plan) {
    constexpr std::int64_t kLeastTrips = 8, kMemory = std::int64_t{1} << 21, kAll = kMemory * 4;
    if (std::any_of(body.eqns().begin(), body.eqns().end(),
                    [](const Eqn& e) { return e.effect != Effect::none; }))
      return;
    const std::optional<TripWork> work = work_of(*plan, plan->steps);
    if (!work) return;
    // What threads share by themselves they share better than few trips, or long ones, unless a third is left to one of
    // them: places of two indices take as many steps as are counted for sums there. Updates, which threads do not share, are
    // worth larger pieces of memory, of which as many are ever touched as there are threads.
    const bool alone = work->alone;
    if (loop.trips < kLeastTrips && (!alone || work->shared > work->cost / 3 * 2)) return;
    if (!alone && work->cost > 64 * kParallelCost) return;
    const std::int64_t memory = 1 + memory_of(*plan);
    if (memory > (work->updates ? kAll : kMemory)) return;
    const std::int64_t grain = detail::ceil_div(kParallelCost, work->cost);
    if (loop.trips < 2 * grain) return;
    const std::int64_t chunks =
        std::clamp<std::int64_t>((alone ? kMemory : kAll) / memory, 8, Step::kMaxChunks);
    loop.grain = std::max(grain, detail::ceil_div(loop.trips, chunks));
    PlanOptions serial = options_;
    serial.partial_reductions = false;
    plan = plan_kernels(body, serial);
  }
  int add(Value v) {
    plan_.values.push_back(std::move(v));
    return static_cast<int>(plan_.values.size()) - 1;
  }
  int add_view(const Aval& aval, std::vector<int> bases) {
    const int slot = add({Aval{{}, DType::i64, false}, {}});
    return add({aval, {}, slot, std::move(bases)});
  }
  static void drop_idle_copies(std::vector<Step>& steps) {
    std::erase_if(steps, [](const Step& s) {
      return s.kind == Step::Kind::copy && s.reads[0] == s.writes[0];
    });
    for (Step& s : steps) {
      for (auto& body : s.bodies) drop_idle_copies(body);
    }
  }

  // The body's plan; carries that can be overwritten in part are.
  std::unique_ptr<Plan> plan_body(const Jaxpr& body, std::size_t first, std::size_t num_carry) {
    CarriedUpdates updates = carried_updates(body, first, num_carry, options_);
    chain_of_ = std::move(updates.chain_of);
    return plan_with(body, std::move(updates.chains), std::move(updates.alone));
  }
  std::unique_ptr<Plan> plan_with(const Jaxpr& body, std::vector<UpdateChain> updates,
                                  std::set<int> alone) {
    PlanOptions options = options_;
    options.updates = std::move(updates);
    options.alone = std::move(alone);
    auto plan = plan_kernels(body, options);
    const std::vector<bool>& granted = plan->updates_in_place;
    if (std::find(granted.begin(), granted.end(), false) != granted.end())
      throw InternalError("an update in place was granted and then refused");
    return plan;
  }

  // The carry's operands and results of the body, which is planned so. `first`: of its initial values among the operands;
  // `body_first`: of its components among the body's inputs.
  void carry(Step& loop, const Jaxpr& body, const Plan& plan, std::size_t first,
             std::size_t num_carry, std::vector<int>& inputs, std::vector<int>& outputs,
             std::size_t body_first = static_cast<std::size_t>(-1)) {
    if (body_first == static_cast<std::size_t>(-1)) body_first = first;
    const Replacements replacements(plan);
    for (std::size_t i = 0; i < num_carry; ++i) {
      const Aval& aval = body.aval(static_cast<Var>(body_first + i));
      const int init = in_[first + i], last = out_[i];
      const bool replaced =
          chain_of_[i] < 0 && options_.in_place &&
          replacements.is_replaced(static_cast<int>(body_first + i), static_cast<int>(i));
      const bool stays = chain_of_[i] >= 0 ||
                         (replaced && (is_free(init, dies_[first + i]) || is_better_copied(init)));
      if (stays) {
        take_over(init, last, dies_[first + i]);
        inputs.push_back(last);
        outputs.push_back(last);
        continue;
      }
      const int second = replaced ? last : add({aval, {}});
      const int from = add_view(aval, {init, last, second}), to = add_view(aval, {last, second});
      loop.carries.push_back({from, to, init, last, second});
      inputs.push_back(from);
      outputs.push_back(to);
    }
  }
  // Whether a copy costs less than to look in each trip where it is. An argument is read by the first trip: donated, it is
  // still there should that throw.
  bool is_better_copied(int v) const {
    constexpr std::int64_t kSmall = 4096;
    const Value& value = plan_.values[static_cast<std::size_t>(v)];
    return value.location.kind != Location::Kind::argument && value.bytes() <= kSmall;
  }
  bool is_free(int v, bool dies) const {
    const Value& value = plan_.values[static_cast<std::size_t>(v)];
    return dies && value.location.kind == Location::Kind::none && value.slot < 0;
  }

  // `last` begins as a copy of `init`, or as `init` itself where nobody else wants that.
  void take_over(int init, int last, bool dies) {
    if (init == last) return;
    if (is_free(init, dies)) {
      rename_values(steps_, [&](int v) { return v == init ? last : v; });
      drop_idle_copies(steps_);
      for (Scope& s : plan_.scopes) std::replace(s.value_of.begin(), s.value_of.end(), init, last);
      for (Value& v : plan_.values) std::replace(v.bases.begin(), v.bases.end(), init, last);
      return;
    }
    Step copy;
    copy.kind = Step::Kind::copy;
    copy.reads = {init};
    copy.writes = {last};
    steps_.push_back(std::move(copy));
  }

  Plan& plan_;
  std::vector<int> in_;
  std::vector<bool> dies_;
  std::vector<int>& out_;
  PlanOptions options_;
  std::vector<Step>& steps_;
  std::vector<int> chain_of_;  // of each carry: see CarriedUpdates
};

}  // namespace

void plan_region(Plan& plan, const Eqn& eqn, const std::vector<int>& in,
                 const std::vector<bool>& dies, std::vector<int>& out, const PlanOptions& options,
                 std::vector<Step>& steps) {
  RegionPlanner planner(plan, in, dies, out, options, steps);
  if (eqn.primitive == &scan_p) planner.scan(eqn.params.as<ScanParams>());
  else if (eqn.primitive == &while_p) planner.repeat(eqn.params.as<WhileParams>());
  else planner.branch(eqn.params.as<CondParams>());
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
