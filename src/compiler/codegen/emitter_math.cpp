// Conversions, and the math functions that generated code calls.
#include <llvm/IR/Intrinsics.h>

#include <cmath>

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

// f64 to f32 rounded to odd, so that rounding once more to bf16 gives the nearest (as the eager
// kernel does). LLVM's own way is a call to __truncdfbf2, which older libgccs lack.
static Value* round_to_odd(llvm::IRBuilder<>& b, Value* x, llvm::Type* f32_type) {
  llvm::Type* bits_type = b.getInt32Ty();
  if (const auto* vector = llvm::dyn_cast<llvm::VectorType>(f32_type)) {
    bits_type = llvm::VectorType::get(bits_type, vector->getElementCount());
  }
  Value* nearest = b.CreateFPTrunc(x, f32_type);
  Value* back = b.CreateFPExt(nearest, x->getType());
  Value* away = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(Intrinsic::fabs, back),
                                b.CreateUnaryIntrinsic(Intrinsic::fabs, x));
  Value* bits = b.CreateBitCast(nearest, bits_type);
  Value* toward_zero = b.CreateSub(bits, b.CreateZExt(away, bits_type));
  Value* odd = b.CreateOr(toward_zero, llvm::ConstantInt::get(bits_type, 1));
  return b.CreateBitCast(b.CreateSelect(b.CreateFCmpONE(back, x), odd, bits), f32_type);
}

// Of a whole number with more digits than the floats of its size have: what these cannot hold becomes the last digit
// that they can, so that rounding it to them, and then to bf16, gives the nearest.
static Scalar whole_to_odd(Emitter& e, Scalar x) {
  const DType type = x.dtype();
  const int bits = static_cast<int>(8 * size_of(type)), digits = bits == 64 ? 53 : 24;
  const std::int64_t below = (std::int64_t{1} << (bits - digits)) - 1;
  const Scalar mask = e.constant_int(type, below);
  const Scalar carried = e.or_(x, e.add(e.and_(x, mask), mask));
  const Scalar large =
      e.compare(Compare::gt, e.abs(x), e.constant_int(type, std::int64_t{1} << digits));
  return e.select(large, e.and_(carried, e.constant_int(type, ~below)), x);
}

// f32 to the bits of a 16-bit float and back. LLVM's own way to bf16 is a call for each number.
static Value* to_small(llvm::IRBuilder<>& b, Value* x, DType to) {
  llvm::Type *type = x->getType(), *small_type = type->getWithNewType(b.getInt16Ty());
  if (to == DType::f16)
    return b.CreateBitCast(b.CreateFPTrunc(x, type->getWithNewType(b.getHalfTy())), small_type);
  llvm::Type* bits_type = type->getWithNewType(b.getInt32Ty());
  const auto number = [&](std::uint64_t n) { return llvm::ConstantInt::get(bits_type, n); };
  Value* bits = b.CreateBitCast(x, bits_type);
  Value* last = b.CreateAnd(b.CreateLShr(bits, number(16)), number(1));
  Value* nearest = b.CreateAdd(bits, b.CreateAdd(last, number(0x7fff)));
  Value* quiet = b.CreateOr(bits, number(0x400000));
  Value* kept = b.CreateLShr(b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, nearest), number(16));
  return b.CreateTrunc(kept, small_type);
}
static Value* from_small(llvm::IRBuilder<>& b, Value* x, DType from) {
  llvm::Type *type = x->getType(), *f32_type = type->getWithNewType(b.getFloatTy());
  if (from == DType::f16)
    return b.CreateFPExt(b.CreateBitCast(x, type->getWithNewType(b.getHalfTy())), f32_type);
  llvm::Type* bits_type = type->getWithNewType(b.getInt32Ty());
  Value* bits = b.CreateShl(b.CreateZExt(x, bits_type), llvm::ConstantInt::get(bits_type, 16));
  return b.CreateBitCast(bits, f32_type);
}

// Saturating, NaN to 0. LLVM's own fptosi.sat takes vectors apart. What is converted is held within the range, so that
// only what has no number for its end, and NaN, is told afterwards.
static Value* to_integer(llvm::IRBuilder<>& b, Value* x, llvm::Type* to, bool is_unsigned) {
  const auto as_vector = [x](llvm::Type* scalar) -> llvm::Type* {
    const auto* v = llvm::dyn_cast<llvm::VectorType>(x->getType());
    return v == nullptr ? scalar : llvm::VectorType::get(scalar, v->getElementCount());
  };
  llvm::Type* from = x->getType();
  const bool is_f32 = from->getScalarType()->isFloatTy();
  const unsigned bits = to->getScalarSizeInBits(), digits = is_unsigned ? bits : bits - 1;
  const auto number = [from](double value) { return llvm::ConstantFP::get(from, value); };
  // Powers of two, which every float type holds, and the number before one.
  const double above = std::ldexp(1.0, static_cast<int>(digits));
  Value* low = number(is_unsigned ? 0.0 : -above);
  Value* high =
      number(is_f32 ? std::nextafter(static_cast<float>(above), 0.0f) : std::nextafter(above, 0.0));
  Value* held = b.CreateSelect(b.CreateFCmpOGT(x, low), x, low);  // NaN: low
  held = b.CreateSelect(b.CreateFCmpOLT(held, high), held, high);
  // There are instructions for 32 and 64 bits only.
  llvm::Type* wide = bits < 32 ? as_vector(b.getInt32Ty()) : to;
  Value* whole =
      is_unsigned && bits >= 32 ? b.CreateFPToUI(held, wide) : b.CreateFPToSI(held, wide);
  whole = b.CreateTrunc(whole, to);
  if (from->getScalarType()->getFPMantissaWidth() < static_cast<int>(digits)) {
    const auto most =
        is_unsigned ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getSignedMaxValue(bits);
    whole =
        b.CreateSelect(b.CreateFCmpOGE(x, number(above)), llvm::ConstantInt::get(to, most), whole);
  }
  // AArch64's fmaxnm, which the selections become there, passes a signalling NaN on.
#if defined(__x86_64__)
  if (is_unsigned) return whole;
#endif
  return b.CreateSelect(b.CreateFCmpORD(x, x), whole, llvm::Constant::getNullValue(to));
}

Scalar CodeGen::convert(Scalar x, DType to) {
  const DType from = x.dtype();
  if (from == to) return x;
  const bool narrows = detail::is_small_float(to) && !is_float(from);
  // To bf16, those that f32 does not hold: rounded to odd before.
  if (narrows && to == DType::bf16 && size_of(from) >= 4)
    return convert(convert(whole_to_odd(*this, x), size_of(from) == 8 ? DType::f64 : DType::f32),
                   to);
  // By way of f32, which holds all of the others, or all that are no infinity of f16.
  if (narrows || (detail::is_small_float(from) && to != DType::f32))
    return convert(convert(x, DType::f32), to);
  if (to == DType::bool_) return compare(Compare::ne, x, constant_int(from, 0));
  // The lanes of an affine index in a narrower type: its truncated base plus small constants.
  Node* node = node_of(x);
  if (affine(node) && is_integer(to) && size_of(to) < 8) {
    return impl_->op({kConvert, static_cast<int>(to), node}, to, {x}, [&](int w) -> Value* {
      auto& b = impl_->b;
      Value* base = b.CreateVectorSplat(static_cast<unsigned>(w),
                                        b.CreateTrunc(node->value, impl_->type(to)));
      std::vector<llvm::Constant*> steps;
      for (int i = 0; i < w; ++i) {
        steps.push_back(llvm::ConstantInt::get(
            impl_->type(to), static_cast<std::uint64_t>(detail::wrapping_mul(i, node->stride))));
      }
      return b.CreateAdd(base, llvm::ConstantVector::get(steps));
    });
  }
  const Scalar out = impl_->op(
      {kConvert, static_cast<int>(to), node, nullptr, nullptr, static_cast<int>(from)}, to, {x},
      [&](int w) -> Value* {
        auto& b = impl_->b;
        Value* v = impl_->as(node, w);
        llvm::Type* t = w == 1 ? impl_->type(to) : impl_->vector_type(impl_->type(to), w);
        if (detail::is_small_float(from)) return from_small(b, v, from);
        if (detail::is_small_float(to)) {
          llvm::Type* f32_type = v->getType()->getWithNewType(b.getFloatTy());
          const bool to_odd = from == DType::f64 && to == DType::bf16;
          return to_small(b, to_odd ? round_to_odd(b, v, f32_type) : v, to);
        }
        if (is_float(from))
          return is_float(to) ? b.CreateFPCast(v, t) : to_integer(b, v, t, is_unsigned_integer(to));
        // A conversion of masks would go through integers.
        if (is_float(to) && from == DType::bool_)
          return b.CreateSelect(v, llvm::ConstantFP::get(t, 1), llvm::ConstantFP::get(t, 0));
        if (is_float(to)) return is_unsigned(x) ? b.CreateUIToFP(v, t) : b.CreateSIToFP(v, t);
        return b.CreateIntCast(impl_->to_memory(v, from), t, !is_unsigned(x));
      });
  if (!is_integer(from) || !is_integer(to)) return out;
  return Impl::with_range(out, Impl::has_range(from) ? Impl::range(x) : range_of(from));
}

Scalar CodeGen::bitcast(Scalar x, DType to) {
  if (x.dtype() == to) return x;
  if (size_of(x.dtype()) != size_of(to) || x.dtype() == DType::bool_ || to == DType::bool_) {
    throw InternalError("Emitter::bitcast: widths differ");
  }
  return impl_->op({kBitcast, static_cast<int>(to), x.value()}, to, {x}, [&](int w) {
    llvm::Type* t = impl_->type(to);
    return impl_->b.CreateBitCast(impl_->as(node_of(x), w), w == 1 ? t : impl_->vector_type(t, w));
  });
}

Value* CodeGen::Impl::call_math(const telamon::math::MathEntry& entry, llvm::Type* vector,
                                llvm::ArrayRef<Value*> args) {
  std::vector<llvm::Type*> types(args.size(), vector);
  llvm::FunctionCallee callee =
      module.getOrInsertFunction(entry.symbol, llvm::FunctionType::get(vector, types, false));
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  f->setDoesNotThrow();
  f->setMemoryEffects(llvm::MemoryEffects::none());
  f->addFnAttr(llvm::Attribute::WillReturn);
  const auto convention =
      entry.keeps_registers ? llvm::CallingConv::Intel_OCL_BI : llvm::CallingConv::C;
  f->setCallingConv(convention);
  // Calls leave few vectors in registers, or none, and spilled ones are whole lines of the cache: on a stack
  // that is aligned for 16 bytes they would be parts of two.
  function->addFnAttr("stackrealign");
  llvm::CallInst* call = b.CreateCall(callee, args);
  call->setCallingConv(convention);
  return call;
}

// A vector of `width` lanes: `count` of those of another, from `first` on, and then the first of them again.
static Value* lanes_from(llvm::IRBuilder<>& b, Value* v, int width, int first, int count) {
  std::vector<int> lanes;
  for (int i = 0; i < width; ++i) lanes.push_back(i < count ? first + i : first);
  return b.CreateShuffleVector(v, lanes);
}

// A register's lanes in the place of those of `vector` from `first` on.
static Value* with_register(llvm::IRBuilder<>& b, Value* vector, int width, Value* part, int full,
                            int first) {
  std::vector<int> widen, merge;
  for (int i = 0; i < width; ++i) widen.push_back(i < full ? i : -1);
  Value* spread = b.CreateShuffleVector(part, widen);
  for (int i = 0; i < width; ++i)
    merge.push_back(i >= first && i < first + full ? width + i - first : i);
  return b.CreateShuffleVector(vector, spread, merge);
}

// Most processors have instructions for these.
Scalar CodeGen::Impl::count_bits(std::string_view name, Scalar x) {
  const bool zeros = name == "clz";
  const Intrinsic::ID id = zeros ? Intrinsic::ctlz : Intrinsic::ctpop;
  return op({kMath0, static_cast<int>(x.dtype()), x.value(), nullptr, nullptr, id}, x.dtype(), {x},
            [&](int w) {
              Value* v = as(node_of(x), w);
              return zeros ? intrinsic(id, {v, b.getFalse()}) : intrinsic(id, {v});
            });
}

// The functions take one full register, whatever the width here: wider vectors are cut, narrower
// ones and single values padded. Compiled and eager results are the same function's.
Scalar CodeGen::math(std::string_view name, std::span<const Scalar> args) {
  const DType dtype = args[0].dtype();
  if (is_integer(dtype) && (name == "clz" || name == "population_count"))
    return impl_->count_bits(name, args[0]);
  if (detail::is_small_float(dtype)) {
    Scalars wide;
    for (const Scalar a : args) wide.push_back(convert(a, DType::f32));
    return convert(math(name, wide), dtype);
  }
  const telamon::math::MathEntry entry =
      telamon::math::find_math(name, dtype, runtime::target_isa());
  if (entry.address == nullptr) {
    throw NotImplementedError("Emitter::math: no function '" + std::string(name) + "' for dtype " +
                              std::string(short_name(dtype)));
  }
  Impl& m = *impl_;
  const int full = static_cast<int>(runtime::target_vector_bytes() / size_of(dtype));
  llvm::Type* full_type = m.vector_type(m.type(dtype), full);
  const Scalar second = args.size() > 1 ? args[1] : args[0];
  const OpKey key{kMath0, static_cast<int>(dtype), args[0].value(),
                  args.size() > 1 ? second.value() : nullptr, entry.address};
  return m.op(key, dtype, {args[0], second}, [&](int w) -> Value* {
    auto& b = m.b;
    std::vector<Value*> x;
    for (const Scalar a : args) x.push_back(m.as(node_of(a), w));
    const auto piece = [&](int first, int count) {  // lanes [first, first + count) of all operands
      std::vector<Value*> padded;
      for (Value* v : x) {
        padded.push_back(w == 1      ? b.CreateVectorSplat(static_cast<unsigned>(full), v)
                         : w == full ? v
                                     : lanes_from(b, v, full, first, count));
      }
      return m.call_math(entry, full_type, padded);
    };
    if (w == 1) return b.CreateExtractElement(piece(0, 1), std::uint64_t{0});
    if (w == full) return piece(0, full);
    if (w < full) return lanes_from(b, piece(0, w), w, 0, w);
    Value* out = llvm::PoisonValue::get(m.vector_type(m.type(dtype), w));
    for (int first = 0; first < w; first += full)
      out = with_register(b, out, w, piece(first, full), full, first);
    return out;
  });
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
