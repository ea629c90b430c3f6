// Telamon's side of the side-by-side: the workloads of b*.cpp.
#include "harness.hpp"
#include "telamon/telamon.hpp"

int main(int argc, char** argv) {
  return bench::run(argc, argv, "telamon", [] { telamon::set_num_threads(bench::threads()); });
}
