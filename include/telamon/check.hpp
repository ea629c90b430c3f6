// Checks of derivatives and of primitives' rules: what to run on a new primitive or custom rule.
//
//   tl::check_grads(loss, std::tuple{params, x}, {.order = 2});
//   tl::check_primitive(axpby_p, Axpby{2.0, 3.0}, {x, y});
//
// A check that fails throws CheckFailure, which says what was compared and where it differs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/detail/flat.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/error.hpp"
#include "telamon/primitive.hpp"
#include "telamon/tree.hpp"

namespace telamon {
inline namespace v1 {

/// Two answers that should agree do not.
class TELAMON_API CheckFailure : public Error {
 public:
  using Error::Error;
};

enum class GradMode : std::uint8_t { forward, reverse, forward_and_reverse };

struct CheckGradsOptions {
  /// Derivatives of derivatives up to this order, in all orders of the modes.
  int order = 1;
  GradMode modes = GradMode::forward_and_reverse;
  /// Default: by dtype, f64 and c128 1e-5, f32 and c64 2e-3, f16 1e-2, bf16 1e-1; times the number of
  /// elements.
  std::optional<double> atol = {}, rtol = {};
  /// Step of the central differences. Default: 1e-4 for f64, larger for narrower dtypes.
  std::optional<double> eps = {};
};

struct CheckPrimitiveOptions {
  CheckGradsOptions grads = {.order = 2};
  /// Whether values differentiate at all here: false at kinks, and for non-smooth arguments.
  bool differentiate = true;
  /// Relative error allowed between native code and eager evaluation; 0 asks for the same bits.
  double native_rtol = 0;
  /// Operands of further examples, for batches; default: the same elements reordered.
  std::vector<Arrays> examples = {};
  /// Sets of operands in which the primitive is linear while the others stay as they are: its
  /// transpose rule is called directly for each.
  std::vector<std::vector<int>> linear = {};
};

namespace detail {

/// Compares by |got - want| <= atol + rtol |want|, in the complex plane too. Dtypes and shapes must agree,
/// and so must what is not finite: NaN is equal to NaN only, an infinity to itself.
TELAMON_API void check_close(const Array& got, const Array& want, double atol, double rtol,
                             const std::string& what);
TELAMON_API void check_grads_arrays(const FlatFunction& f, std::span<const Array> args,
                                    const CheckGradsOptions& options);
TELAMON_API void check_primitive_erased(const PrimitiveBase& primitive, const Params& params,
                                        std::span<const Array> args,
                                        const CheckPrimitiveOptions& options);

}  // namespace detail

/// Compares jvp with central differences in one random direction (seed 0), and vjp with them by
/// <t, J' ct> = <J t, ct>; for higher orders the same is done to the jvp and the vjp of f. Leaves
/// of integer and bool dtypes stay fixed; complex ones move in any direction of the plane, where <u, v> is
/// the real part of conj(u) v. `args` is a tuple of f's arguments.
template <class F, class... Args>
void check_grads(const F& f, const std::tuple<Args...>& args, const CheckGradsOptions& options = {},
                 SourceLocation where = SourceLocation::current()) {
  detail::in_function("check_grads", where, [&] {
    const auto flat = [&](std::span<const Array> leaves) {
      Arrays results;
      detail::flatten_into(std::apply(f, tree_unflatten(args, leaves, {})), results,
                           "the function of check_grads");
      return results;
    };
    Arrays leaves;
    detail::flatten_into(args, leaves, "check_grads", "args");
    detail::check_grads_arrays(flat, leaves, options);
  });
}

/// Checks every rule of a primitive at these operands: abstract_eval against the results; printed
/// and parsed back; eager against interpreted jit and native jit; jvp against finite differences;
/// <J v, w> = <v, J' w> in each operand and in all; the transpose rule itself; second order; batching
/// against a loop for every choice of axes.
template <class P>
void check_primitive(const Primitive<P>& primitive, const P& params,
                     std::initializer_list<Array> args, const CheckPrimitiveOptions& options = {},
                     SourceLocation where = SourceLocation::current()) {
  detail::in_function("check_primitive", where, [&] {
    detail::check_primitive_erased(primitive, Params::of(params), {args.begin(), args.size()},
                                   options);
  });
}

}  // namespace v1
}  // namespace telamon
