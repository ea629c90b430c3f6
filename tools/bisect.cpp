// telamon bisect: the first pass or the optimisation after which a program computes something else.
#include <iostream>
#include <optional>

#include "commands.hpp"
#include "compiler/bisect.hpp"
#include "program_file.hpp"

namespace telamon_tool {
namespace {

namespace tl = telamon;
using tl::compiler::Finding;

struct Options {
  std::string file, transform, name, input;
  std::int64_t batch = 3;
  std::optional<double> rtol;
  bool all = false;
};

// For bare programs: numbers that are all different, since ones hide most mistakes.
Arrays varied_inputs(const ProgramFile& file, const Options& o) {
  if (!o.input.empty()) return load_inputs(o.input);
  Arrays inputs = example_inputs(file, o.transform, o.batch);
  if (file.inputs) return inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const tl::Aval aval = inputs[i].aval();
    if (!tl::is_float(aval.dtype)) continue;
    const Array count = tl::arange(static_cast<double>(aval.size()), tl::DType::f64);
    inputs[i] = (0.7 + 0.5 * tl::sin(count + static_cast<double>(i)))
                    .astype(aval.dtype)
                    .reshape(aval.shape);
  }
  return inputs;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void print(const std::string& name, const Finding& f) {
  std::cout << name << ": ";
  switch (f.kind) {
    case Finding::Kind::agrees: std::cout << "compiled and interpreted results agree\n"; return;
    case Finding::Kind::pass:
      std::cout << "the pass " << f.names.at(0) << " changes what the program computes\n  "
                << f.difference << "\nbefore it:\n"
                << f.before << "\nafter it:\n"
                << f.after << '\n';
      return;
    case Finding::Kind::optimisation:
      std::cout << "right without any of: " << listed(f.names) << "\n  " << f.difference << '\n';
      return;
    case Finding::Kind::combination:
      std::cout << "right only without all of: " << listed(f.names) << "\n  " << f.difference
                << '\n';
      return;
    case Finding::Kind::generation:
      std::cout << "wrong with every optimisation switched off: planning or code generation\n  "
                << f.difference << '\n';
  }
}

int bisect(const Options& o) {
  int code = 0;
  for (const ProgramFile& file : load_programs(o.file, o.name, o.all)) {
    const Function f =
        apply_transforms([&](const Arrays& x) { return file.program(x); }, o.transform);
    const Arrays inputs = varied_inputs(file, o);
    const tl::ClosedJaxpr traced = tl::make_jaxpr(f)(inputs);
    Arrays all = traced.consts;
    all.insert(all.end(), inputs.begin(), inputs.end());
    const Finding finding =
        tl::compiler::bisect(traced.jaxpr, all, {.rtol = o.rtol, .compile = {}});
    print(display_name(file.program.name(), o.transform), finding);
    if (finding.kind != Finding::Kind::agrees) code = 1;
  }
  return code;
}

}  // namespace

void add_bisect(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "bisect", "find the pass or optimisation that changes what a program computes");
  command
      ->add_option("file", options->file, "a .jaxpr, a .json of jax_export.py, a .jsonl of cases")
      ->required();
  command->add_option("--transform", options->transform,
                      "comma-separated, outermost first: jit,vmap,grad,jvp,vjp");
  add_batch_option(*command, options->batch);
  command->add_option("--case", options->name, "the case of that name");
  command->add_flag("--all", options->all, "all cases of the file");
  command->add_option("--input", options->input, "comma-separated .npy files, one per input");
  command
      ->add_option("--rtol", options->rtol,
                   "how far results may be apart, relatively; by default it depends on the dtype")
      ->check(CLI::NonNegativeNumber);
  command->callback([options, &code] { code = bisect(*options); });
}

}  // namespace telamon_tool
