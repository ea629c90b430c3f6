// Running a conformance case in one mode and comparing the answer.
#include "case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/counted.hpp"
#include "corrections.hpp"
#include "interop/json_fields.hpp"

namespace telamon_tool {
namespace {

namespace tl = telamon;
using tl::interop::Program;

struct Tolerance {
  double rtol = 0, atol = 0;
};

// Arithmetic exists for these; the others are storage only.
bool computes(tl::DType dtype) { return dtype != tl::DType::float0 && !tl::is_complex(dtype); }

// Nothing in the JSON is as telling as the dtype of every value, nested programs included.
void collect_dtypes(const Json& json, std::set<std::string>& names) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if ((key == "dtype" || key == "new_dtype") && value.is_string())
        names.insert(value.get<std::string>());
      else collect_dtypes(value, names);
    }
  } else if (json.is_array() && !json.empty() && json[0].is_object()) {
    for (const Json& value : json) collect_dtypes(value, names);
  }
}

bool differentiable(const Array& x) { return tl::is_inexact(x.dtype()); }

// largest |got - want| / (atol + rtol |want|), inf for values of different kind
double excess(double got, double want, const Tolerance& tol) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (got == want) return 0;
  if (!std::isfinite(want) || !std::isfinite(got)) return INFINITY;
  return std::fabs(got - want) / (tol.atol + tol.rtol * std::fabs(want));
}

// A number as it is in a file of cases: a NaN has no sign.
std::string number(double x, int digits = 17) {
  return std::isnan(x) ? "nan" : fmt::format("{:.{}g}", x, digits);
}

// Integers and bools: the first element that is not the same, and how many are not.
template <class T>
std::optional<std::string> unequal(const Array& got, const Array& want, const std::string& which) {
  const auto g = got.to_vector<T>(), w = want.to_vector<T>();
  std::size_t first = 0, count = 0;
  for (std::size_t i = g.size(); i-- > 0;) {
    if (g[i] == w[i]) continue;
    first = i;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return fmt::format("{} differs at element {}: got {}, expected {} ({} of {} differ)", which,
                     first, g[first], w[first], count, g.size());
}

std::optional<std::string> difference(const Array& got, const Array& want, const Tolerance& tol,
                                      const std::string& which) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return which + " is " + got.aval().strong().to_string() + ", expected " +
           want.aval().to_string();
  }
  if (tl::is_unsigned_integer(want.dtype())) return unequal<std::uint64_t>(got, want, which);
  if (!differentiable(want)) return unequal<std::int64_t>(got, want, which);
  const auto g = got.to_vector<double>(), w = want.to_vector<double>();
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double e = excess(g[i], w[i], tol);
    if (e > worst) {
      worst = e;
      at = i;
    }
  }
  if (worst <= 1) return std::nullopt;
  return fmt::format(
      "{} differs at element {}: got {}, expected {} (largest error {}, {:.3g} times the "
      "tolerance)",
      which, at, number(g[at]), number(w[at]), number(std::fabs(g[at] - w[at]), 3), worst);
}

// Compares results with a list of expected arrays in which null stands for "not differentiable".
Verdict compare(const Arrays& got, const Json& want, const Tolerance& tol) {
  if (!want.is_array()) throw tl::ParseError("'outputs' must be a list");
  if (got.size() != want.size()) {
    return {Verdict::Kind::failed, "got " + telamon::detail::counted(got.size(), "result") +
                                       ", expected " + std::to_string(want.size())};
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (want[i].is_null()) continue;
    if (!got[i].has_value())
      return {Verdict::Kind::failed, "result " + std::to_string(i) + " is missing"};
    const Array expected = tl::interop::array_from_json(want[i]);
    if (auto text = difference(got[i], expected, tol, "result " + std::to_string(i)))
      return {Verdict::Kind::failed, *text};
  }
  return {};
}

// Empty handles where the value is not differentiable.
Arrays optional_arrays(const Json& list) {
  if (!list.is_array()) throw tl::ParseError("expected a list of arrays");
  Arrays out;
  for (const Json& j : list) out.push_back(j.is_null() ? Array() : tl::interop::array_from_json(j));
  return out;
}

// A function of the differentiable entries of `all` only, so that it can be jitted and differentiated:
// the others are held fixed.
Arrays selected(const Arrays& all, const std::vector<bool>& keep) {
  Arrays out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (keep[i]) out.push_back(all[i]);
  }
  return out;
}
Arrays merged(const Arrays& all, const std::vector<bool>& keep, const Arrays& part) {
  Arrays out = all;
  std::size_t next = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (keep[i]) out[i] = part[next++];
  }
  return out;
}
std::vector<bool> mask(const Arrays& xs) {
  std::vector<bool> keep;
  for (const Array& x : xs) keep.push_back(x.has_value() && differentiable(x));
  return keep;
}

// The modes as functions of flat arrays. Arrays without tangents are closed over as they are.
class Runner {
 public:
  Runner(const Program& program, Arrays inputs)
      : f_([&program](const Arrays& x) { return program(x); }), x_(std::move(inputs)) {}

  Arrays eval(bool jitted) const { return jitted ? tl::jit(f_)(x_) : f_(x_); }

  Arrays jvp(const Arrays& tangents, bool jitted) const {
    const std::vector<bool> keep = mask(x_);
    std::vector<bool> out_keep;
    const auto push = [&](const Arrays& all, const Arrays& dx) {
      const Arrays dy =
          tl::jvp(f_, std::tuple{all}, std::tuple{merged(Arrays(all.size()), keep, dx)}).second;
      out_keep = mask(dy);
      return selected(dy, out_keep);
    };
    const Arrays dx = selected(tangents, keep);
    const Arrays part = jitted ? tl::jit(push)(x_, dx) : push(x_, dx);
    return merged(Arrays(out_keep.size()), out_keep, part);
  }

  Arrays vjp(const Arrays& cotangents, bool jitted) const {
    const std::vector<bool> keep = mask(x_);
    const std::vector<bool> ct_keep = mask(cotangents);
    const auto pull = [&](const Arrays& all, const Arrays& cts) {
      return pulled(all, merged(Arrays(ct_keep.size()), ct_keep, cts), keep);
    };
    const Arrays cts = selected(cotangents, ct_keep);
    const Arrays part = jitted ? tl::jit(pull)(x_, cts) : pull(x_, cts);
    return merged(Arrays(x_.size()), keep, part);
  }

  Arrays hvp(const Arrays& tangents, const Arrays& cotangents, bool jitted) const {
    const std::vector<bool> keep = mask(x_);
    const auto gradient = [&](const Arrays& moved) {
      return pulled(merged(x_, keep, moved), cotangents, keep);
    };
    const auto push = [&](const Arrays& moved, const Arrays& dx) {
      return tl::jvp(gradient, std::tuple{moved}, std::tuple{dx}).second;
    };
    const Arrays moved = selected(x_, keep), dx = selected(tangents, keep);
    const Arrays part = jitted ? tl::jit(push)(moved, dx) : push(moved, dx);
    return merged(Arrays(x_.size()), keep, part);
  }

  Arrays vmap(const Json& in_axes, bool jitted) const {
    std::vector<tl::Axes> axes;
    for (const Json& a : in_axes)
      axes.push_back(a.is_null() ? tl::Axes(tl::none) : tl::Axes(a.get<int>()));
    const auto mapped =
        tl::vmap(f_, {.in_axes = tl::Axes(std::vector<tl::Axes>{tl::Axes(std::move(axes))})});
    return jitted ? tl::jit(mapped)(x_) : mapped(x_);
  }

 private:
  Arrays pulled(const Arrays& all, const Arrays& cotangents, const std::vector<bool>& keep) const {
    return selected(std::get<0>(tl::vjp(f_, all).second(cotangents)), keep);
  }

  std::function<Arrays(const Arrays&)> f_;
  Arrays x_;
};

// JAX refuses this derivative. Ours must be right all the same: finite differences decide, by
// check_grads, and what the mode computed must be what was checked.
Verdict agrees_with_differences(const Program& program, const Arrays& x, const Mode& mode,
                                const Arrays& tangents, const Arrays& cotangents, const Arrays& got,
                                const Tolerance& tol) {
  const Runner run(program, x);
  const tl::detail::FlatFunction f = [&](std::span<const Array> at) {
    return program(Arrays(at.begin(), at.end()));
  };
  Arrays want;
  try {
    if (mode.check == "hvp") {
      const std::vector<bool> keep = mask(x);
      const tl::detail::FlatFunction gradient = [&](std::span<const Array> at) {
        const Arrays all = merged(x, keep, Arrays(at.begin(), at.end()));
        return selected(Runner(program, all).vjp(cotangents, false), keep);
      };
      tl::detail::check_grads_arrays(gradient, selected(x, keep), {.modes = tl::GradMode::forward});
      want = run.hvp(tangents, cotangents, false);
    } else if (mode.check == "jvp") {
      tl::detail::check_grads_arrays(f, x, {.modes = tl::GradMode::forward});
      want = run.jvp(tangents, false);
    } else {
      tl::detail::check_grads_arrays(f, x, {.modes = tl::GradMode::reverse});
      want = run.vjp(cotangents, false);
    }
  } catch (const tl::CheckFailure& e) {
    return {Verdict::Kind::failed,
            "JAX refuses this, and finite differences disagree: " + e.message()};
  }
  for (std::size_t i = 0; mode.jitted && i < want.size(); ++i) {
    if (!want[i].has_value()) continue;
    if (auto text = difference(got.at(i), want[i], tol,
                               "result " + std::to_string(i) + " (by " + mode.check + ")"))
      return {Verdict::Kind::failed, *text};
  }
  return {};
}

// JAX refuses this batch. Ours must be what a loop over the examples gives.
Verdict agrees_with_loop(const Program& program, const Arrays& x, const Json& in_axes,
                         const Arrays& got, const Tolerance& tol) {
  for (std::int64_t b = 0; b < got.at(0).shape(0); ++b) {
    Arrays example = x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!in_axes[i].is_null())
        example[i] = tl::lax::index_in_dim(x[i], b, in_axes[i].get<std::int64_t>());
    }
    const Arrays want = program(example);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (auto text = difference(tl::lax::index_in_dim(got.at(i), b), want[i], tol,
                                 "result " + std::to_string(i) + " of example " +
                                     std::to_string(b) + " (by a loop)")) {
        return {Verdict::Kind::failed, *text};
      }
    }
  }
  return {};
}

// The data of a check must fit the program: one tangent for each input, one cotangent for each
// result, of its type, and null where the value is not differentiable.
void check_fits(const char* what, const Arrays& given, const std::vector<tl::Aval>& values) {
  if (given.size() != values.size()) {
    throw tl::ParseError(std::to_string(given.size()) + " " + what + " where the program has " +
                         std::to_string(values.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool moves = tl::is_inexact(values[i].dtype);
    if (given[i].has_value() ? moves && given[i].aval().same_type(values[i]) : !moves) continue;
    throw tl::ParseError(std::string(what) + " " + std::to_string(i) + " is " +
                         (given[i].has_value() ? given[i].aval().to_string() : "null") +
                         " where the program has " + values[i].to_string());
  }
}

// What a check gives for the inputs or results of the program; one that JAX refuses may give nothing:
// then it is moved by ones.
Arrays directions(const Json& part, const char* what, const std::vector<tl::Aval>& values) {
  Arrays given;
  if (part.contains(what)) given = optional_arrays(part.at(what));
  else if (!part.contains("error")) throw tl::ParseError("'" + std::string(what) + "' are missing");
  if (given.empty()) {
    for (const tl::Aval& aval : values) {
      given.push_back(tl::is_inexact(aval.dtype) ? tl::lax::full(aval.shape, aval.dtype, 1)
                                                 : Array());
    }
  }
  check_fits(what, given, values);
  return given;
}

Verdict check_part(const Program& program, const Json& json, const Json& part, const Mode& mode,
                   const Tolerance& tol) {
  const Arrays x = arrays_from(part.contains("inputs") ? part.at("inputs") : json.at("inputs"));
  const Runner run(program, x);
  Arrays tangents, cotangents;
  if (mode.check == "jvp" || mode.check == "hvp")
    tangents = directions(part, "tangents", program.in_avals());
  if (mode.check == "vjp" || mode.check == "hvp")
    cotangents = directions(part, "cotangents", program.jaxpr().jaxpr.out_avals());
  if (mode.check == "vmap" &&
      (!part.at("in_axes").is_array() || part.at("in_axes").size() != x.size()))
    throw tl::ParseError("'in_axes' must be a list with one entry for each input");
  const bool refused = part.contains("error");
  Arrays got;
  try {
    if (mode.check == "eval") got = run.eval(mode.jitted);
    else if (mode.check == "jvp") got = run.jvp(tangents, mode.jitted);
    else if (mode.check == "vjp") got = run.vjp(cotangents, mode.jitted);
    else if (mode.check == "hvp") got = run.hvp(tangents, cotangents, mode.jitted);
    else got = run.vmap(part.at("in_axes"), mode.jitted);
  } catch (const tl::InternalError&) { throw; } catch (const tl::Error&) {
    if (refused) return {};
    throw;
  }
  if (!refused) return compare(got, part.at("outputs"), tol);
  if (mode.check == "vmap") return agrees_with_loop(program, x, part.at("in_axes"), got, tol);
  return agrees_with_differences(program, x, mode, tangents, cotangents, got, tol);
}

}  // namespace

std::optional<std::string> missing_dtype(const Json& program) {
  std::set<std::string> names;
  collect_dtypes(program, names);
  for (const std::string& name : names) {
    const auto dtype = tl::dtype_from_name(name);
    if (dtype && !computes(*dtype)) return name;
  }
  return std::nullopt;
}

const std::vector<Mode>& all_modes() {
  static const std::vector<Mode> modes = {{"eval", "eval", false}, {"jit", "eval", true},
                                          {"jvp", "jvp", false},   {"jit(jvp)", "jvp", true},
                                          {"vjp", "vjp", false},   {"jit(vjp)", "vjp", true},
                                          {"hvp", "hvp", false},   {"jit(hvp)", "hvp", true},
                                          {"vmap", "vmap", false}, {"jit(vmap)", "vmap", true}};
  return modes;
}

Arrays arrays_from(const Json& list) {
  if (!list.is_array()) throw tl::ParseError("'inputs' must be a list of arrays");
  Arrays out;
  for (const Json& j : list) out.push_back(tl::interop::array_from_json(j));
  return out;
}

bool Case::has(const std::string& check) const {
  if (check == "eval") return true;
  const auto checks = json.find("checks");
  return checks != json.end() && checks->contains(check);
}

Case parse_case(const std::string& line, const std::string& path, std::size_t number) {
  Case test;
  test.json = tl::interop::parse_json(line, path, number);
  const std::string where = "'" + path + "', line " + std::to_string(number) + ": ";
  try {
    tl::interop::check_format(test.json, {tl::interop::kCaseFormat});
  } catch (const tl::ParseError& e) {
    if (test.json.is_object() && test.json.value("format", Json()) == tl::interop::kProgramFormat) {
      throw tl::ParseError(where +
                           "this is a program without inputs and answers, not a case: telamon run, "
                           "show and bench take it, in a file named .json");
    }
    throw tl::ParseError(where + e.message());
  }
  for (const char* key : {"name", "program", "inputs"}) {
    if (!test.json.contains(key))
      throw tl::ParseError(where + "'" + key +
                           "' is missing: expected a case with name, program, " +
                           "inputs, outputs and tolerance");
  }
  if (!test.json.at("name").is_string() || !test.json.at("inputs").is_array())
    throw tl::ParseError(where + "'name' must be a text and 'inputs' a list");
  test.name = test.json.at("name").get<std::string>();
  for (const Mode& mode : all_modes()) {
    if (std::string why = correct_golden(test.json, mode.check); !why.empty())
      test.corrected[mode.check] = std::move(why);
  }
  return test;
}

Verdict run_mode(const Case& test, const Mode& mode) {
  const Json& json = test.json;
  try {
    if (const auto dtype = missing_dtype(json.at("program")))
      return {Verdict::Kind::skipped, "dtype " + *dtype};
    const Program program(test.name, tl::interop::program_from_json(json.at("program")));
    const Json& t = json.at("tolerance");
    const Tolerance tol{t.at("rtol").get<double>(), t.at("atol").get<double>()};
    if (mode.check == "eval") return check_part(program, json, json, mode, tol);
    const Json& data = json.at("checks").at(mode.check);
    if (mode.check != "vmap") {
      Verdict verdict = check_part(program, json, data, mode, tol);
      const auto corrected = test.corrected.find(mode.check);
      if (verdict.kind == Verdict::Kind::passed && corrected != test.corrected.end())
        verdict.reason = corrected->second;
      return verdict;
    }
    if (!data.is_array() || data.empty()) throw tl::ParseError("'vmap' must be a list of checks");
    for (std::size_t i = 0; i < data.size(); ++i) {
      Verdict verdict = check_part(program, json, data[i], mode, tol);
      if (verdict.kind == Verdict::Kind::passed) continue;
      verdict.reason = "in_axes " + data[i].at("in_axes").dump() + ": " + verdict.reason;
      return verdict;
    }
    return {};
  } catch (const tl::interop::MissingPrimitiveError& e) {
    std::string names;
    for (const std::string& n : e.names()) {
      names += (names.empty() ? "" : ",") + n;
      if (tl::PrimitiveBase::find(n) == nullptr) continue;
      return {Verdict::Kind::failed,
              "primitive '" + n + "' is registered, yet programs with it cannot be read"};
    }
    return {Verdict::Kind::skipped, "primitive " + names};
  } catch (const tl::NotImplementedError& e) {
    return {Verdict::Kind::skipped, "rule: " + e.message()};
  } catch (const tl::ParseError& e) {
    return {Verdict::Kind::failed, "damaged case: " + e.message()};
  } catch (const Json::exception& e) {
    return {Verdict::Kind::failed, "damaged case: " + tl::interop::plain_message(e)};
  } catch (const std::exception& e) {
    return {Verdict::Kind::failed, std::string("raised: ") + e.what()};
  }
}

}  // namespace telamon_tool
