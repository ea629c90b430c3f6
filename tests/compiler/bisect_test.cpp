// Bisection finds the pass that was broken, and the optimisation that is to blame.
#include "compiler/bisect.hpp"

#include <gmock/gmock.h>

#include <csignal>

#include "compiler/support.hpp"
#include "runtime/history.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitive.hpp"

namespace telamon::testing {
namespace {

using compiler::bisect;
using compiler::Finding;
using Runs = compiler::BisectOptions::Runs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Program example() {
  return
      [](std::span<const Array> x) { return Arrays{exp(x[0]) + sin(exp(x[0])) * x[1], sum(x[1])}; };
}
Arrays example_inputs() { return {uniform({20}, DType::f32), uniform({20}, DType::f32)}; }

// The program with sines where there were exponentials.
Jaxpr with_sines(const Jaxpr& jaxpr) {
  std::string text = jaxpr.to_string();
  for (std::size_t at = text.find("= exp"); at != std::string::npos; at = text.find("= exp", at))
    text.replace(at, 5, "= sin");
  return parse_jaxpr(text);
}

TEST(Bisect, AgreesOnSoundPrograms) {
  const Arrays inputs = example_inputs();
  const Finding finding = bisect(stage(example(), inputs), inputs);
  EXPECT_EQ(finding.kind, Finding::Kind::agrees);
  EXPECT_THAT(finding.names, IsEmpty());
}

// A compiler one of whose passes is replaced.
std::function<Compiled(const Jaxpr&, const CompileOptions&)> with_pass(
    std::string_view broken, std::function<Jaxpr(const Jaxpr&)> f) {
  return [=](const Jaxpr& jaxpr, const CompileOptions& options) {
    CompileOptions wrapped = options;
    wrapped.after_pass = [&](std::string_view pass, Jaxpr& program, const Arrays& consts) {
      if (pass == broken) program = f(program);
      options.after_pass(pass, program, consts);
    };
    return compile(jaxpr, wrapped);
  };
}
// A compiler that is right only where the predicate says so of what is switched off.
std::function<Compiled(const Jaxpr&, const CompileOptions&)> right_if(
    std::function<bool(const std::set<std::string, std::less<>>& disabled)> right) {
  return [=](const Jaxpr& jaxpr, const CompileOptions& options) {
    if (right(options.disabled)) return compile(jaxpr, options);
    CompileOptions unwatched = options;
    unwatched.after_pass = {};
    return compile(with_sines(jaxpr), unwatched);
  };
}

void expect_to_find_the_broken_pass(Runs runs) {
  const Arrays inputs = example_inputs();
  const Jaxpr program = stage(example(), inputs);
  for (const char* broken : {"lower", "simplify", "cse", "dce"}) {
    const Finding finding =
        bisect(program, inputs, {.runs = runs, .compile = with_pass(broken, with_sines)});
    ASSERT_EQ(finding.kind, Finding::Kind::pass) << broken;
    EXPECT_THAT(finding.names, ElementsAre(broken));
    EXPECT_THAT(finding.difference,
                HasSubstr("result 0: 20 of 20 numbers differ; the first, at 0"));
    EXPECT_THAT(finding.before, HasSubstr("= exp"));
    EXPECT_THAT(finding.after, Not(HasSubstr("= exp")));
  }
}

TEST(Bisect, FindsThePassThatWasBroken) { expect_to_find_the_broken_pass(Runs::here); }
TEST(Bisect, FindsItInChildren) { expect_to_find_the_broken_pass(Runs::in_children); }

void expect_to_blame_nobody_where_memory_runs_out(Runs runs) {
  const Arrays inputs = example_inputs();
  const Jaxpr program = stage(example(), inputs);
  // Too large for whoever evaluates it equation by equation.
  const Jaxpr huge = stage(
      [](std::span<const Array> x) {
        return Arrays{exp(x[0]) + sum(lax::iota(DType::f32, {std::int64_t{1} << 50})), sum(x[1])};
      },
      inputs);
  const auto failing = [](const std::function<void()>& fail) {
    return [=](const Jaxpr&, const CompileOptions&) -> Compiled {
      fail();
      return nullptr;
    };
  };
  const std::function<Compiled(const Jaxpr&, const CompileOptions&)> compilers[] = {
      failing([] { throw OutOfMemoryError("exp of f32[20]: out of memory"); }),
      failing([] { throw std::bad_alloc(); }),
      with_pass("simplify", [&](const Jaxpr&) { return huge; })};
  for (const auto& compiler : compilers) {
    try {
      bisect(program, inputs, {.runs = runs, .compile = compiler});
      ADD_FAILURE() << "a finding where memory ran out";
    } catch (const OutOfMemoryError& e) {
      EXPECT_THAT(e.message(), HasSubstr("memory ran out, which says nothing of the passes: "));
    }
  }
}

TEST(Bisect, BlamesNobodyWhereMemoryRunsOut) {
  expect_to_blame_nobody_where_memory_runs_out(Runs::here);
}
TEST(Bisect, BlamesNobodyWhereMemoryRunsOutInChildren) {
  expect_to_blame_nobody_where_memory_runs_out(Runs::in_children);
}

void expect_to_blame_nobody_where_no_dumps_can_be_written(Runs runs) {
  const Arrays inputs = example_inputs();
  const auto full = [](const Jaxpr&, const CompileOptions&) -> Compiled {
    throw compiler::DumpError("No space left on device");
  };
  EXPECT_THROW(bisect(stage(example(), inputs), inputs, {.runs = runs, .compile = full}),
               compiler::DumpError);
}

TEST(Bisect, BlamesNobodyWhereNoDumpsCanBeWritten) {
  expect_to_blame_nobody_where_no_dumps_can_be_written(Runs::here);
}
TEST(Bisect, BlamesNobodyWhereNoDumpsCanBeWrittenInChildren) {
  expect_to_blame_nobody_where_no_dumps_can_be_written(Runs::in_children);
}

TEST(Bisect, TakesInfinityForRightOnlyWhereItIs) {
  const Program f = [](std::span<const Array> x) { return Arrays{exp(x[0])}; };
  const Arrays inputs = {Array({1000.0, 1.0})};
  EXPECT_EQ(bisect(stage(f, inputs), inputs).kind, Finding::Kind::agrees);
  const Jaxpr one = stage(f, {Array({1000.0})});
  const Finding finding = bisect(one, {Array({1000.0})}, {.compile = with_pass("cse", with_sines)});
  EXPECT_EQ(finding.kind, Finding::Kind::pass);
  EXPECT_THAT(finding.difference, HasSubstr("should be inf"));
}

// What contraction leaves is the rounding of the product, and no fault of fusion.
TEST(Bisect, NamesContractionAndLooksForFaultsWithoutIt) {
  const Program f = [](std::span<const Array> x) { return Arrays{x[0] * x[1] - x[2]}; };
  const Array a = uniform({20}, DType::f32), b = uniform({20}, DType::f32);
  const Arrays inputs{a, b, a * b};
  const Jaxpr program = stage(f, inputs);
  const Finding finding = bisect(program, inputs, {.contract = true});
  EXPECT_EQ(finding.kind, Finding::Kind::contraction);
  EXPECT_THAT(finding.names, IsEmpty());
  EXPECT_THAT(finding.difference, HasSubstr("and should be 0"));
  EXPECT_EQ(bisect(program, inputs).kind, Finding::Kind::agrees);
  const auto right_without_fuse = right_if([](const auto& off) { return off.contains("fuse"); });
  const Arrays others = example_inputs();
  const Finding fault =
      bisect(stage(example(), others), others, {.contract = true, .compile = right_without_fuse});
  EXPECT_EQ(fault.kind, Finding::Kind::optimisation);
  EXPECT_THAT(fault.names, ElementsAre("fuse"));
}

TEST(Bisect, ComparesBitsWhereTheToleranceIsZero) {
  const Arrays inputs = example_inputs();
  const Jaxpr program = stage([](std::span<const Array> x) { return Arrays{x[0] * x[1]}; }, inputs);
  const auto almost = [](const Jaxpr&) {
    return stage([](std::span<const Array> x) { return Arrays{x[0] * x[1] * (1 + 1e-6)}; },
                 example_inputs());
  };
  EXPECT_EQ(bisect(program, inputs, {.compile = with_pass("cse", almost)}).kind,
            Finding::Kind::agrees);
  EXPECT_EQ(bisect(program, inputs, {.rtol = 0, .compile = with_pass("cse", almost)}).kind,
            Finding::Kind::pass);
}

TEST(Bisect, TellsZerosApartByTheirSignsWhereTheToleranceIsZero) {
  const Arrays inputs = {Array({0.0, -0.0, 1.0})};
  const Jaxpr same = stage([](std::span<const Array> x) { return Arrays{x[0] * 1.0}; }, inputs);
  const auto swapped = [&](const Jaxpr&) {
    return stage([](std::span<const Array> x) { return Arrays{where(x[0] == 0.0, -x[0], x[0])}; },
                 inputs);
  };
  EXPECT_EQ(bisect(same, inputs, {.compile = with_pass("cse", swapped)}).kind,
            Finding::Kind::agrees);
  const Finding finding = bisect(same, inputs, {.rtol = 0, .compile = with_pass("cse", swapped)});
  EXPECT_EQ(finding.kind, Finding::Kind::pass);
  EXPECT_EQ(finding.difference,
            "result 0: 2 of 3 numbers differ; the first, at 0, is -0 and should be 0");
}

TEST(Bisect, NamesTheFirstOfIntegersAndBooleansThatDiffer) {
  const Arrays inputs = {Array({1, 2, 3, 4})};
  const auto up_to = [&](int most, DType dtype) {
    return stage(
        [=](std::span<const Array> x) {
          return Arrays{minimum(x[0], most).astype(dtype), (x[0] <= most).astype(dtype)};
        },
        inputs);
  };
  for (const auto& [dtype, difference] :
       {std::pair{DType::i32, "2 of 4 numbers differ; the first, at 2, is 2 and should be 3"},
        {DType::u64, "2 of 4 numbers differ; the first, at 2, is 2 and should be 3"},
        {DType::bool_, "4 of 4 numbers differ; the first, at 0, is 0 and should be 1"}}) {
    const auto fewer = [&, dtype = dtype](const Jaxpr&) {
      return up_to(dtype == DType::bool_ ? 0 : 2, dtype);
    };
    EXPECT_EQ(bisect(up_to(9, dtype), inputs, {.compile = with_pass("cse", fewer)}).difference,
              std::string("result 0: ") + difference);
  }
}

// A part in f32 is as far apart as that.
TEST(Bisect, ComparesByTheNarrowestNumbersOfTheProgram) {
  const Arrays inputs = {uniform({8}, DType::f64)};
  const auto through = [&](DType dtype, double factor) {
    return stage(
        [=](std::span<const Array> x) {
          return Arrays{x[0].astype(dtype).astype(DType::f64) * factor};
        },
        inputs);
  };
  for (const auto& [dtype, kind] :
       {std::pair{DType::f64, Finding::Kind::pass}, {DType::f32, Finding::Kind::agrees}}) {
    const auto almost = [&, dtype = dtype](const Jaxpr&) { return through(dtype, 2 + 1e-6); };
    EXPECT_EQ(bisect(through(dtype, 2), inputs, {.compile = with_pass("cse", almost)}).kind, kind);
  }
}

TEST(Bisect, FindsPassesThatLeaveOtherResults) {
  const Arrays inputs = example_inputs();
  const auto swap = [](const Jaxpr&) {
    return parse_jaxpr("{ lambda a:f32[20], b:f32[20] . let in ( a, b ) }");
  };
  const Finding finding =
      bisect(stage(example(), inputs), inputs, {.compile = with_pass("cse", swap)});
  EXPECT_EQ(finding.kind, Finding::Kind::pass);
  EXPECT_THAT(finding.names, ElementsAre("cse"));
}

TEST(Bisect, FindsTheOptimisationWithoutWhichTheResultIsRight) {
  const Arrays inputs = example_inputs();
  const Finding finding =
      bisect(stage(example(), inputs), inputs,
             {.compile = right_if([](const auto& disabled) { return disabled.contains("fuse"); })});
  EXPECT_EQ(finding.kind, Finding::Kind::optimisation);
  EXPECT_THAT(finding.names, ElementsAre("fuse"));
  EXPECT_THAT(finding.difference, HasSubstr("result 0: "));
}

TEST(Bisect, FindsOptimisationsThatMustGoTogether) {
  const Arrays inputs = example_inputs();
  const Finding finding =
      bisect(stage(example(), inputs), inputs, {.compile = right_if([](const auto& disabled) {
                                                  return disabled.contains("matmul") &&
                                                         disabled.contains("in_place");
                                                })});
  EXPECT_EQ(finding.kind, Finding::Kind::combination);
  EXPECT_THAT(finding.names, ElementsAre("in_place", "matmul"));
}

TEST(Bisect, BlamesCodeGenerationForTheRest) {
  const Arrays inputs = example_inputs();
  const Finding finding = bisect(stage(example(), inputs), inputs,
                                 {.compile = right_if([](const auto&) { return false; })});
  EXPECT_EQ(finding.kind, Finding::Kind::generation);
}

// ---- what ends its process -----------------------------------------------------------------------

AbstractResult like_the_first(const NoParams&, std::span<const Aval> x) { return x[0]; }

// Ends the process that evaluates it, as a wild pointer does; sanitizers have their own ends for those.
const Primitive<> ends_interpreted_p{
    "test_ends_interpreted", [] {
      return Rules<>{.impl = [](const NoParams&, std::span<const Array> x) -> Arrays {
                       raise(SIGKILL);
                       return {x[0]};
                     },
                     .abstract_eval = like_the_first};
    }};
// Ends it in compiled code alone.
const Primitive<> ends_compiled_p{
    "test_ends_compiled", [] {
      return Rules<>{
          .impl = [](const NoParams&, std::span<const Array> x) -> Arrays { return {x[0]}; },
          .abstract_eval = like_the_first,
          .lower = call<NoParams>([](const NoParams&, std::span<const BufferView>,
                                     std::span<const MutableBufferView>) { raise(SIGKILL); })};
    }};
Program ending(const Primitive<>& p) {
  return
      [&p](std::span<const Array> x) { return Arrays{p.bind1({}, {exp(x[0])}) + x[1], sum(x[1])}; };
}

/// Of the example, in which the pass cse puts that primitive.
Finding found_in_children(const Primitive<>& p, std::optional<std::chrono::seconds> limit = {}) {
  const Arrays inputs = example_inputs();
  const Jaxpr worse = stage(ending(p), inputs);
  return bisect(stage(example(), inputs), inputs,
                {.runs = Runs::in_children,
                 .limit = limit,
                 .compile = with_pass("cse", [&](const Jaxpr&) { return worse; })});
}

TEST(Bisect, FindsThePassThatEndsTheInterpretersProcess) {
  const Finding finding = found_in_children(ends_interpreted_p);
  ASSERT_EQ(finding.kind, Finding::Kind::pass);
  EXPECT_THAT(finding.names, ElementsAre("cse"));
  EXPECT_EQ(finding.difference, "interpreted, the process ends with signal 9 (Killed)");
  EXPECT_THAT(finding.before, Not(HasSubstr("test_ends_interpreted")));
  EXPECT_THAT(finding.after, HasSubstr("test_ends_interpreted"));
}

TEST(Bisect, FindsTheOptimisationThatEndsTheProcess) {
  const Arrays inputs = example_inputs();
  const auto ends_after_dce = [](const Jaxpr& jaxpr, const CompileOptions& options) {
    CompileOptions wrapped = options;
    wrapped.after_pass = [&](std::string_view pass, Jaxpr& program, const Arrays& consts) {
      options.after_pass(pass, program, consts);
      if (pass == "dce" && !options.disabled.contains("fuse")) raise(SIGKILL);
    };
    return compile(jaxpr, wrapped);
  };
  const Finding finding = bisect(stage(example(), inputs), inputs,
                                 {.runs = Runs::in_children, .compile = ends_after_dce});
  ASSERT_EQ(finding.kind, Finding::Kind::optimisation);
  EXPECT_THAT(finding.names, ElementsAre("dce", "fuse"));
  EXPECT_EQ(finding.difference, "the process ends with signal 9 (Killed) after the pass dce");
}

TEST(Bisect, SaysWhereCompiledProgramsEndTheirProcess) {
  const Arrays inputs = example_inputs();
  const Finding finding =
      bisect(stage(ending(ends_compiled_p), inputs), inputs, {.runs = Runs::in_children});
  ASSERT_EQ(finding.kind, Finding::Kind::generation);
  EXPECT_EQ(finding.difference, "the process ends with signal 9 (Killed) when the program runs");
}

TEST(Bisect, SaysWhereTheInterpreterEndsItsProcess) {
  const Arrays inputs = example_inputs();
  const Finding finding =
      bisect(stage(ending(ends_interpreted_p), inputs), inputs, {.runs = Runs::in_children});
  EXPECT_EQ(finding.kind, Finding::Kind::interpreter);
  EXPECT_EQ(finding.difference, "the process ends with signal 9 (Killed)");
}

const Primitive<> never_ends_p{
    "test_never_ends", [] {
      return Rules<>{.impl = [](const NoParams&, std::span<const Array> x) -> Arrays {
                       pause();
                       return {x[0]};
                     },
                     .abstract_eval = like_the_first};
    }};

TEST(Bisect, TakesWhatNeverEndsAsWhatCrashes) {
  const Finding finding = found_in_children(never_ends_p, std::chrono::seconds(4));
  ASSERT_EQ(finding.kind, Finding::Kind::pass);
  EXPECT_THAT(finding.names, ElementsAre("cse"));
  EXPECT_EQ(finding.difference, "interpreted, the process does not end within 4 s");
}

// ---- results that nobody writes -------------------------------------------------------------------

// Compiled code leaves what was there, which may well be what was there after the run before.
const Primitive<> leaves_unwritten_p{
    "test_leaves_unwritten", [] {
      return Rules<>{
          .impl = [](const NoParams&, std::span<const Array> x) -> Arrays { return {x[0]}; },
          .abstract_eval = like_the_first,
          .lower = call<NoParams>([](const NoParams&, std::span<const BufferView>,
                                     std::span<const MutableBufferView>) {})};
    }};

TEST(Bisect, SeesResultsThatAreLeftUnwritten) {
  for (const std::int64_t size : {1, 20, 3'000, 200'000}) {
    const Arrays inputs = {uniform({size}, DType::f32)};
    const auto twice = [](std::span<const Array> x) {
      return Arrays{leaves_unwritten_p.bind1({}, {x[0]}), x[0] + 1.0};
    };
    const Jaxpr program = stage(twice, inputs);
    {  // What the results get, were it not spoiled.
      const Arrays right = {inputs[0] + 0.0, inputs[0] + 0.0, inputs[0] + 0.0, inputs[0] + 0.0};
    }
    const Finding finding = bisect(program, inputs);
    EXPECT_EQ(finding.kind, Finding::Kind::generation) << size;
    EXPECT_THAT(finding.difference, HasSubstr("result 0: ")) << size;
  }
}

// ---- the options of jit --------------------------------------------------------------------------

TEST(Bisect, CompilesWithTheOptionsOfJit) {
  const Arrays inputs = example_inputs();
  std::vector<CompileOptions> asked;
  const auto remember = [&](const Jaxpr& jaxpr, const CompileOptions& options) {
    asked.push_back(options);
    return compile(jaxpr, options);
  };
  const Finding finding = bisect(stage(example(), inputs), inputs,
                                 {.contract = true, .donated = {false, true}, .compile = remember});
  EXPECT_EQ(finding.kind, Finding::Kind::agrees);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_TRUE(asked[0].contract);
  EXPECT_EQ(asked[0].donated, (std::vector<bool>{false, true}));
}

TEST(Bisect, RunsWithDonatedInputs) {
  const Arrays inputs = {uniform({20}, DType::f32)};
  const Jaxpr program = stage([](std::span<const Array> x) { return Arrays{exp(x[0])}; }, inputs);
  const auto donations = [] { return runtime::live_counters().donations.load(); };
  const auto before = donations();
  EXPECT_EQ(bisect(program, inputs, {.donated = {true}}).kind, Finding::Kind::agrees);
  EXPECT_EQ(donations(), before + 1);
  EXPECT_EQ(inputs[0].to_vector<float>().size(), 20u) << "what is given away is a copy";
}

}  // namespace
}  // namespace telamon::testing
