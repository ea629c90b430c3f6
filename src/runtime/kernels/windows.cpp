// Gathers and scatters: the places of a block of windows first, then their contents.
#include "runtime/kernels/windows.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/cursor.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kChunkBytes = 512 * 1024;    // worth a chunk of their own
constexpr std::int64_t kDisjoint = 1, kUnique = 2;  // what is known of windows

/// What numbers() wrote.
struct Loop {
  WindowOp op;
  DType dtype, index_dtype;
  bool clips, disjoint, unique;
  std::int64_t operand_bytes;
  std::span<const WindowLoop::Count> counts;
  std::span<const WindowLoop::Component> components;
  std::span<const WindowLoop::Extent> window;
  std::int64_t size, windows = 1, elements = 1;

  explicit Loop(const std::int64_t* p)
      : op(static_cast<WindowOp>(p[0])),
        dtype(static_cast<DType>(p[1])),
        index_dtype(static_cast<DType>(p[2])),
        clips(p[3] != 0),
        disjoint((p[4] & kDisjoint) != 0),
        unique((p[4] & kUnique) != 0),
        operand_bytes(p[5]),
        size(static_cast<std::int64_t>(size_of(dtype))) {
    const std::int64_t* at = p + 9;
    const auto take = [&at]<class T>(std::span<const T>& list, std::int64_t n) {
      list = {reinterpret_cast<const T*>(at), static_cast<std::size_t>(n)};
      at += n * static_cast<std::int64_t>(sizeof(T) / sizeof(std::int64_t));
    };
    take(counts, p[6]);
    take(components, p[7]);
    take(window, p[8]);
    for (const auto& c : counts) windows *= c.size;
    for (const auto& e : window) elements *= e.size;
  }
  /// Whether windows that are not rows at places (loop_by_index) are worth sharing by where they begin in the operand.
  bool divisible() const { return disjoint && elements * size >= 64; }
  /// Where different windows may begin: in each part of a batch, wherever the components lead.
  std::int64_t places() const {
    std::int64_t all = 1;
    for (const auto& count : counts) all *= count.operand_stride != 0 ? count.size : 1;
    for (const auto& component : components) all *= component.last + 1;
    return all;
  }
  /// Whether a window is one run of adjacent elements on both sides.
  bool dense() const {
    return window.empty() || (window.size() == 1 && window[0].operand_stride == size &&
                              window[0].slice_stride == size);
  }
};

/// Some windows in a row.
struct Block {
  std::int64_t n;
  std::int64_t offsets[kWindows];  // in the operand; kOutside: dropped
  char* operand;
  char* slices;
  std::int64_t slice_stride;
};

/// Index vectors of two numbers that are looked at side by side, most of which are in bounds as they are.
struct PairedComponents {
  bool exist = false;
  std::int32_t lasts[2] = {}, steps[2] = {};

  PairedComponents(const Loop& loop, const WindowLoop::Count& inner) {
    const bool words = loop.index_dtype == DType::i32 || loop.index_dtype == DType::u32;
    if (!words || loop.components.size() != 2 || inner.index_stride != 8) return;
    double farthest = 0;
    for (const WindowLoop::Component& c : loop.components) {
      if (c.last < 0 || c.last > INT32_MAX || c.operand_stride < 0 ||
          c.operand_stride > INT32_MAX || c.index_offset % 4 != 0)
        return;
      farthest += static_cast<double>(c.last) * static_cast<double>(c.operand_stride);
      const auto i = static_cast<std::size_t>(c.index_offset / 4);
      if (i > 1) return;
      lasts[i] = static_cast<std::int32_t>(c.last);
      steps[i] = static_cast<std::int32_t>(c.operand_stride);
    }
    exist =
        farthest <= INT32_MAX && loop.components[0].index_offset != loop.components[1].index_offset;
  }
};

/// The windows that lie in a row on the side of indices and slices, and where they begin in the operand before the
/// indices are looked at. These are the innermost ones and, if those of the next dimension continue them, these:
/// few updates for each of many parts of a batch would be as many blocks.
struct Row {
  WindowLoop::Count all{1, 0, 0, 0}, inner = all, outer = all;
  std::size_t dims = 0;  // of the counts, that are in it

  explicit Row(std::span<const WindowLoop::Count> counts) {
    if (counts.empty()) return;
    all = inner = counts.back();
    dims = 1;
    if (counts.size() < 2) return;
    const WindowLoop::Count& next = counts[counts.size() - 2];
    if (next.index_stride != inner.index_stride * inner.size ||
        next.slice_stride != inner.slice_stride * inner.size)
      return;
    outer = next;
    all.size *= outer.size;
    dims = 2;
  }
  /// Of n windows from number `first` on.
  void begin(std::int64_t first, std::int64_t n, std::int64_t* offsets) const {
    for (std::int64_t i = first / inner.size, j = first % inner.size; n > 0; ++i, j = 0) {
      const std::int64_t of_part = i * outer.operand_stride, end = std::min(inner.size, j + n);
      n -= end - j;
      for (; j < end; ++j) *offsets++ = of_part + j * inner.operand_stride;
    }
  }
};

/// Calls visit(block) for the windows [first, last).
template <class Visit>
void for_each_block(const Loop& loop, std::int64_t first, std::int64_t last, char* operand,
                    const char* indices, char* slices, const Visit& visit) {
  constexpr decltype(&telamon_generic_window_offsets) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(window_offsets);
  constexpr decltype(&telamon_generic_pair_offsets) kPairLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(pair_offsets);
  const auto isa = static_cast<std::size_t>(runtime::host_isa());
  const WindowOffsets find = kLoops[isa](loop.index_dtype);
  const Row rows(loop.counts);
  const PairedComponents pairs(loop, rows.all);
  Block block;
  block.slice_stride = rows.all.slice_stride;
  while (first < last) {
    std::int64_t row = first / rows.all.size;
    const std::int64_t column = first % rows.all.size;
    block.n = std::min({kWindows, last - first, rows.all.size - column});
    block.operand = operand;
    block.slices = slices + column * block.slice_stride;
    const char* vectors = indices + column * rows.all.index_stride;
    for (std::size_t d = loop.counts.size() - rows.dims; d-- > 0;) {
      const WindowLoop::Count& c = loop.counts[d];
      const std::int64_t i = row % c.size;
      row /= c.size;
      block.operand += i * c.operand_stride;
      block.slices += i * c.slice_stride;
      vectors += i * c.index_stride;
    }
    rows.begin(column, block.n, block.offsets);
    const bool found =
        pairs.exist && kPairLoops[isa](block.n, vectors, pairs.lasts, pairs.steps, block.offsets);
    for (const WindowLoop::Component& c : loop.components) {
      if (found) break;
      find(block.n, vectors + c.index_offset, rows.all.index_stride, {loop.clips, c.last, c.wrap},
           c.operand_stride, block.offsets);
    }
    visit(block);
    first += block.n;
  }
}

void prefetch(const Block& block, std::int64_t i) {
  const std::int64_t ahead = std::min(i + kAhead, block.n - 1);
  if (block.offsets[ahead] >= 0) __builtin_prefetch(block.operand + block.offsets[ahead]);
}

/// The windows of a block that are in a part of the operand.
Block within(Block block, const PlaceRange& part) {
  constexpr decltype(&telamon_generic_keep_offsets) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(keep_offsets);
  kLoops[static_cast<int>(runtime::host_isa())](block.n, part.first, part.size, block.offsets);
  return block;
}

// ---- Windows of adjacent elements ----------------------------------------------------------------

/// From kSize to 2 kSize bytes, as two pieces that may overlap.
template <std::size_t kSize>
void copy_ends(char* to, const char* from, std::int64_t n) {
  char first[kSize], last[kSize];
  std::memcpy(first, from, kSize);
  std::memcpy(last, from + n - kSize, kSize);
  std::memcpy(to, first, kSize);
  std::memcpy(to + n - kSize, last, kSize);
}
/// n bytes, of which there are few in general: of a number that is not known the compiler makes a call, or an
/// instruction that takes as long (10,000 rows of three f32 on Zen 3: 3 times as long).
inline void copy_bytes(char* to, const char* from, std::int64_t n) {
  if (n > 512) {
    std::memcpy(to, from, static_cast<std::size_t>(n));
    return;
  }
  if (n >= 32) {
    std::int64_t i = 0;
    for (; i + 32 <= n; i += 32) std::memcpy(to + i, from + i, 32);
    if (i < n) std::memcpy(to + n - 32, from + n - 32, 32);
  } else if (n >= 16) {
    copy_ends<16>(to, from, n);
  } else if (n >= 8) {
    copy_ends<8>(to, from, n);
  } else if (n >= 4) {
    copy_ends<4>(to, from, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

template <int kSize>
void gather_elements(const Block& b, const char* fill) {
  for (std::int64_t i = 0; i < b.n; ++i) {
    const char* from = b.offsets[i] < 0 ? fill : b.operand + b.offsets[i];
    std::memcpy(b.slices + i * b.slice_stride, from, kSize);
  }
}
/// f.operator()<size>() for the size of an element.
template <class F>
void with_size(std::int64_t size, const F& f) {
  switch (size) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 4: return f.template operator()<4>();
    case 8: return f.template operator()<8>();
    default: return f.template operator()<16>();
  }
}

void fill_run(const char* value, std::int64_t size, std::int64_t n, char* to, std::int64_t stride) {
  for (std::int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * stride, value, static_cast<std::size_t>(size));
}

void dense_gather(const Loop& loop, const Block& b, const char* fill) {
  if (loop.window.empty())
    return with_size(loop.size, [&]<int kSize> { gather_elements<kSize>(b, fill); });
  const std::int64_t bytes = loop.elements * loop.size;
  for (std::int64_t i = 0; i < b.n; ++i) {
    prefetch(b, i);
    char* to = b.slices + i * b.slice_stride;
    if (b.offsets[i] >= 0) copy_bytes(to, b.operand + b.offsets[i], bytes);
    else fill_run(fill, loop.size, loop.elements, to, loop.size);
  }
}
struct Adder {
  explicit Adder(const Loop& loop) : kernel(find_kernel(Op::add, loop.dtype)) {}
  Kernel kernel;

  void run(std::int64_t n, char* to, std::int64_t to_stride, const char* from,
           std::int64_t from_stride) const {
    const char* operands[] = {to, from};
    const std::int64_t strides[] = {to_stride, from_stride};
    kernel(n, operands, strides, to, to_stride, nullptr);
  }
};

/// For index vectors of so many components; null for gathers, and where there is no such loop.
IndexedLoop indexed_loop(const Loop& loop, DType index_dtype, std::size_t components,
                         std::int64_t elements) {
  constexpr decltype(&telamon_generic_indexed_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(indexed_loop);
  return kLoops[static_cast<int>(runtime::host_isa())](loop.op, index_dtype, components, loop.dtype,
                                                       elements);
}
/// Updates of rows of so many elements at those places of a block, which are bytes, that are in a part of the operand.
void update_listed(const Loop& loop, const Block& b, std::int64_t elements,
                   const PlaceRange& part = {}) {
  constexpr Starts kAll{false, INT64_MAX, 0};
  const IndexedLoop run = indexed_loop(loop, DType::i64, 1, elements);
  run(b.n, {.indices = reinterpret_cast<const char*>(b.offsets),
            .index_stride = sizeof b.offsets[0],
            .starts = kAll,
            .step = 1,
            .operand = b.operand,
            .slices = b.slices,
            .slice_stride = b.slice_stride,
            .row_bytes = elements * loop.size,
            .part = part});
}

// ---- Other windows -------------------------------------------------------------------------------

/// Calls run(operand, slice, extent) for each innermost run of a window; the operand may be null.
template <class Run>
void for_each_run(std::span<const WindowLoop::Extent> window, char* operand, char* slice,
                  const Run& run) {
  if (window.size() == 1) return run(operand, slice, window[0]);
  for (std::int64_t i = 0; i < window[0].size; ++i) {
    for_each_run(window.subspan(1),
                 operand == nullptr ? nullptr : operand + i * window[0].operand_stride,
                 slice + i * window[0].slice_stride, run);
  }
}

/// Windows of short rows of adjacent elements that lie far apart, one element for example.
struct FarRows {
  std::int64_t elements = 1;                  // of a row
  const WindowLoop::Extent* along = nullptr;  // null: these are others

  explicit FarRows(const Loop& loop) {
    constexpr std::int64_t kFar = 512;
    const WindowLoop::Extent& last = loop.window.back();
    const bool rows = last.operand_stride == loop.size && last.slice_stride == loop.size &&
                      last.size * loop.size <= kIndexedBytes && loop.op == WindowOp::add;
    if (loop.window.size() != (rows ? 2 : 1) || loop.window[0].operand_stride < kFar) return;
    along = loop.window.data();
    if (rows) elements = last.size;
  }
};
/// Whether those of many windows at one place of several are nowhere else: what is done to them is the same in any
/// order of the places.
bool goes_by_places(const Loop& loop, const FarRows& rows, std::int64_t windows) {
  constexpr std::int64_t kMany = 24;  // of fewer the list of each place takes longer (10 ns)
  if (windows < kMany || rows.along == nullptr) return false;
  if (loop.op == WindowOp::gather) return true;
  std::int64_t farthest = rows.elements * loop.size;
  for (const auto& c : loop.counts) farthest += (c.size - 1) * c.operand_stride;
  for (const auto& c : loop.components) farthest += c.last * c.operand_stride;
  return farthest <= rows.along->operand_stride;
}

void strided(const Loop& loop, const Block& b, const char* fill, const Adder* add) {
  if (const FarRows rows(loop); goes_by_places(loop, rows, b.n)) {
    Block at = b;
    for (std::int64_t i = 0; i < rows.along->size; ++i) {
      if (loop.op == WindowOp::gather)
        with_size(loop.size, [&]<int kSize> { gather_elements<kSize>(at, fill); });
      else update_listed(loop, at, rows.elements);
      at.operand += rows.along->operand_stride;
      at.slices += rows.along->slice_stride;
    }
    return;
  }
  const auto size = static_cast<int>(loop.size);
  for (std::int64_t i = 0; i < b.n; ++i) {
    if (b.offsets[i] < 0 && loop.op != WindowOp::gather) continue;
    char* at = b.offsets[i] < 0 ? nullptr : b.operand + b.offsets[i];
    for_each_run(
        loop.window, at, b.slices + i * b.slice_stride,
        [&](char* operand, char* slice, const WindowLoop::Extent& e) {
          if (operand == nullptr) return fill_run(fill, loop.size, e.size, slice, e.slice_stride);
          if (loop.op == WindowOp::gather)
            return copy_run(e.size, size, operand, e.operand_stride, slice, e.slice_stride);
          if (loop.op == WindowOp::replace)
            return copy_run(e.size, size, slice, e.slice_stride, operand, e.operand_stride);
          add->run(e.size, operand, e.operand_stride, slice, e.slice_stride);
        });
  }
}

// ---- Several threads -----------------------------------------------------------------------------

/// Calls body(first, last) for windows that may go on side by side.
template <class Body>
void in_chunks(const Loop& loop, const Body& body) {
  const std::int64_t each = std::max<std::int64_t>(loop.elements * loop.size, 8);
  const std::int64_t grain = std::max<std::int64_t>(kChunkBytes / each, 1);
  runtime::parallel_for((loop.windows + grain - 1) / grain, [&](std::int64_t chunk) {
    body(chunk * grain, std::min(loop.windows, (chunk + 1) * grain));
  });
}

void gather(const Loop& loop, char* operand, const char* indices, char* slices, const char* fill) {
  const auto visit = [&](const Block& b) {
    loop.dense() ? dense_gather(loop, b, fill) : strided(loop, b, fill, nullptr);
  };
  in_chunks(loop, [&](std::int64_t first, std::int64_t last) {
    for_each_block(loop, first, last, operand, indices, slices, visit);
  });
}

/// The loop for rows at places along one dimension or two, all in one row: no list of places. Null for something else.
IndexedLoop loop_by_index(const Loop& loop) {
  if (!loop.dense() || loop.components.empty() || loop.counts.size() != 1 ||
      loop.counts[0].operand_stride != 0)
    return nullptr;
  const std::size_t components = loop.components.size();
  if (components > 1 && !PairedComponents(loop, loop.counts[0]).exist) return nullptr;
  // Places are listed in as many bits as indices have: 32 do not hold all of a longer dimension, whose end indices below 0
  // reach.
  if (loop.index_dtype == DType::i32 && loop.components[0].last >= UINT32_MAX) return nullptr;
  return indexed_loop(loop, loop.index_dtype, components, loop.elements);
}
/// Of these rows some. Of one dimension, those that go to a part of its places.
void run_by_index(IndexedLoop run, const Loop& loop, std::int64_t first, std::int64_t last,
                  char* operand, const char* indices, const char* slices,
                  const PlaceRange& part = {}) {
  const WindowLoop::Count& count = loop.counts[0];
  WindowLoop::Component c = loop.components.front(), second = loop.components.back();
  if (second.index_offset < c.index_offset) std::swap(c, second);
  run(last - first, {.indices = indices + first * count.index_stride + c.index_offset,
                     .index_stride = count.index_stride,
                     .starts = {loop.clips, c.last, c.wrap},
                     .step = c.operand_stride,
                     .operand = operand,
                     .slices = slices + first * count.slice_stride,
                     .slice_stride = count.slice_stride,
                     .row_bytes = loop.elements * loop.size,
                     .second_starts = {loop.clips, second.last, second.wrap},
                     .second_step = second.operand_stride,
                     .part = part});
}

void update(const Loop& loop, const Block& b, const Adder& add, const PlaceRange& part = {}) {
  if (loop.dense()) return update_listed(loop, b, loop.elements, part);
  if (part.size < INT64_MAX) return update(loop, within(b, part), add);
  strided(loop, b, nullptr, &add);
}

/// Some of a batch, each of which has a part of the operand for itself.
void scatter_batch(const Loop& loop, std::int64_t first, std::int64_t last, char* operand,
                   const char* indices, char* slices) {
  constexpr std::int64_t kMany = 64;  // updates that are worth a call
  const WindowLoop::Count& batch = loop.counts[0];
  Loop one = loop;
  one.counts = loop.counts.subspan(1);
  one.windows = loop.windows / batch.size;
  const IndexedLoop by_index = one.windows >= kMany ? loop_by_index(one) : nullptr;
  for (; first < last && by_index != nullptr; ++first) {
    run_by_index(by_index, one, 0, one.windows, operand + first * batch.operand_stride,
                 indices + first * batch.index_stride, slices + first * batch.slice_stride);
  }
  const Adder add(loop);
  for_each_block(loop, first * one.windows, last * one.windows, operand, indices, slices,
                 [&](const Block& b) { update(loop, b, add); });
}

/// Whether most rows go where those four before them go, from some that are looked at: one thread adds these in a
/// register, and each of several would have to look at every run.
bool come_in_runs(const Loop& loop, const char* indices) {
  constexpr std::int64_t kLooks = 32, kApart = 4, kAround = 64;
  if (loop.windows < kLooks * kAround) return false;
  const std::int64_t stride = loop.counts[0].index_stride;
  const char* const first = indices + loop.components[0].index_offset;
  std::int64_t differ = 0;
  for (std::int64_t look = 0; look < kLooks; ++look) {
    // At different places of runs, were they all as long.
    const std::int64_t row = loop.windows / kLooks * look + 5 * look % (kAround - kApart);
    const char* const at = first + row * stride;
    differ += std::memcmp(at, at + kApart * stride, size_of(loop.index_dtype)) != 0 ? 1 : 0;
  }
  return 2 * differ <= kLooks;
}
/// Whether threads share these rows by their places. Without vectors, to list them takes longer than short rows do; and
/// each thread reads all lines of short rows, which is slow where they come from far.
bool is_divided_by_places(const Loop& loop, const char* indices) {
  constexpr std::int64_t kNear = std::int64_t{8} << 20;
  const std::int64_t bytes = loop.elements * loop.size;
  if (!loop.disjoint || loop.components.size() != 1) return false;
  return bytes >= kLine ||
         (runtime::host_isa() != runtime::Isa::generic && loop.windows * bytes <= kNear &&
          !(loop.op == WindowOp::add && come_in_runs(loop, indices)));
}

void run_parts_by_index(IndexedLoop run, const Loop& loop, std::int64_t parts, char* operand,
                        const char* indices, const char* slices) {
  const std::int64_t places = loop.components[0].last + 1, most = std::min(parts, places);
  runtime::parallel_for(most, [&](std::int64_t part) {
    const std::int64_t begin = places * part / most, end = places * (part + 1) / most;
    run_by_index(run, loop, 0, loop.windows, operand, indices, slices, {begin, end - begin});
  });
}

/// Threads share windows that do not meet, and a batch. Else each has a part of the operand and looks at all windows
/// in their order: the result does not depend on the number of parts, and one for each thread is the least to look at.
void scatter(const Loop& loop, char* operand, const char* indices, char* slices) {
  constexpr std::int64_t kUpdates = 16384;  // worth a chunk
  const std::int64_t each = loop.elements * loop.size;
  const IndexedLoop by_index = loop_by_index(loop);
  // Where more windows are dropped than not, sums may be taken in a table, which is added to all places.
  if (loop.disjoint && loop.unique && loop.windows <= loop.places()) {
    return in_chunks(loop, [&](std::int64_t first, std::int64_t last) {
      if (by_index != nullptr)
        return run_by_index(by_index, loop, first, last, operand, indices, slices);
      const Adder add(loop);
      for_each_block(loop, first, last, operand, indices, slices,
                     [&](const Block& b) { update(loop, b, add); });
    });
  }
  const std::int64_t parts =
      runtime::in_parallel_region()
          ? 1
          : std::min<std::int64_t>(loop.windows * each / kChunkBytes, runtime::num_threads());
  const bool divided = parts > 1 && loop.divisible();
  if (by_index != nullptr) {
    if (parts > 1 && is_divided_by_places(loop, indices))
      return run_parts_by_index(by_index, loop, parts, operand, indices, slices);
    if (!divided) return run_by_index(by_index, loop, 0, loop.windows, operand, indices, slices);
  }
  if (!loop.divisible() && !loop.counts.empty() && loop.counts[0].operand_stride != 0) {
    const std::int64_t size = loop.counts[0].size;
    const std::int64_t grain =
        std::max<std::int64_t>(kUpdates * size / (loop.windows * loop.elements), 1);
    return runtime::parallel_for((size + grain - 1) / grain, [&](std::int64_t chunk) {
      scatter_batch(loop, chunk * grain, std::min(size, (chunk + 1) * grain), operand, indices,
                    slices);
    });
  }
  const Adder add(loop);
  if (!divided)
    return for_each_block(loop, 0, loop.windows, operand, indices, slices,
                          [&](const Block& b) { update(loop, b, add); });
  const std::int64_t part_bytes = (loop.operand_bytes + parts - 1) / parts;
  runtime::parallel_for(parts, [&](std::int64_t part) {
    const auto apply_part = [&](const Block& b) {
      update(loop, b, add, {part * part_bytes - (b.operand - operand), part_bytes});
    };
    for_each_block(loop, 0, loop.windows, operand, indices, slices, apply_part);
  });
}

/// Whether a dimension continues the one within it.
bool continues(const WindowLoop::Count& outer, const WindowLoop::Count& inner) {
  return outer.index_stride == inner.index_stride * inner.size &&
         outer.slice_stride == inner.slice_stride * inner.size &&
         outer.operand_stride == inner.operand_stride * inner.size;
}
bool continues(const WindowLoop::Extent& outer, const WindowLoop::Extent& inner) {
  return outer.operand_stride == inner.operand_stride * inner.size &&
         outer.slice_stride == inner.slice_stride * inner.size;
}
template <class Dim>
std::vector<Dim> merged(const std::vector<Dim>& dims) {
  std::vector<Dim> out;
  for (const Dim& dim : dims) {
    if (dim.size == 1) continue;
    if (!out.empty() && continues(out.back(), dim)) {
      const std::int64_t size = out.back().size * dim.size;
      out.back() = dim;
      out.back().size = size;
    } else {
      out.push_back(dim);
    }
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> WindowLoop::numbers() const {
  WindowLoop loop = *this;
  if (is_complex(dtype) && op == WindowOp::add) {
    loop.dtype = dtype == DType::c64 ? DType::f32 : DType::f64;
    const auto part = static_cast<std::int64_t>(size_of(loop.dtype));
    loop.window.push_back({2, part, part});
  }
  // Where windows are dropped, numbers too high are as good as negative ones. Updates have no loops for those without sign:
  // of clipped ones, and in longer dimensions, the places are listed.
  const auto is_short = [](const Component& c) { return c.last <= INT32_MAX; };
  if (index_dtype == DType::u32 && !clips && std::ranges::all_of(components, is_short)) {
    loop.index_dtype = DType::i32;
    for (Component& c : loop.components) c.wrap = 0;
  }
  loop.counts = merged(loop.counts);
  loop.window = merged(loop.window);
  std::vector<std::int64_t> out = {static_cast<std::int64_t>(loop.op),
                                   static_cast<std::int64_t>(loop.dtype),
                                   static_cast<std::int64_t>(loop.index_dtype),
                                   clips ? 1 : 0,
                                   (disjoint ? kDisjoint : 0) | (unique ? kUnique : 0),
                                   operand_bytes,
                                   static_cast<std::int64_t>(loop.counts.size()),
                                   static_cast<std::int64_t>(loop.components.size()),
                                   static_cast<std::int64_t>(loop.window.size())};
  for (const Count& c : loop.counts)
    out.insert(out.end(), {c.size, c.index_stride, c.slice_stride, c.operand_stride});
  for (const Component& c : loop.components)
    out.insert(out.end(), {c.index_offset, c.operand_stride, c.last, c.wrap});
  for (const Extent& e : loop.window)
    out.insert(out.end(), {e.size, e.operand_stride, e.slice_stride});
  return out;
}

void run_windows(const std::int64_t* numbers, char* operand, const char* indices, char* slices,
                 const char* fill) noexcept {
  const Loop loop(numbers);
  if (loop.windows == 0 || loop.elements == 0) return;
  if (loop.op == WindowOp::gather) gather(loop, operand, indices, slices, fill);
  else scatter(loop, operand, indices, slices);
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
