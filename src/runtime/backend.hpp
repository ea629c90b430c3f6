// Backend: what turns a jaxpr into something that runs. `interpret` evaluates equation by equation
// with the eager kernels; `llvm` (src/compiler) makes native code. jit sees nothing else of either.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telamon/history.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/lowered.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

struct CompileOptions {
  bool contract = false;  ///< allow a*b+c to become one fused operation
  std::string name;       ///< of the jitted function, for logs and errors
  /// Passes and optimisations to leave out, by name ("simplify", "fuse", "parallel", ...), besides
  /// those that the environment variable TELAMON_DISABLE lists.
  std::set<std::string, std::less<>> disabled;
  /// Which inputs callers donate, if they say so: results take over the memory of no other. Those beyond the
  /// end are not donated.
  std::optional<std::vector<bool>> donated = {};
  /// The values of leading inputs, if they are the same at every call: what a function has captured. Calls pass them
  /// like others.
  Arrays captured = {};
  bool profile = false;  ///< tell begin and end of each step to profiles (runtime/profile.hpp)
  bool keep_programs = false;  ///< remember the program after every pass, for Executable::text
  /// Sees the program after each pass, and the constants that are its leading inputs; may change it.
  std::function<void(std::string_view pass, Jaxpr& program, const Arrays& consts)> after_pass = {};
};

/// A compiled program. Immutable: any number of threads may execute it at once.
class TELAMON_API Executable {
 public:
  virtual ~Executable();

  /// Runs the program. Inputs are concrete and dense and have the avals of the jaxpr's inputs.
  /// `donated[i]` (the vector may be empty) says that nobody reads input i any more: its memory may
  /// become a result, in which case its buffer is marked as donated to `call` (a string that lives
  /// forever). `outputs` is overwritten. What a host callback throws is rethrown.
  void execute(std::span<const Array> inputs, const std::vector<bool>& donated, Arrays& outputs,
               const char* call = "") const;
  /// The same into `num_outputs()` places, which are empty; so they are after an exception.
  virtual void execute_into(std::span<const Array> inputs, const std::vector<bool>& donated,
                            std::span<Array> outputs, const char* call = "") const = 0;
  std::size_t num_outputs() const { return num_outputs_; }
  /// Whether functions of the user's run in it: they may let go of an array that is an input.
  bool runs_user_code() const { return runs_user_code_; }

  const ExecutableInfo& info() const { return info_; }
  /// What became of the program on its way: "jaxpr" after the passes, "plan", "ir", "asm"; with
  /// keep_programs also what each pass of `info().passes` made, by its name. Empty when the backend
  /// has no such stage.
  virtual std::string text(std::string_view stage) const = 0;

  /// Why `text` has nothing to show of this pass: "the program has no scatters". Known with keep_programs;
  /// empty of passes that ran, and of what is no pass.
  virtual std::string why_not_run(std::string_view /*pass*/) const { return {}; }

  /// Why no result can lie where input i does, although results have its size and it may be donated: "it is reshaped
  /// before or after a part of it is overwritten". Empty where it is only known to be read after one is written.
  virtual std::string why_kept(std::size_t /*input*/) const { return {}; }

  /// What one run does and needs. `donated` as in execute.
  virtual CostAnalysis cost_analysis() const = 0;
  virtual MemoryAnalysis memory_analysis(const std::vector<bool>& donated) const = 0;

 protected:
  explicit Executable(std::size_t num_outputs, bool runs_user_code = true)
      : num_outputs_(num_outputs), runs_user_code_(runs_user_code) {}
  ExecutableInfo info_;

 private:
  const std::size_t num_outputs_;
  const bool runs_user_code_;
};

class TELAMON_API Backend {
 public:
  virtual ~Backend();
  virtual std::string_view name() const = 0;
  /// What it is made of and for which processor, for reports.
  virtual std::string description() const = 0;
  /// Runs no user code but `ops` and `Emitter` lowering rules. Recorded in the history.
  virtual std::shared_ptr<const Executable> compile(const Jaxpr& jaxpr,
                                                    const CompileOptions& options) const = 0;
};

/// The backend of that name: "interpret" or "llvm"; "" is the default, which the environment
/// variable TELAMON_BACKEND names, or else llvm where it is built in. ValueError on other names.
TELAMON_API const Backend& find_backend(std::string_view name = {});

const Backend& interpret_backend();

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
