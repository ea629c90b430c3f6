// order_statistic: of arrays, element by element, the one of some rank when they are sorted. What the compiler makes of sorts
// of short lines of which few places are wanted.
#include <algorithm>

#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;

namespace {

constexpr const char* kName = "order_statistic";

Aval result_aval(const OrderStatisticParams& p, std::span<const Aval> x) {
  if (x.empty())
    throw ValueError(std::string(kName) + " takes the operands that it orders, and there are none");
  const Aval out = ElementwiseTypes{kName, kOrdered}(x);
  if (p.rank < 0 || static_cast<std::size_t>(p.rank) >= x.size())
    throw ValueError(std::string(kName) + ": rank " + std::to_string(p.rank) + " of " +
                     std::to_string(x.size()) + " operands of type " + out.to_string() +
                     "; ranks go from 0, the lowest, to " + std::to_string(x.size() - 1));
  return out;
}

/// Above each other, as lines of a new first axis.
Array stacked(std::span<const Array> x) {
  Arrays rows;
  for (const Array& each : x) rows.push_back(lax::expand_dims(each, {0}));
  return lax::concatenate(rows, 0);
}
Array row(const Array& x, std::int64_t i) {
  Shape start(x.shape().size(), 0), limit = x.shape();
  start[0] = i;
  limit[0] = i + 1;
  const Array one = lax::slice(x, start, limit);
  limit.erase(0);
  return lax::reshape(one, limit);
}

Array evaluate(const OrderStatisticParams& p, std::span<const Array> x) {
  Avals avals;
  for (const Array& each : x) avals.push_back(each.aval());
  static_cast<void>(result_aval(p, avals));  // or what is called below would refuse them
  return row(lax::sort(stacked(x), 0), p.rank);
}

/// The tangent of the operand that the result is.
JvpResult jvp(const OrderStatisticParams& p, std::span<const Array> x,
              std::span<const Tangent> dx) {
  Array out = order_statistic_p.bind(p, x)[0];
  if (std::all_of(dx.begin(), dx.end(), [](const Tangent& t) { return t.is_zero(); })) {
    const Aval zero = out.aval().tangent();
    return {{std::move(out)}, {Zero{zero}}};
  }
  const Array all = stacked(x);
  const Array from =
      sort_p.bind({0, true, 1}, Arrays{all, lax::iota(DType::i32, all.shape(), 0)})[1];
  Arrays tangents;
  for (const Tangent& t : dx) tangents.push_back(t.instantiate());
  return {{std::move(out)}, {lax::select_n(row(from, p.rank), tangents)}};
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
    .jvp = jvp,
    .batch = elementwise_batch(order_statistic_p),
    .lower = element<OrderStatisticParams>(
        [](Emitter& e, const OrderStatisticParams& p, std::span<const Scalar> x) {
          return e.order_statistic(x, static_cast<std::size_t>(p.rank));
        }).with_cost(0, 6),
    .exempt = {{"transpose", "not linear: its tangents go through a choice"}},
}; }};
// clang-format on

}  // namespace v1
}  // namespace telamon
