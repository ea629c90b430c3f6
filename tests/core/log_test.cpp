// The log: who speaks, at which level, and in which form.
#include "core/log.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <regex>
#include <sstream>
#include <thread>

#include "core/sanitizers.hpp"
#include "runtime/allocator.hpp"
#include "runtime/thread_pool.hpp"
#include "support/backends.hpp"
#include "support/disk_cache.hpp"
#include "support/threads.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/debug.hpp"
#include "telamon/history.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using detail::LogLevel;
using detail::Subsystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// TELAMON_LOG for the duration of a test.
class Log {
 public:
  explicit Log(const char* value) {
    setenv("TELAMON_LOG", value, 1);
    detail::read_log_settings();
  }
  ~Log() {
    unsetenv("TELAMON_LOG");
    detail::read_log_settings();
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
};

template <class F>
std::string logged(F f) {
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, IsOffUnlessAskedFor) {
  for (const auto who : {Subsystem::compile, Subsystem::jit, Subsystem::cache, Subsystem::memory,
                         Subsystem::threads}) {
    EXPECT_FALSE(detail::logs(who, LogLevel::error));
  }
  EXPECT_THAT(logged([] {
                detail::log(Subsystem::jit, LogLevel::error,
                            []() -> std::string { throw std::logic_error("nobody reads this"); });
              }),
              IsEmpty());
}

TEST(Log, WordsNameSubsystemsWithLevels) {
  const Log log("jit,memory=debug,threads=warn");
  EXPECT_TRUE(detail::logs(Subsystem::jit, LogLevel::info));
  EXPECT_FALSE(detail::logs(Subsystem::jit, LogLevel::debug));
  EXPECT_TRUE(detail::logs(Subsystem::memory, LogLevel::debug));
  EXPECT_TRUE(detail::logs(Subsystem::threads, LogLevel::warn));
  EXPECT_FALSE(detail::logs(Subsystem::threads, LogLevel::info));
  EXPECT_FALSE(detail::logs(Subsystem::compile, LogLevel::error));
}

TEST(Log, LaterWordsAreHeardOverEarlierOnes) {
  const Log log("all=debug,threads=error");
  EXPECT_TRUE(detail::logs(Subsystem::cache, LogLevel::debug));
  EXPECT_TRUE(detail::logs(Subsystem::threads, LogLevel::error));
  EXPECT_FALSE(detail::logs(Subsystem::threads, LogLevel::warn));
}

TEST(Log, UnknownLevelsAreSaidOnce) {
  const std::string text = logged([] {
    const Log first("jit=loud");
    EXPECT_FALSE(detail::logs(Subsystem::jit, LogLevel::error));
    const Log second("jit=loud,threads");
    EXPECT_TRUE(detail::logs(Subsystem::threads, LogLevel::info));
  });
  EXPECT_THAT(text,
              HasSubstr("telamon: TELAMON_LOG: 'jit=loud' is ignored: the levels are error, warn, "
                        "info, debug\n"));
}

TEST(Log, NamesWordsThatLackASubsystemOrALevel) {
  const std::string text = logged([] { const Log log("=debug,jit="); });
  EXPECT_EQ(text,
            "telamon: TELAMON_LOG: '=debug' is ignored: it names no subsystem\n"
            "telamon: TELAMON_LOG: 'jit=' is ignored: the levels are error, warn, info, debug\n");
}

TEST(Log, ALevelAloneIsNoSubsystem) {
  const std::string text = logged([] {
    const Log log("debug");
    EXPECT_FALSE(detail::logs(Subsystem::jit, LogLevel::error));
  });
  EXPECT_EQ(text,
            "telamon: TELAMON_LOG: 'debug' is ignored: it is a level, of all subsystems with "
            "all=debug\n");
}

TEST(Log, BlanksAroundWordsAndLevelsDoNotMatter) {
  const Log log(" jit = debug , threads= warn");
  EXPECT_TRUE(detail::logs(Subsystem::jit, LogLevel::debug));
  EXPECT_TRUE(detail::logs(Subsystem::threads, LogLevel::warn));
  EXPECT_FALSE(detail::logs(Subsystem::threads, LogLevel::info));
}

TEST(Log, LinesBeginWithMicrosecondsAndTheSubsystem) {
  const std::string text = logged([] { detail::write_log(Subsystem::threads, "four"); });
  EXPECT_TRUE(std::regex_match(text, std::regex(R"(\[telamon \d+ threads\] four\n)"))) << text;
}

TEST(Log, LinesOfManyThreadsStayWhole) {
  const std::string text = logged([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 200; ++i) detail::write_log(Subsystem::cache, std::string(60, 'x'));
      });
    }
    for (std::thread& t : threads) t.join();
  });
  const std::regex whole(R"(\[telamon \d+ cache\] x{60})");
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_TRUE(std::regex_match(line, whole)) << line;
  EXPECT_EQ(count, 800);
}

TEST(Log, JitSaysWhatItTracesAndCaptures) {
  const Log log("jit,cache");
  const Array large = arange(1000), small = arange(3);
  const std::string text = logged([&] {
    const auto f = jit([large](const Array& x) { return x + sum(large); }, {.name = "surprise"});
    f(small);
    f(small);  // known by now
  });
  EXPECT_THAT(text, HasSubstr("jit] jit(surprise) traced signature 1: 1 array, "));
  EXPECT_THAT(text, HasSubstr("jit] jit(surprise) captured 1 array of 4000 bytes: they are "
                              "constants of the program"));
  EXPECT_THAT(text, HasSubstr("cache] executable of surprise: compiled and kept"));
  EXPECT_THAT(text, Not(HasSubstr("signature 2")));
}

TEST(Log, CacheSaysWhereExecutablesComeFrom) {
  const CacheFolder folder;
  const Log log("cache");
  const Array x = arange(3);
  const auto run = [&] { jit([](const Array& y) { return sin(y) + 3.0; }, {.name = "f"})(x); };
  const auto again = [&] { jit([](const Array& y) { return sin(y) + 3.0; }, {.name = "f"})(x); };
  EXPECT_THAT(logged(run), HasSubstr("executable of f: compiled and kept with its program\n"));
  TELAMON_TEST_NEEDS_COMPILER();
  EXPECT_THAT(logged(again),
              HasSubstr("executable of f: found in the disk cache and kept with its program\n"));
}

TEST(Log, JitSaysOnceWhyADonatedArgumentKeepsItsMemory) {
  const Log log("jit=debug");
  const auto told = [](auto f, const Array& x, const Array& y, JitOptions options) {
    options.donate = {0, 1};
    options.name = "f";
    const auto g = jit(f, options);
    return logged([&] {
      g(x, y);
      g(x, y);
    });
  };
  const auto reason = [](const char* what) {
    return ::testing::ContainsRegex(std::string("keeps its memory: ") + what);
  };
  const auto fresh = [](std::int64_t n) { return arange(n, DType::f32) + 1.0; };
  const JitOptions interpreted{.backend = "interpret"};
  const auto first = [](Array x, Array) { return x + 1.0; };
  const auto both = [](Array x, Array y) { return std::pair{sum(x), sum(y)}; };
  const auto product = [](Array x, Array y) { return x * y; };
  EXPECT_THAT(told(both, fresh(3), fresh(4), interpreted), reason("the interpreter writes new"));
  EXPECT_THAT(told(first, fresh(3), fresh(4), interpreted),
              HasSubstr("jit(f) does not use 1 donated array: they keep their memory"));
  TELAMON_TEST_NEEDS_COMPILER();
  const std::string text = told(both, fresh(3), fresh(4), {});
  EXPECT_THAT(text, HasSubstr("jit(f): donated array 0, f32[3], keeps its memory: no result has "
                              "its size\n"));
  EXPECT_THAT(text, HasSubstr("jit(f): donated array 1, f32[4], keeps"));
  EXPECT_EQ(text.find("array 0"), text.rfind("array 0")) << "once";
  const Array twice = fresh(5);
  EXPECT_THAT(told(product, twice, twice, {}), reason("it is passed twice"));
  EXPECT_THAT(told(product, ones({8}), ones({8}), {}), reason("it is a view"));
  const auto one_of_two = jit(product, {.donate = {0, 1}});
  EXPECT_THAT(logged([&] { one_of_two(fresh(6), fresh(6)); }),
              reason("the results of its size lie in other donated arguments"));
  const auto late = [](Array x) {
    const Array y = cumsum(x);
    return std::pair{y, sum(x * y)};
  };
  EXPECT_THAT(logged([&] { jit(late, {.donate = {0}})(fresh(64)); }),
              reason("it is read after a result of its size is written"));
  const auto kept = [&](const auto& f, DType dtype) {
    const std::vector<std::byte> zeros(5000 * size_of(dtype));
    const auto g = jit(f, {.donate = {0}});
    return logged([&] { (void)g(Array::from_data(zeros.data(), dtype, {5000}), arange(4)); });
  };
  const auto set = [](Array x, Array) { return x.at(3).set(zeros({}, x.dtype())); };
  const auto add = [](Array x, Array p) { return x.at(p).add(zeros({}, x.dtype())); };
  const auto loop = [=](Array x, Array p) {
    return fori_loop(0, 3, [&](Array, Array y) { return add(y, p); }, x);
  };
  // Kernels move 16-bit floats, and add numbers of all types at places: they overwrite what is there.
  const auto overwrites = [](const std::string& log) {
    EXPECT_EQ(log.find("keeps its memory"), std::string::npos) << log;
  };
  for (const DType dtype : {DType::bf16, DType::f16, DType::c64, DType::c128}) {
    const std::string what(short_name(dtype));
    const auto why = reason((what + " goes through calls, which write new memory").c_str());
    if (size_of(dtype) == 2) overwrites(kept(set, dtype));
    else EXPECT_THAT(kept(set, dtype), why);
    overwrites(kept(add, dtype));
    overwrites(kept(loop, dtype));
  }
  const auto reshaped = reason("it is reshaped before or after a part of it is overwritten");
  EXPECT_THAT(
      kept([](Array x, Array) { return x.reshape({100, 50}).at(3, 4).set(1.0f); }, DType::f32),
      reshaped);
  EXPECT_THAT(kept([](Array x, Array) { return x.at(3).set(1.0f).reshape({100, 50}); }, DType::f32),
              reshaped);
  EXPECT_THAT(
      kept([](Array x, Array p) { return x.reshape({100, 50}).at(p).add(1.0f).reshape({5000}); },
           DType::f32),
      reshaped);
  const auto elsewhere =
      reason("the loop that writes a result of its size still reads it, at other places");
  EXPECT_THAT(
      kept([](Array x, Array) { return x.at(slice(1, none, 7)).multiply(2.0f); }, DType::f32),
      elsewhere);
  EXPECT_THAT(kept([](Array x, Array) { return flip(x) * 2.0f; }, DType::f32), elsewhere);
  {
    const DebugNans nans;
    EXPECT_THAT(logged([&] { jit([](Array x) { return x + 1.0; }, {.donate = {0}})(fresh(7)); }),
                reason("debug_nans"));
  }
}

TEST(Log, ThreadsSayHowThePoolGrows) {
  const Log log("threads");
  const std::string text = logged([] {
    const telamon_test::WithThreads scope(7);
    runtime::parallel_for(7, [](std::int64_t) {});
  });
  EXPECT_THAT(text, HasSubstr("threads] the pool grows from "));
  EXPECT_THAT(text, HasSubstr(" to 6 workers, for 7 threads on "));
}

TEST(Log, MemorySaysWhatTheSystemGave) {
  const Log log("memory");
  const std::string text = logged([] {
    constexpr std::size_t bytes = std::size_t{97} << 20;  // a size that nothing has freed before
    runtime::deallocate(runtime::allocate(bytes), bytes);
  });
#if defined(TELAMON_ASAN)
  EXPECT_THAT(text, IsEmpty());  // all comes from malloc then
#else
  EXPECT_THAT(text, HasSubstr(" bytes from the system for a large block"));
#endif
}

}  // namespace
}  // namespace telamon::testing
