// The order of kernels: by what they read, by ordered effects, and by what updates write over.
#include <algorithm>

#include "compiler/fusion/fuser.hpp"
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

// ---- what is alive ---------------------------------------------------------------------------------

Fuser::Storage Fuser::storage() const {
  Storage s;
  s.writes.resize(clusters_.size());
  s.reads.resize(clusters_.size());
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
        const int read = place_of(a);
        if (read >= 0) s.reads[static_cast<std::size_t>(k)].insert(read);
      }
    }
    if (!in_memory_[e]) continue;
    if (form(static_cast<int>(e)) == Form::reshape) {
      place[e] = place_of(eqn(e).inputs[0]);
      continue;
    }
    if (where_[e].empty()) continue;
    place[e] = static_cast<int>(s.bytes.size());
    std::int64_t bytes = 0;
    for (const Var v : eqn(e).outputs) bytes += weight_of(jaxpr_.aval(v));
    s.bytes.push_back(bytes);
    s.writes[static_cast<std::size_t>(where_[e].front())].push_back(place[e]);
  }
  s.readers.assign(s.bytes.size(), 0);
  for (const auto& places : s.reads) {
    for (const int p : places) ++s.readers[static_cast<std::size_t>(p)];
  }
  // Results have memory of their own.
  for (const Atom& a : jaxpr_.outs()) {
    if (const int p = place_of(a); p >= 0) s.bytes[static_cast<std::size_t>(p)] = 0;
  }
  return s;
}

std::int64_t Fuser::Storage::run(int k) {
  for (const int p : writes[static_cast<std::size_t>(k)])
    alive += bytes[static_cast<std::size_t>(p)];
  const std::int64_t most = alive;
  for (const int p : reads[static_cast<std::size_t>(k)]) {
    if (--readers[static_cast<std::size_t>(p)] == 0) alive -= bytes[static_cast<std::size_t>(p)];
  }
  return most;
}

std::int64_t Fuser::Storage::growth(int k) const {
  std::int64_t more = 0;
  for (const int p : writes[static_cast<std::size_t>(k)])
    more += bytes[static_cast<std::size_t>(p)];
  for (const int p : reads[static_cast<std::size_t>(k)]) {
    if (readers[static_cast<std::size_t>(p)] == 1) more -= bytes[static_cast<std::size_t>(p)];
  }
  return more;
}

// ---- the order -------------------------------------------------------------------------------------

template <class Choose>
std::vector<int> Fuser::order_by(const Choose& choose) const {
  std::vector<int> waiting(clusters_.size(), 0), out;
  for (const Cluster& c : clusters_) {
    for (const int next : c.feeds) ++waiting[static_cast<std::size_t>(next)];
  }
  std::set<std::pair<int, int>> ready;  // by position
  for (std::size_t k = 0; k < clusters_.size(); ++k) {
    if (waiting[k] == 0) ready.insert({clusters_[k].position, static_cast<int>(k)});
  }
  while (!ready.empty()) {
    const auto chosen = choose(ready);
    const int k = chosen->second;
    ready.erase(chosen);
    out.push_back(k);
    for (const int next : clusters_[static_cast<std::size_t>(k)].feeds) {
      if (--waiting[static_cast<std::size_t>(next)] == 0)
        ready.insert({clusters_[static_cast<std::size_t>(next)].position, next});
    }
  }
  if (out.size() != clusters_.size()) throw InternalError("fusion made a cycle of kernels");
  return out;
}

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
    // Another name for the same memory may be read at any time.
    const Form f = form(e);
    if (f == Form::barrier || (f == Form::reshape && in_memory_[static_cast<std::size_t>(e)]))
      return {};
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
    for (const int e : eqns) {
      for (const int k : where_[static_cast<std::size_t>(e)]) {
        const auto result = results.find(k);
        if (result == results.end() || chosen.contains(k)) continue;
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

// The order of the program, unless one that prefers what frees memory needs much less of it.
std::vector<Cluster> Fuser::ordered() {
  constexpr std::size_t kMostClusters = 1000;
  constexpr std::int64_t kMuch = 1 << 20;
  using Ready = std::set<std::pair<int, int>>;
  const auto as_written = [&] {
    return order_by([](const Ready& ready) { return ready.begin(); });
  };
  std::vector<int> order = as_written();
  if (clusters_.size() <= kMostClusters) {
    const Storage start = storage();
    const auto peak = [&](const std::vector<int>& by) {
      Storage s = start;
      std::int64_t most = 0;
      for (const int k : by) most = std::max(most, s.run(k));
      return most;
    };
    std::vector<std::set<int>> feeds;
    for (const Cluster& c : clusters_) feeds.push_back(c.feeds);
    if (options_.in_place && wait_for_readers()) {
      std::vector<int> waiting = as_written();
      if (peak(waiting) <= peak(order)) {
        order = std::move(waiting);
      } else {
        for (std::size_t k = 0; k < clusters_.size(); ++k) clusters_[k].feeds = feeds[k];
      }
    }
    if (const std::int64_t most = peak(order); options_.schedule && most >= kMuch) {
      Storage now = start;
      std::vector<int> frugal = order_by([&](const Ready& ready) {
        const auto least = std::min_element(ready.begin(), ready.end(), [&](auto& a, auto& b) {
          return now.growth(a.second) < now.growth(b.second);
        });
        now.run(least->second);
        return least;
      });
      if (4 * peak(frugal) <= 3 * most) order = std::move(frugal);
    }
  }
  std::vector<Cluster> out;
  for (const int k : order) {
    if (cluster(k).form != Form::ops) out.push_back(std::move(cluster(k)));
  }
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
