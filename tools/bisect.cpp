// telamon bisect: the first pass or the optimisation after which a program computes something else.
#include <chrono>
#include <iostream>
#include <optional>
#include <span>
#include <string_view>

#include "commands.hpp"
#include "compiler/bisect.hpp"
#include "program_file.hpp"

namespace telamon_tool {
namespace {

namespace tl = telamon;
using tl::compiler::Finding;

struct Options {
  ProgramChoice programs;
  std::string input;
  std::optional<double> rtol;
  std::int64_t limit = 60;
  JitChoices jit;
};

// What bare programs are tried with. An element of an input is made from its wave: sin(element + 5 input),
// a number in [-1, 1] unlike all others.
struct Values {
  std::string_view name;
  Array (*number)(const Array& wave);   // of inputs of floating-point numbers
  Array (*integer)(const Array& wave);  // of integers and booleans
};
Array ones(const Array& wave) { return tl::ones_like(wave); }
Array zeros(const Array& wave) { return tl::zeros_like(wave); }
constexpr Values kValues[] = {
    {"positive numbers", [](const Array& wave) { return 0.7 + 0.5 * wave; }, ones},
    {"others", [](const Array& wave) { return 1.1 + 0.9 * tl::sin(7.0 * wave); },
     [](const Array& wave) { return tl::floor(2.0 + 2.0 * wave); }},
    {"both signs", [](const Array& wave) { return 1.7 * wave; },
     [](const Array& wave) { return tl::round(3.0 * wave); }},
    {"zeros", zeros, zeros},
    {"negative numbers", [](const Array& wave) { return -0.7 - 0.5 * wave; },
     [](const Array& wave) { return tl::floor(-2.0 + wave); }},
    {"large numbers", [](const Array& wave) { return 3e4 * wave; },
     [](const Array& wave) { return tl::round(100.0 * wave); }},
    {"ties", [](const Array& wave) { return tl::round(1.4 * wave); },
     [](const Array& wave) { return tl::round(wave); }},
};

Array input_of(const Values& values, const tl::Aval& aval, std::size_t number) {
  const Array count = tl::arange(static_cast<double>(aval.size()), tl::DType::f64);
  const Array wave = tl::sin(count + 5.0 * static_cast<double>(number));
  const bool unsigned_words = tl::is_unsigned_integer(aval.dtype);
  const Array chosen = (tl::is_inexact(aval.dtype) ? values.number : values.integer)(wave);
  return (unsigned_words ? tl::abs(chosen) : chosen).astype(aval.dtype).reshape(aval.shape);
}

Arrays inputs_of(const Values& values, const Arrays& examples) {
  Arrays inputs;
  for (const Array& x : examples) {
    try {
      inputs.push_back(input_of(values, x.aval(), inputs.size()));
    } catch (const tl::OutOfMemoryError&) {
      throw tl::OutOfMemoryError("there is not enough memory to make values for input " +
                                 std::to_string(inputs.size()) + ", " + x.aval().to_string());
    }
  }
  return inputs;
}

// A loop goes on until its values say so, and might never with zeros, say.
bool may_run_for_ever(const tl::Jaxpr& jaxpr) {
  return jaxpr.to_string().find("= while [") != std::string::npos;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void print(const std::string& name, std::string_view inputs, const Finding& f) {
  std::cout << name << ": ";
  if (f.kind != Finding::Kind::agrees && !inputs.empty()) std::cout << "with " << inputs << ", ";
  switch (f.kind) {
    case Finding::Kind::agrees: std::cout << "compiled and interpreted results agree\n"; return;
    case Finding::Kind::interpreter:
      std::cout << "there is nothing to compare with: interpreted, " << f.difference << '\n';
      return;
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
    case Finding::Kind::contraction:
      std::cout << "right without --contract: a * b + c as one operation is rounded once, not "
                   "twice\n  "
                << f.difference << '\n';
      return;
    case Finding::Kind::generation:
      std::cout << "wrong with every optimisation switched off: planning or code generation\n  "
                << f.difference << '\n';
  }
}

#if TELAMON_WITH_LLVM
Finding bisect_with(const tl::ClosedJaxpr& traced, const std::string& name, const Arrays& inputs,
                    const Options& o) {
  Arrays all = traced.consts;
  all.insert(all.end(), inputs.begin(), inputs.end());
  return tl::compiler::bisect(
      traced.jaxpr, all,
      {.contract = o.jit.contract,
       .donated = donated_inputs(o.jit.donate, inputs.size(), traced.consts.size()),
       .name = name,
       .runs = tl::compiler::BisectOptions::Runs::in_children,
       .limit = std::chrono::seconds(o.limit),
       .rtol = o.rtol});
}
#else
Finding bisect_with(const tl::ClosedJaxpr&, const std::string&, const Arrays&, const Options&) {
  throw tl::NotImplementedError(
      "bisect: this build is without the compiler whose passes it looks through");
}
#endif

struct Tried {
  std::string_view inputs;
  Finding finding;
};

// One kind of values after the other, until one shows a fault. Contraction is none: it was asked for.
Tried try_values(const tl::ClosedJaxpr& traced, const std::string& name, const Arrays& examples,
                 const Options& o) {
  const std::span<const Values> all = kValues;
  const auto tried = may_run_for_ever(traced.jaxpr) ? all.first(1) : all;
  Tried contraction;
  for (const Values& values : tried) {
    try {
      Finding finding = bisect_with(traced, std::string(values.name) + ": " + name,
                                    inputs_of(values, examples), o);
      if (finding.kind == Finding::Kind::agrees) continue;
      if (finding.kind != Finding::Kind::contraction) return {values.name, std::move(finding)};
      if (contraction.inputs.empty()) contraction = {values.name, std::move(finding)};
    } catch (const tl::OutOfMemoryError&) { throw; } catch (const tl::compiler::DumpError&) {
      throw;
    } catch (const tl::Error&) {
      // A program may refuse values, with a check; the first ones are to work.
      if (&values == all.data()) throw;
    }
  }
  return contraction;
}

int bisect(const ProgramFile& file, const Options& o) {
  const Function f = apply_transforms(file.program, o.programs.transform);
  const bool given = !o.input.empty() || file.inputs.has_value();
  const Arrays examples = o.input.empty()
                              ? example_inputs(file, o.programs.transform, o.programs.batch)
                              : load_inputs(o.input, file.program, o.programs.transform);
  const tl::ClosedJaxpr traced = tl::make_jaxpr(f)(examples);
  const std::string name = display_name(file.program.name(), o.programs.transform);
  const Tried tried = given ? Tried{"", bisect_with(traced, name, examples, o)}
                            : try_values(traced, name, examples, o);
  print(name, tried.inputs, tried.finding);
  return tried.finding.kind == Finding::Kind::agrees ? 0 : 1;
}

}  // namespace

void add_bisect(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "bisect", "find the pass or optimisation that changes what a program computes");
  command->footer(
      "What differs with --contract is compiled without it too. Where it is right then, "
      "contraction is the cause,\nand no pass to blame.");
  add_program_options(*command, options->programs);
  add_jit_options(*command, options->jit);
  command->add_option("--input", options->input, "comma-separated .npy files, one per input");
  command
      ->add_option("--rtol", options->rtol,
                   "how far results may be apart, relative to the number plus the largest of its "
                   "array; with 0 all is to be the same, down to the signs of zeros; by default it "
                   "depends on the narrowest dtype")
      ->check(finite("finite number", "NUMBER"));
  command
      ->add_option("--limit", options->limit,
                   "how many seconds a pass, an interpretation, code generation or a run may take: "
                   "what takes longer counts as a crash")
      ->check(count())
      ->capture_default_str();
  command->callback([options, &code] {
    code = for_each_program(options->programs,
                            [&](const ProgramFile& file) { return bisect(file, *options); });
  });
}

}  // namespace telamon_tool
