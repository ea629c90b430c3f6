// jit: traces a function once per signature and runs the compiled program.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "telamon/debug.hpp"
#include "telamon/detail/call.hpp"
#include "telamon/detail/identity.hpp"

namespace telamon {
inline namespace v1 {

struct JitOptions {
  std::string backend = {};  ///< "llvm" or "interpret"; "" is the default
  bool contract = false;     ///< allow a*b + c to be fused, at the cost of eager = compiled
  /// Arguments whose buffers the results may reuse; negative numbers count from the end.
  std::vector<int> donate = {};
  bool keep_unused = false;  ///< keep arguments that the program does not use
  std::string name = {};     ///< in jaxprs, logs and errors
  /// Arguments whose Arrays are compile-time constants; negative numbers count from the end.
  std::vector<int> static_argnums = {};
};

namespace detail {

/// The cache of one jitted function: signatures and their traced programs. Thread-safe; tracing
/// holds no lock, and the first of two equal traces to finish is kept.
class TELAMON_API JitCache {
 public:
  struct Entry;
  using EntryPtr = std::shared_ptr<const Entry>;

  explicit JitCache(JitOptions options);
  ~JitCache();
  JitCache(const JitCache&) = delete;
  JitCache& operator=(const JitCache&) = delete;

  /// Whether argument `arg` of `num_args` is static, or donated.
  bool is_static(std::size_t arg, std::size_t num_args) const {
    return holds(options_.static_argnums, arg, num_args);
  }
  bool is_donated(std::size_t arg, std::size_t num_args) const {
    return holds(options_.donate, arg, num_args);
  }
  /// ValueError unless all argument numbers of the options are among this many.
  void check_argnums(std::size_t num_args) const;
  const JitOptions& options() const { return options_; }

  /// The program for these traced arguments and this key of static values; null when not traced yet.
  const Entry* find(std::span<const Array> args, const KeyBuilder& key) const;
  /// Traces f and remembers the program, unless it captured a tracer. `prototype` gives the
  /// structure of the result after the trace.
  EntryPtr trace(const FlatFunction& f, std::span<const Array> args, const KeyBuilder& key,
                 const std::vector<bool>& donated,
                 const std::function<std::shared_ptr<const void>()>& prototype);
  /// Traces f once more: ValueError when the program is another one, because f captured something
  /// that has changed since.
  void check_constants(const Entry& entry, const FlatFunction& f,
                       std::span<const Array> args) const;
  /// Runs the program: the executable when nothing is being traced, else a jit equation.
  void call(const Entry& entry, std::span<const Array> args, Arrays& results) const;
  static const void* prototype(const Entry& entry);
  /// The number of signatures traced.
  std::size_t size() const;

 private:
  static bool holds(const std::vector<int>& argnums, std::size_t arg, std::size_t num_args) {
    for (const int i : argnums) {
      if (static_cast<std::size_t>(i < 0 ? i + static_cast<int>(num_args) : i) == arg) return true;
    }
    return false;
  }

  JitOptions options_;
  const char* call_name_;     // lives forever
  mutable std::mutex mutex_;  // guards publication
  std::vector<EntryPtr> owned_;
  std::atomic<const Entry*> newest_{nullptr};  // a list that only grows
};

/// Appends the value of a static array to a key; an error on a tracer.
TELAMON_API void add_static_array(KeyBuilder& key, const Array& x, std::size_t arg);

template <class F>
struct JitState {
  JitState(F f, JitOptions options, bool is_shared)
      : callee(std::move(f)), cache(std::move(options)), shared(is_shared) {}
  Callee<F> callee;
  JitCache cache;
  bool shared;  // among all callables of this code identity
};

TELAMON_API void add_options(KeyBuilder& key, const JitOptions& options);

/// The state for this callable: shared with equal code where that is known, else a new one.
template <class F>
std::shared_ptr<JitState<F>> jit_state(F f, JitOptions options) {
  KeyBuilder key;
  if (!code_identity(f, key))
    return std::make_shared<JitState<F>>(std::move(f), std::move(options), false);
  add_options(key, options);
  struct Table {
    std::mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<JitState<F>>> states;
  };
  static auto* const table = new Table;  // leaked: usable before and after main
  const std::lock_guard lock(table->mutex);
  auto& state = table->states[std::string(key.view())];
  if (!state) state = std::make_shared<JitState<F>>(std::move(f), std::move(options), true);
  return state;
}

template <class F>
class Jitted {
 public:
  Jitted(F f, JitOptions options) : state_(jit_state(std::move(f), std::move(options))) {}
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const {
    key.add(static_cast<const void*>(state_.get()));
    return state_->shared;
  }

  template <class... X>
  auto operator()(const X&... x) const {
    return run<bound_arguments<F, X...>>(bind_references<F>(x...));
  }
  /// How many signatures have been traced.
  std::size_t cache_size() const { return state_->cache.size(); }

 private:
  template <class Args, class References>
  auto run(const References& args) const {
    using Result = std::decay_t<decltype(std::apply(*state_->callee, std::declval<Args&>()))>;
    constexpr std::size_t kNumArgs = std::tuple_size_v<References>;
    JitCache& cache = state_->cache;
    Arrays leaves;
    leaves.reserve(8);
    KeyBuilder key;
    for_each_argument(args, [&](const auto& arg, std::size_t i) {
      if (!cache.is_static(i, kNumArgs)) {
        flatten_into(arg, leaves, "jit");
        hash_static(arg, key);
      } else {
        hash_static(arg, key);
        for (const Array& x : tree_leaves(arg)) add_static_array(key, x, i);
      }
    });
    JitCache::EntryPtr owner;
    const JitCache::Entry* entry = cache.find(leaves, key);
    if (!entry) {
      owner = trace<Result>(Args(args), leaves, key);
      entry = owner.get();
    } else if (check_constants()) {
      const Args copies(args);
      std::shared_ptr<const void> ignored;
      cache.check_constants(*entry, flat_function<Result>(copies, ignored), leaves);
    }
    Arrays results;
    cache.call(*entry, leaves, results);
    if constexpr (std::is_same_v<Result, Array>) return std::move(results[0]);
    else return with_leaves(*static_cast<const Result*>(JitCache::prototype(*entry)), results);
  }

  // f over the traced leaves. Each call leaves the structure of its result in `prototype`.
  template <class Result, class Args>
  FlatFunction flat_function(const Args& args, std::shared_ptr<const void>& prototype) const {
    return [this, &args, &prototype](std::span<const Array> tracers) {
      Args traced = args;
      const Array* next = tracers.data();
      for_each_argument(traced, [&](auto& arg, std::size_t i) {
        if (state_->cache.is_static(i, std::tuple_size_v<Args>)) return;
        CountVisitor count;
        walk_tree(arg, count);
        AssignVisitor assign(next);
        walk_tree(arg, assign);
        next += count.leaves;
      });
      Result result = std::apply(*state_->callee, traced);
      Arrays outs;
      flatten_into(result, outs, "the result of a jitted function");
      prototype = std::make_shared<const Result>(without_leaves(std::move(result)));
      return outs;
    };
  }

  template <class Result, class Args>
  JitCache::EntryPtr trace(const Args& args, const Arrays& leaves, const KeyBuilder& key) const {
    constexpr std::size_t kNumArgs = std::tuple_size_v<Args>;
    JitCache& cache = state_->cache;
    cache.check_argnums(kNumArgs);
    std::vector<bool> donated;
    for_each_argument(args, [&](const auto& arg, std::size_t i) {
      if (cache.is_static(i, kNumArgs)) return;
      CountVisitor count;
      walk_tree(arg, count);
      donated.insert(donated.end(), count.leaves, cache.is_donated(i, kNumArgs));
    });
    std::shared_ptr<const void> prototype;
    return cache.trace(flat_function<Result>(args, prototype), leaves, key, donated,
                       [&] { return prototype; });
  }

  template <class Args, class Visit>
  static void for_each_argument(Args& args, Visit visit) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (visit(std::get<I>(args), I), ...);
    }(std::make_index_sequence<std::tuple_size_v<std::remove_const_t<Args>>>());
  }

  std::shared_ptr<JitState<F>> state_;  // copies share the cache
};

}  // namespace detail

/// Compiles f: traced once per signature (structure, shapes, dtypes and static values of the
/// arguments), run as one native program. Copies share the cache. What f captures by value is frozen
/// into the program, so pass what changes as an argument.
///   auto step = tl::jit(train_step, {.donate = {0}, .name = "step"});
template <class F>
auto jit(F f, JitOptions options = {}) {
  return detail::Jitted<F>(std::move(f), std::move(options));
}

}  // namespace v1
}  // namespace telamon
