// The arithmetic of the Emitter in LLVM instructions.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/codegen/codegen_impl.hpp"
#include "core/element.hpp"
#include "core/integers.hpp"
#include "runtime/math/vector_math.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {

namespace compiler {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

bool is_native(DType dtype) {
  return !is_complex(dtype) && dtype != DType::float0 && dtype != DType::f16 &&
         dtype != DType::bf16;
}
bool is_converted(DType dtype) {
#if defined(__x86_64__)
  const bool has_f16 = runtime::target_isa() != runtime::Isa::generic;
#else
  constexpr bool has_f16 = true;
#endif
  return dtype == DType::bf16 || (dtype == DType::f16 && has_f16);
}

namespace {

bool floating(Scalar x) { return is_float(x.dtype()); }
llvm::Constant* constant_float(llvm::Type* type, DType dtype, double value) {
  if (!detail::is_small_float(dtype)) return llvm::ConstantFP::get(type, value);
  llvm::APFloat rounded(value);
  bool loses = false;
  rounded.convert(dtype == DType::f16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                  llvm::APFloat::rmNearestTiesToEven, &loses);
  return llvm::ConstantInt::get(type, rounded.bitcastToAPInt());
}
bool boolean_type(Scalar x) { return x.dtype() == DType::bool_; }

}  // namespace

llvm::Type* CodeGen::Impl::type(DType dtype) {
  switch (dtype) {
    // Their bits: nothing is done with them but to move and to convert them, and what LLVM makes of types of their
    // own may call functions of a library that is not there.
    case DType::f16:
    case DType::bf16: return b.getInt16Ty();
    case DType::f32: return b.getFloatTy();
    case DType::f64: return b.getDoubleTy();
    case DType::bool_: return b.getInt1Ty();
    default: break;
  }
  if (!is_native(dtype)) {
    throw NotImplementedError("generated code cannot hold values of dtype " +
                              std::string(short_name(dtype)));
  }
  return b.getIntNTy(static_cast<unsigned>(size_of(dtype) * 8));
}

llvm::Type* CodeGen::Impl::memory_type(DType dtype) {
  return dtype == DType::bool_ ? b.getInt8Ty() : type(dtype);
}

Value* CodeGen::Impl::intrinsic(Intrinsic::ID id, std::initializer_list<Value*> args) {
  return b.CreateIntrinsic(id, {(*args.begin())->getType()}, args);
}

Scalar CodeGen::constant(DType dtype, double value) {
  if (!is_float(dtype)) {
    if (dtype == DType::u64 && value >= 9223372036854775808.0) {
      return constant_int(dtype, static_cast<std::int64_t>(static_cast<std::uint64_t>(value)));
    }
    if (dtype == DType::bool_) return constant_int(dtype, value != 0);
    return constant_int(dtype, static_cast<std::int64_t>(value));
  }
  Node*& n = impl_->constants[{static_cast<int>(dtype), std::bit_cast<std::uint64_t>(value)}];
  if (n == nullptr) n = impl_->make(constant_float(impl_->type(dtype), dtype, value), 0);
  return Scalar(n, dtype);
}

Scalar CodeGen::constant_int(DType dtype, std::int64_t value) {
  if (is_float(dtype)) return constant(dtype, static_cast<double>(value));
  Node*& n = impl_->constants[{static_cast<int>(dtype), static_cast<std::uint64_t>(value)}];
  if (n == nullptr) {
    n = impl_->make(
        llvm::ConstantInt::get(impl_->type(dtype), static_cast<std::uint64_t>(value), true), 0);
  }
  return Scalar(n, dtype);
}

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

// ---- ranges of indices ---------------------------------------------------------------------------
IndexRange CodeGen::Impl::range(Scalar x) {
  if (x.dtype() != DType::i64) return {};
  const Node* n = node_of(x);
  std::int64_t v = 0;
  if (known_constant(x, v))
    return v > -IndexRange::kFar && v < IndexRange::kFar ? IndexRange{v, v} : IndexRange{};
  return n->range;
}

Scalar CodeGen::Impl::with_range(Scalar x, IndexRange range) {
  Node* n = node_of(x);
  if (x.dtype() == DType::i64 && range.known()) n->range = range;
  return x;
}

namespace {

IndexRange sum(IndexRange a, IndexRange b) {
  if (!a.known() || !b.known()) return {};
  return {a.low + b.low, a.high + b.high};
}
IndexRange negative(IndexRange a) { return a.known() ? IndexRange{-a.high, -a.low} : IndexRange{}; }
IndexRange product(IndexRange a, std::int64_t k) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (!a.known() || k < 0 || k > kMost || a.low < -kMost || a.high > kMost) return {};
  return {a.low * k, a.high * k};
}

/// Whether all of a are less than all of b.
bool below(IndexRange a, IndexRange b) { return a.known() && b.known() && a.high < b.low; }
bool not_above(IndexRange a, IndexRange b) { return a.known() && b.known() && a.high <= b.low; }

/// A comparison that ranges decide: 0 or 1; else -1.
int decided(Compare how, IndexRange a, IndexRange b) {
  switch (how) {
    case Compare::lt: return below(a, b) ? 1 : not_above(b, a) ? 0 : -1;
    case Compare::le: return not_above(a, b) ? 1 : below(b, a) ? 0 : -1;
    case Compare::gt: return decided(Compare::lt, b, a);
    case Compare::ge: return decided(Compare::le, b, a);
    case Compare::eq: return below(a, b) || below(b, a) ? 0 : -1;
    case Compare::ne: return below(a, b) || below(b, a) ? 1 : -1;
  }
  return -1;
}

}  // namespace

// ---- arithmetic ----------------------------------------------------------------------------------
Scalar CodeGen::neg(Scalar x) {
  if (boolean_type(x)) return x;
  return impl_->unary(kNeg, x, x.dtype(), [&](Value* v) {
    return floating(x) ? impl_->b.CreateFNeg(v) : impl_->b.CreateNeg(v);
  });
}

Scalar CodeGen::abs(Scalar x) {
  if (is_unsigned(x)) return x;
  return impl_->unary(kAbs, x, x.dtype(), [&](Value* v) -> Value* {
    if (floating(x)) return impl_->intrinsic(Intrinsic::fabs, {v});
    return impl_->b.CreateIntrinsic(Intrinsic::abs, {v->getType()}, {v, impl_->b.getFalse()});
  });
}

Scalar CodeGen::sign(Scalar x) {
  const Scalar zero = constant_int(x.dtype(), 0), one = constant_int(x.dtype(), 1);
  if (boolean_type(x)) return x;
  const Scalar positive = compare(Compare::gt, x, zero);
  if (is_unsigned(x)) return select(positive, one, zero);
  // Zeros keep their sign and NaN stays NaN.
  return select(positive, one,
                select(compare(Compare::lt, x, zero), constant_int(x.dtype(), -1), x));
}

Scalar CodeGen::sqrt(Scalar x) {
  return impl_->unary(kSqrt, x, x.dtype(),
                      [&](Value* v) { return impl_->intrinsic(Intrinsic::sqrt, {v}); });
}
Scalar CodeGen::floor(Scalar x) {
  return impl_->unary(kFloor, x, x.dtype(),
                      [&](Value* v) { return impl_->intrinsic(Intrinsic::floor, {v}); });
}
Scalar CodeGen::ceil(Scalar x) {
  return impl_->unary(kCeil, x, x.dtype(),
                      [&](Value* v) { return impl_->intrinsic(Intrinsic::ceil, {v}); });
}
Scalar CodeGen::round_even(Scalar x) {
  return impl_->unary(kRoundEven, x, x.dtype(),
                      [&](Value* v) { return impl_->intrinsic(Intrinsic::roundeven, {v}); });
}
Scalar CodeGen::round_away(Scalar x) {
  return impl_->unary(kRoundAway, x, x.dtype(),
                      [&](Value* v) { return impl_->intrinsic(Intrinsic::round, {v}); });
}

Scalar CodeGen::is_finite(Scalar x) {
  if (!floating(x)) return constant_int(DType::bool_, 1);
  return compare(Compare::lt, abs(x), constant(x.dtype(), std::numeric_limits<double>::infinity()));
}

Scalar CodeGen::not_(Scalar x) {
  return impl_->unary(kNot, x, x.dtype(), [&](Value* v) { return impl_->b.CreateNot(v); });
}

// Of -x, x: sums take the sign in, x + (-y) = x - y, but for the sign of a NaN.
static Value* negated(Value* v) {
  const auto* sign = llvm::dyn_cast<llvm::UnaryOperator>(v);
  return sign != nullptr && sign->getOpcode() == llvm::Instruction::FNeg ? sign->getOperand(0)
                                                                         : nullptr;
}

// Index arithmetic on affine nodes: only the uniform part is computed.
// Indices of lanes that differ by what is known, as those within several rows, stay one number and these differences:
// sums that turn out to be one element after the other are read as such, and others near each other by one load.
namespace {
struct Parts {
  Scalar common;
  llvm::Constant* apart;  ///< null: none, all lanes are the same
};
}  // namespace

// None: nothing is known of how the lanes differ.
static std::optional<Parts> parts_of(CodeGen& gen, CodeGen::Impl& m, Scalar x) {
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

static Scalar together(CodeGen& gen, CodeGen::Impl& m, const Parts& parts) {
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

Scalar CodeGen::add(Scalar a, Scalar c) {
  if (boolean_type(a)) return or_(a, c);
  if (a.dtype() == DType::i64) {
    std::int64_t k = 0;
    if (known_constant(a, k) && k == 0) return c;
    if (known_constant(c, k) && k == 0) return a;
    Node *x = node_of(a), *y = node_of(c);
    if ((affine(x) || affine(y)) && (affine(x) || is_uniform(a)) && (affine(y) || is_uniform(c))) {
      const std::int64_t stride = detail::wrapping_add(x->stride, y->stride);
      return Impl::with_range(
          impl_->op(
              {kAdd, static_cast<int>(DType::i64), x, y, nullptr, 1}, DType::i64, {a, c},
              [&](int) { return impl_->b.CreateAdd(x->value, y->value); }, stride),
          sum(Impl::range(a), Impl::range(c)));
    }
    if (!is_uniform(a) || !is_uniform(c)) {
      const auto p = parts_of(*this, *impl_, a), q = parts_of(*this, *impl_, c);
      if (p && q) {
        auto* const apart = p->apart == nullptr   ? q->apart
                            : q->apart == nullptr ? p->apart
                                                  : llvm::ConstantExpr::getAdd(p->apart, q->apart);
        return Impl::with_range(together(*this, *impl_, {add(p->common, q->common), apart}),
                                sum(Impl::range(a), Impl::range(c)));
      }
    }
  }
  const Scalar out = impl_->binary(kAdd, a, c, a.dtype(), [&](Value* x, Value* y) {
    if (Value* z = negated(y)) return impl_->b.CreateFSub(x, z);
    if (Value* z = negated(x)) return impl_->b.CreateFSub(y, z);
    return floating(a) ? impl_->b.CreateFAdd(x, y) : impl_->b.CreateAdd(x, y);
  });
  return Impl::with_range(out, sum(Impl::range(a), Impl::range(c)));
}

// Numbers that only code generation finds to be known are too late for what is made of those that are known here.
static bool are_one_address(const Value* x, const Value* y) {
  const auto* a = llvm::dyn_cast_or_null<llvm::PtrToIntInst>(x);
  const auto* b = llvm::dyn_cast_or_null<llvm::PtrToIntInst>(y);
  return a != nullptr && b != nullptr && a->getPointerOperand() == b->getPointerOperand();
}

Scalar CodeGen::sub(Scalar a, Scalar c) {
  if (boolean_type(a)) return xor_(a, c);
  if (a.dtype() == DType::i64) {
    std::int64_t k = 0;
    if (known_constant(c, k) && k == 0) return a;
    Node *x = node_of(a), *y = node_of(c);
    if (are_one_address(x->value, y->value)) return index(0);
    if ((affine(x) || affine(y)) && (affine(x) || is_uniform(a)) && (affine(y) || is_uniform(c))) {
      return Impl::with_range(
          impl_->op(
              {kSub, static_cast<int>(DType::i64), x, y, nullptr, 1}, DType::i64, {a, c},
              [&](int) { return impl_->b.CreateSub(x->value, y->value); },
              detail::wrapping_sub(x->stride, y->stride)),
          sum(Impl::range(a), negative(Impl::range(c))));
    }
  }
  const Scalar out = impl_->binary(kSub, a, c, a.dtype(), [&](Value* x, Value* y) {
    if (Value* z = negated(y)) return impl_->b.CreateFAdd(x, z);
    return floating(a) ? impl_->b.CreateFSub(x, y) : impl_->b.CreateSub(x, y);
  });
  return Impl::with_range(out, sum(Impl::range(a), negative(Impl::range(c))));
}

Scalar CodeGen::mul(Scalar a, Scalar c) {
  if (boolean_type(a)) return and_(a, c);
  if (a.dtype() == DType::i64) {
    std::int64_t k = 0;
    if (known_constant(a, k)) std::swap(a, c);
    if (known_constant(c, k)) {
      if (k == 1) return a;
      if (k == 0) return c;
      Node* x = node_of(a);
      if (affine(x)) {
        return Impl::with_range(
            impl_->op(
                {kMul, static_cast<int>(DType::i64), x, c.value(), nullptr, 1}, DType::i64, {a, c},
                [&](int) { return impl_->b.CreateMul(x->value, node_of(c)->value); },
                detail::wrapping_mul(x->stride, k)),
            product(Impl::range(a), k));
      }
      if (const auto p = is_uniform(a) ? std::nullopt : parts_of(*this, *impl_, a)) {
        auto* const factors = llvm::ConstantInt::getSigned(p->apart->getType(), k);
        auto* const apart = llvm::cast<llvm::Constant>(impl_->b.CreateMul(p->apart, factors));
        return Impl::with_range(together(*this, *impl_, {mul(p->common, c), apart}),
                                product(Impl::range(a), k));
      }
    }
  }
  const Scalar out = impl_->binary(kMul, a, c, a.dtype(), [&](Value* x, Value* y) {
    if (impl_->options.quick) {  // for sums that may follow
      Value *p = negated(x), *q = negated(y);
      if (p != nullptr && q != nullptr) return impl_->b.CreateFMul(p, q);
      if (p != nullptr) return impl_->b.CreateFNeg(impl_->b.CreateFMul(p, y));
      if (q != nullptr) return impl_->b.CreateFNeg(impl_->b.CreateFMul(x, q));
    }
    return floating(a) ? impl_->b.CreateFMul(x, y) : impl_->b.CreateMul(x, y);
  });
  std::int64_t factor = 0;
  return a.dtype() == DType::i64 && known_constant(c, factor)
             ? Impl::with_range(out, product(Impl::range(a), factor))
             : out;
}

Scalar CodeGen::fma(Scalar a, Scalar b, Scalar c) {
  if (!floating(a)) return add(mul(a, b), c);
  return impl_->op({kFma, static_cast<int>(a.dtype()), a.value(), b.value(), c.value()}, a.dtype(),
                   {a, b, c}, [&](int w) -> Value* {
                     Value* x = impl_->as(node_of(a), w);
                     Value* y = impl_->as(node_of(b), w);
                     Value* z = impl_->as(node_of(c), w);
                     if (runtime::target_isa() == runtime::Isa::generic) {
                       return impl_->b.CreateFAdd(impl_->b.CreateFMul(x, y), z);
                     }
                     return impl_->intrinsic(Intrinsic::fma, {x, y, z});
                   });
}

static Intrinsic::ID pairs_of([[maybe_unused]] int lanes) {
#if defined(__x86_64__)
  switch (lanes) {
    case 4: return Intrinsic::x86_sse2_pmadd_wd;
    case 8: return Intrinsic::x86_avx2_pmadd_wd;
    case 16: return Intrinsic::x86_avx512_pmaddw_d_512;
    default: break;
  }
#endif
  return Intrinsic::not_intrinsic;
}
bool CodeGen::has_pairs(int lanes) { return pairs_of(lanes) != Intrinsic::not_intrinsic; }

Scalar CodeGen::add_pairs(Scalar ad, Scalar be, Scalar c) {
  return impl_->op({kFma, static_cast<int>(c.dtype()), ad.value(), be.value(), c.value()},
                   c.dtype(), {ad, be, c}, [&](int w) -> Value* {
                     auto& b = impl_->b;
                     llvm::Type* halves = impl_->vector_type(b.getInt16Ty(), 2 * w);
                     Value* x = b.CreateBitCast(impl_->as(node_of(ad), w), halves);
                     Value* y = b.CreateBitCast(impl_->as(node_of(be), w), halves);
                     return b.CreateAdd(b.CreateIntrinsic(pairs_of(w), {}, {x, y}),
                                        impl_->as(node_of(c), w));
                   });
}

namespace {

// Quotient or remainder with a divisor that cannot trap: x / 0 and lowest / -1 divide by 1 instead.
// lowest / 1 = lowest is what wrapping gives, and lowest % 1 = 0 too.
template <class B, class Divide>
Value* guarded_division(B& b, Value* x, Value* y, bool is_signed, Value* at_zero, Divide&& divide) {
  if (const auto* c = llvm::dyn_cast<llvm::Constant>(y)) {
    const llvm::Constant* element = c->getType()->isVectorTy() ? c->getSplatValue() : c;
    const auto* k = llvm::dyn_cast_or_null<llvm::ConstantInt>(element);
    if (k != nullptr && !k->isZero() && !k->isMinusOne()) return divide(x, y);
  }
  llvm::Type* t = y->getType();
  Value* zero = llvm::Constant::getNullValue(t);
  Value* one = llvm::ConstantInt::get(t, 1);
  Value* is_zero = b.CreateICmpEQ(y, zero);
  Value* unsafe = is_zero;
  if (is_signed) {
    const unsigned bits = t->getScalarSizeInBits();
    Value* lowest = llvm::ConstantInt::get(t, llvm::APInt::getSignedMinValue(bits));
    Value* overflow = b.CreateAnd(b.CreateICmpEQ(x, lowest),
                                  b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(t)));
    unsafe = b.CreateOr(is_zero, overflow);
  }
  return b.CreateSelect(is_zero, at_zero, divide(x, b.CreateSelect(unsafe, one, y)));
}

// Vectors are divided as floating point only, for which there are instructions. A quotient q of up to 16 bits lies at least
// q 2^-16 from a whole number that it does not reach, and is rounded by q 2^-24 as f32; of 32 bits by q 2^-53, as f64.
template <class B> Value* quotient(B& b, Value* x, Value* y, bool is_signed) {
  llvm::Type* t = x->getType();
  const unsigned bits = t->getScalarSizeInBits();
  if (!t->isVectorTy() || bits > 32 || llvm::isa<llvm::Constant>(y))
    return is_signed ? b.CreateSDiv(x, y) : b.CreateUDiv(x, y);
  llvm::Type* floats = t->getWithNewType(bits > 16 ? b.getDoubleTy() : b.getFloatTy());
  const auto converted = [&](Value* v) {
    return is_signed ? b.CreateSIToFP(v, floats) : b.CreateUIToFP(v, floats);
  };
  Value* ratio = b.CreateFDiv(converted(x), converted(y));
  return is_signed ? b.CreateFPToSI(ratio, t) : b.CreateFPToUI(ratio, t);
}

// Whether the numbers, as of indices, are known to fit into 32 bits, for which alone there are products of vectors of which the
// upper halves are wanted: constants divide by such.
bool is_narrow(const IndexRange& r) {
  return r.low > std::numeric_limits<std::int32_t>::min() &&
         r.high <= std::numeric_limits<std::int32_t>::max();
}
/// divide(x, y), in 32 bits where that is enough.
template <class B, class Divide>
Value* in_few_bits(B& b, Value* x, Value* y, bool narrow, Divide&& divide) {
  if (!narrow || !x->getType()->isVectorTy()) return divide(x, y);
  llvm::Type* t = x->getType()->getWithNewType(b.getInt32Ty());
  return b.CreateSExt(divide(b.CreateTrunc(x, t), b.CreateTrunc(y, t)), x->getType());
}

}  // namespace

Scalar CodeGen::div(Scalar a, Scalar c) {
  if (boolean_type(a)) return a;
  const bool is_signed = !is_unsigned(a);
  const bool narrow = is_narrow(Impl::range(a)) && is_narrow(Impl::range(c));
  const Scalar out = impl_->binary(kDiv, a, c, a.dtype(), [&](Value* x, Value* y) -> Value* {
    auto& b = impl_->b;
    if (floating(a)) return b.CreateFDiv(x, y);
    return in_few_bits(b, x, y, narrow, [&](Value* n, Value* d) {
      return guarded_division(b, n, d, is_signed, llvm::Constant::getAllOnesValue(n->getType()),
                              [&](Value* u, Value* v) { return quotient(b, u, v, is_signed); });
    });
  });
  std::int64_t k = 0;
  const IndexRange r = Impl::range(a);
  const bool known = r.known() && known_constant(c, k) && k > 0;
  return known ? Impl::with_range(out, {r.low / k, r.high / k}) : out;
}

Scalar CodeGen::rem(Scalar a, Scalar c) {
  if (boolean_type(a)) return and_(a, not_(a));
  if (floating(a)) return math("rem", std::array{a, c});
  const bool is_signed = !is_unsigned(a);
  const bool narrow = is_narrow(Impl::range(a)) && is_narrow(Impl::range(c));
  const Scalar out = impl_->binary(kRem, a, c, a.dtype(), [&](Value* x, Value* y) -> Value* {
    auto& b = impl_->b;
    return in_few_bits(b, x, y, narrow, [&](Value* n, Value* d) {
      return guarded_division(b, n, d, is_signed, n, [&](Value* u, Value* v) {
        if (llvm::isa<llvm::Constant>(v))
          return is_signed ? b.CreateSRem(u, v) : b.CreateURem(u, v);
        return b.CreateSub(u, b.CreateMul(quotient(b, u, v, is_signed), v));
      });
    });
  });
  std::int64_t k = 0;
  if (a.dtype() != DType::i64 || !known_constant(c, k) || k <= 0) return out;
  const IndexRange r = Impl::range(a);
  return Impl::with_range(
      out, {r.low < 0 ? 1 - k : 0, std::min(std::max<std::int64_t>(r.high, 0), k - 1)});
}

namespace {

// A constant that is neither NaN nor a zero: then a comparison alone decides, and gives the other
// operand when that is NaN.
bool plain_constant(Value* v) {
  const auto* c = llvm::dyn_cast<llvm::Constant>(v);
  if (c == nullptr) return false;
  const llvm::Constant* element = c->getType()->isVectorTy() ? c->getSplatValue() : c;
  const auto* f = llvm::dyn_cast_or_null<llvm::ConstantFP>(element);
  return f != nullptr && !f->isZero() && !f->isNaN();
}

}  // namespace

// The builder folds comparisons and selections of constants, but no intrinsics.
static bool both_known(const Value* x, const Value* y) {
  return llvm::isa<llvm::Constant>(x) && llvm::isa<llvm::Constant>(y);
}

// y unless x is greater (less), and x where x is NaN: the inner select is one instruction. Of more than two numbers those are
// compared first, and any two of them are looked at for NaN at once.
Value* CodeGen::Impl::extreme(bool greatest, Value* x, Value* y) {
  const auto of_two = [&](Value* p, Value* q) {
    return b.CreateSelect(greatest ? b.CreateFCmpOGT(p, q) : b.CreateFCmpOLT(p, q), p, q);
  };
  if (plain_constant(y)) std::swap(x, y);
  if (plain_constant(x)) return of_two(x, y);
  const auto numbers = [&](Value* v) {
    const auto found = extremes.find(v);
    return found != extremes.end() && found->second.greatest == greatest
               ? found->second
               : Extreme{greatest, v, nullptr, {v}};
  };
  const auto both = [&](Value* p, Value* q) {
    return p == nullptr || q == nullptr ? (p == nullptr ? q : p) : b.CreateAnd(p, q);
  };
  Extreme all = numbers(x);
  const Extreme more = numbers(y);
  const bool is_pair = all.number == x && more.number == y;
  all.number = of_two(all.number, more.number);
  all.ordered = both(all.ordered, more.ordered);
  std::vector<Value*>& left = all.untested;
  left.insert(left.end(), more.untested.begin(), more.untested.end());
  Value* out;
  if (is_pair) {
    out = b.CreateSelect(b.CreateFCmpUNO(x, x), x, all.number);
  } else {
    for (; left.size() >= 2; left.erase(left.begin(), left.begin() + 2))
      all.ordered = both(all.ordered, b.CreateFCmpORD(left[0], left[1]));
    Value* const ordered =
        left.empty() ? all.ordered : both(all.ordered, b.CreateFCmpORD(left[0], left[0]));
    out = b.CreateSelect(ordered, all.number, llvm::ConstantFP::getNaN(x->getType()));
  }
  if (x->getType()->isVectorTy()) extremes.insert({out, std::move(all)});
  return out;
}

Scalar CodeGen::max(Scalar a, Scalar c) {
  if (boolean_type(a)) return or_(a, c);
  const IndexRange r = Impl::range(a), q = Impl::range(c);
  if (not_above(r, q)) return c;
  if (not_above(q, r)) return a;
  const Scalar out = impl_->binary(kMax, a, c, a.dtype(), [&](Value* x, Value* y) -> Value* {
    auto& b = impl_->b;
    if (floating(a)) return impl_->extreme(true, x, y);
    if (both_known(x, y))
      return b.CreateSelect(is_unsigned(a) ? b.CreateICmpUGT(x, y) : b.CreateICmpSGT(x, y), x, y);
    return b.CreateBinaryIntrinsic(is_unsigned(a) ? Intrinsic::umax : Intrinsic::smax, x, y);
  });
  return Impl::with_range(out, {std::max(r.low, q.low), std::max(r.high, q.high)});
}

Scalar CodeGen::min(Scalar a, Scalar c) {
  if (boolean_type(a)) return and_(a, c);
  const IndexRange r = Impl::range(a), q = Impl::range(c);
  if (not_above(r, q)) return a;
  if (not_above(q, r)) return c;
  const Scalar out = impl_->binary(kMin, a, c, a.dtype(), [&](Value* x, Value* y) -> Value* {
    auto& b = impl_->b;
    if (floating(a)) return impl_->extreme(false, x, y);
    if (both_known(x, y))
      return b.CreateSelect(is_unsigned(a) ? b.CreateICmpULT(x, y) : b.CreateICmpSLT(x, y), x, y);
    return b.CreateBinaryIntrinsic(is_unsigned(a) ? Intrinsic::umin : Intrinsic::smin, x, y);
  });
  return Impl::with_range(out, {std::min(r.low, q.low), std::min(r.high, q.high)});
}

Scalar CodeGen::and_(Scalar a, Scalar c) {
  std::int64_t known = 0;
  if (boolean_type(a) && known_constant(a, known)) return known != 0 ? c : a;
  if (boolean_type(c) && known_constant(c, known)) return known != 0 ? a : c;
  return impl_->binary(kAnd, a, c, a.dtype(),
                       [&](Value* x, Value* y) { return impl_->b.CreateAnd(x, y); });
}
Scalar CodeGen::or_(Scalar a, Scalar c) {
  return impl_->binary(kOr, a, c, a.dtype(),
                       [&](Value* x, Value* y) { return impl_->b.CreateOr(x, y); });
}
Scalar CodeGen::xor_(Scalar a, Scalar c) {
  return impl_->binary(kXor, a, c, a.dtype(),
                       [&](Value* x, Value* y) { return impl_->b.CreateXor(x, y); });
}

namespace {

// Shifts by the width or more are undefined in LLVM: they give `beyond` here. Amounts count as
// unsigned, so negative ones are large.
template <class B, class Shift>
Value* guarded_shift(B& b, Value* x, Value* amount, Value* beyond, Shift&& shift) {
  llvm::Type* t = x->getType();
  Value* bits = llvm::ConstantInt::get(t, t->getScalarSizeInBits());
  Value* inside = b.CreateICmpULT(amount, bits);
  Value* safe = b.CreateSelect(inside, amount, llvm::Constant::getNullValue(t));
  return b.CreateSelect(inside, shift(x, safe), beyond);
}

}  // namespace

Scalar CodeGen::shift_left(Scalar a, Scalar c) {
  return impl_->binary(kShl, a, c, a.dtype(), [&](Value* x, Value* y) {
    return guarded_shift(impl_->b, x, y, llvm::Constant::getNullValue(x->getType()),
                         [&](Value* v, Value* n) { return impl_->b.CreateShl(v, n); });
  });
}
Scalar CodeGen::shift_right_logical(Scalar a, Scalar c) {
  return impl_->binary(kLshr, a, c, a.dtype(), [&](Value* x, Value* y) {
    return guarded_shift(impl_->b, x, y, llvm::Constant::getNullValue(x->getType()),
                         [&](Value* v, Value* n) { return impl_->b.CreateLShr(v, n); });
  });
}
Scalar CodeGen::shift_right_arithmetic(Scalar a, Scalar c) {
  // Unsigned operands too: their top bit counts as a sign, as in XLA.
  return impl_->binary(kAshr, a, c, a.dtype(), [&](Value* x, Value* y) {
    auto& b = impl_->b;
    Value* sign = b.CreateAShr(
        x, llvm::ConstantInt::get(x->getType(), x->getType()->getScalarSizeInBits() - 1));
    return guarded_shift(b, x, y, sign, [&](Value* v, Value* n) { return b.CreateAShr(v, n); });
  });
}

Scalar CodeGen::compare(Compare how, Scalar a, Scalar c) {
  using P = llvm::CmpInst::Predicate;
  static constexpr P kFloat[] = {P::FCMP_OEQ, P::FCMP_UNE, P::FCMP_OLT,
                                 P::FCMP_OLE, P::FCMP_OGT, P::FCMP_OGE};
  static constexpr P kSigned[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_SLT,
                                  P::ICMP_SLE, P::ICMP_SGT, P::ICMP_SGE};
  static constexpr P kUnsigned[] = {P::ICMP_EQ,  P::ICMP_NE,  P::ICMP_ULT,
                                    P::ICMP_ULE, P::ICMP_UGT, P::ICMP_UGE};
  const auto i = static_cast<std::size_t>(how);
  if (const int known = decided(how, Impl::range(a), Impl::range(c)); known >= 0)
    return constant_int(DType::bool_, known);
  return impl_->binary(
      kCompare, a, c, DType::bool_,
      [&](Value* x, Value* y) {
        return impl_->b.CreateCmp(floating(a)      ? kFloat[i]
                                  : is_unsigned(a) ? kUnsigned[i]
                                                   : kSigned[i],
                                  x, y);
      },
      static_cast<std::int64_t>(how));
}

Scalar CodeGen::select(Scalar condition, Scalar if_true, Scalar if_false) {
  if (if_true.value() == if_false.value()) return if_true;
  std::int64_t k = 0;
  if (known_constant(condition, k)) return k != 0 ? if_true : if_false;
  return impl_->op({kSelect, static_cast<int>(if_true.dtype()), condition.value(), if_true.value(),
                    if_false.value()},
                   if_true.dtype(), {condition, if_true, if_false}, [&](int w) {
                     // A condition of one lane chooses between whole vectors.
                     Value* which = is_uniform(condition) ? node_of(condition)->value
                                                          : impl_->as(node_of(condition), w);
                     Value* t = impl_->as(node_of(if_true), w);
                     Value* f = impl_->as(node_of(if_false), w);
                     return impl_->b.CreateSelect(which, t, f);
                   });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
