// Running native code.
#include "compiler/executable/executable.hpp"

#include <algorithm>
#include <memory>

#include "compiler/compile.hpp"
#include "compiler/emit/emit.hpp"
#include "compiler/executable/native_call.hpp"
#include "compiler/executable/native_image.hpp"
#include "compiler/plan/updates.hpp"
#include "runtime/array_memory.hpp"
#include "runtime/history.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// Programs with so many arguments, constants and results at most, and so large an arena, take no memory. All
// that a call has on the stack is less than a page: processors believe that a load has to wait for a store
// which lies a multiple of 4096 bytes from it.
constexpr std::size_t kFewAddresses = 48;
constexpr std::int64_t kSmallArena = runtime::kGuardsArrays ? 64 : 2048;

class ArenaMemory {
 public:
  explicit ArenaMemory(std::size_t bytes)
      : bytes_(bytes),
        memory_(bytes == 0 ? nullptr : static_cast<std::byte*>(runtime::allocate_array(bytes))) {}
  ~ArenaMemory() { runtime::deallocate_array(memory_, bytes_); }
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;
  std::byte* data() const { return memory_; }

 private:
  std::size_t bytes_;
  std::byte* memory_;
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
// result has taken, or new. Where there is none, the arguments are given back.
void NativeExecutable::make_results(std::span<const Array> inputs, const std::vector<bool>& donated,
                                    const char* call, std::span<Array> outputs,
                                    void** addresses) const {
  const auto num_consts = static_cast<int>(parts_.consts.size());
  std::vector<detail::DeviceBuffer*> over(outputs.size(), nullptr);
  try {
    const std::size_t taken = hand_over(parts_.launch.reusable, [&](std::size_t o, int argument) {
      const int i = argument - num_consts;
      if (i < 0 || !donated[static_cast<std::size_t>(i)]) return false;
      auto& buffer = detail::concrete_node(inputs[static_cast<std::size_t>(i)]).buffer();
      if (buffer.donated() || buffer.bytes() != results_[o].bytes()) return false;
      outputs[o] = buffer.donate_into(results_[o].aval(), call);
      over[o] = &buffer;
      return true;
    });
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (over[o] == nullptr) outputs[o] = results_[o].make_uninitialized();
      addresses[o] = detail::dense_data(outputs[o]);
    }
    if (taken > 0)
      runtime::count(runtime::live_counters().donations, static_cast<std::int64_t>(taken));
  } catch (...) {
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (over[o] != nullptr) over[o]->take_back(outputs[o]);
    std::fill(outputs.begin(), outputs.end(), Array());
    throw;
  }
}

[[gnu::noinline]] void NativeExecutable::give_back(std::span<const Array> inputs,
                                                   std::span<Array> outputs,
                                                   void* const* addresses_of_inputs,
                                                   void* const* addresses_of_outputs,
                                                   std::int64_t failed) const {
  // One after the other, without a table: memory may be what has run out.
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    detail::DeviceBuffer& buffer = detail::concrete_node(inputs[i]).buffer();
    if (!buffer.donated()) continue;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (addresses_of_outputs[o] != addresses_of_inputs[i]) continue;
      if (failed < parts_.launch.written_after[o]) buffer.take_back(outputs[o]);
      else buffer.lose();
    }
  }
}

// `addresses` has room for count_addresses().
[[gnu::always_inline]] inline void NativeExecutable::run(std::span<const Array> inputs,
                                                         const std::vector<bool>& donated,
                                                         std::span<Array> outputs, const char* call,
                                                         void** addresses, std::byte* arena) const {
  void** next = addresses;
  for (void* const c : const_data_) *next++ = c;
  for (const Array& x : inputs) *next++ = detail::dense_data(x);
  void** const results = next;
  if (donated.empty()) [[likely]]
    detail::DenseType::make_uninitialized(results_, outputs, results);
  else make_results(inputs, donated, call, outputs, results);
  next += outputs.size();
  for (const InResult& place : parts_.launch.in_results)
    *next++ = static_cast<std::byte*>(results[place.result]) + place.offset;

  HostState host;
  host.steps = &parts_.launch.host_steps;
  host.labels = &labels_;
  Context context{nullptr, nullptr, arena, nullptr, &host};
  if (call_native(entry_, &context, addresses, results) != 0) [[unlikely]] {
    if (!donated.empty())
      give_back(inputs, outputs, addresses + const_data_.size(), results, host.failed);
    std::fill(outputs.begin(), outputs.end(), Array());
    std::rethrow_exception(host.error);
  }
}

void NativeExecutable::execute_into(std::span<const Array> inputs, const std::vector<bool>& donated,
                                    std::span<Array> outputs, const char* call) const try {
  runtime::count(runtime::call_counters().executions);
  const std::size_t num_addresses = count_addresses(inputs, outputs);
  if (num_addresses > kFewAddresses || parts_.launch.arena_bytes > kSmallArena || run_label_)
      [[unlikely]]
    return run_large(inputs, donated, outputs, call);
  void* addresses[kFewAddresses];
  alignas(64) std::byte arena[kSmallArena];
  run(inputs, donated, outputs, call, addresses, arena);
} catch (const detail::UnnamedOutOfMemoryError& e) { tell_largest(e); }

// Of programs that need little anyway the size says nothing, and where there is no memory for a text, no text does.
void NativeExecutable::tell_largest(const detail::UnnamedOutOfMemoryError& e) const {
  constexpr std::size_t kMuch = 1 << 20;
  auto bytes = static_cast<std::size_t>(parts_.launch.arena_bytes);
  for (const detail::DenseType& result : results_) bytes += result.bytes();
  if (bytes < kMuch) throw;
  std::string text;
  try {
    text = with_plan([](const Parts& parts) { return parts.plan->largest_text(); });
    if (!text.empty()) text = e.message() + "; the largest array that it makes is " + text;
  } catch (const std::exception&) { text.clear(); }
  if (text.empty()) throw;
  throw detail::UnnamedOutOfMemoryError(text);
}

[[gnu::noinline]] void NativeExecutable::run_large(std::span<const Array> inputs,
                                                   const std::vector<bool>& donated,
                                                   std::span<Array> outputs,
                                                   const char* call) const {
  const auto addresses = std::make_unique_for_overwrite<void*[]>(count_addresses(inputs, outputs));
  const ArenaMemory arena(static_cast<std::size_t>(parts_.launch.arena_bytes));
  const runtime::ProfileSpan span(run_label_);
  run(inputs, donated, outputs, call, addresses.get(), arena.data());
}

NativeExecutable::Parts NativeExecutable::planned() const {
  return plan_again(parts_.source, parts_.options);
}

std::string NativeExecutable::text(std::string_view stage) const {
  return with_plan([&](const Parts& parts) { return text_of(parts, stage); });
}

std::string NativeExecutable::why_not_run(std::string_view pass) const {
  for (const auto& [name, why] : parts_.not_run) {
    if (name == pass) return why;
  }
  return {};
}

std::string NativeExecutable::why_kept(std::size_t input) const {
  return with_plan([&](const Parts& parts) {
    return compiler::why_kept(*parts.plan, static_cast<int>(parts.consts.size() + input));
  });
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
  CodeGen gen("telamon", {.contract = parts.options.contract,
                          .share_kernels = parts.plan->emit.share_kernels,
                          .quick_segments = parts.plan->emit.quick_segments});
  emit_program(gen, *parts.plan, "entry");
  if (ir) return gen.ir();
  if (assembly) return gen.assembly();
  return image_text(image_of(gen.link(gen.objects())));
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
