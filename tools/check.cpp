// telamon check: runs conformance cases in every mode they have data for.
#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <regex>
#include <sstream>

#include "case.hpp"
#include "commands.hpp"
#include "core/child_process.hpp"
#include "text_lines.hpp"

namespace telamon_tool {
namespace {

constexpr const char* kModeNames = "eval,jit,jvp,jit(jvp),vjp,jit(vjp),hvp,jit(hvp),vmap,jit(vmap)";

struct Options {
  std::vector<std::string> files;
  std::string only, json_file;
  std::optional<std::string> modes;
  bool list_missing = false, isolate = false;
  std::optional<std::int64_t> limit;
};

struct Outcome {
  std::string test, mode;
  Verdict verdict;
};

Json to_json(const Outcome& o) {
  static const char* const names[] = {"passed", "failed", "skipped"};
  return {{"case", o.test},
          {"mode", o.mode},
          {"verdict", names[static_cast<int>(o.verdict.kind)]},
          {"reason", o.verdict.reason}};
}
// Reasons may quote bytes of damaged files that are no UTF-8.
std::string as_text(const Json& j) {
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}
Outcome from_json(const Json& j) {
  const auto verdict = j.at("verdict").get<std::string>();
  const auto kind = verdict == "passed"   ? Verdict::Kind::passed
                    : verdict == "failed" ? Verdict::Kind::failed
                                          : Verdict::Kind::skipped;
  return {j.at("case"), j.at("mode"), {kind, j.at("reason")}};
}

std::vector<Mode> chosen_modes(const std::optional<std::string>& list) {
  if (!list) return all_modes();
  std::vector<Mode> chosen;
  std::stringstream names(*list + ',');  // so that what comes after the last comma is a name, too
  for (std::string name; std::getline(names, name, ',');) {
    const std::size_t before = chosen.size();
    for (const Mode& m : all_modes()) {
      // A bare check name also chooses its jitted form, "eval" being the plain form of "jit".
      if (m.name == name || (m.check == name && name != "eval")) chosen.push_back(m);
    }
    if (chosen.size() == before)
      throw CLI::ValidationError("--modes", "unknown mode '" + name + "': use " + kModeNames);
  }
  return chosen;
}

/// A line of a file of cases.
struct Line {
  const std::string& text;
  const std::string& path;
  std::size_t number;
  std::string name() const { return path + ":" + std::to_string(number); }
};

std::vector<Outcome> run_case(const Line& line, const std::vector<Mode>& modes) {
  std::vector<Outcome> outcomes;
  try {
    const Case test = parse_case(line.text, line.path, line.number);
    for (const Mode& mode : modes) {
      if (test.has(mode.check)) outcomes.push_back({test.name, mode.name, run_mode(test, mode)});
    }
  } catch (const std::exception& e) {
    outcomes.push_back({line.name(), "read", {Verdict::Kind::failed, e.what()}});
  }
  return outcomes;
}

// The name of a case, which comes first in its line; reading the whole case for it would be slow.
std::string name_of(const Line& line) {
  constexpr std::size_t kLongest = 1000;
  const std::string key = "\"name\":";
  const auto at = line.text.find(key);
  if (at == std::string::npos) return line.name();
  const auto begin = line.text.find('"', at + key.size());
  const auto end = begin == std::string::npos ? begin : line.text.find('"', begin + 1);
  if (end == std::string::npos || end - begin > kLongest) return line.name();
  return line.text.substr(begin + 1, end - begin - 1);
}

// The case in a child process, so that a crash is a failure of that case alone.
std::vector<Outcome> run_isolated(const Line& line, const std::vector<Mode>& modes,
                                  std::optional<std::chrono::seconds> limit) {
  const auto child = telamon::detail::run_in_child(
      [&](const auto& tell) {
        Json list = Json::array();
        for (const Outcome& o : run_case(line, modes)) list.push_back(to_json(o));
        tell(as_text(list));
      },
      limit);
  std::vector<Outcome> outcomes;
  if (child.well() && Json::accept(child.told)) {
    for (const Json& j : Json::parse(child.told)) outcomes.push_back(from_json(j));
  } else {
    outcomes.push_back(
        {name_of(line), "process", {Verdict::Kind::failed, "the process " + child.end()}});
  }
  return outcomes;
}

class Report {
 public:
  explicit Report(const Options& options) : options_(options) {
    if (!options.json_file.empty()) {
      json_.open(options.json_file);
      if (!json_) refuse_file();
    }
  }
  void add(const Outcome& o) {
    ++counts_[static_cast<int>(o.verdict.kind)];
    if (json_.is_open()) json_ << as_text(to_json(o)) << '\n';
    if (o.verdict.kind == Verdict::Kind::skipped) ++skipped_[o.verdict.reason];
    if (o.verdict.kind == Verdict::Kind::passed && !o.verdict.reason.empty())
      std::cout << "golden corrected: " << o.test << ' ' << o.mode << ": " << o.verdict.reason
                << '\n';
    if (o.verdict.kind == Verdict::Kind::failed && !options_.list_missing) {
      std::cout << "FAIL " << o.test << ' ' << o.mode << ": " << o.verdict.reason << '\n';
    }
  }
  bool empty() const { return counts_[0] + counts_[1] + counts_[2] == 0; }
  int finish() {
    for (const auto& [reason, count] : skipped_)
      std::cout << "skipped " << count << ": " << reason << '\n';
    if (!options_.list_missing || counts_[1]) {
      std::cout << counts_[0] << " passed, " << counts_[1] << " failed, " << counts_[2]
                << " skipped" << '\n';
    }
    if (json_.is_open()) {
      json_.close();
      if (!json_) refuse_file();
    }
    return counts_[1] ? 1 : 0;
  }

 private:
  [[noreturn]] void refuse_file() const {
    throw std::runtime_error("cannot write '" + options_.json_file + "'");
  }

  const Options& options_;
  std::ofstream json_;
  int counts_[3] = {0, 0, 0};
  std::map<std::string, int> skipped_;
};

std::optional<std::regex> regex_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    return std::regex(text);
  } catch (const std::regex_error& e) {
    throw CLI::ValidationError("--only", "'" + text + "' is not a regular expression: " + e.what());
  }
}

// f of each line. A file of something else is one error, not one for each of its lines: what comes before the
// first JSON object waits for it.
void for_each_case_line(const std::string& path, const std::function<void(const Line&)>& f) {
  std::vector<std::pair<std::string, std::size_t>> waiting;
  bool has_object = false;
  for_each_line(path, [&](const std::string& text, std::size_t number) {
    if (!has_object) {
      has_object = Json::parse(text, nullptr, false).is_object();
      if (!has_object) {
        waiting.emplace_back(text, number);
        return;
      }
      for (const auto& [before, at] : waiting) f({before, path, at});
    }
    f({text, path, number});
  });
  if (has_object || waiting.empty()) return;
  try {
    parse_case(waiting[0].first, path, waiting[0].second);
  } catch (const telamon::Error& e) {
    throw std::runtime_error(
        "'" + path + "' is no file of cases, which has a JSON object in each line: " + e.message() +
        ". Programs (.jaxpr, .json) are for telamon run, show, bench and bisect");
  }
}

std::string listed(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& f : files) text += (text.empty() ? "'" : ", '") + f + "'";
  return text;
}

int check(const Options& options) {
  const std::vector<Mode> modes = chosen_modes(options.modes);
  const std::optional<std::regex> only = regex_of(options.only);
  std::optional<std::chrono::seconds> limit;
  if (options.limit) limit = std::chrono::seconds(*options.limit);
  Report report(options);
  std::size_t cases = 0;
  for (const std::string& path : options.files) {
    for_each_case_line(path, [&](const Line& line) {
      if (only && !std::regex_search(name_of(line), *only)) return;
      ++cases;
      for (const Outcome& o :
           options.isolate ? run_isolated(line, modes, limit) : run_case(line, modes))
        report.add(o);
    });
  }
  if (cases == 0) {
    throw std::runtime_error(only ? "no case has a name that matches --only '" + options.only + "'"
                                  : "there are no cases in " + listed(options.files));
  }
  if (report.empty())
    throw std::runtime_error("no case has data for the modes " +
                             options.modes.value_or(kModeNames));
  return report.finish();
}

}  // namespace

void add_check(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("check", "run conformance cases (.jsonl) against what JAX answers");
  command
      ->add_option("files", options->files,
                   "files of cases, one JSON object a line (.jsonl or .jsonl.gz)")
      ->required();
  command->add_option("--only", options->only,
                      "only cases whose name matches this regular expression");
  command->add_option(
      "--modes", options->modes,
      std::string("comma-separated: ") + kModeNames + "; jvp stands for jvp and jit(jvp), ...");
  command->add_option("--json", options->json_file,
                      "write every outcome to this file, one JSON object a line");
  command->add_flag("--list-missing", options->list_missing, "list only what is missing");
  CLI::Option* isolate =
      command->add_flag("--isolate", options->isolate, "run each case in a process of its own");
  command
      ->add_option("--limit", options->limit,
                   "with --isolate: how many seconds a case may take; one that takes longer fails")
      ->check(count())
      ->needs(isolate);
  command->callback([options, &code] { code = check(*options); });
}

}  // namespace telamon_tool
