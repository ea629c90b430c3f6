// Tiles: kernels one after the other for some rows or columns, so that what one leaves to another is in the cache.
#include <algorithm>

#include "compiler/emit/emit_reduction.hpp"
#include "compiler/emit/steps.hpp"
#include "core/integers.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

bool Tiles::has_partials() const {
  return std::any_of(s_.bodies[0].begin(), s_.bodies[0].end(),
                     [](const Step& k) { return !k.kernel.partials.empty(); });
}

// The rows or columns that one thread does: of the tiles that add to the same partial results, else of one.
std::int64_t Tiles::trips_of_part() const {
  for (const Step& k : s_.bodies[0]) {
    if (!k.kernel.partials.empty()) return rows_of_part(k.kernel);
  }
  return s_.grain;
}

std::int64_t Tiles::num_parts() const { return detail::ceil_div(s_.trips, trips_of_part()); }

std::int64_t Tiles::cost() const {
  std::int64_t cost = 1;
  for (const Step& k : s_.bodies[0]) {
    const std::int64_t each = cost_of(c_.plan.scopes[static_cast<std::size_t>(k.scope)], k.kernel);
    cost =
        detail::saturating_add(cost, detail::saturating_mul(k.kernel.shape.num_elements(), each));
  }
  return cost;
}

// What of the next tile the second step that reads a large value asks for, so that it is there when the first one
// reads it: memory would wait for the results of a tile otherwise, and these for memory. What is smaller comes
// fast enough (layernorm on Zen 5: 0.9 of the time for 32 MiB, 1.1 for 8).
std::map<const Step*, NextTile> Tiles::next_tiles() const {
  std::map<const Step*, NextTile> next;
  std::map<int, int> times;
  std::int64_t bytes = 0;
  for (const Step& k : s_.bodies[0]) {
    for (const int v : k.writes) {
      if (times.emplace(v, 0).second) bytes += c_.value(v).bytes();
      times[v] = 2;  // it is in the cache
    }
    for (const int v : k.reads) {
      if (times.emplace(v, 0).second) bytes += c_.value(v).bytes();
      if (c_.value(v).bytes() >= kStreamingOne && ++times[v] == 2)
        next[&k][v] = s_.grain * (c_.value(v).aval.size() / s_.trips);
    }
  }
  const bool asks = c_.plan.emit.next_tiles && !s_.by_columns && bytes >= kStreamingBytes;
  return asks ? next : std::map<const Step*, NextTile>();
}

// Of so many rows or columns.
Scalar Tiles::num_tiles(Scalar trips) const {
  return gen_.div(gen_.add(trips, gen_.index(s_.grain - 1)), gen_.index(s_.grain));
}

void Tiles::emit(Scalar begin, Scalar end, const std::function<void(KernelContext&)>& emit) const {
  const std::map<const Step*, NextTile> next = next_tiles();
  const Scalar part = gen_.index(trips_of_part());
  const Scalar first = gen_.mul(begin, part),
               last = gen_.min(gen_.mul(end, part), gen_.index(s_.trips));
  const Scalar shared = gen_.compare(Compare::lt, gen_.sub(last, first), gen_.index(s_.trips));
  gen_.loop(gen_.div(first, gen_.index(s_.grain)), num_tiles(last), [&](Scalar tile) {
    const Scalar low = gen_.mul(tile, gen_.index(s_.grain));
    const Scalar high = gen_.min(gen_.add(low, gen_.index(s_.grain)), gen_.index(s_.trips));
    for (const Step& k : s_.bodies[0]) {
      gen_.region([&] {
        KernelContext context = of_tile(k, low, high);
        context.is_shared = shared;
        if (const auto of = next.find(&k); of != next.end()) context.next_tile = &of->second;
        emit(context);
      });
    }
  });
}

// A kernel for the rows or columns [low, high). The outermost loop of a linear one is over all that belongs to a row.
KernelContext Tiles::of_tile(const Step& k, Scalar low, Scalar high) const {
  const bool in_parts = !k.kernel.partials.empty();
  const std::int64_t each = s_.by_columns || in_parts ? 1 : chunking(c_.plan, k).extent / s_.trips;
  KernelContext out =
      c_.kernel(k, gen_.mul(low, gen_.index(each)), gen_.mul(high, gen_.index(each)));
  out.by_columns = s_.by_columns;
  out.rows_of_part = in_parts;
  out.unit = s_.grain * each;
  return out;
}

void Tiles::emit_end() const {
  for (const Step& k : s_.bodies[0]) {
    if (k.kernel.partials.empty()) continue;
    gen_.region([&] {
      KernelContext context = c_.kernel(k, gen_.index(0), gen_.index(0));
      emit_reduction_end(context);
    });
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
