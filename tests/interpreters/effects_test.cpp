// Effects: a primitive that only these tests have counts its runs, and no transformation loses,
// merges or reorders them.
#include <gmock/gmock.h>

#include <cstring>

#include "telamon/history.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

std::vector<double> noted;

struct NoteParams {
  int label = 0;
};

// Passes its operand on and notes the label: an ordered effect. As linear as the identity.
tl::Rules<NoteParams> note_rules();
const tl::Primitive<NoteParams> note_p{"test_note", [] { return note_rules(); }};

Array note(const Array& x, int label) { return note_p.bind1({label}, {x}); }

tl::Rules<NoteParams> note_rules() {
  tl::Rules<NoteParams> rules;
  rules.impl = [](const NoteParams& p, std::span<const Array> x) {
    noted.push_back(p.label);
    return Arrays{x[0]};
  };
  rules.abstract_eval = [](const NoteParams&, std::span<const tl::Aval> x) {
    return tl::AbstractResult({x[0].strong()}, tl::Effect::ordered);
  };
  rules.jvp = [](const NoteParams& p, std::span<const Array> x, std::span<const tl::Tangent> dx) {
    return tl::JvpResult{{note(x[0], p.label)}, {dx[0]}};
  };
  rules.batch = [](const NoteParams& p, const tl::AxisInfo&, std::span<const Array> x,
                   std::span<const tl::BatchAxis> axes) {
    return tl::BatchResult{{note(x[0], p.label)}, {axes[0]}};
  };
  rules.lower = tl::call<NoteParams>([](const NoteParams& p, std::span<const tl::BufferView> in,
                                        std::span<const tl::MutableBufferView> out) {
    noted.push_back(p.label);
    std::memcpy(out[0].data, in[0].data, static_cast<std::size_t>(in[0].size()) * sizeof(double));
  });
  return rules;
}

std::vector<double> notes_of(const std::function<void()>& f) {
  noted.clear();
  f();
  return noted;
}
using Notes = std::vector<double>;

// Uses no result of two of its three notes, and notes one label twice.
Array program(const Array& x) {
  note(x, 1);
  const Array y = note(tl::sin(x), 2);
  note(x, 1);
  return y * 2.0;
}

TEST(Effects, HappenInOrderWhenEvaluated) {
  EXPECT_EQ(notes_of([] { program(0.5); }), (Notes{1, 2, 1}));
}

TEST(Effects, StandInTheProgramAndSurviveEveryPass) {
  const tl::ClosedJaxpr traced = tl::make_jaxpr(program)(Array(0.5));
  EXPECT_EQ(traced.jaxpr.effect(), tl::Effect::ordered);
  EXPECT_EQ(tl::count_eqns(traced.jaxpr, "test_note"), 3) << traced;
  EXPECT_EQ(tl::count_eqns(tl::eliminate_dead_code(traced.jaxpr), "test_note"), 3);
  EXPECT_EQ(tl::count_eqns(tl::eliminate_common_subexpressions(traced.jaxpr), "test_note"), 3);
}

TEST(Effects, DoNotHappenWhileTracing) {
  EXPECT_EQ(notes_of([] { tl::make_jaxpr(program)(Array(0.5)); }), Notes{});
  EXPECT_EQ(notes_of([] { tl::eval_shape(program, Array(0.5)); }), Notes{});
}

TEST(Effects, HappenAtEachCallOfAJittedFunction) {
  for (const char* backend : {"interpret", "llvm"}) {
    const auto g = tl::jit(program, {.backend = backend});
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(notes_of([&] { g(Array(0.5)); }), (Notes{1, 2, 1})) << backend;
    const auto nested = tl::jit([&](Array x) {
      g(x);  // only its effects are wanted
      return x;
    });
    EXPECT_EQ(notes_of([&] { nested(Array(0.5)); }), (Notes{1, 2, 1})) << backend;
  }
}

TEST(Effects, HappenOncePerPassUnderDerivativesAndBatching) {
  EXPECT_EQ(notes_of([] { tl::jvp(program, std::tuple{0.5}, std::tuple{1.0}); }), (Notes{1, 2, 1}));
  EXPECT_EQ(notes_of([] { tl::grad(program)(0.5); }), (Notes{1, 2, 1}));
  EXPECT_EQ(notes_of([] { tl::grad(tl::jit(program))(0.5); }), (Notes{1, 2, 1}));
  EXPECT_EQ(notes_of([] { tl::jit(tl::grad(program))(0.5); }), (Notes{1, 2, 1}));
  EXPECT_EQ(notes_of([] { tl::vmap(program)(Array({0.5, 1.0})); }), (Notes{1, 2, 1}));
}

}  // namespace
}  // namespace telamon_test
