// Memory: live ranges over the tree of steps, then one arena (packing.hpp).
//
// Steps are numbered in the order in which they run. A value lives from the first step that writes
// it to the last that uses it; what is used inside a loop but written outside lives until the loop
// ends, since the next trip uses it again. A kernel may write a result over an operand that dies
// with it when it reads that operand only at the index that it writes. Where it writes a result of the
// program, the operand is in the result's memory from the start. What else would make the arena larger lies in
// the memory of results that nothing has been written to yet (rooms.hpp), unless they may take over an argument.
//
// A loop that runs in chunks has a slice of the arena per chunk for the values that only its body
// uses; all slices together are one block of the arena while the loop runs.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "compiler/plan/packing.hpp"
#include "compiler/plan/plan.hpp"
#include "compiler/plan/rooms.hpp"
#include "compiler/plan/tiles.hpp"
#include "core/integers.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Smaller values stay in the arena, which is in the caches where it has no others.
constexpr std::int64_t kLeastInResult = 4096;

/// A loop that runs in chunks.
struct Chunked {
  Step* step;
  LiveRange range;
};

class Liveness {
 public:
  explicit Liveness(Plan& plan) : ranges(plan.values.size()), plan_(plan) {
    walk(plan.steps, false);
  }

  std::vector<LiveRange> ranges;
  std::map<int, const Step*> kernels;  // by number
  std::map<int, const Step*> copies;
  std::set<int> outer;           // the numbers of steps that are in no loop nor branch
  std::vector<int> begins;       // of the plan's own steps: their numbers
  std::vector<Chunked> chunked;  // in order; none inside another
  std::vector<int> hosts;        // the step by whose end each host step is over; ascending

 private:
  void walk(std::vector<Step>& steps, bool inside) {
    for (Step& s : steps) {
      const int now = counter_++;
      if (&steps == &plan_.steps) begins.push_back(now);
      if (s.kind == Step::Kind::kernel) kernels[now] = &s;
      if (s.kind == Step::Kind::copy) copies[now] = &s;
      if (s.kind == Step::Kind::host) hosts.push_back(now);
      if (s.bodies.empty() && &steps == &plan_.steps) outer.insert(now);
      const bool loop = s.kind == Step::Kind::loop || s.kind == Step::Kind::repeat;
      const bool chunks = s.kind == Step::Kind::loop && s.grain > 0 && !inside;
      for (const int v : s.reads) touch(v, now);
      if (s.bodies.empty()) {
        for (const int v : s.writes) touch(v, now);
        continue;
      }
      // Within the loop's range, so that each chunk has a trip number of its own.
      const int enter = counter_++;
      for (const int v : s.writes) touch(v, enter);
      touch_views(s, enter);
      const std::size_t hosts_before = hosts.size();
      for (auto& body : s.bodies) walk(body, inside || chunks);
      const int end = counter_++;
      std::fill(hosts.begin() + static_cast<std::ptrdiff_t>(hosts_before), hosts.end(), end);
      if (loop) {
        for (const int v : s.writes) touch(v, end);  // the trip's number
        touch_views(s, end);
        if (s.kind == Step::Kind::repeat) touch(s.reads[0], end);
        // What was alive before the loop and is used in it is used again on the next trip.
        for (LiveRange& r : ranges) {
          if (r.first >= 0 && r.first < enter && r.last > now) r.last = std::max(r.last, end);
        }
      }
      if (chunks) chunked.push_back({&s, {enter, end}});
    }
  }
  void touch_views(const Step& s, int now) {
    for (const Step::Row& r : s.rows) {
      touch(r.view, now);
#ifdef TELAMON_DEBUG_CHECKS
      const std::vector<int>& bases = plan_.values[static_cast<std::size_t>(r.view)].bases;
      if (std::find(bases.begin(), bases.end(), r.base) == bases.end())
        throw InternalError("a row of an array that its view knows nothing of");
#endif
    }
    for (const Step::Carry& c : s.carries) {
      for (const int v : {c.in, c.out, c.first, c.second}) touch(v, now);
    }
  }
  void touch(int v, int now) {
    const Value& value = plan_.values[static_cast<std::size_t>(v)];
    if (value.slot >= 0) touch(value.slot, now);
    for (const int base : value.bases) touch(base, now);
    LiveRange& r = ranges[static_cast<std::size_t>(v)];
    if (r.first < 0) r.first = now;
    r.last = std::max(r.last, now);
  }
  const Plan& plan_;
  int counter_ = 0;
};

/// Steps that are to be done tile by tile, in one pass: what they use must not share memory.
class Passes {
 public:
  /// `begins`: the numbers of the plan's own steps.
  Passes(const Plan& plan, const PlanOptions& options, const std::vector<int>& begins)
      : begins_(begins) {
    if (options.tiles && may_have_tiles(plan)) heads_ = heads_of_tiles(plan);
  }
  /// From the begin of the pass in which it begins to the end of that in which it ends.
  LiveRange around(LiveRange range) const {
    if (heads_.empty()) return range;
    const std::size_t last = heads_[step_at(range.last)];
    const auto next = std::upper_bound(heads_.begin(), heads_.end(), last) - heads_.begin();
    if (next < std::ssize(begins_)) range.last = begins_[static_cast<std::size_t>(next)] - 1;
    range.first = begins_[heads_[step_at(range.first)]];
    return range;
  }

 private:
  std::size_t step_at(int number) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), number);
    return static_cast<std::size_t>(after - begins_.begin() - 1);
  }
  const std::vector<int>& begins_;
  std::vector<std::size_t> heads_;
};

class Arena {
 public:
  Arena(Plan& plan, const PlanOptions& options) : plan_(plan), options_(options), live_(plan) {}

  void run() {
    const bool in_results = options_.reuse_memory && options_.place_in_results;
    if (in_results) place_in_results();
    find_earliest();
    find_reusable();
    const Passes passes(plan_, options_, live_.begins);  // before values have their places
    // Inputs live from before the first step, results until after the last.
    std::vector<int> order;
    for (std::size_t v = 0; v < plan_.values.size(); ++v) {
      if (plan_.values[v].location.kind == Location::Kind::none && range(v).first >= 0 &&
          plan_.values[v].slot < 0)
        order.push_back(static_cast<int>(v));
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return std::pair(range(a).first, a) < std::pair(range(b).first, b);
    });
    for (const Chunked& loop : live_.chunked) place_slice(loop, order);
    auto loop = live_.chunked.begin();
    const auto place_loops = [&](int before) {
      for (; loop != live_.chunked.end() && loop->range.first < before; ++loop) {
        const std::int64_t bytes = loop->step->num_chunks() * loop->step->slice_bytes;
        if (bytes > 0) loop->step->slice = arena_.add(loop->range, bytes);
      }
    };
    for (const int v : order) {
      place_loops(range(v).first);
      place(arena_, v, Location::Kind::arena);
    }
    place_loops(std::numeric_limits<int>::max());
    const std::int64_t least_alive = in_results ? move_into_results(order, passes) : 0;
    pack(arena_, order);
    for (const Chunked& c : live_.chunked) {
      if (c.step->slice_bytes > 0) c.step->slice = arena_.offset(c.step->slice);
    }
    plan_.arena_bytes = arena_.bytes;
    plan_.live_bytes = in_results ? least_alive : arena_.most_alive;
    for (Value& v : plan_.values) {
      if (v.slot < 0 || range(v.slot).first < 0) continue;
      const Location slot = value(v.slot).location;
      v.location = {slot.kind == Location::Kind::arena ? Location::Kind::arena_slot
                                                       : Location::Kind::chunk_slot,
                    slot.index};
    }
  }

 private:
  LiveRange& range(std::size_t v) { return live_.ranges[v]; }
  LiveRange& range(int v) { return live_.ranges[static_cast<std::size_t>(v)]; }
  Value& value(int v) { return plan_.values[static_cast<std::size_t>(v)]; }

  // The kernel at v's first write.
  const Kernel* writer(int v) {
    const auto found = live_.kernels.find(range(v).first);
    return found == live_.kernels.end() ? nullptr : &found->second->kernel;
  }
  bool fits(int v, int u) {
    return options_.in_place && range(u).last == range(v).first &&
           value(u).bytes() == value(v).bytes() &&
           size_of(value(u).aval.dtype) == size_of(value(v).aval.dtype);
  }

  bool may_be_donated(int v) const {
    const auto i = static_cast<std::size_t>(v);
    return i < plan_.donated.size() && plan_.donated[i];  // the inputs are the first values
  }

  // What a result is written over, and what that was written over, and so on.
  void place_in_results() {
    std::map<std::int64_t, int> sharing;  // of each result's memory: values
    for (const Value& v : plan_.values) {
      if (v.location.kind == Location::Kind::result) ++sharing[v.location.index];
    }
    for (std::size_t r = 0; r < plan_.values.size(); ++r) {
      const Location where = plan_.values[r].location;
      if (where.kind != Location::Kind::result || sharing.at(where.index) > 1) continue;
      for (int v = static_cast<int>(r), u = within_reach(v); u >= 0; u = within_reach(v)) {
        value(u).location = where;
        range(r).first = range(u).first;  // what it may be written over is gone by then
        v = u;
      }
    }
  }
  // A value without a place over which v is written, outside of loops; -1 when there is none.
  int within_reach(int v) {
    const Kernel* kernel = live_.outer.contains(range(v).first) ? writer(v) : nullptr;
    if (kernel == nullptr) return -1;
    // Where it can be written over an argument, the result takes over that one's memory when it is donated.
    const auto is_argument = [&](int u) { return may_be_donated(u) && fits(v, u); };
    if (std::any_of(kernel->in_place.begin(), kernel->in_place.end(), is_argument)) return -1;
    for (const int u : kernel->in_place) {
      const Value& operand = value(u);
      if (operand.location.kind == Location::Kind::none && operand.slot < 0 &&
          operand.bases.empty() && fits(v, u) && live_.outer.contains(range(u).first))
        return u;
    }
    return -1;
  }

  // Of a kernel that runs in chunks: each has a slice of it, which is told by its place in the arena.
  bool is_tape(int v) {
    const Kernel* const kernel = writer(v);
    return kernel != nullptr && kernel->tape == v;
  }

  // Takes values of `values` out of the arena, before it is packed. The bytes that no arena does without.
  std::int64_t move_into_results(std::vector<int>& values, const Passes& passes) {
    const std::vector<Block> blocks = arena_.blocks();
    std::vector<Request> requests(blocks.size());  // but for slices, tapes, and what is small
    for (const int v : values) {
      const auto b = static_cast<std::size_t>(value(v).location.index);
      if (value(v).bytes() >= kLeastInResult && !is_tape(v))
        requests[b] = {value(v).bytes(), passes.around(blocks[b].range)};
    }
    std::vector<Room> rooms;
    std::vector<std::int64_t> results;  // of each room
    for (std::size_t o = 0; o < earliest_.size(); ++o) {
      if (earliest_[o] < 0 || !equal_[o] || !plan_.reusable[o].empty()) continue;
      const Value& result = value(earliest_[o]);
      rooms.push_back({result.bytes(), passes.around(range(earliest_[o])).first});
      results.push_back(static_cast<std::int64_t>(o));
    }
    const Housing housing = fill_rooms(blocks, requests, rooms);
    arena_ = Packing();
    std::vector<Location> moved;  // of each block
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const auto [room, offset] = housing.places[b];
      moved.push_back(
          room < 0 ? Location{Location::Kind::arena, arena_.add(blocks[b].range, blocks[b].needed)}
                   : in_result({results[static_cast<std::size_t>(room)], offset}));
    }
    for (const int v : values)
      value(v).location = moved[static_cast<std::size_t>(value(v).location.index)];
    for (const Chunked& c : live_.chunked) {
      if (c.step->slice_bytes > 0)
        c.step->slice = moved[static_cast<std::size_t>(c.step->slice)].index;
    }
    std::erase_if(values, [&](int v) { return value(v).location.kind != Location::Kind::arena; });
    return housing.least_alive;
  }
  Location in_result(const InResult& place) {
    const std::int64_t next = plan_.num_outputs + std::ssize(plan_.in_results);
    const auto [known, is_new] = in_results_.try_emplace({place.result, place.offset}, next);
    if (is_new) plan_.in_results.push_back(place);
    return {Location::Kind::in_result, known->second};
  }

  // The values that only this loop's body uses go into its slices, and out of `order`.
  void place_slice(const Chunked& loop, std::vector<int>& order) {
    Packing slice;
    std::vector<int> inside;
    std::erase_if(order, [&](int v) {
      if (!loop.range.contains(range(v))) return false;
      place(slice, v, Location::Kind::chunk);
      inside.push_back(v);
      return true;
    });
    pack(slice, inside);
    if (slice.bytes == 0) return;
    // Neighbouring chunks share no line of the cache. Nor is what one writes first next to what another reads last:
    // processors fetch lines ahead, and would take these from each other (two threads that go through 33 KB each, Zen 5:
    // 0.385 us side by side, 0.34 where at least 256 bytes are between them).
    constexpr std::int64_t kApart = 4 * kAlignment;
    loop.step->slice_bytes = detail::rounded_up(slice.bytes, kApart) + kApart;
  }

  /// From numbers of blocks to offsets.
  void pack(Packing& memory, const std::vector<int>& values) {
    memory.pack(options_.reuse_memory);
    for (const int v : values) {
      std::int64_t& index = value(v).location.index;
      index = memory.offset(index);
    }
  }

  // Until all are packed, the number of a block stands for its offset.
  void place(Packing& memory, int v, Location::Kind kind) {
    const std::int64_t bytes = std::max<std::int64_t>(
        detail::rounded_up(possible(value(v).bytes()), kAlignment), kAlignment);
    const int u = overwritten_by(v, kind);
    if (u < 0) {
      value(v).location = {kind, memory.add(range(v), bytes)};
    } else {
      value(v).location = value(u).location;
      memory.extend(value(v).location.index, range(v).last);
      overwritten_.insert(u);
    }
  }
  // A value of the same memory over which v is written; -1 when there is none.
  int overwritten_by(int v, Location::Kind kind) {
    const Kernel* kernel = options_.reuse_memory ? writer(v) : nullptr;
    if (kernel == nullptr) return -1;
    for (const int u : kernel->in_place) {
      if (value(u).location.kind == kind && fits(v, u) && !overwritten_.contains(u)) return u;
    }
    return -1;
  }

  // What is first in the memory of each result: the result, or what it is written over.
  void find_earliest() {
    earliest_.assign(static_cast<std::size_t>(plan_.num_outputs), -1);
    equal_.assign(earliest_.size(), true);
    for (std::size_t v = 0; v < plan_.values.size(); ++v) {
      const Location at = plan_.values[v].location;
      if (at.kind != Location::Kind::result || range(v).first < 0) continue;
      const auto o = static_cast<std::size_t>(at.index);
      int& first = earliest_[o];
      if (first >= 0 && value(first).bytes() != plan_.values[v].bytes()) equal_[o] = false;
      if (first < 0 || range(v).first < range(first).first) first = static_cast<int>(v);
    }
  }

  // Donated arguments become results where the argument is dead by the time that anything is written to the
  // result's memory. There may be thousands of both: a result lists a few, of which the first is meant for it
  // and is no other's first.
  void find_reusable() {
    std::map<std::int64_t, std::vector<int>>
        arguments;  // of each size, in the order in which they die
    // What a result begins as a copy of is for no other.
    std::set<int> copied;
    for (const int v : earliest_)
      if (v >= 0) copied.insert(copied_to(v));
    for (int a = 0; a < plan_.num_inputs; ++a)
      if (may_be_donated(a) && !copied.contains(a)) arguments[value(a).bytes()].push_back(a);
    for (auto& [bytes, of_size] : arguments) {
      std::sort(of_size.begin(), of_size.end(), [&](int a, int b) {
        return std::pair(range(a).last, a) < std::pair(range(b).last, b);
      });
    }
    plan_.reusable.resize(earliest_.size());
    std::vector<std::size_t> order;
    for (std::size_t o = 0; o < earliest_.size(); ++o) {
      const int v = earliest_[o];
      const int first = v < 0 ? std::numeric_limits<int>::max() : range(v).first;
      plan_.written_after.push_back(
          std::lower_bound(live_.hosts.begin(), live_.hosts.end(), first) - live_.hosts.begin());
      if (v >= 0 && equal_[o] && value(v).bytes() > 0) order.push_back(o);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(range(earliest_[a]).first, a) < std::pair(range(earliest_[b]).first, b);
    });
    list_arguments(order, arguments);
  }
  // For these results, in the order in which they are written.
  void list_arguments(const std::vector<std::size_t>& results,
                      const std::map<std::int64_t, std::vector<int>>& arguments) {
    constexpr std::size_t kMost = 8;
    std::vector<bool> meant(static_cast<std::size_t>(plan_.num_inputs), false);
    const auto mean = [&](std::size_t o, int a) {
      plan_.reusable[o].push_back(a);
      meant[static_cast<std::size_t>(a)] = true;
    };
    // What the result can be written over as it is read.
    for (const std::size_t o : results) {
      for (const int a : may_lie_under(earliest_[o])) {
        if (meant[static_cast<std::size_t>(a)]) continue;
        mean(o, a);
        break;
      }
    }
    // What is dead by then: the first that is left.
    std::map<std::int64_t, std::size_t> next;
    for (const std::size_t o : results) {
      const auto found = arguments.find(value(earliest_[o]).bytes());
      if (found == arguments.end() || !plan_.reusable[o].empty()) continue;
      const std::vector<int>& of_size = found->second;
      std::size_t& i = next[found->first];
      while (i < of_size.size() && meant[static_cast<std::size_t>(of_size[i])]) ++i;
      if (i < of_size.size() && range(of_size[i]).last < range(earliest_[o]).first)
        mean(o, of_size[i]);
    }
    // Others, where that one is not donated after all.
    for (const std::size_t o : results) {
      std::vector<int>& list = plan_.reusable[o];
      const auto add = [&](int a) {
        if (list.size() < kMost && std::find(list.begin(), list.end(), a) == list.end())
          list.push_back(a);
      };
      for (const int a : may_lie_under(earliest_[o])) add(a);
      const auto found = arguments.find(value(earliest_[o]).bytes());
      if (found == arguments.end()) continue;
      const std::vector<int>& of_size = found->second;
      const auto dead = static_cast<std::size_t>(
          std::partition_point(of_size.begin(), of_size.end(),
                               [&](int a) { return range(a).last < range(earliest_[o]).first; }) -
          of_size.begin());
      std::size_t& i = next[found->first];
      for (std::size_t n = 0; n < std::min(dead, kMost); ++n) add(of_size[i++ % dead]);
    }
  }
  // The donated argument that v begins as a copy of; -1: there is none.
  int copied_to(int v) {
    const auto copy = live_.copies.find(range(v).first);
    if (copy == live_.copies.end()) return -1;
    const int a = copy->second->reads[0];
    return may_be_donated(a) && fits(v, a) ? a : -1;
  }
  // The donated arguments that are read last where v is written first, and may be written over there.
  std::vector<int> may_lie_under(int v) {
    std::vector<int> out;
    if (const Kernel* kernel = writer(v)) {
      for (const int a : kernel->in_place)
        if (may_be_donated(a) && fits(v, a)) out.push_back(a);
    }
    if (const int a = copied_to(v); a >= 0) out.push_back(a);
    return out;
  }

  Plan& plan_;
  const PlanOptions& options_;
  Liveness live_;
  Packing arena_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> in_results_;  // by result, offset
  std::set<int> overwritten_;  // in place, by the kernel that read it last
  std::vector<int> earliest_;  // of each result: the value that is first in its memory; -1: none is
  std::vector<bool> equal_;    // whether all that lie there in turn are of one size
};

}  // namespace

void assign_buffers(Plan& plan, const PlanOptions& options) { Arena(plan, options).run(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
