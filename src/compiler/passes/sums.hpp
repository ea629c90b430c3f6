// Sums over a batch that a loop adds to a carry: see sums.cpp.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A scan whose carries `carries` have a leading dimension of `batch` elements, which are to be summed
/// after the loop.
struct DeferredSums {
  ScanParams params;
  std::vector<int> carries;
  std::int64_t batch = 0;
};

/// Nothing where no carry only adds up sums over the leading dimension of something.
std::optional<DeferredSums> defer_sums(const ScanParams& p);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
