// Programs of sizes that no machine has, or that are many times nothing: they are compiled like others, and as soon.
#include <string>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

std::string plan_of(const std::string& text) { return compile(parse_jaxpr(text))->text("plan"); }

// 2^62 trips, and a product of 2^64 - 4 multiplications: in 64 bits with a sign, the work of both was 0 or less.
TEST(LargeSizes, OfLoopsAndProductsAreMuchWork) {
  const std::string many_trips = plan_of(
      "{ lambda a:f32[4] . let\n"
      "c:f32[4] = scan [ length=4611686018427387904 num_carry=1 num_consts=0 reverse=False "
      "unroll=1 ] a { lambda d:f32[4] . let e:f32[4] = sin d\nf:f32[4] = mul e d in ( f ) } "
      "in ( c ) }");
  EXPECT_NE(many_trips.find("kernel cells scan (4,)"), std::string::npos) << many_trips;
  const std::string products = plan_of(
      "{ lambda a:f32[715827883,2147483647], b:f32[8,2147483647,12] . let\n"
      "c:f32[8,715827883,12] = scan [ length=8 num_carry=0 num_consts=1 reverse=False unroll=1 ] "
      "a b { lambda d:f32[715827883,2147483647], e:f32[2147483647,12] . let\n"
      "g:f32[715827883,12] = dot_general [ dimension_numbers={lhs_contracting=(1,), "
      "rhs_contracting=(0,), lhs_batch=(), rhs_batch=()} preferred_element_type=float32 ] d e "
      "in ( g ) } in ( c ) }");
  EXPECT_NE(products.find("loop reads"), std::string::npos) << products;
}

// The other sizes of an array without elements: their products overflow, which the undefined-behaviour sanitizer finds.
TEST(LargeSizes, BesideAZeroMayBeAnyNumbers) {
  constexpr std::int64_t k = std::int64_t{1} << 40;
  const Array x = lax::full({0, k, k}, DType::f32, 1);
  check(
      [](std::span<const Array> a) {
        const Array turned = lax::transpose(a[0], {1, 2, 0});
        return Arrays{matmul(a[0], a[0]), lax::reshape(turned, {k, 0, k}), turned * 2.f,
                      sum(turned, {.axes = {0, 1}})};
      },
      {x});
}

// A fold over nothing does nothing, however long the loops around it would be.
TEST(LargeSizes, OfFoldsOverNothingTakeNoTime) {
  constexpr std::int64_t k = std::int64_t{1} << 45;
  const Program f = [](std::span<const Array> a) {
    return Arrays{sum(a[0], {.axes = {0, 2}}), prod(a[0], {.axes = {0, 2}}),
                  sum(lax::rev(a[0], {0}), {.axes = {0, 2}}),
                  a[0] + lax::iota(DType::f32, {k, 4, 0}, 0)};
  };
  check(f, {lax::full({k, 4, 0}, DType::f32, 1)});
}

}  // namespace
}  // namespace telamon::testing
