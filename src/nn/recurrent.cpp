// LSTM and GRU cells: all gates by one product, then cut.
#include <cmath>
#include <limits>
#include <string>

#include "core/in_call.hpp"
#include "telamon/indexing.hpp"
#include "telamon/lax.hpp"
#include "telamon/nn.hpp"
#include "telamon/numpy.hpp"
#include "telamon/random.hpp"
#include "telamon/tree.hpp"

namespace telamon {
inline namespace v1 {
namespace nn {
namespace {

struct Weights {
  Array w_x, w_h;
};
Weights uniform_weights(const char* name, const Array& key, std::int64_t inputs,
                        std::int64_t hidden, std::int64_t gates, std::optional<DType> dtype) {
  if (inputs < 1 || hidden < 1) {
    throw ValueError(std::string(name) + ": sizes must be positive, got inputs " +
                     std::to_string(inputs) + " and hidden " + std::to_string(hidden));
  }
  if (hidden > std::numeric_limits<std::int64_t>::max() / gates) {
    throw ValueError(std::string(name) + ": hidden is too large: " + std::to_string(gates) +
                     " gates of " + std::to_string(hidden) + " do not fit into 64 bits");
  }
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const Array keys = random::split(key);
  const auto draw = [&](std::int64_t which, std::int64_t rows) {
    return random::uniform(keys(which), {rows, gates * hidden}, dtype, -bound, bound);
  };
  return {draw(0, inputs), draw(1, hidden)};
}

Array zeros_behind(const Shape& leading, const Array& w_h) {
  Shape shape = leading;
  shape.push_back(w_h.shape(0));
  return zeros(shape, w_h.dtype());
}

/// The part of gate `i` along the last axis.
Array gate(const Array& all, std::int64_t i, std::int64_t hidden) {
  return all(ellipsis, slice(i * hidden, (i + 1) * hidden));
}

template <class Cell, class State>
void check_arguments(const char* name, const Cell& cell, const State& state, const Operand& x) {
  detail::check_no_empty_leaf(cell, name, "cell");
  detail::check_no_empty_leaf(state, name, "state");
  detail::check_no_empty_leaf(x.array, name, "x");
}

void check_cell(const char* name, const Array& w_x, const Array& w_h, const Array& h,
                const Array& x, std::int64_t gates) {
  const bool matrices = w_x.ndim() == 2 && w_h.ndim() == 2 &&
                        w_h.shape(1) == gates * w_h.shape(0) && w_x.shape(1) == w_h.shape(1);
  const bool fit = matrices && x.ndim() > 0 && h.ndim() == x.ndim() &&
                   x.shape(-1) == w_x.shape(0) && h.shape(-1) == w_h.shape(0);
  if (fit) return;
  throw ShapeError(std::string(name) + ": w_x " + w_x.aval().to_string() + ", w_h " +
                   w_h.aval().to_string() + ", h " + h.aval().to_string() + " and x " +
                   x.aval().to_string() + " do not fit: they must be [inputs, " +
                   std::to_string(gates) + " hidden], [hidden, " + std::to_string(gates) +
                   " hidden], [..., hidden] and [..., inputs]");
}

}  // namespace

Lstm lstm_init(const Operand& key, std::int64_t inputs, std::int64_t hidden,
               std::optional<DType> dtype) {
  return detail::in_call("nn::lstm_init", {&key}, [&]() -> Lstm {
    const Weights w = uniform_weights("nn::lstm_init", key.array, inputs, hidden, 4, dtype);
    const DType d = w.w_h.dtype();
    const Array none_of_it = zeros({hidden}, d);
    return {w.w_x, w.w_h, concatenate({none_of_it, ones({hidden}, d), none_of_it, none_of_it})};
  });
}

LstmState lstm_start(const Lstm& cell, const Shape& leading, SourceLocation where) {
  return detail::in_call("nn::lstm_start", where, [&]() -> LstmState {
    detail::check_no_empty_leaf(cell, "nn::lstm_start", "cell");
    const Array zero = zeros_behind(leading, cell.w_h);
    return {zero, zero};
  });
}

LstmState lstm(const Lstm& cell, const LstmState& state, const Operand& x) {
  return detail::in_call("nn::lstm", x.where, [&]() -> LstmState {
    check_arguments("nn::lstm", cell, state, x);
    check_cell("nn::lstm", cell.w_x, cell.w_h, state.h, x.array, 4);
    const std::int64_t n = cell.w_h.shape(0);
    const Array all = matmul(x, cell.w_x) + matmul(state.h, cell.w_h) + cell.b;
    const Array i = sigmoid(gate(all, 0, n)), f = sigmoid(gate(all, 1, n));
    const Array g = tanh(gate(all, 2, n)), o = sigmoid(gate(all, 3, n));
    const Array c = f * state.c + i * g;
    return {o * tanh(c), c};
  });
}

Gru gru_init(const Operand& key, std::int64_t inputs, std::int64_t hidden,
             std::optional<DType> dtype) {
  return detail::in_call("nn::gru_init", {&key}, [&]() -> Gru {
    const Weights w = uniform_weights("nn::gru_init", key.array, inputs, hidden, 3, dtype);
    const DType d = w.w_h.dtype();
    return {w.w_x, w.w_h, zeros({3 * hidden}, d), zeros({hidden}, d)};
  });
}

Array gru_start(const Gru& cell, const Shape& leading, SourceLocation where) {
  return detail::in_call("nn::gru_start", where, [&] {
    detail::check_no_empty_leaf(cell, "nn::gru_start", "cell");
    return zeros_behind(leading, cell.w_h);
  });
}

Array gru(const Gru& cell, const Array& h, const Operand& x) {
  return detail::in_call("nn::gru", x.where, [&] {
    check_arguments("nn::gru", cell, h, x);
    check_cell("nn::gru", cell.w_x, cell.w_h, h, x.array, 3);
    const std::int64_t n = cell.w_h.shape(0);
    const Array of_x = matmul(x, cell.w_x) + cell.b, of_h = matmul(h, cell.w_h);
    const Array r = sigmoid(gate(of_x, 0, n) + gate(of_h, 0, n));
    const Array z = sigmoid(gate(of_x, 1, n) + gate(of_h, 1, n));
    const Array candidate = tanh(gate(of_x, 2, n) + r * (gate(of_h, 2, n) + cell.b_n));
    return (1 - z) * candidate + z * h;
  });
}

}  // namespace nn
}  // namespace v1
}  // namespace telamon
