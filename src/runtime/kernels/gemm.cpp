// Matrix products: which loop, over which tiles.
#include "runtime/kernels/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/check.hpp"
#include "core/element.hpp"
#include "core/integers.hpp"
#include "runtime/kernels/bf16_words.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/temporary.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kTile = 512;      // rows and columns of a tile, where blocks say no more
constexpr std::int64_t kLeastTile = 64;  // at least, where there are more threads than tiles
constexpr std::int64_t kRows = 6;  // of these the loops take a multiple at once, or a little more
constexpr std::int64_t kChunkWork = 400'000;  // multiplications worth a chunk of their own
constexpr std::int64_t kOneBlock = 256;       // rows of a that are one block, at most

/// The matrices of a batch; strides count elements, of which one that is multiplied by a vector of f32 may have 16 bits.
struct Matrices {
  const char* data;
  std::int64_t batch, row, column;
  DType dtype;

  const char* at(std::int64_t l, std::int64_t i, std::int64_t j) const {
    return data + (l * batch + i * row + j * column) * static_cast<std::int64_t>(size_of(dtype));
  }
};
Matrices matrices(const View& v) {
  const auto size = static_cast<std::int64_t>(size_of(v.dtype));
  const auto stride = [&](std::size_t d) { return v.shape[d] == 1 ? 0 : v.strides[d] / size; };
  return {v.data, stride(0), stride(1), stride(2), v.dtype};
}

/// This machine's.
const GemmBlocks& host_blocks(DType dtype, bool deep) {
  const auto found = [](std::int64_t size, bool is_deep) {
    return gemm_blocks(runtime::host_isa(), size, runtime::data_cache_bytes(1),
                       runtime::data_cache_bytes(2), is_deep);
  };
  static const GemmBlocks blocks[2][2] = {{found(4, false), found(4, true)},
                                          {found(8, false), found(8, true)}};
  return blocks[size_of(dtype) == 8 ? 1 : 0][deep ? 1 : 0];
}

struct Product {
  DType dtype;
  std::int64_t size, batch, m, n, k;
  Matrices a, b;
  char* c;
  const GemmBlocks* blocks;  ///< null: this machine's
};
ProductSize size_of_product(const Product& p) { return {p.batch, p.m, p.n, p.k}; }

void check_shapes(const View& lhs, const View& rhs, const View& out) {
  TELAMON_CHECK(lhs.shape.size() == 3 && rhs.shape.size() == 3 && out.shape.size() == 3,
                "a batch of matrices has rank 3");
  TELAMON_CHECK(lhs.shape[0] == out.shape[0] && rhs.shape[0] == out.shape[0] &&
                    lhs.shape[1] == out.shape[1] && rhs.shape[2] == out.shape[2] &&
                    lhs.shape[2] == rhs.shape[1],
                "matrix product of " + lhs.shape.to_string() + " and " + rhs.shape.to_string() +
                    " into " + out.shape.to_string());
  const bool fits =
      lhs.dtype == out.dtype || (detail::is_small_float(lhs.dtype) && out.dtype == DType::f32);
  TELAMON_CHECK(
      fits && lhs.dtype == rhs.dtype && is_contiguous(out),
      "a matrix product has one dtype, or a result of f32 of smaller floats, which is dense");
}

/// The rectangle of rows [i, i + m) and columns [j, j + n) of product `batch`.
struct Rectangle {
  std::int64_t batch, i, j, m, n;
};

GemmLoop find_loop(DType dtype, bool dots) {
  constexpr decltype(&telamon_generic_gemm_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(gemm_loop);
  return kLoops[static_cast<int>(runtime::host_isa())](dtype, dots);
}

void call_loop(GemmLoop loop, const Product& p, const Rectangle& r, void* workspace = nullptr,
               const GemmBlocks& blocks = {}) {
  loop({r.m, r.n, p.k, p.a.at(r.batch, r.i, 0), p.a.row, p.a.column, p.b.at(r.batch, 0, r.j),
        p.b.row, p.b.column, p.c + ((r.batch * p.m + r.i) * p.n + r.j) * p.size, p.n, workspace,
        blocks});
}

/// How the results of a product are cut: tiles of so many rows and columns. Tiles do not change the
/// sums, so their number may depend on that of the threads.
struct Tiling {
  std::int64_t height = kTile, width = kTile;
};

Tiling tiling(const Product& p, const GemmBlocks& blocks) {
  const std::int64_t threads = runtime::in_parallel_region() ? 1 : runtime::num_threads();
  // Of a few rows: b is all that is read, by whole rows if it can be.
  if (p.m <= kFewRows) return {kTile, std::max((p.n / threads / 64 + 1) * 64, kTile)};
  // All of about one size, or else some threads wait for others.
  const auto even = [](std::int64_t size, std::int64_t most) {
    const std::int64_t one = detail::ceil_div(size, detail::ceil_div(size, most));
    return std::min({detail::ceil_div(one, kLeastTile) * kLeastTile, most, size});
  };
  Tiling t{even(p.m, blocks.height), even(p.n, std::max(kTile, blocks.columns))};
  const auto threads_wait = [&] {
    const std::int64_t tiles =
        p.batch * detail::ceil_div(p.m, t.height) * detail::ceil_div(p.n, t.width);
    return detail::ceil_div(tiles, threads) * threads - tiles > tiles / 8;
  };
  const auto halved = [](std::int64_t size, std::int64_t unit) {
    return detail::ceil_div(size, 2 * unit) * unit;
  };
  while (threads_wait() && t.height * t.width * p.k >= 2 * kChunkWork &&
         std::max(t.height, t.width) > kLeastTile) {
    if (t.height >= t.width) t.height = halved(t.height, kRows);
    else t.width = halved(t.width, kLeastTile);
  }
  return t;
}

/// Calls run(rectangle) for all tiles of the products, in chunks of enough work.
template <class Run>
void for_each_tile(const Product& p, const GemmBlocks& blocks, const Run& run) {
  const auto [height, width] = tiling(p, blocks);
  const std::int64_t rows = detail::ceil_div(p.m, height), columns = detail::ceil_div(p.n, width);
  const std::int64_t tiles = p.batch * rows * columns;
  const std::int64_t work =
      std::min(p.m, height) * std::min(p.n, width) * std::max<std::int64_t>(p.k, 1);
  const std::int64_t per_chunk = std::max<std::int64_t>(kChunkWork / work, 1);
  runtime::parallel_for(detail::ceil_div(tiles, per_chunk), [&](std::int64_t chunk) {
    const std::int64_t end = std::min(tiles, (chunk + 1) * per_chunk);
    for (std::int64_t t = chunk * per_chunk; t < end; ++t) {
      const std::int64_t i = t / columns % rows * height, j = t % columns * width;
      run(Rectangle{t / columns / rows, i, j, std::min(height, p.m - i), std::min(width, p.n - j)});
    }
  });
}

/// Inner products of rows of a and columns of b, of which the more are cut into chunks of about one size: where one of
/// them is few they wait for memory more than for arithmetic.
void run_dots(const Product& p) {
  constexpr std::int64_t kWork = 100'000;  // multiplications worth a chunk
  const GemmLoop loop = find_loop(p.a.dtype, true);
  const bool rows = p.m >= p.n;
  const std::int64_t length = rows ? p.m : p.n;
  const std::int64_t unit = p.n == 1 ? kDotRows : rows ? kThinRows : kThinColumns;
  const std::int64_t wanted = std::clamp<std::int64_t>(p.m * p.n * p.k / kWork, 1, length);
  const std::int64_t each = detail::ceil_div(detail::ceil_div(length, wanted), unit) * unit;
  const std::int64_t chunks = detail::ceil_div(length, each);
  runtime::parallel_for(p.batch * chunks, [&](std::int64_t chunk) {
    const std::int64_t batch = chunk / chunks, first = chunk % chunks * each;
    const std::int64_t count = std::min(each, length - first);
    call_loop(
        loop, p,
        rows ? Rectangle{batch, first, 0, count, p.n} : Rectangle{batch, 0, first, p.m, count});
  });
}

/// By register tiles.
void run_tiles(const Product& p, GemmLoop loop) {
  const GemmBlocks& blocks =
      p.blocks != nullptr ? *p.blocks : host_blocks(p.dtype, p.m > kOneBlock && p.a.column == 1);
  const Shape workspace{gemm_workspace(blocks, std::min(p.m, blocks.height), p.n, p.k, p.size)};
  for_each_tile(p, blocks, [&](const Rectangle& r) {
    const Temporary memory(workspace, DType::u8);
    call_loop(loop, p, r, memory.data(), blocks);
  });
}
void run_floats(const Product& p) {
  constexpr decltype(&telamon_generic_float_gemm_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(float_gemm_loop);
  run_tiles(p, kLoops[static_cast<int>(runtime::host_isa())](p.b.dtype));
}

/// What is worth a part of its own: as many results as `height` x `width`, and of each so many terms, that take so
/// many multiplications.
struct Grain {
  std::int64_t height, width, terms, work;
};
constexpr Grain kDots{kDotRows, 1, 1 << 14, 250'000};
constexpr std::int64_t kFewDots = 48;
constexpr Grain kThin{kFewDots, kFewDots, 2048, 250'000};
constexpr Grain kTiles{kLeastTile, kLeastTile, 512, 500'000};
// Memory is faster where each thread reads whole rows of b than where it reads a piece of each.
constexpr Grain kRowsOfB{kFewRows, 8192, 64, 250'000};
constexpr std::int64_t kMostParts = 32;

/// Into how many parts the terms of each sum are cut where there are few results, so that several threads have
/// something to do. A matter of shapes alone, for the sums differ in their last bits.
std::int64_t parts_of(const Grain& grain, const ProductSize& p) {
  const std::int64_t tiles =
      p.batch * detail::ceil_div(p.m, grain.height) * detail::ceil_div(p.n, grain.width);
  // Of shapes that are only compiled for, the product may be any number.
  const double work = static_cast<double>(p.m) * static_cast<double>(p.n) *
                      static_cast<double>(p.k) / static_cast<double>(grain.work);
  const std::int64_t most =
      std::min(p.k / grain.terms, static_cast<std::int64_t>(std::min(work, 1e9)));
  // Of even numbers two threads have the same.
  return std::max<std::int64_t>(std::min(detail::ceil_div(kMostParts, tiles), most) / 2 * 2, 1);
}

/// Calls run(part) for so many parts of a product, of whole units of terms, and adds what they give in their order.
template <class Run>
void run_in_parts(std::int64_t parts, std::int64_t unit, const Product& p, const Run& run) {
  if (parts == 1) return run(p);
  const std::int64_t results = p.m * p.n, units = detail::ceil_div(p.k, unit);
  const Temporary sums(Shape{p.batch, parts, results}, p.dtype);
  runtime::parallel_for(p.batch * parts, [&](std::int64_t chunk) {
    const std::int64_t batch = chunk / parts, number = chunk % parts;
    const std::int64_t first = number * units / parts * unit;
    Product part = p;
    part.batch = 1;
    part.k = std::min((number + 1) * units / parts * unit, p.k) - first;
    part.a.data = p.a.at(batch, 0, first);
    part.b.data = p.b.at(batch, first, 0);
    part.c = sums.data() + chunk * results * p.size;
    run(part);
  });
  // A row of ones, which is a single one, times the rows of sums.
  const double one = 1;
  const float single = 1;
  const auto* const ones =
      p.size == 8 ? reinterpret_cast<const char*>(&one) : reinterpret_cast<const char*>(&single);
  Product total = p;
  total.m = 1;
  total.n = results;
  total.k = parts;
  total.a = {ones, 0, 0, 0, p.dtype};
  total.b = {sums.data(), parts * results, results, 1, p.dtype};
  run_floats(total);
}
template <class Run>
void run_in_parts(const Grain& grain, const Product& p, const Run& run) {
  run_in_parts(parts_of(grain, size_of_product(p)), 1, p, run);
}

/// The operands exchanged: the product's transpose.
Product turned(Product p) {
  std::swap(p.a, p.b);
  std::swap(p.a.row, p.a.column);
  std::swap(p.b.row, p.b.column);
  std::swap(p.m, p.n);
  return p;
}

/// Whether a product has few columns. Of a matrix that lies by columns its transpose reads the rows that lie in memory,
/// where the product would pack it first (on Zen 3 0.13 to 0.9 of the time). Packing few terms costs less than turning the
/// result of f64 with AVX-512 (on Zen 5 0.5 to 0.95 of the time).
bool is_narrow(std::int64_t size, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t few = size == 8 ? 64 : 24;
  if (size == 8 && runtime::host_isa() == runtime::Isa::avx512 &&
      k <= std::min<std::int64_t>(2 * n, 128))
    return false;
  return n > 1 && n <= few && m >= 2 * n && m > kFewRows;
}

// What a row of a takes as inner products and in tiles whose lanes are columns, in multiplications of vectors. Each inner
// product ends in a sum over lanes; tiles of three columns, or of the two or one that are left, read four rows of a again
// and again, from the second cache if these do not fit into the first. Within a tenth or two of what was measured on Zen 4.
struct Costs {
  double dots, tiles;
};
Costs costs_of_row(DType dtype, std::int64_t n, std::int64_t k) {
  constexpr double kOfLeft[] = {0, 2, 2.4};
  constexpr double kFirstCache = 32 << 10;
  const runtime::Isa isa = runtime::host_isa();
  const auto size = static_cast<double>(size_of(dtype)), terms = static_cast<double>(k);
  const double lanes = static_cast<double>(runtime::vector_bytes(isa)) / size;
  const std::int64_t whole = n / kThinColumns, left = n % kThinColumns;
  const double columns = static_cast<double>(kThinColumns * whole) + kOfLeft[left];
  const bool come_again = static_cast<double>(kThinRows) * terms * size > kFirstCache;
  const double again = come_again ? static_cast<double>(whole + (left > 0 ? 1 : 0) - 1) : 0;
  const double each = isa == runtime::Isa::avx512 ? 1.1 * terms / lanes + 2
                      : isa == runtime::Isa::avx2 ? terms / lanes + 3
                                                  : 1.3 * terms / lanes + 3;
  return {columns * each + 2 * again * terms / lanes,
          std::ceil(static_cast<double>(n) / lanes) * terms};
}

/// Multiplications that it takes tiles to turn a b that lies by columns, in passing.
double turning(const ProductSize& p) {
  const double each = runtime::host_isa() == runtime::Isa::avx512 ? .4 : 1;
  return each * static_cast<double>(p.n) * static_cast<double>(p.k);
}
/// Whether tiles leave so many lanes idle that inner products are cheaper, however many rows there are.
bool leaves_lanes_idle(const Costs& row, std::int64_t n) {
  constexpr std::int64_t kMost = 64;
  return n > 1 && n <= kMost && 1.1 * row.dots < row.tiles;
}
/// Whether rows of a times columns of b, which lies by columns, are cheaper than tiles: where these are not whole vectors of
/// them, or there are too few rows for b to be turned. From kLeastOfRows rows on it does not depend on how many.
bool prefers_dots(DType dtype, const ProductSize& p) {
  const Costs row = costs_of_row(dtype, p.n, p.k);
  return leaves_lanes_idle(row, p.n) ||
         (p.m < kLeastOfRows && static_cast<double>(p.m) * (row.dots - row.tiles) < turning(p));
}
/// The same of a b that lies by rows and is turned beforehand.
bool prefers_turned_dots(DType dtype, const ProductSize& p) {
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  const Costs row = costs_of_row(dtype, p.n, p.k);
  // An element takes half a nanosecond.
  const double beforehand = (runtime::host_isa() == runtime::Isa::avx512 ? 2 : 4) * n * k;
  return p.m >= kLeastOfRows && leaves_lanes_idle(row, p.n) &&
         m * n * k > static_cast<double>(kMostInLoops) &&
         static_cast<double>(kLeastOfRows) * (row.tiles - 1.1 * row.dots) > beforehand;
}
}  // namespace

std::int64_t least_rows_of_block(DType dtype, const ProductSize& p, bool b_by_columns) {
  if (!b_by_columns) {
    if (!prefers_turned_dots(dtype, p)) return 1;
    return std::max(kLeastOfRows, kMostInLoops / (p.n * p.k) + 1);
  }
  if (prefers_dots(dtype, p)) return 1;
  const Costs row = costs_of_row(dtype, p.n, p.k);
  const double too_few = row.dots > row.tiles ? turning(p) / (row.dots - row.tiles) : 1e9;
  return std::min(kLeastOfRows, static_cast<std::int64_t>(std::min(too_few, 1e9)) + 1);
}

namespace {

View view_of(const Matrices& x, const Product& p, const Shape& shape) {
  return {const_cast<char*>(x.data),
          p.dtype,
          shape,
          {x.batch * p.size, x.row * p.size, x.column * p.size}};
}
/// Copies what lies by columns, or by rows, of each product of a batch.
void run_turned(const View& from, const View& to) { run_copy(transposed(from), to); }

/// How many products of a batch have their transposes at a time: all where they are summed in parts, which depend on how many
/// there are, else one for each thread, or one that threads share.
std::int64_t narrow_at_once(const ProductSize& p, std::int64_t size, int threads) {
  constexpr std::int64_t kShared = 1 << 20;  // bytes of a transpose
  if (parts_of(kTiles, {p.batch, p.n, p.m, p.k}) > 1) return p.batch;
  return p.m * p.n * size > kShared ? 1 : std::min<std::int64_t>(threads, p.batch);
}

void run_narrow(const Product& p) {
  const auto run = [&](std::int64_t first, std::int64_t count) {
    const Temporary transpose(Shape{count, p.n, p.m}, p.dtype);
    Product some = p;
    some.batch = count;
    some.a.data = p.a.at(first, 0, 0);
    some.b.data = p.b.at(first, 0, 0);
    some.c += first * p.m * p.n * p.size;
    const View out = contiguous_view(some.c, p.dtype, {count, p.m, p.n});
    some = turned(some);
    some.c = transpose.data();
    if (count == p.batch)
      run_in_parts(kTiles, some, run_floats);  // the same parts as of a matrix by rows in tiles
    else run_floats(some);
    run_turned(transpose.view(), out);
  };
  const int threads = runtime::num_threads();
  const std::int64_t at_once = narrow_at_once(size_of_product(p), p.size, threads);
  if (at_once == p.batch) return run(0, p.batch);
  if (at_once > 1 || threads == 1)
    return runtime::parallel_for(p.batch, [&](std::int64_t i) { run(i, 1); });
  for (std::int64_t i = 0; i < p.batch; ++i) run(i, 1);
}

void multiply_floats(Product p) {
  const bool along_terms = p.a.column == 1 && p.b.row == 1;
  // A row times a matrix that lies by columns: a vector is its own transpose.
  if (p.m == 1 && p.n > 1 && p.k > 1 && along_terms) p = turned(p);
  // A matrix that lies by columns times a vector, which reads it by rows.
  if (p.n == 1 && p.m > 1 && p.k > 1 && p.a.row == 1 && !along_terms) p = turned(p);
  if (p.n == 1 && (p.k == 1 || along_terms)) return run_in_parts(kDots, p, run_dots);
  if (along_terms && prefers_dots(p.dtype, size_of_product(p)))
    return run_in_parts(kThin, p, run_dots);
  if (p.a.column == 1 && p.b.column == 1 && prefers_turned_dots(p.dtype, size_of_product(p))) {
    const std::int64_t batch = p.b.batch == 0 ? 1 : p.batch;  // one b may be that of all
    const Temporary b(Shape{batch, p.n, p.k}, p.dtype);
    run_turned(view_of(p.b, p, {batch, p.k, p.n}), b.view());
    p.b = {b.data(), batch == 1 ? 0 : p.n * p.k, 1, p.k, p.dtype};
    return run_in_parts(kThin, p, run_dots);
  }
  if (!is_narrow(p.size, p.m, p.n, p.k) || p.a.row != 1 || p.a.column <= 1)
    return run_in_parts(p.m <= kFewRows ? kRowsOfB : kTiles, p, run_floats);
  run_narrow(p);
}

void multiply(const GemmBlocks* blocks, const View& lhs, const View& rhs, const View& out) {
  constexpr std::int64_t kLeastComplex = 1 << 12;  // multiplications that pay for copies
  if (is_complex(out.dtype) && out.shape[1] * out.shape[2] * lhs.shape[2] >= kLeastComplex)
    return run_complex_matmul(blocks, lhs, rhs, out);
  Product p{out.dtype,     static_cast<std::int64_t>(size_of(out.dtype)),
            out.shape[0],  out.shape[1],
            out.shape[2],  lhs.shape[2],
            matrices(lhs), matrices(rhs),
            out.data,      blocks};
  const bool real = p.dtype == DType::f32 || p.dtype == DType::f64;
  if (real) return multiply_floats(p);
  if (p.n > 1 && p.b.column != 1) {  // the other loops read rows of b
    const Temporary copy(rhs.shape, rhs.dtype);
    run_copy(rhs, copy.view());
    return multiply(blocks, lhs, copy.view(), out);
  }
  const GemmLoop loop = find_loop(p.dtype, false);
  if (loop == nullptr) {
    throw NotImplementedError("dot_general has no evaluation rule for dtype " +
                              std::string(short_name(p.dtype)));
  }
  for_each_tile(p, {}, [&](const Rectangle& r) { call_loop(loop, p, r); });
}

}  // namespace

// With AVX-512, strips of b are wide and stay in the second cache, as they do where this has a megabyte: deep blocks
// are fastest there (measured on Zen 4 and 5). Where it has less (Zen 3: 512 KiB), a strip, two vectors wide, fills the
// first cache, through which rows of a and of c pass; half of the second one takes the rows of a that all strips meet,
// and the last one what is packed of b, a page of each row, for many more rows. (Strips packed for each block of 128 or
// 256 rows anew, as they were before, took 1.1 to 1.4 times as long from 512 x 512 x 512 on.) A strip that few rows
// meet, once, is half as deep: the lines of the next one are asked for meanwhile. So it is for an a that lies by
// columns, of which longer pieces are read so; blocks of these may fill the second cache.
GemmBlocks gemm_blocks(runtime::Isa isa, std::int64_t size, std::int64_t first, std::int64_t second,
                       bool deep) {
  constexpr std::int64_t kMuch = 1 << 20, kPage = 4096;
  if (isa == runtime::Isa::avx512 || first == 0 || second == 0 || second >= kMuch) return {};
  const auto strip = static_cast<std::int64_t>(2 * runtime::vector_bytes(isa));
  const std::int64_t depth = std::clamp<std::int64_t>(first / strip / (deep ? 1 : 2), 128, 512);
  const std::int64_t rows = second / (deep ? 2 : 1) / (depth * size);
  return {.depth = depth,
          .rows = std::clamp(rows, 4 * kRows, kOneBlock),
          .columns = kPage / size,
          .height = 2048,
          .far = 2048};
}

namespace {
/// A matrix of 16-bit floats times a vector, the result in f32: the matrix is read as it lies. False where that is no such
/// product, where neither rows nor columns are contiguous, and without instructions that widen a register: there it takes
/// less to do so beforehand.
bool multiply_by_vector(const GemmBlocks* blocks, const View& lhs, const View& rhs,
                        const View& out) {
  // A row is a vector, too: times the matrix's transpose.
  const bool row = out.shape[2] != 1;
  if ((row && out.shape[1] != 1) || runtime::host_isa() == runtime::Isa::generic) return false;
  const View matrix = row ? transposed(rhs) : lhs, vector = row ? transposed(lhs) : rhs;
  const Matrices a = matrices(matrix);
  if (a.row != 1 && a.column != 1) return false;
  const Temporary wide(vector.shape, DType::f32);
  run_convert(vector, wide.view());
  const std::int64_t batch = matrix.shape[0], m = matrix.shape[1], k = matrix.shape[2];
  const Product p{DType::f32, 4, batch, m, 1, k, a, matrices(wide.view()), out.data, blocks};
  if (a.column == 1) run_in_parts(kDots, p, run_dots);
  else run_in_parts(kRowsOfB, turned(p), run_floats);
  return true;
}

/// Matrices of 16-bit floats in f32, by columns if they lie so.
class Widened {
 public:
  explicit Widened(const View& small)
      : by_columns_(small.shape[1] > 1 && small.strides[1] == 2),
        memory_(by_columns_ ? transposed(small).shape : small.shape, DType::f32) {
    run_convert(by_columns_ ? transposed(small) : small, memory_.view());
  }
  View view() const { return by_columns_ ? transposed(memory_.view()) : memory_.view(); }

 private:
  bool by_columns_;
  Temporary memory_;
};

/// Products of bf16 in tiles, by pairs of terms where denormal numbers do not matter: each sum has the same parts and adds
/// the same terms in the same order either way. The result is in f32.
void multiply_in_tiles(const GemmBlocks* blocks, const View& lhs, const View& rhs,
                       const View& out) {
  constexpr decltype(&telamon_generic_bf16_gemm_loop) kLoops[runtime::kNumIsas] =
      TELAMON_BY_ISA(bf16_gemm_loop);
  const GemmLoop loop = kLoops[static_cast<int>(runtime::host_isa())]();
  const auto product = [&](const View& a, const View& b) {
    return Product{DType::f32, 4,           out.shape[0], out.shape[1], out.shape[2],
                   a.shape[2], matrices(a), matrices(b),  out.data,     blocks};
  };
  const std::int64_t parts =
      parts_of(kTiles, {out.shape[0], out.shape[1], out.shape[2], lhs.shape[2]});
  const auto a = bf16_words(lhs, 2), b = bf16_words(rhs, 1);
  if (loop != nullptr && a && b && has_normal_sums(a->least, b->least)) {
    return run_in_parts(parts, 1, product(a->view, b->view),
                        [loop](const Product& p) { run_tiles(p, loop); });
  }
  const Widened wide_a(lhs), wide_b(rhs);
  run_in_parts(parts, 2, product(wide_a.view(), wide_b.view()), run_floats);
}

/// In f32.
void multiply_small_floats(const GemmBlocks* blocks, const View& lhs, const View& rhs,
                           const View& out) {
  if (multiply_by_vector(blocks, lhs, rhs, out)) return;
  const ProductSize size{out.shape[0], out.shape[1], out.shape[2], lhs.shape[2]};
  if (lhs.dtype == DType::bf16 && multiplies_by_pairs(runtime::host_isa(), size))
    return multiply_in_tiles(blocks, lhs, rhs, out);
  multiply(blocks, Widened(lhs).view(), Widened(rhs).view(), out);
}

void multiply_views(const GemmBlocks* blocks, const View& lhs, const View& rhs, const View& out) {
  check_shapes(lhs, rhs, out);
  if (out.shape.num_elements() == 0) return;
  if (!detail::is_small_float(lhs.dtype)) return multiply(blocks, lhs, rhs, out);
  if (out.dtype == DType::f32) return multiply_small_floats(blocks, lhs, rhs, out);
  const Temporary c(out.shape, DType::f32);
  multiply_small_floats(blocks, lhs, rhs, c.view());
  run_convert(c.view(), out);
}
}  // namespace

bool multiplies_by_pairs(runtime::Isa isa, const ProductSize& p) {
  // What takes terms together and looks at them, once for each operand, is worth as much as 24 multiplications of each: as
  // measured on Zen 4.
  constexpr double kOfTerm = 24;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n);
  return runtime::multiplies_bf16_pairs(isa) && p.m > kFewRows && p.k > 1 &&
         m * n > kOfTerm * (m + n);
}

void run_matmul_in(const GemmBlocks& blocks, const View& lhs, const View& rhs, const View& out) {
  multiply_views(&blocks, lhs, rhs, out);
}
void run_matmul(const View& lhs, const View& rhs, const View& out) {
  multiply_views(nullptr, lhs, rhs, out);
}

std::int64_t matmul_scratch(DType dtype, const ProductSize& p, int threads) {
  if (detail::is_small_float(dtype)) {  // all in f32 beside it
    // Of arrays without elements, other sizes may be any numbers.
    std::int64_t elements = 0;
    for (const auto& [rows, columns] : {std::pair(p.m, p.k), {p.k, p.n}, {p.m, p.n}})
      elements = detail::saturating_add(elements, detail::saturating_mul(rows, columns));
    return detail::saturating_add(
        detail::saturating_mul(4, detail::saturating_mul(p.batch, elements)),
        matmul_scratch(DType::f32, p, threads));
  }
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const ProductSize turned{p.batch, p.n, p.m, p.k};
  const std::int64_t parts =
      std::max({parts_of(p.m <= kFewRows ? kRowsOfB : kTiles, p),
                p.n == 1 ? std::max(parts_of(kDots, p), parts_of(kRowsOfB, turned)) : 1,
                parts_of(kThin, p)});
  const bool narrow = is_narrow(size, p.m, p.n, p.k);
  const std::int64_t sums = parts > 1 ? parts : 0;
  const std::int64_t turned_b = prefers_turned_dots(dtype, p) ? p.n * p.k : 0;
  const auto workspace = [&](std::int64_t m, std::int64_t n) {
    const auto with = [&](bool deep) {
      const GemmBlocks& blocks = host_blocks(dtype, deep);
      return gemm_workspace(blocks, std::min(m, blocks.height), n, p.k, size);
    };
    return threads *
           (m > kOneBlock ? std::max(with(true), with(false)) : with(false));  // an a by columns
  };
  const std::int64_t transposed =
      narrow ? workspace(p.n, p.m) + narrow_at_once(p, size, threads) * p.m * p.n * size : 0;
  return std::max(workspace(p.m, p.n), transposed) + p.batch * (sums * p.m * p.n + turned_b) * size;
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
