// The thread-local interpreter stack, and bind.
#include <algorithm>
#include <exception>
#include <utility>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/size_errors.hpp"
#include "core/thread_storage.hpp"
#include "core/trace.hpp"
#include "runtime/allocator.hpp"
#include "telamon/debug.hpp"
#include "telamon/detail/transform_site.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

struct InterpreterStack {
  std::vector<MainPtr> mains;  // mains[i] has level i + 1; level 0 is evaluation
  MainTrace* dynamic = nullptr;
  int depth = 0;                        // of all mains, those that an EvalScope set aside included
  SourceLocation where;                 // of the outermost public call under way
  const TransformSite* site = nullptr;  // the innermost
};

// Freed when the thread ends. Objects with static or thread storage may compute while they are
// destroyed, after that: they get a new stack, which nobody frees.
TELAMON_INITIAL_EXEC constinit thread_local InterpreterStack* this_thread = nullptr;
struct StackOwner {
  StackOwner() { this_thread = new InterpreterStack; }
  ~StackOwner() { delete std::exchange(this_thread, nullptr); }
  StackOwner(const StackOwner&) = delete;
  StackOwner& operator=(const StackOwner&) = delete;
};
[[gnu::noinline]] InterpreterStack& new_stack() {
  thread_local const StackOwner owner;
  if (this_thread == nullptr) this_thread = new InterpreterStack;
  return *this_thread;
}
inline InterpreterStack& stack() {
  if (this_thread == nullptr) [[unlikely]]
    return new_stack();
  return *this_thread;
}

std::string tracer_name(const Tracer& tracer) {
  const SourceLocation made = tracer.created();
  return tracer.aval().to_string() + (made ? ", created at " + made.to_string() : std::string()) +
         " by " + tracer.main().owner();
}

// ", created at train.cpp:31 in loss", unless errors show that line anyway.
std::string made_elsewhere(const Tracer& tracer) {
  const SourceLocation made = tracer.created(), shown = error_site();
  if (!made || (made.file == shown.file && made.line == shown.line)) return "";
  return ", created at " + made.to_string();
}

[[noreturn]] void leaked_tracer(const Tracer& tracer) {
  throw LeakedTracerError(
      "encountered an unexpected tracer " + tracer_name(tracer) +
      ": it was used after that transformation had ended or on another thread; return "
      "the value from the transformed function instead of saving it");
}

}  // namespace

Tracer::Tracer(MainTrace& main, const ShapedArray& aval)
    : ArrayNode(Kind::tracer, aval, Held{}), main_(main), created_(error_site()) {
  checked_bytes(aval);
  register_live();
}
Tracer::Tracer(MainTrace& main, const Array& like)
    : ArrayNode(Kind::tracer, like.aval(), Held{}), main_(main), created_(error_site()) {
  register_live();
}
void Tracer::register_live() {
  if (LiveTracers* live = main_->live_tracers()) {
    const std::lock_guard lock(live->mutex);
    live->tracers.insert(this);
  }
}
Tracer::~Tracer() {
  if (LiveTracers* live = main_->live_tracers()) {
    const std::lock_guard lock(live->mutex);
    live->tracers.erase(this);
  }
}
void* Tracer::operator new(std::size_t size) { return runtime::allocate(size); }
void Tracer::operator delete(void* p, std::size_t size) { runtime::deallocate(p, size); }

// Each level takes some kilobytes of the thread's stack, of which systems grant 8 MiB or less.
constexpr int kMaxDepth = 200;

static void check_depth(const InterpreterStack& s, const Trace& trace) {
  if (s.depth < kMaxDepth) return;
  const auto others = std::count_if(s.mains.begin(), s.mains.end(),
                                    [](const auto& main) { return !main->description().empty(); });
  const std::string name = trace.describe();
  throw RecursionError((name.empty() ? "a transformation" : name) + " is within " +
                       std::to_string(others) +
                       " others: a function that calls itself while it is traced "
                       "never ends, since no value is known that could stop it. Loop with "
                       "fori_loop, while_loop or scan, or recurse on a static argument");
}
static MainTrace& new_main(const InterpreterStack& s, std::unique_ptr<Trace> trace) {
  check_depth(s, *trace);
  return *new MainTrace(static_cast<int>(s.mains.size()) + 1, std::move(trace));
}

NewMain::NewMain(std::unique_ptr<Trace> trace) : main_(new_main(stack(), std::move(trace))) {
  InterpreterStack& s = stack();
  const std::string name = main_->trace().describe();
  main_->description_ = name;
  main_->owner_ = name;
  if (name.empty())  // a part of the transformation around it, as the jvp in a grad
    main_->owner_ = s.mains.empty() ? "a transformation" : s.mains.back()->owner();
  if (check_leaks()) main_->live_ = std::make_unique<LiveTracers>();
  s.mains.push_back(main_);
  ++s.depth;
}
void NewMain::pop() {
  if (!main_->alive_) return;
  main_->alive_ = false;
  stack().mains.pop_back();
  --stack().depth;
}
void NewMain::end() {
  pop();
  LiveTracers* live = main_->live_tracers();
  if (!live) return;
  const std::lock_guard lock(live->mutex);
  if (live->tracers.empty()) return;
  const std::size_t n = live->tracers.size();
  throw LeakedTracerError(counted(n, "tracer") + " of " + main_->owner() +
                          (n == 1 ? " outlives it, " : " outlive it, among them ") +
                          tracer_name(**live->tracers.begin()) +
                          ": return values from the transformed function instead of saving them");
}

NewDynamic::NewDynamic(MainTrace& main) : previous_(stack().dynamic) { stack().dynamic = &main; }
NewDynamic::~NewDynamic() { stack().dynamic = previous_; }

EvalScope::EvalScope() : dynamic_(std::exchange(stack().dynamic, nullptr)) {
  mains_.swap(stack().mains);
}
EvalScope::~EvalScope() {
  stack().dynamic = dynamic_;
  mains_.swap(stack().mains);
}

CallSite::CallSite(SourceLocation where, const char* call) : outermost_(!stack().where) {
  if (!outermost_) return;
  where.call = call;
  stack().where = where;
}
CallSite::~CallSite() {
  if (outermost_) stack().where = {};
}

EqnSite::EqnSite(SourceLocation where) : previous_(stack().where) {
  if (where) stack().where = where;
}
EqnSite::~EqnSite() { stack().where = previous_; }

SourceLocation current_call_site() { return stack().where; }

TransformSite::TransformSite(const char* name, SourceLocation where) : name_(name), where_(where) {
  InterpreterStack& s = stack();
  depth_ = s.depth;
  previous_ = std::exchange(s.site, this);
}
TransformSite::~TransformSite() { stack().site = previous_; }

SourceLocation error_site() {
  if (stack().where) return stack().where;
  for (const TransformSite* s = stack().site; s; s = s->previous()) {
    if (s->where()) return s->where();
  }
  return {};
}

std::string transforms_under_way() {
  const auto& mains = stack().mains;
  std::string text;
  for (const TransformSite* s = stack().site; s && s->depth() == stack().depth; s = s->previous()) {
    if (!s->name()) continue;
    text = s->name();
    break;
  }
  int named = 0;
  constexpr int kListed = 12;  // more are a recursion
  for (auto it = mains.rbegin(); it != mains.rend(); ++it) {
    const std::string& name = (*it)->description();
    if (name.empty() || ++named > kListed) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  if (named > kListed) text += ", and " + std::to_string(named - kListed) + " more";
  return text;
}

bool tracing_under_way() { return !stack().mains.empty(); }
bool has_dynamic_trace() { return stack().dynamic != nullptr; }

MainTrace* find_top_trace(std::span<const Array> args) {
  const InterpreterStack& s = stack();
  MainTrace* top = s.dynamic;
  for (const Array& x : args) {
    const Tracer* t = as_tracer(x);
    if (!t) continue;
    MainTrace& main = t->main();
    const auto index = static_cast<std::size_t>(main.level()) - 1;
    if (index >= s.mains.size() || s.mains[index].get() != &main) leaked_tracer(*t);
    if (!top || main.level() > top->level()) top = &main;
  }
  return top;
}

Array full_raise(MainTrace& main, const Array& x) {
  const Tracer* t = as_tracer(x);
  if (!t) return main.trace().pure(x);
  if (&t->main() == &main) return x;
  if (!t->main().alive()) leaked_tracer(*t);
  if (t->main().level() < main.level()) return main.trace().lift(x);
  throw InternalError("can't lift a tracer of level " + std::to_string(t->main().level()) +
                      " to level " + std::to_string(main.level()));
}

const Array& full_lower(const Array& x) {
  const Array* lowest = &x;
  while (const Tracer* t = as_tracer(*lowest)) {
    const Array* inner = t->lowered();
    if (!inner) break;
    lowest = inner;
  }
  return *lowest;
}

std::optional<Array> known_value(const Array& x) {
  const Tracer* t = as_tracer(x);
  if (!t) return x;
  return t->known_value();
}

Array concrete_value(const Array& x, const char* what) {
  if (const Tracer* t = as_tracer(x)) {
    const auto& mains = stack().mains;
    const auto index = static_cast<std::size_t>(t->main().level()) - 1;
    if (index >= mains.size() || mains[index].get() != &t->main()) leaked_tracer(*t);
    if (auto value = t->known_value()) return *value;
    throw ConcretizationError(
        std::string(what) + " needs the value of a tracer " + x.aval().to_string() +
        made_elsewhere(*t) + ", of which only shape and dtype are known under " +
        t->hidden_by().main().owner() +
        "; use telamon::cond or telamon::where to choose by a traced value, or make the "
        "argument static");
  }
  return x;
}

void missing_rule(const PrimitiveBase& primitive, std::string_view stage) {
  struct Text {
    std::string_view stage;
    const char *before, *after;
  };
  constexpr Text kTexts[] = {
      {"impl", "Evaluation rule for ", " not implemented"},
      {"abstract_eval", "Abstract evaluation for ", " not implemented"},
      {"lower", "Lowering rule for primitive ", " not found for platform cpu"},
      {"jvp", "Differentiation rule for ", " not implemented"},
      {"transpose", "Transpose rule (for reverse-mode differentiation) for ", " not implemented"},
      {"batch", "Batching rule for ", " not implemented"}};
  for (const Text& t : kTexts) {
    if (t.stage != stage) continue;
    throw NotImplementedError(t.before + ("'" + std::string(primitive.name()) + "'") + t.after);
  }
  throw InternalError("no rule is called '" + std::string(stage) + "'");
}

AbstractResult abstract_eval(const PrimitiveBase& primitive, const Params& params,
                             std::span<const Aval> avals) {
  const auto& rule = primitive.rules().abstract_eval;
  if (!rule) missing_rule(primitive, "abstract_eval");
  return rule(params, avals);
}

}  // namespace detail

namespace {

// The interpreter of the highest main trace among the operands applies the primitive.
Arrays apply(const PrimitiveBase& primitive, const Params& params, std::span<const Array> args) {
  detail::MainTrace* top = detail::find_top_trace(args);
  if (!top) return detail::evaluate(primitive, params, args);
  detail::InlineVector<Array, 4> boxes;
  boxes.reserve(args.size());  // they stay where they are
  detail::BorrowedArrays tracers;
  for (const Array& x : args) {
    const bool raised = detail::is_tracer_of(*top, x);
    if (!raised) boxes.emplace_back(detail::full_raise(*top, x));
    tracers.push_back(raised ? x : boxes.back());
  }
  Arrays outs = top->trace().process_primitive(primitive, params, tracers);
  for (Array& out : outs) {
    const Array& lowered = detail::full_lower(out);
    if (&lowered != &out) out = Array(lowered);
  }
  return outs;
}

}  // namespace

Arrays PrimitiveBase::bind_erased(const Params& params, std::span<const Array> args) const {
  const auto describe = [&] {
    std::string text(name());
    for (const Array& x : args) text += (&x == args.data() ? " of " : ", ") + x.aval().to_string();
    return text;
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].has_value()) [[unlikely]]
      detail::empty_operand_error(name(), i);
  }
  if (name_taken_) [[unlikely]] {
    throw ValueError("two primitives are called '" + std::string(name()) +
                     "'; give yours another name: printed programs refer to primitives by name");
  }
  return detail::with_operation(describe, [&] { return apply(*this, params, args); });
}

}  // namespace v1
}  // namespace telamon
