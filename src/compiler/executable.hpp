// An executable of native code: allocates results and the arena, and calls the entry point.
#pragma once

#include <memory>
#include <vector>

#include "compiler/plan.hpp"
#include "runtime/backend.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

class NativeExecutable final : public runtime::Executable {
 public:
  struct Parts {
    Jaxpr jaxpr;                                          ///< after the passes
    std::vector<std::pair<std::string, Jaxpr>> programs;  ///< after each, when they are kept
    std::vector<Aval> out_avals;  ///< before them: the passes do not tell weak from strong
    Arrays consts;                ///< its leading inputs
    std::unique_ptr<Plan> plan;
    std::shared_ptr<NativeCode> code;
    ExecutableInfo info;
    runtime::CompileOptions options;
  };
  explicit NativeExecutable(Parts parts);

  void execute(std::span<const Array> inputs, const std::vector<bool>& donated, Arrays& outputs,
               const char* call) const override;
  std::string text(std::string_view stage) const override;
  CostAnalysis cost_analysis() const override;
  MemoryAnalysis memory_analysis(const std::vector<bool>& donated) const override;

 private:
  Array result(int o, std::span<const Array> inputs, const std::vector<bool>& donated,
               const char* call) const;
  Parts parts_;
  std::vector<HostStep> host_steps_;
  std::vector<runtime::ProfileLabelPtr> labels_;  ///< of the steps, in code that marks them
  runtime::ProfileLabelPtr run_label_;
  std::vector<Aval> out_avals_;
  EntryFunction entry_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
