// An executable of native code: allocates results and the arena, and calls the entry point.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "compiler/executable/program_store.hpp"
#include "compiler/plan/plan.hpp"
#include "core/concrete.hpp"
#include "core/size_errors.hpp"
#include "runtime/backend.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Gives arguments to results, which list those that they may take over, as `take(result, argument)` allows.
/// Each result is asked for the one that is meant for it before any gets another's. How many were taken.
template <class Take>
std::size_t hand_over(const std::vector<std::vector<int>>& reusable, Take&& take) {
  std::vector<bool> done(reusable.size(), false);
  std::size_t taken = 0;
  for (const bool meant : {true, false}) {
    for (std::size_t o = 0; o < reusable.size(); ++o) {
      const std::size_t end =
          meant ? std::min<std::size_t>(reusable[o].size(), 1) : reusable[o].size();
      for (std::size_t i = meant ? 0 : 1; i < end && !done[o]; ++i)
        done[o] = take(o, reusable[o][i]);
    }
  }
  for (const bool d : done) taken += d ? 1 : 0;
  return taken;
}

class NativeExecutable final : public runtime::Executable {
 public:
  struct Parts {
    Jaxpr jaxpr;                                          ///< after the passes
    std::vector<std::pair<std::string, Jaxpr>> programs;  ///< after each, when they are kept
    std::vector<std::pair<std::string, std::string>>
        not_run;                  ///< passes, and why; when they are kept
    std::vector<Aval> out_avals;  ///< before them: the passes do not tell weak from strong
    Arrays consts;                ///< its leading inputs
    Launch launch;
    std::unique_ptr<Plan> plan;  ///< null where the disk cache had the program: made when asked for
    Jaxpr source;                ///< to make the plan from
    std::shared_ptr<NativeCode> code;
    ExecutableInfo info;
    runtime::CompileOptions options;
  };
  explicit NativeExecutable(Parts parts);

  void execute_into(std::span<const Array> inputs, const std::vector<bool>& donated,
                    std::span<Array> outputs, const char* call) const override;
  std::string text(std::string_view stage) const override;
  std::string why_not_run(std::string_view pass) const override;
  std::string why_kept(std::size_t input) const override;
  CostAnalysis cost_analysis() const override;
  MemoryAnalysis memory_analysis(const std::vector<bool>& donated) const override;

 private:
  /// Of constants, inputs and outputs, and of what lies in these before they are written.
  std::size_t count_addresses(std::span<const Array> inputs, std::span<Array> outputs) const {
    return const_data_.size() + inputs.size() + outputs.size() + parts_.launch.in_results.size();
  }
  void run(std::span<const Array> inputs, const std::vector<bool>& donated,
           std::span<Array> outputs, const char* call, void** addresses, std::byte* arena) const;
  void run_large(std::span<const Array> inputs, const std::vector<bool>& donated,
                 std::span<Array> outputs, const char* call) const;
  /// Throws the error that is being handled, with the largest array if that may matter.
  [[noreturn]] void tell_largest(const detail::UnnamedOutOfMemoryError& e) const;
  // After host step `failed` threw: donated arguments that nothing was written over by then are as before.
  void give_back(std::span<const Array> inputs, std::span<Array> outputs,
                 void* const* addresses_of_inputs, void* const* addresses_of_outputs,
                 std::int64_t failed) const;
  void make_results(std::span<const Array> inputs, const std::vector<bool>& donated,
                    const char* call, std::span<Array> outputs, void** addresses) const;
  Parts planned() const;  ///< the same once more, with a plan
  /// f of the parts with a plan.
  template <class F>
  auto with_plan(F&& f) const {
    return parts_.plan != nullptr ? f(parts_) : f(planned());
  }
  std::string text_of(const Parts& parts, std::string_view stage) const;
  CostAnalysis cost_of(const Parts& parts) const;
  std::int64_t live_bound_of(const Parts& parts) const;
  MemoryAnalysis memory_of(const Parts& parts, const std::vector<bool>& donated) const;

  Parts parts_;
  std::vector<runtime::ProfileLabelPtr> labels_;  ///< of the steps, in code that marks them
  runtime::ProfileLabelPtr run_label_;
  std::vector<void*> const_data_;  ///< only read
  std::vector<detail::DenseType> results_;
  EntryFunction entry_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
