// The cache behind a jitted function.
#include "telamon/jit.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/kept_names.hpp"
#include "core/log.hpp"
#include "core/nans.hpp"
#include "core/process_mutex.hpp"
#include "core/size_errors.hpp"
#include "core/switches.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "jaxpr/interned.hpp"
#include "runtime/executable_cache.hpp"
#include "runtime/history.hpp"
#include "runtime/profile.hpp"
#include "runtime/reclaim.hpp"
#include "telamon/detail/text.hpp"
#include "telamon/primitives.hpp"
#include "transforms/explain_misses.hpp"
#include "transforms/lowered.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

struct JitCache::Entry : std::enable_shared_from_this<JitCache::Entry> {
  // What tells signatures apart.
  std::size_t hash = 0;
  std::size_t num_args = 0;
  std::vector<std::int64_t> types;  // of the arguments, one after the other: type_word, shape
  std::string key;
  DType default_float = DType::f32, default_int = DType::i32;

  ClosedJaxpr program;                       // over the kept arguments
  std::vector<std::size_t> kept;             // arguments that the program uses
  bool takes_arguments_as_they_are = false;  // all, and it has no constants
  std::vector<bool> donated;                 // per input of the program; empty when there is none
  int donated_unused = 0;                    // that are no inputs of the program
  mutable std::atomic<bool> told_of_kept{false};  // the log says why donated arguments keep memory
  std::size_t num_results = 0;
  std::shared_ptr<const void> prototype;
  mutable std::atomic<const Entry*> next{nullptr};
  mutable bool forgotten = false;  // guarded by the cache's mutex
  mutable std::atomic<std::uint64_t> last_call{
      0};  // by the cache's clock; only when signatures change

  // Set once, by whoever calls first without a trace under way.
  mutable std::shared_ptr<const runtime::Executable> executable, profiled;
  mutable std::atomic<const runtime::Executable*> ready{nullptr};
  /// The same where it can be run with the arguments as they are, if those are dense.
  mutable std::atomic<const runtime::Executable*> plain{nullptr};
  mutable ProcessMutex mutex;

  bool is_for(std::span<const Array> args, std::string_view static_key) const;
  Signature signature() const;
  bool same_signature(const Entry& o) const {
    return hash == o.hash && num_args == o.num_args && types == o.types && key == o.key &&
           default_float == o.default_float && default_int == o.default_int;
  }
};

namespace {

// All of a type but the sizes; the number of sizes included.
std::int64_t type_word(const Aval& a) {
  return static_cast<std::int64_t>(a.shape.size()) << 16 |
         static_cast<std::int64_t>(a.weak_type) << 8 | static_cast<std::int64_t>(a.dtype);
}
const Aval& aval_of(const Array& x) { return x.node_or_null()->aval(); }  // there is one

std::size_t signature_hash(std::span<const Array> args, const KeyBuilder& key) {
  std::size_t h = key.hash();
  const auto mix = [&](std::int64_t v) {
    h = (h ^ static_cast<std::size_t>(v)) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  };
  for (const Array& x : args) {
    mix(type_word(aval_of(x)));
    for (const std::int64_t d : aval_of(x).shape) mix(d + 17);
  }
  return h;
}

// Captured arrays are frozen into the program. Above a kibibyte that may be a surprise.
void log_constants(const std::string& name, const Arrays& consts) {
  if (!logs(Subsystem::jit, LogLevel::warn)) return;
  std::size_t bytes = 0;
  for (const Array& c : consts) bytes += static_cast<std::size_t>(c.size()) * size_of(c.dtype());
  if (bytes <= 1024) return;
  write_log(Subsystem::jit, "jit(" + name + ") captured " + counted(consts.size(), "array") +
                                " of " + counted(bytes, "byte") +
                                ": they are constants of the program; pass them as arguments "
                                "if they change");
}

std::string display_name(const JitOptions& options) {
  return options.name.empty() ? "f" : one_line(options.name);
}
std::string text_of_call(const JitOptions& options) { return "jit(" + display_name(options) + ")"; }

}  // namespace

// Of every call, so within its callers.
[[gnu::always_inline]] inline bool JitCache::Entry::is_for(std::span<const Array> args,
                                                           std::string_view static_key) const {
  if (args.size() != num_args || key != static_key || default_float != v1::default_float() ||
      default_int != v1::default_int())
    return false;
  const std::int64_t* next = types.data();
  for (const Array& x : args) {
    const Aval& a = aval_of(x);
    if (*next++ != type_word(a)) return false;
    const std::int64_t* const sizes = a.shape.data();
    const std::size_t rank = a.shape.size();
    for (std::size_t k = 0; k < rank; ++k) {
      if (next[k] != sizes[k]) return false;
    }
    next += rank;
  }
  return true;
}

Signature JitCache::Entry::signature() const {
  Signature s{{}, key, default_float, default_int};
  const std::int64_t* next = types.data();
  for (std::size_t i = 0; i < num_args; ++i) {
    const std::int64_t word = *next++, rank = word >> 16;
    s.avals.push_back({Shape(std::span(next, static_cast<std::size_t>(rank))),
                       static_cast<DType>(word & 0xff), (word >> 8 & 1) != 0});
    next += rank;
  }
  return s;
}

void add_static_array(KeyBuilder& key, const Array& x, std::size_t arg) {
  if (const Tracer* t = as_tracer(x)) {
    throw ConcretizationError(
        "jit: argument " + std::to_string(arg) + " is static, but its value " +
        x.aval().to_string() + " is traced by " + t->main().owner() +
        ": a static value is a constant of the compiled program. Take argument " +
        std::to_string(arg) +
        " out of static_argnums, or pass an array that is not traced (static in the outer "
        "function, or not among the arguments it differentiates or maps)");
  }
  const Array value = contiguous(x);
  key.add(value.dtype());
  key.add(value.weak_type());
  key.add(value.shape().size());
  key.add_bytes(value.shape().data(), value.shape().size() * sizeof(std::int64_t));
  key.add_bytes(data_of<std::byte>(value),
                static_cast<std::size_t>(value.size()) * size_of(value.dtype()));
}

namespace {
struct SharedStates {
  std::mutex mutex;
  std::unordered_map<std::string, JitStatePtr> states;
};
SharedStates& shared_states() {
  static auto* const shared = new SharedStates;  // leaked: usable before and after main
  return *shared;
}
}  // namespace

std::string jit_key(const void* type, const KeyBuilder& identity, const JitOptions& o) {
  KeyBuilder key;
  key.add(type);
  key.add_string(identity.view());
  key.add_string(o.backend);
  key.add_string(o.name);
  key.add(o.contract);
  key.add(o.keep_unused);
  key.add(o.max_signatures);
  for (const auto* argnums : {&o.donate, &o.static_argnums}) {
    key.add(argnums->size());
    for (const int i : *argnums) key.add(i);
  }
  return std::string(key.view());
}

JitStatePtr find_jit_state(const std::string& key) {
  SharedStates& shared = shared_states();
  const std::lock_guard lock(shared.mutex);
  const auto found = shared.states.find(key);
  return found == shared.states.end() ? nullptr : found->second;
}

JitStatePtr share_jit_state(const std::string& key, JitStatePtr state) {
  state->shared = true;
  SharedStates& shared = shared_states();
  const std::lock_guard lock(shared.mutex);
  return shared.states.emplace(key, std::move(state)).first->second;
}

// What was said about signatures: entries do not remember what their static values looked like. The newest of those that
// are forgotten, or were never known since tracing failed.
struct JitCache::Misses {
  static constexpr std::size_t kMostForgotten = 1024;
  template <class T>
  static void append(std::vector<T>& list, T item, std::size_t most) {
    if (list.size() >= most) list.erase(list.begin());
    list.push_back(std::move(item));
  }
  static std::uint64_t next_object() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }
  const std::uint64_t object = next_object();  // the next may lie where this one lay
  std::mutex mutex;
  std::vector<std::pair<Signature, std::vector<std::string>>> explained;
  std::vector<Signature> forgotten;  // while misses are explained
  std::vector<Signature> captured;   // the same, of programs for one call: they hold tracers
};

JitCache::JitCache(JitOptions options)
    : options_(std::move(options)),
      call_name_(kept_name(display_name(options_))),
      call_text_(kept_name(text_of_call(options_))),
      misses_(std::make_unique<Misses>()) {
  if (options_.max_signatures < 1) {
    throw ValueError("jit(" + display_name(options_) +
                     "): max_signatures must be at least 1, got " +
                     std::to_string(options_.max_signatures));
  }
}
JitCache::~JitCache() = default;

JitCall::JitCall(SourceLocation where)
    : site_(nullptr, where), reading_(runtime::Reading::begin()) {}
JitCall::~JitCall() { runtime::Reading::end(reading_); }

void JitCache::check_argnums(std::size_t num_args) const {
  const auto n = static_cast<int>(num_args);
  for (const auto& [what, argnums] : {std::pair{"static_argnums", &options_.static_argnums},
                                      std::pair{"donate", &options_.donate}}) {
    for (const int i : *argnums) {
      if (i >= -n && i < n) continue;
      throw ValueError(std::string(call_text_) + ": " + what + " has argument number " +
                       std::to_string(i) + ", but the call has " + counted(n, "argument"));
    }
  }
  for (std::size_t i = 0; i < num_args; ++i) {
    if (!is_static(i, num_args) || !is_donated(i, num_args)) continue;
    throw ValueError(
        std::string(call_text_) + ": argument " + std::to_string(i) +
        " is both in static_argnums and in donate: a static value is a constant of the "
        "compiled program, and leaves no buffer for the results. Take it out of one");
  }
}

void JitCache::nothing_to_donate(std::size_t arg) const {
  throw ValueError(std::string(call_text_) + ": donate has argument " + std::to_string(arg) +
                   ", whose type holds no arrays: there is no buffer that the results could reuse. "
                   "Take it out of donate, or make it an Array");
}

// Most calls have the signature of the call before: that comparison needs no hash.
const JitCache::Entry* JitCache::find(std::span<const Array> args, const KeyBuilder& key) const {
  const Entry* found = last_.load(std::memory_order_acquire);
  if (found == nullptr || !found->is_for(args, key.view())) found = find_in_list(args, key);
  if (found != nullptr) runtime::count(runtime::call_counters().cache_hits);
  return found;
}

const JitCache::Entry* JitCache::find_settled(std::span<const Array> args,
                                              const KeyBuilder& key) const {
  return constants_switch.on() ? nullptr : find(args, key);
}

const JitCache::Entry* JitCache::find_in_list(std::span<const Array> args,
                                              const KeyBuilder& key) const {
  const std::size_t hash = signature_hash(args, key);
  for (const Entry* e = newest_.load(std::memory_order_acquire); e != nullptr;
       e = e->next.load(std::memory_order_acquire)) {
    if (e->hash != hash || !e->is_for(args, key.view())) continue;
    e->last_call.store(clock_.fetch_add(1, std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
    // Under the lock, for it must not be one that is being forgotten; not worth waiting for.
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock && !e->forgotten)
      last_.store(e, std::memory_order_release);
    return e;
  }
  return nullptr;
}

// Calls that are using the program, on this or another thread, keep it until they have ended.
void JitCache::forget_oldest() {
  const auto oldest = std::min_element(
      owned_.begin(), owned_.end(),
      [](const EntryPtr& a, const EntryPtr& b) { return a->last_call < b->last_call; });
  EntryPtr entry = *oldest;
  if (explain_cache_misses()) {  // may lack memory: nothing is taken out yet
    const std::lock_guard lock(misses_->mutex);
    const Signature signature = entry->signature();
    std::erase_if(misses_->explained, [&](const auto& said) { return said.first == signature; });
    Misses::append(misses_->forgotten, signature, Misses::kMostForgotten);
  }
  owned_.erase(oldest);
  entry->forgotten = true;
  const Entry* const next = entry->next.load(std::memory_order_relaxed);
  if (newest_.load(std::memory_order_relaxed) == entry.get()) {
    newest_.store(next, std::memory_order_release);
  } else {
    for (const EntryPtr& e : owned_) {
      if (e->next.load(std::memory_order_relaxed) == entry.get())
        e->next.store(next, std::memory_order_release);
    }
  }
  if (last_.load(std::memory_order_relaxed) == entry.get())
    last_.store(nullptr, std::memory_order_release);
  runtime::count(runtime::live_counters().evictions);
  runtime::retire(std::move(entry));
}

namespace {

struct KeptProgram {
  ClosedJaxpr program;
  std::vector<std::size_t> args;  // those that it uses
};

// f as a program, without what its results do not need.
KeptProgram kept_program(const FlatFunction& f, const std::vector<Aval>& avals,
                         const JitOptions& options) {
  ClosedJaxpr traced = stage_flat(f, avals, "jit(" + display_name(options) + ")");
  std::vector<bool> used(static_cast<std::size_t>(traced.jaxpr.num_inputs()), true);
  if (!options.keep_unused) {
    DceJaxpr pruned =
        dce_jaxpr(traced.jaxpr,
                  std::vector<bool>(static_cast<std::size_t>(traced.jaxpr.num_outputs()), true));
    traced.jaxpr = std::move(pruned.jaxpr);
    used = std::move(pruned.used_in);
  }
  KeptProgram kept;
  kept.program.jaxpr = std::move(traced.jaxpr);
  const std::size_t num_consts = traced.consts.size();
  for (std::size_t i = 0; i < num_consts; ++i) {
    if (used[i]) kept.program.consts.push_back(traced.consts[i]);
  }
  for (std::size_t i = 0; i < avals.size(); ++i) {
    if (used[num_consts + i]) kept.args.push_back(i);
  }
  return kept;
}

}  // namespace

void JitCache::check_constants(const Entry& entry, const FlatFunction& f,
                               std::span<const Array> args) const {
  const std::string name = call_text_;
  const std::vector<Aval> avals = avals_of(args);
  const ClosedJaxpr now = kept_program(f, avals, options_).program;
  const std::string advice = ": it is frozen into the compiled program; pass it as an argument";
  if (!(now.jaxpr == entry.program.jaxpr)) {
    throw ValueError(name + " captured a value that has changed since its first call" + advice +
                     ". Compiled:\n" + entry.program.jaxpr.to_string() + "\nnow:\n" +
                     now.jaxpr.to_string());
  }
  for (std::size_t i = 0; i < now.consts.size(); ++i) {
    const Array& c = now.consts[i];
    if (!c.is_tracer() && same_bits(c, entry.program.consts[i])) continue;
    throw ValueError(name + " captured an array " + c.aval().to_string() +
                     " that has changed since its first call" + advice);
  }
}

JitCache::EntryPtr JitCache::trace(const FlatFunction& f, std::span<const Array> args,
                                   const KeyBuilder& key, const std::vector<bool>& donated,
                                   const std::shared_ptr<const void>& prototype) {
  auto entry = std::make_shared<Entry>();
  entry->hash = signature_hash(args, key);
  entry->key = std::string(key.view());
  entry->default_float = default_float();
  entry->default_int = default_int();
  const std::vector<Aval> avals = avals_of(args);
  entry->num_args = avals.size();
  for (const Aval& a : avals) {
    entry->types.push_back(type_word(a));
    entry->types.insert(entry->types.end(), a.shape.begin(), a.shape.end());
  }
  runtime::count(runtime::live_counters().traces);
  read_log_settings();
  const double start = microseconds_since_start();
  KeptProgram kept = [&] {
    const runtime::ProfileSpan span("trace", [&] { return std::string(call_text_); });
    return kept_program(f, avals, options_);
  }();
  log(Subsystem::jit, LogLevel::info, [&] {
    return "jit(" + display_name(options_) + ") traced signature " + std::to_string(size() + 1) +
           ": " + counted(args.size(), "array") + ", " +
           counted(kept.program.jaxpr.eqns().size(), "equation") + ", " +
           std::to_string(static_cast<std::int64_t>(microseconds_since_start() - start)) + " us";
  });
  entry->num_results = static_cast<std::size_t>(kept.program.jaxpr.num_outputs());
  entry->prototype = prototype;
  entry->donated.assign(kept.program.consts.size(), false);
  for (const std::size_t i : kept.args) entry->donated.push_back(donated[i]);
  const auto used = std::count(entry->donated.begin(), entry->donated.end(), true);
  entry->donated_unused = static_cast<int>(std::count(donated.begin(), donated.end(), true) - used);
  if (used == 0) entry->donated.clear();
  entry->program = std::move(kept.program);
  entry->kept = std::move(kept.args);
  entry->takes_arguments_as_they_are =
      entry->program.consts.empty() && entry->kept.size() == entry->num_args;
  const Arrays& consts = entry->program.consts;
  log_constants(display_name(options_), consts);
  if (std::any_of(consts.begin(), consts.end(), [](const Array& c) { return c.is_tracer(); })) {
    // Good for this call alone. The next one will trace the same program: its code is to be found.
    entry->program.jaxpr = interned(entry->program.jaxpr);
    if (explain_cache_misses()) {
      const std::lock_guard lock(misses_->mutex);
      Misses::append(misses_->captured, entry->signature(), Misses::kMostForgotten);
    }
    return entry;
  }

  runtime::reclaim();
  const std::lock_guard lock(mutex_);
  for (const EntryPtr& other : owned_) {  // another thread may have been faster
    if (other->same_signature(*entry)) return other;
  }
  entry->next.store(newest_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // What was called again and again without a change of signature has not been noted.
  if (const Entry* last = last_.load(std::memory_order_relaxed)) last->last_call = ++clock_;
  entry->last_call = ++clock_;
  owned_.push_back(entry);
  newest_.store(entry.get(), std::memory_order_release);
  while (owned_.size() > static_cast<std::size_t>(options_.max_signatures)) forget_oldest();
  return entry;
}

namespace {

const runtime::Executable& executable_of(const JitCache::Entry& entry, const JitOptions& options) {
  const bool profiling = runtime::profiling();
  if (!profiling) [[likely]] {
    if (const runtime::Executable* ready = entry.ready.load(std::memory_order_acquire))
      return *ready;
  }
  const std::lock_guard lock(entry.mutex);
  auto& executable = profiling ? entry.profiled : entry.executable;
  if (!executable) {
    const std::string name = text_of_call(options);  // for lowerings that are missing
    const TransformSite site(name.c_str(), {});
    executable = runtime::executable_for(entry.program.jaxpr, options.backend,
                                         {.contract = options.contract,
                                          .name = display_name(options),
                                          .disabled = {},
                                          .donated = entry.donated,
                                          .captured = known_constants(entry.program)});
    if (!profiling) {
      entry.ready.store(executable.get(), std::memory_order_release);
      if (entry.takes_arguments_as_they_are && entry.donated.empty() && entry.donated_unused == 0 &&
          !executable->runs_user_code())
        entry.plain.store(executable.get(), std::memory_order_release);
    }
  }
  return *executable;
}

// Which inputs may really be donated: not one that is passed twice or shares its buffer with another
// array, and not a view, of which `inputs` holds a dense copy.
std::vector<bool> donatable(const JitCache::Entry& entry, std::span<const Array> args,
                            std::span<const Array> inputs) {
  std::vector<const DeviceBuffer*> buffers;
  for (const Array& x : inputs) buffers.push_back(&concrete_node(x).buffer());
  std::sort(buffers.begin(), buffers.end());
  std::vector<bool> donated(entry.donated);
  const std::size_t num_consts = inputs.size() - entry.kept.size();
  for (std::size_t i = num_consts; i < inputs.size(); ++i) {
    if (!donated[i]) continue;
    const DeviceBuffer* buffer = &concrete_node(inputs[i]).buffer();
    const auto [first, last] = std::equal_range(buffers.begin(), buffers.end(), buffer);
    donated[i] = concrete_node(args[entry.kept[i - num_consts]]).is_dense() &&
                 buffer->use_count() == 1 && last - first == 1;
  }
  return donated;
}

bool is_taken_over(const Array& input) { return concrete_node(input).buffer().donated(); }

// The arrays in donated arguments that can still be read.
int count_skipped(const JitCache::Entry& entry, std::span<const Array> inputs) {
  int skipped = entry.donated_unused;
  for (std::size_t i = 0; i < entry.donated.size(); ++i)
    skipped += entry.donated[i] && !is_taken_over(inputs[i]);
  if (skipped > 0) runtime::count(runtime::live_counters().donations_skipped, skipped);
  return skipped;
}

// Why no result took over the memory of input i, which was donated. `offered`: what donatable() gave;
// empty where the call takes nothing over.
std::string why_kept(std::size_t i, std::span<const Array> inputs, const Array& arg,
                     const std::vector<bool>& offered, const std::vector<bool>& donated,
                     std::span<const Array> results, const runtime::Executable& executable) {
  if (offered.empty()) return "debug_nans may have to run the program once more";
  if (executable.info().backend == "interpret") return "the interpreter writes new memory";
  const DeviceBuffer& buffer = concrete_node(inputs[i]).buffer();
  if (!offered[i]) {
    if (!concrete_node(arg).is_dense()) return "it is a view of fewer or other elements";
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (k != i && &concrete_node(inputs[k]).buffer() == &buffer) return "it is passed twice";
    }
    return "another Array, a view of it, shares its memory";
  }
  const auto is_as_large = [&](const Array& y) {
    return concrete_node(y).buffer().bytes() == buffer.bytes();
  };
  const auto fitting = std::count_if(results.begin(), results.end(), is_as_large);
  if (fitting == 0) return "no result has its size";
  std::ptrdiff_t others = 0;
  for (std::size_t k = 0; k < donated.size(); ++k) {
    if (!donated[k] || !is_taken_over(inputs[k])) continue;
    const Aval& aval = inputs[k].node_or_null()->aval();
    others += static_cast<std::size_t>(aval.size()) * size_of(aval.dtype) == buffer.bytes();
  }
  if (others >= fitting) return "the results of its size lie in other donated arguments";
  const std::string why = executable.why_kept(i);
  return why.empty() ? "it is read after a result of its size is written" : why;
}

// One line for each donated argument that the first such call has left alone.
void log_kept(const std::string& name, const JitCache::Entry& entry, std::span<const Array> args,
              std::span<const Array> inputs, const std::vector<bool>& offered,
              std::span<const Array> results, const runtime::Executable& executable) {
  if (entry.told_of_kept.exchange(true)) return;
  if (entry.donated_unused > 0) {
    write_log(Subsystem::jit, name + " does not use " +
                                  counted(entry.donated_unused, "donated array") +
                                  ": they keep their memory");
  }
  const std::size_t num_consts = inputs.size() - entry.kept.size();
  for (std::size_t i = num_consts; i < entry.donated.size(); ++i) {
    if (!entry.donated[i] || is_taken_over(inputs[i])) continue;
    const std::size_t leaf = entry.kept[i - num_consts];
    write_log(Subsystem::jit,
              name + ": donated array " + std::to_string(leaf) + ", " +
                  args[leaf].aval().to_string() + ", keeps its memory: " +
                  why_kept(i, inputs, args[leaf], offered, entry.donated, results, executable));
  }
}

}  // namespace

namespace {

/// f(); where a constant of the program has been given away meanwhile, the DonatedBufferError says that it is one.
template <class F>
void naming_donated_constants(const char* call, const Arrays& consts, const F& f) {
  try {
    f();
  } catch (const DonatedBufferError&) {
    for (const Array& c : consts) {
      if (!is_dense_value(c) || !is_taken_over(c)) continue;
      throw DonatedBufferError(std::string(call) + " captured the array " + c.aval().to_string() +
                               ", whose buffer was then donated to " +
                               concrete_node(c).buffer().donated_to() +
                               ": what a function captures is a constant of its program, needed by "
                               "every call; pass the array as an argument, capture "
                               "tl::lax::copy(x), or do not donate it");
    }
    throw;
  }
}

// A plain loop: std::all_of is written out for four at a time, which are more instructions for two.
[[gnu::always_inline]] inline bool all_dense(std::span<const Array> args) {
  for (const Array& x : args) {
    if (!is_dense_value(x)) return false;
  }
  return true;
}
const std::vector<bool> kNothingDonated;

}  // namespace

void JitCache::call(const Entry& entry, std::span<const Array> args,
                    std::span<Array> results) const {
  // Nearly always there is nothing to do but to run it.
  const auto* plain = entry.plain.load(std::memory_order_acquire);
  if (plain == nullptr || runtime::profiling() || tracing_under_way() || nans_switch.on() ||
      !all_dense(args)) [[unlikely]]
    return call_in_context(entry, args, results);
  with_operation([this] { return std::string(call_text_); },
                 [&] { plain->execute_into(args, kNothingDonated, results, ""); });
}

const void* JitCache::call(const Entry& entry, std::span<const Array> args,
                           ArrayPlaces& results) const {
  results.make(entry.num_results);
  call(entry, args, std::span<Array>(results));
  return entry.prototype.get();
}

void JitCache::call_in_context(const Entry& entry, std::span<const Array> args,
                               std::span<Array> results) const {
  naming_donated_constants(call_text_, entry.program.consts,
                           [&] { call_with_constants(entry, args, results); });
}

void JitCache::call_with_constants(const Entry& entry, std::span<const Array> args,
                                   std::span<Array> results) const {
  BorrowedArrays some;  // held by the entry and the caller
  std::span<const Array> inputs = args;
  if (!entry.takes_arguments_as_they_are) {
    some.make_room(entry.program.consts.size() + entry.kept.size());
    for (const Array& c : entry.program.consts) some.push_back(c);
    for (const std::size_t i : entry.kept) some.push_back(args[i]);
    inputs = some;
  }
  if (tracing_under_way()) {
    const JitParams params{entry.program.jaxpr, display_name(options_), entry.program.num_consts(),
                           options_.backend, options_.contract};
    Arrays outs = jit_p.bind(params, inputs);
    std::move(outs.begin(), outs.end(), results.begin());
    return;
  }
  with_operation([this] { return std::string(call_text_); },
                 [&] {
                   const runtime::Executable& executable = executable_of(entry, options_);
                   if (all_dense(inputs) && !executable.runs_user_code())
                     return run(executable, entry, args, inputs, results);
                   Arrays held;  // views become dense, and the user's code may drop what it passed
                   held.reserve(inputs.size());
                   for (const Array& x : inputs) {
                     // Nothing is being traced, so a tracer is a leaked one.
                     if (x.is_tracer()) find_top_trace(inputs);
                     held.push_back(contiguous_and_kept(x));
                   }
                   run(executable, entry, args, held, results);
                 });
}

void JitCache::run(const runtime::Executable& executable, const Entry& entry,
                   std::span<const Array> args, std::span<const Array> inputs,
                   std::span<Array> results) const {
  std::vector<bool> offered;
  if (entry.donated.empty() || debug_nans()) {
    executable.execute_into(inputs, kNothingDonated, results, "");
    if (debug_nans()) find_nan(entry.program.jaxpr, call_text_, inputs, results);
  } else {
    offered = donatable(entry, args, inputs);
    executable.execute_into(inputs, offered, results, call_name_);
  }
  if (count_skipped(entry, inputs) > 0 && logs(Subsystem::jit, LogLevel::debug)) [[unlikely]]
    log_kept(call_text_, entry, args, inputs, offered, results, executable);
}

JitCache::EntryPtr JitCache::owner(const Entry& entry) { return entry.shared_from_this(); }

std::shared_ptr<const LoweredProgram> JitCache::lowered(EntryPtr owner) const {
  auto program = std::make_shared<LoweredProgram>();
  program->program = owner->program;
  program->donated = owner->donated;
  program->options = options_;
  program->call = call_text_;
  program->executable = [owner, options = options_]() -> const runtime::Executable& {
    return executable_of(*owner, options);
  };
  return program;
}

void JitCache::explain_miss(std::span<const Array> args, const KeyBuilder& key,
                            const std::vector<std::string>& names, std::vector<std::string> statics,
                            const void* function, SourceLocation where) {
  const Signature now{avals_of(args), std::string(key.view()), default_float(), default_int()};
  const std::lock_guard lock(misses_->mutex);
  const auto kinds = [](const std::vector<Difference>& lines) {
    int sum = 0;
    for (const Difference& line : lines) sum += line.kinds;
    return sum;
  };
  std::vector<Difference> nearest;
  std::size_t known = 0;
  for (const Entry* e = newest_.load(std::memory_order_acquire); e;
       e = e->next.load(std::memory_order_acquire), ++known) {
    const Signature then = e->signature();
    std::vector<std::string> statics_then;
    for (const auto& [signature, texts] : misses_->explained) {
      if (signature == then) statics_then = texts;
    }
    auto lines = differences(now, then, names, statics, statics_then);
    if (known == 0 || kinds(lines) < kinds(nearest)) nearest = std::move(lines);
  }
  std::string text = "cache miss of jit(" + display_name(options_) + ")";
  const JittedThere there = jitted_there(function, display_name(options_), where, misses_->object);
  if (where) text += ", jitted at " + where.to_string();
  if (there.number > 1) text += ", #" + std::to_string(there.number) + " there";
  if (std::erase(misses_->forgotten, now) > 0) {
    text +=
        ":\n  its signature was known, and is forgotten since there are more of them than "
        "max_signatures = " +
        std::to_string(options_.max_signatures);
  } else if (std::erase(misses_->captured, now) > 0) {
    text +=
        ":\n  it captured an array that a transformation traces, so its program was for that call "
        "alone; pass the array as an argument";
  } else if (known > 0) {
    text += "; against the nearest of " + counted(known, "known signature");
    text += text_of(nearest);
  } else if (there.as_other_object) {
    text +=
        ":\n  another object that was jitted there has been called: each traces for itself; jit "
        "once, and pass what changes as an argument";
  } else {
    text += ":\n  called for the first time";
  }
  write_log(Subsystem::jit, text);
  Misses::append(misses_->explained, {now, std::move(statics)},
                 static_cast<std::size_t>(options_.max_signatures) + Misses::kMostForgotten);
}

void JitCache::check_compiled_for(const Entry& entry, std::span<const Array> args,
                                  const KeyBuilder& key,
                                  const std::vector<std::string>& names) const {
  const Signature now{avals_of(args), std::string(key.view()), default_float(), default_int()};
  const Signature then = entry.signature();
  const std::string text = text_of(differences(now, then, names, {}, {}));
  if (text.empty()) return;
  throw TypeError("jit(" + display_name(options_) +
                  "): compiled for arguments of another signature:" + text);
}

std::size_t JitCache::size() const {
  const std::lock_guard lock(mutex_);
  return owned_.size();
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
