// What integers lie in, by the primitive that makes them.
#include "compiler/known_ranges.hpp"

#include <algorithm>
#include <iterator>

#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

IndexRange either(IndexRange a, IndexRange b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

class KnownRange {
 public:
  explicit KnownRange(const Definitions& program) : program_(program) {}

  IndexRange operator()(const Atom& a) {
    if (a.is_literal()) return of_literal(a.literal());
    const DType dtype = program_.aval(a).dtype;
    if (!is_integer(dtype)) return {};
    const Eqn* const eqn = left_-- > 0 ? program_.of(a) : nullptr;
    if (eqn == nullptr) return range_of(dtype);
    const IndexRange r = of(*eqn, a.var()), all = range_of(dtype);
    // What is beyond the type has wrapped around.
    return r.low < all.low || r.high > all.high ? all : r;
  }

 private:
  using Rule = IndexRange (*)(KnownRange&, const Eqn&, Var out);

  static IndexRange of_literal(const Array& number) {
    if (!is_integer(number.dtype()) || number.size() != 1) return {};
    if (number.dtype() == DType::u64 &&
        number.item<std::uint64_t>() >= static_cast<std::uint64_t>(IndexRange::kFar))
      return {};
    const auto n = number.item<std::int64_t>();
    return n > -IndexRange::kFar && n < IndexRange::kFar ? IndexRange{n, n} : IndexRange{};
  }
  static IndexRange of_operand(KnownRange& r, const Eqn& e, Var) { return r(e.inputs[0]); }
  // Of 64 bits without a sign the upper half is negative with one: what is not known at both ends says nothing.
  static IndexRange of_converted(KnownRange& r, const Eqn& e, Var) {
    const IndexRange x = r(e.inputs[0]);
    return x.known() ? x : IndexRange{};
  }
  static IndexRange of_operands(KnownRange& r, const Eqn& e, Var) { return r.all(e, 0); }
  // Of what wraps from below 0, select(x < 0, x, x + n), it may be known that it does not.
  static IndexRange of_cases(KnownRange& r, const Eqn& e, Var) {
    const int which = e.inputs.size() == 3 ? r.is_less(e.inputs[0]) : -1;
    return which < 0 ? r.all(e, 1) : r(e.inputs[1 + static_cast<std::size_t>(which)]);
  }
  static IndexRange of_windows(KnownRange& r, const Eqn& e, Var) {
    const bool fills = e.params.as<GatherParams>().mode == GatherScatterMode::fill_or_drop;
    return fills ? IndexRange{} : r(e.inputs[0]);
  }
  static IndexRange of_sorted(KnownRange& r, const Eqn& e, Var out) {
    const auto k = std::find(e.outputs.begin(), e.outputs.end(), out) - e.outputs.begin();
    return r(e.inputs[static_cast<std::size_t>(k)]);
  }
  static IndexRange of_iota(KnownRange&, const Eqn& e, Var) {
    const auto& p = e.params.as<IotaParams>();
    return {0, p.shape[static_cast<std::size_t>(p.dimension)] - 1};
  }
  static IndexRange of_place(KnownRange& r, const Eqn& e, Var) {
    const std::int64_t axis = e.params.as<ArgReduceParams>().axes[0];
    return {0, r.program_.aval(e.inputs[0]).shape[static_cast<std::size_t>(axis)] - 1};
  }
  static IndexRange of_sum(KnownRange& r, const Eqn& e, Var) {
    return r(e.inputs[0]) + r(e.inputs[1]);
  }
  static IndexRange of_difference(KnownRange& r, const Eqn& e, Var) {
    return r(e.inputs[0]) + -r(e.inputs[1]);
  }
  static IndexRange of_product(KnownRange& r, const Eqn& e, Var) {
    const IndexRange a = r(e.inputs[0]), b = r(e.inputs[1]);
    return b.low == b.high ? a * b.low : a.low == a.high ? b * a.low : IndexRange{};
  }
  static IndexRange of_min(KnownRange& r, const Eqn& e, Var) {
    const IndexRange a = r(e.inputs[0]), b = r(e.inputs[1]);
    return {std::min(a.low, b.low), std::min(a.high, b.high)};
  }
  static IndexRange of_max(KnownRange& r, const Eqn& e, Var) {
    const IndexRange a = r(e.inputs[0]), b = r(e.inputs[1]);
    return {std::max(a.low, b.low), std::max(a.high, b.high)};
  }
  // min(max(x, low), high)
  static IndexRange of_clamp(KnownRange& r, const Eqn& e, Var) {
    const IndexRange low = r(e.inputs[0]), x = r(e.inputs[1]), high = r(e.inputs[2]);
    return {std::min(std::max(x.low, low.low), high.low),
            std::min(std::max(x.high, low.high), high.high)};
  }

  static Rule rule_of(const PrimitiveBase& p) {
    struct Entry {
      const PrimitiveBase* primitive;
      Rule rule;
    };
    static const Entry kRules[] = {{&reshape_p, of_operand},
                                   {&broadcast_in_dim_p, of_operand},
                                   {&transpose_p, of_operand},
                                   {&slice_p, of_operand},
                                   {&squeeze_p, of_operand},
                                   {&expand_dims_p, of_operand},
                                   {&rev_p, of_operand},
                                   {&dynamic_slice_p, of_operand},
                                   {&copy_p, of_operand},
                                   {&convert_element_type_p, of_converted},
                                   {&concatenate_p, of_operands},
                                   {&select_n_p, of_cases},
                                   {&gather_p, of_windows},
                                   {&sort_p, of_sorted},
                                   {&iota_p, of_iota},
                                   {&argmax_p, of_place},
                                   {&argmin_p, of_place},
                                   {&add_p, of_sum},
                                   {&sub_p, of_difference},
                                   {&mul_p, of_product},
                                   {&min_p, of_min},
                                   {&max_p, of_max},
                                   {&clamp_p, of_clamp}};
    const auto* const found = std::find_if(std::begin(kRules), std::end(kRules),
                                           [&](const Entry& e) { return e.primitive == &p; });
    return found == std::end(kRules) ? nullptr : found->rule;
  }

  IndexRange of(const Eqn& eqn, Var out) {
    const Rule rule = rule_of(*eqn.primitive);
    return rule != nullptr ? rule(*this, eqn, out) : IndexRange{};
  }
  /// Whether a condition compares with what is known to be larger, or not: 1 or 0; else -1.
  int is_less(const Atom& condition) {
    const Eqn* const eqn = condition.is_var() ? program_.of(condition) : nullptr;
    if (eqn == nullptr || eqn->primitive != &lt_p) return -1;
    return decided(Compare::lt, (*this)(eqn->inputs[0]), (*this)(eqn->inputs[1]));
  }
  IndexRange all(const Eqn& eqn, std::size_t first) {
    IndexRange r = (*this)(eqn.inputs[first]);
    for (std::size_t k = first + 1; k < eqn.inputs.size(); ++k)
      r = either(r, (*this)(eqn.inputs[k]));
    return r;
  }

  const Definitions& program_;
  int left_ = 32;  // equations that are looked at
};

}  // namespace

IndexRange known_range(const Definitions& program, const Atom& a) { return KnownRange(program)(a); }

IndexRange known_range(const Jaxpr& jaxpr, const std::vector<int>& producer, const Atom& a) {
  const Definitions program{[&](const Atom& x) {
                              const int e = producer[static_cast<std::size_t>(x.var())];
                              return e < 0 ? nullptr : &jaxpr.eqns()[static_cast<std::size_t>(e)];
                            },
                            [&](const Atom& x) { return jaxpr.aval(x); }};
  return known_range(program, a);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
