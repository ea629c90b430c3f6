// Index arithmetic: what all lanes share is one number, computed once, where it is known how they differ.
#include <optional>
#include <vector>

#include "compiler/codegen/codegen_impl.hpp"
#include "core/integers.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

using llvm::Value;

namespace {

// Indices of lanes that differ by what is known, as those within several rows, stay one number and these differences:
// sums that turn out to be one element after the other are read as such, and others near each other by one load.
struct Parts {
  Scalar common;
  llvm::Constant* apart;  ///< null: none, all lanes are the same
};
// None: nothing is known of how the lanes differ.
std::optional<Parts> parts_of(CodeGen& gen, CodeGen::Impl& m, Scalar x) {
  const Node* n = node_of(x);
  if (m.width(n) == 1) return Parts{x, nullptr};
  if (n->apart != nullptr) return Parts{Scalar(n->common, DType::i64), n->apart};
  if (m.width(n) != m.lanes) return std::nullopt;
  if (affine(n) && !llvm::isa<llvm::Constant>(n->value)) {
    std::vector<llvm::Constant*> steps;
    for (int lane = 0; lane < m.lanes; ++lane)
      steps.push_back(
          llvm::ConstantInt::getSigned(m.b.getInt64Ty(), detail::wrapping_mul(lane, n->stride)));
    const Scalar base = m.op({kAdd, static_cast<int>(DType::i64), n, nullptr, nullptr, 0},
                             DType::i64, {x}, [&](int) { return n->value; });
    return Parts{base, llvm::ConstantVector::get(steps)};
  }
  if (!llvm::isa<llvm::Constant>(n->value)) return std::nullopt;
  auto* const known = llvm::dyn_cast<llvm::Constant>(m.as_vector(node_of(x), m.lanes));
  if (known == nullptr) return std::nullopt;
  for (int lane = 0; lane < m.lanes; ++lane) {
    const auto* const one = known->getAggregateElement(static_cast<unsigned>(lane));
    if (one == nullptr || !llvm::isa<llvm::ConstantInt>(one)) return std::nullopt;
  }
  return Parts{gen.index(0), known};
}

Scalar together(CodeGen& gen, CodeGen::Impl& m, const Parts& parts) {
  const auto at = [&](int lane) {
    return llvm::cast<llvm::ConstantInt>(
               parts.apart->getAggregateElement(static_cast<unsigned>(lane)))
        ->getSExtValue();
  };
  bool one_by_one = true, same = true;
  for (int lane = 1; lane < m.lanes; ++lane) {
    one_by_one &= at(lane) == detail::wrapping_add(at(0), lane);
    same &= at(lane) == at(0);
  }
  if (same) return gen.add(parts.common, gen.index(at(0)));
  if (one_by_one) return gen.lane_index(gen.add(parts.common, gen.index(at(0))));
  const Scalar x = m.op(
      {kAdd, static_cast<int>(DType::i64), parts.common.value(), parts.apart, nullptr, m.lanes},
      DType::i64, {parts.common}, [&](int) -> Value* {
        return m.b.CreateAdd(m.as_vector(node_of(parts.common), m.lanes), parts.apart);
      });
  node_of(x)->common = node_of(parts.common);
  node_of(x)->apart = parts.apart;
  return x;
}

// Numbers that only code generation finds to be known are too late for what is made of those that are known here.
bool are_one_address(const Value* x, const Value* y) {
  const auto* a = llvm::dyn_cast_or_null<llvm::PtrToIntInst>(x);
  const auto* b = llvm::dyn_cast_or_null<llvm::PtrToIntInst>(y);
  return a != nullptr && b != nullptr && a->getPointerOperand() == b->getPointerOperand();
}

}  // namespace

Node* CodeGen::Impl::constant_node(std::int64_t v) {
  Node*& n = constants[{static_cast<int>(DType::i64), static_cast<std::uint64_t>(v)}];
  if (n == nullptr)
    n = make(llvm::ConstantInt::get(b.getInt64Ty(), static_cast<std::uint64_t>(v), true), 0);
  return n;
}

bool CodeGen::known_constant(Scalar x, std::int64_t& value) {
  const Node* n = node_of(x);
  if (n->stride != 0) return false;
  const auto* c = llvm::dyn_cast<llvm::ConstantInt>(n->value);
  if (c == nullptr) return false;
  value = c->getSExtValue();
  return true;
}

std::optional<KnownBounds> CodeGen::known_bounds(Scalar begin, Scalar end) {
  KnownBounds known;
  if (!known_constant(begin, known.first) || !known_constant(end, known.last)) return {};
  return known;
}

IndexRange CodeGen::Impl::range(Scalar x) {
  if (!has_range(x.dtype())) return {};
  const Node* n = node_of(x);
  std::int64_t v = 0;
  if (known_constant(x, v))
    return v > -IndexRange::kFar && v < IndexRange::kFar ? IndexRange{v, v} : IndexRange{};
  return n->range;
}

IndexRange CodeGen::lies_in(Scalar x) { return Impl::range(x); }

Scalar CodeGen::known_to_lie_in(Scalar x, const IndexRange& range) {
  return Impl::with_range(x, range);
}

Scalar CodeGen::Impl::with_range(Scalar x, IndexRange range) {
  // What a type does not hold wraps around.
  const bool holds = x.dtype() == DType::i64 ||
                     (has_range(x.dtype()) && range.low >= INT32_MIN && range.high <= INT32_MAX);
  if (holds && range.known()) node_of(x)->range = range;
  return x;
}

std::optional<Scalar> CodeGen::Impl::index_sum(CodeGen& gen, Scalar a, Scalar c) {
  if (a.dtype() != DType::i64) return std::nullopt;
  std::int64_t k = 0;
  if (known_constant(a, k) && k == 0) return c;
  if (known_constant(c, k) && k == 0) return a;
  Node *x = node_of(a), *y = node_of(c);
  const bool one_a = gen.is_uniform(a), one_c = gen.is_uniform(c);
  if ((affine(x) || affine(y)) && (affine(x) || one_a) && (affine(y) || one_c)) {
    const std::int64_t stride = detail::wrapping_add(x->stride, y->stride);
    return with_range(op(
                          {kAdd, static_cast<int>(DType::i64), x, y, nullptr, 1}, DType::i64,
                          {a, c}, [&](int) { return b.CreateAdd(x->value, y->value); }, stride),
                      range(a) + range(c));
  }
  if (one_a && one_c) return std::nullopt;
  const auto p = parts_of(gen, *this, a), q = parts_of(gen, *this, c);
  if (!p || !q) return std::nullopt;
  auto* const apart = p->apart == nullptr   ? q->apart
                      : q->apart == nullptr ? p->apart
                                            : llvm::ConstantExpr::getAdd(p->apart, q->apart);
  return with_range(together(gen, *this, {gen.add(p->common, q->common), apart}),
                    range(a) + range(c));
}

std::optional<Scalar> CodeGen::Impl::index_difference(CodeGen& gen, Scalar a, Scalar c) {
  if (a.dtype() != DType::i64) return std::nullopt;
  std::int64_t k = 0;
  if (known_constant(c, k) && k == 0) return a;
  Node *x = node_of(a), *y = node_of(c);
  if (are_one_address(x->value, y->value)) return gen.index(0);
  const bool one_a = gen.is_uniform(a), one_c = gen.is_uniform(c);
  if ((affine(x) || affine(y)) && (affine(x) || one_a) && (affine(y) || one_c)) {
    const std::int64_t stride = detail::wrapping_sub(x->stride, y->stride);
    return with_range(op(
                          {kSub, static_cast<int>(DType::i64), x, y, nullptr, 1}, DType::i64,
                          {a, c}, [&](int) { return b.CreateSub(x->value, y->value); }, stride),
                      range(a) + -range(c));
  }
  if (one_a && one_c) return std::nullopt;
  const auto p = parts_of(gen, *this, a), q = parts_of(gen, *this, c);
  if (!p || !q) return std::nullopt;
  auto* const apart = q->apart == nullptr   ? p->apart
                      : p->apart == nullptr ? llvm::ConstantExpr::getNeg(q->apart)
                                            : llvm::ConstantExpr::getSub(p->apart, q->apart);
  return with_range(together(gen, *this, {gen.sub(p->common, q->common), apart}),
                    range(a) + -range(c));
}

std::optional<Scalar> CodeGen::Impl::index_product(CodeGen& gen, Scalar a, Scalar c) {
  std::int64_t k = 0;
  if (a.dtype() != DType::i64 || !known_constant(c, k)) return std::nullopt;
  if (k == 1) return a;
  if (k == 0) return c;
  Node* x = node_of(a);
  if (affine(x)) {
    return with_range(
        op(
            {kMul, static_cast<int>(DType::i64), x, c.value(), nullptr, 1}, DType::i64, {a, c},
            [&](int) { return b.CreateMul(x->value, node_of(c)->value); },
            detail::wrapping_mul(x->stride, k)),
        range(a) * k);
  }
  const auto p = gen.is_uniform(a) ? std::nullopt : parts_of(gen, *this, a);
  if (!p) return std::nullopt;
  auto* const factors = llvm::ConstantInt::getSigned(p->apart->getType(), k);
  auto* const apart = llvm::cast<llvm::Constant>(b.CreateMul(p->apart, factors));
  return with_range(together(gen, *this, {gen.mul(p->common, c), apart}), range(a) * k);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
