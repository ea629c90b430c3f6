// telamon bench: times a program through the public jitted callable.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <vector>

#include "commands.hpp"
#include "program_file.hpp"
#include "runtime/history.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon_tool {
namespace {

namespace tl = telamon;
using Clock = std::chrono::steady_clock;

struct Options {
  ProgramChoice programs;
  std::string input;
  std::optional<int> threads;
  double seconds = 1;
  bool json = false;
};

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Timings {
  double trace_us = 0, compile_us = 0, first_call_us = 0, min_ns = 0, median_ns = 0;
  bool from_disk = false;  // the program was found in the disk cache
  std::size_t runs = 0;
};

Timings measure(const ProgramFile& file, const Options& o) {
  const Arrays inputs = o.input.empty()
                            ? example_inputs(file, o.programs.transform, o.programs.batch)
                            : load_inputs(o.input, file.program, o.programs.transform);
  const Function f = apply_transforms(file.program, o.programs.transform);
  Timings t;
  const auto trace_start = Clock::now();
  (void)tl::make_jaxpr(f)(inputs);
  t.trace_us = microseconds_since(trace_start);
  const auto jitted = tl::jit(f, {.name = file.program.name()});
  const auto first_start = Clock::now();
  Arrays results = jitted(inputs);
  t.first_call_us = microseconds_since(first_start);
  const tl::ExecutableInfo executable = tl::last_executable();
  t.compile_us = executable.microseconds();
  t.from_disk = tl::runtime::came_from_disk(executable);
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 5 || microseconds_since(start) < o.seconds * 1e6) {
    const auto before = Clock::now();
    results = jitted(inputs);
    times.push_back(microseconds_since(before) * 1e3);
  }
  std::sort(times.begin(), times.end());
  t.min_ns = times.front();
  t.median_ns = times[times.size() / 2];
  t.runs = times.size();
  return t;
}

int bench(const ProgramFile& file, const Options& o) {
  if (!file.inputs && o.input.empty() && !o.json)
    std::printf("(%s has no inputs on file: all are ones)\n", file.program.name().c_str());
  const Timings t = measure(file, o);
  if (o.json) {
    std::cout << Json{{"name", file.program.name()},      {"transform", o.programs.transform},
                      {"threads", tl::num_threads()},     {"trace_us", t.trace_us},
                      {"compile_us", t.compile_us},       {"from_disk_cache", t.from_disk},
                      {"first_call_us", t.first_call_us}, {"min_ns", t.min_ns},
                      {"median_ns", t.median_ns},         {"runs", t.runs}}
                     .dump()
              << '\n';
  } else {
    std::printf(
        "%s\n  trace %.0f us, compile %.0f us%s, first call %.0f us\n  min %.0f ns, median %.0f "
        "ns over %zu calls, %s\n",
        display_name(file.program.name(), o.programs.transform).c_str(), t.trace_us, t.compile_us,
        t.from_disk ? " (found in the disk cache; TELAMON_CACHE_DIR=none compiles it)" : "",
        t.first_call_us, t.min_ns, t.median_ns, t.runs,
        tl::detail::counted(tl::num_threads(), "thread").c_str());
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("bench", "time a program: trace, compile, first call, then calls");
  add_input_option(*command, options->input);
  add_program_options(*command, options->programs);
  command
      ->add_option(
          "--threads", options->threads,
          "how many threads kernels share; by default as many as everywhere, see telamon info")
      ->check(count());
  command->add_option("--seconds", options->seconds, "how long to repeat the call")
      ->check(duration());
  command->add_flag("--json", options->json, "one JSON object a line");
  command->callback([options, &code] {
    if (options->threads) tl::set_num_threads(*options->threads);
    code = for_each_program(options->programs,
                            [&](const ProgramFile& file) { return bench(file, *options); });
  });
}

}  // namespace telamon_tool
