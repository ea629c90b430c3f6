// Folds over leading dimensions: lanes run along the results.
#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/emit/emit_reduction.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr int kColumnVectors = 8;  // narrow arrays: all columns in registers
constexpr std::int64_t kColumnTile =
    16384;  // wide ones: this many partial results stay in the cache

}  // namespace

void ReductionEmitter::columns(bool chunked) {
  const std::size_t inner = dims_.size() - 1;
  const std::int64_t size = dims_[inner].size;
  const Scalar begin = chunked ? k_.begin : gen_.index(0),
               end = chunked ? k_.end : gen_.index(size);
  const std::int64_t widest = (part_ ? 2 : 1) * kColumnVectors * lanes_;
  const bool tiles = k_.plan.emit.column_tiles;
  if (tiles && folded_.size() == 1 && size > widest && dims_[folded_[0]].size > 1) {
    if (part_) return part_of_column_tiles(inner);
    if (have_memory()) return column_tiles(inner, begin, end);
  }
  if (tiles && CodeGen::known_bounds(begin, end) && size <= widest &&
      (fit_narrow(inner) || is_stream(inner)))
    return narrow_columns(inner);
  seamed_loop(k_, seams_, begin, end, size, lanes_, [&](Scalar base) {
    const int active = gen_.active();
    index_[inner] = gen_.lane_index(base);
    Scalars acc = fold_nest(folded_, 0, identities(1), [&](Scalars a) {
      accumulate(a, 0, false);
      return a;
    });
    gen_.set_lanes(lanes_, active);
    finish(acc);
  });
}

// Whether there are few equations for each element, and all of them, with those that follow the fold, may be written out
// for each vector.
bool ReductionEmitter::fit_narrow(std::size_t inner) const {
  constexpr std::size_t kFew = 8;
  constexpr std::int64_t kMost = 128;
  if (kernel_.members.size() <= kFew) return true;
  const std::int64_t vectors = detail::ceil_div(dims_[inner].size, lanes_);
  if (static_cast<std::int64_t>(kernel_.members.size()) * vectors > kMost) return false;
  std::set<Var> wanted(kernel_.roots.begin(), kernel_.roots.end());
  for (const int e : kernel_.reductions)
    wanted.insert(eqn(e).outputs.begin(), eqn(e).outputs.end());
  std::size_t each = 0;
  for (auto e = kernel_.members.rbegin(); e != kernel_.members.rend(); ++e) {
    const Vars& out = eqn(*e).outputs;
    if (std::none_of(out.begin(), out.end(), [&](Var v) { return wanted.contains(v); })) continue;
    ++each;
    for (const Atom& a : eqn(*e).inputs) {
      if (a.is_var()) wanted.insert(a.var());
    }
  }
  return each <= kFew;
}

// All columns in registers: one pass over the rows.
void ReductionEmitter::narrow_columns(std::size_t inner) {
  const std::int64_t size = dims_[inner].size, vectors = detail::ceil_div(size, lanes_);
  const auto at_vector = [&](std::int64_t v) {
    gen_.set_lanes(lanes_, static_cast<int>(std::min<std::int64_t>(lanes_, size - v * lanes_)));
    index_[inner] = gen_.lane_index(gen_.index(v * lanes_));
  };
  gen_.set_lanes(lanes_, lanes_);
  const auto add_row = [&](Scalars a) {
    for (std::int64_t v = 0; v < vectors; ++v) {
      at_vector(v);
      accumulate(a, static_cast<std::size_t>(v) * count(), false);
    }
    gen_.set_lanes(lanes_, lanes_);
    return a;
  };
  // Dimensions of one element are not folded at all.
  const Scalars acc =
      is_stream(inner) ? gen_.loop_carried(stream_end(inner), upper(folded_[0]), 1, stream(inner),
                                           [&](Scalar row, const Scalars& carried) {
                                             index_[folded_[0]] = row;
                                             return add_row(carried);
                                           })
                       : fold_nest(folded_, 0, identities(static_cast<int>(vectors)), add_row);
  for (std::int64_t v = 0; v < vectors; ++v) {
    at_vector(v);
    finish({acc.begin() + v * static_cast<std::int64_t>(count()),
            acc.begin() + (v + 1) * static_cast<std::int64_t>(count())});
  }
  gen_.set_lanes(1, 1);
}

// Half the registers, of accumulators.
static std::int64_t most_stream_vectors() { return runtime::target_vector_registers() / 2; }

// Rows that end within a vector are read as one stream of whole vectors: after `period_rows` rows,
// lanes stand for the same columns again.
std::int64_t ReductionEmitter::stream_vectors(std::size_t inner) const {
  const std::int64_t size = dims_[inner].size, period = size / std::gcd(size, lanes_);
  const std::int64_t several =
      period >= kAccumulators ? period : detail::rounded_up(kAccumulators, period);
  return static_cast<std::int64_t>(count()) * several > most_stream_vectors() ? period : several;
}

std::int64_t ReductionEmitter::period_rows(std::size_t inner) const {
  return stream_vectors(inner) * lanes_ / dims_[inner].size;
}

bool ReductionEmitter::is_stream(std::size_t inner) const {
  if (static_cast<std::int64_t>(kernel_.members.size()) * stream_vectors(inner) > kMostOfTrip)
    return false;
  return lanes_ > 1 &&
         (kernel_.linear ||
          (k_.plan.emit.short_rows && kernel_.alike_in_rows && dims_.size() == 2)) &&
         folded_.size() == 1 && folded_[0] + 1 == inner &&
         count() == kernel_.reductions.size() &&  // of each vector, the rows are not known
         static_cast<std::int64_t>(count()) * stream_vectors(inner) <= most_stream_vectors() &&
         (is_split(folded_[0]) ? split_->length : dims_[folded_[0]].size) >= 4 * period_rows(inner);
}

Scalar ReductionEmitter::stream_end(std::size_t inner) {
  return end_of_whole_steps(gen_, lower(folded_[0]), upper(folded_[0]), period_rows(inner));
}

// The rows up to stream_end: first each lane by itself, then the rows of the period in order.
Scalars ReductionEmitter::stream(std::size_t inner) {
  const std::size_t down = folded_[0];
  const std::int64_t n = stream_vectors(inner);
  const auto period = [&](Scalar row, const Scalars& carried) {
    Scalars a = carried;
    index_[down] = row;
    for (std::int64_t v = 0; v < n; ++v) {
      index_[inner] = gen_.lane_index(gen_.index(v * lanes_));
      if (!kernel_.linear) in_stream_ = v * lanes_;
      accumulate(a, static_cast<std::size_t>(v) * count(), false);
    }
    in_stream_ = -1;
    return a;
  };
  return fold_period(inner, gen_.loop_carried(lower(down), stream_end(inner), period_rows(inner),
                                              identities(static_cast<int>(n)), period));
}

// From the vectors of a period, in which rows follow each other, to those of a row.
Scalars ReductionEmitter::fold_period(std::size_t inner, const Scalars& sums) {
  const std::int64_t size = dims_[inner].size, n = stream_vectors(inner), rows = period_rows(inner);
  Scalars out;
  for (std::int64_t first = 0; first < size; first += lanes_) {
    for (std::size_t k = 0; k < count(); ++k) {
      const auto part = [&](std::int64_t row) {  // the columns from `first` on
        const std::int64_t at = row * size + first, v = at / lanes_;
        const auto sum = [&](std::int64_t i) {
          return sums[static_cast<std::size_t>(std::min(i, n - 1)) * count() + k];
        };
        return gen_.slide(sum(v), sum(v + 1), static_cast<int>(at % lanes_));
      };
      Scalar x = part(0);
      for (std::int64_t row = 1; row < rows; ++row) x = combine_values(slots_[k].e, x, part(row));
      out.push_back(x);
    }
  }
  return out;
}

// The plan gives every reduction over leading dimensions memory for its partial results.
bool ReductionEmitter::have_memory() const {
  for (std::size_t s = 0; s < count(); ++s) {
    if (memory_of(s) < 0) return false;
  }
  return true;
}

std::int64_t ReductionEmitter::tile_rows() const {
  return kernel_.members.size() <= 4 ? 8 : kernel_.members.size() <= 12 ? 4 : 1;
}

// The same for a part of the rows, whose partial results have memory of their own.
void ReductionEmitter::part_of_column_tiles(std::size_t inner) {
  const std::size_t down = folded_[0];
  const std::int64_t size = dims_[inner].size, block = tile_rows();
  const auto pass = [&](Scalar first, Scalar stop, Scalar row, std::int64_t n, bool fresh) {
    seamed_loop(k_, seams_, first, stop, size, lanes_, [&](Scalar base) {
      index_[inner] = gen_.lane_index(base);
      Scalars acc;
      if (fresh) acc = identities(1);
      for (std::size_t r = 0; !fresh && r < count(); ++r) {
        acc.push_back(gen_.load(value_at_.pointer(kernel_.partials[r]), slots_[r].dtype,
                                partial_index(*part_)));
      }
      for (std::int64_t r = 0; r < n; ++r) {
        index_[down] = gen_.add(row, gen_.index(r));
        accumulate(acc, 0, false);
      }
      store_partials(acc);
    });
  };
  const auto passes = [&](Scalar first, Scalar stop, Scalar from, Scalar to, std::int64_t n) {
    gen_.loop_carried(from, to, n, {}, [&](Scalar row, const Scalars&) {
      gen_.region([&] { pass(first, stop, row, n, false); });
      return Scalars{};
    });
  };
  gen_.loop_carried(
      gen_.index(0), gen_.index(size), kColumnTile, {}, [&](Scalar first, const Scalars&) {
        const Scalar stop = gen_.min(gen_.index(size), gen_.add(first, gen_.index(kColumnTile)));
        // The last part may have fewer rows than a pass takes.
        const std::int64_t last_rows = dims_[down].size % split_->length;
        const std::int64_t start =
            split_->length >= block && (last_rows == 0 || last_rows >= block) ? block : 1;
        gen_.region([&] { pass(first, stop, from_, start, true); });
        const Scalar second = gen_.add(from_, gen_.index(start));
        const Scalar whole = end_of_whole_steps(gen_, second, to_, block);
        passes(first, stop, second, whole, block);
        passes(first, stop, whole, to_, 1);
        return Scalars{};
      });
}

// Wide arrays: several rows per pass over a tile of columns, whose partial results lie in the
// results' memory. Walking down single columns would touch a page per row.
void ReductionEmitter::column_tiles(std::size_t inner, Scalar begin, Scalar end) {
  const std::size_t down = folded_[0];
  const std::int64_t rows = dims_[down].size, size = dims_[inner].size;
  const std::int64_t block = tile_rows();
  const std::int64_t last = (rows - 1) / block * block;  // the first row of the last pass
  const auto pass = [&](Scalar first, Scalar stop, Scalar row, std::int64_t n, bool fresh,
                        bool final) {
    seamed_loop(k_, seams_, first, stop, size, lanes_, [&](Scalar base) {
      index_[inner] = gen_.lane_index(base);
      const Point at = reduced_point();
      Scalars acc = fresh ? identities(1) : load_memory(value_at_.flat(at));
      for (std::int64_t r = 0; r < n; ++r) {
        index_[down] = gen_.add(row, gen_.index(r));
        accumulate(acc, 0, false);
      }
      if (final) return finish(acc);
      store_memory(value_at_.flat(at), acc);
    });
  };
  gen_.loop_carried(begin, end, kColumnTile, {}, [&](Scalar first, const Scalars&) {
    const Scalar stop = gen_.min(end, gen_.add(first, gen_.index(kColumnTile)));
    if (last == 0) {
      gen_.region([&] { pass(first, stop, gen_.index(0), rows, true, true); });
      return Scalars{};
    }
    gen_.region([&] { pass(first, stop, gen_.index(0), block, true, false); });
    gen_.loop_carried(gen_.index(block), gen_.index(last), block, {},
                      [&](Scalar row, const Scalars&) {
                        gen_.region([&] { pass(first, stop, row, block, false, false); });
                        return Scalars{};
                      });
    gen_.region([&] { pass(first, stop, gen_.index(last), rows - last, false, true); });
    return Scalars{};
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
