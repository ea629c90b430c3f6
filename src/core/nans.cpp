// Where a NaN first appeared.
#include "core/nans.hpp"

#include <algorithm>
#include <cmath>

#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "telamon/debug.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

thread_local int finding = 0;

struct Finding {
  Finding() { ++finding; }
  ~Finding() { --finding; }
};

bool holds_nan(const Array& x) {
  if (x.is_tracer() || !is_inexact(x.dtype()) || x.size() == 0) return false;
  const auto is_nan = [](auto v) { return std::isnan(v); };
  if (is_complex(x.dtype())) {  // pairs of floats
    const Array dense = contiguous(x);
    const auto any = [&]<class T>(const T* data) {
      return std::any_of(data, data + 2 * x.size(), is_nan);
    };
    return x.dtype() == DType::c64 ? any(data_of<float>(dense)) : any(data_of<double>(dense));
  }
  const auto values = x.to_vector<double>();
  return std::any_of(values.begin(), values.end(), is_nan);
}

std::string types(std::span<const Array> arrays) {
  std::string text;
  for (const Array& x : arrays) text += (text.empty() ? "" : ", ") + x.aval().strong().to_string();
  return "(" + text + ")";
}

}  // namespace

bool finding_nan() { return finding > 0; }

void refuse_nan(const PrimitiveBase& primitive, std::span<const Array> args,
                std::span<const Array> results) {
  if (std::none_of(results.begin(), results.end(), holds_nan)) return;
  throw FloatingPointError("invalid value (nan) encountered in " + std::string(primitive.name()) +
                           ": " + types(args) + " -> " + types(results));
}

void find_nan(const Jaxpr& program, const std::string& name, std::span<const Array> args,
              std::span<const Array> results) {
  if (std::none_of(results.begin(), results.end(), holds_nan)) return;
  {
    const EvalScope scope;
    const Finding mode;
    eval_jaxpr(program, args);
  }
  throw FloatingPointError("invalid value (nan) encountered in the results of " + name +
                           ": none of its operations gives one when it is evaluated by itself");
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
