// Kernels of one equation: a window written over part of an array, and forms with loops of their own or kernels of the
// runtime's.
#include <algorithm>
#include <span>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "core/check.hpp"
#include "core/indices.hpp"
#include "runtime/native_forms.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

int vector_lanes_of(DType dtype) {
  return static_cast<int>(runtime::target_vector_bytes() /
                          std::max<std::size_t>(size_of(dtype), 4));
}

/// What was an operand, before it is written over: large ones by all threads.
void copy_operand(CodeGen& gen, const Buffer& from, const Buffer& to) {
  constexpr std::int64_t kLarge = 3 << 19;  // bytes: of fewer a thread has too little
  const std::int64_t bytes =
      from.shape().num_elements() * static_cast<std::int64_t>(size_of(from.dtype()));
  if (bytes < kLarge || from.pointer() == to.pointer()) return gen.copy(from, to);
  gen.call_native("telamon_jit_copy", {{from.pointer()}, {to.pointer()}}, {bytes});
}

// A call of the runtime's own kernel, where the primitive has one for these shapes.
bool emit_native(KernelContext& k, const Eqn& eqn, const std::vector<Buffer>& in,
                 const std::vector<Buffer>& out) {
  std::vector<runtime::NativeOperand> operands;
  for (std::size_t i = 0; i < eqn.inputs.size(); ++i)
    operands.push_back({k.scope.jaxpr.aval(eqn.inputs[i]), k.value(k.step.reads[i]).uniform});
  const auto call = runtime::native_call(eqn.primitive->name(), eqn.params, operands);
  if (!call) return false;
  using Call = runtime::NativeCall;
  if (std::find(call->buffers.begin(), call->buffers.end(), 0) == call->buffers.end())
    copy_operand(k.gen, in[0], out[0]);
  std::vector<Pointer> pointers;
  for (const int b : call->buffers) {
    const Buffer& buffer =
        b >= 0 ? in[static_cast<std::size_t>(b)] : out[static_cast<std::size_t>(Call::kResult - b)];
    pointers.push_back({buffer.pointer()});
  }
  k.gen.call_native(call->callee.symbol, pointers, call->numbers);
  return true;
}

}  // namespace

void emit_update(KernelContext& k) {
  CodeGen& gen = k.gen;
  const Eqn& eqn = k.eqn(k.kernel().eqn);
  const auto aval = [&](std::size_t i) { return k.scope.jaxpr.aval(eqn.inputs[i]); };
  const auto pointer = [&](int v) { return gen.pointer(k.value(v).location); };
  const Shape& shape = aval(0).shape;
  const Shape& window = aval(1).shape;
  const DType dtype = aval(0).dtype;
  gen.set_lanes(1, 1);
  const Pointer update = pointer(k.step.reads[1]), to = pointer(k.step.writes[0]);
  if (window.num_elements() == 0) return;
  Index starts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Scalar start =
        gen.load_now(pointer(k.step.reads[2 + d]), aval(2 + d).dtype, gen.index(0));
    starts.push_back(detail::clamp(gen, detail::signed_index(gen, start), 0, shape[d] - window[d]));
  }
  // Rows of the window lie side by side in both.
  const auto flat = [&](const Shape& of, const Index& index) {
    Scalar sum = gen.index(0);
    for (std::size_t d = 0; d < of.size(); ++d)
      sum = gen.add(gen.mul(sum, gen.index(of[d])), index[d]);
    return sum;
  };
  const std::size_t last = window.empty() ? 0 : window.size() - 1;
  const LoopBounds outer = bounds_of(gen, std::span(window.data(), last));
  const std::int64_t row = window.empty() ? 1 : window.back();
  const int lanes = row == 1 ? 1 : vector_lanes_of(dtype);
  loop_nest(gen, outer, [&](const Index& index) {
    vector_loop(k, gen.index(0), gen.index(row), row, lanes, [&](Scalar base) {
      Index in = index, out = index;
      if (!window.empty()) {
        in.push_back(gen.lane_index(base));
        out.push_back(gen.lane_index(base));
      }
      for (std::size_t d = 0; d < out.size(); ++d) out[d] = gen.add(starts[d], out[d]);
      gen.store(to, dtype, flat(shape, out), gen.load(update, dtype, flat(window, in)));
    });
  });
}

void emit_form(KernelContext& k) {
  const Eqn& eqn = k.eqn(k.kernel().eqn);
  std::vector<Buffer> in, out;
  const auto buffer = [&](int v) {
    const Value& value = k.value(v);
    return k.gen.pointer(value.location).handle;
  };
  for (std::size_t i = 0; i < eqn.inputs.size(); ++i) {
    const Aval& aval = k.scope.jaxpr.aval(eqn.inputs[i]);
    in.emplace_back(aval.shape, aval.dtype, buffer(k.step.reads[i]));
  }
  for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
    const Aval& aval = k.scope.jaxpr.aval(eqn.outputs[i]);
    out.emplace_back(aval.shape, aval.dtype, buffer(k.step.writes[i]));
  }
  k.gen.set_lanes(1, 1);
  // 16-bit floats and complex numbers are what kernels of the runtime alone know (form_of).
  const bool has_loops = is_native(out[0].dtype());
  if ((k.plan.emit.native_kernels || !has_loops) && emit_native(k, eqn, in, out)) return;
  TELAMON_CHECK(has_loops, "such numbers are for kernels of the runtime");
  std::get<Lowering::Kernel>(lowering_of(*eqn.primitive).form).f(k.gen, eqn.params, in, out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
