// Memory: live ranges over the tree of steps, then one arena with best-fit offsets.
//
// Steps are numbered in the order in which they run. A value lives from the first step that writes
// it to the last that uses it; what is used inside a loop but written outside lives until the loop
// ends, since the next trip uses it again. A kernel may write a result over an operand that dies
// with it when it reads that operand only at the index that it writes.
#include <algorithm>
#include <map>

#include "compiler/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kPage = 4096;

struct Range {
  int first = -1, last = -1;  // steps
};

class Liveness {
 public:
  explicit Liveness(const Plan& plan) : ranges(plan.values.size()) { walk(plan.steps); }

  std::vector<Range> ranges;
  std::map<int, const Step*> kernels;  // by number

 private:
  void walk(const std::vector<Step>& steps) {
    for (const Step& s : steps) {
      const int now = counter_++;
      if (s.kind == Step::Kind::kernel) kernels[now] = &s;
      for (const int v : s.writes) touch(v, now);
      for (const int v : s.reads) touch(v, now);
      if (s.bodies.empty()) continue;
      const bool loop = s.kind == Step::Kind::loop;
      for (const auto& body : s.bodies) walk(body);
      const int end = counter_++;
      if (loop) {
        for (const int v : s.writes) touch(v, end);  // the trip's number
        // What was alive before the loop and is used in it is used again on the next trip.
        for (Range& r : ranges) {
          if (r.first >= 0 && r.first < now && r.last > now) r.last = std::max(r.last, end);
        }
      }
    }
  }
  void touch(int v, int now) {
    Range& r = ranges[static_cast<std::size_t>(v)];
    if (r.first < 0) r.first = now;
    r.last = std::max(r.last, now);
  }
  int counter_ = 0;
};

class Arena {
 public:
  Arena(Plan& plan, const PlanOptions& options) : plan_(plan), options_(options), live_(plan) {}

  void run() {
    // Inputs live from before the first step, results until after the last.
    std::vector<int> order;
    for (std::size_t v = 0; v < plan_.values.size(); ++v) {
      if (plan_.values[v].location.kind == Location::Kind::none && range(v).first >= 0)
        order.push_back(static_cast<int>(v));
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return std::pair(range(a).first, a) < std::pair(range(b).first, b);
    });
    for (const int v : order) place(v);
    find_reusable();
  }

 private:
  Range& range(std::size_t v) { return live_.ranges[v]; }
  Range& range(int v) { return live_.ranges[static_cast<std::size_t>(v)]; }
  Value& value(int v) { return plan_.values[static_cast<std::size_t>(v)]; }

  // Whether the kernel at v's first write may store v over u, which it is the last to read.
  bool over(int v, int u) {
    if (!options_.in_place || range(u).last != range(v).first ||
        value(u).bytes() != value(v).bytes())
      return false;
    const auto found = live_.kernels.find(range(v).first);
    if (found == live_.kernels.end()) return false;
    return found->second->kernel.in_place.contains(u) &&
           size_of(value(u).aval.dtype) == size_of(value(v).aval.dtype);
  }

  void place(int v) {
    const std::int64_t bytes = std::max<std::int64_t>(
        (value(v).bytes() + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
    std::int64_t best = -1;
    for (Placed& p : placed_) {
      if (best >= 0 || p.overwritten || !options_.reuse_memory || !over(v, p.value)) continue;
      p.overwritten = true;
      best = p.offset;
    }
    if (best < 0) best = best_fit(v, bytes);
    placed_.push_back({v, best, bytes});
    value(v).location = {Location::Kind::arena, best};
    plan_.arena_bytes = std::max(plan_.arena_bytes, best + bytes);
  }

  // The smallest gap between the values that are alive with v.
  std::int64_t best_fit(int v, std::int64_t bytes) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;  // [begin, end)
    for (const Placed& p : placed_) {
      const bool apart =
          range(p.value).last < range(v).first || range(v).last < range(p.value).first;
      if (!apart || !options_.reuse_memory) taken.push_back({p.offset, p.offset + p.bytes});
    }
    std::sort(taken.begin(), taken.end());
    const std::int64_t unit = bytes >= 64 * kPage ? kPage : kAlignment;
    const auto aligned = [&](std::int64_t offset) { return (offset + unit - 1) / unit * unit; };
    std::int64_t best = -1, best_gap = 0, end = 0;
    for (const auto& [from, to] : taken) {
      const std::int64_t gap = from - aligned(end);
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = aligned(end);
        best_gap = gap;
      }
      end = std::max(end, to);
    }
    return best >= 0 ? best : aligned(end);
  }

  // Donated arguments become results where the argument is dead by the time the result is written.
  void find_reusable() {
    plan_.reusable.assign(static_cast<std::size_t>(plan_.num_outputs), {});
    for (std::size_t r = 0; r < plan_.values.size(); ++r) {
      const Value& result = plan_.values[r];
      if (result.location.kind != Location::Kind::result || range(r).first < 0) continue;
      for (int a = 0; a < plan_.num_inputs; ++a) {
        const Value& argument = value(a);
        if (argument.bytes() != result.bytes() || argument.bytes() == 0) continue;
        const bool dead = range(a).last < range(r).first || over(static_cast<int>(r), a);
        if (dead) plan_.reusable[static_cast<std::size_t>(result.location.index)].push_back(a);
      }
    }
  }

  struct Placed {
    int value;
    std::int64_t offset, bytes;
    bool overwritten = false;  // in place, by the kernel that read it last
  };
  Plan& plan_;
  const PlanOptions& options_;
  Liveness live_;
  std::vector<Placed> placed_;
};

}  // namespace

void assign_buffers(Plan& plan, const PlanOptions& options) { Arena(plan, options).run(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
