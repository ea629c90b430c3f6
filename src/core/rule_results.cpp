// Comparison of a rule's results with abstract_eval.
#include "core/rule_results.hpp"

#include "core/counted.hpp"

#include <algorithm>

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

const char* name_of(ResultOf rule) {
  constexpr const char* kNames[] = {"impl", "jvp", "batch"};
  return kNames[static_cast<int>(rule)];
}

}  // namespace

bool are_unusable(const Arrays& results) {
  return results.empty() ||
         std::any_of(results.begin(), results.end(), [](const Array& x) { return !x.has_value(); });
}

std::vector<Aval> result_avals(std::span<const Array> arrays) {
  std::vector<Aval> avals;
  avals.reserve(arrays.size());
  for (const Array& x : arrays) {
    if (x.has_value()) avals.push_back(x.aval());
    else avals.push_back({{}, DType::float0, false});
  }
  return avals;
}

void wrong_results(const PrimitiveBase& primitive, ResultOf rule, const std::string& fault) {
  throw TypeError(std::string("the ") + name_of(rule) + " rule of '" +
                  std::string(primitive.name()) + "' " + fault);
}

void compare_with_abstract_eval(const PrimitiveBase& primitive, ResultOf rule, const Params& params,
                                std::span<const Aval> operands, std::span<const Aval> results) {
  const auto& types = primitive.rules().abstract_eval;
  if (!types) return;
  const auto expected = types(params, operands).avals;
  if (results.size() != expected.size()) {
    wrong_results(primitive, rule,
                  "gave " + counted(results.size(), "result") + ", abstract_eval says " +
                      std::to_string(expected.size()));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].shape == expected[i].shape && results[i].dtype == expected[i].dtype) continue;
    const bool is_empty = results[i].dtype == DType::float0 && expected[i].dtype != DType::float0;
    wrong_results(primitive, rule,
                  "gave " + (is_empty ? "an empty Array" : results[i].to_string()) + " as result " +
                      std::to_string(i) + ", abstract_eval says " + expected[i].to_string());
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
