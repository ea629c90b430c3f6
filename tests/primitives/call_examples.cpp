// Examples of primitives that call a program.
#include "support.hpp"
#include "telamon/detail/flat.hpp"

namespace telamon_test {
namespace {

const RuleExamples kJit([] {
  const Array x({0.5, -1.25, 2.0}), y({1.5, 0.75, -0.5});
  const auto f = [](std::span<const Array> v) {
    return Arrays{lax::mul(lax::sin(v[0]), v[1]), lax::exp(v[1])};
  };
  const ClosedJaxpr closed = detail::stage_arrays(f, Arrays{x, y}, "f");
  return std::vector{example(jit_p, {closed.jaxpr, "f", 0, "", false}, {x, y})};
});

}  // namespace
}  // namespace telamon_test
