// What the loops of all kernels are made of: nests, and loops over the vectors of a dimension.
#include <algorithm>
#include <bit>
#include <optional>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// Rows of so many vectors are no loops: the processor has several of them at hand at once, which hides what it
// takes to reach rows that are anywhere (gathers and scatters of 64 numbers: 0.85 of the time).
constexpr std::int64_t kWholeRow = 4;
// Equations: with more there is no lack of what to do meanwhile. Numbers that are looked up one by one, as those of a
// column are, and columns that are put together are as much code as so many.
constexpr std::size_t kMostWrittenOut = 300, kForLookUp = 16, kForColumn = 8;
// Of those that compare their positions, which are constants then (rows of Jacobians: 0.8 of the time), so many operations
// on vectors.
constexpr std::int64_t kWholeRowOfPositions = 256;

// Whether each lane takes its element of another row. Short rows in memory are read together.
bool takes_column(const KernelContext& k, const Eqn& eqn) {
  if (eqn.primitive != &slice_p || !eqn.inputs[0].is_var()) return false;
  const int from = k.producer[static_cast<std::size_t>(eqn.inputs[0].var())];
  const bool in_memory = from < 0 || !k.kernel().members.contains(from);
  const Shape& all = k.scope.jaxpr.aval(eqn.inputs[0]).shape;
  const Shape& column = k.scope.jaxpr.aval(eqn.outputs[0]).shape;
  const std::int64_t together = in_memory ? static_cast<std::int64_t>(kMostWoven) : 1;
  return column.num_elements() > 1 && column.back() == 1 && all.back() > together;
}

bool is_written_out(const KernelContext& k, std::int64_t vectors) {
  std::size_t positions = 0, code = 0;
  for (const int e : k.kernel().members) {
    const Eqn& eqn = k.eqn(e);
    positions += eqn.primitive == &iota_p;
    const bool one_by_one = eqn.primitive == &gather_p || takes_column(k, eqn);
    code += one_by_one ? kForLookUp : 1;
    if (k.kernel().woven.contains(eqn.outputs[0])) code += kForColumn * eqn.inputs.size();
  }
  if (vectors <= kWholeRow) return vectors == 1 || code <= kMostWrittenOut;
  return positions > 0 &&
         detail::saturating_mul(vectors, cost_of(k.scope, k.kernel())) <= kWholeRowOfPositions;
}

}  // namespace

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

void vector_loop(const KernelContext& k, Scalar begin, Scalar end, std::int64_t size, int lanes,
                 const std::function<void(Scalar base)>& body, BlockOptions options) {
  CodeGen& gen = k.gen;
  const std::int64_t rest = size % lanes, whole = size - rest;
  const std::optional<KnownBounds> known = CodeGen::known_bounds(begin, end);
  const bool all = known && known->last == size;
  const auto once = [&](std::int64_t base) {
    const auto block = [&] { body(gen.index(base)); };
    if (options.loads_leave) gen.scope(block);
    else gen.region(block);
  };
  if (whole > 0) {
    gen.set_lanes(lanes, lanes);
    const Scalar stop = all ? gen.index(whole) : rest == 0 ? end : gen.min(end, gen.index(whole));
    const std::int64_t vectors = all ? (whole - known->first) / lanes : 0;
    if (k.plan.emit.write_out_rows && all &&
        (options.has_loops ? vectors == 1 : is_written_out(k, vectors))) {
      for (std::int64_t base = known->first; base < whole; base += lanes) once(base);
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

LoopBounds bounds_of(CodeGen& gen, std::span<const std::int64_t> sizes) {
  LoopBounds bounds;
  for (const std::int64_t n : sizes) bounds.emplace_back(gen.index(0), gen.index(n));
  return bounds;
}

Scalar end_of_whole_steps(CodeGen& gen, Scalar begin, Scalar end, std::int64_t step) {
  const Scalar n = gen.index(step);
  return gen.add(begin, gen.mul(gen.div(gen.sub(end, begin), n), n));
}

void for_each_tile(CodeGen& gen, const std::pair<Scalar, Scalar>& range, std::int64_t size,
                   int lanes, const std::function<void(Scalar i, int rows)>& f) {
  const auto [begin, end] = range;
  if (size >= lanes) {
    gen.loop_carried(begin, gen.add(end, gen.index(1 - lanes)), lanes, {},
                     [&](Scalar i, const Scalars&) {
                       f(i, lanes);
                       return Scalars{};
                     });
  }
  const Scalar done = end_of_whole_steps(gen, begin, end, lanes);
  const int rest = static_cast<int>(size % lanes);
  const Scalar last = gen.index(size - rest);
  // Other ranges begin and end anywhere, behind their end where a chunk has nothing of a part: `done` is beyond `last` then.
  if (CodeGen::known_bounds(begin, end) == KnownBounds{0, size}) {
    if (rest > 0) gen.region([&] { f(last, rest); });
    return;
  }
  const Scalar at_last = gen.and_(gen.compare(Compare::eq, done, last),
                                  gen.compare(Compare::eq, end, gen.index(size)));
  if (rest > 0) gen.if_then(at_last, [&] { f(last, rest); });
  gen.loop(gen.select(at_last, end, done), end, [&](Scalar i) { f(i, 0); });
}

void loop_nest(CodeGen& gen, const LoopBounds& bounds,
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

void loop_nest_in_blocks(CodeGen& gen, const LoopBounds& bounds, std::size_t d, std::int64_t block,
                         const std::function<void(const Index&)>& body) {
  const auto [begin, end] = bounds[d];
  const Scalar size = gen.index(block);
  LoopBounds others = bounds;  // that of the blocks in place of its dimension
  others[d] = {gen.index(0), gen.div(gen.add(gen.sub(end, begin), gen.index(block - 1)), size)};
  loop_nest(gen, others, [&](const Index& index) {
    const Scalar first = gen.add(begin, gen.mul(index[d], size));
    gen.loop(first, gen.min(gen.add(first, size), end), [&](Scalar i) {
      Index full = index;
      full[d] = i;
      body(full);
    });
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
