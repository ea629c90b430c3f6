// B00: from before a process is spawned to a result in its hands (start.cpp is that process), and what the
// library weighs.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "ours.hpp"

namespace bench {
namespace {

namespace fs = std::filesystem;

/// Where this program and telamon_start lie.
fs::path folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What a run of the program prints: one number.
double printed_number(const std::string& program, const std::string& argument) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::string name = program, mode = argument;
  char* const words[] = {name.data(), mode.data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  char part[64];
  for (ssize_t n; !failed && (n = read(ends[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  if (failed || waitpid(child, &status, 0) != child || status != 0) {
    throw std::runtime_error(program + " " + argument + " failed");
  }
  return std::strtod(text.c_str(), nullptr);
}

/// Whole processes: at least 7 after one that warms the page cache.
Samples starts(const std::string& mode, double seconds) {
  const std::string program = folder() / "telamon_start";
  std::vector<double> out;
  const double end = now() + seconds;
  for (int i = 0; i < 8 || now() < end; ++i) {
    const double before = now();
    const double after = printed_number(program, mode);
    if (i > 0) out.push_back(after - before);
  }
  return {{"time", out}};
}
void process(const char* id, const char* mode, const char* note) {
  Register(id, "ms", [mode, note] {
    Case c;
    c.note = note;
    c.measure = [mode](double seconds) { return starts(mode, seconds); };
    return c;
  });
}
const bool processes = [] {
  process("B00.import", "import", "a program that links the library");
  process("B00.first_op", "first_op", "");
  process("B00.first_grad", "first_grad", "grad(sin(x)*x), no jit");
  process("B00.first_jit", "first_jit", "");
  process("B00.first_jit_grad", "first_jit_grad", "");
  process("B00.second_start", "first_jit_grad", "first_jit_grad once more in a new process");
  return true;
}();

/// The file that holds the library: the shared one, or the program itself.
fs::path library() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/');
    if (path != std::string::npos && line.find("libtelamon.so") != std::string::npos) {
      return line.substr(path);
    }
  }
  return folder() / "telamon_start";
}
const Register size("B00.size", "MB", [] {
  Case c;
  c.note = "the library, compiler included";
  c.measure = [](double) {
    return Samples{{"time", {static_cast<double>(fs::file_size(library())) / 1e6}}};
  };
  return c;
});

}  // namespace
}  // namespace bench
