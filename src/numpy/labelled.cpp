// Labelled arrays: diagonals, sums, pairwise contraction by dot_general.
#include "numpy/labelled.hpp"

#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

bool contains(std::string_view labels, char label) {
  return labels.find(label) != std::string_view::npos;
}

/// Replaces the first label that occurs twice by its diagonal, until there is none.
Labelled diagonals_of(Labelled x) {
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    const auto j = x.labels.find(x.labels[i], i + 1);
    if (j == std::string::npos) continue;
    const char label = x.labels[i];
    x.array = diagonal(x.array, 0, static_cast<int>(i), static_cast<int>(j));
    x.labels.erase(j, 1);
    x.labels.erase(i, 1);
    x.labels.push_back(label);
    return diagonals_of(std::move(x));
  }
  return x;
}

/// Drops axes of size 1 where the other operand has a larger one of the same label.
Labelled without_broadcast_axes(const Labelled& x, const Labelled& other) {
  Shape dims;
  std::string labels;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    const bool broadcast = x.array.shape(static_cast<int>(i)) == 1 && other.has(x.labels[i]);
    if (broadcast && other.size_of(x.labels[i]) != 1) {
      dims.push_back(static_cast<std::int64_t>(i));
    } else {
      labels.push_back(x.labels[i]);
    }
  }
  return {lax::squeeze(x.array, dims), labels};
}

/// x with all of `labels` as axes, in that order; new ones are repeated to their size in `sizes`.
Array spread(const Labelled& x, std::string_view labels, const Shape& sizes) {
  std::string own;
  Shape dims;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!x.has(labels[i])) continue;
    own.push_back(labels[i]);
    dims.push_back(static_cast<std::int64_t>(i));
  }
  return lax::broadcast_in_dim(arranged(x, own), sizes, dims);
}

/// The product without any sum: an elementwise multiplication over the union of the labels.
Labelled outer_product(const Labelled& x, const Labelled& y) {
  std::string labels = x.labels;
  Shape sizes = x.array.shape();
  for (char label : y.labels) {
    if (x.has(label)) continue;
    labels.push_back(label);
    sizes.push_back(y.size_of(label));
  }
  return {multiply(spread(x, labels, sizes), spread(y, labels, sizes)), labels};
}

}  // namespace

Labelled reduced_to(Labelled x, std::string_view kept) {
  x = diagonals_of(std::move(x));
  Shape axes;
  std::string labels;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (contains(kept, x.labels[i])) {
      labels.push_back(x.labels[i]);
    } else {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  // Of truth values the sum is whether any is true, as in products.
  return {x.array.dtype() == DType::bool_ ? lax::reduce_or(x.array, axes)
                                          : lax::reduce_sum(x.array, axes),
          labels};
}

Labelled contract(const Labelled& left, const Labelled& right, std::string_view kept) {
  Labelled x = without_broadcast_axes(left, right);
  Labelled y = without_broadcast_axes(right, left);
  // What only one operand has is summed before the product is formed.
  x = reduced_to(x, std::string(kept) + y.labels);
  y = reduced_to(y, std::string(kept) + x.labels);
  DotDimensionNumbers dims;
  std::string batch, free;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    const char label = x.labels[i];
    const auto j = y.labels.find(label);
    const auto xi = static_cast<std::int64_t>(i), yj = static_cast<std::int64_t>(j);
    if (j == std::string::npos) {
      free.push_back(label);
    } else if (contains(kept, label)) {
      batch.push_back(label);
      dims.lhs_batch.push_back(xi);
      dims.rhs_batch.push_back(yj);
    } else {
      dims.lhs_contracting.push_back(xi);
      dims.rhs_contracting.push_back(yj);
    }
  }
  if (dims.lhs_contracting.empty()) return outer_product(x, y);
  for (char label : y.labels) {
    if (!x.has(label)) free.push_back(label);
  }
  return {lax::dot_general(x.array, y.array, dims), batch + free};
}

Array arranged(const Labelled& x, std::string_view labels) {
  Shape permutation;
  for (char label : labels) permutation.push_back(static_cast<std::int64_t>(x.labels.find(label)));
  return lax::transpose(x.array, permutation);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
