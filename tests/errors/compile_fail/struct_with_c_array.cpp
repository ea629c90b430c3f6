// expect: a reflected struct cannot have C array members: use std::array
#include "telamon/tree.hpp"

struct Layers {
  telamon::Array weights[3];
  telamon::Array bias;
};

int main() { (void)telamon::tree_leaves(Layers()); }
