// Folds and scans as plain loops, which tests of kernels compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/reduce.hpp"
#include "support/threads.hpp"

namespace telamon_test {

using namespace telamon;
using kernels::contiguous_view;
using kernels::Direction;
using kernels::ReduceOp;
using kernels::View;

constexpr Direction kDirections[] = {Direction::forward, Direction::reverse};

/// Of integers as they wrap around, of floats with any NaN.
template <class T>
T fold(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case ReduceOp::sum: return a + b;
      case ReduceOp::prod: return a * b;
      case ReduceOp::max:
        return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN()
                                              : std::max(a, b);
      default:
        return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN()
                                              : std::min(a, b);
    }
  } else {
    using U = std::uint64_t;
    switch (op) {
      case ReduceOp::sum: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
      case ReduceOp::prod: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
      case ReduceOp::max: return std::max(a, b);
      case ReduceOp::min: return std::min(a, b);
      case ReduceOp::and_: return static_cast<T>(a & b);
      case ReduceOp::or_: return static_cast<T>(a | b);
      default: return static_cast<T>(a ^ b);
    }
  }
}

/// By the kernel.
template <class T>
std::vector<T> scan(ReduceOp op, const std::vector<T>& x, const Shape& shape, int axis,
                    Direction direction) {
  std::vector<T> in = x, out(x.size());
  kernels::run_cumulative(op, contiguous_view(in.data(), dtype_of<T>, shape), axis, direction,
                          contiguous_view(out.data(), dtype_of<T>, shape));
  return out;
}

/// combine(what came before, x) along the axis, element after element.
template <class T, class Combine>
std::vector<T> plain_scan(const std::vector<T>& x, const Shape& shape, int axis,
                          Direction direction, const Combine& combine) {
  std::vector<T> y = x;
  std::int64_t inner = 1;
  for (int d = axis + 1; d < shape.ndim(); ++d) inner *= shape[static_cast<std::size_t>(d)];
  const std::int64_t length = shape[static_cast<std::size_t>(axis)], n = shape.num_elements();
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = direction == Direction::forward ? k : n - 1 - k;
    const std::int64_t index = i / inner % length;
    const std::int64_t before = direction == Direction::forward ? i - inner : i + inner;
    if (index == (direction == Direction::forward ? 0 : length - 1)) continue;
    y[static_cast<std::size_t>(i)] =
        combine(y[static_cast<std::size_t>(before)], x[static_cast<std::size_t>(i)]);
  }
  return y;
}

}  // namespace telamon_test
