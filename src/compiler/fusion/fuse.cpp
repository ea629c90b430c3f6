// Greedy fusion from the results backwards. An equation joins the kernels of its consumers when
// recomputing it is cheap or only one of them needs it; else it becomes a root: its result is stored,
// if possible by a kernel that computes it anyway. Kernels that share an iteration space merge.
//
//   let b = exp a, c = reduce_sum[axes=(1,)] b, d = broadcast_in_dim c, e = div b d
//   ->  kernel 1: for each row: b = exp a, stored; c += b          kernel 2: e = b / c[row]
//
// A value is recomputed by the same arithmetic wherever it is recomputed, so results do not depend on
// these decisions.
#include "compiler/fusion/fuse.hpp"

#include <algorithm>
#include <numeric>

#include "compiler/fusion/fuser.hpp"
#include "compiler/fusion/index_space.hpp"
#include "compiler/plan/segments.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// One column of an array of several.
bool reads_with_stride(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.primitive != &slice_p) return false;
  const Shape &from = jaxpr.aval(eqn.inputs[0]).shape, &to = jaxpr.aval(eqn.outputs[0]).shape;
  return to.num_elements() > 1 && to.back() == 1 && from.back() > 1;
}

}  // namespace

Fuser::Fuser(const Jaxpr& jaxpr, const PlanOptions& options, const std::set<int>& forced,
             const std::set<int>& late_updates)
    : jaxpr_(jaxpr), options_(options), forced_(forced), producer_(producers(jaxpr)) {
  const std::size_t n = jaxpr.eqns().size();
  uses_.resize(n);
  is_out_.assign(n, false);
  where_.resize(n);
  in_memory_.assign(n, false);
  for_cells_.assign(n, false);
  for (const Eqn& eqn : jaxpr.eqns()) {
    const bool parts = options.join_parts && joins_parts(jaxpr, eqn);
    forms_.push_back(parts ? Form::host : form_of(jaxpr, eqn));
  }
  for (const auto& chain : options.updates) {
    for (const Update& u : chain) {
      Form& form = forms_[static_cast<std::size_t>(u.eqn)];
      if (form != Form::region) form = Form::kernel;
    }
  }
  for (const Eqn& eqn : jaxpr.eqns()) element_costs_.push_back(element_cost(eqn));
  for (std::size_t e = 0; e < n; ++e) {
    int level = 0;
    for (const Atom& a : eqn(e).inputs) {
      if (const int p = producer(a); p >= 0)
        level = std::max(level, levels_[static_cast<std::size_t>(p)]);
    }
    levels_.push_back(level + (forms_[e] == Form::element ? 1 : 0));
  }
  for (std::size_t c = 0; c < n; ++c) {
    for (const Atom& a : eqn(c).inputs) {
      if (const int p = producer(a); p >= 0)
        uses_[static_cast<std::size_t>(p)].push_back({static_cast<int>(c), a.var()});
    }
  }
  for (const Atom& a : jaxpr.outs()) {
    if (const int p = producer(a); p >= 0) is_out_[static_cast<std::size_t>(p)] = true;
  }
  for (std::size_t e = 0; options.update_in_place && e < n; ++e) {
    if (is_better_stored_under_window(static_cast<int>(e))) forms_[e] = Form::kernel;
  }
  of_small_.assign(n, 0);
  for (std::size_t e = 0; options.fuse && options.recompute && e < n; ++e)
    of_small_[e] = cost_of_small(static_cast<int>(e));
  find_cheap();
  find_costs();
  if (options.fuse && options.update_in_place) find_small_updates(late_updates);
  if (options.fuse && options.weave_columns) find_stacked();
  barrier_uses_.resize(n);
  for (std::size_t e = 0; e < n; ++e) {
    std::copy_if(uses_[e].begin(), uses_[e].end(), std::back_inserter(barrier_uses_[e]),
                 [&](const Use& u) { return is_barrier(form(u.consumer)); });
  }
  if (options.fuse && options.both_ways) find_crossed();
}

Fusion Fuser::run() {
  int next_effect = -1;
  for (int e = static_cast<int>(jaxpr_.eqns().size()) - 1; e >= 0; --e) {
    place(e);
    if (eqn(e).effect != Effect::ordered) continue;
    if (next_effect >= 0) chain_effects(e, next_effect);
    next_effect = e;
  }
  if (options_.fuse && options_.epilogues) join_epilogues();
  for (Cluster& c : clusters_) c.kernel.can_be_cut = is_better_cut(c);
  std::vector<bool> in_place;
  for (const auto& chain : options_.updates) in_place.push_back(read_before(chain));
  std::set<int> late;
  for (const int e : small_updates_) {
    if (!read_before({{e, 0, 0}})) late.insert(e);
  }
  return {ordered(), in_memory_, std::move(in_place), std::move(late)};
}

const Shape& Fuser::shape(int e) const {
  static const Shape kNone;
  return eqn(e).outputs.empty() ? kNone : jaxpr_.aval(eqn(e).outputs[0]).shape;
}

void Fuser::find_costs() {
  costs_.clear();
  for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
    const bool strided = reads_with_stride(jaxpr_, eqn(e)) && !is_edge_of_rows(static_cast<int>(e));
    int cost = element_costs_[e] + (strided ? kStridedCost : 0);
    for (const Atom& a : eqn(e).inputs) {
      const int p = producer(a);
      if (p < 0 || !is_fusible(form(p)) || forced_.contains(p)) continue;
      if (expands(size(p), size(static_cast<int>(e)))) continue;  // hoisted, or stored
      const int c = costs_[static_cast<std::size_t>(p)];
      if (uses(p).size() == 1 || c <= cheap(p) ||
          (size(static_cast<int>(e)) == 1 && recomputable(p)))
        cost = std::min(cost + c, 1 << 20);
    }
    costs_.push_back(cost);
  }
}

bool Fuser::is_edge_of_rows(int e) const {
  constexpr std::int64_t kPart = 16;  // of a row, for each thing that is put beside others
  return !uses(e).empty() && std::all_of(uses(e).begin(), uses(e).end(), [&](const Use& u) {
    const Eqn& reader = eqn(u.consumer);
    if (reader.primitive != &concatenate_p) return false;
    const Shape& to = shape(u.consumer);
    const auto parts = static_cast<std::int64_t>(reader.inputs.size());
    return reader.params.as<ConcatenateParams>().dimension + 1 ==
               static_cast<std::int64_t>(to.size()) &&
           to.back() >= std::max(kWideRow, parts * kPart);
  });
}

Align Fuser::align_of(const Use& use, int e, int k) const {
  const Cluster& c = clusters_[static_cast<std::size_t>(k)];
  const Form f = form(use.consumer);
  if (f == Form::reduction) {
    const auto in = [&](const std::vector<int>& folded) {
      return std::find(folded.begin(), folded.end(), use.consumer) != folded.end();
    };
    return in(c.kernel.reductions) || in(c.kernel.columns) ? Align::iteration : Align::other;
  }
  if (is_woven(c, use.consumer)) return Align::iteration;
  const auto found = c.align.find(use.consumer);
  if (found == c.align.end()) return Align::other;
  if (f == Form::element && shape(e) == shape(use.consumer)) return found->second;
  if (f == Form::reshape || adds_dimensions(use.consumer)) return found->second;
  if (found->second == Align::iteration && gives_places(use, e, c.kernel.shape.num_elements()))
    return found->second;
  return Align::other;
}

// Of several look-ups, that is. Places that stay in the caches are better stored, and so are those of one look-up: while they
// are computed nothing waits for what is looked up.
bool Fuser::gives_places(const Use& use, int e, std::int64_t elements) const {
  const Eqn& reader = eqn(use.consumer);
  const auto bytes = static_cast<std::int64_t>(size_of(jaxpr_.aval(use.var).dtype));
  if (!options_.compute_places || elements < kBeyondCaches / bytes) return false;
  const bool weaves = compiler::weaves(jaxpr_, eqn(e));
  if (!weaves && (size(e) != elements || uses(e).size() < 2)) return false;
  if (reader.primitive == &gather_p)
    return size(use.consumer) == elements && reader.inputs[1] == Atom::var(use.var) &&
           !(reader.inputs[0] == reader.inputs[1]) && window_of(reader).num_elements() == 1;
  return !weaves && size(use.consumer) > elements && compiler::weaves(jaxpr_, reader);
}

// Vectors compute such places: a row that is looked up waits for no single instructions then. Of long rows it does not matter.
bool Fuser::is_place_of_rows(int e) const {
  constexpr std::int64_t kLeast = 64;  // rows
  if (size(e) < kLeast || costs_[static_cast<std::size_t>(e)] <= kLittleForPlace) return false;
  return std::any_of(uses(e).begin(), uses(e).end(), [&](const Use& use) {
    const Eqn& reader = eqn(use.consumer);
    if (reader.primitive != &gather_p || !(reader.inputs[1] == Atom::var(use.var)) ||
        window_of(reader).num_elements() == 1 || looked_up_.contains(reader.outputs[0]))
      return false;
    const Aval& out = jaxpr_.aval(reader.outputs[0]);
    return row_at_place(jaxpr_, reader) * static_cast<std::int64_t>(size_of(out.dtype)) <=
           kLongestAtPlace;
  });
}

// Rows whose columns are taken are read from memory.
bool Fuser::is_table_of_rows(int e) const {
  return std::any_of(uses(e).begin(), uses(e).end(), [&](const Use& use) {
    const Eqn& reader = eqn(use.consumer);
    return reader.primitive == &gather_p && reader.inputs[0] == Atom::var(use.var) &&
           looked_up_.contains(reader.outputs[0]);
  });
}

// Of rows of which most is taken, that is: reading a row takes as long as reading two of its numbers.
bool Fuser::is_taken_by_columns(int e, const Cluster& c) const {
  if (!looks_up_short_rows(jaxpr_, eqn(e))) return false;
  const Aval& out = jaxpr_.aval(eqn(e).outputs[0]);
  const std::int64_t row = out.shape.back();
  if (static_cast<std::size_t>(row) * size_of(out.dtype) > options_.looked_up_bytes ||
      2 * static_cast<std::int64_t>(uses(e).size()) < row)
    return false;
  return std::all_of(uses(e).begin(), uses(e).end(), [&](const Use& use) {
    const Eqn& column = eqn(use.consumer);
    if (column.primitive != &slice_p) return false;
    const auto& p = column.params.as<SliceParams>();
    const auto at = c.align.find(use.consumer);
    bool whole = p.limit_indices.back() - p.start_indices.back() == 1 && at != c.align.end() &&
                 at->second == Align::iteration;
    for (std::size_t d = 0; d + 1 < out.shape.size(); ++d)
      whole &= takes_whole_axis(p, out.shape, d);
    return whole;
  });
}

bool Fuser::adds_dimensions(int e) const {
  return eqn(e).primitive == &broadcast_in_dim_p && jaxpr_.aval(eqn(e).inputs[0]).size() == size(e);
}

bool Fuser::is_woven(const Cluster& c, int e) const {
  return !c.kernel.woven.empty() && weaves(e) && c.kernel.woven.contains(eqn(e).outputs[0]);
}

const Shape& Fuser::space(int e) const {
  return weaves(e) && eqn(e).inputs[0].is_var() ? jaxpr_.aval(eqn(e).inputs[0]).shape : shape(e);
}

std::set<int> Fuser::consumer_clusters(int e) const {
  std::set<int> all;
  for (const Use& u : uses(e)) {
    for (const int k : where_[static_cast<std::size_t>(u.consumer)]) all.insert(k);
  }
  return all;
}

void Fuser::add_feed(int from, int to) {
  cluster(from).feeds.insert(to);
  reach_.add_edge(from, to);
}

bool Fuser::may_produce(int k, const std::set<int>& readers) {
  return std::none_of(readers.begin(), readers.end(),
                      [&](int l) { return l != k && reach_.reaches(l, k); });
}

// Whether nearly all of a result is the interior that an equation puts a border around, or writes over something at a known
// place. (Few vectors stay in registers rather.)
bool Fuser::adds_border(int e) const {
  constexpr std::int64_t kPart = 8, kLeast = 512;  // of the interior, for the border; elements
  const Eqn& x = eqn(e);
  const bool is_update = x.primitive == &dynamic_update_slice_p;
  if (!is_update && x.primitive != &pad_p) return false;
  const std::int64_t inner = jaxpr_.aval(x.inputs[is_update ? 1 : 0]).size();
  if (inner < kLeast || size(e) - inner > inner / kPart) return false;
  if (is_update)
    return std::all_of(x.inputs.begin() + 2, x.inputs.end(),
                       [](const Atom& begin) { return begin.is_literal(); });
  const auto& config = x.params.as<PadParams>().padding_config;
  return std::none_of(config.begin(), config.end(), [](const auto& c) { return c[2] > 0; });
}

// Whether an equation puts parts together that the kernel goes through one after the other, in the loops around the lanes. What
// large ones are made of is better stored while it is in a cache (lattice Boltzmann on 256 x 256: 0.84 of the time).
bool Fuser::is_put_together(int e, int k) const {
  const Cluster& c = clusters_[static_cast<std::size_t>(k)];
  if (eqn(e).primitive != &concatenate_p || c.form != Form::element ||
      !(c.kernel.shape == shape(e)))
    return false;
  const auto bytes = static_cast<std::int64_t>(size_of(jaxpr_.aval(eqn(e).outputs[0]).dtype));
  if (size(e) > kBeyondCaches / bytes) return false;
  // What all parts have is emitted for each of them.
  const auto everywhere = std::count_if(c.kernel.members.begin(), c.kernel.members.end(),
                                        [&](int m) { return shape(m) == c.kernel.shape; });
  if (c.kernel.members.size() + eqn(e).inputs.size() * static_cast<std::size_t>(everywhere) >
      kMaxMembers)
    return false;
  const auto found = c.align.find(e);
  return found != c.align.end() && found->second == Align::iteration &&
         eqn(e).params.as<ConcatenateParams>().dimension <
             static_cast<std::int64_t>(inner_dim(shape(e)));
}

// All that read the equation that is being placed are asked about, each once or a few times.
Fuser::Usage Fuser::usage(int e, int k) {
  if (used_ != e) {
    usages_.clear();
    used_ = e;
    for (const Use& use : uses(e)) {
      for (const int at : where_[static_cast<std::size_t>(use.consumer)]) {
        Usage& u = usages_[at];
        const Align a = align_of(use, e, at);
        if (a == Align::other) {
          ++u.other;
          u.expanding |= size(use.consumer) > size(e) && !adds_border(use.consumer) &&
                         !is_put_together(use.consumer, at);
        } else {
          u.mixed |= u.aligned > 0 && u.align != a;
          ++u.aligned;
          u.align = a;
        }
      }
    }
  }
  const auto found = usages_.find(k);
  return found == usages_.end() ? Usage{} : found->second;
}

void Fuser::find_cheap() {
  for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
    const bool tiny =
        size(e) <= kTiny && std::all_of(uses(e).begin(), uses(e).end(),
                                        [&](const Use& u) { return size(u.consumer) <= kTiny; });
    cheap_.push_back(tiny ? kCheapTiny : kCheap);
  }
}

int Fuser::cost_of_small(int e) const {
  if (!is_fusible(form(e)) || eqn(e).outputs.size() != 1 || eqn(e).effect != Effect::none) return 0;
  const Aval& out = jaxpr_.aval(eqn(e).outputs[0]);
  const std::int64_t n = out.size();
  if (n * static_cast<std::int64_t>(size_of(out.dtype)) < kBeyondCaches ||
      out.shape.back() < kWideRow)
    return 0;
  std::set<int> seen = {e};
  std::vector<int> todo = {e};
  int cost = 0;
  while (!todo.empty()) {
    const int at = todo.back();
    todo.pop_back();
    cost += element_costs_[static_cast<std::size_t>(at)];
    if (cost > kCheapOfSmall) return 0;
    for (const Atom& a : eqn(at).inputs) {
      if (!a.is_var() || expands(jaxpr_.aval(a).size(), n)) continue;
      const int p = producer(a);
      if (p < 0 || !is_fusible(form(p)) || forced_.contains(p)) return 0;
      if (seen.insert(p).second) todo.push_back(p);
    }
  }
  return std::max(cost, 1);
}

bool Fuser::recomputable(int e) const {
  if (of_small_[static_cast<std::size_t>(e)] > 0) return true;
  const int cost = costs_[static_cast<std::size_t>(e)];
  return cost <= cheap(e) || (size(e) == 1 && cost <= kCheapSingle);
}

bool Fuser::can_inline(int e, int k) {
  if (!has_room(cluster(k), e)) return false;
  if (recomputable(e) || size(e) == 1) return true;
  const Usage u = usage(e, k);
  return !u.mixed && !u.expanding && (u.aligned > 0 ? 1 : 0) + u.other <= 1;
}

bool Fuser::is_named_anew(int e) const {
  return std::all_of(uses(e).begin(), uses(e).end(), [&](const Use& u) {
    return form(u.consumer) == Form::reshape && in_memory_[static_cast<std::size_t>(u.consumer)];
  });
}

// Where others take it up element by element, each lane chooses its column. With as few lanes as vectors have of 8 bytes, that
// is less work than a pass over memory, if each vector of a row chooses as the same one of other rows does. Of places of single
// elements that are looked up each column is asked for alone.
bool Fuser::is_better_woven(int e) const {
  constexpr std::size_t kFew = 2, kWide = 4;  // columns; bytes
  const Aval& out = jaxpr_.aval(eqn(e).outputs[0]);
  if (stacked_.contains(e)) return true;
  if (eqn(e).inputs.size() <= kFew) return false;
  const auto asks_for_columns = [&](const Use& u) {
    const Eqn& reader = eqn(u.consumer);
    return reader.primitive == &gather_p && producer(reader.inputs[1]) == e &&
           form(u.consumer) == Form::index && window_of(reader).num_elements() == 1;
  };
  return std::any_of(uses(e).begin(), uses(e).end(), [&](const Use& u) {
    if (asks_for_columns(u)) return false;
    return size_of(out.dtype) <= kWide || form(u.consumer) != Form::element ||
           shape(u.consumer) != out.shape;
  });
}

void Fuser::find_stacked() {
  constexpr std::int64_t kLeast = 256;  // elements of a part
  constexpr std::size_t kMost = 16;     // parts
  for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
    const Eqn& x = jaxpr_.eqns()[e];
    if (x.primitive == &concatenate_p && form(static_cast<int>(e)) == Form::index &&
        x.inputs.size() >= 2 && x.inputs.size() <= kMost && stacks(jaxpr_, x) &&
        jaxpr_.aval(x.inputs[0]).size() >= kLeast && have_much_in_common(x.inputs))
      stacked_.insert(static_cast<int>(e));
  }
}

// By themselves they would compute that again each, or read it from memory.
bool Fuser::have_much_in_common(const Atoms& parts) const {
  constexpr std::size_t kMostLooked = 300;  // equations of a part
  std::map<int, std::size_t> first;  // by equation: the part that was the first to ask for it
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::set<int> seen;
    std::vector<int> todo{producer(parts[i])};
    while (!todo.empty()) {
      const int e = todo.back();
      todo.pop_back();
      const bool computes = e >= 0 && (form(e) == Form::element || form(e) == Form::reshape) &&
                            size(e) == jaxpr_.aval(parts[i]).size() && !forced_.contains(e);
      if (!computes || seen.size() >= kMostLooked || !seen.insert(e).second) continue;
      if (first.try_emplace(e, i).first->second != i && !recomputable(e)) return true;
      for (const Atom& a : eqn(e).inputs) todo.push_back(producer(a));
    }
  }
  return false;
}

// Lanes from a place on that nobody knows lie in different parts: each would look for its own, and load it alone.
bool Fuser::is_cut_anywhere(int e) const {
  constexpr std::int64_t kFewLanes = 16, kMuchMore = 4;
  if ((eqn(e).primitive != &concatenate_p && eqn(e).primitive != &pad_p) || size(e) == 0)
    return false;
  const std::size_t lanes = shape(e).size() - 1;
  if (jaxpr_.aval(eqn(e).inputs[0]).shape[lanes] == shape(e)[lanes]) return false;
  return std::any_of(uses(e).begin(), uses(e).end(), [&](const Use& u) {
    const Eqn& reader = eqn(u.consumer);
    if (!reads_window(reader) || producer(reader.inputs[0]) != e) return false;
    return begins_anywhere(reader, lanes) && window_of(reader)[lanes] >= kFewLanes &&
           size(e) / kMuchMore <= size(u.consumer);
  });
}

bool Fuser::repeats(const Use& use, int e) const {
  // What is read across its rows costs as much as arithmetic.
  const bool has_rows = !shape(e).empty() && shape(e).back() > 1;
  const bool moves = eqn(e).primitive == &transpose_p && has_rows;
  const int cost = costs_[static_cast<std::size_t>(e)];
  if ((cost < 2 && !moves) || eqn(use.consumer).primitive != &broadcast_in_dim_p) return false;
  const std::int64_t to = size(use.consumer), times = to / std::max<std::int64_t>(size(e), 1);
  const Shape& dims = eqn(use.consumer).params.as<BroadcastInDimParams>().broadcast_dimensions;
  // A division is worth a row of results earlier than a product is.
  const bool often =
      times >= kExpansion || (times >= kExpansion / 2 && times * cost >= 2 * kExpansion);
  return to >= kLarge && often && has_rows &&
         dims.back() + 1 == static_cast<std::int64_t>(shape(use.consumer).size());
}

bool Fuser::has_room(const Cluster& c, int e) const {
  if (c.kernel.members.size() < kMaxMembers || is_wide(c)) return true;
  if (!is_cut(c) || (!is_plain(c) && !pays_for_cuts(c))) return trivial(e);
  switch (part_of(e, c)) {
    case Part::of_function:
      return size(e) == c.kernel.shape.num_elements() || c.numbers < kMaxMembers;
    case Part::read: return pays_for_cuts(c) && c.kernel.reads.size() < kMaxMembers;
    default: return false;
  }
}

Fuser::Part Fuser::part_of(int e, const Cluster& c) const {
  const Shape& space = c.kernel.shape;
  const auto is_among = [&](const std::set<int>& all) {
    return std::any_of(uses(e).begin(), uses(e).end(),
                       [&](const Use& u) { return all.contains(u.consumer); });
  };
  // Of several long dimensions the flat index does not say what is to be read, unless what reads it does.
  const auto is_row = [](const Shape& s) {
    return std::count_if(s.begin(), s.end(), [](std::int64_t size) { return size > 1; }) <= 1;
  };
  const bool of_row = is_row(space) && space.num_elements() > 1;
  if (is_woven(c, e)) return of_row && !is_among(c.kernel.members) ? Part::of_function : Part::none;
  const bool read_on = is_among(c.kernel.reads);
  if (!read_on && can_cut(jaxpr_, eqn(e), form(e), space)) return Part::of_function;
  const bool moves = form(e) == Form::index || form(e) == Form::reshape;
  const bool found =
      is_row(shape(e)) || std::all_of(uses(e).begin(), uses(e).end(), [&](const Use& u) {
        return !c.kernel.members.contains(u.consumer) || c.kernel.reads.contains(u.consumer);
      });
  return of_row && moves && found && eqn(e).effect == Effect::none ? Part::read : Part::none;
}

void Fuser::insert(int e, Cluster& c) {
  const int level = levels_[static_cast<std::size_t>(e)];
  c.lowest = c.kernel.members.empty() ? level : std::min(c.lowest, level);
  c.highest = c.kernel.members.empty() ? level : std::max(c.highest, level);
  c.outgrew |= c.kernel.members.size() >= kMaxMembers && !is_wide(c) && pays_for_cuts(c);
  if (!c.kernel.members.insert(e).second) return;
  if (element_costs_[static_cast<std::size_t>(e)] >= kCallCost) ++c.calls;
  switch (part_of(e, c)) {
    case Part::of_function: c.numbers += size(e) == 1 && c.kernel.shape.num_elements() > 1; break;
    case Part::read: c.kernel.reads.insert(e); break;
    default: ++c.uncut;
  }
}

void Fuser::add_member(int e, int k) {
  Cluster& c = cluster(k);
  const Usage u = usage(e, k);
  insert(e, c);
  c.align[e] = u.mixed || u.other > 0 ? Align::other : u.align;
  if (c.form == Form::region) has_cells_ = for_cells_[static_cast<std::size_t>(e)] = true;
  where_[static_cast<std::size_t>(e)].push_back(k);
}

int Fuser::new_cluster(int e, Form f) {
  Cluster c;
  c.form = f;
  c.position = e;
  if (!eqn(e).outputs.empty()) c.kernel.shape = space(e);
  // All that are open are asked about each value that is to be stored: the newest will do.
  constexpr std::size_t kMostOpen = 256;
  if (!is_full(c)) open_.push_back(static_cast<int>(clusters_.size()));
  if (open_.size() > kMostOpen) open_.erase(open_.begin());
  clusters_.push_back(std::move(c));
  reach_.add_node();
  return static_cast<int>(clusters_.size()) - 1;
}

void Fuser::store(int e, int k) {
  in_memory_[static_cast<std::size_t>(e)] = true;
  for (const int l : consumer_clusters(e)) {
    if (l != k) add_feed(k, l);
  }
}

void Fuser::place(int e) {
  used_ = -1;
  if (uses(e).empty() && !is_out_[static_cast<std::size_t>(e)] && eqn(e).effect == Effect::none)
    return;
  if (is_barrier(form(e))) {
    const int k = new_cluster(e, form(e));
    cluster(k).kernel.eqn = e;
    where_[static_cast<std::size_t>(e)].push_back(k);
    store(e, k);
  } else if (form(e) == Form::reduction) {
    place_reduction(e);
  } else {
    place_element(e);
  }
}

void Fuser::place_element(int e) {
  bool needs_memory = is_out_[static_cast<std::size_t>(e)] || forced_.contains(e) ||
                      eqn(e).effect != Effect::none || !options_.fuse || is_read_from_memory(e);
  for (const Use& u : uses(e)) needs_memory |= repeats(u, e);
  needs_memory |= weaves(e) && (is_named_anew(e) || is_better_woven(e));
  needs_memory |= is_cut_anywhere(e) || is_place_of_rows(e) || is_table_of_rows(e);
  const std::set<int> readers = consumer_clusters(e);
  if (!needs_memory && readers.size() == 1 && has_room(cluster(*readers.begin()), e) &&
      is_taken_by_columns(e, cluster(*readers.begin()))) {
    add_member(e, *readers.begin());
    cluster(*readers.begin()).kernel.looked_up.insert(eqn(e).outputs[0]);
    looked_up_.insert(eqn(e).outputs[0]);
    return;
  }
  if (!needs_memory) {
    int& of_small = of_small_[static_cast<std::size_t>(e)];
    if (of_small * (static_cast<int>(readers.size()) - 1) > kCheapOfSmallInAll) of_small = 0;
    bool everywhere = readers.size() == 1 || (recomputable(e) && !is_at_hand(e, readers));
    for (const int k : readers) everywhere = everywhere && can_inline(e, k);
    if (everywhere) {
      for (const int k : readers) add_member(e, k);
      return;
    }
  }
  make_root(e, readers);
}

bool Fuser::reads_as_number(const Use& use, int e) {
  if (!options_.fuse || !options_.cells || form(use.consumer) != Form::region ||
      eqn(e).primitive != &broadcast_in_dim_p || !jaxpr_.aval(eqn(e).inputs[0]).shape.empty())
    return false;
  const auto [found, is_new] = cellular_.try_emplace(use.consumer, false);
  if (is_new) found->second = worthwhile_cell_loop(jaxpr_, eqn(use.consumer)).has_value();
  return found->second;
}

bool Fuser::is_at_hand(int e, const std::set<int>& readers) {
  if (size(e) == 1 || costs_[static_cast<std::size_t>(e)] <= kCheap ||
      of_small_[static_cast<std::size_t>(e)] > 0)
    return false;
  return std::all_of(readers.begin(), readers.end(),
                     [&](int k) {
                       const Usage u = usage(e, k);
                       return u.aligned > 0 && u.other == 0 && !u.mixed;
                     }) &&
         std::any_of(readers.begin(), readers.end(),
                     [&](int k) { return may_root(k, e, readers); });
}

void Fuser::make_root(int e, const std::set<int>& readers) {
  int best = -1;
  const bool alone = options_.alone.contains(e);
  if (options_.fuse && !alone) {
    // A kernel that needs the value at its own index anyway ...
    for (const int k : readers) {
      if (may_root(k, e, readers)) best = k;
    }
    // ... or any other over the same space, the newest first.
    std::erase_if(open_, [&](int k) { return is_full(cluster(k)); });
    for (auto k = open_.rbegin(); best < 0 && k != open_.rend(); ++k) {
      if (!readers.contains(*k) && may_root(*k, e, readers) && !piles_up(*k, e, readers)) best = *k;
    }
  }
  if (best < 0) best = new_cluster(e, Form::element);
  if (alone) std::erase(open_, best);
  Cluster& c = cluster(best);
  const Usage u = usage(e, best);
  const Align align = u.align == Align::reduced ? Align::reduced : Align::iteration;
  auto& roots = align == Align::reduced ? c.kernel.epilogue : c.kernel.roots;
  for (const Var v : eqn(e).outputs) roots.push_back(v);
  if (!(space(e) == shape(e))) c.kernel.woven.insert(eqn(e).outputs[0]);
  insert(e, c);
  // What is computed at other indices, too, asks that of its operands.
  c.align[e] = u.other > 0 ? Align::other : align;
  c.position = std::max(c.position, e);
  where_[static_cast<std::size_t>(e)].push_back(best);
  store(e, best);
}

std::size_t Fuser::columns_of(const Cluster& c) const {
  return std::accumulate(c.kernel.woven.begin(), c.kernel.woven.end(), std::size_t{0},
                         [&](std::size_t n, Var v) {
                           const int p = producer_[static_cast<std::size_t>(v)];
                           return n + eqn(p).inputs.size();
                         });
}

bool Fuser::is_full(const Cluster& c) const {
  if (c.form != Form::element && c.form != Form::reduction) return true;
  const std::size_t roots = c.kernel.roots.size() + c.kernel.epilogue.size();
  return roots >= kMaxRootsSmall ||
         (c.kernel.members.size() >= kMaxMembers && !is_cut(c) && !is_wide(c));
}

bool Fuser::may_root(int k, int e, const std::set<int>& readers) {
  Cluster& c = cluster(k);
  // First what is soon seen: all kernels that are still open are asked.
  if (is_full(c) || (c.form == Form::element && !(c.kernel.shape == space(e))) || !has_room(c, e))
    return false;
  const Usage u = usage(e, k);
  if (u.mixed || (u.other > 0 && !recomputable(e))) return false;
  if (u.other > 0 && u.aligned > 0) return false;
  if (c.form == Form::reduction) {
    const bool fits = u.align == Align::reduced
                          ? reduced_shape(c.kernel) == shape(e)
                          : u.align == Align::iteration && c.kernel.shape == shape(e);
    if (!fits || weaves(e)) return false;
  }
  if (weaves(e) && !c.kernel.woven.empty() &&
      columns_of(c) + eqn(e).inputs.size() > kMostWovenTogether)
    return false;
  const std::size_t roots = c.kernel.roots.size() + c.kernel.epilogue.size();
  if (size(e) > kSmallSpace && roots >= kMaxRoots) return false;
  if (roots >= kMaxRootsLarge && is_large(jaxpr_.aval(eqn(e).outputs[0]))) return false;
  return may_produce(k, readers);
}

bool Fuser::is_read_by(int e, const std::set<int>& clusters) const {
  return std::any_of(uses(e).begin(), uses(e).end(), [&](const Use& u) {
    const std::vector<int>& at = where_[static_cast<std::size_t>(u.consumer)];
    return std::any_of(at.begin(), at.end(), [&](int k) { return clusters.contains(k); });
  });
}

bool Fuser::is_column_beside(int e, int other) const {
  const auto column = [&](int at) {
    while (form(at) == Form::reshape && producer(eqn(at).inputs[0]) >= 0)
      at = producer(eqn(at).inputs[0]);
    return reads_with_stride(jaxpr_, eqn(at)) ? eqn(at).inputs[0].var() : -1;
  };
  const Var of = column(e);
  return of >= 0 && of == column(other);
}

bool Fuser::piles_up(int k, int e, const std::set<int>& readers) {
  if (eqn(e).outputs.empty() || !is_much(e)) return false;
  const bool large = detail::checked_bytes(jaxpr_.aval(eqn(e).outputs[0])) >= kLargePile;
  const Vars& roots = cluster(k).kernel.roots;
  return std::count_if(roots.begin(), roots.end(), [&](Var v) {
           const int p = producer_[static_cast<std::size_t>(v)];
           // Smaller ones that one kernel reads together are alive at one time anyway.
           if (is_out_[static_cast<std::size_t>(p)] || is_column_beside(e, p)) return false;
           return large || !is_read_by(p, readers);
         }) >= kMostPiled;
}

// Of a kernel that is too large to transpose in registers what it transposes, or that of which its result is a transpose,
// becomes a kernel of its own: single elements would be read across the rows of the operand.
static void store_transposed(const Jaxpr& jaxpr, const std::vector<int>& producer, const Cluster& c,
                             std::set<int>& alone) {
  const Shape& shape = c.kernel.shape;
  if (c.form != Form::element || c.kernel.linear || c.kernel.members.size() <= kMostTransposed ||
      shape.num_elements() < kLeastTransposed)
    return;
  const std::size_t inner = inner_dim(shape);
  for (const int e : c.kernel.members) {
    const Eqn& eqn = jaxpr.eqns()[static_cast<std::size_t>(e)];
    if (eqn.primitive != &transpose_p || jaxpr.aval(eqn.outputs[0]).shape != shape) continue;
    const std::size_t d = contiguous_dim(jaxpr, eqn);
    if (d == inner || std::min(shape[d], shape[inner]) < kLeastSide) continue;
    const int p = producer[static_cast<std::size_t>(eqn.inputs[0].var())];
    if (!alone.contains(e)) alone.insert(e);
    else if (c.kernel.members.contains(p)) alone.insert(p);
  }
}

Fusion fuse(const Jaxpr& jaxpr, const PlanOptions& given) {
  const std::vector<int> producer = producers(jaxpr);
  constexpr int kTurns = 4;  // no plan of 1,700 programs is another one for it
  PlanOptions options = given;
  std::set<int> forced, late_updates;
  const auto placed = [&] {
    std::set<int> stored = forced;
    stored.insert(options.alone.begin(), options.alone.end());
    for (;;) {
      Fusion fusion = Fuser(jaxpr, options, stored, late_updates).run();
      if (fusion.late_updates.empty()) return fusion;
      late_updates.merge(fusion.late_updates);
    }
  };
  for (int turn = 1;; ++turn) {
    Fusion fusion = placed();
    const std::size_t before = forced.size() + options.alone.size();
    for (Cluster& c : fusion.clusters) {
      if (!is_barrier(c.form) || c.kernel.goes_on())
        index_kernel(jaxpr, c.kernel, producer, forced);
      if (options.fuse) store_transposed(jaxpr, producer, c, options.alone);
    }
    if (forced.size() + options.alone.size() == before) return fusion;
    // Where a value is stored, those before it may join other kernels, and have to be stored there: of long chains one
    // after the other, in as many turns. Then all such values of the program are, though some might do without.
    if (turn == kTurns) store_before_reshapes(jaxpr, producer, forced);
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
