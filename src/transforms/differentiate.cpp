// The cores of jvp, linearize, vjp, grad and linear_transpose over flat lists of arrays.
#include "core/concrete.hpp"
#include "core/size_errors.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "telamon/detail/flat.hpp"
#include "telamon/lax.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

Array float0_array(const Aval& aval) {
  return make_uninitialized({aval.shape, DType::float0, false});
}

Array array_of(const Tangent& t) {
  return t.aval().dtype == DType::float0 ? float0_array(t.aval()) : t.instantiate();
}

std::string position(const LeafName& leaf_name, std::size_t i) {
  return leaf_name ? leaf_name(i) : "[" + std::to_string(i) + "]";
}

// A tangent or cotangent as given by a caller, of the type and weakness of the primal's: a weak scalar
// takes the dtype. Integers and bools need none.
Tangent given_tangent(const Array& given, const Aval& primal, const std::string& complaint) {
  const Aval expected = primal.tangent();
  if (expected.dtype == DType::float0) {
    if (!given.has_value() || given.dtype() == DType::float0) return Zero{expected};
    throw TypeError(complaint + ": expected float0" + " (the tangent type of " +
                    primal.to_string() + ") but got " + given.aval().to_string() +
                    "; pass an empty Array for integer and bool values");
  }
  if (!given.has_value()) {
    throw TypeError(complaint + ": expected " + expected.to_string() + " (the tangent type of " +
                    primal.to_string() +
                    ") but got an empty Array (default-constructed or moved from); pass zeros, as "
                    "tl::zeros_like gives, where there is none");
  }
  Array value = given;
  if (!value.is_tracer() && value.weak_type() && value.ndim() == 0 &&
      value.dtype() != expected.dtype) {
    value = convert_scalar(value, expected.dtype);
  }
  if (!value.aval().same_type(expected)) {
    throw TypeError(complaint + ": expected " + expected.to_string() + " (the tangent type of " +
                    primal.to_string() + ") but got " + value.aval().to_string());
  }
  if (value.weak_type() == expected.weak_type) return value;
  return value.is_tracer() ? lax::convert_element_type(value, expected.dtype, expected.weak_type)
                           : with_aval(value, expected);
}

}  // namespace

PushedForward jvp_arrays(const FlatFunction& f, std::span<const Array> primals,
                         std::span<const Array> tangents, const LeafName& leaf_name) {
  std::vector<Tangent> checked;
  for (std::size_t i = 0; i < primals.size(); ++i) {
    checked.push_back(
        given_tangent(tangents[i], primals[i].aval(),
                      "jvp: primal and tangent of " + position(leaf_name, i) + " do not agree"));
  }
  const JvpResult result = jvp_flat(f, primals, checked, "jvp");
  PushedForward out{result.primals, {}};
  for (const Tangent& t : result.tangents) out.tangents.push_back(array_of(t));
  return out;
}

Arrays LinearMap::apply(std::span<const Array> tangents) const {
  const State& s = *state_;
  Arrays args = s.consts;
  for (std::size_t i = 0; i < s.in_avals.size(); ++i) {
    const Tangent t = given_tangent(
        tangents[i], s.in_avals[i],
        "linearized function called with tangent values inconsistent with the original "
        "primal values: tangent " +
            std::to_string(i));
    if (is_inexact(s.in_avals[i].dtype)) args.push_back(t.instantiate());
  }
  const Arrays outs = eval_jaxpr(s.jaxpr, args);
  Arrays result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < s.out_avals.size(); ++i) {
    result.push_back(s.nonzero_out[i] ? outs[next++] : array_of(Zero{s.out_avals[i].tangent()}));
  }
  return result;
}

Arrays LinearMap::transpose(std::span<const Array> cotangents, const char* complaint) const {
  const State& s = *state_;
  std::vector<Tangent> cts;
  for (std::size_t i = 0; i < s.out_avals.size(); ++i) {
    const Tangent ct = i < cotangents.size()
                           ? given_tangent(cotangents[i], s.out_avals[i],
                                           complaint + (", result " + std::to_string(i)))
                           : Zero{s.out_avals[i].tangent()};
    if (s.nonzero_out[i]) cts.push_back(ct);
  }
  BorrowedArrays inputs;
  for (const Array& c : s.consts) inputs.push_back(c);
  while (inputs.size() < static_cast<std::size_t>(s.jaxpr.num_inputs())) inputs.push_back(Array());
  const std::vector<Tangent> in_cts = backward_pass(s.jaxpr, inputs, cts);
  Arrays result;
  std::size_t next = 0;
  for (const Aval& aval : s.in_avals) {
    result.push_back(is_inexact(aval.dtype) ? array_of(in_cts[next++]) : float0_array(aval));
  }
  return result;
}

LinearizedArrays linearize_arrays(const FlatFunction& f, std::span<const Array> primals,
                                  std::string name) {
  Linearized lin = linearize_flat(f, primals, std::move(name));
  auto state = std::make_shared<LinearMap::State>();
  state->in_avals = avals_of(primals);
  state->out_avals = avals_of(lin.primals_out);
  state->jaxpr = std::move(lin.jaxpr);
  state->consts = std::move(lin.consts);
  state->nonzero_out = std::move(lin.nonzero_out);
  return {std::move(lin.primals_out), LinearMap(std::move(state))};
}

LinearMap linear_map_of(const FlatFunction& f, std::span<const Aval> avals) {
  ClosedJaxpr closed = stage_flat(f, avals, "linear_transpose");
  auto state = std::make_shared<LinearMap::State>();
  state->in_avals.assign(avals.begin(), avals.end());
  state->out_avals = closed.jaxpr.out_avals();
  state->jaxpr = std::move(closed.jaxpr);
  state->consts = std::move(closed.consts);
  state->nonzero_out.assign(state->out_avals.size(), true);
  return LinearMap(std::move(state));
}

void check_differentiable(const char* what, std::span<const Array> primals,
                          const LeafName& leaf_name) {
  for (std::size_t i = 0; i < primals.size(); ++i) {
    if (is_inexact(primals[i].dtype())) continue;
    throw TypeError(
        std::string(what) +
        " requires real- or complex-valued inputs (a floating-point or complex dtype), but " +
        position(leaf_name, i) + " is " + primals[i].aval().to_string() +
        "; convert it, differentiate other arguments, or pass {.allow_int = true}");
  }
}

namespace {

void check_scalar_result(const Array& y) {
  if (y.ndim() != 0) {
    std::string text = "Gradient only defined for scalar-output functions. Output had shape: " +
                       y.shape().to_string() + ".";
    if (y.size() == 1) {
      text += " To get a scalar from it, return `output.reshape({})`";
      if (y.ndim() == 1) text += " or `output(0)`";
      text += ".";
    } else {
      text +=
          " Reduce it to a scalar, as tl::sum and tl::mean do, or ask for the derivatives of all "
          "its elements with tl::jacrev.";
    }
    throw TypeError(text);
  }
  if (!is_float(y.dtype())) {
    throw TypeError(
        "grad requires real-valued outputs (a floating-point dtype), but the function returned " +
        y.aval().to_string());
  }
}

}  // namespace

ValueAndGradient value_and_grad_arrays(const FlatFunction& f, std::span<const Array> primals,
                                       bool allow_int, const LeafName& leaf_name,
                                       std::string name) {
  if (!allow_int) check_differentiable("grad", primals, leaf_name);
  const auto describe = [] { return std::string("grad"); };
  return with_operation(describe, [&]() -> ValueAndGradient {
    const FlatFunction checked = [&](std::span<const Array> leaves) {
      Arrays results = f(leaves);
      if (!results[0].has_value())
        throw TypeError(
            name + ": the function returned an empty Array (default-constructed or moved from)");
      return results;
    };
    LinearizedArrays lin = linearize_arrays(checked, primals, name);
    check_scalar_result(lin.primals[0]);
    const Array one = full_of(lin.primals[0].aval().strong(), 1);
    return {lin.primals, lin.map.transpose({&one, 1})};
  });
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
