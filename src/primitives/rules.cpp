// Axis arithmetic, errors, and adapters of short rules to the full signatures.
#include "primitives/rules.hpp"

#include "core/counted.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

Shape range(std::int64_t from, std::int64_t to) {
  Shape out;
  for (std::int64_t i = from; i < to; ++i) out.push_back(i);
  return out;
}

Shape other_axes(const Shape& axes, int ndim) {
  Shape out;
  for (int i = 0; i < ndim; ++i) {
    if (!axes.contains(i)) out.push_back(i);
  }
  return out;
}

Shape shifted(const Shape& axes, std::int64_t at) {
  Shape out = axes;
  for (std::int64_t& a : out) a = shifted(a, at);
  return out;
}

Shape taken(const Shape& sizes, const Shape& axes) {
  Shape out;
  for (const std::int64_t a : axes) out.push_back(sizes[static_cast<std::size_t>(a)]);
  return out;
}

std::int64_t count_below(const Shape& axes, std::int64_t at) {
  std::int64_t n = 0;
  for (const std::int64_t a : axes) n += a < at ? 1 : 0;
  return n;
}

Shape inverse_permutation(const Shape& permutation) {
  Shape out(permutation.size(), 0);
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    out[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  return out;
}

Shape concatenated(Shape a, const Shape& b) {
  for (const std::int64_t v : b) a.push_back(v);
  return a;
}

Array batch_at(const Array& x, BatchAxis axis, std::int64_t size, std::int64_t target) {
  if (axis) return move_axis(x, *axis, static_cast<int>(target));
  return lax::broadcast_in_dim(x, inserted(x.shape(), target, size),
                               other_axes({target}, x.ndim() + 1));
}

int first_mapped(std::span<const BatchAxis> axes) {
  for (const BatchAxis& a : axes) {
    if (a) return *a;
  }
  return 0;
}

std::string rule_message(std::string_view operation, std::span<const Aval> avals,
                         const std::string& constraint) {
  std::string text(operation);
  for (std::size_t i = 0; i < avals.size(); ++i)
    text += (i == 0 ? " of " : ", ") + avals[i].to_string();
  return text + ": " + constraint;
}
void shape_error(std::string_view operation, std::span<const Aval> avals,
                 const std::string& constraint) {
  throw ShapeError(rule_message(operation, avals, constraint));
}
void dtype_error(std::string_view operation, std::span<const Aval> avals,
                 const std::string& constraint) {
  throw TypeError(rule_message(operation, avals, constraint));
}
void value_error(std::string_view operation, std::span<const Aval> avals,
                 const std::string& constraint) {
  throw ValueError(rule_message(operation, avals, constraint));
}

void check_axis(std::string_view operation, std::span<const Aval> avals, std::string_view what,
                std::int64_t axis, int ndim) {
  if (axis >= 0 && axis < ndim) return;
  throw IndexError(rule_message(operation, avals,
                                std::string(what) + " " + std::to_string(axis) +
                                    " is out of range for rank " + std::to_string(ndim)));
}

void check_axes(std::string_view operation, std::span<const Aval> avals, std::string_view what,
                const Shape& axes, int ndim) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    check_axis(operation, avals, what, axes[i], ndim);
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[j] == axes[i]) {
        value_error(operation, avals,
                    std::string(what) + " " + axes.to_string() + " names one dimension twice");
      }
    }
  }
}

void check_arity(std::string_view operation, std::span<const Aval> avals, std::size_t count) {
  if (avals.size() == count) return;
  throw TypeError(rule_message(
      operation, avals,
      "takes " + counted(count, "operand") + ", but got " + std::to_string(avals.size())));
}

void check_same_dtype(std::string_view operation, std::span<const Aval> avals) {
  for (const Aval& a : avals) {
    if (a.dtype != avals[0].dtype) dtype_error(operation, avals, "operands must have one dtype");
  }
}

bool all_weak(std::span<const Aval> avals) {
  for (const Aval& a : avals) {
    if (!a.weak_type) return false;
  }
  return !avals.empty();
}

std::vector<Tangent> zero_cotangents(std::span<const LinearInput> inputs) {
  std::vector<Tangent> out;
  out.reserve(inputs.size());
  for (const LinearInput& x : inputs) out.emplace_back(Zero{x.aval().tangent()});
  return out;
}

void loop_nest(Emitter& e, const Shape& shape, const std::function<void(const Index&)>& body) {
  Index index;
  const std::function<void()> nest = [&] {
    if (index.size() == shape.size()) return body(index);
    e.loop(e.index(0), e.index(shape[index.size()]), [&](Scalar i) {
      index.push_back(i);
      nest();
      index.pop_back();
    });
  };
  nest();
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
