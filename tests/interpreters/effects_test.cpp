// Effects: a primitive that only these tests have counts its runs, and no transformation loses,
// merges or reorders them.
#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "support/backends.hpp"
#include "telamon/history.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

std::vector<double> noted;

struct NoteParams {
  int label = 0;
  bool ordered = true;
};

// Passes its operand on and notes the label. As linear as the identity.
tl::Rules<NoteParams> note_rules();
const tl::Primitive<NoteParams> note_p{"test_note", [] { return note_rules(); }};

Array note(const Array& x, int label) { return note_p.bind1({label}, {x}); }
Array note_unordered(const Array& x, int label) { return note_p.bind1({label, false}, {x}); }

tl::Rules<NoteParams> note_rules() {
  tl::Rules<NoteParams> rules;
  rules.impl = [](const NoteParams& p, std::span<const Array> x) {
    noted.push_back(p.label);
    return Arrays{x[0]};
  };
  rules.abstract_eval = [](const NoteParams& p, std::span<const tl::Aval> x) {
    return tl::AbstractResult({x[0].strong()},
                              p.ordered ? tl::Effect::ordered : tl::Effect::unordered);
  };
  rules.jvp = [](const NoteParams& p, std::span<const Array> x, std::span<const tl::Tangent> dx) {
    return tl::JvpResult{{note_p.bind1(p, {x[0]})}, {dx[0]}};
  };
  rules.batch = [](const NoteParams& p, const tl::AxisInfo&, std::span<const Array> x,
                   std::span<const tl::BatchAxis> axes) {
    return tl::BatchResult{{note_p.bind1(p, {x[0]})}, {axes[0]}};
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

// The note of c waits for the first loop, that of x does not; the second loop would join the first.
TEST(Effects, BetweenLoopsThatGoTogetherKeepTheirOrder) {
  const auto f = [](Array x) {
    const auto [c, cs] =
        tl::scan([](Array s) { return std::pair{s * 0.5, s}; }, x, tl::none, {.length = 50});
    const Array first = note(c, 1), second = note(x, 2);
    return tl::scan([](Array d, Array s) { return std::pair{d + s * s, tl::none}; }, first + second,
                    cs)
        .first;
  };
  const auto apart = [](Array x) {
    const auto [c, cs] =
        tl::scan([](Array s) { return std::pair{s * 0.5, s}; }, x, tl::none, {.length = 50});
    const Array first = note(c, 1), second = note(x, 2);
    return tl::scan([](Array d, Array s) { return std::pair{d + s * s, tl::none}; }, second, cs)
               .first +
           first;
  };
  const Array x = Array({2.0})(0);
  for (const bool jitted : {false, true}) {
    EXPECT_EQ(notes_of([&] { (void)(jitted ? tl::jit(f)(x) : f(x)); }), (Notes{1, 2}));
    EXPECT_EQ(notes_of([&] { (void)(jitted ? tl::jit(apart)(x) : apart(x)); }), (Notes{1, 2}));
  }
}

// Softmax by rows.
Array weights(const Array& x) {
  const auto spread = [&](const Array& y) { return tl::lax::broadcast_in_dim(y, x.shape(), {0}); };
  const Array e = tl::lax::exp(x - spread(tl::lax::reduce_max(x, {1})));
  return e / spread(tl::lax::reduce_sum(e, {1}));
}

// Kernels over rows go together, one of which reads what the second effect gives, while the first effect
// reads what another of them leaves.
TEST(Effects, BetweenKernelsThatGoTogetherKeepTheirOrder) {
  const auto f = [](Array x, Array c) {
    const Array y = weights(x);
    const Array first = note(tl::lax::slice_in_dim(y, 3, 4, 1, 0), 1), second = note(c, 2);
    return std::tuple{weights(y * second), first, y};
  };
  // As f, but that the first effect reads nothing of them.
  const auto apart = [](Array x, Array c) {
    const Array y = weights(x);
    const Array first = note(tl::lax::sin(c), 1), second = note(c, 2);
    return std::tuple{weights(y * second), first, y};
  };
  const Array x = tl::lax::full({2048, 128}, tl::DType::f64, 0.5);
  const Array c = tl::lax::full({1, 128}, tl::DType::f64, 2);
  for (const char* backend : backends()) {
    EXPECT_EQ(notes_of([&] { (void)tl::jit(f, {.backend = backend})(x, c); }), (Notes{1, 2}));
    EXPECT_EQ(notes_of([&] { (void)tl::jit(apart, {.backend = backend})(x, c); }), (Notes{1, 2}));
  }
}

// A program of kernels over rows, sums down the columns and effects, by chance.
Arrays of_large_arrays(int seed, Arrays values) {
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto below = [&](std::size_t n) { return random() % n; };
  const auto pick = [&] { return values[below(values.size())]; };
  for (int step = 0; step < 12; ++step) {
    const Array x = pick();
    switch (below(7)) {
      case 0: values.push_back(weights(x)); break;
      case 1: values.push_back(x * pick()); break;
      case 2: values.push_back(tl::lax::cumsum(x, 0)); break;
      case 3: values.push_back(tl::lax::sin(x)); break;
      case 4: {  // the effect's result is needed
        const Array row = note(tl::lax::slice_in_dim(x, 3, 4, 1, 0), step);
        values.push_back(pick() * row);
        break;
      }
      case 5: note(tl::lax::slice_in_dim(x, 5, 6, 1, 0), step); break;
      default: values.push_back(note(x, step));
    }
  }
  return {values[values.size() - 3], values[values.size() - 2], values.back()};
}

TEST(Effects, OfRandomProgramsOfLargeArraysKeepTheirOrder) {
  const Array x = tl::lax::reshape(tl::lax::iota(tl::DType::f64, {2048 * 64}, 0), {2048, 64});
  const Arrays inputs = {tl::lax::sin(x), tl::lax::cos(x)};
  for (int seed = 0; seed < 60; ++seed) {
    Arrays want, got;
    const Notes notes = notes_of([&] { want = of_large_arrays(seed, inputs); });
    const auto f = [&](Array a, Array b) { return of_large_arrays(seed, {a, b}); };
    EXPECT_EQ(notes_of([&] { got = tl::jit(f)(inputs[0], inputs[1]); }), notes) << seed;
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Array off = tl::lax::reduce_max(tl::lax::abs(got[i] - want[i]), {0, 1});
      const Array large = tl::lax::reduce_max(tl::lax::abs(want[i]), {0, 1});
      EXPECT_LE(off.item<double>(), 1e-12 * large.item<double>()) << seed << ", result " << i;
    }
  }
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
  for (const char* backend : backends()) {
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
  const auto unordered = [](Array x) { return note_unordered(tl::sin(x), 2); };
  EXPECT_EQ(notes_of([&] { tl::vmap(unordered)(Array({0.5, 1.0})); }), Notes{2});
}

TEST(Effects, ThatAreOrderedAreNotMapped) {
  const Array xs({0.5, 1.0});
  const char* const message = "test_note: ordered effects cannot be mapped by vmap";
  EXPECT_ERROR(TypeError, tl::vmap(program)(xs), message);
  EXPECT_ERROR(TypeError, tl::vmap(tl::jit(program))(xs), message);
  EXPECT_ERROR(TypeError, tl::jit(tl::vmap(tl::grad(program)))(xs), message);
  const auto in_loop = [](Array x) {
    return tl::fori_loop(0, 3, [](Array, Array c) { return note(c, 1); }, x);
  };
  EXPECT_ERROR(TypeError, tl::vmap(in_loop)(xs), message);
  // What is not mapped happens once.
  const auto beside = [](Array x) { return x + note(Array(1.0) * 2.0, 3); };
  EXPECT_EQ(notes_of([&] { tl::vmap(beside)(xs); }), Notes{3});
}

TEST(Effects, UnderAMappedPredicateAreRefused) {
  const auto branch = [](Array p, Array x) {
    return tl::cond(p, [](Array a) { return note_unordered(a, 1); }, [](Array a) { return a; }, x);
  };
  const Array preds({true, false}), xs({0.5, 1.0});
  const char* const message = "cond: vmap with a mapped predicate runs every branch";
  EXPECT_ERROR(TypeError, tl::vmap(branch)(preds, xs), message);
  EXPECT_ERROR(TypeError, tl::jit(tl::vmap(tl::jit(branch)))(preds, xs), message);
  EXPECT_EQ(notes_of([&] { tl::vmap(branch, {.in_axes = {tl::none, 0}})(true, xs); }), Notes{1});
  EXPECT_EQ(notes_of([&] { tl::vmap(branch, {.in_axes = {tl::none, 0}})(false, xs); }), Notes{});
  const auto loop = [](Array x) {
    return tl::while_loop([](Array y) { return y < 3.0; },
                          [](Array y) { return note_unordered(y, 1) + 1.0; }, x);
  };
  EXPECT_ERROR(TypeError, tl::vmap(loop)(xs), "while: vmap with a mapped condition");
  const auto test = [](Array x) {
    return tl::while_loop([](Array y) { return note_unordered(y, 1) < 3.0; },
                          [](Array y) { return y + 1.0; }, x);
  };
  EXPECT_ERROR(TypeError, tl::vmap(test)(xs), "while: vmap with a mapped condition");
}

// Loops and branches: how often an effect happens does not depend on who transforms them.

// Every note is of a value that does not change from step to step.
Array scan_with_notes(const Array& x, const Array& w) {
  return tl::scan(
             [&](Array c) {
               note(tl::sin(w), 1);
               return std::pair{tl::sin(c) * note(w, 2), note(c, 3)};
             },
             x, tl::none, {.length = 2})
      .first;
}
Array cond_with_notes(const Array& x, const Array& w) {
  return tl::cond(
      w > 0.0,
      [&](Array a) {
        const Array first = note(a, 1), second = note(w, 2);
        return tl::sin(first) * second;
      },
      [&](Array a) { return a * note(w, 3); }, x);
}
Array while_with_notes(const Array& x, const Array& w) {
  using Two = std::pair<Array, Array>;
  return tl::while_loop([&](Two s) { return note(s.first, 1) < 2.0; },
                        [&](Two s) { return Two{s.first + 1.0, tl::sin(s.second) * note(w, 2)}; },
                        Two{Array({0.0})(0), x})
      .second;
}
Array cond_of_while_with_notes(const Array& x, const Array& w) {
  return tl::cond(
      w > 0.0,
      [&](Array a) {
        const Array y = while_with_notes(note(a, 3), w);
        return y * note(w, 4);
      },
      [](Array a) { return note(a, 5); }, x);
}
Array bounded_while_with_notes(const Array& x, const Array& w) {
  using Two = std::pair<Array, Array>;
  return tl::while_loop([&](Two s) { return s.first < 2.0; },
                        [&](Two s) { return Two{s.first + 1.0, tl::sin(s.second) * note(w, 2)}; },
                        Two{Array({0.0})(0), x}, {.max_steps = 5})
      .second;
}
template <bool checkpoint>
Array bounded_while_with_noted_condition(const Array& x, const Array& w) {
  using Two = std::pair<Array, Array>;
  return tl::while_loop([&](Two s) { return note(s.first, 1) < w; },
                        [&](Two s) { return Two{s.first + 0.375, tl::sin(s.second) * note(w, 2)}; },
                        Two{Array({0.0})(0), x}, {.max_steps = 16, .checkpoint = checkpoint})
      .second;
}
Array while_that_is_ended_with_notes(const Array& x, const Array& w) {
  return tl::while_loop([&](Array y) { return note(w, 1) + 0.0 * y > 0.0; },
                        [&](Array y) { return tl::sin(note(y, 2)) * w; }, x, {.max_steps = 3});
}
Array jit_with_notes(const Array& x, const Array& w) {
  return tl::jit([](Array a, Array b) {
    note(b, 1);
    note(a, 2);
    return tl::sin(a) * b;
  })(x, w);
}
Array checkpoint_with_notes(const Array& x, const Array& w) {
  return tl::checkpoint([](Array a, Array b) {
    const Array first = note(a, 1), second = note(b, 2);
    return tl::sin(tl::sin(first)) * second;
  })(x, w);
}

struct Case {
  const char* name;
  Array (*f)(const Array&, const Array&);
  Notes notes;
};
const Case kCases[] = {
    {"scan", scan_with_notes, {1, 2, 3, 1, 2, 3}},
    {"cond", cond_with_notes, {1, 2}},
    {"while", while_with_notes, {1, 2, 1, 2, 1}},
    {"while in cond", cond_of_while_with_notes, {3, 1, 2, 1, 2, 1, 4}},
    {"bounded while", bounded_while_with_notes, {2, 2}},
    {"bounded while, condition",
     bounded_while_with_noted_condition<false>,
     {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1}},
    {"checkpointed while",
     bounded_while_with_noted_condition<true>,
     {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1}},
    {"while ended by max_steps", while_that_is_ended_with_notes, {1, 2, 1, 2, 1, 2, 1}},
    {"jit", jit_with_notes, {1, 2}},
    {"checkpoint", checkpoint_with_notes, {1, 2}},
};

TEST(Effects, HappenAsOftenUnderEveryTransformation) {
  const Array x = Array({0.5})(0), w = Array({2.0})(0);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto f = [&](Array a, Array b) { return c.f(a, b); };
    const auto of_x = [&](Array a) { return c.f(a, w); };
    EXPECT_EQ(notes_of([&] { f(x, w); }), c.notes);
    for (const char* backend : backends()) {
      const auto g = tl::jit(f, {.backend = backend});
      EXPECT_EQ(notes_of([&] { g(x, w); }), c.notes) << backend;
    }
    EXPECT_EQ(notes_of([&] { tl::jvp(of_x, std::tuple{x}, std::tuple{x}); }), c.notes);
    EXPECT_EQ(notes_of([&] { tl::linearize(of_x, x); }), c.notes);
    EXPECT_EQ(notes_of([&] { tl::grad(of_x)(x); }), c.notes);
    EXPECT_EQ(notes_of([&] { (tl::grad<0, 1>(f)(x, w)); }), c.notes);
    EXPECT_EQ(notes_of([&] { tl::grad(tl::grad(of_x))(x); }), c.notes);
    const bool unbounded = c.f == while_with_notes ||
                           c.f == cond_of_while_with_notes;  // reverse mode under jit is refused
    if (unbounded) continue;
    EXPECT_EQ(notes_of([&] { tl::jit(tl::grad(of_x))(x); }), c.notes);
    EXPECT_EQ(notes_of([&] { tl::grad(tl::jit(of_x))(x); }), c.notes);
  }
}

TEST(Effects, OfLoopsKeepTheirDerivatives) {
  const Array x = Array({0.5})(0), w = Array({2.0})(0);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto f = [&](Array a) { return c.f(a, w); };
    tl::check_grads(f, std::tuple{x}, {.order = 2});
    const tl::ClosedJaxpr program = tl::make_jaxpr(f)(x);
    tl::typecheck_jaxpr(program.jaxpr);
    EXPECT_EQ(tl::parse_jaxpr(program.jaxpr.to_string()), program.jaxpr);
  }
}

}  // namespace
}  // namespace telamon_test
