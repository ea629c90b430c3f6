// The table of kernels that generated code calls.
#include "runtime/native_forms.hpp"

#include <map>
#include <utility>

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace {

std::map<std::string, NativeForm::Make, std::less<>>& forms() {
  static std::map<std::string, NativeForm::Make, std::less<>> table;
  return table;
}

}  // namespace

NativeForm::NativeForm(std::string_view primitive, Make make) {
  forms()[std::string(primitive)] = std::move(make);
}

std::optional<NativeCall> native_call(std::string_view primitive, const Params& params,
                                      std::span<const Aval> operands) {
  const auto found = forms().find(primitive);
  return found == forms().end() ? std::nullopt : found->second(params, operands);
}

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
