// What fusion is decided by: cycles of a vector of results (element_cost of ../forms.hpp, where primitives say what they
// cost), numbers of equations, and bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace telamon {
inline namespace v1 {
namespace compiler {

// ---- computed again, or stored? Cycles for each vector -------------------------------------------

constexpr int kCheap = 6;           // recompute rather than store
constexpr int kCheapSingle = 64;    // of single elements
constexpr int kCheapTiny = 16;      // one kernel more costs more than some vectors of arithmetic
constexpr std::int64_t kTiny = 32;  // elements
constexpr int kStridedCost = 12;    // a vector of elements that do not lie side by side
/// Large arrays are recomputed from small ones rather than read from beyond the caches: a vector that is
/// stored and read again takes as long as so many cycles of arithmetic. Kernels that read it after that
/// do so for less.
constexpr int kCheapOfSmall = 24, kCheapOfSmallInAll = 48;
constexpr std::int64_t kBeyondCaches = std::int64_t{2} << 20, kWideRow = 64;
/// What is broadcast to so many elements, to so many times its own, is stored before rather than computed for each.
constexpr std::int64_t kLarge = 1 << 14, kExpansion = 8;
/// Whether `to` elements are many for each of `from`; sizes go up to 2^62.
constexpr bool expands(std::int64_t from, std::int64_t to) { return to / kExpansion >= from; }

// ---- how large a kernel may grow -----------------------------------------------------------------

constexpr std::size_t kMaxMembers = 300;  // LLVM is superlinear in the size of a function
// Where so many equations on average do not wait for each other, there is no point in going on in another kernel. Vectors
// that run through functions are several at a time in small kernels.
constexpr std::size_t kMaxSideBySide = 4'000, kLeastWidth = 3, kLeastWidthOfCalls = 8;
constexpr std::size_t kFewCalls = 16;       // members for each of them
constexpr std::size_t kManyCalls = 24;      // that may wait for each other
constexpr std::int64_t kSmallSpace = 4096;  // elements
/// Results of a kernel: large ones, those of more than kSmallSpace elements, small ones. Of large ones, more than a few at
/// a time are no streams (60 of 800 KB on Zen 5: 1.3 of the time).
constexpr std::size_t kMaxRootsLarge = 8, kMaxRoots = 24, kMaxRootsSmall = 32;
/// Members of a kernel that transposes in registers: all of them are emitted for each row of a tile. Of larger ones, over so
/// many elements in rows and columns of so many, what they transpose is stored before.
constexpr std::size_t kMostTransposed = 8;
constexpr std::int64_t kLeastTransposed = 1 << 12, kLeastSide = 8;
/// Columns that kernels put together, of all roots: LLVM compares each store with each load.
constexpr std::size_t kMostWovenTogether = 48;

// ---- memory --------------------------------------------------------------------------------------

/// Bytes that are worth another order of kernels (fuse_order.cpp), or a kernel more, where they need not be alive.
constexpr std::int64_t kMuchMemory = 64 << 10, kMuchForOne = 4 << 10;
/// Of results of so many bytes a kernel leaves no more for others: they would pile up.
constexpr std::int64_t kLargePile = 256 << 10, kMostPiled = 2;

// ---- folds: fuse_reductions.cpp ------------------------------------------------------------------

/// Folds along rows and along columns share a pass over arrays of so many, and each of them is compared with the others.
constexpr std::int64_t kLeastCrossedRow = 32, kLeastCrossedColumn = 16;
constexpr std::size_t kMostCrossed = 200;
/// Folds share a pass where half of what the lesser computes the other computes, too, or it is no more than so many cycles.
constexpr int kLittleWork = 12;

// ---- arithmetic on the results of matrix products: fuse_products.cpp -----------------------------

/// Equations, and cycles of them, that are done while the results are in registers.
constexpr std::size_t kMaxEpilogueMembers = 12;
constexpr int kMaxEpilogueCycles = 10;
/// Bytes of a row that is not folded there: the lanes of a single vector for each row take longer to fold than those of
/// many rows at a time, read again (2,000 products of 16 x 16 in f32 on Zen 4: 1.1 of the time).
constexpr std::int64_t kRowOfOneVector = 64;

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
