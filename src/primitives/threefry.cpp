// threefry2x32: the block cipher behind random numbers.
//
// Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011); 20 rounds. Five
// groups of four rounds x0 += x1; x1 = rotate(x1, r) ^ x0; after group i the key words are added.
#include <cstdint>

#include "primitives/elementwise.hpp"
#include "runtime/kernels/random.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;

namespace {

constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
constexpr std::int64_t kParity = 0x1BD11BDA;

/// The cipher in generated code; the eager kernel does the same (runtime/kernels).
Scalars encrypt(Emitter& e, Scalar k0, Scalar k1, Scalar x0, Scalar x1) {
  const auto word = [&e](std::int64_t v) { return e.constant_int(DType::u32, v); };
  const auto rotate_left = [&](Scalar x, int n) {
    return e.or_(e.shift_left(x, word(n)), e.shift_right_logical(x, word(32 - n)));
  };
  const Scalar keys[3] = {k0, k1, e.xor_(e.xor_(k0, k1), word(kParity))};
  x0 = e.add(x0, keys[0]);
  x1 = e.add(x1, keys[1]);
  for (int group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x0 = e.add(x0, x1);
      x1 = e.xor_(rotate_left(x1, rotation), x0);
    }
    x0 = e.add(x0, keys[(group + 1) % 3]);
    // What is known of the key is added up outside the loop over the counters.
    x1 = e.add(x1, e.add(keys[(group + 2) % 3], word(group + 1)));
  }
  return {x0, x1};
}

Arrays threefry_impl(const Aval& word, std::span<const Array> x) {
  Array out0 = detail::make_uninitialized(word), out1 = detail::make_uninitialized(word);
  kernels::run_threefry2x32(view_of(x[0]), view_of(x[1]), view_of(x[2]), view_of(x[3]),
                            view_of(out0), view_of(out1));
  return {out0, out1};
}

constexpr ElementwiseTypes kTypes{"threefry2x32", {DType::u32}, {}, 4};

}  // namespace

// clang-format off: a primitive is a paragraph
/// threefry2x32(k0, k1, x0, x1): the two words of the encrypted counter (x0, x1) under (k0, k1)
const Primitive<> threefry2x32_p{"threefry2x32", [] { return Rules<>{
    .impl = [](const NoParams&, std::span<const Array> x) {
      return threefry_impl(kTypes(x).strong(), x);
    },
    .abstract_eval = [](const NoParams&, std::span<const Aval> x) {
      const Aval word = kTypes(x).strong();
      return AbstractResult({word, word});
    },
    .batch = elementwise_batch(threefry2x32_p),
    .lower = elements<NoParams>([](Emitter& e, const NoParams&, std::span<const Scalar> x) {
      return encrypt(e, x[0], x[1], x[2], x[3]);
    }).with_cost(100),
    .exempt = {{"jvp", "integer operands have no tangents"},
               {"transpose", "never linear in its operands"}},
}; }};
// clang-format on

}  // namespace v1
}  // namespace telamon
