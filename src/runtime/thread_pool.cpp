// The thread pool. See the header for what it promises.
//
// One loop at a time. `state_` holds whether the loop is open and how many workers have entered it;
// a worker enters by compare-and-swap, so one that wakes late finds the loop closed and touches
// nothing of it. Every thread has a share of neighbouring chunks, and takes from the others' when it has
// done its own: so the chunks of one loop find in a processor's caches what the same chunks of the loop
// before left there. What a thread that is there will soon have done is left to it: to fetch that from its
// caches, and it again for the loop that follows, takes longer. Nobody waits for a worker that has not entered.
#include "runtime/thread_pool.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/counted.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/thread_storage.hpp"
#include "runtime/placement.hpp"
#include "runtime/profile.hpp"
#include "telamon/detail/hash.hpp"
#include "telamon/error.hpp"
#include "telamon/primitive.hpp"

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

constexpr auto kSpin = std::chrono::microseconds(50);
constexpr int kMaxThreads = 1024;
// What it costs to wake sleeping workers: the caller's system call (12 us), and their caches and clocks
// that have gone cold. Measured (Zen 5, 2 virtual processors): below 80 us of work it does not pay.
constexpr auto kWaking = std::chrono::microseconds(40);
// Of loops that take no longer, and follow another this closely, the last few chunks are not taken from a thread that is there:
// operands and results are in its caches. (On two processors of Zen 4 that share none, steps of 3 to 10 us took 1.3 to 2.6 times
// as long when they were.) What the caller has computed by itself in between is in its own.
constexpr auto kLeft = std::chrono::microseconds(50);
constexpr std::int64_t kFewLeft = 8;
constexpr auto kClosely = std::chrono::microseconds(5);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `done()`, at most kSpin.
template <class Done>
bool spin_until(const Done& done) {
  if (done()) return true;
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

#if defined(__linux__)
std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) cpus.push_back(i);
    }
  }
  return cpus;
}
int current_cpu() { return sched_getcpu(); }
void pin_to(std::span<const int> cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}
#else
std::vector<int> allowed_cpus() { return {}; }
int current_cpu() { return -1; }
void pin_to(std::span<const int>) {}
#endif

TELAMON_INITIAL_EXEC constinit thread_local bool inside = false;

struct InsideScope {
  const bool before = inside;
  InsideScope() { inside = true; }
  ~InsideScope() { inside = before; }
};

std::atomic<int> wanted_threads{0};  // 0: not asked for yet

int threads_at_first() {
  const std::size_t cpus = allowed_cpus().size();
  const int threads =
      cpus == 0 ? static_cast<int>(std::thread::hardware_concurrency()) : static_cast<int>(cpus);
  return detail::environment_number("TELAMON_NUM_THREADS", 1, kMaxThreads)
      .value_or(std::clamp(threads, 1, kMaxThreads));
}

int threads() {
  int n = wanted_threads.load(std::memory_order_relaxed);
  if (n == 0) [[unlikely]] {
    if (wanted_threads.compare_exchange_strong(n, threads_at_first())) n = wanted_threads.load();
  }
  return n;
}

class Pool {
 public:
  /// Never destroyed: workers may outlive static objects. A child after fork() has none of the
  /// workers, and perhaps a lock that nobody will open: it gets a pool of its own.
  /// Null where there is no memory for it.
  static Pool* get() {
    Pool* pool = instance.load(std::memory_order_acquire);
    if (pool != nullptr) [[likely]]
      return pool;
    try {
      auto fresh = std::unique_ptr<Pool>(new Pool);
      if (instance.compare_exchange_strong(pool, fresh.get(), std::memory_order_acq_rel))
        pool = fresh.release();
    } catch (const std::bad_alloc&) {}  // NOLINT(bugprone-empty-catch)
    return pool;
  }

  /// False if the pool is in use, or has no memory for its workers: the caller then runs the loop itself.
  bool run(std::int64_t chunks, void (*body)(void*, std::int64_t), void* context, const void* work);

  /// Ends workers beyond the number of threads, unless a loop is under way: that does it when it ends.
  void dismiss_surplus();

  static Pool* get_or_null() { return instance.load(std::memory_order_acquire); }
  static void forget() { instance.store(nullptr); }

 private:
  // state_: bit 0 open, bits 1-15 workers inside, the rest counts loops.
  static constexpr std::uint64_t kOpen = 1, kWorker = 2, kWorkers = 0xfffe, kLoop = 0x10000;

  Pool() = default;
  bool fit_workers(int wanted);
  void start_workers(int wanted);
  void dismiss_workers(int wanted);
  void work(int index);
  // What a worker chose its processors for.
  struct Placement {
    int caller_cpu = -1, threads = 0;
    std::size_t share = kNoShare;
  };
  static constexpr std::size_t kNoShare = ~std::size_t{0}, kAnywhere = kNoShare - 1;
  void take_part(int index, Placement& placed);
  void set_label();
  std::int64_t run_chunks(int who) noexcept;  // how many
  void share_out(std::int64_t chunks);
  void place(int index, Placement& placed);

  static constinit std::atomic<Pool*> instance;

  using Clock = std::chrono::steady_clock;
  struct Memory {
    std::size_t key = 0;
    Clock::duration took{};                           // by one thread; the greatest: not known
    Clock::duration passed = Clock::duration::max();  // until all had ended
  };
  Memory& memory_of(std::size_t key);
  bool is_worth_waking(Clock::duration took, Clock::time_point now);

  std::mutex mutex_;  // held by the loop under way
  std::vector<std::thread> workers_;
  std::atomic<int> num_workers_{0};   // of whom those with a greater index shall leave
  std::array<Memory, 512> memories_;  // of the last run of a loop; others may share its place
  Clock::time_point last_end_{};
  Clock::duration missed_{};  // by loops that were run without waking anyone
  const std::vector<int> cpus_ = allowed_cpus();

  // The loop. Written before it is opened, after the last one was left.
  void (*body_)(void*, std::int64_t) = nullptr;
  void* context_ = nullptr;
  /// Of a thread: the chunk that is next, up to the first of the next share.
  struct alignas(64) Share {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
    std::atomic<bool> has_come{false};  // its thread
  };
  std::vector<Share> shares_ = std::vector<Share>(1);
  int num_shares_ = 0;
  bool leaves_rest_ = false;  // if that is little, to a thread that has come
  std::atomic<int> caller_cpu_{-1};
  ProfileLabelPtr label_;  // when there is a profile
  std::exception_ptr error_;
  std::atomic_flag failed_;

  alignas(64) std::atomic<std::uint64_t> state_{0};
  alignas(64) std::atomic<std::uint32_t> signal_{0};  // counts loops; sleepers wait for it
  std::atomic<int> sleepers_{0};
};

constinit std::atomic<Pool*> Pool::instance{nullptr};

// When the library is loaded: a thread that did it later could wait for a fork() under way, and the child
// for that thread.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { Pool::forget(); });

/// False where there is no memory for that: loops are also of generated code, which nothing can be thrown through.
bool Pool::fit_workers(int wanted) try {
  const int now = num_workers_.load(std::memory_order_relaxed);
  if (now == wanted) [[likely]]
    return true;
  detail::log(detail::Subsystem::threads, detail::LogLevel::info, [&] {
    return std::string("the pool ") + (now < wanted ? "grows" : "shrinks") + " from " +
           std::to_string(now) + " to " + detail::counted(wanted, "worker") + ", for " +
           detail::counted(threads(), "thread") + " on " +
           detail::counted(cpus_.size(), "processor");
  });
  if (now < wanted) {
    start_workers(wanted);
  } else {
    dismiss_workers(wanted);
  }
  return true;
} catch (const std::bad_alloc&) { return false; }

void Pool::start_workers(int wanted) {
  const auto n = static_cast<std::size_t>(wanted);
  if (shares_.size() <= n) shares_ = std::vector<Share>(n + 1);
  workers_.reserve(n);
  while (workers_.size() < n) {
    const int index = num_workers_.fetch_add(1);
    try {
      workers_.emplace_back([this, index] { work(index); });
    } catch (const std::system_error& e) {  // as many as the system grants will do
      num_workers_ = index;
      const int granted = index + 1;
      std::fprintf(stderr, "telamon: no more than %s: the system refused another (%s)\n",
                   detail::counted(granted, "thread").c_str(), e.what());
      wanted_threads = granted;
      return;
    } catch (...) {
      num_workers_ = index;
      throw;
    }
  }
}

/// No loop is open, so they are watching or asleep, and leave within microseconds.
void Pool::dismiss_workers(int wanted) {
  num_workers_.store(wanted);
  signal_.fetch_add(1);
  signal_.notify_all();
  while (workers_.size() > static_cast<std::size_t>(wanted)) {
    workers_.back().join();
    workers_.pop_back();
  }
}

void Pool::dismiss_surplus() {
  while (num_workers_.load() >= threads()) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;  // whoever has it comes here afterwards
    if (!fit_workers(std::min(num_workers_.load(), threads() - 1))) return;
  }
}

void Pool::place(int index, Placement& placed) {
  const Shares shares{cpus_.size(), static_cast<std::size_t>(placed.threads)};
  const std::size_t before = placed.share;
  if (shares.threads > shares.n) {
    placed.share = kAnywhere;
    if (placed.share != before) pin_to(cpus_);
    return;
  }
  const auto it = std::find(cpus_.begin(), cpus_.end(), placed.caller_cpu);
  const auto caller = static_cast<std::size_t>(it == cpus_.end() ? 0 : it - cpus_.begin());
  placed.share = shares.of_worker(static_cast<std::size_t>(index), shares.of(caller));
  if (placed.share != before) {
    const std::size_t first = shares.first(placed.share);
    pin_to(std::span(cpus_).subspan(first, shares.first(placed.share + 1) - first));
  }
}

void Pool::share_out(std::int64_t chunks) {
  const auto n = static_cast<std::int64_t>(shares_.size());
  num_shares_ = static_cast<int>(std::min<std::int64_t>({threads(), chunks, n}));
  for (std::int64_t s = 0; s < num_shares_; ++s) {
    Share& share = shares_[static_cast<std::size_t>(s)];
    share.next.store(chunks * s / num_shares_, std::memory_order_relaxed);
    share.end = chunks * (s + 1) / num_shares_;
    share.has_come.store(false, std::memory_order_relaxed);
  }
}

std::int64_t Pool::run_chunks(int who) noexcept {
  const InsideScope scope;
  const ProfileSpan span(label_);
  std::int64_t done = 0;
  for (int s = 0; s < num_shares_; ++s) {
    Share& share = shares_[static_cast<std::size_t>((who + s) % num_shares_)];
    if (s == 0) share.has_come.store(true, std::memory_order_relaxed);
    const std::int64_t few =
        s > 0 && leaves_rest_ && share.has_come.load(std::memory_order_relaxed) ? kFewLeft : 0;
    for (;; ++done) {
      if (few > 0 && share.end - share.next.load(std::memory_order_relaxed) <= few) break;
      const std::int64_t chunk = share.next.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= share.end) break;
      try {
        body_(context_, chunk);
      } catch (...) {
        if (!failed_.test_and_set()) error_ = std::current_exception();
        for (Share& rest : shares_) rest.next.store(rest.end, std::memory_order_relaxed);
      }
    }
  }
  return done;
}

void Pool::take_part(int index, Placement& placed) {
  const int caller_cpu = caller_cpu_.load(std::memory_order_relaxed), now = threads();
  if (index + 1 >= now) return;  // it will be told to leave
  // Also by who comes too late: a worker on the processor that the caller has moved to would be late again.
  if (caller_cpu != placed.caller_cpu || now != placed.threads) {
    if (now != placed.threads) placed.share = kNoShare;  // shares are others
    placed.caller_cpu = caller_cpu;
    placed.threads = now;
    place(index, placed);
  }
  std::uint64_t state = state_.load(std::memory_order_acquire);
  do {
    if ((state & kOpen) == 0) return;
  } while (!state_.compare_exchange_weak(state, state + kWorker, std::memory_order_acq_rel));
  run_chunks(index + 1);
  state_.fetch_sub(kWorker, std::memory_order_release);
}

void Pool::work(int index) {
  std::uint32_t seen = 0;
  Placement placed;
  for (;;) {
    const auto changed = [&] { return signal_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(changed)) {
      sleepers_.fetch_add(1);
      signal_.wait(seen);
      sleepers_.fetch_sub(1);
    }
    seen = signal_.load(std::memory_order_acquire);
    if (index >= num_workers_.load(std::memory_order_relaxed)) return;
    take_part(index, placed);
  }
}

void Pool::set_label() { label_ = profiling() ? part_of_loop() : nullptr; }

Pool::Memory& Pool::memory_of(std::size_t key) {
  Memory& memory = memories_[key % memories_.size()];
  if (memory.key != key) memory = {.key = key, .took = Clock::duration::max()};
  return memory;
}

/// A loop of that much work is about to start while workers sleep. Two threads would save half of it at
/// best. Short loops that follow each other as closely as workers would have watched count together:
/// when waking them would have paid by now, they are woken for what follows.
bool Pool::is_worth_waking(Clock::duration took, Clock::time_point now) {
  if (took == Clock::duration::max()) return true;  // the first time
  missed_ = now - last_end_ > kSpin ? took / 2 : missed_ + took;
  if (missed_ < kWaking) return false;
  missed_ = {};
  return true;
}

bool Pool::run(std::int64_t chunks, void (*body)(void*, std::int64_t), void* context,
               const void* work) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !fit_workers(threads() - 1)) return false;
  body_ = body;
  context_ = context;
  share_out(chunks);
  caller_cpu_.store(current_cpu(), std::memory_order_relaxed);
  if (profiling() || label_) set_label();
  error_ = nullptr;
  failed_.clear();
  const std::size_t key =
      detail::combine_hash(detail::combine_hash(reinterpret_cast<std::size_t>(body),
                                                reinterpret_cast<std::size_t>(work)),
                           static_cast<std::size_t>(chunks));
  Memory& memory = memory_of(key);
  const Clock::time_point begin = Clock::now();
  leaves_rest_ = begin - last_end_ < kClosely && memory.passed < kLeft;
  state_.fetch_add(kLoop + kOpen, std::memory_order_release);
  signal_.fetch_add(1);
  if (sleepers_.load() > 0 && is_worth_waking(memory.took, begin)) signal_.notify_all();

  const std::int64_t mine = run_chunks(0);
  state_.fetch_sub(kOpen, std::memory_order_acq_rel);
  const auto left = [&] { return (state_.load(std::memory_order_acquire) & kWorkers) == 0; };
  while (!spin_until(left)) std::this_thread::yield();
  last_end_ = Clock::now();
  memory.passed = last_end_ - begin;
  if (mine > 0) memory.took = memory.passed * chunks / mine;  // as if alone
  const std::exception_ptr error = std::exchange(error_, nullptr);
  lock.unlock();
  dismiss_surplus();
  if (error) std::rethrow_exception(error);
  return true;
}

}  // namespace

void parallel_for(std::int64_t chunks, void (*body)(void*, std::int64_t), void* context,
                  const void* work) {
  if (chunks <= 0) return;
  if (chunks > 1 && !inside && threads() > 1) {
    Pool* const pool = Pool::get();
    if (pool != nullptr && pool->run(chunks, body, context, work)) return;
  }
  const InsideScope scope;
  for (std::int64_t i = 0; i < chunks; ++i) body(context, i);
}

bool in_parallel_region() { return inside; }

}  // namespace runtime

int num_threads() { return runtime::threads(); }

void set_num_threads(int threads, SourceLocation where) {
  const detail::CallSite site(where);
  if (threads < 1 || threads > runtime::kMaxThreads) {
    throw ValueError("set_num_threads: the number of threads must be between 1 and " +
                     std::to_string(runtime::kMaxThreads) + ", got " + std::to_string(threads));
  }
  runtime::wanted_threads = threads;
  if (runtime::Pool* const pool = runtime::Pool::get_or_null(); pool && !runtime::inside)
    pool->dismiss_surplus();
}

}  // namespace v1
}  // namespace telamon
