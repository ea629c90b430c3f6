// The subcommands of `telamon`. Each adds its options to the command line and returns its exit code
// through `code` when it has run.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/counted.hpp"

namespace telamon_tool {

constexpr int kWrongUse = 2;  // of the command, or of a file; 1 is a case that fails
constexpr std::int64_t kDefaultBatch = 3;

void add_check(CLI::App& app, int& code);
void add_run(CLI::App& app, int& code);
void add_show(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_bisect(CLI::App& app, int& code);
void add_info(CLI::App& app, int& code);
void add_cache(CLI::App& app, int& code);

/// A whole number that is not less than `least`: `what` it is in an error, and its name in the list of options.
template <std::integral N> CLI::Validator whole_number(const char* what, const char* name,
                                                       N least) {
  const auto check = [what, least](const std::string& text) {
    N n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    const bool good = error == std::errc() && end == text.data() + text.size() && n >= least;
    return good ? std::string() : "'" + text + "' is no " + what;
  };
  return {check, name};
}
inline CLI::Validator count() {
  return whole_number("whole number of at least 1", "COUNT", std::int64_t{1});
}

/// A finite number that is not negative, in the words of an error.
inline CLI::Validator finite(const char* what, const char* name) {
  const auto check = [what](const std::string& text) {
    char* end = nullptr;
    const double s = std::strtod(text.c_str(), &end);
    const bool good = !text.empty() && *end == '\0' && std::isfinite(s) && s >= 0;
    return good ? std::string() : "'" + text + "' is no " + what + " from 0 on";
  };
  return {check, name};
}
inline CLI::Validator duration() { return finite("number of seconds", "SECONDS"); }

/// "812 bytes", "3.4 KiB", "512 MiB": in the largest unit of which there is one at least.
template <std::integral N>
std::string size_text(N bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB"};
  if (bytes < 1024) return telamon::detail::counted(bytes, "byte");
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  char text[40];
  std::snprintf(text, sizeof text, size < 10 && size != std::floor(size) ? "%.1f %s" : "%.0f %s",
                size, kUnits[unit]);
  return text;
}

/// FILE --transform grad --batch N --case NAME --all: the programs that a command is about.
struct ProgramChoice {
  std::string file, transform, name;
  std::optional<std::int64_t> batch;
  bool all = false;
};
inline void add_program_options(CLI::App& command, ProgramChoice& choice) {
  command
      .add_option("file", choice.file,
                  "a program: its text (.jaxpr), or a .json of jax_export.py; or cases: .jsonl, "
                  ".jsonl.gz, of which it is the first one without --case and --all")
      ->required()
      ->type_name("");
  command.add_option("--transform", choice.transform,
                     "comma-separated, outermost first: jit,vmap,grad,jvp,vjp");
  command
      .add_option("--batch", choice.batch,
                  "with vmap: how often inputs of the case are repeated along the new axis, by "
                  "default " +
                      std::to_string(kDefaultBatch))
      ->check(count());
  CLI::Option* name = command.add_option("--case", choice.name, "the case of that name");
  command
      .add_flag("--all", choice.all,
                "all cases of the file; those that do not work are named and skipped")
      ->excludes(name);
}

/// --input a.npy,b.npy, for load_inputs.
inline void add_input_option(CLI::App& command, std::string& npy_list) {
  command.add_option(
      "--input", npy_list,
      "comma-separated .npy files, one per input, instead of the inputs of the case; "
      "with vmap their leading axes count the examples");
}

/// The whole numbers of a list, "0,-1", for --donate.
inline std::vector<int> input_numbers(const std::string& list) {
  const CLI::Validator number =
      whole_number("number of an input", "", std::numeric_limits<int>::min());
  std::vector<int> numbers;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = list.find(',', begin);
    std::string word = list.substr(begin, end - begin);
    if (const std::string wrong = number(word); !wrong.empty())
      throw CLI::ValidationError("--donate", wrong);
    numbers.push_back(std::stoi(word));
  }
  return numbers;
}

/// --contract and --donate 0,1: how programs are compiled, as by the options of jit.
struct JitChoices {
  bool contract = false;
  std::vector<int> donate;
};
inline void add_jit_options(CLI::App& command, JitChoices& choices) {
  command.add_flag("--contract", choices.contract, "a * b + c may be compiled as one operation");
  command
      .add_option_function<std::vector<std::string>>(
          "--donate",
          [&choices](const std::vector<std::string>& lists) {
            for (const std::string& list : lists) {
              const std::vector<int> numbers = input_numbers(list);
              choices.donate.insert(choices.donate.end(), numbers.begin(), numbers.end());
            }
          },
          "comma-separated numbers of inputs whose memory results may take over; negative "
          "ones count from the end")
      ->allow_extra_args(false)  // the next word is the file
      ->type_name("NUMBERS");
}

}  // namespace telamon_tool
