// Bisection over the passes, then over the switches.
#include "compiler/bisect.hpp"

#include <fmt/core.h>

#include <cmath>
#include <optional>

#include "core/concrete.hpp"
#include "core/element.hpp"
#include "core/environment.hpp"
#include "core/trace.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

double tolerance_of(DType dtype) {
  if (dtype == DType::f64 || dtype == DType::c128) return 1e-9;
  return dtype == DType::f32 || dtype == DType::c64 ? 1e-4 : 1e-2;
}

// How a result differs from what it should be; empty where it does not.
std::string difference(const Array& got, const Array& want, std::optional<double> rtol) {
  if (!(got.aval().shape == want.aval().shape) || got.dtype() != want.dtype())
    return "is " + got.aval().to_string() + ", not " + want.aval().to_string();
  const Array g = detail::contiguous(got), w = detail::contiguous(want);
  const DType to = is_complex(w.dtype()) ? DType::c128 : DType::f64;
  if (!is_inexact(w.dtype()))
    return detail::same_bits(g.astype(want.aval().strong().dtype), w) ? "" : "differs";
  const Array a = g.astype(to), b = w.astype(to);
  const std::int64_t n = a.size() * (to == DType::c128 ? 2 : 1);
  const auto *x = detail::data_of<double>(a), *y = detail::data_of<double>(b);
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isfinite(y[i])) largest = std::max(largest, std::abs(y[i]));
  }
  const double relative = rtol.value_or(tolerance_of(w.dtype()));
  std::int64_t wrong = 0, first = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) ||
                      (std::isfinite(x[i]) && std::isfinite(y[i]) &&
                       std::abs(x[i] - y[i]) <= relative * (std::abs(y[i]) + largest));
    if (same) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  return fmt::format("{} of {} numbers differ; the first, at {}, is {} and should be {}", wrong, n,
                     first, x[first], y[first]);
}

class Bisection {
 public:
  Bisection(const Jaxpr& program, const Arrays& inputs, const BisectOptions& options)
      : program_(program), inputs_(inputs), options_(options) {}

  Finding run() {
    want_ = interpret(program_, inputs_);
    before_ = program_.to_string();
    const std::string wrong = compiled({}, true);
    if (found_) return std::move(*found_);
    if (wrong.empty()) return {};
    Finding finding{Finding::Kind::optimisation, {}, wrong, {}, {}};
    const auto words = detail::environment_words("TELAMON_DISABLE");
    std::set<std::string, std::less<>> all;
    for (const std::string_view word : words) {
      all.insert(std::string(word));
      if (compiled({std::string(word)}, false).empty()) finding.names.emplace_back(word);
    }
    if (!finding.names.empty()) return finding;
    if (!compiled(all, false).empty()) {
      finding.kind = Finding::Kind::generation;
      return finding;
    }
    // Switch on again what does not matter.
    for (const std::string_view word : words) {
      auto fewer = all;
      fewer.erase(fewer.find(word));
      if (compiled(fewer, false).empty()) all = std::move(fewer);
    }
    finding.kind = Finding::Kind::combination;
    finding.names.assign(all.begin(), all.end());
    return finding;
  }

 private:
  static Arrays interpret(const Jaxpr& jaxpr, const Arrays& inputs) {
    const detail::EvalScope scope;
    return eval_jaxpr(jaxpr, inputs);
  }

  std::string differences(const Arrays& got) const {
    for (std::size_t i = 0; i < want_.size(); ++i) {
      const std::string text = difference(got.at(i), want_[i], options_.rtol);
      if (!text.empty()) return "result " + std::to_string(i) + ": " + text;
    }
    return {};
  }

  void look_at(std::string_view pass, const Jaxpr& jaxpr, const Arrays& consts) {
    if (!looking_ || found_) return;
    Arrays all = consts;
    all.insert(all.end(), inputs_.begin(), inputs_.end());
    std::string text;
    try {
      text = differences(interpret(jaxpr, all));
    } catch (const OutOfMemoryError&) {
      throw;  // no fault of the pass
    } catch (const Error& e) { text = "the program is malformed: " + e.message(); }
    const std::string now = jaxpr.to_string();
    if (!text.empty()) {
      found_ = Finding{Finding::Kind::pass, {std::string(pass)}, text, before_, now};
    }
    before_ = now;
  }

  // Compiles, runs and compares; looks at the program between the passes when asked to.
  std::string compiled(const std::set<std::string, std::less<>>& disabled, bool look) {
    looking_ = look;
    runtime::CompileOptions options;
    options.name = "bisected";
    options.disabled = disabled;
    options.keep_programs = true;
    options.after_pass = [this](std::string_view pass, Jaxpr& jaxpr, const Arrays& consts) {
      look_at(pass, jaxpr, consts);
    };
    const detail::EvalScope scope;
    try {
      const auto executable = options_.compile(program_, options);
      if (found_) return {};
      Arrays inputs, got;
      for (const Array& x : inputs_) inputs.push_back(detail::contiguous(x));
      executable->execute(inputs, {}, got);
      return differences(got);
    } catch (const OutOfMemoryError&) { throw; } catch (const Error& e) {
      return "it cannot be compiled and run: " + e.message();
    }
  }

  const Jaxpr& program_;
  const Arrays& inputs_;
  const BisectOptions& options_;
  Arrays want_;
  bool looking_ = false;
  std::string before_;
  std::optional<Finding> found_;
};

}  // namespace

Finding bisect(const Jaxpr& program, const Arrays& inputs, BisectOptions options) {
  if (!options.compile) {
    // What TELAMON_BACKEND names has to exist, though it is not asked here.
    runtime::find_backend();
    options.compile = [&llvm = runtime::find_backend("llvm")](const auto&... what) {
      return llvm.compile(what...);
    };
  }
  try {
    return detail::naming_lack_of_memory("bisect",
                                         [&] { return Bisection(program, inputs, options).run(); });
  } catch (const OutOfMemoryError& e) {
    throw OutOfMemoryError("memory ran out, which says nothing of the passes: " + e.message());
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
