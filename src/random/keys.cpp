// Keys, and random words from them: threefry2x32 of the element's row-major number.
//
// Element i of a draw is threefry(key, (high word of i, low word of i)), so that a draw can be
// computed in parts and in any order. (Salmon et al., Parallel random numbers: as easy as 1, 2, 3,
// 2011; JAX's "partitionable" layout.)
#include "random/keys.hpp"
#include "telamon/random.hpp"

#include "core/concrete.hpp"
#include "core/in_call.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace random {

void check_key(const char* name, const Array& key) {
  if (key.dtype() != DType::u32 || key.shape() != Shape{2}) {
    throw TypeError(std::string("random::") + name + " needs a key, u32[2], got " +
                    key.aval().to_string() +
                    ". Keys come from random::key and random::split; use vmap for arrays of keys.");
  }
}

std::pair<Array, Array> key_words(const char* name, const Array& key) {
  check_key(name, key);
  return {lax::index_in_dim(key, 0), lax::index_in_dim(key, 1)};
}

namespace {

/// threefry2x32 with one key for all counters.
Arrays threefry(const char* name, const Array& key, const Array& high, const Array& low) {
  const auto [k0, k1] = key_words(name, key);
  return lax::threefry2x32(lax::broadcast(k0, high.shape()), lax::broadcast(k1, high.shape()), high,
                           low);
}

Arrays threefry_of_iota(const char* name, const Array& key, const Shape& shape) {
  const Arrays counters = lax::iota_2x32_shape(shape);
  return threefry(name, key, counters[0], counters[1]);
}

}  // namespace

Array key(std::uint64_t seed, SourceLocation where) {
  return detail::in_call("random::key", where, [&] {
    const std::uint32_t words[] = {static_cast<std::uint32_t>(seed >> 32),
                                   static_cast<std::uint32_t>(seed)};
    return Array::from_data(words, DType::u32, {2});
  });
}

Array split(const Operand& key, std::int64_t count) {
  return detail::in_call("random::split", {&key}, [&] {
    if (count < 0)
      throw ValueError("random::split: the count must not be negative, got " +
                       std::to_string(count));
    detail::check_dense("random::split", {{count, 2}, DType::u32});
    return lax::stack(threefry_of_iota("split", key.array, {count}), 1);
  });
}

Array fold_in(const Operand& key, const Operand& data) {
  return detail::in_call("random::fold_in", {&key, &data}, [&] {
    if (!is_integer(data.array.dtype()) || data.array.ndim() != 0) {
      throw TypeError("random::fold_in needs an integer scalar, got " +
                      data.array.aval().to_string());
    }
    const bool constant = data.array.weak_type() && !data.array.is_tracer();
    const Array word = constant ? lax::scalar(data.array, DType::u32)
                                : lax::convert_element_type(data, DType::u32);
    return lax::stack(threefry("fold_in", key.array, lax::scalar(0, DType::u32), word), 0);
  });
}

Array bits(const Operand& key, const Shape& shape, DType dtype) {
  return detail::in_call("random::bits", {&key}, [&] {
    if (!is_unsigned_integer(dtype)) {
      throw TypeError("random::bits needs an unsigned integer dtype, got " +
                      std::string(short_name(dtype)));
    }
    detail::check_dense("random::bits", {shape, dtype});
    const Arrays words = threefry_of_iota("bits", key.array, shape);
    if (dtype != DType::u64)
      return lax::convert_element_type(lax::bitwise_xor(words[0], words[1]), dtype);
    const Array high = lax::convert_element_type(words[0], DType::u64);
    const Array low = lax::convert_element_type(words[1], DType::u64);
    return lax::bitwise_or(lax::shift_left(high, lax::full_like(high, 32)), low);
  });
}

}  // namespace random
}  // namespace v1
}  // namespace telamon
