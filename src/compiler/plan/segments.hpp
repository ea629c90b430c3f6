// Long kernels cut into functions. A kernel of thousands of equations at one index is straight-line code
// in a loop: as one function it would take LLVM's register allocator far too long, and as many kernels
// it would send every value that one computes and another needs through memory. So it stays one kernel,
// whose loop calls one function after the other for a few vectors at a time; what one leaves to another
// lies on a tape, a piece of memory for these vectors of each such value, which the caches hold.
//
//   for each n vectors i:  tape[0] = x[i];  segment_0(tape, n);  segment_1(tape, n);  ...;  y[i] = tape[7]
//
// What is read at other indices than the kernel's, as the columns of rows are, comes to the tape before the functions, and
// columns that make rows come from it after them.
//
// Many inputs of one type are read in a loop, too, over the table of where they lie and where they go.
//
// In a chain each operation waits for the one before, and a processor looks ahead by a few hundred
// instructions only. So a function is a row of short loops, each over a stretch of its equations: while
// one vector waits in a stretch, others are on their way through the same instructions: a sine or so, since
// with more of them in a stretch fewer vectors are within what the processor looks ahead at.
//
//   segment_0(tape, n):  for k < n: stretch 0 of vector k;  for k < n: stretch 1 of vector k;  ...
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/plan/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

struct Segments {
  using Stretch = std::vector<int>;             ///< equations, in the order of the program
  std::vector<std::vector<Stretch>> functions;  ///< what each of them is made of
  std::set<int> names;  ///< equations that only name a value: reshapes, spread numbers
  /// What each stretch that reads it makes again: negatives, and what comes of conditions. These are bits on
  /// the tape, and the vectors made of them would take a line of the caches each.
  std::set<int> again;
  Vars inputs;    ///< vectors that the kernel reads: from memory, or by moving what lies there
  Vars uniforms;  ///< numbers that are the same at every index: read or computed before
  std::map<Var, std::int64_t> places;  ///< of all these and of what crosses: offsets on the tape
  std::int64_t bytes = 0;              ///< of the tape
  int lanes = 1;
  std::int64_t vectors = 1;       ///< that a function takes at a time, at most
  std::int64_t vector_bytes = 0;  ///< what each of them has of a place; they lie side by side there

  /// What an atom names after all: a variable that is computed or read, or a literal.
  Atom named(const Jaxpr& jaxpr, const std::vector<int>& producer, Atom a) const;
};

/// Equations of a kernel that is cut: more than those of kernels that are no functions of their own.
constexpr std::size_t kLeastCut = 96;

/// Whether a function of a kernel over `space` that is cut may have the equation: it computes an element from the elements of
/// its operands at the same row-major index, or from single numbers.
bool can_cut(const Jaxpr& jaxpr, const Eqn& eqn, Form form, const Shape& space);

/// How to cut a kernel; null when it is short, or not of that kind. `overlap`: functions take several
/// vectors at a time.
std::shared_ptr<const Segments> cut_kernel(const Jaxpr& jaxpr, const Kernel& kernel,
                                           const std::vector<int>& producer, bool overlap);

/// Slices of memory for the tapes of a kernel whose chunks run at once.
std::int64_t num_tapes(const Segments& segments);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
