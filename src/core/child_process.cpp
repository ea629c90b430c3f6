// A pipe from a child.
#include "core/child_process.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

/// The call again, until no signal interrupts it.
template <class Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = uninterrupted([&] { return write(file, text.data(), text.size()); });
    if (n <= 0) return;  // nobody listens any more
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// Waits for something to read, or for the end of the file. False where neither comes within the limit. Time is
/// counted in slices: where this process was stopped and goes on, so does its child, which needs time for that.
bool waits_well(int file, std::optional<std::chrono::seconds> limit) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kSlice(500);
  pollfd ready{file, POLLIN, 0};
  if (!limit) return uninterrupted([&] { return poll(&ready, 1, -1); }) != 0;
  for (Clock::duration waited{}; waited < *limit;) {
    const auto start = Clock::now();
    const int n = poll(&ready, 1, static_cast<int>(kSlice.count()));
    if (n > 0 || (n < 0 && errno != EINTR)) return true;
    waited += std::min<Clock::duration>(Clock::now() - start, kSlice);
  }
  return false;
}

/// What comes until the file ends, or nothing more comes within the limit: false then.
bool read_all(int file, std::optional<std::chrono::seconds> limit, std::string& text) {
  char buffer[4096];
  while (waits_well(file, limit)) {
    const ssize_t n = uninterrupted([&] { return read(file, buffer, sizeof buffer); });
    if (n <= 0) return true;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return false;
}

/// A child that outlives its parent, killed perhaps since the child hangs, would hang on for ever.
void end_with([[maybe_unused]] pid_t parent) {
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it has ended before it could be asked
#endif
}

[[noreturn]] void refuse(const char* what) {
  throw InternalError(std::string("cannot start a process: ") + what + ": " + std::strerror(errno));
}

}  // namespace

std::string ChildResult::end() const {
  if (silence) return "does not end within " + std::to_string(silence->count()) + " s";
  if (!WIFSIGNALED(status)) return "ends with exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "ends with signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

ChildResult run_in_child(
    const std::function<void(const std::function<void(std::string_view)>& tell)>& body,
    std::optional<std::chrono::seconds> limit) {
  int ends[2];
  if (pipe(ends) != 0) refuse("pipe");
  // What is buffered here is to be written here.
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    end_with(parent);
    close(ends[0]);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    // What it throws ends it: the frames above are this process's.
    [&]() noexcept { body([&](std::string_view text) { write_all(ends[1], text); }); }();
    _exit(0);
  }
  close(ends[1]);
  ChildResult result;
  if (child > 0) {
    if (!read_all(ends[0], limit, result.told)) {
      result.silence = limit;
      kill(child, SIGKILL);
    }
    uninterrupted([&] { return waitpid(child, &result.status, 0); });
  }
  const int error = errno;
  close(ends[0]);
  errno = error;
  if (child < 0) refuse("fork");
  return result;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
