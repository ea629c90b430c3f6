// The contiguous elementwise loops of one instruction set, and the table of them.
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"
#include "runtime/math/isa_entries.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::ContiguousLoop;
using kernels::Op;

// ---- One operand

struct Neg {
  template <class T>
  TELAMON_INLINE static T apply(T x) {
    if constexpr (kIsFloat<T>) return -x;
    else return static_cast<T>(0 - static_cast<Wrapping<T>>(x));
  }
};
struct Sign {  // zeros keep their sign, NaN stays
  template <class T>
  TELAMON_INLINE static T apply(T x) {
    if constexpr (kIsFloat<T>) return x > 0 ? T(1) : x < 0 ? T(-1) : x;
    else if constexpr (std::is_signed_v<T>) return static_cast<T>((x > 0) - (x < 0));
    else return static_cast<T>(x != 0);
  }
};
struct Abs {
  template <class T>
  TELAMON_INLINE static T apply(T x) {
    if constexpr (sizeof(T) == 4 && kIsFloat<T>) return __builtin_fabsf(x);
    else if constexpr (kIsFloat<T>) return __builtin_fabs(x);
    else if constexpr (std::is_signed_v<T>) return x < 0 ? Neg::apply(x) : x;
    else return x;
  }
};
struct Square {
  template <class T> TELAMON_INLINE static T apply(T x) { return Mul::apply(x, x); }
};

TELAMON_INLINE float floor_of(float x) { return __builtin_floorf(x); }
TELAMON_INLINE double floor_of(double x) { return __builtin_floor(x); }
TELAMON_INLINE float ceil_of(float x) { return __builtin_ceilf(x); }
TELAMON_INLINE double ceil_of(double x) { return __builtin_ceil(x); }
TELAMON_INLINE float rint_of(float x) { return __builtin_rintf(x); }
TELAMON_INLINE double rint_of(double x) { return __builtin_rint(x); }
TELAMON_INLINE float trunc_of(float x) { return __builtin_truncf(x); }
TELAMON_INLINE double trunc_of(double x) { return __builtin_trunc(x); }
TELAMON_INLINE float sqrt_of(float x) { return __builtin_sqrtf(x); }
TELAMON_INLINE double sqrt_of(double x) { return __builtin_sqrt(x); }
TELAMON_INLINE float copysign_of(float x, float y) { return __builtin_copysignf(x, y); }
TELAMON_INLINE double copysign_of(double x, double y) { return __builtin_copysign(x, y); }

struct Floor {
  template <class T> TELAMON_INLINE static T apply(T x) { return floor_of(x); }
};
struct Ceil {
  template <class T> TELAMON_INLINE static T apply(T x) { return ceil_of(x); }
};
struct RoundEven {
  template <class T> TELAMON_INLINE static T apply(T x) { return rint_of(x); }
};
struct RoundAway {  // x - trunc(x) is exact, x + 1/2 would not be
  template <class T>
  TELAMON_INLINE static T apply(T x) {
    const T whole = trunc_of(x);
    return Abs::apply(x - whole) >= T(0.5) ? whole + copysign_of(T(1), x) : whole;
  }
};
struct Sqrt {
  template <class T> TELAMON_INLINE static T apply(T x) { return sqrt_of(x); }
};
struct Rsqrt {
  template <class T> TELAMON_INLINE static T apply(T x) { return T(1) / sqrt_of(x); }
};
struct IsFinite {
  template <class T>
  TELAMON_INLINE static std::uint8_t apply(T x) {
    if constexpr (kIsFloat<T>) return Abs::apply(x) < static_cast<T>(__builtin_inf());
    else return 1;
  }
};
struct Not {
  template <class T> TELAMON_INLINE static T apply(T x) { return static_cast<T>(~x); }
};
struct LogicalNot {
  template <class T> TELAMON_INLINE static T apply(T x) { return x ^ 1; }
};
struct PopulationCount {
  template <class T>
  TELAMON_INLINE static T apply(T x) {
    return static_cast<T>(__builtin_popcountll(static_cast<BitsOf<T>>(x)));
  }
};
struct CountLeadingZeros {
  template <class T>
  TELAMON_INLINE static T apply(T x) {
    const std::uint64_t bits = static_cast<BitsOf<T>>(x);
    return static_cast<T>(bits == 0 ? kWidth<T> : __builtin_clzll(bits) - (64 - kWidth<T>));
  }
};

// ---- Two operands

struct Sub {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) return a - b;
    else return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};
/// By the larger part of the divisor, so that no square overflows (Smith 1962).
template <class T>
TELAMON_INLINE T complex_quotient(T a, T b) {
  const bool turned = Abs::apply(b.re) < Abs::apply(b.im);  // both by i: (a / i) / (b / i)
  if (turned) {
    a = {a.im, -a.re};
    b = {b.im, -b.re};
  }
  const auto ratio = b.re == 0 ? 0 : b.im / b.re, divisor = b.re + b.im * ratio;  // by 0: infinite
  return {(a.re + a.im * ratio) / divisor, (a.im - a.re * ratio) / divisor};
}
struct Div {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    if constexpr (kIsFloat<T>) return a / b;
    else if constexpr (kIsComplex<T>) return complex_quotient(a, b);
    else if (b == 0) return static_cast<T>(~T(0));
    else if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Neg::apply(a);
    else return static_cast<T>(a / b);
  }
};
struct Rem {  // of integers
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    if (b == 0) return a;
    else if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    else return static_cast<T>(a % b);
  }
};
struct Pow {  // of integers; a negative exponent gives 1 / a^|b| truncated, 0 for a = 0
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      if (b < 0) return a == 1 ? T(1) : a == T(-1) ? ((b & 1) != 0 ? T(-1) : T(1)) : T(0);
    }
    T result = 1, power = a;
    for (auto left = static_cast<BitsOf<T>>(b); left != 0;
         left = static_cast<BitsOf<T>>(left >> 1)) {
      if ((left & 1) != 0) result = Mul::apply(result, power);
      power = Mul::apply(power, power);
    }
    return result;
  }
};
struct ShiftLeft {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    const bool inside = static_cast<BitsOf<T>>(b) < kWidth<T>;
    const int amount = inside ? static_cast<int>(b) : 0;
    const T shifted = static_cast<T>(static_cast<Wrapping<T>>(a) << amount);
    return inside ? shifted : T(0);
  }
};
struct ShiftRightLogical {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    const bool inside = static_cast<BitsOf<T>>(b) < kWidth<T>;
    const int amount = inside ? static_cast<int>(b) : 0;
    const T shifted = static_cast<T>(static_cast<BitsOf<T>>(a) >> amount);
    return inside ? shifted : T(0);
  }
};
struct ShiftRightArithmetic {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    const int amount = static_cast<BitsOf<T>>(b) < kWidth<T> ? static_cast<int>(b) : kWidth<T> - 1;
    return static_cast<T>(static_cast<SignedBitsOf<T>>(a) >> amount);
  }
};
struct NextAfter {
  template <class T>
  TELAMON_INLINE static T apply(T a, T b) {
    using Bits = BitsOf<T>;
    const Bits bits = bits_as<Bits>(a);
    const Bits sign = Bits(1) << (kWidth<T> - 1);
    const bool away = (a < b) == ((bits & sign) == 0);  // from zero
    const T step = bits_as<T>(static_cast<Bits>(away ? bits + 1 : bits - 1));
    const T from_zero = bits_as<T>(static_cast<Bits>((bits_as<Bits>(b) & sign) | 1));
    const T moved = a == 0 ? from_zero : step;
    const T nan = a + b;
    return nan != nan && (a != a || b != b) ? nan : a == b ? b : moved;
  }
};

struct Eq {
  template <class T>
  TELAMON_INLINE static std::uint8_t apply(T a, T b) {
    if constexpr (kIsComplex<T>) return a.re == b.re && a.im == b.im;
    else return a == b;
  }
};
struct Ne {
  template <class T>
  TELAMON_INLINE static std::uint8_t apply(T a, T b) {
    if constexpr (kIsComplex<T>) return a.re != b.re || a.im != b.im;
    else return a != b;
  }
};
struct Lt {
  template <class T> TELAMON_INLINE static std::uint8_t apply(T a, T b) { return a < b; }
};
struct Le {
  template <class T> TELAMON_INLINE static std::uint8_t apply(T a, T b) { return a <= b; }
};
struct Gt {
  template <class T> TELAMON_INLINE static std::uint8_t apply(T a, T b) { return a > b; }
};
struct Ge {
  template <class T> TELAMON_INLINE static std::uint8_t apply(T a, T b) { return a >= b; }
};

/// Integers in the order of the floats: negative ones have their other bits inverted.
template <class T>
TELAMON_INLINE auto total_order_key(T x) {
  if constexpr (kIsFloat<T>) {
    using Int = SignedBitsOf<T>;
    const Int bits = bits_as<Int>(x);
    const Int magnitude = static_cast<Int>(~BitsOf<T>(0) >> 1);
    return static_cast<Int>(bits ^ ((bits >> (kWidth<T> - 1)) & magnitude));
  } else {
    return x;
  }
}
template <class Compare>
struct Total {
  template <class T>
  TELAMON_INLINE static std::uint8_t apply(T a, T b) {
    return Compare::apply(total_order_key(a), total_order_key(b));
  }
};

// ---- Three operands

struct Clamp {
  template <class T>
  TELAMON_INLINE static T apply(T low, T x, T high) {
    return Min::apply(Max::apply(x, low), high);
  }
};
struct Sixteen {
  std::uint64_t words[2];
};

template <class T>
void select(std::int64_t n, const char* const* in, char* out, const void*) {
  const std::uint8_t* which = reinterpret_cast<const std::uint8_t*>(in[0]);
  const T* case0 = reinterpret_cast<const T*>(in[1]);
  const T* case1 = reinterpret_cast<const T*>(in[2]);
  T* to = reinterpret_cast<T*>(out);
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const T a = case0[i], b = case1[i];  // both read: a blend, not a branch
    to[i] = which[i] != 0 ? b : a;
  }
}
template <std::size_t Size>
void copy(std::int64_t n, const char* const* in, char* out, const void*) {
  __builtin_memmove(out, in[0], static_cast<std::size_t>(n) * Size);
}

// ---- Loops with parameters

/// x^y for a whole y by repeated squaring of a block; 1 / x^|y| for a negative one.
template <class T>
void integer_pow(std::int64_t n, const char* const* in, char* out, const void* params) {
  constexpr std::int64_t kBlock = 256;
  const T* x = reinterpret_cast<const T*>(in[0]);
  T* to = reinterpret_cast<T*>(out);
  const int y = *static_cast<const int*>(params);
  T power[kBlock], result[kBlock];
  for (std::int64_t start = 0; start < n; start += kBlock) {
    const std::int64_t count = n - start < kBlock ? n - start : kBlock;
    for (std::int64_t i = 0; i < count; ++i) power[i] = x[start + i];
    for (std::int64_t i = 0; i < count; ++i) result[i] = T(1);
    bool first = true;
    for (unsigned left = y < 0 ? 0u - static_cast<unsigned>(y) : static_cast<unsigned>(y);
         left != 0;) {
      if ((left & 1) != 0) {
        for (std::int64_t i = 0; i < count; ++i) {
          result[i] = first ? power[i] : Mul::apply(result[i], power[i]);
        }
        first = false;
      }
      left >>= 1;
      if (left == 0) break;
      for (std::int64_t i = 0; i < count; ++i) power[i] = Mul::apply(power[i], power[i]);
    }
    for (std::int64_t i = 0; i < count; ++i)
      to[start + i] = y < 0 ? Div::apply(T(1), result[i]) : result[i];
  }
}

/// The vector math function whose address comes as the parameter.
template <int Arity, class T>
void math(std::int64_t n, const char* const* in, char* out, const void* params) {
  TELAMON_ISA_SYMBOL(math_run)(const_cast<void*>(params), Arity, sizeof(T) == 8, n, in[0],
                               Arity == 2 ? in[1] : nullptr, out);
}

/// Operations on complex numbers that take each part by itself: twice as many floats.
template <class T>
using PartOf = decltype(T{}.re);
template <class F, class T>
void unary_parts(std::int64_t n, const char* const* in, char* out, const void* params) {
  unary<F, PartOf<T>, PartOf<T>>(2 * n, in, out, params);
}
template <class F, class T>
void binary_parts(std::int64_t n, const char* const* in, char* out, const void* params) {
  binary<F, PartOf<T>, PartOf<T>>(2 * n, in, out, params);
}

// ---- The table

struct Table {
  ContiguousLoop loops[kernels::kNumOps][kNumDTypes] = {};

  constexpr ContiguousLoop& at(Op op, DType dtype) {
    return loops[static_cast<int>(op)][static_cast<int>(dtype)];
  }
  template <class F, class... Ts> constexpr void one(Op op) {
    ((at(op, dtype_of<Ts>) = unary<F, Ts, Ts>), ...);
  }
  template <class F, class... Ts> constexpr void two(Op op) {
    ((at(op, dtype_of<Ts>) = binary<F, Ts, Ts>), ...);
  }
  template <class F, class... Ts> constexpr void three(Op op) {
    ((at(op, dtype_of<Ts>) = ternary<F, Ts, Ts>), ...);
  }
  template <class F, class... Ts> constexpr void test(Op op) {
    ((at(op, dtype_of<Ts>) = unary<F, Ts, std::uint8_t>), ...);
  }
  template <class F, class... Ts> constexpr void compare(Op op) {
    ((at(op, dtype_of<Ts>) = binary<F, Ts, std::uint8_t>), ...);
    at(op, DType::bool_) = binary<F, std::uint8_t, std::uint8_t>;
  }
  template <class... Ts> constexpr void floats() {
    one<Floor, Ts...>(Op::floor);
    one<Ceil, Ts...>(Op::ceil);
    one<RoundEven, Ts...>(Op::round_even);
    one<RoundAway, Ts...>(Op::round_away);
    one<Sqrt, Ts...>(Op::sqrt);
    one<Rsqrt, Ts...>(Op::rsqrt);
    two<NextAfter, Ts...>(Op::nextafter);
  }
  template <class... Ts> constexpr void integers() {
    one<Not, Ts...>(Op::not_);
    one<PopulationCount, Ts...>(Op::population_count);
    one<CountLeadingZeros, Ts...>(Op::clz);
    two<Pow, Ts...>(Op::pow);
    two<Rem, Ts...>(Op::rem);
    two<And, Ts...>(Op::and_);
    two<Or, Ts...>(Op::or_);
    two<Xor, Ts...>(Op::xor_);
    two<ShiftLeft, Ts...>(Op::shift_left);
    two<ShiftRightLogical, Ts...>(Op::shift_right_logical);
    two<ShiftRightArithmetic, Ts...>(Op::shift_right_arithmetic);
  }
  template <class... Ts> constexpr void numbers() {
    one<Neg, Ts...>(Op::neg);
    one<Sign, Ts...>(Op::sign);
    one<Abs, Ts...>(Op::abs);
    one<Square, Ts...>(Op::square);
    test<IsFinite, Ts...>(Op::is_finite);
    ((at(Op::integer_pow, dtype_of<Ts>) = integer_pow<Ts>), ...);
    two<Add, Ts...>(Op::add);
    two<Sub, Ts...>(Op::sub);
    two<Mul, Ts...>(Op::mul);
    two<Div, Ts...>(Op::div);
    two<Max, Ts...>(Op::max);
    two<Min, Ts...>(Op::min);
    three<Clamp, Ts...>(Op::clamp);
    compare<Eq, Ts...>(Op::eq);
    compare<Ne, Ts...>(Op::ne);
    compare<Lt, Ts...>(Op::lt);
    compare<Le, Ts...>(Op::le);
    compare<Gt, Ts...>(Op::gt);
    compare<Ge, Ts...>(Op::ge);
    compare<Total<Eq>, Ts...>(Op::eq_to);
    compare<Total<Lt>, Ts...>(Op::lt_to);
    compare<Total<Le>, Ts...>(Op::le_to);
  }
  template <class... Ts> constexpr void complex_numbers() {
    ((at(Op::neg, dtype_of<Ts>) = unary_parts<Neg, Ts>), ...);
    ((at(Op::add, dtype_of<Ts>) = binary_parts<Add, Ts>), ...);
    ((at(Op::sub, dtype_of<Ts>) = binary_parts<Sub, Ts>), ...);
    one<Square, Ts...>(Op::square);
    ((at(Op::integer_pow, dtype_of<Ts>) = integer_pow<Ts>), ...);
    two<Mul, Ts...>(Op::mul);
    two<Div, Ts...>(Op::div);
    compare<Eq, Ts...>(Op::eq);
    compare<Ne, Ts...>(Op::ne);
  }
  /// Bool is a byte of 0 or 1: add and max are or, mul and min are and.
  constexpr void booleans() {
    using U = std::uint8_t;
    at(Op::not_, DType::bool_) = unary<LogicalNot, U, U>;
    at(Op::is_finite, DType::bool_) = unary<IsFinite, U, U>;
    for (Op op : {Op::add, Op::max, Op::or_}) at(op, DType::bool_) = binary<Or, U, U>;
    for (Op op : {Op::mul, Op::min, Op::and_}) at(op, DType::bool_) = binary<And, U, U>;
    at(Op::xor_, DType::bool_) = binary<Xor, U, U>;
    at(Op::clamp, DType::bool_) = ternary<Clamp, U, U>;
  }
  /// Operations on bytes that have no arithmetic in them.
  constexpr void moves() {
    for (int d = 0; d < kNumDTypes; ++d) {
      constexpr int kSizes[kNumDTypes] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 0};
      const auto dtype = static_cast<DType>(d);
      switch (kSizes[d]) {
        case 1:
          at(Op::select, dtype) = select<std::uint8_t>;
          at(Op::copy, dtype) = copy<1>;
          break;
        case 2:
          at(Op::select, dtype) = select<std::uint16_t>;
          at(Op::copy, dtype) = copy<2>;
          break;
        case 4:
          at(Op::select, dtype) = select<std::uint32_t>;
          at(Op::copy, dtype) = copy<4>;
          break;
        case 8:
          at(Op::select, dtype) = select<std::uint64_t>;
          at(Op::copy, dtype) = copy<8>;
          break;
        case 16:
          at(Op::select, dtype) = select<Sixteen>;
          at(Op::copy, dtype) = copy<16>;
          break;
        default: break;
      }
    }
  }
  constexpr void math_calls() {
    for (Op op = Op::exp; op <= Op::erf_inv; op = static_cast<Op>(static_cast<int>(op) + 1)) {
      at(op, DType::f32) = math<1, float>;
      at(op, DType::f64) = math<1, double>;
    }
    for (Op op : {Op::pow, Op::atan2, Op::rem}) {
      at(op, DType::f32) = math<2, float>;
      at(op, DType::f64) = math<2, double>;
    }
  }

  constexpr Table() {
    using std::int8_t, std::int16_t, std::int32_t, std::int64_t;
    using std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t;
    numbers<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, float,
            double>();
    integers<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>();
    complex_numbers<Complex64, Complex128>();
    floats<float, double>();
    booleans();
    moves();
    math_calls();
  }
};
constexpr Table kTable;

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::ContiguousLoop TELAMON_ISA_SYMBOL(elementwise_loop)(
    telamon::kernels::Op op, telamon::DType dtype) {
  return telamon::loops::kTable.loops[static_cast<int>(op)][static_cast<int>(dtype)];
}
