// Several processes at once, for tests of what they share.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace telamon::testing {

/// Forks so many children that each exit with body(their number), and expects 0 of every one.
template <class Body>
void expect_success_in_processes(int count, const Body& body) {
  std::vector<pid_t> children;
  for (int c = 0; c < count; ++c) {
    const pid_t child = fork();
    if (child == 0) _exit(body(c));
    EXPECT_GE(child, 0);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace telamon::testing
