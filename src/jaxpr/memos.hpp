// What a program remembers of what was derived from it: transformed programs, executables, analyses.
//
// The bound is stated here and nowhere else: a program remembers kMaxMemos derivations, as many as a
// jitted function remembers signatures, and forgets the one that was asked for longest ago. Code that
// meets ever new keys (vmap of a jitted function with batches of every size) so holds a bounded number
// of programs. Whoever uses a memo has a handle of it: what is forgotten lives until they let go, and
// who asks for it again derives it again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

inline constexpr std::size_t kMaxMemos = 1024;

/// How many memos were forgotten, over all programs; Counters::memo_evictions.
TELAMON_API std::atomic<std::int64_t>& memo_evictions();

/// The memos of one program, by type and key. Any thread may use it at any time; deriving happens
/// outside, so that no thread waits for another's tracing.
class Memos {
 public:
  /// Null where it was not derived yet, or is forgotten.
  std::shared_ptr<const void> find(std::string_view key, std::type_index type);
  /// The memo of that key: `value`, or what another thread has published before.
  std::shared_ptr<const void> publish(std::string_view key, std::type_index type,
                                      std::shared_ptr<const void> value);

 private:
  struct Memo {
    std::type_index type;
    std::string key;
    std::shared_ptr<const void> value;
  };
  using List = std::list<Memo>;
  using Key = std::pair<std::type_index, std::string_view>;
  static Key key_of(const Memo& memo) { return {memo.type, memo.key}; }
  std::shared_ptr<const void> find_locked(const Key& key);

  std::mutex& mutex() const;  // which other programs may share

  List memos_;  // the one that was asked for last in front
  std::map<Key, List::iterator> by_key_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
