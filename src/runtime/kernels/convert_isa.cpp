// Contiguous loops that convert between dtypes, for one instruction set.
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::ContiguousLoop;

// ---- 16-bit floats

TELAMON_INLINE float widen(Half h) {
  // The exponent moves by 127 - 15; a product does that for denormals too. Infinity and NaN get the
  // full exponent.
  const std::uint32_t sign = static_cast<std::uint32_t>(h.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(h.bits & 0x7fffu) << 13;
  const float scaled = bits_as<float>(magnitude) * 0x1p112f;
  const std::uint32_t bits =
      magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : bits_as<std::uint32_t>(scaled);
  return bits_as<float>(bits | sign);
}
TELAMON_INLINE float widen(BFloat16 x) {
  return bits_as<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Round to nearest even. Adding 1/2 to a number below 2^-14 leaves its denormal half in the low bits.
TELAMON_INLINE Half to_half(float x) {
  const std::uint32_t bits = bits_as<std::uint32_t>(x), sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t denormal =
      bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (magnitude + 0xc8000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  std::uint32_t half = magnitude < 0x38800000u ? denormal : normal;
  half = magnitude >= 0x47800000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return {static_cast<std::uint16_t>(half | sign)};
}
TELAMON_INLINE BFloat16 to_bfloat16(float x) {
  const std::uint32_t bits = bits_as<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x0040u;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}
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

// ---- One element

template <class T> constexpr bool kIsComplex =
    std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>;
template <class T> constexpr bool kIsSmallFloat =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

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
    else narrow = round_to_odd(static_cast<double>(x));
    if constexpr (std::is_same_v<To, Half>) return to_half(narrow);
    else return to_bfloat16(narrow);
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
