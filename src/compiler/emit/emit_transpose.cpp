// Kernels that transpose: one dimension is contiguous in the results, another in the operands. Both
// are read and written by whole vectors where tiles of lanes x lanes elements are transposed in
// registers.
#include <algorithm>
#include <optional>
#include <set>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/costs.hpp"
#include "compiler/fusion/index_space.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLine = 64;  // bytes
// Equations of all parts of what is transposed, each of which is as many instructions as there are lanes.
constexpr std::size_t kMostOfParts = 64;
// Elements of the rows of parts, on average. A vector of parts of two is a load and a permutation: tiles took 1.15 times as
// long.
constexpr std::int64_t kShortestPart = 3;

class TransposeEmitter {
 public:
  /// Lanes run along dimension `inner`; `large`: results may go around the caches.
  TransposeEmitter(KernelContext& k, std::size_t inner, int lanes, bool large)
      : k_(k),
        gen_(k.gen),
        value_at_(k.generator()),
        shape_(k.kernel().shape),
        inner_(inner),
        lanes_(lanes),
        by_lines_(large) {
    if (!k.plan.emit.transpose_tiles || lanes < 2 || shape_[inner] < lanes / 2 ||
        k.kernel().members.size() > kMostTransposed)
      return;
    for (const int e : k.kernel().members) {
      const std::optional<std::size_t> d = contiguous_dim(k.scope, k.kernel(), k.eqn(e));
      if (!d || *d == inner || (!transposes_.empty() && *d != dim_)) continue;
      short_rows_ = (transposes_.empty() || short_rows_) && reads_short_rows(k.eqn(e), *d);
      dim_ = *d;
      transposes_.push_back(e);
    }
    if (!short_rows_ && shape_[dim_] < lanes / 2) transposes_.clear();
    if (!transposes_.empty() && !short_rows_)
      seams_ = find_seams(k, shape_[dim_], lanes, kMostOfParts);
    if (std::ssize(seams_) * kShortestPart >= shape_[dim_]) seams_.clear();
    if (!large || transposes_.empty()) return;
    next_ = next_tiles();
    value_at_.ask_for(next_);
  }
  bool applies() const { return !transposes_.empty(); }

  void run(const LoopBounds& outer) {
    gen_.set_streaming(goes_around());
    nest({}, outer, 0);
  }

 private:
  // Whether the operand lies in memory as short rows one after the other, which are the columns of a tile: all of them
  // are read together, without a square of as many vectors as there are lanes.
  bool reads_short_rows(const Eqn& eqn, std::size_t d) const {
    constexpr std::int64_t kLongest = 7;  // of 8, squares are as fast or faster
    const Shape& order = eqn.params.as<TransposeParams>().permutation;
    return k_.plan.emit.load_columns && shape_[d] >= 2 && shape_[d] <= kLongest &&
           value_at_.in_memory(eqn.inputs[0].var()) >= 0 && order[inner_] + 1 == order[d] &&
           is_read_in_place(eqn.outputs[0]);
  }
  // Whether all of the kernel wants the element of the result that it is at, and none beside it.
  bool is_read_in_place(Var v) const {
    const auto& members = k_.kernel().members;
    return std::all_of(members.begin(), members.end(), [&](int e) {
      const Eqn& eqn = k_.eqn(e);
      const bool reads =
          std::find(eqn.inputs.begin(), eqn.inputs.end(), Atom::var(v)) != eqn.inputs.end();
      return !reads || form_of(k_.scope.jaxpr, eqn) == Form::element;
    });
  }

  // Rows of operands are asked for two lines ahead.
  NextTile next_tiles() const {
    NextTile next;
    if (!k_.plan.emit.next_tiles || k_.bytes() < kStreamingBytes) return next;
    for (const int e : transposes_) {
      const Var x = k_.eqn(e).inputs[0].var();
      const int producer = k_.producer[static_cast<std::size_t>(x)];
      if (producer >= 0 && k_.kernel().members.contains(producer)) continue;  // not in memory
      next[k_.value_of(x)] =
          2 * kLine / static_cast<std::int64_t>(size_of(k_.scope.jaxpr.aval(x).dtype));
    }
    return next;
  }

  // What the caches hold is written row by row: a processor waits for lines that it writes rather than for those that
  // it reads. Of large arrays, rows of the operands are read from end to end, which memory sees coming, and some
  // lines of each result row are written one after the other.
  //
  // `rows` are those of a tile; 0 stands for one row as it comes.
  void nest(const Index& index, const LoopBounds& outer, int rows) {
    const std::size_t d = index.size();
    if (d == outer.size()) {
      if (by_lines_) return lines(index, outer[dim_]);
      return columns(index, rows, first_column(), last_column());
    }
    const auto next = [&](Scalar i, int n) {
      Index full = index;
      full.push_back(i);
      nest(full, outer, n);
    };
    if (d != dim_) gen_.loop(outer[d].first, outer[d].second, [&](Scalar i) { next(i, rows); });
    else if (by_lines_) next(outer[d].first, 0);
    else tiles_of_parts(outer[d], next);
  }

  // Rows of tiles along the dimension in which operands are contiguous: of each part that they are put together of by
  // themselves, since a tile that a seam runs through would be read lane by lane.
  void tiles_of_parts(const std::pair<Scalar, Scalar>& range,
                      const std::function<void(Scalar i, int rows)>& f) {
    const std::int64_t size = shape_[dim_];
    if (seams_.empty()) return for_each_tile(gen_, range, size, lanes_, f);
    const bool all = CodeGen::known_bounds(range.first, range.second) == KnownBounds{0, size};
    std::vector<std::int64_t> ends = seams_;
    ends.push_back(size);
    std::int64_t from = 0;
    for (const std::int64_t to : ends) {
      const Scalar skipped = gen_.index(from);
      const Scalar low = all ? gen_.index(0) : gen_.sub(gen_.max(range.first, skipped), skipped);
      const Scalar high =
          all ? gen_.index(to - from) : gen_.sub(gen_.min(range.second, gen_.index(to)), skipped);
      for_each_tile(gen_, {low, high}, to - from, lanes_, [&](Scalar i, int rows) {
        f(gen_.within(gen_.add(i, skipped), from,
                      std::max<std::int64_t>(from, to - std::max(rows, 1))),
          rows);
      });
      from = to;
    }
  }

  // Equations that make what is transposed.
  void add_before(int e, std::set<int>& before) const {
    for (const Atom& a : k_.eqn(e).inputs) {
      const int from = a.is_var() ? k_.producer[static_cast<std::size_t>(a.var())] : -1;
      if (from >= 0 && k_.kernel().members.contains(from) && before.insert(from).second)
        add_before(from, before);
    }
  }

  // Whether an operand as large as the result is read at the same places.
  bool reads_beside() const {
    std::set<int> elsewhere(transposes_.begin(), transposes_.end());
    for (const int e : transposes_) add_before(e, elsewhere);
    const auto reads = [&](int e) {
      const auto& in = k_.eqn(e).inputs;
      return !elsewhere.contains(e) && std::any_of(in.begin(), in.end(), [&](const Atom& a) {
        if (!a.is_var() || k_.scope.jaxpr.aval(a).shape != shape_) return false;
        const int from = k_.producer[static_cast<std::size_t>(a.var())];
        return from < 0 || !k_.kernel().members.contains(from);
      });
    };
    return std::any_of(k_.kernel().members.begin(), k_.kernel().members.end(), reads);
  }

  // Of a + b.T four lines at a time take 0.65 of the time of two, of transposes alone 1.05 (Zen 5).
  void lines(const Index& index, const std::pair<Scalar, Scalar>& range) {
    const DType dtype = k_.scope.jaxpr.aval(k_.kernel().roots[0]).dtype;
    const std::int64_t side =
        (reads_beside() ? 4 : 2) * kLine / static_cast<std::int64_t>(size_of(dtype));
    const Scalar size = last_column();
    gen_.loop_carried(first_column(), size, side, {}, [&](Scalar first, const Scalars&) {
      tiles_of_parts(range, [&](Scalar i, int rows) {
        Index at = index;
        at[dim_] = i;
        columns(at, rows, first, gen_.min(gen_.add(first, gen_.index(side)), size));
      });
      return Scalars{};
    });
  }

  // Columns [from, to) of `rows` rows from index[dim_] on.
  void columns(const Index& index, int rows, Scalar from, Scalar to) {
    const std::int64_t size = shape_[inner_], rest = size % lanes_;
    if (rows == 0) {
      return vector_loop(k_, from, to, size, lanes_, [&](Scalar base) {
        store_roots(k_, value_at_, {shape_, at(index, index[dim_], gen_.lane_index(base)), {}});
      });
    }
    // All of them, if there is a rest; or what this thread has of them.
    const Scalar whole = rest > 0 ? gen_.min(to, gen_.index(size - rest)) : to;
    const auto tiles = [&](Scalar first, int n) {
      const std::int64_t step = std::int64_t{n} * lanes_;
      const Scalar end = n == 1 ? whole : gen_.add(whole, gen_.index(1 - step));
      gen_.loop_carried(first, end, step, {}, [&](Scalar base, const Scalars&) {
        tile(index, base, rows, lanes_, n);
        return Scalars{};
      });
    };
    const int side_by_side = tiles_of_line();
    tiles(from, side_by_side);
    if (const std::int64_t step = std::int64_t{side_by_side} * lanes_; size % step != rest) {
      tiles(end_of_whole_steps(gen_, from, whole, step), 1);
    }
    const auto last = [&] {
      tile(index, gen_.index(size - rest), rows, static_cast<int>(rest), 1);
    };
    if (rest > 0 && k_.by_columns)
      gen_.if_then(gen_.compare(Compare::eq, to, gen_.index(size)), last);
    else if (rest > 0) gen_.region(last);
    gen_.set_lanes(1, 1);
  }

  // Around the caches a line is written as a whole: a processor that needs the room sends away one that is written in
  // part, and memory has to read it first (with two threads, 4,096 x 4,096 on Zen 3: 0.45 of the time).
  int tiles_of_line() const {
    constexpr std::int64_t kMost = 4;  // all of their rows wait in registers, or on the stack
    return goes_around() ? static_cast<int>(std::clamp<std::int64_t>(vectors_of_line(), 1, kMost))
                         : 1;
  }
  // How many vectors a line takes.
  std::int64_t vectors_of_line() const {
    const auto bytes = size_of(k_.scope.jaxpr.aval(k_.kernel().roots[0]).dtype);
    return kLine / (lanes_ * static_cast<std::int64_t>(bytes));
  }
  // What is read beside needs that room all the time: then lines of several vectors pass through the caches (a + b.T
  // on Zen 3: 0.6 of the time).
  bool goes_around() const { return by_lines_ && (vectors_of_line() <= 1 || !reads_beside()); }

  Index at(const Index& index, Scalar along_dim, Scalar along_inner) {
    Index full = index;
    full.push_back(along_inner);
    full.resize(shape_.size(), gen_.index(0));
    full[dim_] = along_dim;
    return full;
  }

  // The columns of this part of the kernel.
  Scalar first_column() { return k_.by_columns ? k_.begin : gen_.index(0); }
  Scalar last_column() { return k_.by_columns ? k_.end : gen_.index(shape_[inner_]); }

  // `n` tiles side by side: all rows of the first come from registers, or the stack, when those of the last are there.
  void tile(const Index& index, Scalar base, int rows, int columns, int n) {
    std::vector<std::vector<Scalars>> tiles;
    std::vector<Scalar> bases;
    for (int t = 0; t < n; ++t) {
      bases.push_back(gen_.add(base, gen_.index(std::int64_t{t} * lanes_)));
      tiles.push_back(transposed(index, bases.back(), rows, columns));
    }
    gen_.set_lanes(lanes_, columns);
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      const Scalar i = gen_.add(index[dim_], gen_.index(static_cast<std::int64_t>(r)));
      for (std::size_t t = 0; t < tiles.size(); ++t) {
        const Point row{shape_, at(index, i, gen_.lane_index(bases[t])), {}};
        for (std::size_t e = 0; e < transposes_.size(); ++e)
          value_at_.define(k_.eqn(transposes_[e]).outputs[0], row, tiles[t][e][r]);
        store_roots(k_, value_at_, row);
      }
    }
  }

  // The rows of a tile, of each transpose.
  std::vector<Scalars> transposed(const Index& index, Scalar base, int rows, int columns) {
    const Scalar first = index[dim_];
    const bool whole = short_rows_ && rows == shape_[dim_];
    gen_.set_lanes(lanes_, whole ? columns : rows);
    std::vector<Scalars> out;
    for (const int e : transposes_) {
      const Atom& x = k_.eqn(e).inputs[0];
      if (whole) {
        out.push_back(value_at_.columns(
            x.var(), before_transpose(k_, k_.eqn(e), at(index, first, gen_.lane_index(base))),
            rows));
        continue;
      }
      Scalars in;
      for (int c = 0; c < columns; ++c) {
        const Index to = at(index, gen_.lane_index(first), gen_.add(base, gen_.index(c)));
        in.push_back(value_at_(x, before_transpose(k_, k_.eqn(e), to)));
      }
      in.resize(static_cast<std::size_t>(lanes_), in[0]);  // columns that nobody stores
      out.push_back(gen_.transpose(std::move(in)));
    }
    return out;
  }

  KernelContext& k_;
  CodeGen& gen_;
  Generator value_at_;
  const Shape& shape_;
  std::size_t inner_, dim_ = 0;
  int lanes_;
  bool by_lines_;  ///< not row by row
  std::vector<int> transposes_;
  bool short_rows_ = false;          ///< all of them read short rows
  std::vector<std::int64_t> seams_;  ///< along `dim_`
  NextTile next_;
};

}  // namespace

std::optional<std::size_t> contiguous_dim(const Scope& scope, const Kernel& kernel,
                                          const Eqn& eqn) {
  if (eqn.primitive != &transpose_p || !eqn.inputs[0].is_var() || kernel.shape.empty() ||
      scope.jaxpr.aval(eqn.outputs[0]).shape != kernel.shape)
    return {};
  return contiguous_dim(scope.jaxpr, eqn);
}

std::optional<std::size_t> dim_of_rows(const Scope& scope, const Kernel& kernel, const Eqn& eqn) {
  if (contiguous_dim(scope, kernel, eqn) != inner_dim(kernel.shape)) return {};
  const Shape& order = eqn.params.as<TransposeParams>().permutation;
  std::optional<std::size_t> last;
  for (std::size_t d = 0; d < order.size(); ++d) {
    const bool counts = kernel.shape[d] != 1 && d != inner_dim(kernel.shape);
    if (counts && (!last || order[d] > order[*last])) last = d;
  }
  return last;
}

Point before_transpose(const KernelContext& k, const Eqn& eqn, const Index& to) {
  const Shape& order = eqn.params.as<TransposeParams>().permutation;
  Index from(to.size(), k.gen.index(0));
  for (std::size_t d = 0; d < to.size(); ++d) from[static_cast<std::size_t>(order[d])] = to[d];
  return {k.scope.jaxpr.aval(eqn.inputs[0]).shape, from, {}};
}

bool emit_transposed(KernelContext& k, std::size_t inner, int lanes, const LoopBounds& outer,
                     const std::function<void(const std::function<void(bool)>&)>& around) {
  if (!TransposeEmitter(k, inner, lanes, false).applies()) return false;
  around([&](bool large) { TransposeEmitter(k, inner, lanes, large).run(outer); });
  return true;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
