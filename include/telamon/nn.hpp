// Cells of recurrent networks: parameters, what is carried, and one step. A sequence is a scan.
//
//   auto cell = tl::nn::gru_init(key, 28, 64);
//   auto [h, hs] = tl::scan([&](const Array& h, const Array& x) {
//     Array next = tl::nn::gru(cell, h, x);
//     return std::pair{next, next};
//   }, tl::zeros({64}), xs);
//
// x is a vector of inputs or a batch, one row each; the state has the same leading axes.
#pragma once

#include <cstdint>
#include <optional>

#include "telamon/array.hpp"
#include "telamon/none.hpp"

namespace telamon {
inline namespace v1 {
namespace nn {

/// Long short-term memory (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000).
struct Lstm {
  Array w_x;  ///< [inputs, 4 hidden]: for the gates i, f, g, o in this order
  Array w_h;  ///< [hidden, 4 hidden]
  Array b;    ///< [4 hidden]
};
struct LstmState {
  Array h, c;  ///< [..., hidden]: the output, the memory
};
/// Weights uniform within 1 / sqrt(hidden), biases zero but for the forget gate's, which are one
/// (Jozefowicz et al., 2015).
TELAMON_API Lstm lstm_init(const Operand& key, std::int64_t inputs, std::int64_t hidden,
                           std::optional<DType> dtype = none);
/// The state before the first input.
TELAMON_API LstmState lstm_start(const Lstm& cell, const Shape& leading = {},
                                 SourceLocation where = SourceLocation::current());
/// i, f, o = sigmoid(x w_x + h w_h + b), g = tanh(the same); c' = f c + i g, h' = o tanh(c').
TELAMON_API LstmState lstm(const Lstm& cell, const LstmState& state, const Operand& x);

/// Gated recurrent unit (Cho et al., 2014), with the reset gate behind the product.
struct Gru {
  Array w_x;  ///< [inputs, 3 hidden]: for r, z, n in this order
  Array w_h;  ///< [hidden, 3 hidden]
  Array b;    ///< [3 hidden]
  Array b_n;  ///< [hidden]: added to h w_h for n, within the reset gate
};
/// Weights uniform within 1 / sqrt(hidden), biases zero.
TELAMON_API Gru gru_init(const Operand& key, std::int64_t inputs, std::int64_t hidden,
                         std::optional<DType> dtype = none);
TELAMON_API Array gru_start(const Gru& cell, const Shape& leading = {},
                            SourceLocation where = SourceLocation::current());
/// r, z = sigmoid(x w_x + h w_h + b); n = tanh(x w_x + b + r (h w_h + b_n)); h' = (1 - z) n + z h.
TELAMON_API Array gru(const Gru& cell, const Array& h, const Operand& x);

}  // namespace nn
}  // namespace v1
}  // namespace telamon
