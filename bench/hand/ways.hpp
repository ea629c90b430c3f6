// Of several ways of doing the same work: the one that is fastest here.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace bench {

template <class Buffers>
using WayOf = std::function<void(Buffers&)>;

/// Seconds of the best of several runs.
template <class Buffers>
double probe(Buffers& buffers, const WayOf<Buffers>& way) {
  using Clock = std::chrono::steady_clock;
  double least = 1e30;
  const auto end = Clock::now() + std::chrono::milliseconds(50);
  way(buffers);
  for (int i = 0; i < 3 || Clock::now() < end; ++i) {
    const auto start = Clock::now();
    way(buffers);
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

template <class Buffers>
struct Best {
  std::string name;
  WayOf<Buffers> way;
};
/// Ways that are null are those of libraries that are not here.
template <class Buffers>
Best<Buffers> best_of(Buffers& buffers, std::initializer_list<Best<Buffers>> ways) {
  const Best<Buffers>* best = nullptr;
  double least = 1e30;
  for (const Best<Buffers>& known : ways) {
    const double seconds = known.way ? probe(buffers, known.way) : 1e30;
    if (seconds < least) least = seconds, best = &known;
  }
  if (best == nullptr) throw std::runtime_error("none of its libraries is here");
  return *best;
}

}  // namespace bench
