// Reductions and arg-reductions of contiguous runs, for one instruction set.
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"
#include "runtime/kernels/registers_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::ArgLoop;
using kernels::ReduceLoop;
using kernels::ReduceOp;

/// Elements that four registers of partial results take in, 64 each.
template <class T> constexpr std::int64_t kBlock = 4 * 64 * VectorOf<T>::kLanes;

template <class F, class T>
T reduce_block(const T* x, std::int64_t n) {
  using V = typename VectorOf<T>::Type;
  constexpr std::int64_t kLanes = VectorOf<T>::kLanes;
  if (n < kLanes) {
    T result = x[0];
    for (std::int64_t i = 1; i < n; ++i) result = F::apply(result, x[i]);
    return result;
  }
  const auto load = [x](std::int64_t i) {
    V v;
    __builtin_memcpy(&v, x + i, sizeof v);
    return v;
  };
  V sums[4];
  std::int64_t i = kLanes;
  sums[0] = load(0);
  if (n >= 4 * kLanes) {
    for (int j = 1; j < 4; ++j, i += kLanes) sums[j] = load(i);
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      for (int j = 0; j < 4; ++j) sums[j] = combine(F{}, sums[j], load(i + j * kLanes));
    }
    sums[0] = combine(F{}, combine(F{}, sums[0], sums[1]), combine(F{}, sums[2], sums[3]));
  }
  for (; i + kLanes <= n; i += kLanes) sums[0] = combine(F{}, sums[0], load(i));
  T lanes[kLanes];
  __builtin_memcpy(static_cast<void*>(lanes), &sums[0], sizeof lanes);
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t j = 0; j < half; ++j) lanes[j] = F::apply(lanes[j], lanes[j + half]);
  }
  for (; i < n; ++i) lanes[0] = F::apply(lanes[0], x[i]);
  return lanes[0];
}

/// Pairwise over blocks: the error of a sum grows with the logarithm of n.
template <class F, class T>
T reduce_range(const T* x, std::int64_t n) {
  if (n <= kBlock<T>) return reduce_block<F, T>(x, n);
  const std::int64_t half = (n / 2 + kBlock<T> - 1) / kBlock<T> * kBlock<T>;
  return F::apply(reduce_range<F, T>(x, half), reduce_range<F, T>(x + half, n - half));
}

/// Products of complex numbers, whose parts a register would have to take apart: four results side by side.
template <class T>
T multiply_complex(const T* x, std::int64_t n) {
  constexpr int kParts = 4;
  T parts[kParts];
  const int count = n < kParts ? static_cast<int>(n) : kParts;
  for (int j = 0; j < count; ++j) parts[j] = x[j];
  std::int64_t i = count;
  for (; i + kParts <= n; i += kParts) {
    for (int j = 0; j < kParts; ++j) parts[j] = Mul::apply(parts[j], x[i + j]);
  }
  for (int j = 0; i < n; ++i, ++j) parts[j] = Mul::apply(parts[j], x[i]);
  for (int j = 1; j < count; ++j) parts[0] = Mul::apply(parts[0], parts[j]);
  return parts[0];
}

template <class F, class T>
void reduce_run(std::int64_t n, const char* in, char* out) {
  const T* x = reinterpret_cast<const T*>(in);
  T& result = *reinterpret_cast<T*>(out);
  if constexpr (kIsComplex<T> && std::is_same_v<F, Mul>) result = multiply_complex(x, n);
  else result = reduce_range<F, T>(x, n);
}

/// The first of n elements that is `best` or NaN. By groups of four registers.
template <class T>
std::int64_t find_first(const T* x, std::int64_t n, T best) {
  using V = typename VectorOf<T>::Type;
  constexpr std::int64_t kLanes = VectorOf<T>::kLanes;
  const V wanted = best - V{};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    auto found = (wanted != wanted);
    for (int j = 0; j < 4; ++j) {
      const V v = load_from<V>(x + i + j * kLanes);
      found |= (v == wanted) | (v != v);
    }
    if (any_lane(found)) break;
  }
  for (; i < n; ++i) {
    if (x[i] == best || x[i] != x[i]) return i;
  }
  return 0;
}

/// Whether x, which comes later, replaces the extreme so far: also if it is the first NaN.
TELAMON_INLINE auto better(Max, auto x, auto best) { return ~(x <= best) & (best == best); }
TELAMON_INLINE auto better(Min, auto x, auto best) { return ~(x >= best) & (best == best); }

/// By halves; x has a power of two elements.
template <class F, int kCount, class T>
TELAMON_INLINE T fold_array(T (&x)[kCount]) {
  for (int half = kCount / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) x[j] = F::apply(x[j], x[j + half]);
  }
  return x[0];
}

/// Each lane keeps its extreme and where it was; then the extreme of all lanes, and its first place.
template <class F, class T>
std::int64_t arg_lanes(std::int64_t n, const T* x) {
  using V = typename VectorOf<T>::Type;
  using I = SignedBitsOf<T>;
  using P = typename VectorOf<I>::Type;
  constexpr int kLanes = VectorOf<T>::kLanes, kCopies = 4;
  V best[kCopies];
  P place[kCopies], lane = {};
  for (int j = 0; j < kLanes; ++j) lane[j] = static_cast<I>(j);
  const int copies = n >= kCopies * kLanes ? kCopies : 1;
  for (int c = 0; c < copies; ++c) {
    best[c] = load_from<V>(x + c * kLanes);
    place[c] = lane + static_cast<I>(c * kLanes);
  }
  const auto take = [&](int c, std::int64_t i) {
    const V v = load_from<V>(x + i);
    const auto taken = better(F{}, v, best[c]);
    best[c] = taken ? v : best[c];
    place[c] = taken ? lane + static_cast<I>(i) : place[c];
  };
  std::int64_t i = copies * kLanes;
  if (copies > 1) {
    for (; i + kCopies * kLanes <= n; i += kCopies * kLanes) {
      for (int c = 0; c < kCopies; ++c) take(c, i + c * kLanes);
    }
  }
  for (; i + kLanes <= n; i += kLanes) take(0, i);
  if (i < n) take(0, n - kLanes);  // what was seen before replaces nothing
  V all = best[0];
  for (int c = 1; c < copies; ++c) all = combine(F{}, all, best[c]);
  T values[kLanes];
  __builtin_memcpy(values, &all, sizeof all);
  const V wanted = fold_array<F>(values) - V{};
  const P none = P{} + static_cast<I>(INT32_MAX);
  P first = none;
  for (int c = 0; c < copies; ++c) {
    const P at = ((best[c] == wanted) | (best[c] != best[c])) ? place[c] : none;
    first = at < first ? at : first;
  }
  I places[kLanes];
  __builtin_memcpy(places, &first, sizeof first);
  return fold_array<Min>(places);
}

/// The extreme value of one block after the other, then the first element of its block that has it.
template <class F, class T>
std::int64_t arg_run(std::int64_t n, const char* in) {
  if constexpr (sizeof(T) >= 4) {
    if (n >= VectorOf<T>::kLanes && n <= INT32_MAX)
      return arg_lanes<F>(n, reinterpret_cast<const T*>(in));
  }
  constexpr std::int64_t kStep = 64 * VectorOf<T>::kLanes;
  const T* x = reinterpret_cast<const T*>(in);
  std::int64_t where = 0;
  T best = reduce_block<F, T>(x, n < kStep ? n : kStep);
  for (std::int64_t i = kStep; i < n && best == best; i += kStep) {
    const T candidate = F::apply(best, reduce_block<F, T>(x + i, n - i < kStep ? n - i : kStep));
    where = candidate != best ? i : where;
    best = candidate;
  }
  return where + find_first(x + where, n - where < kStep ? n - where : kStep, best);
}
/// One row of a run of arg-reductions side by side: takes `index` where x is better than `best`.
template <class F, class T>
void arg_row(std::int64_t n, const char* in, char* best_values, std::int64_t* best,
             std::int64_t index) {
  const T* x = reinterpret_cast<const T*>(in);
  T* value = reinterpret_cast<T*>(best_values);
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const T old = value[i], candidate = F::apply(old, x[i]);
    const bool changed = candidate != old && old == old;
    best[i] = changed ? index : best[i];
    value[i] = candidate;
  }
}

struct ReduceTable {
  ReduceLoop reduce[kernels::kNumReduceOps][kNumDTypes] = {};
  ArgLoop arg[2][kNumDTypes] = {};

  /// Loops of T serve the dtype of U.
  template <class F, class T, class U = T> constexpr void put(ReduceOp op,
                                                              DType dtype = dtype_of<U>) {
    reduce[static_cast<int>(op)][static_cast<int>(dtype)] = reduce_run<F, T>;
  }
  template <class T> constexpr void ordered(DType dtype = dtype_of<T>) {
    put<Max, T>(ReduceOp::max, dtype);
    put<Min, T>(ReduceOp::min, dtype);
    arg[0][static_cast<int>(dtype)] = {arg_run<Max, T>, arg_row<Max, T>};
    arg[1][static_cast<int>(dtype)] = {arg_run<Min, T>, arg_row<Min, T>};
  }
  template <class T> constexpr void number() {
    put<Add, T>(ReduceOp::sum);
    put<Mul, T>(ReduceOp::prod);
    ordered<T>();
  }
  template <class T> constexpr void integer() {
    using U = BitsOf<T>;
    put<Add, U, T>(ReduceOp::sum);
    put<Mul, U, T>(ReduceOp::prod);
    put<And, U, T>(ReduceOp::and_);
    put<Or, U, T>(ReduceOp::or_);
    put<Xor, U, T>(ReduceOp::xor_);
    ordered<T>();
  }
  template <class T> constexpr void complex_number() {
    put<Add, T>(ReduceOp::sum);
    put<Mul, T>(ReduceOp::prod);
  }
  constexpr void boolean() {
    using U = std::uint8_t;
    put<Or, U>(ReduceOp::sum, DType::bool_);
    put<And, U>(ReduceOp::prod, DType::bool_);
    put<And, U>(ReduceOp::and_, DType::bool_);
    put<Or, U>(ReduceOp::or_, DType::bool_);
    put<Xor, U>(ReduceOp::xor_, DType::bool_);
    ordered<U>(DType::bool_);
  }
  constexpr ReduceTable() {
    integer<std::int8_t>();
    integer<std::int16_t>();
    integer<std::int32_t>();
    integer<std::int64_t>();
    integer<std::uint8_t>();
    integer<std::uint16_t>();
    integer<std::uint32_t>();
    integer<std::uint64_t>();
    number<float>();
    number<double>();
    complex_number<Complex64>();
    complex_number<Complex128>();
    boolean();
  }
};
constexpr ReduceTable kReduceTable;

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" telamon::kernels::ReduceLoop TELAMON_ISA_SYMBOL(reduce_loop)(
    telamon::kernels::ReduceOp op, telamon::DType dtype) {
  return telamon::loops::kReduceTable.reduce[static_cast<int>(op)][static_cast<int>(dtype)];
}
extern "C" const telamon::kernels::ArgLoop* TELAMON_ISA_SYMBOL(arg_loop)(bool largest,
                                                                         telamon::DType dtype) {
  return &telamon::loops::kReduceTable.arg[largest ? 0 : 1][static_cast<int>(dtype)];
}
