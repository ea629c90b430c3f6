// Running bodies of loops and branches; checks of their types.
#include "control_flow/common.hpp"

#include <cstring>

#include "core/concrete.hpp"
#include "runtime/executable_cache.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

Program::Program(const Jaxpr& jaxpr, std::string name)
    : executable_(runtime::executable_for(jaxpr, {}, {.name = std::move(name), .disabled = {}})) {}

Arrays Program::operator()(const Arrays& inputs) const {
  Arrays outputs;
  executable_->execute(inputs, {}, outputs);
  return outputs;
}

Arrays dense(std::span<const Array> arrays) {
  Arrays out;
  out.reserve(arrays.size());
  for (const Array& x : arrays) out.push_back(detail::contiguous(x));
  return out;
}

Arrays arrays_of(std::span<const BufferView> views) {
  Arrays arrays;
  arrays.reserve(views.size());
  for (const BufferView& v : views)
    arrays.push_back(Array::from_data(v.data, v.dtype, Shape(v.shape)));
  return arrays;
}

void copy_to(std::span<const Array> arrays, std::span<const MutableBufferView> views) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Array x = detail::contiguous(arrays[i]);
    std::memcpy(views[i].data, detail::data_of<void>(x),
                static_cast<std::size_t>(x.size()) * size_of(x.dtype()));
  }
}

void check_operands(std::string_view name, std::span<const Aval> in,
                    const std::vector<Aval>& expected) {
  const std::string who(name);
  if (in.size() != expected.size()) {
    throw TypeError(who + ": " + std::to_string(in.size()) + " operands where its jaxprs take " +
                    std::to_string(expected.size()));
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].same_type(expected[i])) continue;
    throw TypeError(who + ": operand " + std::to_string(i) + " of type " + in[i].to_string() +
                    " cannot be passed to an input of type " + expected[i].to_string());
  }
}

void bad_jaxpr(std::string_view name, const std::string& problem) {
  throw TypeError(std::string(name) + ": " + problem);
}

std::string avals_text(std::span<const Aval> avals) {
  std::string text = "(";
  for (const Aval& aval : avals) text += (text.size() > 1 ? ", " : "") + aval.to_string();
  return text + ")";
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
