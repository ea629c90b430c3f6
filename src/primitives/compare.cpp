// Comparisons and is_finite: bool results, no derivatives. With NaN all but ne are false.
#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;

// clang-format off: a primitive is a paragraph
/// eq(x, y): x = y
const Primitive<> eq_p{"eq", [] { return comparison(eq_p, {
    .accepts = kAny, .impl = eager(Op::eq), .lower = emit(Compare::eq)}); }};

/// ne(x, y): not x = y
const Primitive<> ne_p{"ne", [] { return comparison(ne_p, {
    .accepts = kAny, .impl = eager(Op::ne), .lower = emit(Compare::ne)}); }};

/// lt(x, y): x < y; false < true
const Primitive<> lt_p{"lt", [] { return comparison(lt_p, {
    .accepts = kOrdered, .impl = eager(Op::lt), .lower = emit(Compare::lt)}); }};

/// le(x, y): x <= y
const Primitive<> le_p{"le", [] { return comparison(le_p, {
    .accepts = kOrdered, .impl = eager(Op::le), .lower = emit(Compare::le)}); }};

/// gt(x, y): x > y
const Primitive<> gt_p{"gt", [] { return comparison(gt_p, {
    .accepts = kOrdered, .impl = eager(Op::gt), .lower = emit(Compare::gt)}); }};

/// ge(x, y): x >= y
const Primitive<> ge_p{"ge", [] { return comparison(ge_p, {
    .accepts = kOrdered, .impl = eager(Op::ge), .lower = emit(Compare::ge)}); }};

/// is_finite(x): neither infinite nor NaN
const Primitive<> is_finite_p{"is_finite", [] { return unary(is_finite_p, {
    .result = DType::bool_,
    .impl = eager(Op::is_finite),
    .zero_derivative = "piecewise constant",
    .lower = emit(&Emitter::is_finite)}); }};
// clang-format on

}  // namespace v1
}  // namespace telamon
