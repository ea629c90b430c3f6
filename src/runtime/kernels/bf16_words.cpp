// Puts two terms of bf16 into each word.
#include "runtime/kernels/bf16_words.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/integers.hpp"
#include "runtime/cpu.hpp"
#include "runtime/kernels/isa_loops.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

/// Words of a line, and from one line to the next: never whole pages, where lines would meet in the same sets of the first
/// cache.
std::int64_t line_of(std::int64_t words) {
  constexpr std::int64_t kHalfPage = 512, kCacheLine = 16;
  return words % kHalfPage == 0 ? words + kCacheLine : words;
}

/// Calls line(l, i) for all i < count of each product l, and gives the least of what it returns.
template <class Line>
std::uint16_t for_each_line(std::int64_t batch, std::int64_t count, std::int64_t words,
                            const Line& line) {
  constexpr std::int64_t kWords = 1 << 14;  // worth a chunk
  const std::int64_t lines = batch * count,
                     each = std::max<std::int64_t>(kWords / std::max<std::int64_t>(words, 1), 1);
  const std::int64_t chunks = detail::ceil_div(lines, each);
  std::vector<std::uint16_t> leasts(static_cast<std::size_t>(chunks), 0xffff);
  runtime::parallel_for(chunks, [&](std::int64_t chunk) {
    std::uint16_t least = 0xffff;
    const std::int64_t end = std::min(lines, (chunk + 1) * each);
    for (std::int64_t i = chunk * each; i < end; ++i)
      least = std::min(least, line(i / count, i % count));
    leasts[static_cast<std::size_t>(chunk)] = least;
  });
  return chunks == 0 ? 0xffff : *std::min_element(leasts.begin(), leasts.end());
}

}  // namespace

std::optional<Bf16Words> bf16_words(const View& x, std::size_t terms) {
  constexpr decltype(&telamon_generic_bf16_pairs) kPairs[runtime::kNumIsas] =
      TELAMON_BY_ISA(bf16_pairs);
  constexpr decltype(&telamon_generic_bf16_pairs_of) kPairsOf[runtime::kNumIsas] =
      TELAMON_BY_ISA(bf16_pairs_of);
  const auto isa = static_cast<std::size_t>(runtime::host_isa());
  const std::size_t others = 3 - terms;
  const auto is_contiguous = [&](std::size_t d) { return x.shape[d] == 1 || x.strides[d] == 2; };
  const bool along = is_contiguous(terms);
  if (!along && !is_contiguous(others)) return std::nullopt;
  const std::int64_t k = x.shape[terms], pairs = detail::ceil_div(k, std::int64_t{2}),
                     count = x.shape[others], words = along ? pairs : count,
                     lines = along ? count : pairs, line = line_of(words);
  const std::int64_t batch = x.strides[0] == 0 ? 1 : x.shape[0];  // one may be that of all
  auto memory = std::make_unique<Temporary>(Shape{batch, lines, line}, DType::u32);
  const auto from = [&](std::int64_t l, std::int64_t i, std::int64_t term) {
    return reinterpret_cast<const std::uint16_t*>(x.data + l * x.strides[0] +
                                                  i * x.strides[others] + term * x.strides[terms]);
  };
  auto* const to = reinterpret_cast<std::uint32_t*>(memory->data());
  const std::uint16_t least =
      for_each_line(batch, lines, words, [&](std::int64_t l, std::int64_t i) {
        std::uint32_t* const at = to + (l * lines + i) * line;
        if (along) return kPairs[isa](k, from(l, i, 0), at);
        return kPairsOf[isa](count, from(l, 0, 2 * i),
                             2 * i + 1 < k ? from(l, 0, 2 * i + 1) : nullptr, at);
      });
  View view{memory->data(), DType::u32, x.shape, {batch == 1 ? 0 : lines * line * 4, 0, 0}};
  view.shape[terms] = pairs;
  view.strides[along ? terms : others] = 4;
  view.strides[along ? others : terms] = line * 4;
  return Bf16Words{std::move(memory), view, least};
}

bool has_normal_sums(std::uint16_t least_of_a, std::uint16_t least_of_b) {
  // As exponents of f32: a number of exponent e is a multiple of 2^(e - 127 - 7), and sums of products of multiples of
  // 2^-126, the least normal number, together, rounded or not.
  const auto exponent = [](std::uint16_t least) { return (least + 1) >> 7; };
  constexpr int kBias = 127, kMantissa = 7, kLeastNormal = -126;
  const int a = exponent(least_of_a), b = exponent(least_of_b);
  return a > 0 && b > 0 && a + b >= 2 * (kBias + kMantissa) + kLeastNormal;
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
