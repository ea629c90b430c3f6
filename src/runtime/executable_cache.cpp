// The memo slot of an executable.
#include "runtime/executable_cache.hpp"

#include <atomic>
#include <mutex>

#include "core/trace.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

// Published empty, so that threads agree on one slot, and filled under its own lock.
struct Slot {
  mutable std::mutex mutex;
  mutable std::shared_ptr<const Executable> executable;
  mutable std::atomic<bool> ready{false};
};

// An executable may keep its program, and the program keeps the executable: a copy of the program
// breaks the cycle.
Jaxpr detached(const Jaxpr& jaxpr) {
  return Jaxpr(jaxpr.num_inputs(), jaxpr.avals(), jaxpr.eqns(), jaxpr.outs());
}

}  // namespace

std::shared_ptr<const Executable> executable_for(const Jaxpr& jaxpr, const std::string& backend,
                                                 const CompileOptions& options) {
  const Backend& chosen = find_backend(backend);
  std::string key =
      "executable:" + std::string(chosen.name()) + (options.contract ? ":contract" : "");
  for (const std::string& pass : options.disabled) key += ":-" + pass;
  std::shared_ptr<const void> found = jaxpr.memo_find(key, typeid(Slot));
  if (!found) found = jaxpr.memo_publish(key, typeid(Slot), std::make_shared<const Slot>());
  const auto& slot = *static_cast<const Slot*>(found.get());
  if (slot.ready.load(std::memory_order_acquire)) return slot.executable;
  const std::lock_guard lock(slot.mutex);
  if (!slot.executable) {
    const detail::EvalScope scope;  // constant folding computes, whatever is being traced above
    slot.executable = chosen.compile(detached(jaxpr), options);
    slot.ready.store(true, std::memory_order_release);
  }
  return slot.executable;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
