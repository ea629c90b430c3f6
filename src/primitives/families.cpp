// The untyped half of the families: type rules with their error texts, and batching.
#include "telamon/families.hpp"

#include <algorithm>
#include <ostream>

#include "core/counted.hpp"
#include "interpreters/interpreters.hpp"
#include "telamon/error.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace families {

std::string DTypeSet::to_string() const {
  struct Name {
    DTypeSet dtypes;
    const char* text;
  };
  static constexpr Name kNames[] = {{kFloats, "floating"},
                                    {kComplex, "complexfloating"},
                                    {kBools, "bool"},
                                    {{DType::float0}, "float0"}};
  std::string text;
  const auto add = [&text](const char* name) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  };
  if (overlaps(kSignedInts) && overlaps(kUnsignedInts)) add("integer");
  else if (overlaps(kSignedInts)) add("signedinteger");
  else if (overlaps(kUnsignedInts)) add("unsignedinteger");
  for (const Name& n : kNames) {
    if (overlaps(n.dtypes)) add(n.text);
  }
  return text;
}

std::ostream& operator<<(std::ostream& os, DTypeSet dtypes) { return os << dtypes.to_string(); }

namespace {

using Avals = std::span<const Aval* const>;

std::string listing(Avals avals, std::string (*show)(const Aval&)) {
  std::string text;
  for (const Aval* a : avals) text += (text.empty() ? "" : ", ") + show(*a);
  return text;
}
std::string show_aval(const Aval& a) { return a.to_string(); }
std::string show_dtype(const Aval& a) { return std::string(short_name(a.dtype)); }
std::string show_shape(const Aval& a) { return a.shape.to_string(); }

/// NumPy's rule: sizes are equal or 1.
bool can_broadcast(Avals avals) {
  std::size_t ndim = 0;
  for (const Aval* a : avals) ndim = std::max(ndim, a->shape.size());
  for (std::size_t i = 1; i <= ndim; ++i) {
    std::int64_t size = 1;
    for (const Aval* a : avals) {
      const std::int64_t d = i <= a->shape.size() ? a->shape[a->shape.size() - i] : 1;
      if (d != 1 && size != 1 && d != size) return false;
      if (d != 1) size = d;
    }
  }
  return true;
}

[[noreturn]] void refuse_dtype(const ElementwiseTypes& types, Avals avals, std::size_t position) {
  const std::string name(types.name), dtype(short_name(avals[position]->dtype));
  if (avals[position]->dtype == DType::float0) {
    throw TypeError(
        "Called " + name + " with a float0 at position " + std::to_string(position) +
        ". float0 is the tangent type of integers and bools: it holds no data and supports "
        "no operations. A gradient with respect to an integer argument gives such values.");
  }
  const std::string at = avals.size() > 1 ? " at position " + std::to_string(position) : "";
  throw TypeError(name + " does not accept dtype " + dtype + at + ". Accepted dtypes" + at +
                  " are subtypes of " + types.accepts.to_string() + ". Got " + name + "(" +
                  listing(avals, show_aval) + "); convert the operand with astype first.");
}

[[noreturn]] void refuse_dtypes(const ElementwiseTypes& types, Avals avals) {
  const std::string name(types.name);
  throw TypeError(
      name + " requires arguments to have the same dtypes, got " + listing(avals, show_dtype) +
      ". Got " + name + "(" + listing(avals, show_aval) +
      "); convert with astype, or use the operators and functions of numpy.hpp, which promote.");
}

[[noreturn]] void refuse_shapes(const ElementwiseTypes& types, Avals avals) {
  const std::string name(types.name), shapes = listing(avals, show_shape);
  const std::string got = " Got " + name + "(" + listing(avals, show_aval) + ")";
  if (!can_broadcast(avals)) {
    throw ShapeError(name + " got incompatible shapes for broadcasting: " + shapes + "." + got +
                     "; sizes must be equal, or 1 where an operand is to be repeated.");
  }
  throw ShapeError(
      name + " requires arguments to have the same shape, got " + shapes + "." + got +
      "; use broadcast_to, or the operators and functions of numpy.hpp, which broadcast.");
}

Aval result_aval(const ElementwiseTypes& types, Avals avals) {
  const Aval& first = *avals[0];
  bool same_dtypes = true, same_shapes = true, weak = true;
  for (std::size_t i = 0; i < avals.size(); ++i) {
    if (!types.accepts.contains(avals[i]->dtype)) refuse_dtype(types, avals, i);
    same_dtypes = same_dtypes && avals[i]->dtype == first.dtype;
    same_shapes = same_shapes && avals[i]->shape == first.shape;
    weak = weak && avals[i]->weak_type;
  }
  if (!same_dtypes) refuse_dtypes(types, avals);
  if (!same_shapes) refuse_shapes(types, avals);
  return {first.shape, types.result.value_or(first.dtype), weak};
}

// The avals' addresses, without allocation for the usual numbers of operands.
template <class Operands, class Get>
Aval with_avals(const ElementwiseTypes& types, const Operands& operands, Get get) {
  constexpr std::size_t kFew = 4;
  if (operands.empty() && types.arity == 0)
    throw TypeError(std::string(types.name) + " needs at least one operand");
  if (types.arity != 0 && operands.size() != types.arity) {
    throw TypeError(std::string(types.name) + " takes " + detail::counted(types.arity, "operand") +
                    ", but got " + std::to_string(operands.size()));
  }
  if (operands.size() <= kFew) {
    const Aval* few[kFew];
    for (std::size_t i = 0; i < operands.size(); ++i) few[i] = get(operands[i]);
    return result_aval(types, {few, operands.size()});
  }
  std::vector<const Aval*> many;
  for (const auto& x : operands) many.push_back(get(x));
  return result_aval(types, many);
}

}  // namespace

Aval ElementwiseTypes::operator()(std::span<const Array> operands) const {
  return with_avals(*this, operands, [](const Array& x) { return &x.aval(); });
}
Aval ElementwiseTypes::operator()(std::span<const Aval> operands) const {
  return with_avals(*this, operands, [](const Aval& x) { return &x; });
}

Array broadcast_axis(const Array& x, int axis, std::int64_t size) {
  Shape shape = x.shape(), dimensions;
  shape.insert(static_cast<std::size_t>(axis), size);
  for (int i = 0; i < x.ndim(); ++i) dimensions.push_back(i < axis ? i : i + 1);
  return lax::broadcast_in_dim(x, shape, dimensions);
}

AlignedBatch align_batch(const AxisInfo& axis, std::span<const Array> args,
                         std::span<const BatchAxis> axes) {
  const auto mapped =
      std::find_if(axes.begin(), axes.end(), [](BatchAxis a) { return a.has_value(); });
  AlignedBatch batch{{}, mapped == axes.end() ? 0 : **mapped};
  for (std::size_t i = 0; i < args.size(); ++i) {
    batch.args.push_back(axes[i] ? detail::move_axis(args[i], *axes[i], batch.axis)
                                 : broadcast_axis(args[i], batch.axis, axis.size));
  }
  return batch;
}

Tangent sum_tangents(const Aval& primal, std::span<const Tangent> terms) {
  Array sum;
  for (const Tangent& t : terms) {
    if (t.is_zero()) continue;
    sum = sum.has_value() ? detail::add_tangents(sum, t).array() : t.array();
  }
  if (!sum.has_value()) return Zero{primal.tangent()};
  return sum;
}

}  // namespace families

namespace detail {

void explain_absent(families::Exempt& exempt, families::DTypeSet accepts, bool has_jvp,
                    bool has_transpose) {
  if (!has_jvp && !accepts.overlaps(families::kInexact)) {
    exempt.emplace("jvp", "bool and integer operands have no tangents");
  }
  if (!has_transpose) exempt.emplace("transpose", "never linear in its operands");
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
