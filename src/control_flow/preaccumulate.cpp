// Finds linear bodies, and writes their partial derivatives.
#include "control_flow/preaccumulate.hpp"

#include <algorithm>
#include <map>

#include "core/trace.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

// A partial derivative: its factor, 1 where that is empty, and a sign that waits for a subtraction.
struct Partial {
  Array factor;
  bool negative = false;
};
using Row = std::map<std::size_t, Partial>;  // of one variable, by linear input

// The operations that are linear in the operands named here, element by element.
enum class Kind : std::uint8_t { other, neg, add, sub, mul, div };
Kind kind_of(const PrimitiveBase* primitive) {
  const std::pair<const PrimitiveBase*, Kind> table[] = {{&neg_p, Kind::neg},
                                                         {&add_p, Kind::add},
                                                         {&sub_p, Kind::sub},
                                                         {&mul_p, Kind::mul},
                                                         {&div_p, Kind::div}};
  for (const auto& [p, kind] : table)
    if (p == primitive) return kind;
  return Kind::other;
}

// Which variables are linear; nothing where an equation on them is none of the above.
std::optional<Mask> linear_variables(const Jaxpr& body, const Mask& linear) {
  Mask is_linear(static_cast<std::size_t>(body.num_vars()), false);
  std::copy(linear.begin(), linear.end(), is_linear.begin());
  for (const Eqn& eqn : body.eqns()) {
    if (eqn.effect != Effect::none || eqn.outputs.empty()) return std::nullopt;
    Mask in;
    for (const Atom& a : eqn.inputs)
      in.push_back(a.is_var() && is_linear[static_cast<std::size_t>(a.var())]);
    if (!any_of(in)) continue;
    const Kind kind = kind_of(eqn.primitive);
    const bool fits = kind == Kind::neg || (kind == Kind::mul && in[0] != in[1]) ||
                      (kind == Kind::div && !in[1]) ||
                      ((kind == Kind::add || kind == Kind::sub) && in[0] && in[1]);
    if (!fits) return std::nullopt;
    is_linear[static_cast<std::size_t>(eqn.outputs[0])] = true;
  }
  return is_linear;
}

class Preaccumulation {
 public:
  Preaccumulation(const Jaxpr& body, const Mask& linear, const Mask& is_linear)
      : body_(body), linear_(linear), is_linear_(is_linear) {}

  Arrays operator()(std::span<const Array> args) {
    values_.assign(is_linear_.size(), Array());
    rows_.assign(is_linear_.size(), Row());
    std::copy(args.begin(), args.end(), values_.begin());
    for (std::size_t i = 0; i < args.size(); ++i)
      if (linear_[i]) rows_[i] = {{i, Partial{}}};
    for (const Eqn& eqn : body_.eqns()) {
      const detail::EqnSite site(eqn.where);
      const auto out = static_cast<std::size_t>(eqn.outputs[0]);
      if (is_linear_[out]) rows_[out] = row_of(eqn);
      else evaluate(eqn);
    }
    Arrays outs;
    for (const Atom& out : body_.outs())
      outs.push_back(linear(out) ? combined(row(out), args) : value(out));
    return outs;
  }

 private:
  bool linear(const Atom& a) const {
    return a.is_var() && is_linear_[static_cast<std::size_t>(a.var())];
  }
  const Row& row(const Atom& a) const { return rows_[static_cast<std::size_t>(a.var())]; }
  const Array& value(const Atom& a) const {
    return a.is_var() ? values_[static_cast<std::size_t>(a.var())] : a.literal();
  }

  void evaluate(const Eqn& eqn) {
    Arrays operands;
    for (const Atom& in : eqn.inputs) operands.push_back(value(in));
    const Arrays results = eqn.primitive->bind_erased(eqn.params, operands);
    for (std::size_t i = 0; i < results.size(); ++i)
      values_[static_cast<std::size_t>(eqn.outputs[i])] = results[i];
  }

  Row row_of(const Eqn& eqn) const {
    const Atom& a = eqn.inputs[0];
    switch (kind_of(eqn.primitive)) {
      case Kind::neg: return negated(row(a));
      case Kind::add: return sum(row(a), row(eqn.inputs[1]), body_.avals()[index(eqn)]);
      case Kind::sub: return sum(row(a), negated(row(eqn.inputs[1])), body_.avals()[index(eqn)]);
      case Kind::mul: {
        const bool first = linear(a);
        return scaled(row(first ? a : eqn.inputs[1]), value(first ? eqn.inputs[1] : a), mul_p);
      }
      default: return scaled(row(a), value(eqn.inputs[1]), div_p);
    }
  }
  static std::size_t index(const Eqn& eqn) { return static_cast<std::size_t>(eqn.outputs[0]); }

  static Row negated(Row row) {
    for (auto& [input, partial] : row) partial.negative = !partial.negative;
    return row;
  }
  static Row scaled(Row row, const Array& by, const Primitive<>& operation) {
    for (auto& [input, partial] : row) {
      if (partial.factor.has_value()) partial.factor = operation.bind1({}, {partial.factor, by});
      else if (&operation == &mul_p) partial.factor = by;
      else partial.factor = div_p.bind1({}, {lax::full(by.aval(), 1), by});
    }
    return row;
  }
  static Row sum(Row row, const Row& other, const Aval& aval) {
    const auto dense = [&](const Partial& p) {
      return p.factor.has_value() ? p.factor : lax::full(aval, 1);
    };
    for (const auto& [input, b] : other) {
      const auto [at, is_new] = row.emplace(input, b);
      if (is_new) continue;
      Partial& a = at->second;
      if (a.negative == b.negative) a.factor = add_p.bind1({}, {dense(a), dense(b)});
      else if (b.negative) a.factor = sub_p.bind1({}, {dense(a), dense(b)});
      else a = {sub_p.bind1({}, {dense(b), dense(a)}), false};
    }
    return row;
  }

  // The row times the linear inputs: positive terms first, the others are subtracted.
  static Array combined(const Row& row, std::span<const Array> args) {
    Array total;
    for (const bool negative : {false, true}) {
      for (const auto& [input, partial] : row) {
        if (partial.negative != negative) continue;
        const Array& x = args[input];
        const Array& factor = partial.factor;
        const bool leads = !total.has_value();
        Array term = x;
        if (leads && negative) {
          // The sign of the factor is known before x is.
          term = factor.has_value() ? mul_p.bind1({}, {neg_p.bind1({}, {factor}), x})
                                    : neg_p.bind1({}, {x});
        } else if (factor.has_value()) {
          term = mul_p.bind1({}, {factor, x});
        }
        total = leads ? term : (negative ? sub_p : add_p).bind1({}, {total, term});
      }
    }
    return total;
  }

  const Jaxpr& body_;
  const Mask &linear_, &is_linear_;
  Arrays values_;  // of variables that are not linear
  std::vector<Row> rows_;
};

}  // namespace

Jaxpr preaccumulated(const Jaxpr& body, const Mask& linear) {
  const auto rewrite = [&]() -> std::optional<Jaxpr> {
    const std::optional<Mask> is_linear = linear_variables(body, linear);
    if (!is_linear) return std::nullopt;
    const auto in = body.in_avals();
    const Jaxpr result = detail::stage_flat(
                             [&](std::span<const Array> args) {
                               return Preaccumulation(body, linear, *is_linear)(args);
                             },
                             {in.begin(), in.end()})
                             .jaxpr;
    return result.eqns().size() <= body.eqns().size() ? std::optional(result) : std::nullopt;
  };
  const std::string key = "preaccumulated:" + detail::mask_text(linear);
  return body.memo<std::optional<Jaxpr>>(key, rewrite)->value_or(body);
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
