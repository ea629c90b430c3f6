// einsum: the subscripts are read, then the operands are contracted two at a time.
#include <algorithm>
#include <cctype>
#include <map>
#include <utility>
#include <vector>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/in_call.hpp"
#include "numpy/labelled.hpp"
#include "numpy/promote.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {
namespace {

using detail::Labelled;

[[noreturn]] void einsum_error(std::string_view subscripts, const std::string& what) {
  throw ValueError("einsum(\"" + std::string(subscripts) + "\"): " + what);
}

/// The subscripts in pieces; a '.' stands for the ellipsis.
struct Subscripts {
  std::vector<std::string> inputs;
  std::optional<std::string> result;
};

std::string read_term(std::string_view subscripts, std::string_view term) {
  std::string out;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (std::isspace(static_cast<unsigned char>(term[i]))) continue;
    if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      out.push_back(term[i]);
    } else if (term.substr(i, 3) == "..." && out.find('.') == std::string::npos) {
      out.push_back('.');
      i += 2;
    } else {
      einsum_error(subscripts, "expected letters, ',', '->' and at most one '...' per operand");
    }
  }
  return out;
}

Subscripts read_subscripts(std::string_view text) {
  Subscripts out;
  const auto arrow = text.find("->");
  std::string_view inputs = text.substr(0, arrow);
  if (arrow != std::string_view::npos) out.result = read_term(text, text.substr(arrow + 2));
  while (true) {
    const auto comma = inputs.find(',');
    out.inputs.push_back(read_term(text, inputs.substr(0, comma)));
    if (comma == std::string_view::npos) return out;
    inputs.remove_prefix(comma + 1);
  }
}

/// The axes of an ellipsis, aligned from the right: the last one is '0', the one before it '1', ...
/// (17 characters lie between '0' and the letters).
std::string ellipsis_labels(std::string_view text, int count) {
  if (count < 0 || count > 17) einsum_error(text, "an operand has the wrong number of axes");
  std::string out;
  for (int i = count - 1; i >= 0; --i) out.push_back(static_cast<char>('0' + i));
  return out;
}

std::string replace_ellipsis(std::string term, const std::string& labels) {
  const auto dot = term.find('.');
  return dot == std::string::npos ? term : term.replace(dot, 1, labels);
}

Labelled label(std::string_view text, const Array& x, const std::string& term) {
  const bool has_ellipsis = term.find('.') != std::string::npos;
  const int named = static_cast<int>(term.size()) - (has_ellipsis ? 1 : 0);
  if (has_ellipsis ? x.ndim() < named : x.ndim() != named) {
    einsum_error(text,
                 "operand " + x.aval().to_string() + " does not have the axes of its subscripts");
  }
  return {x, has_ellipsis ? replace_ellipsis(term, ellipsis_labels(text, x.ndim() - named)) : term};
}

/// Without "->": the ellipsis, then the labels that occur once, in alphabetical order.
std::string implicit_result(const std::vector<Labelled>& operands, const std::string& ellipsis) {
  std::map<char, int> counts;
  for (const Labelled& x : operands) {
    for (char c : x.labels) {
      if (std::isalpha(static_cast<unsigned char>(c))) ++counts[c];
    }
  }
  std::string out = ellipsis;
  for (const auto& [c, n] : counts) {
    if (n == 1) out.push_back(c);
  }
  return out;
}

void check_sizes(std::string_view text, const std::vector<Labelled>& operands) {
  std::map<char, std::int64_t> sizes;
  for (const Labelled& x : operands) {
    for (std::size_t i = 0; i < x.labels.size(); ++i) {
      const std::int64_t n = x.array.shape(static_cast<int>(i));
      std::int64_t& known = sizes.try_emplace(x.labels[i], n).first->second;
      const bool broadcasts = !std::isalpha(static_cast<unsigned char>(x.labels[i]));
      if (broadcasts && known == 1) known = n;
      if (known != n && !(broadcasts && n == 1)) {
        einsum_error(text, "axes of different sizes, " + std::to_string(known) + " and " +
                               std::to_string(n) + ", carry the same subscript");
      }
    }
  }
}

void check_result(std::string_view text, const std::string& result,
                  const std::vector<Labelled>& operands) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result.find(result[i], i + 1) != std::string::npos) {
      einsum_error(text, std::string("subscript '") + result[i] + "' occurs twice in the result");
    }
    if (std::none_of(operands.begin(), operands.end(),
                     [&](const Labelled& x) { return x.has(result[i]); })) {
      einsum_error(text,
                   std::string("subscript '") + result[i] + "' of the result is in no operand");
    }
  }
}

/// The labels that are still needed when operands i and j are contracted.
std::string kept_labels(const std::vector<Labelled>& operands, const std::string& result,
                        std::size_t i, std::size_t j) {
  std::string kept = result;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (k != i && k != j) kept += operands[k].labels;
  }
  return kept;
}

/// How large the product of two operands will be.
double product_size(const Labelled& x, const Labelled& y, const std::string& kept) {
  double size = 1;
  std::string seen;
  for (char c : x.labels + y.labels) {
    if (kept.find(c) == std::string::npos || seen.find(c) != std::string::npos) continue;
    seen.push_back(c);
    size *= static_cast<double>(std::max(x.size_of(c), y.size_of(c)));
  }
  return size;
}

/// Contracts the pair whose product is smallest, the first of equals, until one array is left.
Labelled contract_all(std::vector<Labelled> operands, const std::string& result) {
  while (operands.size() > 1) {
    std::pair<std::size_t, std::size_t> best{0, 1};
    double best_size = -1;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      for (std::size_t j = i + 1; j < operands.size(); ++j) {
        const double size =
            product_size(operands[i], operands[j], kept_labels(operands, result, i, j));
        if (best_size >= 0 && size >= best_size) continue;
        best = {i, j};
        best_size = size;
      }
    }
    const auto [i, j] = best;
    operands[i] = detail::contract(operands[i], operands[j], kept_labels(operands, result, i, j));
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(j));
  }
  return detail::reduced_to(operands[0], result);
}

}  // namespace

Array einsum(std::string_view subscripts, const Arrays& arrays, SourceLocation where) {
  return detail::in_call("einsum", where, arrays, [&] {
    const Subscripts terms = read_subscripts(subscripts);
    if (terms.inputs.size() != arrays.size()) {
      einsum_error(subscripts, "described: " + detail::counted(terms.inputs.size(), "operand") +
                                   ", given: " + std::to_string(arrays.size()));
    }
    const Arrays same = detail::promote_dtypes(arrays);
    std::vector<Labelled> operands;
    int ellipsis_size = 0;
    for (std::size_t i = 0; i < same.size(); ++i) {
      operands.push_back(label(subscripts, same[i], terms.inputs[i]));
      const auto& labels = operands.back().labels;
      const auto count =
          std::count_if(labels.begin(), labels.end(), [](char c) { return c < 'A'; });
      ellipsis_size = std::max(ellipsis_size, static_cast<int>(count));
    }
    check_sizes(subscripts, operands);
    const std::string ellipsis = ellipsis_labels(subscripts, ellipsis_size);
    const std::string result = terms.result ? replace_ellipsis(*terms.result, ellipsis)
                                            : implicit_result(operands, ellipsis);
    check_result(subscripts, result, operands);
    return detail::arranged(contract_all(std::move(operands), result), result);
  });
}

Array einsum(std::string_view subscripts, const Operand& x, const std::optional<Operand>& y,
             const std::optional<Operand>& z, const std::optional<Operand>& w) {
  return detail::in_call("einsum", x.where, [&] {
    Arrays arrays{x.array};
    for (const auto* more : {&y, &z, &w}) {
      if (*more) arrays.push_back((*more)->array);
    }
    return einsum(subscripts, arrays, x.where);
  });
}

}  // namespace v1
}  // namespace telamon
