// The order of kernels: by what they read, by ordered effects, and by what updates write over.
#include <algorithm>

#include "compiler/fusion/fuser.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

void Fuser::chain_effects(int first, int second) {
  const int k = where_[static_cast<std::size_t>(first)].front();
  const int l = where_[static_cast<std::size_t>(second)].front();
  if (k != l) add_feed(k, l);
}

// Whether a result, or a reshape of it, is another name for the operand's memory, which may be read at any time.
bool Fuser::names_memory(int e) const {
  if (form(e) == Form::barrier) return true;
  if (form(e) != Form::reshape) return false;
  return in_memory_[static_cast<std::size_t>(e)] ||
         std::any_of(uses(e).begin(), uses(e).end(), [&](const Use& u) {
           return form(u.consumer) == Form::reshape && names_memory(u.consumer);
         });
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
      if (names_memory(static_cast<int>(e))) return false;
      for (const int reader : where_[e]) {
        if (reader == k || reach_.reaches(k, reader)) return false;
        add_feed(reader, k);
      }
    }
  }
  return true;
}

// ---- what is alive ---------------------------------------------------------------------------------

MemoryGraph Fuser::memory_graph() const {
  MemoryGraph graph;
  for (const Cluster& c : clusters_) {
    graph.next.emplace_back(c.feeds.begin(), c.feeds.end());
    graph.position.push_back(c.position);
    graph.in_place.push_back(options_.in_place && c.form == Form::element);
  }
  graph.writes.resize(clusters_.size());
  std::vector<std::set<int>> reads(clusters_.size());
  const auto num_eqns = jaxpr_.eqns().size();
  std::vector<int> place(num_eqns,
                         -1);  // of an equation's result; a reshape has that of its operand
  const auto place_of = [&](const Atom& a) {
    const int p = producer(a);
    return p < 0 ? -1 : place[static_cast<std::size_t>(p)];
  };
  for (std::size_t e = 0; e < num_eqns; ++e) {
    for (const int k : where_[e]) {
      for (const Atom& a : eqn(e).inputs) {
        if (const int p = place_of(a); p >= 0) reads[static_cast<std::size_t>(k)].insert(p);
      }
    }
    if (form(static_cast<int>(e)) == Form::reshape) {
      place[e] = place_of(eqn(e).inputs[0]);
      continue;
    }
    if (!in_memory_[e] || where_[e].empty()) continue;
    place[e] = static_cast<int>(graph.bytes.size());
    std::int64_t bytes = 0;
    for (const Var v : eqn(e).outputs) bytes += weight_of(jaxpr_.aval(v));
    graph.bytes.push_back(bytes);
    graph.writes[static_cast<std::size_t>(where_[e].front())].push_back(place[e]);
  }
  // Results have memory of their own.
  for (const Atom& a : jaxpr_.outs()) {
    if (const int p = place_of(a); p >= 0) graph.bytes[static_cast<std::size_t>(p)] = 0;
  }
  for (std::size_t k = 0; k < clusters_.size(); ++k) {
    for (const int p : graph.writes[k]) reads[k].erase(p);
    graph.reads.emplace_back(reads[k].begin(), reads[k].end());
  }
  return graph;
}

// ---- the order -------------------------------------------------------------------------------------

std::map<Var, std::vector<int>> Fuser::readers_of_inputs() const {
  std::map<Var, std::vector<int>> readers;
  for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
    for (const Atom& a : eqn(e).inputs) {
      if (a.is_var() && producer(a) < 0) readers[a.var()].push_back(static_cast<int>(e));
    }
  }
  return readers;
}

std::set<int> Fuser::others_first(int k, const std::vector<int>& readers) const {
  std::set<int> others;
  bool takes_part = false;
  for (const int e : readers) {
    if (names_memory(e)) return {};
    for (const int reader : where_[static_cast<std::size_t>(e)]) {
      takes_part = takes_part || reader == k;
      if (reader == k) continue;
      if (reach_.reaches(k, reader)) return {};
      others.insert(reader);
    }
  }
  return takes_part ? others : std::set<int>{};
}

bool Fuser::wait_for_readers() {
  bool waits = false;
  const auto readers = readers_of_inputs();
  std::map<int, Var> results;  // of clusters that are loops, one of each
  for (const Atom& out : jaxpr_.outs()) {
    const int p = producer(out);
    if (p < 0 || where_[static_cast<std::size_t>(p)].empty()) continue;
    if (const int k = cluster_of(p); cluster(k).form == Form::element)
      results.emplace(k, out.var());
  }
  std::set<int> chosen;
  for (const auto& [input, eqns] : readers) {
    std::set<int> asked;  // many equations of one loop may read it
    for (const int e : eqns) {
      for (const int k : where_[static_cast<std::size_t>(e)]) {
        const auto result = results.find(k);
        if (result == results.end() || chosen.contains(k) || !asked.insert(k).second) continue;
        const Aval &from = jaxpr_.aval(input), &to = jaxpr_.aval(result->second);
        if (!(from.shape == to.shape) || from.dtype != to.dtype) continue;
        const std::set<int> others = others_first(k, eqns);
        for (const int other : others) add_feed(other, k);
        if (!others.empty()) chosen.insert(k);
        waits = waits || !others.empty();
      }
    }
  }
  return waits;
}

void Fuser::let_loops_wait() {
  constexpr std::size_t kMostClusters =
      1000;  // each that reads an input is compared with the others
  if (clusters_.size() > kMostClusters) return;
  const MemoryGraph before = memory_graph();
  if (!wait_for_readers()) return;
  const MemoryGraph after = memory_graph();
  if (peak(after, as_written(after)) <= peak(before, as_written(before))) return;
  for (std::size_t k = 0; k < clusters_.size(); ++k)
    clusters_[k].feeds = {before.next[k].begin(), before.next[k].end()};
}

std::vector<Cluster> Fuser::ordered() {
  if (options_.in_place) let_loops_wait();
  const MemoryGraph graph = memory_graph();
  std::vector<int> order = as_written(graph);
  if (options_.schedule && peak(graph, order) >= kMuchMemory) order = least_memory(graph);
  std::vector<Cluster> out;
  for (const int k : order) {
    if (cluster(k).form != Form::ops) out.push_back(std::move(cluster(k)));
  }
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
