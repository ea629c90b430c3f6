// expect: not a parameter or static value
// Parameters of primitives are compared and hashed, so a class must bring both.
#include "telamon/params.hpp"

class Handle {
 public:
  explicit Handle(int id) : id_(id) {}
  int id() const { return id_; }

 private:
  int id_;
};
struct Bad {
  Handle handle{0};
};

int main() { (void)telamon::Params::of(Bad{}); }
