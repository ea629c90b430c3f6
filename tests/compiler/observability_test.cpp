// TELAMON_LOG, TELAMON_DUMP and TELAMON_DISABLE: what a user sees of a compilation, and switches off.
#include <gmock/gmock.h>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/support.hpp"
#include "support/processes.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/indexing.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Sets an environment variable for the duration of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Compiled compile_example(const CompileOptions& options = {}) {
  const Array x = uniform({64}, DType::f32);
  return compile(
      stage([](std::span<const Array> a) { return Arrays{sin(a[0]) * 2.0 + a[0]}; }, {x}), options);
}

TEST(Observability, LogHasALinePerPassWithItsMicroseconds) {
  const Variable log("TELAMON_LOG", "compile");
  ::testing::internal::CaptureStderr();
  const Compiled executable =
      compile_example({.contract = false, .name = "watched", .disabled = {}});
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("watched"));
  EXPECT_THAT(text, HasSubstr(" us"));
  ASSERT_FALSE(executable->info().passes.empty());
  for (const PassTime& pass : executable->info().passes) EXPECT_THAT(text, HasSubstr(pass.name));
  EXPECT_THAT(text, HasSubstr("watched: 1 kernel, 0 calls, arena of 0 bytes; "));
  EXPECT_THAT(text, Not(HasSubstr(executable->info().steps.at(0))));  // "debug" says that
}

TEST(Observability, LogAtLevelDebugNamesTheSteps) {
  const Variable log("TELAMON_LOG", "compile=debug");
  ::testing::internal::CaptureStderr();
  const Compiled executable =
      compile_example({.contract = false, .name = "watched", .disabled = {}});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("watched: " + executable->info().steps.at(0) + "\n"));
}

TEST(Observability, SaysNothingUnlessAsked) {
  ::testing::internal::CaptureStderr();
  compile_example();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// Whether the table of passes or the walk through them has a word about this one.
bool is_explained(const std::string& pass) {
  std::string text;
  for (const char* path : {"/docs/how-to/environment.md", "/docs/compiler.md"}) {
    std::ostringstream all;
    all << std::ifstream(std::string(TELAMON_SOURCE_DIR) + path).rdbuf();
    text += all.str();
  }
  // A row, a word in a sentence, or one in the title of a section.
  return std::regex_search(text, std::regex("`" + pass + "`|\n##[^:\n]*\\b" + pass + "\\b"));
}

// Together these programs have something for every pass to do.
TEST(Observability, SaysOfEveryPassThatDoesNotRunWhyNot) {
  const auto compiled = [](const Program& f, const Arrays& inputs,
                           std::set<std::string, std::less<>> disabled = {}) {
    return compile(stage(f, inputs), {.disabled = std::move(disabled), .keep_programs = true});
  };
  const Program loop = [](std::span<const Array> a) {
    const auto body = [&](const Array&, const Array& y) { return sin(y) * a[0]; };
    return Arrays{fori_loop(0, 5, body, a[0])};
  };
  const Program pairs = [](std::span<const Array> a) {
    const Array r = a[0](slice(), newaxis) - a[0](newaxis);
    return Arrays{sum(lax::rsqrt(sum(r * r, -1) + .5))};
  };
  const Program mirrored = [](std::span<const Array> a) {
    const Array r = a[0](slice(), newaxis) - a[0](newaxis);
    return Arrays{sum(r, 0), sum(r, 1)};
  };
  const Program scatter = [](std::span<const Array> a) {
    return Arrays{a[0].at(lax::convert_element_type(a[0], DType::i32)).add(1.0)};
  };
  const Program extremes = [](std::span<const Array> a) {
    return Arrays{lax::eq(a[0], broadcast_to(max(a[0], 1)(slice(), newaxis), a[0].shape()))};
  };
  const Program look_up = [](std::span<const Array> a) { return Arrays{a[0](a[1], a[1])}; };
  const Program large = [](std::span<const Array> a) { return Arrays{sum(sin(a[0]) * a[0], -1)}; };
  const Array x = uniform({64}, DType::f32);
  const std::vector<Compiled> all = {
      compile_example({.keep_programs = true}),
      compiled(loop, {x}),
      compiled(loop, {x}, {"loops", "simplify"}),
      compiled(pairs, {uniform({64, 3}, DType::f64)}),
      compiled(mirrored, {x}),
      compiled(scatter, {x}),
      compiled(extremes, {uniform({64, 40}, DType::f32)}),
      compiled(look_up, {uniform({8, 8, 2}, DType::f32), lax::iota(DType::i32, {64})}),
      compile(stage(scatter, {x}), {.donated = std::vector{true}, .keep_programs = true}),
      compiled(large, {uniform({1024, 2048}, DType::f32)})};
  std::set<std::string> names;
  for (const Compiled& c : all)
    for (const PassTime& pass : c->info().passes) names.insert(pass.name);
  for (const char* name :
       {"join_loops", "residuals", "loops", "conditions", "row_updates", "sums_in_parts",
        "row_groups", "tiles", "simplify_again", "wraps", "row_lookups", "flat_lookups",
        "padded_sums", "mirrored_sums", "chosen_sums"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const std::string& name : names)
    EXPECT_TRUE(is_explained(name.substr(0, name.find("_again")))) << name;
  for (const Compiled& c : all) {
    for (const std::string& name : names) {
      const bool ran = std::any_of(c->info().passes.begin(), c->info().passes.end(),
                                   [&](const PassTime& pass) { return pass.name == name; });
      EXPECT_EQ(c->why_not_run(name).empty(), ran) << name << " of\n" << c->text("jaxpr");
    }
  }
}

TEST(Observability, DumpsTheProgramAfterEachPassTheIrAndTheAssembly) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("telamon_dump_" + std::to_string(std::random_device{}()));
  {
    const Variable dump("TELAMON_DUMP", folder.string());
    compile_example({.contract = false, .name = "watched", .disabled = {}});
    compile_example({.contract = false, .name = std::string(400, 'n'), .disabled = {}});
  }
  std::string names, contents;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names += entry.path().filename().string() + "\n";
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    EXPECT_FALSE(text.str().empty()) << entry.path();
    contents += text.str();
  }
  std::filesystem::remove_all(folder);
  for (const char* part : {"watched", "lower.jaxpr", "simplify.jaxpr", "cse.jaxpr"})
    EXPECT_THAT(names, HasSubstr(part));
  EXPECT_THAT(contents, HasSubstr("sin"));      // the jaxpr
  EXPECT_THAT(contents, HasSubstr("define "));  // the LLVM IR
  EXPECT_THAT(contents, HasSubstr(".text"));    // the assembly
}

TEST(Observability, PassesAreSwitchedOffByNameFromOutside) {
  const auto names = [](const Compiled& executable) {
    std::string all;
    for (const PassTime& pass : executable->info().passes) all += pass.name + " ";
    return all;
  };
  EXPECT_THAT(names(compile_example()), HasSubstr("simplify "));
  const Variable disable("TELAMON_DISABLE", "cse,simplify");
  EXPECT_THAT(names(compile_example()), Not(HasSubstr("simplify ")));
  EXPECT_THAT(names(compile_example()), Not(HasSubstr("cse ")));
}

// What reorder has changed is simplified once more.
// Linkers go through tables of pointers, whose order is another one each time.
TEST(Observability, TellsOfTheSameCodeInTheSameOrder) {
  const Compiled executable = compile_example(
      {.contract = false, .name = "watched", .disabled = {"fuse", "inline_kernels"}});
  const std::string once = executable->text("link");
  EXPECT_THAT(once, ::testing::StartsWith("image of "));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(executable->text("link"), once);
}

TEST(Observability, ShowsWhatAPassMadeEachTime) {
  const Program f = [](std::span<const Array> x) {
    return Arrays{lax::transpose(lax::exp(broadcast_to(x[0], {40, 8})), {1, 0})};
  };
  const Compiled executable = compile(stage(f, {uniform({8}, DType::f32)}),
                                      {.contract = false, .name = "f", .keep_programs = true});
  EXPECT_THAT(executable->text("simplify"), HasSubstr("transpose"));
  EXPECT_THAT(executable->text("simplify_again"), Not(HasSubstr("transpose")));
}

// Lowering is no optimisation: it cannot be left out.
TEST(Observability, SaysOnceWhichWordsDoNotExist) {
  ::testing::internal::CaptureStderr();
  {
    const Variable disable("TELAMON_DISABLE", "fuze,lower,cse"), log("TELAMON_LOG", "compiler");
    for (int i = 0; i < 2; ++i) {
      const Compiled executable = compile_example();
      EXPECT_EQ(executable->info().passes.at(0).name, "lower");
      EXPECT_EQ(executable->info().passes.at(3).name, "dce");
    }
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      text,
      HasSubstr("telamon: TELAMON_LOG: 'compiler' is ignored: there is no such word\ntelamon: "
                "TELAMON_LOG knows compile, jit, cache, memory, threads, all\n"));
  for (const char* wrong : {"fuze", "lower"}) {
    EXPECT_THAT(text, HasSubstr("telamon: TELAMON_DISABLE: '" + std::string(wrong) +
                                "' is ignored: there is no such word\n"));
  }
  EXPECT_THAT(text, HasSubstr("telamon: TELAMON_DISABLE knows fold_constants, simplify, cse, "));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
}

TEST(Observability, NamesOfSeveralLinesTakeOneLineInPerfMaps) {
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::filesystem::remove(path);
  {
    const Variable map("TELAMON_PERF_MAP", "1");
    compile_example({.contract = false,
                     .name = "two words\nof\t\x01"
                             "f",
                     .disabled = {}});
  }
  std::ifstream file(path);
  std::string line;
  int lines = 0;
  for (; std::getline(file, line); ++lines)
    EXPECT_THAT(line, ::testing::HasSubstr(" telamon:two_words\\nof\\t\\x01f")) << line;
  EXPECT_GE(lines, 1);
  std::filesystem::remove(path);
}

TEST(Observability, NamesOfSeveralLinesTakeOneLineInTheLog) {
  ::testing::internal::CaptureStderr();
  {
    const Variable log("TELAMON_LOG", "jit,compile,cache");
    compile_example({.contract = false, .name = "two\nlines", .disabled = {}});
    jit([](Array x) { return sin(x) + 1.0; }, {.name = "two\nlines"})(ones({3}));
  }
  compile_example();  // reads the settings anew
  std::istringstream text(::testing::internal::GetCapturedStderr());
  int lines = 0;
  for (std::string line; std::getline(text, line); ++lines)
    EXPECT_THAT(line, ::testing::StartsWith("[telamon "));
  EXPECT_GT(lines, 3);
}

TEST(Observability, PerfMapNamesKernelsAndPrograms) {
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::filesystem::remove(path);
  compile_example();
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    const Variable map("TELAMON_PERF_MAP", "1");
    compile_example({.contract = false, .name = "watched", .disabled = {"inline_kernels"}});
  }
  std::ifstream file(path);
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> functions;
  std::string name;
  std::uint64_t begin = 0, bytes = 0;
  while (file >> std::hex >> begin >> bytes >> name) functions[name] = {begin, bytes};
  std::filesystem::remove(path);
  ASSERT_TRUE(functions.contains("telamon:watched"));
  ASSERT_TRUE(functions.contains("telamon:watched:sin_mul_add_0"));
  const auto [kernel, kernel_bytes] = functions["telamon:watched:sin_mul_add_0"];
  const auto [entry, entry_bytes] = functions["telamon:watched"];
  EXPECT_GT(kernel_bytes, 0u);
  EXPECT_TRUE(kernel + kernel_bytes <= entry || entry + entry_bytes <= kernel);
}

// A child's, too, which its parent's was not.
TEST(Observability, PerfMapsHaveNothingOfEarlierProcesses) {
  const Variable map("TELAMON_PERF_MAP", "1");
  const auto own = [] { return "/tmp/perf-" + std::to_string(getpid()) + ".map"; };
  compile_example();
  const auto named = [&] {
    std::ifstream file(own());
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  expect_success_in_processes(1, [&](int) {
    std::ofstream(own()) << "1000 10 dead\n";
    std::filesystem::last_write_time(
        own(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(100'000));
    compile_example({.contract = false, .name = "first", .disabled = {}});
    compile_example({.contract = false, .name = "second", .disabled = {}});
    EXPECT_THAT(named(), AllOf(HasSubstr("telamon:first"), HasSubstr("telamon:second")));
    EXPECT_THAT(named(), Not(HasSubstr("dead")));
    std::filesystem::remove(own());
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  expect_success_in_processes(1, [&](int) {
    std::ofstream(own()) << "1000 10 another_runtime\n";
    compile_example({.contract = false, .name = "first", .disabled = {}});
    EXPECT_THAT(named(), AllOf(HasSubstr("another_runtime"), HasSubstr("telamon:first")));
    std::filesystem::remove(own());
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  expect_success_in_processes(1, [&](int) {
    const std::string target = ::testing::TempDir() + "target_of_a_perf_map";
    std::ofstream(target) << "kept";
    std::filesystem::create_symlink(target, own());
    compile_example({.contract = false, .name = "first", .disabled = {}});
    EXPECT_FALSE(std::filesystem::is_symlink(own()));
    EXPECT_THAT(named(), HasSubstr("telamon:first"));
    std::ifstream file(target);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "kept");
    std::filesystem::remove(own());
    std::filesystem::remove(target);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  std::filesystem::remove(own());
}

TEST(Observability, SaysWhichVariableNamesAFolderThatCannotBe) {
  for (const char* folder : {"/dev/null/dumps", "/proc"}) {
    const Variable dump("TELAMON_DUMP", folder);
    try {
      compile_example();
      FAIL() << folder;
    } catch (const ValueError& e) {
      EXPECT_THAT(e.message(),
                  HasSubstr(std::string("TELAMON_DUMP='") + folder + "': cannot write there: "));
    }
  }
}

}  // namespace
}  // namespace telamon::testing
