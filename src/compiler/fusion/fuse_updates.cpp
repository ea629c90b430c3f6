// Windows that are written over computed values where the result will be: these are stored, and each window is a kernel that
// goes through nothing else.
//
//   let b = step a, c = slice[(0, 1) of columns] b, d = dynamic_update_slice b c 0 0 ->  kernel: b   kernel: c   kernel: d, in b
#include "compiler/fusion/fuser.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

// Of a value that nobody else reads: it is made where the result will be, and the window written over it. Of a window that is
// most of the result, to read it from where it is saves more.
bool Fuser::is_better_stored_under_window(int e) const {
  const Aval& out = jaxpr_.aval(eqn(e).outputs[0]);
  if (!looks_for_window(jaxpr_, eqn(e)) || weight_of(out) < kLeastUpdated ||
      jaxpr_.aval(eqn(e).inputs[1]).size() > out.size() / 2)
    return false;
  const int p = producer(eqn(e).inputs[0]);
  return p >= 0 && uses(p).size() == 1 && !is_out_[static_cast<std::size_t>(p)] &&
         (is_fusible(form(p)) || form(p) == Form::kernel) && form(p) != Form::reshape;
}

namespace {
// With more than such a part of an array written, a pass over it is as good.
constexpr std::int64_t kPart = 8;
}  // namespace

// Borders and sources of a field: what is set there depends on the field itself, which is stored for that.
void Fuser::find_small_updates(std::set<int> refused) {
  const auto is_refused = [&](int e) {
    if (is_read_for_updates(producer(eqn(e).inputs[0]), e)) return false;
    refused.insert(e);
    return true;
  };
  do small_updates_ = small_updates(refused);
  while (std::count_if(small_updates_.begin(), small_updates_.end(), is_refused) > 0);
  if (small_updates_.empty()) return;
  for (const int e : small_updates_) forms_[static_cast<std::size_t>(e)] = Form::kernel;
  find_costs();
}

std::set<int> Fuser::small_updates(const std::set<int>& refused) const {
  std::map<int, std::int64_t> written;  // elements, up to each update of a chain
  for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
    if (eqn(e).primitive != &dynamic_update_slice_p || !is_fusible(form(e)) || refused.contains(e))
      continue;
    const int p = producer(eqn(e).inputs[0]);
    if (p < 0 || weight_of(jaxpr_.aval(eqn(e).outputs[0])) < kLeastUpdated) continue;
    const auto before = written.find(p);
    if (before == written.end() && !is_stored_anyway(p)) continue;
    const std::int64_t elements =
        jaxpr_.aval(eqn(e).inputs[1]).size() + (before == written.end() ? 0 : before->second);
    if (elements <= size(e) / kPart) written.emplace(e, elements);
  }
  std::set<int> all;
  for (const auto& [e, elements] : written) all.insert(e);
  return all;
}

bool Fuser::is_stored_anyway(int e) const {
  if (is_fusible(form(e)))
    return form(e) != Form::reshape && !recomputable(e) && uses(e).size() > 1;
  return form(e) == Form::dot || form(e) == Form::kernel;
}

bool Fuser::is_read_for_updates(int e, int update) const {
  constexpr int kMostSteps = 16;
  const auto reads = std::count_if(uses(e).begin(), uses(e).end(),
                                   [&](const Use& u) { return u.consumer == update; });
  if (reads != 1 || is_out_[static_cast<std::size_t>(e)]) return false;
  return std::all_of(uses(e).begin(), uses(e).end(), [&](const Use& u) {
    int at = u.consumer;
    for (int steps = 0; at != update && steps < kMostSteps; ++steps) {
      if (!is_fusible(form(at)) || size(at) > size(e) / kPart ||
          is_out_[static_cast<std::size_t>(at)] || uses(at).empty())
        return false;
      const int next = uses(at).front().consumer;
      if (std::any_of(uses(at).begin(), uses(at).end(),
                      [&](const Use& v) { return v.consumer != next; }))
        return false;
      if (small_updates_.contains(next)) return producer(eqn(next).inputs[0]) != at;
      at = next;
    }
    return at == update;
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
