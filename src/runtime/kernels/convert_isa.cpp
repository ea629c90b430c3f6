// Contiguous loops that convert between dtypes, for one instruction set.
#include "runtime/kernels/halves_isa.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::ContiguousLoop;

/// To f32 rounded to odd, so that rounding once more to fewer bits gives the nearest to x.
TELAMON_INLINE float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = nearest;
  std::uint32_t bits = bits_as<std::uint32_t>(nearest);
  if (back != x && x == x) {
    if (__builtin_fabs(back) > __builtin_fabs(x)) --bits;  // toward zero
    bits |= 1u;
  }
  return bits_as<float>(bits);
}

/// A whole number as a double, rounded to odd where that has fewer digits.
template <class Int>
TELAMON_INLINE double whole_to_odd(Int x) {
  if constexpr (sizeof(Int) == 8) {
    constexpr Int kBelow = (Int(1) << (64 - 53)) - 1, kMost = Int(1) << 53;
    const bool large = x > kMost || (std::is_signed_v<Int> && x < -kMost);
    x = large ? (x | ((x & kBelow) + kBelow)) & ~kBelow : x;
  }
  return static_cast<double>(x);
}

// ---- One element

template <class Int, class Float>
TELAMON_INLINE Int saturate(Float x) {
  constexpr Float kAbove =
      static_cast<Float>(Int(1) << (kWidth<Int> - 2 + !std::is_signed_v<Int>)) * 2;
  constexpr Float kLowest = std::is_signed_v<Int> ? -kAbove : Float(0);
  constexpr Int kMax =
      static_cast<Int>(std::is_signed_v<Int> ? static_cast<BitsOf<Int>>(~BitsOf<Int>(0)) >> 1
                                             : static_cast<BitsOf<Int>>(~BitsOf<Int>(0)));
  constexpr Int kMin = std::is_signed_v<Int> ? static_cast<Int>(~kMax) : Int(0);
  const bool inside = x >= kLowest && x < kAbove;
  const Int converted = static_cast<Int>(inside ? x : Float(0));  // NaN: 0
  const Int low = x < kLowest ? kMin : converted;
  return x >= kAbove ? kMax : low;
}

template <class To, class From>
TELAMON_INLINE To convert_one(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsComplex<From>) {
    if constexpr (kIsComplex<To>) {
      using Part = decltype(To::re);
      return {static_cast<Part>(x.re), static_cast<Part>(x.im)};
    } else if constexpr (std::is_same_v<To, bool>) {
      return x.re != 0 || x.im != 0;
    } else {
      return convert_one<To>(x.re);
    }
  } else if constexpr (kIsComplex<To>) {
    return {convert_one<decltype(To::re)>(x), 0};
  } else if constexpr (kIsSmallFloat<From>) {
    return convert_one<To>(widen(x));
  } else if constexpr (kIsSmallFloat<To>) {
    float narrow;
    if constexpr (std::is_same_v<From, float>) narrow = x;
    else if constexpr (sizeof(From) <= 2) narrow = static_cast<float>(x);
    else if constexpr (std::is_same_v<From, double>) narrow = round_to_odd(x);
    else narrow = round_to_odd(whole_to_odd(x));
    return narrow_to<To>(narrow);
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (kIsFloat<From> && std::is_integral_v<To>) {
    return saturate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void convert(std::int64_t n, const char* const* in, char* out, const void*) {
  const From* x = reinterpret_cast<const From*>(in[0]);
  To* to = reinterpret_cast<To*>(out);
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) to[i] = convert_one<To>(x[i]);
}

// ---- The table

struct ConvertTable {
  ContiguousLoop loops[kNumDTypes][kNumDTypes] = {};

  template <class From, class... To> constexpr void row() {
    ((loops[static_cast<int>(dtype_of<From>)][static_cast<int>(dtype_of<To>)] = convert<From, To>),
     ...);
  }
  template <class... Ts> constexpr void all() { (row<Ts, Ts...>(), ...); }
  constexpr ConvertTable() {
    all<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
        std::uint32_t, std::uint64_t, Half, BFloat16, float, double, Complex64, Complex128>();
  }
};
constexpr ConvertTable kConvertTable;

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::ContiguousLoop TELAMON_ISA_SYMBOL(convert_loop)(telamon::DType from,
                                                                             telamon::DType to) {
  return telamon::loops::kConvertTable.loops[static_cast<int>(from)][static_cast<int>(to)];
}
