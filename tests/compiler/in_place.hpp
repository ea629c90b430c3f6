// What tests of updates share: numbers to write, and that programs give the same bits where they write over their inputs.
#pragma once

#include <vector>

#include "support.hpp"

namespace telamon::testing {

inline Array some(const Shape& shape, DType dtype, unsigned seed = 1) {
  return lax::convert_element_type(uniform(shape, DType::f64, -9, 9, seed), dtype);
}

/// Compiled with all inputs donated, the program gives these results.
inline void expect_same_in_place(const Program& f, const Arrays& inputs, const Arrays& want) {
  Arrays copies;
  for (const Array& x : inputs) {
    copies.push_back(lax::copy(x));
    copies.back().block_until_ready();
  }
  const std::vector<bool> donated(inputs.size(), true);
  const Compiled in_place = compile(stage(f, inputs), {.donated = donated});
  const Arrays there = execute(in_place, copies, donated);
  for (std::size_t i = 0; i < want.size(); ++i) expect_equal(there[i], want[i], 0, "donated");
}

}  // namespace telamon::testing
