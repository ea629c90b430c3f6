// Rules about whole numbers divided by a known one. Quotients of positive ones that are rounded down, as floor_divide and
// remainder do: both correct what div and rem give, which round towards zero, where the remainder is negative. Bytes that
// are divided as floats.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "compiler/passes/simplify.hpp"
#include "core/concrete.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// The positive number by which this equation, a div or rem of signed integers, divides; 0 for all others.
std::int64_t divisor(const Simplifier& s, const Eqn& e) {
  const Array* c = s.splat(e.inputs[1]);
  if (c == nullptr || !is_signed_integer(c->dtype())) return 0;
  return std::max<std::int64_t>(c->item<std::int64_t>(), 0);
}
/// The equation of a remainder by a known positive number, which has the sign of what is divided.
const Eqn* remainder(const Simplifier& s, const Atom& a) {
  const Eqn* e = s.defined_by(a, rem_p);
  return e != nullptr && divisor(s, *e) > 0 ? e : nullptr;
}
/// x of p(x, number), of integers.
const Atom* x_with(const Simplifier& s, const Atom& a, const PrimitiveBase& p,
                   std::int64_t number) {
  const Eqn* e = s.defined_by(a, p);
  return e != nullptr && s.is_whole(e->inputs[1], number) ? &e->inputs[0] : nullptr;
}

}  // namespace

// Of a remainder r of x: (sign(x) != 1) & (r != 0) = r < 0, (r < 0) & (r != 0) = r < 0
std::optional<Atom> negative_remainder(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const std::size_t i : {1, 0}) {
    const Atom* r = x_with(s, e.inputs[i], ne_p, 0);
    const Eqn* rem = r == nullptr ? nullptr : remainder(s, *r);
    if (rem == nullptr) continue;
    const Atom& other = e.inputs[1 - i];
    if (const Atom* negative = x_with(s, other, lt_p, 0); negative != nullptr && *negative == *r)
      return other;
    const Atom* sign_of = x_with(s, other, ne_p, 1);
    const Eqn* sign = sign_of == nullptr ? nullptr : s.defined_by(*sign_of, sign_p);
    if (sign == nullptr || !(sign->inputs[0] == rem->inputs[0])) continue;
    const Eqn* unequal = s.defined_by(e.inputs[i], ne_p);
    return s.make(lt_p, NoParams{}, {*r, unequal->inputs[1]}, out);
  }
  return std::nullopt;
}

// By c = 2^k: select(r < 0, q, q - 1) = x >> k, select(r < 0, r, r + c) = x & (c - 1)
std::optional<Atom> floored_by_power_of_two(Simplifier& s, const Eqn& e, const Aval& out) {
  const Atom* r = e.inputs.size() == 3 ? x_with(s, e.inputs[0], lt_p, 0) : nullptr;
  const Eqn* rem = r == nullptr ? nullptr : remainder(s, *r);
  if (rem == nullptr) return std::nullopt;
  const std::int64_t c = divisor(s, *rem);
  if (!std::has_single_bit(static_cast<std::uint64_t>(c))) return std::nullopt;
  const Atom x = rem->inputs[0], q = e.inputs[1];
  if (const Atom* sum = x_with(s, e.inputs[2], add_p, c); q == *r && sum != nullptr && *sum == *r)
    return s.make(and_p, NoParams{}, {x, s.filled(c - 1, out)}, out);
  const Eqn* div = s.defined_by(q, div_p);
  const Atom* difference = x_with(s, e.inputs[2], sub_p, 1);
  if (div == nullptr || difference == nullptr || !(*difference == q) || !(div->inputs[0] == x) ||
      divisor(s, *div) != c)
    return std::nullopt;
  const int k = std::countr_zero(static_cast<std::uint64_t>(c));
  return s.make(shift_right_arithmetic_p, NoParams{}, {x, s.filled(k, out)}, out);
}

// x / c = x h + x l for bytes x: h are the first bits of 1/c, so few that x h is exact, and l those that follow. The sum is
// the quotient but for ties that the rest of 1/c would decide, so each byte is tried, with a sum that may be contracted, too.
// (Three operations of a cycle each for one of seven: pixels / 255 on Zen 4, 0.6 of the time.)
std::optional<Atom> byte_over_number(Simplifier& s, const Eqn& e, const Aval& out) {
  constexpr std::uint32_t kExact = ~std::uint32_t{0xff};  // 16 of 24 bits are left
  const Eqn* number =
      out.dtype == DType::f32 ? s.defined_by(e.inputs[0], convert_element_type_p) : nullptr;
  const DType from = number == nullptr ? DType::f32 : s.aval(number->inputs[0]).dtype;
  const Array* c = from == DType::u8 || from == DType::i8 ? s.splat(e.inputs[1]) : nullptr;
  if (c == nullptr) return std::nullopt;
  const auto by = c->item<float>();
  const double inverse = 1 / static_cast<double>(by);
  const auto high =
      std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(inverse)) & kExact);
  const auto low = static_cast<float>(inverse - static_cast<double>(high));
  if (!std::isnormal(by) || !std::isnormal(high) || !std::isnormal(low)) return std::nullopt;
  const int first = from == DType::i8 ? -128 : 0;
  for (int i = first; i < first + 256; ++i) {
    const auto x = static_cast<float>(i);
    const auto quotient = std::bit_cast<std::uint32_t>(x / by);
    const float product = x * high, rest = x * low, contracted = std::fma(x, low, product);
    if (std::bit_cast<std::uint32_t>(product + rest) != quotient ||
        std::bit_cast<std::uint32_t>(contracted) != quotient)
      return std::nullopt;
  }
  const Atom x = e.inputs[0];
  const Atom product =
      s.make(mul_p, NoParams{}, {x, s.filled(static_cast<double>(high), out)}, out);
  const Atom rest = s.make(mul_p, NoParams{}, {x, s.filled(static_cast<double>(low), out)}, out);
  return s.make(add_p, NoParams{}, {product, rest}, out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
