// What the machine itself can do: the limits that other rows are held against. One thread.
#include <sys/mman.h>

#include <cstring>

#include "hand.hpp"

namespace bench {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 25;  // floats: 128 MB, beyond any cache

struct Streams {
  Floats a, b, out;
  float sum = 0;
};
Case limit(Streams streams, double bytes, void (*work)(Streams&)) {
  Case c = by_hand(std::move(streams), work, [](const Streams&) { return std::vector<Output>(); });
  c.outputs = nullptr;
  c.bytes = bytes;
  return c;
}

const Register read("LIMIT.read", "us", [] {
  return limit({uf(1, kLarge), {}, {}}, 4. * kLarge,
               [](Streams& s) { s.sum = lane_sum(s.a.data(), s.a.size()); });
});
const Register copy("LIMIT.copy", "us", [] {
  return limit({uf(1, kLarge), {}, Floats(kLarge)}, 8. * kLarge,
               [](Streams& s) { std::memcpy(s.out.data(), s.a.data(), 4 * s.a.size()); });
});
const Register triad("LIMIT.triad", "us", [] {
  return limit({uf(1, kLarge), uf(2, kLarge), Floats(kLarge)}, 12. * kLarge, [](Streams& s) {
    const float *a = s.a.data(), *b = s.b.data();
    float* out = s.out.data();
#pragma GCC ivdep
    for (std::size_t i = 0; i < kLarge; ++i) out[i] = a[i] + 3 * b[i];
  });
});

/// Fused multiplications and additions on registers: 12 independent chains of vectors.
template <class T>
Case fma_peak() {  // unrolled: else the chains are in memory
#if defined(__AVX512F__)
  constexpr std::size_t kBytes = 64;
#elif defined(__AVX__)
  constexpr std::size_t kBytes = 32;
#else
  constexpr std::size_t kBytes = 16;
#endif
  using Vector [[gnu::vector_size(kBytes)]] = T;
  constexpr int kChains = 12, kTrips = 10'000;
  const auto kept = std::make_shared<std::vector<T>>(kChains, T(1));
  Case c;
  c.flops = 2. * kChains * kTrips * (kBytes / sizeof(T));
  c.call = [kept] {
    Vector x[kChains], m = Vector{} + T(.999), a = Vector{} + T(.1);
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) x[i] = Vector{} + (*kept)[static_cast<std::size_t>(i)];
    asm("" : "+v"(m), "+v"(a));
    for (int t = 0; t < kTrips; ++t) {
#pragma GCC unroll 12
      for (int i = 0; i < kChains; ++i) {
#if defined(__FMA__)
        // As an instruction: the build without contraction must show the same peak.
        if constexpr (sizeof(T) == 4) asm("vfmadd213ps %2, %1, %0" : "+v"(x[i]) : "v"(m), "v"(a));
        else asm("vfmadd213pd %2, %1, %0" : "+v"(x[i]) : "v"(m), "v"(a));
#else
        x[i] = x[i] * m + a;
#endif
      }
    }
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) (*kept)[static_cast<std::size_t>(i)] = x[i][0];
    keep(kept->data());
  };
  return c;
}
const Register fma_f32("LIMIT.fma_f32", "us", [] { return fma_peak<float>(); });
const Register fma_f64("LIMIT.fma_f64", "us", [] { return fma_peak<double>(); });

const Register fresh_page("LIMIT.fresh_page", "ns", [] {
  constexpr std::size_t kBytes = std::size_t{4} << 20, kPages = kBytes / 4096;
  Case c;
  c.per = kPages;
  c.bytes = kBytes;
  c.note = "the first touch of a page of 4 kB";
  c.call = [] {
    void* const p =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (std::size_t i = 0; i < kPages; ++i) static_cast<char*>(p)[i * 4096] = 1;
    keep(p);
    munmap(p, kBytes);
  };
  return c;
});

}  // namespace
}  // namespace bench
