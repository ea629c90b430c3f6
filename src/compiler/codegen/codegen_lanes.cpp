// Lanes of CodeGen: vectors, what all lanes have in common, folds and transposes in registers.
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/codegen/codegen_impl.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

using llvm::Value;

void CodeGen::set_lanes(int lanes, int active) {
  impl_->lanes = lanes;
  impl_->active = active;
}
int CodeGen::lanes() const { return impl_->lanes; }
int CodeGen::active() const { return impl_->active; }

Scalar CodeGen::lane_index(Scalar base) {
  if (impl_->lanes == 1) return base;
  const Scalar index = impl_->op(
      {kOffset, impl_->lanes, base.value(), nullptr, nullptr, impl_->active}, DType::i64, {base},
      [&](int) { return node_of(base)->value; }, 1);
  const IndexRange r = Impl::range(base);
  return Impl::with_range(index, {r.low, r.high + impl_->active - 1});
}

Scalar CodeGen::within(Scalar index, std::int64_t low, std::int64_t high) {
  const Node* n = node_of(index);
  std::int64_t known = 0;
  if (known_constant(index, known)) return index;
  if (low == high) return this->index(low);
  return Impl::with_range(Scalar(impl_->make(n->value, n->depth, n->stride), DType::i64),
                          {low, high});
}

Scalar CodeGen::splat(Scalar x) {
  Node* n = node_of(x);
  if (impl_->lanes == 1 || !is_uniform(x)) return x;
  llvm::Value* wide = impl_->as_vector(n, impl_->lanes);
  return Scalar(impl_->make(wide, n->depth), x.dtype());
}

Scalar CodeGen::any_lane(Scalar condition) {
  Impl& m = *impl_;
  const Node* n = node_of(condition);
  if (m.width(n) == 1) return condition;
  m.at(m.depth());
  Value* v = n->value;
  if (Value* mask = m.mask()) v = m.b.CreateAnd(v, mask);
  return Scalar(m.make(m.b.CreateOrReduce(v), m.depth()), DType::bool_);
}

namespace {
bool loads_zeros(const Value* v) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(v);
  if (call == nullptr || call->getIntrinsicID() != llvm::Intrinsic::masked_load) return false;
  return llvm::cast<llvm::Constant>(call->getArgOperand(3))->isNullValue();
}
}  // namespace

Scalar CodeGen::mask_lanes(Scalar x, Scalar replacement) {
  Impl& m = *impl_;
  if (m.active == m.lanes) return x;
  // A masked load has put zeros there already.
  const auto* zero = llvm::dyn_cast<llvm::Constant>(node_of(replacement)->value);
  if (zero != nullptr && zero->isNullValue() && loads_zeros(node_of(x)->value)) return x;
  return m.op(
      {kMask, m.active, x.value(), replacement.value()}, x.dtype(), {x, replacement}, [&](int) {
        Value* with = m.as_vector(node_of(replacement), m.lanes);
        // Where a masked load has put zeros, LLVM 19 takes 0 / 0 for zero and drops a selection
        // of it. It does not drop one of -0, which is as neutral in a sum that begins with +0.
        if (zero != nullptr && zero->isNullValue() && with->getType()->isFPOrFPVectorTy())
          with = llvm::ConstantFP::getNegativeZero(with->getType());
        return m.b.CreateSelect(m.mask(), m.as_vector(node_of(x), m.lanes), with);
      });
}

Scalar CodeGen::fold_lanes(Scalar x, const std::function<Scalar(Scalar, Scalar)>& combine) {
  return fold_lanes(Scalars{x}, [&](const Scalars& a, const Scalars& b) {
    return Scalars{combine(a[0], b[0])};
  })[0];
}

Scalars CodeGen::fold_lanes(Scalars x, const Combine& combine) {
  Impl& m = *impl_;
  int n = m.lanes;  // also of numbers that are the same in all of them
  for (; n > 1; n /= 2) {
    const int half = n / 2;
    std::vector<int> low, high;
    for (int i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(half + i);
    }
    Scalars lower, upper;
    for (const Scalar s : x) {
      Node* node = node_of(s);
      m.at(node->depth);
      Value* v = m.as_vector(node, n);
      Value *a, *c;
      if (half == 1) {
        a = m.b.CreateExtractElement(v, std::uint64_t{0});
        c = m.b.CreateExtractElement(v, std::uint64_t{1});
      } else {
        a = m.b.CreateShuffleVector(v, low);
        c = m.b.CreateShuffleVector(v, high);
      }
      lower.emplace_back(m.make(a, node->depth), s.dtype());
      upper.emplace_back(m.make(c, node->depth), s.dtype());
    }
    x = combine(lower, upper);
  }
  return x;
}

/// Of the lanes of two vectors, one after the other, in groups of so many: those of the lower halves.
static std::vector<int> lower_halves(int lanes, int group) {
  std::vector<int> low;
  for (int g = 0; g < 2 * lanes; g += group) {
    for (int i = 0; i < group / 2; ++i) low.push_back(g + i);
  }
  return low;
}

// Two vectors of groups become one: their lower halves side by side, combined with their upper
// halves side by side. After log2(W) rounds every group is one lane.
Scalars CodeGen::fold_rows(std::vector<Scalars> rows, const Combine& combine) {
  Impl& m = *impl_;
  const int lanes = m.lanes;
  for (int group = lanes; group > 1; group /= 2) {
    const std::vector<int> low = lower_halves(lanes, group);
    std::vector<int> high;
    for (const int lane : low) high.push_back(lane + group / 2);
    std::vector<Scalars> next;
    for (std::size_t r = 0; r < rows.size();
         r += 2) {  // neighbours, so that groups keep their order
      Scalars lower, upper;
      for (std::size_t i = 0; i < rows[r].size(); ++i) {
        Node *a = node_of(rows[r][i]), *c = node_of(rows[r + 1][i]);
        const int d = std::max(a->depth, c->depth);
        m.at(d);
        Value *x = m.as_vector(a, lanes), *y = m.as_vector(c, lanes);
        m.at(d);
        const DType dtype = rows[r][i].dtype();
        lower.emplace_back(m.make(m.b.CreateShuffleVector(x, y, low), d), dtype);
        upper.emplace_back(m.make(m.b.CreateShuffleVector(x, y, high), d), dtype);
      }
      next.push_back(combine(lower, upper));
    }
    rows = std::move(next);
  }
  return rows[0];
}

Scalar CodeGen::slide(Scalar a, Scalar c, int n) {
  if (n == 0) return a;
  Impl& m = *impl_;
  std::vector<int> lanes;
  for (int i = 0; i < m.lanes; ++i) lanes.push_back(n + i);
  const int d = std::max(node_of(a)->depth, node_of(c)->depth);
  Value *x = m.as_vector(node_of(a), m.lanes), *y = m.as_vector(node_of(c), m.lanes);
  m.at(d);
  return Scalar(m.make(m.b.CreateShuffleVector(x, y, lanes), d), a.dtype());
}

namespace {

/// What a shuffle takes: lanes of one vector and, from their number on, of another.
using Mask = std::vector<int>;

// `size` lanes of each in turns, from the lower or upper half of each part of so many lanes.
Mask in_turns(int lanes, int part, int size, bool upper) {
  Mask mask;
  for (int first = upper ? part / 2 : 0; first < lanes; first += part) {
    for (int i = first; i < first + part / 2; i += size) {
      for (int j = i; j < i + size; ++j) mask.push_back(j);
      for (int j = i; j < i + size; ++j) mask.push_back(lanes + j);
    }
  }
  return mask;
}

// Every other part, of the one and then of the other.
Mask every_other(int lanes, int part, bool odd) {
  Mask mask;
  for (int i = odd ? part : 0; i < 2 * lanes; i += 2 * part)
    for (int j = i; j < i + part; ++j) mask.push_back(j);
  return mask;
}

/// A row of a square, and which column each of its lanes is.
struct Row {
  Value* value;
  std::vector<int> columns;
};

// The lanes that each row takes of another vector, if these are of one vector, and the same for all rows. What is in the
// lanes from `active` on does not matter.
std::optional<Mask> common_order(const std::vector<Row>& rows, int active) {
  std::optional<Mask> order;
  for (const Row& r : rows) {
    const auto* const shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(r.value);
    if (shuffle == nullptr || shuffle->changesLength()) return {};
    const llvm::ArrayRef<int> lanes = shuffle->getShuffleMask();
    if (!order) order.emplace(lanes.begin(), lanes.end());
    if (lanes != llvm::ArrayRef<int>(*order)) return {};
  }
  Mask left(order->size());  // lanes that are not taken so far
  std::iota(left.begin(), left.end(), 0);
  for (int l = 0; l < active; ++l) {
    if (std::erase(left, (*order)[static_cast<std::size_t>(l)]) == 0) return {};
  }
  std::copy(left.begin(), left.end(), order->begin() + active);
  return order;
}

}  // namespace

// In round s, rows r and r + 2^s (where bit s of r is 0) become one vector of half of the columns of both, and one of
// the others, until each is one column of all rows. Within 16 bytes elements alternate, and then what two have; of
// parts of 16 bytes every other one is taken: what processors have instructions for, without registers full of places
// (64x64 on Zen 5: 0.9 of the time of exchanges).
Scalars CodeGen::transpose(Scalars rows) {
  Impl& m = *impl_;
  const int lanes = m.lanes;
  int d = 0;
  for (const Scalar r : rows) d = std::max(d, node_of(r)->depth);
  std::vector<Row> v;
  std::vector<int> all(static_cast<std::size_t>(lanes));
  std::iota(all.begin(), all.end(), 0);
  for (const Scalar r : rows) v.push_back({m.as_vector(node_of(r), lanes), all});
  m.at(d);
  for (std::size_t r = 0; r < v.size(); ++r) v[r].value = m.to_memory(v[r].value, rows[r].dtype());
  // Rows that are all turned around give the same columns from the last to the first.
  if (const std::optional<Mask> order = common_order(v, m.active)) {
    for (Row& r : v) {
      r.value = llvm::cast<llvm::ShuffleVectorInst>(r.value)->getOperand(0);
      for (std::size_t l = 0; l < order->size(); ++l)
        r.columns[static_cast<std::size_t>((*order)[l])] = static_cast<int>(l);
    }
  }
  const int bits = static_cast<int>(v[0].value->getType()->getScalarSizeInBits());
  const int part = std::min(lanes, 128 / bits);
  const auto take = [&](const Row& x, const Row& y, const Mask& mask) {
    Row out{m.b.CreateShuffleVector(x.value, y.value, mask), {}};
    for (const int i : mask)
      out.columns.push_back((i < lanes ? x : y).columns[static_cast<std::size_t>(i % lanes)]);
    return out;
  };
  for (int h = 1; h < lanes; h *= 2) {
    const auto mask = [&](bool second) {
      return h < part ? in_turns(lanes, part, h, second) : every_other(lanes, part, second);
    };
    for (int r = 0; r < lanes; ++r) {
      if ((r & h) != 0) continue;
      Row &x = v[static_cast<std::size_t>(r)],
          &y = v[static_cast<std::size_t>(r) + static_cast<std::size_t>(h)];
      Row first = take(x, y, mask(false));
      y = take(x, y, mask(true));
      x = std::move(first);
    }
  }
  for (const Row& r : v) {
    Scalar& column = rows[static_cast<std::size_t>(r.columns[0])];
    column = Scalar(m.make(m.from_memory(r.value, column.dtype()), d), column.dtype());
  }
  return rows;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
