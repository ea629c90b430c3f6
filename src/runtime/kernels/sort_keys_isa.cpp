// Elements as unsigned integers of the same order, for one instruction set.
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

using kernels::SortKeys;

/// Elements by their bits. kInfinity: the bits of the infinity; what lies above, but for the sign, is a
/// NaN. 0: not a float.
template <class Bits, Bits kInfinity, bool kSigned>
struct Codec {
  using Memory = Bits;
  using Key = std::conditional_t<sizeof(Bits) == 8, std::uint64_t, std::uint32_t>;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  static constexpr Bits kAll = static_cast<Bits>(~Bits{0});
  static constexpr bool kIsFloat = kInfinity != 0;

  TELAMON_INLINE static bool is_zero(Bits x) { return static_cast<Bits>(x << 1) == 0; }
  TELAMON_INLINE static bool is_nan(Bits x) { return static_cast<Bits>(x & ~kSign) > kInfinity; }
  /// All bits or none, by arithmetic: gcc does not vectorise loops with conditions in all widths.
  TELAMON_INLINE static Bits when(bool condition) {
    return static_cast<Bits>(-static_cast<Wrapping<Bits>>(condition));
  }
  /// Not 0 if decode(encode(x)) differs from x.
  TELAMON_INLINE static Bits special(Bits x) {
    if constexpr (!kIsFloat) return 0;
    else return static_cast<Bits>(when(x == kSign) | when(is_nan(x)));
  }
  /// NaNs are equal and last, -0 is 0.
  TELAMON_INLINE static Key encode(Bits x) {
    if constexpr (kIsFloat) {
      const auto negative =
          static_cast<Bits>(static_cast<SignedBitsOf<Bits>>(x) >> (kWidth<Bits> - 1));
      const auto positive = static_cast<Bits>(x & ~when(x == kSign));  // -0 becomes 0
      const auto ordered = static_cast<Bits>(positive ^ ((negative & ~when(x == kSign)) | kSign));
      return static_cast<Bits>(ordered | when(is_nan(x)));
    } else {
      return kSigned ? static_cast<Bits>(x ^ kSign) : x;
    }
  }
  /// The bits that differ between a key and what it is of, where the highest bit of the key is set, and where not.
  static constexpr Bits kIfSet = kIsFloat || kSigned ? kSign : 0,
                        kIfClear = kIsFloat ? kAll : kIfSet;
  TELAMON_INLINE static Bits decode(Key key) {
    const auto x = static_cast<Bits>(key);
    return static_cast<Bits>(x ^ (x >= kSign ? kIfSet : kIfClear));
  }
};

template <class C>
bool encode_line(const char* from, std::int64_t n, void* keys) {
  using Bits = typename C::Memory;
  const auto* x = reinterpret_cast<const Bits*>(from);
  auto* key = static_cast<typename C::Key*>(keys);
  Bits special = 0;
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const Bits bits = x[i];
    key[i] = C::encode(bits);
    special = special | C::special(bits);
  }
  return special != 0;
}

template <class C>
void decode_line(const void* keys, std::int64_t n, char* to) {
  const auto* key = static_cast<const typename C::Key*>(keys);
  auto* x = reinterpret_cast<typename C::Memory*>(to);
  TELAMON_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) x[i] = C::decode(key[i]);
}

/// The first of n ascending elements whose key is not below `key`.
template <class C>
std::int64_t first_with(const typename C::Memory* x, std::int64_t n, typename C::Key key) {
  std::int64_t low = 0;
  while (n > 0) {
    const std::int64_t half = n / 2;
    if (C::encode(x[low + half]) < key) {
      low += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return low;
}
template <class C>
void restore_line(const char* from, std::int64_t n, char* to) {
  if constexpr (C::kIsFloat) {
    const auto* x = reinterpret_cast<const typename C::Memory*>(from);
    auto* y = reinterpret_cast<typename C::Memory*>(to);
    std::int64_t zero = first_with<C>(y, n, C::encode(0)), nan = n;
    for (std::int64_t i = n; i-- > 0;)
      if (C::is_nan(x[i])) y[--nan] = x[i];
    for (std::int64_t i = 0; i < n; ++i)
      if (C::is_zero(x[i])) y[zero++] = x[i];
  }
}

template <class C>
TELAMON_INLINE typename C::Memory element(const char* at) {
  typename C::Memory x;
  __builtin_memcpy(&x, at, sizeof x);
  return x;
}
template <class C>
unsigned write_entries(const char* line, std::int64_t stride, const std::uint32_t* order,
                       std::int64_t first, std::int64_t last, int word, std::uint64_t* entries) {
  constexpr int kSize = sizeof(typename C::Memory);
  const auto word_of = [word](typename C::Memory x) {
    return (std::uint64_t{C::encode(x)} >> (32 * word)) & 0xffffffffu;
  };
  const std::uint64_t some = word_of(element<C>(line));
  std::uint64_t differing = 0;
  typename C::Memory special = 0;
  if (order == nullptr && stride == kSize) {
    TELAMON_INDEPENDENT
    for (std::int64_t i = first; i < last; ++i) {
      const auto x = element<C>(line + i * kSize);
      const std::uint64_t key = word_of(x);
      differing |= key ^ some;
      special = special | C::special(x);
      entries[i] = key << 32 | static_cast<std::uint64_t>(i);
    }
  } else {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t at = order == nullptr ? i : static_cast<std::int64_t>(order[i]);
      const auto x = element<C>(line + at * stride);
      const std::uint64_t key = word_of(x);
      differing |= key ^ some;
      special = special | C::special(x);
      entries[i] = key << 32 | static_cast<std::uint64_t>(i);
    }
  }
  return (differing != 0 ? kernels::kEntriesDiffer : 0) |
         (special != 0 ? kernels::kEntriesSpecial : 0);
}

struct KeyTable {
  SortKeys of[kNumDTypes] = {};
  template <class Bits, Bits kInfinity, bool kSigned = false> constexpr void put(DType dtype) {
    using C = Codec<Bits, kInfinity, kSigned>;
    of[static_cast<int>(dtype)] = {sizeof(typename C::Key), {C::kIfSet, C::kIfClear},
                                   encode_line<C>,          decode_line<C>,
                                   restore_line<C>,         write_entries<C>};
  }
  constexpr KeyTable() {
    put<std::uint8_t, 0>(DType::bool_);
    put<std::uint8_t, 0>(DType::u8);
    put<std::uint16_t, 0>(DType::u16);
    put<std::uint32_t, 0>(DType::u32);
    put<std::uint64_t, 0>(DType::u64);
    put<std::uint8_t, 0, true>(DType::i8);
    put<std::uint16_t, 0, true>(DType::i16);
    put<std::uint32_t, 0, true>(DType::i32);
    put<std::uint64_t, 0, true>(DType::i64);
    put<std::uint16_t, 0x7c00>(DType::f16);
    put<std::uint16_t, 0x7f80>(DType::bf16);
    put<std::uint32_t, 0x7f800000>(DType::f32);
    put<std::uint64_t, 0x7ff0000000000000>(DType::f64);
  }
};
constexpr KeyTable kKeyTable;

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" const telamon::kernels::SortKeys* TELAMON_ISA_SYMBOL(sort_keys)(telamon::DType dtype) {
  return &telamon::loops::kKeyTable.of[static_cast<int>(dtype)];
}
