// Rules of custom derivatives that are programs, as files bring them.
#pragma once

#include <memory>
#include <optional>

#include "telamon/detail/custom_calls.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {

/// The rules of one file. A rule may call its own function, so programs of rules refer to rules only
/// by number; when a rule is applied, these numbers become rules that keep the set alive.
class RuleSet : public std::enable_shared_from_this<RuleSet> {
 public:
  RuleSet();
  /// Reserves a number, before the rule is read.
  int add();
  void set_jvp(int number, std::size_t num_results, ClosedJaxpr jvp);
  void set_vjp(int number, std::size_t num_results, ClosedJaxpr fwd, ClosedJaxpr bwd);

  /// The rule of that number; for programs of rules (`inside`), only a reference to it. Null: none.
  detail::JvpRule jvp(int number, bool inside) const;
  detail::VjpForward fwd(int number, bool inside) const;

 private:
  struct Rule {
    std::size_t num_results = 0;
    std::optional<ClosedJaxpr> jvp, fwd, bwd;
  };
  const Rule& at(int number) const { return rules_[static_cast<std::size_t>(number)]; }
  std::string key(const char* kind, int number, bool inside) const;
  std::optional<int> referred(const std::string& rule, const char* kind) const;
  /// The program with its references to rules made rules.
  Jaxpr resolved(const Jaxpr& jaxpr) const;
  Arrays apply(const ClosedJaxpr& program, Arrays args) const;
  JvpResult apply_jvp(int number, std::span<const Array> primals,
                      std::span<const Tangent> tangents) const;
  detail::ForwardResult apply_fwd(int number, std::span<const Array> args) const;
  std::vector<Tangent> apply_bwd(int number, const std::vector<Aval>& avals,
                                 std::span<const Array> residuals,
                                 std::span<const Tangent> cts) const;

  std::uint64_t identity_;
  std::vector<Rule> rules_;
};

}  // namespace interop
}  // namespace v1
}  // namespace telamon
