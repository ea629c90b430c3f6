// B01: what a call costs, eager and compiled.
#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

const Register eager_neg("B01.eager_neg", "ns",
                         [] { return go([](const Array& x) { return negative(x); }, number(1)); });
const Register eager_add("B01.eager_add_16", "ns", [] {
  return go([](const Array& a, const Array& b) { return a + b; }, u(1, {16}), u(2, {16}));
});
const Register jit_scalar_add("B01.jit_scalar_add", "ns", [] {
  return go(compiled([](const Array& x) { return x + 1; }), number(1));
});

}  // namespace
}  // namespace bench
