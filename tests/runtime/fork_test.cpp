// Children that are forked while other threads of the parent compute.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "core/sanitizers.hpp"
#include "telamon/grad.hpp"
#include "telamon/history.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"
#include "telamon/profile.hpp"
#include "telamon/threads.hpp"

#if !defined(TELAMON_TSAN)  // which refuses threads in a child after fork()

namespace telamon::testing {
namespace {

Array f(const Array& x) { return sum(sin(x) * x + 1.0); }

/// The exit status of a child that runs `body`: 0 where that is true; -1 if a signal, or the alarm after 60
/// seconds, ended it.
template <class F>
int status_of_child(const F& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool right = false;
    try {
      right = body();
    } catch (...) { _exit(2); }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Threads that call these functions over and over, while it lives.
class Busy {
 public:
  explicit Busy(const std::vector<std::function<void()>>& work) {
    for (const auto& body : work) {
      threads_.emplace_back([this, body] {
        for (body(), ++started_; !done_;) body();
      });
    }
    while (started_ < static_cast<int>(work.size())) std::this_thread::yield();
  }
  ~Busy() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::atomic<int> started_{0};
  std::vector<std::thread> threads_;
};

// Loops over data on all threads of the pool, eager operations and gradients, and calls of programs that
// are compiled: any of it may be under way on other threads, at any point. In the child all goes on,
// tracing and compiling included.
TEST(Fork, GivesChildrenThatComputeWhileOtherThreadsOfTheParentDo) {
  const int threads_before = num_threads();
  set_num_threads(3);
  const Array small({0.5, 1.5, 2.5});
  const Array medium = arange(6000, DType::f64);
  const Array large = sin(arange(1 << 18, DType::f64));
  const auto jitted = jit(f);
  const double of_small = f(small).item<double>(), of_large = jitted(large).item<double>(),
               of_medium = f(medium).item<double>();
  const std::vector<double> slope = grad(f)(small).to_vector<double>();
  jitted(small);
  const auto computes = [&] {
    return f(small).item<double>() == of_small && jitted(small).item<double>() == of_small &&
           jitted(large).item<double>() == of_large && f(medium).item<double>() == of_medium &&
           grad(f)(small).to_vector<double>() == slope && num_threads() == 3;
  };
  const auto compiles = [&](double c) {  // what is new, and what is derived
    const auto fresh = jit([c](const Array& x) { return f(x * c); });
    const double difference = fresh(small).item<double>() - f(small * c).item<double>();
    return std::abs(difference) < 1e-10 * c && grad(jitted)(small).to_vector<double>() == slope;
  };
  ASSERT_TRUE(computes() && compiles(1.25));
  // Blocks of the size of `medium` are shared by all threads, under a lock.
  const auto take_blocks = [&] { medium + 1.0; };
  const Busy busy({take_blocks, take_blocks, [&] { f(large); }, [&] { jitted(large); },
                   [&] { grad(f)(small); }, [&] { jitted(small); }});
  for (int i = 0; i < 150; ++i) ASSERT_EQ(status_of_child(computes), 0) << "child " << i;
  for (int i = 0; i < 15; ++i) {
    ASSERT_EQ(status_of_child([&] { return computes() && compiles(i + 0.5); }), 0)
        << "child that compiles " << i;
  }
  set_num_threads(threads_before);
}

// Threads that begin and end, programs that are compiled and forgotten, counters, the history and profiles: each
// has a lock that is held for moments, again and again.
TEST(Fork, GivesChildrenThatRecordWhileOtherThreadsOfTheParentDo) {
  const Array x({0.5, 1.5, 2.5});
  const auto jitted = jit(f);
  const double want = jitted(x).item<double>();
  const Profile profile;
  const auto ask = [] {
    for (int i = 0; i < 100; ++i) (void)counters(), (void)history(), clear_history();
  };
  const auto begin_threads = [&] { std::thread([&] { jitted(x); }).join(); };
  const auto begin_profiles = [&] { Profile().stop(); };
  const Busy busy({ask, ask, begin_threads, begin_threads, begin_profiles, [&] { jitted(x); }});
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(status_of_child([&] {
                bool right = false;
                std::thread([&] { right = jitted(x).item<double>() == want; }).join();
                ask();
                return right && Profile().stop().microseconds >= 0;
              }),
              0)
        << "child " << i;
  }
}

// The parent's thread goes on with it; the child begins anew, with that program and with others.
TEST(Fork, GivesChildrenThatCompileWhatTheParentIsCompiling) {
  const Array x({0.5, 1.5, 2.5});
  const auto deep_from = [](int i) {
    return [i](Array x) {
      for (int k = 0; k < 20; ++k) x = sin(x) * (i + k + 1.0) / (sum(x * x) + 2.0);
      return sum(x);
    };
  };
  // Children may not come upon what another thread does for the first time (docs/how-to/memory.md).
  jit(f)(x);
  jit(deep_from(-1))(x);
  for (int i = 0; i < 5; ++i) {
    const auto deep = deep_from(i);
    const auto jitted = jit(deep);
    const std::int64_t lowerings = counters().lowerings;
    std::atomic<bool> done{false};
    std::thread compiles([&] {
      jitted(x);
      done = true;
    });
    while (counters().lowerings == lowerings && !done) std::this_thread::yield();
    EXPECT_EQ(status_of_child([&] {
                const double difference = jitted(x).item<double>() - deep(x).item<double>();
                return std::abs(difference) < 1e-10 && jit(f)(x).size() == 1;
              }),
              0)
        << "child " << i;
    compiles.join();
  }
}

}  // namespace
}  // namespace telamon::testing

#endif
