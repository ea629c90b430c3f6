// Tracing the functions that scan, while_loop and cond are given, and saying what is wrong with them.
#include "control_flow/bodies.hpp"

#include "core/trace.hpp"
#include "jaxpr/interned.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

ClosedJaxpr traced(const detail::FlatFunction& f, const std::vector<Aval>& avals,
                   const char* what) {
  return detail::stage_flat(f, avals, what);
}

Jaxpr remembered(const Jaxpr& jaxpr) {
  return detail::has_dynamic_trace() ? jaxpr : detail::interned(jaxpr);
}

std::string type_difference(const Aval& a, const Aval& b) {
  if (a.shape == b.shape) return "so the dtypes do not match";
  return a.dtype == b.dtype ? "so the shapes do not match"
                            : "so the shapes and the dtypes do not match";
}

bool converts_to(const Aval& weak, const Aval& to) {
  if (!weak.weak_type || weak.shape != to.shape) return false;
  // Of two C++ numbers of one kind the body's wins: 0.5 becomes the default float that c + i gives.
  if (to.weak_type && is_float(weak.dtype) == is_float(to.dtype) && is_float(to.dtype)) return true;
  return promote_types({weak.dtype, true}, {to.dtype, to.weak_type}).dtype == to.dtype;
}

bool adapt_weak(Arrays& init, std::span<const Aval> out) {
  bool changed = false;
  for (std::size_t i = 0; i < init.size(); ++i) {
    const Aval& in = init[i].aval();
    const bool differs = in.dtype != out[i].dtype || (in.weak_type && !out[i].weak_type);
    if (!differs || !converts_to(in, out[i])) continue;
    init[i] = convert_element_type_p.bind1(
        {.new_dtype = out[i].dtype, .weak_type = out[i].weak_type}, {init[i]});
    changed = true;
  }
  return changed;
}

ClosedJaxpr traced_to_fixpoint(
    Arrays& init, std::size_t first,
    const std::function<ClosedJaxpr(const std::vector<Aval>& init)>& trace) {
  ClosedJaxpr program;
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    program = trace(detail::avals_of(init));
    const std::vector<Aval> outs = program.jaxpr.out_avals();
    if (outs.size() < first + init.size()) break;  // for the caller to refuse
    if (!adapt_weak(init, std::span(outs).subspan(first))) break;
  }
  return program;
}

void check_carry_structure(const char* what, const TreeDef& in, const TreeDef& out) {
  if (in == out) return;
  throw TypeError(std::string(what) +
                  ": the body's carry input and carry output must have the same pytree structure, "
                  "but they differ:\n\nThe input carry is " +
                  in.to_string() + " but the carry output is " + out.to_string() +
                  detail::describe_difference(in, out) +
                  ".\n\nRevise the function so that the carry output has the same pytree structure "
                  "as the carry input.");
}

void check_carry_types(const char* what, const TreeDef& carry, std::span<const Array> init,
                       std::span<const Aval> out) {
  std::string differences;
  for (std::size_t i = 0; i < init.size(); ++i) {
    if (init[i].aval().same_type(out[i])) continue;
    differences += "The input carry component " + carry.leaf_paths()[i].to_string("carry") +
                   " has type " + init[i].aval().to_string() +
                   " but the corresponding output carry component has type " + out[i].to_string() +
                   ", " + type_difference(init[i].aval(), out[i]) + ".\n";
  }
  if (differences.empty()) return;
  throw TypeError(std::string(what) +
                  ": the body's carry input and carry output must have equal types, but they "
                  "differ:\n\n" +
                  differences +
                  "\nRevise the function so that all output types match the corresponding input "
                  "types.");
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
