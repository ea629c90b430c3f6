// `telamon bench`: what it measures and writes, and what the disk cache does to it.
#include "command/command.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, BenchTakesTheInputsThatRunTakes) {
  const std::string program = file("wave.json", program_of(kCase).dump());
  const std::string x = array("x.npy", Array({0.5, 1.0})), w = array("w.npy", Array({3.0, 1.0}));
  const std::string bench = "bench " + program + " --seconds 0 ";
  EXPECT_THAT(telamon_command(bench).text, HasSubstr("has no inputs on file: all are ones"));
  const Answer timed = telamon_command(bench + "--transform vmap --input " + x + "," + w);
  EXPECT_EQ(timed.code, 0) << timed.text;
  EXPECT_THAT(timed.text, AllOf(StartsWith("vmap(wave)\n"), Not(HasSubstr("all are ones"))));
  EXPECT_THAT(telamon_command(bench + "--input " + x).text, HasSubstr("takes 2 arrays"));
  EXPECT_THAT(telamon_command(bench + "--input " + x + "," + w).text,
              HasSubstr("x.npy', is f64[2], but wave takes f64[]"));
  // In the same words.
  const auto input_help = [](const std::string& command) {
    const std::string text = telamon_command(command + " --help").text;
    const std::size_t begin = text.find("--input");
    return begin == std::string::npos ? "none"
                                      : text.substr(begin, text.find("--", begin + 2) - begin);
  };
  EXPECT_EQ(input_help("bench"), input_help("run"));
}

TEST_F(Command, BenchSaysThatItFoundTheProgramInTheDiskCache) {
  const std::string bench = "bench --seconds 0 " + file("cases.jsonl", kCase.dump());
  const std::string folder = "TELAMON_CACHE_DIR='" + path("cache") + "' ";
  const Answer first = telamon_command(bench, folder);
  EXPECT_EQ(first.code, 0);
  EXPECT_THAT(first.text, Not(HasSubstr("disk cache")));
  if (telamon_command("info").text.find("default backend: llvm") == std::string::npos) return;
  EXPECT_THAT(
      telamon_command(bench, folder).text,
      HasSubstr(" us (found in the disk cache; TELAMON_CACHE_DIR=none compiles it), first call"));
  EXPECT_THAT(telamon_command(bench + " --json", folder).text,
              HasSubstr(R"("from_disk_cache":true)"));
}

TEST_F(Command, BenchMeasuresAndWritesJson) {
  const std::string cases = file("cases.jsonl", kCase.dump());
  const Answer text = telamon_command("bench " + cases + " --seconds 0 --transform vmap,grad");
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.text, HasSubstr("vmap(grad(wave))"));
  EXPECT_THAT(text.text, HasSubstr("median"));
  const Answer json = telamon_command("bench " + cases + " --seconds 0 --threads 2 --json");
  const Json line = Json::parse(json.text);
  for (const char* key : {"name", "transform", "threads", "trace_us", "compile_us", "first_call_us",
                          "min_ns", "median_ns", "runs"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  // What is skipped stands beside the lines of JSON, not among them.
  const std::string damaged = file("damaged.jsonl", "{ x\n" + kCase.dump());
  const Answer beside = telamon_command("bench --all --seconds 0 --json " + damaged + " 2> " +
                                        path("said") + " | cat");
  EXPECT_EQ(Json::parse(beside.text)["name"], "wave");
  EXPECT_EQ(line["threads"], 2);
  EXPECT_GE(line["median_ns"], line["min_ns"]);
  EXPECT_EQ(line["from_disk_cache"], false);
  EXPECT_THAT(text.text, Not(HasSubstr("disk cache")));
  EXPECT_EQ(telamon_command("bench " + cases + " --threads 0").code, 2);
  EXPECT_THAT(telamon_command("bench " + cases + " --seconds 0", "TELAMON_NUM_THREADS=3 ").text,
              HasSubstr(" calls, 3 threads\n"));
  EXPECT_EQ(telamon_command("bench " + cases + " --seconds -1").code, 2);
}

}  // namespace
}  // namespace telamon
