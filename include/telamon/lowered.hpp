// What jit makes of a function, step by step: traced for one signature (Lowered), then compiled.
//
//   const auto lowered = tl::jit(f).lower(x, y);      // traces, computes nothing
//   std::cout << lowered.jaxpr();
//   const auto compiled = lowered.compile();
//   std::cout << compiled.cost_analysis() << compiled.memory_analysis() << compiled.text("asm");
//   Array z = compiled(x, y);                         // arguments of that signature only
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "telamon/history.hpp"
#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {

/// The work of one run, counted on the program after the compiler's passes. Scans count as often as
/// they run, and of branches the most that one has of each figure. What is evaluated twice by a kernel
/// counts once.
struct TELAMON_API CostAnalysis {
  /// Floating-point additions, products, comparisons, ...: one for each element of the result; 2 m n k
  /// for a matrix product; one less than the folded elements for each result of a reduction. Complex
  /// numbers count as JAX counts them, an operation as one. Moving and converting data are none.
  double flops = 0;
  double transcendentals = 0;  ///< elements of exp, log, sin, tanh, pow, sqrt, erf, ...
  double bytes_accessed = 0;   ///< what kernels and calls read and write in memory, whole operands
  int kernels = 0;             ///< in the code, as in ExecutableInfo
  int library_calls = 0;
  /// Why the counts are not exact, a sentence each: loops whose trips are not known count as one trip.
  std::vector<std::string> unknown;
  std::string to_string() const;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const CostAnalysis& cost);

/// The memory of one run, in bytes.
struct TELAMON_API MemoryAnalysis {
  std::int64_t arguments = 0, constants = 0, results = 0;
  std::int64_t arena = 0;       ///< intermediate values, but for those in results written later
  std::int64_t live_bound = 0;  ///< what it holds at least: the most that is alive at one time
  std::int64_t aliased = 0;     ///< results in the memory of donated arguments
  std::int64_t scratch = 0;  ///< the most that one library call takes for itself, as sorting does
  /// Why the bytes are not exact, a sentence each: backends that plan no memory leave some out.
  std::vector<std::string> unknown = {};
  std::int64_t peak() const { return arguments + constants + results + arena + scratch - aliased; }
  std::string to_string() const;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const MemoryAnalysis& memory);

namespace detail {
struct LoweredProgram;
}  // namespace detail

/// An executable for one signature.
class TELAMON_API Compiled {
 public:
  explicit Compiled(std::shared_ptr<const detail::LoweredProgram> program);
  CostAnalysis cost_analysis() const;
  MemoryAnalysis memory_analysis() const;
  /// "jaxpr": the program after all passes; the name of a pass ("simplify"): after that one; "plan",
  /// "ir", "asm". ValueError, which lists them, for other names.
  std::string text(std::string_view stage) const;
  /// Kernels, calls and the times of the passes.
  const ExecutableInfo& info() const;

 private:
  std::shared_ptr<const detail::LoweredProgram> program_;
};

/// A function traced for one signature.
class TELAMON_API Lowered {
 public:
  explicit Lowered(std::shared_ptr<const detail::LoweredProgram> program);
  /// The program; its leading inputs are what the function captured, then come the arguments that it
  /// uses.
  const ClosedJaxpr& jaxpr() const;
  Compiled compile() const;

 protected:
  std::shared_ptr<const detail::LoweredProgram> program_;
};

}  // namespace v1
}  // namespace telamon
