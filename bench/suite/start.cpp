// The child process of B00 (b00_start.cpp): does one thing and prints the time when its result is in hand,
// in seconds of the monotonic clock.
#include <time.h>

#include <cstdio>
#include <cstring>

#include "telamon/telamon.hpp"

namespace {

using namespace telamon;

Array f(const Array& x) { return sum(sin(x) * x); }

void import() {}
void first_op() { negative(Array(std::vector<float>{1}, {})); }
void first_grad() {
  grad([](const Array& x) { return sin(x) * x; })(1.0f);
}
void first_jit() { jit(f)(arange(1024.0f)); }
void first_jit_grad() { jit(grad(f))(arange(1024.0f)); }

constexpr struct {
  const char* name;
  void (*run)();
} kModes[] = {{"import", import},
              {"first_op", first_op},
              {"first_grad", first_grad},
              {"first_jit", first_jit},
              {"first_jit_grad", first_jit_grad}};

// What there is, for help and for wrong words.
void print_usage(std::FILE* out) {
  std::fputs("telamon_start WORD: does one thing and prints the time when it is done. Words:", out);
  for (const auto& mode : kModes) std::fprintf(out, " %s", mode.name);
  std::fputc('\n', out);
}

}  // namespace

int main(int argc, char** argv) {
  for (const auto& mode : kModes) {
    if (argc != 2 || std::strcmp(argv[1], mode.name) != 0) continue;
    mode.run();
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    std::printf("%.9f\n",
                static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
    return 0;
  }
  const bool help = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  print_usage(help ? stdout : stderr);
  return help ? 0 : 2;
}
