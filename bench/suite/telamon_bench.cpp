// Telamon's side of the side-by-side: the workloads of b*.cpp.
#include <cstdlib>

#include "ours.hpp"

int main(int argc, char** argv) {
  // What a run before this one has compiled would be found, and its search reported as compilation.
  setenv("TELAMON_CACHE_DIR", "none", 1);
  return bench::run(
      argc, argv, "telamon", [] { telamon::set_num_threads(bench::threads()); },
      bench::give_memory_back);
}
