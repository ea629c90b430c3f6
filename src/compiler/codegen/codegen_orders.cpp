// Order statistics in registers.
//
// Most numbers are in order by comparisons alone, whatever way they come: a network of minima and maxima. It does not know
// what `sort` does, that NaN comes last, and that zeros keep their order, whatever their signs. So where a vector has
// NaN or a negative zero that may come out, a loop over neighbours does it instead, which looks at each pair as `sort`
// does.
#include <cstdint>
#include <limits>
#include <span>

#include "compiler/codegen/codegen_impl.hpp"
#include "compiler/codegen/sorting_network.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// The number at `rank` if comparisons alone decide. All bits of a result are those of one of x, even among NaN.
Scalar select_by_network(CodeGen& gen, Scalars x, std::size_t rank) {
  const bool is_floating = is_float(x[0].dtype());
  for (const Comparison& c : selecting_network(x.size(), rank)) {
    const Scalar a = x[c.low], b = x[c.high];
    if (!is_floating) {
      if (c.wants_low) x[c.low] = gen.min(a, b);
      if (c.wants_high) x[c.high] = gen.max(a, b);
      continue;
    }
    // Each is one instruction.
    const Scalar in_order = gen.compare(Compare::lt, a, b);
    if (c.wants_low) x[c.low] = gen.select(in_order, a, b);
    if (c.wants_high) x[c.high] = gen.select(in_order, b, a);
  }
  return x[rank];
}

/// As `sort` does: neighbours change places in as many rounds as there are numbers (odd-even transposition), but equal ones
/// never do, and NaN with any number behind it.
Scalar select_among_neighbours(CodeGen& gen, Scalars x, std::size_t rank) {
  bool uniform = true;
  for (const Scalar each : x) uniform &= gen.is_uniform(each);
  if (!uniform) {
    for (Scalar& each : x) each = gen.splat(each);
  }
  const auto two_rounds = [&](Scalar, const Scalars& carried) {
    Scalars y = carried;
    for (const std::size_t first : {0, 1}) {
      for (std::size_t i = first; i + 1 < y.size(); i += 2) {
        const Scalar a = y[i], b = y[i + 1];
        const Scalar out_of_order =
            gen.and_(gen.not_(gen.compare(Compare::le, a, b)), gen.compare(Compare::eq, b, b));
        y[i] = gen.select(out_of_order, b, a);
        y[i + 1] = gen.select(out_of_order, a, b);
      }
    }
    return y;
  };
  const auto rounds = static_cast<std::int64_t>((x.size() + 1) / 2);
  return gen.loop_carried(gen.index(0), gen.index(rounds), 1, x, two_rounds)[rank];
}

/// Its bits are the least of all, as those of an integer.
Scalar has_negative_zero(CodeGen& gen, std::span<const Scalar> x) {
  const bool wide = size_of(x[0].dtype()) == 8;
  const DType bits = wide ? DType::i64 : DType::i32;
  const std::int64_t sign =
      wide ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int32_t>::min();
  Scalar least = gen.bitcast(x[0], bits);
  for (const Scalar each : x.subspan(1)) least = gen.min(least, gen.bitcast(each, bits));
  return gen.compare(Compare::eq, least, gen.constant_int(bits, sign));
}

}  // namespace

Scalar CodeGen::order_statistic(std::span<const Scalar> x, std::size_t rank) {
  const Scalar usual = select_by_network(*this, {x.begin(), x.end()}, rank);
  if (x.size() == 1 || !is_float(usual.dtype())) return usual;
  // Any two of them are looked at for NaN at once.
  Scalar numbers = constant_int(DType::bool_, 1);
  for (std::size_t i = 0; i < x.size(); i += 2)
    numbers = and_(numbers, impl_->ordered(x[i], x[i + 1 < x.size() ? i + 1 : i]));
  const Scalar has_nan = not_(numbers);
  const Scalar is_zero = compare(Compare::eq, usual, constant(usual.dtype(), 0));

  const auto as_it_is = [&] { return Scalars{usual}; };
  const auto among_neighbours = [&] {
    return Scalars{select_among_neighbours(*this, {x.begin(), x.end()}, rank)};
  };
  const auto look_closer = [&] {
    return if_else(any_lane(or_(has_nan, has_negative_zero(*this, x))), among_neighbours, as_it_is,
                   Likely::otherwise);
  };
  return if_else(any_lane(or_(has_nan, is_zero)), look_closer, as_it_is, Likely::otherwise)[0];
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
