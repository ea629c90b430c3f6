// Indices, and the loop over its definition of an update, with which tests of gathers and scatters compare.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/kernels/windows.hpp"

namespace telamon_test {

using telamon::kernels::WindowLoop;
using telamon::kernels::WindowOp;

inline std::vector<std::int32_t> some_indices(std::size_t n, int from, int to) {
  std::vector<std::int32_t> out(n);
  unsigned seed = 7;
  for (auto& x : out) {
    seed = seed * 1664525u + 1013904223u;
    x = from + static_cast<int>(seed >> 8) % (to - from);
  }
  return out;
}

/// The first half are rows that there are, the others begin up to five before them and ten behind.
inline std::vector<std::int32_t> half_outside(std::int64_t n, int rows) {
  auto index = some_indices(static_cast<std::size_t>(n), -5, rows + 10);
  for (std::size_t i = 0; i < index.size() / 2; ++i) index[i] = (index[i] + 5) % rows;
  return index;
}

/// Each index so many times, one after the other: such sums stay in registers.
inline std::vector<std::int32_t> in_runs(const std::vector<std::int32_t>& index,
                                         std::size_t length) {
  std::vector<std::int32_t> out(index.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = index[i / length];
  return out;
}

/// The same in runs that get longer and shorter: single indices, then 20 of each, and again.
inline std::vector<std::int32_t> in_changing_runs(const std::vector<std::int32_t>& index) {
  constexpr std::size_t kAlike = 300;
  std::vector<std::int32_t> out = in_runs(index, 20);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (i / kAlike % 2 == 0) out[i] = index[i];
  return out;
}

/// Rows of `width` floats of a table, named by n indices.
inline WindowLoop rows_of_table(WindowOp op, std::int64_t rows, std::int64_t width, std::int64_t n,
                                bool clips) {
  WindowLoop loop;
  loop.op = op;
  loop.clips = clips;
  loop.operand_bytes = rows * width * 4;
  loop.counts = {{n, 4, width * 4, 0}};
  loop.components = {{0, width * 4, rows - 1}};
  loop.window = {{1, width * 4, width * 4}, {width, 4, 4}};
  return loop;
}

/// What a loop over rows at places along one dimension is defined to do.
template <class T, class Index>
void update_one_by_one(const WindowLoop& loop, const std::vector<Index>& index,
                       const std::vector<T>& updates, std::vector<T>& operand) {
  const WindowLoop::Count& count = loop.counts[0];
  const WindowLoop::Component& component = loop.components[0];
  const std::int64_t width = loop.window.back().size;
  for (std::int64_t i = 0; i < count.size; ++i) {
    const std::int64_t at = i * count.index_stride / static_cast<std::int64_t>(sizeof(Index));
    auto place = static_cast<std::int64_t>(index[static_cast<std::size_t>(at)]);
    if (place < 0) place += component.wrap;
    if (loop.clips) place = std::clamp<std::int64_t>(place, 0, component.last);
    if (place < 0 || place > component.last) continue;
    const std::int64_t row =
        place * component.operand_stride / static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t k = 0; k < width; ++k) {
      T& to = operand[static_cast<std::size_t>(row + k)];
      const T x = updates[static_cast<std::size_t>(i * width + k)];
      to = loop.op == WindowOp::add ? to + x : x;
    }
  }
}

}  // namespace telamon_test
