// Orders of kernels, found each by one rule, of which the one with the least memory at its peak is taken.
#include "compiler/fusion/schedule.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// What is alive while kernels run one after the other.
class Memory {
 public:
  explicit Memory(const MemoryGraph& graph) : graph_(graph), readers_(graph.bytes.size(), 0) {
    for (const auto& places : graph.reads) {
      for (const int p : places) ++readers_[at(p)];
    }
  }

  /// The bytes that are alive while k runs.
  std::int64_t run(int k) {
    const std::int64_t most = alive_ + written(k) - overwritten(k);
    alive_ += growth(k);
    for (const int p : graph_.reads[at(k)]) --readers_[at(p)];
    return most;
  }
  /// By how much running it changes what is alive afterwards.
  std::int64_t growth(int k) const {
    std::int64_t more = 0;
    for (const int p : graph_.writes[at(k)]) more += readers_[at(p)] > 0 ? graph_.bytes[at(p)] : 0;
    for (const int p : graph_.reads[at(k)]) more -= dies(p) ? graph_.bytes[at(p)] : 0;
    return more;
  }
  /// Whether the next kernel that reads it is the last.
  bool dies(int place) const { return readers_[at(place)] == 1; }

 private:
  std::int64_t written(int k) const {
    std::int64_t bytes = 0;
    for (const int p : graph_.writes[at(k)]) bytes += graph_.bytes[at(p)];
    return bytes;
  }
  // The bytes that it writes over what it reads, each block over another of the same size.
  std::int64_t overwritten(int k) const {
    if (!graph_.in_place[at(k)]) return 0;
    std::multiset<std::int64_t> dying;
    for (const int p : graph_.reads[at(k)]) {
      if (dies(p)) dying.insert(graph_.bytes[at(p)]);
    }
    std::int64_t bytes = 0;
    for (const int p : graph_.writes[at(k)]) {
      const auto found = dying.find(graph_.bytes[at(p)]);
      if (found == dying.end()) continue;
      bytes += *found;
      dying.erase(found);
    }
    return bytes;
  }

  const MemoryGraph& graph_;
  std::vector<int> readers_;  // of each place: kernels that are still to read it
  std::int64_t alive_ = 0;
};

/// Kernels that wait for no other, by a key: the least first.
template <class Key>
class Ready {
 public:
  explicit Ready(const MemoryGraph& graph) : graph_(graph), waiting_(graph.next.size(), 0) {
    for (const auto& next : graph.next) {
      for (const int k : next) ++waiting_[at(k)];
    }
  }
  /// Takes one after the other; `key(k)` is asked when k is ready, `run(k)` when it is taken.
  template <class KeyOf, class Run>
  std::vector<int> order(const KeyOf& key, const Run& run) {
    const auto enter = [&](int k) { enter_with(k, key(k)); };
    keys_.resize(graph_.next.size());
    is_ready_.assign(graph_.next.size(), false);
    for (std::size_t k = 0; k < graph_.next.size(); ++k) {
      if (waiting_[k] == 0) enter(static_cast<int>(k));
    }
    std::vector<int> out;
    while (!ready_.empty()) {
      const int k = std::get<2>(*ready_.begin());
      leave(k);
      out.push_back(k);
      run(k);
      for (const int next : graph_.next[at(k)]) {
        if (--waiting_[at(next)] == 0) enter(next);
      }
    }
    if (out.size() != graph_.next.size()) throw InternalError("fusion made a cycle of kernels");
    return out;
  }
  /// The key of k is another one, if it is ready.
  void change(int k, Key key) {
    if (!is_ready_[at(k)]) return;
    leave(k);
    enter_with(k, key);
  }

 private:
  std::tuple<Key, int, int> entry(int k) const { return {keys_[at(k)], graph_.position[at(k)], k}; }
  void enter_with(int k, Key key) {
    keys_[at(k)] = key;
    is_ready_[at(k)] = true;
    ready_.insert(entry(k));
  }
  void leave(int k) {
    ready_.erase(entry(k));
    is_ready_[at(k)] = false;
  }

  const MemoryGraph& graph_;
  std::vector<int> waiting_;
  std::vector<Key> keys_;
  std::vector<bool> is_ready_;
  std::set<std::tuple<Key, int, int>> ready_;
};

/// In `of` order: what each kernel waits for, that which needs the most beyond what it leaves first.
std::vector<std::vector<int>> operands_first(const MemoryGraph& graph, const std::vector<int>& of) {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const std::size_t n = graph.next.size();
  std::vector<std::vector<int>> before(n);
  for (const int k : of) {
    for (const int next : graph.next[at(k)]) before[at(next)].push_back(k);
  }
  std::vector<std::int64_t> need(n), left(n);
  for (const int k : of) {
    auto& operands = before[at(k)];
    std::sort(operands.begin(), operands.end(), [&](int a, int b) {
      return std::tuple(left[at(a)] - need[at(a)], graph.position[at(a)], a) <
             std::tuple(left[at(b)] - need[at(b)], graph.position[at(b)], b);
    });
    for (const int p : graph.writes[at(k)]) left[at(k)] += graph.bytes[at(p)];
    std::int64_t alive = 0;
    for (const int operand : operands) {
      need[at(k)] = std::max(need[at(k)], alive + need[at(operand)]);
      alive += left[at(operand)];
    }
    need[at(k)] = std::min(kMost, std::max(need[at(k)], alive + left[at(k)]));
  }
  return before;
}

}  // namespace

std::int64_t peak(const MemoryGraph& graph, const std::vector<int>& order) {
  Memory memory(graph);
  std::int64_t most = 0;
  for (const int k : order) most = std::max(most, memory.run(k));
  return most;
}

std::vector<int> as_written(const MemoryGraph& graph) {
  return Ready<int>(graph).order([](int) { return 0; }, [](int) {});
}

std::vector<int> least_growth(const MemoryGraph& graph) {
  std::vector<std::vector<int>> readers(graph.bytes.size());
  for (std::size_t k = 0; k < graph.reads.size(); ++k) {
    for (const int p : graph.reads[k]) readers[at(p)].push_back(static_cast<int>(k));
  }
  Memory now(graph);
  Ready<std::int64_t> ready(graph);
  return ready.order([&](int k) { return now.growth(k); },
                     [&](int k) {
                       now.run(k);
                       // Whoever reads last what k has read, too, frees it.
                       for (const int p : graph.reads[at(k)]) {
                         if (!now.dies(p)) continue;
                         for (const int l : readers[at(p)]) ready.change(l, now.growth(l));
                       }
                     });
}

std::vector<int> depth_first(const MemoryGraph& graph) {
  const std::vector<int> written = as_written(graph);
  const std::vector<std::vector<int>> before = operands_first(graph, written);
  std::vector<int> out;
  std::vector<bool> seen(graph.next.size(), false);
  std::vector<std::pair<int, std::size_t>>
      path;  // kernels, and how many operands have been visited
  const auto visit = [&](int k) {
    if (seen[at(k)]) return;
    seen[at(k)] = true;
    path.emplace_back(k, 0);
  };
  for (const int last : written) {
    if (graph.next[at(last)].empty()) visit(last);
    while (!path.empty()) {
      auto& [k, visited] = path.back();
      if (visited < before[at(k)].size()) {
        visit(before[at(k)][visited++]);
      } else {
        out.push_back(k);
        path.pop_back();
      }
    }
  }
  return out;
}

std::vector<int> least_memory(const MemoryGraph& graph) {
  std::vector<int> best = as_written(graph);
  std::int64_t least = peak(graph, best);
  for (const auto order_by : {least_growth, depth_first}) {
    std::vector<int> order = order_by(graph);
    const std::int64_t most = peak(graph, order);
    if (most >= least) continue;
    best = std::move(order);
    least = most;
  }
  return best;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
