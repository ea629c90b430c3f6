// Kernels whose every result has the shape of the loop nest.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <span>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/index_space.hpp"
#include "core/check.hpp"
#include "core/indices.hpp"
#include "core/integers.hpp"
#include "runtime/native_forms.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

int vector_lanes_of(DType dtype) {
  return static_cast<int>(runtime::target_vector_bytes() /
                          std::max<std::size_t>(size_of(dtype), 4));
}

constexpr std::size_t kMostOfParts = 900;  // equations: three times what a kernel has

// Whether so many equations wait for each other that it would take too much of the stack to ask each, one within the other,
// what it is made of. (Otherwise what is asked for first is needed first.)
bool is_deep(const KernelContext& k) {
  constexpr int kDeep = 300;
  if (k.kernel().members.size() <= kDeep) return false;
  std::map<int, int> depth;
  int deepest = 0;
  for (const int e : k.kernel().members) {
    int& own = depth[e];
    for (const Atom& a : k.eqn(e).inputs) {
      const int from = a.is_var() ? k.producer[static_cast<std::size_t>(a.var())] : -1;
      if (const auto found = depth.find(from); found != depth.end())
        own = std::max(own, found->second + 1);
    }
    deepest = std::max(deepest, own);
  }
  return deepest > kDeep;
}

}  // namespace

void compute_in_order(const KernelContext& k, Generator& value_at, const Point& at) {
  if (!is_deep(k)) return;
  const std::int64_t size = at.shape.num_elements();
  for (const int e : k.kernel().members) {
    const Eqn& eqn = k.eqn(e);
    if (form_of(k.scope.jaxpr, eqn) != Form::element || eqn.outputs.size() != 1) continue;
    const Shape& shape = k.scope.jaxpr.aval(eqn.outputs[0]).shape;
    if (shape.num_elements() == size)
      value_at(Atom::var(eqn.outputs[0]), value_at.reshaped(at, shape));
  }
}

void store_roots(KernelContext& k, Generator& value_at, const Point& at) {
  // All are computed before the first is stored: a store may overwrite an operand.
  const Kernel& kernel = k.kernel();
  compute_in_order(k, value_at, at);
  std::vector<Scalars> values;
  for (const Var v : kernel.roots) {
    values.emplace_back();
    for (const Atom& column : columns_of_root(k.scope.jaxpr, kernel, k.producer, v))
      values.back().push_back(value_at(column, at));
  }
  for (std::size_t i = 0; i < kernel.roots.size(); ++i) {
    const int to = k.value_of(kernel.roots[i]);
    if (kernel.woven.contains(kernel.roots[i])) value_at.store_columns(to, at, values[i]);
    else value_at.store(to, at, values[i][0]);
  }
}

// With what it is made of, a small result stays in the last cache (x + 2x of 4 MiB on Zen 3: 0.67 of the time). Machines
// whose vectors have 64 bytes are the faster there (Zen 4, 2x of 6 MiB: 0.62, of 8 MiB 0.74, of 12 MiB 1), where
// Zen 3 does not gain.
std::int64_t stays_in_cache() {
  const std::int64_t least = 2 * kStreamingOne;
  return runtime::target_vector_bytes() == 64 ? std::max(least, runtime::last_cache_bytes() / 2)
                                              : least;
}

bool should_stream(const KernelContext& k, std::int64_t least) {
  if (!k.plan.emit.streaming) return false;
  std::int64_t bytes = 0;
  for (const Var v : k.kernel().roots) {
    const Value& value = k.value(k.value_of(v));
    if (value.location.kind != Location::Kind::result || value.aval.dtype == DType::bool_)
      return false;
    bytes = std::max(bytes, value.bytes());
  }
  if (bytes < least || k.bytes() <= stays_in_cache()) return false;
  // What was just read is in the caches: stores past these would have to throw it out.
  const auto is_overwritten = [&](int read) {
    const Location at = k.value(read).location;
    return std::any_of(k.step.writes.begin(), k.step.writes.end(),
                       [&](int w) { return k.value(w).location == at; });
  };
  if (std::any_of(k.step.reads.begin(), k.step.reads.end(), is_overwritten)) return false;
  for (const Step& s : k.plan.steps) {
    for (const int w : k.step.writes) {
      if (std::find(s.reads.begin(), s.reads.end(), w) != s.reads.end()) return false;
    }
  }
  return true;
}

// Rows of a small matrix that have more in common, by columns of operands that are the same in all of
// them, than its columns have: what is the same is computed once where the loop over rows is inside.
static bool columns_first(const KernelContext& k, std::size_t inner) {
  constexpr std::int64_t kMost = 1 << 11;  // elements: all lie in the nearest cache
  const Kernel& kernel = k.kernel();
  std::int64_t first = 0, last = 0;
  if (!k.plan.emit.columns_first || inner == 0 || kernel.shape.num_elements() > kMost ||
      !CodeGen::known_constant(k.begin, first) || !CodeGen::known_constant(k.end, last) ||
      first != 0 || last != kernel.shape[0])
    return false;
  int in_rows = 0, in_columns = 0;
  for (const int e : kernel.members) {
    const Eqn& eqn = k.eqn(e);
    if (k.scope.jaxpr.aval(eqn.outputs[0]).shape != kernel.shape) continue;
    const auto along = static_cast<std::int64_t>(inner);
    bool same_rows = false;
    if (eqn.primitive == &iota_p) {
      same_rows = eqn.params.as<IotaParams>().dimension == along;
    } else if (eqn.primitive == &broadcast_in_dim_p &&
               k.scope.jaxpr.aval(eqn.inputs[0]).size() > 1) {
      const Shape& dims = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
      const Shape& from = k.scope.jaxpr.aval(eqn.inputs[0]).shape;
      for (std::size_t d = 0; d < dims.size(); ++d)
        same_rows |= dims[d] == along && from.num_elements() == from[d];
    } else {
      continue;
    }
    ++(same_rows ? in_rows : in_columns);
  }
  return in_rows > in_columns + 1;
}

// Whether a result of the kernel lies where an argument did that was donated: lines that were just read
// are in the caches, and stores past these would have to throw them out. None: it cannot.
static std::optional<Scalar> is_in_place(KernelContext& k) {
  CodeGen& gen = k.gen;
  std::optional<Scalar> any;
  for (const Var v : k.kernel().roots) {
    const Value& value = k.value(k.value_of(v));
    const Scalar to = gen.address(gen.pointer(value.location));
    for (const int a : k.plan.reusable[static_cast<std::size_t>(value.location.index)]) {
      const Scalar from = gen.address(gen.pointer(k.value(a).location));
      const Scalar same = gen.compare(Compare::eq, to, from);
      any = any ? gen.or_(*any, same) : same;
    }
  }
  return any;
}

int vector_lanes(const Jaxpr& jaxpr, const Kernel& kernel) {
  std::size_t widest = 4;
  const auto consider = [&](DType d) { widest = std::max(widest, size_of(d)); };
  for (const int e : kernel.members) {
    for (const Atom& a : jaxpr.eqns()[static_cast<std::size_t>(e)].inputs) {
      // Scalars are spread over the lanes only where they are used, as what they are used for.
      if (jaxpr.aval(a).size() > 1) consider(jaxpr.aval(a).dtype);
    }
    const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(e)];
    for (const Var v : eqn.outputs) {
      if (jaxpr.aval(v).size() > 1 && !finds_place(eqn)) consider(jaxpr.aval(v).dtype);
    }
  }
  return static_cast<int>(runtime::target_vector_bytes() / widest);
}

// Rows of so many vectors are no loops: the processor has several of them at hand at once, which hides what it
// takes to reach rows that are anywhere (gathers and scatters of 64 numbers: 0.85 of the time).
constexpr std::int64_t kWholeRow = 4;
constexpr std::size_t kMostWrittenOut =
    300;  // equations: with more there is no lack of what to do meanwhile
// Of those that compare their positions, which are constants then (rows of Jacobians: 0.8 of the time), so many operations
// on vectors.
constexpr std::int64_t kWholeRowOfPositions = 256;

static bool is_written_out(const KernelContext& k, std::int64_t vectors) {
  if (vectors <= kWholeRow) return vectors == 1 || k.kernel().members.size() <= kMostWrittenOut;
  const std::vector<Eqn>& eqns = k.scope.jaxpr.eqns();
  const auto& members = k.kernel().members;
  return detail::saturating_mul(vectors, cost_of(k.scope, k.kernel())) <= kWholeRowOfPositions &&
         std::any_of(members.begin(), members.end(),
                     [&](int e) { return eqns[static_cast<std::size_t>(e)].primitive == &iota_p; });
}

void vector_loop(const KernelContext& k, Scalar begin, Scalar end, std::int64_t size, int lanes,
                 const std::function<void(Scalar base)>& body, BlockOptions options) {
  CodeGen& gen = k.gen;
  const std::int64_t rest = size % lanes, whole = size - rest;
  std::int64_t first = 0, last = 0;
  const bool all =
      CodeGen::known_constant(begin, first) && CodeGen::known_constant(end, last) && last == size;
  const auto once = [&](std::int64_t base) {
    const auto block = [&] { body(gen.index(base)); };
    if (options.loads_leave) gen.scope(block);
    else gen.region(block);
  };
  if (whole > 0) {
    gen.set_lanes(lanes, lanes);
    const Scalar stop = all ? gen.index(whole) : rest == 0 ? end : gen.min(end, gen.index(whole));
    if (k.plan.emit.write_out_rows && all && is_written_out(k, (whole - first) / lanes)) {
      for (std::int64_t base = first; base < whole; base += lanes) once(base);
    } else if ((options.overlap.stages || options.overlap.interleave) && lanes > 1) {
      gen.loop_overlapping(begin, stop, lanes, whole / lanes, options.overlap, body);
    } else {
      gen.loop_carried(begin, stop, lanes, {}, [&](Scalar i, const Scalars&) {
        body(i);
        return Scalars{};
      });
    }
  }
  if (rest > 0) {
    const auto tail = [&] {
      const auto of_tail = std::bit_ceil(static_cast<unsigned>(rest));
      gen.set_lanes(options.narrow_tail ? static_cast<int>(of_tail) : lanes,
                    static_cast<int>(rest));
      once(whole);
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

// Whether the rows of a small kernel are written out one after the other: what an index decides (a padding,
// a row of the identity) is decided by the compiler then, and there is no loop to go round.
static bool writes_rows_out(const KernelContext& k, std::size_t inner, int lanes) {
  constexpr std::int64_t kMostRows = 16, kMost = 512;  // kMost: operations on vectors
  constexpr std::size_t kFewSteps = 8;  // of the program: others take long enough to compile
  const Shape& shape = k.kernel().shape;
  std::int64_t first = 0, last = 0;
  if (!k.plan.emit.write_out_rows || !k.plan.emit.inline_kernels || inner == 0 || k.by_columns ||
      k.plan.steps.size() > kFewSteps || !CodeGen::known_constant(k.begin, first) ||
      !CodeGen::known_constant(k.end, last) || first != 0 || last != shape[0])
    return false;
  const std::int64_t columns = shape[inner], rows = shape.num_elements() / columns;
  const std::int64_t vectors = rows * detail::ceil_div(columns, lanes);
  return rows <= kMostRows &&
         detail::saturating_mul(vectors, cost_of(k.scope, k.kernel())) <= kMost;
}

/// body(index) for each index of these sizes, without a loop.
static void each_index(CodeGen& gen, std::span<const std::int64_t> sizes,
                       const std::function<void(const Index&)>& body) {
  Index index;
  const std::function<void()> nest = [&] {
    if (index.size() == sizes.size()) return gen.region([&] { body(index); });
    for (std::int64_t i = 0; i < sizes[index.size()]; ++i) {
      index.push_back(gen.index(i));
      nest();
      index.pop_back();
    }
  };
  nest();
}

// Whether this is a part of a loop of so many trips, over what the last cache may hold. A single thread
// reads and writes memory faster past that cache; several are as fast through it, and faster by far where
// arrays are found there again. None: it is the whole, or too large.
static std::optional<Scalar> is_part_in_cache(KernelContext& k, std::int64_t trips) {
  std::int64_t first = 0, last = 0;
  if (!k.is_shared && CodeGen::known_constant(k.begin, first) &&
      CodeGen::known_constant(k.end, last))
    return {};
  const std::int64_t cache = runtime::last_cache_bytes();
  if (k.bytes() > cache + cache / 4) return {};  // most of it is still there
  if (k.is_shared) return k.is_shared;
  return k.gen.compare(Compare::lt, k.gen.sub(k.end, k.begin), k.gen.index(trips));
}

/// The loops of a kernel, the outermost of so many trips: with stores that go around the caches, if that is
/// wanted, but not where the result takes the place of what was just read or is shared by threads.
static void streaming_or_not(KernelContext& k, bool wanted, std::int64_t trips,
                             const std::function<void(bool streams)>& loops) {
  CodeGen& gen = k.gen;
  const auto emit = [&](bool streaming) {
    gen.set_streaming(streaming);
    loops(streaming);
    gen.set_streaming(false);
    if (streaming) gen.finish_streaming();
  };
  if (!wanted) return emit(false);
  const std::optional<Scalar> in_place = is_in_place(k), part = is_part_in_cache(k, trips);
  if (!in_place && !part) return emit(true);
  const Scalar through = in_place && part ? gen.or_(*in_place, *part)
                         : in_place       ? *in_place
                                          : *part;
  gen.if_then(through, [&] { emit(false); });
  gen.if_then(gen.not_(through), [&] { emit(true); });
}

void emit_loop(KernelContext& k) {
  CodeGen& gen = k.gen;
  const Kernel& kernel = k.kernel();
  const std::int64_t size = kernel.shape.num_elements();
  if (size == 0) return;
  if (kernel.segments) return emit_segments(k);
  Generator value_at = k.generator();
  if (size == 1) {
    gen.set_lanes(1, 1);
    store_roots(k, value_at,
                {kernel.shape, Index(kernel.shape.size(), gen.index(0)), gen.index(0)});
    return;
  }
  int lanes = vector_lanes(k);
  // Of a single row that lanes run across, there is a single element.
  const bool across = kernel.linear || kernel.shape.num_elements() == kernel.shape[0];
  if (across && k.unit % lanes != 0) lanes = 1;
  const BlockOptions options{.loads_leave = true,
                             .overlap = {k.plan.emit.loop_stages, k.plan.emit.interleave},
                             .narrow_tail = true};
  // Kernels over rows mostly follow others over the same rows: what the last cache may hold is left there.
  const auto streams = [&](std::int64_t one) {
    return should_stream(k, kernel.roots.size() == 1 ? one : kStreamingBytes);
  };
  if (kernel.linear) {
    return streaming_or_not(k, streams(kStreamingOne), size, [&](bool) {
      Generator values = k.generator();
      seamed_loop(
          k, find_seams(k, size, kMostOfParts), k.begin, k.end, size, lanes,
          [&](Scalar base) {
            store_roots(k, values, {kernel.shape, std::nullopt, gen.lane_index(base)});
          },
          options);
    });
  }
  // The innermost dimension that is not 1 runs along the lanes.
  const std::size_t inner = inner_dim(kernel.shape);
  std::vector<std::pair<Scalar, Scalar>> outer;
  for (std::size_t d = 0; d < inner; ++d)
    outer.emplace_back(gen.index(0), gen.index(kernel.shape[d]));
  if (inner > 0 && !k.by_columns) outer[0] = {k.begin, k.end};
  // Rows of whole vectors begin where lines of the cache do.
  const bool aligned_rows = kernel.woven.empty() && kernel.shape[inner] % lanes == 0;
  const bool whole = !k.by_columns && aligned_rows;
  const std::int64_t trips = inner == 0 || k.by_columns ? kernel.shape[inner] : kernel.shape[0];
  const auto around = [&](const std::function<void(bool)>& loops) {
    streaming_or_not(k, aligned_rows && streams(kStreamingOne), trips, loops);
  };
  if (emit_transposed(k, inner, lanes, outer, around)) return;
  const std::vector<std::int64_t> seams = find_seams(k, kernel.shape[inner], kMostOfParts);
  const auto point_of = [&](Generator& values, const Index& index, Scalar base) {
    Index full = index;
    full.push_back(gen.lane_index(base));
    full.resize(kernel.shape.size(), gen.index(0));
    store_roots(k, values, {kernel.shape, full, std::nullopt});
  };
  const auto point = [&](const Index& index, Scalar base) { point_of(value_at, index, base); };
  if (columns_first(k, inner)) {
    const auto rows = [&](Scalar base) {
      loop_nest(gen, outer, [&](const Index& index) { point(index, base); });
    };
    return seamed_loop(k, seams, gen.index(0), gen.index(kernel.shape[inner]), kernel.shape[inner],
                       lanes, rows, {.loads_leave = true, .narrow_tail = true});
  }
  const auto row_of = [&](Generator& values, const Index& index) {
    const bool part = inner == 0 || k.by_columns;
    const Scalar first = part ? k.begin : gen.index(0);
    const Scalar last = part ? k.end : gen.index(kernel.shape[inner]);
    seamed_loop(
        k, seams, first, last, kernel.shape[inner], lanes,
        [&](Scalar base) { point_of(values, index, base); }, options);
  };
  if (writes_rows_out(k, inner, lanes)) {
    return each_index(gen, std::span(kernel.shape.data(), inner),
                      [&](const Index& index) { row_of(value_at, index); });
  }
  if (rows_of_group(k.plan, kernel, lanes) > 1 && !k.by_columns) {
    const bool aligned = short_rows_are_aligned(k, inner, lanes);
    return streaming_or_not(k, aligned && streams(kStreamingOne), trips, [&](bool past_caches) {
      Generator values = k.generator();
      emit_short_rows(k, values, inner, lanes, past_caches,
                      [&](const Index& index) { row_of(values, index); });
    });
  }
  streaming_or_not(k, whole && seams.empty() && streams(2 * kStreamingOne), trips, [&](bool) {
    Generator values = k.generator();
    loop_nest(gen, outer, [&](const Index& index) { row_of(values, index); });
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
  std::vector<std::pair<Scalar, Scalar>> outer;
  for (std::size_t d = 0; d + 1 < window.size(); ++d)
    outer.emplace_back(gen.index(0), gen.index(window[d]));
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

// A call of the runtime's own kernel, where the primitive has one for these shapes.
static bool emit_native(KernelContext& k, const Eqn& eqn, const std::vector<Buffer>& in,
                        const std::vector<Buffer>& out) {
  std::vector<runtime::NativeOperand> operands;
  for (std::size_t i = 0; i < eqn.inputs.size(); ++i)
    operands.push_back({k.scope.jaxpr.aval(eqn.inputs[i]), k.value(k.step.reads[i]).uniform});
  const auto call = runtime::native_call(eqn.primitive->name(), eqn.params, operands);
  if (!call) return false;
  using Call = runtime::NativeCall;
  if (std::find(call->buffers.begin(), call->buffers.end(), 0) == call->buffers.end())
    k.gen.copy(in[0], out[0]);
  std::vector<Pointer> pointers;
  for (const int b : call->buffers) {
    const Buffer& buffer =
        b >= 0 ? in[static_cast<std::size_t>(b)] : out[static_cast<std::size_t>(Call::kResult - b)];
    pointers.push_back({buffer.pointer()});
  }
  k.gen.call_native(call->callee.symbol, pointers, call->numbers);
  return true;
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
