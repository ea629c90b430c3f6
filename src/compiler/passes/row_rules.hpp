// Rows through equations: which operands an equation needs at its own rows only, what it is over fewer, and which
// equations add up what they have of each row.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// How an equation needs an operand in order to give a block of its rows.
enum class Need : std::uint8_t { block, whole };

/// Whether it has so many rows: what belongs to one index of the first dimension.
inline bool has_rows(const Aval& aval, std::int64_t rows) {
  return !aval.shape.empty() && aval.shape[0] == rows;
}

/// The same array with another number of rows.
inline Aval with_rows(Aval aval, std::int64_t rows) {
  aval.shape[0] = rows;
  return aval;
}
/// The same array as blocks of so many rows: [n, ...] -> [n / rows, rows, ...].
inline Aval in_blocks(Aval aval, std::int64_t rows) {
  aval.shape.insert(0, aval.shape[0] / rows);
  aval.shape[1] = rows;
  return aval;
}

/// The rules for arrays of so many rows.
class RowRules {
 public:
  RowRules(const Jaxpr& jaxpr, std::int64_t rows) : jaxpr_(jaxpr), rows_(rows) {}

  /// By operand, where rows of the results come from rows of operands; else nothing.
  std::optional<std::vector<Need>> needs(const Eqn& e) const;
  /// By operand, where the result is a sum over the rows of operands: that of some and that of others add up to that of all.
  std::optional<std::vector<Need>> sums(const Eqn& e) const;
  /// The parameters of the same equation over fewer rows.
  static Params with_rows(const Eqn& e, std::int64_t rows);

 private:
  const Shape& shape(const Eqn& e, std::size_t i) const { return jaxpr_.aval(e.inputs[i]).shape; }
  bool through(const Eqn& e, std::vector<Need>& needs) const;
  bool product(const Eqn& e, std::vector<Need>& needs) const;
  bool lookup(const Eqn& e, std::vector<Need>& needs) const;

  const Jaxpr& jaxpr_;
  const std::int64_t rows_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
