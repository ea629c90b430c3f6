// Loops and branches as steps: their bodies are planned like programs of their own, over values of the
// program around them. Rows of xs and ys are views into the whole arrays, and what one trip hands to
// the next alternates between two blocks of memory, so that nothing is copied from trip to trip. A
// carry of which a trip only overwrites a part stays where it is.
#include <algorithm>

#include "compiler/plan.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// The equations through which a result of a body is its carried operand with parts overwritten.
std::vector<int> update_chain(const Jaxpr& body, const std::vector<int>& producer, Var in,
                              const Atom& out) {
  std::vector<int> chain;
  Atom at = out;
  while (at.is_var() && at.var() != in) {
    const int e = producer[static_cast<std::size_t>(at.var())];
    if (e < 0) return {};
    const Eqn& eqn = body.eqns()[static_cast<std::size_t>(e)];
    if (eqn.primitive != &dynamic_update_slice_p && !eqn.primitive->rules().updates_operand)
      return {};
    chain.insert(chain.begin(), e);
    at = eqn.inputs[0];
  }
  return at.is_var() ? chain : std::vector<int>{};
}

void replace_value(std::vector<Step>& steps, int from, int to) {
  const auto replace = [&](int& v) { v = v == from ? to : v; };
  for (Step& s : steps) {
    for (int& v : s.reads) replace(v);
    for (int& v : s.writes) replace(v);
    for (int& v : s.kernel.partials) replace(v);
    if (s.kernel.in_place.erase(from) != 0) s.kernel.in_place.insert(to);
    for (Step::Row& r : s.rows) {
      replace(r.view);
      replace(r.base);
    }
    for (Step::Carry& c : s.carries) {
      for (int* v : {&c.in, &c.out, &c.init, &c.first, &c.second}) replace(*v);
    }
    for (auto& body : s.bodies) replace_value(body, from, to);
  }
}

class RegionPlanner {
 public:
  RegionPlanner(Plan& plan, const std::vector<int>& in, const std::vector<bool>& dies,
                std::vector<int>& out, const PlanOptions& options, std::vector<Step>& steps)
      : plan_(plan), in_(in), dies_(dies), out_(out), options_(options), steps_(steps) {
    options_.updates.clear();
  }

  void scan(const ScanParams& p) {
    const auto num_carry = static_cast<std::size_t>(p.num_carry);
    const auto num_consts = static_cast<std::size_t>(p.num_consts);
    Step loop;
    loop.kind = Step::Kind::loop;
    loop.trips = p.length;
    loop.reverse = p.reverse;
    const auto body = plan_body(p.jaxpr, num_consts, num_carry);
    std::vector<int> inputs(in_.begin(), in_.begin() + p.num_consts), outputs;
    carry(loop, p.jaxpr, *body, num_consts, num_carry, inputs, outputs);
    const std::vector<Aval> results = p.jaxpr.out_avals();
    for (std::size_t i = num_consts + num_carry; i < in_.size(); ++i)
      inputs.push_back(row(loop, p.jaxpr.aval(static_cast<Var>(i)), in_[i]));
    for (std::size_t i = num_carry; i < results.size(); ++i)
      outputs.push_back(row(loop, results[i], out_[i]));
    loop.bodies = {splice(plan_, *body, inputs, outputs)};
    drop_idle_copies(loop.bodies[0]);
    steps_.push_back(std::move(loop));
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
    for (const Jaxpr& j : p.branches)
      branch.bodies.push_back(splice(plan_, *plan_kernels(j, options_), operands, out_));
    steps_.push_back(std::move(branch));
  }

 private:
  int add(Value v) {
    plan_.values.push_back(std::move(v));
    return static_cast<int>(plan_.values.size()) - 1;
  }
  int add_view(const Aval& aval, std::vector<int> bases) {
    const int slot = add({Aval{{}, DType::i64, false}, {}});
    return add({aval, {}, slot, std::move(bases)});
  }
  int row(Step& loop, const Aval& aval, int base) {
    const int view = add_view(aval, {base});
    loop.rows.push_back({view, base});
    return view;
  }

  static void drop_idle_copies(std::vector<Step>& steps) {
    std::erase_if(steps, [](const Step& s) {
      return s.kind == Step::Kind::copy && s.reads[0] == s.writes[0];
    });
  }

  // The body's plan; carries that can be overwritten in part are asked to.
  std::unique_ptr<Plan> plan_body(const Jaxpr& body, std::size_t first, std::size_t num_carry) {
    std::vector<int> producer(static_cast<std::size_t>(body.num_vars()), -1);
    for (std::size_t e = 0; e < body.eqns().size(); ++e) {
      for (const Var v : body.eqns()[e].outputs)
        producer[static_cast<std::size_t>(v)] = static_cast<int>(e);
    }
    PlanOptions options = options_;
    asked_.assign(num_carry, -1);
    for (std::size_t i = 0; options_.in_place && i < num_carry; ++i) {
      const Atom& out = body.outs()[i];
      if (out == Atom::var(static_cast<Var>(first + i))) {
        asked_[i] = kUnchanged;
        continue;
      }
      const auto chain = update_chain(body, producer, static_cast<Var>(first + i), out);
      if (chain.empty() || returned_otherwise(body, chain, i)) continue;
      asked_[i] = static_cast<int>(options.updates.size());
      options.updates.push_back(chain);
    }
    auto plan = plan_kernels(body, options);
    // What is refused is planned as anything else.
    if (std::find(plan->updates_in_place.begin(), plan->updates_in_place.end(), false) ==
        plan->updates_in_place.end())
      return plan;
    std::vector<std::vector<int>> granted;
    for (int& asked : asked_) {
      if (asked < 0 || asked == kUnchanged) continue;
      if (plan->updates_in_place[static_cast<std::size_t>(asked)]) {
        granted.push_back(options.updates[static_cast<std::size_t>(asked)]);
        asked = static_cast<int>(granted.size()) - 1;
      } else {
        asked = -1;
      }
    }
    options.updates = std::move(granted);
    return plan_kernels(body, options);
  }

  // Whether what the chain writes over, or its result, is another result of the body too.
  static bool returned_otherwise(const Jaxpr& body, const std::vector<int>& chain, std::size_t i) {
    for (std::size_t o = 0; o < body.outs().size(); ++o) {
      const Atom& out = body.outs()[o];
      for (const int e : chain) {
        const Eqn& eqn = body.eqns()[static_cast<std::size_t>(e)];
        if (out == eqn.inputs[0] || (o < i && out == Atom::var(eqn.outputs[0]))) return true;
      }
    }
    return false;
  }

  // The carry's operands and results of the body. `first`: of its initial values among the operands;
  // `body_first`: of its components among the body's inputs.
  void carry(Step& loop, const Jaxpr& body, const Plan&, std::size_t first, std::size_t num_carry,
             std::vector<int>& inputs, std::vector<int>& outputs,
             std::size_t body_first = static_cast<std::size_t>(-1)) {
    if (body_first == static_cast<std::size_t>(-1)) body_first = first;
    for (std::size_t i = 0; i < num_carry; ++i) {
      const Aval& aval = body.aval(static_cast<Var>(body_first + i));
      const int init = in_[first + i], last = out_[i];
      if (asked_[i] >= 0) {
        take_over(init, last, dies_[first + i]);
        inputs.push_back(last);
        outputs.push_back(last);
        continue;
      }
      const int second = add({aval, {}});
      const int from = add_view(aval, {init, last, second}), to = add_view(aval, {last, second});
      loop.carries.push_back({from, to, init, last, second});
      inputs.push_back(from);
      outputs.push_back(to);
    }
  }

  // `last` begins as a copy of `init`, or as `init` itself where nobody else wants that.
  void take_over(int init, int last, bool dies) {
    if (dies &&
        plan_.values[static_cast<std::size_t>(init)].location.kind == Location::Kind::none &&
        plan_.values[static_cast<std::size_t>(init)].slot < 0) {
      replace_value(steps_, init, last);
      for (Scope& s : plan_.scopes) std::replace(s.value_of.begin(), s.value_of.end(), init, last);
      return;
    }
    Step copy;
    copy.kind = Step::Kind::copy;
    copy.reads = {init};
    copy.writes = {last};
    steps_.push_back(std::move(copy));
  }

  Plan& plan_;
  const std::vector<int>& in_;
  const std::vector<bool>& dies_;
  std::vector<int>& out_;
  PlanOptions options_;
  std::vector<Step>& steps_;
  static constexpr int kUnchanged = 1 << 30;
  std::vector<int> asked_;  // of each carry: its chain of updates, kUnchanged, or -1
};

}  // namespace

void plan_region(Plan& plan, const Jaxpr&, const Eqn& eqn, const std::vector<int>& in,
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
