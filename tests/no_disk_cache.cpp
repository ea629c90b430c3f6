// Part of every test program: tests leave nothing in the user's home, and compile what they test. Those
// of the disk cache choose a folder of their own.
#include <cstdlib>

namespace {
// Before the objects of namespace scope, of which some call jitted functions.
[[gnu::constructor(101)]] void switch_off() { setenv("TELAMON_CACHE_DIR", "none", 0); }
}  // namespace
