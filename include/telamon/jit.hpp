// jit: traces a function once per signature and runs the compiled program.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "telamon/debug.hpp"
#include "telamon/detail/array_lists.hpp"
#include "telamon/detail/call.hpp"
#include "telamon/detail/identity.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/lowered.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
class Executable;
struct ReadingThread;
}  // namespace runtime

struct JitOptions {
  // Of nested jitted functions the outermost one's backend and contract hold: all is one program.
  std::string backend = {};  ///< "llvm" or "interpret"; "" is the default
  bool contract = false;     ///< allow a*b + c to be fused, at the cost of eager = compiled
  /// Arguments whose buffers the results may reuse; negative numbers count from the end.
  std::vector<int> donate = {};
  bool keep_unused = false;  ///< keep arguments that the program does not use
  std::string name = {};     ///< in jaxprs, logs and errors
  /// Arguments whose Arrays are compile-time constants; negative numbers count from the end.
  std::vector<int> static_argnums = {};
  /// The most signatures whose programs are remembered: beyond, the one that was called longest ago is
  /// forgotten, and its code freed.
  int max_signatures = 1024;
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
  /// ValueError unless all argument numbers of the options are among this many, and none is both
  /// static and donated.
  void check_argnums(std::size_t num_args) const;
  /// ValueError: argument `arg` is donated, and its type has no arrays.
  [[noreturn]] void nothing_to_donate(std::size_t arg) const;
  const JitOptions& options() const { return options_; }
  const char* call_text() const { return call_text_; }  ///< "jit(loss)", which lives forever

  /// The program for these traced arguments and this key of static values; null when not traced yet.
  const Entry* find(std::span<const Array> args, const KeyBuilder& key) const;
  /// The same, but null too where the function has to be looked at again (check_constants()).
  const Entry* find_settled(std::span<const Array> args, const KeyBuilder& key) const;
  /// Traces f and remembers the program, unless it captured a tracer. After the trace `prototype`
  /// holds the structure of the result.
  EntryPtr trace(const FlatFunction& f, std::span<const Array> args, const KeyBuilder& key,
                 const std::vector<bool>& donated, const std::shared_ptr<const void>& prototype);
  /// Traces f once more: ValueError when the program is another one, because f captured something
  /// that has changed since.
  void check_constants(const Entry& entry, const FlatFunction& f,
                       std::span<const Array> args) const;
  /// What keeps an entry that was found alive when its call has ended.
  static EntryPtr owner(const Entry& entry);
  /// What `lower` of a jitted function gives. `owner` keeps the entry alive.
  std::shared_ptr<const LoweredProgram> lowered(EntryPtr owner) const;
  /// Says on standard error why there is no program yet for this signature: what differs from the
  /// nearest one that there is. `names` are those of the leaves, `statics` what each argument holds
  /// besides arrays. `function`: the same for functions that may be one and the same.
  void explain_miss(std::span<const Array> args, const KeyBuilder& key,
                    const std::vector<std::string>& names, std::vector<std::string> statics,
                    const void* function, SourceLocation where);
  /// TypeError unless these are the arguments that the program was compiled for.
  void check_compiled_for(const Entry& entry, std::span<const Array> args, const KeyBuilder& key,
                          const std::vector<std::string>& names) const;
  /// Runs the program: the executable when nothing is being traced, else a jit equation. The
  /// caller's arguments are held by others, and only looked at.
  void call(const Entry& entry, std::span<const Array> args, std::span<Array> results) const;
  /// The same where there are as many results as the program has. Returns the prototype.
  const void* call(const Entry& entry, std::span<const Array> args, ArrayPlaces& results) const;
  /// The number of signatures traced.
  std::size_t size() const;

 private:
  void call_in_context(const Entry& entry, std::span<const Array> args,
                       std::span<Array> results) const;
  void call_with_constants(const Entry& entry, std::span<const Array> args,
                           std::span<Array> results) const;
  void run(const runtime::Executable& executable, const Entry& entry, std::span<const Array> args,
           std::span<const Array> inputs, std::span<Array> results) const;
  void forget_oldest();
  const Entry* find_in_list(std::span<const Array> args, const KeyBuilder& key) const;
  static bool holds(const std::vector<int>& argnums, std::size_t arg, std::size_t num_args) {
    for (const int i : argnums) {
      if (static_cast<std::size_t>(i < 0 ? i + static_cast<int>(num_args) : i) == arg) return true;
    }
    return false;
  }

  JitOptions options_;
  const char* call_name_;  // live forever
  const char* call_text_;
  struct Misses;  // that have been explained
  std::unique_ptr<Misses> misses_;
  mutable std::mutex mutex_;  // guards publication
  std::vector<EntryPtr> owned_;
  std::atomic<const Entry*> newest_{nullptr};        // newest first; forgotten ones are taken out
  mutable std::atomic<const Entry*> last_{nullptr};  // the one that was called last
  mutable std::atomic<std::uint64_t> clock_{0};
};

/// Appends the value of a static array to a key. ConcretizationError on a tracer, even on one whose
/// value is known: the program would hold the value as a constant, without its derivative.
TELAMON_API void add_static_array(KeyBuilder& key, const Array& x, std::size_t arg);

/// A call of a jitted function: where its errors arise, and that its program must not be freed.
class TELAMON_API JitCall {
 public:
  explicit JitCall(SourceLocation where);
  ~JitCall();
  JitCall(const JitCall&) = delete;
  JitCall& operator=(const JitCall&) = delete;

 private:
  TransformSite site_;
  runtime::ReadingThread& reading_;
};

/// What a jitted callable and its copies share.
struct TELAMON_API JitState {
  explicit JitState(JitOptions options) : cache(std::move(options)) {}
  virtual ~JitState() = default;
  JitCache cache;
  bool shared = false;  // among all callables of this code identity
};
template <class F>
struct JitStateOf final : JitState {
  JitStateOf(F f, JitOptions options) : JitState(std::move(options)), callee(std::move(f)) {}
  Callee<F> callee;
};
using JitStatePtr = std::shared_ptr<JitState>;

/// The key of a callable's type, code identity and options; and what is shared under such a key.
TELAMON_API std::string jit_key(const void* type, const KeyBuilder& identity,
                                const JitOptions& options);
TELAMON_API JitStatePtr find_jit_state(const std::string& key);
/// The state that is shared from now on: this one, unless another came first.
TELAMON_API JitStatePtr share_jit_state(const std::string& key, JitStatePtr state);

/// The state for this callable: shared with equal code where that is known, else a new one.
template <class F>
JitStatePtr jit_state(F f, JitOptions options) {
  KeyBuilder identity;
  const bool known = code_identity(f, identity);
  const std::string key = known ? jit_key(&type_tag<F>, identity, options) : std::string();
  if (known) {
    if (JitStatePtr state = find_jit_state(key)) return state;
  }
  JitStatePtr state(static_cast<JitState*>(new JitStateOf<F>(std::move(f), std::move(options))));
  return known ? share_jit_state(key, std::move(state)) : state;
}

// What follows depends on the types of the arguments only, not on the callable: compiled once for
// all callables of one signature.
template <class Args, class Visit>
void for_each_argument(Args& args, const Visit& visit) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (visit(std::get<I>(args), I), ...);
  }(std::make_index_sequence<std::tuple_size_v<std::remove_const_t<Args>>>());
}

/// Appends the traced leaves of an argument, and to the key what else the signature of a call has of it.
template <class X>
[[gnu::noinline]] void flatten_argument(const JitCache& cache, const X& arg, std::size_t i,
                                        std::size_t num_args, BorrowedArrays& leaves,
                                        KeyBuilder& key) {
  if (!cache.is_static(i, num_args)) {
    flatten_into(arg, leaves, cache.call_text(), i);
    hash_static(arg, key);
  } else {
    hash_static(arg, key);
    Arrays constants;
    flatten_into(arg, constants, cache.call_text(), i);
    for (const Array& x : constants) add_static_array(key, x, i);
  }
}
/// The same of all arguments. Arrays, which most are, take a few instructions each.
template <class Args>
void flatten_arguments(const JitCache& cache, const Args& args, BorrowedArrays& leaves,
                       KeyBuilder& key) {
  for_each_argument(args, [&](const auto& arg, std::size_t i) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(arg)>, Array>) {
      if (!cache.is_static(i, std::tuple_size_v<Args>) && arg.has_value()) [[likely]]
        return leaves.push_back(arg);
    }
    flatten_argument(cache, arg, i, std::tuple_size_v<Args>, leaves, key);
  });
}

/// Replaces the traced leaves.
template <class Args>
void assign_arguments(const JitCache& cache, Args& args, const Array* next) {
  for_each_argument(args, [&](auto& arg, std::size_t i) {
    if (cache.is_static(i, std::tuple_size_v<Args>)) return;
    CountVisitor count;
    walk_tree(arg, count);
    AssignVisitor assign(next);
    walk_tree(arg, assign);
    next += count.leaves;
  });
}

/// Of each traced leaf, whether its buffer may be reused.
template <class Args>
std::vector<bool> donated_leaves(const JitCache& cache, const Args& args) {
  cache.check_argnums(std::tuple_size_v<Args>);
  std::vector<bool> donated;
  for_each_argument(args, [&](const auto& arg, std::size_t i) {
    if (cache.is_static(i, std::tuple_size_v<Args>)) return;
    const bool donate = cache.is_donated(i, std::tuple_size_v<Args>);
    if constexpr (!holds_array<std::remove_cvref_t<decltype(arg)>>()) {
      if (donate) cache.nothing_to_donate(i);
    }
    CountVisitor count;
    walk_tree(arg, count);
    donated.insert(donated.end(), count.leaves, donate);
  });
  return donated;
}

/// The names of the traced leaves: "args[0].w".
template <class Args>
std::vector<std::string> leaf_names_of(const JitCache& cache, const Args& args) {
  std::vector<std::string> names;
  for_each_argument(args, [&](const auto& arg, std::size_t i) {
    if (cache.is_static(i, std::tuple_size_v<Args>)) return;
    for (const KeyPath& path : tree_structure(arg).leaf_paths())
      names.push_back(path.to_string("args[" + std::to_string(i) + "]"));
  });
  return names;
}
/// What each argument holds besides traced leaves, as text.
template <class Args>
std::vector<std::string> statics_of(const JitCache& cache, const Args& args) {
  std::vector<std::string> statics;
  for_each_argument(args, [&](const auto& arg, std::size_t i) {
    std::string text = tree_structure(arg).to_string();
    if (cache.is_static(i, std::tuple_size_v<Args>)) {
      if (std::is_same_v<std::remove_cvref_t<decltype(arg)>, Array>) text.clear();
      for (const Array& x : tree_leaves(arg, {})) text += (text.empty() ? "" : " ") + x.to_string();
    }
    statics.push_back(std::move(text));
  });
  return statics;
}

/// The leaves of the result of a jitted function, and its structure in `prototype`.
template <class Result>
Arrays flatten_result(Result result, std::shared_ptr<const void>& prototype) {
  Arrays outs;
  flatten_into(result, outs, "the result of a jitted function");
  prototype = std::make_shared<const Result>(without_leaves(std::move(result)));
  return outs;
}

template <class F>
class Jitted {
 public:
  Jitted(F f, JitOptions options, SourceLocation where)
      : state_(jit_state(std::move(f), std::move(options))), where_(where) {}
  // No moves: a moved-from one is a copy, and stays valid.
  Jitted(const Jitted&) = default;
  Jitted& operator=(const Jitted&) = default;
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const {
    key.add(static_cast<const void*>(state_.get()));
    return state_->shared;
  }

  template <class... X>
  auto operator()(const X&... x) const {
    const JitCall call(where_);  // what is wrong before the trace names jit itself
    return naming_lack_of_memory(state_->cache.call_text(), [&] {
      return run<bound_arguments<F, X...>>(bind_references<F>(x...));
    });
  }
  /// How many signatures have been traced.
  std::size_t cache_size() const { return state_->cache.size(); }

  class LoweredCall;
  /// The program for these arguments, traced unless it is known, to be looked at and compiled.
  template <class... X>
  LoweredCall lower(const X&... x) const {
    const JitCall call(where_);
    return naming_lack_of_memory(state_->cache.call_text(), [&] {
      const bound_arguments<F, X...> args = bind_args<F>(x...);
      BorrowedArrays leaves;  // of `args`
      KeyBuilder key;
      flatten_arguments(state_->cache, args, leaves, key);
      const JitCache::Entry* known = state_->cache.find(leaves, key);
      JitCache::EntryPtr entry = known ? JitCache::owner(*known) : trace(args, leaves, key);
      return LoweredCall(*this, std::move(entry));
    });
  }

 private:
  F& callee() const { return *static_cast<const JitStateOf<F>&>(*state_).callee; }
  // Equal for callables that may be the same function. Those that are known by their code share a state.
  const void* function() const {
    if (state_->shared) return state_.get();
    return &type_tag<F>;
  }

  // The callee over leaves. Each call leaves the structure of its result in `prototype`.
  template <class Args>
  FlatFunction flat(const Args& args, std::shared_ptr<const void>& prototype) const {
    using Result = ReturnedBy<F, Args>;
    return [this, &args, &prototype](std::span<const Array> tracers) {
      Args traced = args;
      assign_arguments(state_->cache, traced, tracers.data());
      return flatten_result<Result>(returned_by(callee(), traced), prototype);
    };
  }
  template <class Args>
  JitCache::EntryPtr trace(const Args& args, std::span<const Array> leaves,
                           const KeyBuilder& key) const {
    JitCache& cache = state_->cache;
    if (explain_cache_misses())
      cache.explain_miss(leaves, key, leaf_names_of(cache, args), statics_of(cache, args),
                         function(), where_);
    std::shared_ptr<const void> prototype;
    const FlatFunction f = flat(args, prototype);
    return cache.trace(f, leaves, key, donated_leaves(cache, args), prototype);
  }

  template <class Args, class References>
  auto run(const References& args) const {
    using Result = ReturnedBy<F, Args>;
    JitCache& cache = state_->cache;
    BorrowedArrays leaves;  // of `args`
    KeyBuilder key;
    flatten_arguments(cache, args, leaves, key);
    const JitCache::Entry* entry = cache.find_settled(leaves, key);
    if (!entry) [[unlikely]]
      return run_anew<Args, Result>(args, leaves, key);
    return result_of<Result>(*entry, leaves);
  }
  // Apart, for it needs room on the stack that is cleared.
  template <class Args, class Result>
  [[gnu::noinline]] Result run_anew(const Args& held, std::span<const Array> leaves,
                                    const KeyBuilder& key) const {
    JitCache& cache = state_->cache;
    JitCache::EntryPtr owner;
    const JitCache::Entry* entry = cache.find(leaves, key);
    if (entry) {
      std::shared_ptr<const void> prototype;
      cache.check_constants(*entry, flat(held, prototype), leaves);
    } else {
      owner = trace(held, leaves, key);
      entry = owner.get();
    }
    return result_of<Result>(*entry, leaves);
  }

  template <class Result>
    requires std::is_same_v<Result, Array>
  Array result_of(const JitCache::Entry& entry, std::span<const Array> leaves) const {
    Array result;
    state_->cache.call(entry, leaves, {&result, 1});
    return result;
  }
  // The result is a variable of the function's own block: made where the caller wants it, and not moved.
  template <class Result>
  Result result_of(const JitCache::Entry& entry, std::span<const Array> leaves) const {
    ArrayPlaces places;
    Result result = *static_cast<const Result*>(state_->cache.call(entry, leaves, places));
    TakeVisitor take(places.data());
    walk_tree(result, take);
    places.forget();  // the prototype has no leaves
    return result;
  }

  JitStatePtr state_;     // copies share the cache
  SourceLocation where_;  // where the function was jitted
};

/// A Lowered whose executable can be called like the function.
template <class F>
class Jitted<F>::LoweredCall : public Lowered {
 public:
  class CompiledCall : public Compiled {
   public:
    CompiledCall(Compiled compiled, const LoweredCall& from)
        : Compiled(std::move(compiled)), f_(from.f_), entry_(from.entry_) {}
    template <class... X>
    auto operator()(const X&... x) const {
      const JitCache& cache = f_.state_->cache;
      return in_function(cache.call_text(), f_.where_, [&] {
        const auto args = bind_args<F>(x...);
        BorrowedArrays leaves;  // of `args`
        KeyBuilder key;
        flatten_arguments(cache, args, leaves, key);
        cache.check_compiled_for(*entry_, leaves, key, leaf_names_of(cache, args));
        return f_(x...);
      });
    }

   private:
    Jitted f_;
    JitCache::EntryPtr entry_;
  };

  LoweredCall(Jitted f, JitCache::EntryPtr entry)
      : Lowered(f.state_->cache.lowered(entry)), f_(std::move(f)), entry_(std::move(entry)) {}
  CompiledCall compile() const { return CompiledCall(Lowered::compile(), *this); }

 private:
  Jitted f_;
  JitCache::EntryPtr entry_;
};

}  // namespace detail

/// Compiles f: traced once per signature (structure, shapes, dtypes and static values of the
/// arguments), run as one native program. Copies share the cache. What f captures by value is frozen
/// into the program, so pass what changes as an argument.
///   auto step = tl::jit(train_step, {.donate = {0}, .name = "step"});
template <class F>
auto jit(F f, JitOptions options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::in_function(
      "jit", where, [&] { return detail::Jitted<F>(std::move(f), std::move(options), where); });
}

}  // namespace v1
}  // namespace telamon
