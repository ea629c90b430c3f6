// The last axes of arrays in which nobody tells them apart become one.
//
//   let t:f32[298,300,3] = slice[(2,0,0):(300,300,3)] x, u = slice[(0,0,0):(298,300,3)] x, d = sub t u
//   ->  let y:f32[300,900] = reshape x, t = slice[(2,0):(300,900)] y, u = slice[...] y, d = sub t u
//
// Colours of an image, coordinates of points, channels: what moves whole rows of them leaves short rows, along
// which lanes run badly. Elementwise arithmetic by itself has no rows (Kernel::linear). Where a slice or a window that
// is looked up begins along the axis before them is a number of the program, which is multiplied.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "compiler/disjoint_sets.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/plan/cells.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kLongest = 32;  // rows of more are several vectors
constexpr std::int64_t kLeast = 64;    // of what they become: those of small matrices stay short
constexpr std::size_t kMostAxes = 4;   // pictures of small matrices have as many
constexpr std::size_t kMostEquations = 20'000;

/// What an equation does with the axes of what it makes or reads.
enum class Role : std::uint8_t {
  apart,    ///< it tells them apart
  whole,    ///< its operands and results lie in memory, where one shape is as good as another
  element,  ///< it leaves them as they are
  moves,    ///< it moves whole rows, or makes the array of a smaller one
  made,     ///< it makes an array in which all numbers along them are the same
  folds,    ///< it folds all of them
};

/// The last `count` axes of arrays: those of a row, and the one before.
class LastAxes {
 public:
  LastAxes(const Jaxpr& jaxpr, std::size_t count)
      : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)), count_(count) {}

  /// The first of them.
  std::size_t first(const Shape& shape) const { return shape.size() - count_; }
  std::int64_t row(const Shape& shape) const {
    std::int64_t n = 1;
    for (std::size_t d = first(shape) + 1; d < shape.size(); ++d) n *= shape[d];
    return n;
  }
  bool are_of(const Aval& a) const {
    return a.shape.size() >= count_ && a.size() > 0 && row(a.shape) > 1 && row(a.shape) < kLongest;
  }
  bool are_of(const Atom& a) const { return a.is_var() && are_of(jaxpr_.aval(a)); }
  bool are_long(const Aval& a) const { return row(a.shape) * a.shape[first(a.shape)] >= kLeast; }
  /// Of sizes, or of where a part begins and ends.
  Shape merged(Shape numbers, std::int64_t row) const {
    shorten(numbers);
    numbers[numbers.size() - 1] *= row;
    return numbers;
  }
  Aval merged(const Aval& a) const { return a.with_shape(merged(a.shape, row(a.shape))); }
  /// Leaves out what is said of the axes of a row.
  template <class T>
  void shorten(T& of_axes) const {
    for (std::size_t d = 1; d < count_; ++d) of_axes.pop_back();
  }

  /// The equation that makes a variable, or -1.
  int producer(Var v) const { return producer_[static_cast<std::size_t>(v)]; }
  /// How many numbers of the index vectors of a gather come before those about axes of a row.
  std::size_t components(const Eqn& gather) const {
    const Shape& map = gather.params.as<GatherParams>().dimension_numbers.start_index_map;
    const auto at = static_cast<std::int64_t>(first(jaxpr_.aval(gather.inputs[0]).shape));
    const auto of_row = [&](std::int64_t axis) { return axis > at; };
    return static_cast<std::size_t>(std::find_if(map.begin(), map.end(), of_row) - map.begin());
  }
  /// The operands that have the axes of the result: places are looked up in others.
  static std::span<const Atom> moved(const Eqn& eqn) {
    const std::span<const Atom> all = eqn.inputs;
    return eqn.primitive == &gather_p ? all.first(1) : all;
  }

  Role role_of(const Eqn& eqn) const {
    const Form form = form_of(jaxpr_, eqn);
    if (is_barrier(form) || eqn.outputs.size() != 1 || eqn.effect != Effect::none)
      return Role::whole;
    if (form == Form::reshape) return keeps_rows(eqn) ? Role::element : Role::whole;
    if (form == Form::reduction) return role_of_fold(eqn);
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    if (!are_of(out) || (eqn.inputs.empty() && eqn.primitive != &iota_p)) return Role::apart;
    if (form == Form::element) return Role::element;
    if (eqn.primitive == &iota_p || eqn.primitive == &broadcast_in_dim_p) {
      if (repeats_along_all(eqn)) return Role::made;
      if (eqn.primitive == &iota_p) return Role::apart;
    }
    const auto moved = [&](const Atom& a) { return are_of(a); };
    const bool all = eqn.primitive == &concatenate_p
                         ? std::all_of(eqn.inputs.begin(), eqn.inputs.end(), moved)
                         : moved(eqn.inputs[0]);
    return all && moves_whole_rows(eqn) ? Role::moves : Role::apart;
  }

 private:
  // Of a reshape: it has the axes of its operand's rows.
  bool keeps_rows(const Eqn& eqn) const {
    const Aval& to = jaxpr_.aval(eqn.outputs[0]);
    if (!are_of(to) || !are_of(eqn.inputs[0])) return false;
    const Shape& from = jaxpr_.aval(eqn.inputs[0]).shape;
    return std::equal(from.end() - static_cast<std::ptrdiff_t>(count_ - 1), from.end(),
                      to.shape.end() - static_cast<std::ptrdiff_t>(count_ - 1));
  }

  Role role_of_fold(const Eqn& eqn) const {
    if (!are_of(eqn.inputs[0])) return Role::apart;
    const Shape& shape = jaxpr_.aval(eqn.inputs[0]).shape;
    std::size_t folded = 0;
    for (const std::int64_t d : reduction_axes(eqn))
      folded += static_cast<std::size_t>(d) >= first(shape) ? 1 : 0;
    if (folded == 0) return Role::element;
    return folded == count_ && eqn.params.holds<AxesParams>() ? Role::folds : Role::apart;
  }

  // Of a broadcast: whether it repeats numbers along all axes; of an iota: whether it counts along another.
  bool repeats_along_all(const Eqn& eqn) const {
    const auto at = static_cast<std::int64_t>(first(jaxpr_.aval(eqn.outputs[0]).shape));
    if (eqn.primitive == &iota_p) return eqn.params.as<IotaParams>().dimension < at;
    const Shape& dims = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
    return dims.empty() || dims.back() < at;
  }

  bool moves_whole_rows(const Eqn& eqn) const {
    const PrimitiveBase* p = eqn.primitive;
    const Shape& to = jaxpr_.aval(eqn.outputs[0]).shape;
    const auto at = static_cast<std::int64_t>(first(to));
    if (p == &concatenate_p) return eqn.params.as<ConcatenateParams>().dimension <= at;
    const Shape& from = jaxpr_.aval(eqn.inputs[0]).shape;
    // Of each axis of a row, counted from the end.
    const auto all_of_row = [&](const auto& is_whole) {
      for (std::size_t back = 1; back < count_; ++back) {
        if (!is_whole(from.size() - back, to.size() - back)) return false;
      }
      return true;
    };
    if (p == &slice_p) {
      const auto& s = eqn.params.as<SliceParams>();
      return stride_of(s, first(from)) == 1 && all_of_row([&](std::size_t i, std::size_t o) {
               return to[o] == from[i] && stride_of(s, i) == 1;
             });
    }
    if (reads_window(eqn) && is_joined(eqn.inputs[0])) return false;
    if (p == &dynamic_slice_p) {
      return (to[first(to)] == from[first(from)] ||
              can_be_scaled(eqn.inputs[1 + first(from)], from)) &&
             all_of_row([&](std::size_t i, std::size_t o) { return to[o] == from[i]; });
    }
    if (p == &gather_p) {
      return gathers_rows(eqn) &&
             all_of_row([&](std::size_t i, std::size_t o) { return to[o] == from[i]; });
    }
    if (p == &pad_p) {
      const auto& padding = eqn.params.as<PadParams>().padding_config;
      return padding[first(from)][2] == 0 &&
             all_of_row([&](std::size_t i, std::size_t) { return pads_nothing(padding[i]); });
    }
    const auto in_place = [&](const Shape& axes) {
      return axes.size() >= count_ && axes[axes.size() - count_] == at &&
             all_of_row([&](std::size_t, std::size_t o) {
               return axes[axes.size() - (to.size() - o)] == static_cast<std::int64_t>(o);
             });
    };
    if (p == &rev_p) {
      const Shape& dims = eqn.params.as<DimensionsParams>().dimensions;
      return std::all_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d < at; });
    }
    if (p == &transpose_p) return in_place(eqn.params.as<TransposeParams>().permutation);
    if (p == &broadcast_in_dim_p) {
      return in_place(eqn.params.as<BroadcastInDimParams>().broadcast_dimensions) &&
             from[first(from)] == to[first(to)] &&
             all_of_row([&](std::size_t i, std::size_t o) { return to[o] == from[i]; });
    }
    return false;
  }

  // Whether the axes of a window's rows are the last ones of the result. Numbers of index vectors that are about axes of a
  // row must be the last ones: they are left out, as a whole row begins at 0 whatever they say, unless they drop windows.
  bool gathers_rows(const Eqn& eqn) const {
    const auto& g = eqn.params.as<GatherParams>();
    const GatherDimensionNumbers& d = g.dimension_numbers;
    const Shape& from = jaxpr_.aval(eqn.inputs[0]).shape;
    const auto at = static_cast<std::int64_t>(first(from));
    if (d.offset_dims.size() < count_) return false;
    const auto is_window = [&](std::int64_t axis) {
      return !d.collapsed_slice_dims.contains(axis) && !d.operand_batching_dims.contains(axis);
    };
    const std::int64_t behind =
        jaxpr_.aval(eqn.outputs[0]).ndim() - jaxpr_.aval(eqn.inputs[0]).ndim();
    for (std::int64_t axis = at, k = 0; axis < static_cast<std::int64_t>(from.size());
         ++axis, ++k) {
      if (!is_window(axis) ||
          d.offset_dims[d.offset_dims.size() - count_ + static_cast<std::size_t>(k)] !=
              axis + behind)
        return false;
    }
    const std::size_t told = components(eqn);
    const bool ends =
        std::all_of(d.start_index_map.begin() + static_cast<std::ptrdiff_t>(told),
                    d.start_index_map.end(), [&](std::int64_t axis) { return axis > at; });
    return ends &&
           (told == d.start_index_map.size() || g.mode != GatherScatterMode::fill_or_drop) &&
           (!d.start_index_map.contains(at) || can_be_scaled(eqn.inputs[1], from));
  }

  // Of parts, in which vectors lie within a row each: merged rows would be stored before they are read.
  bool is_joined(const Atom& x) const {
    constexpr std::int64_t kVector = 32;  // bytes
    const int e = producer(x.var());
    if (e < 0) return false;
    const PrimitiveBase* p = jaxpr_.eqns()[static_cast<std::size_t>(e)].primitive;
    const Aval& aval = jaxpr_.aval(x);
    return (p == &concatenate_p || p == &pad_p) &&
           row(aval.shape) * static_cast<std::int64_t>(size_of(aval.dtype)) >= kVector;
  }

  // Whether numbers of this type count the elements of that many rows, too.
  bool can_be_scaled(const Atom& start, const Shape& shape) const {
    const std::size_t bytes = size_of(jaxpr_.aval(start).dtype);
    return bytes == 8 || (bytes == 4 && row(shape) <= INT32_MAX / shape[first(shape)]);
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producer_;
  const std::size_t count_;
};

/// Which variables' axes are merged: sets of those that equations connect.
class Choice {
 public:
  Choice(const Jaxpr& jaxpr, const LastAxes& axes)
      : jaxpr_(jaxpr),
        axes_(axes),
        sets_(static_cast<std::size_t>(jaxpr.num_vars())),
        moved_(static_cast<std::size_t>(jaxpr.num_vars()), false),
        apart_(moved_),
        long_(moved_) {
    for (const Eqn& eqn : jaxpr.eqns()) roles_.push_back(axes.role_of(eqn));
    join(false);
    for (std::size_t e = 0; e < roles_.size(); ++e) {
      const Eqn& eqn = jaxpr.eqns()[e];
      if (roles_[e] != Role::apart) continue;
      for (const Var v : eqn.outputs) apart_[set_of(v)] = true;
      for (const Atom& a : eqn.inputs) {
        if (a.is_var() && !is_table_of_rows(eqn, a)) apart_[set_of(a.var())] = true;
      }
    }
    join(true);
    for (Var v = 0; v < jaxpr_.num_vars(); ++v) {
      if (axes.are_of(jaxpr.aval(v)) && axes.are_long(jaxpr.aval(v))) long_[set_of(v)] = true;
    }
    for (std::size_t e = 0; e < roles_.size(); ++e) {
      if (roles_[e] == Role::moves) moved_[set_of(jaxpr.eqns()[e].outputs[0])] = true;
    }
  }

  Role role(std::size_t e) const { return roles_[e]; }
  /// Whether an equation is another one with merged axes.
  bool changes(std::size_t e) {
    const Eqn& eqn = jaxpr_.eqns()[e];
    if (roles_[e] == Role::whole || roles_[e] == Role::apart) return false;
    const bool by_operand = roles_[e] == Role::folds || eqn.primitive == &slice_p;
    return merges(by_operand ? eqn.inputs[0].var() : eqn.outputs[0]);
  }

 private:
  // What is cut from a side of something, and put to it, is copied anyway: it may have the axes that it needs. So may
  // what a reshape is of, unless it is made by an equation that tells its axes apart and is no kernel of its own else.
  bool is_loose(const Eqn& eqn, const Atom& a) const {
    constexpr std::int64_t kSmall = 8;
    const auto size = [&](const Atom& x) { return jaxpr_.aval(x).size(); };
    std::int64_t largest = size(a);
    for (const Atom& x : axes_.moved(eqn)) largest = std::max(largest, size(x));
    return (eqn.primitive == &reshape_p && !is_made_apart(a)) ||
           (eqn.primitive == &slice_p && jaxpr_.aval(eqn.outputs[0]).size() <= size(a) / kSmall) ||
           (eqn.primitive == &concatenate_p && size(a) <= largest / kSmall);
  }
  // What is looked up in what was looked up by whole rows reads that from memory.
  bool is_table_of_rows(const Eqn& eqn, const Atom& a) const {
    const int e = axes_.producer(a.var());
    return eqn.primitive == &gather_p && a == eqn.inputs[0] && e >= 0 &&
           jaxpr_.eqns()[static_cast<std::size_t>(e)].primitive == &gather_p &&
           roles_[static_cast<std::size_t>(e)] == Role::moves;
  }
  bool is_made_apart(const Atom& a) const {
    const int e = a.is_var() ? axes_.producer(a.var()) : -1;
    return e >= 0 && roles_[static_cast<std::size_t>(e)] == Role::apart;
  }
  // The sets, by what ties variables: loosely only those whose axes nobody tells apart.
  void join(bool loose) {
    for (std::size_t e = 0; e < roles_.size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      if (roles_[e] != Role::element && roles_[e] != Role::moves) continue;
      const Var out = eqn.outputs[0];
      for (const Atom& a : axes_.moved(eqn)) {
        if (!axes_.are_of(a) || is_loose(eqn, a) != loose) continue;
        if (!apart_[set_of(a.var())] && !apart_[set_of(out)]) sets_.join(a.var(), out);
      }
    }
  }
  bool merges(Var v) {
    const std::size_t set = set_of(v);
    return axes_.are_of(jaxpr_.aval(v)) && moved_[set] && long_[set] && !apart_[set];
  }
  std::size_t set_of(Var v) { return static_cast<std::size_t>(sets_.find(v)); }

  const Jaxpr& jaxpr_;
  const LastAxes& axes_;
  DisjointSets sets_;
  std::vector<bool> moved_, apart_, long_;  // of each set, by the variable that stands for it
  std::vector<Role> roles_;
};

class Merger {
 public:
  Merger(const Jaxpr& jaxpr, std::size_t count)
      : jaxpr_(jaxpr),
        axes_(jaxpr, count),
        choice_(jaxpr, axes_),
        whole_(static_cast<std::size_t>(jaxpr.num_vars())),
        merged_(whole_) {}

  Jaxpr run() {
    bool any = false;
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) any = any || choice_.changes(e);
    if (!any) return jaxpr_;
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      at(whole_, v) = Atom::var(b_.add_input(jaxpr_.aval(v)));
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      where_ = jaxpr_.eqns()[e].where;
      if (choice_.changes(e)) merge(jaxpr_.eqns()[e], choice_.role(e));
      else keep(jaxpr_.eqns()[e]);
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(as_whole(a));
    return b_.build(std::move(outs)).jaxpr;
  }

 private:
  using Known = std::vector<std::optional<Atom>>;
  static std::optional<Atom>& at(Known& known, Var v) { return known[static_cast<std::size_t>(v)]; }

  // Of a reshape of a reshape, the second is one of what the first is of.
  const Atom& source_of(const Atom& x) const {
    const auto found = x.is_var() ? sources_.find(x.var()) : sources_.end();
    return found == sources_.end() ? x : found->second;
  }
  Atom reshaped(const Atom& x, const Aval& to) {
    const Atom source = source_of(x);
    if (b_.aval(source) == to) return source;
    const Atom made = Atom::var(b_.add_eqn1(reshape_p, Params::of(ReshapeParams{to.shape}),
                                            {source}, to, Effect::none, where_));
    sources_.emplace(made.var(), source);
    return made;
  }
  Atom as_whole(const Atom& a) {
    if (a.is_literal()) return a;
    std::optional<Atom>& x = at(whole_, a.var());
    if (!x) x = reshaped(*at(merged_, a.var()), jaxpr_.aval(a));
    return *x;
  }
  Atom as_merged(const Atom& a) {
    std::optional<Atom>& x = at(merged_, a.var());
    if (!x) x = reshaped(*at(whole_, a.var()), axes_.merged(jaxpr_.aval(a)));
    return *x;
  }

  void merge(const Eqn& eqn, Role role) {
    if (eqn.primitive == &reshape_p) {
      const Var out = eqn.outputs[0];
      at(merged_, out) = reshaped(as_merged(eqn.inputs[0]), axes_.merged(jaxpr_.aval(out)));
      return;
    }
    // What is made of something else, and what a fold leaves, may have axes of their own to be merged.
    const bool reads_merged = role != Role::made, makes_merged = role != Role::folds;
    Atoms in;
    for (const Atom& a : axes_.moved(eqn))
      in.push_back(reads_merged && axes_.are_of(a) ? as_merged(a) : as_whole(a));
    if (eqn.primitive == &dynamic_slice_p) {
      axes_.shorten(in);  // of all of an axis, it begins at 0
      in.back() = scaled(in.back(), eqn);
    }
    if (eqn.primitive == &gather_p) in.push_back(places(eqn));
    const Var out = eqn.outputs[0];
    const Aval& aval = jaxpr_.aval(out);
    at(makes_merged ? merged_ : whole_, out) =
        Atom::var(b_.add_eqn1(*eqn.primitive, params(eqn, role), std::move(in),
                              makes_merged ? axes_.merged(aval) : aval, eqn.effect, where_));
  }

  // Where slices and windows begin along the merged axis. A start that is outside is brought near before it is
  // multiplied, and is outside after.
  Atom scaled(const Atom& start, const Eqn& eqn) {
    const Shape& from = jaxpr_.aval(eqn.inputs[0]).shape;
    const std::size_t d = axes_.first(from);
    const std::int64_t last = from[d] - window_of(eqn)[d];
    const Aval aval = b_.aval(start).strong();
    if (last == 0 && aval.shape.empty()) return literal_of(0, aval.dtype);
    const auto with = [&](const Primitive<>& p, const Atom& a, std::int64_t number) {
      const Atom n =
          aval.shape.empty() ? literal_of(number, aval.dtype) : filled(b_, number, aval, where_);
      return add(p, {}, {a, n}, aval);
    };
    const std::int64_t first = is_signed_integer(aval.dtype) ? -1 : 0;
    return with(mul_p, with(min_p, with(max_p, start, first), last + 1), axes_.row(from));
  }
  // Of the index vectors of a gather, those of the merged one.
  Atom places(const Eqn& gather) {
    const auto& map = gather.params.as<GatherParams>().dimension_numbers.start_index_map;
    const std::size_t told = axes_.components(gather);
    const auto at = static_cast<std::int64_t>(axes_.first(jaxpr_.aval(gather.inputs[0]).shape));
    const auto scaled_one =
        static_cast<std::size_t>(std::find(map.begin(), map.end(), at) - map.begin());
    const Atom all = as_whole(gather.inputs[1]);
    const auto numbers = [&](std::size_t begin, std::size_t end) {
      SliceParams s;
      s.limit_indices = b_.aval(all).shape;
      s.start_indices = Shape(s.limit_indices.size(), 0);
      s.start_indices.data()[s.start_indices.size() - 1] = static_cast<std::int64_t>(begin);
      s.limit_indices.data()[s.limit_indices.size() - 1] = static_cast<std::int64_t>(end);
      Shape shape = s.limit_indices;
      shape.data()[shape.size() - 1] = static_cast<std::int64_t>(end - begin);
      const Aval aval = b_.aval(all).with_shape(shape);
      return add(slice_p, Params::of(std::move(s)), {all}, aval);
    };
    if (scaled_one >= told) return told == map.size() ? all : numbers(0, told);
    Atoms parts;
    if (scaled_one > 0) parts.push_back(numbers(0, scaled_one));
    parts.push_back(scaled(numbers(scaled_one, scaled_one + 1), gather));
    if (scaled_one + 1 < told) parts.push_back(numbers(scaled_one + 1, told));
    if (parts.size() == 1) return parts[0];
    Shape shape = b_.aval(all).shape;
    const auto d = static_cast<std::int64_t>(shape.size()) - 1;
    shape.data()[d] = static_cast<std::int64_t>(told);
    const Aval aval = b_.aval(all).strong().with_shape(shape);
    return add(concatenate_p, Params::of(ConcatenateParams{d}), std::move(parts), aval);
  }
  Atom add(const PrimitiveBase& p, Params params, Atoms in, const Aval& aval) {
    return Atom::var(b_.add_eqn1(p, std::move(params), std::move(in), aval, Effect::none, where_));
  }

  void keep(const Eqn& eqn) {
    if (eqn.primitive == &reshape_p) {
      const Atom& x = eqn.inputs[0];
      const bool has_merged = x.is_var() && at(merged_, x.var()).has_value();
      at(whole_, eqn.outputs[0]) =
          reshaped(has_merged ? *at(merged_, x.var()) : as_whole(x), jaxpr_.aval(eqn.outputs[0]));
      return;
    }
    Atoms in;
    for (const Atom& a : eqn.inputs) in.push_back(as_whole(a));
    const Vars& out = b_.add_eqn(*eqn.primitive, eqn.params, std::move(in),
                                 detail::avals_of(jaxpr_, eqn.outputs), eqn.effect, eqn.where);
    for (std::size_t i = 0; i < out.size(); ++i) at(whole_, eqn.outputs[i]) = Atom::var(out[i]);
  }

  Params params(const Eqn& eqn, Role role) const {
    const PrimitiveBase* p = eqn.primitive;
    if (p == &slice_p) {
      SliceParams s = eqn.params.as<SliceParams>();
      const std::int64_t row = axes_.row(jaxpr_.aval(eqn.outputs[0]).shape);
      s.start_indices = axes_.merged(s.start_indices, row);
      s.limit_indices = axes_.merged(s.limit_indices, row);
      if (!s.strides.empty()) axes_.shorten(s.strides);
      return Params::of(std::move(s));
    }
    if (p == &pad_p) {
      PadParams s = eqn.params.as<PadParams>();
      axes_.shorten(s.padding_config);
      for (std::int64_t& n : s.padding_config.back())
        n *= axes_.row(jaxpr_.aval(eqn.outputs[0]).shape);
      return Params::of(std::move(s));
    }
    if (p == &gather_p) {
      GatherParams s = eqn.params.as<GatherParams>();
      s.slice_sizes = axes_.merged(s.slice_sizes, axes_.row(jaxpr_.aval(eqn.inputs[0]).shape));
      axes_.shorten(s.dimension_numbers.offset_dims);
      s.dimension_numbers.start_index_map.resize(axes_.components(eqn));
      return Params::of(std::move(s));
    }
    if (p == &transpose_p) {
      TransposeParams s = eqn.params.as<TransposeParams>();
      axes_.shorten(s.permutation);
      return Params::of(std::move(s));
    }
    if (role == Role::folds) {
      AxesParams s;
      const Shape& shape = jaxpr_.aval(eqn.inputs[0]).shape;
      for (const std::int64_t d : reduction_axes(eqn)) {
        if (static_cast<std::size_t>(d) <= axes_.first(shape)) s.axes.push_back(d);
      }
      return Params::of(std::move(s));
    }
    const auto merged = [&] { return axes_.merged(jaxpr_.aval(eqn.outputs[0])).shape; };
    if (p == &dynamic_slice_p) return Params::of(DynamicSliceParams{merged()});
    if (p == &iota_p) {
      IotaParams s = eqn.params.as<IotaParams>();
      s.shape = merged();
      return Params::of(std::move(s));
    }
    if (p == &broadcast_in_dim_p) {
      BroadcastInDimParams s = eqn.params.as<BroadcastInDimParams>();
      if (role == Role::moves) axes_.shorten(s.broadcast_dimensions);
      s.shape = merged();
      return Params::of(std::move(s));
    }
    return eqn.params;
  }

  const Jaxpr& jaxpr_;
  const LastAxes axes_;
  Choice choice_;
  JaxprBuilder b_;
  Known whole_, merged_;
  std::unordered_map<Var, Atom> sources_;
  SourceLocation where_;
};

/// The same within loops and branches, but for cells, which are along the axes that a loop has.
Jaxpr merge_within(const Jaxpr& jaxpr) {
  bool changed = false;
  std::vector<Eqn> eqns = jaxpr.eqns();
  for (Eqn& eqn : eqns) {
    bool any = false;
    Params params = detail::map_jaxprs(eqn.params, merge_axes, any);
    if (!any || worthwhile_cell_loop(jaxpr, eqn)) continue;
    eqn.params = std::move(params);
    changed = true;
  }
  return changed ? Jaxpr(jaxpr.num_inputs(), jaxpr.avals(), std::move(eqns), jaxpr.outs()) : jaxpr;
}

}  // namespace

Jaxpr merge_axes(const Jaxpr& jaxpr) {
  if (jaxpr.eqns().size() > kMostEquations) return jaxpr;
  Jaxpr out = merge_within(jaxpr);
  for (std::size_t count = 2; count <= kMostAxes; ++count) out = Merger(out, count).run();
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
