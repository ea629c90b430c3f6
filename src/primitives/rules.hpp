// Helpers that the rules of shape, indexing and reduction primitives share: axis arithmetic, errors,
// and adapters from the short forms (a formula per primitive) to the full rule signatures.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interpreters/interpreters.hpp"
#include "telamon/emitter.hpp"
#include "telamon/error.hpp"
#include "telamon/lax.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

// ---- axes --------------------------------------------------------------------------------------
/// from, from + 1, ..., to - 1
Shape range(std::int64_t from, std::int64_t to);
/// The axes of an array of rank `ndim` that are not in `axes`, ascending.
Shape other_axes(const Shape& axes, int ndim);
/// The same axes after an axis was inserted at position `at`.
Shape shifted(const Shape& axes, std::int64_t at);
inline std::int64_t shifted(std::int64_t axis, std::int64_t at) {
  return axis + (axis >= at ? 1 : 0);
}
inline Shape inserted(Shape shape, std::int64_t at, std::int64_t value) {
  shape.insert(static_cast<std::size_t>(at), value);
  return shape;
}
/// sizes[axes[0]], sizes[axes[1]], ...
Shape taken(const Shape& sizes, const Shape& axes);
/// How many of `axes` lie below `at`.
std::int64_t count_below(const Shape& axes, std::int64_t at);
Shape inverse_permutation(const Shape& permutation);
Shape concatenated(Shape a, const Shape& b);

/// x with its batch axis (added by broadcasting when it is not mapped) at position `target`.
Array batch_at(const Array& x, BatchAxis axis, std::int64_t size, std::int64_t target);
/// The first mapped axis.
int first_mapped(std::span<const BatchAxis> axes);

// ---- errors ------------------------------------------------------------------------------------
/// "pad of f32[3], f32[]: interior padding must not be negative, but got -1 for dimension 0"
std::string rule_message(std::string_view operation, std::span<const Aval> avals,
                         const std::string& constraint);
[[noreturn]] void shape_error(std::string_view operation, std::span<const Aval> avals,
                              const std::string& constraint);
[[noreturn]] void dtype_error(std::string_view operation, std::span<const Aval> avals,
                              const std::string& constraint);
[[noreturn]] void value_error(std::string_view operation, std::span<const Aval> avals,
                              const std::string& constraint);
/// Each axis within [0, ndim) and none twice. `what` names the parameter.
void check_axes(std::string_view operation, std::span<const Aval> avals, std::string_view what,
                const Shape& axes, int ndim);
void check_axis(std::string_view operation, std::span<const Aval> avals, std::string_view what,
                std::int64_t axis, int ndim);
/// Exactly `count` operands.
void check_arity(std::string_view operation, std::span<const Aval> avals, std::size_t count);
void check_same_dtype(std::string_view operation, std::span<const Aval> avals);
bool all_weak(std::span<const Aval> avals);

// ---- adapters ----------------------------------------------------------------------------------
/// The Zero cotangents of operands that are not linear, for the rule to fill in.
std::vector<Tangent> zero_cotangents(std::span<const LinearInput> inputs);

/// jvp of a primitive that is linear in all its operands: the primitive itself, on the tangents.
template <class P>
auto linear_jvp(const Primitive<P>& primitive) {
  return [&primitive](const P& params, std::span<const Array> x, std::span<const Tangent> dx) {
    Arrays tangents;
    for (const Tangent& t : dx) tangents.push_back(t.instantiate());
    Arrays dy = primitive.bind(params, tangents);
    return JvpResult{primitive.bind(params, x), {dy.begin(), dy.end()}};
  };
}

/// Transpose of a primitive with one operand and one result: `pull(params, ct, operand aval)`.
template <class P, class F>
auto linear_transpose(F pull) {
  return [pull](const P& params, std::span<const Tangent> cts, std::span<const LinearInput> x) {
    if (cts[0].is_zero()) return zero_cotangents(x);
    return std::vector<Tangent>{pull(params, cts[0].array(), x[0].aval())};
  };
}

/// Batching of a primitive with one operand and one result: `adapt(params, x, axis)` changes the
/// parameters to those of the whole batch and returns the batch axis of the result.
template <class P, class F>
auto batch_in_place(const Primitive<P>& primitive, F adapt) {
  return [&primitive, adapt](const P& params, const AxisInfo&, std::span<const Array> x,
                             std::span<const BatchAxis> axes) {
    P batched = params;
    const auto axis = static_cast<int>(adapt(batched, x[0], *axes[0]));
    return BatchResult{primitive.bind(batched, x), {axis}};
  };
}

// ---- generated code ----------------------------------------------------------------------------
/// A nest of loops over `shape`, calling body with the full index.
void loop_nest(Emitter& e, const Shape& shape, const std::function<void(const Index&)>& body);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
