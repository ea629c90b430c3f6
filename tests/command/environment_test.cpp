// `telamon info`, and what the environment may say.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "command/command.hpp"
#include "core/sanitizers.hpp"
#include "support/backends.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, InfoTellsVersionAndMachine) {
  const Answer info = telamon_command("info");
  EXPECT_EQ(info.code, 0);
  for (const char* word :
       {"telamon ", "instruction set: ", "threads: ", "default backend: ", "zlib: ", "caches"})
    EXPECT_THAT(info.text, HasSubstr(word));
  const Answer disabled = telamon_command("info", "TELAMON_DISABLE=' fuze,wraps, cse' ");
  EXPECT_EQ(disabled.code, 0);
  EXPECT_THAT(disabled.text,
              HasSubstr("telamon: TELAMON_DISABLE: 'fuze' is ignored: there is no such word\n"
                        "telamon: TELAMON_DISABLE knows fold_constants, "));
  EXPECT_THAT(disabled.text, HasSubstr("; left out: cse wraps\n"));
}

TEST_F(Command, SaysWhichEnvironmentVariablesItIgnores) {
  const Answer info =
      telamon_command("info", "TELAMON_ISA=avx3 TELAMON_NUM_THREADS=abc TELAMON_CHECK_LEAKS=yes ");
  EXPECT_EQ(info.code, 0);
  for (const char* line :
       {"telamon: TELAMON_ISA: 'avx3' is ignored: there is no such word\n"
        "telamon: TELAMON_ISA knows generic, avx2, avx512\n",
        "telamon: TELAMON_NUM_THREADS=abc is ignored: it takes a whole number from 1 to 1024\n"}) {
    EXPECT_THAT(info.text, HasSubstr(line));
    EXPECT_EQ(info.text.find(line), info.text.rfind(line));
  }
  EXPECT_THAT(telamon_command("info", "TELAMON_NUM_THREADS=0 ").text,
              HasSubstr("TELAMON_NUM_THREADS=0 is ignored"));
  EXPECT_THAT(telamon_command("info", "TELAMON_NUM_THREADS=1025 ").text,
              HasSubstr("TELAMON_NUM_THREADS=1025 is ignored"));
  EXPECT_THAT(telamon_command("info", "TELAMON_CACHE_MIB=0 ").text, Not(HasSubstr("ignored")));
#if !defined(TELAMON_ASAN)  // under which nothing is kept, and nobody asks how much
  EXPECT_THAT(
      telamon_command("info", "TELAMON_CACHE_MIB=3000000000 ").text,
      HasSubstr("TELAMON_CACHE_MIB=3000000000 is ignored: it takes a whole number from 0 to "
                "2147483647\n"));
#endif
  EXPECT_THAT(telamon_command("info", "TELAMON_NUM_THREADS=3 TELAMON_ISA=generic ").text,
              AllOf(HasSubstr("threads: 3 (the processor has "),
                    HasSubstr("instruction set: generic"), Not(HasSubstr("telamon: "))));
#if !defined(TELAMON_ASAN) && !defined(TELAMON_GUARD_PAGES)
  for (const char* side : {"before", "foo"})
    EXPECT_THAT(telamon_command("info", std::string("TELAMON_GUARD=") + side + " ").text,
                HasSubstr(std::string("telamon: TELAMON_GUARD=") + side +
                          " is ignored: it is for a library that is built with "
                          "-DTELAMON_GUARD_PAGES=ON\n"));
#endif
  const std::string cases = file("cases.jsonl", kCase.dump() + "\n");
  EXPECT_THAT(telamon_command("check " + cases, "TELAMON_DISABLE=lower ").text,
              HasSubstr("6 passed, 0 failed, 0 skipped"));
  EXPECT_THAT(telamon_command("check --modes jit " + cases, "TELAMON_BACKEND=gpu ").text,
              HasSubstr("Unknown backend 'gpu' in the environment's TELAMON_BACKEND"));
}

TEST_F(Command, LogsAndProfilesTheProcessWhenAsked) {
  const std::string program = file("wave.jsonl", kCase.dump() + "\n");
  const Answer logged =
      telamon_command("run --transform jit " + program, "TELAMON_LOG=jit,compile ");
  EXPECT_THAT(logged.text, HasSubstr(" jit] jit("));
  if (kCompiles) { EXPECT_THAT(logged.text, HasSubstr(" compile] ")); }
  const std::string trace = path("trace.json");
  EXPECT_EQ(
      telamon_command("run --transform jit " + program, "TELAMON_PROFILE='" + trace + "' ").code,
      0);
  const Json events = Json::parse(std::ifstream(trace)).at("traceEvents");
  EXPECT_EQ(std::any_of(events.begin(), events.end(),
                        [](const Json& e) { return e.value("cat", "") == "kernel"; }),
            kCompiles);
  const Answer refused = telamon_command("run " + program, "TELAMON_PROFILE=/proc/none/t.json ");
  EXPECT_EQ(refused.code, 0);
  EXPECT_THAT(refused.text, HasSubstr("TELAMON_PROFILE=/proc/none/t.json is ignored: "));
  // Pipes are no files to be replaced.
  EXPECT_THAT(telamon_command("run " + program, "TELAMON_PROFILE=/dev/stderr ").text,
              HasSubstr("traceEvents"));
}

TEST_F(Command, GoesOnWhereThereMayBeNoFilesBesideItsWork) {
#if defined(TELAMON_TSAN)
  GTEST_SKIP() << "the thread sanitizer ends every program, even an empty one, for which there may "
                  "be no files";
#endif
  const std::string run = "run --transform jit " + file("wave.jsonl", kCase.dump() + "\n");
  const std::string limit = "ulimit -f 0; ";
  const Answer unlimited = telamon_command(run);
  const auto traces = path("traces");
  std::filesystem::create_directories(traces);
  const Answer profiled = telamon_command(run, limit + "TELAMON_PROFILE='" + traces + "/t.json' ");
  EXPECT_EQ(profiled.code, 0);
  EXPECT_THAT(profiled.text, HasSubstr("t.json' could not be written: File too large"));
  EXPECT_THAT(profiled.text, HasSubstr(unlimited.text));
  EXPECT_TRUE(std::filesystem::is_empty(traces));
  if (!kCompiles) return;
  const Answer named = telamon_command(run, limit + "TELAMON_PERF_MAP=1 ");
  EXPECT_EQ(named.code, 0);
  EXPECT_THAT(named.text, HasSubstr(".map cannot be written: File too large"));
  const Answer dumped = telamon_command(run, limit + "TELAMON_DUMP='" + traces + "' ");
  EXPECT_EQ(dumped.code, 2);
  EXPECT_THAT(dumped.text, HasSubstr("cannot write there: File too large"));
  EXPECT_TRUE(std::filesystem::is_empty(traces));
}

}  // namespace
}  // namespace telamon
