// Random programs of indices: counted, moved, scaled, converted and put together in integers of every width, at the
// ends of what these hold, then read and written by. Compiled and eager, the bits are the same.
#include <random>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

class RandomIndices {
 public:
  explicit RandomIndices(unsigned seed) : random_(seed) {}

  /// What is read and written at the places that the same steps give each time.
  Arrays operator()(std::span<const Array> x) {
    const Array i = places(x[2]);
    const Array rows = take(x[0], i, 0);
    const Array v = lax::convert_element_type(i, x[0].dtype());
    return {i,
            rows,
            take(x[1], i, 1),
            x[0].at(i).add(v),
            x[0].at(i).set(rows * 2),
            lax::dynamic_slice(x[0], Arrays{i(0)}, {5}),
            rotated(rows)};
  }

 private:
  static constexpr DType kTypes[] = {DType::i8,  DType::u8,  DType::i16, DType::u16,
                                     DType::i32, DType::u32, DType::i64, DType::u64};
  static constexpr std::int64_t kLengths[] = {1, 2, 7, 10, 100, 127, 128, 129, 200, 255, 257, 300};

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  template <class T, std::size_t n> T pick(const T (&all)[n]) {
    return all[below(static_cast<std::int64_t>(n))];
  }
  // A number near 0, or near an end of what the integers of the type hold.
  Array number(DType dtype) {
    const int bits = static_cast<int>(8 * size_of(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
    const std::int64_t end = below(2) == 0 ? 0 : bits > 62 ? INT64_MAX : std::int64_t{1} << bits;
    return lax::convert_element_type(Array(end - below(end == 0 ? 5 : 300)), dtype);
  }
  Array places(const Array& unknown) {
    Array i = lax::iota(pick(kTypes), {pick(kLengths)}, 0);
    for (std::int64_t n = below(6); n > 0; --n) {
      const Array c = below(5) > 0
                          ? number(i.dtype())
                          : lax::convert_element_type(unknown(below(unknown.size())), i.dtype());
      i = moved(i, lax::broadcast_in_dim(c, i.shape(), {}));
    }
    return i;
  }
  Array moved(const Array& i, const Array& c) {
    switch (below(9)) {
      case 0: return lax::add(i, c);
      case 1: return lax::sub(i, c);
      case 2: return lax::mul(i, c);
      case 3: return lax::mul(i, lax::full_like(i, static_cast<double>(1 + below(3))));
      case 4: return lax::convert_element_type(i, pick(kTypes));
      case 5: return lax::select(lax::lt(i, zeros_like(i)), lax::add(i, c), i);
      case 6: return lax::reshape(lax::reshape(i, {i.size(), 1}), {i.size()});
      case 7: return rotated(i);
      default: {
        const std::int64_t from = below(i.size());
        return lax::slice(i, {from}, {i.size()}, {1 + below(2)});
      }
    }
  }
  Array rotated(const Array& i) {
    const std::int64_t n = i.shape()[0], by = below(n);
    return lax::concatenate(Arrays{lax::slice_in_dim(i, by, n), lax::slice_in_dim(i, 0, by)}, 0);
  }
  // Which places are where: rows of the identity where these are counted, moved and transposed.
  Array columns(const Array& i) {
    const Shape shape{i.size(), 130};
    const Array counted = lax::iota(i.dtype(), shape, 1);
    return lax::transpose(rotated(lax::eq(lax::broadcast_in_dim(i, shape, {0}), counted)), {1, 0});
  }

  std::mt19937 random_;
};

void check_programs(unsigned first, unsigned last) {
  const Array unknown(std::vector<std::int64_t>{-1, 0, 3, 120, 250, 32'760, 65'530, (1ll << 31) - 5,
                                                (1ll << 32) - 5, INT64_MAX - 5});
  const Arrays x = {uniform({300}, DType::f64), uniform({3, 300}, DType::f32), unknown};
  for (unsigned seed = first; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    check([&](std::span<const Array> in) { return RandomIndices(seed)(in); }, x);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RandomIndices, AreCompiledRight) { check_programs(0, 150); }
TEST(RandomIndices, LONG_AreCompiledRight) { check_programs(150, 5000); }

}  // namespace
}  // namespace telamon::testing
