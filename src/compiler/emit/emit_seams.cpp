// Seams: where a kernel goes from one part of what is put together to the next, along its lanes.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/index_space.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

namespace {

std::int64_t window_start(const Atom& place, std::int64_t last) {
  return std::clamp<std::int64_t>(place.literal().item<std::int64_t>(), 0, last);
}

constexpr std::size_t kMostSeams = 64;  // of one value: more are too many parts in any case

/// Where each value of a kernel goes from one operand to the next, along its last dimension of more than one element.
class SeamsOf {
 public:
  explicit SeamsOf(const KernelContext& k) : k_(k) {
    for (const int e : k.kernel().members) follow(k.eqn(e));
  }
  /// Of all values with so many elements along that dimension.
  std::set<std::int64_t> along(std::int64_t extent) const {
    std::set<std::int64_t> all;
    for (const auto& [v, seams] : of_) {
      const Shape& shape = k_.scope.jaxpr.aval(v).shape;
      if (shape[inner_dim(shape)] == extent) all.insert(seams.begin(), seams.end());
    }
    return all;
  }

 private:
  // Those of an operand that lies from `offset` on in the value.
  void take(std::set<std::int64_t>& seams, const Atom& from, std::int64_t offset,
            std::int64_t extent) const {
    const auto found = from.is_var() ? of_.find(from.var()) : of_.end();
    if (found == of_.end()) return;
    for (const std::int64_t at : found->second) {
      if (at + offset > 0 && at + offset < extent) seams.insert(at + offset);
    }
  }

  void follow(const Eqn& eqn) {
    const Shape& shape = k_.scope.jaxpr.aval(eqn.outputs[0]).shape;
    if (shape.empty()) return;
    const std::size_t inner = inner_dim(shape);
    const std::int64_t extent = shape[inner];
    std::set<std::int64_t> seams;
    const auto add = [&](std::int64_t at) {
      if (at > 0 && at < extent) seams.insert(at);
    };
    const auto alike = [&](const Atom& a) {
      const Shape& from = k_.scope.jaxpr.aval(a).shape;
      return from.size() == shape.size() && inner_dim(from) == inner;
    };
    if (eqn.primitive == &pad_p) {
      const auto& [low, high, interior] = eqn.params.as<PadParams>().padding_config[inner];
      if (interior != 0) return;
      add(low);
      add(extent - high);
      if (alike(eqn.inputs[0])) take(seams, eqn.inputs[0], low, extent);
    } else if (eqn.primitive == &concatenate_p) {
      const bool beside =
          eqn.params.as<ConcatenateParams>().dimension == static_cast<std::int64_t>(inner);
      std::int64_t at = 0;
      for (const Atom& a : eqn.inputs) {
        if (alike(a)) take(seams, a, at, extent);
        if (beside) add(at += k_.scope.jaxpr.aval(a).shape[inner]);
      }
    } else if (eqn.primitive == &dynamic_update_slice_p) {
      const Atom& place = eqn.inputs[2 + inner];
      const std::int64_t window = k_.scope.jaxpr.aval(eqn.inputs[1]).shape[inner];
      if (alike(eqn.inputs[0])) take(seams, eqn.inputs[0], 0, extent);
      if (!place.is_literal() || window == extent) return keep(eqn, std::move(seams));
      const std::int64_t start = window_start(place, extent - window);
      add(start);
      add(start + window);
      if (alike(eqn.inputs[1])) take(seams, eqn.inputs[1], start, extent);
    } else if (eqn.primitive == &slice_p) {
      const auto& p = eqn.params.as<SliceParams>();
      if (alike(eqn.inputs[0]) && stride_of(p, inner) == 1)
        take(seams, eqn.inputs[0], -p.start_indices[inner], extent);
    } else if (form_of(k_.scope.jaxpr, eqn) == Form::element) {
      for (const Atom& a : eqn.inputs) take(seams, a, 0, extent);
    }
    keep(eqn, std::move(seams));
  }
  void keep(const Eqn& eqn, std::set<std::int64_t> seams) {
    if (!seams.empty() && seams.size() <= kMostSeams) of_.emplace(eqn.outputs[0], std::move(seams));
  }

  const KernelContext& k_;
  std::map<Var, std::set<std::int64_t>> of_;
};

/// What a kernel's results at some places along that dimension are computed from.
class NeededAt {
 public:
  NeededAt(const KernelContext& k, std::int64_t extent) : k_(k), extent_(extent) {
    std::set<Var> read;
    for (const int e : k.kernel().members) {
      for (const Atom& a : k.eqn(e).inputs)
        if (a.is_var()) read.insert(a.var());
    }
    for (const int e : k.kernel().members) {
      const Vars& made = k.eqn(e).outputs;
      if (std::none_of(made.begin(), made.end(), [&](Var v) { return read.contains(v); }))
        last_.push_back(e);
    }
  }

  /// How many equations that is.
  std::size_t equations(std::initializer_list<std::int64_t> places) const {
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
      for (const auto& [from, place] : read_at(k_.eqn(e), at)) {
        const int p = from.is_var() ? k_.producer[static_cast<std::size_t>(from.var())] : -1;
        if (p >= 0 && k_.kernel().members.contains(p)) ask(p, place);
      }
    }
    return needed.size();
  }

 private:
  static constexpr std::int64_t kAnywhere = -1;
  using Places = std::vector<std::pair<Atom, std::int64_t>>;

  // Whether a result has the dimension, or folds it.
  bool goes_along(int e) const {
    const Shape& out = k_.scope.jaxpr.aval(k_.eqn(e).outputs[0]).shape;
    return is_along(out) || form_of(k_.scope.jaxpr, k_.eqn(e)) == Form::reduction;
  }
  bool is_along(const Shape& shape) const {
    return !shape.empty() && shape[inner_dim(shape)] == extent_;
  }

  // What an equation reads for a place of its result, and where.
  Places read_at(const Eqn& eqn, std::int64_t at) const {
    const Shape& shape = k_.scope.jaxpr.aval(eqn.outputs[0]).shape;
    if (at != kAnywhere && !shape.empty()) {
      const std::size_t inner = inner_dim(shape);
      if (eqn.primitive == &concatenate_p &&
          eqn.params.as<ConcatenateParams>().dimension == static_cast<std::int64_t>(inner)) {
        for (const Atom& a : eqn.inputs) {
          const std::int64_t size = k_.scope.jaxpr.aval(a).shape[inner];
          if (at < size) return {{a, at}};
          at -= size;
        }
      }
      if (eqn.primitive == &pad_p) {
        const auto& [low, high, interior] = eqn.params.as<PadParams>().padding_config[inner];
        if (at < low || at >= shape[inner] - high) return {{eqn.inputs[1], kAnywhere}};
        if (interior == 0) return {{eqn.inputs[0], at - low}, {eqn.inputs[1], kAnywhere}};
      }
      if (eqn.primitive == &dynamic_update_slice_p && eqn.inputs[2 + inner].is_literal()) {
        const std::int64_t window = k_.scope.jaxpr.aval(eqn.inputs[1]).shape[inner];
        const std::int64_t start = window_start(eqn.inputs[2 + inner], shape[inner] - window);
        if (at < start || at >= start + window) return {{eqn.inputs[0], at}};
        return {{eqn.inputs[0], at},
                {eqn.inputs[1], at - start}};  // beside the window, in other rows
      }
      if (eqn.primitive == &slice_p) {
        const auto& p = eqn.params.as<SliceParams>();
        if (stride_of(p, inner) == 1) return {{eqn.inputs[0], at + p.start_indices[inner]}};
      }
    }
    // Element by element, or what goes through the whole dimension as the kernel does.
    const bool alike = form_of(k_.scope.jaxpr, eqn) == Form::element;
    Places all;
    for (const Atom& a : eqn.inputs)
      all.emplace_back(a, alike || is_along(k_.scope.jaxpr.aval(a).shape) ? at : kAnywhere);
    return all;
  }

  const KernelContext& k_;
  std::int64_t extent_;
  std::vector<int> last_;  // equations whose results are not read by others
};

}  // namespace

std::vector<std::int64_t> find_seams(const KernelContext& k, std::int64_t extent,
                                     std::size_t most) {
  if (!k.plan.emit.seams) return {};
  const std::set<std::int64_t> seams = SeamsOf(k).along(extent);
  if (seams.empty()) return {};
  const NeededAt needed(k, extent);
  std::size_t all = needed.equations({0});
  for (const std::int64_t at : seams) {
    all += needed.equations({at}) + needed.equations({at - 1, at});
    if (all > most) return {};
  }
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
