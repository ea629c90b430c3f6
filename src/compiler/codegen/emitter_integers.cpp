// Division and shifts: what is undefined in LLVM has a value here.
#include <llvm/Support/DivisionByConstantInfo.h>

#include <algorithm>
#include <array>
#include <limits>

#include "compiler/codegen/codegen_impl.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

using llvm::Value;

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

// The upper halves of products of vectors of 64 bits, for which there is no instruction, by a constant: from the products of
// halves, all of which fit into 64 bits.
template <class B> Value* upper_product(B& b, Value* x, const llvm::APInt& c, bool is_signed) {
  llvm::Type* t = x->getType();
  const auto number = [&](std::uint64_t n) { return llvm::ConstantInt::get(t, n); };
  const auto upper = [&](Value* v) { return b.CreateLShr(v, 32); };
  const auto lower = [&](Value* v) { return b.CreateAnd(v, number(UINT32_MAX)); };
  Value *const low = lower(x), *const high = upper(x);
  Value* const c_low = number(c.getLoBits(32).getZExtValue());
  Value* const c_high = number(c.lshr(32).getZExtValue());
  Value* const inner = b.CreateAdd(b.CreateMul(high, c_low), upper(b.CreateMul(low, c_low)));
  Value* const outer = b.CreateAdd(b.CreateMul(low, c_high), lower(inner));
  Value* const product =
      b.CreateAdd(b.CreateMul(high, c_high), b.CreateAdd(upper(inner), upper(outer)));
  if (!is_signed) return product;
  // Each factor below 0 counts as 2^64 more.
  Value* const less = b.CreateAnd(b.CreateAShr(x, 63), llvm::ConstantInt::get(t, c));
  Value* const first = b.CreateSub(product, less);
  return c.isNegative() ? b.CreateSub(first, x) : first;
}

// Of vectors of 64 bits and a constant: LLVM would take the lanes apart, ten instructions and more for each (remainders of i64
// on Zen 4: 0.53 of the time with AVX-512, 0.9 with AVX2). Warren, Hacker's Delight, chapter 10.
template <class B>
Value* quotient_by(B& b, Value* x, const llvm::APInt& c, bool is_signed) {
  if (is_signed) {
    const auto magic = llvm::SignedDivisionByConstantInfo::get(c);
    Value* q = upper_product(b, x, magic.Magic, true);
    if (!c.isNegative() && magic.Magic.isNegative()) q = b.CreateAdd(q, x);
    if (c.isNegative() && !magic.Magic.isNegative()) q = b.CreateSub(q, x);
    q = b.CreateAShr(q, magic.ShiftAmount);
    return b.CreateAdd(q, b.CreateLShr(q, 63));
  }
  const auto magic = llvm::UnsignedDivisionByConstantInfo::get(c);
  Value* const q = upper_product(b, b.CreateLShr(x, magic.PreShift), magic.Magic, false);
  if (!magic.IsAdd) return b.CreateLShr(q, magic.PostShift);
  Value* const half = b.CreateLShr(b.CreateSub(x, q), 1);
  return b.CreateLShr(b.CreateAdd(half, q), magic.PostShift);
}

/// The constant by which vectors of 64 bits are divided, where that is not a matter of shifts.
const llvm::APInt* multiplied(const Value* x, const Value* divisor) {
  const auto* const t = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (t == nullptr || t->getNumElements() < 4 || t->getScalarSizeInBits() != 64) return nullptr;
  const auto* const c = llvm::dyn_cast<llvm::Constant>(divisor);
  const auto* const k =
      c == nullptr ? nullptr : llvm::dyn_cast_or_null<llvm::ConstantInt>(c->getSplatValue());
  return k == nullptr || k->getValue().abs().isPowerOf2() ? nullptr : &k->getValue();
}

// Vectors are divided as floating point only, for which there are instructions. A quotient q of up to 16 bits lies at least
// q 2^-16 from a whole number that it does not reach, and is rounded by q 2^-24 as f32; of 32 bits by q 2^-53, as f64.
template <class B> Value* quotient(B& b, Value* x, Value* y, bool is_signed) {
  llvm::Type* t = x->getType();
  const unsigned bits = t->getScalarSizeInBits();
  if (const llvm::APInt* c = multiplied(x, y)) return quotient_by(b, x, *c, is_signed);
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

Scalar CodeGen::div(Scalar a, Scalar c) {
  if (is_boolean(a)) return a;
  const bool is_signed = !is_unsigned(a);
  const bool narrow = is_narrow(Impl::range(a)) && is_narrow(Impl::range(c));
  const Scalar out = impl_->binary(kDiv, a, c, a.dtype(), [&](Value* x, Value* y) -> Value* {
    auto& b = impl_->b;
    if (is_floating(a)) return b.CreateFDiv(x, y);
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
  if (is_boolean(a)) return and_(a, not_(a));
  if (is_floating(a)) return math("rem", std::array{a, c});
  const bool is_signed = !is_unsigned(a);
  const bool narrow = is_narrow(Impl::range(a)) && is_narrow(Impl::range(c));
  const Scalar out = impl_->binary(kRem, a, c, a.dtype(), [&](Value* x, Value* y) -> Value* {
    auto& b = impl_->b;
    return in_few_bits(b, x, y, narrow, [&](Value* n, Value* d) {
      return guarded_division(b, n, d, is_signed, n, [&](Value* u, Value* v) {
        if (llvm::isa<llvm::Constant>(v) && multiplied(u, v) == nullptr)
          return is_signed ? b.CreateSRem(u, v) : b.CreateURem(u, v);
        return b.CreateSub(u, b.CreateMul(quotient(b, u, v, is_signed), v));
      });
    });
  });
  std::int64_t k = 0;
  if (!Impl::has_range(a.dtype()) || !known_constant(c, k) || k <= 0) return out;
  const IndexRange r = Impl::range(a);
  return Impl::with_range(
      out, {r.low < 0 ? 1 - k : 0, std::min(std::max<std::int64_t>(r.high, 0), k - 1)});
}

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

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
