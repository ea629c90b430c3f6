// telamon check: runs conformance cases in every mode they have data for.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>

#include "case.hpp"
#include "commands.hpp"
#include "text_lines.hpp"

namespace telamon_tool {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string only, modes, json_file;
  bool list_missing = false, isolate = false;
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
Outcome from_json(const Json& j) {
  const auto verdict = j.at("verdict").get<std::string>();
  const auto kind = verdict == "passed"   ? Verdict::Kind::passed
                    : verdict == "failed" ? Verdict::Kind::failed
                                          : Verdict::Kind::skipped;
  return {j.at("case"), j.at("mode"), {kind, j.at("reason")}};
}

std::vector<Mode> chosen_modes(const std::string& list) {
  if (list.empty()) return all_modes();
  std::vector<Mode> chosen;
  std::stringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    const std::size_t before = chosen.size();
    for (const Mode& m : all_modes()) {
      // A bare check name also chooses its jitted form, "eval" being the plain form of "jit".
      if (m.name == name || (m.check == name && name != "eval")) chosen.push_back(m);
    }
    if (chosen.size() == before)
      throw CLI::ValidationError("--modes", "unknown mode '" + name + "'");
  }
  return chosen;
}

std::vector<Outcome> run_case(const std::string& line, const std::vector<Mode>& modes) {
  std::vector<Outcome> outcomes;
  try {
    const Case test = parse_case(line);
    for (const Mode& mode : modes) {
      if (test.has(mode.check)) outcomes.push_back({test.name, mode.name, run_mode(test, mode)});
    }
  } catch (const std::exception& e) {
    outcomes.push_back({line.substr(0, 60),
                        "read",
                        {Verdict::Kind::failed, std::string("damaged case: ") + e.what()}});
  }
  return outcomes;
}

// The case in a child process, so that a crash is a failure of that case alone.
std::vector<Outcome> run_isolated(const std::string& line, const std::vector<Mode>& modes) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  std::cout.flush();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    close(ends[0]);
    Json list = Json::array();
    for (const Outcome& o : run_case(line, modes)) list.push_back(to_json(o));
    const std::string text = list.dump();
    std::size_t written = 0;
    while (written < text.size()) {
      const ssize_t n = write(ends[1], text.data() + written, text.size() - written);
      if (n <= 0) break;
      written += static_cast<std::size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  std::vector<Outcome> outcomes;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && Json::accept(text)) {
    for (const Json& j : Json::parse(text)) outcomes.push_back(from_json(j));
  } else {
    const std::string how = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                                : "exit " + std::to_string(WEXITSTATUS(status));
    outcomes.push_back(
        {parse_case(line).name, "process", {Verdict::Kind::failed, "the process died: " + how}});
  }
  return outcomes;
}

class Report {
 public:
  explicit Report(const Options& options) : options_(options) {
    if (!options.json_file.empty()) {
      json_.open(options.json_file);
      if (!json_) throw std::runtime_error("cannot write '" + options.json_file + "'");
    }
  }
  void add(const Outcome& o) {
    ++counts_[static_cast<int>(o.verdict.kind)];
    if (json_.is_open()) json_ << to_json(o).dump() << '\n';
    if (o.verdict.kind == Verdict::Kind::skipped) ++skipped_[o.verdict.reason];
    if (o.verdict.kind == Verdict::Kind::passed && !o.verdict.reason.empty())
      std::cout << "golden corrected: " << o.test << ' ' << o.mode << ": " << o.verdict.reason
                << '\n';
    if (o.verdict.kind == Verdict::Kind::failed && !options_.list_missing) {
      std::cout << "FAIL " << o.test << ' ' << o.mode << ": " << o.verdict.reason << '\n';
    }
  }
  int finish() const {
    for (const auto& [reason, count] : skipped_)
      std::cout << "skipped " << count << ": " << reason << '\n';
    if (!options_.list_missing || counts_[1]) {
      std::cout << counts_[0] << " passed, " << counts_[1] << " failed, " << counts_[2]
                << " skipped" << '\n';
    }
    return counts_[1] ? 1 : 0;
  }

 private:
  const Options& options_;
  std::ofstream json_;
  int counts_[3] = {0, 0, 0};
  std::map<std::string, int> skipped_;
};

int check(const Options& options) {
  const std::vector<Mode> modes = chosen_modes(options.modes);
  const std::regex only(options.only.empty() ? ".*" : options.only);
  Report report(options);
  for (const std::string& path : options.files) {
    for_each_line(path, [&](const std::string& line) {
      if (!options.only.empty()) {
        // The name comes first in a line; reading the whole case to drop it would be slow.
        static const std::regex name_of("\"name\":\\s*\"([^\"]*)\"");
        std::smatch match;
        if (std::regex_search(line, match, name_of) &&
            !std::regex_search(match[1].first, match[1].second, only))
          return;
      }
      for (const Outcome& o : options.isolate ? run_isolated(line, modes) : run_case(line, modes))
        report.add(o);
    });
  }
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
      "comma-separated: eval,jit,jvp,jit(jvp),vjp,jit(vjp),hvp,jit(hvp),vmap,jit(vmap)");
  command->add_option("--json", options->json_file,
                      "write every outcome to this file, one JSON object a line");
  command->add_flag("--list-missing", options->list_missing, "list only what is missing");
  command->add_flag("--isolate", options->isolate, "run each case in a process of its own");
  command->callback([options, &code] { code = check(*options); });
}

}  // namespace telamon_tool
