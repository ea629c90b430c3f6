// Profiles: spans of traces, passes, kernels and threads, as totals and as a trace file.
#include "telamon/profile.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <locale>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/support.hpp"
#include "support/processes.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class TraceFile {
 public:
  TraceFile()
      : path((std::filesystem::temp_directory_path() /
              ("telamon_trace_" + std::to_string(std::random_device{}()) + ".json"))
                 .string()) {}
  ~TraceFile() { std::filesystem::remove(path); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  json read() const { return json::parse(std::ifstream(path)); }
  const std::string path;
};

std::vector<ProfileEntry> entries_of(const ProfileReport& report, const std::string& category) {
  std::vector<ProfileEntry> found;
  for (const ProfileEntry& e : report.entries) {
    if (e.category == category) found.push_back(e);
  }
  return found;
}
std::set<std::string> names_of(const ProfileReport& report, const std::string& category) {
  std::set<std::string> names;
  for (const ProfileEntry& e : entries_of(report, category)) names.insert(e.name);
  return names;
}

auto wave() {
  const auto f = [](const Array& x) {
    const Array s = sin(x);
    return s * exp(x);
  };
  return jit(f, {.name = "wave"});
}

TEST(Profile, TellsTraceThePassesAndTheKernelsOfAProgram) {
  const auto f = wave();
  const Array x = arange(64) * 0.1;
  const ProfileReport report = profile([&] {
    f(x);
    f(x);
    f(x);
  });
  ASSERT_EQ(entries_of(report, "trace").size(), 1u);
  EXPECT_EQ(entries_of(report, "trace")[0].name, "jit(wave)");
  EXPECT_EQ(names_of(report, "compile"), std::set<std::string>{"wave"});
  const auto passes = names_of(report, "pass");
  for (const char* pass : {"lower", "simplify", "cse", "dce", "fuse", "buffers", "emit", "codegen"})
    EXPECT_TRUE(passes.contains(std::string("wave: ") + pass)) << pass;
  const auto kernels = entries_of(report, "kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "wave: sin_exp_mul");
  EXPECT_EQ(kernels[0].detail, "f32[64] <- f32[64]");
  EXPECT_EQ(kernels[0].calls, 3);
  const auto runs = entries_of(report, "run");
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].calls, 3);
  EXPECT_GE(runs[0].microseconds, kernels[0].microseconds);
  EXPECT_LE(runs[0].self, runs[0].microseconds - kernels[0].microseconds + 1e-3);
  EXPECT_GE(report.microseconds, runs[0].microseconds);
  EXPECT_THAT(report.to_string(), HasSubstr("wave: sin_exp_mul  f32[64] <- f32[64]\n"));
}

TEST(Profile, LeavesTheCodeAloneOfProgramsThatRunWithoutIt) {
  const auto f = wave();
  const Array x = arange(8) * 0.1;
  const Array before = f(x);
  const auto compiled = counters().compiles;
  const ProfileReport report = profile([&] { EXPECT_TRUE(all(f(x) == before).item<bool>()); });
  EXPECT_EQ(counters().compiles, compiled + 1);  // with marks
  EXPECT_EQ(entries_of(report, "kernel").size(), 1u);
  f(x);
  EXPECT_EQ(counters().compiles, compiled + 1);  // the first one still stands
  profile([&] { f(x); });
  EXPECT_EQ(counters().compiles, compiled + 1);  // and so does the second
}

TEST(Profile, MarksAreInTheCodeOnlyWhenAskedFor) {
  const Array x = uniform({64}, DType::f32);
  const Jaxpr program =
      stage([](std::span<const Array> a) { return Arrays{sin(a[0]) * 2.0}; }, {x});
  EXPECT_THAT(compile(program)->text("ir"), Not(HasSubstr("telamon_jit_mark_step")));
  CompileOptions options;
  options.profile = true;
  EXPECT_THAT(compile(program, options)->text("ir"), HasSubstr("telamon_jit_mark_step"));
}

TEST(Profile, WritesJsonWhateverTheBytesOfAName) {
  const TraceFile file;
  const std::string name =
      "\xff\xfe\xc0\xaf\xed\xa0\x80 \"\\\t\x01 gr\xc3\xbc\xc3\x9f \xf0\x9f\x8c\x8a \xe2\x82";
  {
    const Profile recording(file.path);
    jit([](Array x) { return sin(x); }, {.name = name})(1.0);
  }
  const json trace = file.read();
  const auto is_it = [](const json& e) {
    return e.contains("name") && e.at("name").get<std::string>().find(
                                     "gr\xc3\xbc\xc3\x9f \xf0\x9f\x8c\x8a") != std::string::npos;
  };
  const json& events = trace.at("traceEvents");
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), is_it));
}

TEST(Profile, WritesATraceThatNestsKernelsInRuns) {
  const TraceFile file;
  {
    const Profile recording(file.path);
    wave()(arange(16) * 0.1);
  }
  const json trace = file.read();
  double run_begin = 0, run_end = 0, kernel_begin = 0, kernel_end = 0;
  std::set<std::string> categories;
  for (const json& e : trace.at("traceEvents")) {
    ASSERT_TRUE(e.contains("ph"));
    if (e.at("ph") != "X") continue;
    for (const char* field : {"ts", "dur", "pid", "tid", "name", "cat"})
      EXPECT_TRUE(e.contains(field)) << field;
    categories.insert(e.at("cat").get<std::string>());
    const double begin = e.at("ts"), end = begin + e.at("dur").get<double>();
    if (e.at("cat") == "run") run_begin = begin, run_end = end;
    if (e.at("cat") == "kernel") kernel_begin = begin, kernel_end = end;
  }
  for (const char* category : {"trace", "compile", "pass", "run", "kernel", "eager"})
    EXPECT_TRUE(categories.contains(category)) << category;
  EXPECT_LE(run_begin, kernel_begin);
  EXPECT_LE(kernel_end, run_end + 0.01);
  EXPECT_EQ(trace.at("otherData").at("omitted"), "0");
}

// Viewers draw spans that overlap and do not nest as if they were others.
TEST(Profile, WritesATraceWhoseSpansNest) {
  const TraceFile file;
  {
    const Profile recording(file.path);
    jit([](const Array& x) {
      return sum(matmul(x, x)) +
             fori_loop(0, 3, [](const Array&, const Array& c) { return sin(c); }, x);
    })(ones({200, 200}));
  }
  const json trace = file.read();
  using Span = std::pair<double, double>;
  std::map<int, std::vector<Span>> spans_of;  // by thread
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const double begin = e.at("ts");
    spans_of[e.at("tid")].emplace_back(begin, begin + e.at("dur").get<double>());
  }
  constexpr double kRounding = 2e-3;  // begins and lengths are written to the nanosecond
  for (auto& [thread, spans] : spans_of) {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> open_ends;
    for (const auto& [begin, end] : spans) {
      while (!open_ends.empty() && open_ends.back() <= begin + kRounding) open_ends.pop_back();
      if (!open_ends.empty()) {
        EXPECT_LE(end, open_ends.back() + kRounding) << "thread " << thread;
      }
      open_ends.push_back(end);
    }
  }
}

// As std::locale("de_DE") has it, of every digit.
class Separators : public std::numpunct<char> {
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\1"; }
};

TEST(Profile, HasDigitsAloneWhateverTheLocale) {
  const TraceFile file;
  const auto compiled =
      jit([](const Array& x) {
        return fori_loop(0, 12345, [](const Array&, const Array& c) { return sort(c); }, x);
      })
          .lower(ones({4}))
          .compile();
  const std::string plan = compiled.text("plan");
  EXPECT_THAT(plan, HasSubstr("trips 12345"));
  const std::locale before =
      std::locale::global(std::locale(std::locale::classic(), new Separators));
  {
    const Profile recording(file.path);
    for (int i = 0; i < 10; ++i) wave()(arange(16) * 0.1);
  }
  EXPECT_EQ(compiled.text("plan"), plan);
  std::locale::global(before);
  const json trace = file.read();
  const auto spans = trace.at("otherData").at("spans").get<std::string>();
  EXPECT_GE(spans.size(), 2u);
  EXPECT_EQ(spans.find_first_not_of("0123456789"), std::string::npos) << spans;
}

TEST(Profile, DrawsAtMostSoManySpansOfAKindAndCountsAll) {
  const TraceFile file;
  const auto f = jit(
      [](const Array& x) {
        return fori_loop(
            0, 10'000, [](const Array&, const Array& c) { return sort(c * 1.5 - c); }, x);
      },
      {.name = "long"});
  Profile recording(file.path);
  f(arange(4) * 0.5);
  const ProfileReport report = recording.stop();
  std::int64_t most = 0;
  for (const ProfileEntry& e : report.entries) most = std::max(most, e.calls);
  EXPECT_EQ(most, 10'000);
  EXPECT_GE(report.omitted, 8'000);
  std::map<std::string, int> drawn;
  bool note = false;
  const json trace = file.read();
  for (const json& e : trace.at("traceEvents")) {
    const auto name = e.at("name").get<std::string>();
    if (e.at("ph") == "X") ++drawn[name];
    note =
        note || name.find("spans are not drawn: at most 2000 of a kind are, and 1000000 in all") !=
                    std::string::npos;
  }
  EXPECT_TRUE(note);
  for (const auto& [name, count] : drawn) EXPECT_LE(count, 2000) << name;
}

TEST(Profile, ShowsThePartsOfThreads) {
  const WithThreads scope(2);
  const auto f = jit([](const Array& x) { return sin(x); }, {.name = "wide"});
  const Array x = zeros({1 << 20});
  const ProfileReport report = profile([&] { f(x); });
  EXPECT_TRUE(names_of(report, "threads").contains("part of wide: sin"));
}

TEST(Profile, ProductsAndHostCallsHaveSpansOfTheirOwn) {
  const auto f = jit([](const Array& a) { return sort(matmul(a, a)); }, {.name = "calls"});
  const ProfileReport report = profile([&] { f(ones({200, 200})); });
  const auto products = entries_of(report, "matmul");
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(products[0].name, "calls: matmul 200x200x200");
  EXPECT_EQ(products[0].detail, "f32[200,200] <- f32[200,200], f32[200,200]");
  EXPECT_EQ(names_of(report, "call"), std::set<std::string>{"calls: sort"});
}

TEST(Profile, SeveralMayLiveAtOnce) {
  const auto f = wave();
  const Array x = arange(8) * 0.1;
  Profile outer;
  f(x);
  Profile inner;
  f(x);
  const ProfileReport within = inner.stop();
  f(x);
  const ProfileReport all = outer.stop();
  EXPECT_EQ(entries_of(within, "kernel").at(0).calls, 1);
  EXPECT_EQ(entries_of(all, "kernel").at(0).calls, 3);
  EXPECT_TRUE(entries_of(within, "trace").empty());
}

// As of two processes that were told the same name.
TEST(Profile, OfTheSameFileAsAnotherLeavesTheLastOnesTrace) {
  const auto f = wave();
  const Array x = arange(8) * 0.1;
  const TraceFile file;
  Profile longer(file.path), shorter(file.path);
  f(x);
  longer.stop();
  const std::size_t all = file.read().at("traceEvents").size();
  {
    const Profile empty(file.path);
    EXPECT_EQ(file.read().at("traceEvents").size(), all);
  }
  EXPECT_LT(file.read().at("traceEvents").size(), all);
  shorter.stop();
  EXPECT_EQ(file.read().at("traceEvents").size(), all);
}

TEST(Profile, SurvivesWhatHostFunctionsThrow) {
  const auto f = wave();
  const ProfileReport report = profile([&] {
    EXPECT_THROW(profile([]() -> void { throw std::runtime_error("no"); }), std::runtime_error);
    f(arange(8) * 0.1);
  });
  EXPECT_EQ(entries_of(report, "run").at(0).calls, 1);
}

TEST(Profile, IsWrittenByTheProcessThatBeganItAlone) {
  const TraceFile file;
  const auto f = wave();
  {
    Profile profile(file.path);
    f(arange(64) * 0.1);
    expect_success_in_processes(2, [&](int) {
      profile.stop();
      return 0;
    });
  }
  EXPECT_FALSE(file.read().at("traceEvents").empty());
}

TEST(Profile, RefusesAFileThatCannotBeWritten) {
  try {
    const Profile p("/proc/none/trace.json");
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_THAT(e.message(), HasSubstr("Profile: cannot write to '/proc/none/trace.json'"));
  }
  Profile p;
  p.stop();
  EXPECT_THROW(p.stop(), ValueError);
}

}  // namespace
}  // namespace telamon::testing
