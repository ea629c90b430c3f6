// Gives a function all members of an aggregate at once: one structured binding per arity, since
// C++20 has no packs in structured bindings. The table below is generated; nothing else is.
#pragma once

#include <cstddef>
#include <utility>

namespace telamon {
inline namespace v1 {
namespace detail {

inline constexpr std::size_t kMaxFields = 32;

/// f(member_0, ..., member_{N-1}) with lvalues of the members, const where `t` is const.
template <std::size_t N, class T, class F>
constexpr decltype(auto) apply_to_members(T& t, F&& f) {
  static_assert(N <= kMaxFields, "an aggregate with more than 32 members: group some of them");
  // clang-format off
  if constexpr (N == 0) { static_cast<void>(t); return std::forward<F>(f)(); }
  else if constexpr (N == 1) { auto& [a0] = t; return std::forward<F>(f)(a0); }
  else if constexpr (N == 2) { auto& [a0, a1] = t; return std::forward<F>(f)(a0, a1); }
  else if constexpr (N == 3) { auto& [a0, a1, a2] = t; return std::forward<F>(f)(a0, a1, a2); }
  else if constexpr (N == 4) {
    auto& [a0, a1, a2, a3] = t;
    return std::forward<F>(f)(a0, a1, a2, a3);
  }
  else if constexpr (N == 5) {
    auto& [a0, a1, a2, a3, a4] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4);
  }
  else if constexpr (N == 6) {
    auto& [a0, a1, a2, a3, a4, a5] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5);
  }
  else if constexpr (N == 7) {
    auto& [a0, a1, a2, a3, a4, a5, a6] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6);
  }
  else if constexpr (N == 8) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7);
  }
  else if constexpr (N == 9) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8);
  }
  else if constexpr (N == 10) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9);
  }
  else if constexpr (N == 11) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10);
  }
  else if constexpr (N == 12) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11);
  }
  else if constexpr (N == 13) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12);
  }
  else if constexpr (N == 14) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13);
  }
  else if constexpr (N == 15) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14);
  }
  else if constexpr (N == 16) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15);
  }
  else if constexpr (N == 17) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16);
  }
  else if constexpr (N == 18) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17);
  }
  else if constexpr (N == 19) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18);
  }
  else if constexpr (N == 20) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18,
      a19] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19);
  }
  else if constexpr (N == 21) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20);
  }
  else if constexpr (N == 22) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21);
  }
  else if constexpr (N == 23) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22);
  }
  else if constexpr (N == 24) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23);
  }
  else if constexpr (N == 25) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23, a24] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23, a24);
  }
  else if constexpr (N == 26) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23, a24, a25] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23, a24, a25);
  }
  else if constexpr (N == 27) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23, a24, a25, a26] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26);
  }
  else if constexpr (N == 28) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23, a24, a25, a26, a27] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27);
  }
  else if constexpr (N == 29) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23, a24, a25, a26, a27, a28] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28);
  }
  else if constexpr (N == 30) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23, a24, a25, a26, a27, a28, a29] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29);
  }
  else if constexpr (N == 31) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30);
  }
  else if constexpr (N == 32) {
    auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
      a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31] = t;
    return std::forward<F>(f)(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15,
      a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31);
  }
  // clang-format on
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
