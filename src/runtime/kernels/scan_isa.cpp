// Running reductions of contiguous lines, and of rows of 16-bit floats side by side, for one instruction set.
#include <utility>

#include "runtime/kernels/halves_isa.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/registers_isa.hpp"
#include "runtime/kernels/transpose_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::ReduceOp;
using kernels::ScanLoop;

/// Max and Min of numbers that are not NaN: one instruction. Of equals, which may be zeros with different
/// signs, the later.
struct MaxOfNumbers {};
struct MinOfNumbers {};
TELAMON_INLINE auto combine(MaxOfNumbers, auto a, auto b) { return simd::at_least(b, a); }
TELAMON_INLINE auto combine(MinOfNumbers, auto a, auto b) { return simd::at_most(b, a); }
/// What F is where there is no NaN, if that is another operation.
template <class F, class T> struct OfNumbers {
  using Type = F;
};
template <> struct OfNumbers<Max, float> {
  using Type = MaxOfNumbers;
};
template <> struct OfNumbers<Max, double> {
  using Type = MaxOfNumbers;
};
template <> struct OfNumbers<Min, float> {
  using Type = MinOfNumbers;
};
template <> struct OfNumbers<Min, double> {
  using Type = MinOfNumbers;
};

template <class F, class T>
void scan_line(std::int64_t n, const T* in, T* out, bool reverse) {
  const std::int64_t step = reverse ? -1 : 1;
  if (reverse) {
    in += n - 1;
    out += n - 1;
  }
  T running = *in;
  *out = running;
  for (std::int64_t i = 1; i < n; ++i) {
    running = F::apply(running, in[i * step]);
    out[i * step] = running;
  }
}

/// As many lines as there are lanes, side by side: a square of elements is turned, its columns are
/// combined one after the other, and it is turned back. Fewer lines are filled up with the last.
template <class F, class T>
void scan_side_by_side(std::int64_t lines, std::int64_t n, const T* in, T* out, bool reverse) {
  using V = typename VectorOf<T>::Type;
  constexpr int kLanes = VectorOf<T>::kLanes;
  const auto line = [&](int j) { return (j < lines ? j : lines - 1) * n; };
  const std::int64_t whole = n / kLanes * kLanes;
  V running = {};
  bool started = false;
  const auto rest = [&](std::int64_t i) {  // a column without a square of its own
    V x;
    for (int j = 0; j < kLanes; ++j) x[j] = in[line(j) + i];
    running = started ? combine(F{}, running, x) : x;
    started = true;
    for (int j = 0; j < kLanes; ++j) out[line(j) + i] = running[j];
  };
  const auto square = [&](std::int64_t i) {
    V x[kLanes];
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) x[j] = load_from<V>(in + line(j) + i);
    transpose(x);
    const int first = reverse ? kLanes - 1 : 0;
    running = started ? combine(F{}, running, x[first]) : x[first];
    started = true;
    x[first] = running;
    if (reverse) {
#pragma GCC unroll 16
      for (int j = kLanes - 2; j >= 0; --j) x[j] = running = combine(F{}, running, x[j]);
    } else {
#pragma GCC unroll 16
      for (int j = 1; j < kLanes; ++j) x[j] = running = combine(F{}, running, x[j]);
    }
    transpose(x);
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) __builtin_memcpy(out + line(j) + i, &x[j], sizeof(V));
  };
  if (reverse) {
    for (std::int64_t i = n; i-- > whole;) rest(i);
    for (std::int64_t i = whole; i > 0; i -= kLanes) square(i - kLanes);
  } else {
    for (std::int64_t i = 0; i < whole; i += kLanes) square(i);
    for (std::int64_t i = whole; i < n; ++i) rest(i);
  }
}

/// The lanes `Distance` places before (Distance > 0) or after each; those without one stay.
template <int Distance, class V, int... Lane>
TELAMON_INLINE V moved(V v, std::integer_sequence<int, Lane...>) {
  constexpr int kN = sizeof...(Lane);
  return __builtin_shufflevector(
      v, v, (Lane - Distance >= 0 && Lane - Distance < kN ? Lane - Distance : Lane)...);
}
/// One lane in all places.
template <int kFrom, class V, int... Lane>
TELAMON_INLINE V of_lane(V v, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(v, v, (Lane * 0 + kFrom)...);
}
/// Running results within a register: log2(lanes) steps, each takes in what is 1, 2, 4, ... before.
template <class F, bool kReverse, int kDistance = 1, class V>
TELAMON_INLINE V scan_lanes(V v, const auto& lane) {
  constexpr int kN = sizeof(V) / sizeof(v[0]);
  if constexpr (kDistance >= kN) {
    return v;
  } else {
    constexpr int kFrom = kReverse ? -kDistance : kDistance;
    const V before = moved<kFrom>(v, std::make_integer_sequence<int, kN>());
    const auto has = kReverse ? lane < kN - kDistance : lane >= kDistance;
    return scan_lanes<F, kReverse, 2 * kDistance>(has ? combine(F{}, before, v) : v, lane);
  }
}
/// One line, a register at a time: what was before is known one operation after it was for the last.
template <class F, bool kReverse, class T>
void scan_long_line(std::int64_t n, const T* in, T* out) {
  using V = typename VectorOf<T>::Type;
  using P = typename VectorOf<SignedBitsOf<T>>::Type;
  constexpr int kLanes = VectorOf<T>::kLanes, kLast = kReverse ? 0 : kLanes - 1;
  P lane = {};
  for (int j = 0; j < kLanes; ++j) lane[j] = j;
  const std::int64_t vectors = n / kLanes, rest = n - vectors * kLanes;
  const auto place = [&](std::int64_t i) { return kReverse ? n - (i + 1) * kLanes : i * kLanes; };
  V before = {};
  const auto scan = [&]<class G>(G, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const V v = scan_lanes<G, kReverse>(load_from<V>(in + place(i)), lane);
      const V result = i == 0 ? v : combine(G{}, before, v);
      __builtin_memcpy(out + place(i), &result, sizeof result);
      const V all = of_lane<kLast>(v, std::make_integer_sequence<int, kLanes>());
      before = i == 0 ? all : combine(G{}, before, all);
    }
  };
  using OnNumbers = typename OfNumbers<F, T>::Type;
  std::int64_t done = 0;
  if constexpr (!std::is_same_v<OnNumbers, F>) {
    constexpr std::int64_t kAsked = 64;  // registers, which the cache holds until they are combined
    while (done < vectors) {
      const std::int64_t end = done + kAsked < vectors ? done + kAsked : vectors;
      auto nans = (V{} != V{});
      for (std::int64_t i = done; i < end; ++i) {
        const V v = load_from<V>(in + place(i));
        nans |= (v != v);
      }
      if (any_lane(nans)) break;
      scan(OnNumbers{}, done, end);
      done = end;
    }
  }
  scan(F{}, done, vectors);
  T running = before[0];
  for (std::int64_t i = 0; i < rest; ++i) {
    const std::int64_t at = kReverse ? rest - 1 - i : n - rest + i;
    out[at] = running = F::apply(running, in[at]);
  }
}

/// Shorter lines are sums in order, as in the loops that are generated for a few elements.
constexpr std::int64_t kLongLine = 64;
/// With 16 bytes of small integers at a time, and no instruction that moves each anywhere, registers gain nothing.
template <class T> constexpr bool kByRegisters =
    !kIsComplex<T> && (sizeof(T) >= 4 || simd::kBytes > 16);

template <class F, class T>
void scan_run(std::int64_t lines, std::int64_t n, const char* in, char* out, bool reverse) {
  const T* x = reinterpret_cast<const T*>(in);
  T* y = reinterpret_cast<T*>(out);
  if constexpr (kByRegisters<T>) {
    for (std::int64_t i = 0; n >= kLongLine && i < lines; ++i) {
      if (reverse) scan_long_line<F, true, T>(n, x + i * n, y + i * n);
      else scan_long_line<F, false, T>(n, x + i * n, y + i * n);
    }
    if (n >= kLongLine) return;
  }
  if constexpr (kByRegisters<T> && sizeof(T) >= 4) {
    constexpr std::int64_t kLanes = VectorOf<T>::kLanes;
    for (std::int64_t i = 0; lines > 1 && n >= kLanes && i < lines; i += kLanes)
      scan_side_by_side<F, T>(lines - i, n, x + i * n, y + i * n, reverse);
    if (lines > 1 && n >= kLanes) return;
  }
  for (std::int64_t i = 0; i < lines; ++i) scan_line<F, T>(n, x + i * n, y + i * n, reverse);
}

/// One row of scans of 16-bit floats side by side.
template <class F, class S>
void scan_row(std::int64_t n, const char* in, float* running, char* out) {
  const S* x = reinterpret_cast<const S*>(in);
  S* to = reinterpret_cast<S*>(out);
  constexpr std::int64_t kLanes = VectorOf<float>::kLanes;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const simd::F32 now = combine(F{}, load_from<simd::F32>(running + i), widen_lanes(x + i));
    __builtin_memcpy(running + i, &now, sizeof now);
    narrow_lanes(to + i, now);
  }
  for (; i < n; ++i) {
    running[i] = F::apply(running[i], widen(x[i]));
    to[i] = narrow_to<S>(running[i]);
  }
}

struct ScanTable {
  ScanLoop loops[kernels::kNumReduceOps][kNumDTypes] = {};

  /// Loops of T serve the dtype of U.
  template <class F, class T, class U = T> constexpr void put(ReduceOp op,
                                                              DType dtype = dtype_of<U>) {
    loops[static_cast<int>(op)][static_cast<int>(dtype)].lines = scan_run<F, T>;
  }
  template <class F, class S> constexpr void put_row(ReduceOp op) {
    loops[static_cast<int>(op)][static_cast<int>(dtype_of<S>)].row = scan_row<F, S>;
  }
  template <class T> constexpr void ordered(DType dtype = dtype_of<T>) {
    put<Max, T>(ReduceOp::max, dtype);
    put<Min, T>(ReduceOp::min, dtype);
  }
  /// Sums and products are those of unsigned numbers.
  template <class T> constexpr void integer() {
    put<Add, BitsOf<T>, T>(ReduceOp::sum);
    put<Mul, BitsOf<T>, T>(ReduceOp::prod);
    ordered<T>();
  }
  template <class T> constexpr void number() {
    put<Add, T>(ReduceOp::sum);
    put<Mul, T>(ReduceOp::prod);
    if constexpr (!kIsComplex<T>) ordered<T>();
  }
  template <class S> constexpr void small_float() {
    put_row<Add, S>(ReduceOp::sum);
    put_row<Mul, S>(ReduceOp::prod);
    put_row<Max, S>(ReduceOp::max);
    put_row<Min, S>(ReduceOp::min);
  }
  constexpr void boolean() {
    using U = std::uint8_t;
    put<Or, U>(ReduceOp::sum, DType::bool_);
    put<And, U>(ReduceOp::prod, DType::bool_);
    ordered<U>(DType::bool_);
  }
  template <class... Ts> constexpr void integers() { (integer<Ts>(), ...); }
  template <class... Ts> constexpr void numbers() { (number<Ts>(), ...); }
  constexpr ScanTable() {
    integers<std::int8_t, std::int16_t, std::int32_t, std::int64_t>();
    integers<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>();
    numbers<float, double, Complex64, Complex128>();
    small_float<Half>();
    small_float<BFloat16>();
    boolean();
  }
};
constexpr ScanTable kScanTable;

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" const telamon::kernels::ScanLoop* TELAMON_ISA_SYMBOL(scan_loop)(
    telamon::kernels::ReduceOp op, telamon::DType dtype) {
  return &telamon::loops::kScanTable.loops[static_cast<int>(op)][static_cast<int>(dtype)];
}
