#include "compiler/segments.hpp"

#include <algorithm>
#include <unordered_map>

#include "compiler/emit.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::size_t kLeast = 96;     // equations of a kernel that is cut
constexpr std::size_t kLongest = 160;  // of a function
constexpr std::int64_t kLine = 64;     // bytes

bool is_name(const Eqn& eqn) {
  return eqn.primitive == &reshape_p || eqn.primitive == &broadcast_in_dim_p;
}

/// Memory for values that live from one function to another. What a function reads for the last time
/// is free for what the next one writes.
class Tape {
 public:
  std::int64_t bytes = 0;

  std::int64_t add(std::int64_t size) {
    std::vector<std::int64_t>& free = free_[size];
    if (!free.empty()) {
      const std::int64_t at = free.back();
      free.pop_back();
      return at;
    }
    const std::int64_t unit = std::min(size, kLine);  // powers of two
    const std::int64_t at = (bytes + unit - 1) / unit * unit;
    bytes = at + size;
    return at;
  }
  void release(std::int64_t at, std::int64_t size) { free_[size].push_back(at); }

 private:
  std::map<std::int64_t, std::vector<std::int64_t>> free_;  // by size
};

class Cutter {
  static constexpr int kNoSegment = -1, kNoMember = -2;

 public:
  Cutter(const Jaxpr& jaxpr, const Kernel& kernel, const std::vector<int>& producer)
      : jaxpr_(jaxpr), kernel_(kernel), producer_(producer), size_(kernel.shape.num_elements()) {}

  std::shared_ptr<const Segments> run() {
    if (!kernel_.can_be_cut || kernel_.members.size() < kLeast || size_ == 0) return nullptr;
    segment_of_.assign(jaxpr_.eqns().size(), kNoMember);
    for (const int e : kernel_.members) segment_of_[static_cast<std::size_t>(e)] = kNoSegment;
    out_.lanes = size_ == 1 ? 1 : vector_lanes(jaxpr_, kernel_);
    cut();
    if (out_.equations.empty()) return nullptr;
    find_uses();
    place();
    return std::make_shared<const Segments>(std::move(out_));
  }

 private:
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int segment_of(int e) const { return segment_of_[static_cast<std::size_t>(e)]; }
  bool computed(Var v) const {
    const int e = producer_[static_cast<std::size_t>(v)];
    return e >= 0 && segment_of(e) != kNoMember;
  }
  bool uniform(Var v) const { return size_ > 1 && jaxpr_.aval(v).size() == 1; }

  // The functions take equal numbers of equations.
  void cut() {
    std::vector<int> all;
    for (const int e : kernel_.members) {
      if (is_name(eqn(e))) out_.names.insert(e);
      else if (!uniform(eqn(e).outputs[0])) all.push_back(e);
    }
    if (all.size() < kLeast) return;
    const std::size_t n = (all.size() + kLongest - 1) / kLongest;
    for (std::size_t i = 0; i < n; ++i) {
      const auto at = [&](std::size_t k) {
        return all.begin() + static_cast<std::ptrdiff_t>(all.size() * k / n);
      };
      out_.equations.emplace_back(at(i), at(i + 1));
      for (const int e : out_.equations.back())
        segment_of_[static_cast<std::size_t>(e)] = static_cast<int>(i);
    }
  }

  struct Use {
    int first = -1,
        last = -1;  // the functions that make it and read it last; -1: it comes from outside
  };
  void use(const Atom& a, int segment) {
    const Atom named = out_.named(jaxpr_, producer_, a);
    if (named.is_literal()) return;
    const Var v = named.var();
    const auto [at, is_new] = uses_.try_emplace(v);
    Use& u = at->second;
    if (is_new) {
      if (uniform(v)) out_.uniforms.push_back(v);
      else if (!computed(v)) out_.inputs.push_back(v);
      else u.first = segment_of(producer_[static_cast<std::size_t>(v)]);
    }
    u.last = std::max(u.last, segment);
  }
  void find_uses() {
    for (std::size_t s = 0; s < out_.equations.size(); ++s) {
      for (const int e : out_.equations[s]) {
        for (const Atom& a : eqn(e).inputs) use(a, static_cast<int>(s));
      }
    }
    for (const Var v : kernel_.roots) use(Atom::var(v), static_cast<int>(out_.equations.size()));
  }

  std::int64_t bytes(Var v) const {
    const auto each = static_cast<std::int64_t>(size_of(jaxpr_.aval(v).dtype));
    return uniform(v) ? each : each * out_.lanes;
  }
  void place() {
    Tape tape;
    const auto n = out_.equations.size();
    std::vector<std::vector<Var>> made(n + 1), read_last(n + 1);  // made before: in made[0]
    for (const auto& [v, u] : uses_) {
      if (u.first == u.last) continue;
      made[static_cast<std::size_t>(std::max(u.first, 0))].push_back(v);
      // Numbers are put there once, before the loop.
      if (!uniform(v)) read_last[static_cast<std::size_t>(u.last)].push_back(v);
    }
    for (std::size_t s = 0; s <= n; ++s) {
      std::sort(made[s].begin(), made[s].end());
      for (const Var v : made[s]) out_.places[v] = tape.add(bytes(v));
      for (const Var v : read_last[s]) tape.release(out_.places.at(v), bytes(v));
    }
    out_.bytes = (tape.bytes + 2 * kLine - 1) / (2 * kLine) * (2 * kLine);
  }

  const Jaxpr& jaxpr_;
  const Kernel& kernel_;
  const std::vector<int>& producer_;
  std::int64_t size_;
  Segments out_;
  std::vector<int> segment_of_;  // of equations
  std::unordered_map<Var, Use> uses_;
};

}  // namespace

Atom Segments::named(const Jaxpr& jaxpr, const std::vector<int>& producer, Atom a) const {
  while (a.is_var()) {
    const int e = producer[static_cast<std::size_t>(a.var())];
    if (e < 0 || !names.contains(e)) break;
    a = jaxpr.eqns()[static_cast<std::size_t>(e)].inputs[0];
  }
  return a;
}

bool can_cut(const Jaxpr& jaxpr, const Eqn& eqn, Form form, const Shape& space) {
  if (eqn.outputs.empty() || eqn.effect != Effect::none) return false;
  const std::int64_t size = jaxpr.aval(eqn.outputs[0]).size();
  if (size != 1 && size != space.num_elements()) return false;
  switch (form) {
    case Form::element:
    case Form::reshape: return true;
    case Form::index:
      return eqn.primitive == &broadcast_in_dim_p && jaxpr.aval(eqn.inputs[0]).size() == 1;
    default: return false;
  }
}

std::shared_ptr<const Segments> cut_kernel(const Jaxpr& jaxpr, const Kernel& kernel,
                                           const std::vector<int>& producer) {
  return Cutter(jaxpr, kernel, producer).run();
}

std::int64_t num_tapes(const Segments& segments) {
  constexpr std::int64_t kMost = Step::kMaxChunks, kLeastTapes = 8, kBytes = std::int64_t{1} << 22;
  return std::clamp(kBytes / std::max<std::int64_t>(segments.bytes, 1), kLeastTapes, kMost);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
