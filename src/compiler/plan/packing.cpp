// Packs blocks in the order in which they begin, and if that takes more than what lives at once, searches for an order
// that is denser.
#include "compiler/plan/packing.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "core/integers.hpp"
#include "core/size_errors.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// Blocks that begin at different places of a page do not meet in the same set of the first cache (allocator.cpp):
// those of this size on are odd multiples of an eighth of a page.
constexpr std::int64_t kStagger = 512, kStaggeredFrom = 64 * kStagger;

std::int64_t aligned(std::int64_t offset, const Block& block) {
  return detail::rounded_up(offset, block.size >= kStaggeredFrom ? kStagger : kAlignment);
}

/// Places blocks in the order in which they begin, each in the smallest gap where it fits. What has
/// ended by then is free for good: the gaps between living blocks are kept by place and by size.
class InOrder {
 public:
  explicit InOrder(bool reuse) : reuse_(reuse) {}
  std::int64_t bytes = 0;
  std::int64_t most_alive = 0;   ///< bytes of living blocks
  std::int64_t most_needed = 0;  ///< the same, without what comes between them

  void place(Block& block) {
    if (reuse_) free_before(block.range.first);
    const std::int64_t size = block.size;
    block.offset = aligned(end_, block);
    auto gap = by_size_.lower_bound({size, 0});
    while (gap != by_size_.end() && aligned(gap->second, block) + size > gap->second + gap->first) {
      ++gap;
    }
    if (gap != by_size_.end()) {
      const auto [length, begin] = *gap;
      take_gap(gaps_.find(begin));
      block.offset = aligned(begin, block);
      add_gap(begin, block.offset);
      add_gap(block.end(), begin + length);
    } else {
      add_gap(end_, block.offset);
      end_ = possible(block.end());
    }
    bytes = std::max(bytes, block.offset + block.needed);
    alive_ += size;
    needed_ += block.needed;
    most_alive = std::max(most_alive, alive_);
    most_needed = std::max(most_needed, needed_);
    ends_.insert({block.range.last, block.offset, size, block.needed});
  }

 private:
  using Gaps = std::map<std::int64_t, std::int64_t>;  // begin -> end

  void add_gap(std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    gaps_[begin] = end;
    by_size_.insert({end - begin, begin});
  }
  void take_gap(Gaps::iterator gap) {
    by_size_.erase({gap->second - gap->first, gap->first});
    gaps_.erase(gap);
  }
  void free_before(int step) {
    while (!ends_.empty() && std::get<int>(*ends_.begin()) < step) {
      auto [last, begin, size, needed] = *ends_.begin();
      std::int64_t end = begin + size;
      alive_ -= size;
      needed_ -= needed;
      ends_.erase(ends_.begin());
      if (const auto after = gaps_.find(end); after != gaps_.end()) {
        end = after->second;
        take_gap(after);
      }
      auto before = gaps_.lower_bound(begin);
      if (before != gaps_.begin() && (--before)->second == begin) {
        begin = before->first;
        take_gap(before);
      }
      if (end == end_) end_ = begin;
      else add_gap(begin, end);
    }
  }

  const bool reuse_;
  std::int64_t alive_ = 0, needed_ = 0;
  std::set<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>>
      ends_;   // of those alive: (last, offset, size, needed)
  Gaps gaps_;  // between blocks
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // of gaps: (size, begin)
  std::int64_t end_ = 0;                                     // of the last block
};

/// Places all blocks in one order after the other, and keeps the densest packing: each block at the lowest
/// place between those before it that live at its time.
///
/// The largest first is dense most often, then those that take most of memory and time together, and those
/// that live longest. From each of these orders on, what came to lie above the aim goes to the front: it
/// found no place (Joslin and Clements, "Squeaky Wheel" Optimization, 1999). The densest of all is changed block by
/// block from there on.
class Search {
 public:
  Search(std::vector<Block> blocks, std::int64_t aim)
      : aim_(aim), best_(std::move(blocks)), best_order_(best_.size()) {
    for (const Block& b : best_) bytes_ = std::max(bytes_, b.end());
    std::iota(best_order_.begin(), best_order_.end(), std::size_t{0});
  }

  std::vector<Block> run() {
    const auto lives = [](const Block& b) {
      return static_cast<double>(b.range.last) - b.range.first + 1;
    };
    const auto size = [](const Block& b) { return static_cast<double>(b.size); };
    try_from([&](const Block& b) { return size(b); });
    try_from([&](const Block& b) { return size(b) * lives(b); });
    try_from([&](const Block& b) { return lives(b); });
    change_order();
    return std::move(best_);
  }

 private:
  /// From the blocks of most weight to those of least.
  template <class Weight>
  void try_from(const Weight& weight) {
    constexpr int kMostRounds = 16;
    constexpr std::int64_t kMostVisits = 350'000;  // for each order to begin with: a millisecond
    visits_left_ += kMostVisits;
    std::vector<Block> blocks = best_;
    std::vector<Block*> order;
    for (Block& b : blocks) order.push_back(&b);
    std::sort(order.begin(), order.end(), [&](const Block* a, const Block* b) {
      return std::pair(-weight(*a), a) < std::pair(-weight(*b), b);
    });
    for (int i = 0; i < kMostRounds && bytes_ > aim_ && visits_left_ > 0; ++i) {
      keep_if_denser(blocks, order, place(order));
      put_first_what_is_above_the_aim(order);
    }
  }
  /// The highest block, or one below it, goes to the place of another in the order, and that to its. What takes no more
  /// memory is gone on with; now and then what takes more, too, or it would end where no one such change helps.
  void change_order() {
    constexpr std::int64_t kMostVisits = 3'000'000;   // some milliseconds
    constexpr std::size_t kHighest = 3, kWorse = 16;  // one in so many
    if (bytes_ <= aim_) return;                       // as with all but a few
    visits_left_ = kMostVisits;
    std::vector<Block> blocks = best_;
    std::vector<Block*> order;
    for (const std::size_t i : best_order_) order.push_back(&blocks[i]);
    std::int64_t bytes = place(order);
    std::minstd_rand random;
    const auto below = [&](std::size_t n) { return random() % n; };
    while (bytes_ > aim_ && visits_left_ > 0) {
      const std::vector<std::size_t> high = highest_and_below(order);
      const std::size_t one = below(kHighest) == 0 ? high[below(high.size())] : high[0];
      const std::size_t other = below(high[0]);  // alone, the highest would be within the aim
      const std::vector<Block> before = blocks;
      std::swap(order[one], order[other]);
      const std::int64_t now = place(order);
      keep_if_denser(blocks, order, now);
      if (now <= bytes || below(kWorse) == 0) {
        bytes = now;
      } else {
        std::swap(order[one], order[other]);
        blocks = before;
      }
    }
  }
  /// Of the order: the highest block, then those that were placed before it and live at its time.
  static std::vector<std::size_t> highest_and_below(const std::vector<Block*>& order) {
    const auto top =
        std::max_element(order.begin(), order.end(),
                         [](const Block* a, const Block* b) { return a->end() < b->end(); });
    std::vector<std::size_t> out = {static_cast<std::size_t>(top - order.begin())};
    for (std::size_t i = 0; i < out[0]; ++i) {
      if (!order[i]->range.apart((*top)->range)) out.push_back(i);
    }
    return out;
  }
  void keep_if_denser(const std::vector<Block>& blocks, const std::vector<Block*>& order,
                      std::int64_t bytes) {
    if (bytes >= bytes_) return;
    bytes_ = bytes;
    best_ = blocks;
    for (std::size_t i = 0; i < order.size(); ++i)
      best_order_[i] = static_cast<std::size_t>(order[i] - blocks.data());
  }
  void put_first_what_is_above_the_aim(std::vector<Block*>& order) const {
    const auto above = [this](const Block* b) { return b->end() > aim_; };
    std::vector<Block*> by_trouble;
    std::copy_if(order.begin(), order.end(), std::back_inserter(by_trouble), above);
    std::remove_copy_if(order.begin(), order.end(), std::back_inserter(by_trouble), above);
    order = std::move(by_trouble);
  }
  /// Gives the bytes of all.
  std::int64_t place(const std::vector<Block*>& order) {
    std::int64_t bytes = 0;
    std::vector<const Block*> placed;  // by offset
    for (Block* block : order) {
      block->offset = lowest_place(*block, placed);
      bytes = std::max(bytes, block->end());
      const auto later =
          std::upper_bound(placed.begin(), placed.end(), block,
                           [](const Block* a, const Block* b) { return a->offset < b->offset; });
      placed.insert(later, block);
    }
    return bytes;
  }
  std::int64_t lowest_place(const Block& block, const std::vector<const Block*>& placed) {
    std::int64_t end = 0;
    for (const Block* other : placed) {
      --visits_left_;
      if (other->range.apart(block.range)) continue;
      if (aligned(end, block) + block.size <= other->offset) break;
      end = std::max(end, other->end());
    }
    return aligned(end, block);
  }

  const std::int64_t aim_;
  std::vector<Block> best_;
  std::vector<std::size_t> best_order_;
  std::int64_t bytes_ = 0;
  std::int64_t visits_left_ = 0;  ///< to blocks that are placed
};

#ifdef TELAMON_DEBUG_CHECKS
void check_apart(const std::vector<Block>& blocks) {
  for (const Block& a : blocks) {
    for (const Block& b : blocks) {
      if (&a < &b && !a.range.apart(b.range) && a.offset < b.end() && b.offset < a.end()) {
        throw InternalError("two values that are alive at the same time share memory");
      }
    }
  }
}
#endif

}  // namespace

std::int64_t possible(std::int64_t bytes) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 56;
  if (bytes <= kMostBytes) return bytes;
  throw detail::UnnamedOutOfMemoryError(
      "out of memory: the program needs more than 2^56 bytes for its intermediate values; use "
      "smaller sizes");
}

std::int64_t Packing::add(const LiveRange& range, std::int64_t size) {
  const bool staggered = size >= kStaggeredFrom;
  blocks_.push_back(
      {range, staggered ? detail::rounded_up(size + kStagger, 2 * kStagger) - kStagger : size,
       size});
  return static_cast<std::int64_t>(blocks_.size()) - 1;
}

void Packing::pack(bool reuse) {
  InOrder in_order(reuse);
  for (Block& b : blocks_) in_order.place(b);
  bytes = in_order.bytes;
  most_alive = in_order.most_needed;
  constexpr std::size_t kMost = 4096;  // blocks: a search takes some milliseconds
  const std::int64_t aim = in_order.most_alive + in_order.most_alive / 32;
  if (reuse && bytes > aim && blocks_.size() <= kMost) {
    blocks_ = Search(std::move(blocks_), aim).run();
    bytes = 0;
    for (const Block& b : blocks_) bytes = std::max(bytes, b.offset + b.needed);
  }
#ifdef TELAMON_DEBUG_CHECKS
  check_apart(blocks_);
#endif
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
