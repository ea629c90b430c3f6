// Part of every test program: tests leave nothing in the user's home, and compile what they test. Those
// of the disk cache choose a folder of their own.
#include <cstdlib>

namespace {
[[maybe_unused]] const int off = setenv("TELAMON_CACHE_DIR", "none", 0);
}
