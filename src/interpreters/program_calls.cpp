// The rules of primitives that call one program. The transformed programs are memos of the source, so
// a call that is transformed twice the same way finds its program again.
#include "interpreters/program_calls.hpp"

#include "core/counted.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

AbstractResult type_of_call(const char* what, const Jaxpr& program, std::span<const Aval> in) {
  const auto expected = program.in_avals();
  if (in.size() != expected.size()) {
    throw TypeError(std::string(what) + ": " + counted(in.size(), "operand") +
                    " cannot call jaxpr with " + counted(expected.size(), "input"));
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].same_type(expected[i])) continue;
    throw TypeError(std::string(what) + ": operand " + std::to_string(i) + " of type " +
                    in[i].to_string() + " cannot be passed to an input of type " +
                    expected[i].to_string());
  }
  return {program.out_avals(), program.effect()};
}

JvpResult jvp_of_call(const Jaxpr& program, std::span<const Array> primals,
                      std::span<const Tangent> tangents, const Rebind& bind) {
  const DenseTangents dense = dense_tangents(tangents);
  Arrays args(primals.begin(), primals.end());
  args.insert(args.end(), dense.arrays.begin(), dense.arrays.end());
  const auto num_out = static_cast<std::size_t>(program.num_outputs());
  const auto derived = jvp_jaxpr(program, dense.nonzero, std::vector<bool>(num_out, false));
  Arrays outs = bind(derived->jaxpr, args);
  std::vector<Aval> avals;
  for (std::size_t i = 0; i < num_out; ++i) avals.push_back(outs[i].aval());
  JvpResult result;
  result.tangents = sparse_tangents(std::span(outs).subspan(num_out), derived->nonzero_out, avals);
  outs.resize(num_out);
  result.primals = std::move(outs);
  return result;
}

BatchResult batch_of_call(const Jaxpr& program, const AxisInfo& axis, std::span<const Array> args,
                          std::span<const BatchAxis> axes, const Rebind& bind) {
  const std::vector<bool> any_axis(static_cast<std::size_t>(program.num_outputs()), false);
  const auto derived = batch_jaxpr(program, axis, {axes.begin(), axes.end()}, any_axis);
  return {bind(derived->jaxpr, {args.begin(), args.end()}), derived->out_axes};
}

std::vector<Tangent> transpose_of_call(const Jaxpr& program, std::span<const Tangent> cts,
                                       std::span<const LinearInput> inputs, const Rebind& bind) {
  Arrays args;
  std::vector<bool> linear;
  for (const LinearInput& in : inputs) {
    linear.push_back(in.is_linear());
    if (!in.is_linear()) args.push_back(in.array());
  }
  const DenseTangents dense = dense_tangents(cts);
  args.insert(args.end(), dense.arrays.begin(), dense.arrays.end());
  std::vector<bool> zero = dense.nonzero;
  zero.flip();
  const auto derived = transpose_jaxpr(program, linear, zero);
  const Arrays outs = bind(derived->jaxpr, args);
  std::vector<Tangent> result;
  std::size_t next = 0, linear_index = 0;
  for (const LinearInput& in : inputs) {
    if (in.is_linear() && derived->nonzero_in_ct[linear_index++]) result.emplace_back(outs[next++]);
    else result.emplace_back(Zero{in.aval().tangent()});
  }
  return result;
}

DenseTangents dense_tangents(std::span<const Tangent> tangents) {
  DenseTangents dense;
  for (const Tangent& t : tangents) {
    dense.nonzero.push_back(!t.is_zero());
    if (!t.is_zero()) dense.arrays.push_back(t.array());
  }
  return dense;
}

std::vector<Tangent> sparse_tangents(std::span<const Array> arrays,
                                     const std::vector<bool>& nonzero,
                                     const std::vector<Aval>& avals) {
  std::vector<Tangent> tangents;
  std::size_t next = 0;
  for (std::size_t i = 0; i < nonzero.size(); ++i) {
    if (nonzero[i]) tangents.emplace_back(arrays[next++]);
    else tangents.emplace_back(Zero{avals[i].tangent()});
  }
  return tangents;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
