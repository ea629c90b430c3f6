// Files beside a program's work: links, pipes, other users' files and long names.
#include "core/side_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/processes.hpp"
#include "telamon/profile.hpp"

namespace telamon {
namespace {

namespace fs = std::filesystem;

class SideFile : public ::testing::Test {
 protected:
  SideFile() : folder_(fs::temp_directory_path() / ("telamon_side_" + std::to_string(getpid()))) {
    fs::create_directories(folder_ / "sub");
  }
  ~SideFile() override { fs::remove_all(folder_); }

  fs::path path(const std::string& name) const { return folder_ / name; }
  std::string text(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int write(const std::string& name, const std::string& text) const {
    return detail::write_file(path(name).string(), text);
  }
  /// Of the folder, with the one that is made with it.
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(folder_), {}); }

 private:
  fs::path folder_;
};

TEST_F(SideFile, IsWhereLinksLeadAlsoBeforeItIsThere) {
  fs::create_symlink("sub/link", path("link"));
  fs::create_symlink("file", path("sub/link"));
  for (const std::string what : {"made", "replaced"}) {
    EXPECT_EQ(write("link", what), 0);
    EXPECT_EQ(text("sub/file"), what);
    EXPECT_TRUE(fs::is_symlink(path("link")));
    EXPECT_TRUE(fs::is_symlink(path("sub/link")));
  }
  fs::create_symlink(path("absolute"), path("sub/other"));
  EXPECT_EQ(write("sub/other", "text"), 0);
  EXPECT_EQ(text("absolute"), "text");
}

TEST_F(SideFile, IsRefusedWhereLinksLeadNowhere) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_EQ(write("a", "text"), ELOOP);
  EXPECT_TRUE(fs::is_symlink(path("a")));
  fs::create_symlink("none/file", path("c"));
  EXPECT_EQ(write("c", "text"), ENOENT);
}

TEST_F(SideFile, MayHaveTheLongestName) {
  const std::string name(255, 'x');
  EXPECT_EQ(write(name, "text"), 0);
  EXPECT_EQ(text(name), "text");
  EXPECT_EQ(write(name + 'x', "text"), ENAMETOOLONG);
  EXPECT_EQ(entries(), 2);
}

TEST_F(SideFile, OfAnotherUserIsWrittenWhereOnlyTheyMayTakeItAway) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes files of others";
  std::ofstream(path("file")) << "a text that is longer";
  ASSERT_EQ(chown(path("file").c_str(), 1, 1), 0);
  ASSERT_EQ(chmod(path("file").c_str(), 0666), 0);
  ASSERT_EQ(chmod(path("").c_str(), 01777), 0);
  ::telamon::testing::expect_success_in_processes(
      1, [&](int) { return setuid(65534) == 0 && write("file", "text") == 0 ? 0 : 1; });
  EXPECT_EQ(text("file"), "text");
  EXPECT_EQ(entries(), 2);
}

TEST_F(SideFile, OfAnotherUserThatCannotBeWrittenIsToldBeforehand) {
  if (geteuid() != 0) GTEST_SKIP() << "NOT TESTED: only root makes files of others";
  std::ofstream(path("file")) << "text";
  ASSERT_EQ(chown(path("file").c_str(), 1, 1), 0);
  ASSERT_EQ(chmod(path("file").c_str(), 0644), 0);
  // The folder, its mode, and what both functions say: only with the sticky bit is the file the owner's alone.
  const std::pair<mode_t, int> cases[] = {{01777, EACCES}, {0777, 0}};
  for (const auto& [mode, answer] : cases) {
    ASSERT_EQ(chmod(path("").c_str(), mode), 0);
    ::telamon::testing::expect_success_in_processes(1, [&, answer = answer](int) {
      if (setgid(65534) != 0 || setuid(65534) != 0) return 1;
      if (detail::try_file(path("file").string()) != answer) return 2;
      return write("file", "other") == answer ? 0 : 3;
    });
    EXPECT_EQ(entries(), 2);
  }
}

TEST_F(SideFile, ThatIsAPipeIsOpenedOnce) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  Profile profile(path("pipe").string());
  pollfd polled{reader, POLLIN, 0};
  EXPECT_EQ(::poll(&polled, 1, 0), 0) << "its reader would be at the end";
  profile.stop();
  char text[4096] = {};
  EXPECT_GT(::read(reader, text, sizeof text - 1), 0);
  EXPECT_THAT(text, ::testing::HasSubstr("traceEvents"));
  ::close(reader);
}

}  // namespace
}  // namespace telamon
