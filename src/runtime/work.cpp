// Counting the work of a program. The units are those of XLA's HloCostAnalysis: an elementwise
// operation is one flop for each element of its result, or one transcendental.
#include "runtime/work.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

enum class Unit : std::uint8_t {
  flop,            // one for each element of the result
  transcendental,  // the same, of the other kind
  fold,            // one for each element that is folded into another
  sort             // n log2 n comparisons
};

// Whatever is not listed moves data, converts it, or works on integers and truth values alone.
const std::unordered_map<std::string_view, Unit>& units() {
  static const auto* const table = [] {
    auto* t = new std::unordered_map<std::string_view, Unit>;
    for (const char* name :
         {"add",       "sub",  "mul",   "div",  "rem",   "max",    "min",       "neg",
          "abs",       "sign", "floor", "ceil", "round", "square", "nextafter", "reduce_precision",
          "is_finite", "eq",   "ne",    "lt",   "le",    "gt",     "ge"})
      (*t)[name] = Unit::flop;
    for (const char* name : {"exp",  "exp2",  "expm1", "log",     "log1p",    "sin",    "cos",
                             "tan",  "asin",  "acos",  "atan",    "atan2",    "sinh",   "cosh",
                             "tanh", "asinh", "acosh", "atanh",   "sqrt",     "cbrt",   "rsqrt",
                             "pow",  "erf",   "erfc",  "erf_inv", "logistic", "lgamma", "digamma"})
      (*t)[name] = Unit::transcendental;
    for (const char* name : {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "argmax",
                             "argmin", "cumsum", "cumprod", "cummax", "cummin"})
      (*t)[name] = Unit::fold;
    (*t)["sort"] = Unit::sort;
    return t;
  }();
  return *table;
}

double size_of_aval(const Aval& a) { return static_cast<double>(a.size()); }
double bytes_of(const Aval& a) {
  return size_of_aval(a) * static_cast<double>(telamon::size_of(a.dtype));
}

class Counter {
 public:
  explicit Counter(const Jaxpr& jaxpr) : jaxpr_(jaxpr) {}
  Work work;

  void run() {
    for (const Eqn& eqn : jaxpr_.eqns()) add(eqn);
  }

 private:
  const Aval& in(const Eqn& eqn, std::size_t i) const { return jaxpr_.aval(eqn.inputs[i]); }
  const Aval& out(const Eqn& eqn) const { return jaxpr_.aval(eqn.outputs[0]); }

  void add(const Eqn& eqn) {
    const auto nested = eqn.params.jaxprs();
    if (eqn.primitive == &scan_p) {
      const auto& scan = eqn.params.as<ScanParams>();
      return add(count_work(scan.jaxpr), static_cast<double>(scan.length));
    }
    if (eqn.primitive == &cond_p) {
      work.unknown.emplace_back(
          "the branch that a cond takes is not known: the most that one has of each is counted");
      return add_most(eqn.params.as<CondParams>().branches);
    }
    if (eqn.primitive == &while_p) {
      work.unknown.emplace_back("the trips of a while loop are not known: one is counted");
    }
    if (!nested.empty()) {
      for (const Jaxpr& body : nested) add(count_work(body), 1);
      return;
    }
    for (const Atom& a : eqn.inputs) work.bytes += a.is_var() ? bytes_of(jaxpr_.aval(a)) : 0;
    for (const Var v : eqn.outputs) work.bytes += bytes_of(jaxpr_.aval(v));
    if (eqn.inputs.empty() || eqn.outputs.empty()) return;
    add_arithmetic(eqn);
  }

  void add_arithmetic(const Eqn& eqn) {
    if (!is_inexact(in(eqn, 0).dtype)) return;
    const double n = size_of_aval(out(eqn)), operand = size_of_aval(in(eqn, 0));
    if (eqn.primitive == &dot_general_p) {
      const auto& dims = eqn.params.as<DotGeneralParams>().dimension_numbers;
      double contracted = 1;
      for (const std::int64_t d : dims.lhs_contracting)
        contracted *= static_cast<double>(in(eqn, 0).shape[static_cast<std::size_t>(d)]);
      work.flops += 2 * n * contracted;
    } else if (eqn.primitive == &scatter_add_p) {
      work.flops += size_of_aval(in(eqn, 2));
    } else if (eqn.primitive == &integer_pow_p) {
      work.flops += n * multiplications(eqn.params.as<IntegerPowParams>().y);
    } else if (eqn.primitive->name() == "clamp") {
      work.flops += 2 * n;
    } else if (const auto unit = units().find(eqn.primitive->name()); unit != units().end()) {
      switch (unit->second) {
        case Unit::flop: work.flops += n; break;
        case Unit::transcendental: work.transcendentals += n; break;
        case Unit::fold: work.flops += folds(eqn, operand, n); break;
        case Unit::sort: work.flops += operand > 1 ? operand * std::log2(operand) : 0; break;
      }
    }
  }
  // Cumulative operations keep all that they have folded: but for the first of each row, every
  // element of the result takes one operation.
  double folds(const Eqn& eqn, double operand, double results) const {
    if (!eqn.primitive->name().starts_with("cum")) return std::max(operand - results, 0.0);
    const auto axis = static_cast<std::size_t>(eqn.params.as<CumulativeParams>().axis);
    const auto length = static_cast<double>(in(eqn, 0).shape[axis]);
    return length > 0 ? operand - operand / length : 0;
  }
  // By squaring: the bits below the highest one, and those of them that are set. 1 / x^-y below 0.
  static double multiplications(int y) {
    unsigned rest = y < 0 ? 0u - static_cast<unsigned>(y) : static_cast<unsigned>(y);
    double count = y < 0 ? 1 : 0;
    for (; rest > 1; rest /= 2) count += 1 + rest % 2;
    return count;
  }

  void add(Work more, double times) {
    work.flops += times * more.flops;
    work.transcendentals += times * more.transcendentals;
    work.bytes += times * more.bytes;
    for (std::string& why : more.unknown) work.unknown.push_back(std::move(why));
  }
  // Each figure for itself: which branch is the dearest depends on what a sine costs.
  void add_most(const std::vector<Jaxpr>& branches) {
    Work most;
    for (const Jaxpr& branch : branches) {
      Work w = count_work(branch);
      most.flops = std::max(most.flops, w.flops);
      most.transcendentals = std::max(most.transcendentals, w.transcendentals);
      most.bytes = std::max(most.bytes, w.bytes);
      for (std::string& why : w.unknown) most.unknown.push_back(std::move(why));
    }
    add(std::move(most), 1);
  }

  const Jaxpr& jaxpr_;
};

}  // namespace

Work count_work(const Jaxpr& jaxpr) {
  Counter counter(jaxpr);
  counter.run();
  return std::move(counter.work);
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
