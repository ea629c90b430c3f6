// Hash mixing for values that are compared field by field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace telamon {
inline namespace v1 {
namespace detail {

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Order matters: combine(combine(0, a), b) differs from combine(combine(0, b), a).
constexpr std::size_t combine_hash(std::size_t seed, std::size_t value) {
  return static_cast<std::size_t>(mix_bits(seed ^ mix_bits(value)));
}

inline std::size_t hash_bytes(std::string_view bytes) {
  std::uint64_t h = 0xcbf29ce484222325u;  // FNV-1a: short strings, no tables
  for (char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<std::size_t>(mix_bits(h));
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
