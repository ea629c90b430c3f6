// Small integers that the body of a loop computes from nothing but the number of the trip.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// An integer that goes up by the same from row to row: first + step * row.
struct Counting {
  std::int64_t first = 0, step = 0;
  bool operator==(const Counting&) const = default;
};

/// The integers of a body that count, over rows 0 to `rows` - 1 of what the loop reads and writes down.
class TripNumbers {
 public:
  TripNumbers(const Jaxpr& body, std::int64_t rows) : body_(body), rows_(rows) {}

  /// That of an input, unless its type does not hold it in all rows.
  void set(Var input, const Counting& number);
  /// Equations come in order. What wraps around does not count.
  void look_at(const Eqn& eqn);
  /// Each element of an array of a few; nothing where one does not count.
  std::optional<std::vector<Counting>> all(const Atom& a) const;
  /// Of an array of one element.
  std::optional<Counting> one(const Atom& a) const;

  std::int64_t least(const Counting& c) const { return std::min(c.first, last(c)); }
  std::int64_t most(const Counting& c) const { return std::max(c.first, last(c)); }

 private:
  std::int64_t last(const Counting& c) const { return c.first + c.step * (rows_ - 1); }
  bool holds(DType dtype, const Counting& c) const;
  std::optional<bool> compared(const Eqn& eqn, const Counting& x, const Counting& y) const;
  std::optional<Counting> element(const Eqn& eqn, const std::vector<Counting>& x) const;
  std::optional<std::vector<Counting>> result(const Eqn& eqn) const;

  const Jaxpr& body_;
  std::int64_t rows_;
  std::map<Var, std::vector<Counting>> numbers_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
