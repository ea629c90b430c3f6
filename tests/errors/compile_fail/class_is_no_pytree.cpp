// expect: not a pytree: use Array, a static value, a container of these, or an aggregate struct
// A class with private members must say what its leaves are, by tl::Tree<T>.
#include "telamon/tree.hpp"

class Model {
 public:
  int size() const { return size_; }

 private:
  int size_ = 0;
};

int main() { (void)telamon::tree_leaves(Model()); }
