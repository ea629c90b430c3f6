// SWEEP: softmax, normalisation and plain sums over rows of every length, along the last axis and (strided) along the
// first.
#include <string>

#include "models.hpp"

namespace bench {
namespace {

using namespace telamon;

struct Sweep {
  std::int64_t n, rows;
  bool strided;
  Sweep(std::int64_t length, bool along_first)
      : n(length), rows((1 << 20) / length), strided(along_first) {}
  std::int64_t axis() const { return strided ? 0 : 1; }
  Array x() const { return strided ? z(1, {n, rows}) : z(1, {rows, n}); }
  /// Numbers that go with the places of a row.
  Array along(unsigned seed) const { return u(seed, strided ? Shape{n, 1} : Shape{n}); }
  Case moving(Case c) const {
    c.bytes = 8. * static_cast<double>(n * rows);
    return c;
  }
};
Case softmax_case(const Sweep& s) {
  const std::int64_t axis = s.axis();
  return s.moving(go(compiled([axis](const Array& x) { return softmax(x, axis); }), s.x()));
}
Case layernorm_case(const Sweep& s) {
  const std::int64_t axis = s.axis();
  const auto f = [axis](const Array& x, const Array& w, const Array& b) {
    return layernorm(x, w, b, axis);
  };
  return s.moving(go(compiled(f), s.x(), s.along(2), s.along(3)));
}
Case sum_case(const Sweep& s) {
  const std::int64_t axis = s.axis();
  Case c = go(compiled([axis](const Array& x) { return sum(x, axis); }), s.x());
  c.bytes = 4. * static_cast<double>(s.n * s.rows);
  return c;
}

const bool sweeps = [] {
  for (const std::int64_t n : {7, 64, 1000, 4096, 65536}) {
    for (const bool strided : {false, true}) {
      const std::string tail = std::to_string(n) + (strided ? "_strided" : "");
      Register("SWEEP.softmax_" + tail, "us", [=] { return softmax_case(Sweep(n, strided)); });
      Register("SWEEP.sum_" + tail, "us", [=] { return sum_case(Sweep(n, strided)); });
      Register("SWEEP.layernorm_" + tail, "us", [=] { return layernorm_case(Sweep(n, strided)); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace bench
