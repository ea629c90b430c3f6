// Short words for the workloads of Telamon: arrays from the common inputs, and a case of a jitted function.
#pragma once

#include <malloc.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "harness.hpp"
#include "telamon/telamon.hpp"

namespace bench {

using telamon::Array;
using telamon::Arrays;
using telamon::Shape;

/// uniform and centred numbers as arrays.
inline Array u(unsigned seed, const Shape& shape) {
  return Array(to_floats(uniform(seed, static_cast<std::size_t>(shape.num_elements()))), shape);
}
inline Array z(unsigned seed, const Shape& shape) {
  return Array(to_floats(centred(seed, static_cast<std::size_t>(shape.num_elements()))), shape);
}
inline Array u64(unsigned seed, const Shape& shape) {
  return Array(uniform(seed, static_cast<std::size_t>(shape.num_elements())), shape);
}
inline Array z64(unsigned seed, const Shape& shape) {
  return Array(centred(seed, static_cast<std::size_t>(shape.num_elements())), shape);
}
/// Whole numbers from -128 to 127, and complex numbers.
inline Array whole_numbers(unsigned seed, const Shape& shape, telamon::DType dtype) {
  const auto n = static_cast<std::size_t>(shape.num_elements());
  return Array(whole<std::int32_t>(seed, n), shape).astype(dtype);
}
inline Array c64_numbers(unsigned seed, const Shape& shape) {
  return Array(complex_numbers(seed, static_cast<std::size_t>(shape.num_elements())), shape);
}
/// A scalar that is not weakly typed.
inline Array number(float x) { return Array(std::vector<float>{x}, {}); }

inline Output output_of(const Array& x) {
  switch (x.dtype()) {
    case telamon::DType::f32:
    case telamon::DType::bf16:
    case telamon::DType::f16: return output(x.to_vector<float>());
    case telamon::DType::c64: return output(x.to_vector<std::complex<float>>());
    case telamon::DType::i8:
    case telamon::DType::u8:
    case telamon::DType::i16:
    case telamon::DType::i32: return output(x.to_vector<std::int32_t>());
    default: return output(x.to_vector<double>());
  }
}

/// To the system: what blocks and the heap keep for reuse. Otherwise a row has the memory of those before
/// it.
inline void give_memory_back() {
  telamon::trim_memory();
  malloc_trim(0);
}

/// jit with the options of this run.
template <class F>
auto compiled(F f, telamon::JitOptions options = {}) {
  options.contract = contract();
  return telamon::jit(std::move(f), std::move(options));
}

/// A case that calls f(args...), which must wait for its results (all of ours do).
template <class F, class... Args>
Case go(F f, Args... args) {
  const auto call = [f, kept = std::make_tuple(std::move(args)...)] {
    return std::apply([&](const auto&... x) { return f(x...); }, kept);
  };
  Case c;
  c.call = [call] { static_cast<void>(call()); };
  c.outputs = [call] {
    std::vector<Output> out;
    for (const Array& x : telamon::tree_leaves(call())) out.push_back(output_of(x));
    return out;
  };
  return c;
}

/// A case of what f(args...) needs for its intermediate values, in MB, of what one call of the library takes for
/// itself at most, of both, and of the bound of the former (docs/how-to/memory.md).
template <class F, class... Args>
Case memory_of(F f, const Args&... args) {
  const auto m = compiled(std::move(f)).lower(args...).compile().memory_analysis();
  const auto megabytes = [](std::int64_t bytes) {
    return std::vector<double>{static_cast<double>(bytes) / 1e6};
  };
  Case c;
  c.measure = [samples = Samples{{"arena", megabytes(m.arena)},
                                 {"scratch", megabytes(m.scratch)},
                                 {"both", megabytes(m.arena + m.scratch)},
                                 {"results", megabytes(m.results)},
                                 {"bound", megabytes(m.live_bound)}}](double) { return samples; };
  c.note =
      "intermediate values, scratch of a library call, both, results, and what the values need at "
      "least beside these";
  c.no_limit = "size";
  return c;
}

}  // namespace bench
