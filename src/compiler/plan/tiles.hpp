// Kernels that read the same large arrays one after the other, run tile by tile.
#pragma once

#include "compiler/plan/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Of a plan whose values all have their place: consecutive kernels over the same rows, or columns, become
/// one step of `Step::Kind::tiles` where some read a large array that others have read or written: what
/// belongs to a tile stays in the caches from one kernel to the next. Only the order changes in which kernels
/// do their work: no bit of any result does.
/// Sums over all rows may be among what is done for tiles of rows.
///   sums of the columns of x[64,n], their variances, normalised x: each over all columns
///   ->  tiles of 1024 columns: sums, variances, normalised x
TELAMON_API void group_tiles(Plan& plan);

/// Whether any array is large enough for that.
bool may_have_tiles(const Plan& plan);

/// Of each step, the first of those that it goes together with if values that have no place yet get one of their own.
std::vector<std::size_t> heads_of_tiles(const Plan& plan);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
