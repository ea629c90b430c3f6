// Reductions over axes, built from runs of contiguous elements and rows side by side.
//
// After a copy where the operand does not lie in row-major order, its dimensions merge into
// alternating kept and reduced ones. If the innermost is reduced, runs are folded to single elements;
// if it is kept, rows are combined, a tile of columns at a time. Both proceed by halves, so the error
// of a float sum grows with the logarithm of the number of terms.
#include "runtime/kernels/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "core/check.hpp"
#include "core/element.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/temporary.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kChunk = 256 * 1024;  // numbers worth a chunk of their own
constexpr std::int64_t kTileBytes = 4096;    // a tile of columns
constexpr std::int64_t kLeafRows = 16;       // rows that are combined one after the other
constexpr std::int64_t kMaxParts = 64;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr const char* kNames[kNumReduceOps] = {"reduce_sum", "reduce_prod", "reduce_max",
                                               "reduce_min", "reduce_and",  "reduce_or",
                                               "reduce_xor"};
constexpr Op kBinary[kNumReduceOps] = {Op::add,  Op::mul, Op::max, Op::min,
                                       Op::and_, Op::or_, Op::xor_};

/// The loops of one reduction.
struct Fold {
  ReduceLoop run;       // contiguous elements to one
  ContiguousLoop rows;  // two rows to one
  std::int64_t size;    // of an element
  std::int64_t parts;   // numbers in an element

  void combine(std::int64_t n, char* into, const char* other) const {
    const char* in[] = {into, other};
    rows(n, in, into, nullptr);
  }
};
Fold find_fold(ReduceOp op, DType dtype) {
  constexpr decltype(&telamon_generic_reduce_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(reduce_loop);
  const Fold fold{kLoops[static_cast<int>(runtime::host_isa())](op, dtype),
                  find_kernel(kBinary[static_cast<int>(op)], dtype).loop,
                  static_cast<std::int64_t>(size_of(dtype)), is_complex(dtype) ? 2 : 1};
  if (fold.run == nullptr || fold.rows == nullptr) {
    throw NotImplementedError(std::string(kNames[static_cast<int>(op)]) +
                              " has no evaluation rule for dtype " +
                              std::string(short_name(dtype)));
  }
  return fold;
}

/// A row-major operand: dimensions outermost first, neighbours of one kind merged. Strides in bytes.
struct Dim {
  std::int64_t size, stride;
  bool reduced;
};
struct Dims {
  std::array<Dim, kMaxDimensions> dim;
  int rank = 0;
  const Dim* begin() const { return dim.data(); }
  const Dim* end() const { return dim.data() + rank; }
};
Dims merged_dims(const View& in, const Shape& axes) {
  Dims dims;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (in.shape[d] == 1) continue;
    const Dim next{in.shape[d], in.strides[d], axes.contains(static_cast<std::int64_t>(d))};
    Dim* last = dims.rank > 0 ? &dims.dim[static_cast<std::size_t>(dims.rank - 1)] : nullptr;
    if (last != nullptr && last->reduced == next.reduced) {
      *last = {last->size * next.size, next.stride, next.reduced};
    } else {
      dims.dim[static_cast<std::size_t>(dims.rank++)] = next;
    }
  }
  return dims;
}

std::int64_t elements(const Dim* begin, const Dim* end, bool reduced) {
  std::int64_t n = 1;
  for (const Dim* d = begin; d != end; ++d) n *= d->reduced == reduced ? d->size : 1;
  return n;
}

// ---- One thread

/// Rows of `n` adjacent elements, `count` of them `stride` apart, combined into `to`.
void fold_rows(const Fold& f, const char* from, std::int64_t n, std::int64_t count,
               std::int64_t stride, char* to) {
  if (count <= kLeafRows) {
    std::memcpy(to, from, static_cast<std::size_t>(n * f.size));
    for (std::int64_t i = 1; i < count; ++i) f.combine(n, to, from + i * stride);
    return;
  }
  const std::int64_t half = (count / 2 + kLeafRows - 1) / kLeafRows * kLeafRows;
  alignas(64) char other[kTileBytes];
  fold_rows(f, from, n, half, stride, to);
  fold_rows(f, from + half * stride, n, count - half, stride, other);
  f.combine(n, to, other);
}

/// The same for rows that follow each other and are short: several at a time as one long row, which
/// is then folded by halves.
void fold_short_rows(const Fold& f, const char* from, std::int64_t n, std::int64_t count,
                     char* to) {
  const std::int64_t together = kTileBytes / (n * f.size), groups = count / together;
  if (groups < 2) return fold_rows(f, from, n, count, n * f.size, to);
  alignas(64) char wide[kTileBytes];
  fold_rows(f, from, n * together, groups, n * f.size * together, wide);
  std::int64_t left = together;
  while (left > 1) {
    const std::int64_t half = left / 2;
    f.combine(n * half, wide, wide + (left - half) * n * f.size);
    left -= half;
  }
  std::memcpy(to, wide, static_cast<std::size_t>(n * f.size));
  const std::int64_t rest = count - groups * together;
  if (rest == 0) return;
  alignas(64) char other[kTileBytes];
  fold_rows(f, from + groups * together * n * f.size, n, rest, n * f.size, other);
  f.combine(n, to, other);
}

/// Folds the reduced ones of the dimensions [begin, end) into `to`, which holds the kept ones densely.
/// All strides are row-major, so a merged dimension's stride is the extent of what follows.
void fold_dims(const Fold& f, const Dim* begin, const Dim* end, const char* from, char* to) {
  if (begin == end) {
    std::memcpy(to, from, static_cast<std::size_t>(f.size));
    return;
  }
  if (!begin->reduced) {
    if (begin + 1 == end) {
      std::memcpy(to, from, static_cast<std::size_t>(begin->size * f.size));
      return;
    }
    const std::int64_t step = elements(begin + 1, end, false) * f.size;
    for (std::int64_t i = 0; i < begin->size; ++i) {
      fold_dims(f, begin + 1, end, from + i * begin->stride, to + i * step);
    }
    return;
  }
  if (begin + 1 == end) return f.run(begin->size, from, to);
  const std::int64_t kept = elements(begin + 1, end, false);
  if (begin + 2 == end) {  // rows of `kept` adjacent elements
    const std::int64_t tile = kTileBytes / f.size;
    if (kept * 4 <= tile) return fold_short_rows(f, from, kept, begin->size, to);
    for (std::int64_t j = 0; j < kept; j += tile) {
      fold_rows(f, from + j * f.size, std::min(tile, kept - j), begin->size, begin->stride,
                to + j * f.size);
    }
    return;
  }
  // Reduced, kept, reduced, ...: fold what follows for each index, and combine by halves.
  const auto recurse = [&](const auto& self, std::int64_t first, std::int64_t count,
                           char* result) -> void {
    if (count == 1) return fold_dims(f, begin + 1, end, from + first * begin->stride, result);
    const std::int64_t half = count / 2;
    const Temporary other(Shape{kept * f.size}, DType::u8);
    self(self, first, half, result);
    self(self, first + half, count - half, other.data());
    f.combine(kept, result, other.data());
  };
  recurse(recurse, 0, begin->size, to);
}

// ---- Several threads

/// Cuts the outermost dimension, kept or reduced, by the shape alone.
void fold_parallel(const Fold& f, const Dims& dims, const char* from, char* to) {
  const std::int64_t all = f.parts * elements(dims.begin(), dims.end(), true) *
                           elements(dims.begin(), dims.end(), false);
  const Dim* outer = dims.begin();
  if (all < 2 * kChunk || dims.rank == 0) return fold_dims(f, outer, dims.end(), from, to);
  const std::int64_t kept = elements(outer + 1, dims.end(), false);  // results for one index
  if (!outer->reduced) {
    if (outer->size == 1) return fold_dims(f, outer, dims.end(), from, to);
    const std::int64_t step = std::max<std::int64_t>(kChunk / (all / outer->size), 1);
    return runtime::parallel_for((outer->size + step - 1) / step, [&](std::int64_t chunk) {
      Dims part = dims;
      part.dim[0].size = std::min(step, outer->size - chunk * step);
      fold_dims(f, part.begin(), part.end(), from + chunk * step * outer->stride,
                to + chunk * step * kept * f.size);
    });
  }
  const std::int64_t parts =
      std::clamp<std::int64_t>(std::min(all / kChunk, outer->size), 1, kMaxParts);
  std::int64_t step = (outer->size + parts - 1) / parts;
  if (dims.rank == 1) step = (step + 4095) / 4096 * 4096;
  const std::int64_t count = (outer->size + step - 1) / step;
  const Temporary partial(Shape{count * kept * f.size}, DType::u8);
  const auto place = [&](std::int64_t i) { return partial.data() + i * kept * f.size; };
  runtime::parallel_for(count, [&](std::int64_t chunk) {
    Dims part = dims;
    part.dim[0].size = std::min(step, outer->size - chunk * step);
    fold_dims(f, part.begin(), part.end(), from + chunk * step * outer->stride, place(chunk));
  });
  for (std::int64_t width = 1; width < count; width *= 2) {
    for (std::int64_t i = 0; i + width < count; i += 2 * width)
      f.combine(kept, place(i), place(i + width));
  }
  std::memcpy(to, partial.data(), static_cast<std::size_t>(kept * f.size));
}

/// The value of a reduction over nothing.
void write_identity(ReduceOp op, const View& out) {
  double value = 0;
  if (op == ReduceOp::prod) value = 1;
  if (op == ReduceOp::max) value = -kInfinity;  // saturates to the lowest integer
  if (op == ReduceOp::min) value = kInfinity;
  if (op == ReduceOp::and_) value = is_signed_integer(out.dtype) ? -1 : kInfinity;  // all bits
  if (out.dtype == DType::bool_) value = value > 0 ? 1 : 0;
  run_convert(contiguous_view(&value, DType::f64, Shape{}), out);
}

template <class T>
void add_zero(std::int64_t n, char* to) {
  T* const values = reinterpret_cast<T*>(to);
  for (std::int64_t i = 0; i < n; ++i) values[i] += T{0};
}
/// Sums begin with 0, so those of zeros are 0, whatever the signs. The loops begin with an element.
void begin_with_zero(ReduceOp op, const View& out) {
  if (op != ReduceOp::sum) return;
  const std::int64_t n = out.shape.num_elements();
  switch (out.dtype) {
    case DType::f32: return add_zero<float>(n, out.data);
    case DType::f64: return add_zero<double>(n, out.data);
    case DType::c64: return add_zero<float>(2 * n, out.data);  // to both parts
    case DType::c128: return add_zero<double>(2 * n, out.data);
    default: return;  // integers have one 0
  }
}

}  // namespace

void run_reduce(ReduceOp op, const View& in, const Shape& axes, const View& out) {
  TELAMON_CHECK(in.dtype == out.dtype && is_contiguous(out),
                "a reduction keeps the dtype and writes densely");
  if (out.shape.num_elements() == 0) return;
  if (in.shape.num_elements() == 0) return write_identity(op, out);
  if (detail::is_small_float(in.dtype)) {
    const Temporary wide(in.shape, DType::f32), result(out.shape, DType::f32);
    run_convert(in, wide.view());
    run_reduce(op, wide.view(), axes, result.view());
    return run_convert(result.view(), out);
  }
  const Fold fold = find_fold(op, in.dtype);
  if (!is_contiguous(in)) {
    const Temporary copy(in.shape, in.dtype);
    run_copy(in, copy.view());
    fold_parallel(fold, merged_dims(copy.view(), axes), copy.data(), out.data);
  } else {
    fold_parallel(fold, merged_dims(in, axes), in.data, out.data);
  }
  // A sum of one number is that number.
  if (in.shape.num_elements() > out.shape.num_elements()) begin_with_zero(op, out);
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
