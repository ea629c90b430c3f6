// Running native code.
#include "compiler/executable.hpp"

#include <algorithm>
#include <memory>

#include "compiler/compile.hpp"
#include "compiler/emit.hpp"
#include "compiler/native_call.hpp"
#include "compiler/native_image.hpp"
#include "runtime/allocator.hpp"
#include "runtime/history.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// Room for addresses, on the stack unless there are many.
class Addresses {
 public:
  explicit Addresses(std::size_t n) {
    if (n <= std::size(inline_)) return;
    heap_ = std::make_unique_for_overwrite<void*[]>(n);
    data_ = heap_.get();
  }
  void** data() { return data_; }

 private:
  void* inline_[48];
  std::unique_ptr<void*[]> heap_;
  void** data_ = inline_;
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
      results_(parts_.out_avals.begin(), parts_.out_avals.end()),
      entry_(reinterpret_cast<EntryFunction>(parts_.code->entry())) {
  parts_.out_avals.clear();
  for (const Array& c : parts_.consts) const_data_.push_back(detail::dense_data(c));
  info_ = parts_.info;
  if (!parts_.options.profile) return;
  labels_ = with_plan([&](const Parts& parts) { return step_labels(*parts.plan, info_.name); });
  run_label_ = runtime::profile_label("run", info_.name);
}

// The memory of a result: that of a donated argument which the plan lets it take over and no other
// result has taken, or new. New memory comes first: where there is none, nothing is donated yet.
void NativeExecutable::make_results(std::span<const Array> inputs, const std::vector<bool>& donated,
                                    const char* call, std::span<Array> outputs,
                                    void** addresses) const {
  const auto num_consts = static_cast<int>(parts_.consts.size());
  std::vector<detail::DeviceBuffer*> over(outputs.size(), nullptr);
  const auto can_take = [&](int argument, std::size_t o) -> detail::DeviceBuffer* {
    const int i = argument - num_consts;
    if (i < 0 || !donated[static_cast<std::size_t>(i)]) return nullptr;
    auto& buffer = detail::concrete_node(inputs[static_cast<std::size_t>(i)]).buffer();
    const bool is_free = !buffer.donated() && buffer.bytes() == results_[o].bytes() &&
                         std::find(over.begin(), over.end(), &buffer) == over.end();
    return is_free ? &buffer : nullptr;
  };
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    for (const int argument : parts_.launch.reusable[o]) {
      if (over[o] == nullptr) over[o] = can_take(argument, o);
    }
    if (over[o] == nullptr) outputs[o] = results_[o].make_uninitialized();
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (over[o] != nullptr) {
      outputs[o] = over[o]->donate_into(results_[o].aval(), call);
      runtime::count(runtime::live_counters().donations);
    }
    addresses[o] = detail::dense_data(outputs[o]);
  }
}

void NativeExecutable::execute_into(std::span<const Array> inputs, const std::vector<bool>& donated,
                                    std::span<Array> outputs, const char* call) const {
  runtime::count(runtime::call_counters().executions);
  const std::size_t num_consts = const_data_.size(), num_args = num_consts + inputs.size();
  Addresses addresses(num_args + outputs.size());
  void** const args = addresses.data();
  void** const results = args + num_args;
  std::copy(const_data_.begin(), const_data_.end(), args);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    args[num_consts + i] = detail::dense_data(inputs[i]);
  if (donated.empty()) [[likely]]
    detail::DenseType::make_uninitialized(results_, outputs, results);
  else make_results(inputs, donated, call, outputs, results);

  const ArenaMemory arena(parts_.launch.arena_bytes);
  HostState host;
  host.steps = &parts_.launch.host_steps;
  host.labels = &labels_;
  const runtime::ProfileSpan span(run_label_);
  Context context{nullptr, nullptr, arena.data(), nullptr, &host};
  if (call_native(entry_, &context, args, results) != 0) {
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
  // The later passes have no jaxpr: each shows what it made.
  if (stage == "fuse") return parts.plan->fused_text();
  if (stage == "buffers") return parts.plan->memory_text();
  if (stage == "plan" || stage == "tiles") return parts.plan->to_string();
  const bool ir = stage == "ir" || stage == "emit", assembly = stage == "asm" || stage == "codegen";
  if ((!ir && !assembly && stage != "link") || process_ends()) return {};
  CodeGen gen("telamon", {.contract = parts.options.contract});
  emit_program(gen, *parts.plan, "entry");
  if (ir) return gen.ir();
  if (assembly) return gen.assembly();
  CodeGen::Timing timing;
  return image_text(image_of(gen.image(timing)));
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
