// Checkify: an interpreter over jaxprs that computes, beside the values of a program, whether one of
// its operations went wrong.
//
//   { lambda a . let b = log a in ( b ) }     becomes     { lambda a . let b = log a
//                                                                      c = ne b b
//                                                                      d = select_n c 0 1
//                                                                      in ( d, b ) }
//
// Each place where an error may arise is a site; the error is the number of the first site that
// failed, and the payload: the values that its message shows. Sites share payload slots of one type,
// because one error is told. A transformed program numbers its own sites from 1, so that it does not
// depend on who calls it; callers shift the number and merge it with their own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "control_flow/common.hpp"
#include "telamon/checkify.hpp"

namespace telamon {
inline namespace v1 {
namespace checkify_detail {

/// Sites and the types of the payload.
struct Sites {
  std::vector<detail::ErrorSite> sites;
  std::vector<Aval> slots;

  struct Mapping {
    int offset;                      // of the numbers of sites
    std::vector<std::size_t> slots;  // where each slot is
  };
  /// Appends those of another program.
  Mapping add(const Sites& other);
  /// A slot of this type that is not among `taken`.
  std::size_t slot_for(const Aval& aval, const std::vector<std::size_t>& taken);
};

/// The error so far, while a program is being interpreted.
class ErrorState {
 public:
  ErrorState();
  /// With these sites, and an error as flat arrays: code, payload.
  ErrorState(Sites sites, std::span<const Array> flat);

  /// The site failed where `failed` is true, which is a scalar.
  void record(detail::ErrorSite site, const Array& failed, const Arrays& payload);
  /// What a program with sites of its own gave: code, payload.
  void merge(const Sites& of_program, std::span<const Array> flat);
  /// The same, for sites that are here already.
  void merge(const Sites::Mapping& mapping, std::span<const Array> flat);

  const Sites& sites() const { return sites_; }
  Arrays flat() const;
  std::size_t size() const { return 1 + slots_.size(); }

 private:
  void grow();

  Sites sites_;
  Array code_;
  Arrays slots_;
};

/// The program with its error in front: inputs -> code, payload, results. Not `changed`: it cannot
/// fail, and serves as it stands.
struct CheckedProgram {
  bool changed = false;
  Jaxpr jaxpr;
  Sites sites;
};
/// A memo of the program.
std::shared_ptr<const CheckedProgram> checked_program(const Jaxpr& jaxpr, Checks checks);
/// A program with the same inputs that gives the results alone.
Jaxpr results_of(const CheckedProgram& program);
/// The error of a program at these operands, all is well if it cannot fail: code, payload.
Arrays error_of(const CheckedProgram& program, std::span<const Array> args);

/// Applies an equation and records what goes wrong (checkify_calls.cpp). nullopt: no rule.
std::optional<Arrays> checked_call(const Eqn& eqn, std::span<const Array> args, ErrorState& state,
                                   Checks checks);
/// Looks at the operands of an equation, and then at its results (checkify_checks.cpp).
void check_operands(const Eqn& eqn, std::span<const Array> args, ErrorState& state, Checks checks);
void check_results(const Eqn& eqn, std::span<const Array> results, ErrorState& state,
                   Checks checks);

}  // namespace checkify_detail
}  // namespace v1
}  // namespace telamon
