// Bisection over the passes, then over the switches.
#include "compiler/bisect.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <set>

#include "compiler/executable/stored_bytes.hpp"
#include "core/child_process.hpp"
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
  if (!is_inexact(dtype) || dtype == DType::f64 || dtype == DType::c128) return 1e-9;
  return dtype == DType::f32 || dtype == DType::c64 ? 1e-4 : 1e-2;
}
/// Of the narrowest numbers that a program computes with: no result can be closer than these.
double tolerance_of(const Jaxpr& program) {
  double widest = 0;
  for (Var v = 0; v < program.num_vars(); ++v)
    widest = std::max(widest, tolerance_of(program.aval(v).dtype));
  for (const Eqn& eqn : program.eqns()) {
    for (const Jaxpr& inner : eqn.params.jaxprs()) widest = std::max(widest, tolerance_of(inner));
  }
  return widest;
}

// How numbers differ from what they should be; empty where they do not.
template <class T, class Same>
std::string difference(const T* got, const T* want, std::int64_t n, Same&& same) {
  std::int64_t wrong = 0, first = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (same(got[i], want[i])) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return {};
  return fmt::format("{} of {} numbers differ; the first, at {}, is {} and should be {}", wrong, n,
                     first, got[first], want[first]);
}
template <class T>
std::string difference_as(const Array& got, const Array& want) {
  return difference(detail::data_of<T>(got), detail::data_of<T>(want), want.size(),
                    std::equal_to<T>());
}

// How a result differs from what it should be; empty where it does not.
std::string difference(const Array& got, const Array& want, double relative) {
  if (!(got.aval().shape == want.aval().shape) || got.dtype() != want.dtype())
    return "is " + got.aval().to_string() + ", not " + want.aval().to_string();
  const Array g = detail::contiguous(got), w = detail::contiguous(want);
  switch (kind_of(w.dtype())) {
    case Kind::float0: return {};
    // As bytes: one that nobody wrote is neither false nor true.
    case Kind::boolean: return difference_as<std::uint8_t>(g, w);
    case Kind::unsigned_int:
      return difference_as<std::uint64_t>(g.astype(DType::u64), w.astype(DType::u64));
    case Kind::signed_int:
      return difference_as<std::int64_t>(g.astype(DType::i64), w.astype(DType::i64));
    case Kind::floating:
    case Kind::complex: break;
  }
  const DType to = is_complex(w.dtype()) ? DType::c128 : DType::f64;
  const Array a = g.astype(to), b = w.astype(to);
  const std::int64_t n = a.size() * (to == DType::c128 ? 2 : 1);
  const auto *x = detail::data_of<double>(a), *y = detail::data_of<double>(b);
  double largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isfinite(y[i])) largest = std::max(largest, std::abs(y[i]));
  }
  return difference(x, y, n, [&](double x_i, double y_i) {
    if (std::isnan(y_i)) return std::isnan(x_i);
    if (x_i == y_i) return relative > 0 || std::signbit(x_i) == std::signbit(y_i);
    return std::isfinite(x_i) && std::isfinite(y_i) &&
           std::abs(x_i - y_i) <= relative * (std::abs(y_i) + largest);
  });
}

// ---- from one process to another -----------------------------------------------------------------

/// How far an attempt is, and what comes of it: the last that its process tells.
struct Report {
  enum class Kind : std::uint8_t {
    reached,         // texts: where it is
    interprets,      // the program after a pass: its name, the program before, and after
    compared,        // how the results differ
    found,           // a pass that changes what the program computes: its name, how, before, after
    lack_of_memory,  // the message
    lack_of_dumps    // the message
  };
  Kind kind = Kind::reached;
  std::vector<std::string> texts;
};
using Tell = std::function<void(const Report&)>;

std::string bytes_of(const Report& report) {
  ByteWriter out;
  out.number(static_cast<std::int64_t>(report.kind));
  out.list(report.texts, [&](const std::string& t) { out.text(t); });
  return out.take();
}

/// The last that is whole.
Report last_report(std::string_view told) {
  Report last{Report::Kind::reached, {"before the first pass"}};
  for (ByteReader in(told); !in.at_end();) {
    Report next{static_cast<Report::Kind>(in.number()), {}};
    in.list(next.texts, [&] { return std::string(in.text()); });
    if (!in.good()) break;
    last = std::move(next);
  }
  return last;
}

std::string text_of_end(const detail::ChildResult& child) { return "the process " + child.end(); }

/// What an attempt that was to tell more comes to when its process ends.
Report at_the_end(const Report& last, const detail::ChildResult& child) {
  const std::string ends = text_of_end(child);
  if (last.kind == Report::Kind::interprets)
    return {Report::Kind::found,
            {last.texts[0], "interpreted, " + ends, last.texts[1], last.texts[2]}};
  return {Report::Kind::compared, {ends + ' ' + last.texts[0]}};
}

bool is_result(const Report& report) { return report.kind >= Report::Kind::compared; }

// ---- one attempt ---------------------------------------------------------------------------------

/// Spoils the blocks that results of these types get next, with what is NaN in every type of floats: what a program
/// leaves unwritten must not look right because it was so in a run before.
void spoil_memory(const Arrays& like) {
  Arrays spoiled;
  for (const Array& x : like) {
    const Array& block = spoiled.emplace_back(detail::make_uninitialized(x.aval()));
    const detail::DeviceBuffer& memory = detail::concrete_node(block).buffer();
    std::memset(memory.data(), 0xff, memory.bytes());
  }
}

Arrays interpret(const Jaxpr& jaxpr, const Arrays& inputs) {
  const detail::EvalScope scope;
  return eval_jaxpr(jaxpr, inputs);
}

/// What is compiled and run, and what should come of it.
struct Subject {
  const Jaxpr& program;
  const Arrays& inputs;
  const BisectOptions& options;
  bool contract;
  Arrays want;
  double tolerance;
};

/// Compiles, runs and compares; looks at the program between the passes when asked to.
class Attempt {
 public:
  using Switches = std::set<std::string, std::less<>>;
  enum class Look : std::uint8_t { at_the_end, after_each_pass };
  Attempt(const Subject& subject, int number, const Switches& disabled, Look look, const Tell& tell)
      : subject_(subject), look_(look), tell_(tell), before_(subject.program.to_string()) {
    options_.contract = subject.contract;
    // The number comes first: of a long name the end is cut off.
    options_.name = fmt::format("attempt {} of {}", number, subject.options.name);
    options_.disabled = disabled;
    options_.keep_programs = true;
    if (!subject.options.donated.empty()) options_.donated = subject.options.donated;
    options_.after_pass = [this](std::string_view pass, Jaxpr& jaxpr, const Arrays& consts) {
      look_at(std::string(pass), jaxpr, consts);
    };
  }

  Report run() {
    const detail::EvalScope scope;
    try {
      const auto executable = subject_.options.compile(subject_.program, options_);
      if (found_) return std::move(*found_);
      tell_({Report::Kind::reached, {"when the program runs"}});
      Arrays inputs, got;
      for (const Array& x : subject_.inputs) inputs.push_back(detail::private_copy(x));
      spoil_memory(subject_.want);
      executable->execute(inputs, subject_.options.donated, got);
      return compared(differences(got));
    } catch (const OutOfMemoryError&) { throw; } catch (const DumpError&) {
      throw;
    } catch (const Error& e) { return compared("it cannot be compiled and run: " + e.message()); }
  }

 private:
  static Report compared(std::string text) { return {Report::Kind::compared, {std::move(text)}}; }

  std::string differences(const Arrays& got) const {
    for (std::size_t i = 0; i < subject_.want.size(); ++i) {
      const std::string text = difference(got.at(i), subject_.want[i], subject_.tolerance);
      if (!text.empty()) return "result " + std::to_string(i) + ": " + text;
    }
    return {};
  }

  std::string differences_of(const Jaxpr& jaxpr, const Arrays& consts) const {
    Arrays all = consts;
    all.insert(all.end(), subject_.inputs.begin(), subject_.inputs.end());
    try {
      return differences(interpret(jaxpr, all));
    } catch (const OutOfMemoryError&) {
      throw;  // no fault of the pass
    } catch (const Error& e) { return "the program is malformed: " + e.message(); }
  }

  void look_at(const std::string& pass, const Jaxpr& jaxpr, const Arrays& consts) {
    if (look_ == Look::at_the_end || found_) return;
    const std::string now = jaxpr.to_string();
    tell_({Report::Kind::interprets, {pass, before_, now}});
    if (const std::string text = differences_of(jaxpr, consts); !text.empty())
      found_ = Report{Report::Kind::found, {pass, text, before_, now}};
    tell_({Report::Kind::reached, {"after the pass " + pass}});
    before_ = now;
  }

  const Subject& subject_;
  Look look_;
  const Tell& tell_;
  runtime::CompileOptions options_;
  std::string before_;
  std::optional<Report> found_;
};

// ---- all attempts --------------------------------------------------------------------------------

class Bisection {
 public:
  using Switches = Attempt::Switches;
  Bisection(const Jaxpr& program, const Arrays& inputs, const BisectOptions& options)
      : subject_{program,          inputs, options,
                 options.contract, {},     options.rtol.value_or(tolerance_of(program))} {}

  Finding run() {
    // What is wrong with it is said here once, and not by every child.
    detail::environment_set("TELAMON_DISABLE");
    if (const std::string end = end_of_interpreter(); !end.empty())
      return {Finding::Kind::interpreter, {}, end, {}, {}};
    subject_.want = interpret(subject_.program, subject_.inputs);
    const Report first = attempt({}, Attempt::Look::after_each_pass);
    if (first.kind == Report::Kind::found)
      return {
          Finding::Kind::pass, {first.texts[0]}, first.texts[1], first.texts[2], first.texts[3]};
    if (first.texts[0].empty()) return {};
    if (!subject_.contract) return try_switches(first.texts[0]);
    subject_.contract = false;
    const Report plain = attempt({}, Attempt::Look::at_the_end);
    if (plain.texts[0].empty()) return {Finding::Kind::contraction, {}, first.texts[0], {}, {}};
    return try_switches(plain.texts[0]);
  }

 private:
  bool in_children() const { return subject_.options.runs == BisectOptions::Runs::in_children; }

  // How the interpreter ends its process, if it does; what it throws, it throws here once more.
  std::string end_of_interpreter() const {
    if (!in_children()) return {};
    const auto child = detail::run_in_child(
        [&](const auto&) {
          try {
            interpret(subject_.program, subject_.inputs);
          } catch (const std::exception&) {}
        },
        subject_.options.limit);
    return child.well() ? "" : text_of_end(child);
  }

  Finding try_switches(const std::string& difference) {
    Finding finding{Finding::Kind::generation, {}, difference, {}, {}};
    const auto words = detail::environment_words("TELAMON_DISABLE");
    for (const std::string_view word : words)
      if (is_right_without({std::string(word)})) finding.names.emplace_back(word);
    if (!finding.names.empty()) {
      finding.kind = Finding::Kind::optimisation;
      return finding;
    }
    Switches all(words.begin(), words.end());
    if (!is_right_without(all)) return finding;
    // Switch on again what does not matter.
    for (const std::string_view word : words) {
      auto fewer = all;
      fewer.erase(fewer.find(word));
      if (is_right_without(fewer)) all = std::move(fewer);
    }
    finding.kind = Finding::Kind::combination;
    finding.names.assign(all.begin(), all.end());
    return finding;
  }
  bool is_right_without(const Switches& disabled) {
    return attempt(disabled, Attempt::Look::at_the_end).texts[0].empty();
  }

  Report attempt(const Switches& disabled, Attempt::Look look) {
    const int number = ++attempts_;
    if (!in_children())
      return Attempt(subject_, number, disabled, look, [](const Report&) {}).run();
    const auto child = detail::run_in_child(
        [&](const auto& tell) {
          const Tell report = [&](const Report& r) { tell(bytes_of(r)); };
          try {
            report(Attempt(subject_, number, disabled, look, report).run());
          } catch (const OutOfMemoryError& e) {
            report({Report::Kind::lack_of_memory, {e.message()}});
          } catch (const std::bad_alloc&) {
            report({Report::Kind::lack_of_memory, {"out of memory"}});
          } catch (const DumpError& e) { report({Report::Kind::lack_of_dumps, {e.message()}}); }
        },
        subject_.options.limit);
    Report last = last_report(child.told);
    if (!is_result(last)) return at_the_end(last, child);
    if (last.kind == Report::Kind::lack_of_memory) throw OutOfMemoryError(last.texts[0]);
    if (last.kind == Report::Kind::lack_of_dumps) throw DumpError(last.texts[0]);
    return last;
  }

  Subject subject_;
  int attempts_ = 0;
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
