// expect: not a pytree
// Maps have string keys, which key paths and errors show.
#include <map>

#include "telamon/tree.hpp"

int main() { (void)telamon::tree_structure(std::map<int, telamon::Array>{}); }
