// What the *_isa.cpp files of this folder define for each instruction set.
#pragma once

#include "runtime/kernels/copy.hpp"
#include "runtime/kernels/elementwise.hpp"
#include "runtime/kernels/gemm_tile.hpp"
#include "runtime/kernels/reduce.hpp"
#include "runtime/kernels/reduce_loops.hpp"
#include "runtime/kernels/sort_runs.hpp"
#include "runtime/kernels/window_loops.hpp"

#define TELAMON_DECLARE_LOOPS(isa)                                                                \
  extern "C" __attribute__((visibility("hidden"))) telamon::kernels::ContiguousLoop               \
      telamon_##isa##_elementwise_loop(telamon::kernels::Op op, telamon::DType dtype);            \
  extern "C" __attribute__((visibility("hidden"))) telamon::kernels::ContiguousLoop               \
      telamon_##isa##_convert_loop(telamon::DType from, telamon::DType to);                       \
  /* null where there is none for elements of so many bytes */                                    \
  extern "C" __attribute__((visibility(                                                           \
      "hidden"))) telamon::kernels::TransposeLoop telamon_##isa##_transpose_loop(int size);       \
  /* in: k0, k1, x0, x1, each n words */                                                          \
  extern "C" __attribute__((visibility("hidden"))) void telamon_##isa##_threefry2x32(             \
      std::int64_t n, const std::uint32_t* const* in, std::uint32_t* out0, std::uint32_t* out1);  \
  /* any strides; f16, bf16: m = 1, columns of b adjacent, only b of them */                      \
  extern "C" __attribute__((visibility("hidden"))) telamon::kernels::GemmLoop                     \
      telamon_##isa##_float_gemm_loop(telamon::DType dtype);                                      \
  /* of words of two bf16, the first in the upper half; null where nothing multiplies them */     \
  extern "C" __attribute__((                                                                      \
      visibility("hidden"))) telamon::kernels::GemmLoop telamon_##isa##_bf16_gemm_loop();         \
  /* words of n terms of a line, and of the terms of two, of which the second may be null; */     \
  /* the least magnitude other than 0, minus 1, as bits */                                        \
  extern "C" __attribute__((visibility("hidden"))) std::uint16_t telamon_##isa##_bf16_pairs(      \
      std::int64_t n, const std::uint16_t* terms, std::uint32_t* words);                          \
  extern "C" __attribute__((visibility("hidden"))) std::uint16_t telamon_##isa##_bf16_pairs_of(   \
      std::int64_t n, const std::uint16_t* first, const std::uint16_t* second,                    \
      std::uint32_t* words);                                                                      \
  /* columns of b adjacent; dots: n = 1, columns of a and b adjacent, a of f16 or bf16 as well */ \
  extern "C"                                                                                      \
      __attribute__((visibility("hidden"))) telamon::kernels::GemmLoop telamon_##isa##_gemm_loop( \
          telamon::DType dtype, bool dots);                                                       \
  extern "C" __attribute__((visibility("hidden"))) telamon::kernels::ReduceLoop                   \
      telamon_##isa##_reduce_loop(telamon::kernels::ReduceOp op, telamon::DType dtype);           \
  extern "C" __attribute__((visibility("hidden")))                                                \
  const telamon::kernels::ScanLoop* telamon_##isa##_scan_loop(telamon::kernels::ReduceOp op,      \
                                                              telamon::DType dtype);              \
  extern "C" __attribute__((visibility("hidden")))                                                \
  const telamon::kernels::ArgLoop* telamon_##isa##_arg_loop(bool largest, telamon::DType dtype);  \
  extern "C" __attribute__((visibility("hidden"))) telamon::kernels::WindowOffsets                \
      telamon_##isa##_window_offsets(telamon::DType index_dtype);                                 \
  /* null where there is no loop for such index vectors, or rows of so many such elements */      \
  extern "C" __attribute__((visibility("hidden"))) telamon::kernels::IndexedLoop                  \
      telamon_##isa##_indexed_loop(telamon::kernels::WindowOp op, telamon::DType index_dtype,     \
                                   std::size_t components, telamon::DType dtype,                  \
                                   std::int64_t elements);                                        \
  /* of components of 32 bits that lie in pairs; false where any is out of bounds */              \
  extern "C" __attribute__((visibility("hidden"))) bool telamon_##isa##_pair_offsets(             \
      std::int64_t n, const char* indices, const std::int32_t* lasts, const std::int32_t* steps,  \
      std::int64_t* offsets);                                                                     \
  /* those that are not from low on, within so many bytes, become kOutside */                     \
  extern "C" __attribute__((visibility("hidden"))) void telamon_##isa##_keep_offsets(             \
      std::int64_t n, std::int64_t low, std::int64_t bytes, std::int64_t* offsets);               \
  extern "C" __attribute__((visibility("hidden")))                                                \
  const telamon::kernels::SortKeys* telamon_##isa##_sort_keys(telamon::DType dtype);              \
  extern "C" __attribute__((visibility("hidden"))) void telamon_##isa##_sort_runs(                \
      int key_bytes, const telamon::kernels::SortRun* runs, std::int64_t count, void* tile);      \
  extern "C" __attribute__((visibility("hidden"))) std::int64_t telamon_##isa##_sort_partition(   \
      int key_bytes, void* keys, std::int64_t n, std::uint64_t pivot, void* low);

TELAMON_DECLARE_LOOPS(generic)
TELAMON_DECLARE_LOOPS(avx2)
TELAMON_DECLARE_LOOPS(avx512)
#undef TELAMON_DECLARE_LOOPS

#if defined(__x86_64__)
#define TELAMON_BY_ISA(name) {telamon_generic_##name, telamon_avx2_##name, telamon_avx512_##name}
#else
#define TELAMON_BY_ISA(name) \
  {telamon_generic_##name, telamon_generic_##name, telamon_generic_##name}
#endif
