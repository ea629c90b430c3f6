// telamon show: the jaxpr of a program, before and after passes, and its native code.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string_view>

#include "commands.hpp"
#include "core/counted.hpp"
#include "core/environment.hpp"
#include "program_file.hpp"
#include "runtime/backend.hpp"
#include "runtime/target_isa.hpp"

namespace telamon_tool {
namespace {

namespace tl = telamon;

struct Options {
  ProgramChoice programs;
  std::string pass, isa;
  bool ir = false, assembly = false, plan = false, timings = false, cost = false;
  JitChoices jit;
};

std::string pass_names(const tl::ExecutableInfo& info) {
  std::string names;
  for (const tl::PassTime& pass : info.passes)
    names += (names.empty() ? "; its passes are " : ", ") + pass.name;
  return names;
}

bool has_pass(const tl::ExecutableInfo& info, std::string_view name) {
  return std::any_of(info.passes.begin(), info.passes.end(),
                     [&](const tl::PassTime& p) { return p.name == name; });
}

// Why there is nothing to see of an optimisation that there is; empty where there is no such.
std::string why_not_run(const tl::runtime::Executable& executable, std::string_view name) {
  if (std::string why = executable.why_not_run(name); !why.empty()) return why;
  const auto words = tl::detail::environment_words("TELAMON_DISABLE");
  if (std::find(words.begin(), words.end(), name) == words.end()) return {};
  if (tl::detail::environment_lists("TELAMON_DISABLE", name))
    return "TELAMON_DISABLE leaves it out";
  return "it is no pass of its own, but part of others; --plan, --ir and --asm show what it does";
}

// The program before the pass; empty where the pass is the first, or works on something else.
std::string before_pass(const tl::runtime::Executable& executable, std::string_view name) {
  std::string before;
  for (const tl::PassTime& pass : executable.info().passes) {
    if (pass.name == "fuse") break;
    if (pass.name == name) return before;
    before = executable.text(pass.name);
  }
  return {};
}

void print_stage(const tl::runtime::Executable& executable, const std::string& stage) {
  const tl::ExecutableInfo& info = executable.info();
  if (!info.passes.empty() && !has_pass(info, stage)) {
    if (const std::string why = why_not_run(executable, stage); !why.empty())
      throw tl::ValueError("'" + stage + "' did not run: " + why + pass_names(info));
  }
  const std::string text = executable.text(stage);
  if (text.empty()) {
    throw tl::ValueError("the backend " + executable.info().backend + " has no '" + stage +
                         "' to show" + pass_names(executable.info()));
  }
  if (text == before_pass(executable, stage))
    std::cerr << "(" << stage << " leaves this program as it was)\n";
  std::cout << text << '\n';
}

// A backend without passes has nothing to show of them, nor of code.
void check_has_passes(const tl::runtime::Executable& executable, const char* option) {
  if (!executable.info().passes.empty()) return;
  throw tl::ValueError("the backend " + executable.info().backend + " has no passes for " + option +
                       " to show");
}

// The program after each pass that changed it; the names of those that did not.
void print_passes(const tl::runtime::Executable& executable) {
  check_has_passes(executable, "--pass all");
  std::string before;
  for (const tl::PassTime& pass : executable.info().passes) {
    if (pass.name == "emit") break;  // what follows is no program, nor a plan of one
    const std::string text = executable.text(pass.name);
    if (text == before) std::cout << "== " << pass.name << ": the same\n";
    else std::cout << "== " << pass.name << '\n' << text << '\n';
    before = text;
  }
}

void print_timings(const tl::runtime::Executable& executable) {
  check_has_passes(executable, "--timings");
  const tl::ExecutableInfo& info = executable.info();
  for (const tl::PassTime& pass : info.passes)
    std::printf("%-20s %10.1f us\n", pass.name.c_str(), pass.microseconds);
  std::printf("%-20s %10.1f us, %s\n", "all", info.microseconds(),
              tl::detail::counted(info.kernels, "kernel").c_str());
}

bool compiles(const Options& o) {
  return !o.pass.empty() || o.ir || o.assembly || o.plan || o.timings || o.cost;
}

int show(const ProgramFile& file, const Options& o) {
  const Function f = apply_transforms(file.program, o.programs.transform);
  const Arrays examples = example_inputs(file, o.programs.transform, o.programs.batch);
  const tl::ClosedJaxpr traced = tl::make_jaxpr(f)(examples);
  const std::string name = display_name(file.program.name(), o.programs.transform);
  if (o.programs.all) std::cout << name << ":\n";
  if (!compiles(o)) {
    std::cout << traced << '\n';
    return 0;
  }
  const std::vector<bool> donated =
      donated_inputs(o.jit.donate, examples.size(), traced.consts.size());
  tl::runtime::CompileOptions options{
      .contract = o.jit.contract, .name = name, .disabled = {}, .keep_programs = true};
  if (!donated.empty()) options.donated = donated;
  const auto executable = tl::runtime::find_backend().compile(traced.jaxpr, options);
  if (o.pass == "all") print_passes(*executable);
  else if (!o.pass.empty()) print_stage(*executable, o.pass);
  if (o.plan) print_stage(*executable, "plan");
  if (o.ir) print_stage(*executable, "ir");
  if (o.assembly) print_stage(*executable, "asm");
  if (o.timings) print_timings(*executable);
  if (o.cost) std::cout << executable->cost_analysis() << executable->memory_analysis(donated);
  return 0;
}

int show(const Options& o) {
  if (const char* option = o.jit.contract          ? "--contract"
                           : !o.jit.donate.empty() ? "--donate"
                           : !o.isa.empty()        ? "--isa"
                                                   : nullptr;
      option != nullptr && !compiles(o))
    throw tl::ValueError(std::string(option) +
                         " says how to compile: it goes with --pass, --plan, --cost, --ir, --asm "
                         "and --timings");
  for (int isa = 0; isa < tl::runtime::kNumIsas; ++isa) {
    if (tl::runtime::isa_name(static_cast<tl::runtime::Isa>(isa)) == o.isa)
      tl::runtime::generate_for(static_cast<tl::runtime::Isa>(isa));
  }
  return for_each_program(o.programs, [&](const ProgramFile& file) { return show(file, o); });
}

}  // namespace

void add_show(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("show", "print the jaxpr of a program, after a pass, or its native code");
  add_program_options(*command, options->programs);
  add_jit_options(*command, options->jit);
  command
      ->add_option("--pass", options->pass,
                   "the program after this pass, which --timings names; all: after every pass")
      ->check(CLI::Validator(
          [](const std::string& pass) {
            return std::string(pass.empty() ? "no pass is named" : "");
          },
          ""));
  command->add_flag("--plan", options->plan, "the kernels and calls, and where values lie");
  command->add_flag("--cost", options->cost, "the arithmetic and the memory of one run");
  command->add_flag("--ir", options->ir, "the LLVM IR");
  command->add_flag("--asm", options->assembly, "the assembly");
#if defined(__x86_64__)
  command
      ->add_option("--isa", options->isa,
                   "code for generic, avx2 or avx512, whatever this processor has")
      ->check(CLI::IsMember({"generic", "avx2", "avx512"}));
#endif
  command->add_flag("--timings", options->timings, "microseconds of each pass");
  command->callback([options, &code] { code = show(*options); });
}

}  // namespace telamon_tool
