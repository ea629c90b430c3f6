// Params: access to the jaxprs among the parameters, which only passes need.
#include "telamon/jaxpr.hpp"
#include "telamon/params.hpp"

namespace telamon {
inline namespace v1 {

std::vector<Jaxpr> Params::jaxprs() const {
  std::vector<Jaxpr> out;
  if (has_jaxprs()) node_->table->collect_jaxprs(*node_, out);
  return out;
}

Params Params::with_jaxprs(const std::vector<Jaxpr>& jaxprs) const {
  if (has_jaxprs()) return node_->table->replace_jaxprs(*node_, jaxprs);
  if (!jaxprs.empty()) detail::wrong_jaxpr_count(0, jaxprs.size());
  return *this;
}

}  // namespace v1
}  // namespace telamon
