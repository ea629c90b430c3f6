// Results are bitwise the same for any number of threads and in any process, eager and compiled.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/disk_cache.hpp"
#include "support/processes.hpp"
#include "support/threads.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/random.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

struct Program {
  std::string name;
  std::function<Array(const Array& x, const Array& y)> f;  // of f32[700,300]
};

const std::vector<Program>& programs() {
  static const std::vector<Program> all = {
      {"elementwise", [](const Array& x, const Array& y) { return tl::sin(x) * y + tl::exp(-x); }},
      {"sum", [](const Array& x, const Array& y) { return tl::sum(x * y); }},
      {"row sums", [](const Array& x, const Array& y) { return tl::sum(x * y, 1); }},
      {"column sums", [](const Array& x, const Array& y) { return tl::sum(x * y, 0); }},
      {"mean and deviation",
       [](const Array& x, const Array&) {
         const Array centered = x - tl::mean(x);
         return centered / tl::sqrt(tl::mean(centered * centered));
       }},
      {"softmax of rows",
       [](const Array& x, const Array&) {
         const Array e = tl::exp(x - tl::max(x, {.axes = {1}, .keepdims = true}));
         return e / tl::sum(e, {.axes = {1}, .keepdims = true});
       }},
      {"product of matrices", [](const Array& x, const Array& y) { return tl::matmul(x, y.T()); }},
      {"cumulative sums", [](const Array& x, const Array&) { return tl::cumsum(x, 1); }},
      {"sorted", [](const Array& x, const Array&) { return tl::sort(x, 1); }},
      {"largest", [](const Array& x, const Array&) { return tl::argmax(x, 0); }},
      {"transposed sum", [](const Array& x, const Array& y) { return x.T() + (y * 2.0).T(); }},
      {"random numbers",
       [](const Array&, const Array&) {
         return tl::random::normal(tl::random::key(3), {700, 300});
       }},
      {"rows added at places",
       [](const Array& x, const Array& y) {
         const Array places = tl::floor(tl::abs(x.T()(0)) * 300.f).astype(tl::DType::i32);
         return tl::zeros({700, 300}, tl::DType::f32).at(places).add(y);
       }},
      {"numbers added at places",
       [](const Array& x, const Array& y) {
         const Array places = tl::floor(tl::abs(x) * 40.f).astype(tl::DType::i32).reshape({-1});
         return tl::zeros({100}, tl::DType::f32).at(places).add(y.reshape({-1}));
       }},
      {"gathered rows",
       [](const Array& x, const Array& y) {
         return y(tl::floor(tl::abs(x.T()(1)) * 300.f).astype(tl::DType::i32));
       }},
      {"scan over rows",
       [](const Array& x, const Array& y) {
         const auto step = [](Array carry, std::pair<Array, Array> row) {
           carry = tl::tanh(carry + row.first * row.second);
           return std::pair{carry, tl::sum(carry)};
         };
         const auto [last, sums] =
             tl::scan(step, tl::zeros({300}, tl::DType::f32), std::pair{x, y});
         return tl::concatenate({last, sums}, 0);
       }},
      {"roots by repetition",
       [](const Array& x, const Array&) {
         const Array a = tl::abs(x) + 0.5f;
         const auto far = [a](const Array& r) { return tl::max(tl::abs(r * r - a)) > 1e-5f; };
         const auto step = [a](const Array& r) { return (r + a / r) * 0.5f; };
         return tl::while_loop(far, step, a);
       }},
      {"gradient of a loop",
       [](const Array& x, const Array& y) {
         const auto loss = [y](const Array& v) {
           const auto step = [&](const Array& c, const Array& row) {
             const Array next = tl::sin(c * row) + c;
             return std::pair{next, tl::sum(next)};
           };
           return tl::sum(tl::scan(step, v(0), y).second);
         };
         return tl::grad(loss)(x);
       }},
      {"large products",
       [](const Array& x, const Array& y) {
         return tl::matmul(tl::matmul(x, y.T()), tl::concatenate({x, y}, 1));
       }},
      {"sums within matrices",
       [](const Array& x, const Array& y) { return tl::sum((x * y).reshape({7, 100, 300}), 1); }},
      {"gradient",
       [](const Array& x, const Array& y) {
         const auto loss = [y](const Array& v) { return tl::sum(tl::tanh(tl::matmul(v, y.T()))); };
         return tl::grad(loss)(x);
       }},
  };
  return all;
}

std::vector<float> inputs(std::uint32_t state) {
  std::vector<float> v(700 * 300);
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 16777216.0f * 4 - 2;
  }
  return v;
}

std::vector<unsigned char> bytes_of(const Array& x) {
  if (x.dtype() == tl::DType::i32) {
    const auto v = x.to_vector<std::int32_t>();
    const auto* p = reinterpret_cast<const unsigned char*>(v.data());
    return {p, p + v.size() * sizeof v[0]};
  }
  const auto v = x.to_vector<float>();
  const auto* p = reinterpret_cast<const unsigned char*>(v.data());
  return {p, p + v.size() * sizeof v[0]};
}

TEST(Determinism, OfResultsForAnyNumberOfThreads) {
  const Array x(inputs(1), {700, 300}), y(inputs(2), {700, 300});
  for (const Program& p : programs()) {
    const auto compiled = tl::jit(p.f);
    std::vector<unsigned char> eager, native;
    for (const int threads : {1, 2, 3, 5, 1}) {
      const WithThreads scope(threads);
      const auto e = bytes_of(p.f(x, y)), n = bytes_of(compiled(x, y));
      if (eager.empty()) {
        eager = e;
        native = n;
      }
      EXPECT_EQ(e, eager) << p.name << ", eager, " << threads << " threads";
      EXPECT_EQ(n, native) << p.name << ", compiled, " << threads << " threads";
    }
  }
}

// A line for each program, which tells the bytes of its results apart.
std::string results_in_words() {
  const Array x(inputs(1), {700, 300}), y(inputs(2), {700, 300});
  const auto told = [](const Array& a) {
    const auto bytes = bytes_of(a);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return " " + std::to_string(std::hash<std::string_view>{}(text));
  };
  std::string lines;
  for (const Program& p : programs())
    lines += p.name + told(p.f(x, y)) + told(tl::jit(p.f)(x, y)) + "\n";
  return lines;
}

// Names of the library's own are part of what programs are known by: these begin otherwise.
constexpr const char *kResults = "DETERMINISM_RESULTS", *kFinds = "DETERMINISM_FINDS";

struct Process {
  const char* threads;
  std::string cache;   ///< its folder
  bool finds = false;  ///< what another one has compiled
};

std::vector<std::string> results_of(const std::vector<Process>& processes) {
  const std::string stem = ::testing::TempDir() + "determinism_" + std::to_string(getpid()) + "_";
  const int count = static_cast<int>(processes.size());
  const auto file = [&](int i) { return stem + std::to_string(i); };
  tl::testing::expect_success_in_processes(count, [&](int i) {
    const Process& p = processes[static_cast<std::size_t>(i)];
    setenv("TELAMON_NUM_THREADS", p.threads, 1);
    setenv("TELAMON_CACHE_DIR", p.cache.c_str(), 1);
    setenv(kResults, file(i).c_str(), 1);
    if (p.finds) setenv(kFinds, "1", 1);
    execl("/proc/self/exe", "test_transforms", "--gtest_brief=1",
          "--gtest_filter=Determinism.OfResultsInWords", nullptr);
    return 3;
  });
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    texts.push_back(tl::testing::CacheFolder::read(file(i)));
    std::filesystem::remove(file(i));
  }
  return texts;
}

TEST(Determinism, OfResultsInAnyProcess) {
  const tl::testing::CacheFolder folder;
  const std::string kept = folder.path();
  const std::string want = results_of({{"2", kept}})[0];
  const bool compiles = !folder.files().empty();  // or there is no compiler
  for (const std::string& text : results_of(
           {{"1", "none"}, {"2", "none"}, {"3", "none"}, {"4", "none"}, {"3", kept, compiles}}))
    EXPECT_EQ(text, want);
}

// The test above runs this in processes of their own, and says where to write it down.
TEST(Determinism, OfResultsInWords) {
  const tl::testing::CacheChanges changes;
  const std::string words = results_in_words();
  EXPECT_EQ(std::count(words.begin(), words.end(), '\n'), std::ssize(programs()));
  if (std::getenv(kFinds) != nullptr) { EXPECT_GE(changes().hits, std::ssize(programs())); }
  if (const char* file = std::getenv(kResults)) std::ofstream(file) << words;
}

}  // namespace
}  // namespace telamon_test
