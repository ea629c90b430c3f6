// expect: a solver's function of the unknowns (f, A, M, matvec) must return what it takes
// Two unknowns in a struct, and one equation.
#include "telamon/telamon.hpp"

namespace tl = telamon;

struct Point {
  tl::Array x, y;
};

auto wrong() {
  return tl::root::newton([](Point p) { return p.x * p.y - 1.0; }, Point{1.0, 2.0});
}
