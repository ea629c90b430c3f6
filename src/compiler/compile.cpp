// The story of a compilation, pass by pass.
//
//   TELAMON_LOG=compile     one line per pass with its microseconds, and one per executable; with
//                           compile=debug also one per step
//   TELAMON_DUMP=directory  the jaxpr after every pass, the plan, the IR and the assembly
//   TELAMON_DISABLE=a,b     leaves out passes and optimisations; core/environment.cpp lists them
#include "compiler/compile.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "compiler/dump_error.hpp"
#include "compiler/emit/emit.hpp"
#include "compiler/executable/executable.hpp"
#include "compiler/executable/native_loader.hpp"
#include "compiler/executable/program_store.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/row_groups.hpp"
#include "compiler/plan/tiles.hpp"
#include "compiler/plan/updates.hpp"
#include "core/counted.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/side_file.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/history.hpp"
#include "runtime/profile.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/detail/text.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr const char *kSwitchedOff = "TELAMON_DISABLE leaves it out",
                     *kSmall = "the program has no large arrays",
                     *kNoRegions = "the program has no loops, branches or calls";

/// One compilation: its switches, times and dumps.
class Compilation {
 public:
  enum class Voice : std::uint8_t { normal, silent };  // silent: neither logs, spans nor dumps
  explicit Compilation(const runtime::CompileOptions& options, Voice voice = Voice::normal)
      : options_(options),
        name_(options.name.empty() ? "program" : detail::one_line(options.name)),
        silent_(voice == Voice::silent) {
    last_ = std::chrono::steady_clock::now();
    if (silent_) return;
    detail::read_log_settings();
    static std::atomic<int> serial{0};
    number_ = serial.fetch_add(1);
    if (const char* dir = std::getenv("TELAMON_DUMP"); dir != nullptr && *dir != '\0') {
      directory_ = detail::environment_path(dir);
      std::error_code error;
      std::filesystem::create_directories(directory_, error);
      if (error) refuse_directory(error.message());
      file_name_ =
          name_.substr(0, 100);  // file systems take no longer ones than 255 with what is added
      std::replace_if(
          file_name_.begin(), file_name_.end(),
          [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    }
  }

  /// Whether the program may be taken from the disk cache: not when its passes are to be seen.
  bool uses_disk() const {
    return directory_.empty() && !options_.keep_programs && !options_.after_pass &&
           !runtime::disk_cache::folder().empty();
  }

  bool enabled(std::string_view pass) const {
    return !options_.disabled.contains(pass) && !detail::environment_lists("TELAMON_DISABLE", pass);
  }

  Arrays consts;  ///< the leading inputs of the program, from lowering on

  /// Whether there is work for these passes, which is when `condition` holds; `why_not` is for those who
  /// ask after them where it does not.
  bool wants(std::initializer_list<const char*> passes, bool condition, const char* why_not) {
    if (!condition && options_.keep_programs)
      for (const char* pass : passes) not_run_.emplace_back(pass, why_not);
    return condition;
  }
  /// A pass over the jaxpr that is left out when it is switched off.
  template <class Pass>
  void run(const char* pass, Jaxpr& jaxpr, Pass&& f) {
    if (wants({name_of_run(pass).c_str()}, enabled(pass), kSwitchedOff)) run_always(pass, jaxpr, f);
  }
  /// A pass over the jaxpr: timed, checked, dumped.
  template <class Pass>
  void run_always(const char* name, Jaxpr& jaxpr, Pass&& f) {
    const std::string pass = name_of_run(name);
    {
      const runtime::ProfileSpan span = span_of(pass);
      start();
      jaxpr = f(jaxpr);
      finish(pass, jaxpr.eqns().size(), "equation");
    }
    if (options_.after_pass) options_.after_pass(pass, jaxpr, consts);
    if (options_.keep_programs) programs_.emplace_back(pass, jaxpr);
#ifdef TELAMON_DEBUG_CHECKS
    typecheck_jaxpr(jaxpr, {});
#endif
    dump(pass, "jaxpr", [&] { return jaxpr.to_string(); });
  }
  template <class Step>
  auto stage(const char* name, Step&& f) {
    const runtime::ProfileSpan span = span_of(name);
    start();
    auto result = f();
    finish(name, 0, nullptr);
    return result;
  }
  template <class Text>
  void dump(const std::string& stage, const char* extension, Text&& text) {
    if (directory_.empty()) return;
    char serial[16];
    std::snprintf(serial, sizeof serial, "%04d", number_);
    const std::filesystem::path path =
        directory_ / (std::string(serial) + "-" + file_name_ + "." + std::to_string(dumped_++) +
                      "-" + stage + "." + extension);
    if (const int error = detail::write_file(path.string(), text() + '\n'))
      refuse_directory(std::strerror(error));
  }
  std::vector<PassTime> passes() const { return passes_; }
  std::vector<std::pair<std::string, Jaxpr>> programs() const { return programs_; }
  std::vector<std::pair<std::string, std::string>> not_run() const { return not_run_; }
  bool profile() const { return options_.profile; }
  const std::string& name() const { return name_; }

 private:
  // "simplify", and "simplify_again" where it has had its turn.
  std::string name_of_run(const char* pass) const {
    const bool before = std::any_of(passes_.begin(), passes_.end(),
                                    [&](const PassTime& p) { return p.name == pass; }) ||
                        std::any_of(not_run_.begin(), not_run_.end(),
                                    [&](const auto& p) { return p.first == pass; });
    return before ? std::string(pass) + "_again" : pass;
  }
  [[noreturn]] void refuse_directory(const std::string& why) const {
    throw DumpError("TELAMON_DUMP='" + directory_.string() + "': cannot write there: " + why +
                    "; name a folder that can be written to");
  }
  void start() { last_ = std::chrono::steady_clock::now(); }
  void finish(const std::string& pass, std::size_t count, const char* unit) {
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - last_).count();
    passes_.push_back({pass, us});
    log(pass, us, count, unit);
  }
  runtime::ProfileSpan span_of(const std::string& pass) const {
    if (silent_) return runtime::ProfileSpan(nullptr);
    return {"pass", [&] { return name_ + ": " + pass; }};
  }
  void log(const std::string& pass, double us, std::size_t count, const char* unit) const {
    if (silent_) return;
    detail::log(detail::Subsystem::compile, detail::LogLevel::info, [&] {
      std::string text = fmt::format("{:<16} {:<10} {:9.1f} us", name_, pass, us);
      if (unit != nullptr) text += "  " + detail::counted(count, unit);
      return text;
    });
  }

  const runtime::CompileOptions& options_;
  std::string name_, file_name_;
  bool silent_;
  std::filesystem::path directory_;
  int number_ = 0, dumped_ = 0;
  std::chrono::steady_clock::time_point last_;
  std::vector<PassTime> passes_;
  // When they are kept: what each pass made, and why others did not run.
  std::vector<std::pair<std::string, Jaxpr>> programs_;
  std::vector<std::pair<std::string, std::string>> not_run_;
};

void describe(const std::vector<Step>& steps, ExecutableInfo& info) {
  for (const Step& s : steps) {
    switch (s.kind) {
      case Step::Kind::kernel:
        ++info.kernels;
        info.steps.push_back("kernel " + s.kernel.name + " " + s.kernel.shape.to_string());
        break;
      case Step::Kind::host:
        ++info.library_calls;
        info.steps.push_back("call " + s.name);
        break;
      case Step::Kind::copy: info.steps.push_back("copy"); break;
      case Step::Kind::fill: info.steps.push_back("fill"); break;
      case Step::Kind::loop: info.steps.push_back("loop"); break;
      case Step::Kind::branch: info.steps.push_back("branch"); break;
      case Step::Kind::repeat: info.steps.push_back("while"); break;
      case Step::Kind::tiles: info.steps.push_back("tiles"); break;
    }
    for (const auto& body : s.bodies) describe(body, info);
  }
}

using Key = runtime::disk_cache::Key;

constexpr const char* kEntry = "telamon_program";

void log_executable(const ExecutableInfo& info) {
  detail::log(detail::Subsystem::compile, detail::LogLevel::info, [&] {
    return info.name + ": " + detail::counted(info.kernels, "kernel") + ", " +
           detail::counted(info.library_calls, "call") + ", arena of " +
           detail::counted(info.arena_bytes, "byte") +
           fmt::format("; {:.1f} us in all", info.microseconds());
  });
  for (const std::string& step : info.steps) {
    detail::log(detail::Subsystem::compile, detail::LogLevel::debug,
                [&] { return info.name + ": " + step; });
  }
}

/// 6. Live ranges, one arena, results over donated arguments.
void place_values(Compilation& c, Plan& plan, const PlanOptions& options) {
  find_uniform(plan);
  c.stage("buffers", [&] { return assign_buffers(plan, options), 0; });
  if (c.wants({"tiles"}, may_have_tiles(plan), kSmall) &&
      c.wants({"tiles"}, c.enabled("tiles"), kSwitchedOff))
    c.stage("tiles", [&] { return group_tiles(plan), 0; });
  c.dump("plan", "txt", [&] { return plan.to_string(); });
  plan.emit = {.parallel = c.enabled("parallel"),
               .inline_kernels = c.enabled("inline_kernels"),
               .keep_in_registers = c.enabled("keep_in_registers"),
               .transpose_tiles = c.enabled("transpose_tiles"),
               .columns_first = c.enabled("columns_first"),
               .row_blocks = c.enabled("row_blocks"),
               .load_columns = c.enabled("load_columns"),
               .write_out_rows = c.enabled("write_out_rows"),
               .short_rows = c.enabled("short_rows"),
               .accumulators = c.enabled("accumulators"),
               .count_trips = c.enabled("count_trips"),
               .column_tiles = c.enabled("column_tiles"),
               .seams = c.enabled("seams"),
               .entry_parts = c.enabled("entry_parts"),
               .carry_tables = c.enabled("carry_tables"),
               .native_kernels = c.enabled("native_kernels"),
               .share_kernels = c.enabled("share_kernels"),
               .quick_segments = c.enabled("quick_segments"),
               .input_tables = c.enabled("input_tables"),
               .loop_stages = c.enabled("loop_stages"),
               .interleave = c.enabled("interleave"),
               .divide_ahead = c.enabled("divide_ahead"),
               .next_tiles = c.enabled("next_tiles"),
               .streaming = c.enabled("streaming"),
               .profile = c.profile()};
}

/// The image stored under the key, loaded; null when there is none.
std::shared_ptr<NativeCode> load_stored(Compilation& c, const std::optional<Key>& key) {
  if (!key) return nullptr;
  std::optional<runtime::Pages> found =
      c.stage("find", [&] { return runtime::disk_cache::load(*key); });
  if (!found) return nullptr;
  try {
    return c.stage("link", [&] {
      const std::string_view image = found->bytes();
      return load_image(std::move(*found), image, c.name());
    });
  } catch (const InternalError& e) { runtime::disk_cache::reject(*key, e.what()); }
  return nullptr;
}

std::shared_ptr<const runtime::Executable> executable(Compilation& c,
                                                      NativeExecutable::Parts parts) {
  parts.programs = c.programs();
  parts.not_run = c.not_run();
  parts.info.name = c.name();
  parts.info.backend = "llvm";
  parts.info.arena_bytes = static_cast<std::size_t>(parts.launch.arena_bytes);
  parts.info.passes = c.passes();
  auto executable = std::make_shared<NativeExecutable>(std::move(parts));
  c.dump("asm", "s", [&] { return executable->text("asm"); });
  runtime::record_executable(executable->info());
  log_executable(executable->info());
  return executable;
}

/// From the plan to memory and code. With a key, the program is stored under it.
std::shared_ptr<const runtime::Executable> finish(Compilation& c, NativeExecutable::Parts parts,
                                                  const std::optional<Key>& key) {
  // 7. Vector code for every kernel, and one entry point.
  CodeGen gen(c.name(), {.contract = parts.options.contract,
                         .share_kernels = parts.plan->emit.share_kernels,
                         .quick_segments = parts.plan->emit.quick_segments});
  c.stage("emit", [&] { return emit_program(gen, *parts.plan, kEntry), 0; });
  c.dump("ir", "ll", [&] { return gen.ir(); });

  // 8. Machine code.
  const bool by_ir = !key && c.uses_disk();
  const std::optional<Key> image_key =
      by_ir ? std::optional(compiler::image_key(gen.ir())) : std::nullopt;
  std::string image;
  parts.code = load_stored(c, image_key);
  if (!parts.code) {
    const std::vector<std::string> objects = c.stage("codegen", [&] { return gen.objects(); });
    parts.code = c.stage("link", [&] {
      image = gen.link(objects);
      return load_image(image, c.name());
    });
  }
  parts.launch = launch_of(*parts.plan);
  describe(parts.plan->steps, parts.info);
  if (key) store_program(*key, *parts.plan, parts.info, image);
  if (image_key && !image.empty()) runtime::disk_cache::store(*image_key, image);
  return executable(c, std::move(parts));
}

/// The executable that another process has left under the key; null when there is none.
std::shared_ptr<const runtime::Executable> find_stored(Compilation& c,
                                                       NativeExecutable::Parts& parts,
                                                       const Key& key) {
  std::optional<StoredProgram> stored = c.stage("find", [&] { return find_program(key); });
  if (!stored) return nullptr;
  try {
    parts.code = c.stage(
        "link", [&] { return load_image(std::move(stored->pages), stored->image, c.name()); });
  } catch (const InternalError& e) {
    runtime::disk_cache::reject(key, e.what());
    return nullptr;
  }
  parts.launch = std::move(stored->launch);
  parts.info = std::move(stored->info);
  return executable(c, std::move(parts));
}

/// Of each input of the lowered program, whether it may be donated: those of lowerings come first, and never are.
std::vector<bool> may_be_donated(const NativeExecutable::Parts& parts) {
  const auto& donated = parts.options.donated;
  const auto inputs = static_cast<std::size_t>(parts.jaxpr.num_inputs());
  std::vector<bool> out(parts.consts.size(), false);
  if (donated) out.insert(out.end(), donated->begin(), donated->end());
  out.resize(inputs, !donated);
  return out;
}

PlanOptions plan_options(const Compilation& c) {
  return {.fuse = c.enabled("fuse"),
          .merge_siblings = c.enabled("merge_siblings"),
          .both_ways = c.enabled("both_ways"),
          .recompute = c.enabled("recompute"),
          .partial_reductions = c.enabled("partial_reductions"),
          .in_place = c.enabled("in_place"),
          .update_in_place = c.enabled("update_in_place"),
          .reuse_memory = c.enabled("reuse_memory"),
          .place_in_results = c.enabled("place_in_results"),
          .tiles = c.enabled("tiles"),
          .epilogues = c.enabled("epilogues"),
          .matmul = c.enabled("matmul"),
          .join_parts = c.enabled("join_parts"),
          .cells = c.enabled("cells"),
          .turned_rows = c.enabled("turned_rows") && c.enabled("load_columns"),
          .segments = c.enabled("segments"),
          .overlap_segments = c.enabled("overlap_segments"),
          .compute_places = c.enabled("compute_places"),
          .looked_up_bytes = c.enabled("load_columns") ? runtime::target_vector_bytes() : 0,
          .weave_columns = c.enabled("weave_columns"),
          .schedule = c.enabled("schedule")};
}

/// What is computed, in as little as it takes, and as arrays that lanes run along.
void simplify_arrays(Compilation& c, Jaxpr& jaxpr) {
  if (c.wants({"small_floats"}, has_small_floats(jaxpr), "the program has no 16-bit floats"))
    c.run("small_floats", jaxpr, widen_small_floats);
  // 2. Algebra that changes no bit of any result, but for the order of sums of small products and that of several axes of a
  // transpose that are folded, as any loop of them may.
  c.run("simplify", jaxpr, simplify);
  // 3. What is computed twice is computed once; what nobody uses is not computed.
  c.run("cse", jaxpr, eliminate_common_subexpressions);
  c.run("dce", jaxpr, eliminate_dead_code);
  const Jaxpr whole = jaxpr;
  // Columns that are written one after the other are written together, and what loops write part by part, at once.
  if (c.wants({"update_chains"}, has_updates(jaxpr), "the program overwrites no part of an array"))
    c.run("update_chains", jaxpr, write_together);
  if (c.wants({"update_loops"}, detail::has_regions(jaxpr), kNoRegions))
    c.run("update_loops", jaxpr, write_at_once);
  // What is moved about and back is computed where it was. What members of a batch compute becomes arrays of all members,
  // number by number. Columns of derivatives come side by side; points in space become their coordinates.
  if (c.wants({"moves", "carried_moves"}, has_transposes(jaxpr), "the program has no transposes")) {
    c.run("moves", jaxpr, undo_moves);
    if (c.wants({"carried_moves"}, detail::has_regions(jaxpr), kNoRegions) &&
        c.wants({"carried_moves"}, c.enabled("simplify"), kSwitchedOff))
      c.run("carried_moves", jaxpr,
            [&](const Jaxpr& j) { return carry_as_computed(j, c.enabled("cells")); });
  }
  c.run("batch_members", jaxpr,
        [&](const Jaxpr& j) { return split_batch_members(j, c.enabled("zero_signs")); });
  c.run("reorder", jaxpr, reorder);
  c.run("short_axes", jaxpr,
        [&](const Jaxpr& j) { return split_short_axes(j, c.enabled("zero_signs")); });
  if (c.wants({"simplify_again", "cse_again", "dce_again"}, !jaxpr.same_as(whole),
              "the passes since then change nothing that it could follow")) {
    c.run("simplify", jaxpr, simplify);
    c.run("cse", jaxpr, eliminate_common_subexpressions);
    c.run("dce", jaxpr, eliminate_dead_code);
  }
  // Sums over pairs that mirror each other are folded once.
  if (c.wants({"mirrored_sums"}, sums_over_pairs(jaxpr),
              "the program does not sum over two axes of the same length"))
    c.run("mirrored_sums", jaxpr, fold_mirrored_sums);
}

/// 4. Loops that go together become one, write down only what cannot be computed again, and compute only what changes from
/// trip to trip.
void rewrite_loops(Compilation& c, Jaxpr& jaxpr) {
  if (c.wants({"join_loops", "residuals", "loops", "conditions"}, detail::has_regions(jaxpr),
              kNoRegions)) {
    c.run("join_loops", jaxpr, join_loops);
    c.run("residuals", jaxpr, recompute_residuals);
    // Loops with a condition per lane are rewritten in any case.
    const LoopOptions loops{.hoist = c.enabled("loops"),
                            .cells = c.enabled("cells"),
                            .defer_sums = c.enabled("defer_sums"),
                            .simplify = c.enabled("simplify")};
    c.wants({"loops"}, loops.hoist, kSwitchedOff);
    c.wants({"conditions"}, !loops.hoist, "it stands in for loops where that is switched off");
    c.run_always(loops.hoist ? "loops" : "conditions", jaxpr,
                 [&](const Jaxpr& j) { return prepare_loops(j, loops); });
  }
}

/// Chains of kernels over large arrays, and scatters, become loops over blocks of rows.
void group_in_blocks(Compilation& c, Jaxpr& jaxpr, const PlanOptions& options) {
  const bool large = c.wants({"row_updates", "row_groups"}, has_large_values(jaxpr), kSmall);
  const bool with_places = large && c.enabled("row_updates");
  if (large)
    c.run("row_updates", jaxpr, [](const Jaxpr& j) { return group_updates(j, Places::compute); });
  // Sums in parts have the order of these in any case.
  if (c.wants({"sums_in_parts"}, has_scatters(jaxpr), "the program has no scatters") &&
      c.wants({"sums_in_parts"}, !with_places,
              "it stands in for row_updates where that does not run"))
    c.run_always("sums_in_parts", jaxpr,
                 [](const Jaxpr& j) { return group_updates(j, Places::as_they_are); });
  // Places that stay in a cache since rows are looked up in blocks are better stored.
  PlanOptions by_kernels = options;
  by_kernels.compute_places = false;
  if (large) c.run("row_groups", jaxpr, [&](const Jaxpr& j) { return group_rows(j, by_kernels); });
}

/// What the passes make of the lowered program: the plan, with all values in memory.
void make_plan(Compilation& c, NativeExecutable::Parts& parts) {
  Jaxpr& jaxpr = parts.jaxpr;
  simplify_arrays(c, jaxpr);
  rewrite_loops(c, jaxpr);
  // Rows that are too short for lanes, and are moved as a whole, become longer ones.
  c.run("merge_axes", jaxpr, [](const Jaxpr& j) { return merge_axes(merge_transposed_axes(j)); });
  if (c.wants({"row_lookups", "flat_lookups"}, has_lookups(jaxpr),
              "the program looks nothing up")) {
    c.run("row_lookups", jaxpr, join_lookups);
    c.run("flat_lookups", jaxpr, flatten_lookups);
  }
  if (c.wants({"wraps"}, has_scatters(jaxpr), "the program has no scatters"))
    c.run("wraps", jaxpr, let_scatters_wrap);

  const std::vector<bool> donated = may_be_donated(parts);
  // Who does not say what is donated may donate anything, and hardly ever does.
  const bool donates =
      parts.options.donated && std::find(donated.begin(), donated.end(), true) != donated.end();
  if (c.wants({"padded_sums"}, donates, "no argument is donated") &&
      c.wants({"padded_sums"}, c.enabled("update_in_place"), kSwitchedOff))
    c.run("padded_sums", jaxpr, [&](const Jaxpr& j) { return update_sums(j, donated); });

  // 5. Which equations share a loop nest, and which values exist in memory.
  PlanOptions options = plan_options(c);
  group_in_blocks(c, jaxpr, options);
  // What minima and maxima choose is added where it belongs, not everywhere.
  if (c.wants({"chosen_sums"}, has_extremes(jaxpr), "the program asks for no extremes of rows"))
    c.run("chosen_sums", jaxpr, sum_chosen);
  parts.plan = c.stage("fuse", [&] {
    ArgumentUpdates updates = argument_updates(
        jaxpr, donates ? donated : std::vector<bool>(donated.size(), false), options);
    options.updates = std::move(updates.chains);
    options.alone = std::move(updates.alone);
    return plan_kernels(jaxpr, options);
  });
  parts.plan->donated = donated;
  place_values(c, *parts.plan, options);
}

/// 1. User primitives, composites and calls become core operations, known values constants.
void lower_program(Compilation& c, NativeExecutable::Parts& parts) {
  parts.jaxpr = parts.source;
  parts.out_avals = parts.source.out_avals();
  c.run_always("lower", parts.jaxpr, [&](const Jaxpr& j) {
    ClosedJaxpr lowered = lower(j, c.enabled("fold_places"));
    // What lowering rules captured belongs to them: they may donate it, and it may be a view.
    for (Array& x : lowered.consts) x = detail::private_copy(x);
    c.consts = parts.consts = std::move(lowered.consts);
    return lowered.jaxpr;
  });
  // What no call changes is computed now: it joins the constants of lowerings.
  c.run("fold_constants", parts.jaxpr, [&](const Jaxpr& j) {
    Arrays known = parts.consts;
    known.insert(known.end(), parts.options.captured.begin(), parts.options.captured.end());
    FoldedConstants folded = fold_constants(j, known, parts.consts.size());
    for (const Array& x : folded.values) parts.consts.push_back(detail::private_copy(x));
    c.consts = parts.consts;
    known = parts.consts;
    known.insert(known.end(), parts.options.captured.begin(), parts.options.captured.end());
    return slice_at_known_places(folded.jaxpr, known);
  });
}

}  // namespace

std::shared_ptr<const runtime::Executable> compile(const Jaxpr& source,
                                                   const runtime::CompileOptions& options) {
  Compilation c(options);
  const runtime::ProfileSpan span("compile", [&] { return c.name(); });
  NativeExecutable::Parts parts;
  parts.options = options;
  parts.source = source;
  c.dump("source", "jaxpr", [&] { return source.to_string(); });
  lower_program(c, parts);
  std::optional<Key> key;
  if (c.uses_disk()) {
    key = c.stage("key", [&] { return program_key(parts.jaxpr, may_be_donated(parts), options); });
    if (key) {
      if (auto found = find_stored(c, parts, *key)) return found;
    }
  }
  make_plan(c, parts);
  return finish(c, std::move(parts), key);
}

NativeExecutable::Parts plan_again(const Jaxpr& source, const runtime::CompileOptions& options) {
  Compilation c(options, Compilation::Voice::silent);
  NativeExecutable::Parts parts;
  parts.options = options;
  parts.source = source;
  lower_program(c, parts);
  make_plan(c, parts);
  return parts;
}

std::shared_ptr<const runtime::Executable> compile_plan(std::unique_ptr<Plan> plan,
                                                        const Jaxpr& signature,
                                                        const runtime::CompileOptions& options) {
  Compilation c(options);
  NativeExecutable::Parts parts;
  parts.options = options;
  parts.plan = std::move(plan);
  parts.jaxpr = parts.source = signature;
  parts.out_avals = signature.out_avals();
  place_values(c, *parts.plan, {});
  return finish(c, std::move(parts), std::nullopt);
}

}  // namespace compiler

namespace runtime {
namespace {

class LlvmBackend final : public Backend {
 public:
  std::string_view name() const override { return "llvm"; }
  std::string description() const override { return compiler::target_description(); }
  std::shared_ptr<const Executable> compile(const Jaxpr& jaxpr,
                                            const CompileOptions& options) const override {
    if (compiler::process_ends()) return interpret_backend().compile(jaxpr, options);
    count(live_counters().lowerings);
    return compiler::compile(jaxpr, options);
  }
};

}  // namespace

const Backend& llvm_backend() {
  static const auto* backend = new LlvmBackend;
  return *backend;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
