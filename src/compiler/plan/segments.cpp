// Cuts the equations of a long kernel into stretches, and lays out the tape between them.
#include "compiler/plan/segments.hpp"

#include <algorithm>
#include <bit>
#include <ranges>
#include <unordered_map>

#include "compiler/emit/emit.hpp"
#include "compiler/fusion/index_space.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::size_t kLongest = 160;  // of a function
constexpr int kStretch = 32;           // cycles of a stretch, about
constexpr std::int64_t kVectors =
    16;  // at a time: code that the caches do not hold is read once for all
constexpr std::int64_t kLine = 64;  // bytes

bool is_name(const Eqn& eqn) {
  return eqn.primitive == &reshape_p || eqn.primitive == &broadcast_in_dim_p;
}

/// Memory for values that live from one stretch to another. What a stretch reads for the last time is
/// free for what the next one writes.
class Tape {
 public:
  Tape(std::int64_t vectors, std::int64_t vector_bytes)
      : vectors_(vectors), vector_bytes_(vector_bytes) {}
  std::int64_t bytes = 0;

  std::int64_t add_number(std::int64_t size) { return append(size); }
  /// `size` bytes of each vector, a power of two: what is smaller than these shares a place with others.
  std::int64_t add(std::int64_t size) {
    std::vector<std::int64_t>& free = free_[size];
    if (free.empty()) {
      if (size == vector_bytes_) return append(vectors_ * vector_bytes_);
      const std::int64_t place = add(vector_bytes_);
      for (std::int64_t at = vector_bytes_; (at -= size) >= 0;) free.push_back(place + at);
    }
    const std::int64_t at = free.back();
    free.pop_back();
    return at;
  }
  void release(std::int64_t at, std::int64_t size) { free_[size].push_back(at); }

 private:
  std::int64_t append(std::int64_t size) {
    const std::int64_t unit = std::min(size, kLine);  // powers of two
    const std::int64_t at = detail::rounded_up(bytes, unit);
    bytes = at + size;
    return at;
  }

  std::int64_t vectors_, vector_bytes_;
  std::map<std::int64_t, std::vector<std::int64_t>> free_;  // by size
};

class Cutter {
  static constexpr int kNoStretch = -1, kNoMember = -2;

 public:
  Cutter(const Jaxpr& jaxpr, const Kernel& kernel, const std::vector<int>& producer)
      : jaxpr_(jaxpr), kernel_(kernel), producer_(producer), size_(kernel.shape.num_elements()) {}

  std::shared_ptr<const Segments> run(bool overlap) {
    if (!kernel_.can_be_cut || kernel_.members.size() < kLeastCut || size_ == 0) return nullptr;
    stretch_of_.assign(jaxpr_.eqns().size(), kNoMember);
    for (const int e : kernel_.members) {
      if (!kernel_.reads.contains(e)) stretch_of_[static_cast<std::size_t>(e)] = kNoStretch;
    }
    out_.lanes = size_ == 1 ? 1 : vector_lanes(jaxpr_, kernel_);
    constexpr std::int64_t kNumber = 8;  // bytes of a number, at most
    out_.vector_bytes =
        size_ == 1 ? kNumber : static_cast<std::int64_t>(runtime::target_vector_bytes());
    find_names();
    const std::vector<int> all = computed();
    if (all.size() < kLeastCut) return nullptr;
    if (overlap && waits(all)) {
      const auto whole = static_cast<std::uint64_t>(std::max<std::int64_t>(size_ / out_.lanes, 1));
      out_.vectors = std::min(kVectors, static_cast<std::int64_t>(std::bit_floor(whole)));
    }
    cut(all);
    find_uses();
    place();
    return std::make_shared<const Segments>(std::move(out_));
  }

 private:
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int stretch_of(int e) const { return stretch_of_[static_cast<std::size_t>(e)]; }
  bool computed(Var v) const {
    const int e = producer_[static_cast<std::size_t>(v)];
    return e >= 0 && stretch_of(e) != kNoMember;
  }
  bool uniform(Var v) const { return size_ > 1 && jaxpr_.aval(v).size() == 1; }

  // Of functions.
  auto members() const {
    return std::views::filter(kernel_.members, [this](int e) {
      return !kernel_.reads.contains(e) &&
             (eqn(e).outputs.size() != 1 || !kernel_.woven.contains(eqn(e).outputs[0]));
    });
  }
  void find_names() {
    for (const int e : members()) {
      if (is_name(eqn(e))) out_.names.insert(e);
    }
    if (out_.lanes > 1) find_again();
  }
  std::vector<int> computed() const {
    std::vector<int> all;
    for (const int e : members()) {
      if (!out_.names.contains(e) && !out_.again.contains(e) && !uniform(eqn(e).outputs[0]))
        all.push_back(e);
    }
    return all;
  }
  // Whether equations wait for each other, so that one vector does not keep a processor busy: a result takes some times as
  // long to come as its unit is taken for it. Where enough of them do not, to go through them for one vector after the other
  // leaves more in registers and less on the tape (100 products of 4 x 4 in f64 on Zen 5: 0.6 of the time). Functions that
  // are called wait for what is before them whatever waits beside them: they come chain by chain.
  bool waits(const std::vector<int>& all) const {
    constexpr int kMostAtOnce = 10, kFewCalls = 16;  // equations on average; for each call
    std::unordered_map<int, int> ready;
    int busy = 0, longest = 0, calls = 0;
    for (const int e : all) {
      const int cost = element_cost(eqn(e));
      busy += cost;
      calls += cost >= kCallCost;
      const int end = start_of(e, ready) + cost;
      ready[e] = end;
      longest = std::max(longest, end);
    }
    return kFewCalls * calls > std::ssize(all) || busy <= kMostAtOnce * longest;
  }
  // When all operands of an equation are there.
  int start_of(int e, const std::unordered_map<int, int>& ready) const {
    int start = 0;
    for (const Atom& input : eqn(e).inputs) {
      const Atom a = out_.named(jaxpr_, producer_, input);
      if (a.is_literal()) continue;
      const int p = producer_[static_cast<std::size_t>(a.var())];
      const auto made = ready.find(p);
      if (made != ready.end()) start = std::max(start, made->second);
      else if (out_.again.contains(p)) start = std::max(start, start_of(p, ready));
    }
    return start;
  }
  // The functions take equal numbers of equations.
  void cut(const std::vector<int>& all) {
    const std::size_t n = (all.size() + kLongest - 1) / kLongest;
    for (std::size_t i = 0; i < n; ++i) {
      const auto at = [&](std::size_t k) {
        return all.begin() + static_cast<std::ptrdiff_t>(all.size() * k / n);
      };
      out_.functions.emplace_back();
      cut_function({at(i), at(i + 1)});
    }
  }
  bool is_condition(Var v) const { return jaxpr_.aval(v).dtype == DType::bool_; }
  // What is no result, and is the negative of a value, which sums take in, or is made of few conditions and of
  // nothing else that differs from index to index.
  void find_again() {
    std::set<Var> results;
    for (const Var v : kernel_.roots) {
      for (const Atom& column : columns_of_root(jaxpr_, kernel_, producer_, v)) {
        if (const Atom a = out_.named(jaxpr_, producer_, column); a.is_var())
          results.insert(a.var());
      }
    }
    std::map<int, int> lengths;
    for (const int e : members()) {
      // Numbers are computed once, outside the loop.
      if (results.contains(eqn(e).outputs[0]) || uniform(eqn(e).outputs[0])) continue;
      if (const int length = length_again(eqn(e), lengths); length <= kMostAgain) {
        lengths[e] = length;
        out_.again.insert(e);
      }
    }
  }
  static constexpr int kMostAgain = 4;  // equations, in place of a load
  int length_again(const Eqn& e, const std::map<int, int>& lengths) const {
    if (e.primitive == &neg_p) return kMostAgain;  // nothing but itself
    if (!takes_conditions(e)) return kMostAgain + 1;
    int length = 1;
    for (const Atom& input : e.inputs) {
      const Atom a = out_.named(jaxpr_, producer_, input);
      if (a.is_literal() || uniform(a.var())) continue;
      const auto made = lengths.find(producer_[static_cast<std::size_t>(a.var())]);
      if (made != lengths.end()) length += made->second;
      else if (!is_condition(a.var())) return kMostAgain + 1;
    }
    return length;
  }
  bool takes_conditions(const Eqn& e) const {
    const bool first = !e.inputs.empty() && jaxpr_.aval(e.inputs[0]).dtype == DType::bool_;
    return first && (e.primitive == &convert_element_type_p || e.primitive == &select_n_p ||
                     e.primitive == &and_p || e.primitive == &or_p || e.primitive == &xor_p ||
                     e.primitive == &not_p);
  }
  // One vector at a time gains nothing from stretches.
  void cut_function(std::span<const int> equations) {
    int cycles = kStretch;
    for (const int e : equations) {
      const int cost = element_cost(eqn(e));
      const bool full = out_.vectors > 1 && cycles + cost > kStretch;
      if (std::vector<Segments::Stretch>& f = out_.functions.back(); f.empty() || full) {
        f.emplace_back();
        ++num_stretches_;
        cycles = 0;
      }
      cycles += cost;
      out_.functions.back().back().push_back(e);
      stretch_of_[static_cast<std::size_t>(e)] = num_stretches_ - 1;
    }
  }

  struct Use {
    int first = -1,
        last = -1;  // the stretches that make it and read it last; -1: it comes from outside
  };
  void use(const Atom& a, int stretch) {
    const Atom named = out_.named(jaxpr_, producer_, a);
    if (named.is_literal()) return;
    const Var v = named.var();
    if (const int e = producer_[static_cast<std::size_t>(v)]; out_.again.contains(e)) {
      for (const Atom& operand : eqn(e).inputs) use(operand, stretch);
      return;
    }
    const auto [at, is_new] = uses_.try_emplace(v);
    Use& u = at->second;
    if (is_new) {
      if (uniform(v)) out_.uniforms.push_back(v);
      else if (!computed(v)) out_.inputs.push_back(v);
      else u.first = stretch_of(producer_[static_cast<std::size_t>(v)]);
    }
    u.last = std::max(u.last, stretch);
  }
  void find_uses() {
    for (const auto& function : out_.functions) {
      for (const Segments::Stretch& stretch : function) {
        for (const int e : stretch) {
          for (const Atom& a : eqn(e).inputs) use(a, stretch_of(e));
        }
      }
    }
    for (const Var v : kernel_.roots) {
      for (const Atom& a : columns_of_root(jaxpr_, kernel_, producer_, v)) use(a, num_stretches_);
    }
  }

  // Of a number, or of each vector.
  std::int64_t bytes(Var v) const {
    const auto size = static_cast<std::int64_t>(size_of(jaxpr_.aval(v).dtype));
    if (uniform(v)) return size;
    constexpr std::int64_t kByte = 8;  // bits
    if (is_condition(v) && out_.lanes > 1) return detail::ceil_div(out_.lanes, kByte);
    return std::min(out_.lanes * size, out_.vector_bytes);
  }
  void place() {
    Tape tape(out_.vectors, out_.vector_bytes);
    const auto n = static_cast<std::size_t>(num_stretches_);
    std::vector<Vars> made(n + 1), read_last(n + 1);  // made before: in made[0]
    for (const auto& [v, u] : uses_) {
      if (u.first == u.last) continue;
      made[static_cast<std::size_t>(std::max(u.first, 0))].push_back(v);
      // Numbers are put there once, before the loop.
      if (!uniform(v)) read_last[static_cast<std::size_t>(u.last)].push_back(v);
    }
    for (std::size_t s = 0; s <= n; ++s) {
      std::sort(made[s].begin(), made[s].end());
      for (const Var v : made[s])
        out_.places[v] = uniform(v) ? tape.add_number(bytes(v)) : tape.add(bytes(v));
      for (const Var v : read_last[s]) tape.release(out_.places.at(v), bytes(v));
    }
    out_.bytes = detail::rounded_up(tape.bytes, 2 * kLine);
  }

  const Jaxpr& jaxpr_;
  const Kernel& kernel_;
  const std::vector<int>& producer_;
  std::int64_t size_;
  Segments out_;
  std::vector<int> stretch_of_;  // of equations, counted over all functions
  int num_stretches_ = 0;
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
                                           const std::vector<int>& producer, bool overlap) {
  return Cutter(jaxpr, kernel, producer).run(overlap);
}

std::int64_t num_tapes(const Segments& segments) {
  constexpr std::int64_t kMost = Step::kMaxChunks, kLeastTapes = 8, kBytes = std::int64_t{1} << 24;
  return std::clamp(kBytes / std::max<std::int64_t>(segments.bytes, 1), kLeastTapes, kMost);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
