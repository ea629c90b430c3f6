// check_grads: derivatives against central differences, as in JAX's test utilities.
#include "telamon/check.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "core/counted.hpp"
#include "core/trace.hpp"
#include "transforms/check.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

// ---- numbers -----------------------------------------------------------------------------------
double Random::uniform() {
  // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return (static_cast<double>(z >> 11) + 0.5) * 0x1p-53;
}

double Random::normal() {  // Box and Muller (1958)
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

namespace {

using Number = std::complex<double>;

/// All elements, in row-major order.
std::vector<Number> numbers(const Array& x) {
  const Array value = contiguous(concrete_value(x, "a check"));
  const auto* from = data_of<std::byte>(value);
  std::vector<Number> out(static_cast<std::size_t>(value.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Element e = load_element(from + i * size_of(value.dtype()), value.dtype());
    out[i] = {e.as_double(), e.im};
  }
  return out;
}

/// The numbers, rounded to the aval's dtype.
Array array_from(const std::vector<Number>& values, const Aval& aval) {
  Array out = make_uninitialized(aval.strong());
  auto* to = mutable_data_of<std::byte>(out);
  const auto form = is_complex(aval.dtype) ? Element::Form::complex : Element::Form::real;
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(to + i * size_of(aval.dtype), aval.dtype,
                  {.form = form, .re = values[i].real(), .im = values[i].imag()});
  }
  return out;
}

}  // namespace

Array Random::like(const Aval& aval) {
  std::vector<Number> values(static_cast<std::size_t>(aval.size()));
  for (Number& v : values) {
    const double re = normal();
    v = {re, is_complex(aval.dtype) ? normal() : 0};
  }
  return array_from(values, aval);
}

Arrays random_tangents(Random& random, std::span<const Array> xs) {
  Arrays tangents;
  for (const Array& x : xs)
    tangents.push_back(is_inexact(x.dtype()) ? random.like(x.aval()) : Array());
  return tangents;
}

namespace {

struct Precision {
  DType dtype;
  double tolerance, eps;
};
// The tolerances are JAX's. Its step is 1e-4 throughout; in narrow dtypes that leaves rounding
// errors of the size of the tolerance, so the step grows to where rounding and curvature balance.
constexpr Precision kPrecisions[] = {{DType::f64, 1e-5, 1e-4}, {DType::c128, 1e-5, 1e-4},
                                     {DType::f32, 2e-3, 5e-3}, {DType::c64, 2e-3, 5e-3},
                                     {DType::f16, 1e-2, 5e-2}, {DType::bf16, 1e-1, 1e-1}};

const Precision& precision_of(DType dtype) {
  for (const Precision& p : kPrecisions) {
    if (p.dtype == dtype) return p;
  }
  return kPrecisions[0];
}

// The precision of the least precise float among arguments and results.
const Precision& least_precision(std::span<const Array> args, std::span<const Array> results) {
  const Precision* least = &kPrecisions[0];
  for (const auto& xs : {args, results}) {
    for (const Array& x : xs) {
      if (precision_of(x.dtype()).eps > least->eps) least = &precision_of(x.dtype());
    }
  }
  return *least;
}

std::string element_name(const Shape& shape, std::size_t flat) {
  Shape index = shape;
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = static_cast<std::int64_t>(flat) % shape[d];
    flat /= static_cast<std::size_t>(shape[d]);
  }
  return index.to_string();
}

Array displaced(const Array& x, const Array& direction, double step) {
  if (!direction.has_value()) return x;
  auto values = numbers(x);
  const auto d = numbers(direction);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += step * d[i];
  return array_from(values, x.aval());
}

// (f(x + eps t) - f(x - eps t)) / (2 eps); the difference of equal values, infinite ones too, is 0.
Arrays numerical_jvp(const FlatFunction& f, std::span<const Array> args,
                     std::span<const Array> tangents, double eps) {
  Arrays up, down;
  for (std::size_t i = 0; i < args.size(); ++i) {
    up.push_back(displaced(args[i], tangents[i], eps));
    down.push_back(displaced(args[i], tangents[i], -eps));
  }
  const Arrays y_up = f(up), y_down = f(down);
  Arrays differences;
  for (std::size_t i = 0; i < y_up.size(); ++i) {
    if (!is_inexact(y_up[i].dtype())) {
      differences.emplace_back();
      continue;
    }
    auto d = numbers(y_up[i]);
    const auto v = numbers(y_down[i]);
    for (std::size_t k = 0; k < d.size(); ++k) d[k] = d[k] == v[k] ? 0 : (d[k] - v[k]) / (2 * eps);
    differences.push_back(array_from(d, y_up[i].aval()));
  }
  return differences;
}

class GradChecker {
 public:
  explicit GradChecker(const CheckGradsOptions& options) : options_(options) {}

  void check(const FlatFunction& f, std::span<const Array> args, int order,
             const std::string& what) const {
    if (options_.modes != GradMode::reverse) {
      const std::string name = what.empty() ? "JVP" : "JVP of " + what;
      check_jvp(f, args, name);
      if (order > 1) check(jvp_of(f, args), doubled(args), order - 1, name);
    }
    if (options_.modes != GradMode::forward) {
      const std::string name = what.empty() ? "VJP" : "VJP of " + what;
      check_vjp(f, args, name);
      if (order > 1) check(vjp_of(f), args, order - 1, name);
    }
  }

 private:
  static Arrays doubled(std::span<const Array> args) {
    Arrays both(args.begin(), args.end());
    for (const Array& x : args) {
      if (is_inexact(x.dtype())) both.push_back(x);
    }
    return both;
  }

  // (x, t) -> (f(x), J t), over the tangents that exist.
  static FlatFunction jvp_of(const FlatFunction& f, std::span<const Array> args) {
    return [f, n = args.size()](std::span<const Array> both) {
      const auto primals = both.first(n);
      Arrays tangents;
      std::size_t next = n;
      for (const Array& x : primals)
        tangents.push_back(is_inexact(x.dtype()) ? both[next++] : Array());
      const PushedForward y = jvp_arrays(f, primals, tangents, {});
      Arrays results = y.primals;
      for (const Array& t : y.tangents) {
        if (t.dtype() != DType::float0) results.push_back(t);
      }
      return results;
    };
  }

  // x -> J(x)' f(x)
  static FlatFunction vjp_of(const FlatFunction& f) {
    return [f](std::span<const Array> args) {
      const LinearizedArrays lin = linearize_arrays(f, args, "vjp");
      Arrays cotangents;
      for (const Array& y : lin.primals) cotangents.push_back(is_inexact(y.dtype()) ? y : Array());
      Arrays results;
      for (const Array& ct : lin.map.transpose(cotangents)) {
        if (ct.dtype() != DType::float0) results.push_back(ct);
      }
      return results;
    };
  }

  double tolerance(const std::optional<double>& given, const Precision& precision,
                   double size) const {
    return given.value_or(precision.tolerance) * std::max(1.0, size);
  }

  void check_arrays(const Arrays& got, const Arrays& want, const Precision& precision,
                    const std::string& what) const {
    if (got.size() != want.size()) {
      throw CheckFailure(what + ": " + counted(got.size(), "result") + " instead of " +
                         std::to_string(want.size()));
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!want[i].has_value() || want[i].dtype() == DType::float0) continue;
      const auto size = static_cast<double>(want[i].size());
      check_close(got[i], want[i], tolerance(options_.atol, precision, size),
                  tolerance(options_.rtol, precision, size),
                  got.size() == 1 ? what : what + " [" + std::to_string(i) + "]");
    }
  }

  void check_jvp(const FlatFunction& f, std::span<const Array> args,
                 const std::string& what) const {
    Random random;
    const Arrays tangents = random_tangents(random, args);
    const PushedForward y = jvp_arrays(f, args, tangents, {});
    const Precision& precision = least_precision(args, y.primals);
    check_arrays(y.primals, f(args), precision, what + " primal");
    const double eps = options_.eps.value_or(precision.eps);
    check_arrays(y.tangents, numerical_jvp(f, args, tangents, eps), precision, what + " tangent");
  }

  void check_vjp(const FlatFunction& f, std::span<const Array> args,
                 const std::string& what) const {
    Random random;
    const LinearizedArrays lin = linearize_arrays(f, args, "vjp");
    const Precision& precision = least_precision(args, lin.primals);
    check_arrays(lin.primals, f(args), precision, what + " primal");
    const Arrays tangents = random_tangents(random, args);
    const Arrays pushed = numerical_jvp(f, args, tangents, options_.eps.value_or(precision.eps));
    const Arrays cotangents = random_tangents(random, lin.primals);
    const Arrays pulled = conjugated(lin.map.transpose(conjugated(cotangents)));
    const double got = inner_product(tangents, pulled), want = inner_product(pushed, cotangents);
    check_close(Array(got), Array(want), tolerance(options_.atol, precision, 1),
                tolerance(options_.rtol, precision, 1), what + " cotangent projection");
  }

  const CheckGradsOptions& options_;
};

}  // namespace

double inner_product(std::span<const Array> a, std::span<const Array> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].has_value() || !b[i].has_value() || !is_inexact(a[i].dtype())) continue;
    const auto u = numbers(a[i]), v = numbers(b[i]);
    for (std::size_t k = 0; k < u.size(); ++k)
      sum += u[k].real() * v[k].real() + u[k].imag() * v[k].imag();
  }
  return sum;
}

Arrays conjugated(std::span<const Array> xs) {
  Arrays out;
  for (const Array& x : xs) {
    if (!x.has_value() || !is_complex(x.dtype())) {
      out.push_back(x);
      continue;
    }
    auto values = numbers(x);
    for (Number& v : values) v = std::conj(v);
    out.push_back(array_from(values, x.aval()));
  }
  return out;
}

namespace {

/// |got - want| <= atol + rtol |want|. What is not finite must be the same, part by part.
bool is_near(Number got, Number want, double atol, double rtol) {
  const auto is_finite = [](Number v) {
    return std::isfinite(v.real()) && std::isfinite(v.imag());
  };
  if (is_finite(got) && is_finite(want))
    return std::abs(got - want) <= atol + rtol * std::abs(want);
  const auto is_same = [&](double a, double b) {
    if (std::isfinite(a) && std::isfinite(b)) return std::abs(a - b) <= atol + rtol * std::abs(b);
    return a == b || (std::isnan(a) && std::isnan(b));
  };
  return is_same(got.real(), want.real()) && is_same(got.imag(), want.imag());
}

}  // namespace

void check_close(const Array& got, const Array& want, double atol, double rtol,
                 const std::string& what) {
  if (!got.aval().same_type(want.aval())) {
    throw CheckFailure(what + ": got " + got.aval().to_string() + ", want " +
                       want.aval().to_string());
  }
  if (got.dtype() == DType::float0) return;
  const auto a = numbers(got), b = numbers(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_near(a[i], b[i], atol, rtol)) continue;
    const auto text = [](double v) { return Array(v).to_string(); };
    const auto element = [&](Number v) {
      if (!is_complex(want.dtype())) return text(v.real());
      return array_from({v}, {Shape(), DType::c128, false}).to_string();
    };
    throw CheckFailure(what + " " + want.aval().to_string() + ": got " + element(a[i]) + ", want " +
                       element(b[i]) + " at " + element_name(want.shape(), i) + " (atol " +
                       text(atol) + ", rtol " + text(rtol) + ")");
  }
}

void check_grads_arrays(const FlatFunction& f, std::span<const Array> args,
                        const CheckGradsOptions& options) {
  GradChecker(options).check(f, args, options.order, "");
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
