// Chains of kernels over the rows of arrays that do not fit into a cache, run block by block.
#pragma once

#include <cstdint>

#include "compiler/plan/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Equations that would be kernels one after the other, each over all rows of large arrays, become a
/// loop over blocks of rows: what one kernel leaves the next stays in the cache, and is never more than a
/// block. No bit of any result changes.
///   let b = sub x[n,k] m, c = dot_general b w, d = reduce_sum[axes=(1,)] c
///   ->  scan[length=n/r](w, x[r,k] -> let b = sub x m, c = dot_general b w, d = ... in ( d ))
TELAMON_API Jaxpr group_rows(const Jaxpr& jaxpr, const PlanOptions& options);
enum class Places : std::uint8_t { compute, as_they_are };
/// Scatters of many single elements become loops over blocks of them, with what is computed for them
/// alone, indices above all, if places are to be computed there (row_updates.cpp).
///   let i = mul j 2, y = scatter_add x i u
///   ->  scan(x, block of j, block of u -> scatter_add x (mul j 2) u)
/// Sums that are taken in parts become loops over these in any case: their order is that of the parts.
Jaxpr group_updates(const Jaxpr& jaxpr, Places places);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
