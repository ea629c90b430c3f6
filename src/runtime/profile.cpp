// What profiles record, and what becomes of it: a table, and a trace in the format that Chrome and
// Perfetto read ("Trace Event Format", Duffy and Vijay 2016: complete events, ph X).
#include "runtime/profile.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <ostream>
#include <sstream>
#include <tuple>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/side_file.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/error.hpp"
#include "telamon/profile.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

constinit std::atomic<int> live_profiles{0};

struct ProfileLabel {
  std::string category, name, detail;
  std::atomic<std::int64_t> calls{0}, drawn{0};
  std::atomic<std::int64_t> nanoseconds{0}, self{0};
};

namespace {

constexpr std::int64_t kDrawnOfAKind = 2'000, kDrawn = 1'000'000;

struct Event {
  ProfileLabelPtr label;
  double begin, microseconds;
};
struct OpenSpan {
  ProfileLabelPtr label;
  double begin, within = 0;  // microseconds of the spans inside
};

/// What one thread records. Only it opens and closes spans; its events are read by who stops a profile.
struct ThreadRecord {
  std::vector<OpenSpan> open;
  std::mutex mutex;
  std::vector<Event> events;
  int number = 0;
  bool main = false;
};

class Recorder {
 public:
  static Recorder& get() {
    static auto* const recorder = new Recorder;  // leaked: threads record until the very end
    return *recorder;
  }

  ThreadRecord& this_thread() {
    thread_local const std::shared_ptr<ThreadRecord> record = add_thread();
    return *record;
  }

  ProfileLabelPtr label(std::string_view category, std::string_view name, std::string_view detail) {
    const std::lock_guard lock(mutex_);
    const auto key = std::tuple(std::string(category), std::string(name), std::string(detail));
    if (const auto found = labels_.find(key); found != labels_.end()) return found->second;
    auto label = std::make_shared<ProfileLabel>();  // there are none without
    std::tie(label->category, label->name, label->detail) = key;
    labels_.emplace(key, label);
    return label;
  }

  void record(const ProfileLabelPtr& label, double begin, double us, double within) {
    label->calls.fetch_add(1, std::memory_order_relaxed);
    label->nanoseconds.fetch_add(static_cast<std::int64_t>(us * 1e3), std::memory_order_relaxed);
    label->self.fetch_add(static_cast<std::int64_t>((us - within) * 1e3),
                          std::memory_order_relaxed);
    if (label->drawn.load(std::memory_order_relaxed) >= kDrawnOfAKind ||
        drawn_.load(std::memory_order_relaxed) >= kDrawn)
      return;
    label->drawn.fetch_add(1, std::memory_order_relaxed);
    drawn_.fetch_add(1, std::memory_order_relaxed);
    ThreadRecord& thread = this_thread();
    const std::lock_guard lock(thread.mutex);
    thread.events.push_back({label, begin, us});
  }

  /// What labels had counted when a profile began.
  struct Counts {
    std::int64_t calls = 0, drawn = 0, nanoseconds = 0, self = 0;
  };
  using Snapshot = std::map<const ProfileLabel*, Counts>;
  static Counts counts_of(const ProfileLabel& label) {
    return {label.calls, label.drawn, label.nanoseconds, label.self};
  }

  Snapshot start() {
    const std::lock_guard lock(mutex_);
    if (live_profiles.load() == 0) forget();
    Snapshot before;
    for (const auto& [key, label] : labels_) before[label.get()] = counts_of(*label);
    live_profiles.fetch_add(1);
    return before;
  }

  ProfileReport stop(const Snapshot& before, double begin) {
    live_profiles.fetch_sub(1);
    ProfileReport report;
    report.microseconds = detail::microseconds_since_start() - begin;
    const std::lock_guard lock(mutex_);
    for (const auto& [key, label] : labels_) {
      const auto found = before.find(label.get());
      const Counts then = found == before.end() ? Counts{} : found->second;
      const Counts now = counts_of(*label);
      if (now.calls == then.calls) continue;
      report.spans += now.calls - then.calls;
      report.omitted += (now.calls - then.calls) - (now.drawn - then.drawn);
      report.entries.push_back({label->category, label->name, label->detail, now.calls - then.calls,
                                static_cast<double>(now.nanoseconds - then.nanoseconds) * 1e-3,
                                static_cast<double>(now.self - then.self) * 1e-3});
    }
    std::sort(report.entries.begin(), report.entries.end(),
              [](const ProfileEntry& a, const ProfileEntry& b) { return a.self > b.self; });
    return report;
  }

  std::string trace_text(const ProfileReport& report, double begin);

  void lock() {
    mutex_.lock();
    for (const auto& thread : threads_) thread->mutex.lock();
  }
  void unlock() {
    for (const auto& thread : threads_) thread->mutex.unlock();
    mutex_.unlock();
  }

 private:
  std::shared_ptr<ThreadRecord> add_thread() {
    auto record = std::make_shared<ThreadRecord>();
#if defined(__linux__)
    record->main = getpid() == gettid();
#endif
    const std::lock_guard lock(mutex_);
    record->number = static_cast<int>(threads_.size());
    threads_.push_back(record);
    return record;
  }

  // Nobody looks back any more. Labels that executables hold are kept, from zero on.
  void forget() {
    for (const auto& thread : threads_) {
      const std::lock_guard lock(thread->mutex);
      thread->events.clear();
    }
    std::erase_if(labels_, [](const auto& entry) { return entry.second.use_count() == 1; });
    for (const auto& [key, label] : labels_) {
      for (auto* count : {&label->calls, &label->drawn, &label->nanoseconds, &label->self})
        count->store(0, std::memory_order_relaxed);
    }
    drawn_ = 0;
  }

  std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::string>, ProfileLabelPtr> labels_;
  std::vector<std::shared_ptr<ThreadRecord>> threads_;
  std::atomic<std::int64_t> drawn_{0};
};

// A child after fork() has what is recorded as it is while no thread changes it. When the library is loaded: a
// thread that did it later could wait for a fork() under way, and the child for that thread.
void lock_all() { Recorder::get().lock(); }
void unlock_all() { Recorder::get().unlock(); }
[[maybe_unused]] const int registered =
    (Recorder::get(), pthread_atfork(lock_all, unlock_all, unlock_all));

/// The bytes of the character that the text begins with; 0 where that is not UTF-8.
std::size_t bytes_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const int ones = std::countl_one(byte(0));
  if (ones == 0) return 1;
  const auto n = static_cast<std::size_t>(ones);
  if (ones < 2 || ones > 4 || text.size() < n) return 0;
  std::uint32_t code = byte(0) & (0x7fu >> n);
  for (std::size_t i = 1; i < n; ++i) {
    if (std::countl_one(byte(i)) != 1) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t kLeast[] = {0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[n - 2] || code > 0x10ffff || surrogate ? 0 : n;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t n = bytes_of_character(text);
    const char c = text[0];
    if (c == '"' || c == '\\') out += '\\';
    if (n == 0) out += "\\ufffd";  // names may be any bytes, JSON may not
    else if (static_cast<unsigned char>(c) < 0x20) out += fmt::format("\\u{:04x}", c);
    else out += text.substr(0, n);
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return out + '"';
}

/// f(), but what there is no memory to record is lost: spans end in destructors, and begin where nothing may
/// be thrown.
template <class F>
void if_there_is_memory(const F& f) noexcept {
  try {
    f();
  } catch (const std::bad_alloc&) {}  // NOLINT(bugprone-empty-catch)
}

std::string Recorder::trace_text(const ProfileReport& report, double begin) {
  const int process = getpid();
  std::ostringstream file;
  file.exceptions(std::ios::badbit);  // a lack of memory is not to leave half of a text
  file << fmt::format(
      R"({{"displayTimeUnit":"ns","otherData":{{"spans":"{}","omitted":"{}"}},"traceEvents":[{})",
      report.spans, report.omitted, '\n');
  file << fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"telamon"}}}})",
                      process);
  const std::lock_guard lock(mutex_);
  for (const auto& thread : threads_) {
    const std::lock_guard thread_lock(thread->mutex);
    file << fmt::format(
        ",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}"
        "\"}}}}",
        process, thread->number,
        thread->main ? "main thread" : "thread " + std::to_string(thread->number));
    for (const Event& e : thread->events) {
      if (e.begin < begin) continue;
      file << fmt::format(
          R"(,{}{{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":{},"name":{})", '\n',
          process, thread->number, e.begin, e.microseconds, json_string(e.label->category),
          json_string(e.label->name));
      if (!e.label->detail.empty())
        file << ",\"args\":{\"detail\":" << json_string(e.label->detail) << '}';
      file << '}';
    }
  }
  if (report.omitted > 0) {
    file << fmt::format(
        R"(,{}{{"ph":"i","s":"g","pid":{},"tid":0,"ts":{:.3f},"name":"{} of {} spans are not drawn: at most {} of a kind are, and {} in all"}})",
        '\n', process, begin, report.omitted, report.spans, kDrawnOfAKind, kDrawn);
  }
  file << "\n]}\n";
  return std::move(file).str();
}

}  // namespace

ProfileLabelPtr profile_label(std::string_view category, std::string_view name,
                              std::string_view detail) {
  return Recorder::get().label(category, name, detail);
}

void begin_span(const ProfileLabelPtr& label) noexcept {
  if_there_is_memory([&] {
    Recorder::get().this_thread().open.push_back({label, detail::microseconds_since_start()});
  });
}

static void close_span(const ProfileLabelPtr& label) {
  const double now = detail::microseconds_since_start();
  std::vector<OpenSpan>& open = Recorder::get().this_thread().open;
  const auto found = std::find_if(open.rbegin(), open.rend(),
                                  [&](const OpenSpan& span) { return span.label == label; });
  if (found == open.rend()) return;
  const OpenSpan span = std::move(*found);
  open.erase(found.base() - 1, open.end());
  // The caller's own part of a loop is what the loop does, not something else within it.
  if (!open.empty() && label->category != "threads") open.back().within += now - span.begin;
  if (profiling()) Recorder::get().record(label, span.begin, now - span.begin, span.within);
}

void end_span(const ProfileLabelPtr& label) noexcept {
  if_there_is_memory([&] { close_span(label); });
}

ProfileLabelPtr part_of_loop() noexcept {
  ProfileLabelPtr part;
  if_there_is_memory([&] {
    const std::vector<OpenSpan>& open = Recorder::get().this_thread().open;
    part = profile_label(
        "threads", "part of " + (open.empty() ? std::string("a loop") : open.back().label->name));
  });
  return part;
}

}  // namespace runtime

// ---- the public face -----------------------------------------------------------------------------

struct Profile::State {
  std::string path;  // absolute: the process may work in another folder when it ends
  double begin = 0;
  pid_t process = getpid();
  runtime::Recorder::Snapshot before;
};

Profile::Profile(std::string path, SourceLocation where) {
  detail::in_call("Profile", where, [&] {
    state_ = std::make_unique<State>();
    if (!path.empty()) {
      if (const int error = detail::try_file(path))
        throw ValueError("Profile: cannot write to '" + path + "' (" + std::strerror(error) +
                         "); name a file in a folder that exists");
      state_->path = std::filesystem::absolute(path).string();
    }
    state_->begin = detail::microseconds_since_start();
    state_->before = runtime::Recorder::get().start();
  });
}

Profile::~Profile() {
  try {
    if (state_) stop();
  } catch (const OutOfMemoryError&) {
    std::fprintf(stderr, "telamon: a profile is lost, there is no memory to write it\n");
  }
}

ProfileReport Profile::stop() {
  return detail::naming_lack_of_memory("Profile", [&] {
    if (!state_) throw ValueError("Profile: it has been stopped before");
    const std::unique_ptr<State> state = std::move(state_);
    ProfileReport report = runtime::Recorder::get().stop(state->before, state->begin);
    // A child after fork() has a copy of the profile, but the file is its parent's.
    if (!state->path.empty() && state->process == getpid()) {
      const std::string text = runtime::Recorder::get().trace_text(report, state->begin);
      if (const int error = detail::write_file(state->path, text))
        std::fprintf(stderr, "telamon: the profile '%s' could not be written: %s\n",
                     state->path.c_str(), std::strerror(error));
    }
    return report;
  });
}

std::string ProfileReport::to_string() const {
  std::string text = fmt::format("{:>10} {:>12} {:>12} {:>12}  {:<8} {}\n", "calls", "total us",
                                 "self us", "us/call", "what", "name");
  for (const ProfileEntry& e : entries) {
    text += fmt::format("{:>10} {:>12.1f} {:>12.1f} {:>12.2f}  {:<8} {}{}{}\n", e.calls,
                        e.microseconds, e.self, e.microseconds / static_cast<double>(e.calls),
                        e.category, e.name, e.detail.empty() ? "" : "  ", e.detail);
  }
  return text + fmt::format("{:.1f} us from start to stop\n", microseconds);
}

std::ostream& operator<<(std::ostream& os, const ProfileReport& report) {
  return os << report.to_string();
}

namespace {

// TELAMON_PROFILE: from when the library is loaded until the process ends.
struct ProfileOfProcess {
  ProfileOfProcess() {
    const char* path = std::getenv("TELAMON_PROFILE");
    if (path == nullptr || *path == '\0') return;
    try {
      whole = new Profile(path);
      std::atexit([] { delete whole; });
    } catch (const Error& e) { detail::ignore_environment("TELAMON_PROFILE", e.message()); }
  }
  static inline Profile* whole = nullptr;
} const profile_of_process;

}  // namespace
}  // namespace v1
}  // namespace telamon
