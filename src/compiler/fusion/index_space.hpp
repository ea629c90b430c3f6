// How the loops of a kernel run: over one flat index, or over one index per dimension.
#pragma once

#include <set>
#include <vector>

#include "compiler/plan/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// The last dimension that is not 1: lanes run along it where a kernel has an index per dimension.
inline std::size_t inner_dim(const Shape& shape) {
  std::size_t inner = shape.size() - 1;
  while (inner > 0 && shape[inner] == 1) --inner;
  return inner;
}

/// The first that is not 1, of which chunks have parts; the last, if that is the only one.
inline std::size_t outer_dim(const Shape& shape) {
  const std::size_t inner = inner_dim(shape);
  std::size_t outer = 0;
  while (outer < inner && shape[outer] == 1) ++outer;
  return outer;
}

/// The dimension whose elements are the rows of a kernel, where rows are short: that before the last, or, where that is
/// short itself, what comes before makes a row of several.
inline std::size_t dim_of_rows(const Shape& shape) {
  constexpr std::int64_t kFewRows = 16;
  std::size_t rows = inner_dim(shape);
  if (rows > 0) --rows;
  while (rows > 0 && shape[rows] < kFewRows) --rows;
  return rows;
}

/// What a kernel stores of a root at an index: the root's element, or all columns of its row.
Atoms columns_of_root(const Jaxpr& jaxpr, const Kernel& kernel, const std::vector<int>& producer,
                      Var root);
/// Whether a kernel stores parts of a root one after the other: not where it is itself.
bool stacks_parts(const Jaxpr& jaxpr, const Kernel& kernel, const std::vector<int>& producer);

/// Sets `kernel.linear`: whether all its values can be had from the flat index alone, or else `alike_in_rows` and `of_rows`.
/// Where they cannot, and a reshape inside would need divisions, what it reshapes joins `forced`: the equations
/// whose results must be stored. `producer` is that of fuse.hpp.
void index_kernel(const Jaxpr& jaxpr, Kernel& kernel, const std::vector<int>& producer,
                  std::set<int>& forced);
/// All that might join `forced` there, whichever kernels they are in.
void store_before_reshapes(const Jaxpr& jaxpr, const std::vector<int>& producer,
                           std::set<int>& forced);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
