// Two terms of bf16 in a word, as products of pairs take them, for one instruction set: the first in its upper half.
#include <cstdint>

#include "runtime/kernels/isa_loops.hpp"
#include "runtime/kernels/loop_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace {
namespace loops {

typedef std::uint16_t Halves __attribute__((vector_size(simd::kBytes)));
using Words = simd::U32;
constexpr std::int64_t kWords = simd::kBytes / 4;

/// The least magnitude other than 0, minus 1, which makes 0 the largest, of the halves of some words.
class Least {
 public:
  TELAMON_INLINE void look_at(Words words) {
    const Halves magnitudes = ((Halves)words & std::uint16_t{0x7fff}) - std::uint16_t{1};
    least_ = magnitudes < least_ ? magnitudes : least_;
  }
  std::uint16_t of_all() const {
    std::uint16_t least = 0xffff;
    for (int i = 0; i < simd::kBytes / 2; ++i) least = least_[i] < least ? least_[i] : least;
    return least;
  }

 private:
  Halves least_ = Halves{} - std::uint16_t{1};
};

/// Writes n words, of which word_at(i, count) has `count` in a register from the i-th on, and zeros in its other lanes.
template <class WordsAt>
TELAMON_INLINE std::uint16_t write_words(std::int64_t n, std::uint32_t* words,
                                         const WordsAt& words_at) {
  Least least;
  std::int64_t i = 0;
  for (; i + kWords <= n; i += kWords) {
    const Words now = words_at(i, kWords);
    least.look_at(now);
    __builtin_memcpy(words + i, &now, sizeof now);
  }
  if (i < n) {
    const Words now = words_at(i, n - i);
    least.look_at(now);
    for (int j = 0; j < n - i; ++j) words[i + j] = now[j];
  }
  return least.of_all();
}

typedef std::uint16_t Line __attribute__((vector_size(simd::kBytes / 2)));
TELAMON_INLINE Words widened(const std::uint16_t* line, std::int64_t count) {
  Line bits{};
  if (count == kWords) {
    __builtin_memcpy(&bits, line, sizeof bits);
  } else {
    for (int j = 0; j < count; ++j) bits[j] = line[j];
  }
  return __builtin_convertvector(bits, Words);
}

}  // namespace loops
}  // namespace
}  // namespace v1
}  // namespace telamon

extern "C" std::uint16_t TELAMON_ISA_SYMBOL(bf16_pairs)(std::int64_t n, const std::uint16_t* terms,
                                                        std::uint32_t* words) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  return write_words((n + 1) / 2, words,
                     [=](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
                       Words pairs{};
                       if (count == kWords && 2 * (i + kWords) <= n) {
                         __builtin_memcpy(&pairs, terms + 2 * i, sizeof pairs);
                       } else {
                         for (int j = 0; j < count; ++j) {
                           const std::int64_t at = 2 * (i + j);
                           const std::uint32_t second = at + 1 < n ? terms[at + 1] : 0;
                           pairs[j] = terms[at] | second << 16;
                         }
                       }
                       return pairs << 16 | pairs >> 16;
                     });
}
extern "C" std::uint16_t TELAMON_ISA_SYMBOL(bf16_pairs_of)(std::int64_t n,
                                                           const std::uint16_t* first,
                                                           const std::uint16_t* second,
                                                           std::uint32_t* words) {
  using namespace telamon::loops;  // NOLINT: this is their C face
  if (second == nullptr) {
    return write_words(n, words,
                       [=](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
                         return widened(first + i, count) << 16;
                       });
  }
  return write_words(n, words,
                     [=](std::int64_t i, std::int64_t count) __attribute__((always_inline)) {
                       return widened(first + i, count) << 16 | widened(second + i, count);
                     });
}
