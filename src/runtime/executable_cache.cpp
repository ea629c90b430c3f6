// Executables as memos: the key, and the slot that is filled on first use.
#include "runtime/executable_cache.hpp"

#include <atomic>
#include <mutex>
#include <string>

#include "core/log.hpp"
#include "core/process_mutex.hpp"
#include "core/trace.hpp"
#include "runtime/history.hpp"
#include "runtime/profile.hpp"
#include "telamon/detail/key.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

// The program compiled in one way. Filled under its own lock.
struct Slot {
  explicit Slot(const Arrays& in_key) : captured(in_key) {}
  const Arrays captured;  // which the key has by address: nothing else may come to lie there
  mutable detail::ProcessMutex mutex;
  mutable std::shared_ptr<const Executable> executable;
  mutable std::atomic<bool> ready{false};
};

// What tells ways to compile apart. Most keys are ten bytes, which need no memory of their own.
detail::KeyBuilder key_of(const Backend& backend, const CompileOptions& options) {
  detail::KeyBuilder key;
  key.add(static_cast<const void*>(&backend));
  key.add(static_cast<char>(options.contract | options.profile << 1 |
                            options.donated.has_value() << 2 | !options.captured.empty() << 3));
  key.add(static_cast<char>(options.disabled.size()));  // there are fewer passes than that
  for (const std::string& name : options.disabled) key.add_string(name);
  if (!options.captured.empty()) {
    key.add(options.captured.size());
    for (const Array& x : options.captured) key.add(static_cast<const void*>(x.node_or_null()));
  }
  if (options.donated) {
    for (const bool donated : *options.donated) key.add(donated);
  }
  return key;
}

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
  const detail::KeyBuilder key = key_of(chosen, options);
  std::shared_ptr<const void> found = jaxpr.memo_find(key.view(), typeid(Slot));
  if (!found)
    found = jaxpr.memo_publish(key.view(), typeid(Slot),
                               std::make_shared<const Slot>(options.captured));
  const auto& slot = *static_cast<const Slot*>(found.get());
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
