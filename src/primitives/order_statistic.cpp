// order_statistic: of arrays, element by element, the one of some rank when they are sorted. What the compiler makes of sorts
// of short lines of which few places are wanted.
#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;

namespace {

constexpr const char* kName = "order_statistic";

Aval result_aval(const OrderStatisticParams& p, std::span<const Aval> x) {
  const Aval out = ElementwiseTypes{kName, kOrdered}(x);
  if (p.rank < 0 || static_cast<std::size_t>(p.rank) >= x.size())
    throw ValueError(std::string(kName) + ": rank " + std::to_string(p.rank) + " of " +
                     std::to_string(x.size()) + " operands; the lowest is 0");
  return out;
}

Array evaluate(const OrderStatisticParams& p, std::span<const Array> x) {
  Arrays rows;
  for (const Array& each : x) rows.push_back(lax::expand_dims(each, {0}));
  const Array sorted = lax::sort(lax::concatenate(rows, 0), 0);
  Shape start(sorted.shape().size(), 0), limit = sorted.shape();
  start[0] = p.rank;
  limit[0] = p.rank + 1;
  return lax::reshape(lax::slice(sorted, start, limit), x[0].shape());
}

}  // namespace

// clang-format off: a primitive is a paragraph
/// order_statistic(x0, x1, ...) = sort(x0, x1, ...)[rank]
const Primitive<OrderStatisticParams> order_statistic_p{kName, [] { return Rules<OrderStatisticParams>{
    .impl = [](const OrderStatisticParams& p, std::span<const Array> x) {
      return Arrays{evaluate(p, x)};
    },
    .abstract_eval = [](const OrderStatisticParams& p, std::span<const Aval> x) {
      return AbstractResult(result_aval(p, x));
    },
    .batch = elementwise_batch(order_statistic_p),
    .lower = element<OrderStatisticParams>(
        [](Emitter& e, const OrderStatisticParams& p, std::span<const Scalar> x) {
          return e.order_statistic(x, static_cast<std::size_t>(p.rank));
        }).with_cost(0, 6),
    .exempt = {{"jvp", "the compiler makes it after derivatives are taken"},
               {"transpose", "never linear in its operands"}},
}; }};
// clang-format on

}  // namespace v1
}  // namespace telamon
