// telamon run: evaluates a program on file, transformed as asked.
#include <iostream>

#include "commands.hpp"
#include "program_file.hpp"

namespace telamon_tool {
namespace {

struct Options {
  ProgramChoice programs;
  std::string input;
};

Arrays inputs_of(const ProgramFile& file, const Options& o) {
  if (!o.input.empty()) return load_inputs(o.input, file.program, o.programs.transform);
  if (!file.inputs && !file.program.in_avals().empty()) {
    throw telamon::ValueError("the program '" + file.program.name() +
                              "' needs inputs, and its file has none; give them by --input "
                              "a.npy,b.npy,...: " +
                              inputs_text(file.program));
  }
  return example_inputs(file, o.programs.transform, o.programs.batch);
}

int run(const ProgramFile& file, const Options& o) {
  const Function f = apply_transforms(file.program, o.programs.transform);
  const Arrays results = f(inputs_of(file, o));
  if (o.programs.all) std::cout << display_name(file.program.name(), o.programs.transform) << ":\n";
  for (const Array& y : results) std::cout << y.aval().to_string() << '\n' << y << '\n';
  return 0;
}

}  // namespace

void add_run(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "evaluate a program on file");
  add_input_option(*command, options->input);
  add_program_options(*command, options->programs);
  command->callback([options, &code] {
    code = for_each_program(options->programs,
                            [&](const ProgramFile& file) { return run(file, *options); });
  });
}

}  // namespace telamon_tool
