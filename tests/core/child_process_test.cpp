// Work in a process of its own: how it ends, and with whom.
#include "core/child_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace telamon {
namespace {

using detail::ChildResult;
using detail::run_in_child;

TEST(ChildProcess, TellsUpToItsEnd) {
  const ChildResult well = run_in_child([](const auto& tell) { tell("all"); });
  EXPECT_TRUE(well.well());
  EXPECT_EQ(well.told, "all");
  const ChildResult killed = run_in_child([](const auto& tell) {
    tell("some");
    raise(SIGKILL);
    tell("more");
  });
  EXPECT_FALSE(killed.well());
  EXPECT_EQ(killed.told, "some");
  EXPECT_EQ(killed.end(), "ends with signal 9 (Killed)");
  EXPECT_EQ(run_in_child([](const auto&) { _exit(3); }).end(), "ends with exit code 3");
}

TEST(ChildProcess, IsKilledWhenItTellsNothingForLong) {
  const ChildResult silent = run_in_child(
      [](const auto& tell) {
        tell("some");
        pause();
      },
      std::chrono::seconds(1));
  EXPECT_FALSE(silent.well());
  EXPECT_EQ(silent.told, "some");
  EXPECT_EQ(silent.end(), "does not end within 1 s");
}

// Both are stopped for longer than the limit, as by Ctrl-Z, and go on.
TEST(ChildProcess, MayBeStoppedWithItsParent) {
  const pid_t parent = fork();
  if (parent == 0) {
    setpgid(0, 0);
    const ChildResult result = run_in_child(
        [](const auto& tell) {
          for (int i = 0; i < 30; ++i) {
            tell(".");
            usleep(100'000);
          }
        },
        std::chrono::seconds(2));
    _exit(result.well() && result.told.size() == 30 ? 0 : 1);
  }
  setpgid(parent, parent);
  usleep(500'000);
  kill(-parent, SIGSTOP);
  usleep(3'000'000);
  kill(-parent, SIGCONT);
  int status = 0;
  EXPECT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_EQ(status, 0);
}

#if defined(__linux__)
TEST(ChildProcess, EndsWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto say = [&](char c) {
    if (write(ends[1], &c, 1) != 1) _exit(1);
  };
  const pid_t parent = fork();
  if (parent == 0) {
    run_in_child([&](const auto&) {
      say('b');
      sleep(20);
      say('s');  // it has survived
    });
    _exit(0);
  }
  close(ends[1]);
  char said = 0;
  EXPECT_EQ(read(ends[0], &said, 1), 1);
  EXPECT_EQ(said, 'b');
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_EQ(read(ends[0], &said, 1), 0) << "the child outlives its parent";
  close(ends[0]);
}
#endif

}  // namespace
}  // namespace telamon
