// Sums weighted by which element of its row is the least, or the largest: gradients of minima and maxima.
//   let k = reduce_min[axes=(1,)] x, m = convert (eq x (broadcast k)), w = mul (broadcast g) m,
//       t = reduce_sum[axes=(0,)] w, y = dot_general[contracting 0, 0] w e
//   ->  let c = places of the least; if there is one in each row, t = scatter_add 0 c g, y = scatter_add 0 c (g * e)
//       else as before
// Nearest centres, maxima of units, distances of sets: of n rows of k elements n products are taken, not n k. How many
// elements of a row are the extreme and where that is one fold says: each counts as a power of two, which no place reaches,
// and its place. Where all others would add something else than 0 (times infinity, say) the sums are taken as before,
// too.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "core/concrete.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kLeastRow = 16;         // elements: of fewer all products take as long
constexpr std::int64_t kLeastElements = 4096;  // of all rows: a branch takes half a microsecond
constexpr int kCheap = 12;  // cycles of an element that the branch computes again rather than reads

/// What is computed from a mask of extremes.
enum class Kind : std::uint8_t {
  mask,    ///< 0 but for the extremes, we hope
  row,     ///< a number of each row
  spread,  ///< the same, for each element
};

/// A sum over rows of a mask, or of its products with the rows of a matrix.
struct Sum {
  int e;
  Var mask;
  Var matrix = -1;      ///< of products
  bool turned = false;  ///< the matrix comes first: what is chosen are columns of the result
  int added = -1;  ///< the equation that adds it to something else, if that is all that it is for
  Var to = -1;     ///< that
};

/// A mask of extremes that is read by sums alone.
struct Chosen {
  int mask;
  Var x;
  std::size_t along;         ///< the axis of a row
  std::map<Var, Kind> made;  ///< from the mask
  std::vector<Sum> sums;
  std::set<int> eqns;  ///< all that is computed from it

  bool adds(int e) const {
    return std::any_of(sums.begin(), sums.end(), [&](const Sum& s) { return s.added == e; });
  }
};

class ChosenSums {
 public:
  explicit ChosenSums(const Jaxpr& jaxpr)
      : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)), uses_(detail::use_counts(jaxpr)) {}

  Jaxpr run() const {
    for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
      const auto chosen = chosen_at(e);
      if (!chosen) continue;
      if (auto out = rewritten(*chosen)) return ChosenSums(*out).run();
    }
    return jaxpr_;
  }

  /// The reduction whose extremes an equation looks for.
  const Eqn* extreme_of(const Eqn& mask, std::size_t x) const {
    if (mask.primitive != &eq_p || !mask.inputs[x].is_var()) return nullptr;
    const Eqn* const spread = made_by(mask.inputs[1 - x]);
    if (spread == nullptr || spread->primitive != &broadcast_in_dim_p) return nullptr;
    const Eqn* fold = made_by(spread->inputs[0]);
    const bool keeps_axis = fold != nullptr && fold->primitive == &reshape_p;
    if (keeps_axis) fold = made_by(fold->inputs[0]);
    if (fold == nullptr || !one_of(*fold, {&reduce_min_p, &reduce_max_p})) return nullptr;
    const Aval& aval = jaxpr_.aval(mask.inputs[x]);
    const Shape axes = reduction_axes(*fold);
    if (aval.ndim() != 2 || axes.size() != 1 || !same(fold->inputs[0], mask.inputs[x]))
      return nullptr;
    Shape once = aval.shape;
    once[static_cast<std::size_t>(axes[0])] = 1;
    const Shape& dims = spread->params.as<BroadcastInDimParams>().broadcast_dimensions;
    const bool by_rows = keeps_axis
                             ? dims == Shape{0, 1} && jaxpr_.aval(spread->inputs[0]).shape == once
                             : dims == Shape{1 - axes[0]};
    return by_rows ? fold : nullptr;
  }

 private:
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int producer(const Atom& a) const {
    return a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
  }
  const Eqn* made_by(const Atom& a) const {
    const int e = producer(a);
    return e < 0 ? nullptr : &eqn(e);
  }
  static bool same(const Atom& a, const Atom& b) {
    return a.is_var() && b.is_var() && a.var() == b.var();
  }
  const Aval& out(int e) const { return jaxpr_.aval(eqn(e).outputs[0]); }

  // ---- what is computed from a mask --------------------------------------------------------------
  std::optional<Chosen> chosen_at(int mask) const {
    for (const std::size_t x : {0, 1}) {
      const Eqn* const fold = extreme_of(eqn(mask), x);
      if (fold == nullptr) continue;
      Chosen c{mask, eqn(mask).inputs[x].var(), static_cast<std::size_t>(reduction_axes(*fold)[0])};
      const Aval& aval = jaxpr_.aval(c.x);
      const bool counts = aval.dtype == DType::f64 ||
                          (aval.dtype == DType::f32 && 2 * above_places(c) <= (1 << 24));
      if (counts && aval.shape[c.along] >= kLeastRow && aval.size() >= kLeastElements && follow(c))
        return c;
    }
    return std::nullopt;
  }
  // What an extreme counts as, besides its place.
  std::int64_t above_places(const Chosen& c) const {
    return static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(jaxpr_.aval(c.x).shape[c.along])));
  }

  // Finds all that is computed from the mask; false where others than sums need something of the mask.
  bool follow(Chosen& c) const {
    c.made.emplace(eqn(c.mask).outputs[0], Kind::mask);
    c.eqns.insert(c.mask);
    for (int e = c.mask + 1; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
      const auto from = [&](const Atom& a) { return a.is_var() && c.made.contains(a.var()); };
      if (std::none_of(eqn(e).inputs.begin(), eqn(e).inputs.end(), from)) continue;
      if (const auto sum = sum_of(c, e)) {
        c.sums.push_back(*sum);
        if (!sum->turned) add_what_follows(c.sums.back());
      } else if (const auto kind = kind_of(c, e)) {
        c.made.emplace(eqn(e).outputs[0], *kind);
      } else {
        return false;
      }
      c.eqns.insert(e);
    }
    return !c.sums.empty() &&
           std::none_of(jaxpr_.outs().begin(), jaxpr_.outs().end(),
                        [&](const Atom& a) { return a.is_var() && c.made.contains(a.var()); });
  }
  std::optional<Kind> kind(const Chosen& c, const Atom& a) const {
    const auto found = a.is_var() ? c.made.find(a.var()) : c.made.end();
    return found == c.made.end() ? std::nullopt : std::optional(found->second);
  }
  bool is_mask(const Chosen& c, const Atom& a) const { return kind(c, a) == Kind::mask; }

  // The sum over all rows of a mask that an equation takes. One after the other, short floats would lose too much.
  std::optional<Sum> sum_of(const Chosen& c, int e) const {
    const Eqn& q = eqn(e);
    if (q.outputs.size() != 1 || (out(e).dtype != DType::f32 && out(e).dtype != DType::f64))
      return std::nullopt;
    const Shape rows{static_cast<std::int64_t>(1 - c.along)};
    if (q.primitive == &reduce_sum_p && is_mask(c, q.inputs[0]) && reduction_axes(q) == rows)
      return Sum{e, q.inputs[0].var()};
    if (q.primitive != &dot_general_p) return std::nullopt;
    const DotDimensionNumbers& dn = q.params.as<DotGeneralParams>().dimension_numbers;
    if (!dn.lhs_batch.empty()) return std::nullopt;
    for (const std::size_t i : {0, 1}) {
      const Atom &mask = q.inputs[i], &matrix = q.inputs[1 - i];
      if (!is_mask(c, mask) || !matrix.is_var() || kind(c, matrix) ||
          jaxpr_.aval(matrix).ndim() != 2 || jaxpr_.aval(mask).dtype != out(e).dtype ||
          jaxpr_.aval(matrix).dtype != out(e).dtype)
        continue;
      if ((i == 0 ? dn.lhs_contracting : dn.rhs_contracting) == rows &&
          (i == 0 ? dn.rhs_contracting : dn.lhs_contracting) == Shape{0})
        return Sum{e, mask.var(), matrix.var(), i == 1};
    }
    return std::nullopt;
  }
  void add_what_follows(Sum& s) const {
    const Var v = eqn(s.e).outputs[0];
    if (uses_[static_cast<std::size_t>(v)] != 1) return;
    for (int e = s.e + 1; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
      const Eqn& q = eqn(e);
      if (q.primitive != &add_p) continue;
      for (const std::size_t i : {0, 1}) {
        if (!q.inputs[i].is_var() || q.inputs[i].var() != v || !q.inputs[1 - i].is_var() ||
            !(out(e) == out(s.e)) || !(jaxpr_.aval(q.inputs[1 - i]) == out(e)))
          continue;
        s.added = e;
        s.to = q.inputs[1 - i].var();
      }
    }
  }

  // Whether an equation adds up what is in each row of a mask.
  bool is_sum_of_rows(const Chosen& c, int e) const {
    return eqn(e).primitive == &reduce_sum_p && is_mask(c, eqn(e).inputs[0]) &&
           reduction_axes(eqn(e)) == Shape{static_cast<std::int64_t>(c.along)};
  }
  // What an equation makes of a mask, and of what was made of it.
  std::optional<Kind> kind_of(const Chosen& c, int e) const {
    const Eqn& q = eqn(e);
    const Shape& space = jaxpr_.aval(c.x).shape;
    const Shape row{space[1 - c.along]}, rows{static_cast<std::int64_t>(1 - c.along)};
    if (q.outputs.size() != 1 || q.effect != Effect::none) return std::nullopt;
    if (is_sum_of_rows(c, e)) return Kind::row;
    if (q.primitive == &broadcast_in_dim_p && kind(c, q.inputs[0]) == Kind::row &&
        out(e).shape == space && q.params.as<BroadcastInDimParams>().broadcast_dimensions == rows)
      return Kind::spread;
    if (form_of(jaxpr_, q) != Form::element) return std::nullopt;
    const auto all = [&](const auto& holds) {
      return std::all_of(q.inputs.begin(), q.inputs.end(),
                         [&](const Atom& a) { return a.is_literal() || holds(a); });
    };
    if (out(e).shape == row)
      return all([&](const Atom& a) { return jaxpr_.aval(a).shape == row; })
                 ? std::optional(Kind::row)
                 : std::nullopt;
    if (!(out(e).shape == space) || !all([&](const Atom& a) {
          return jaxpr_.aval(a).shape == space && (kind(c, a) || is_spread(a, rows));
        }))
      return std::nullopt;
    const bool mask =
        std::any_of(q.inputs.begin(), q.inputs.end(), [&](const Atom& a) { return is_mask(c, a); });
    return mask ? Kind::mask : Kind::spread;
  }
  // Of what does not come from the mask: whether it is the same along each row.
  bool is_spread(const Atom& a, const Shape& rows) const {
    const Eqn* const q = made_by(a);
    if (q == nullptr || q->primitive != &broadcast_in_dim_p) return false;
    const Shape& dims = q->params.as<BroadcastInDimParams>().broadcast_dimensions;
    return jaxpr_.aval(q->inputs[0]).size() == 1 || dims == rows;
  }

  // ---- the program with a branch -----------------------------------------------------------------
  using AtomOf = std::map<Var, Atom>;

  // Adds an equation with operands in the place of its own.
  template <class Operand>
  static Atom add(JaxprBuilder& b, const Eqn& q, const Aval& aval, const Operand& operand) {
    Atoms inputs;
    for (const Atom& a : q.inputs) inputs.push_back(a.is_literal() ? a : operand(a));
    return Atom::var(
        b.add_eqn1(*q.primitive, q.params, std::move(inputs), aval, Effect::none, q.where));
  }
  static Atom add(JaxprBuilder& b, const PrimitiveBase& p, Atoms inputs, const Aval& aval) {
    return Atom::var(b.add_eqn1(p, Params::of(NoParams{}), std::move(inputs), aval));
  }
  static Aval truth(const Shape& shape) { return {shape, DType::bool_, false}; }

  // Equations that wait for the sums.
  std::set<int> after(const Chosen& c) const {
    std::set<Var> waits;
    std::set<int> all;
    for (const Sum& s : c.sums) waits.insert(eqn(s.e).outputs[0]);
    for (int e = 0; e < static_cast<int>(jaxpr_.eqns().size()); ++e) {
      const auto late = [&](const Atom& a) { return a.is_var() && waits.contains(a.var()); };
      if (std::none_of(eqn(e).inputs.begin(), eqn(e).inputs.end(), late)) continue;
      all.insert(e);
      waits.insert(eqn(e).outputs.begin(), eqn(e).outputs.end());
    }
    return all;
  }

  std::optional<Jaxpr> rewritten(Chosen c) const {
    const auto ordered = [](const Eqn& q) { return q.effect != Effect::none; };
    if (std::any_of(jaxpr_.eqns().begin(), jaxpr_.eqns().end(), ordered)) return std::nullopt;
    const std::set<int> late = after(c);
    for (const int e : c.eqns) {
      if (late.contains(e)) return std::nullopt;
    }
    for (Sum& s : c.sums) {
      const int to = s.to < 0 ? -1 : producer_[static_cast<std::size_t>(s.to)];
      if (late.contains(to) || c.eqns.contains(to)) s.added = -1;
    }
    JaxprBuilder b;
    AtomOf atoms;
    const auto atom = [&](const Atom& a) { return a.is_literal() ? a : atoms.at(a.var()); };
    const auto copy = [&](int e) {
      const Eqn& q = eqn(e);
      Atoms inputs;
      for (const Atom& a : q.inputs) inputs.push_back(atom(a));
      const Vars made = b.add_eqn(*q.primitive, q.params, std::move(inputs),
                                  detail::avals_of(jaxpr_, q.outputs), q.effect, q.where);
      for (std::size_t i = 0; i < made.size(); ++i) atoms.emplace(q.outputs[i], Atom::var(made[i]));
    };
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      atoms.emplace(v, Atom::var(b.add_input(jaxpr_.aval(v))));
    const int count = static_cast<int>(jaxpr_.eqns().size());
    for (int e = 0; e < count; ++e) {
      if (!late.contains(e) && (e == c.mask || !c.eqns.contains(e))) copy(e);
    }
    add_branch(b, c, atoms);
    for (int e = 0; e < count; ++e) {
      if (late.contains(e) && !c.adds(e)) copy(e);
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(atom(a));
    return b.build(std::move(outs)).jaxpr;
  }

  // The value of a row where it is chosen, and of its others.
  struct Row {
    Atom chosen, others;
  };

  // The sums, into `atoms`.
  void add_branch(JaxprBuilder& b, const Chosen& c, AtomOf& atoms) const {
    const Aval& x = jaxpr_.aval(c.x);
    const Aval row = x.with_shape({x.shape[1 - c.along]}).strong();
    const double above = static_cast<double>(above_places(c));
    // The extremes of each row, counted. What they count as is a row, which is the same for all.
    const Aval numbers = x.strong(), count = numbers.with_shape({x.shape[c.along]});
    const Aval whole{count.shape, DType::i32, false};
    const Atom iota = Atom::var(
        b.add_eqn1(iota_p, Params::of(IotaParams{whole.dtype, whole.shape, 0}), {}, whole));
    const Atom place = Atom::var(b.add_eqn1(
        convert_element_type_p, Params::of(ConvertParams{count.dtype, false}), {iota}, count));
    const Shape along{static_cast<std::int64_t>(c.along)};
    const Atom counted =
        Atom::var(b.add_eqn1(broadcast_in_dim_p, Params::of(BroadcastInDimParams{x.shape, along}),
                             {add(b, add_p, {place, filled(b, above, count)}, count)}, numbers));
    const Atom choice =
        add(b, select_n_p, {atoms.at(eqn(c.mask).outputs[0]), filled(b, 0.0, numbers), counted},
            numbers);
    const Atom code =
        Atom::var(b.add_eqn1(reduce_sum_p, Params::of(AxesParams{along}), {choice}, row));
    // Whether there is one, and whether all others would add nothing.
    const Aval of_row = truth(row.shape);
    Atom alone = add(b, and_p,
                     {add(b, ge_p, {code, filled(b, above, row)}, of_row),
                      add(b, lt_p, {code, filled(b, 2 * above, row)}, of_row)},
                     of_row);
    const std::map<Var, Row> rows = add_rows(b, c, atoms);
    std::set<Var> masks, matrices;
    for (const Sum& s : c.sums) {
      masks.insert(s.mask);
      if (s.matrix >= 0) matrices.insert(s.matrix);
    }
    for (const int e : c.eqns) {  // sums of rows take it that there is nothing else in them
      if (is_sum_of_rows(c, e)) masks.insert(eqn(e).inputs[0].var());
    }
    for (const Var v : masks) {
      const Atom others = rows.at(v).others;
      alone = add(b, and_p, {alone, add(b, eq_p, {others, filled(b, 0.0, b.aval(others))}, of_row)},
                  of_row);
    }
    const auto all = [&](const Atom& a, const Shape& axes) {
      return Atom::var(b.add_eqn1(reduce_and_p, Params::of(AxesParams{axes}), {a}, truth({})));
    };
    Atom is_sparse = all(alone, {0});
    for (const Var v : matrices) {
      const Atom finite = add(b, is_finite_p, {atoms.at(v)}, truth(jaxpr_.aval(v).shape));
      is_sparse = add(b, and_p, {is_sparse, all(finite, {0, 1})}, truth({}));
    }
    const Atom index =
        Atom::var(b.add_eqn1(convert_element_type_p, Params::of(ConvertParams{DType::i32, false}),
                             {is_sparse}, Aval{{}, DType::i32, false}));
    // Both branches take the same: what the sums read, then the places and what is added there.
    Vars operands = read_by(c);
    Atoms inputs{index};
    for (const Var v : operands) inputs.push_back(atoms.at(v));
    inputs.push_back(code);
    Avals results;
    for (const Sum& s : c.sums) {
      inputs.push_back(rows.at(s.mask).chosen);
      results.push_back(out(s.added >= 0 ? s.added : s.e));
    }
    CondParams params;
    for (const auto branch : {&ChosenSums::add_all, &ChosenSums::add_chosen}) {
      JaxprBuilder inside;
      AtomOf known;
      for (const Var v : operands) known.emplace(v, Atom::var(inside.add_input(jaxpr_.aval(v))));
      Atoms more;
      for (std::size_t i = 1 + operands.size(); i < inputs.size(); ++i)
        more.push_back(Atom::var(inside.add_input(b.aval(inputs[i]))));
      Atoms sums = (this->*branch)(inside, c, std::move(known), more);
      params.branches.push_back(inside.build(std::move(sums)).jaxpr);
    }
    const Vars made = b.add_eqn(cond_p, Params::of(std::move(params)), std::move(inputs), results);
    for (std::size_t i = 0; i < c.sums.size(); ++i) {
      const Sum& s = c.sums[i];
      atoms.emplace(eqn(s.added >= 0 ? s.added : s.e).outputs[0], Atom::var(made[i]));
    }
  }

  // What is computed from the mask, by rows.
  std::map<Var, Row> add_rows(JaxprBuilder& b, const Chosen& c, const AtomOf& atoms) const {
    const Shape row{jaxpr_.aval(c.x).shape[1 - c.along]};
    std::map<Var, Row> rows;
    rows.emplace(eqn(c.mask).outputs[0],
                 Row{filled(b, true, truth(row)), filled(b, false, truth(row))});
    const auto of = [&](const Atom& a) {
      if (const auto found = rows.find(a.var()); found != rows.end()) return found->second;
      Atom x = atoms.at(a.var());
      if (!(jaxpr_.aval(a).shape == row)) {
        const Atom& from = made_by(a)->inputs[0];
        x = from.is_literal() ? from : atoms.at(from.var());
        if (!(b.aval(x).shape == row)) {  // one number
          const Aval number = b.aval(x).with_shape({});
          if (b.aval(x).ndim() > 0)
            x = Atom::var(b.add_eqn1(reshape_p, Params::of(ReshapeParams{{}}), {x}, number));
          x = repeated(b, x, number.with_shape(row));
        }
      }
      return Row{x, x};
    };
    for (const int e : c.eqns) {
      const Eqn& q = eqn(e);
      const auto found = c.made.find(q.outputs[0]);
      if (e == c.mask || found == c.made.end()) continue;
      const Aval aval = out(e).with_shape(row);
      if (q.primitive == &broadcast_in_dim_p) {
        rows.emplace(q.outputs[0], rows.at(q.inputs[0].var()));
        continue;
      }
      if (is_sum_of_rows(c, e)) {  // of one number and zeros: 0 if that is -0
        const Atom sum =
            add(b, add_p, {rows.at(q.inputs[0].var()).chosen, filled(b, 0.0, aval)}, aval);
        rows.emplace(q.outputs[0], Row{sum, sum});
        continue;
      }
      const Atom at = add(b, q, aval, [&](const Atom& a) { return of(a).chosen; });
      const bool differs = found->second == Kind::mask;
      rows.emplace(
          q.outputs[0],
          Row{at, differs ? add(b, q, aval, [&](const Atom& a) { return of(a).others; }) : at});
    }
    return rows;
  }

  // ---- the branches ------------------------------------------------------------------------------
  // Whether the branch that adds all elements computes a value again rather than to read it.
  std::set<int> computed_again(const Chosen& c) const {
    std::set<int> again;
    const std::int64_t n = jaxpr_.aval(c.x).size();
    int cost = 0;
    std::vector<int> todo(c.eqns.begin(), c.eqns.end());
    while (!todo.empty()) {
      const Eqn& q = eqn(todo.back());
      todo.pop_back();
      for (const Atom& a : q.inputs) {
        const int p = producer(a);
        if (p < 0 || c.eqns.contains(p) || again.contains(p) || out(p).size() != n) continue;
        if (form_of(jaxpr_, eqn(p)) != Form::element && eqn(p).primitive != &broadcast_in_dim_p)
          continue;
        if (cost + element_cost(eqn(p)) > kCheap) continue;
        cost += element_cost(eqn(p));
        again.insert(p);
        todo.push_back(p);
      }
    }
    return again;
  }
  Vars read_by(const Chosen& c) const {
    std::set<int> eqns = computed_again(c);
    eqns.insert(c.eqns.begin(), c.eqns.end());
    std::set<Var> all;
    for (const int e : eqns) {
      for (const Atom& a : eqn(e).inputs) {
        if (a.is_var() && !eqns.contains(producer(a))) all.insert(a.var());
      }
    }
    for (const Sum& s : c.sums) {
      if (s.added >= 0) all.insert(s.to);
    }
    return {all.begin(), all.end()};
  }

  Atoms add_all(JaxprBuilder& b, const Chosen& c, AtomOf known, const Atoms&) const {
    std::set<int> eqns = computed_again(c);
    eqns.insert(c.eqns.begin(), c.eqns.end());
    const auto operand = [&](const Atom& a) { return known.at(a.var()); };
    for (const int e : eqns) known.emplace(eqn(e).outputs[0], add(b, eqn(e), out(e), operand));
    Atoms sums;
    for (const Sum& s : c.sums) {
      if (s.added < 0) {
        sums.push_back(known.at(eqn(s.e).outputs[0]));
        continue;
      }
      // Written over what it is added to, as the other branch does: the array may stay where it is.
      Atoms update{known.at(s.to), add(b, eqn(s.added), out(s.added), operand)};
      for (std::int64_t d = 0; d < out(s.added).ndim(); ++d)
        update.push_back(literal_of(0, DType::i64));
      sums.push_back(add(b, dynamic_update_slice_p, std::move(update), out(s.added)));
    }
    return sums;
  }

  Atoms add_chosen(JaxprBuilder& b, const Chosen& c, AtomOf known, const Atoms& rows) const {
    const Aval& code = b.aval(rows[0]);
    const Aval places{code.shape, DType::i32, false},
        indices{{code.shape[0], 1}, DType::i32, false};
    const Atom above = filled(b, static_cast<double>(above_places(c)), code);
    const Atom place =
        Atom::var(b.add_eqn1(convert_element_type_p, Params::of(ConvertParams{DType::i32, false}),
                             {add(b, sub_p, {rows[0], above}, code)}, places));
    const Atom at = Atom::var(
        b.add_eqn1(reshape_p, Params::of(ReshapeParams{indices.shape}), {place}, indices));
    Atoms sums;
    for (std::size_t i = 0; i < c.sums.size(); ++i) {
      const Sum& s = c.sums[i];
      Aval aval = out(s.e);
      if (s.turned) std::swap(aval.shape[0], aval.shape[1]);
      const Atom to = s.added >= 0 ? known.at(s.to) : filled(b, 0.0, aval);
      Atom more = rows[i + 1];
      ScatterParams params;
      params.dimension_numbers = {.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
      params.mode = GatherScatterMode::clip;
      if (s.matrix >= 0) {
        const Atom& matrix = known.at(s.matrix);
        const Aval& each = b.aval(matrix);
        const Atom spread = Atom::var(b.add_eqn1(
            broadcast_in_dim_p, Params::of(BroadcastInDimParams{each.shape, {0}}), {more}, each));
        more = add(b, mul_p, {spread, matrix}, each);
        params.dimension_numbers.update_window_dims = {1};
      }
      Atom sum =
          Atom::var(b.add_eqn1(scatter_add_p, Params::of(std::move(params)), {to, at, more}, aval));
      if (s.turned)
        sum = Atom::var(
            b.add_eqn1(transpose_p, Params::of(TransposeParams{{1, 0}}), {sum}, out(s.e)));
      sums.push_back(sum);
    }
    return sums;
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producer_, uses_;
};

}  // namespace

Jaxpr sum_chosen(const Jaxpr& jaxpr) {
  const Jaxpr inside = detail::map_regions(jaxpr, sum_chosen);
  return ChosenSums(inside).run();
}

bool has_extremes(const Jaxpr& jaxpr) {
  return detail::any_program(jaxpr, [](const Jaxpr& j) {
    const ChosenSums all(j);
    return std::any_of(j.eqns().begin(), j.eqns().end(), [&](const Eqn& e) {
      return all.extreme_of(e, 0) != nullptr || all.extreme_of(e, 1) != nullptr;
    });
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
