// The program around the workloads of one contender.
//
//   telamon_bench [--only REGEX] [--threads N] [--seconds S] [--contract] [--list]   prints a table
//   telamon_bench --serve [--threads N] [--contract]                                 obeys compare.py
//   telamon_bench --help                                                             says so
//
// Serving, each line of standard input is a command and is answered by one line of JSON:
//   list                    {"ids": [{"id", "unit"}, ...]}
//   prepare ID FOLDER       makes the inputs and runs once; writes each output to FOLDER/0.npy, 1.npy, ...:
//                           {"outputs": 2, "per", "bytes", "flops", "items", "no_limit", "threads", "tolerance", "note"},
//                           or {"not_yet": why}, or {"error": why}
//   time SECONDS            {"samples": {"time": [seconds of a call, ...]}, "note"} of the prepared workload
//   release                 {} and the workload and its inputs are gone
#include "harness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace bench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Workload {
  std::string id, unit;
  std::function<Case()> make;
  std::string not_yet;
};
std::vector<Workload>& workloads() {
  static std::vector<Workload> all;
  return all;
}

struct Options {
  std::regex only{"."};
  int threads = 1;
  double seconds = 0.5;
  bool contract = false, list = false, serve = false, help = false;
};
Options options;
std::function<void()> forget_workload;

double seconds_of(const std::function<void()>& f, long times) {
  const auto start = Clock::now();
  for (long i = 0; i < times; ++i) f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A sample is a batch of at least 0.2 ms; samples for about so many seconds, at least 3.
Samples time_case(const Case& c, double seconds) {
  if (c.measure) return c.measure(seconds);
  c.call();
  const double once = std::max(seconds_of(c.call, 1), 1e-9);
  const double probe = seconds_of(c.call, once < 1e-5 ? 20 : 1) / (once < 1e-5 ? 20 : 1);
  const long batch = std::max(1L, static_cast<long>(2e-4 / std::max(probe, 1e-9)));
  const double sample = static_cast<double>(batch) * probe;
  const long count = std::clamp(static_cast<long>(seconds / sample), 3L, 3000L);
  std::vector<double> out;
  for (long i = 0; i < count; ++i) {
    out.push_back(seconds_of(c.call, batch) / static_cast<double>(batch));
  }
  return {{"time", out}};
}

void write_npy(const std::string& path, const Output& x) {
  const std::size_t item = static_cast<std::size_t>(x.dtype.back() - '0');
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
                                   x.dtype, x.bytes.size() / item);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size() & 0xff)
       << static_cast<char>(header.size() >> 8) << header;
  file.write(x.bytes.data(), static_cast<std::streamsize>(x.bytes.size()));
}

const Workload* find(const std::string& id) {
  for (const Workload& w : workloads()) {
    if (w.id == id) return &w;
  }
  return nullptr;
}

void release(Case& current) {
  current = Case();
  forget_workload();
}

Json prepare(const std::string& id, const std::string& folder, Case& current) {
  const Workload* w = find(id);
  if (w == nullptr) return {{"error", "there is no workload " + id}};
  if (!w->not_yet.empty()) return {{"not_yet", w->not_yet}};
  release(current);
  current = w->make();
  std::size_t outputs = 0;
  if (current.outputs) {
    for (const Output& x : current.outputs()) {
      write_npy(fmt::format("{}/{}.npy", folder, outputs++), x);
    }
  }
  return {{"outputs", outputs},     {"per", current.per},         {"bytes", current.bytes},
          {"flops", current.flops}, {"items", current.items},     {"no_limit", current.no_limit},
          {"note", current.note},   {"threads", current.threads}, {"tolerance", current.tolerance}};
}

Json answer(const std::string& line, Case& current) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (command == "list") {
    Json ids = Json::array();
    for (const Workload& w : workloads()) ids.push_back({{"id", w.id}, {"unit", w.unit}});
    return {{"ids", ids}};
  }
  if (command == "prepare") {
    std::string id, folder;
    words >> id >> folder;
    return prepare(id, folder, current);
  }
  if (command == "time") {
    double seconds = 1;
    words >> seconds;
    const Samples samples = time_case(current, seconds);
    return {{"samples", samples}, {"note", current.note_after ? current.note_after() : ""}};
  }
  if (command == "release") {
    release(current);
    return Json::object();
  }
  return {{"error", "there is no command " + command}};
}

int serve() {
  Case current;
  for (std::string line; std::getline(std::cin, line);) {
    Json reply;
    try {
      reply = answer(line, current);
    } catch (const std::exception& e) { reply = {{"error", e.what()}}; }
    std::cout << reply.dump() << std::endl;
  }
  return 0;
}

double in_unit(double seconds, const std::string& unit) {
  return seconds * (unit == "ns" ? 1e9 : unit == "us" ? 1e6 : unit == "ms" ? 1e3 : 1);
}

void print_row(const Workload& w, const Case& c, const std::string& metric,
               std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const double least = samples.front(), median = samples[samples.size() / 2];
  std::string rate;
  const bool whole = metric == "time" || metric == "steady";
  if (whole && c.flops > 0) rate = fmt::format("{:.4g} GF/s", c.flops / least / 1e9);
  if (whole && c.bytes > 0) rate = fmt::format("{:.4g} GB/s", c.bytes / least / 1e9);
  fmt::print("{:<30} {:<8} {:<3} {:>11.5g} {:>11.5g}  {:>12}  {}\n", w.id,
             metric == "time" ? "" : metric, w.unit, in_unit(least, w.unit) / c.per,
             in_unit(median, w.unit) / c.per, rate, c.note_after ? c.note_after() : c.note);
  std::fflush(stdout);
}

/// A row for each metric of the workload.
void print_rows(const Workload& w) {
  const Case c = w.make();
  for (const auto& [metric, samples] : time_case(c, options.seconds)) {
    print_row(w, c, metric, samples);
  }
}

int refuse(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  return 2;
}

bool is_selected(const Workload& w) { return std::regex_search(w.id, options.only); }

int print_table(const std::string& contender) {
  if (std::none_of(workloads().begin(), workloads().end(), is_selected)) {
    return refuse(contender + ": no workload's id has a match of --only");
  }
  if (options.list) {
    for (const Workload& w : workloads()) {
      if (is_selected(w)) fmt::print("{}\n", w.id);
    }
    return 0;
  }
  fmt::print("# {}, {} thread(s)\n{:<30} {:<8} {:<3} {:>11} {:>11}\n", contender, options.threads,
             "id", "", "", "min", "median");
  int failed = 0;
  for (const Workload& w : workloads()) {
    if (!is_selected(w)) continue;
    if (!w.not_yet.empty()) {
      fmt::print("{:<30} not yet: {}\n", w.id, w.not_yet);
      continue;
    }
    try {
      print_rows(w);
    } catch (const std::exception& e) {
      ++failed;
      fmt::print("{:<30} FAILED {}\n", w.id, e.what());
    }
    forget_workload();
  }
  return failed == 0 ? 0 : 1;
}

constexpr const char* kUsage =
    "[--only REGEX] [--threads N] [--seconds S] [--contract] [--list] [--serve]";
constexpr const char* kHelp = R"(Times workloads, and prints a row for each.

  --only REGEX   those whose id has a match; all if not given
  --threads N    how many threads a workload may use; 1 if not given
  --seconds S    for about how long each is timed; 0.5 if not given
  --contract     a * b + c may be one operation
  --list         prints the ids only
  --serve        obeys the commands on standard input, as compare.py gives them
)";

/// The whole word as a number within the bounds; the option's name is for those who are told otherwise.
template <class T>
T number(const std::string& option, const std::string& word, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !(value >= least) ||
      value > most) {
    throw std::invalid_argument(
        fmt::format("{} {}: not a number from {} to {}", option, word, least, most));
  }
  return value;
}
std::regex regex(const std::string& word) {
  try {
    return std::regex(word);
  } catch (const std::regex_error& e) {
    throw std::invalid_argument(fmt::format("--only {}: {}", word, e.what()));
  }
}

void read_options(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&]() -> std::string {
      if (i + 1 == argc) throw std::invalid_argument(word + " of what? " + kUsage);
      return argv[++i];
    };
    if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word == "--serve") {
      options.serve = true;
    } else if (word == "--list") {
      options.list = true;
    } else if (word == "--contract") {
      options.contract = true;
    } else if (word == "--only") {
      options.only = regex(next());
    } else if (word == "--threads") {
      options.threads = number(word, next(), 1, 1024);
    } else if (word == "--seconds") {
      options.seconds = number(word, next(), 1e-6, 1e6);
    } else {
      throw std::invalid_argument(word + ": no such option: " + kUsage);
    }
  }
}

}  // namespace

Output make_output(const char* dtype, const void* data, std::size_t bytes) {
  const char* first = static_cast<const char*>(data);
  return {dtype, std::vector<char>(first, first + bytes)};
}

Register::Register(std::string id, std::string unit, std::function<Case()> make) {
  workloads().push_back({std::move(id), std::move(unit), std::move(make), ""});
}
NotYet::NotYet(std::string id, std::string unit, std::string why) {
  workloads().push_back({std::move(id), std::move(unit), nullptr, std::move(why)});
}

std::vector<double> uniform(unsigned seed, std::size_t n) {
  std::mt19937 g(seed);
  std::vector<double> out(n);
  for (double& x : out) {
    const double high = g() >> 5, low = g() >> 6;
    x = (high * 67108864.0 + low) / 9007199254740992.0;
  }
  return out;
}
std::vector<double> centred(unsigned seed, std::size_t n) {
  std::vector<double> out = uniform(seed, n);
  for (double& x : out) x = (x - .5) * std::sqrt(12.0);
  return out;
}
std::vector<float> to_floats(std::span<const double> x) { return {x.begin(), x.end()}; }
std::vector<std::int32_t> indices(unsigned seed, std::size_t n, int k) {
  std::vector<std::int32_t> out;
  for (const double x : uniform(seed, n)) out.push_back(static_cast<std::int32_t>(x * k));
  return out;
}
std::vector<std::complex<float>> complex_numbers(unsigned seed, std::size_t n) {
  const std::vector<float> real = to_floats(uniform(seed, n)),
                           imaginary = to_floats(uniform(seed + 1, n));
  std::vector<std::complex<float>> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = {real[i], imaginary[i]};
  return out;
}
std::vector<std::int32_t> scattered(std::int64_t n) {
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(static_cast<std::int32_t>(i * 7919 % n));
  return out;
}

int threads() { return options.threads; }
bool contract() { return options.contract; }

int run(int argc, char** argv, const std::string& contender, const std::function<void()>& start,
        const std::function<void()>& forget) {
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  try {
    read_options(argc, argv);
  } catch (const std::invalid_argument& e) {
    return refuse(fmt::format("{}: {}", program, e.what()));
  }
  if (options.help) {
    fmt::print("{} {}\n{}", program, kUsage, kHelp);
    return 0;
  }
  forget_workload = forget;
  // Of several files, in no order of the linker's.
  std::sort(workloads().begin(), workloads().end(),
            [](const Workload& a, const Workload& b) { return a.id < b.id; });
  start();
  return options.serve ? serve() : print_table(contender);
}

}  // namespace bench
