// Looks at the last step at which the arena would have to be the largest, moves a block away, and looks again. What else
// is in the arena stays there: it takes no memory that is not needed anyway, and is in the caches.
//
// The largest block goes first; if that leaves more than it might, those that begin first: of a chain, in which each lives
// with the next, every other one, from the one before the result on.
#include "compiler/plan/rooms.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "core/integers.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// What is alive at each step, as a tree of maxima.
class Profile {
 public:
  explicit Profile(std::int64_t steps) {
    while (leaves_ < steps) leaves_ *= 2;
    most_.assign(at(2 * leaves_), 0);
    more_.assign(at(2 * leaves_), 0);
  }
  void add(const LiveRange& range, std::int64_t bytes) { add(range, bytes, 1, 0, leaves_); }
  std::int64_t most() const { return most_[1]; }
  /// The last step of those with the most.
  int highest() const {
    std::int64_t node = 1;
    while (node < leaves_)
      node = 2 * node + (most_[at(2 * node)] <= most_[at(2 * node + 1)] ? 1 : 0);
    return static_cast<int>(node - leaves_);
  }

 private:
  // Steps [begin, end) are those of `node`.
  void add(const LiveRange& range, std::int64_t bytes, std::int64_t node, std::int64_t begin,
           std::int64_t end) {
    if (range.last < begin || end <= range.first) return;
    if (range.first <= begin && end <= range.last + 1) {
      most_[at(node)] += bytes;
      more_[at(node)] += bytes;
      return;
    }
    const std::int64_t middle = (begin + end) / 2;
    add(range, bytes, 2 * node, begin, middle);
    add(range, bytes, 2 * node + 1, middle, end);
    most_[at(node)] = more_[at(node)] + std::max(most_[at(2 * node)], most_[at(2 * node + 1)]);
  }

  std::int64_t leaves_ = 1;
  std::vector<std::int64_t> most_, more_;  // below each node; of all below it
};

class Rooms {
 public:
  Rooms(const std::vector<Block>& blocks, const std::vector<Request>& requests,
        const std::vector<Room>& rooms)
      : blocks_(blocks), requests_(requests), rooms_(rooms) {
    for (const Block& b : blocks) steps_ = std::max<std::int64_t>(steps_, b.range.last + 1);
    by_size_.resize(rooms.size());
    std::iota(by_size_.begin(), by_size_.end(), std::size_t{0});
    std::sort(by_size_.begin(), by_size_.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(rooms[a].bytes, rooms[a].before, a) <
             std::tuple(rooms[b].bytes, rooms[b].before, b);
    });
  }

  Housing run() {
    const std::vector<std::size_t> candidates = find_candidates();
    const auto size = [&](std::size_t b) { return -requests_[b].bytes; };
    const auto begin = [&](std::size_t b) { return std::int64_t{blocks_[b].range.first}; };
    Housing best;
    std::int64_t least = 0;
    for (const bool by_size : {true, false}) {
      candidates_ = candidates;
      std::sort(candidates_.begin(), candidates_.end(), [&](std::size_t a, std::size_t b) {
        return by_size ? std::tuple(size(a), begin(a), a) < std::tuple(size(b), begin(b), b)
                       : std::tuple(begin(a), size(a), a) < std::tuple(begin(b), size(b), b);
      });
      const Profile left = fill();
      const std::int64_t least_alive = this->least_alive(candidates, left.highest());
      if (by_size || left.most() < least) {
        best.places = places_;
        least = left.most();
      }
      best.least_alive = std::max(best.least_alive, least_alive);
      if (left.most() <= best.least_alive) break;  // it cannot be less
    }
    return best;
  }

 private:
  /// Blocks that some room is large enough for, and free for as long as they live.
  std::vector<std::size_t> find_candidates() const {
    std::vector<std::int64_t> largest(at(steps_ + 1), 0);  // of rooms that are free after each step
    for (const Room& r : rooms_) {
      if (r.before <= 0) continue;
      std::int64_t& bytes = largest[at(std::min<std::int64_t>(r.before - 1, steps_))];
      bytes = std::max(bytes, r.bytes);
    }
    for (std::int64_t step = steps_; step-- > 0;)
      largest[at(step)] = std::max(largest[at(step)], largest[at(step + 1)]);
    std::vector<std::size_t> candidates;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (requests_[b].bytes > 0 &&
          requests_[b].bytes <=
              largest[at(std::min<std::int64_t>(requests_[b].range.last, steps_))])
        candidates.push_back(b);
    }
    return candidates;
  }

  /// What no choice does without at a step. Of blocks of some size on, no more can be in rooms than these have that are as
  /// large; of those that live until some step or longer, no more than the rooms that are free for as long.
  std::int64_t least_alive(const std::vector<std::size_t>& candidates, int step) const {
    const auto lives = [&](const Block& b) { return b.range.contains({step, step}); };
    std::int64_t alive = 0;
    std::vector<std::array<std::int64_t, 3>> blocks, rooms;  // bytes, size, and the last step
    for (const Block& b : blocks_) alive += lives(b) ? b.needed : 0;
    for (const std::size_t b : candidates) {
      if (lives(blocks_[b]))
        blocks.push_back({blocks_[b].needed, requests_[b].bytes, requests_[b].range.last});
    }
    for (const Room& r : rooms_) {
      if (r.before > step)
        rooms.push_back({detail::rounded_up(r.bytes, kAlignment), r.bytes, r.before - 1});
    }
    std::int64_t most = 0;
    for (const auto& b : blocks) most += b[0];
    for (const std::size_t key : {1, 2}) {
      const auto less = [&](const auto& a, const auto& b) { return a[key] < b[key]; };
      std::sort(blocks.begin(), blocks.end(), less);
      std::sort(rooms.begin(), rooms.end(), less);
      std::int64_t below = 0, room = 0;  // in blocks below the one at hand; in rooms from it on
      for (const auto& r : rooms) room += r[0];
      auto next = rooms.begin();
      for (const auto& b : blocks) {
        for (; next != rooms.end() && (*next)[key] < b[key]; ++next) room -= (*next)[0];
        most = std::min(most, below + room);
        below += b[0];
      }
    }
    return alive - most;
  }

  /// What is alive in the arena then.
  Profile fill() {
    constexpr std::int64_t kMostVisits = 1'500'000;  // to blocks and rooms: some milliseconds
    visits_left_ = kMostVisits;
    places_.assign(blocks_.size(), {});
    in_room_.assign(rooms_.size(), {});
    Profile alive(steps_);
    for (const Block& b : blocks_) alive.add(b.range, b.needed);
    while (visits_left_ > 0) {
      const int step = alive.highest();
      const std::size_t b = move_one_that_lives_at(step);
      if (b == blocks_.size()) break;
      alive.add(blocks_[b].range, -blocks_[b].needed);
    }
    return alive;
  }
  /// The block that was moved; as many as there are when none was.
  std::size_t move_one_that_lives_at(int step) {
    for (auto candidate = candidates_.begin(); candidate != candidates_.end();) {
      const std::size_t b = *candidate;
      --visits_left_;
      if (!blocks_[b].range.contains({step, step})) {
        ++candidate;
        continue;
      }
      candidate = candidates_.erase(candidate);  // where it has no place now, it never will
      if (find_place(b)) return b;
    }
    return blocks_.size();
  }
  /// In the smallest room with a place for it. Of equal ones that which closes first: others may need the rest.
  bool find_place(std::size_t b) {
    for (const std::size_t r : by_size_) {
      --visits_left_;
      if (rooms_[r].bytes < requests_[b].bytes || rooms_[r].before <= requests_[b].range.last)
        continue;
      const std::int64_t offset = lowest_place(b, in_room_[r]);
      if (offset + requests_[b].bytes > rooms_[r].bytes) continue;
      places_[b] = {static_cast<int>(r), offset};
      const auto above = [&](std::size_t a, std::size_t o) {
        return places_[a].offset < places_[o].offset;
      };
      in_room_[r].insert(std::upper_bound(in_room_[r].begin(), in_room_[r].end(), b, above), b);
      return true;
    }
    return false;
  }
  std::int64_t lowest_place(std::size_t b, const std::vector<std::size_t>& others) {
    std::int64_t end = 0;
    for (const std::size_t o : others) {  // by offset
      --visits_left_;
      if (requests_[o].range.apart(requests_[b].range)) continue;
      if (end + blocks_[b].size <= places_[o].offset) break;
      end = std::max(end, places_[o].offset + blocks_[o].size);
    }
    return end;
  }

  const std::vector<Block>& blocks_;
  const std::vector<Request>& requests_;
  const std::vector<Room>& rooms_;
  std::vector<std::size_t> by_size_;     // rooms
  std::vector<std::size_t> candidates_;  // blocks
  std::vector<std::vector<std::size_t>> in_room_;
  std::vector<RoomPlace> places_;  // of blocks
  std::int64_t steps_ = 0;
  std::int64_t visits_left_ = 0;
};

}  // namespace

Housing fill_rooms(const std::vector<Block>& blocks, const std::vector<Request>& requests,
                   const std::vector<Room>& rooms) {
  return Rooms(blocks, requests, rooms).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
