// Sums weighted by which element of its row is the least, or the largest: gradients of minima and maxima.
//   let k = reduce_min[axes=(1,)] x, m = convert (eq x (broadcast k)), w = mul (broadcast g) m,
//       t = reduce_sum[axes=(0,)] w, y = dot_general[contracting 0, 0] w e
//   ->  let c = places of the least; if there is one in each row, t = scatter_add 0 c g, y = scatter_add 0 c (g * e)
//       else as before
// Nearest centres, maxima of units, distances of sets: of n rows of k elements n products are taken, not n k. How many
// elements of a row are the extreme and where that is one fold says: each counts as a power of two, which no place reaches,
// and its place. Where all others would add something else than 0 (times infinity, say) the sums are taken as before,
// too. What is chosen is added one after the other, in another order than before, and to what a loop carries where that is
// what the sum is added to.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/step_order.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

// Elements: of fewer all products take as long, or less where the rows of a matrix are longer.
constexpr std::int64_t kLeastRow = 32;
constexpr std::int64_t kLeastElements = 4096;  // of all rows: a branch takes half a microsecond
constexpr int kComputedAgain = 12;  // cycles of a vector that the branch computes rather than reads
constexpr std::int64_t kMostAdded = 1 << 14;  // rows, to one f32, one by one: more would lose much
constexpr std::size_t kMostEquations = 256;   // from one mask: gradients have about ten

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
  int more = -1;        ///< an equation that adds it to an input of the program
  int last() const { return more < 0 ? e : more; }
};

/// A mask of extremes that is read by sums alone.
struct Chosen {
  int mask;
  Var x;
  std::size_t along;         ///< the axis of a row
  std::map<Var, Kind> made;  ///< from the mask
  std::vector<Sum> sums;
  std::set<int> eqns;   ///< the mask, and what is computed from it
  std::set<int> again;  ///< what is computed before, and again where all elements are added
};

class ChosenSums {
 public:
  explicit ChosenSums(const Jaxpr& jaxpr) : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)) {}

  bool has_extremes() const {
    return std::any_of(jaxpr_.eqns().begin(), jaxpr_.eqns().end(), [&](const Eqn& e) {
      return extreme_of(e, 0) != nullptr || extreme_of(e, 1) != nullptr;
    });
  }

  Jaxpr run() {
    if (!has_extremes()) return jaxpr_;
    find_readers();
    owner_.assign(jaxpr_.eqns().size(), kNone);
    for (int e = 0; e < count(); ++e) {
      if (auto c = chosen_at(e)) take(std::move(*c));
    }
    return chosen_.empty() ? jaxpr_ : rewritten();
  }

 private:
  static constexpr int kNone = -1;
  int count() const { return static_cast<int>(jaxpr_.eqns().size()); }
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }
  int producer(const Atom& a) const {
    return a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : kNone;
  }
  const Eqn* made_by(const Atom& a) const {
    const int e = producer(a);
    return e < 0 ? nullptr : &eqn(e);
  }
  static bool same(const Atom& a, const Atom& b) {
    return a.is_var() && b.is_var() && a.var() == b.var();
  }
  const Aval& out(int e) const { return jaxpr_.aval(eqn(e).outputs[0]); }
  int& owner(int e) { return owner_[static_cast<std::size_t>(e)]; }

  void find_readers() {
    readers_.resize(static_cast<std::size_t>(jaxpr_.num_vars()));
    is_result_.assign(static_cast<std::size_t>(jaxpr_.num_vars()), false);
    for (int e = 0; e < count(); ++e) {
      for (const Atom& a : eqn(e).inputs) {
        if (a.is_var()) readers_[static_cast<std::size_t>(a.var())].push_back(e);
      }
    }
    for (const Atom& a : jaxpr_.outs()) {
      if (a.is_var()) is_result_[static_cast<std::size_t>(a.var())] = true;
    }
  }
  const std::vector<int>& readers(Var v) const { return readers_[static_cast<std::size_t>(v)]; }

  // The reduction whose extremes an equation looks for.
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
    std::set<int> todo;
    const auto add = [&](int e, Kind kind) {
      const Var v = eqn(e).outputs[0];
      c.made.emplace(v, kind);
      c.eqns.insert(e);
      todo.insert(readers(v).begin(), readers(v).end());
      return !is_result_[static_cast<std::size_t>(v)];
    };
    if (!add(c.mask, Kind::mask)) return false;
    while (!todo.empty()) {  // in order: what an equation reads is known
      const int e = *todo.begin();
      todo.erase(todo.begin());
      if (auto sum = sum_of(c, e)) {
        c.eqns.insert(e);
        c.sums.push_back(*sum);
      } else if (const auto kind = kind_of(c, e); !kind || !add(e, *kind)) {
        return false;
      }
      if (c.eqns.size() > kMostEquations) return false;
    }
    for (Sum& s : c.sums) {
      s.more = added_to_input(s);
      if (s.more >= 0) c.eqns.insert(s.more);
    }
    return !c.sums.empty();
  }
  // What adds a sum to an input, as what a loop carries is: what is chosen is added there, and others have no zeros to write
  // and to add. Short floats would lose more with each trip.
  int added_to_input(const Sum& s) const {
    const Var v = eqn(s.e).outputs[0];
    if (s.turned || out(s.e).dtype != DType::f64 || readers(v).size() != 1 ||
        is_result_[static_cast<std::size_t>(v)])
      return kNone;
    const Eqn& q = eqn(readers(v)[0]);
    if (q.primitive != &add_p) return kNone;
    const Atom& other = other_operand(q, v);
    return other.is_var() && other.var() < jaxpr_.num_inputs() ? readers(v)[0] : kNone;
  }
  static const Atom& other_operand(const Eqn& sum, Var v) {
    const Atom& first = sum.inputs[0];
    return first.is_var() && first.var() == v ? sum.inputs[1] : first;
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
    if (out(e).dtype == DType::f32 && jaxpr_.aval(c.x).shape[1 - c.along] > kMostAdded)
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

  // ---- what each branch computes ------------------------------------------------------------------
  // An equation is computed by one branch at most. The mask is computed before: its branch asks what it is.
  void take(Chosen c) {
    const auto is_taken = [&](int e) { return owner(e) != kNone; };
    if (std::any_of(c.eqns.begin(), c.eqns.end(), is_taken)) return;
    for (const int e : c.eqns) owner(e) = e == c.mask ? kNone : static_cast<int>(chosen_.size());
    c.again = computed_again(c);
    chosen_.push_back(std::move(c));
  }
  // What the branch that adds all elements computes again, as that is cheaper than to read it.
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
        if (cost + element_cost(eqn(p)) > kComputedAgain) continue;
        cost += element_cost(eqn(p));
        again.insert(p);
        todo.push_back(p);
      }
    }
    return again;
  }

  // ---- the program with branches -----------------------------------------------------------------
  using AtomOf = std::map<Var, Atom>;

  static Atom add(JaxprBuilder& b, const PrimitiveBase& p, Atoms inputs, const Aval& aval) {
    return add(b, p, std::move(inputs), aval, NoParams{});
  }
  template <class P>
  static Atom add(JaxprBuilder& b, const PrimitiveBase& p, Atoms inputs, const Aval& aval,
                  P params) {
    return Atom::var(b.add_eqn1(p, Params::of(std::move(params)), std::move(inputs), aval));
  }
  // An equation of the program with other operands.
  template <class Operand>
  static Atom add(JaxprBuilder& b, const Eqn& q, const Aval& aval, const Operand& operand) {
    Atoms inputs;
    for (const Atom& a : q.inputs) inputs.push_back(a.is_literal() ? a : operand(a));
    return Atom::var(
        b.add_eqn1(*q.primitive, q.params, std::move(inputs), aval, Effect::none, q.where));
  }
  static Atom converted(JaxprBuilder& b, const Atom& a, DType dtype) {
    const Aval aval{b.aval(a).shape, dtype, false};
    return add(b, convert_element_type_p, {a}, aval, ConvertParams{dtype, false});
  }
  static Aval truth(const Shape& shape) { return {shape, DType::bool_, false}; }
  static Atom everywhere(JaxprBuilder& b, const Atom& a, const Shape& axes) {
    return add(b, reduce_and_p, {a}, truth({}), AxesParams{axes});
  }
  static Atom both(JaxprBuilder& b, const Atom& x, const Atom& y) {
    return add(b, and_p, {x, y}, b.aval(x));
  }

  Jaxpr rewritten() {
    JaxprBuilder b;
    AtomOf atoms;
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      atoms.emplace(v, Atom::var(b.add_input(jaxpr_.aval(v))));
    const auto atom = [&](const Atom& a) { return a.is_literal() ? a : atoms.at(a.var()); };
    for (const int step : order_of_steps(jaxpr_, owner_)) {
      if (owner(step) != kNone) {
        add_branch(b, chosen_[static_cast<std::size_t>(owner(step))], atoms);
        continue;
      }
      const Eqn& q = eqn(step);
      Atoms inputs;
      for (const Atom& a : q.inputs) inputs.push_back(atom(a));
      const Vars made = b.add_eqn(*q.primitive, q.params, std::move(inputs),
                                  detail::avals_of(jaxpr_, q.outputs), q.effect, q.where);
      for (std::size_t i = 0; i < made.size(); ++i) atoms.emplace(q.outputs[i], Atom::var(made[i]));
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(atom(a));
    return b.build(std::move(outs)).jaxpr;
  }

  // The sums, into `atoms`.
  void add_branch(JaxprBuilder& b, const Chosen& c, AtomOf& atoms) const {
    const Atom code = extremes(b, c, atoms);
    const std::map<Var, Row> rows = add_rows(b, c, atoms);
    // Both branches take the same: what the sums read, then the places and what is added there.
    const Vars operands = read_by(c);
    Atoms inputs{converted(b, is_sparse(b, c, atoms, rows, code), DType::i32)};
    for (const Var v : operands) inputs.push_back(atoms.at(v));
    inputs.push_back(code);
    Avals results;
    for (const Sum& s : c.sums) {
      inputs.push_back(rows.at(s.mask).chosen);
      results.push_back(out(s.last()));
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
    for (std::size_t i = 0; i < c.sums.size(); ++i)
      atoms.emplace(eqn(c.sums[i].last()).outputs[0], Atom::var(made[i]));
  }

  // The sum of what the extremes of each row count as. These numbers are a row, which is the same for all.
  Atom extremes(JaxprBuilder& b, const Chosen& c, const AtomOf& atoms) const {
    const Aval numbers = jaxpr_.aval(c.x).strong();
    const Aval count = numbers.with_shape({numbers.shape[c.along]}),
               row = numbers.with_shape({numbers.shape[1 - c.along]});
    const Aval whole{count.shape, DType::i32, false};
    const Shape along{static_cast<std::int64_t>(c.along)};
    const Atom iota = add(b, iota_p, {}, whole, IotaParams{whole.dtype, whole.shape, 0});
    const Atom place = converted(b, iota, count.dtype);
    const Atom above = filled(b, static_cast<double>(above_places(c)), count);
    const Atom counted = add(b, broadcast_in_dim_p, {add(b, add_p, {place, above}, count)}, numbers,
                             BroadcastInDimParams{numbers.shape, along});
    const Atom& mask = atoms.at(eqn(c.mask).outputs[0]);
    const Atom choice = add(b, select_n_p, {mask, filled(b, 0.0, numbers), counted}, numbers);
    return add(b, reduce_sum_p, {choice}, row, AxesParams{along});
  }

  // The value of a row where it is chosen, and of its others.
  struct Row {
    Atom chosen, others;
  };

  // Whether each row has one extreme, and all others would add nothing.
  Atom is_sparse(JaxprBuilder& b, const Chosen& c, const AtomOf& atoms,
                 const std::map<Var, Row>& rows, const Atom& code) const {
    const Aval row = b.aval(code), of_row = truth(row.shape);
    const auto above = static_cast<double>(above_places(c));
    const Atom some = add(b, ge_p, {code, filled(b, above, row)}, of_row),
               few = add(b, lt_p, {code, filled(b, 2 * above, row)}, of_row);
    Atom alone = both(b, some, few);
    std::set<Var> masks, matrices;
    for (const Sum& s : c.sums) {
      masks.insert(s.mask);
      if (s.matrix >= 0) matrices.insert(s.matrix);
    }
    for (const int e : c.eqns) {  // sums of rows take it that there is nothing else in them
      if (is_sum_of_rows(c, e)) masks.insert(eqn(e).inputs[0].var());
    }
    for (const Var v : masks) {
      const Atom& others = rows.at(v).others;
      alone = both(b, alone, add(b, eq_p, {others, filled(b, 0.0, b.aval(others))}, of_row));
    }
    Atom holds = everywhere(b, alone, {0});
    for (const Var v : matrices) {
      const Atom finite = add(b, is_finite_p, {atoms.at(v)}, truth(jaxpr_.aval(v).shape));
      holds = both(b, holds, everywhere(b, finite, {0, 1}));
    }
    return holds;
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
          if (b.aval(x).ndim() > 0) x = add(b, reshape_p, {x}, number, ReshapeParams{{}});
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
  static std::set<int> computed_by(const Chosen& c) {
    std::set<int> eqns = c.eqns;
    eqns.insert(c.again.begin(), c.again.end());
    return eqns;
  }
  Vars read_by(const Chosen& c) const {
    const std::set<int> eqns = computed_by(c);
    std::set<Var> all;
    for (const int e : eqns) {
      for (const Atom& a : eqn(e).inputs) {
        if (a.is_var() && !eqns.contains(producer(a))) all.insert(a.var());
      }
    }
    return {all.begin(), all.end()};
  }

  Atoms add_all(JaxprBuilder& b, const Chosen& c, AtomOf known, const Atoms&) const {
    const auto operand = [&](const Atom& a) { return known.at(a.var()); };
    for (const int e : computed_by(c))
      known.emplace(eqn(e).outputs[0], add(b, eqn(e), out(e), operand));
    Atoms sums;
    for (const Sum& s : c.sums) sums.push_back(known.at(eqn(s.last()).outputs[0]));
    return sums;
  }

  Atoms add_chosen(JaxprBuilder& b, const Chosen& c, AtomOf known, const Atoms& rows) const {
    const Aval& code = b.aval(rows[0]);
    const Aval indices{{code.shape[0], 1}, DType::i32, false};
    const Atom above = filled(b, static_cast<double>(above_places(c)), code);
    const Atom place = converted(b, add(b, sub_p, {rows[0], above}, code), DType::i32);
    const Atom at = add(b, reshape_p, {place}, indices, ReshapeParams{indices.shape});
    Atoms sums;
    for (std::size_t i = 0; i < c.sums.size(); ++i) {
      const Sum& s = c.sums[i];
      Aval aval = out(s.e);
      if (s.turned) std::swap(aval.shape[0], aval.shape[1]);
      Atom more = rows[i + 1];
      ScatterParams params;
      params.dimension_numbers = {.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
      params.mode = GatherScatterMode::clip;
      if (s.matrix >= 0) {
        const Atom& matrix = known.at(s.matrix);
        const Aval& each = b.aval(matrix);
        const Atom spread =
            add(b, broadcast_in_dim_p, {more}, each, BroadcastInDimParams{each.shape, {0}});
        more = add(b, mul_p, {spread, matrix}, each);
        params.dimension_numbers.update_window_dims = {1};
      }
      // Where nothing is added, the sum with 0 of a -0 is 0.
      Atom to = filled(b, 0.0, aval);
      if (s.more >= 0) {
        const Atom& before = known.at(other_operand(eqn(s.more), eqn(s.e).outputs[0]).var());
        to = add(b, add_p, {before, to}, aval);
      }
      Atom sum = add(b, scatter_add_p, {to, at, more}, aval, std::move(params));
      if (s.turned) sum = add(b, transpose_p, {sum}, out(s.e), TransposeParams{{1, 0}});
      sums.push_back(sum);
    }
    return sums;
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producer_;
  std::vector<std::vector<int>> readers_;  // equations, of each variable
  std::vector<bool> is_result_;            // of each variable: whether the program gives it
  std::vector<Chosen> chosen_;
  std::vector<int> owner_;  // of each equation: which of these computes it
};

}  // namespace

Jaxpr sum_chosen(const Jaxpr& jaxpr) {
  const Jaxpr inside = detail::map_regions(jaxpr, sum_chosen);
  return ChosenSums(inside).run();
}

bool has_extremes(const Jaxpr& jaxpr) {
  return detail::any_program(jaxpr, [](const Jaxpr& j) { return ChosenSums(j).has_extremes(); });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
