// The files of the disk cache: what is found again, and what happens when files are damaged, folders
// cannot be used, writers die and processes meet.
#include "runtime/disk_cache.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/disk_cache.hpp"
#include "support/processes.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

namespace cache = runtime::disk_cache;

cache::Key key(int n) {
  cache::Key k{};
  k[0] = static_cast<std::uint8_t>(n);
  k[1] = static_cast<std::uint8_t>(n >> 8);
  k[3] = 255;  // has no luck: these stores do not look through the folder on its account
  return k;
}

std::optional<std::string> loaded(const cache::Key& key) {
  const auto pages = cache::load(key);
  return pages ? std::optional(std::string(pages->bytes())) : std::nullopt;
}

std::string text(int n, std::size_t size = 300) {
  std::string s = "program " + std::to_string(n) + " ";
  while (s.size() < size)
    s += static_cast<char>('a' + (s.size() * 7 + static_cast<unsigned>(n)) % 26);
  return s;
}

TEST(DiskCache, FindsWhatWasStored) {
  const CacheFolder folder;
  const CacheChanges changes;
  EXPECT_EQ(loaded(key(1)), std::nullopt);
  cache::store(key(1), text(1));
  EXPECT_EQ(loaded(key(1)), text(1));
  EXPECT_EQ(loaded(key(2)), std::nullopt);
  cache::store(key(1), text(5));  // the later one stays
  EXPECT_EQ(loaded(key(1)), text(5));
  EXPECT_EQ(changes().hits, 2);
  EXPECT_EQ(changes().misses, 2);
  EXPECT_EQ(changes().stores, 2);
  EXPECT_EQ(changes().errors, 0);
  EXPECT_EQ(disk_cache_contents().files, 1);
  EXPECT_EQ(disk_cache_contents().folder, folder.path());
}

TEST(DiskCache, IsReadableByItsOwnerOnly) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  struct stat s{};
  ASSERT_EQ(stat(folder.path().c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(folder.files().at(0).c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
}

TEST(DiskCache, IsOffWhenItsFolderIsNone) {
  const CacheFolder folder;
  setenv("TELAMON_CACHE_DIR", "none", 1);
  const CacheChanges changes;
  EXPECT_EQ(cache::folder(), "");
  cache::store(key(1), text(1));
  EXPECT_EQ(loaded(key(1)), std::nullopt);
  EXPECT_EQ(changes().stores, 0);
  EXPECT_EQ(changes().errors, 0);
}

TEST(DiskCache, LiesInTheCacheFolderOfTheUser) {
  const CacheFolder folder;
  const char* was = getenv("XDG_CACHE_HOME");
  const std::string before = was == nullptr ? "" : was;
  unsetenv("TELAMON_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(cache::folder(), "/somewhere/telamon");
  setenv("TELAMON_CACHE_DIR", "", 1);  // as good as none, like the other variables
  EXPECT_EQ(cache::folder(), "/somewhere/telamon");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_THAT(cache::folder(), ::testing::EndsWith("/.cache/telamon"));
  if (was != nullptr) setenv("XDG_CACHE_HOME", before.c_str(), 1);
}

TEST(DiskCache, StaysWhereItIsWhenTheProcessGoesElsewhere) {
  const CacheFolder folder;
  setenv("TELAMON_CACHE_DIR", std::filesystem::relative(folder.path()).c_str(), 1);
  expect_success_in_processes(1, [&](int) {
    cache::store(key(1), text(1));
    std::filesystem::path elsewhere = folder.path();
    for (int depth = 0; depth < 20; ++depth) elsewhere /= "x";  // no `..` leads out of it
    std::filesystem::create_directories(elsewhere);
    std::filesystem::current_path(elsewhere);
    return loaded(key(1)) == text(1) ? 0 : 1;
  });
}

TEST(DiskCache, TakesNoFileWithOneByteChanged) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  const std::filesystem::path file = folder.files().at(0);
  const std::string good = CacheFolder::read(file);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    CacheFolder::write(file, bad);
    EXPECT_EQ(loaded(key(1)), std::nullopt) << "byte " << i;
    cache::store(key(1), text(1));
    ASSERT_EQ(loaded(key(1)), text(1)) << "byte " << i;
  }
}

TEST(DiskCache, TakesNoFileThatIsCutOrLonger) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  const std::filesystem::path file = folder.files().at(0);
  const std::string good = CacheFolder::read(file);
  for (std::size_t size = 0; size <= good.size() + 3; ++size) {
    if (size == good.size()) continue;
    std::string bad = good;
    bad.resize(size, 'x');
    CacheFolder::write(file, bad);
    const CacheChanges changes;
    EXPECT_EQ(loaded(key(1)), std::nullopt) << size;
    EXPECT_EQ(changes().errors, 1) << size;
    EXPECT_FALSE(std::filesystem::exists(file)) << "what is damaged goes";
  }
}

TEST(DiskCache, TakesNoFileOfAnotherKeyOrFormat) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  const std::filesystem::path one = folder.files().at(0);
  cache::store(key(2), text(2));
  for (const auto& file : folder.files()) {
    if (file != one) CacheFolder::write(file, CacheFolder::read(one));
  }
  EXPECT_EQ(loaded(key(2)), std::nullopt);
  std::string later = CacheFolder::read(one);
  ++later[7];  // the version of the format
  CacheFolder::write(one, later);
  const CacheChanges changes;
  EXPECT_EQ(loaded(key(1)), std::nullopt);
  EXPECT_EQ(changes().errors, 0);
  EXPECT_TRUE(std::filesystem::exists(one)) << "it is no damage";
  cache::store(key(1), text(1));
  EXPECT_EQ(loaded(key(1)), text(1));
}

TEST(DiskCache, FollowsNoLinkInPlaceOfAFile) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  const std::filesystem::path file = folder.files().at(0);
  const std::filesystem::path elsewhere = folder.path() / "elsewhere";
  std::filesystem::rename(file, elsewhere);
  std::filesystem::create_symlink(elsewhere, file);
  const CacheChanges changes;
  EXPECT_EQ(loaded(key(1)), std::nullopt);
  EXPECT_EQ(changes().errors, 1);
}

TEST(DiskCache, KeepsFilesThatCannotBeOpenedForNow) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  const int next = open("/", O_RDONLY);
  close(next);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit one_more{static_cast<rlim_t>(next + 1), limit.rlim_max};  // that of the folder
  const CacheChanges changes;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one_more), 0);
  const auto found = loaded(key(1));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(found, std::nullopt);
  EXPECT_EQ(changes().errors, 1);
  EXPECT_EQ(changes().misses, 1);
  EXPECT_EQ(loaded(key(1)), text(1));
}

TEST(DiskCache, DoesWithoutAFolderThatOthersMayWriteTo) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  const CacheChanges changes;
  EXPECT_EQ(loaded(key(1)), std::nullopt);
  cache::store(key(2), text(2));
  EXPECT_EQ(changes().errors, 2);
  EXPECT_EQ(changes().stores, 0);
}

TEST(DiskCache, DoesWithoutAFolderThatCannotBeMade) {
  const CacheFolder folder;
  CacheFolder::write(folder.path(), "a file stands there");
  const CacheChanges changes;
  cache::store(key(1), text(1));
  EXPECT_EQ(loaded(key(1)), std::nullopt);
  EXPECT_EQ(changes().stores, 0);
  EXPECT_GE(changes().errors, 1);
}

/// Whether f() holds in a process of its own; of root's, as a user without rights.
template <class F>
bool holds_for_a_user(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && seteuid(65534) != 0) _exit(2);
    _exit(f() ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST(DiskCache, ReadsAFolderThatCannotBeWrittenTo) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  const std::filesystem::path file = folder.files().at(0);
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder.path().c_str(), 65534, 65534), 0);
    ASSERT_EQ(chown(file.c_str(), 65534, 65534), 0);
  }
  EXPECT_TRUE(holds_for_a_user([] {
    const CacheChanges changes;
    const bool read = loaded(key(1)) == text(1);
    cache::store(key(2), text(2));
    return read && changes().errors == 1 && changes().stores == 0;
  }));
}

TEST(DiskCache, DoesWithoutAFolderOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root makes folders of others";
  const CacheFolder folder;
  cache::store(key(1), text(1));
  std::filesystem::permissions(folder.path(), static_cast<std::filesystem::perms>(0755));
  std::filesystem::permissions(folder.files().at(0), static_cast<std::filesystem::perms>(0644));
  EXPECT_TRUE(holds_for_a_user([] {
    const CacheChanges changes;
    return loaded(key(1)) == std::nullopt && changes().errors == 1;
  }));
}

TEST(DiskCache, LeavesNothingBehindWhereThereIsNoRoom) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // a limit on the size of files is a disk that is full
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const CacheChanges changes;
    cache::store(key(2), text(2, 5000));
    _exit(changes().stores == 0 && changes().errors == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.files().size(), 1u);
  EXPECT_EQ(loaded(key(1)), text(1));
}

#if defined(__linux__)

/// A small file system in that folder, for this process and until it ends. False where that is not allowed.
bool mount_small(const std::filesystem::path& folder) {
  const std::string map = "0 " + std::to_string(geteuid()) + " 1";
  if (geteuid() == 0) {
    if (unshare(CLONE_NEWNS) != 0) return false;
  } else {  // root of a world of its own
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << map;
  }
  std::filesystem::create_directory(folder);
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), "tmpfs", 0, "size=64k,mode=700") == 0;
}

/// What is wrong with the cache on a disk that fills up: "" if nothing.
const char* fault_on_a_full_disk(const CacheFolder& folder) {
  const CacheChanges changes;
  int stored = 0;
  while (stored < 100 && changes().errors == 0) {
    ++stored;
    cache::store(key(stored), text(stored, 10000));
  }
  if (stored < 3 || stored == 100) return "the disk is of another size";
  if (changes().stores != stored - 1) return "a failed store was counted";
  if (folder.files().size() != static_cast<std::size_t>(stored - 1)) return "something was left";
  for (int i = 1; i < stored; ++i) {
    if (loaded(key(i)) != text(i, 10000)) return "what was stored before is gone";
  }
  if (loaded(key(stored))) return "half a file is taken for whole";
  const Array x({1.0, 2.0, 3.0});
  const auto f = jit([](const Array& v) { return sum(sin(v) * 2.0 + v); });
  if (f(x).item<double>() != sum(sin(x) * 2.0 + x).item<double>())
    return "jit gives something else";
  clear_disk_cache();
  cache::store(key(stored), text(stored, 10000));
  if (loaded(key(stored)) != text(stored, 10000)) return "it is not used again when there is room";
  return "";
}

TEST(DiskCache, GoesOnWhereTheDiskIsFull) {
  const CacheFolder folder;
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string fault = mount_small(folder.path()) ? fault_on_a_full_disk(folder) : "skip";
    _exit(write(report[1], fault.data(), fault.size()) == static_cast<ssize_t>(fault.size()) ? 0
                                                                                             : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ::close(report[1]);
  char fault[200] = {};
  ASSERT_GE(read(report[0], fault, sizeof fault - 1), 0);
  ::close(report[0]);
  if (std::string_view(fault) == "skip") GTEST_SKIP() << "this user may not mount a small disk";
  EXPECT_STREQ(fault, "");
}

#endif

TEST(DiskCache, EvictsWhatWasNotUsedForLongest) {
  const CacheFolder folder;
  setenv("TELAMON_CACHE_SIZE", "1", 1);
  const CacheChanges changes;
  const std::size_t each = 100 << 10;
  for (int i = 0; i < 9; ++i) {
    cache::store(key(i), text(i, each));
    std::this_thread::sleep_for(std::chrono::milliseconds(15));  // the clock of files is coarse
  }
  EXPECT_EQ(changes().evictions, 0);
  EXPECT_EQ(loaded(key(0)), text(0, each));  // the oldest, but now used
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  for (int i = 9; i < 12; ++i) cache::store(key(i), text(i, each));
  EXPECT_GE(changes().evictions, 2);
  EXPECT_LE(disk_cache_contents().bytes, disk_cache_contents().bound);
  EXPECT_EQ(loaded(key(0)), text(0, each));
  EXPECT_EQ(loaded(key(1)), std::nullopt);
  EXPECT_EQ(loaded(key(11)), text(11, each));
}

// A file of 50 bytes takes a block of some kilobytes.
TEST(DiskCache, CountsTheBlocksThatFilesTake) {
  const CacheFolder folder;
  cache::store(key(1), text(1, 50));
  std::int64_t blocks = 0, lengths = 0;
  for (const auto& file : folder.files()) {
    struct stat s{};
    ASSERT_EQ(stat(file.c_str(), &s), 0);
    blocks += 512 * std::int64_t{s.st_blocks};
    lengths += (s.st_size + 511) / 512 * 512;
  }
  EXPECT_EQ(disk_cache_contents().bytes, std::max(blocks, lengths));
}

// Programs of a few hundred bytes take a block each.
TEST(DiskCache, StaysWithinItsBoundWhileASingleProcessStores) {
  const CacheFolder folder;
  setenv("TELAMON_CACHE_SIZE", "1", 1);
  for (int i = 0; i < 400; ++i) {
    cache::store(key(i), text(i, 300));
    if (i % 20 == 0) { EXPECT_LE(disk_cache_contents().bytes, disk_cache_contents().bound) << i; }
  }
  EXPECT_LE(disk_cache_contents().bytes, disk_cache_contents().bound);
}

/// Children that each run `body` until they are killed, with this object.
class Processes {
 public:
  template <class Body>
  Processes(int count, const Body& body) {
    for (int c = 0; c < count; ++c) {
      const pid_t child = fork();
      if (child == 0) {
        body(c);
        _exit(1);
      }
      children_.push_back(child);
    }
  }
  ~Processes() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Calls f while none of them does anything.
  template <class F>
  void stopped(const F& f) const {
    for (const pid_t child : children_) {
      ASSERT_EQ(kill(child, SIGSTOP), 0);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
      ASSERT_TRUE(WIFSTOPPED(status));
    }
    f();
    for (const pid_t child : children_) kill(child, SIGCONT);
  }

 private:
  std::vector<pid_t> children_;
};

TEST(DiskCache, StaysWithinItsBoundWhileEightProcessesStore) {
  const CacheFolder folder;
  setenv("TELAMON_CACHE_SIZE", "1", 1);
  const Processes writers(8, [](int c) {
    // Most are small; some are as large as can be.
    for (int i = 0;; ++i) {
      const std::size_t size =
          i % 40 == 7 ? 250 << 10 : 300 + static_cast<std::size_t>(i % 5) * 3000;
      cache::store(key(c * 1000 + i % 1000), text(i, size));
    }
  });
  std::int64_t most = 0, files = 0;
  for (int i = 0; i < 150; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    writers.stopped([&] {
      const DiskCacheContents now = disk_cache_contents();
      most = std::max(most, now.bytes);
      files = std::max(files, now.files);
    });
  }
  EXPECT_LE(most, disk_cache_contents().bound);
  EXPECT_GT(most, disk_cache_contents().bound * 3 / 4) << "it was not filled";
  EXPECT_GT(files, 20);
}

// Whoever is making room may be stopped for hours.
TEST(DiskCache, WaitsForNobodyWhoMakesRoom) {
  const CacheFolder folder;
  setenv("TELAMON_CACHE_SIZE", "1", 1);
  cache::store(key(1), text(1));
  const int other = ::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  const CacheChanges changes;
  cache::store(key(2), text(2, 100000));
  EXPECT_EQ(changes().stores, 0);
  EXPECT_EQ(changes().errors, 0);
  EXPECT_EQ(loaded(key(1)), text(1));
  ::close(other);
  cache::store(key(2), text(2, 100000));
  EXPECT_EQ(changes().stores, 1);
}

// A child of whoever was making room goes on, and the others, too.
TEST(DiskCache, IsNotLockedByAChildThatWasForkedMeanwhile) {
  const CacheFolder folder;
  setenv("TELAMON_CACHE_SIZE", "1", 1);
  std::atomic<bool> done{false};
  std::thread storing([&] {
    for (int i = 0; !done; ++i) cache::store(key(i % 50), text(i, 20000));
  });
  std::vector<pid_t> children;
  for (int i = 0; i < 50; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      for (;;) pause();
    }
  }
  done = true;
  storing.join();
  const CacheChanges changes;
  for (int i = 0; i < 10; ++i) cache::store(key(100 + i), text(i, 20000));
  EXPECT_EQ(changes().stores, 10);
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

TEST(DiskCache, StoresNothingThatWouldFillIt) {
  const CacheFolder folder;
  setenv("TELAMON_CACHE_SIZE", "1", 1);
  const CacheChanges changes;
  cache::store(key(1), text(1, 600 << 10));
  EXPECT_EQ(changes().stores, 0);
  EXPECT_TRUE(folder.files().empty());
}

TEST(DiskCache, IsEmptiedAtOnce) {
  const CacheFolder folder;
  for (int i = 0; i < 5; ++i) cache::store(key(i), text(i));
  EXPECT_EQ(clear_disk_cache(), 5);
  EXPECT_EQ(disk_cache_contents().files, 0);
  EXPECT_EQ(loaded(key(3)), std::nullopt);
}

// Stores and loads until it is killed; ends with 1 when it reads what nobody wrote.
[[noreturn]] void use_for_ever(int seed) {
  for (int i = seed;; ++i) {
    const int n = i % 7;
    if (const auto bytes = loaded(key(n)); bytes && *bytes != text(n, 20000)) _exit(1);
    cache::store(key(n), text(n, 20000));
  }
}

TEST(DiskCache, SurvivesWritersThatAreKilled) {
  const CacheFolder folder;
  int found = 0;
  // More rounds where the processors have so much else to do that no child came to write a file.
  for (int round = 0; round < 25 || (found == 0 && round < 1000); ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) use_for_ever(round);
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 400 * (round % 10)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it read what nobody had written";
    const CacheChanges changes;
    for (int n = 0; n < 7; ++n) {
      if (const auto bytes = loaded(key(n))) {
        ++found;
        EXPECT_EQ(*bytes, text(n, 20000));
      }
    }
    EXPECT_EQ(changes().errors, 0) << "files are whole or absent";
  }
  EXPECT_GT(found, 0) << "nothing was ever stored";
  // What the dead have left under temporary names goes once it is old.
  const auto is_temporary = [](const std::filesystem::path& p) {
    return p.filename().string().starts_with("tmp-");
  };
  CacheFolder::write(folder.path() / "tmp-of-the-dead", "half a pro");
  for (const auto& file : folder.files()) {
    if (is_temporary(file))
      std::filesystem::last_write_time(
          file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  CacheFolder::write(folder.path() / "tmp-of-the-living", "half a pro");
  cache::trim();
  int temporary = 0;
  for (const auto& file : folder.files()) temporary += is_temporary(file);
  EXPECT_EQ(temporary, 1);
}

TEST(DiskCache, HasNothingOfWritersThatAreKilledWhileTheyWrite) {
  const CacheFolder folder;
  cache::store(key(1), text(1));
  const int file = ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (file < 0) GTEST_SKIP() << "files have names from the start here";
  ::close(file);
  const std::string large = text(2, 100 << 20);
  for (int milliseconds : {2, 5, 10, 15}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int n = 2;; ++n) cache::store(key(n), large);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    for (const auto& left : folder.files())
      EXPECT_TRUE(left.filename().string().ends_with(".tlc")) << left;
  }
}

TEST(DiskCache, IsSharedByProcesses) {
  const CacheFolder folder;
  expect_success_in_processes(4, [](int c) {
    const CacheChanges changes;
    for (int i = 0; i < 200; ++i) {
      const int n = (i * 5 + c) % 11;
      if (const auto bytes = loaded(key(n)); bytes && *bytes != text(n, 3000)) return 1;
      cache::store(key(n), text(n, 3000));
      if (i % 50 == 0) cache::trim();
    }
    return changes().errors == 0 ? 0 : 2;
  });
  EXPECT_EQ(folder.files().size(), 11u);
  for (int n = 0; n < 11; ++n) EXPECT_EQ(loaded(key(n)), text(n, 3000));
}

}  // namespace
}  // namespace telamon::testing
