// Small integers that the body of a loop computes from nothing but the number of the trip.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// An integer that goes up by the same from row to row, first + step * row, or by up to `slack` more than that, which is the
/// same in all rows.
struct Counting {
  std::int64_t first = 0, step = 0, slack = 0;
  bool operator==(const Counting&) const = default;
};

/// The integers of a program that count, over rows 0 to `rows` - 1 of what the loop reads and writes down whose body it is.
class TripNumbers {
 public:
  TripNumbers(Jaxpr body, std::int64_t rows) : body_(std::move(body)), rows_(rows) {}

  /// Those of the equations, after those of the inputs. What wraps around does not count.
  void look_at_all();
  /// Of the body of a scan of this program: inputs so far. Rows of loops in reverse come from the last one on.
  TripNumbers of_body(const Eqn& scan) const;
  /// Each element of an array of a few; nothing where one does not count.
  std::optional<std::vector<Counting>> all(const Atom& a) const;
  /// Of an array of one element.
  std::optional<Counting> one(const Atom& a) const;

  std::int64_t least(const Counting& c) const { return std::min(c.first, last(c)); }
  std::int64_t most(const Counting& c) const { return std::max(c.first, last(c)) + c.slack; }

 private:
  std::int64_t last(const Counting& c) const { return c.first + c.step * (rows_ - 1); }
  void set(Var input, const Counting& number);
  void look_at(const Eqn& eqn);
  bool holds(DType dtype, const Counting& c) const;
  std::optional<bool> compared(const Eqn& eqn, const Counting& x, const Counting& y) const;
  std::optional<Counting> element(const Eqn& eqn, const std::vector<Counting>& x) const;
  std::optional<std::vector<Counting>> result(const Eqn& eqn) const;

  Jaxpr body_;
  std::int64_t rows_;
  std::map<Var, std::vector<Counting>> numbers_;
  std::set<Var> iotas_;  // 0, 1, 2, ... along the first axis, the same along others
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
