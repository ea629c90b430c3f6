// Logical operations on bool, bitwise ones on integers, and shifts.
#include "primitives/elementwise.hpp"

namespace telamon {
inline namespace v1 {

using namespace families;

// clang-format off: a primitive is a paragraph
/// not(x): negation of a bool, complement of an integer
const Primitive<> not_p{"not", [] { return unary(not_p, {
    .accepts = kBoolsOrInts, .impl = eager(Op::not_), .lower = emit(&Emitter::not_)}); }};

/// and(x, y), bit by bit
const Primitive<> and_p{"and", [] { return binary(and_p, {
    .accepts = kBoolsOrInts, .impl = eager(Op::and_), .lower = emit(&Emitter::and_)}); }};

/// or(x, y), bit by bit
const Primitive<> or_p{"or", [] { return binary(or_p, {
    .accepts = kBoolsOrInts, .impl = eager(Op::or_), .lower = emit(&Emitter::or_)}); }};

/// xor(x, y), bit by bit
const Primitive<> xor_p{"xor", [] { return binary(xor_p, {
    .accepts = kBoolsOrInts, .impl = eager(Op::xor_), .lower = emit(&Emitter::xor_)}); }};

/// shift_left(x, n) = x 2^n mod 2^width; 0 for n >= width
const Primitive<> shift_left_p{"shift_left", [] { return binary(shift_left_p, {
    .accepts = kInts, .impl = eager(Op::shift_left), .lower = emit(&Emitter::shift_left)}); }};

/// shift_right_logical(x, n): zeros come in; 0 for n >= width
const Primitive<> shift_right_logical_p{"shift_right_logical", [] {
  return binary(shift_right_logical_p, {
    .accepts = kInts,
    .impl = eager(Op::shift_right_logical),
    .lower = emit(&Emitter::shift_right_logical)}); }};

/// shift_right_arithmetic(x, n): copies of the sign bit come in; all of them for n >= width
const Primitive<> shift_right_arithmetic_p{"shift_right_arithmetic", [] {
  return binary(shift_right_arithmetic_p, {
    .accepts = kInts,
    .impl = eager(Op::shift_right_arithmetic),
    .lower = emit(&Emitter::shift_right_arithmetic)}); }};
// clang-format on

}  // namespace v1
}  // namespace telamon
