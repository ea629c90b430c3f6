// Stable sorting along an axis, by keys that have been mapped to unsigned integers of the same order.
//
// One operand is its own key: the integers are sorted and mapped back, while they are written if they are
// as large. Which of equal elements comes first shows in -0 and 0 and in NaNs only; where there are such,
// they are written again in the order of the operand. Several operands: each key is cut into words of 32
// bits, and (word, position) pairs, which are 64-bit integers that all differ, are sorted by the last word
// first, then by the one before, and so on. The final order then gathers every operand. Since no two pairs are equal, the result is
// the same however the integers are sorted, and by however many threads: many lines are shared out among
// them, and one long line has all its steps cut into pieces.
#include "runtime/kernels/sort.hpp"

#include <algorithm>
#include <atomic>
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

// Elements worth a chunk of their own, which takes some 40 us: of keys alone, and of what goes with keys.
constexpr std::int64_t kAloneChunk = 32 * 1024, kTogetherChunk = 8 * 1024;

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

constexpr std::int64_t kPiece = 16 * 1024;  // elements of a long line worth a chunk of their own

/// Calls body(first, last) for parts of n elements, by several threads.
template <class Body>
void in_pieces(std::int64_t n, const Body& body) {
  if (n <= kPiece) return body(0, n);
  runtime::parallel_for((n + kPiece - 1) / kPiece, [&](std::int64_t piece) {
    body(piece * kPiece, std::min(n, (piece + 1) * kPiece));
  });
}
/// The same for bodies that return bits; all of these.
template <class Body>
unsigned found_in_pieces(std::int64_t n, const Body& body) {
  if (n <= kPiece) return body(0, n);
  unsigned all = 0;
  in_pieces(n, [&](std::int64_t first, std::int64_t last) {
    if (const unsigned found = body(first, last); found != 0)
      std::atomic_ref(all).fetch_or(found, std::memory_order_relaxed);
  });
  return all;
}

// ---- One long run, by several threads

constexpr std::int64_t kCut = 16 * 1024;  // keys worth a thread of their own

/// A run that is left to so many threads.
struct Part {
  SortRun run;
  int threads;
};

/// The key below which there is about as much as half of the threads, rounded down, can do.
template <class T>
T pivot_of(const Part& part) {
  constexpr std::int64_t kSample = 1023;
  const T* keys = static_cast<const T*>(part.run.keys);
  T sample[kSample];
  for (std::int64_t i = 0; i < kSample; ++i) sample[i] = keys[part.run.n / kSample * i];
  T* const pivot = sample + kSample * (part.threads / 2) / part.threads;
  std::nth_element(sample, pivot, sample + kSample);
  return *pivot;
}

/// Cuts each part in two by a pivot, both halves of its keys side by side.
template <class T>
std::vector<Part> cut(std::span<const Part> parts) {
  constexpr decltype(&telamon_generic_sort_partition) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(sort_partition);
  const auto partition = kLoops[static_cast<int>(runtime::host_isa())];
  struct Half {
    T *keys, *scratch;
    std::int64_t n;
    T pivot;
    std::int64_t below = 0;
  };
  std::vector<Half> halves;
  for (const Part& part : parts) {
    const SortRun& run = part.run;
    T *keys = static_cast<T*>(run.keys), *scratch = static_cast<T*>(run.scratch);
    const T pivot = pivot_of<T>(part);
    const std::int64_t half = run.n / 2;
    halves.push_back({keys, scratch, half, pivot});
    halves.push_back({keys + half, scratch + half, run.n - half, pivot});
  }
  const auto count = static_cast<std::int64_t>(halves.size());
  runtime::parallel_for(count, [&](std::int64_t i) {
    Half& h = halves[static_cast<std::size_t>(i)];
    h.below = partition(sizeof(T), h.keys, h.n, h.pivot, h.scratch);
  });
  // Each half has left its lower keys in the scratch memory and the others at its front: they close up.
  runtime::parallel_for(count, [&](std::int64_t i) {
    const auto move = [](T* to, const T* from, std::int64_t n) {
      std::memmove(to, from, static_cast<std::size_t>(n) * sizeof(T));
    };
    const Half &a = halves[static_cast<std::size_t>(i / 2 * 2)],
               &b = halves[static_cast<std::size_t>(i / 2 * 2 + 1)];
    if (i % 2 == 0) move(a.scratch + a.below, b.scratch, b.below);
    else move(a.keys + (a.n - a.below), b.keys, b.n - b.below);
  });
  std::vector<Part> cut;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [run, threads] = parts[i];
    const Half& a = halves[2 * i];
    T* out = static_cast<T*>(run.out);
    const std::int64_t low = a.below + halves[2 * i + 1].below, high = run.n - low;
    cut.push_back({{a.scratch, a.keys + high, out, low, run.turned}, threads / 2});
    cut.push_back({{a.keys, a.scratch + low, out + low, high, run.turned}, threads - threads / 2});
  }
  return cut;
}

/// The run is cut until there is a part for each thread. The result does not depend on where.
void sort_long_run(int bytes, const SortRun& run) {
  std::vector<Part> left{{run, runtime::num_threads()}};
  std::vector<SortRun> runs;
  while (!left.empty()) {
    const auto whole = std::partition(left.begin(), left.end(), [](const Part& part) {
      return part.threads > 1 && part.run.n >= 2 * kCut;
    });
    for (auto part = whole; part != left.end(); ++part) runs.push_back(part->run);
    left.erase(whole, left.end());
    left = bytes == 4 ? cut<std::uint32_t>(left) : cut<std::uint64_t>(left);
  }
  runtime::parallel_for(static_cast<std::int64_t>(runs.size()), [&](std::int64_t i) {
    const Room tile(kSortTileBytes);
    sort_runs()(bytes, &runs[static_cast<std::size_t>(i)], 1, tile.at(0));
  });
}

void sort_all(int bytes, std::span<const SortRun> runs) {
  if (runs.size() == 1 && runs[0].n >= 2 * kCut && !runtime::in_parallel_region())
    return sort_long_run(bytes, runs[0]);
  const Room tile(kSortTileBytes);
  sort_runs()(bytes, runs.data(), static_cast<std::int64_t>(runs.size()), tile.at(0));
}

// ---- One operand

void sort_lines(const SortKeys& type, std::int64_t lines, std::int64_t length, std::int64_t size,
                const char* from, char* to) {
  const std::int64_t n = lines * length, bytes = n * type.bytes;
  // Keys as large as elements become these when they are written.
  const bool as_large = size == type.bytes;
  const Room keys(bytes), scratch(bytes), sorted(as_large ? 0 : bytes);
  const bool special =
      found_in_pieces(n, [&](std::int64_t first, std::int64_t last) {
        return type.encode(from + first * size, last - first, keys.at(first * type.bytes)) ? 1u
                                                                                           : 0u;
      }) != 0;
  std::vector<SortRun> runs;
  for (std::int64_t at = 0; at < bytes; at += length * type.bytes)
    runs.push_back({keys.at(at), scratch.at(at), as_large ? to + at : sorted.at(at), length,
                    as_large ? type.turned : KeyBits()});
  sort_all(type.bytes, runs);
  if (!as_large) {
    in_pieces(n, [&](std::int64_t first, std::int64_t last) {
      type.decode(sorted.at(first * type.bytes), last - first, to + first * size);
    });
  }
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

template <std::size_t kSize>
void gather_elements(const std::uint32_t* places, std::int64_t n, const char* from, char* to) {
  for (std::int64_t i = 0; i < n; ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * kSize, from + places[i] * kSize, kSize);
}
void gather(const std::uint32_t* places, std::int64_t n, std::int64_t size, const char* from,
            char* to) {
  switch (size) {
    case 1: return gather_elements<1>(places, n, from, to);
    case 2: return gather_elements<2>(places, n, from, to);
    case 4: return gather_elements<4>(places, n, from, to);
    case 8: return gather_elements<8>(places, n, from, to);
    default: return gather_elements<16>(places, n, from, to);
  }
}

/// Whether the elements of a line are 0, 1, ..., in integers that hold places.
template <class T>
bool counts_up(const char* line, std::int64_t n) {
  const auto* x = reinterpret_cast<const T*>(line);
  if (x[0] != 0 || x[n - 1] != static_cast<T>(n - 1)) return false;
  return found_in_pieces(n, [&](std::int64_t first, std::int64_t last) {
           T differing = 0;
           for (std::int64_t i = first; i < last; ++i) differing |= x[i] ^ static_cast<T>(i);
           return differing != 0 ? 1u : 0u;
         }) == 0;
}
bool counts_up(DType dtype, const char* line, std::int64_t n) {
  if (!is_integer(dtype)) return false;
  switch (size_of(dtype)) {
    case 4: return counts_up<std::uint32_t>(line, n);
    case 8: return counts_up<std::uint64_t>(line, n);
    default: return false;
  }
}

constexpr std::int64_t kAtOnce = 16;   // lines
constexpr std::int64_t kBlock = 1024;  // elements whose places are at hand at once

/// Several lines, which are sorted side by side; a long one alone, by several threads.
class Lines {
 public:
  static constexpr std::int64_t kBytes = 28;  ///< for each element

  Lines(std::span<const Key> keys, std::span<const View> in, std::span<const View> out,
        std::int64_t lines, std::int64_t n)
      : keys_(keys),
        n_(n),
        entries_(8 * lines * n),
        scratch_(8 * lines * n),
        sorted_(8 * lines * n),
        orders_(4 * lines * n) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const DType dtype = in[i].dtype;
      operands_.push_back(
          {dtype, static_cast<std::int64_t>(size_of(dtype)), in[i].data, out[i].data});
    }
  }

  /// The lines [first, first + count).
  void sort(std::int64_t first, std::int64_t count) {
    lines_.clear();
    for (std::int64_t i = 0; i < count; ++i) lines_.push_back({(first + i) * n_, i * n_});
    for (std::size_t k = keys_.size(); k-- > 0;) {
      for (int word = 0; word < keys_[k].type->bytes / 4; ++word) sort_by(keys_[k], word);
    }
    for (const Line& line : lines_) permute(line);
  }

 private:
  /// Element i comes from where `order` has the lower half of pairs[i]; null: i. The upper half is the
  /// word that was sorted by last.
  struct Line {
    std::int64_t begin, room;              // where it begins in the operands, and its room
    const std::uint32_t* order = nullptr;  // null: 0, 1, ...
    const std::uint64_t* pairs = nullptr;
    bool special = false;  // elements of the last key do not all come back from it as they were
  };
  /// What the elements of a result are had from. Gathering them takes the most time by far.
  enum class Source { word, place, element };
  struct Operand {
    DType dtype;
    std::int64_t size;
    const char* from;
    char* to;
    Source source = Source::element;
  };

  void sort_by(const Key& key, int word) {
    std::vector<SortRun> runs;
    for (Line& line : lines_) {
      follow(line);
      const unsigned entries = write_entries(line, key, word);
      if ((entries & kEntriesDiffer) == 0) continue;
      runs.push_back(
          {entries_.at(8 * line.room), scratch_.at(8 * line.room), sorted_.at(8 * line.room), n_});
      line.pairs = sorted_.as<std::uint64_t>() + line.room;
      line.special = (entries & kEntriesSpecial) != 0;
    }
    sort_all(8, runs);
  }

  unsigned write_entries(const Line& line, const Key& key, int word) const {
    const Operand& operand = operands_[key.operand];
    const char* from = operand.from + line.begin * operand.size + key.offset;
    auto* entries = entries_.as<std::uint64_t>() + line.room;
    return found_in_pieces(n_, [&](std::int64_t first, std::int64_t last) {
      return key.type->entries(from, key.stride, line.order, first, last, word, entries);
    });
  }

  static void put_places(const Line& line, std::int64_t first, std::int64_t n,
                         std::uint32_t* places) {
    if (line.pairs == nullptr) {
      std::copy_n(line.order + first, n, places);
    } else if (line.order == nullptr) {
      for (std::int64_t i = 0; i < n; ++i)
        places[i] = static_cast<std::uint32_t>(line.pairs[first + i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        places[i] = line.order[static_cast<std::uint32_t>(line.pairs[first + i])];
    }
  }

  /// Makes the pairs of a line, if there are any, its order.
  void follow(Line& line) const {
    if (line.pairs == nullptr) return;
    auto* order = orders_.as<std::uint32_t>() + line.room;
    auto* next = reinterpret_cast<std::uint32_t*>(scratch_.at(8 * line.room));
    in_pieces(n_, [&](std::int64_t first, std::int64_t last) {
      put_places(line, first, last - first, next + first);
    });
    in_pieces(n_, [&](std::int64_t first, std::int64_t last) {
      std::copy(next + first, next + last, order + first);
    });
    line.order = order;
    line.pairs = nullptr;
  }

  Source source_of(const Line& line, const Operand& operand) const {
    if (n_ < kBlock) return Source::element;  // near enough
    if (&operand == operands_.data() && keys_[0].type->bytes == 4 && !is_complex(operand.dtype) &&
        line.pairs != nullptr && !line.special)
      return Source::word;
    return counts_up(operand.dtype, operand.from + line.begin * operand.size, n_) ? Source::place
                                                                                  : Source::element;
  }

  void permute(const Line& line) {
    if (line.pairs == nullptr && line.order == nullptr) {
      for (const Operand& o : operands_) {
        const std::int64_t at = line.begin * o.size;
        std::memcpy(o.to + at, o.from + at, static_cast<std::size_t>(n_ * o.size));
      }
      return;
    }
    for (Operand& o : operands_) o.source = source_of(line, o);
    in_pieces(n_, [&](std::int64_t first, std::int64_t last) {
      std::uint32_t places[kBlock];
      for (; first < last; first += kBlock) {
        const std::int64_t n = std::min(kBlock, last - first);
        put_places(line, first, n, places);
        for (const Operand& o : operands_) put_elements(line, o, first, n, places);
      }
    });
  }

  void put_elements(const Line& line, const Operand& operand, std::int64_t first, std::int64_t n,
                    const std::uint32_t* places) const {
    char* to = operand.to + (line.begin + first) * operand.size;
    switch (operand.source) {
      case Source::word: {
        std::uint32_t words[kBlock];
        for (std::int64_t i = 0; i < n; ++i)
          words[i] = static_cast<std::uint32_t>(line.pairs[first + i] >> 32);
        return keys_[0].type->decode(words, n, to);
      }
      case Source::place: {
        if (operand.size == 4) std::memcpy(to, places, static_cast<std::size_t>(4 * n));
        else std::copy_n(places, n, reinterpret_cast<std::uint64_t*>(to));
        return;
      }
      case Source::element:
        return gather(places, n, operand.size, operand.from + line.begin * operand.size, to);
    }
  }

  std::span<const Key> keys_;
  std::int64_t n_;
  std::vector<Operand> operands_;
  Room entries_, scratch_, sorted_, orders_;
  std::vector<Line> lines_;
};

void sort_together(std::span<const Key> keys, std::span<const View> in, std::span<const View> out,
                   std::int64_t first, std::int64_t last, std::int64_t n) {
  Lines lines(keys, in, out, std::min(kAtOnce, last - first), n);
  for (; first < last; first += kAtOnce) lines.sort(first, std::min(kAtOnce, last - first));
}

/// The lines of a chunk.
std::int64_t lines_at_once(std::int64_t length, bool alone) {
  return std::max<std::int64_t>((alone ? kAloneChunk : kTogetherChunk) / length, 1);
}

/// Dense operands and results, along the last axis.
void sort_dense(std::span<const View> in, int num_keys, std::span<const View> out) {
  const std::int64_t length = in[0].shape.back(), lines = in[0].shape.num_elements() / length;
  const std::vector<Key> keys = keys_of(in.first(static_cast<std::size_t>(num_keys)));
  const bool alone = in.size() == 1 && !is_complex(in[0].dtype);
  const auto size = static_cast<std::int64_t>(size_of(in[0].dtype));
  const std::int64_t step = lines_at_once(length, alone);
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
  if (in[0].shape[static_cast<std::size_t>(axis)] > std::numeric_limits<std::uint32_t>::max())
    throw NotImplementedError("sort of " + Aval{in[0].shape, in[0].dtype, false}.to_string() +
                              " along axis " + std::to_string(axis) +
                              ": lines of 2^32 elements and more are not sorted");
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
  const bool alone = operands.size() == 1 && !is_complex(operands[0].dtype);
  const std::int64_t step = std::min(lines_at_once(length, alone), lines);
  const std::int64_t chunks = std::min<std::int64_t>((lines + step - 1) / step, threads);
  const auto size = static_cast<std::int64_t>(size_of(operands[0].dtype));
  const std::int64_t key = alone ? keys_of(operands[0].dtype).bytes : 0;
  const std::int64_t chunk = alone ? (size == key ? 2 : 3) * step * length * key
                                   : Lines::kBytes * std::min(kAtOnce, step) * length;
  // Of a line alone each part that threads sort has a tile.
  const std::int64_t tiles = lines == 1 && length >= 2 * kCut ? threads : chunks;
  return copies + chunks * chunk + tiles * kSortTileBytes;
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
