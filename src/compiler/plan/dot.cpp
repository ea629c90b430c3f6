// Recognises matrix products in dot_general, and gives the large ones to the runtime's product.
//
// A loop that multiplies by the same weights on each trip does not pack them beforehand. Measured with
// 16x128 by 128x384 in f32, the GRU of B08 in bench/suite: 8 us a trip as it is, 7.3 us for a product of
// packed weights. With larger weights (256x768) packed ones would gain more: there is room for it.
//
// What follows such a product (bias, activation, residual) stays a kernel of its own. Run on each tile of
// the result instead, while that was in the cache, it was between 0.9 and 1.1 times as fast on eight
// shapes from 64x64x64 to 20000x64x256, no more than the noise, and slower where it reads another
// large array (4096x64x4096: 0.8): what a tile needs of that comes in short pieces of rows.
#include "compiler/plan/dot.hpp"

#include "compiler/codegen/codegen.hpp"
#include "compiler/plan/plan.hpp"
#include "core/integers.hpp"
#include "runtime/kernels/gemm.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

Shape row_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = detail::wrapping_mul(strides[d], shape[d]);
  return strides;
}

struct MergedDim {
  std::int64_t size = 1, stride = 0;
};

// The dimensions `dims`, in this order, as one dimension.
std::optional<MergedDim> merge(const Shape& shape, const Shape& dims) {
  const Shape strides = row_strides(shape);
  MergedDim g;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(dims[i]);
    if (shape[d] == 1) continue;
    if (g.size == 1) g.stride = strides[d];
    else if (strides[d] != detail::wrapping_mul(g.stride, g.size)) return std::nullopt;
    g.size = detail::wrapping_mul(g.size, shape[d]);
  }
  return g;
}

}  // namespace

std::int64_t terms_of(const Jaxpr& jaxpr, const Eqn& dot) {
  std::int64_t terms = 1;
  for (const std::int64_t d : dot.params.as<DotGeneralParams>().dimension_numbers.lhs_contracting)
    terms *= jaxpr.aval(dot.inputs[0]).shape[static_cast<std::size_t>(d)];
  return terms;
}

Shape free_dims(int rank, const Shape& batch, const Shape& contracting) {
  Shape out;
  for (int d = 0; d < rank; ++d) {
    if (!batch.contains(d) && !contracting.contains(d)) out.push_back(d);
  }
  return out;
}

Shape grouped_order(int rank, const Shape& batch, const Shape& contracting) {
  Shape order = batch;
  for (const std::int64_t d : free_dims(rank, batch, contracting)) order.push_back(d);
  for (const std::int64_t d : contracting) order.push_back(d);
  return order;
}

std::optional<MatrixProduct> matrix_product(const Aval& lhs, const Aval& rhs,
                                            const DotGeneralParams& params) {
  const DotDimensionNumbers& dn = params.dimension_numbers;
  const auto lb = merge(lhs.shape, dn.lhs_batch), rb = merge(rhs.shape, dn.rhs_batch);
  const auto lk = merge(lhs.shape, dn.lhs_contracting), rk = merge(rhs.shape, dn.rhs_contracting);
  const auto lm = merge(lhs.shape, free_dims(lhs.ndim(), dn.lhs_batch, dn.lhs_contracting));
  const auto rn = merge(rhs.shape, free_dims(rhs.ndim(), dn.rhs_batch, dn.rhs_contracting));
  if (!lb || !rb || !lk || !rk || !lm || !rn) return std::nullopt;
  MatrixProduct p;
  p.batch = lb->size;
  p.m = lm->size;
  p.n = rn->size;
  p.k = lk->size;
  p.lhs = {lb->stride, lm->stride, lk->stride};
  p.rhs = {rb->stride, rk->stride, rn->stride};
  const auto is_short = [](DType d) { return d == DType::i8 || d == DType::u8 || d == DType::i16; };
  p.of_shorts = is_short(lhs.dtype) && is_short(rhs.dtype);
  p.of_bytes = p.of_shorts && lhs.dtype == rhs.dtype && size_of(lhs.dtype) == 1;
  return p;
}

DotLanes dot_lanes(const MatrixProduct& p) {
  const bool along_k = p.lhs.column == 1 && p.rhs.row == 1 && p.k > 1;
  if (p.n > 1 && (p.rhs.column == 1 || !along_k)) return DotLanes::columns;
  return p.m > 1 && !along_k ? DotLanes::rows : DotLanes::contraction;
}

// What takes time besides multiplications, in multiplications of whole vectors: a result whose lanes ran along the terms ends
// in a sum over lanes; for lanes along columns two terms of short integers are put together first, if the operand has its
// columns side by side, or else the operand is turned, whose bytes are many.
constexpr double kSumOverLanes = 4.5, kOfPair = 0.8, kOfTurnedByte = kSumOverLanes / 32;

// What a row takes with lanes along its columns and along the terms: the former are no wider than need be (of half a vector of
// AVX-512 a processor starts twice as many). Vectors of four bytes in each lane take half as long again. As measured on Zen 4
// for 2 to 16 columns and 128 to 2,048 terms.
bool has_few_columns(const MatrixProduct& p, DType out) {
  constexpr double kManyTerms = 128, kVectorOfQuads = 1.5;
  const bool pairs = p.of_shorts && size_of(out) <= 4;
  const auto terms = static_cast<double>(p.k), columns = static_cast<double>(p.n);
  const double lanes = static_cast<double>(runtime::target_vector_bytes()) /
                       static_cast<double>(std::max<std::size_t>(size_of(out), 4));
  if (!is_integer(out) || p.n < 2 || columns > lanes || terms < kManyTerms) return false;
  const bool halves = runtime::target_isa() == runtime::Isa::avx512 && 2 * columns <= lanes;
  if (pairs && p.of_bytes && out != DType::u32 && CodeGen::has_quads(static_cast<int>(lanes)))
    return columns * (terms / lanes / 4 + kSumOverLanes / kVectorOfQuads) <
           terms / 4 * (halves ? 0.5 : kOfPair);
  const double of_row = terms * (pairs ? kOfPair : halves ? 0.5 : 1);
  return columns * (terms / lanes / (pairs ? 2 : 1) + kSumOverLanes) < of_row;
}

bool wants_columns(const MatrixProduct& p, DType out) {
  constexpr std::int64_t kLeastRows = 8, kMost = 1 << 22;  // elements that are copied for it
  return has_few_columns(p, out) && p.m >= kLeastRows &&
         detail::saturating_mul(p.k, p.n) <= kMost && p.lhs.column == 1 && p.rhs.column == 1;
}

// 64 x 10 times 10 x 128 takes 0.3 of the time (Zen 3), the transpose included; four rows of 64 gain nothing. There are as
// many multiplications either way. To transpose takes as long for few rows as for many, and what is transposed has no sums
// over lanes: 8 x k times k x 8 gains below 64 terms in f32 and 32 in f64, 16 x k times k x 16 below twice as many (Zen 4,
// AVX2 and AVX-512).
bool wants_transpose(const MatrixProduct& p, DType out) {
  constexpr std::int64_t kLeastColumns = 8, kShort = 16;
  const std::int64_t least_rows = p.k <= kShort ? 4 : 6;
  // Of each column.
  const double sums = kSumOverLanes * static_cast<double>(p.m),
               turned =
                   kOfTurnedByte * static_cast<double>(p.k) * static_cast<double>(size_of(out));
  const bool is_call = (out == DType::f32 || out == DType::f64) &&
                       p.work_of_one() >= kLeastLargeProduct &&
                       (p.k > kFewTerms || p.work_of_one() > kMostOfFewTerms);
  return dot_lanes(p) == DotLanes::contraction && p.m >= least_rows && p.n >= kLeastColumns &&
         turned < sums && !is_call && !has_few_columns(p, out);
}

std::optional<MatrixProduct> large_product(const Jaxpr& jaxpr, const Eqn& eqn) {
  const Aval &lhs = jaxpr.aval(eqn.inputs[0]), &rhs = jaxpr.aval(eqn.inputs[1]);
  const DType out = jaxpr.aval(eqn.outputs[0]).dtype;
  const bool float_type = out == DType::f32 || out == DType::f64;
  if (!float_type || lhs.dtype != out || rhs.dtype != out || eqn.inputs[0].is_literal() ||
      eqn.inputs[1].is_literal())
    return std::nullopt;
  const auto p = matrix_product(lhs, rhs, eqn.params.as<DotGeneralParams>());
  if (!p) return std::nullopt;
  // Loops read b where it lies, a tile's columns from the first row to the last. That is faster than the call and what
  // it begins with: measured with AVX-512 on Zen 5, 64^3 takes 0.93 of the time, 63^3 0.82, and a few rows or columns
  // 0.5 to 0.9. It still is at 100^3 (0.95), but a tile is more code to be generated than a call. One or two rows take
  // all of b once, which is to be read row by row, and scattered columns are packed: there the call pays from about
  // 48^3 on. Of up to 16 terms the call takes 1 to 2 times as long as loops up to some million multiplications (10,000 x 16
  // times 16 x 10 on Zen 4: 1.3, with two threads 1.5; 1,000 x 12 times 12 x 300: 1.0).
  const bool in_tiles = dot_lanes(*p) == DotLanes::columns && p->rhs.column == 1 && p->m > 2;
  const std::int64_t most = !in_tiles           ? kLeastLargeProduct - 1
                            : p->k <= kFewTerms ? kMostOfFewTerms
                                                : kernels::kMostInLoops;
  return p->work_of_one() > most ? p : std::nullopt;
}

HostFunction matmul_function(const Jaxpr& jaxpr, const Eqn& eqn, std::string& name) {
  const auto p = large_product(jaxpr, eqn);
  if (!p) return {};
  const DType out = jaxpr.aval(eqn.outputs[0]).dtype;
  name = "matmul " + std::to_string(p->m) + "x" + std::to_string(p->k) + "x" + std::to_string(p->n);
  const auto bytes = static_cast<std::int64_t>(size_of(out));
  // Of arrays without elements, other sizes may be any numbers.
  const auto in_bytes = [&](std::int64_t stride) { return detail::wrapping_mul(stride, bytes); };
  const auto view = [&](const MatrixProduct::Strides& s, Shape shape) {
    return kernels::View{
        nullptr, out, std::move(shape), {in_bytes(s.batch), in_bytes(s.row), in_bytes(s.column)}};
  };
  const kernels::View a = view(p->lhs, {p->batch, p->m, p->k}),
                      b = view(p->rhs, {p->batch, p->k, p->n}),
                      c = view({detail::wrapping_mul(p->m, p->n), p->n, 1}, {p->batch, p->m, p->n});
  return [a, b, c](std::span<const void* const> in, std::span<void* const> results) {
    const auto at = [](kernels::View v, const void* data) {
      v.data = static_cast<char*>(const_cast<void*>(data));
      return v;
    };
    kernels::run_matmul(at(a, in[0]), at(b, in[1]), at(c, results[0]));
  };
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
