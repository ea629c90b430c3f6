// Which integers of a loop's body count from trip to trip.
#include "compiler/passes/trip_numbers.hpp"

#include <algorithm>
#include <cstdlib>

#include "compiler/forms.hpp"
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
      std::abs(c.step) > kMostNumber)
    return false;
  if (std::abs(last(c)) > kMostNumber) return false;
  if (dtype == DType::bool_) return least(c) >= 0 && most(c) <= 1;
  if (!is_integer(dtype)) return false;
  const int bits = static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  const std::int64_t limit = bits > 40 ? kMostNumber : (std::int64_t{1} << bits) - 1;
  return least(c) >= (is_signed_integer(dtype) ? -limit - 1 : 0) && most(c) <= limit;
}

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
  if (dtype == DType::bool_) return std::vector<Counting>{{a.literal().item<bool>() ? 1 : 0, 0}};
  if (!is_integer(dtype)) return std::nullopt;
  const auto number = a.literal().item<double>();  // exact where it is not too large
  if (std::abs(number) > static_cast<double>(kMostNumber)) return std::nullopt;
  return std::vector<Counting>{{static_cast<std::int64_t>(number), 0}};
}
std::optional<Counting> TripNumbers::one(const Atom& a) const {
  const auto numbers = all(a);
  return numbers && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
}

// The same in all rows, or nothing.
std::optional<bool> TripNumbers::compared(const Eqn& eqn, const Counting& x,
                                          const Counting& y) const {
  const Counting difference{x.first - y.first, x.step - y.step};
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
  if (p == &neg_p) return Counting{-x[0].first, -x[0].step};
  if (p == &add_p) return Counting{x[0].first + x[1].first, x[0].step + x[1].step};
  if (p == &sub_p) return Counting{x[0].first - x[1].first, x[0].step - x[1].step};
  if (p == &mul_p) {
    const std::size_t by = x[1].step == 0 ? 1 : 0;
    const std::int64_t factor = x[by].first;
    if (x[by].step != 0 || std::abs(factor) > kMostFactor) return std::nullopt;
    return Counting{factor * x[1 - by].first, factor * x[1 - by].step};
  }
  if (p == &max_p || p == &min_p) {
    const Counting difference{x[0].first - x[1].first, x[0].step - x[1].step};
    if (least(difference) >= 0) return x[p == &max_p ? 0 : 1];
    if (most(difference) <= 0) return x[p == &max_p ? 1 : 0];
    return std::nullopt;
  }
  if (p == &select_n_p) {
    const std::int64_t which = x[0].first;
    const bool known = x[0].step == 0 && which >= 0 && which + 1 < std::ssize(x);
    return known ? std::optional(x[static_cast<std::size_t>(which) + 1]) : std::nullopt;
  }
  const auto truth = x.size() == 2 ? compared(eqn, x[0], x[1]) : std::nullopt;
  return truth ? std::optional(Counting{*truth ? 1 : 0, 0}) : std::nullopt;
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
      if (operand.empty()) x.push_back({2 * kMostNumber, 0});  // which no type holds
      else x.push_back(operand[operand.size() == 1 ? 0 : i]);
    }
    const auto y = element(eqn, x);
    if (!y) return std::nullopt;
    out.push_back(*y);
  }
  return out;
}

void TripNumbers::look_at(const Eqn& eqn) {
  if (eqn.outputs.size() != 1 || eqn.inputs.empty() || eqn.effect != Effect::none) return;
  const Aval& aval = body_.aval(eqn.outputs[0]);
  if ((!is_integer(aval.dtype) && aval.dtype != DType::bool_) || aval.size() < 1 ||
      aval.size() > kMostElements)
    return;
  auto numbers = result(eqn);
  if (!numbers) return;
  const auto fits = [&](const Counting& c) { return holds(aval.dtype, c); };
  if (std::all_of(numbers->begin(), numbers->end(), fits))
    numbers_[eqn.outputs[0]] = std::move(*numbers);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
