// Folds of one space both along its last dimension and over all others, in one pass: forces between
// pairs, gradients of what scales and shifts rows. Rows fold into registers, a few rows at a time;
// columns into a row of partial results in memory, one for each part of the rows. The parts' results
// are folded in order at the end. How rows are cut into parts is a matter of the shape and of what an element costs.
#include <algorithm>

#include "compiler/emit/emit_reduction.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMostParts = 32;
constexpr std::size_t kManyMembers = 40;  // code is emitted for each row of a block

std::int64_t part_length(const Kernel& k, const std::vector<FoldDim>& dims, std::int64_t cost) {
  const std::int64_t rows = dims[0].size, size = k.shape.num_elements();
  const std::int64_t work = detail::saturating_mul(size, cost);
  const std::int64_t wanted =
      even_parts(std::max<std::int64_t>(work / kParallelCost, 1), std::min(kMostParts, rows));
  std::int64_t length = detail::ceil_div(rows, wanted);
  if (length > kRowsOfTile) length = detail::rounded_up(length, kRowsOfTile);
  // Parts of a few rows would write more partial results than they read.
  const std::int64_t rows_each = std::max<std::int64_t>(size / rows / dims.back().size, 1);
  return std::max(length, std::min<std::int64_t>(rows, (7 + rows_each) / rows_each));
}

}  // namespace

std::int64_t parts_both_ways(const Kernel& k, std::int64_t cost) {
  const std::vector<FoldDim> dims = merged_dims(k);
  const std::int64_t length = part_length(k, dims, cost);
  return detail::ceil_div(dims[0].size, length);
}
std::int64_t rows_of_part(const Kernel& k) { return part_length(k, merged_dims(k), k.part_cost); }

Scalar ReductionEmitter::column_combine(std::size_t c, Scalar a, Scalar b) {
  const int e = kernel_.columns[c];
  return rule(e).combine(gen_, eqn(e).params, a, b);
}
Scalar ReductionEmitter::column_identity(std::size_t c) {
  const int e = kernel_.columns[c];
  return gen_.splat(rule(e).identity(gen_, eqn(e).params, dtype(e)));
}

// Rows share the loads and the stores of columns, as far as the registers hold for each of them what it folds and
// what it has to itself, like the numbers of a body that meets all others.
int ReductionEmitter::rows_at_once() const {
  constexpr int kMost = 4, kFew = 2, kOthers = 4;  // registers for columns and what is at hand
  const auto of_each = 2 * static_cast<int>(count());
  const bool fit = kMost * of_each + kOthers <= runtime::target_vector_registers();
  return fit && kernel_.members.size() <= kManyMembers ? kMost : kFew;
}

void ReductionEmitter::both_ways() {
  const std::int64_t length = part_length(kernel_, dims_, kernel_.part_cost);
  const std::int64_t columns = dims_.back().size, rows = dims_[0].size;
  index_.assign(dims_.size(), gen_.index(0));
  if (k_.rows_of_part) {
    const Scalar part = gen_.div(k_.begin, gen_.index(length));
    const Scalar first = gen_.mul(part, gen_.index(columns));
    const Scalar is_first = gen_.compare(Compare::eq, k_.begin, gen_.mul(part, gen_.index(length)));
    gen_.if_then(is_first, [&] { clear_columns(first); });
    return part_both_ways(first, k_.begin, k_.end);
  }
  gen_.loop(k_.begin, k_.end, [&](Scalar part) {
    const Scalar first = gen_.mul(part, gen_.index(columns));
    const Scalar from = gen_.mul(part, gen_.index(length));
    gen_.region([&] { clear_columns(first); });
    part_both_ways(first, from, gen_.min(gen_.add(from, gen_.index(length)), gen_.index(rows)));
  });
}

// Nothing is in the part's results, which begin at `first`, before its first row.
void ReductionEmitter::clear_columns(Scalar first) {
  const std::int64_t columns = dims_.back().size;
  vector_loop(k_, gen_.index(0), gen_.index(columns), columns, lanes_, [&](Scalar base) {
    for (std::size_t c = 0; c < kernel_.columns.size(); ++c)
      gen_.store(value_at_.pointer(kernel_.partials[c]), dtype(kernel_.columns[c]),
                 gen_.lane_index(gen_.add(first, base)), column_identity(c));
  });
}

// What of the first dimension is [from, to), as many rows at once as may be; the part's results begin at `first`.
void ReductionEmitter::part_both_ways(Scalar first, Scalar from, Scalar to) {
  const std::size_t down = dims_.size() - 2;
  LoopBounds bounds;
  for (std::size_t d = 0; d <= down; ++d)
    bounds.emplace_back(gen_.index(0), gen_.index(dims_[d].size));
  bounds[0] = {from, to};
  const auto [begin, end] = bounds.back();
  bounds.pop_back();
  const auto rows_by = [&](Scalar low, Scalar high, int step) {
    gen_.loop_carried(low, high, step, {}, [&](Scalar row, const Scalars&) {
      gen_.region([&] { rows_both_ways(row, step, first); });
      return Scalars{};
    });
  };
  loop_nest(gen_, bounds, [&](const Index& outer) {
    std::copy(outer.begin(), outer.end(), index_.begin());
    const int block = rows_at_once();
    const Scalar whole = end_of_whole_steps(gen_, begin, end, block);
    rows_by(begin, whole, block);
    rows_by(whole, end, 1);
  });
}

// `n` rows from `row` on; the part's results begin at `first`.
void ReductionEmitter::rows_both_ways(Scalar row, int n, Scalar first) {
  const std::size_t inner = dims_.size() - 1, down = inner - 1, sums = kernel_.columns.size();
  const std::int64_t size = dims_[inner].size, rest = size % lanes_, whole = size - rest;
  const auto step = [&](Scalar base, Scalars acc, bool mask) {
    const Scalar at = gen_.lane_index(gen_.add(first, base));
    index_[inner] = gen_.lane_index(base);
    Scalars column;
    for (std::size_t c = 0; c < sums; ++c) {
      column.push_back(
          gen_.load(value_at_.pointer(kernel_.partials[c]), dtype(kernel_.columns[c]), at));
    }
    for (int r = 0; r < n; ++r) {
      index_[down] = gen_.add(row, gen_.index(r));
      accumulate(acc, static_cast<std::size_t>(r) * count(), mask);
      for (std::size_t c = 0; c < sums; ++c)
        column[c] = column_combine(c, column[c],
                                   value_at_(eqn(kernel_.columns[c]).inputs[0], operand_point()));
    }
    for (std::size_t c = 0; c < sums; ++c) {
      gen_.store(value_at_.pointer(kernel_.partials[c]), dtype(kernel_.columns[c]), at, column[c]);
    }
    return acc;
  };
  gen_.set_lanes(lanes_, lanes_);
  Scalars acc = identities(n);
  std::int64_t from = 0;
  for (const std::int64_t to : blocks_between(seams_, lanes_, whole)) {
    acc = lanes_carried(gen_.index(from), gen_.index(to), lanes_, std::move(acc),
                        [&](Scalar base, const Scalars& carried) {
                          return step(gen_.within(base, from, to - lanes_), carried, false);
                        });
    from = to;
  }
  if (rest > 0) {
    gen_.set_lanes(lanes_, static_cast<int>(rest));
    acc = step(gen_.index(whole), std::move(acc), true);
    gen_.set_lanes(lanes_, lanes_);
  }
  std::vector<Scalars> folded;
  for (std::size_t i = 0; i < acc.size(); i += count()) folded.push_back(fold_lanes(take(acc, i)));
  gen_.set_lanes(1, 1);
  for (int r = 0; r < n; ++r) {
    index_[down] = gen_.add(row, gen_.index(r));
    finish(folded[static_cast<std::size_t>(r)]);
  }
}

void ReductionEmitter::end_both_ways() {
  const std::int64_t columns = dims_.back().size;
  const std::int64_t parts = parts_both_ways(kernel_, kernel_.part_cost);
  vector_loop(k_, gen_.index(0), gen_.index(columns), columns, lanes_, [&](Scalar base) {
    Scalars acc;
    for (std::size_t c = 0; c < kernel_.columns.size(); ++c) acc.push_back(column_identity(c));
    acc = gen_.loop_carried(
        gen_.index(0), gen_.index(parts), 1, std::move(acc),
        [&](Scalar part, const Scalars& carried) {
          const Scalar at = gen_.lane_index(gen_.add(gen_.mul(part, gen_.index(columns)), base));
          Scalars next;
          for (std::size_t c = 0; c < kernel_.columns.size(); ++c) {
            next.push_back(column_combine(
                c, carried[c],
                gen_.load(value_at_.pointer(kernel_.partials[c]), dtype(kernel_.columns[c]), at)));
          }
          return next;
        });
    for (std::size_t c = 0; c < kernel_.columns.size(); ++c) {
      const int v = k_.value_of(eqn(kernel_.columns[c]).outputs[0]);
      gen_.store(value_at_.pointer(v), k_.value(v).aval.dtype, gen_.lane_index(base), acc[c]);
    }
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
