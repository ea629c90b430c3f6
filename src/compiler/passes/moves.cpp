// Arrays that are transposed or reshaped, computed with element by element, and moved back: computed where they were.
//
//   let t = transpose[(1,0)] (reshape[64,32] x), s = sin t, y = reshape[32,64] (transpose[(1,0)] s)   ->   let y = sin x
//
// So are gradients of what goes through such moves. Each value is known by an array that lies as the first of its kind did,
// and by the moves from there to where the program has it: these are made only for who tells elements apart by their places,
// and most often there are none left. What elements and moves connect is rewritten as a whole, where that takes fewer
// transposes (reshapes are but names).
//
// Linear in the number of equations.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/disjoint_sets.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/simplify.hpp"
#include "compiler/permutations.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr int kUnmoved = -1;
constexpr std::size_t kMostEquations = 20'000, kMostAsked = 200'000;

/// The last of some moves; a reshape where there is no permutation.
struct Move {
  int before;  ///< the moves before it, or none
  Shape permutation, from, to;
  bool operator<(const Move& other) const {
    if (before != other.before) return before < other.before;
    for (const auto shape : {&Move::permutation, &Move::from, &Move::to}) {
      const Shape &mine = this->*shape, &others = other.*shape;
      if (mine != others)
        return std::lexicographical_compare(mine.begin(), mine.end(), others.begin(), others.end());
    }
    return false;
  }
};

/// All chains of moves of a program, by number. None has two of a kind one after the other.
class Moves {
 public:
  const Move& operator[](int moves) const { return all_[static_cast<std::size_t>(moves)]; }
  /// The shape of what is moved.
  const Shape& first(int moves) const { return first_[static_cast<std::size_t>(moves)]; }
  int then_transpose(int moves, Shape permutation, Shape from) {
    if (is_transpose(moves)) {
      permutation = permuted(permutation, (*this)[moves].permutation);
      from = (*this)[moves].from;
      moves = (*this)[moves].before;
    }
    if (is_identity(permutation)) return moves;
    Shape to = permuted(permutation, from);
    return number({moves, std::move(permutation), std::move(from), std::move(to)});
  }
  int then_reshape(int moves, Shape from, Shape to) {
    if (moves != kUnmoved && !is_transpose(moves)) {
      from = (*this)[moves].from;
      moves = (*this)[moves].before;
    }
    if (from == to) return moves;
    return number({moves, {}, std::move(from), std::move(to)});
  }
  bool is_transpose(int moves) const {
    return moves != kUnmoved && !(*this)[moves].permutation.empty();
  }

 private:
  int number(Move move) {
    const auto [found, is_new] = numbers_.try_emplace(move, static_cast<int>(all_.size()));
    if (is_new) {
      first_.push_back(move.before == kUnmoved ? move.from : Shape(first(move.before)));
      all_.push_back(std::move(move));
    }
    return found->second;
  }
  std::vector<Move> all_;
  std::vector<Shape> first_;
  std::map<Move, int> numbers_;
};

class Mover {
 public:
  explicit Mover(const Jaxpr& jaxpr)
      : jaxpr_(jaxpr),
        producers_(detail::producers(jaxpr)),
        moves_of_(producers_.size(), kUnmoved),
        root_(producers_.size()),
        passes_(jaxpr.eqns().size()),
        sets_(producers_.size()),
        saved_(producers_.size()) {
    for (Var v = 0; v < jaxpr.num_vars(); ++v) root_[at(v)] = v;
  }

  Jaxpr run() {
    for (std::size_t e = 0; e < passes_.size(); ++e) follow(e);
    for (std::size_t e = 0; e < passes_.size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      if (eqn.primitive == &transpose_p && passes_[e]) saved(eqn.outputs[0]) += size(eqn.inputs[0]);
      if (!passes_[e]) ask_for(eqn.inputs);
    }
    ask_for(jaxpr_.outs());
    const bool any = asked_.size() < kMostAsked &&
                     std::any_of(saved_.begin(), saved_.end(), [](double n) { return n > 0; });
    return any ? rewritten() : jaxpr_;
  }

 private:
  using Place = std::pair<Var, int>;  // a root, and how it has been moved

  static std::size_t at(Var v) { return static_cast<std::size_t>(v); }
  const Shape& shape(const Atom& a) const { return jaxpr_.aval(a).shape; }
  double size(const Atom& a) const { return static_cast<double>(jaxpr_.aval(a).size()); }

  // ---- where each value would lie ------------------------------------------------------------------
  static bool is_move(const Eqn& eqn) {
    return eqn.primitive == &transpose_p || eqn.primitive == &reshape_p;
  }
  /// The number that an array repeats, whatever its shape.
  std::optional<Atom> number(const Atom& a) const {
    if (shape(a).empty()) return a;
    const int e = a.is_var() ? producers_[at(a.var())] : -1;
    if (e < 0) return std::nullopt;
    const Eqn& eqn = jaxpr_.eqns()[static_cast<std::size_t>(e)];
    if (eqn.primitive != &broadcast_in_dim_p || !shape(eqn.inputs[0]).empty()) return std::nullopt;
    return eqn.inputs[0];
  }
  /// The moves that all operands of an equation have, but for those that repeat a number; if there are others.
  std::optional<int> moves_of(const Eqn& eqn) const {
    std::optional<int> moves;
    for (const Atom& a : eqn.inputs) {
      if (number(a)) continue;
      if (a.is_literal() || shape(a) != shape(Atom::var(eqn.outputs[0])) ||
          (moves && *moves != moves_of_[at(a.var())]))
        return std::nullopt;
      moves = moves_of_[at(a.var())];
    }
    return moves;
  }
  int moved(const Eqn& eqn, int before) {
    const Shape& from = shape(eqn.inputs[0]);
    if (eqn.primitive == &reshape_p)
      return moves_.then_reshape(before, from, shape(Atom::var(eqn.outputs[0])));
    return moves_.then_transpose(before, eqn.params.as<TransposeParams>().permutation, from);
  }
  // Results that lie as the operands do, or are one of these in another place.
  void follow(std::size_t e) {
    const Eqn& eqn = jaxpr_.eqns()[e];
    if (eqn.outputs.size() != 1 || eqn.effect != Effect::none) return;
    const Var out = eqn.outputs[0];
    if (is_move(eqn)) {
      if (eqn.inputs[0].is_literal()) return;
      const Var x = eqn.inputs[0].var();
      root_[at(out)] = root_[at(x)];
      moves_of_[at(out)] = moved(eqn, moves_of_[at(x)]);
      sets_.join(x, out);
    } else {
      const std::optional<int> moves = is_elementwise(eqn) ? moves_of(eqn) : std::nullopt;
      if (!moves) return;
      moves_of_[at(out)] = *moves;
      for (const Atom& a : eqn.inputs) {
        if (!number(a)) sets_.join(a.var(), out);
      }
    }
    passes_[e] = true;
  }

  // ---- which sets are better off -------------------------------------------------------------------
  /// Transposes that a set is rid of, in elements: those of the program, less those that are left.
  double& saved(Var v) { return saved_[at(sets_.find(v))]; }
  // Where the program has them.
  void ask_for(std::span<const Atom> atoms) {
    for (const Atom& a : atoms) {
      if (!a.is_var()) continue;
      const Var root = root_[at(a.var())];
      for (int m = moves_of_[at(a.var())]; m != kUnmoved; m = moves_[m].before) {
        if (asked_.size() >= kMostAsked || !asked_.emplace(root, m).second) break;
        if (moves_.is_transpose(m)) saved(a.var()) -= size(a);
      }
    }
  }

  // ---- the program that computes them there ---------------------------------------------------------
  Jaxpr rewritten() {
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      made_.emplace(Place{v, kUnmoved}, Atom::var(b_.add_input(jaxpr_.aval(v))));
    for (std::size_t e = 0; e < passes_.size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      where_ = eqn.where;
      if (!passes_[e] || saved(eqn.outputs[0]) <= 0) keep(eqn);
      else if (!is_move(eqn)) made_.emplace(Place{eqn.outputs[0], kUnmoved}, unmoved(eqn));
    }
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(in_place(a));
    return b_.build(std::move(outs)).jaxpr;
  }
  void keep(const Eqn& eqn) {
    Atoms in;
    for (const Atom& a : eqn.inputs) in.push_back(in_place(a));
    const Vars& out = b_.add_eqn(*eqn.primitive, eqn.params, std::move(in),
                                 detail::avals_of(jaxpr_, eqn.outputs), eqn.effect, eqn.where);
    for (std::size_t i = 0; i < out.size(); ++i)
      made_.emplace(Place{eqn.outputs[i], kUnmoved}, Atom::var(out[i]));
  }
  Atom add(const PrimitiveBase& p, Params params, Atoms in, const Aval& out) {
    return Atom::var(b_.add_eqn1(p, std::move(params), std::move(in), out, Effect::none, where_));
  }
  Atom unmoved(const Eqn& eqn) {
    const Var out = eqn.outputs[0];
    const int moves = moves_of_[at(out)];
    const Shape& to = moves == kUnmoved ? shape(Atom::var(out)) : moves_.first(moves);
    Atoms in;
    for (const Atom& a : eqn.inputs) {
      const std::optional<Atom> same = number(a);
      if (!same) in.push_back(made_.at({root_[at(a.var())], kUnmoved}));
      else if (shape(a).empty()) in.push_back(in_place(a));
      else
        in.push_back(add(broadcast_in_dim_p, Params::of(BroadcastInDimParams{to, {}}),
                         {in_place(*same)}, jaxpr_.aval(a).with_shape(to)));
    }
    return add(*eqn.primitive, eqn.params, std::move(in), jaxpr_.aval(out).with_shape(to));
  }
  /// What the program has, where it has it.
  Atom in_place(const Atom& a) {
    if (a.is_literal()) return a;
    if (saved(a.var()) <= 0) return made_.at({a.var(), kUnmoved});
    const Var root = root_[at(a.var())];
    std::vector<int> left;
    int moves = moves_of_[at(a.var())];
    for (; !made_.contains({root, moves}); moves = moves_[moves].before) left.push_back(moves);
    Atom x = made_.at({root, moves});
    for (auto m = left.rbegin(); m != left.rend(); ++m) {
      const Move& move = moves_[*m];
      const Aval out = b_.aval(x).with_shape(move.to);
      x = moves_.is_transpose(*m)
              ? add(transpose_p, Params::of(TransposeParams{move.permutation}), {x}, out)
              : add(reshape_p, Params::of(ReshapeParams{move.to}), {x}, out);
      made_.emplace(Place{root, *m}, x);
    }
    return x;
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producers_;
  Moves moves_;
  std::vector<int> moves_of_;  // from where each variable would lie to where it is
  std::vector<Var> root_;      // what it was before it was moved
  std::vector<bool> passes_;   // of equations
  DisjointSets sets_;          // of variables
  std::vector<double> saved_;
  std::set<Place> asked_;
  detail::JaxprBuilder b_;
  std::map<Place, Atom> made_;
  SourceLocation where_;
};

}  // namespace

Jaxpr undo_moves(const Jaxpr& jaxpr) {
  const Jaxpr inner = detail::map_regions(jaxpr, undo_moves);
  return inner.eqns().size() > kMostEquations ? inner : Mover(inner).run();
}

bool has_transposes(const Jaxpr& jaxpr) {
  return detail::any_program(jaxpr, [](const Jaxpr& j) {
    return std::any_of(j.eqns().begin(), j.eqns().end(),
                       [](const Eqn& eqn) { return eqn.primitive == &transpose_p; });
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
