// Kernels whose every result has the shape of the loop nest.
#include <algorithm>

#include "compiler/emit.hpp"
#include "compiler/forms.hpp"
#include "runtime/cpu.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kStreamingBytes = std::int64_t{16} << 20;

// Results that are larger than the caches and that this program does not read again.
bool should_stream(const KernelContext& k) {
  std::int64_t bytes = 0;
  for (const Var v : k.kernel().roots) {
    const Value& value = k.value(k.value_of(v));
    if (value.location.kind != Location::Kind::result || value.aval.dtype == DType::bool_)
      return false;
    bytes = std::max(bytes, value.bytes());
  }
  if (bytes < kStreamingBytes || !k.kernel().linear) return false;
  for (const Step& s : k.plan.steps) {
    for (const int w : k.step.writes) {
      if (std::find(s.reads.begin(), s.reads.end(), w) != s.reads.end()) return false;
    }
  }
  return true;
}

int vector_lanes_of(DType dtype) {
  return static_cast<int>(runtime::vector_bytes() / std::max<std::size_t>(size_of(dtype), 4));
}

void store_roots(KernelContext& k, Generator& value_at, const Point& at) {
  // All are computed before the first is stored: a store may overwrite an operand.
  const Kernel& kernel = k.kernel();
  Scalars values;
  for (const Var v : kernel.roots) values.push_back(value_at(v, at));
  for (std::size_t i = 0; i < values.size(); ++i)
    value_at.store(k.value_of(kernel.roots[i]), at, values[i]);
}

}  // namespace

int vector_lanes(const KernelContext& k) {
  std::size_t widest = 4;
  const auto consider = [&](DType d) { widest = std::max(widest, size_of(d)); };
  for (const int e : k.kernel().members) {
    for (const Atom& a : k.eqn(e).inputs) {
      // Scalars are spread over the lanes only where they are used, as what they are used for.
      if (k.scope.jaxpr.aval(a).size() > 1) consider(k.scope.jaxpr.aval(a).dtype);
    }
    for (const Var v : k.eqn(e).outputs) {
      if (k.scope.jaxpr.aval(v).size() > 1) consider(k.scope.jaxpr.aval(v).dtype);
    }
  }
  return static_cast<int>(runtime::vector_bytes() / widest);
}

void vector_loop(CodeGen& gen, Scalar begin, Scalar end, std::int64_t size, int lanes,
                 const std::function<void(Scalar base)>& body) {
  const std::int64_t rest = size % lanes, whole = size - rest;
  std::int64_t first = 0, last = 0;
  const bool all =
      CodeGen::known_constant(begin, first) && CodeGen::known_constant(end, last) && last == size;
  if (whole > 0) {
    gen.set_lanes(lanes, lanes);
    const Scalar stop = all ? gen.index(whole) : rest == 0 ? end : gen.min(end, gen.index(whole));
    gen.loop_carried(begin, stop, lanes, {}, [&](Scalar i, const Scalars&) {
      body(i);
      return Scalars{};
    });
  }
  if (rest > 0) {
    const auto tail = [&] {
      gen.set_lanes(lanes, static_cast<int>(rest));
      gen.region([&] { body(gen.index(whole)); });
    };
    if (all) tail();
    else gen.if_then(gen.compare(Compare::gt, end, gen.index(whole)), tail);
  }
  gen.set_lanes(1, 1);
}

void loop_nest(CodeGen& gen, const std::vector<std::pair<Scalar, Scalar>>& bounds,
               const std::function<void(const Index&)>& body) {
  Index index;
  const std::function<void()> nest = [&] {
    if (index.size() == bounds.size()) return body(index);
    const auto [begin, end] = bounds[index.size()];
    gen.loop(begin, end, [&](Scalar i) {
      index.push_back(i);
      nest();
      index.pop_back();
    });
  };
  nest();
}

void emit_loop(KernelContext& k) {
  CodeGen& gen = k.gen;
  const Kernel& kernel = k.kernel();
  const std::int64_t size = kernel.shape.num_elements();
  if (size == 0) return;
  Generator value_at(gen, k.plan, k.scope, kernel, k.producer);
  if (size == 1) {
    gen.set_lanes(1, 1);
    store_roots(k, value_at,
                {kernel.shape, Index(kernel.shape.size(), gen.index(0)), gen.index(0)});
    return;
  }
  const int lanes = vector_lanes(k);
  if (kernel.linear) {
    gen.set_streaming(should_stream(k));
    vector_loop(gen, k.begin, k.end, size, lanes, [&](Scalar base) {
      store_roots(k, value_at, {kernel.shape, std::nullopt, gen.lane_index(base)});
    });
    gen.set_streaming(false);
    return;
  }
  // The innermost dimension that is not 1 runs along the lanes.
  std::size_t inner = kernel.shape.size() - 1;
  while (inner > 0 && kernel.shape[inner] == 1) --inner;
  std::vector<std::pair<Scalar, Scalar>> outer;
  for (std::size_t d = 0; d < inner; ++d)
    outer.emplace_back(gen.index(0), gen.index(kernel.shape[d]));
  if (inner > 0) outer[0] = {k.begin, k.end};
  loop_nest(gen, outer, [&](const Index& index) {
    const Scalar first = inner == 0 ? k.begin : gen.index(0);
    const Scalar last = inner == 0 ? k.end : gen.index(kernel.shape[inner]);
    vector_loop(gen, first, last, kernel.shape[inner], lanes, [&](Scalar base) {
      Index full = index;
      full.push_back(gen.lane_index(base));
      full.resize(kernel.shape.size(), gen.index(0));
      store_roots(k, value_at, {kernel.shape, full, std::nullopt});
    });
  });
}

void emit_update(KernelContext& k) {
  CodeGen& gen = k.gen;
  const Eqn& eqn = k.eqn(k.kernel().eqn);
  const auto aval = [&](std::size_t i) { return k.scope.jaxpr.aval(eqn.inputs[i]); };
  const auto pointer = [&](int v) { return gen.pointer(k.value(v).location); };
  const Shape& shape = aval(0).shape;
  const Shape& window = aval(1).shape;
  const DType dtype = aval(0).dtype;
  gen.set_lanes(1, 1);
  const Pointer from = pointer(k.step.reads[0]), update = pointer(k.step.reads[1]),
                to = pointer(k.step.writes[0]);
  if (from.handle != to.handle) gen.copy_bytes(from, to, k.value(k.step.writes[0]).bytes());
  if (window.num_elements() == 0) return;
  Index starts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const DType t = aval(2 + d).dtype;
    const Scalar start =
        gen.convert(gen.load_now(pointer(k.step.reads[2 + d]), t, gen.index(0)), DType::i64);
    starts.push_back(gen.min(gen.max(start, gen.index(0)), gen.index(shape[d] - window[d])));
  }
  // Rows of the window lie side by side in both.
  const auto flat = [&](const Shape& of, const Index& index) {
    Scalar sum = gen.index(0);
    for (std::size_t d = 0; d < of.size(); ++d)
      sum = gen.add(gen.mul(sum, gen.index(of[d])), index[d]);
    return sum;
  };
  std::vector<std::pair<Scalar, Scalar>> outer;
  for (std::size_t d = 0; d + 1 < window.size(); ++d)
    outer.emplace_back(gen.index(0), gen.index(window[d]));
  const std::int64_t row = window.empty() ? 1 : window.back();
  const int lanes = row == 1 ? 1 : vector_lanes_of(dtype);
  loop_nest(gen, outer, [&](const Index& index) {
    vector_loop(gen, gen.index(0), gen.index(row), row, lanes, [&](Scalar base) {
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
  std::get<Lowering::Kernel>(lowering_of(*eqn.primitive).form).f(k.gen, eqn.params, in, out);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
