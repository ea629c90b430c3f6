// What compiled code costs, beside hand-written loops built with -O3 -march=native in this very
// file (bench/CMakeLists.txt sets those flags). Each pair of rows does the same work on the same
// arrays; "loop" is by hand. Run with --benchmark_filter=chain and so on.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/backend.hpp"
#include "runtime/math/vector_math.hpp"
#include "runtime/thread_pool.hpp"
#include "telamon/detail/flat.hpp"
#include "telamon/grad.hpp"
#include "telamon/history.hpp"
#include "telamon/jit.hpp"
#include "telamon/lax.hpp"
#include "telamon/make_jaxpr.hpp"
#include "telamon/numpy.hpp"

namespace {

using namespace telamon;
using Program = std::function<Arrays(std::span<const Array>)>;

Array uniform(const Shape& shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(shape.num_elements()));
  for (float& v : values) v = draw(engine);
  return Array(values, shape);
}

void run_compiled(benchmark::State& state, const Program& f, const Arrays& inputs,
                  std::int64_t elements) {
  set_num_threads(1);
  const Jaxpr jaxpr = detail::stage_arrays(f, inputs, "bench").jaxpr;
  const auto executable = runtime::find_backend("llvm").compile(jaxpr, {});
  Arrays outputs;
  executable->execute(inputs, {}, outputs, "bench");  // from here on, memory is reused
  for (auto _ : state) {
    executable->execute(inputs, {}, outputs, "bench");
    benchmark::DoNotOptimize(outputs);
  }
  state.SetItemsProcessed(state.iterations() * elements);
  state.counters["kernels"] = executable->info().kernels;
}

const float* data(const Array& x) {
  static std::vector<std::vector<float>> kept;
  kept.push_back(x.to_vector<float>());
  return kept.back().data();
}

// ---- ten operations ------------------------------------------------------------------------------
Arrays chain(std::span<const Array> x) {
  const Array &a = x[0], &b = x[1];
  Array y = lax::add(a, b);
  y = lax::mul(y, a);
  y = lax::sub(y, b);
  y = lax::max(y, a);
  y = lax::mul(y, y);
  y = lax::add(y, b);
  y = lax::min(y, lax::full_like(y, 2));
  y = lax::mul(y, a);
  y = lax::sub(y, a);
  return {lax::mul(y, b)};
}
// Maxima as ours, where NaN wins, and as one instruction has them, which loses NaN.
float nan_max(float a, float b) { return a > b || a != a ? a : b; }
float plain_max(float a, float b) { return a < b ? b : a; }
template <float (*Max)(float, float)>
float chain_element(float a, float b) {
  float y = a + b;
  y = y * a;
  y = y - b;
  y = Max(y, a);
  y = y * y;
  y = y + b;
  y = y < 2 ? y : 2;
  y = y * a;
  y = y - a;
  return y * b;
}
void chain_compiled(benchmark::State& state) {
  run_compiled(state, chain, {uniform({state.range(0)}, 1), uniform({state.range(0)}, 2)},
               state.range(0));
}
template <float (*Max)(float, float)>
void chain_loop(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const float *a = data(uniform({n}, 1)), *b = data(uniform({n}, 2));
  std::vector<float> out(static_cast<std::size_t>(n));
  float* __restrict y = out.data();
  for (auto _ : state) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = chain_element<Max>(a[i], b[i]);
    benchmark::DoNotOptimize(y);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(chain_compiled)->Arg(4096)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);
void chain_loop_nan_max(benchmark::State& state) { chain_loop<nan_max>(state); }
void chain_loop_plain_max(benchmark::State& state) { chain_loop<plain_max>(state); }
BENCHMARK(chain_loop_nan_max)->Arg(4096)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(chain_loop_plain_max)->Arg(4096)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);

// ---- with exp and tanh ---------------------------------------------------------------------------
Arrays transcendental(std::span<const Array> x) {
  const Array e = lax::exp(lax::mul(x[0], x[1]));
  return {lax::add(lax::tanh(lax::sub(e, x[1])), e)};
}
void transcendental_compiled(benchmark::State& state) {
  run_compiled(state, transcendental, {uniform({state.range(0)}, 1), uniform({state.range(0)}, 2)},
               state.range(0));
}
// By hand: vectors of the host's width and the same vector math functions.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
using Vector = float __attribute__((vector_size(kLanes * 4)));
void transcendental_loop(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const float *a = data(uniform({n}, 1)), *b = data(uniform({n}, 2));
  std::vector<float> out(static_cast<std::size_t>(n));
  using Function = Vector (*)(Vector);
  const auto exp = reinterpret_cast<Function>(math::find_math("exp", DType::f32).address);
  const auto tanh = reinterpret_cast<Function>(math::find_math("tanh", DType::f32).address);
  for (auto _ : state) {
    for (std::int64_t i = 0; i + kLanes <= n; i += kLanes) {
      Vector x, y;
      __builtin_memcpy(&x, a + i, sizeof x);
      __builtin_memcpy(&y, b + i, sizeof y);
      const Vector e = exp(x * y), z = tanh(e - y) + e;
      __builtin_memcpy(out.data() + i, &z, sizeof z);
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(transcendental_compiled)->Arg(4096)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(transcendental_loop)->Arg(4096)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);

// ---- sums ----------------------------------------------------------------------------------------
void sizes(benchmark::internal::Benchmark* b) {
  for (const auto& [rows, columns] : {std::pair{4, 1024},
                                      {32, 2048},
                                      {1000, 1000},
                                      {10000, 1000},
                                      {1000000, 10},
                                      {10, 1000000}}) {
    b->Args({rows, columns});
  }
  b->Unit(benchmark::kMicrosecond);
}
void row_sums_compiled(benchmark::State& state) {
  const Shape shape{state.range(0), state.range(1)};
  run_compiled(
      state, [](std::span<const Array> x) { return Arrays{lax::reduce_sum(x[0], {1})}; },
      {uniform(shape, 1)}, shape.num_elements());
}
void row_sums_loop(benchmark::State& state) {
  const std::int64_t rows = state.range(0), columns = state.range(1);
  const float* x = data(uniform({rows, columns}, 1));
  std::vector<float> out(static_cast<std::size_t>(rows));
  for (auto _ : state) {
    for (std::int64_t i = 0; i < rows; ++i) {
      constexpr int kParts = 4 * kLanes;  // as many partial sums as keep the adders busy
      if (columns < kParts) {             // short rows: plainly
        float sum = 0;
        for (std::int64_t j = 0; j < columns; ++j) sum += x[i * columns + j];
        out[static_cast<std::size_t>(i)] = sum;
        continue;
      }
      float part[kParts] = {};
      std::int64_t j = 0;
      for (; j + kParts <= columns; j += kParts) {
        for (int k = 0; k < kParts; ++k) part[k] += x[i * columns + j + k];
      }
      float sum = 0;
      for (; j < columns; ++j) sum += x[i * columns + j];
      for (const float p : part) sum += p;
      out[static_cast<std::size_t>(i)] = sum;
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows * columns);
}
void column_sums_compiled(benchmark::State& state) {
  const Shape shape{state.range(0), state.range(1)};
  run_compiled(
      state, [](std::span<const Array> x) { return Arrays{lax::reduce_sum(x[0], {0})}; },
      {uniform(shape, 1)}, shape.num_elements());
}
void column_sums_loop(benchmark::State& state) {
  const std::int64_t rows = state.range(0), columns = state.range(1);
  const float* x = data(uniform({rows, columns}, 1));
  std::vector<float> out(static_cast<std::size_t>(columns));
  float* __restrict y = out.data();
  for (auto _ : state) {
    for (std::int64_t j = 0; j < columns; ++j) y[j] = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) y[j] += x[i * columns + j];
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows * columns);
}
void sum_compiled(benchmark::State& state) {
  run_compiled(
      state, [](std::span<const Array> x) { return Arrays{lax::reduce_sum(x[0], {0})}; },
      {uniform({state.range(0)}, 1)}, state.range(0));
}
BENCHMARK(row_sums_compiled)->Apply(sizes);
BENCHMARK(row_sums_loop)->Apply(sizes);
BENCHMARK(column_sums_compiled)->Apply(sizes);
BENCHMARK(column_sums_loop)->Apply(sizes);
BENCHMARK(sum_compiled)->Arg(4096)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);

// ---- transposes ----------------------------------------------------------------------------------
void transpose_compiled(benchmark::State& state) {
  const Shape shape{state.range(0), state.range(1)};
  run_compiled(
      state, [](std::span<const Array> x) { return Arrays{lax::transpose(x[0], {1, 0})}; },
      {uniform(shape, 1)}, shape.num_elements());
}
// By hand: element by element, and in square tiles.
template <int Tile>
void transpose_loop(benchmark::State& state) {
  const std::int64_t rows = state.range(0), columns = state.range(1);
  const float* x = data(uniform({rows, columns}, 1));
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  float* __restrict y = out.data();
  for (auto _ : state) {
    for (std::int64_t j0 = 0; j0 < columns; j0 += Tile) {
      for (std::int64_t i0 = 0; i0 < rows; i0 += Tile) {
        for (std::int64_t j = j0; j < std::min(j0 + Tile, columns); ++j) {
          for (std::int64_t i = i0; i < std::min(i0 + Tile, rows); ++i)
            y[j * rows + i] = x[i * columns + j];
        }
      }
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows * columns);
}
void transpose_loop_naive(benchmark::State& state) { transpose_loop<1 << 30>(state); }
void transpose_loop_tiled(benchmark::State& state) { transpose_loop<16>(state); }
void transpose_sizes(benchmark::internal::Benchmark* b) {
  for (const auto& [rows, columns] : {std::pair{64, 64}, {1000, 1000}, {4096, 4096}, {100'000, 30}})
    b->Args({rows, columns});
  b->Unit(benchmark::kMicrosecond);
}
BENCHMARK(transpose_compiled)->Apply(transpose_sizes);
BENCHMARK(transpose_loop_naive)->Apply(transpose_sizes);
BENCHMARK(transpose_loop_tiled)->Apply(transpose_sizes);

// ---- small products ------------------------------------------------------------------------------
void product_compiled(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  run_compiled(
      state,
      [](std::span<const Array> x) {
        DotDimensionNumbers dn;
        dn.lhs_contracting = {1};
        dn.rhs_contracting = {0};
        return Arrays{lax::dot_general(x[0], x[1], dn)};
      },
      {uniform({n, n}, 1), uniform({n, n}, 2)}, 2 * n * n * n);
}
BENCHMARK(product_compiled)
    ->Arg(4)
    ->Arg(8)
    ->Arg(16)
    ->Arg(32)
    ->Arg(47)
    ->Arg(64)
    ->Arg(128)
    ->Arg(512)
    ->Unit(benchmark::kMicrosecond);

// ---- calls and compilation -----------------------------------------------------------------------
void cached_call_of_scalar_function(benchmark::State& state) {
  const auto f = jit([](const Array& x) { return lax::mul(lax::sin(x), x); });
  const Array x = Array::from_data(std::vector<double>{1.5}.data(), DType::f64, {});
  f(x);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  state.counters["kernels"] = last_executable().kernels;
}
BENCHMARK(cached_call_of_scalar_function)->Unit(benchmark::kNanosecond);

void executable_call_of_scalar_function(benchmark::State& state) {
  run_compiled(
      state, [](std::span<const Array> x) { return Arrays{lax::mul(lax::sin(x[0]), x[0])}; },
      {uniform({}, 1)}, 1);
}
BENCHMARK(executable_call_of_scalar_function)->Unit(benchmark::kNanosecond);

void compile_chain(benchmark::State& state, const Shape& shape) {
  const Arrays inputs = {uniform(shape, 1), uniform(shape, 2)};
  const std::int64_t ops = state.range(0);
  for (auto _ : state) {
    const Program f = [&](std::span<const Array> x) {
      Array y = x[0];
      for (std::int64_t i = 0; i < ops; ++i) y = i % 2 == 0 ? lax::mul(y, x[1]) : lax::add(y, x[0]);
      return Arrays{y};
    };
    const Jaxpr jaxpr = detail::stage_arrays(f, inputs, "bench").jaxpr;
    const auto executable = runtime::find_backend("llvm").compile(jaxpr, {});
    state.counters["kernels"] = executable->info().kernels;
  }
}
void trace_and_compile_vectors(benchmark::State& state) { compile_chain(state, {1000}); }
void trace_and_compile_scalars(benchmark::State& state) { compile_chain(state, {}); }
BENCHMARK(trace_and_compile_vectors)->Arg(10)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);
BENCHMARK(trace_and_compile_scalars)->Arg(10)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);

// About 1,000 operations each, in many kernels.
void compile_program(benchmark::State& state, const Program& f, const Arrays& inputs) {
  for (auto _ : state) {
    const Jaxpr jaxpr = detail::stage_arrays(f, inputs, "bench").jaxpr;
    const auto info = runtime::find_backend("llvm").compile(jaxpr, {})->info();
    state.counters["operations"] = static_cast<double>(jaxpr.eqns().size());
    state.counters["kernels"] = info.kernels;
  }
}
void trace_and_compile_matmuls(benchmark::State& state) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 500; ++i) y = tanh(matmul(y, x[1]));
    return Arrays{y};
  };
  compile_program(state, f, {uniform({8, 8}, 1), uniform({8, 8}, 2)});
}
void trace_and_compile_row_means(benchmark::State& state) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 200; ++i) y = y - mean(y, {.axes = {1}, .keepdims = true});
    return Arrays{y};
  };
  compile_program(state, f, {uniform({100, 100}, 1)});
}
void trace_and_compile_rolls(benchmark::State& state) {
  const Program f = [](std::span<const Array> x) {
    Array y = x[0];
    for (int i = 0; i < 250; ++i) y = roll(y, 1) + y;
    return Arrays{y};
  };
  compile_program(state, f, {uniform({1000}, 1)});
}
void trace_and_compile_gradient_of_layers(benchmark::State& state) {
  const Program f = [](std::span<const Array> x) {
    const auto loss = [&](const Array& w) {
      Array y = x[0];
      for (int i = 0; i < 70; ++i) y = tanh(matmul(y, w) + x[2]);
      return sum(y);
    };
    return Arrays{grad(loss)(x[1])};
  };
  compile_program(state, f, {uniform({100, 100}, 1), uniform({100, 100}, 2), uniform({100}, 3)});
}
BENCHMARK(trace_and_compile_matmuls)->Unit(benchmark::kMillisecond);
BENCHMARK(trace_and_compile_row_means)->Unit(benchmark::kMillisecond);
BENCHMARK(trace_and_compile_rolls)->Unit(benchmark::kMillisecond);
BENCHMARK(trace_and_compile_gradient_of_layers)->Unit(benchmark::kMillisecond);
// Long straight-line functions and their gradients: every step should be linear in the operations.
// The counters are the milliseconds of tracing, of the passes over equations, and of the rest (fusion,
// memory, code).
void long_chain(benchmark::State& state, bool gradient, const Shape& shape) {
  const std::int64_t ops = state.range(0);
  const Array x = uniform(shape, 1);
  const auto f = [&](Array y) {
    for (std::int64_t i = 0; i < ops; ++i) {
      y = i % 3 == 0   ? lax::sin(y)
          : i % 3 == 1 ? lax::mul(y, lax::full_like(y, 1.5))
                       : lax::add(y, x);
    }
    return shape.empty() ? y : lax::reduce_sum(y, {0});
  };
  double trace = 0, passes = 0, code = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const ClosedJaxpr program = gradient ? make_jaxpr(grad(f))(x) : make_jaxpr(f)(x);
    const std::chrono::duration<double, std::milli> traced =
        std::chrono::steady_clock::now() - begin;
    trace += traced.count();
    const auto executable = runtime::find_backend("llvm").compile(program.jaxpr, {});
    const ExecutableInfo info = executable->info();
    for (const PassTime& p : info.passes) {
      const bool over_equations =
          p.name == "lower" || p.name == "simplify" || p.name == "cse" || p.name == "dce";
      (over_equations ? passes : code) += p.microseconds / 1000;
    }
    state.counters["equations"] = static_cast<double>(program.jaxpr.eqns().size());
    state.counters["kernels"] = info.kernels;
  }
  for (const auto& [name, ms] :
       {std::pair{"trace_ms", trace}, {"passes_ms", passes}, {"code_ms", code}})
    state.counters[name] = benchmark::Counter(ms, benchmark::Counter::kAvgIterations);
}
void long_chain_of_scalars(benchmark::State& state) { long_chain(state, false, {}); }
void long_chain_of_vectors(benchmark::State& state) { long_chain(state, false, {1000}); }
void gradient_of_long_chain_of_scalars(benchmark::State& state) { long_chain(state, true, {}); }
void gradient_of_long_chain_of_vectors(benchmark::State& state) { long_chain(state, true, {1000}); }
BENCHMARK(long_chain_of_scalars)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK(long_chain_of_vectors)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK(gradient_of_long_chain_of_scalars)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK(gradient_of_long_chain_of_vectors)->Arg(1000)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
