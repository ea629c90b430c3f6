// Arrays whose axes carry labels: what einsum and matmul compute with.
#pragma once

#include <string>
#include <string_view>

#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// An array with one character per axis.
struct Labelled {
  Array array;
  std::string labels;

  /// The size of the labelled axis; 1 when there is none.
  std::int64_t size_of(char label) const {
    const auto i = labels.find(label);
    return i == std::string::npos ? 1 : array.shape(static_cast<int>(i));
  }
  bool has(char label) const { return labels.find(label) != std::string::npos; }
};

/// x with the diagonal taken of labels that occur twice, and all labels summed that are not kept.
Labelled reduced_to(Labelled x, std::string_view kept);
/// The product summed over the labels that are not kept. A shared label of size 1 broadcasts.
Labelled contract(const Labelled& x, const Labelled& y, std::string_view kept);
/// The axes in the order of `labels`, which must be those of x.
Array arranged(const Labelled& x, std::string_view labels);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
