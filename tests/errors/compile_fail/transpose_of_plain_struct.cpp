// expect: tree_transpose cannot give the members of this struct another type
#include <vector>

#include "telamon/tree.hpp"

struct Linear {
  telamon::Array w, b;
};

int main() { (void)telamon::tree_transpose(std::vector<Linear>(2)); }
