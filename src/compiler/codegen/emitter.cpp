// The arithmetic of the Emitter in LLVM instructions.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "compiler/codegen/codegen_impl.hpp"
#include "compiler/codegen/llvm_session.hpp"
#include "core/element.hpp"
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

llvm::Constant* constant_float(llvm::Type* type, DType dtype, double value) {
  if (!detail::is_small_float(dtype)) return llvm::ConstantFP::get(type, value);
  llvm::APFloat rounded(value);
  bool loses = false;
  rounded.convert(dtype == DType::f16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                  llvm::APFloat::rmNearestTiesToEven, &loses);
  return llvm::ConstantInt::get(type, rounded.bitcastToAPInt());
}

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

// ---- arithmetic ----------------------------------------------------------------------------------
Scalar CodeGen::neg(Scalar x) {
  if (is_boolean(x)) return x;
  return impl_->unary(kNeg, x, x.dtype(), [&](Value* v) {
    return is_floating(x) ? impl_->b.CreateFNeg(v) : impl_->b.CreateNeg(v);
  });
}

Scalar CodeGen::abs(Scalar x) {
  if (is_unsigned(x)) return x;
  return impl_->unary(kAbs, x, x.dtype(), [&](Value* v) -> Value* {
    if (is_floating(x)) return impl_->intrinsic(Intrinsic::fabs, {v});
    return impl_->b.CreateIntrinsic(Intrinsic::abs, {v->getType()}, {v, impl_->b.getFalse()});
  });
}

Scalar CodeGen::sign(Scalar x) {
  const Scalar zero = constant_int(x.dtype(), 0), one = constant_int(x.dtype(), 1);
  if (is_boolean(x)) return x;
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
  if (!is_floating(x)) return constant_int(DType::bool_, 1);
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

Scalar CodeGen::add(Scalar a, Scalar c) {
  if (is_boolean(a)) return or_(a, c);
  if (const auto known = impl_->index_sum(*this, a, c)) return *known;
  const Scalar out = impl_->binary(kAdd, a, c, a.dtype(), [&](Value* x, Value* y) {
    if (Value* z = negated(y)) return impl_->b.CreateFSub(x, z);
    if (Value* z = negated(x)) return impl_->b.CreateFSub(y, z);
    return is_floating(a) ? impl_->b.CreateFAdd(x, y) : impl_->b.CreateAdd(x, y);
  });
  return Impl::with_range(out, Impl::range(a) + Impl::range(c));
}

Scalar CodeGen::sub(Scalar a, Scalar c) {
  if (is_boolean(a)) return xor_(a, c);
  if (const auto known = impl_->index_difference(*this, a, c)) return *known;
  const Scalar out = impl_->binary(kSub, a, c, a.dtype(), [&](Value* x, Value* y) {
    if (Value* z = negated(y)) return impl_->b.CreateFAdd(x, z);
    return is_floating(a) ? impl_->b.CreateFSub(x, y) : impl_->b.CreateSub(x, y);
  });
  return Impl::with_range(out, Impl::range(a) + -Impl::range(c));
}

Scalar CodeGen::mul(Scalar a, Scalar c) {
  if (is_boolean(a)) return and_(a, c);
  std::int64_t factor = 0;
  if (a.dtype() == DType::i64 && known_constant(a, factor)) std::swap(a, c);
  if (const auto known = impl_->index_product(*this, a, c)) return *known;
  const Scalar out = impl_->binary(kMul, a, c, a.dtype(), [&](Value* x, Value* y) {
    if (impl_->options.quick) {  // for sums that may follow
      Value *p = negated(x), *q = negated(y);
      if (p != nullptr && q != nullptr) return impl_->b.CreateFMul(p, q);
      if (p != nullptr) return impl_->b.CreateFNeg(impl_->b.CreateFMul(p, y));
      if (q != nullptr) return impl_->b.CreateFNeg(impl_->b.CreateFMul(x, q));
    }
    return is_floating(a) ? impl_->b.CreateFMul(x, y) : impl_->b.CreateMul(x, y);
  });
  return Impl::has_range(a.dtype()) && known_constant(c, factor)
             ? Impl::with_range(out, Impl::range(a) * factor)
             : out;
}

Scalar CodeGen::fma(Scalar a, Scalar b, Scalar c) {
  if (!is_floating(a)) return add(mul(a, b), c);
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

static Intrinsic::ID quads_of([[maybe_unused]] int lanes) {
#if defined(__x86_64__)
  switch (lanes) {
    case 4: return Intrinsic::x86_avx512_vpdpbusd_128;
    case 8: return Intrinsic::x86_avx512_vpdpbusd_256;
    case 16: return Intrinsic::x86_avx512_vpdpbusd_512;
    default: break;
  }
#endif
  return Intrinsic::not_intrinsic;
}
bool CodeGen::has_quads(int lanes) {
  return quads_of(lanes) != Intrinsic::not_intrinsic &&
         runtime::target_isa() == runtime::Isa::avx512 &&
         target_features().find("+avx512vnni") != std::string::npos;
}

Scalar CodeGen::add_quads(Scalar without, Scalar with_sign, Scalar c) {
  return impl_->op(
      {kQuads, static_cast<int>(c.dtype()), without.value(), with_sign.value(), c.value()},
      c.dtype(), {without, with_sign, c}, [&](int w) -> Value* {
        return impl_->b.CreateIntrinsic(quads_of(w), {},
                                        {impl_->as(node_of(c), w), impl_->as(node_of(without), w),
                                         impl_->as(node_of(with_sign), w)});
      });
}

Scalar CodeGen::quads(const Scalar (&bytes)[4]) {
  Impl& m = *impl_;
  m.at(m.depth());
  llvm::SmallVector<int> side_by_side, by_lanes;
  for (int i = 0; i < 2 * m.lanes; ++i) side_by_side.push_back(i);
  for (int i = 0; i < 4 * m.lanes; ++i) by_lanes.push_back(i % 4 * m.lanes + i / 4);
  const auto both = [&](Scalar a, Scalar b) {
    return m.b.CreateShuffleVector(m.as_vector(node_of(a), m.lanes),
                                   m.as_vector(node_of(b), m.lanes), side_by_side);
  };
  Value* v = m.b.CreateShuffleVector(both(bytes[0], bytes[1]), both(bytes[2], bytes[3]), by_lanes);
  v = m.b.CreateBitCast(v, m.vector_type(m.b.getInt32Ty(), m.lanes));
  return Scalar(m.make(v, m.depth()), DType::i32);
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
  if (is_boolean(a)) return or_(a, c);
  const IndexRange r = Impl::range(a), q = Impl::range(c);
  if (not_above(r, q)) return c;
  if (not_above(q, r)) return a;
  const Scalar out = impl_->binary(kMax, a, c, a.dtype(), [&](Value* x, Value* y) -> Value* {
    auto& b = impl_->b;
    if (is_floating(a)) return impl_->extreme(true, x, y);
    if (both_known(x, y))
      return b.CreateSelect(is_unsigned(a) ? b.CreateICmpUGT(x, y) : b.CreateICmpSGT(x, y), x, y);
    return b.CreateBinaryIntrinsic(is_unsigned(a) ? Intrinsic::umax : Intrinsic::smax, x, y);
  });
  return Impl::with_range(out, {std::max(r.low, q.low), std::max(r.high, q.high)});
}

Scalar CodeGen::min(Scalar a, Scalar c) {
  if (is_boolean(a)) return and_(a, c);
  const IndexRange r = Impl::range(a), q = Impl::range(c);
  if (not_above(r, q)) return a;
  if (not_above(q, r)) return c;
  const Scalar out = impl_->binary(kMin, a, c, a.dtype(), [&](Value* x, Value* y) -> Value* {
    auto& b = impl_->b;
    if (is_floating(a)) return impl_->extreme(false, x, y);
    if (both_known(x, y))
      return b.CreateSelect(is_unsigned(a) ? b.CreateICmpULT(x, y) : b.CreateICmpSLT(x, y), x, y);
    return b.CreateBinaryIntrinsic(is_unsigned(a) ? Intrinsic::umin : Intrinsic::smin, x, y);
  });
  return Impl::with_range(out, {std::min(r.low, q.low), std::min(r.high, q.high)});
}

Scalar CodeGen::and_(Scalar a, Scalar c) {
  std::int64_t known = 0;
  if (is_boolean(a) && known_constant(a, known)) return known != 0 ? c : a;
  if (is_boolean(c) && known_constant(c, known)) return known != 0 ? a : c;
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
        return impl_->b.CreateCmp(is_floating(a)   ? kFloat[i]
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
