// The interpret backend: evaluates the jaxpr with the eager kernels. It is the reference that
// compiled code is compared with, and all there is in a build without LLVM.
#include <chrono>
#include <utility>

#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "runtime/backend.hpp"
#include "runtime/history.hpp"
#include "runtime/work.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

class InterpretedProgram final : public Executable {
 public:
  InterpretedProgram(Jaxpr jaxpr, const CompileOptions& options)
      : Executable(static_cast<std::size_t>(jaxpr.num_outputs())), jaxpr_(std::move(jaxpr)) {
    info_.name = options.name;
    info_.backend = "interpret";
    record_executable(info_);
  }

  void execute_into(std::span<const Array> inputs, const std::vector<bool>&,
                    std::span<Array> outputs, const char*) const override {
    count(call_counters().executions);
    const detail::EvalScope scope;
    const Arrays results = eval_jaxpr(jaxpr_, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = detail::contiguous(results[i]);
  }

  std::string text(std::string_view stage) const override {
    return stage == "jaxpr" ? jaxpr_.to_string() : std::string();
  }

  CostAnalysis cost_analysis() const override {
    Work work = count_work(jaxpr_);
    return {work.flops, work.transcendentals, work.bytes, 0, 0, std::move(work.unknown)};
  }
  MemoryAnalysis memory_analysis(const std::vector<bool>&) const override {
    MemoryAnalysis memory;
    for (int i = 0; i < jaxpr_.num_inputs(); ++i)
      memory.arguments += detail::checked_bytes(jaxpr_.avals()[static_cast<std::size_t>(i)]);
    for (const Aval& a : jaxpr_.out_avals()) memory.results += detail::checked_bytes(a);
    memory.unknown.emplace_back(
        "the interpreter makes intermediate values as it goes: arena, scratch and peak leave them "
        "out");
    return memory;
  }

 private:
  Jaxpr jaxpr_;
};

class InterpretBackend final : public Backend {
 public:
  std::string_view name() const override { return "interpret"; }
  std::string description() const override { return "the eager kernels"; }
  std::shared_ptr<const Executable> compile(const Jaxpr& jaxpr,
                                            const CompileOptions& options) const override {
    count(live_counters().lowerings);
    return std::make_shared<InterpretedProgram>(jaxpr, options);
  }
};

}  // namespace

const Backend& interpret_backend() {
  static const auto* backend = new InterpretBackend;
  return *backend;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
