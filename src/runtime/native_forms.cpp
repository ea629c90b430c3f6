// The table of kernels that generated code calls.
#include "runtime/native_forms.hpp"

#include <map>
#include <utility>

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

struct Form {
  NamedFunction callee;
  NativeForm::Make make;
};
std::map<std::string, Form, std::less<>>& forms() {
  static auto* table = new std::map<std::string, Form, std::less<>>;  // static objects may compile
  return *table;
}

}  // namespace

NativeForm::NativeForm(std::string_view primitive, NamedFunction callee, Make make) {
  forms()[std::string(primitive)] = {callee, std::move(make)};
}

std::vector<NamedFunction> native_functions() {
  std::vector<NamedFunction> all;
  for (const auto& [primitive, form] : forms()) all.push_back(form.callee);
  return all;
}

std::optional<NativeCall> native_call(std::string_view primitive, const Params& params,
                                      std::span<const NativeOperand> operands) {
  const auto found = forms().find(primitive);
  if (found == forms().end()) return std::nullopt;
  std::optional<NativeCall> call = found->second.make(params, operands);
  if (call) call->callee = found->second.callee;
  return call;
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
