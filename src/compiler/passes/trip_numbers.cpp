// Which integers of a loop's body count from trip to trip.
#include "compiler/passes/trip_numbers.hpp"

#include <algorithm>
#include <cstdlib>

#include "compiler/forms.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMostElements = 8;  // of an index vector
// No sum or product of numbers below leaves 64 bits.
constexpr std::int64_t kMostNumber = std::int64_t{1} << 40, kMostFactor = std::int64_t{1} << 20,
                       kMostRows = std::int64_t{1} << 20;

}  // namespace

bool TripNumbers::holds(DType dtype, const Counting& c) const {
  if (rows_ < 1 || rows_ > kMostRows || std::abs(c.first) > kMostNumber ||
      std::abs(c.step) > kMostNumber || c.slack > kMostNumber)
    return false;
  if (std::abs(last(c)) > kMostNumber) return false;
  if (dtype == DType::bool_) return least(c) >= 0 && most(c) <= 1;
  if (!is_integer(dtype)) return false;
  const int bits = static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  const std::int64_t limit = bits > 40 ? kMostNumber : (std::int64_t{1} << bits) - 1;
  return least(c) >= (is_signed_integer(dtype) ? -limit - 1 : 0) && most(c) <= limit;
}

// Unless its type does not hold it in all rows.
void TripNumbers::set(Var input, const Counting& number) {
  const Aval& aval = body_.aval(input);
  if (aval.size() == 1 && holds(aval.dtype, number)) numbers_[input] = {number};
}

std::optional<std::vector<Counting>> TripNumbers::all(const Atom& a) const {
  if (a.is_var()) {
    const auto found = numbers_.find(a.var());
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  const DType dtype = a.literal().dtype();
  if (dtype == DType::bool_) return std::vector<Counting>{{a.literal().item<bool>() ? 1 : 0}};
  if (!is_integer(dtype)) return std::nullopt;
  const auto number = a.literal().item<double>();  // exact where it is not too large
  if (std::abs(number) > static_cast<double>(kMostNumber)) return std::nullopt;
  return std::vector<Counting>{{static_cast<std::int64_t>(number)}};
}
std::optional<Counting> TripNumbers::one(const Atom& a) const {
  const auto numbers = all(a);
  return numbers && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
}

namespace {
Counting negated(const Counting& x) { return {-x.first - x.slack, -x.step, x.slack}; }
Counting sum(const Counting& x, const Counting& y) {
  return {x.first + y.first, x.step + y.step, x.slack + y.slack};
}
}  // namespace

// The same in all rows, or nothing.
std::optional<bool> TripNumbers::compared(const Eqn& eqn, const Counting& x,
                                          const Counting& y) const {
  const Counting difference = sum(x, negated(y));
  const std::int64_t low = least(difference), high = most(difference);
  const auto is = [&](bool always, bool never) -> std::optional<bool> {
    return always || never ? std::optional(always) : std::nullopt;
  };
  if (eqn.primitive == &lt_p) return is(high < 0, low >= 0);
  if (eqn.primitive == &le_p) return is(high <= 0, low > 0);
  if (eqn.primitive == &gt_p) return is(low > 0, high <= 0);
  if (eqn.primitive == &ge_p) return is(low >= 0, high < 0);
  return std::nullopt;
}

std::optional<Counting> TripNumbers::element(const Eqn& eqn, const std::vector<Counting>& x) const {
  const PrimitiveBase* p = eqn.primitive;
  if (p == &convert_element_type_p) return x[0];
  if (p == &neg_p) return negated(x[0]);
  if (p == &add_p) return sum(x[0], x[1]);
  if (p == &sub_p) return sum(x[0], negated(x[1]));
  if (p == &mul_p) {
    const auto is_number = [](const Counting& c) { return c.step == 0 && c.slack == 0; };
    const std::size_t by = is_number(x[1]) ? 1 : 0;
    const std::int64_t factor = x[by].first;
    if (!is_number(x[by]) || std::abs(factor) > kMostFactor) return std::nullopt;
    const Counting of = factor < 0 ? negated(x[1 - by]) : x[1 - by];
    const std::int64_t times = std::abs(factor);
    return Counting{times * of.first, times * of.step, times * of.slack};
  }
  if (p == &max_p || p == &min_p) {
    const Counting difference = sum(x[0], negated(x[1]));
    if (least(difference) >= 0) return x[p == &max_p ? 0 : 1];
    if (most(difference) <= 0) return x[p == &max_p ? 1 : 0];
    return std::nullopt;
  }
  if (p == &select_n_p) {
    const std::int64_t which = x[0].first;
    const bool known = x[0].step == 0 && x[0].slack == 0 && which >= 0 && which + 1 < std::ssize(x);
    return known ? std::optional(x[static_cast<std::size_t>(which) + 1]) : std::nullopt;
  }
  const auto truth = x.size() == 2 ? compared(eqn, x[0], x[1]) : std::nullopt;
  return truth ? std::optional(Counting{*truth ? 1 : 0}) : std::nullopt;
}

std::optional<std::vector<Counting>> TripNumbers::result(const Eqn& eqn) const {
  const auto size = static_cast<std::size_t>(body_.aval(eqn.outputs[0]).size());
  std::vector<std::vector<Counting>> operands;
  for (const Atom& a : eqn.inputs) {
    auto numbers = all(a);
    // One of two that are not compared need not count.
    if (!numbers && eqn.primitive == &select_n_p && !operands.empty()) numbers.emplace();
    if (!numbers) return std::nullopt;
    operands.push_back(std::move(*numbers));
  }
  if (eqn.primitive == &reshape_p) return operands[0];
  if (eqn.primitive == &broadcast_in_dim_p) {
    if (operands[0].size() == size) return operands[0];
    if (operands[0].size() != 1) return std::nullopt;
    return std::vector(size, operands[0][0]);
  }
  if (eqn.primitive == &concatenate_p) {
    if (body_.aval(eqn.outputs[0]).ndim() != 1) return std::nullopt;
    std::vector<Counting> joined;
    for (const auto& part : operands) joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  }
  if (!works_by_element(*eqn.primitive)) return std::nullopt;
  std::vector<Counting> out;
  for (std::size_t i = 0; i < size; ++i) {
    std::vector<Counting> x;
    for (const auto& operand : operands) {
      if (operand.empty()) x.push_back({2 * kMostNumber});  // which no type holds
      else x.push_back(operand[operand.size() == 1 ? 0 : i]);
    }
    const auto y = element(eqn, x);
    if (!y) return std::nullopt;
    out.push_back(*y);
  }
  return out;
}

void TripNumbers::look_at(const Eqn& eqn) {
  if (eqn.outputs.size() != 1 || eqn.effect != Effect::none) return;
  const Var out = eqn.outputs[0];
  if (eqn.primitive == &iota_p && eqn.params.as<IotaParams>().dimension == 0) iotas_.insert(out);
  const Aval& aval = body_.aval(out);
  if (eqn.inputs.empty() || (!is_integer(aval.dtype) && aval.dtype != DType::bool_) ||
      aval.size() < 1 || aval.size() > kMostElements)
    return;
  auto numbers = result(eqn);
  const auto fits = [&](const Counting& c) { return holds(aval.dtype, c); };
  if (numbers && std::all_of(numbers->begin(), numbers->end(), fits))
    numbers_[out] = std::move(*numbers);
}
void TripNumbers::look_at_all() {
  for (const Eqn& eqn : body_.eqns()) look_at(eqn);
}

namespace {
/// What an equation adds to a carry, a literal; nothing where it does something else.
std::optional<std::int64_t> step_of(const Jaxpr& body, Var carry, const Eqn& next) {
  if (!one_of(next, {&add_p, &sub_p})) return std::nullopt;
  const bool adds = next.primitive == &add_p;
  const std::size_t at = adds && next.inputs[1] == Atom::var(carry) ? 1 : 0;
  const auto by = TripNumbers(body, 1).one(next.inputs[1 - at]);
  if (!(next.inputs[at] == Atom::var(carry)) || !by) return std::nullopt;
  return adds ? by->first : -by->first;
}
}  // namespace

TripNumbers TripNumbers::of_body(const Eqn& scan) const {
  const auto& p = scan.params.as<ScanParams>();
  TripNumbers inside(p.jaxpr, p.length);
  if (p.length > kMostRows) return inside;
  const std::vector<int> producer = detail::producers(p.jaxpr);
  const int num_fixed = p.num_consts + p.num_carry;
  for (int i = 0; i < static_cast<int>(scan.inputs.size()); ++i) {
    const Atom& operand = scan.inputs[static_cast<std::size_t>(i)];
    if (i >= num_fixed) {
      if (operand.is_var() && iotas_.contains(operand.var())) inside.set(i, {0, 1});
      continue;
    }
    const auto number = one(operand);
    if (!number || !is_integer(p.jaxpr.aval(i).dtype)) continue;
    if (i < p.num_consts) {
      inside.set(i, {least(*number), 0, most(*number) - least(*number)});
      continue;
    }
    const Atom& next = p.jaxpr.outs()[static_cast<std::size_t>(i - p.num_consts)];
    const int e = next.is_var() ? producer[static_cast<std::size_t>(next.var())] : -1;
    if (e < 0) continue;
    const auto step = step_of(p.jaxpr, i, p.jaxpr.eqns()[static_cast<std::size_t>(e)]);
    if (!step || number->step != 0 || number->slack != 0) continue;
    if (p.reverse) inside.set(i, {number->first + *step * (p.length - 1), -*step});
    else inside.set(i, {number->first, *step});
  }
  return inside;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
