// Rules about numbers: arithmetic, bits, comparisons, selections, conversions. All of them are exact: signs of zeros and
// what integers wrap around to included.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "compiler/known_ranges.hpp"
#include "compiler/passes/simplify.hpp"
#include "core/element.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

bool integral(const Aval& a) { return is_integer(a.dtype); }
/// Whether equal numbers are equal by ==, which NaNs are not.
bool has_no_nans(const Aval& a) { return is_integer(a.dtype) || a.dtype == DType::bool_; }

/// x of -x.
const Atom* negated(const Simplifier& s, const Atom& a) {
  const Eqn* e = is_complex(s.aval(a).dtype) ? nullptr : s.defined_by(a, neg_p);
  return e == nullptr ? nullptr : &e->inputs[0];
}
/// Whether all bits of all elements are 1: true, -1, 255 in u8.
bool is_all_ones(const Simplifier& s, const Atom& a) {
  const Array* x = s.splat(a);
  if (x == nullptr) return false;
  if (x->dtype() == DType::bool_) return x->item<std::int64_t>() == 1;
  if (is_signed_integer(x->dtype())) return x->item<std::int64_t>() == -1;
  return is_integer(x->dtype()) &&
         x->item<std::uint64_t>() == ~std::uint64_t{0} >> (64 - 8 * size_of(x->dtype()));
}

IndexRange range_of_all(const Simplifier& s, const Atom& a) {
  return known_range(
      {[&](const Atom& x) { return s.definition(x); }, [&](const Atom& x) { return s.aval(x); }},
      a);
}
Compare comparison_of(const PrimitiveBase& p) {
  if (&p == &lt_p) return Compare::lt;
  if (&p == &le_p) return Compare::le;
  if (&p == &gt_p) return Compare::gt;
  if (&p == &ge_p) return Compare::ge;
  return &p == &eq_p ? Compare::eq : Compare::ne;
}

}  // namespace

// ---- arithmetic ----------------------------------------------------------------------------------
std::optional<Atom> add_zero(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const int i : {0, 1}) {
    const Atom& x = e.inputs[static_cast<std::size_t>(1 - i)];
    const Atom& zero = e.inputs[static_cast<std::size_t>(i)];
    if (s.is(zero, -0.0) || (integral(out) && s.is(zero, 0))) return x;  // x + -0 = x for every x
  }
  return std::nullopt;
}
namespace {
/// Whether no element is -0, by what the atom is computed of: a sum is -0 where both are, a difference where +0 is
/// subtracted from -0.
bool is_never_minus_zero(const Simplifier& s, const Atom& a, int depth = 4) {
  if (const Array* x = s.splat(a)) return is_float(x->dtype()) && !std::signbit(x->item<double>());
  const Eqn* e = depth > 0 ? s.definition(a) : nullptr;
  if (e == nullptr) return false;
  const auto never = [&](std::size_t i) { return is_never_minus_zero(s, e->inputs[i], depth - 1); };
  if (e->primitive == &convert_element_type_p) {
    const DType from = s.aval(e->inputs[0]).dtype;
    return from == DType::bool_ || is_integer(from);
  }
  if (e->primitive == &abs_p || e->primitive == &square_p || e->primitive == &exp_p) return true;
  if (e->primitive == &add_p) return never(0) || never(1);
  return (e->primitive == &sub_p || e->primitive == &broadcast_in_dim_p) && never(0);
}
}  // namespace
// x + +0 = x for every x but -0
std::optional<Atom> add_plus_zero(Simplifier& s, const Eqn& e, const Aval& out) {
  if (out.dtype != DType::f32 && out.dtype != DType::f64) return std::nullopt;
  for (const std::size_t i : {1, 0}) {
    if (s.is(e.inputs[i], 0) && is_never_minus_zero(s, e.inputs[1 - i])) return e.inputs[1 - i];
  }
  return std::nullopt;
}
std::optional<Atom> sub_zero(Simplifier& s, const Eqn& e, const Aval&) {
  if (s.is(e.inputs[1], 0)) return e.inputs[0];  // x - +0 = x for every x
  return std::nullopt;
}
// x + -y = x - y, but for pads, which sum_of_pads looks for in sums
std::optional<Atom> add_negated(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const std::size_t i : {1, 0}) {
    const Atom* y = negated(s, e.inputs[i]);
    if (y != nullptr && s.defined_by(e.inputs[1 - i], pad_p) == nullptr)
      return s.make(sub_p, NoParams{}, {e.inputs[1 - i], *y}, out);
  }
  return std::nullopt;
}
// x - -y = x + y
std::optional<Atom> sub_negated(Simplifier& s, const Eqn& e, const Aval& out) {
  const Atom* y = negated(s, e.inputs[1]);
  if (y == nullptr) return std::nullopt;
  return s.make(add_p, NoParams{}, {e.inputs[0], *y}, out);
}
std::optional<Atom> mul_one(Simplifier& s, const Eqn& e, const Aval&) {
  if (s.is(e.inputs[1], 1)) return e.inputs[0];
  if (s.is(e.inputs[0], 1)) return e.inputs[1];
  return std::nullopt;
}
std::optional<Atom> mul_zero(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!integral(out)) return std::nullopt;
  if (s.is(e.inputs[1], 0)) return e.inputs[1];
  if (s.is(e.inputs[0], 0)) return e.inputs[0];
  return std::nullopt;
}
// x * -1 = -x
std::optional<Atom> by_minus_one(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!is_float(out.dtype)) return std::nullopt;
  for (const std::size_t i : {1, 0}) {
    if (s.is(e.inputs[i], -1)) return s.make(neg_p, NoParams{}, {e.inputs[1 - i]}, out);
  }
  return std::nullopt;
}
// -x * -y = x * y, -x / -y = x / y
std::optional<Atom> signs_cancel(Simplifier& s, const Eqn& e, const Aval& out) {
  const Atom *x = negated(s, e.inputs[0]), *y = negated(s, e.inputs[1]);
  if (!is_float(out.dtype) || x == nullptr || y == nullptr) return std::nullopt;
  return s.make(*e.primitive, e.params, {*x, *y}, out);
}
// |-x| = |x|, (-x)^2 = x^2
std::optional<Atom> sign_unseen(Simplifier& s, const Eqn& e, const Aval& out) {
  const Atom* x = negated(s, e.inputs[0]);
  if (x == nullptr) return std::nullopt;
  if (e.primitive == &integer_pow_p && e.params.as<IntegerPowParams>().y % 2 != 0)
    return std::nullopt;
  return s.make(*e.primitive, e.params, {*x}, out);
}
// ||x|| = |x|
std::optional<Atom> as_it_is(Simplifier& s, const Eqn& e, const Aval&) {
  if (s.defined_by(e.inputs[0], *e.primitive) == nullptr) return std::nullopt;
  return e.inputs[0];
}
// x / c = x * (1/c) where 1/c is exact: powers of two, away from the ends of the range.
std::optional<Atom> div_constant(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.is(e.inputs[1], 1)) return e.inputs[0];
  const Array* c = is_float(out.dtype) ? s.splat(e.inputs[1]) : nullptr;
  if (c == nullptr || (out.dtype != DType::f32 && out.dtype != DType::f64)) return std::nullopt;
  const double v = c->item<double>();
  int exponent = 0;
  if (std::abs(std::frexp(v, &exponent)) != 0.5 || std::abs(exponent) > 100) return std::nullopt;
  const Atom factor = s.filled(1 / v, out);
  return s.make(mul_p, NoParams{}, {e.inputs[0], factor}, out);
}
std::optional<Atom> power_one(Simplifier&, const Eqn& e, const Aval&) {
  if (e.params.as<IntegerPowParams>().y == 1) return e.inputs[0];
  return std::nullopt;
}
std::optional<Atom> twice(Simplifier& s, const Eqn& e, const Aval&) {  // -(-x), !(!x)
  if (const Eqn* inner = s.defined_by(e.inputs[0], *e.primitive)) return inner->inputs[0];
  return std::nullopt;
}
std::optional<Atom> identity(Simplifier&, const Eqn& e, const Aval&) { return e.inputs[0]; }

// ---- of one number and itself, and of numbers that change nothing ---------------------------------
// max(x, x) = x, x & x = x
std::optional<Atom> with_itself(Simplifier&, const Eqn& e, const Aval&) {
  if (e.inputs[0] == e.inputs[1]) return e.inputs[0];
  return std::nullopt;
}
// x ^ x = 0, x - x = 0
std::optional<Atom> from_itself(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!(e.inputs[0] == e.inputs[1]) || !has_no_nans(out)) return std::nullopt;
  return s.filled(0, out);
}
// x == x, unless it is NaN; x < x never
std::optional<Atom> compared_with_itself(Simplifier& s, const Eqn& e, const Aval& out) {
  const bool strict = e.primitive == &lt_p || e.primitive == &gt_p;
  const Aval& x = s.aval(e.inputs[0]);
  if (!(e.inputs[0] == e.inputs[1]) || !(has_no_nans(x) || (strict && is_float(x.dtype))))
    return std::nullopt;
  return s.filled(strict || e.primitive == &ne_p ? 0 : 1, out);
}
// x | 0 = x, x ^ 0 = x, x << 0 = x
std::optional<Atom> with_zero_bits(Simplifier& s, const Eqn& e, const Aval&) {
  if (s.is(e.inputs[1], 0)) return e.inputs[0];
  if (s.is(e.inputs[0], 0) && (e.primitive == &or_p || e.primitive == &xor_p)) return e.inputs[1];
  return std::nullopt;
}
// x & 0 = 0, and x | ~0 = ~0
std::optional<Atom> absorbing_bits(Simplifier& s, const Eqn& e, const Aval&) {
  for (const Atom& a : e.inputs) {
    if (e.primitive == &and_p ? s.is(a, 0) : is_all_ones(s, a)) return a;
  }
  return std::nullopt;
}
// x & ~0 = x
std::optional<Atom> and_ones(Simplifier& s, const Eqn& e, const Aval&) {
  if (is_all_ones(s, e.inputs[1])) return e.inputs[0];
  if (is_all_ones(s, e.inputs[0])) return e.inputs[1];
  return std::nullopt;
}
// x ^ ~0 = ~x
std::optional<Atom> xor_ones(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const std::size_t i : {1, 0}) {
    if (is_all_ones(s, e.inputs[i])) return s.make(not_p, NoParams{}, {e.inputs[1 - i]}, out);
  }
  return std::nullopt;
}
// max(x, -inf) = x, min(x, inf) = x
std::optional<Atom> beyond_all(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!is_float(out.dtype)) return std::nullopt;
  const double end = e.primitive == &max_p ? -std::numeric_limits<double>::infinity()
                                           : std::numeric_limits<double>::infinity();
  if (s.is(e.inputs[1], end)) return e.inputs[0];
  if (s.is(e.inputs[0], end)) return e.inputs[1];
  return std::nullopt;
}
// Comparisons that are decided by what integers are known to lie in: argmax(x) < 0 never
std::optional<Atom> compare_known(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!integral(s.aval(e.inputs[0]))) return std::nullopt;
  const int known = decided(comparison_of(*e.primitive), range_of_all(s, e.inputs[0]),
                            range_of_all(s, e.inputs[1]));
  return known < 0 ? std::nullopt : std::optional(s.filled(known, out));
}
// min(argmax(x), 9) = argmax(x), of ten
std::optional<Atom> beyond_bounds(Simplifier& s, const Eqn& e, const Aval& out) {
  if (!integral(out)) return std::nullopt;
  const IndexRange a = range_of_all(s, e.inputs[0]), b = range_of_all(s, e.inputs[1]);
  const bool larger = e.primitive == &max_p;
  if (larger ? not_above(b, a) : not_above(a, b)) return e.inputs[0];
  if (larger ? not_above(a, b) : not_above(b, a)) return e.inputs[1];
  return std::nullopt;
}

// ---- selections ----------------------------------------------------------------------------------
std::optional<Atom> select_known(Simplifier& s, const Eqn& e, const Aval&) {
  const Array* which = s.splat(e.inputs[0]);
  if (which == nullptr) return std::nullopt;
  const auto last = static_cast<std::int64_t>(e.inputs.size()) - 2;
  const std::int64_t number =
      s.whole_number(e.inputs[0]).value_or(which->dtype() == DType::bool_ && which->item<bool>());
  return e.inputs[static_cast<std::size_t>(1 + std::clamp<std::int64_t>(number, 0, last))];
}
// select(c, x, x) = x
std::optional<Atom> select_same(Simplifier&, const Eqn& e, const Aval&) {
  for (std::size_t i = 2; i < e.inputs.size(); ++i) {
    if (!(e.inputs[i] == e.inputs[1])) return std::nullopt;
  }
  return e.inputs[1];
}
// select(!c, x, y) = select(c, y, x)
std::optional<Atom> select_of_not(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* inner = s.defined_by(e.inputs[0], not_p);
  if (inner == nullptr || s.aval(e.inputs[0]).dtype != DType::bool_ || e.inputs.size() != 3)
    return std::nullopt;
  return s.make(select_n_p, NoParams{}, {inner->inputs[0], e.inputs[2], e.inputs[1]}, out);
}
// select(c, select(c, x, y), z) = select(c, x, z)
std::optional<Atom> select_of_select(Simplifier& s, const Eqn& e, const Aval& out) {
  if (e.inputs[0].is_literal() || s.aval(e.inputs[0]).dtype != DType::bool_) return std::nullopt;
  for (const std::size_t i : {1, 2}) {
    const Eqn* inner = s.defined_by(e.inputs[i], select_n_p);
    if (inner == nullptr || !(inner->inputs[0] == e.inputs[0])) continue;
    Atoms inputs = e.inputs;
    inputs[i] = inner->inputs[i];
    return s.make(select_n_p, NoParams{}, std::move(inputs), out);
  }
  return std::nullopt;
}
// select(c, false, true) = c, select(c, true, false) = !c
std::optional<Atom> select_truth(Simplifier& s, const Eqn& e, const Aval& out) {
  if (out.dtype != DType::bool_ || s.aval(e.inputs[0]).dtype != DType::bool_) return std::nullopt;
  if (s.is(e.inputs[1], 0) && s.is(e.inputs[2], 1)) return e.inputs[0];
  if (!s.is(e.inputs[1], 1) || !s.is(e.inputs[2], 0) || s.aval(e.inputs[0]).shape != out.shape)
    return std::nullopt;
  return s.make(not_p, NoParams{}, {e.inputs[0]}, out);
}

// ---- conversions and comparisons -----------------------------------------------------------------
std::optional<Atom> convert_same(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.aval(e.inputs[0]).dtype == out.dtype) return e.inputs[0];
  return std::nullopt;
}
namespace {
/// Whether every value of `from` is one of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to || from == DType::bool_) return !is_complex(to);
  const auto digits = [](DType t) {  // bits of whole numbers that all fit
    switch (t) {
      case DType::f16: return 11;
      case DType::bf16: return 8;
      case DType::f32: return 24;
      case DType::f64: return 53;
      default: return static_cast<int>(8 * size_of(t)) - (is_signed_integer(t) ? 1 : 0);
    }
  };
  if (is_integer(from)) {
    if (is_integer(to) && is_signed_integer(from) && !is_signed_integer(to)) return false;
    return (is_integer(to) || is_float(to)) && digits(from) <= digits(to);
  }
  return (is_float(from) && to == DType::f64) || (detail::is_small_float(from) && to == DType::f32);
}
}  // namespace
std::optional<Atom> convert_chain(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* inner = s.defined_by(e.inputs[0], convert_element_type_p);
  if (inner == nullptr) return std::nullopt;
  const DType from = s.aval(inner->inputs[0]).dtype, through = s.aval(e.inputs[0]).dtype;
  if (!is_lossless(from, through)) return std::nullopt;
  // What is too large for an integer wraps if it comes from an integer, but not from a float.
  if (is_integer(from) && is_float(through) && is_integer(out.dtype) &&
      !is_lossless(from, out.dtype))
    return std::nullopt;
  return s.make(convert_element_type_p, e.params, {inner->inputs[0]}, out);
}

// Of what is converted, summed and converted back to so few bits, or fewer, the upper ones are never seen: whole numbers wrap
// around in these as they do in more.
std::optional<Atom> converted_sum(Simplifier& s, const Eqn& e, const Aval& out) {
  const Eqn* sum = s.used_once(e.inputs[0]) ? s.defined_by(e.inputs[0], reduce_sum_p) : nullptr;
  const Eqn* wide = sum == nullptr ? nullptr : s.defined_by(sum->inputs[0], convert_element_type_p);
  if (wide == nullptr || !integral(out) || !integral(s.aval(sum->inputs[0]))) return std::nullopt;
  const Atom x = wide->inputs[0];
  if (s.aval(x).dtype != out.dtype || size_of(out.dtype) >= size_of(s.aval(e.inputs[0]).dtype))
    return std::nullopt;
  return s.make(reduce_sum_p, sum->params, {x}, out);
}

// Truth values that are read are folded as the bytes that they are, of which vectors hold more at a time and masks need not
// be made first (`any` over a middle axis on Zen 4: 0.3 of the time).
std::optional<Atom> fold_of_truths(Simplifier& s, const Eqn& e, const Aval& out) {
  constexpr std::int64_t kLeastSize = 1 << 9;
  const Atom& x = e.inputs[0];
  const Aval& of = s.aval(x);
  const Eqn* const made = s.definition(x);
  if (out.dtype != DType::bool_ || of.size() < kLeastSize || x.is_literal() ||
      (made != nullptr && is_elementwise(*made)))
    return std::nullopt;
  const auto as_bytes = [](const Aval& a) { return Aval{a.shape, DType::u8, false}; };
  const Atom bytes =
      s.make(convert_element_type_p, ConvertParams{DType::u8, false}, {x}, as_bytes(of));
  const Atom folded = s.make(*e.primitive, e.params, {bytes}, as_bytes(out));
  return s.make(ne_p, NoParams{}, {folded, s.filled(0, as_bytes(out))}, out);
}

// Whether it is not 0, asked of what is true or false, or was: convert(c) != 0 = c, convert(c) == 0 = !c
std::optional<Atom> truth_of_number(Simplifier& s, const Eqn& e, const Aval& out) {
  for (const std::size_t i : {1, 0}) {
    const Eqn* number = s.defined_by(e.inputs[1 - i], convert_element_type_p);
    const Atom& truth = number == nullptr ? e.inputs[1 - i] : number->inputs[0];
    if (s.aval(truth).dtype != DType::bool_ || !s.is(e.inputs[i], 0)) continue;
    if (e.primitive == &ne_p) return truth;
    return s.make(not_p, NoParams{}, {truth}, out);
  }
  return std::nullopt;
}

namespace {
/// An integer atom in i32, if that is an equation as cheap and no value of it is out of range.
std::optional<Atom> narrowed(Simplifier& s, const Atom& a) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const Aval aval = s.aval(a);
  if (aval.dtype != DType::i64 && aval.dtype != DType::u64) return std::nullopt;
  const Aval narrow{aval.shape, DType::i32, false};
  if (const Eqn* iota = s.defined_by(a, iota_p)) {
    IotaParams p = iota->params.as<IotaParams>();
    if (p.shape[static_cast<std::size_t>(p.dimension)] > kMost) return std::nullopt;
    p.dtype = DType::i32;
    return s.make(iota_p, p, {}, narrow);
  }
  const Array* c = s.splat(a);
  if (c == nullptr || aval.dtype != DType::i64) return std::nullopt;
  const auto value = c->item<std::int64_t>();
  if (value > kMost || value < -kMost) return std::nullopt;
  return s.filled(value, narrow);
}
}  // namespace
// Rows of the identity: what is compared are positions, which are as wide in i32 as a result in f32. For one in f64 the
// truth would have to be made as wide as that again, which takes longer than to compare in i64 (Jacobians with AVX2: 1.4 times).
std::optional<Atom> compare_positions(Simplifier& s, const Eqn& e, const Aval& out) {
  if (s.has_f64()) return std::nullopt;
  if (s.defined_by(e.inputs[0], iota_p) == nullptr && s.defined_by(e.inputs[1], iota_p) == nullptr)
    return std::nullopt;
  const auto x = narrowed(s, e.inputs[0]), y = x ? narrowed(s, e.inputs[1]) : std::nullopt;
  if (!x || !y) return std::nullopt;
  return s.make(*e.primitive, e.params, {*x, *y}, out);
}
// Of a row of the identity times what is the same in many rows: convert(i == j) * x = select(i == j, 0 * x, x), of which
// 0 * x is computed less often.
std::optional<Atom> mul_position(Simplifier& s, const Eqn& e, const Aval& out) {
  if (out.dtype != DType::f32 && out.dtype != DType::f64) return std::nullopt;
  for (const std::size_t i : {1, 0}) {
    const Eqn* number = s.defined_by(e.inputs[i], convert_element_type_p);
    const Eqn* equal = number == nullptr ? nullptr : s.defined_by(number->inputs[0], eq_p);
    const Eqn* spread = s.defined_by(e.inputs[1 - i], broadcast_in_dim_p);
    if (equal == nullptr || spread == nullptr || s.splat(e.inputs[1 - i]) != nullptr ||
        (s.defined_by(equal->inputs[0], iota_p) == nullptr &&
         s.defined_by(equal->inputs[1], iota_p) == nullptr))
      continue;
    const Atom truth = number->inputs[0], x = e.inputs[1 - i], few = spread->inputs[0];
    const Aval aval = s.aval(few).strong();
    if (aval.size() >= out.size()) continue;
    const Params params = spread->params;
    const Atom product = s.make(mul_p, NoParams{}, {s.filled(0, aval), few}, aval);
    return s.make(select_n_p, NoParams{},
                  {truth, s.make(broadcast_in_dim_p, params, {product}, out.strong()), x}, out);
  }
  return std::nullopt;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
