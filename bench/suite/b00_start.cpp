// B00: from before a process is spawned to a result in its hands (start.cpp is that process), and what the
// library weighs. No process finds anything in a disk cache but those of second_start.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "ours.hpp"
#include "temporary_folder.hpp"

namespace bench {
namespace {

namespace fs = std::filesystem;

/// Where this program and telamon_start lie.
fs::path folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr std::string_view kCacheVariable = "TELAMON_CACHE_DIR=";

/// Our environment with a disk cache in this folder, or "none".
std::vector<std::string> environment(const std::string& cache) {
  std::vector<std::string> all = {std::string(kCacheVariable) + cache};
  for (char** word = environ; *word != nullptr; ++word) {
    if (!std::string_view(*word).starts_with(kCacheVariable)) all.emplace_back(*word);
  }
  return all;
}

/// What a run of the program prints: one number.
double printed_number(const std::string& program, const std::string& argument,
                      const std::string& cache) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::string name = program, mode = argument;
  char* const words[] = {name.data(), mode.data(), nullptr};
  std::vector<std::string> variables = environment(cache);
  std::vector<char*> pointers;
  for (std::string& v : variables) pointers.push_back(v.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, program.c_str(), &actions, nullptr, words, pointers.data());
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

/// Whole processes: at least 7 after one that warms the page cache, and fills the disk cache if there is
/// one.
Samples starts(const std::string& mode, const std::string& cache, double seconds) {
  const std::string program = folder() / "telamon_start";
  std::vector<double> out;
  const double end = now() + seconds;
  for (int i = 0; i < 8 || now() < end; ++i) {
    const double before = now();
    const double after = printed_number(program, mode, cache);
    if (i > 0) out.push_back(after - before);
  }
  return {{"time", out}};
}
constexpr const char* kStart = "start";
void process(const char* id, const char* mode, const char* note) {
  Register(id, "ms", [mode, note] {
    Case c;
    c.note = note;
    c.no_limit = kStart;
    c.measure = [mode](double seconds) { return starts(mode, "none", seconds); };
    return c;
  });
}
/// A folder of its own, which the first process fills.
Case with_cache(const char* mode) {
  const auto folder = std::make_shared<TemporaryFolder>();
  Case c;
  c.no_limit = kStart;
  c.note = std::string(mode) + " once more in a new process";
  c.measure = [=](double seconds) {
    const Samples out = starts(mode, folder->path(), seconds);
    if (folder->empty()) throw std::runtime_error("the disk cache is empty");
    return out;
  };
  return c;
}
const bool processes = [] {
  process("B00.import", "import", "a program that links the library");
  process("B00.first_op", "first_op", "");
  process("B00.first_grad", "first_grad", "grad(sin(x)*x), no jit");
  process("B00.first_jit", "first_jit", "");
  process("B00.first_jit_grad", "first_jit_grad", "");
  Register("B00.second_start", "ms", [] { return with_cache("first_jit_grad"); });
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
Case megabytes(const fs::path& file, std::string note) {
  Case c;
  c.note = std::move(note);
  c.no_limit = "size";
  c.measure = [file](double) {
    return Samples{{"time", {static_cast<double>(fs::file_size(file)) / 1e6}}};
  };
  return c;
}
const Register size("B00.size", "MB",
                    [] { return megabytes(library(), "the library, compiler included"); });

/// Whether the preset `static` has been built in this folder, rather than something else.
bool is_static_build(const fs::path& build) {
  std::ifstream file(build / "CMakeCache.txt");
  const std::string cache{std::istreambuf_iterator<char>(file), {}};
  const auto has = [&](const char* line) { return cache.find(line) != std::string::npos; };
  std::error_code ignored;
  return fs::exists(build / "bin" / "telamon", ignored) && has("\nTELAMON_SHARED:BOOL=OFF\n") &&
         has("\nTELAMON_LLVM:STRING=static\n");
}
/// The command with the library and LLVM inside: of the build beside this one, which no run makes.
const bool static_command = [] {
  constexpr const char* kId = "B00.static_size";
  const fs::path build = folder().parent_path().parent_path() / "static",
                 command = build / "bin" / "telamon";
  if (!is_static_build(build)) {
    NotYet(kId, "MB", "not built: cmake --preset static && cmake --build --preset static");
    return false;
  }
  Register(kId, "MB", [command] {
    const bool old = fs::last_write_time(command) < fs::last_write_time(library());
    return megabytes(command, std::string("the telamon command, linked statically") +
                                  (old ? "; built before this library" : ""));
  });
  return true;
}();

}  // namespace
}  // namespace bench
