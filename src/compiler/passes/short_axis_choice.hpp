// Which arrays with a short last axis are taken apart (short_axes.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/disjoint_sets.hpp"
#include "compiler/passes/short_axis_roles.hpp"
#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Equations of a program, and of columns that take the place of rows.
constexpr std::size_t kMostEquations = 20'000;

/// Sets of variables that equations connect, each of which is taken apart as a whole or not at all.
class ShortAxisChoice {
 public:
  explicit ShortAxisChoice(const Jaxpr& jaxpr);

  bool any() const { return any_; }
  bool apart(Var v) {
    return may_be_apart(jaxpr_.aval(v)) && chosen_[static_cast<std::size_t>(sets_.find(v))];
  }
  AxisRole role(std::size_t e) const { return roles_[e]; }

 private:
  /// Elements of the largest arrays of a set that are of one kind.
  struct Sizes {
    std::int64_t around = 0, between = 0;  ///< that lie in memory, and that are computed
    std::int64_t made_whole = 0, read_whole = 0;
    std::int64_t seen_whole = 0;  ///< inputs in another shape
    std::int64_t reshaped = 0;    ///< to rows of another length: written as rows, as results are
    std::int64_t made = 0;        ///< put together of columns
    std::int64_t folded = 0, folded_both = 0;  ///< along the axis, along that before it, too
    std::int64_t folded_across = 0;            ///< along others, rows on rows
    std::int64_t folded_whole = 0;             ///< by what takes nothing apart
    std::int64_t alone = 0;                    ///< folded, where that alone gains
    std::int64_t told = 0;                     ///< whose rows are told apart
    std::int64_t spread = 0, torn = 0;         ///< repeated along each row, in torn vectors
    std::int64_t equations = 0;                ///< how many there are
    std::int64_t longest = 0;                  ///< row
  };
  Sizes& sizes(Var v) { return sizes_[static_cast<std::size_t>(sets_.find(v))]; }
  void note(std::int64_t Sizes::* what, Var v);
  void note_folds_and_needs();
  bool gains_where_looked_up(const Eqn& eqn) const;
  void note_whole(std::size_t e);
  void weigh();
  void note_role(const Eqn& eqn, AxisRole role);
  static bool is_worth_it(const Sizes& of);

  void leave_products();
  bool stays(const Eqn& product);
  bool tells_rows_apart(std::size_t e) const;
  bool folds_before_last(const Eqn& eqn) const;
  bool folds_by_columns(const Atom& a) const;

  const Jaxpr& jaxpr_;
  const std::vector<int> producers_;
  DisjointSets sets_;
  std::vector<AxisRole> roles_;
  std::vector<Sizes> sizes_;
  std::vector<bool> needed_whole_;
  std::vector<bool> chosen_;
  bool any_ = false;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
