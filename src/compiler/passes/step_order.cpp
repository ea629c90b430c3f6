// The order of a program's equations where some of them are computed together: see step_order.hpp.
#include "compiler/passes/step_order.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr int kNone = -1;

class StepOrder {
 public:
  StepOrder(const Jaxpr& jaxpr, std::vector<int>& group_of)
      : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)), group_of_(group_of) {
    readers_.resize(static_cast<std::size_t>(jaxpr.num_vars()));
    for (int e = 0; e < count(); ++e) {
      for (const Atom& a : eqn(e).inputs) {
        if (a.is_var()) readers_[static_cast<std::size_t>(a.var())].push_back(e);
      }
      if (const int g = group(e); g != kNone) {
        if (members_.size() <= static_cast<std::size_t>(g))
          members_.resize(static_cast<std::size_t>(g) + 1);
        members_[static_cast<std::size_t>(g)].push_back(e);
      }
    }
  }

  std::vector<int> run() {
    find_waits();
    for (int e = 0; e < count(); ++e) {
      if (step_of(e) == e && waits(e) == 0) ready_.push(e);
    }
    take_ready();
    for (const std::vector<int>& members : members_) {
      if (members.empty() || is_done_[static_cast<std::size_t>(members[0])]) continue;
      give_up(members);
      take_ready();
    }
    return std::move(steps_);
  }

 private:
  int count() const { return static_cast<int>(jaxpr_.eqns().size()); }
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int producer(const Atom& a) const {
    return a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : kNone;
  }
  int group(int e) const { return group_of_[static_cast<std::size_t>(e)]; }
  const std::vector<int>& members(int g) const { return members_[static_cast<std::size_t>(g)]; }
  int step_of(int e) const { return group(e) == kNone ? e : members(group(e)).back(); }
  // For how much of other steps the step of an equation waits: results and effects.
  int& waits(int e) { return waits_[static_cast<std::size_t>(step_of(e))]; }

  void find_waits() {
    waits_.assign(jaxpr_.eqns().size(), 0);
    is_done_.assign(jaxpr_.eqns().size(), false);
    next_effect_.assign(jaxpr_.eqns().size(), kNone);
    int effect = kNone;
    for (int e = 0; e < count(); ++e) {
      for (const Atom& a : eqn(e).inputs) {
        if (producer(a) >= 0 && step_of(producer(a)) != step_of(e)) ++waits(e);
      }
      if (eqn(e).effect == Effect::none) continue;
      if (effect != kNone) {
        next_effect_[static_cast<std::size_t>(effect)] = e;
        ++waits(e);
      }
      effect = e;
    }
  }
  void take_ready() {
    while (!ready_.empty()) {
      const int step = ready_.top();
      ready_.pop();
      steps_.push_back(step);
      if (group(step) == kNone) {
        finish(step);
      } else {
        for (const int e : members(group(step))) finish(e);
      }
    }
  }
  void finish(int e) {
    is_done_[static_cast<std::size_t>(e)] = true;
    const auto arrives = [&](int reader) {
      if (step_of(reader) != step_of(e) && --waits(reader) == 0) ready_.push(step_of(reader));
    };
    for (const Var v : eqn(e).outputs) {
      for (const int reader : readers_[static_cast<std::size_t>(v)]) arrives(reader);
    }
    if (const int next = next_effect_[static_cast<std::size_t>(e)]; next != kNone) arrives(next);
  }
  void give_up(const std::vector<int>& members) {
    for (const int e : members) group_of_[static_cast<std::size_t>(e)] = kNone;
    for (const int e : members) {
      waits(e) = static_cast<int>(
          std::count_if(eqn(e).inputs.begin(), eqn(e).inputs.end(), [&](const Atom& a) {
            return producer(a) >= 0 && !is_done_[static_cast<std::size_t>(producer(a))];
          }));
      if (waits(e) == 0) ready_.push(e);
    }
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producer_;
  std::vector<int>& group_of_;
  std::vector<std::vector<int>> members_;  // of each group
  std::vector<std::vector<int>> readers_;  // equations, of each variable
  std::vector<int> waits_, next_effect_;   // of each step, and of each equation
  std::vector<bool> is_done_;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready_;
  std::vector<int> steps_;
};

}  // namespace

std::vector<int> order_of_steps(const Jaxpr& jaxpr, std::vector<int>& group_of) {
  return StepOrder(jaxpr, group_of).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
