// The passes over jaxprs that the compiler adds to those of src/jaxpr.
#pragma once

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Rewrites a program into core operations: calls are inlined, `ops` lowerings expanded, operands of
/// dot_general transposed where their dimensions are scattered. What an expansion captured becomes a
/// leading input with a constant. NotImplementedError names a primitive that has no lowering.
///   let b = axpby[alpha=2.0] x y   ->   let a = mul x 2.0, b = add a y
/// argmax and argmin may stay (`fold_places`): they are folds of pairs. Otherwise they become a fold
/// of the values and one of the places where the result occurs.
TELAMON_API ClosedJaxpr lower(const Jaxpr& jaxpr, bool fold_places = true);

/// A program with what has been computed already, which it takes as inputs.
struct FoldedConstants {
  Jaxpr jaxpr;
  Arrays values;
};
/// Evaluates what depends on literals, iotas and leading inputs alone, whose values are `known`, where that is little
/// work and the results are small. They become inputs of the program, from the one of number `at` on; numbers that
/// depend on no input become literals. Within loops and branches, too: their constants are operands of theirs.
///   let b = sin c, d = reduce_sum b, e = add a d   ->   let e = add a k
TELAMON_API FoldedConstants fold_constants(const Jaxpr& jaxpr, const Arrays& known, std::size_t at);
/// Makes slices of what is gathered along one dimension at places that are leading inputs, whose values are `known`, where a
/// few slices are enough.
TELAMON_API Jaxpr slice_at_known_places(const Jaxpr& jaxpr, const Arrays& known);

struct LoopOptions {
  bool hoist = true;  ///< what does not change from trip to trip is computed before the loop
  bool cells = true;  ///< batches of loops that are cellular (cells.hpp) stay as they are
  bool defer_sums =
      true;  ///< what keeps a loop from being cellular may be summed after it (sums.hpp)
  bool simplify = true;  ///< what a rewritten body selects
};
/// Rewrites loops for the planner: what does not change from trip to trip is computed before them,
/// and loops that each element of an array leaves on its own account become loops with one condition.
///   scan(c -> c * exp(k))  ->  let e = exp(k) in scan(c -> c * e)
Jaxpr prepare_loops(const Jaxpr& jaxpr, const LoopOptions& options);

/// Two loops over the same trips become one where the second reads what the first writes down.
///   scan(c -> (f(c), c)), scan(d, c -> g(c) * d)   ->   scan(c, d -> (f(c), g(c) * d))
TELAMON_API Jaxpr join_loops(const Jaxpr& jaxpr);

/// Columns of an array that are written one after the other, at places that are known, are written together.
///   let p = dynamic_update_slice m a (0, 3), q = dynamic_update_slice p b (0, 4)
///   ->   let c = concatenate[dimension=1] a b, q = dynamic_update_slice m c (0, 3)
TELAMON_API Jaxpr write_together(const Jaxpr& jaxpr);
/// Whether a program, or a loop or branch of it, overwrites parts of arrays at places by numbers.
bool has_updates(const Jaxpr& jaxpr);

/// What trips of a loop write over parts of an array, each over another one and none reading what others wrote, is computed
/// for all of them at once.
///   scan(m -> dynamic_update_slice m f(j) (0, j))   ->   dynamic_update_slice m (transpose (f of all j)) (0, 0)
TELAMON_API Jaxpr write_at_once(const Jaxpr& jaxpr);

/// What a loop writes down for one that runs backwards is computed again there where that is cheap.
///   scan(c -> (f(c), 1 - c)), scan[reverse](g, s -> g * s)
///   ->   scan(c -> (f(c), c)), scan[reverse](g, c -> g * (1 - c))
TELAMON_API Jaxpr recompute_residuals(const Jaxpr& jaxpr);

/// Arrays with a short last axis, in the midst of a computation over a larger space, become one array per
/// component.
///   let r = sub p[n,n,3] q, s = mul r r, d = reduce_sum[axes=(2,)] s
///   ->   let r0 = sub p0[n,n] q0, ..., d = add (add s0 s2) s1
/// Sums begin with 0, but where nobody can tell (`zero_signs`: zero_signs.hpp).
TELAMON_API Jaxpr split_short_axes(const Jaxpr& jaxpr, bool zero_signs = true);

/// Batches of small programs: each number of what a member of the batch computes becomes an array of all members.
///   let s[n,2] = mul a b, t[n] = reduce_sum[axes=(1,)] s
///   ->   let s0[n] = mul a0 b0, s1 = mul a1 b1, t = add s0 s1
TELAMON_API Jaxpr split_batch_members(const Jaxpr& jaxpr, bool zero_signs = true);

/// The last two to four axes of arrays in which nobody tells them apart become one, where whole rows are moved.
///   let t:f32[9,8,3] = slice[(1,0,0):(10,8,3)] x, d = mul t t   ->   let y:f32[10,24] = reshape x, t = slice y, d = mul t t
Jaxpr merge_axes(const Jaxpr& jaxpr);
/// The last axes of what a transpose makes, of short rows, become one where they lie side by side in its operand, too.
///   let t[n,t,k] = transpose[(2,0,1)] x[t,k,n]   ->   let t = reshape (transpose[(1,0)] (reshape x))
Jaxpr merge_transposed_axes(const Jaxpr& jaxpr);

/// Sums over either of two axes, of what is the same or changes its sign when these are swapped, become sums over one.
///   let r[n,n] = sub x_i x_j, a = reduce_sum[axes=(1,)] r, b = reduce_sum[axes=(0,)] r   ->   let ..., b = sub 0 a
TELAMON_API Jaxpr fold_mirrored_sums(const Jaxpr& jaxpr);
/// Whether a program, or a loop or branch of it, sums arrays over two axes of the same length.
bool sums_over_pairs(const Jaxpr& jaxpr);

/// Operations on 16-bit floats become operations on f32 whose results are rounded.
///   let c:f16 = mul a b   ->   let c = convert[f16] (mul (convert[f32] a) (convert[f32] b))
TELAMON_API Jaxpr widen_small_floats(const Jaxpr& jaxpr);
/// Whether a program, or one within it, has any.
bool has_small_floats(const Jaxpr& jaxpr);

/// Applies exact algebraic rules until none applies, and evaluates what is known.
///   let b = mul a 1.0, c = transpose[(1,0)] b, d = transpose[(1,0)] c   ->   a
/// Of branches whose index is known the one that is taken stands in their place.
/// No rule changes a bit of any result: x + 0 stays (it turns -0 into 0), x - 0 goes. Only the order in
/// which a sum is taken may change, with the layout of what it sums.
TELAMON_API Jaxpr simplify(const Jaxpr& jaxpr);

/// Scatters take indices as they are before those below 0 are counted from the end, where others do not
/// need what comes after it.
///   let i = select (lt a 0) (add a n) a, y = scatter_add x i u   ->   let y = scatter_add[wraps=True] x a u
Jaxpr let_scatters_wrap(const Jaxpr& jaxpr);
/// Whether a program, or a loop of it, has any.
bool has_scatters(const Jaxpr& jaxpr);

/// Numbers that are looked up in several columns of the same short rows are columns of rows that are looked up.
///   let a = gather x (concatenate i 0), b = gather x (concatenate i 1)
///   ->   let r = gather[slice_sizes=(1, 2)] x i, a = slice[0:1] r, b = slice[1:2] r
TELAMON_API Jaxpr join_lookups(const Jaxpr& jaxpr);
/// Short rows that are looked up by several indices are looked up by one, which lanes compute.
///   let y = gather x (concatenate i j)   ->   let y = gather (reshape x) (add (mul (clamp i) n) (clamp j))
TELAMON_API Jaxpr flatten_lookups(const Jaxpr& jaxpr);
/// Whether a program, or one within it, looks anything up.
bool has_lookups(const Jaxpr& jaxpr);

/// What is added to a part of an argument that may be donated becomes an update of that part.
///   let p = pad[(3,90,0)] v -0, y = add x p
///   ->   let s = slice[3:10] x, t = add s v, y = dynamic_update_slice x t 3
Jaxpr update_sums(const Jaxpr& jaxpr, const std::vector<bool>& donated);

/// The gradient of a minimum or maximum of rows has a mask: 1 for the extreme of each row, 0 for all else. Sums of such a mask
/// over all rows, or of its products with a matrix, become a branch: if each row has just one extreme, this alone is
/// added, at its place.
///   let k = reduce_min[axes=(1,)] x, w = convert (eq x (broadcast k)), y = dot_general[contracting 0, 0] w e
///   ->   if each row has one: scatter_add 0 places e; else as before
/// What is chosen is added one after the other, in another order than before. Linear in the number of equations.
TELAMON_API Jaxpr sum_chosen(const Jaxpr& jaxpr);
/// Whether a program, or a loop or branch of it, asks which elements of rows are the extremes.
bool has_extremes(const Jaxpr& jaxpr);

/// Transposes of what is computed from iotas and broadcasts of something smaller vanish: all of it is
/// computed in the order that is wanted.
///   let i = iota[dimension=0] , c = mul i 2, d = transpose[(1,0)] c   ->   iota[dimension=1], mul
TELAMON_API Jaxpr reorder(const Jaxpr& jaxpr);

/// What is transposed, computed with element by element and transposed back is computed where it was.
///   let t = transpose[(1,0)] x, s = sin t, y = transpose[(1,0)] s   ->   let y = sin x
TELAMON_API Jaxpr undo_moves(const Jaxpr& jaxpr);
/// Whether a program, or a loop or branch of it, has any.
bool has_transposes(const Jaxpr& jaxpr);

/// What a loop transposes last, and first where it reads it again, is handed from trip to trip as it was computed; but not by
/// loops that are cellular (`cells`).
///   scan(h -> transpose[(1,0)] (tanh (dot_general w h)))
///   ->   transpose[(1,0)] (scan(g -> tanh (dot_general w g)))
TELAMON_API Jaxpr carry_as_computed(const Jaxpr& jaxpr, bool cells = true);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
