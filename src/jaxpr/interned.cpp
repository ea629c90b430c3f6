// Remembers programs that were traced lately: bodies of loops and branches, and jitted functions that
// captured a tracer. Each call traces them again.
#include "jaxpr/interned.hpp"

#include <list>
#include <mutex>
#include <unordered_map>

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr std::size_t kCapacity = 1024;

// Programs by hash, the one used last in front.
class Table {
 public:
  Jaxpr find_or_add(const Jaxpr& jaxpr) {
    const std::size_t hash = jaxpr.hash();
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (!(*it->second == jaxpr)) continue;
      programs_.splice(programs_.begin(), programs_, it->second);
      return *it->second;
    }
    programs_.push_front(jaxpr);
    by_hash_.emplace(hash, programs_.begin());
    if (programs_.size() > kCapacity) forget_oldest();
    return jaxpr;
  }

 private:
  void forget_oldest() {
    const auto oldest = std::prev(programs_.end());
    const auto [begin, end] = by_hash_.equal_range(oldest->hash());
    for (auto it = begin; it != end; ++it) {
      if (it->second != oldest) continue;
      by_hash_.erase(it);
      break;
    }
    programs_.erase(oldest);
  }

  std::mutex mutex_;
  std::list<Jaxpr> programs_;
  std::unordered_multimap<std::size_t, std::list<Jaxpr>::iterator> by_hash_;
};

}  // namespace

Jaxpr interned(const Jaxpr& jaxpr) {
  static auto* const table = new Table;  // leaked: usable while the process ends
  return table->find_or_add(jaxpr);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
