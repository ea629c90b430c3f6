// What the machine can do, as a contender of its own: the ratios to the limit come from these.
//   M.read_SIZEk, M.copy_SIZEk   passes over a working set of so many KiB, shared out between the threads
//   M.stream_SIZEk               the same copies, written past the caches
//   M.fma_f32, M.fma_f64         multiply-adds in registers
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
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
using Floats = float __attribute__((vector_size(kVectorBytes), may_alias));
using Doubles = double __attribute__((vector_size(kVectorBytes)));

template <class T>
void keep(T& x) {
  asm volatile("" : "+m"(x) : : "memory");
}

constexpr double kBatch = 0.2e-3;  // seconds: as long as a sample of the workloads
using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Seconds of a pass, batch by batch, for so long: pass(thread), which makes its part of it. All threads start a
/// batch together, and it takes as long as the last of them, as with the workloads, whose least is compared
/// with the least of these. Who waits lets others run: the one it waits for may be on its processor.
std::vector<double> pass_times(const std::function<void(int)>& pass, double seconds) {
  std::atomic<long> started = 0, batch = 1;
  std::atomic<int> at_work = 0;
  std::atomic<bool> over = false;
  const auto make_passes = [&](int thread) {
    for (long i = batch; i > 0; --i) pass(thread);
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads(); ++t) {
    others.emplace_back([&, t] {
      for (long next = 1;; ++next) {
        while (started < next && !over) std::this_thread::yield();
        if (over) return;
        make_passes(t);
        --at_work;
      }
    });
  }
  const auto run_batch = [&] {
    const auto start = Clock::now();
    at_work = threads() - 1;
    ++started;
    make_passes(0);
    while (at_work > 0) std::this_thread::yield();
    return since(start) / static_cast<double>(batch);
  };
  double pass_time = run_batch();
  for (int i = 0; i < 5; ++i) pass_time = std::min(pass_time, run_batch());
  batch = 1 + static_cast<long>(kBatch / std::max(pass_time, 1e-9));
  std::vector<double> times;
  for (const auto first = Clock::now(); times.empty() || since(first) < seconds;)
    times.push_back(run_batch());
  over = true;
  return times;
}

Case passes(std::function<void(int)> pass) {
  Case c;
  c.measure = [pass = std::move(pass)](double seconds) {
    return Samples{{"time", pass_times(pass, seconds)}};
  };
  return c;
}

float sum_of(const float* x, std::size_t n) {
  constexpr std::size_t kLanes = kVectorBytes / 4;
  Floats sums[8] = {};
  for (std::size_t i = 0; i < n; i += 8 * kLanes) {
    for (std::size_t k = 0; k < 8; ++k)
      sums[k] += *reinterpret_cast<const Floats*>(x + i + k * kLanes);
  }
  for (int k = 1; k < 8; ++k) sums[0] += sums[k];
  return sums[0][0];
}

/// Ones, on large pages where the system has them: on small ones a pass is bound by finding its pages.
class Part {
 public:
  explicit Part(std::size_t size) : size_(size) {
    constexpr std::size_t kPage = std::size_t{2} << 20;
    const std::size_t bytes = (4 * size + kPage - 1) / kPage * kPage;
    data_.reset(static_cast<float*>(std::aligned_alloc(kPage, bytes)));
    if (!data_) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
    std::fill_n(data(), size, 1.f);
  }
  float* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
  std::size_t size_;
};
/// What each thread has of the working set.
using Parts = std::vector<Part>;
std::shared_ptr<Parts> parts(std::size_t kilobytes) {
  const auto n = static_cast<std::size_t>(threads());
  auto all = std::make_shared<Parts>();
  for (std::size_t i = 0; i < n; ++i) all->emplace_back(kilobytes * 256 / n / 256 * 256);
  return all;
}

Case read(std::size_t kilobytes) {
  const auto data = parts(kilobytes);
  Case c = passes([data](int thread) {
    const Part& mine = (*data)[static_cast<std::size_t>(thread)];
    float sum = sum_of(mine.data(), mine.size());
    keep(sum);
  });
  c.bytes = 4. * static_cast<double>(data->size() * data->front().size());
  return c;
}

using Copy = void(float* to, const float* from, std::size_t n);  // n: whole blocks of 256
/// In registers as wide as the machine has them: memcpy is slower within caches.
void copy_all(float* to, const float* from, std::size_t n) {
  constexpr std::size_t kLanes = kVectorBytes / 4;
  for (std::size_t i = 0; i < n; i += 4 * kLanes) {
    const auto* x = reinterpret_cast<const Floats*>(from + i);
    auto* y = reinterpret_cast<Floats*>(to + i);
    const Floats a = x[0], b = x[1], c = x[2], d = x[3];
    y[0] = a, y[1] = b, y[2] = c, y[3] = d;
  }
}
#ifdef __SSE2__
void stream_vector(float* to, const float* from) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, _mm512_load_ps(from));
#elif defined(__AVX__)
  _mm256_stream_ps(to, _mm256_load_ps(from));
#else
  for (int i = 0; i < 8; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
#endif
}
/// By two registers: 16 bytes at a time write what caches cannot hold at two thirds of this rate.
void stream_all(float* to, const float* from, std::size_t n) {
  constexpr std::size_t kLanes = kVectorBytes / 4;
  for (std::size_t i = 0; i < n; i += 2 * kLanes) {
    stream_vector(to + i, from + i);
    stream_vector(to + i + kLanes, from + i + kLanes);
  }
  _mm_sfence();
}
#endif

Case copy(std::size_t kilobytes, Copy* copy) {
  const auto from = parts(kilobytes / 2), to = parts(kilobytes / 2);
  Case c = passes([from, to, copy](int thread) {
    const Part& mine = (*from)[static_cast<std::size_t>(thread)];
    const Part& out = (*to)[static_cast<std::size_t>(thread)];
    copy(out.data(), mine.data(), mine.size());
    keep(out.data()[0]);
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
    for (std::size_t size = 16; size <= 131072; size *= 2) {
      Register("M.read_" + std::to_string(size) + "k", "us", [size] { return read(size); });
      Register("M.copy_" + std::to_string(size) + "k", "us",
               [size] { return copy(size, copy_all); });
#ifdef __SSE2__
      if (size >= 1024)  // less lies in caches
        Register("M.stream_" + std::to_string(size) + "k", "us",
                 [size] { return copy(size, stream_all); });
#endif
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
#if defined(__x86_64__) && !defined(__AVX512F__)
  if (__builtin_cpu_supports("avx512f")) {
    std::fputs("built for a processor with narrower registers: build it here\n", stderr);
    return 2;
  }
#endif
  return bench::run(argc, argv, "machine", [] {});
}
