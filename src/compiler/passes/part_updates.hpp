// What a loop writes over arrays that it carries, a part in each trip, and what of that can be computed for all trips at once
// (update_loops.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "compiler/passes/trip_numbers.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Where along each axis a window begins: a literal, what does not change from trip to trip, or, along one axis, what counts.
struct Place {
  Atoms starts;
  std::optional<std::size_t> axis = {};
  Counting along = {};
  bool operator==(const Place& o) const {
    return starts == o.starts && axis == o.axis && along == o.along;
  }
};

/// What a trip writes over a carry.
struct PartUpdate {
  std::size_t carry;  ///< counted from the first
  Atom update = Atom::var(0);
  Shape window = {};
  Place place = {};
  bool adds = false;   ///< to what is there
  bool ahead = false;  ///< computed for all trips at once; else the loop lists what trips write
};

/// The updates that are better taken out of a loop, and what of its body they need.
class PartUpdates {
 public:
  /// What the results of the scan are, and what is known of the numbers of its body.
  PartUpdates(const Eqn& scan, Avals out_avals, TripNumbers numbers);

  /// By carry. None where the loop stays as it is.
  const std::map<std::size_t, PartUpdate>& all() const { return updates_; }
  bool contains(std::size_t carry) const { return updates_.contains(carry); }
  /// Whether an equation is needed for what is computed for all trips at once.
  bool is_ahead(const Eqn& e) const { return is_needed(ahead_, e); }
  /// Whether an equation, or an input, is needed for all else.
  bool is_left(const Eqn& e) const { return is_needed(left_, e) || e.effect != Effect::none; }
  bool is_left(Var v) const { return left_[static_cast<std::size_t>(v)]; }

  /// How a variable of the body follows from the number of the trip.
  enum class Kind : std::uint8_t {
    varies,   ///< with what trips before have made
    by_trip,  ///< by that number alone, and by rows that the loop reads
    window,   ///< a part of what does not change, which counts: rows, too
    fixed     ///< the same in all trips
  };
  Kind kind(const Atom& a) const {
    return a.is_literal() ? Kind::fixed : kinds_[static_cast<std::size_t>(a.var())];
  }
  static const Shape& window(const Eqn& slice) {
    return slice.params.as<DynamicSliceParams>().slice_sizes;
  }
  std::optional<Place> place_of_window(const Eqn& slice) const;
  const TripNumbers& numbers() const { return numbers_; }

 private:
  /// Where a window begins along an axis: what counts, or what else the program says.
  struct Start {
    std::optional<Counting> number;
    Atom atom;
  };
  using Starts = std::vector<Start>;

  const Eqn* made_by(const Atom& a) const;
  Var carry_in(std::size_t c) const { return static_cast<Var>(num_consts_ + c); }
  std::size_t carry_of(Var v) const;
  std::int64_t rows() const { return p_.length; }
  void find();

  std::optional<Place> place_of(const Shape& of, const Shape& window, const Starts& starts) const;
  Starts starts_from(const Eqn& e, std::size_t first) const;
  std::optional<Starts> starts_of_scatter(const Eqn& e, const Shape& window) const;
  Atoms columns_of(const Atom& a) const;
  std::optional<PartUpdate> update_of(std::size_t c) const;
  bool alone_in(const PartUpdate& u) const;

  void find_kinds();
  bool counts(Var v) const;
  Kind kind_of(const Eqn& e) const;
  bool is_window(const Eqn& e) const;
  bool begins_at_known(const PartUpdate& u) const;
  bool fits_beside(const PartUpdate& u) const;
  bool is_better_listed(const PartUpdate& u) const;
  void leave_to_loop();
  static bool is_needed(const std::vector<bool>& needed, const Eqn& e);
  void find_needed();
  bool is_worth_it() const;

  const ScanParams& p_;
  const Jaxpr& body_;
  const Avals out_avals_;
  const std::size_t num_consts_, num_carry_;
  const std::vector<int> producer_, uses_;         // of variables of the body
  std::map<Var, std::vector<const Eqn*>> slices_;  // of a variable of the body
  const TripNumbers numbers_;
  std::vector<Kind> kinds_;  // of variables
  std::map<std::size_t, PartUpdate> updates_;
  std::vector<bool> ahead_, left_;  // of variables: needed for the updates, and for all else
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
