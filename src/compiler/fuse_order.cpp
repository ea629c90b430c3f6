// The order of kernels: by what they read, by ordered effects, and by what updates write over.
#include <algorithm>

#include "compiler/fuser.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

void Fuser::chain_effects(int first, int second) {
  const int k = where_[static_cast<std::size_t>(first)].front();
  const int l = where_[static_cast<std::size_t>(second)].front();
  if (k != l) add_feed(k, l);
}

bool Fuser::read_before(const UpdateChain& chain) {
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

std::vector<Cluster> Fuser::ordered() {
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

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
