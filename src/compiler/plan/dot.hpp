// dot_general seen as a batch of matrix products.
#pragma once

#include <optional>

#include "core/integers.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// out[b, m, n] = sum over k of lhs[b, m, k] rhs[b, k, n], with strides in elements. The result is
/// dense and row-major.
struct MatrixProduct {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  struct Strides {
    std::int64_t batch = 0, row = 0, column = 0;
  };
  Strides lhs, rhs;        ///< rows and columns of lhs are m and k, of rhs k and n
  bool of_shorts = false;  ///< of whole numbers of at most 16 bits with their sign
  bool of_bytes = false;   ///< ... and of 8, both with a sign, or both without
  /// Multiplications: of shapes that are only compiled for, they may be any number.
  std::int64_t work_of_one() const {
    return detail::saturating_mul(detail::saturating_mul(m, n), k);
  }
  std::int64_t work() const { return detail::saturating_mul(batch, work_of_one()); }
};

/// The dimensions of each group (batch, free, contracting) of an operand must lie side by side in
/// memory; nullopt when they do not (a transpose has to come first).
std::optional<MatrixProduct> matrix_product(const Aval& lhs, const Aval& rhs,
                                            const DotGeneralParams& params);

/// Which dimension the lanes of our own loops run along: one that lies contiguously.
enum class DotLanes : std::uint8_t { columns, contraction, rows };
DotLanes dot_lanes(const MatrixProduct& p);

/// Whether our own loops are faster when the right operand is transposed before: it lies by columns, as the left one by
/// rows, so that each result would be a sum over lanes, and there are rows enough to pay for it.
bool wants_transpose(const MatrixProduct& p, DType out);
/// Whether they are of integers, for which there is no call, and of so few columns that lanes along these would mostly be
/// empty: of many terms each result is rather a sum over lanes.
bool has_few_columns(const MatrixProduct& p, DType out);
/// Whether the right operand is to be transposed for that: it lies by rows, as the left one does.
bool wants_columns(const MatrixProduct& p, DType out);

/// Smaller products, m n k, are loops, which may add in other orders.
inline constexpr std::int64_t kLeastLargeProduct = 48 * 48 * 48;
/// Of few terms, more are loops, too: to read and to write is most of the work, and to pack operands for a call much of it.
/// Of larger results to write them is all of it, and the call goes on while it does (100,000 x 16 times 16 x 10: 1.0).
inline constexpr std::int64_t kFewTerms = 16, kMostOfFewTerms = 4'000'000;
/// The product of floats that the runtime's own computes faster than generated loops; nullopt: loops.
std::optional<MatrixProduct> large_product(const Jaxpr& jaxpr, const Eqn& eqn);

/// Of how many products each number of a dot_general is the sum.
std::int64_t terms_of(const Jaxpr& jaxpr, const Eqn& dot);

/// The dimensions of an operand of this rank that are neither batch nor contracting.
Shape free_dims(int rank, const Shape& batch, const Shape& contracting);
/// The permutation that brings an operand to (batch, free, contracting) order.
Shape grouped_order(int rank, const Shape& batch, const Shape& contracting);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
