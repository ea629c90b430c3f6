// The subcommands of `telamon`. Each adds its options to the command line and returns its exit code
// through `code` when it has run.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace telamon_tool {

void add_check(CLI::App& app, int& code);
void add_run(CLI::App& app, int& code);
void add_show(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_bisect(CLI::App& app, int& code);
void add_info(CLI::App& app, int& code);
void add_cache(CLI::App& app, int& code);

/// A whole number that is at least 1.
inline CLI::Validator count() {
  const auto check = [](const std::string& text) {
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    const bool good = error == std::errc() && end == text.data() + text.size() && n >= 1;
    return good ? std::string() : "'" + text + "' is no whole number of at least 1";
  };
  return {check, "COUNT"};
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

/// The positional FILE of the commands that load programs.
inline void add_program_option(CLI::App& command, std::string& file) {
  command
      .add_option("file", file,
                  "a program: its text (.jaxpr), or a .json of jax_export.py; or cases, of which "
                  "--case names one: .jsonl, .jsonl.gz")
      ->required()
      ->type_name("");
}

/// --batch N, for the inputs that the command makes itself.
inline void add_batch_option(CLI::App& command, std::int64_t& batch) {
  command
      .add_option("--batch", batch,
                  "with vmap: how often inputs of the case are repeated along the new axis")
      ->check(count())
      ->capture_default_str();
}

}  // namespace telamon_tool
