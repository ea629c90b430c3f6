// A pipe from a child.
#include "core/child_process.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
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

std::string read_all(int file) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = uninterrupted([&] { return read(file, buffer, sizeof buffer); });
    if (n <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

[[noreturn]] void refuse(const char* what) {
  throw InternalError(std::string("cannot start a process: ") + what + ": " + std::strerror(errno));
}

}  // namespace

std::string ChildResult::end() const {
  if (!WIFSIGNALED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

ChildResult run_in_child(
    const std::function<void(const std::function<void(std::string_view)>& tell)>& body) {
  int ends[2];
  if (pipe(ends) != 0) refuse("pipe");
  // What is buffered here is to be written here.
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
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
    result.told = read_all(ends[0]);
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
