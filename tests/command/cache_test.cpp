// `telamon cache`: what the disk cache takes.
#include "command/command.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, CacheTellsWhatItTakesOfTheDisk) {
  const std::string folder = "TELAMON_CACHE_DIR='" + path("cache") + "' ";
  EXPECT_THAT(telamon_command("cache info", folder).text,
              HasSubstr("programs: 0, 0 bytes of at most 512 MiB of the disk\n"));
  telamon_command("run --transform jit " + file("cases.jsonl", kCase.dump()), folder);
  if (telamon_command("info").text.find("default backend: llvm") == std::string::npos) return;
  EXPECT_THAT(
      telamon_command("cache info", folder + "TELAMON_CACHE_SIZE=2048 ").text,
      testing::ContainsRegex("programs: 1, [0-9.]+ (KiB|MiB) of at most 2 GiB of the disk\n"));
  EXPECT_EQ(telamon_command("cache clear", folder).text, "removed 1 program\n");
}

}  // namespace
}  // namespace telamon
