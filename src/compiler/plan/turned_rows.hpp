// Rows of loops over cells that lie in memory as a transposition has them. vmap of a loop moves the batch in front of
// the trips, of what is read and of what is written down:
//
//   w = transpose(v);  c y = scan(a, w);  z = transpose(y)   ->   the loop reads v and writes z
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "compiler/fusion/fuse.hpp"
#include "compiler/plan/cells.hpp"
#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A variable that a loop reads or writes, and the one in whose memory it then lies.
struct TurnedRow {
  Var row, memory;
};

/// The transpositions of arrays in memory that kernels store.
class Transpositions {
 public:
  Transpositions(const Jaxpr& jaxpr, std::vector<Cluster>& clusters);

  /// Takes those that move nothing but rows of `scan` out of their kernels, and notes in the loop how its rows lie.
  /// `stays`: whether the memory of a variable is still what it was when the loop runs.
  std::vector<TurnedRow> taken_by(const Eqn& scan, CellLoop& loop,
                                  const std::function<bool(Var)>& stays);

 private:
  struct Stored {
    Cluster* cluster;
    int eqn;
    Var from;  ///< what it moves, before it was reshaped
  };

  const Eqn& eqn(int e) const;
  /// What is reshaped into a variable and read as that alone, or the variable.
  Var before_reshape(Var v) const;
  bool take(const Stored& t, const Shape& order, const ScanParams& p, Var row, bool single,
            const CellLoop& loop);

  const Jaxpr& jaxpr_;
  std::vector<int> producer_, uses_;
  std::map<Var, Stored> by_result_, by_operand_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
