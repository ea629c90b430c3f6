// Host functions as steps: `call` lowerings over buffer views, copies of many parts into one array, and eager
// kernels for what generated code cannot hold yet (complex numbers).
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>

#include "compiler/executable/native_call.hpp"
#include "compiler/executable/program_store.hpp"
#include "compiler/forms.hpp"
#include "compiler/plan/plan.hpp"
#include "core/concrete.hpp"
#include "core/integers.hpp"
#include "core/result_place.hpp"
#include "core/trace.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/thread_pool.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

namespace {

/// The types of an equation's operands and results, and the operands that are literals.
struct Signature {
  Avals in, out;
  Arrays literals;

  Signature(const Jaxpr& jaxpr, const Eqn& eqn)
      : in(detail::avals_of(jaxpr, eqn.inputs)), out(detail::avals_of(jaxpr, eqn.outputs)) {
    for (const Atom& a : eqn.inputs) literals.push_back(a.is_literal() ? a.literal() : Array());
  }
  /// The address of each operand, given those of the variables among them.
  std::vector<const void*> operands(std::span<const void* const> variables) const {
    std::vector<const void*> all;
    std::size_t next = 0;
    for (const Array& literal : literals) {
      all.push_back(literal.has_value() ? detail::data_of<void>(literal) : variables[next++]);
    }
    return all;
  }
};

/// Concatenation: the rows of one operand after the other go to their places in those of the result.
HostFunction join_function(const Signature& signature, std::int64_t dimension) {
  constexpr std::int64_t kMany = 1 << 20;  // bytes
  struct Part {
    std::size_t at, bytes;
  };
  const auto row_bytes = [&](const Aval& a) {
    auto bytes = static_cast<std::int64_t>(size_of(a.dtype));
    for (auto d = static_cast<std::size_t>(dimension); d < a.shape.size(); ++d)
      bytes = detail::wrapping_mul(bytes, a.shape[d]);
    return static_cast<std::size_t>(bytes);
  };
  std::vector<Part> parts;
  std::size_t row = 0;
  for (const Aval& a : signature.in) {
    parts.push_back({row, row_bytes(a)});
    row += parts.back().bytes;
  }
  const std::int64_t all = detail::checked_bytes(signature.out[0]);
  const std::size_t rows = row == 0 ? 0 : static_cast<std::size_t>(all) / row;
  return [signature, parts, row, rows, all](std::span<const void* const> in,
                                            std::span<void* const> out) {
    const auto addresses = signature.operands(in);
    const auto copy = [&](std::int64_t i) {
      const auto& [at, bytes] = parts[static_cast<std::size_t>(i)];
      if (bytes == 0) return;  // and no address, maybe
      const auto* from = static_cast<const char*>(addresses[static_cast<std::size_t>(i)]);
      char* to = static_cast<char*>(out[0]) + at;
      for (std::size_t r = 0; r < rows; ++r) std::memcpy(to + r * row, from + r * bytes, bytes);
    };
    const auto n = static_cast<std::int64_t>(parts.size());
    if (all >= kMany) return runtime::parallel_for(n, copy);
    for (std::int64_t i = 0; i < n; ++i) copy(i);
  };
}

}  // namespace

HostFunction host_function(const Jaxpr& jaxpr, const Eqn& eqn) {
  const Signature signature(jaxpr, eqn);
  if (eqn.primitive == &concatenate_p)
    return join_function(signature, eqn.params.as<ConcatenateParams>().dimension);
  if (const auto* call = eqn.primitive == &dot_general_p
                             ? nullptr
                             : std::get_if<Lowering::Call>(&lowering_of(*eqn.primitive).form)) {
    return [signature, f = call->f, params = eqn.params](std::span<const void* const> in,
                                                         std::span<void* const> out) {
      std::vector<BufferView> operands;
      std::vector<MutableBufferView> results;
      const auto addresses = signature.operands(in);
      for (std::size_t i = 0; i < addresses.size(); ++i) {
        operands.push_back({addresses[i], signature.in[i].dtype, signature.in[i].shape});
      }
      for (std::size_t i = 0; i < out.size(); ++i)
        results.push_back({out[i], signature.out[i].dtype, signature.out[i].shape});
      const detail::EvalScope scope;
      f(params, operands, results);
    };
  }
  if (!eqn.primitive->has_rule("impl")) detail::missing_rule(*eqn.primitive, "impl");
  // Rules of users may keep what they are given.
  const bool lends = is_own_operation(*eqn.primitive);
  return [signature, lends, primitive = eqn.primitive, params = eqn.params](
             std::span<const void* const> in, std::span<void* const> out) {
    const detail::EvalScope scope;
    Arrays operands;
    std::deque<detail::LentArray> lent;
    const auto addresses = signature.operands(in);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const Aval& aval = signature.in[i];
      operands.push_back(lends ? lent.emplace_back(aval.strong(), addresses[i]).array()
                               : Array::from_data(addresses[i], aval.dtype, aval.shape));
    }
    if (lends && out.size() == 1) {
      detail::ResultPlace place(signature.out[0], out[0]);
      return place.receive(primitive->rules().impl(params, operands).at(0));
    }
    const Arrays results = primitive->rules().impl(params, operands);
    for (std::size_t i = 0; i < out.size(); ++i) detail::copy_elements(results.at(i), out[i]);
  };
}

// ---- what generated code calls -------------------------------------------------------------------

int host_call(Context* context, std::int64_t step) noexcept {
  auto& state = *static_cast<HostState*>(context->host);
  if (state.stopped) return 1;
  try {
    const HostStep& s = (*state.steps)[static_cast<std::size_t>(step)];
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Location where : s.in) in.push_back(address_of(*context, where));
    for (const Location where : s.out) out.push_back(address_of(*context, where));
    s.function(in, out);
    return 0;
  } catch (...) {
    if (!state.failing.test_and_set()) {
      state.error = std::current_exception();
      state.failed = step;
      state.stopped = true;
    }
    return 1;
  }
}

void copy_array(void* const* buffers, const std::int64_t* numbers) noexcept {
  if (buffers[0] == buffers[1]) return;
  const auto bytes = [&](int i) {
    return kernels::contiguous_view(buffers[i], DType::u8, {numbers[0]});
  };
  kernels::run_copy(bytes(0), bytes(1));
}

void mark_step_of_profile(Context* context, std::int64_t mark) noexcept {
  if (!runtime::profiling()) return;
  const auto& labels = *static_cast<HostState*>(context->host)->labels;
  const runtime::ProfileLabelPtr& label = labels[static_cast<std::size_t>(mark < 0 ? ~mark : mark)];
  if (mark < 0) runtime::end_span(label);
  else runtime::begin_span(label);
}

namespace {

/// Pieces of memory for the chunks that run at once: a chunk has one that another left in the caches.
class Slices {
 public:
  int take() {
    std::uint64_t free = free_.load(std::memory_order_relaxed);
    while (!free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire,
                                        std::memory_order_relaxed)) {}
    return std::countr_zero(free);
  }
  void give_back(int slice) {
    free_.fetch_or(std::uint64_t{1} << slice, std::memory_order_release);
  }

 private:
  static_assert(Step::kMaxChunks <= 64);  // so one is always free
  std::atomic<std::uint64_t> free_{~std::uint64_t{0}};
};

}  // namespace

int parallel_kernel(Context* context, KernelFunction kernel, const std::int64_t* where,
                    std::int64_t end, std::int64_t grain, std::int64_t most, std::int64_t slice,
                    std::int64_t slice_bytes) noexcept {
  if (end <= 0) return 0;
  // Where that makes too many chunks, each is several of them: they begin at whole vectors.
  if (most > 0) grain *= detail::ceil_div(detail::ceil_div(end, grain), most);
  // One thread walks through memory in order. What a chunk computes does not depend on where it ends.
  if (runtime::num_threads() == 1) grain = end;
  const std::atomic<bool>& stopped = static_cast<HostState*>(context->host)->stopped;
  Slices slices;
  const auto run = [&](std::int64_t chunk) {
    if (stopped) return;
    Context own = *context;
    const int mine = slice_bytes > 0 ? slices.take() : 0;
    own.chunk = context->arena + slice + mine * slice_bytes;
    call_native(kernel, &own, chunk * grain, std::min((chunk + 1) * grain, end), where);
    if (slice_bytes > 0) slices.give_back(mine);
  };
  runtime::parallel_for(detail::ceil_div(end, grain), run, reinterpret_cast<const void*>(kernel));
  return stopped ? 1 : 0;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
