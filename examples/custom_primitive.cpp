// A primitive in a page: softsign(x) = x / (1 + |x|), with all its rules, then checked.
//
// Most functions need no primitive: written with existing ones they have all rules for free. A
// primitive pays where a derivative has a better formula than the one that falls out of the
// composition (here: without the kink of |x|), or where code is written by hand.
#include <telamon/check.hpp>
#include <telamon/families.hpp>
#include <telamon/telamon.hpp>

#include <cmath>
#include <iostream>
#include <vector>

namespace tl = telamon;
using tl::Array;
using tl::Emitter;
using tl::Scalar;

tl::Rules<> softsign_rules();
const tl::Primitive<> softsign_p{"softsign", softsign_rules};

// d softsign(x) = dx / (1 + |x|)^2. The family `unary` adds types, batching and error messages.
tl::Rules<> softsign_rules() {
  tl::families::Unary<> rules;
  rules.impl = [](const tl::NoParams&, const tl::Aval& out, std::span<const Array> x) {
    std::vector<double> values = x[0].to_vector<double>();
    for (double& v : values) v = v / (1 + std::abs(v));
    return Array(values, out.shape).astype(out.dtype);
  };
  rules.jvp = [](Array dx, Array, Array x) { return dx / tl::square(1.0 + tl::abs(x)); };
  rules.lower = tl::element(
      [](Emitter& e, Scalar x) { return e.div(x, e.add(e.constant(x.dtype(), 1), e.abs(x))); });
  return tl::families::unary(softsign_p, rules);
}

Array softsign(const tl::Operand& x) { return softsign_p({}, {x})[0]; }

int main() {
  const Array x({-2.0, -0.5, 0.0, 3.0});
  std::cout << "softsign(x)       = " << softsign(x) << "\n";
  std::cout << "jit               = " << tl::jit(softsign)(x) << "\n";
  std::cout << "derivative        = " << tl::vmap(tl::grad(softsign))(x) << "\n";
  std::cout << "second derivative = " << tl::vmap(tl::grad(tl::grad(softsign)))(x) << "\n";
  std::cout << tl::make_jaxpr(tl::grad(softsign))(tl::asarray(3.0)) << "\n";

  // Every rule against the others, finite differences and a loop; throws where two disagree.
  tl::check_primitive(softsign_p, {}, {Array({-2.0, -0.5, 0.7, 3.0})});
  std::cout << "all rules agree\n";
}
