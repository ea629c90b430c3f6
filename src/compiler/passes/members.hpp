// Batches of small programs: which equations compute the numbers of each member by themselves, and which of them are worth
// taking apart (batch_members.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/disjoint_sets.hpp"
#include "compiler/passes/batch_axes.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// How an equation makes the numbers of a member.
enum class MemberRole : std::uint8_t {
  none,     ///< it needs its operands as they are
  element,  ///< each from the same numbers of its operands
  moved,    ///< they are numbers of its operands
  folded,   ///< each from several numbers of its operand
  product,  ///< dot_general
  counted,  ///< iota
  summed,   ///< cumsum and its kin
};

/// Equations seen from one member of a batch.
class MemberRoles {
 public:
  explicit MemberRoles(const Jaxpr& jaxpr);

  const Batch& batch() const { return batch_; }
  /// Numbers of an array for each member.
  std::int64_t numbers(Var v) const { return of_one(v).num_elements(); }
  /// The shape of an array for one member: axes of the batch are of one element.
  Shape of_one(Var v) const;
  Shape of_one(const Atom& a) const { return a.is_var() ? of_one(a.var()) : Shape{}; }
  /// Whether an array has some numbers for each member.
  bool is_member(const Atom& a) const {
    return a.is_var() && kind_[static_cast<std::size_t>(a.var())] == Kind::member;
  }
  /// Whether they are the same for all members.
  bool is_shared(const Atom& a) const {
    return a.is_literal() || kind_[static_cast<std::size_t>(a.var())] == Kind::shared;
  }
  /// Whether no call changes them, besides: the directions of a Jacobian.
  bool is_known(const Atom& a) const {
    return a.is_literal() || (is_shared(a) && known_[static_cast<std::size_t>(a.var())]);
  }
  MemberRole role(const Eqn& eqn) const;
  /// Whether an equation but repeats shared numbers, or counts: who needs these makes them anew.
  bool is_free(const Eqn& eqn) const {
    return eqn.primitive == &iota_p ||
           (eqn.primitive == &broadcast_in_dim_p && is_shared(eqn.inputs[0]));
  }
  /// What is computed for each member, about so many operations.
  std::int64_t steps(const Eqn& eqn, MemberRole role) const;
  /// Multiplications of a product, for each member.
  std::int64_t multiplications(const Eqn& dot) const;
  /// Whether a product is best computed number by number. Matrices that members share, all or those along an axis, are
  /// better multiplied by all of these together, and larger ones by the kernels for batches of them.
  bool is_of_members(const Eqn& dot) const;

 private:
  enum class Kind : std::uint8_t { other, member, shared };
  Kind kind_of(Var v) const;
  bool moves_within(const Eqn& eqn) const;
  bool multiplies(const Eqn& eqn) const;

  const Jaxpr& jaxpr_;
  Batch batch_;
  std::vector<bool> known_;
  std::vector<Kind> kind_;
};

/// Which variables are taken apart: sets of those that equations connect.
class MemberChoice {
 public:
  /// `most`: numbers of a member, of all that is chosen. What is chosen counts.
  MemberChoice(const Jaxpr& jaxpr, std::int64_t& most);

  bool any() const { return std::find(chosen_.begin(), chosen_.end(), true) != chosen_.end(); }
  /// `none` for equations that are left as they are.
  MemberRole role(std::size_t e);
  const MemberRoles& roles() const { return roles_; }

 private:
  void weigh(std::int64_t& most);
  bool repeats_only(const Eqn& eqn) const;
  bool keeps_vectors(const Eqn& eqn) const;

  const Jaxpr& jaxpr_;
  MemberRoles roles_;
  DisjointSets sets_;
  std::vector<bool> free_;
  std::vector<MemberRole> role_;
  std::vector<bool> chosen_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
