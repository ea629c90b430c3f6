// Long kernels cut into functions. A kernel of thousands of equations at one index is straight-line code
// in a loop: as one function it would take LLVM's register allocator far too long, and as many kernels
// it would send every value that one computes and another needs through memory. So it stays one kernel,
// whose loop calls one function after the other for each vector; what one leaves to another lies on a
// tape, a piece of memory for one vector of each such value, which the caches hold.
//
//   for each vector i:  tape[0] = x[i];  segment_0(tape);  segment_1(tape);  ...;  y[i] = tape[7]
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

struct Segments {
  std::vector<std::vector<int>> equations;  ///< of each function, in the order of the program
  std::set<int> names;        ///< equations that only name a value: reshapes, spread numbers
  std::vector<Var> inputs;    ///< vectors that the kernel reads
  std::vector<Var> uniforms;  ///< numbers that are the same at every index: read or computed before
  std::map<Var, std::int64_t> places;  ///< of all these and of what crosses: offsets on the tape
  std::int64_t bytes = 0;              ///< of the tape
  int lanes = 1;

  /// What an atom names after all: a variable that is computed or read, or a literal.
  Atom named(const Jaxpr& jaxpr, const std::vector<int>& producer, Atom a) const;
};

/// Whether a kernel over `space` that is cut may have the equation among its members: it computes an
/// element from the elements of its operands at the same row-major index, or from single numbers.
bool can_cut(const Jaxpr& jaxpr, const Eqn& eqn, Form form, const Shape& space);

/// How to cut a kernel; null when it is short, or not of that kind.
std::shared_ptr<const Segments> cut_kernel(const Jaxpr& jaxpr, const Kernel& kernel,
                                           const std::vector<int>& producer);

/// Slices of memory for the tapes of a kernel whose chunks run at once.
std::int64_t num_tapes(const Segments& segments);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
