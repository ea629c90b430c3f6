// The memo slot of an executable.
#include "runtime/executable_cache.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "core/log.hpp"
#include "core/trace.hpp"
#include "runtime/history.hpp"
#include "runtime/profile.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

// By identity.
bool same_arrays(const Arrays& a, const Arrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Array& x, const Array& y) {
    return x.node_or_null() == y.node_or_null();
  });
}

// One way to compile the program. Filled under its own lock.
struct Slot {
  Slot(const Backend& chosen, const CompileOptions& options)
      : backend(&chosen),
        contract(options.contract),
        profile(options.profile),
        donated(options.donated),
        captured(options.captured),
        disabled(options.disabled) {}
  bool is_for(const Backend& chosen, const CompileOptions& options) const {
    return backend == &chosen && contract == options.contract && profile == options.profile &&
           donated == options.donated && same_arrays(captured, options.captured) &&
           disabled == options.disabled;
  }

  const Backend* backend;
  const bool contract, profile;
  const std::optional<std::vector<bool>> donated;
  const Arrays captured;
  const std::set<std::string, std::less<>> disabled;
  std::unique_ptr<Slot> next;
  std::mutex mutex;
  std::shared_ptr<const Executable> executable;
  std::atomic<bool> ready{false};
};

// All that there are for one program: a list that only grows, so that looking a slot up takes no lock
// and allocates nothing. Most programs have one.
class Slots {
 public:
  Slot& find(const Backend& backend, const CompileOptions& options) const {
    for (Slot* s = first_.load(std::memory_order_acquire); s != nullptr; s = s->next.get()) {
      if (s->is_for(backend, options)) return *s;
    }
    const std::lock_guard lock(mutex_);
    for (Slot* s = first_.load(std::memory_order_acquire); s != nullptr; s = s->next.get()) {
      if (s->is_for(backend, options)) return *s;
    }
    auto fresh = std::make_unique<Slot>(backend, options);
    fresh->next = std::move(owned_);
    owned_ = std::move(fresh);
    first_.store(owned_.get(), std::memory_order_release);
    return *owned_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Slot> owned_;
  mutable std::atomic<Slot*> first_{nullptr};
};

void log(const CompileOptions& options, detail::LogLevel level, const char* what) {
  detail::log(detail::Subsystem::cache, level,
              [&] { return "executable of " + options.name + ": " + what; });
}

}  // namespace

std::shared_ptr<const Executable> executable_for(const Jaxpr& jaxpr, const std::string& backend,
                                                 const CompileOptions& wanted) {
  CompileOptions options = wanted;
  options.profile = options.profile || profiling();
  const Backend& chosen = find_backend(backend);
  constexpr const char* kKey = "executables";
  std::shared_ptr<const void> found = jaxpr.memo_find(kKey, typeid(Slots));
  if (!found) found = jaxpr.memo_publish(kKey, typeid(Slots), std::make_shared<const Slots>());
  Slot& slot = static_cast<const Slots*>(found.get())->find(chosen, options);
  if (slot.ready.load(std::memory_order_acquire)) {
    log(options, detail::LogLevel::debug, "found again");
    return slot.executable;
  }
  const std::lock_guard lock(slot.mutex);
  if (!slot.executable) {
    const detail::EvalScope scope;  // constant folding computes, whatever is being traced above
    // An executable may keep its program, which must not keep the executable.
    slot.executable = chosen.compile(jaxpr.detached(), options);
    slot.ready.store(true, std::memory_order_release);
    log(options, detail::LogLevel::info,
        came_from_disk(slot.executable->info())
            ? "found in the disk cache and kept with its program"
            : "compiled and kept with its program");
  } else {
    log(options, detail::LogLevel::debug, "found again, compiled by another thread");
  }
  return slot.executable;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
