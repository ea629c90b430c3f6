// Copies, conversion, fill, iota.
#include "runtime/kernels/copy.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/check.hpp"
#include "runtime/kernels/cursor.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kChunkBytes = 256 << 10;
constexpr std::int64_t kTile = 32;
constexpr std::int64_t kShortRow = 8;  // elements: to copy them costs less than to begin with a row
constexpr std::int64_t kRowsAtOnce = 128;

struct Dim {
  std::int64_t size, in_stride, out_stride;
};
struct Plan {
  Dim dims[kMaxDimensions];  // the first `rank` of them
  int rank = 0;
};

/// The dimensions of a copy in the order of the result's strides, largest first, merged where both
/// sides allow it.
Plan plan_copy(const View& in, const View& out) {
  Plan plan;
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    if (out.shape[d] == 1) continue;
    plan.dims[plan.rank++] = {out.shape[d], in.strides[d], out.strides[d]};
  }
  for (int d = 1; d < plan.rank; ++d) {  // by insertion: few, stable, no allocation
    for (int e = d; e > 0; --e) {
      if (std::abs(plan.dims[e - 1].out_stride) >= std::abs(plan.dims[e].out_stride)) break;
      std::swap(plan.dims[e - 1], plan.dims[e]);
    }
  }
  int merged = 0;
  for (int d = 0; d < plan.rank; ++d) {
    const Dim dim = plan.dims[d];
    Dim* last = merged > 0 ? &plan.dims[merged - 1] : nullptr;
    if (last != nullptr && last->in_stride == dim.in_stride * dim.size &&
        last->out_stride == dim.out_stride * dim.size) {
      *last = {last->size * dim.size, dim.in_stride, dim.out_stride};
    } else {
      plan.dims[merged++] = dim;
    }
  }
  plan.rank = merged;
  return plan;
}

/// Copies dims[0..rank).
void copy_dims(const Dim* dims, int rank, int size, const char* from, char* to);

/// A transposition of two dimensions: `rows` is inner in the operand, `columns` in the result. By
/// tiles, so that both sides use whole cache lines.
void copy_tiled(const Dim& rows, const Dim& columns, int size, const char* from, char* to) {
  constexpr decltype(&telamon_generic_transpose_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(transpose_loop);
  const TransposeLoop in_registers =
      rows.in_stride == size ? kLoops[static_cast<int>(runtime::host_isa())](size) : nullptr;
  for (std::int64_t i = 0; i < rows.size; i += kTile) {
    const std::int64_t height = std::min(kTile, rows.size - i);
    for (std::int64_t j = 0; j < columns.size; j += kTile) {
      const std::int64_t width = std::min(kTile, columns.size - j);
      if (in_registers != nullptr) {
        in_registers(height, width, from + i * size + j * columns.in_stride, columns.in_stride,
                     to + i * rows.out_stride + j * size, rows.out_stride);
        continue;
      }
      for (std::int64_t k = i; k < i + height; ++k) {
        copy_run(width, size, from + k * rows.in_stride + j * columns.in_stride, columns.in_stride,
                 to + k * rows.out_stride + j * columns.out_stride, columns.out_stride);
      }
    }
  }
}

/// Rows of few elements: column by column, of as many rows as stay in the nearest cache meanwhile.
void copy_short_rows(const Dim& rows, const Dim& columns, int size, const char* from, char* to) {
  for (std::int64_t i = 0; i < rows.size; i += kRowsAtOnce) {
    const std::int64_t height = std::min(kRowsAtOnce, rows.size - i);
    for (std::int64_t j = 0; j < columns.size; ++j) {
      copy_run(height, size, from + i * rows.in_stride + j * columns.in_stride, rows.in_stride,
               to + i * rows.out_stride + j * columns.out_stride, rows.out_stride);
    }
  }
}

/// The dimension that is innermost in the operand, other than the last; -1 if there is none worth
/// tiling with.
int transposed_with_last(const Dim* dims, int rank, int size) {
  const Dim& last = dims[rank - 1];
  if (last.out_stride != size || std::abs(last.in_stride) < 64 || last.size < kTile) return -1;
  int best = -1;
  for (int d = 0; d < rank - 1; ++d) {
    if (dims[d].in_stride != 0 && std::abs(dims[d].in_stride) < std::abs(last.in_stride) &&
        (best < 0 || std::abs(dims[d].in_stride) < std::abs(dims[best].in_stride))) {
      best = d;
    }
  }
  return best >= 0 && dims[best].size >= 4 ? best : -1;
}

void copy_dims(const Dim* dims, int rank, int size, const char* from, char* to) {
  if (rank == 0) return copy_run(1, size, from, size, to, size);
  if (rank == 1)
    return copy_run(dims[0].size, size, from, dims[0].in_stride, to, dims[0].out_stride);
  if (rank == 2 && transposed_with_last(dims, 2, size) == 0) {
    return copy_tiled(dims[0], dims[1], size, from, to);
  }
  if (rank == 2 && dims[1].size <= kShortRow)
    return copy_short_rows(dims[0], dims[1], size, from, to);
  for (std::int64_t i = 0; i < dims[0].size; ++i) {
    copy_dims(dims + 1, rank - 1, size, from + i * dims[0].in_stride, to + i * dims[0].out_stride);
  }
}

}  // namespace

void run_copy(const View& in, const View& out) {
  const View wide = broadcast_view(in, out.shape);
  const auto size = static_cast<int>(size_of(out.dtype));
  const std::int64_t n = out.shape.num_elements();
  if (n == 0 || size == 0) return;
  TELAMON_CHECK(size_of(in.dtype) == size_of(out.dtype), "a copy keeps the size of elements");
  Plan plan = plan_copy(wide, out);
  // The pair that is tiled goes innermost.
  if (plan.rank > 2) {
    if (const int d = transposed_with_last(plan.dims, plan.rank, size); d >= 0) {
      std::rotate(plan.dims + d, plan.dims + d + 1, plan.dims + plan.rank - 1);
    }
  }
  if (plan.rank == 0 || n * size <= 2 * kChunkBytes) {
    return copy_dims(plan.dims, plan.rank, size, wide.data, out.data);
  }
  // Chunks of the outermost dimension, in whole tiles, where these have its rows.
  const Dim outer = plan.dims[0];
  const std::int64_t row_bytes = std::max<std::int64_t>(n / outer.size * size, 1);
  const std::int64_t unit = plan.rank == 2 ? kTile : 1;
  const std::int64_t rows = (kChunkBytes / row_bytes / unit + 1) * unit;
  runtime::parallel_for((outer.size + rows - 1) / rows, [&](std::int64_t i) {
    Plan part = plan;
    part.dims[0].size = std::min(rows, outer.size - i * rows);
    copy_dims(part.dims, part.rank, size, wide.data + i * rows * outer.in_stride,
              out.data + i * rows * outer.out_stride);
  });
}

ContiguousLoop find_convert(DType from, DType to) {
  constexpr decltype(&telamon_generic_convert_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(convert_loop);
  return kLoops[static_cast<int>(runtime::host_isa())](from, to);
}

void run_convert(const View& in, const View& out) {
  if (in.dtype == out.dtype) return run_copy(in, out);
  Kernel kernel;
  kernel.loop = find_convert(in.dtype, out.dtype);
  if (!kernel) {
    throw NotImplementedError("convert_element_type from " + std::string(short_name(in.dtype)) +
                              " to " + std::string(short_name(out.dtype)));
  }
  kernel.arity = 1;
  kernel.in_dtypes[0] = in.dtype;
  kernel.out_dtype = out.dtype;
  const View wide = broadcast_view(in, out.shape);
  run_kernel(kernel, {&wide, 1}, out, nullptr, 4);
}

void run_fill(const void* value, const View& out) {
  run_copy(View{const_cast<char*>(static_cast<const char*>(value)), out.dtype, Shape{}, Shape{}},
           out);
}

void run_iota(const View& out, int dimension) {
  // The numbers once, in i64, converted along the dimension; then repeated along the others.
  const auto axis = static_cast<std::size_t>(dimension);
  const std::int64_t length = out.shape[axis];
  if (out.shape.num_elements() == 0) return;
  View line{out.data, out.dtype, Shape{length}, Shape{out.strides[axis]}};
  constexpr std::int64_t kBlock = 1024;
  std::int64_t numbers[kBlock];
  for (std::int64_t start = 0; start < length; start += kBlock) {
    const std::int64_t count = std::min(kBlock, length - start);
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = start + i;
    run_convert(contiguous_view(numbers, DType::i64, Shape{count}),
                View{line.data + start * out.strides[axis], out.dtype, Shape{count}, line.strides});
  }
  // The first line along every other dimension is there already: copy it outward.
  View done = out;
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    if (d != axis) done.shape[d] = 1;
  }
  for (std::size_t d = out.shape.size(); d-- > 0;) {
    if (d == axis || out.shape[d] == 1) continue;
    View rest = done;
    rest.shape[d] = out.shape[d] - 1;
    rest.data += out.strides[d];
    run_copy(done, rest);
    done.shape[d] = out.shape[d];
  }
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
