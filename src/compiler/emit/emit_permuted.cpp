// Kernels that put columns of an array in another order, as x[:, places]: row by row, each vector of the result of those of
// the row that have its elements. Columns of many rows at once would first have to be taken apart, and put together again.
#include <algorithm>
#include <optional>

#include "compiler/emit/emit.hpp"
#include "compiler/fusion/index_space.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

struct Permuted {
  Var of = 0;  ///< the array, whose rows have this length
  int length = 0;
  std::vector<int> places;
};

/// Which column of the operand a slice is, if it is one and nothing else.
std::optional<int> column_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.primitive != &slice_p || !eqn.inputs[0].is_var()) return {};
  const auto& p = eqn.params.as<SliceParams>();
  const Shape &from = jaxpr.aval(eqn.inputs[0]).shape, &to = jaxpr.aval(eqn.outputs[0]).shape;
  if (to.back() != 1) return {};
  for (std::size_t d = 0; d + 1 < from.size(); ++d) {
    if (from[d] != to[d]) return {};
  }
  return static_cast<int>(p.start_indices.back());
}

std::optional<Permuted> find_permuted(const KernelContext& k, Generator& values) {
  const Kernel& kernel = k.kernel();
  if (!k.plan.emit.load_columns || kernel.roots.size() != 1 || kernel.woven.empty()) return {};
  const Jaxpr& jaxpr = k.scope.jaxpr;
  std::optional<Permuted> found;
  for (const Atom& column : columns_of_root(jaxpr, kernel, k.producer, kernel.roots[0])) {
    const int e = column.is_var() ? k.producer[static_cast<std::size_t>(column.var())] : -1;
    if (e < 0 || !kernel.members.contains(e)) return {};
    const Eqn& eqn = k.eqn(e);
    const std::optional<int> place = column_of(jaxpr, eqn);
    if (!place) return {};
    const Var of = eqn.inputs[0].var();
    if (!found) found = {of, static_cast<int>(jaxpr.aval(of).shape.back()), {}};
    if (of != found->of) return {};
    found->places.push_back(*place);
  }
  if (values.in_memory(found->of) < 0) return {};
  return found;
}

/// Whether so many elements of `dtype` are arranged sooner in a row than as columns. These take a shuffle for each time that
/// 2 divides the lanes when they are taken apart, and when they are put together, and wait in memory meanwhile, which takes as
/// long again as one of the two; a row takes shuffles of any lanes of two vectors, which there are with AVX-512 for elements
/// of 4 and 8 bytes, and as two operations with AVX2. (On Zen 4, of as many f32 in any order, 16 columns take 0.5 of the time,
/// 32 take 0.7, 48 and 64 take 0.5, and 128 take 0.6.)
bool are_better_by_rows(const Permuted& p, DType dtype, int lanes) {
  const std::size_t bytes = size_of(dtype);
  const auto k = static_cast<int>(p.places.size());
  const runtime::Isa isa = runtime::target_isa();
  if (isa == runtime::Isa::generic || (bytes != 4 && bytes != 8) || k < lanes) return false;
  const int each = isa == runtime::Isa::avx512 ? 1 : 2;
  int halvings = 0;
  for (int l = lanes; l > 1; l /= 2) ++halvings;
  return each * CodeGen::shuffles_of_permuted(lanes, p.places) <= k / lanes * 3 * halvings;
}

}  // namespace

bool emit_permuted(KernelContext& k,
                   const std::function<void(const std::function<void(bool)>&)>& around) {
  CodeGen& gen = k.gen;
  Generator values = k.generator();
  const std::optional<Permuted> p = find_permuted(k, values);
  if (!p) return false;
  const DType dtype = k.scope.jaxpr.aval(p->of).dtype;
  const int lanes = static_cast<int>(runtime::target_vector_bytes() / size_of(dtype));
  if (!are_better_by_rows(*p, dtype, lanes)) return false;
  const Pointer from = values.pointer(values.in_memory(p->of)),
                to = values.pointer(k.value_of(k.kernel().roots[0]));
  around([&](bool) {
    gen.set_lanes(lanes, lanes);
    gen.loop(k.begin, k.end, [&](Scalar row) {
      gen.store_permuted(to, gen.mul(row, gen.index(static_cast<std::int64_t>(p->places.size()))),
                         from, gen.mul(row, gen.index(p->length)), dtype, p->length, p->places);
    });
    gen.set_lanes(1, 1);
  });
  return true;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
