// What a loop computes in one order and hands on in another: it is handed on as it was computed.
//
//   h[n,k] = scan(h -> let y[k,n] = dot_general w h, s = tanh y, t[n,k] = transpose[(1,0)] s in t)
//   ->  g[k,n] = scan(g -> let y = dot_general w g, s = tanh y in s), h = transpose[(1,0)] g
//
// That is what vmap makes of loops that multiply the state of each member by a matrix which they share: batches come first
// between trips, and last in products. Rows that are written down go with the state.
//
// Products read either order. Whether others do is tried: the body is simplified with its state in the new order, and taken
// where fewer elements are transposed then, those around the loop included.
#include <map>
#include <optional>

#include "compiler/passes/passes.hpp"
#include "compiler/permutations.hpp"
#include "compiler/plan/cells.hpp"
#include "core/integers.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

/// transpose[permutation](x), of this type.
Atom transposed(JaxprBuilder& b, const Shape& permutation, const Atom& x, const Aval& aval) {
  return Atom::var(b.add_eqn1(transpose_p, Params::of(TransposeParams{permutation}), {x}, aval));
}
/// The same of each row.
Shape of_rows(const Shape& permutation) {
  Shape out{0};
  for (const std::int64_t d : permutation) out.push_back(d + 1);
  return out;
}
Aval with_rows(Aval aval, std::int64_t rows) {
  aval.shape.insert(0, rows);
  return aval;
}

/// Elements that a program transposes, those within loops and branches once.
std::int64_t elements_transposed(const Jaxpr& jaxpr) {
  std::int64_t all = 0;
  for (const Eqn& e : jaxpr.eqns()) {
    if (e.primitive == &transpose_p)
      all = detail::saturating_add(all, jaxpr.aval(e.outputs[0]).size());
    for (const Jaxpr& inside : e.params.jaxprs())
      all = detail::saturating_add(all, elements_transposed(inside));
  }
  return all;
}

class CarriedMoves {
 public:
  CarriedMoves(const Jaxpr& jaxpr, bool cells)
      : jaxpr_(jaxpr),
        cells_(cells),
        producer_(detail::producers(jaxpr)),
        uses_(detail::use_counts(jaxpr)),
        is_transposed_(static_cast<std::size_t>(jaxpr.num_vars())) {
    for (const Eqn& e : jaxpr.eqns()) {
      if (e.primitive == &transpose_p && e.inputs[0].is_var())
        is_transposed_[static_cast<std::size_t>(e.inputs[0].var())] = true;
    }
  }

  Jaxpr run() {
    JaxprBuilder b;
    Renaming renamed(jaxpr_);
    renamed.push_inputs(b);
    bool any = false;
    for (const Eqn& e : jaxpr_.eqns()) {
      const std::optional<Loop> loop = turned(e);
      any |= loop.has_value();
      if (loop) renamed.push(written(b, e, *loop, renamed(e.inputs)));
      else renamed.push_eqn(b, e);
    }
    return any ? b.build(renamed(jaxpr_.outs())).jaxpr : jaxpr_;
  }

 private:
  static constexpr std::int64_t kLeastTrips = 4, kLeastElements = 64;

  /// A loop with some results in the order in which they are computed: its body, and what makes of each of them what it was.
  struct Loop {
    Jaxpr body;
    std::vector<Shape> permutations;  // of the results of the body; none: they stay
  };

  const Eqn* made_by(const Atom& a) const {
    const int e = a.is_var() ? producer_[static_cast<std::size_t>(a.var())] : -1;
    return e < 0 ? nullptr : &jaxpr_.eqns()[static_cast<std::size_t>(e)];
  }

  std::optional<Loop> turned(const Eqn& e) const {
    if (e.primitive != &scan_p) return std::nullopt;
    const auto& p = e.params.as<ScanParams>();
    if (p.length < kLeastTrips) return std::nullopt;
    std::optional<Loop> loop = turned_body(p);
    if (!loop || (cells_ && worthwhile_cell_loop(jaxpr_, e))) return std::nullopt;
    const auto of_all = [&](const Jaxpr& body) {
      return detail::saturating_mul(p.length, elements_transposed(body));
    };
    const std::int64_t after = detail::saturating_add(of_all(loop->body), around(e, *loop));
    return after < of_all(p.jaxpr) ? std::move(loop) : std::nullopt;
  }

  // With the carries that the body transposes last, and rows that are these, after a trip or before.
  static std::optional<Loop> turned_body(const ScanParams& p) {
    const Jaxpr& body = p.jaxpr;
    const std::vector<int> producer = detail::producers(body);
    const auto last_transpose = [&](const Atom& a) -> const Eqn* {
      const int e = a.is_var() ? producer[static_cast<std::size_t>(a.var())] : -1;
      if (e < 0) return nullptr;
      const Eqn& made = body.eqns()[static_cast<std::size_t>(e)];
      return made.primitive == &transpose_p && made.inputs[0].is_var() ? &made : nullptr;
    };
    Atoms outs = body.outs();
    std::vector<Shape> permutations(outs.size());
    // The carries that are turned, by the variable that each is before a trip, and after it.
    std::map<Var, std::size_t> before, after;
    JaxprBuilder b;
    Atoms given, as_known;  // in the new order, and in that of the body
    for (Var v = 0; v < body.num_inputs(); ++v) {
      const Aval& aval = body.aval(v);
      const auto i = static_cast<std::size_t>(v - p.num_consts);
      const bool is_carry = v >= p.num_consts && v < p.num_consts + p.num_carry;
      const Eqn* last = is_carry ? last_transpose(outs[i]) : nullptr;
      if (last == nullptr || aval.size() < kLeastElements) {
        given.push_back(Atom::var(b.add_input(aval)));
        as_known.push_back(given.back());
        continue;
      }
      permutations[i] = last->params.as<TransposeParams>().permutation;
      before.emplace(v, i);
      after.emplace(outs[i].var(), i);
      given.push_back(Atom::var(b.add_input(body.aval(last->inputs[0]))));
      as_known.push_back(transposed(b, permutations[i], given.back(), aval));
    }
    if (before.empty()) return std::nullopt;
    std::map<std::size_t, Atom> handed_on;  // rows that are a carry as it came
    for (std::size_t r = 0; r < outs.size(); ++r) {
      if (!outs[r].is_var()) continue;
      const Var v = outs[r].var();
      const bool is_row = r >= static_cast<std::size_t>(p.num_carry);
      if (const auto found = before.find(v); is_row && found != before.end()) {
        permutations[r] = permutations[found->second];
        handed_on.emplace(r, given[static_cast<std::size_t>(v)]);
      } else if (const auto same = after.find(v);
                 same != after.end() && (is_row || !permutations[r].empty())) {
        permutations[r] = permutations[same->second];
        outs[r] = last_transpose(outs[r])->inputs[0];
      }
    }
    Atoms results = b.inline_jaxpr(
        Jaxpr(body.num_inputs(), body.avals(), body.eqns(), std::move(outs)), as_known);
    for (const auto& [r, carry] : handed_on) results[r] = carry;
    return Loop{eliminate_dead_code(simplify(b.build(std::move(results)).jaxpr)),
                std::move(permutations)};
  }

  // Elements that are transposed before and after the loop: what is the same in any order is not, nor what is transposed
  // there anyway.
  std::int64_t around(const Eqn& e, const Loop& loop) const {
    const auto& p = e.params.as<ScanParams>();
    std::int64_t all = 0;
    for (std::size_t r = 0; r < loop.permutations.size(); ++r) {
      if (loop.permutations[r].empty()) continue;
      const auto v = static_cast<std::size_t>(e.outputs[r]);
      const std::int64_t size = jaxpr_.aval(e.outputs[r]).size();
      if (uses_[v] > 0 && !(uses_[v] == 1 && is_transposed_[v]))
        all = detail::saturating_add(all, size);
      if (r >= static_cast<std::size_t>(p.num_carry)) continue;
      const Eqn* init = made_by(e.inputs[static_cast<std::size_t>(p.num_consts) + r]);
      if (init == nullptr || init->primitive != &broadcast_in_dim_p)
        all = detail::saturating_add(all, size);
    }
    return all;
  }

  // The results of the loop, as they were.
  Atoms written(JaxprBuilder& b, const Eqn& e, const Loop& loop, Atoms operands) const {
    auto p = e.params.as<ScanParams>();
    const auto first = static_cast<std::size_t>(p.num_consts);
    const auto carries = static_cast<std::size_t>(p.num_carry);
    const Avals out = loop.body.out_avals();
    Avals results;
    for (std::size_t r = 0; r < out.size(); ++r) {
      results.push_back(r < carries ? out[r] : with_rows(out[r], p.length));
      if (r < carries && !loop.permutations[r].empty())
        operands[first + r] =
            transposed(b, inverse(loop.permutations[r]), operands[first + r], out[r]);
    }
    p.jaxpr = loop.body;
    const Vars made = b.add_eqn(scan_p, Params::of(std::move(p)), std::move(operands), results,
                                e.effect, e.where);
    Atoms as_before;
    for (std::size_t r = 0; r < out.size(); ++r) {
      const Shape& permutation = loop.permutations[r];
      as_before.push_back(Atom::var(made[r]));
      if (permutation.empty()) continue;
      as_before.back() = transposed(b, r < carries ? permutation : of_rows(permutation),
                                    as_before.back(), jaxpr_.aval(e.outputs[r]));
    }
    return as_before;
  }

  const Jaxpr& jaxpr_;
  const bool cells_;
  const std::vector<int> producer_, uses_;
  std::vector<bool> is_transposed_;
};

}  // namespace

Jaxpr carry_as_computed(const Jaxpr& jaxpr, bool cells) {
  const Jaxpr inside =
      detail::map_regions(jaxpr, [&](const Jaxpr& j) { return carry_as_computed(j, cells); });
  return CarriedMoves(inside, cells).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
