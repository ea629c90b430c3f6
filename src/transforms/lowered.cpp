// Lowered and Compiled: what is known of a jitted function for one signature.
#include "transforms/lowered.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <ostream>

#include "core/trace.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

Arrays known_constants(const ClosedJaxpr& program) {
  const bool traced = std::any_of(program.consts.begin(), program.consts.end(),
                                  [](const Array& c) { return c.is_tracer(); });
  return traced ? Arrays{} : program.consts;
}

const runtime::Executable& LoweredProgram::with_stages() const {
  const std::lock_guard lock(mutex_);
  if (!with_stages_) {
    const EvalScope scope;
    with_stages_ = runtime::find_backend(options.backend)
                       .compile(program.jaxpr, {.contract = options.contract,
                                                .name = executable().info().name,
                                                .disabled = {},
                                                .donated = donated,
                                                .captured = known_constants(program),
                                                .keep_programs = true});
  }
  return *with_stages_;
}

}  // namespace detail

Lowered::Lowered(std::shared_ptr<const detail::LoweredProgram> program)
    : program_(std::move(program)) {}
const ClosedJaxpr& Lowered::jaxpr() const { return program_->program; }
Compiled Lowered::compile() const {
  return detail::naming_lack_of_memory(program_->call, [&] {
    program_->executable();
    return Compiled(program_);
  });
}

Compiled::Compiled(std::shared_ptr<const detail::LoweredProgram> program)
    : program_(std::move(program)) {}
const ExecutableInfo& Compiled::info() const { return program_->executable().info(); }
CostAnalysis Compiled::cost_analysis() const {
  return detail::naming_lack_of_memory(program_->call,
                                       [&] { return program_->with_stages().cost_analysis(); });
}

// What the function captured belongs to the executable: its constants, not its arguments.
MemoryAnalysis Compiled::memory_analysis() const {
  MemoryAnalysis memory = detail::naming_lack_of_memory(
      program_->call, [&] { return program_->with_stages().memory_analysis(program_->donated); });
  std::int64_t captured = 0;
  for (const Array& c : program_->program.consts) captured += detail::checked_bytes(c.aval());
  memory.arguments -= captured;
  memory.constants += captured;
  return memory;
}

std::string Compiled::text(std::string_view stage) const {
  return detail::naming_lack_of_memory(program_->call, [&] {
    const runtime::Executable& executable = program_->with_stages();
    std::string text = executable.text(stage);
    if (!text.empty()) {
      if (text.back() != '\n') text += '\n';  // a program has none of its own
      return text;
    }
    std::string stages = "jaxpr";
    for (const PassTime& pass : executable.info().passes) stages += ", " + pass.name;
    if (executable.info().backend == "llvm") stages += ", plan, ir, asm";
    throw ValueError("Compiled::text: there is no stage '" + std::string(stage) + "' of " +
                     executable.info().name + "; its stages are " + stages);
  });
}

namespace {
std::string lines_of(const std::vector<std::string>& unknown) {
  std::map<std::string_view, int> times;
  for (const std::string& why : unknown) ++times[why];
  std::string text;
  for (const std::string& why : unknown) {
    const auto found = times.extract(why);
    if (found.empty()) continue;
    text += "not exact: " + why;
    text += found.mapped() == 1 ? "\n" : " (" + std::to_string(found.mapped()) + " times)\n";
  }
  return text;
}
// All digits of numbers that have been counted one by one.
std::string count_text(double number) {
  const bool exact = number == std::floor(number) && number < 0x1p53;
  return exact ? fmt::format("{:.0f}", number) : fmt::format("{:.6g}", number);
}
}  // namespace

std::string CostAnalysis::to_string() const {
  return fmt::format(
      "flops            {:>14}\ntranscendentals  {:>14}\nbytes accessed   {:>14}\n"
      "kernels          {:>14}\nlibrary calls    {:>14}\n{}",
      count_text(flops), count_text(transcendentals), count_text(bytes_accessed), kernels,
      library_calls, lines_of(unknown));
}
std::ostream& operator<<(std::ostream& os, const CostAnalysis& cost) {
  return os << cost.to_string();
}

std::string MemoryAnalysis::to_string() const {
  return fmt::format(
      "arguments  {:>14} bytes\nconstants  {:>14} bytes\nresults    {:>14} bytes\n"
      "arena      {:>14} bytes, of which {} are alive at one time at least\n"
      "scratch    {:>14} bytes that a library call takes for itself at most\n"
      "aliased    {:>14} bytes of results in donated arguments\npeak       {:>14} bytes\n{}",
      arguments, constants, results, arena, live_bound, scratch, aliased, peak(),
      lines_of(unknown));
}
std::ostream& operator<<(std::ostream& os, const MemoryAnalysis& memory) {
  return os << memory.to_string();
}

}  // namespace v1
}  // namespace telamon
