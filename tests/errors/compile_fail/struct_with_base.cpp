// expect: a reflected struct cannot have base classes
#include "telamon/tree.hpp"

struct Base {
  telamon::Array w;
};
struct Derived : Base {
  telamon::Array b;
};

int main() { (void)telamon::tree_leaves(Derived()); }
