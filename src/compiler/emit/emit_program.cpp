// The entry point: steps one after the other, loops and branches around their bodies. Small programs
// are one function; else each kernel is a function of its own, since LLVM takes more than twice as
// long for a function of twice the size, and a kernel that is worth it is run in chunks by the pool.
// Equal kernels share one function. Where there are many steps, or a loop carries many values, what is done
// for them is cut into functions, too.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "compiler/emit/emit_reduction.hpp"
#include "compiler/emit/steps.hpp"
#include "compiler/plan/segments.hpp"
#include "core/concrete.hpp"
#include "core/integers.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::size_t kInlineMembers = 80;  // of all kernels together
static_assert(kInlineMembers < kLeastCut,
              "kernels that are cut have tables of places, which an entry has not");

/// A step that is a function of its own, and how it is called.
struct Outlined {
  CodeGen::KernelCode code;
  std::optional<CodeGen::KernelCode> end;  ///< folds the partial results of the first one
  std::int64_t trips = 0;
  CodeGen::Chunks chunks;
  bool parallel = false;
};

void number_host_steps(const std::vector<Step>& steps, std::map<const Step*, std::int64_t>& out) {
  for (const Step& s : steps) {
    if (s.kind == Step::Kind::host) out.emplace(&s, static_cast<std::int64_t>(out.size()));
    for (const auto& body : s.bodies) number_host_steps(body, out);
  }
}

// In the order of step_labels.
void number_steps(const std::vector<Step>& steps, std::map<const Step*, std::int64_t>& out) {
  for (const Step& s : steps) {
    out.emplace(&s, static_cast<std::int64_t>(out.size()));
    for (const auto& body : s.bodies) number_steps(body, out);
  }
}

bool has_host_steps(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& s) {
    return s.kind == Step::Kind::host ||
           std::any_of(s.bodies.begin(), s.bodies.end(), has_host_steps);
  });
}

class ProgramEmitter {
 public:
  ProgramEmitter(CodeGen& gen, const Plan& plan)
      : gen_(gen), plan_(plan), context_(gen, plan), carries_(context_) {
    std::size_t members = 0;
    count_members(plan.steps, members);
    inline_ = plan.emit.inline_kernels && members <= kInlineMembers;
    number_host_steps(plan.steps, host_numbers_);
    if (plan.emit.profile) number_steps(plan.steps, step_numbers_);
  }

  void run(const std::string& name) {
    emit_functions(plan_.steps, false);
    gen_.begin_entry(name);
    emit_steps(plan_.steps);
    gen_.finish_entry();
    if (inline_ && plan_.emit.keep_in_registers) gen_.keep_arena_in_registers();
  }

 private:
  using Chore = Carries::Chore;

  static void count_members(const std::vector<Step>& steps, std::size_t& members) {
    for (const Step& s : steps) {
      members += std::max<std::size_t>(s.kernel.members.size(), 1);
      for (const auto& body : s.bodies) count_members(body, members);
    }
  }

  void emit_kernel(const Step& step, Scalar begin, Scalar end, bool in_chunks = false) {
    KernelContext k = context_.kernel(step, begin, end);
    k.in_chunks = in_chunks;
    k.by_columns = chunking(plan_, step).by_columns;
    emit_kernel(k);
  }
  static void emit_kernel(KernelContext& k) {
    switch (k.kernel().kind) {
      case Kernel::Kind::loop: return emit_loop(k);
      case Kernel::Kind::reduction: return emit_reduction(k);
      case Kernel::Kind::dot: return emit_dot(k);
      case Kernel::Kind::emitted: return emit_form(k);
      case Kernel::Kind::update: return emit_update(k);
      case Kernel::Kind::cells: return emit_cells(k);
    }
  }

  // ---- long lists of steps -----------------------------------------------------------------------
  // They are cut into functions, which find all that they need in memory.
  void cut_steps(const std::vector<Step>& steps) {
    constexpr std::size_t kMost = 200;  // of a function
    if (!plan_.emit.entry_parts || steps.size() <= kMost) return;
    std::vector<std::string>& parts = parts_[&steps];
    for (std::size_t at = 0; at < steps.size(); at += kMost) {
      parts.push_back("steps_" + std::to_string(next_part_++));
      gen_.begin_part(parts.back());
      emit_all(std::span(steps).subspan(at, std::min(steps.size() - at, kMost)));
      gen_.finish_entry();
    }
  }
  void emit_steps(const std::vector<Step>& steps) {
    const auto found = parts_.find(&steps);
    if (found == parts_.end()) return emit_all(steps);
    for (const std::string& part : found->second) gen_.call_part(part);
  }
  void emit_all(std::span<const Step> steps) {
    for (const Step& s : steps) marked(s, [&] { emit_step(s); });
  }

  // Kernels and regions that are functions of their own. Within a chunk everything runs serially.
  void emit_functions(const std::vector<Step>& steps, bool inside) {
    for (const Step& s : steps) {
      const bool chunks = !inside && s.kind == Step::Kind::loop && s.grain > 0;
      if (s.kind == Step::Kind::tiles) {
        outline_tiles(s, plan_.emit.parallel && !inside);
        continue;
      }
      for (const auto& body : s.bodies) emit_functions(body, inside || chunks);
      carries_.outline(s);
      const bool parallel = plan_.emit.parallel && !inside;
      if (s.kind == Step::Kind::kernel) outline_kernel(s, parallel);
      else if (s.kind == Step::Kind::copy) outline_copy(s, parallel);
      else if (chunks) outline_loop(s);
    }
    cut_steps(steps);
  }

  void outline_kernel(const Step& s, bool parallel) {
    const Chunking c = chunking(plan_, s);
    const bool parts = !s.kernel.partials.empty();
    Outlined f;
    f.parallel = parallel && (c.grain > 0 || parts);
    if (inline_ && !f.parallel) return;
    f.trips = parts ? reduction_parts(s.kernel, s.kernel.part_cost) : c.extent;
    f.chunks.grain = parts ? 1 : c.grain;
    if (f.parallel && s.kernel.segments) {
      f.chunks.most = value(s.kernel.tape).aval.shape[0];
      f.chunks.slice = value(s.kernel.tape).location.index;
      f.chunks.slice_bytes = s.kernel.segments->bytes;
    }
    begin(s.kernel.name);
    if (f.parallel) emit_kernel(s, gen_.kernel_begin(), gen_.kernel_end(), true);
    else emit_kernel(s, gen_.index(0), gen_.index(f.trips));
    f.code = gen_.finish_kernel();
    if (parts) {
      begin(s.kernel.name + "_end");
      KernelContext k = context_.kernel(s, gen_.index(0), gen_.index(0));
      emit_reduction_end(k);
      f.end = gen_.finish_kernel();
    }
    functions_[&s] = f;
  }

  // One thread does not move as much as the memory gives.
  void outline_copy(const Step& s, bool parallel) {
    constexpr std::int64_t kChunk = 256 * 1024;
    Outlined f;
    f.trips = value(s.writes[0]).bytes();
    f.chunks.grain = kChunk;
    f.parallel = parallel && f.trips >= 2 * kChunk;
    if (!f.parallel) return;
    begin("copy");
    copy_bytes(s, gen_.kernel_begin(), gen_.kernel_end());
    f.code = gen_.finish_kernel();
    functions_[&s] = f;
  }

  void outline_loop(const Step& s) {
    Outlined f;
    f.parallel = true;
    f.chunks = {s.grain, s.num_chunks(), s.slice, s.slice_bytes, has_host_steps(s.bodies[0])};
    if (!plan_.emit.parallel) f.chunks.most = 1;
    begin("loop");
    emit_trips(s, gen_.kernel_begin(), gen_.kernel_end());
    f.code = gen_.finish_kernel();
    functions_[&s] = f;
  }

  void outline_tiles(const Step& s, bool parallel) {
    const Tiles tiles(context_, s);
    Outlined f;
    f.trips = tiles.num_parts();
    f.chunks.grain =
        std::max<std::int64_t>(detail::saturating_mul(kParallelCost, f.trips) / tiles.cost(), 1);
    f.parallel = parallel && f.trips >= 2 * f.chunks.grain;
    if (inline_ && !f.parallel) return;
    begin("tiles");
    if (f.parallel) emit_tiles(tiles, gen_.kernel_begin(), gen_.kernel_end());
    else emit_tiles(tiles, gen_.index(0), gen_.index(f.trips));
    f.code = gen_.finish_kernel();
    if (tiles.has_partials()) {
      begin("tiles_end");
      tiles.emit_end();
      f.end = gen_.finish_kernel();
    }
    functions_[&s] = f;
  }
  void emit_tiles(const Tiles& tiles, Scalar begin, Scalar end) {
    tiles.emit(begin, end, [&](KernelContext& k) { marked(k.step, [&] { emit_kernel(k); }); });
  }

  void begin(const std::string& name) { context_.begin_kernel(name); }
  Pointer pointer(int v) const { return context_.pointer(v); }
  const Value& value(int v) const { return context_.value(v); }
  Scalar load_integer(int v) {
    return gen_.convert(gen_.load_now(pointer(v), value(v).aval.dtype, gen_.index(0)), DType::i64);
  }

  // Between the marks that profiles are told.
  void marked(const Step& s, const std::function<void()>& emit) {
    const auto number = step_numbers_.find(&s);
    if (number != step_numbers_.end()) gen_.mark_step(number->second);
    emit();
    if (number != step_numbers_.end()) gen_.mark_step(~number->second);
  }
  void emit_step(const Step& s) {
    switch (s.kind) {
      case Step::Kind::kernel: emit_call(s); break;
      case Step::Kind::host: gen_.call_host(host_numbers_.at(&s)); break;
      case Step::Kind::copy: copy(s); break;
      case Step::Kind::fill: fill(s); break;
      case Step::Kind::loop: emit_loop_region(s); break;
      case Step::Kind::branch: emit_branch(s); break;
      case Step::Kind::repeat: emit_repeat(s); break;
      case Step::Kind::tiles: call_tiles(s); break;
    }
  }

  void emit_call(const Step& s) {
    const auto found = functions_.find(&s);
    if (found == functions_.end()) {
      gen_.region([&] {
        const std::int64_t trips = s.kernel.partials.empty()
                                       ? chunking(plan_, s).extent
                                       : reduction_parts(s.kernel, s.kernel.part_cost);
        emit_kernel(s, gen_.index(0), gen_.index(trips));
      });
      if (s.kernel.partials.empty()) return;
      gen_.region([&] {
        KernelContext k = context_.kernel(s, gen_.index(0), gen_.index(0));
        emit_reduction_end(k);
      });
      return;
    }
    call(found->second);
  }

  void copy(const Step& s) {
    const auto all = [&] {
      const auto found = functions_.find(&s);
      if (found != functions_.end()) return call(found->second);
      copy_bytes(s, gen_.index(0), gen_.index(value(s.writes[0]).bytes()));
    };
    if (!plan_.may_be_idle(s)) return all();
    gen_.if_then(gen_.compare(Compare::ne, gen_.address(pointer(s.reads[0])),
                              gen_.address(pointer(s.writes[0]))),
                 all);
  }
  void copy_bytes(const Step& s, Scalar begin, Scalar end) {
    const auto at = [&](int v) { return gen_.offset(pointer(v), DType::u8, begin); };
    gen_.copy_bytes(at(s.reads[0]), at(s.writes[0]), gen_.sub(end, begin));
  }

  void fill(const Step& s) {
    const std::int64_t size = value(s.writes[0]).aval.size();
    const DType dtype = value(s.writes[0]).aval.dtype;
    if (dtype == DType::c64) return fill_pairs<float>(s, DType::f32);
    if (dtype == DType::c128) return fill_pairs<double>(s, DType::f64);
    const Kernel none;
    Generator value_at(gen_, plan_, plan_.scopes[0], none, context_.producers_of(0));
    gen_.region([&] {
      const Scalar x = value_at.literal(s.constant);
      gen_.loop(gen_.index(0), gen_.index(size),
                [&](Scalar i) { gen_.store(pointer(s.writes[0]), dtype, i, x); });
    });
  }
  // Complex numbers, of which generated code holds the parts.
  template <class Part> void fill_pairs(const Step& s, DType part) {
    const Array number = detail::contiguous(s.constant);
    const Part* const parts = detail::data_of<Part>(number);
    gen_.region([&] {
      const Scalar re = gen_.constant(part, static_cast<double>(parts[0])),
                   im = gen_.constant(part, static_cast<double>(parts[1]));
      const auto store = [&](Scalar at, Scalar x) {
        gen_.store(pointer(s.writes[0]), part, at, x);
      };
      gen_.loop(gen_.index(0), gen_.index(value(s.writes[0]).aval.size()), [&](Scalar i) {
        const Scalar first = gen_.mul(i, gen_.index(2));
        store(first, re);
        store(gen_.add(first, gen_.index(1)), im);
      });
    });
  }

  void emit_loop_region(const Step& s) {
    const Scalar trips = s.trips >= 0 ? gen_.index(s.trips) : load_integer(s.reads[0]);
    const auto found = functions_.find(&s);
    if (found == functions_.end()) return emit_trips(s, gen_.index(0), trips);
    gen_.call_parallel(found->second.code, trips, found->second.chunks);
  }

  void call_tiles(const Step& s) {
    const auto found = functions_.find(&s);
    if (found == functions_.end()) {
      const Tiles tiles(context_, s);
      gen_.region([&] { emit_tiles(tiles, gen_.index(0), gen_.index(tiles.num_parts())); });
      return tiles.emit_end();
    }
    call(found->second);
  }
  void call(const Outlined& f) {
    if (f.parallel) gen_.call_parallel(f.code, gen_.index(f.trips), f.chunks);
    else gen_.call_kernel(f.code, gen_.index(0), gen_.index(f.trips));
    if (f.end) gen_.call_kernel(*f.end, gen_.index(0), gen_.index(0));
  }

  void emit_trips(const Step& s, Scalar begin, Scalar end) {
    carries_.emit(s, Chore::init, begin, end);
    gen_.loop(begin, end, [&](Scalar i) {
      gen_.region([&] {
        if (!s.writes.empty()) {
          const DType dtype = value(s.writes[0]).aval.dtype;
          gen_.store(pointer(s.writes[0]), dtype, gen_.index(0), gen_.convert(i, dtype));
        }
        carries_.emit(s, Chore::row, i, end);
        carries_.emit(s, Chore::turn, i, end);
        emit_steps(s.bodies[0]);
        carries_.emit(s, Chore::pass_on, i, end);
      });
    });
    if (s.trips > 0) return;
    gen_.if_then(gen_.compare(Compare::ge, begin, end),
                 [&] { carries_.emit(s, Chore::untouched, begin, end); });
  }

  void emit_repeat(const Step& s) {
    const Scalar none = gen_.index(0);
    carries_.emit(s, Chore::init, none, none);
    gen_.loop_while(
        {},
        [&](const Scalars&) {
          gen_.region([&] { emit_steps(s.bodies[0]); });
          return gen_.load_now(pointer(s.reads[0]), DType::bool_, gen_.index(0));
        },
        [&](const Scalars&) {
          gen_.region([&] {
            carries_.emit(s, Chore::alternate, none, none);
            emit_steps(s.bodies[1]);
            carries_.emit(s, Chore::pass_on, none, none);
          });
          return Scalars{};
        });
    carries_.emit(s, Chore::result, none, none);
  }

  void emit_branch(const Step& s) {
    const Scalar which = gen_.min(gen_.max(load_integer(s.reads[0]), gen_.index(0)),
                                  gen_.index(static_cast<std::int64_t>(s.bodies.size()) - 1));
    for (std::size_t b = 0; b < s.bodies.size(); ++b) {
      gen_.if_then(gen_.compare(Compare::eq, which, gen_.index(static_cast<std::int64_t>(b))),
                   [&] { emit_steps(s.bodies[b]); });
    }
  }

  CodeGen& gen_;
  const Plan& plan_;
  StepContext context_;
  Carries carries_;
  bool inline_ = true;
  std::map<const Step*, Outlined> functions_;
  std::map<const std::vector<Step>*, std::vector<std::string>> parts_;
  std::map<const Step*, std::int64_t> host_numbers_;
  std::map<const Step*, std::int64_t> step_numbers_;  // when the code tells profiles of its steps
  int next_part_ = 0;
};

void collect_host_steps(const Plan& plan, const std::vector<Step>& steps,
                        std::vector<HostStep>& out) {
  const auto locations = [&](const std::vector<int>& values) {
    std::vector<Location> all;
    for (const int v : values) all.push_back(plan.values[static_cast<std::size_t>(v)].location);
    return all;
  };
  for (const Step& s : steps) {
    if (s.kind == Step::Kind::host)
      out.push_back({s.host, locations(s.reads), locations(s.writes)});
    for (const auto& body : s.bodies) collect_host_steps(plan, body, out);
  }
}

}  // namespace

void emit_program(CodeGen& gen, const Plan& plan, const std::string& name) {
  ProgramEmitter(gen, plan).run(name);
}

std::vector<HostStep> host_steps(const Plan& plan) {
  std::vector<HostStep> out;
  collect_host_steps(plan, plan.steps, out);
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
