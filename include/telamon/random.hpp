// Random numbers by counter: a key and a shape determine the numbers, bit for bit those of JAX
// (threefry2x32 in the "partitionable" layout).
//
//   Array key = tl::random::key(0);
//   Arrays keys = tl::unstack(tl::random::split(key));       // never use one key twice
//   Array w = tl::random::normal(keys[0], {784, 10});
//
// A key is a u32[2] array; arrays of keys are made by split and used under vmap.
#pragma once

#include <cstdint>
#include <optional>

#include "telamon/array.hpp"
#include "telamon/none.hpp"

namespace telamon {
inline namespace v1 {
namespace random {

/// The key of a seed: its high and its low word.
TELAMON_API Array key(std::uint64_t seed, SourceLocation where = SourceLocation::current());
/// `count` new keys: u32[count, 2].
TELAMON_API Array split(const Operand& key, std::int64_t count = 2);
/// A new key for each value of `data` (an integer scalar): fold_in(key, i) == split(key, n)(i).
TELAMON_API Array fold_in(const Operand& key, const Operand& data);

/// Random words of an unsigned integer dtype.
TELAMON_API Array bits(const Operand& key, const Shape& shape, DType dtype = DType::u32);
/// Evenly distributed in [minval, maxval), for any finite bounds: where maxval - minval overflows, too (JAX
/// gives infinities there). The dtype is the default float unless one is named.
TELAMON_API Array uniform(const Operand& key, const Shape& shape = {},
                          std::optional<DType> dtype = none, const Operand& minval = 0.0,
                          const Operand& maxval = 1.0);
/// From the standard normal distribution, in f32 or f64.
TELAMON_API Array normal(const Operand& key, const Shape& shape = {},
                         std::optional<DType> dtype = none);
/// Integers in [minval, maxval). The dtype is the default int unless one is named.
TELAMON_API Array randint(const Operand& key, const Shape& shape, const Operand& minval,
                          const Operand& maxval, std::optional<DType> dtype = none);
/// True with probability p, in the given shape (default: that of p).
TELAMON_API Array bernoulli(const Operand& key, const Operand& p = 0.5,
                            const std::optional<Shape>& shape = none);
/// From the standard Gumbel distribution, -log(-log(u)), in f32 or f64.
TELAMON_API Array gumbel(const Operand& key, const Shape& shape = {},
                         std::optional<DType> dtype = none);
/// Indices along `axis` with probabilities softmax(logits, axis), in the default int. `shape` is that
/// of the result; it ends with the shape of the logits less `axis`, which is its default.
TELAMON_API Array categorical(const Operand& key, const Operand& logits, std::int64_t axis = -1,
                              const std::optional<Shape>& shape = none);
/// 0, ..., n - 1 in random order; or an array with its slices along `axis` in random order.
TELAMON_API Array permutation(const Operand& key, const Operand& x, Axis axis = 0);

}  // namespace random
}  // namespace v1
}  // namespace telamon
