// The interpreter stack: MainTrace, Trace, Tracer, and how bind finds the interpreter of a primitive.
//
// As in Autodidax: each transformation pushes a MainTrace; a Tracer belongs to one; bind looks for
// the highest MainTrace among the operands (or the dynamic one, if higher), raises all operands to
// it and lets its Trace process the primitive. Evaluation, at level 0, is always at the bottom.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/avals.hpp"
#include "telamon/array.hpp"
#include "telamon/detail/array_lists.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

class MainTrace;

/// How one kind of interpreter boxes values and applies primitives.
class Trace {
 public:
  virtual ~Trace() = default;
  /// Boxes a concrete array.
  virtual Array pure(const Array& x) = 0;
  /// Boxes a tracer of a lower level.
  virtual Array lift(const Array& x) = 0;
  /// Applies `primitive` to operands that are all tracers of this trace.
  virtual Arrays process_primitive(const PrimitiveBase& primitive, const Params& params,
                                   std::span<const Array> tracers) = 0;
  /// The word in "while tracing ...": "jit", "jvp", "vmap", "linearize".
  virtual std::string describe() const = 0;

  MainTrace& main() const { return *main_; }

 private:
  friend class MainTrace;
  MainTrace* main_ = nullptr;
};

class Tracer;
/// The tracers of one trace, recorded while leaks are checked.
struct LiveTracers {
  std::mutex mutex;
  std::set<const Tracer*> tracers;
};

/// One entry of the interpreter stack. Tracers keep it alive, so that a leaked one can be named.
class MainTrace {
 public:
  MainTrace(int level, std::unique_ptr<Trace> trace) : level_(level), trace_(std::move(trace)) {
    trace_->main_ = this;
  }
  int level() const { return level_; }
  Trace& trace() const { return *trace_; }
  bool alive() const { return alive_; }
  const std::string& description() const { return description_; }
  /// The description, or where that is empty the one of the transformation that this is a part of.
  const std::string& owner() const { return owner_; }
  /// The tracers of this trace that still exist; null unless leaks are checked.
  LiveTracers* live_tracers() const { return live_.get(); }

  void retain() const { add_reference(count_); }
  void release() const {
    if (drop_reference(count_)) delete this;
  }

 private:
  friend class NewMain;
  mutable std::atomic<int> count_{0};
  int level_;
  std::unique_ptr<LiveTracers> live_;
  bool alive_ = true;
  std::string description_, owner_;  // kept when the trace is gone
  std::unique_ptr<Trace> trace_;
};

/// One of those who hold a MainTrace. The count is in the object: tracers are many, and small.
class MainPtr {
 public:
  explicit MainPtr(MainTrace& main) : main_(&main) { main.retain(); }
  MainPtr(const MainPtr& o) : MainPtr(*o.main_) {}
  MainPtr& operator=(MainPtr o) noexcept {
    std::swap(main_, o.main_);
    return *this;
  }
  ~MainPtr() { main_->release(); }
  MainTrace* get() const { return main_; }
  MainTrace& operator*() const { return *main_; }
  MainTrace* operator->() const { return main_; }

 private:
  MainTrace* main_;
};

/// A boxed value: an aval and the interpreter it belongs to. Made for the handle that holds it first
/// (Array::holder_of).
class Tracer : public ArrayNode {
 public:
  Tracer(MainTrace& main, const ShapedArray& aval);
  /// ... of the type of an array.
  Tracer(MainTrace& main, const Array& like);
  ~Tracer() override;
  MainTrace& main() const { return *main_; }
  SourceLocation created() const { return created_; }
  /// The value that it boxes and adds nothing to; null where it does.
  virtual const Array* lowered() const { return nullptr; }
  /// The value when it is known: what bool(), item() and printing ask for.
  virtual std::optional<Array> known_value() const { return std::nullopt; }
  /// The tracer for whose sake the value is not known: this one, or one that it boxes.
  virtual const Tracer& hidden_by() const { return *this; }

  // A trace makes several for each operation, and lets go of all of them together: they lie in blocks that
  // are kept for the next trace.
  static void* operator new(std::size_t size);
  static void operator delete(void* p, std::size_t size);

 private:
  void register_live();
  MainPtr main_;
  SourceLocation created_;
};

/// Pushes a MainTrace for the duration of a scope.
class NewMain {
 public:
  explicit NewMain(std::unique_ptr<Trace> trace);
  ~NewMain() { pop(); }
  NewMain(const NewMain&) = delete;
  NewMain& operator=(const NewMain&) = delete;
  MainTrace& main() const { return *main_; }
  template <class T> T& trace() const { return static_cast<T&>(main_->trace()); }

  /// Pops it. Tracers of it that are still there have leaked: an error where `check_leaks()` asks for it.
  void end();

 private:
  void pop();
  MainPtr main_;
};

/// body(scope) under a new MainTrace. The tracers that the body makes must be gone when it returns.
template <class Body>
auto under_new_main(std::unique_ptr<Trace> trace, Body&& body) {
  NewMain scope(std::move(trace));
  auto result = body(std::as_const(scope));
  scope.end();
  return result;
}

/// Makes `main` the dynamic trace (omnistaging): primitives without tracers go to it too.
class NewDynamic {
 public:
  explicit NewDynamic(MainTrace& main);
  ~NewDynamic();
  NewDynamic(const NewDynamic&) = delete;
  NewDynamic& operator=(const NewDynamic&) = delete;

 private:
  MainTrace* previous_;
};

/// Sets the interpreter stack aside: what runs inside is evaluated and never staged by accident.
class EvalScope {
 public:
  EvalScope();
  ~EvalScope();
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<MainPtr> mains_;
  MainTrace* dynamic_;
};

/// Overrides the current call site, whatever it was: interpreters of jaxprs set each equation's.
class EqnSite {
 public:
  explicit EqnSite(SourceLocation where);
  ~EqnSite();
  EqnSite(const EqnSite&) = delete;
  EqnSite& operator=(const EqnSite&) = delete;

 private:
  SourceLocation previous_;
};

SourceLocation current_call_site();
/// The same, or else the line of the innermost transformation under way: what errors show.
SourceLocation error_site();
/// "jit(loss), grad" of the stack, innermost first; "" when only evaluation is under way.
std::string transforms_under_way();
/// Whether any interpreter but evaluation is active (a trace or a dynamic trace).
bool tracing_under_way();
bool has_dynamic_trace();

/// The tracer behind an array, null when it is concrete.
inline const Tracer* as_tracer(const Array& x) {
  return x.node()->is_tracer() ? static_cast<const Tracer*>(x.node()) : nullptr;
}
/// The line that made a tracer, the nearest there is to an operator that takes no place; none of other arrays.
inline SourceLocation place_of(const Array& x) {
  const Tracer* t = as_tracer(x);
  return t ? t->created() : SourceLocation();
}
template <class T> const T& tracer_cast(const Array& x) { return static_cast<const T&>(*x.node()); }

/// The interpreter for these operands; null means evaluation.
MainTrace* find_top_trace(std::span<const Array> args);
/// Applies `primitive` to concrete arrays (interpreters/evaluate.cpp).
Arrays evaluate(const PrimitiveBase& primitive, const Params& params, std::span<const Array> args);
Array full_raise(MainTrace& main, const Array& x);
/// What x boxes at the lowest level at which nothing is lost, or x itself.
const Array& full_lower(const Array& x);
/// Whether x is a tracer of this trace: raising it would change nothing.
inline bool is_tracer_of(const MainTrace& main, const Array& x) {
  const Tracer* t = as_tracer(x);
  return t && &t->main() == &main;
}
/// The concrete value behind x, if it is known at this moment.
std::optional<Array> known_value(const Array& x);
/// The same, or ConcretizationError: `what` says what was tried ("bool()", "item()").
Array concrete_value(const Array& x, const char* what);

/// The only result of a primitive of operands that somebody holds: no references are counted. For
/// primitives of the library, whose rules run no code of the user's that might let go of them.
template <class... X>
Array bind_held(const PrimitiveBase& primitive, const Params& params, const X&... x) {
  BorrowedArrays operands;
  (operands.push_back(x), ...);
  return std::move(primitive.bind_erased(params, operands)[0]);
}

/// Whether tangents and cotangents of `primal` have this shape and dtype.
inline bool is_tangent_type(const Aval& tangent, const Aval& primal) {
  return tangent.dtype == tangent_dtype(primal.dtype) && tangent.shape == primal.shape;
}

/// The staged NotImplementedErrors: stage is "impl", "abstract_eval", "lower", "jvp", "transpose",
/// or "batch".
[[noreturn]] void missing_rule(const PrimitiveBase& primitive, std::string_view stage);
/// abstract_eval of a primitive, with the missing-rule error.
AbstractResult abstract_eval(const PrimitiveBase& primitive, const Params& params,
                             std::span<const Aval> avals);
/// The program of a call in final style; nullopt for every other equation.
inline std::optional<ClosedCall> close_call(const PrimitiveBase& primitive, const Params& params,
                                            std::span<const Array> args) {
  const auto& rule = primitive.rules().close;
  if (!rule) return std::nullopt;
  return rule(params, avals_of(args));
}
/// Consts and operands, all raised to this trace: the operands of a closed call.
inline Arrays closed_operands(MainTrace& main, const Arrays& consts, std::span<const Array> args) {
  Arrays all;
  for (const Array& c : consts) all.push_back(full_raise(main, c));
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
