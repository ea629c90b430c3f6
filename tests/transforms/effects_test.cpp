// Effects: equations that do more than compute are kept, never merged, and run in order, under
// every transformation that lets them through.
#include <gmock/gmock.h>

#include <mutex>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

std::vector<double> seen;

void record(double v) { seen.push_back(v); }

struct Identity {
  bool ordered = true;
};

// note(x) = x, and remembers x.
const tl::Primitive<Identity> note_p{
    "test_note", [] {
      return tl::Rules<Identity>{
          .impl =
              [](const Identity&, std::span<const Array> x) {
                record(value(x[0]));
                return Arrays{x[0]};
              },
          .abstract_eval =
              [](const Identity& p, std::span<const tl::Aval> x) {
                return tl::AbstractResult({x[0]},
                                          p.ordered ? tl::Effect::ordered : tl::Effect::unordered);
              },
          .jvp =
              [](const Identity& p, std::span<const Array> x, std::span<const tl::Tangent> t) {
                return tl::JvpResult{
                    tl::PrimitiveBase::find("test_note")->bind_erased(tl::Params::of(p), x),
                    {t[0]}};
              },
          .lower = tl::call<Identity>([](const Identity&, std::span<const tl::BufferView> in,
                                         std::span<const tl::MutableBufferView> out) {
            record(*in[0].as<double>());
            *out[0].as<double>() = *in[0].as<double>();
          }),
          .exempt = {{"transpose", "not linear"}, {"batch", "a test of effects"}},
      };
    }};

Array note(const Array& x, bool ordered = true) { return note_p({ordered}, {x})[0]; }

TEST(Effects, AreCarriedByJaxprs) {
  const auto program = tl::make_jaxpr([](Array x) { return note(x) * 2.0; })(1.0);
  EXPECT_EQ(program.jaxpr.effect(), tl::Effect::ordered);
  EXPECT_EQ(tl::make_jaxpr([](Array x) { return note(x, false); })(1.0).jaxpr.effect(),
            tl::Effect::unordered);
  EXPECT_EQ(tl::make_jaxpr([](Array x) { return x * 2.0; })(1.0).jaxpr.effect(), tl::Effect::none);
  const auto nested = tl::make_jaxpr(tl::jit([](Array x) { return note(x); }))(1.0);
  EXPECT_EQ(nested.jaxpr.effect(), tl::Effect::ordered) << "through a call";
}

TEST(Effects, AreNeitherDroppedNorMerged) {
  const auto program = tl::make_jaxpr([](Array x) {
    note(x);  // its result is unused
    note(x);  // the same again
    return x * 2.0;
  })(1.0);
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "test_note"), 2);
  EXPECT_EQ(tl::count_eqns(tl::eliminate_dead_code(program.jaxpr), "test_note"), 2);
  EXPECT_EQ(tl::count_eqns(tl::eliminate_common_subexpressions(program.jaxpr), "test_note"), 2);
}

TEST(Effects, HappenOnceACallInOrder) {
  for (const char* backend : {"interpret", ""}) {
    const auto g = tl::jit(
        [](Array x) {
          note(x);
          const Array y = note(x * 2.0);
          note(x * 3.0);
          return tl::jit([](Array z) { return note(z) + 1.0; })(y * 2.0);
        },
        {.backend = backend});
    for (int call = 0; call < 2; ++call) {
      seen.clear();
      EXPECT_EQ(value(g(1.0)), 5.0);
      EXPECT_EQ(seen, (std::vector<double>{1, 2, 3, 4}))
          << "backend '" << backend << "', call " << call;
    }
  }
}

TEST(Effects, HappenOnceUnderDifferentiation) {
  const auto g = [](Array x) { return note(x) * note(x * 2.0); };
  seen.clear();
  EXPECT_EQ(value(tl::grad(g)(3.0)), 12.0);
  EXPECT_EQ(seen, (std::vector<double>{3, 6}));
  seen.clear();
  EXPECT_EQ(value(tl::grad(tl::jit(g))(3.0)), 12.0);
  EXPECT_EQ(seen, (std::vector<double>{3, 6}));
  seen.clear();
  EXPECT_EQ(value(tl::jit(tl::grad(g))(3.0)), 12.0);
  EXPECT_EQ(seen, (std::vector<double>{3, 6}));
}

TEST(Effects, MissingRulesSayWhich) {
  EXPECT_ERROR(NotImplementedError, tl::vmap([](Array x) { return note(x); })(Array({1.0})),
               "Batching rule for 'test_note' not implemented");
}

}  // namespace
}  // namespace telamon_test
