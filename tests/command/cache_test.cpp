// `telamon cache`: what the disk cache takes.
#include "command/command.hpp"
#include "support/backends.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, CacheTellsWhatItTakesOfTheDisk) {
  const std::string folder = "TELAMON_CACHE_DIR='" + path("cache") + "' ";
  EXPECT_THAT(telamon_command("cache info", folder).text,
              HasSubstr("programs: 0, 0 bytes of at most 512 MiB of the disk\n"));
  telamon_command("run --transform jit " + file("cases.jsonl", kCase.dump()), folder);
  if (!kCompiles) return;
  EXPECT_THAT(
      telamon_command("cache info", folder + "TELAMON_CACHE_SIZE=2048 ").text,
      testing::ContainsRegex("programs: 1, [0-9.]+ (KiB|MiB) of at most 2 GiB of the disk\n"));
  EXPECT_EQ(telamon_command("cache clear", folder).text, "removed 1 program\n");
}

TEST_F(Command, CacheSaysWhyItsFolderIsNotUsed) {
  std::filesystem::create_directory(path("open"));
  std::filesystem::permissions(path("open"), std::filesystem::perms::all);
  const std::pair<std::string, std::string> refused[] = {
      {path("open"), path("open") + " belongs to another user, or others may write to it"},
      {file("plain", ""), "cannot open " + path("plain") + ": Not a directory"}};
  for (const auto& [folder, why] : refused) {
    const std::string before = "TELAMON_CACHE_DIR='" + folder + "' ";
    const Answer info = telamon_command("cache info", before);
    EXPECT_EQ(info.code, 0);
    EXPECT_THAT(info.text, HasSubstr("\n  not used: " + why + "\n"));
    EXPECT_THAT(telamon_command("info", before).text, HasSubstr("; not used: " + why + "\n"));
    const Answer clear = telamon_command("cache clear", before);
    EXPECT_EQ(clear.code, 2);
    EXPECT_EQ(clear.text, "removed 0 programs\ntelamon: " + why + "\n");
    if (!kCompiles) continue;
    EXPECT_THAT(telamon_command("run --transform jit " + file("cases.jsonl", kCase.dump()),
                                before + "TELAMON_LOG=cache=error ")
                    .text,
                HasSubstr("cache] " + why + "\n"));
  }
}

// A folder cannot be removed as a file, whoever asks.
TEST_F(Command, CacheCountsWhatItHasRemoved) {
  std::filesystem::create_directories(path("cache/stays.tlc"));
  std::filesystem::permissions(path("cache"), std::filesystem::perms::owner_all);
  file("cache/goes.tlc", "");
  const Answer clear = telamon_command("cache clear", "TELAMON_CACHE_DIR='" + path("cache") + "' ");
  EXPECT_EQ(clear.code, 2);
  EXPECT_EQ(clear.text, "removed 1 program\ntelamon: cannot remove " + path("cache/stays.tlc") +
                            ": Is a directory\n");
}

}  // namespace
}  // namespace telamon
