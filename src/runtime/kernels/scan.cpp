// Running reductions and index reductions along one axis.
//
// The operand is seen as outer x axis x inner. With inner = 1 each line is scanned by itself; else
// rows of `inner` elements are combined side by side.
#include <algorithm>
#include <cstring>
#include <string>

#include "core/check.hpp"
#include "core/element.hpp"
#include "core/integers.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/reduce.hpp"
#include "runtime/kernels/temporary.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kChunk = 64 * 1024;  // elements worth a chunk of their own
constexpr std::int64_t kTile = 1024;        // columns side by side, at most

struct Lines {
  std::int64_t outer = 1, length, inner = 1;
  std::int64_t size = 1;  // of an element, in bytes
};
Lines lines_along(const View& in, int axis) {
  const Shape& shape = in.shape;
  Lines lines{.length = shape[static_cast<std::size_t>(axis)],
              .size = static_cast<std::int64_t>(size_of(in.dtype))};
  for (int d = 0; d < shape.ndim(); ++d) {
    if (d < axis) lines.outer *= shape[static_cast<std::size_t>(d)];
    if (d > axis) lines.inner *= shape[static_cast<std::size_t>(d)];
  }
  return lines;
}

/// As many columns as there can be, for rows that are long come faster, but no more than leave each thread some. Shorter than
/// so many bytes threads would wait for each other at the lines where their parts of a row meet.
std::int64_t tile_of(const Lines& lines) {
  constexpr std::int64_t kLeastBytes = 1024;
  const std::int64_t least = std::max<std::int64_t>(kLeastBytes / lines.size, 128);
  const std::int64_t worth = lines.outer * lines.length * lines.inner / kChunk;
  const std::int64_t threads = runtime::in_parallel_region() ? 1 : runtime::num_threads();
  const std::int64_t chunks = std::clamp<std::int64_t>(worth, 1, threads);
  const std::int64_t wide = detail::ceil_div(lines.inner, detail::ceil_div(chunks, lines.outer));
  return std::min(detail::rounded_up(wide, least), kTile);
}

/// Calls body(outer index, first column, columns) for tiles of columns, in parallel where it pays.
template <class Body>
void for_each_tile(const Lines& lines, const Body& body) {
  const std::int64_t tile = tile_of(lines);
  const std::int64_t tiles = detail::ceil_div(lines.inner, tile), all = lines.outer * tiles;
  const std::int64_t work = lines.length * std::min(lines.inner, tile);
  const std::int64_t step = std::max<std::int64_t>(kChunk / std::max<std::int64_t>(work, 1), 1);
  runtime::parallel_for((all + step - 1) / step, [&](std::int64_t chunk) {
    const std::int64_t end = std::min(all, (chunk + 1) * step);
    for (std::int64_t t = chunk * step; t < end; ++t) {
      const std::int64_t column = t % tiles * tile;
      body(t / tiles, column, std::min(tile, lines.inner - column));
    }
  });
}

/// Runs `body` on a dense operand of `dtype`: `in` itself or a copy.
template <class Body>
void with_dense(const View& in, DType dtype, const Body& body) {
  if (in.dtype == dtype && is_contiguous(in)) return body(in);
  const Temporary copy(in.shape, dtype);
  run_convert(in, copy.view());
  body(copy.view());
}

[[noreturn]] void unsupported(const std::string& name, DType dtype) {
  throw NotImplementedError(name + " has no evaluation rule for dtype " +
                            std::string(short_name(dtype)));
}

/// Rows of 16-bit floats one after the other. What they come to so far is not rounded.
void scan_small_rows(const ScanLoop& loop, DType dtype, std::int64_t rows, std::int64_t columns,
                     std::int64_t step, char* from, char* to) {
  float running[kTile];
  const View first = contiguous_view(from, dtype, {columns});
  const View wide = contiguous_view(running, DType::f32, {columns});
  run_convert(first, wide);
  run_convert(wide, contiguous_view(to, dtype, {columns}));
  for (std::int64_t i = 1; i < rows; ++i)
    loop.row(columns, from + i * step, running, to + i * step);
}

void scan_dense(ReduceOp op, const View& in, int axis, Direction direction, const View& out) {
  constexpr decltype(&telamon_generic_scan_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(scan_loop);
  constexpr const char* kNames[] = {"cumsum", "cumprod", "cummax", "cummin"};
  constexpr Op kBinary[] = {Op::add, Op::mul, Op::max, Op::min};
  TELAMON_CHECK(op <= ReduceOp::min, "scans are sums, products, maxima and minima");
  const ScanLoop scan = *kLoops[static_cast<int>(runtime::host_isa())](op, in.dtype);
  const Kernel rows = find_kernel(kBinary[static_cast<int>(op)], in.dtype);
  if ((scan.lines == nullptr && scan.row == nullptr) || !rows)
    unsupported(kNames[static_cast<int>(op)], in.dtype);
  const Lines lines = lines_along(in, axis);
  const auto size = static_cast<std::int64_t>(size_of(in.dtype));
  const bool reverse = direction == Direction::reverse;
  if (lines.inner == 1) {
    // By chunks of whole groups of lines: as many as the widest register has lanes.
    const std::int64_t all = lines.outer;
    const std::int64_t rows = (kChunk / lines.length / 16 + 1) * 16;
    return runtime::parallel_for((all + rows - 1) / rows, [&](std::int64_t chunk) {
      const std::int64_t start = chunk * rows * lines.length * size;
      scan.lines(std::min(rows, all - chunk * rows), lines.length, in.data + start,
                 out.data + start, reverse);
    });
  }
  const std::int64_t step = (reverse ? -1 : 1) * lines.inner * size;
  const std::int64_t first = reverse ? (lines.length - 1) * lines.inner : 0;
  for_each_tile(lines, [&](std::int64_t outer, std::int64_t column, std::int64_t columns) {
    const std::int64_t start = (outer * lines.length * lines.inner + first + column) * size;
    const char* from = in.data + start;
    char* to = out.data + start;
    if (scan.row != nullptr)
      return scan_small_rows(scan, in.dtype, lines.length, columns, step, in.data + start, to);
    std::memcpy(to, from, static_cast<std::size_t>(columns * size));
    for (std::int64_t i = 1; i < lines.length; ++i) {
      const char* pair[] = {to, from + i * step};
      rows.loop(columns, pair, to + step, nullptr);
      to += step;
    }
  });
}

void arg_dense(bool largest, const View& in, int axis, std::int64_t* indices) {
  constexpr decltype(&telamon_generic_arg_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(arg_loop);
  const ArgLoop loop = *kLoops[static_cast<int>(runtime::host_isa())](largest, in.dtype);
  if (loop.run == nullptr) unsupported(largest ? "argmax" : "argmin", in.dtype);
  const Lines lines = lines_along(in, axis);
  const auto size = static_cast<std::int64_t>(size_of(in.dtype));
  for_each_tile(lines, [&](std::int64_t outer, std::int64_t column, std::int64_t columns) {
    const char* from = in.data + (outer * lines.length * lines.inner + column) * size;
    std::int64_t* best = indices + outer * lines.inner + column;
    if (lines.inner == 1) {
      *best = loop.run(lines.length, from);
      return;
    }
    alignas(64) char values[kTile * 8];
    std::memcpy(values, from, static_cast<std::size_t>(columns * size));
    std::fill_n(best, columns, 0);
    for (std::int64_t i = 1; i < lines.length; ++i) {
      loop.row(columns, from + i * lines.inner * size, values, best, i);
    }
  });
}

void run_arg(bool largest, const View& in, int axis, const View& out) {
  TELAMON_CHECK(in.shape[static_cast<std::size_t>(axis)] > 0, "argmax and argmin need an element");
  TELAMON_CHECK(is_integer(out.dtype) && is_contiguous(out), "indices are dense integers");
  if (out.shape.num_elements() == 0) return;
  const DType dtype = detail::is_small_float(in.dtype) ? DType::f32 : in.dtype;
  with_dense(in, dtype, [&](const View& dense) {
    if (out.dtype == DType::i64)
      return arg_dense(largest, dense, axis, reinterpret_cast<std::int64_t*>(out.data));
    const Temporary indices(out.shape, DType::i64);
    arg_dense(largest, dense, axis, reinterpret_cast<std::int64_t*>(indices.data()));
    run_convert(indices.view(), out);
  });
}

}  // namespace

void run_cumulative(ReduceOp op, const View& in, int axis, Direction direction, const View& out) {
  TELAMON_CHECK(in.dtype == out.dtype && is_contiguous(out),
                "a scan keeps the dtype and writes densely");
  if (out.shape.num_elements() == 0) return;
  const bool lines = lines_along(in, axis).inner == 1;
  const DType dtype = lines && detail::is_small_float(in.dtype) ? DType::f32 : in.dtype;
  with_dense(in, dtype, [&](const View& dense) {
    if (dense.dtype == out.dtype) return scan_dense(op, dense, axis, direction, out);
    const Temporary wide(out.shape, dense.dtype);
    scan_dense(op, dense, axis, direction, wide.view());
    run_convert(wide.view(), out);
  });
}

bool has_cumulative(DType dtype) {
  return !is_complex(dtype) && dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::bool_;
}

void run_dense_cumulative(void* const* buffers, const std::int64_t* numbers) noexcept {
  const auto dtype = static_cast<DType>(numbers[1]);
  const Shape shape{numbers[2], numbers[3], numbers[4]};
  if (shape.num_elements() == 0) return;
  scan_dense(static_cast<ReduceOp>(numbers[0]), contiguous_view(buffers[0], dtype, shape), 1,
             numbers[5] != 0 ? Direction::reverse : Direction::forward,
             contiguous_view(buffers[1], dtype, shape));
}

void run_argmax(const View& in, int axis, const View& out) { run_arg(true, in, axis, out); }
void run_argmin(const View& in, int axis, const View& out) { run_arg(false, in, axis, out); }

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
