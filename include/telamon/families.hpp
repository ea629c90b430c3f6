// Families of primitives: what all elementwise primitives share, written once.
//
// A family function makes the whole rule table out of what is particular to one primitive:
//
//   // softsign(x) = x / (1 + |x|).   d softsign(x) = dx / (1 + |x|)^2
//   const tl::Primitive<> softsign_p{"softsign", [] {
//     return tl::families::unary(softsign_p, {
//         .impl = ...,
//         .jvp = [](Array dx, Array y, Array x) { return dx / tl::square(1 + tl::abs(x)); },
//         .lower = tl::element([](tl::Emitter& e, tl::Scalar x) { ... })});
//   }};
//
// It adds abstract evaluation (operands of one shape and one dtype, with JAX's error texts), the sum
// of the tangents that are not zero, batching along any axes, and the reasons of absent rules.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

/// Lowerings of one and of two scalars: `element([](Emitter& e, Scalar x) { return e.neg(x); })`.
template <class F>
  requires std::is_invocable_r_v<Scalar, F, Emitter&, Scalar>
Lowering element(F f) {
  return {Lowering::Element{
      [f](Emitter& e, const Params&, std::span<const Scalar> x) { return Scalars{f(e, x[0])}; }}};
}
template <class F>
  requires std::is_invocable_r_v<Scalar, F, Emitter&, Scalar, Scalar>
Lowering element(F f) {
  return {Lowering::Element{[f](Emitter& e, const Params&, std::span<const Scalar> x) {
    return Scalars{f(e, x[0], x[1])};
  }}};
}

namespace families {

/// A set of dtypes, as an operand's documentation and its error message name it.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(std::initializer_list<DType> dtypes) {
    for (DType d : dtypes) bits_ |= bit(d);
  }
  constexpr bool contains(DType d) const { return (bits_ & bit(d)) != 0; }
  constexpr bool overlaps(DTypeSet o) const { return (bits_ & o.bits_) != 0; }
  constexpr DTypeSet operator|(DTypeSet o) const {
    o.bits_ |= bits_;
    return o;
  }
  /// "integer, floating": JAX's words for the kinds in the set.
  TELAMON_API std::string to_string() const;

 private:
  static constexpr std::uint32_t bit(DType d) { return 1u << static_cast<unsigned>(d); }
  std::uint32_t bits_ = 0;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, DTypeSet dtypes);

inline constexpr DTypeSet kBools{DType::bool_};
inline constexpr DTypeSet kSignedInts{DType::i8, DType::i16, DType::i32, DType::i64};
inline constexpr DTypeSet kUnsignedInts{DType::u8, DType::u16, DType::u32, DType::u64};
inline constexpr DTypeSet kFloats{DType::f16, DType::bf16, DType::f32, DType::f64};
inline constexpr DTypeSet kComplex{DType::c64, DType::c128};
inline constexpr DTypeSet kInts = kSignedInts | kUnsignedInts;
inline constexpr DTypeSet kInexact = kFloats | kComplex;
inline constexpr DTypeSet kBoolsOrInts = kBools | kInts;
inline constexpr DTypeSet kReals = kInts | kFloats;
inline constexpr DTypeSet kNumbers = kInts | kInexact;
inline constexpr DTypeSet kOrdered = kBools | kReals;
inline constexpr DTypeSet kAny = kBools | kNumbers;

/// The type rule of an elementwise primitive: operands of one shape and of one accepted dtype; the
/// result has them too, but for a fixed dtype. It is weakly typed when all operands are.
struct ElementwiseTypes {
  std::string_view name;
  DTypeSet accepts;
  std::optional<DType> result = {};
  std::size_t arity = 0;  ///< the number of operands; 0: one or more

  /// The aval of the result. TypeError and ShapeError in JAX's words, naming the operands' avals.
  TELAMON_API Aval operator()(std::span<const Array> operands) const;
  TELAMON_API Aval operator()(std::span<const Aval> operands) const;
};

/// Operands with their batch axes at one place: mapped ones are transposed where they must be, the
/// others are broadcast.
struct AlignedBatch {
  Arrays args;
  int axis = 0;
};
TELAMON_API AlignedBatch align_batch(const AxisInfo& axis, std::span<const Array> args,
                                     std::span<const BatchAxis> axes);

/// x repeated along a new axis.
TELAMON_API Array broadcast_axis(const Array& x, int axis, std::int64_t size);

/// The batch rule of every primitive whose operands and results have one shape.
template <class P>
auto elementwise_batch(const Primitive<P>& primitive) {
  return [&primitive](const P& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
    const AlignedBatch batch = align_batch(axis, args, axes);
    Arrays results = primitive.bind(p, batch.args);
    std::vector<BatchAxis> out_axes(results.size(), batch.axis);
    return BatchResult{std::move(results), std::move(out_axes)};
  };
}

using Exempt = std::map<std::string, std::string, std::less<>>;

/// Computes a result of the given aval; operands have been checked.
template <class P>
using ElementwiseImpl = std::function<Array(const P&, const Aval& out, std::span<const Array> x)>;

}  // namespace families

namespace detail {
// A formula of a primitive without parameters does not name them.
template <class P, class... Args>
struct FormulaOf {
  using type = std::function<Array(const P&, const std::type_identity_t<Args>&...)>;
  static Array call(const type& f, const P& p, const Args&... args) { return f(p, args...); }
};
template <class... Args>
struct FormulaOf<NoParams, Args...> {
  using type = std::function<Array(const Args&...)>;
  static Array call(const type& f, const NoParams&, const Args&... args) { return f(args...); }
};
template <class P, class... Args>
using Formula = typename FormulaOf<P, Args...>::type;

// The reasons of the rules that a member of these families cannot have.
TELAMON_API void explain_absent(families::Exempt& exempt, families::DTypeSet accepts, bool has_jvp,
                                bool has_transpose);

template <class P>
void add_common_rules(Rules<P>& rules, const Primitive<P>& primitive,
                      families::ElementwiseTypes types, families::ElementwiseImpl<P> impl) {
  rules.abstract_eval = [types](const P&, std::span<const Aval> x) {
    return AbstractResult(types(x));
  };
  if (impl) {
    rules.impl = [types, impl = std::move(impl)](const P& p, std::span<const Array> x) {
      return Arrays{impl(p, types(x), x)};
    };
  }
  rules.batch = families::elementwise_batch(primitive);
}
}  // namespace detail

namespace families {

/// One operand.
template <class P = NoParams>
struct Unary {
  DTypeSet accepts = kFloats;
  std::optional<DType> result = {};
  ElementwiseImpl<P> impl = {};
  /// The tangent of y = f(x): a function of dx, y and x, linear in dx.
  detail::Formula<P, Array, Array, Array> jvp = {};
  /// In place of `jvp`: why the derivative is zero everywhere.
  std::string zero_derivative = {};
  /// For linear functions: the cotangent of x, a function of that of y.
  detail::Formula<P, Array> transpose = {};
  Lowering lower = {};
  Exempt exempt = {};
};

template <class P>
Rules<P> unary(const Primitive<P>& primitive, Unary<std::type_identity_t<P>> u) {
  Rules<P> r;
  detail::add_common_rules(r, primitive, {primitive.name(), u.accepts, u.result, 1},
                           std::move(u.impl));
  detail::explain_absent(u.exempt, u.accepts, u.jvp || !u.zero_derivative.empty(),
                         static_cast<bool>(u.transpose));
  if (u.jvp || !u.zero_derivative.empty()) {
    r.jvp = [&primitive, jvp = std::move(u.jvp)](const P& p, std::span<const Array> x,
                                                 std::span<const Tangent> dx) {
      Array y = primitive.bind1(p, {x[0]});
      Tangent dy = Zero{y.aval().tangent()};
      if (jvp && !dx[0].is_zero()) {
        dy = detail::FormulaOf<P, Array, Array, Array>::call(jvp, p, dx[0].array(), y, x[0]);
      }
      return JvpResult{{std::move(y)}, {std::move(dy)}};
    };
  }
  if (u.transpose) {
    r.transpose = [transpose = std::move(u.transpose)](const P& p, std::span<const Tangent> ct,
                                                       std::span<const LinearInput> x) {
      if (ct[0].is_zero()) return std::vector<Tangent>{Zero{x[0].aval().tangent()}};
      return std::vector<Tangent>{detail::FormulaOf<P, Array>::call(transpose, p, ct[0].array())};
    };
  }
  r.lower = std::move(u.lower);
  r.exempt = std::move(u.exempt);
  return r;
}

/// Two operands of one shape and dtype.
template <class P = NoParams>
struct Binary {
  using Partial = detail::Formula<P, Array, Array, Array, Array>;
  DTypeSet accepts = kFloats;
  std::optional<DType> result = {};
  ElementwiseImpl<P> impl = {};
  /// The tangent of z = f(x, y) along x (a function of dx, z, x, y) and along y (of dy, z, x, y).
  Partial jvp_x = {}, jvp_y = {};
  /// In place of them: why the derivative is zero everywhere.
  std::string zero_derivative = {};
  /// For functions that are linear in some operands.
  decltype(Rules<P>::transpose) transpose = {};
  Lowering lower = {};
  Exempt exempt = {};
};

/// Sums tangents of one aval; the sum of none is a symbolic zero.
TELAMON_API Tangent sum_tangents(const Aval& primal, std::span<const Tangent> terms);

template <class P>
Rules<P> binary(const Primitive<P>& primitive, Binary<std::type_identity_t<P>> b) {
  Rules<P> r;
  detail::add_common_rules(r, primitive, {primitive.name(), b.accepts, b.result, 2},
                           std::move(b.impl));
  const bool has_jvp = b.jvp_x || b.jvp_y || !b.zero_derivative.empty();
  detail::explain_absent(b.exempt, b.accepts, has_jvp, static_cast<bool>(b.transpose));
  if (has_jvp) {
    r.jvp = [&primitive, jvp_x = std::move(b.jvp_x), jvp_y = std::move(b.jvp_y)](
                const P& p, std::span<const Array> x, std::span<const Tangent> dx) {
      using Call = detail::FormulaOf<P, Array, Array, Array, Array>;
      Array z = primitive.bind1(p, {x[0], x[1]});
      std::vector<Tangent> terms;
      if (jvp_x && !dx[0].is_zero())
        terms.push_back(Call::call(jvp_x, p, dx[0].array(), z, x[0], x[1]));
      if (jvp_y && !dx[1].is_zero())
        terms.push_back(Call::call(jvp_y, p, dx[1].array(), z, x[0], x[1]));
      Tangent dz = sum_tangents(z.aval(), terms);
      return JvpResult{{std::move(z)}, {std::move(dz)}};
    };
  }
  r.transpose = std::move(b.transpose);
  r.lower = std::move(b.lower);
  r.exempt = std::move(b.exempt);
  return r;
}

/// Two operands of one shape and dtype, a bool result, no derivative.
template <class P>
Rules<P> comparison(const Primitive<P>& primitive, Binary<std::type_identity_t<P>> b) {
  b.result = DType::bool_;
  b.zero_derivative = "comparisons are piecewise constant";
  return binary(primitive, std::move(b));
}

}  // namespace families
}  // namespace v1
}  // namespace telamon
