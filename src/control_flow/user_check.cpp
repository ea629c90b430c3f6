// check: an assertion in a program, an equation without results. Checkify turns it into a value; where
// nobody has, it is evaluated, and throws.
#include "control_flow/user_check.hpp"

#include <algorithm>

#include "control_flow/common.hpp"
#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/trace.hpp"
#include "telamon/checkify.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

std::string format_message(std::string_view message, const std::vector<std::string>& values) {
  std::string text;
  std::size_t next = 0;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const std::string_view two = message.substr(i, 2);
    if (two == "{}") text += next < values.size() ? values[next++] : "{}";
    else if (two == "{{" || two == "}}") text += two[0];
    else {
      text += message[i];
      continue;
    }
    ++i;
  }
  return text;
}

std::string lane_text(std::int64_t lane, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = lane % shape[d];
    lane /= shape[d];
  }
  std::string text = "at mapped index ";
  for (std::size_t d = 0; d < index.size(); ++d) text += (d ? ", " : "") + std::to_string(index[d]);
  return text + ": ";
}

namespace {

std::size_t count_values(std::string_view message) {
  std::size_t n = 0;
  for (std::size_t i = 0; i + 1 < message.size(); ++i) {
    const std::string_view two = message.substr(i, 2);
    if (two == "{}") ++n;
    if (two == "{}" || two == "{{" || two == "}}") ++i;
  }
  return n;
}

Arrays run(const CheckParams& p, std::span<const Array> args) {
  const Array pred = contiguous(args[0]);
  const auto* holds = data_of<unsigned char>(pred);
  const auto* failed = std::find(holds, holds + pred.size(), 0);
  if (failed == holds + pred.size()) return {};
  const auto lane = failed - holds;
  std::vector<std::string> values;
  for (const Array& x : args.subspan(1)) {
    const Array all = contiguous(x);
    Shape shape;
    for (std::size_t d = p.lanes.size(); d < x.shape().size(); ++d)
      shape.insert(shape.size(), x.shape()[d]);
    const auto bytes = static_cast<std::size_t>(shape.num_elements()) * size_of(x.dtype());
    values.push_back(make_from_data(data_of<char>(all) + static_cast<std::size_t>(lane) * bytes,
                                    x.dtype(), shape)
                         .to_string());
  }
  const std::string prefix =
      p.lanes.empty() ? std::string() : lane_text(lane, {p.lanes.begin(), p.lanes.end()});
  throw CheckError(prefix + format_message(p.message, values) + " (`check` failed)");
}

AbstractResult type_of(const CheckParams& p, std::span<const Aval> in) {
  if (in.empty() || in[0].dtype != DType::bool_ || in[0].shape != p.lanes) {
    throw TypeError("check: operand 0 must be bool" + p.lanes.to_string() + ", but it is " +
                    (in.empty() ? std::string("missing") : in[0].to_string()));
  }
  for (const Aval& x : in.subspan(1)) {
    if (x.ndim() >= in[0].ndim() && std::equal(p.lanes.begin(), p.lanes.end(), x.shape.begin()))
      continue;
    throw TypeError("check: the batch " + p.lanes.to_string() +
                    " does not lead the shape of the value " + x.to_string());
  }
  return {{}, Effect::unordered};
}

BatchResult vectorise(const CheckParams& p, const AxisInfo& axis, std::span<const Array> args,
                      std::span<const BatchAxis> axes) {
  CheckParams mapped = p;
  mapped.lanes.insert(0, axis.size);
  Arrays operands;
  for (std::size_t i = 0; i < args.size(); ++i)
    operands.push_back(batch_at_front(args[i], axes[i], axis.size));
  check_p.bind(mapped, operands);
  return {};
}

}  // namespace

void check_arrays(const Array& pred, std::string_view message, Arrays values) {
  if (!pred.has_value()) empty_operand_error("check", 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].has_value()) empty_operand_error("check", i + 2);  // the message is operand 1
  }
  if (pred.ndim() != 0 || pred.dtype() != DType::bool_) {
    throw TypeError("check takes a scalar bool as its predicate, got " + pred.aval().to_string());
  }
  if (count_values(message) != values.size()) {
    throw ValueError("check: the message has " + std::to_string(count_values(message)) +
                     " {} for " + counted(values.size(), "value") + ": \"" + std::string(message) +
                     "\"");
  }
  values.insert(values.begin(), pred);
  check_p.bind({std::string(message), {}}, values);
}

}  // namespace detail

const Primitive<CheckParams> check_p{
    "check", [] {
      return Rules<CheckParams>{
          .impl = detail::run,
          .abstract_eval = detail::type_of,
          .jvp = [](const CheckParams& p, std::span<const Array> primals,
                    std::span<const Tangent>) -> JvpResult {
            check_p.bind(p, primals);
            return {};
          },
          .batch = detail::vectorise,
          .lower = control_flow::run_by_impl(detail::run),
          .exempt = {{"transpose", "it has no results"}},
      };
    }};

}  // namespace v1
}  // namespace telamon
