// Passes from jaxpr to jaxpr: each does its one thing, keeps lines and effects, and returns the same
// jaxpr when there is nothing to do.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "jaxpr/builder.hpp"
#include "support/errors.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitives.hpp"
#include "test_primitives.hpp"

namespace {

// jit(f) where f(a, b) = (sin a, cos b, a * b)
const std::string kThreeWays =
    "jit [ name=f ] x y\n"
    " { lambda a:f64[], b:f64[] . let c:f64[] = sin a\n d:f64[] = cos b\n e:f64[] = mul a b in ( "
    "c, d, e ) }\n";

std::string text(const Jaxpr& jaxpr) { return jaxpr.to_string(); }
std::string normal(const std::string& t) { return parse_jaxpr(t).to_string(); }

}  // namespace

TEST(DeadCode, GoesWithAllThatOnlyItNeeds) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[], y:f64[] . let a:f64[] = sin x\n b:f64[] = cos a\n c:f64[] = exp y\n "
      "d:f64[] = mul c b\n"
      " e:f64[] = neg c in ( e ) }");
  EXPECT_EQ(text(eliminate_dead_code(jaxpr)),
            normal("{ lambda x:f64[], y:f64[] . let c:f64[] = exp y\n e:f64[] = neg c in ( e ) }"));
}

TEST(DeadCode, IsNotWhatHasAnEffect) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[] . let a:f64[] = sin x\n test_send{ordered} a\n b:f64[] = "
      "test_count{unordered} x in ( x ) }");
  EXPECT_TRUE(eliminate_dead_code(jaxpr).same_as(jaxpr));
}

TEST(DeadCode, IsFoundInsideCalls) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[], y:f64[] . let a:f64[] b:f64[] c:f64[] = " + kThreeWays + " in ( b ) }");
  EXPECT_EQ(text(eliminate_dead_code(jaxpr)),
            normal("{ lambda x:f64[], y:f64[] . let b:f64[] = jit [ name=f ] y\n"
                   " { lambda b:f64[] . let d:f64[] = cos b in ( d ) }\n in ( b ) }"));
}

TEST(DceJaxpr, KeepsTheMarkedResultsAndTheInputsTheyNeed) {
  const Jaxpr jaxpr =
      parse_jaxpr("{ lambda x:f64[], y:f64[] . let a:f64[] b:f64[] c:f64[] = " + kThreeWays +
                  " d:f64[] = neg a in ( d, b, c ) }");
  const tl::DceJaxpr first = dce_jaxpr(jaxpr, {true, false, false});
  EXPECT_EQ(first.used_in, (std::vector<bool>{true, false}));
  EXPECT_EQ(
      text(first.jaxpr),
      normal("{ lambda x:f64[] . let a:f64[] = jit [ name=f ] x\n"
             " { lambda a:f64[] . let c:f64[] = sin a in ( c ) }\n d:f64[] = neg a in ( d ) }"));
  const tl::DceJaxpr none = dce_jaxpr(jaxpr, {false, false, false});
  EXPECT_EQ(none.used_in, (std::vector<bool>{false, false}));
  EXPECT_EQ(text(none.jaxpr), "{ lambda  .\n  let \n  in (  ) }");
  EXPECT_TRUE(dce_jaxpr(jaxpr, {true, true, true}).jaxpr.same_as(jaxpr));
}

TEST(DceJaxpr, NeedsAMarkForEachResult) {
  const Jaxpr jaxpr =
      parse_jaxpr("{ lambda x:f64[] . let a:f64[] = sin x\n b:f64[] = cos x in ( a, b ) }");
  const std::string wanted =
      "dce_jaxpr: used_out must have one mark for each of 2 results, but has ";
  for (const std::size_t given : {0, 1, 3}) {
    const std::vector<bool> marks(given, true);
    const std::string text =
        telamon_test::error_of<tl::ValueError>([&] { return dce_jaxpr(jaxpr, marks); });
    EXPECT_EQ(text, wanted + std::to_string(given));
  }
}

TEST(DceJaxpr, IsComputedOnce) {
  const Jaxpr jaxpr =
      parse_jaxpr("{ lambda x:f64[] . let a:f64[] = sin x\n b:f64[] = cos x in ( a, b ) }");
  EXPECT_TRUE(dce_jaxpr(jaxpr, {true, false}).jaxpr.same_as(dce_jaxpr(jaxpr, {true, false}).jaxpr));
}

TEST(CommonSubexpressions, AreMerged) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[3] . let a:f64[3] = sin x\n b:f64[3] = sin x\n c:f64[3] = add a b\n d:f64[3] "
      "= add b a\n"
      " e:f64[] = reduce_sum [ axes=(0,) ] c\n f:f64[] = reduce_sum [ axes=(0,) ] d in ( e, f ) }");
  EXPECT_EQ(text(eliminate_common_subexpressions(jaxpr)),
            normal("{ lambda x:f64[3] . let a:f64[3] = sin x\n c:f64[3] = add a a\n"
                   " e:f64[] = reduce_sum [ axes=(0,) ] c in ( e, e ) }"));
}

TEST(CommonSubexpressions, DifferByLiteralBitsParametersAndEffects) {
  for (const char* t : {
           "{ lambda x:f64[] . let a:f64[] = mul x 0.0\n b:f64[] = mul x -0.0 in ( a, b ) }",
           "{ lambda x:f64[] . let a:f64[] = mul x 1.0\n b:f64[] = mul 1.0 x in ( a, b ) }",
           "{ lambda x:f64[2,2] . let a:f64[2] = reduce_sum [ axes=(0,) ] x\n b:f64[2] = "
           "reduce_sum [ axes=(1,) ] x in ( a, b ) }",
           "{ lambda x:f64[] . let a:f64[] = test_count{unordered} x\n b:f64[] = "
           "test_count{unordered} x in ( a, b ) }",
           "{ lambda x:f64[] . let a:f64[] = test_print{ordered} x\n b:f64[] = test_print{ordered} "
           "x in ( a, b ) }",
       }) {
    const Jaxpr jaxpr = parse_jaxpr(t);
    EXPECT_TRUE(eliminate_common_subexpressions(jaxpr).same_as(jaxpr)) << t;
  }
}

TEST(CommonSubexpressions, MayBeEqualCalls) {
  const std::string call = "jit [ name=f ] x\n { lambda a:f64[] . let b:f64[] = sin a in ( b ) }\n";
  const Jaxpr jaxpr = parse_jaxpr("{ lambda x:f64[] . let a:f64[] = " + call +
                                  " b:f64[] = " + call + " in ( a, b ) }");
  EXPECT_EQ(text(eliminate_common_subexpressions(jaxpr)),
            normal("{ lambda x:f64[] . let a:f64[] = " + call + " in ( a, a ) }"));
}

TEST(CommonSubexpressions, AreMergedInsideNestedPrograms) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[] . let a:f64[] = jit [ name=f ] x\n"
      " { lambda a:f64[] . let b:f64[] = sin a\n c:f64[] = sin a\n d:f64[] = mul b c in ( d ) }\n "
      "in ( a ) }");
  EXPECT_EQ(count_eqns(eliminate_common_subexpressions(jaxpr), "sin"), 1);
}

TEST(InlineCalls, ReplacesNestedCallsByTheirBodies) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[] .\n"
      "  let a:f64[] b:f64[] = jit [ name=f ] x 2.0\n"
      "        { lambda p:f64[], q:f64[] .\n"
      "          let r:f64[] = jit [ name=g ] q\n"
      "                { lambda s:f64[] .\n"
      "                  let t:f64[] = sin s\n"
      "                  in ( t ) }\n"
      "              u:f64[] = mul r p\n"
      "          in ( u, q ) }\n"
      "      c:f64[] = add a b\n"
      "  in ( c ) }");
  EXPECT_EQ(text(inline_calls(jaxpr)),
            "{ lambda a:f64[] .\n"
            "  let b:f64[] = sin 2.0\n"
            "      c:f64[] = mul b a\n"
            "      d:f64[] = add c 2.0\n"
            "  in ( d ) }");
}

struct CallParams {
  Jaxpr program;
};
const tl::Primitive<CallParams> plain_call_p{
    "test_plain_call", [] { return tl::Rules<CallParams>{.inlinable = true}; }};
const tl::Primitive<CallParams> marked_call_p{"test_marked_call"};

TEST(InlineCalls, ReplacesTheCallsWhosePrimitivesAllowIt) {
  const Jaxpr body = parse_jaxpr("{ lambda a:f64[] . let b:f64[] = sin a in ( b ) }");
  const auto calling = [&](const tl::PrimitiveBase& primitive) {
    JaxprBuilder builder;
    const Var x = builder.add_input(kF64);
    const Var y = builder.add_eqn(primitive, Params::of(CallParams{body}), {Atom::var(x)}, {kF64},
                                  tl::Effect::none, {})[0];
    return builder.build({Atom::var(y)}).jaxpr;
  };
  EXPECT_EQ(text(inline_calls(calling(plain_call_p))), text(body));
  const Jaxpr kept = calling(marked_call_p);
  EXPECT_TRUE(inline_calls(kept).same_as(kept));
}

TEST(InlineCalls, ReachesIntoOtherNestedPrograms) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[] . let y:f64[] = test_branches x\n { lambda a:f64[] . let b:f64[] = jit [ "
      "name=f ] a\n"
      " { lambda a:f64[] . let b:f64[] = sin a in ( b ) }\n in ( b ) }\n in ( y ) }");
  const Jaxpr flat = inline_calls(jaxpr);
  EXPECT_EQ(count_eqns(flat, "jit"), 0);
  EXPECT_EQ(count_eqns(flat, "sin"), 1);
  EXPECT_TRUE(inline_calls(flat).same_as(flat));
}

TEST(SubstituteInputs, PutsLiteralsInAndReordersInputs) {
  const Jaxpr jaxpr = parse_jaxpr(
      "{ lambda x:f64[], y:f64[], z:f64[] . let a:f64[] = mul x y\n b:f64[] = add a z in ( b, x ) "
      "}");
  const double two = 2.0;
  const Atom literal = Atom::literal(Array::from_data(&two, DType::f64, {}));
  EXPECT_EQ(
      text(substitute_inputs(jaxpr, {kF64, kF64}, {Atom::var(1), literal, Atom::var(1)})),
      normal(
          "{ lambda x:f64[], y:f64[] . let a:f64[] = mul y 2.0\n b:f64[] = add a y in ( b, y ) }"));
  EXPECT_TRUE(
      substitute_inputs(jaxpr, {kF64, kF64, kF64}, {Atom::var(0), Atom::var(1), Atom::var(2)})
          .same_as(jaxpr));
  EXPECT_THROW(substitute_inputs(jaxpr, {kF64}, {Atom::var(0)}), tl::InternalError);
}

TEST(Passes, KeepTheLinesOfEquations) {
  tl::detail::JaxprBuilder b;
  const Atom x = Atom::var(b.add_input(kF64));
  b.add_eqn1(tl::cos_p, {}, {x}, kF64);
  const Atom y =
      Atom::var(b.add_eqn1(tl::sin_p, {}, {x}, kF64, tl::Effect::none, {"a.cpp", 7, "f"}));
  const Atom z =
      Atom::var(b.add_eqn1(tl::sin_p, {}, {x}, kF64, tl::Effect::none, {"a.cpp", 8, "f"}));
  const Jaxpr jaxpr = b.build({y, z}, tl::detail::JaxprBuilder::DeadCode::keep).jaxpr;
  const Jaxpr out = eliminate_common_subexpressions(eliminate_dead_code(jaxpr));
  ASSERT_EQ(out.eqns().size(), 1u);
  EXPECT_EQ(out.eqns()[0].where.to_string(), "a.cpp:7 in f");
}

// ---- Any program computes the same after any pass --------------------------------------------------

namespace {

Jaxpr random_program(int depth, int num_inputs) {
  tl::detail::JaxprBuilder b;
  tl::Atoms atoms = {Atom::literal(Array(0.5)), Atom::literal(Array(0.5))};
  for (int i = 0; i < num_inputs; ++i) atoms.push_back(Atom::var(b.add_input(kF64)));
  const auto pick = [&] { return atoms[*rc::gen::inRange<std::size_t>(0, atoms.size())]; };
  for (int i = *rc::gen::inRange(0, 10); i > 0; --i) {
    tl::Vars outs;
    switch (*rc::gen::inRange(0, depth > 0 ? 5 : 4)) {
      case 0: outs = b.add_eqn(tl::sin_p, {}, {pick()}, {kF64}); break;
      case 1: outs = b.add_eqn(tl::mul_p, {}, {pick(), pick()}, {kF64}); break;
      case 2: outs = b.add_eqn(tl::add_p, {}, {pick(), pick()}, {kF64}); break;
      case 3: outs = b.add_eqn(test::print_p, {}, {pick()}, {kF64}, tl::Effect::ordered); break;
      default: {
        const Jaxpr body = random_program(depth - 1, 2);
        const tl::Params params = tl::Params::of(tl::JitParams{.jaxpr = body, .name = "f"});
        outs = b.add_eqn(tl::jit_p, params, {pick(), pick()}, body.out_avals(), body.effect());
      }
    }
    for (const tl::Var v : outs) atoms.push_back(Atom::var(v));
  }
  tl::Atoms outs = {pick()};
  if (*rc::gen::arbitrary<bool>()) outs.push_back(pick());
  return b.build(outs, tl::detail::JaxprBuilder::DeadCode::keep).jaxpr;
}

std::vector<double> values(const Jaxpr& jaxpr) {
  const Arrays args(static_cast<std::size_t>(jaxpr.num_inputs()), Array(1.25));
  std::vector<double> out;
  for (const Array& x : eval_jaxpr(inline_calls(jaxpr), args)) out.push_back(x.item<double>());
  return out;
}

}  // namespace

RC_GTEST_PROP(Passes, ChangeNoResultAndNoEffect, ()) {
  const Jaxpr jaxpr = random_program(2, 2);
  const std::vector<double> expected = values(jaxpr);
  for (const auto pass :
       {tl::eliminate_dead_code, tl::eliminate_common_subexpressions, tl::inline_calls}) {
    const Jaxpr out = pass(jaxpr);
    typecheck_jaxpr(out);
    RC_ASSERT(values(out) == expected);
    RC_ASSERT(count_eqns(out, "test_print") == count_eqns(jaxpr, "test_print"));
    RC_ASSERT(out.effect() == jaxpr.effect());
  }
  const Jaxpr clean = eliminate_dead_code(jaxpr);
  RC_ASSERT(eliminate_dead_code(clean).same_as(clean));
  const tl::DceJaxpr first = dce_jaxpr(jaxpr, [&] {
    std::vector<bool> used(jaxpr.outs().size(), false);
    used[0] = true;
    return used;
  }());
  typecheck_jaxpr(first.jaxpr);
  RC_ASSERT(values(first.jaxpr).at(0) == expected[0]);
}
