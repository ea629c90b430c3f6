// The subcommands of `telamon`. Each adds its options to the command line and returns its exit code
// through `code` when it has run.
#pragma once

#include <CLI/CLI.hpp>

namespace telamon_tool {

void add_check(CLI::App& app, int& code);
void add_run(CLI::App& app, int& code);
void add_show(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_info(CLI::App& app, int& code);

/// --batch N, for the inputs that the command makes itself.
inline void add_batch_option(CLI::App& command, std::int64_t& batch) {
  command
      .add_option("--batch", batch,
                  "with vmap: how often inputs of the case are repeated along the new axis")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace telamon_tool
