// Seams: where a kernel goes from one part of what is put together to the next, along its lanes.
#include <algorithm>
#include <set>

#include "compiler/emit/emit.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

std::vector<std::int64_t> find_seams(const KernelContext& k, std::int64_t extent,
                                     std::size_t most) {
  if (!k.plan.emit.seams) return {};
  std::set<std::int64_t> seams;
  const auto add = [&](std::int64_t at) {
    if (at > 0 && at < extent) seams.insert(at);
  };
  for (const int e : k.kernel().members) {
    const Eqn& eqn = k.eqn(e);
    const Shape& shape = k.scope.jaxpr.aval(eqn.outputs[0]).shape;
    if (shape.empty()) continue;
    std::size_t inner = shape.size() - 1;
    while (inner > 0 && shape[inner] == 1) --inner;
    if (shape[inner] != extent) continue;
    if (eqn.primitive == &pad_p) {
      const auto& [low, high, interior] = eqn.params.as<PadParams>().padding_config[inner];
      if (interior != 0) continue;
      add(low);
      add(extent - high);
    } else if (eqn.primitive == &concatenate_p &&
               eqn.params.as<ConcatenateParams>().dimension == static_cast<std::int64_t>(inner)) {
      std::int64_t at = 0;
      for (const Atom& a : eqn.inputs) add(at += k.scope.jaxpr.aval(a).shape[inner]);
    }
  }
  if ((2 * seams.size() + 1) * k.kernel().members.size() > most) return {};
  return {seams.begin(), seams.end()};
}

std::vector<std::int64_t> blocks_between(const std::vector<std::int64_t>& seams, int lanes,
                                         std::int64_t size) {
  std::vector<std::int64_t> ends;
  const auto add = [&](std::int64_t end) {
    end = std::min(end, size);
    if (end > (ends.empty() ? 0 : ends.back())) ends.push_back(end);
  };
  for (const std::int64_t at : seams) {
    const std::int64_t block = at / lanes * lanes;
    add(block);
    if (at % lanes != 0) add(block + lanes);
  }
  add(size);
  return ends;
}

void seamed_loop(const KernelContext& k, const std::vector<std::int64_t>& seams, Scalar begin,
                 Scalar end, std::int64_t size, int lanes,
                 const std::function<void(Scalar base)>& body, BlockOptions options) {
  CodeGen& gen = k.gen;
  std::int64_t from = 0, first = 0, last = 0;
  const bool all = CodeGen::known_constant(begin, first) && CodeGen::known_constant(end, last) &&
                   first == 0 && last == size;
  for (const std::int64_t to : blocks_between(seams, lanes, size)) {
    const Scalar low = all ? gen.index(from) : gen.max(begin, gen.index(from));
    const Scalar high = all ? gen.index(to) : gen.min(end, gen.index(to));
    const std::int64_t last_base = std::max(from, to - lanes);
    vector_loop(
        k, low, high, to, lanes, [&](Scalar base) { body(gen.within(base, from, last_base)); },
        options);
    from = to;
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
