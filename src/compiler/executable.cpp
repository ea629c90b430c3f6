// Running native code.
#include "compiler/executable.hpp"

#include <algorithm>

#include "compiler/compile.hpp"
#include "compiler/emit.hpp"
#include "compiler/native_call.hpp"
#include "core/concrete.hpp"
#include "runtime/allocator.hpp"
#include "runtime/history.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Addresses, on the stack unless there are many.
template <class T>
class Pointers {
 public:
  explicit Pointers(std::size_t n) {
    if (n > kInline) {
      heap_.resize(n);
      data_ = heap_.data();
    }
  }
  T* data() { return data_; }

 private:
  static constexpr std::size_t kInline = 32;
  T inline_[kInline];
  std::vector<T> heap_;
  T* data_ = inline_;
};

/// The arena, on the stack too where it is small.
class ArenaMemory {
 public:
  explicit ArenaMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    if (bytes_ > sizeof inline_) memory_ = static_cast<std::byte*>(runtime::allocate(bytes_));
  }
  ~ArenaMemory() {
    if (memory_ != inline_) runtime::deallocate(memory_, bytes_);
  }
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;
  std::byte* data() const { return memory_; }

 private:
  alignas(64) std::byte inline_[4096];
  std::size_t bytes_;
  std::byte* memory_ = inline_;
};

}  // namespace

NativeExecutable::NativeExecutable(Parts parts)
    : Executable(parts.out_avals.size(), !parts.launch.host_steps.empty()),
      parts_(std::move(parts)),
      out_avals_(std::move(parts_.out_avals)),
      entry_(reinterpret_cast<EntryFunction>(parts_.code->entry())) {
  for (const Aval& a : out_avals_)
    out_bytes_.push_back(static_cast<std::size_t>(detail::checked_bytes(a)));
  info_ = parts_.info;
  if (!parts_.options.profile) return;
  labels_ = with_plan([&](const Parts& parts) { return step_labels(*parts.plan, info_.name); });
  run_label_ = runtime::profile_label("run", info_.name);
}

// The memory of result o: that of a donated argument which the plan lets it take over and no other
// result has taken, or new.
Array NativeExecutable::result(int o, std::span<const Array> inputs,
                               const std::vector<bool>& donated, const char* call) const {
  const Aval& aval = out_avals_[static_cast<std::size_t>(o)];
  const std::size_t bytes = out_bytes_[static_cast<std::size_t>(o)];
  for (const int argument : parts_.launch.reusable[static_cast<std::size_t>(o)]) {
    const int i = argument - static_cast<int>(parts_.consts.size());
    if (i < 0 || !donated[static_cast<std::size_t>(i)]) continue;
    detail::DeviceBuffer& buffer =
        detail::concrete_node(inputs[static_cast<std::size_t>(i)]).buffer();
    if (buffer.donated() || buffer.bytes() != bytes) continue;
    runtime::count(runtime::live_counters().donations);
    return detail::with_aval(buffer.donate_into(inputs[static_cast<std::size_t>(i)], call), aval);
  }
  return detail::make_uninitialized(aval, bytes);
}

void NativeExecutable::execute_into(std::span<const Array> inputs, const std::vector<bool>& donated,
                                    std::span<Array> outputs, const char* call) const {
  runtime::count(runtime::call_counters().executions);
  const std::size_t num_consts = parts_.consts.size(), num_args = num_consts + inputs.size();
  Pointers<const void*> args(num_args);
  for (std::size_t i = 0; i < num_consts; ++i)
    args.data()[i] = detail::data_of<void>(parts_.consts[i]);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    args.data()[num_consts + i] = detail::known_concrete_node(inputs[i]).data();

  Pointers<void*> results(outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    outputs[o] = donated.empty() ? detail::make_uninitialized(out_avals_[o], out_bytes_[o])
                                 : result(static_cast<int>(o), inputs, donated, call);
    results.data()[o] = detail::known_concrete_node(outputs[o]).data();
  }

  const ArenaMemory arena(parts_.launch.arena_bytes);
  HostState host;
  host.steps = &parts_.launch.host_steps;
  host.labels = &labels_;
  const runtime::ProfileSpan span(run_label_);
  Context context{nullptr, nullptr, arena.data(), nullptr, &host};
  if (call_native(entry_, &context, args.data(), results.data()) != 0) {
    std::fill(outputs.begin(), outputs.end(), Array());
    std::rethrow_exception(host.error);
  }
}

NativeExecutable::Parts NativeExecutable::planned() const {
  return plan_again(parts_.source, parts_.options);
}

std::string NativeExecutable::text(std::string_view stage) const {
  return with_plan([&](const Parts& parts) { return text_of(parts, stage); });
}

std::string NativeExecutable::text_of(const Parts& parts, std::string_view stage) const {
  if (stage == "jaxpr") return parts.jaxpr.to_string();
  for (const auto& [pass, jaxpr] : parts.programs) {
    if (pass == stage) return jaxpr.to_string();
  }
  // The later passes have no jaxpr: what they work on, they change in place.
  if (stage == "plan" || stage == "fuse" || stage == "buffers") return parts.plan->to_string();
  const bool ir = stage == "ir" || stage == "emit";
  if (!ir && stage != "asm" && stage != "codegen" && stage != "link") return {};
  if (process_ends()) return {};
  CodeGen gen("telamon", {.contract = parts.options.contract});
  emit_program(gen, *parts.plan, "entry");
  return ir ? gen.ir() : gen.assembly();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
