// Loops that take several trips in a turn: scan's parameter `unroll`, and what spares copies.
#pragma once

#include <cstdint>

#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// How many trips a turn takes: as many as `unroll` asks for, or after which no large carry is what another one was, but no
/// more than there are, nor more equations than pay for being compiled.
std::int64_t trips_of_turn(const ScanParams& p);

/// length = copies * count + rest
struct Turns {
  std::int64_t copies, count, rest;
};
Turns turns_of(const ScanParams& p);

/// The body several times in a row: consts, carry, the rows of xs of each copy -> carry, the rows of ys
/// of each copy.
Jaxpr repeated_body(const ScanParams& p, std::int64_t copies);

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
