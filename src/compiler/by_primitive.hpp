// What long programs ask of each equation, remembered by its primitive.
#pragma once

#include <cstddef>
#include <cstdint>

#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A place for each primitive, which a few of them share: what lies there says whose it is. Found without a hash table,
/// whose division takes longer than to read an equation.
template <class T>
class ByPrimitive {
 public:
  T& operator[](const PrimitiveBase* primitive) {
    // Fibonacci hashing (Knuth 6.4): addresses of primitives are multiples of the same numbers.
    return places_[reinterpret_cast<std::uintptr_t>(primitive) * 0x9e3779b97f4a7c15u >> 56];
  }

 private:
  T places_[256] = {};
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
