// What the machine can do, as a contender of its own: the ratios to the limit come from these.
//   M.read_SIZEk, M.copy_SIZEk   passes over a working set of so many KiB, shared out between the threads
//   M.fma_f32, M.fma_f64         multiply-adds in registers
// Each thread passes over its part on its own; a sample is the mean time of a pass.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "harness.hpp"

namespace bench {
namespace {

#ifdef __AVX512F__
constexpr int kVectorBytes = 64;
#else
constexpr int kVectorBytes = 32;
#endif
using Floats = float __attribute__((vector_size(kVectorBytes)));
using Doubles = double __attribute__((vector_size(kVectorBytes)));

template <class T>
void keep(T& x) {
  asm volatile("" : "+m"(x) : : "memory");
}

/// Seconds of a pass when all threads make passes for so long: pass(thread).
double mean_pass(const std::function<void(int)>& pass, double seconds) {
  std::vector<double> means(static_cast<std::size_t>(threads()));
  std::atomic<int> waiting = threads();
  const auto work = [&](int thread) {
    pass(thread);
    for (--waiting; waiting > 0;) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    double passed = 0;
    long passes = 0;
    for (long batch = 1; passed < seconds; batch *= 2) {
      for (long i = 0; i < batch; ++i) pass(thread);
      passes += batch;
      passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    means[static_cast<std::size_t>(thread)] = passed / static_cast<double>(passes);
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads(); ++t) others.emplace_back(work, t);
  work(0);
  others.clear();
  double sum = 0;
  for (const double x : means) sum += x;
  return sum / threads();
}

Case passes(std::function<void(int)> pass) {
  Case c;
  c.measure = [pass = std::move(pass)](double seconds) {
    Samples samples;
    for (int i = 0; i < 5; ++i) samples["time"].push_back(mean_pass(pass, seconds / 5));
    return samples;
  };
  return c;
}

float sum_of(const float* x, std::size_t n) {
  constexpr std::size_t kLanes = kVectorBytes / 4;
  Floats sums[8] = {}, v;
  for (std::size_t i = 0; i < n; i += 8 * kLanes) {
    for (std::size_t k = 0; k < 8; ++k) {
      std::memcpy(&v, x + i + k * kLanes, sizeof v);
      sums[k] += v;
    }
  }
  for (int k = 1; k < 8; ++k) sums[0] += sums[k];
  return sums[0][0];
}

/// A part of the working set for each thread, in floats.
std::vector<std::vector<float>> parts(std::size_t kilobytes) {
  const std::size_t each = kilobytes * 256 / static_cast<std::size_t>(threads()) / 256 * 256;
  return {static_cast<std::size_t>(threads()), std::vector<float>(each, 1.f)};
}

Case read(std::size_t kilobytes) {
  const auto data = std::make_shared<std::vector<std::vector<float>>>(parts(kilobytes));
  Case c = passes([data](int thread) {
    const std::vector<float>& mine = (*data)[static_cast<std::size_t>(thread)];
    float sum = sum_of(mine.data(), mine.size());
    keep(sum);
  });
  c.bytes = 4. * static_cast<double>(data->size() * data->front().size());
  return c;
}

Case copy(std::size_t kilobytes) {
  const auto from = std::make_shared<std::vector<std::vector<float>>>(parts(kilobytes / 2));
  const auto to = std::make_shared<std::vector<std::vector<float>>>(parts(kilobytes / 2));
  Case c = passes([from, to](int thread) {
    const std::vector<float>& mine = (*from)[static_cast<std::size_t>(thread)];
    std::vector<float>& out = (*to)[static_cast<std::size_t>(thread)];
    std::memcpy(out.data(), mine.data(), 4 * mine.size());
    keep(out[0]);
  });
  c.bytes = 8. * static_cast<double>(from->size() * from->front().size());
  return c;
}

template <class V>
void multiply_add(V& result) {
  constexpr int kChains = 12;
  V x[kChains], factor = V{} + 1, term = V{};
  asm("" : "+x"(factor), "+x"(term));
#pragma GCC unroll 12
  for (int k = 0; k < kChains; ++k) x[k] = V{} + static_cast<float>(k);
  for (int i = 0; i < 100000; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kChains; ++k) x[k] = x[k] * factor + term;
  }
#pragma GCC unroll 12
  for (int k = 0; k < kChains; ++k) result += x[k];
}

template <class V>
Case fma(std::size_t lanes) {
  Case c = passes([](int) {
    V result{};
    multiply_add(result);
    keep(result);
  });
  c.flops = 2 * 12 * 1e5 * static_cast<double>(lanes) * threads();
  return c;
}

struct RegisterSizes {
  RegisterSizes() {
    for (const std::size_t size : {32, 256, 2048, 16384, 131072}) {
      Register("M.read_" + std::to_string(size) + "k", "us", [size] { return read(size); });
      Register("M.copy_" + std::to_string(size) + "k", "us", [size] { return copy(size); });
    }
  }
} const register_sizes;
const Register fma_f32("M.fma_f32", "us",
                       [] { return fma<Floats>(sizeof(Floats) / sizeof(float)); });
const Register fma_f64("M.fma_f64", "us",
                       [] { return fma<Doubles>(sizeof(Doubles) / sizeof(double)); });

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  return bench::run(argc, argv, "machine", [] {});
}
