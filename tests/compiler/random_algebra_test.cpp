// Random programs of what the simplifier has rules for: numbers that change nothing, numbers with themselves, minus
// signs, bits, selections, changes of order, slices and parts, over zeros of both signs, infinities, NaNs and the ends of
// integers. Compiled and eager, the bits are the same.
#include <algorithm>
#include <limits>
#include <random>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

constexpr std::int64_t kSide =
    18;  // of all arrays: more than 256 elements, of which a few rows are little

class RandomAlgebra {
 public:
  explicit RandomAlgebra(unsigned seed) : random_(seed), dtype_(pick(kTypes)) {}

  Arrays inputs() {
    Arrays all;
    for (int i = 0; i < 2; ++i) all.push_back(special());
    return all;
  }
  /// The same steps each time it is called anew.
  Arrays operator()(std::span<const Array> in) {
    values_.assign(in.begin(), in.end());
    truths_ = {lax::eq(in[0], in[1])};
    for (int i = 0; i < 14; ++i) {
      if (below(4) == 0) truths_.push_back(truth());
      else values_.push_back(value());
    }
    const Array& last = values_.back();
    return {last, truths_.back(), lax::slice(value(), {3, 0}, {5, kSide}),
            lax::slice(last, {0, 2}, {kSide, 9}, {5, 3})};
  }

 private:
  static constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i8,  DType::u8,
                                     DType::i32, DType::u32, DType::i64, DType::bool_};

  std::size_t below(std::size_t n) { return random_() % n; }
  template <class T, std::size_t n> T pick(const T (&all)[n]) { return all[below(n)]; }
  const Array& any() {
    return values_[values_.size() - 1 - below(std::min<std::size_t>(4, values_.size()))];
  }
  const Array& any_truth() { return truths_[below(truths_.size())]; }

  Array special() {
    constexpr double inf = std::numeric_limits<double>::infinity();
    constexpr double kFloats[] = {
        -0.0, 0, 1, -1, 2.5, -3.25, inf, -inf, std::numeric_limits<double>::quiet_NaN()};
    constexpr std::int64_t kIntegers[] = {0, 1, -1, 2, 127, -128, 1ll << 31, INT64_MIN, INT64_MAX};
    std::vector<double> floats;
    std::vector<std::int64_t> integers;
    for (std::int64_t i = 0; i < kSide * kSide; ++i) {
      floats.push_back(pick(kFloats));
      integers.push_back(pick(kIntegers));
    }
    const Shape shape{kSide, kSide};
    return lax::convert_element_type(
        is_float(dtype_) ? Array(floats, shape) : Array(integers, shape), dtype_);
  }
  /// A number that changes nothing or much, or another value.
  Array other() {
    if (below(2) == 0) return any();
    constexpr double kFloats[] = {0,
                                  -0.0,
                                  1,
                                  -1,
                                  4,
                                  -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::infinity()};
    constexpr std::int64_t kIntegers[] = {0, 1, -1, 2};
    const Array number = is_float(dtype_) ? Array(pick(kFloats)) : Array(pick(kIntegers));
    return lax::broadcast_in_dim(lax::convert_element_type(number, dtype_), {kSide, kSide}, {});
  }

  Array truth() {
    const Array &a = any(), b = other();
    switch (below(7)) {
      case 0: return lax::lt(a, b);
      case 1: return lax::le(a, a);
      case 2: return lax::ne(a, b);
      case 3: return lax::bitwise_not(any_truth());
      case 4: return lax::bitwise_xor(any_truth(), any_truth());
      case 5: return lax::select(any_truth(), any_truth(), lax::eq(b, b));
      default: {
        const Array n = lax::convert_element_type(any_truth(), DType::f32);
        return lax::ne(n, zeros_like(n));
      }
    }
  }
  Array value() {
    switch (below(5)) {
      case 0: return chosen();
      case 1: return in_other_order(any());
      case 2: return dtype_ == DType::bool_ ? of_bits() : of_numbers();
      case 3: return of_parts();
      default: return is_float(dtype_) ? of_numbers() : of_bits();
    }
  }
  Array chosen() {
    const Array& c = any_truth();
    return below(2) == 0 ? lax::select(c, any(), other())
                         : lax::select(c, lax::select(any_truth(), any(), any()), any());
  }
  Array of_numbers() {
    const Array &a = any(), b = other();
    switch (below(9)) {
      case 0: return lax::neg(a);
      case 1: return is_unsigned_integer(dtype_) ? lax::neg(a) : lax::abs(lax::neg(a));
      case 2: return lax::square(a);
      case 3: return lax::add(a, below(2) == 0 ? lax::neg(b) : b);
      case 4: return lax::sub(b, below(2) == 0 ? lax::neg(a) : a);
      case 5: return lax::mul(lax::neg(a), below(2) == 0 ? lax::neg(b) : b);
      case 6: return lax::max(a, b);
      case 7: return lax::min(b, a);
      default: return is_float(dtype_) ? lax::div(a, b) : lax::sub(a, a);
    }
  }
  Array of_bits() {
    const Array &a = any(), b = other();
    switch (below(5)) {
      case 0: return lax::bitwise_not(a);
      case 1: return lax::bitwise_and(a, b);
      case 2: return lax::bitwise_or(b, a);
      case 3: return lax::bitwise_xor(a, b);
      default: return dtype_ == DType::bool_ ? a : lax::shift_left(a, zeros_like(a));
    }
  }
  /// Of up to as many parts as there are rows or columns, some of them empty.
  Array of_parts() {
    const std::size_t axis = below(2);
    std::vector<std::int64_t> ends = {0, kSide};
    for (std::size_t more = below(kSide); more > 0; --more)
      ends.push_back(static_cast<std::int64_t>(below(kSide + 1)));
    std::sort(ends.begin(), ends.end());
    Arrays parts;
    for (std::size_t i = 1; i < ends.size(); ++i) {
      Shape from{0, 0}, to{kSide, kSide};
      from[axis] = ends[i - 1];
      to[axis] = ends[i];
      parts.push_back(lax::slice(any(), from, to));
    }
    return lax::concatenate(parts, static_cast<std::int64_t>(axis));
  }
  Array in_other_order(const Array& a) {
    const auto rows = [&](std::int64_t from, std::int64_t to) {
      return lax::slice(a, {from, 0}, {to, kSide});
    };
    switch (below(6)) {
      case 0: return lax::transpose(a, {1, 0});
      case 1: return lax::rev(a, {static_cast<std::int64_t>(below(2))});
      case 2: return lax::rev(lax::rev(a, {0, 1}), {1});
      case 3: return lax::concatenate(Arrays{rows(0, 7), rows(7, 11), rows(11, kSide)}, 0);
      case 4: return lax::concatenate(Arrays{rows(5, kSide), rows(0, 5)}, 0);
      default: {
        const Array many = lax::broadcast_in_dim(a, {3, kSide, kSide}, {1, 2});
        if (dtype_ == DType::bool_) return lax::reduce_or(many, {0});
        return is_float(dtype_) || below(2) == 0 ? lax::reduce_max(many, {0})
                                                 : lax::reduce_sum(many, {0});
      }
    }
  }

  std::mt19937 random_;
  DType dtype_;
  Arrays values_, truths_;
};

void check_programs(unsigned first, unsigned last) {
  for (unsigned seed = first; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    const Arrays x = RandomAlgebra(seed).inputs();
    check([&](std::span<const Array> in) { return RandomAlgebra(seed)(in); }, x);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RandomAlgebra, IsCompiledRight) { check_programs(0, 150); }
TEST(RandomAlgebra, LONG_IsCompiledRight) { check_programs(150, 5000); }

}  // namespace
}  // namespace telamon::testing
