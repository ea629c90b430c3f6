// Loops and branches, and what they hand to the programs within them.
#include "compiler/passes/regions.hpp"

#include <utility>

#include "jaxpr/builder.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

std::vector<Region> regions_of(const Eqn& e) {
  if (e.primitive == &scan_p) {
    const auto& p = e.params.as<ScanParams>();
    return {{&p.jaxpr, p.num_consts, 0}};
  }
  if (e.primitive == &while_p) {
    const auto& p = e.params.as<WhileParams>();
    return {{&p.cond_jaxpr, p.cond_nconsts, 0},
            {&p.body_jaxpr, p.body_nconsts, static_cast<std::size_t>(p.cond_nconsts)}};
  }
  std::vector<Region> regions;
  if (e.primitive == &cond_p) {
    for (const Jaxpr& branch : e.params.as<CondParams>().branches)
      regions.push_back({&branch, branch.num_inputs(), 1});
  }
  return regions;
}

// A branch that takes the constants of all branches, of which those from `first` on are its own.
static Jaxpr taking_all(const Jaxpr& branch, std::size_t first, std::size_t num_own,
                        const Avals& all) {
  if (num_own == all.size()) return branch;
  detail::JaxprBuilder b;
  Atoms inputs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Atom a = Atom::var(b.add_input(all[i]));
    if (i >= first && i < first + num_own) inputs.push_back(a);
  }
  for (int i = static_cast<int>(num_own); i < branch.num_inputs(); ++i)
    inputs.push_back(Atom::var(b.add_input(branch.aval(i))));
  return b.build(b.inline_jaxpr(branch, inputs), detail::JaxprBuilder::DeadCode::keep).jaxpr;
}

Params with_constants(const Eqn& e, const std::vector<Jaxpr>& programs,
                      const std::vector<Atoms>& constants, Atoms& operands) {
  const auto insert = [&](std::size_t where, const Atoms& atoms) {
    operands.insert(operands.begin() + static_cast<std::ptrdiff_t>(where), atoms.begin(),
                    atoms.end());
    return static_cast<int>(atoms.size());
  };
  if (e.primitive == &scan_p) {
    ScanParams p = e.params.as<ScanParams>();
    p.jaxpr = programs[0];
    p.num_consts += insert(0, constants[0]);
    return Params::of(std::move(p));
  }
  if (e.primitive == &while_p) {
    WhileParams p = e.params.as<WhileParams>();
    p.cond_jaxpr = programs[0];
    p.body_jaxpr = programs[1];
    p.body_nconsts += insert(static_cast<std::size_t>(p.cond_nconsts), constants[1]);
    p.cond_nconsts += insert(0, constants[0]);
    return Params::of(std::move(p));
  }
  Avals all;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    for (std::size_t i = 0; i < constants[k].size(); ++i)
      all.push_back(programs[k].aval(static_cast<Var>(i)));
  }
  CondParams p;
  std::size_t first = 0;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    p.branches.push_back(taking_all(programs[k], first, constants[k].size(), all));
    first += static_cast<std::size_t>(insert(1 + first, constants[k]));
  }
  return Params::of(std::move(p));
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
