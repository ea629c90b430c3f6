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

}  // namespace telamon_tool
