// Programs in the disk cache: a program that is found computes what the compiled one does, and none is
// taken for another.
#include "compiler/executable/program_store.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <map>

#include "compiler/passes/passes.hpp"
#include "compiler/support.hpp"
#include "support/disk_cache.hpp"
#include "support/processes.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitive.hpp"
#include "telamon/profile.hpp"

namespace telamon::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Array wave(const Array& x) { return sin(x) * 2.0 + x; }

/// The names of the passes that a compilation went through.
std::string passes(const Compiled& executable) {
  std::string names;
  for (const PassTime& p : executable->info().passes) names += p.name + " ";
  return names;
}

/// Compiles the program twice, the second time from the disk, and compares bit for bit.
void expect_found_again(const Program& f, const Arrays& inputs) {
  const CacheFolder folder;
  const CacheChanges changes;
  const Compiled first = compile(stage(f, inputs)), second = compile(stage(f, inputs));
  EXPECT_EQ(changes().stores, 1);
  EXPECT_EQ(changes().hits, 1);
  EXPECT_EQ(changes().errors, 0);
  EXPECT_THAT(passes(first), HasSubstr("codegen"));
  EXPECT_THAT(passes(second),
              Not(HasSubstr("simplify")));  // else found by its code, not by its text
  EXPECT_EQ(first->info().kernels, second->info().kernels);
  EXPECT_EQ(first->info().library_calls, second->info().library_calls);
  EXPECT_EQ(first->info().steps, second->info().steps);
  EXPECT_EQ(first->info().arena_bytes, second->info().arena_bytes);
  const Arrays want = execute(first, inputs), got = execute(second, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!is_complex(got[i].dtype()))
      expect_equal(got[i], want[i], 0, "result " + std::to_string(i));
  }
  EXPECT_EQ(first->text("plan"), second->text("plan"));
  EXPECT_EQ(first->text("jaxpr"), second->text("jaxpr"));
}

TEST(ProgramStore, FindsElementwiseProgramsAndReductions) {
  const Array x = uniform({40, 30}, DType::f32);
  expect_found_again([](std::span<const Array> a) { return Arrays{wave(a[0]), sum(a[0])}; }, {x});
}

TEST(ProgramStore, FindsFoldsOfPlaces) {
  expect_found_again(
      [](std::span<const Array> a) { return Arrays{argmax(a[0], -1), argmin(a[0] * 2.0, -1)}; },
      {uniform({40, 300}, DType::f32)});
}

TEST(ProgramStore, FindsProgramsThatCallTheProductOfLargeMatrices) {
  const Array a = uniform({100, 80}, DType::f32), b = uniform({80, 90}, DType::f32);
  expect_found_again(
      [](std::span<const Array> x) { return Arrays{tanh(matmul(x[0], x[1])) + 1.0}; }, {a, b});
}

TEST(ProgramStore, FindsProgramsThatCallTheLibrary) {
  const Array x = uniform({50}, DType::f64);
  expect_found_again([](std::span<const Array> a) { return Arrays{sort(a[0]) * 2.0}; }, {x});
}

TEST(ProgramStore, FindsLoopsAndBranches) {
  const Array x = uniform({16}, DType::f64);
  expect_found_again(
      [](std::span<const Array> a) {
        const Array looped =
            fori_loop(0, 5, [](const Array&, const Array& c) { return sin(c) + 0.5; }, a[0]);
        return Arrays{cond(
            sum(a[0]) > 0.0, [](Array v) { return v * 2.0; }, [](Array v) { return v - 1.0; },
            looped)};
      },
      {x});
}

TEST(ProgramStore, TellsProgramsApart) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32), y = uniform({64}, DType::f64),
              z = uniform({63}, DType::f32);
  const CacheChanges changes;
  const auto with = [](double c) {
    return Program([c](std::span<const Array> a) { return Arrays{a[0] * c}; });
  };
  check(with(2.0), {x});
  check(with(2.5), {x});                                                    // another literal
  check(with(2.0), {y});                                                    // type
  check(with(2.0), {z});                                                    // shape
  check([](std::span<const Array> a) { return Arrays{a[0] + 2.0}; }, {x});  // operation
  check([](std::span<const Array> a) { return Arrays{a[0] * 2.0, a[0]}; }, {x});
  check([](std::span<const Array> a) { return Arrays{lax::cumsum(a[0], 0)}; }, {x});
  check([](std::span<const Array> a) { return Arrays{lax::cumsum(a[0], 0, true)}; },
        {x});  // parameter
  check([](std::span<const Array> a) { return Arrays{sum(a[0])}; }, {x});
  EXPECT_EQ(changes().hits, 0);
  const CompileOptions contracted{.contract = true, .name = {}, .disabled = {}};
  check(with(2.0), {x}, -1, 1, contracted);
  EXPECT_EQ(changes().hits, 0);
  setenv("TELAMON_DISABLE", "fuse", 1);
  check(with(2.0), {x});
  unsetenv("TELAMON_DISABLE");
  EXPECT_EQ(changes().hits, 0);
  check(with(2.0), {x});
  EXPECT_EQ(changes().hits, 1);
}

TEST(ProgramStore, TakesWhatIsLeftOutByItsMeaning) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32);
  const Jaxpr f = stage([](std::span<const Array> a) { return Arrays{exp(a[0]) + 2.0}; }, {x});
  const CacheChanges changes;
  ::testing::internal::CaptureStderr();
  for (const char* text :
       {"fuse,cse", "cse,fuse", " fuse ,\tcse", "fuse,cse,fuse,,", "wrapz,fuse,cse"}) {
    setenv("TELAMON_DISABLE", text, 1);
    compile(f);
  }
  unsetenv("TELAMON_DISABLE");
  EXPECT_EQ(changes().hits, 4);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("'wrapz' is ignored"));
  compile(f);
  EXPECT_EQ(changes().hits, 4);
}

TEST(ProgramStore, StaysOutOfTheWayOfDumpsAndKeptPrograms) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32);
  const Program f = [](std::span<const Array> a) { return Arrays{wave(a[0])}; };
  compile(stage(f, {x}));
  CompileOptions keeping;
  keeping.keep_programs = true;
  const Compiled kept = compile(stage(f, {x}), keeping);
  EXPECT_THAT(kept->text("simplify"), HasSubstr("sin"));
  const Compiled found = compile(stage(f, {x}));
  EXPECT_THAT(found->text("ir"), HasSubstr("define"));
  EXPECT_THAT(found->text("asm"), HasSubstr(".text"));
}

TEST(ProgramStore, CompilesWhatIsDamaged) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32);
  const Program f = [](std::span<const Array> a) { return Arrays{wave(a[0])}; };
  compile(stage(f, {x}));
  const auto file = folder.files().at(0);
  std::string bytes = CacheFolder::read(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  CacheFolder::write(file, bytes);
  const CacheChanges changes;
  check(f, {x});
  EXPECT_EQ(changes().errors, 1);
  EXPECT_EQ(changes().stores, 1);
  check(f, {x});
  EXPECT_EQ(changes().hits, 1);
}

// Long programs are found in less time than it takes to write them down again.
TEST(ProgramStore, KeysProgramsThatAreLowAsTheyAre) {
  const auto of = [](const Program& f) { return stage(f, {uniform({6, 6}, DType::f32)}); };
  const Jaxpr low = of([](std::span<const Array> a) {
    DotDimensionNumbers dn;
    dn.lhs_contracting = {1};
    dn.rhs_contracting = {0};
    return Arrays{lax::sin(lax::dot_general(a[0], a[0], dn)), lax::reduce_sum(a[0], {1})};
  });
  EXPECT_TRUE(compiler::lower(low).jaxpr.same_as(low));
  const Jaxpr high =
      of([](std::span<const Array> a) { return Arrays{lax::expand_dims(a[0], {0})}; });
  const Jaxpr lowered = compiler::lower(high).jaxpr;
  EXPECT_FALSE(lowered.same_as(high));
  EXPECT_TRUE(compiler::lower(lowered).jaxpr.same_as(lowered));
}

// What is said once of many equations or values, of each says which it is.
TEST(ProgramStore, TellsKeysOfLikeProgramsApart) {
  const char* const programs[] = {
      "{ lambda a:f32[3], b:f32[3] . let c:f32[3] = add a b\n d:f32[3] = add c b in ( d ) }",
      "{ lambda a:f32[3], b:f32[3] . let c:f32[3] = add a b\n d:f32[3] = add c a in ( d ) }",
      "{ lambda a:f32[3], b:f32[3] . let c:f32[3] = add a b\n d:f32[3] = add c b in ( c ) }",
      "{ lambda a:f32[3], b:f32[3] . let c:f32[3] = add a b\n d:f32[3] = mul c b in ( d ) }",
      "{ lambda a:f32[3], b:f32[3] . let c:f32[3] = mul a b\n d:f32[3] = add c b in ( d ) }",
      "{ lambda a:f32[4], b:f32[4] . let c:f32[4] = add a b\n d:f32[4] = add c b in ( d ) }",
      "{ lambda a:f64[3], b:f64[3] . let c:f64[3] = add a b\n d:f64[3] = add c b in ( d ) }",
      "{ lambda a:f32[3], b:f32[4] . let c:f32[3] = add a a\n d:f32[3] = add c a in ( d ) }",
      "{ lambda a:f32[4], b:f32[3] . let c:f32[3] = add b b\n d:f32[3] = add c b in ( d ) }",
      "{ lambda a:f32[] . let b:f32[] = add a 1.0:f32\n c:f32[] = mul b 2.0:f32 in ( c ) }",
      "{ lambda a:f32[] . let b:f32[] = add a 2.0:f32\n c:f32[] = mul b 1.0:f32 in ( c ) }",
      "{ lambda a:f32[] . let b:f32[] = add 1.0:f32 a\n c:f32[] = mul b 2.0:f32 in ( c ) }",
      "{ lambda a:f32[] . let b:f32[] = add a 1.0:f32\n c:f32[] = mul 2.0:f32 b in ( c ) }",
      "{ lambda a:f32[2] . let b:f32[4] = concatenate[dimension=0] a a in ( b ) }",
      "{ lambda a:f32[2] . let b:f32[6] = concatenate[dimension=0] a a a in ( b ) }",
      "{ lambda a:f32[2,2] . let b:f32[4,2] = concatenate[dimension=0] a a in ( b ) }",
      "{ lambda a:f32[2,2] . let b:f32[2,4] = concatenate[dimension=1] a a in ( b ) }"};
  std::map<runtime::disk_cache::Key, const char*> keys;
  for (const char* text : programs) {
    const auto key = compiler::program_key(parse_jaxpr(text), {}, {});
    ASSERT_TRUE(key.has_value()) << text;
    EXPECT_EQ(key, compiler::program_key(parse_jaxpr(text), {}, {})) << text;
    const auto [other, is_new] = keys.emplace(*key, text);
    EXPECT_TRUE(is_new) << text << " has the key of " << other->second;
  }
}

// Two versions of the library, of LLVM, or two processors, that share a folder.
TEST(ProgramStore, IsNoneOfAnotherBuild) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32);
  const Jaxpr jaxpr = stage([](std::span<const Array> a) { return Arrays{wave(a[0])}; }, {x});
  const std::string& build = compiler::this_build();
  EXPECT_THAT(build, ContainsRegex("^[0-9a-f]{16,} LLVM [0-9]+"));
  const auto mine = compiler::program_key(jaxpr, {true}, {}),
             other = compiler::program_key(jaxpr, {true}, {}, "0" + build.substr(1) + "+other");
  ASSERT_TRUE(mine.has_value() && other.has_value());
  EXPECT_NE(*mine, *other);
  // What the other build has left is neither taken nor touched.
  runtime::disk_cache::store(*other, "of the other build");
  {
    const CacheChanges changes;
    (void)compile(jaxpr);
    EXPECT_EQ(changes().hits, 0);
    EXPECT_EQ(changes().stores, 1);
    EXPECT_EQ(changes().errors, 0);
  }
  const auto left = runtime::disk_cache::load(*other);
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->bytes(), "of the other build");
  EXPECT_TRUE(compiler::find_program(*mine).has_value());
}

TEST(ProgramStore, CompilesWhereTheBytesAreNoProgram) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32);
  const Program f = [](std::span<const Array> a) { return Arrays{wave(a[0])}; };
  const Jaxpr jaxpr = stage(f, {x});
  const auto key = compiler::program_key(jaxpr, {true}, {});
  ASSERT_TRUE(key.has_value());
  for (const std::string& bytes : {std::string(), std::string("no program"), std::string(4000, 'x'),
                                   std::string(4000, '\0')}) {
    runtime::disk_cache::store(*key, bytes);
    const CacheChanges changes;
    const Compiled executable = compile(jaxpr);
    expect_equal(execute(executable, {x})[0], wave(x), 0, "compiled");
    EXPECT_EQ(changes().errors, 1);
    EXPECT_EQ(changes().hits, 0);
  }
}

// An operation of the user's own is known by the code that it becomes.
TEST(ProgramStore, KnowsOperationsOfUsersByTheirCode) {
  const CacheFolder folder;
  static const Primitive<NoParams> own_p{"program_store_own"};
  own_p.def_abstract_eval([](const NoParams&, std::span<const Aval> x) { return x[0]; });
  own_p.def_impl([](const NoParams&, std::span<const Array> x) { return Arrays{x[0] * 2.0}; });
  const auto times = [](double c) {
    return element<NoParams>([c](Emitter& e, const NoParams&, std::span<const Scalar> x) {
      return e.mul(x[0], e.constant(x[0].dtype(), c));
    });
  };
  const Array x = uniform({64}, DType::f64);
  const Program f = [](std::span<const Array> a) { return Arrays{own_p.bind1({}, {a[0]}) + 1.0}; };
  own_p.def_lower(times(2.0));
  const CacheChanges changes;
  for (int i = 0; i < 2; ++i)
    expect_equal(execute(compile(stage(f, {x})), {x})[0], x * 2.0 + 1.0, 0, "doubled");
  EXPECT_EQ(changes().hits, 1);
  own_p.def_lower(times(3.0));
  expect_equal(execute(compile(stage(f, {x})), {x})[0], x * 3.0 + 1.0, 0, "tripled");
  EXPECT_EQ(changes().hits, 1);
}

// What lowering leaves are operations that programs are known by, so that none is looked for in vain.
TEST(ProgramStore, KnowsAllOperationsOfTheLibrary) {
  const auto known = compiler::stored_operations();
  EXPECT_TRUE(std::is_sorted(known.begin(), known.end()));
  int own = 0;
  for (const PrimitiveBase* p : PrimitiveBase::all()) {
    // Those of tests are no symbols of the library: telamon::v1::NAME_p.
    const std::string object = std::string(p->name()) + "_p";
    const std::string symbol = "_ZN7telamon2v1" + std::to_string(object.size()) + object + "E";
    if (dlsym(RTLD_DEFAULT, symbol.c_str()) == nullptr) continue;
    const Lowering* lowering = p->rules().lowering();
    const bool may_stay = p == &argmax_p || p == &argmin_p;  // as folds of pairs
    if (!may_stay && lowering != nullptr && std::holds_alternative<Lowering::Ops>(lowering->form))
      continue;
    if (p->rules().inlinable || p->name() == "jit" || p->name() == "check") continue;
    ++own;
    EXPECT_TRUE(std::binary_search(known.begin(), known.end(), p->name())) << p->name();
  }
  if (own == 0) GTEST_SKIP() << "a static library exports no symbols";
  EXPECT_GT(own, 60);
}

// Code that tells profiles of its steps is another program, and its steps have names when it is found.
TEST(ProgramStore, KeepsProfiledProgramsApartAndNamesTheirSteps) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32);
  const Jaxpr program = stage([](std::span<const Array> a) { return Arrays{wave(a[0])}; }, {x});
  const CompileOptions profiled{.contract = false, .name = "seen", .disabled = {}, .profile = true};
  const CacheChanges changes;
  compile(program);
  const Compiled first = compile(program, profiled);
  EXPECT_EQ(changes().hits, 0);
  const Compiled found = compile(program, profiled);
  EXPECT_EQ(changes().hits, 1);
  const auto kernels_of = [&](const Compiled& executable) {
    std::vector<std::string> names;
    const ProfileReport report = profile([&] { execute(executable, {x}); });
    for (const ProfileEntry& entry : report.entries) {
      if (entry.category == "kernel") names.push_back(entry.name + " " + entry.detail);
    }
    return names;
  };
  EXPECT_THAT(kernels_of(first), ElementsAre("seen: sin_mul_add f32[64] <- f32[64]"));
  EXPECT_EQ(kernels_of(found), kernels_of(first));
  EXPECT_TRUE(kernels_of(compile(program)).empty());
}

TEST(ProgramStore, AnalysesProgramsThatAreFoundLikeThoseThatAreCompiled) {
  const CacheFolder folder;
  const Array x = uniform({60, 50}, DType::f32);
  const Jaxpr program = stage(
      [](std::span<const Array> a) { return Arrays{sort(wave(a[0])) * 2.0, sum(a[0])}; }, {x});
  const CacheChanges changes;
  const Compiled first = compile(program), found = compile(program);
  ASSERT_EQ(changes().hits, 1);
  EXPECT_GT(first->cost_analysis().flops, 0);
  EXPECT_GT(first->memory_analysis({}).arena, 0);
  EXPECT_EQ(found->cost_analysis().to_string(), first->cost_analysis().to_string());
  for (const std::vector<bool>& donated : {std::vector<bool>{}, std::vector<bool>{true}}) {
    EXPECT_EQ(found->memory_analysis(donated).to_string(),
              first->memory_analysis(donated).to_string());
  }
}

// What is donated, and whether anybody says so, decides what is made in place.
TEST(ProgramStore, KeepsProgramsApartThatDonateOtherArguments) {
  const CacheFolder folder;
  const auto fresh = [] { return Arrays{uniform({5000}, DType::f32)}; };
  const Program f = [](std::span<const Array> a) { return Arrays{a[0].at(3).set(2.0)}; };
  const Jaxpr program = stage(f, fresh());
  using Donated = std::optional<std::vector<bool>>;
  const Donated each[] = {std::nullopt, std::vector{true}, std::vector{false}};
  const CacheChanges changes;
  std::vector<std::vector<std::string>> steps;
  for (const Donated& donated : each)
    steps.push_back(compile(program, {.donated = donated})->info().steps);
  EXPECT_EQ(changes().hits, 0);
  EXPECT_NE(steps[0], steps[1]);
  for (std::size_t i = 0; i < std::size(each); ++i) {
    const Compiled found = compile(program, {.donated = each[i]});
    EXPECT_EQ(found->info().steps, steps[i]);
    expect_equal(execute(found, fresh())[0], f(fresh())[0], 0, "kept");
    expect_equal(execute(found, fresh(), {true})[0], f(fresh())[0], 0, "donated");
  }
  EXPECT_EQ(changes().hits, 3);
}

TEST(ProgramStore, NamesTheCodeOfProgramsThatAreFoundForPerf) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32);
  const Jaxpr program = stage([](std::span<const Array> a) { return Arrays{wave(a[0])}; }, {x});
  const CompileOptions options{.contract = false, .name = "kept", .disabled = {}};
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::filesystem::remove(path);
  const CacheChanges changes;
  compile(program, options);
  EXPECT_FALSE(std::filesystem::exists(path));
  setenv("TELAMON_PERF_MAP", "1", 1);
  compile(program, options);
  unsetenv("TELAMON_PERF_MAP");
  EXPECT_EQ(changes().hits, 1);
  EXPECT_THAT(CacheFolder::read(path), HasSubstr(" telamon:kept\n"));
  std::filesystem::remove(path);
}

TEST(ProgramStore, SaysSoInTheLog) {
  const CacheFolder folder;
  const Array x = uniform({64}, DType::f32);
  const Program f = [](std::span<const Array> a) { return Arrays{wave(a[0])}; };
  setenv("TELAMON_LOG", "cache", 1);
  ::testing::internal::CaptureStderr();
  compile(stage(f, {x}));
  compile(stage(f, {x}));
  const std::string text = ::testing::internal::GetCapturedStderr();
  unsetenv("TELAMON_LOG");
  for (const char* word : {"miss", "stored", "hit"}) EXPECT_THAT(text, HasSubstr(word));
}

TEST(ProgramStore, ServesFourProcessesAtOnce) {
  const CacheFolder folder;
  expect_success_in_processes(4, [](int) {
    execl("/proc/self/exe", "test_compiler", "--gtest_brief=1",
          "--gtest_filter=ProgramStore.ComputesTheSameWhoeverCompiled", nullptr);
    return 3;
  });
  EXPECT_EQ(folder.files().size(), 6u);
}

// Run by the test above in four processes with one folder.
TEST(ProgramStore, ComputesTheSameWhoeverCompiled) {
  for (int n = 1; n <= 6; ++n) {
    const Array x = uniform({10 * n}, DType::f64);
    check([](std::span<const Array> a) { return Arrays{cos(wave(a[0]))}; }, {x});
  }
}

}  // namespace
}  // namespace telamon::testing
