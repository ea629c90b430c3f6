// check_primitive: every rule of a primitive against the others, at given operands.
#include <algorithm>
#include <cstring>
#include <limits>

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

bool same_bits(const Array& a, const Array& b) {
  if (!a.aval().same_type(b.aval())) return false;
  const Array x = contiguous(a), y = contiguous(b);
  const auto bytes = static_cast<std::size_t>(x.size()) * size_of(x.dtype());
  return bytes == 0 || std::memcmp(data_of<std::byte>(x), data_of<std::byte>(y), bytes) == 0;
}

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
    const bool differentiable =
        std::any_of(args_.begin(), args_.end(), [](const Array& x) { return is_float(x.dtype()); });
    if (!differentiable || !options_.differentiate || !primitive_.rules().jvp) return;
    check_grads_arrays(function(), args_, options_.grads);
    check_adjoint();
    check_batched_tangents();
  }

 private:
  FlatFunction function() const {
    return [this](std::span<const Array> x) { return primitive_.bind_erased(params_, x); };
  }

  // Reductions and products may add in another order over a batch.
  static double batch_tolerance(DType dtype) {
    switch (dtype) {
      case DType::f64: return 1e-13;
      case DType::f32: return 1e-5;
      case DType::f16: return 1e-2;
      case DType::bf16: return 1e-1;
      default: return 0;
    }
  }

  void check_same_batches(const Arrays& got, const Arrays& want, const std::string& what) const {
    if (got.size() != want.size()) return check_same(got, want, 0, what);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double tolerance = batch_tolerance(want[i].dtype());
      check_close(got[i], want[i], tolerance, tolerance, name_ + ", " + what);
    }
  }

  void check_same(const Arrays& got, const Arrays& want, double rtol,
                  const std::string& what) const {
    if (got.size() != want.size()) {
      throw CheckFailure(name_ + ", " + what + ": " + std::to_string(got.size()) +
                         " results instead of " + std::to_string(want.size()));
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (same_bits(got[i], want[i])) continue;
      // Without a tolerance only the payload of a NaN may differ.
      check_close(got[i], want[i], 0, rtol, name_ + ", " + what);
    }
  }

  // abstract_eval against the results.
  void check_types() const {
    std::vector<Aval> avals;
    for (const Array& x : args_) avals.push_back(x.aval());
    const AbstractResult types = abstract_eval(primitive_, params_, avals);
    const Arrays results = function()(args_);
    if (types.avals.size() != results.size()) {
      throw CheckFailure(name_ + ": abstract_eval promises " + std::to_string(types.avals.size()) +
                         " results, impl gives " + std::to_string(results.size()));
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
    typecheck_jaxpr(closed.jaxpr);
    if (!(parse_jaxpr(closed.jaxpr.to_string()) == closed.jaxpr)) {
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
      check_same_batches(map_over(function(), batched_args(all, axes), axes), want,
                         "vmap, " + choice_name(axes));
    }
  }

  Arrays random_tangents(Random& random, std::span<const Array> xs) const {
    Arrays tangents;
    for (const Array& x : xs)
      tangents.push_back(is_float(x.dtype()) ? random.like(x.aval()) : Array());
    return tangents;
  }

  // <J v, w> = <v, J' w>, to rounding: both sides come from the same linear program.
  void check_adjoint() const {
    Random random;
    const LinearizedArrays lin = linearize_arrays(function(), args_, "linearize");
    const Arrays v = random_tangents(random, args_), w = random_tangents(random, lin.primals);
    const double pushed = inner_product(lin.map.apply(v), w),
                 pulled = inner_product(v, lin.map.transpose(w));
    double epsilon = std::numeric_limits<double>::epsilon();
    for (const auto& xs : {args_, std::span<const Array>(lin.primals)}) {
      for (const Array& x : xs) {
        if (x.dtype() == DType::f32) epsilon = std::max(epsilon, 0x1p-23);
        if (x.dtype() == DType::f16 || x.dtype() == DType::bf16) epsilon = 0x1p-8;
      }
    }
    double elements = 1, scale = 1;
    for (const Array& x : v) elements += x.has_value() ? static_cast<double>(x.size()) : 0;
    scale += std::abs(pushed);
    check_close(Array(pulled), Array(pushed), 32 * epsilon * elements * scale, 0,
                name_ + ", <v, J' w> against <J v, w>");
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
        tangents.push_back(is_float(x.dtype()) ? both[next++] : Array());
      Arrays results;
      for (const Array& t : jvp_arrays(f, both.first(n), tangents, {}).tangents) {
        if (t.dtype() != DType::float0) results.push_back(t);
      }
      return results;
    };
    const std::vector<BatchAxis> axes(all[0].size(), 0);
    const Arrays want = loop_over(tangents_of, all, axes);
    const Arrays got = map_over(tangents_of, batched_args(all, axes), axes);
    check_same_batches(got, want, "vmap of jvp");
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
  PrimitiveChecker(primitive, params, args, options).check();
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
