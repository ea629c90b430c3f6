// Primitive: a name, a typed parameter struct, and a table of rules, one per interpretation.
//
//   struct Axpby { double alpha = 1, beta = 1; };
//   const tl::Primitive<Axpby> axpby_p{"axpby", [] {
//     return tl::Rules<Axpby>{.lower = tl::ops<Axpby>([](const Axpby& p, std::span<const Array> x) {
//       return Arrays{p.alpha * x[0] + p.beta * x[1]}; })}; }};
//   Array axpby(tl::Operand x, tl::Operand y, Axpby p) { return axpby_p(p, {x, y})[0]; }
//
// The table is built when it is first needed and may be extended later (`def_jvp`, ...). A rule that
// is missing is derived from an `ops` lowering where there is one; else its use is a
// NotImplementedError with the stage's own text.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/emitter.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/params.hpp"

namespace telamon {
inline namespace v1 {

/// A symbolic zero: the tangent or cotangent that is known to be zero, never materialised.
struct Zero {
  Aval aval;
};

/// A tangent or cotangent: an array or a symbolic zero.
class Tangent {
 public:
  Tangent(Array value) : value_(std::move(value)) {}
  Tangent(Zero zero) : aval_(std::move(zero.aval)) {}
  bool is_zero() const { return !value_.has_value(); }
  const Array& array() const { return value_; }
  const Aval& aval() const { return is_zero() ? aval_ : value_.aval(); }
  /// The array, or zeros of the aval.
  TELAMON_API Array instantiate() const;

 private:
  Array value_;
  Aval aval_;
};

/// Marks the linear operands of an equation that is transposed.
struct UndefPrimal {
  Aval aval;
};

/// An operand in a transpose rule: a known array, or UndefPrimal where the equation is linear.
class LinearInput {
 public:
  LinearInput(Array value) : value_(std::move(value)) {}
  LinearInput(UndefPrimal undef) : aval_(std::move(undef.aval)) {}
  bool is_linear() const { return !value_.has_value(); }
  const Array& array() const { return value_; }
  const Aval& aval() const { return is_linear() ? aval_ : value_.aval(); }

 private:
  Array value_;
  Aval aval_;
};

/// The axis that `vmap` maps over.
struct AxisInfo {
  std::int64_t size = 0;
  std::string name;
};
using BatchAxis = std::optional<int>;  ///< nullopt: not mapped

struct AbstractResult {
  Avals avals;
  Effect effect = Effect::none;
  AbstractResult(std::vector<Aval> a, Effect e = Effect::none) : avals(std::move(a)), effect(e) {}
  AbstractResult(Aval a) { avals.push_back(std::move(a)); }
};
struct JvpResult {
  Arrays primals;
  std::vector<Tangent> tangents;
};
struct BatchResult {
  Arrays values;
  std::vector<BatchAxis> axes;
};

/// What a residual of partial evaluation is: a known input, a known primal output, a new output
/// of the known program, or (in loops) a new output that does not change from step to step.
struct Residual {
  enum class Kind : std::uint8_t { input, output, fresh, invariant };
  Kind kind = Kind::fresh;
  int index = 0;  ///< of the known inputs, of the known outputs, or of the fresh ones
  bool operator==(const Residual&) const = default;
};
/// Decides which known values may be saved as residuals (checkpoint policies). Null: all.
using Policy = std::function<bool(const Eqn&)>;
/// An equation split in two. The known one takes the known inputs and gives the known outputs, then
/// the fresh residuals; the staged one takes all residuals, then the unknown inputs, and gives the
/// unknown outputs.
struct PartialEvalResult {
  Params known;
  Params staged;
  std::vector<bool> unknown_out;
  std::vector<Residual> residuals;
  std::vector<Aval> fresh_avals;  ///< of the fresh residuals
  /// Programs with the same inputs and results, where one equation of the primitive does not do:
  /// they come in place of `known` and `staged`. Loops put hoisted equations in front in this way.
  std::optional<Jaxpr> known_program = {}, staged_program = {};
  /// The known outputs and fresh residuals, where partial_eval_values has computed them.
  std::optional<Arrays> known_values = {};
};
struct DceResult {
  Params params;
  std::vector<bool> used_in;
  std::vector<bool> kept_out = {};  ///< which results it still has; empty: those that are used
};
/// A call in final style that has become one of a program: what the program captured comes first
/// among its operands.
struct ClosedCall {
  Params params;
  Arrays consts;
};

/// A read-only view of a dense row-major buffer, and one to be written: what `call` lowerings get.
struct BufferView {
  const void* data;
  DType dtype;
  std::span<const std::int64_t> shape;
  template <class T> const T* as() const { return static_cast<const T*>(data); }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (auto d : shape) n *= d;
    return n;
  }
};
struct MutableBufferView {
  void* data;
  DType dtype;
  std::span<const std::int64_t> shape;
  template <class T> T* as() const { return static_cast<T*>(data); }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (auto d : shape) n *= d;
    return n;
  }
};

/// How a primitive becomes native code: exactly one of the forms below.
struct Lowering {
  /// A traceable function of other primitives. Rules that are absent are derived from it.
  struct Ops {
    std::function<Arrays(const Params&, std::span<const Array>)> f;
  };
  /// Element by element: result i depends on element i of each operand (all of one shape).
  struct Element {
    std::function<Scalars(Emitter&, const Params&, std::span<const Scalar>)> f;
  };
  /// Reads any operand at any index: broadcast, slice, gather. One result.
  struct AtIndex {
    std::function<Scalar(Emitter&, const Params&, std::span<const Source>, const Index&)> f;
  };
  /// A fold over some axes of one operand, with an identity and an associative combination.
  struct Reduction {
    std::function<Scalar(Emitter&, const Params&, DType)> identity;
    std::function<Scalar(Emitter&, const Params&, Scalar, Scalar)> combine;
    std::function<Shape(const Params&)> axes;
  };
  /// Loops over whole buffers: cumsum, scatter. A fusion barrier.
  struct Kernel {
    std::function<void(Emitter&, const Params&, std::span<const Buffer>, std::span<const Buffer>)>
        f;
  };
  /// A C++ function over buffers. It may capture state, which the executable owns.
  struct Call {
    std::function<void(const Params&, std::span<const BufferView>,
                       std::span<const MutableBufferView>)>
        f;
    std::string stable_id;  ///< lets programs with captured state into the disk cache
  };
  /// About how many cycles a vector of results takes, beside its operands: an addition takes 1. The
  /// compiler weighs it when it could compute a value again, and when it divides work.
  struct Cost {
    int cycles = 1;
    int per_operand = 0;
  };

  std::variant<std::monostate, Ops, Element, AtIndex, Reduction, Kernel, Call> form = {};
  Cost cost = {};
  explicit operator bool() const { return form.index() != 0; }
  Lowering with_cost(int cycles, int per_operand = 0) && {
    cost = {cycles, per_operand};
    return std::move(*this);
  }
};

namespace detail {

/// The rules with their parameters erased.
struct RuleTable {
  std::function<Arrays(const Params&, std::span<const Array>)> impl;
  std::function<AbstractResult(const Params&, std::span<const Aval>)> abstract_eval;
  std::function<JvpResult(const Params&, std::span<const Array>, std::span<const Tangent>)> jvp;
  std::function<std::vector<Tangent>(const Params&, std::span<const Tangent>,
                                     std::span<const LinearInput>)>
      transpose;
  std::function<BatchResult(const Params&, const AxisInfo&, std::span<const Array>,
                            std::span<const BatchAxis>)>
      batch;
  std::function<PartialEvalResult(const Params&, const Jaxpr&, const Eqn&, const std::vector<bool>&,
                                  const std::vector<bool>&, const Policy&)>
      partial_eval;
  std::function<std::optional<PartialEvalResult>(const Params&,
                                                 std::span<const std::optional<Array>>)>
      partial_eval_values;
  std::function<DceResult(const Params&, const std::vector<bool>&)> dce;
  std::function<std::optional<ClosedCall>(const Params&, std::span<const Aval>)> close;
  std::map<std::string, Lowering, std::less<>> lower;  // by platform
  // Whose absence is intended, and why: what the coverage test accepts.
  std::map<std::string, std::string, std::less<>> exempt;
  bool updates_operand = false;
  bool inlinable = false;
  std::function<Params(const ParamsText&)> parse_params;

  /// The lowering for this platform; null when there is none.
  const Lowering* lowering(std::string_view platform = "cpu") const {
    const auto found = lower.find(platform);
    return found == lower.end() || !found->second ? nullptr : &found->second;
  }
};

}  // namespace detail

/// A primitive without the type of its parameters: what equations refer to.
class TELAMON_API PrimitiveBase {
 public:
  using Builder = std::function<detail::RuleTable()>;
  /// Programs refer to primitives by name: each needs one of its own. A second primitive of a name
  /// can be made (this may be before main) but not applied.
  PrimitiveBase(const char* name, Builder build);
  PrimitiveBase(const PrimitiveBase&) = delete;
  PrimitiveBase& operator=(const PrimitiveBase&) = delete;

  std::string_view name() const { return name_; }
  /// The table, built on first use. Missing rules are empty functions, unless derivable.
  const detail::RuleTable& rules() const;
  detail::RuleTable& mutable_rules() const;    ///< to add rules; not while other threads trace
  bool has_rule(std::string_view rule) const;  ///< "impl", "jvp", ..., "lower"
  /// Adds a lowering; rules that are still missing are derived if it is of the `ops` form.
  void add_lowering(std::string platform, Lowering lowering) const;

  /// All registered primitives, sorted by name.
  static std::vector<const PrimitiveBase*> all();
  static const PrimitiveBase* find(std::string_view name);  ///< null when there is none

  /// The interception point: finds the interpreter for the operands and lets it apply the primitive.
  /// ValueError when an older primitive has its name.
  Arrays bind_erased(const Params& params, std::span<const Array> args) const;

 protected:
  ~PrimitiveBase();

 private:
  const char* name_;
  mutable Builder build_;
  mutable std::atomic<detail::RuleTable*> table_{nullptr};
  bool name_taken_ = false;  // by an older primitive
};

/// The rules of a primitive with parameters P. All are optional.
template <class P = NoParams>
struct Rules {
  /// Evaluates on concrete arrays. Need not be traceable.
  std::function<Arrays(const P&, std::span<const Array>)> impl = {};
  /// The avals and the effect of the results.
  std::function<AbstractResult(const P&, std::span<const Aval>)> abstract_eval = {};
  /// Results and their tangents. Must be traceable; at least one tangent is not zero.
  std::function<JvpResult(const P&, std::span<const Array>, std::span<const Tangent>)> jvp = {};
  /// Cotangents of the operands; Zero for those that are not linear.
  std::function<std::vector<Tangent>(const P&, std::span<const Tangent> cts,
                                     std::span<const LinearInput>)>
      transpose = {};
  /// Results over whole batches and where their batch axis is. At least one operand is mapped.
  std::function<BatchResult(const P&, const AxisInfo&, std::span<const Array>,
                            std::span<const BatchAxis>)>
      batch = {};
  /// Splits an equation of a higher-order primitive (arguments: jaxpr around it, equation,
  /// unknown_in, instantiate_out, policy).
  std::function<PartialEvalResult(const P&, const Jaxpr&, const Eqn&,
                                  const std::vector<bool>& unknown_in,
                                  const std::vector<bool>& instantiate_out, const Policy&)>
      partial_eval = {};
  /// The same at trace time, tried first; may look at the known values; nullopt: use partial_eval.
  std::function<std::optional<PartialEvalResult>(const P&, std::span<const std::optional<Array>>)>
      partial_eval_values = {};
  std::function<DceResult(const P&, const std::vector<bool>& used_out)> dce = {};
  /// For calls in final style, which carry a C++ function: traces it for interpreters that need a
  /// program. Evaluation and jvp do not ask. nullopt: the call carries its program already.
  std::function<std::optional<ClosedCall>(const P&, std::span<const Aval>)> close = {};
  Lowering lower = {};                                          ///< for platform "cpu"
  std::map<std::string, std::string, std::less<>> exempt = {};  ///< rule -> reason of its absence
  /// With a `kernel` lowering: result 0 is operand 0, copied by `copy`, with some elements overwritten.
  /// Loops let it overwrite the operand's own memory.
  bool updates_operand = false;
  /// A call of its one program, on its operands, that says nothing more: the compiler puts the program
  /// in its place, and it needs no lowering.
  bool inlinable = false;
};

template <class P = NoParams>
class Primitive : public PrimitiveBase {
 public:
  /// A primitive without rules: each is added by a `def_` function.
  explicit Primitive(const char* name) : Primitive(name, [] { return Rules<P>{}; }) {}
  template <class Build>
    requires std::is_invocable_r_v<Rules<P>, Build>
  Primitive(const char* name, Build build)
      : PrimitiveBase(name, [build] { return erase(build()); }) {}

  /// Applies the primitive to arrays: what rules and library functions call.
  Arrays bind(const P& params, std::span<const Array> args) const {
    return bind_erased(erase_params(params), args);
  }
  Arrays bind(const P& params, std::initializer_list<Array> args) const {
    return bind(params, std::span<const Array>(args.begin(), args.size()));
  }
  /// The only result of a primitive that has one.
  Array bind1(const P& params, std::initializer_list<Array> args) const {
    return std::move(bind(params, args)[0]);
  }
  /// Applies the primitive to operands, remembering the caller's line: what users call.
  Arrays operator()(const P& params, std::initializer_list<Operand> args,
                    SourceLocation where = SourceLocation::current()) const;

  const Primitive& def_impl(decltype(Rules<P>::impl) f) const {
    return def([&](Rules<P>& r) { r.impl = std::move(f); });
  }
  const Primitive& def_abstract_eval(decltype(Rules<P>::abstract_eval) f) const {
    return def([&](Rules<P>& r) { r.abstract_eval = std::move(f); });
  }
  const Primitive& def_jvp(decltype(Rules<P>::jvp) f) const {
    return def([&](Rules<P>& r) { r.jvp = std::move(f); });
  }
  const Primitive& def_transpose(decltype(Rules<P>::transpose) f) const {
    return def([&](Rules<P>& r) { r.transpose = std::move(f); });
  }
  const Primitive& def_batch(decltype(Rules<P>::batch) f) const {
    return def([&](Rules<P>& r) { r.batch = std::move(f); });
  }
  const Primitive& def_lower(Lowering lowering, std::string platform = "cpu") const {
    add_lowering(std::move(platform), std::move(lowering));
    return *this;
  }

 private:
  Params erase_params(const P& params) const {
    return detail::naming_lack_of_memory(name().data(), [&] { return Params::of(params); });
  }
  static detail::RuleTable erase(Rules<P> rules);
  const Primitive& def(const std::function<void(Rules<P>&)>& set) const;
};

/// Lowering forms, typed. `ops<P>`, `element<P>`, ... adapt a function of P to a Lowering.
template <class P = NoParams>
Lowering ops(std::function<Arrays(const P&, std::span<const Array>)> f) {
  return {Lowering::Ops{
      [f = std::move(f)](const Params& p, std::span<const Array> x) { return f(p.as<P>(), x); }}};
}
template <class P = NoParams>
Lowering element(std::function<Scalar(Emitter&, const P&, std::span<const Scalar>)> f) {
  return {
      Lowering::Element{[f = std::move(f)](Emitter& e, const Params& p, std::span<const Scalar> x) {
        return Scalars{f(e, p.as<P>(), x)};
      }}};
}
template <class P = NoParams>
Lowering elements(std::function<Scalars(Emitter&, const P&, std::span<const Scalar>)> f) {
  return {
      Lowering::Element{[f = std::move(f)](Emitter& e, const Params& p, std::span<const Scalar> x) {
        return f(e, p.as<P>(), x);
      }}};
}
template <class P = NoParams>
Lowering at_index(
    std::function<Scalar(Emitter&, const P&, std::span<const Source>, const Index&)> f) {
  return {
      Lowering::AtIndex{[f = std::move(f)](Emitter& e, const Params& p, std::span<const Source> x,
                                           const Index& i) { return f(e, p.as<P>(), x, i); }}};
}
template <class P = NoParams>
Lowering kernel(
    std::function<void(Emitter&, const P&, std::span<const Buffer>, std::span<const Buffer>)> f) {
  return {Lowering::Kernel{
      [f = std::move(f)](Emitter& e, const Params& p, std::span<const Buffer> in,
                         std::span<const Buffer> out) { f(e, p.as<P>(), in, out); }}};
}
template <class P = NoParams>
Lowering call(
    std::function<void(const P&, std::span<const BufferView>, std::span<const MutableBufferView>)>
        f,
    std::string stable_id = {}) {
  return {Lowering::Call{
      [f = std::move(f)](const Params& p, std::span<const BufferView> in,
                         std::span<const MutableBufferView> out) { f(p.as<P>(), in, out); },
      std::move(stable_id)}};
}

template <class P>
detail::RuleTable Primitive<P>::erase(Rules<P> r) {
  detail::RuleTable t;
  // Each typed rule is wrapped once; the wrapper only recovers the parameter struct.
  const auto wrap = [](auto& erased, auto typed) {
    if (!typed) return;
    erased = [f = std::move(typed)](const Params& p, auto&&... args) {
      return f(p.as<P>(), std::forward<decltype(args)>(args)...);
    };
  };
  wrap(t.impl, std::move(r.impl));
  wrap(t.abstract_eval, std::move(r.abstract_eval));
  wrap(t.jvp, std::move(r.jvp));
  wrap(t.transpose, std::move(r.transpose));
  wrap(t.batch, std::move(r.batch));
  wrap(t.partial_eval, std::move(r.partial_eval));
  wrap(t.partial_eval_values, std::move(r.partial_eval_values));
  wrap(t.dce, std::move(r.dce));
  wrap(t.close, std::move(r.close));
  if (r.lower) t.lower["cpu"] = std::move(r.lower);
  t.exempt = std::move(r.exempt);
  t.updates_operand = r.updates_operand;
  t.inlinable = r.inlinable;
  t.parse_params = [](const ParamsText& text) { return Params::parse<P>(text); };
  return t;
}

template <class P>
const Primitive<P>& Primitive<P>::def(const std::function<void(Rules<P>&)>& set) const {
  Rules<P> one;
  set(one);
  detail::RuleTable t = erase(std::move(one));
  detail::RuleTable& mine = mutable_rules();
  if (t.impl) mine.impl = std::move(t.impl);
  if (t.abstract_eval) mine.abstract_eval = std::move(t.abstract_eval);
  if (t.jvp) mine.jvp = std::move(t.jvp);
  if (t.transpose) mine.transpose = std::move(t.transpose);
  if (t.batch) mine.batch = std::move(t.batch);
  return *this;
}

template <class P>
Arrays Primitive<P>::operator()(const P& params, std::initializer_list<Operand> args,
                                SourceLocation where) const {
  return detail::in_call(name().data(), where, [&] {
    Arrays arrays;
    arrays.reserve(args.size());
    for (const Operand& a : args) {
      if (!a.array.has_value()) detail::empty_operand_error(name(), arrays.size());
      arrays.push_back(a.array);
    }
    return bind(params, arrays);
  });
}

}  // namespace v1
}  // namespace telamon
