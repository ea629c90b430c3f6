// Batcher's odd-even merge sort (Knuth, The Art of Computer Programming 5.2.2M), which finds the least of n by n - 1 of its
// minima, and the greatest as well when it is turned around. Of nine it takes 26 comparisons; Floyd's network takes 25
// (5.3.4), and 30 minima and maxima for the median (Devillard 1998).
#include "compiler/codegen/sorting_network.hpp"

#include <bit>

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

Network batchers(std::size_t n) {
  Network all;
  const std::size_t top = std::bit_ceil(n) / 2;
  for (std::size_t p = top; p > 0; p /= 2) {
    for (std::size_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
      // What lies beyond the last of them would be greater than all.
      for (std::size_t i = 0; i + d < n; ++i) {
        if ((i & p) == r) all.push_back({i, i + d});
      }
      if (q == p) break;
    }
  }
  return all;
}

Network floyds() {
  return {{0, 1}, {3, 4}, {6, 7}, {1, 2}, {4, 5}, {7, 8}, {0, 1}, {3, 4}, {6, 7},  // rows of three
          {0, 3}, {3, 6}, {0, 3}, {1, 4}, {4, 7}, {1, 4}, {5, 8}, {2, 5}, {5, 8},  // columns
          {1, 3}, {5, 7}, {2, 6}, {4, 6}, {2, 4}, {2, 3}, {5, 6}};
}

/// The network that finds the greatest as this one finds the least, and so on.
Network mirrored(Network all, std::size_t n) {
  for (Comparison& c : all) c = {n - 1 - c.high, n - 1 - c.low};
  return all;
}

Network needed(const Network& all, std::size_t n, std::size_t rank) {
  std::vector<bool> wanted(n, false);
  wanted[rank] = true;
  Network some;
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    if (!wanted[c->low] && !wanted[c->high]) continue;
    some.push_back({c->low, c->high, wanted[c->low], wanted[c->high]});
    wanted[c->low] = wanted[c->high] = true;
  }
  return {some.rbegin(), some.rend()};
}
/// Minima and maxima.
int cost(const Network& some) {
  int count = 0;
  for (const Comparison& c : some) count += (c.wants_low ? 1 : 0) + (c.wants_high ? 1 : 0);
  return count;
}

}  // namespace

Network sorting_network(std::size_t n) {
  constexpr std::size_t kFloyds = 9;
  return n == kFloyds ? floyds() : batchers(n);
}

Network selecting_network(std::size_t n, std::size_t rank) {
  const Network all = sorting_network(n);
  const Network some = needed(all, n, rank), others = needed(mirrored(all, n), n, rank);
  return cost(others) < cost(some) ? others : some;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
