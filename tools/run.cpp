// telamon run: evaluates a program on file, transformed as asked.
#include <iostream>

#include "commands.hpp"
#include "program_file.hpp"

namespace telamon_tool {
namespace {

struct Options {
  std::string file, input, transform, name;
  std::int64_t batch = 3;
};

Arrays inputs_of(const ProgramFile& file, const Options& o) {
  if (!o.input.empty()) return load_inputs(o.input, file.program, o.transform);
  if (!file.inputs && !file.program.in_avals().empty()) {
    throw telamon::ValueError("the program '" + file.program.name() +
                              "' needs inputs, and its file has none; give them by --input "
                              "a.npy,b.npy,...: " +
                              inputs_text(file.program));
  }
  return example_inputs(file, o.transform, o.batch);
}

int run(const Options& o) {
  for (const ProgramFile& file : load_programs(o.file, o.name, false)) {
    const Function f =
        apply_transforms([&](const Arrays& x) { return file.program(x); }, o.transform);
    for (const Array& y : f(inputs_of(file, o)))
      std::cout << y.aval().to_string() << '\n' << y << '\n';
  }
  return 0;
}

}  // namespace

void add_run(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "evaluate a program on file");
  add_program_option(*command, options->file);
  add_input_option(*command, options->input);
  add_batch_option(*command, options->batch);
  command->add_option("--transform", options->transform,
                      "comma-separated, outermost first: jit,vmap,grad,jvp,vjp");
  command->add_option("--case", options->name, "the case of that name");
  command->callback([options, &code] { code = run(*options); });
}

}  // namespace telamon_tool
