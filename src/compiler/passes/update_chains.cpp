// Columns of an array that are written one after the other, at places that are known, are written together:
//
//   p = dynamic_update_slice m a (0, 3), q = dynamic_update_slice p b (0, 4)
//   ->  q = dynamic_update_slice m (concatenate[dimension=1] a b) (0, 3)
//
// Each of them alone meets every row's line of memory for a part of it; together they are woven in registers
// (codegen_columns), and where they are all of the array, nothing is left of what they were written over. Of columns that
// are written twice the last one counts.
//
// Linear in the number of equations, but for a logarithm.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;
using detail::Renaming;

constexpr std::int64_t kLine = 64;             // bytes
constexpr std::int64_t kMostBytes = 16 << 20;  // of what is written together, and there at once
constexpr std::int64_t kLeastRows = 4;         // fewer columns of fewer numbers are soon written
// Columns that are woven in registers, about two lines of memory of each row. More take longer to compile than they save:
// groups of them are put together in memory.
constexpr std::size_t kTogether = 32;

/// An update of columns, which are less than a line of each row, at a place that is known.
struct Columns {
  std::size_t axis;
  Shape window, starts;
  std::int64_t begin() const { return starts[axis]; }
  std::int64_t end() const { return starts[axis] + window[axis]; }
  /// Whether both are columns of the same rows.
  bool goes_with(const Columns& o) const {
    Shape a = window, b = o.window, s = starts, t = o.starts;
    a[axis] = b[axis] = s[axis] = t[axis] = 0;
    return axis == o.axis && a == b && s == t;
  }
};

std::optional<Columns> columns_of(const Jaxpr& jaxpr, const Eqn& e) {
  if (e.primitive != &dynamic_update_slice_p || !e.inputs[0].is_var() ||
      jaxpr.aval(e.outputs[0]).weak_type)
    return std::nullopt;
  const Aval& of = jaxpr.aval(e.inputs[0]);
  Columns c{0, jaxpr.aval(e.inputs[1]).shape, Shape(of.shape.size(), 0)};
  std::int64_t behind = static_cast<std::int64_t>(size_of(of.dtype)), before = 1;
  std::size_t d = of.shape.size();
  while (d > 0 && c.window[d - 1] == of.shape[d - 1]) behind *= of.shape[--d];
  if (d == 0) return std::nullopt;
  c.axis = d - 1;
  for (std::size_t k = 0; k < d; ++k) {
    if (k < c.axis) before *= c.window[k];
    if (c.window[k] == of.shape[k]) continue;
    const Atom& start = e.inputs[2 + k];
    if (start.is_var() || size_of(start.literal().dtype()) > 8) return std::nullopt;
    // Indices of 64 bits that doubles round are outside of any array.
    const auto number = std::clamp(start.literal().item<double>(), 0.,
                                   static_cast<double>(of.shape[k] - c.window[k]));
    c.starts[k] = static_cast<std::int64_t>(number);
  }
  const bool narrow = behind > 0 && c.window[c.axis] < kLine / behind + (kLine % behind != 0);
  return narrow && c.window[c.axis] > 0 && before >= kLeastRows ? std::optional(c) : std::nullopt;
}

/// What is left of an update, where those after it have not written.
struct Piece {
  std::int64_t begin, end;
  int eqn;
  std::int64_t columns;  ///< where those of the update begin
};

/// Updates one after the other, each of which only the next one reads.
struct Chain {
  Atom over;                  ///< what the first one is written over
  Columns last;               ///< those of the last one
  std::vector<Piece> pieces;  ///< what is written in the end, in order
};

/// Places that have been written.
class Written {
 public:
  /// Where `begin` to `end` has not been written yet, which it is from now on.
  std::vector<std::pair<std::int64_t, std::int64_t>> add(std::int64_t begin, std::int64_t end) {
    std::vector<std::pair<std::int64_t, std::int64_t>> gaps;
    auto at = runs_.upper_bound(begin);
    if (at != runs_.begin() && std::prev(at)->second >= begin) --at;
    std::int64_t from = begin, last = end, first = begin;
    while (at != runs_.end() && at->first <= end) {
      if (at->first > from) gaps.emplace_back(from, at->first);
      from = std::max(from, at->second);
      first = std::min(first, at->first);
      last = std::max(last, at->second);
      at = runs_.erase(at);
    }
    if (from < end) gaps.emplace_back(from, end);
    runs_.emplace(first, last);
    return gaps;
  }

 private:
  std::map<std::int64_t, std::int64_t> runs_;  // that neither meet nor touch
};

class Chains {
 public:
  explicit Chains(const Jaxpr& jaxpr)
      : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)), uses_(detail::use_counts(jaxpr)) {}

  Jaxpr run() {
    find();
    if (chains_.empty()) return jaxpr_;
    JaxprBuilder b;
    Renaming renamed(jaxpr_);
    renamed.push_inputs(b);
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const auto chain = chains_.find(static_cast<int>(e));
      if (chain == chains_.end()) renamed.push_eqn(b, jaxpr_.eqns()[e]);
      else renamed.push(together(b, chain->second, chain->first, renamed));
    }
    return b.build(renamed(jaxpr_.outs())).jaxpr;
  }

 private:
  const Eqn& eqn(int e) const { return jaxpr_.eqns()[static_cast<std::size_t>(e)]; }

  // By the last update of each.
  void find() {
    std::vector<bool> inside(jaxpr_.eqns().size(), false);
    for (int e = static_cast<int>(jaxpr_.eqns().size()) - 1; e >= 0; --e) {
      if (inside[static_cast<std::size_t>(e)]) continue;
      const auto last = columns_of(jaxpr_, eqn(e));
      if (!last) continue;
      Chain chain{eqn(e).inputs[0], *last, {}};
      Written written;
      const auto write = [&](int update, const Columns& c) {
        chain.over = eqn(update).inputs[0];
        for (const auto& [begin, end] : written.add(c.begin(), c.end()))
          chain.pieces.push_back({begin, end, update, c.begin()});
      };
      write(e, *last);
      std::size_t updates = 1;
      std::int64_t bytes = bytes_written(e);
      for (int p = before(e); p >= 0; p = before(p), ++updates) {
        const auto columns = columns_of(jaxpr_, eqn(p));
        bytes += bytes_written(p);
        if (!columns || !columns->goes_with(*last) || bytes > kMostBytes) break;
        inside[static_cast<std::size_t>(p)] = true;
        write(p, *columns);
      }
      std::sort(chain.pieces.begin(), chain.pieces.end(),
                [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
      if (num_runs(chain.pieces) < updates) chains_.emplace(e, std::move(chain));
    }
  }
  std::int64_t bytes_written(int e) const {
    if (eqn(e).primitive != &dynamic_update_slice_p) return 0;
    const Aval& update = jaxpr_.aval(eqn(e).inputs[1]);
    return update.size() * static_cast<std::int64_t>(size_of(update.dtype));
  }
  // The update that nobody reads but this one.
  int before(int e) const {
    const Atom& x = eqn(e).inputs[0];
    if (!x.is_var() || uses_[static_cast<std::size_t>(x.var())] != 1) return -1;
    return producer_[static_cast<std::size_t>(x.var())];
  }

  static std::size_t num_runs(const std::vector<Piece>& pieces) {
    std::size_t runs = 1;
    for (std::size_t i = 1; i < pieces.size(); ++i) runs += pieces[i].begin != pieces[i - 1].end;
    return runs;
  }

  Atom together(JaxprBuilder& b, const Chain& chain, int last, const Renaming& renamed) const {
    const std::vector<Piece>& all = chain.pieces;
    Atom x = renamed(chain.over);
    for (std::size_t i = 0; i < all.size();) {
      std::size_t end = i + 1;
      while (end < all.size() && all[end].begin == all[end - 1].end) ++end;
      x = update(b, x, chain.last, std::span(all).subspan(i, end - i), last, renamed);
      i = end;
    }
    return x;
  }
  // Of pieces side by side.
  Atom update(JaxprBuilder& b, const Atom& x, Columns c, std::span<const Piece> run, int last,
              const Renaming& renamed) const {
    const Aval& out = jaxpr_.aval(eqn(last).outputs[0]);
    Atoms parts;
    for (const Piece& piece : run) parts.push_back(part(b, piece, c.axis, renamed));
    const auto side_by_side = [&](Atoms columns) {
      if (columns.size() == 1) return columns[0];
      c.window[c.axis] = 0;
      for (const Atom& a : columns) c.window[c.axis] += b.aval(a).shape[c.axis];
      const ConcatenateParams p{static_cast<std::int64_t>(c.axis)};
      return Atom::var(b.add_eqn1(concatenate_p, Params::of(p), std::move(columns),
                                  out.with_shape(c.window).strong(), Effect::none,
                                  eqn(last).where));
    };
    Atoms joined;
    for (std::size_t i = 0; i < parts.size(); i += kTogether) {
      const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(i);
      const auto count = std::min(kTogether, parts.size() - i);
      joined.push_back(side_by_side(Atoms(begin, begin + static_cast<std::ptrdiff_t>(count))));
    }
    c.starts[c.axis] = run.front().begin;
    Atoms inputs{x, side_by_side(std::move(joined))};
    for (const std::int64_t start : c.starts) inputs.push_back(Atom::literal(Array(start)));
    return Atom::var(b.add_eqn1(dynamic_update_slice_p, Params(), std::move(inputs), out,
                                Effect::none, eqn(last).where));
  }
  Atom part(JaxprBuilder& b, const Piece& piece, std::size_t axis, const Renaming& renamed) const {
    const Eqn& e = eqn(piece.eqn);
    const Atom x = renamed(e.inputs[1]);
    const Aval& columns = jaxpr_.aval(e.inputs[1]);
    Shape shape = columns.shape;
    shape[axis] = piece.end - piece.begin;
    if (shape == columns.shape) return x;
    SliceParams cut{Shape(shape.size(), 0), columns.shape, {}};
    cut.start_indices[axis] = piece.begin - piece.columns;
    cut.limit_indices[axis] = piece.end - piece.columns;
    return Atom::var(b.add_eqn1(slice_p, Params::of(cut), {x}, columns.with_shape(shape),
                                Effect::none, e.where));
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producer_, uses_;
  std::map<int, Chain> chains_;
};

}  // namespace

bool has_updates(const Jaxpr& jaxpr) {
  return detail::any_program(jaxpr, [](const Jaxpr& j) {
    return std::any_of(j.eqns().begin(), j.eqns().end(),
                       [](const Eqn& e) { return e.primitive == &dynamic_update_slice_p; });
  });
}

Jaxpr write_together(const Jaxpr& jaxpr) {
  return Chains(detail::map_regions(jaxpr, write_together)).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
