// Stable sorting along an axis, by keys that have been mapped to unsigned integers of the same order.
//
// One operand is its own key: the integers are sorted and mapped back. Which of equal elements comes
// first shows in -0 and 0 and in NaNs only; where there are such, they are written again in the order
// of the operand. Several operands: each key is cut into words of 32 bits, and (word, position) pairs,
// which are 64-bit integers that all differ, are sorted by the last word first, then by the one before,
// and so on. The final order then gathers every operand. Since no two pairs are equal, the result is
// the same however the integers are sorted.
#include "runtime/kernels/sort.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/check.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/temporary.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kChunk = 64 * 1024;  // elements worth a chunk of their own

SortRuns sort_runs() {
  constexpr decltype(&telamon_generic_sort_runs) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(sort_runs);
  return kLoops[static_cast<int>(runtime::host_isa())];
}

const SortKeys& keys_of(DType dtype) {
  constexpr decltype(&telamon_generic_sort_keys) kTables[runtime::kNumIsas] =
      TELAMON_BY_ISA(sort_keys);
  const SortKeys* keys = kTables[static_cast<int>(runtime::host_isa())](dtype);
  if (keys->bytes == 0) {
    throw NotImplementedError("sort has no evaluation rule for dtype " +
                              std::string(short_name(dtype)));
  }
  return *keys;
}

/// Memory of a chunk.
class Room {
 public:
  explicit Room(std::int64_t bytes) : memory_(Shape{bytes}, DType::u8) {}
  char* at(std::int64_t byte) const { return memory_.data() + byte; }
  template <class T> T* as() const { return reinterpret_cast<T*>(memory_.data()); }

 private:
  Temporary memory_;
};

/// A run is cut in two by a pivot, and the parts by theirs, until there is one for each thread.
/// Partitions of halves go on side by side. The result does not depend on where runs are cut.
constexpr std::int64_t kCut = 128 * 1024;  // keys worth a thread of their own

template <class T>
T median_of_sample(const T* keys, std::int64_t n) {
  constexpr std::int64_t kSample = 255;
  T sample[kSample];
  for (std::int64_t i = 0; i < kSample; ++i) sample[i] = keys[n / kSample * i];
  std::nth_element(sample, sample + kSample / 2, sample + kSample);
  return sample[kSample / 2];
}

template <class T>
void cut(const SortRun& run, int parts, std::vector<SortRun>& runs) {
  if (parts < 2 || run.n < 2 * kCut) {
    runs.push_back(run);
    return;
  }
  constexpr decltype(&telamon_generic_sort_partition) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(sort_partition);
  const auto partition = kLoops[static_cast<int>(runtime::host_isa())];
  T *keys = static_cast<T*>(run.keys), *scratch = static_cast<T*>(run.scratch);
  T* out = static_cast<T*>(run.out);
  const T pivot = median_of_sample(keys, run.n);
  // Each half leaves its lower keys in the scratch memory and the others at its front.
  const std::int64_t half = run.n / 2, sizes[2] = {half, run.n - half};
  std::int64_t below[2];
  runtime::parallel_for(2, [&](std::int64_t i) {
    below[i] = partition(sizeof(T), keys + i * half, sizes[i], pivot, scratch + i * half);
  });
  const std::int64_t low = below[0] + below[1], high = run.n - low;
  const auto move = [](T* to, const T* from, std::int64_t n) {
    std::memmove(to, from, static_cast<std::size_t>(n) * sizeof(T));
  };
  move(scratch + below[0], scratch + half, below[1]);
  move(keys + (sizes[0] - below[0]), keys + half, sizes[1] - below[1]);
  cut<T>({scratch, keys + high, out, low}, parts / 2, runs);
  cut<T>({keys, scratch + low, out + low, high}, parts - parts / 2, runs);
}

/// One line, by several threads.
void sort_long_run(int bytes, const SortRun& run) {
  std::vector<SortRun> runs;
  const int parts = runtime::num_threads();
  if (bytes == 4) cut<std::uint32_t>(run, parts, runs);
  else cut<std::uint64_t>(run, parts, runs);
  runtime::parallel_for(static_cast<std::int64_t>(runs.size()), [&](std::int64_t i) {
    const Room tile(kSortTileBytes);
    sort_runs()(bytes, &runs[static_cast<std::size_t>(i)], 1, tile.at(0));
  });
}

void sort_all(int bytes, std::span<const SortRun> runs) {
  if (runs.size() == 1 && runs[0].n >= 2 * kCut) return sort_long_run(bytes, runs[0]);
  const Room tile(kSortTileBytes);
  sort_runs()(bytes, runs.data(), static_cast<std::int64_t>(runs.size()), tile.at(0));
}

// ---- One operand

void sort_lines(const SortKeys& type, std::int64_t lines, std::int64_t length, std::int64_t size,
                const char* from, char* to) {
  const std::int64_t n = lines * length, bytes = n * type.bytes;
  const Room keys(bytes), scratch(bytes), sorted(bytes);
  const bool special = type.encode(from, n, keys.at(0));
  std::vector<SortRun> runs;
  for (std::int64_t at = 0; at < bytes; at += length * type.bytes)
    runs.push_back({keys.at(at), scratch.at(at), sorted.at(at), length});
  sort_all(type.bytes, runs);
  type.decode(sorted.at(0), n, to);
  if (!special) return;
  for (std::int64_t i = 0; i < n; i += length) type.restore(from + i * size, length, to + i * size);
}

// ---- Several operands

/// A key as it lies in memory: complex numbers are two.
struct Key {
  const SortKeys* type;
  std::size_t operand;
  std::int64_t offset, stride;
};
std::vector<Key> keys_of(std::span<const View> in) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto size = static_cast<std::int64_t>(size_of(in[i].dtype));
    if (is_complex(in[i].dtype)) {
      const SortKeys& part = keys_of(in[i].dtype == DType::c64 ? DType::f32 : DType::f64);
      keys.push_back({&part, i, 0, size});
      keys.push_back({&part, i, size / 2, size});
    } else {
      keys.push_back({&keys_of(in[i].dtype), i, 0, size});
    }
  }
  return keys;
}

constexpr std::int64_t kAtOnce = 16;  // lines

/// The order of the elements of several lines, which are sorted side by side.
class Orders {
 public:
  static constexpr std::int64_t kBytes = 28;  ///< for each element

  Orders(std::int64_t lines, std::int64_t n)
      : n_(n),
        entries_(8 * lines * n),
        scratch_(8 * lines * n),
        sorted_(8 * lines * n),
        orders_(4 * lines * n) {}

  /// Of the lines [first, first + count).
  void find(std::span<const Key> keys, std::span<const View> in, std::int64_t first,
            std::int64_t count) {
    changed_.assign(static_cast<std::size_t>(count), false);
    for (std::size_t k = keys.size(); k-- > 0;) {
      const Key& key = keys[k];
      const char* from = in[key.operand].data + key.offset + first * n_ * key.stride;
      for (int word = 0; word < key.type->bytes / 4; ++word) {
        std::vector<SortRun> runs;
        std::vector<std::int64_t> lines;
        for (std::int64_t line = 0; line < count; ++line) {
          const std::int64_t at = 8 * line * n_;
          if (!key.type->entries(from + line * n_ * key.stride, key.stride, of(line), n_, word,
                                 reinterpret_cast<std::uint64_t*>(entries_.at(at))))
            continue;
          runs.push_back({entries_.at(at), scratch_.at(at), sorted_.at(at), n_});
          lines.push_back(line);
        }
        sort_all(8, runs);
        for (std::size_t i = 0; i < runs.size(); ++i) follow(lines[i], runs[i]);
      }
    }
  }
  /// Of a line; null: as they are.
  const std::uint32_t* of(std::int64_t line) const {
    return changed_[static_cast<std::size_t>(line)] ? at(line) : nullptr;
  }

 private:
  std::uint32_t* at(std::int64_t line) const { return orders_.as<std::uint32_t>() + line * n_; }

  void follow(std::int64_t line, const SortRun& run) {
    const auto* sorted = static_cast<const std::uint64_t*>(run.out);
    const std::uint32_t* old = of(line);
    auto* next = static_cast<std::uint32_t*>(run.scratch);
    for (std::int64_t i = 0; i < n_; ++i) {
      const auto place = static_cast<std::uint32_t>(sorted[i]);
      next[i] = old == nullptr ? place : old[place];
    }
    std::memcpy(at(line), next, static_cast<std::size_t>(4 * n_));
    changed_[static_cast<std::size_t>(line)] = true;
  }

  std::int64_t n_;
  Room entries_, scratch_, sorted_, orders_;
  std::vector<bool> changed_;
};

template <std::size_t kSize>
void gather_elements(const std::uint32_t* order, std::int64_t n, const char* from, char* to) {
  for (std::int64_t i = 0; i < n; ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * kSize, from + order[i] * kSize, kSize);
}
void gather(const std::uint32_t* order, std::int64_t n, std::size_t size, const char* from,
            char* to) {
  if (order == nullptr) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * size);
    return;
  }
  switch (size) {
    case 1: return gather_elements<1>(order, n, from, to);
    case 2: return gather_elements<2>(order, n, from, to);
    case 4: return gather_elements<4>(order, n, from, to);
    case 8: return gather_elements<8>(order, n, from, to);
    default: return gather_elements<16>(order, n, from, to);
  }
}

void sort_together(std::span<const Key> keys, std::span<const View> in, std::span<const View> out,
                   std::int64_t first, std::int64_t last, std::int64_t n) {
  Orders orders(std::min(kAtOnce, last - first), n);
  for (; first < last; first += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, last - first);
    orders.find(keys, in, first, count);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t size = size_of(in[i].dtype);
      for (std::int64_t line = 0; line < count; ++line) {
        const std::int64_t at = (first + line) * n * static_cast<std::int64_t>(size);
        gather(orders.of(line), n, size, in[i].data + at, out[i].data + at);
      }
    }
  }
}

/// The lines of a chunk.
std::int64_t lines_at_once(std::int64_t length) {
  return std::max<std::int64_t>(kChunk / length, 1);
}

/// Dense operands and results, along the last axis.
void sort_dense(std::span<const View> in, int num_keys, std::span<const View> out) {
  const std::int64_t length = in[0].shape.back(), lines = in[0].shape.num_elements() / length;
  if (length > std::numeric_limits<std::uint32_t>::max())
    throw NotImplementedError("sort: lines of 2^32 elements and more");
  const std::vector<Key> keys = keys_of(in.first(static_cast<std::size_t>(num_keys)));
  const bool alone = in.size() == 1 && !is_complex(in[0].dtype);
  const auto size = static_cast<std::int64_t>(size_of(in[0].dtype));
  const std::int64_t step = lines_at_once(length);
  const auto sort_chunk = [&](std::int64_t chunk) {
    const std::int64_t first = chunk * step, last = std::min(lines, first + step);
    if (!alone) return sort_together(keys, in, out, first, last, length);
    sort_lines(*keys[0].type, last - first, length, size, in[0].data + first * length * size,
               out[0].data + first * length * size);
  };
  if (lines <= step) return sort_chunk(0);  // outside the pool, which one line may use itself
  runtime::parallel_for((lines + step - 1) / step, sort_chunk);
}

View with_axis_last(View view, int axis) {
  const auto d = static_cast<std::size_t>(axis);
  view.shape.push_back(view.shape[d]);
  view.strides.push_back(view.strides[d]);
  view.shape.erase(d);
  view.strides.erase(d);
  return view;
}

}  // namespace

void run_sort(std::span<const View> in, int axis, int num_keys, std::span<const View> out) {
  TELAMON_CHECK(
      in.size() == out.size() && num_keys >= 1 && static_cast<std::size_t>(num_keys) <= in.size(),
      "sort has as many results as operands, and keys among them");
  if (in[0].shape.num_elements() == 0) return;
  // Copies where lines are not adjacent elements.
  std::vector<std::optional<Temporary>> copies(2 * in.size());
  std::vector<View> from, to;
  for (std::size_t i = 0; i < in.size(); ++i) {
    from.push_back(with_axis_last(in[i], axis));
    to.push_back(with_axis_last(out[i], axis));
    if (!is_contiguous(from[i])) {
      copies[2 * i].emplace(from[i].shape, from[i].dtype);
      run_copy(from[i], copies[2 * i]->view());
      from[i] = copies[2 * i]->view();
    }
    if (!is_contiguous(to[i])) {
      copies[2 * i + 1].emplace(to[i].shape, to[i].dtype);
      to[i] = copies[2 * i + 1]->view();
    }
  }
  sort_dense(from, num_keys, to);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (copies[2 * i + 1]) run_copy(to[i], with_axis_last(out[i], axis));
  }
}

std::int64_t sort_scratch(std::span<const Aval> operands, int axis, int threads) {
  if (operands.empty() || operands[0].size() == 0) return 0;
  std::int64_t copies = 0;
  for (const Aval& a : operands) {
    if (!is_contiguous(with_axis_last(contiguous_view(nullptr, a.dtype, a.shape), axis)))
      copies += 2 * a.size() * static_cast<std::int64_t>(size_of(a.dtype));
  }
  const std::int64_t length = operands[0].shape[static_cast<std::size_t>(axis)];
  const std::int64_t lines = operands[0].size() / length;
  const std::int64_t step = std::min(lines_at_once(length), lines);
  const std::int64_t chunks = std::min<std::int64_t>((lines + step - 1) / step, threads);
  const bool alone = operands.size() == 1 && !is_complex(operands[0].dtype);
  const std::int64_t chunk = alone ? 3 * step * length * keys_of(operands[0].dtype).bytes
                                   : Orders::kBytes * std::min(kAtOnce, step) * length;
  return copies + chunks * (chunk + kSortTileBytes);
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
