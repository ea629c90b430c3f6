// Seams: where a kernel goes from one part of what is put together to the next, along its lanes.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/index_space.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

namespace {

/// Elements of a value along its last dimension of more than one, and what they are made of:
/// element i of element i - offset, or, without an offset, of whichever.
struct Part {
  Atom from;
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  std::optional<std::int64_t> offset;
};

std::vector<Part> parts_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  std::vector<Part> parts;
  for (const Atom& a : eqn.inputs) parts.push_back({.from = a});
  const Shape& shape = jaxpr.aval(eqn.outputs[0]).shape;
  if (shape.empty()) return parts;
  const std::size_t inner = inner_dim(shape);
  const auto alike = [&](const Atom& a) {
    const Shape& from = jaxpr.aval(a).shape;
    return from.size() == shape.size() && inner_dim(from) == inner;
  };
  const auto lies_at = [&](const Atom& a, std::int64_t offset) {
    return alike(a) ? std::optional(offset) : std::nullopt;
  };
  if (eqn.primitive == &concatenate_p) {
    const bool beside =
        eqn.params.as<ConcatenateParams>().dimension == static_cast<std::int64_t>(inner);
    std::int64_t at = 0;
    for (Part& part : parts) {
      part.offset = lies_at(part.from, at);
      if (!beside) continue;
      part.begin = at;
      part.end = at += jaxpr.aval(part.from).shape[inner];
    }
  } else if (eqn.primitive == &pad_p) {
    const auto& [low, high, interior] = eqn.params.as<PadParams>().padding_config[inner];
    if (interior == 0)
      parts[0] = {parts[0].from, low, shape[inner] - high, lies_at(parts[0].from, low)};
  } else if (eqn.primitive == &dynamic_update_slice_p) {
    parts[0].offset = lies_at(parts[0].from, 0);
    const Atom& place = eqn.inputs[2 + inner];
    if (place.is_literal()) {
      const std::int64_t window = jaxpr.aval(parts[1].from).shape[inner];
      const std::int64_t start =
          std::clamp<std::int64_t>(place.literal().item<std::int64_t>(), 0, shape[inner] - window);
      parts[1] = {parts[1].from, start, start + window, lies_at(parts[1].from, start)};
    }
  } else if (eqn.primitive == &slice_p) {
    const auto& p = eqn.params.as<SliceParams>();
    if (stride_of(p, inner) == 1) parts[0].offset = lies_at(parts[0].from, -p.start_indices[inner]);
  } else if (form_of(jaxpr, eqn) == Form::element) {
    for (Part& part : parts) part.offset = lies_at(part.from, 0);
  }
  return parts;
}

constexpr std::size_t kMostSeams = 64;  // of one value: more are too many parts in any case

/// Where the values of a kernel with so many elements along that dimension go from one part to the
/// next.
std::set<std::int64_t> seams_along(const KernelContext& k, const std::set<int>& members,
                                   std::int64_t extent) {
  const Jaxpr& jaxpr = k.scope.jaxpr;
  std::map<Var, std::set<std::int64_t>> of;
  std::set<std::int64_t> all;
  for (const int e : members) {
    const Var made = k.eqn(e).outputs[0];
    const Shape& shape = jaxpr.aval(made).shape;
    if (shape.empty()) continue;
    const std::int64_t size = shape[inner_dim(shape)];
    std::set<std::int64_t> seams;
    const auto add = [&](std::int64_t at) {
      if (at > 0 && at < size) seams.insert(at);
    };
    for (const Part& part : parts_of(jaxpr, k.eqn(e))) {
      add(part.begin);
      add(part.end);
      const auto found = part.from.is_var() && part.offset ? of.find(part.from.var()) : of.end();
      if (found == of.end()) continue;
      for (const std::int64_t at : found->second) add(at + *part.offset);
    }
    if (seams.empty() || seams.size() > kMostSeams) continue;
    if (size == extent) all.insert(seams.begin(), seams.end());
    of.emplace(made, std::move(seams));
  }
  return all;
}

/// Of these equations of a kernel those whose results none of the others reads.
std::vector<int> read_by_none(const KernelContext& k, const std::set<int>& members) {
  std::set<Var> read;
  for (const int e : members) {
    for (const Atom& a : k.eqn(e).inputs)
      if (a.is_var()) read.insert(a.var());
  }
  std::vector<int> last;
  for (const int e : members) {
    const Vars& made = k.eqn(e).outputs;
    if (std::none_of(made.begin(), made.end(), [&](Var v) { return read.contains(v); }))
      last.push_back(e);
  }
  return last;
}

/// What a kernel's results at some places along that dimension are computed from.
class NeededAt {
 public:
  NeededAt(const KernelContext& k, const std::set<int>& members, std::int64_t extent)
      : k_(k), members_(members), extent_(extent), last_(read_by_none(k, members)) {}

  /// How many equations that is.
  std::size_t equations(const std::vector<std::int64_t>& places) const {
    std::set<int> needed;
    std::set<std::pair<int, std::int64_t>> seen;
    std::vector<std::pair<int, std::int64_t>> todo;
    const auto ask = [&](int e, std::int64_t at) {
      if (seen.emplace(e, at).second) todo.emplace_back(e, at);
    };
    for (const std::int64_t at : places) {
      for (const int e : last_) ask(e, goes_along(e) ? at : kAnywhere);
    }
    while (!todo.empty()) {
      const auto [e, at] = todo.back();
      todo.pop_back();
      needed.insert(e);
      for (const Part& part : parts_of(k_.scope.jaxpr, k_.eqn(e))) {
        if (at != kAnywhere && (at < part.begin || at >= part.end)) continue;
        const Atom& from = part.from;
        const int p = from.is_var() ? k_.producer[static_cast<std::size_t>(from.var())] : -1;
        if (p >= 0 && members_.contains(p)) ask(p, place_in(part, at));
      }
    }
    return needed.size();
  }

 private:
  static constexpr std::int64_t kAnywhere = -1;

  // Whether a result has the dimension, or folds it.
  bool goes_along(int e) const {
    return is_along(k_.scope.jaxpr.aval(k_.eqn(e).outputs[0]).shape) ||
           form_of(k_.scope.jaxpr, k_.eqn(e)) == Form::reduction;
  }
  bool is_along(const Shape& shape) const {
    return !shape.empty() && shape[inner_dim(shape)] == extent_;
  }
  // Of what has no offset, the place that the kernel is at as it goes through the dimension.
  std::int64_t place_in(const Part& part, std::int64_t at) const {
    if (at == kAnywhere) return kAnywhere;
    if (part.offset) return at - *part.offset;
    return is_along(k_.scope.jaxpr.aval(part.from).shape) ? at : kAnywhere;
  }

  const KernelContext& k_;
  const std::set<int>& members_;
  std::int64_t extent_;
  std::vector<int> last_;  // equations whose results are not read by others
};

}  // namespace

Seams find_seams(const KernelContext& k, const std::set<int>& members, std::int64_t extent,
                 int lanes, std::size_t most) {
  Seams found{.equations = members.size()};
  const std::set<std::int64_t> seams = seams_along(k, members, extent);
  if (!k.plan.emit.seams || seams.empty()) return found;
  const NeededAt needed(k, members, extent);
  found.equations = 0;
  std::int64_t from = 0;
  for (const std::int64_t to : blocks_between({seams.begin(), seams.end()}, lanes, extent)) {
    std::vector<std::int64_t> places{from};
    places.insert(places.end(), seams.upper_bound(from), seams.lower_bound(to));
    found.equations += needed.equations(places);
    if (found.equations > most) return found;
    from = to;
  }
  found.at.assign(seams.begin(), seams.end());
  return found;
}

std::vector<std::int64_t> find_seams(const KernelContext& k, std::int64_t extent, int lanes,
                                     std::size_t most) {
  return find_seams(k, k.kernel().members, extent, lanes, most).at;
}

namespace {

/// Whether an equation of a kernel puts parts together along dimension `d` of what the loops from there on go through.
bool puts_together(const KernelContext& k, int e, std::size_t d) {
  const Eqn& eqn = k.eqn(e);
  const Shape &all = k.kernel().shape, &shape = k.scope.jaxpr.aval(eqn.outputs[0]).shape;
  return eqn.primitive == &concatenate_p &&
         eqn.params.as<ConcatenateParams>().dimension == static_cast<std::int64_t>(d) &&
         shape.size() == all.size() &&
         std::equal(shape.begin() + static_cast<std::ptrdiff_t>(d), shape.end(),
                    all.begin() + static_cast<std::ptrdiff_t>(d));
}

/// Of these equations those that the results at place `at` of dimension `d` are made of.
std::set<int> members_at(const KernelContext& k, const std::set<int>& members,
                         const std::vector<int>& last, std::size_t d, std::int64_t at) {
  std::set<int> needed(last.begin(), last.end());
  std::vector<int> todo = last;
  while (!todo.empty()) {
    const int e = todo.back();
    todo.pop_back();
    const bool chooses = puts_together(k, e, d);
    std::int64_t end = 0;
    for (const Atom& a : k.eqn(e).inputs) {
      if (chooses) {
        const std::int64_t begin = end;
        end += k.scope.jaxpr.aval(a).shape[d];
        if (at < begin || at >= end) continue;
      }
      const int p = a.is_var() ? k.producer[static_cast<std::size_t>(a.var())] : -1;
      if (p >= 0 && members.contains(p) && needed.insert(p).second) todo.push_back(p);
    }
  }
  return needed;
}

}  // namespace

std::vector<OuterPart> parts_along(const KernelContext& k, const std::set<int>& members,
                                   std::size_t d) {
  std::set<std::int64_t> ends;
  for (const int e : members) {
    if (!k.plan.emit.seams || !puts_together(k, e, d)) continue;
    std::int64_t at = 0;
    for (const Atom& part : k.eqn(e).inputs) {
      at += k.scope.jaxpr.aval(part).shape[d];
      if (at > 0) ends.insert(at);
    }
  }
  if (ends.size() < 2 || ends.size() > kMostSeams) return {{k.kernel().shape[d], members}};
  const std::vector<int> last = read_by_none(k, members);
  std::vector<OuterPart> parts;
  for (std::int64_t from = 0; const std::int64_t to : ends) {
    parts.push_back({to, members_at(k, members, last, d, from)});
    from = to;
  }
  return parts;
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
  std::int64_t from = 0;
  const bool all = CodeGen::known_bounds(begin, end) == KnownBounds{0, size};
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
