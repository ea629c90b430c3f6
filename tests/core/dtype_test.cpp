// Element types: names, sizes, promotion. tests/conformance compares promotion with real JAX in
// full.
#include "telamon/dtype.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "telamon/error.hpp"

namespace tl = telamon;
using tl::DType;
using tl::TypeInfo;

namespace {

std::vector<DType> all_dtypes() {
  std::vector<DType> result;
  for (int i = 0; i < tl::kNumDTypes; ++i) result.push_back(static_cast<DType>(i));
  return result;
}

DType promoted(DType a, DType b) { return tl::promote_types({a, false}, {b, false}).dtype; }

TypeInfo strong(DType d) { return {d, false}; }
TypeInfo weak(DType d) { return {d, true}; }

}  // namespace

TEST(DTypeKinds, AreExclusive) {
  for (const DType d : all_dtypes()) {
    if (d == DType::float0) continue;
    const int kinds = (d == tl::boolean) + tl::is_signed_integer(d) + tl::is_unsigned_integer(d) +
                      tl::is_float(d) + tl::is_complex(d);
    EXPECT_EQ(kinds, 1) << tl::short_name(d);
    EXPECT_EQ(tl::is_integer(d), tl::is_signed_integer(d) || tl::is_unsigned_integer(d));
    EXPECT_EQ(tl::is_inexact(d), tl::is_float(d) || tl::is_complex(d));
    EXPECT_EQ(tl::tangent_dtype(d), tl::is_inexact(d) ? d : tl::DType::float0);
  }
}

TEST(DTypes, NamesOfBothFormsLeadBackToTheType) {
  for (const DType d : all_dtypes()) {
    EXPECT_EQ(tl::dtype_from_name(tl::short_name(d)), d);
    EXPECT_EQ(tl::dtype_from_name(tl::long_name(d)), d);
  }
  EXPECT_EQ(tl::long_name(tl::bf16), "bfloat16");
  EXPECT_EQ(tl::short_name(tl::c128), "c128");
  EXPECT_FALSE(tl::dtype_from_name("float"));
  EXPECT_FALSE(tl::dtype_from_name(""));
}

TEST(DTypes, SizesAreThoseOfTheStorage) {
  EXPECT_EQ(tl::size_of(tl::boolean), sizeof(bool));
  EXPECT_EQ(tl::size_of(tl::f16), sizeof(tl::Half));
  EXPECT_EQ(tl::size_of(tl::bf16), sizeof(tl::BFloat16));
  EXPECT_EQ(tl::size_of(tl::c64), sizeof(tl::Complex64));
  EXPECT_EQ(tl::size_of(tl::c128), sizeof(tl::Complex128));
  EXPECT_EQ(tl::size_of(tl::i64), 8u);
  EXPECT_EQ(tl::size_of(DType::float0), 0u);
}

TEST(DTypes, OfCxxTypesGoByWidthAndSign) {
  static_assert(tl::dtype_of<long> == tl::i64);
  static_assert(tl::dtype_of<long long> == tl::i64);
  static_assert(tl::dtype_of<unsigned char> == tl::u8);
  static_assert(tl::dtype_of<bool> == tl::boolean);
  static_assert(tl::dtype_of<double> == tl::f64);
  EXPECT_EQ(tl::size_of(tl::dtype_of<std::size_t>), sizeof(std::size_t));
}

TEST(DTypes, OnlyFloatsAndComplexNumbersHaveTangentsOfTheirOwnType) {
  for (const DType d : all_dtypes()) {
    const bool own = tl::is_float(d) || tl::is_complex(d);
    EXPECT_EQ(tl::tangent_dtype(d), own ? d : DType::float0) << tl::short_name(d);
  }
}

TEST(DTypes, OfCreationMustBeOfTheirKind) {
  EXPECT_THROW(tl::set_default_float(tl::i32), tl::ValueError);
  EXPECT_THROW(tl::set_default_int(tl::u32), tl::ValueError);
  EXPECT_EQ(tl::default_float(), tl::f32);
  EXPECT_EQ(tl::default_int(), tl::i32);
  tl::set_default_int(tl::i64);
  EXPECT_EQ(tl::default_int(), tl::i64);
  tl::set_default_int(tl::i32);
}

TEST(Promotion, OfArraysIsCommutativeIdempotentAndHasBoolAsUnit) {
  for (const DType a : all_dtypes()) {
    if (a == DType::float0) continue;
    EXPECT_EQ(promoted(a, a), a);
    EXPECT_EQ(promoted(a, tl::boolean), a);
    for (const DType b : all_dtypes()) {
      if (b != DType::float0) EXPECT_EQ(promoted(a, b), promoted(b, a));
    }
  }
}

TEST(Promotion, OfMixedSignsTakesTheSmallestSignedTypeThatHoldsBoth) {
  EXPECT_EQ(promoted(tl::i8, tl::u8), tl::i16);
  EXPECT_EQ(promoted(tl::i8, tl::u16), tl::i32);
  EXPECT_EQ(promoted(tl::i32, tl::u16), tl::i32);
  EXPECT_EQ(promoted(tl::i16, tl::u32), tl::i64);
  EXPECT_EQ(tl::promote_types(strong(tl::i8), strong(tl::u64)), weak(tl::f64));
}

TEST(Promotion, OfAnIntegerWithAFloatKeepsTheFloat) {
  EXPECT_EQ(promoted(tl::i64, tl::f16), tl::f16);
  EXPECT_EQ(promoted(tl::u64, tl::bf16), tl::bf16);
  EXPECT_EQ(promoted(tl::f16, tl::bf16), tl::f32);
  EXPECT_EQ(promoted(tl::f64, tl::c64), tl::c128);
  EXPECT_EQ(promoted(tl::f32, tl::c64), tl::c64);
}

TEST(Promotion, OfAWeakScalarKeepsTheArraysWidth) {
  EXPECT_EQ(tl::promote_types(strong(tl::f32), weak(tl::f64)), strong(tl::f32));
  EXPECT_EQ(tl::promote_types(weak(tl::f64), strong(tl::bf16)), strong(tl::bf16));
  EXPECT_EQ(tl::promote_types(strong(tl::u8), weak(tl::i64)), strong(tl::u8));
  EXPECT_EQ(tl::promote_types(strong(tl::f32), weak(tl::i32)), strong(tl::f32));
  EXPECT_EQ(tl::promote_types(strong(tl::f64), weak(tl::c128)), strong(tl::c128));
  EXPECT_EQ(tl::promote_types(strong(tl::f16), weak(tl::c128)), strong(tl::c64));
}

TEST(Promotion, OfAWeakFloatWithAnIntegerArrayGivesTheDefaultFloat) {
  EXPECT_EQ(tl::promote_types(strong(tl::i32), weak(tl::f64)), weak(tl::f32));
  tl::set_default_float(tl::f64);
  EXPECT_EQ(tl::promote_types(strong(tl::i32), weak(tl::f64)), weak(tl::f64));
  EXPECT_EQ(tl::promote_types(strong(tl::boolean), weak(tl::c64)), weak(tl::c128));
  tl::set_default_float(tl::f32);
}

TEST(Promotion, OfWeakOperandsTakesTheWiderKindThenTheWiderWidth) {
  EXPECT_EQ(tl::promote_types(weak(tl::i32), weak(tl::f64)), weak(tl::f64));
  EXPECT_EQ(tl::promote_types(weak(tl::f32), weak(tl::f64)), weak(tl::f64));
  EXPECT_EQ(tl::promote_types(weak(tl::i64), weak(tl::f32)), weak(tl::f32));
  EXPECT_EQ(tl::promote_types(weak(tl::i32), weak(tl::i64)), weak(tl::i64));
  EXPECT_EQ(tl::promote_types(weak(tl::f32), strong(tl::f32)), strong(tl::f32));
}
