// check_primitive: every rule of a primitive against the others, at given operands.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/counted.hpp"
#include "core/element.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "runtime/backend.hpp"
#include "telamon/check.hpp"
#include "transforms/check.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr std::int64_t kBatchSize = 3;

/// The same elements in another order: further examples of the same kind. Stacked, the three make
/// no symmetric array, so that confused axes show.
Array reordered(const Array& x, std::size_t example) {
  const Array dense = contiguous(x);
  Array out = make_uninitialized(x.aval());
  const auto n = static_cast<std::size_t>(x.size()), size = size_of(x.dtype());
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t from = example == 1 ? (i + n - 1) % n : n - 1 - i;
    std::memcpy(mutable_data_of<std::byte>(out) + i * size, data_of<std::byte>(dense) + from * size,
                size);
  }
  return out;
}

/// Examples side by side along a new axis.
Array stacked(std::span<const Array> examples, int axis) {
  Aval aval = examples[0].aval().strong();
  std::int64_t outer = 1, inner = 1;
  for (int d = 0; d < aval.ndim(); ++d)
    (d < axis ? outer : inner) *= aval.shape[static_cast<std::size_t>(d)];
  aval.shape.insert(static_cast<std::size_t>(axis), static_cast<std::int64_t>(examples.size()));
  Array out = make_uninitialized(aval);
  const auto run = static_cast<std::size_t>(inner) * size_of(aval.dtype);
  auto* to = mutable_data_of<std::byte>(out);
  Arrays dense;
  for (const Array& x : examples) dense.push_back(contiguous(x));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Array& x : dense) {
      if (run > 0) std::memcpy(to, data_of<std::byte>(x) + static_cast<std::size_t>(o) * run, run);
      to += run;
    }
  }
  return out;
}

class PrimitiveChecker {
 public:
  PrimitiveChecker(const PrimitiveBase& primitive, const Params& params,
                   std::span<const Array> args, const CheckPrimitiveOptions& options)
      : primitive_(primitive),
        params_(params),
        args_(args),
        options_(options),
        name_(primitive.name()) {}

  void check() const {
    check_types();
    check_programs();
    check_batching();
    const bool differentiable = std::any_of(args_.begin(), args_.end(),
                                            [](const Array& x) { return is_inexact(x.dtype()); });
    if (!differentiable || !options_.differentiate || !primitive_.rules().jvp) return;
    if (options_.grads.modes != GradMode::forward) check_adjoints();
    for (const std::vector<int>& operands : options_.linear) check_transpose(operands);
    check_derivatives();
    check_batched_tangents();
  }

 private:
  FlatFunction function() const {
    return [this](std::span<const Array> x) { return primitive_.bind_erased(params_, x); };
  }

  // Sums and products may be taken in another order, over a batch say.
  static double rounding(DType dtype) {
    switch (dtype) {
      case DType::f64:
      case DType::c128: return 1e-13;
      case DType::f32:
      case DType::c64: return 1e-5;
      case DType::f16: return 1e-2;
      case DType::bf16: return 1e-1;
      default: return 0;
    }
  }

  void check_rounded(const Arrays& got, const Arrays& want, const std::string& what) const {
    if (got.size() != want.size()) return check_same(got, want, 0, what);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double tolerance = rounding(want[i].dtype());
      check_close(got[i], want[i], tolerance, tolerance, name_ + ", " + what);
    }
  }

  void check_same(const Arrays& got, const Arrays& want, double rtol,
                  const std::string& what) const {
    if (got.size() != want.size()) {
      throw CheckFailure(name_ + ", " + what + ": " + counted(got.size(), "result") +
                         " instead of " + std::to_string(want.size()));
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (same_bits(got[i], want[i])) continue;
      // Without a tolerance only the payload of a NaN may differ.
      check_close(got[i], want[i], 0, rtol, name_ + ", " + what);
    }
  }

  // abstract_eval against the results.
  void check_types() const {
    const std::vector<Aval> avals = avals_of(args_);
    const AbstractResult types = abstract_eval(primitive_, params_, avals);
    const auto& impl = primitive_.rules().impl;  // called directly: evaluation has such a check too
    const Arrays results = impl ? impl(params_, args_) : function()(args_);
    if (types.avals.size() != results.size()) {
      throw CheckFailure(name_ + ": abstract_eval promises " +
                         counted(types.avals.size(), "result") + ", impl gives " +
                         std::to_string(results.size()));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (types.avals[i] == results[i].aval()) continue;
      throw CheckFailure(name_ + ": abstract_eval promises " + types.avals[i].to_string() +
                         ", impl gives " + results[i].aval().to_string());
    }
  }

  // Evaluated, printed and parsed, interpreted, compiled.
  void check_programs() const {
    const ClosedJaxpr closed = stage_arrays(function(), args_, name_);
    typecheck_jaxpr(closed.jaxpr, {});
    if (!(parse_jaxpr(closed.jaxpr.to_string(), {}) == closed.jaxpr)) {
      throw CheckFailure(name_ + ": printed and parsed back, this is another program:\n" +
                         closed.jaxpr.to_string());
    }
    const Arrays want = function()(args_);
    Arrays inputs = closed.consts;
    for (const Array& x : args_) inputs.push_back(contiguous(x));
    const auto run_on = [&](const runtime::Backend& backend) {
      Arrays outs;
      backend.compile(closed.jaxpr, {.name = name_})->execute(inputs, {}, outs);
      return outs;
    };
    check_same(run_on(runtime::interpret_backend()), want, 0, "interpreted jit against eager");
    if (const runtime::Backend* native = native_backend()) {
      check_same(run_on(*native), want, options_.native_rtol, "native jit against eager");
    }
  }

  static const runtime::Backend* native_backend() {
    try {
      return &runtime::find_backend("llvm");
    } catch (const ValueError&) {
      return nullptr;  // built without it
    }
  }

  std::vector<Arrays> examples() const {
    std::vector<Arrays> all{Arrays(args_.begin(), args_.end())};
    for (const Arrays& given : options_.examples) all.push_back(given);
    while (all.size() < static_cast<std::size_t>(kBatchSize)) {
      Arrays next;
      for (const Array& x : args_) next.push_back(reordered(x, all.size()));
      all.push_back(std::move(next));
    }
    all.resize(static_cast<std::size_t>(kBatchSize));
    return all;
  }

  // The next choice of axes, counting up from "none mapped"; false when all have been seen.
  bool next_choice(std::vector<BatchAxis>& axes) const {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const int next = axes[i] ? *axes[i] + 1 : 0;
      if (next <= args_[i].ndim()) {
        axes[i] = next;
        return true;
      }
      axes[i] = std::nullopt;
    }
    return false;
  }

  static std::string choice_name(const std::vector<BatchAxis>& axes) {
    std::string text;
    for (const BatchAxis& a : axes)
      text += (text.empty() ? "" : ", ") + (a ? std::to_string(*a) : std::string("None"));
    return "in_axes (" + text + ")";
  }

  static Arrays map_over(const FlatFunction& f, std::span<const Array> args,
                         const std::vector<BatchAxis>& axes) {
    const VmapSpec spec{
        axes, [](std::size_t n) { return std::vector<BatchAxis>(n, 0); }, kBatchSize, {}};
    return vmap_arrays(f, args, spec, {}, "vmap");
  }

  // The operands of one choice of axes: batches where mapped, else the first example.
  static Arrays batched_args(const std::vector<Arrays>& examples,
                             const std::vector<BatchAxis>& axes) {
    Arrays args;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      Arrays column;
      for (const Arrays& e : examples) column.push_back(e[i]);
      args.push_back(axes[i] ? stacked(column, *axes[i]) : column[0]);
    }
    return args;
  }

  // f on each example, one after the other; stacked along axis 0.
  static Arrays loop_over(const FlatFunction& f, const std::vector<Arrays>& examples,
                          const std::vector<BatchAxis>& axes) {
    std::vector<Arrays> columns;
    for (const Arrays& example : examples) {
      Arrays args;
      for (std::size_t i = 0; i < axes.size(); ++i)
        args.push_back(axes[i] ? example[i] : examples[0][i]);
      const Arrays results = f(args);
      columns.resize(results.size());
      for (std::size_t i = 0; i < results.size(); ++i) columns[i].push_back(results[i]);
    }
    Arrays out;
    for (const Arrays& column : columns) out.push_back(stacked(column, 0));
    return out;
  }

  void check_batching() const {
    if (args_.empty() || !primitive_.rules().batch) return;
    const std::vector<Arrays> all = examples();
    std::vector<BatchAxis> axes(args_.size());
    while (next_choice(axes)) {
      const Arrays want = loop_over(function(), all, axes);
      check_rounded(map_over(function(), batched_args(all, axes), axes), want,
                    "vmap, " + choice_name(axes));
    }
  }

  // Against finite differences.
  void check_derivatives() const {
    try {
      check_grads_arrays(function(), args_, options_.grads);
    } catch (const CheckFailure& e) { throw CheckFailure(name_ + ", " + e.message()); }
  }

  // Two sums of products, each of which has this many terms.
  void check_equal_sums(double got, double want, std::size_t terms, std::span<const Array> results,
                        const std::string& what) const {
    double epsilon = std::numeric_limits<double>::epsilon();
    for (const auto& xs : {args_, results}) {
      for (const Array& x : xs) {
        if (x.dtype() == DType::f32 || x.dtype() == DType::c64)
          epsilon = std::max(epsilon, 0x1p-23);
        if (is_small_float(x.dtype())) epsilon = 0x1p-8;
      }
    }
    const double scale = 1 + std::abs(want);
    check_close(Array(got), Array(want), 32 * epsilon * static_cast<double>(terms + 1) * scale, 0,
                name_ + ", " + what);
  }

  static std::size_t num_elements(std::span<const Array> xs) {
    std::size_t n = 0;
    for (const Array& x : xs) n += x.has_value() ? static_cast<std::size_t>(x.size()) : 0;
    return n;
  }

  // The primitive as a function of some operands, the others held fixed.
  LinearizedArrays linearized(const std::vector<std::size_t>& operands) const {
    Arrays chosen;
    for (const std::size_t i : operands) chosen.push_back(args_[i]);
    const FlatFunction f = [&](std::span<const Array> x) {
      Arrays all(args_.begin(), args_.end());
      for (std::size_t k = 0; k < operands.size(); ++k) all[operands[k]] = x[k];
      return primitive_.bind_erased(params_, all);
    };
    return linearize_arrays(f, chosen, "linearize");
  }

  // In all operands, then in each alone, where the other tangents are symbolic zeros: that must come
  // to the same as zeros.
  void check_adjoints() const {
    std::vector<std::size_t> smooth;
    for (std::size_t i = 0; i < args_.size(); ++i) {
      if (is_inexact(args_[i].dtype())) smooth.push_back(i);
    }
    Random random;
    Arrays v;
    for (const std::size_t i : smooth) v.push_back(random.like(args_[i].aval()));
    const LinearizedArrays all = linearized(smooth);
    check_adjoint(all, v, "");
    if (smooth.size() == 1) return;
    for (std::size_t k = 0; k < smooth.size(); ++k) {
      const std::string where = " in operand " + std::to_string(smooth[k]);
      const LinearizedArrays one = linearized({smooth[k]});
      check_adjoint(one, {v[k]}, where);
      Arrays with_zeros;
      for (const Array& t : v) with_zeros.push_back(full_of(t.aval(), 0));
      with_zeros[k] = v[k];
      check_rounded(one.map.apply({&v[k], 1}), all.map.apply(with_zeros),
                    "jvp" + where + " alone against zeros for the others");
    }
  }

  // <J v, w> = <v, J' w>, to rounding: both sides come from the same linear program.
  void check_adjoint(const LinearizedArrays& lin, const Arrays& v, const std::string& where) const {
    Random random;
    const Arrays w = random_tangents(random, lin.primals);
    const double pushed = inner_product(lin.map.apply(v), w),
                 pulled = inner_product(v, conjugated(lin.map.transpose(conjugated(w))));
    check_equal_sums(pulled, pushed, num_elements(v), lin.primals,
                     "<v, J' w> against <J v, w>" + where);
  }

  // <f(v) - f(0), w> = <v, conj(transpose(conj(w)))>: the rule itself. With cotangents of all results, and
  // with that of one result alone, the others being symbolic zeros.
  void check_transpose(const std::vector<int>& operands) const {
    Random random;
    Arrays at_v(args_.begin(), args_.end()), at_zero = at_v, v(args_.size());
    std::vector<LinearInput> inputs(args_.begin(), args_.end());
    std::string where = " in operands";
    for (const int k : operands) {
      const auto i = static_cast<std::size_t>(k);
      at_v[i] = v[i] = random.like(args_[i].aval());
      at_zero[i] = full_of(args_[i].aval(), 0);
      inputs[i] = UndefPrimal{args_[i].aval().strong()};
      where += " " + std::to_string(k);
    }
    const Arrays y = function()(at_v), y0 = function()(at_zero), w = random_tangents(random, y),
                 ct = conjugated(w);
    for (std::size_t only = 0; only <= y.size(); ++only) {
      if (only < y.size() && y.size() == 1) continue;
      std::vector<Tangent> cotangents;
      double pushed = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const bool present = w[i].has_value() && (only == i || only == y.size());
        cotangents.push_back(present ? Tangent(ct[i]) : Tangent(Zero{y[i].aval().tangent()}));
        if (present)
          pushed += inner_product({&y[i], 1}, {&w[i], 1}) - inner_product({&y0[i], 1}, {&w[i], 1});
      }
      const std::vector<Tangent> back = primitive_.rules().transpose(params_, cotangents, inputs);
      check_equal_sums(paired(v, back, where), pushed, num_elements(v) + num_elements(y), y,
                       "<v, transpose(w)> against <f(v), w>" + where);
    }
  }

  // <v, cotangents>, once these have the types of the operands.
  double paired(const Arrays& v, const std::vector<Tangent>& cotangents,
                const std::string& where) const {
    if (cotangents.size() != v.size()) {
      throw CheckFailure(name_ + ", transpose" + where + ": " +
                         counted(cotangents.size(), "cotangent") + " for " +
                         counted(v.size(), "operand"));
    }
    double sum = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (!v[i].has_value()) continue;
      const Array ct = cotangents[i].instantiate();
      if (!ct.aval().same_type(args_[i].aval())) {
        throw CheckFailure(name_ + ", transpose" + where + ": the cotangent of operand " +
                           std::to_string(i) + " is " + ct.aval().to_string() + ", not " +
                           args_[i].aval().strong().to_string());
      }
      sum += inner_product({&v[i], 1}, conjugated({&ct, 1}));
    }
    return sum;
  }

  // vmap of jvp against a loop of jvp, all operands mapped over axis 0.
  void check_batched_tangents() const {
    Random random;
    std::vector<Arrays> all = examples();
    for (Arrays& example : all) {
      for (const Array& t : random_tangents(random, args_)) {
        if (t.has_value()) example.push_back(t);
      }
    }
    const std::size_t n = args_.size();
    const FlatFunction f = function();
    const FlatFunction tangents_of = [&](std::span<const Array> both) {
      Arrays tangents;
      std::size_t next = n;
      for (const Array& x : both.first(n))
        tangents.push_back(is_inexact(x.dtype()) ? both[next++] : Array());
      Arrays results;
      for (const Array& t : jvp_arrays(f, both.first(n), tangents, {}).tangents) {
        if (t.dtype() != DType::float0) results.push_back(t);
      }
      return results;
    };
    const std::vector<BatchAxis> axes(all[0].size(), 0);
    const Arrays want = loop_over(tangents_of, all, axes);
    const Arrays got = map_over(tangents_of, batched_args(all, axes), axes);
    check_rounded(got, want, "vmap of jvp");
  }

  const PrimitiveBase& primitive_;
  const Params& params_;
  std::span<const Array> args_;
  const CheckPrimitiveOptions& options_;
  std::string name_;
};

}  // namespace

void check_primitive_erased(const PrimitiveBase& primitive, const Params& params,
                            std::span<const Array> args, const CheckPrimitiveOptions& options) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].has_value())
      empty_operand_error("check_primitive of " + std::string(primitive.name()), i);
  }
  PrimitiveChecker(primitive, params, args, options).check();
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
