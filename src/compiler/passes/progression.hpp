// Integers that count along the dimensions of an array: what is known of places that are looked up.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/passes/simplify.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Integers that go up by so much along each dimension: first + steps[0] i[0] + steps[1] i[1] + ...
struct Progression {
  std::int64_t first = 0;
  std::vector<std::int64_t> steps;  ///< 0 along dimensions of one element
  std::int64_t least = 0, most = 0;

  /// Whether all are the same.
  bool is_number() const { return least == most; }
};
/// What the elements of an integer array are, if they count: an iota, moved, scaled, repeated, added to another, wrapped
/// from below 0, none of which leaves its type.
std::optional<Progression> progression(Simplifier& s, const Atom& a, int depth = 0);
/// The components of the index vectors of a gather or scatter, `map` of its axes, where all of them count; none where one
/// does not.
std::vector<Progression> progressions(Simplifier& s, const Atom& places, const Shape& map);
/// The dimension along which the numbers of an array are 0, 1, 2, ..., and the same along all others: integers all the way,
/// of types that hold them, as they hold how many they are.
std::optional<std::size_t> counted_dimension(Simplifier& s, const Atom& a);
/// Where the dimensions of the places are in what is looked up: those that are no window's.
std::vector<std::size_t> dimensions_of_places(const GatherDimensionNumbers& d, const Shape& out);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
