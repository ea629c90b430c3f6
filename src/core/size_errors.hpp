// Errors of sizes and memory. They arise where arrays are made, below any operation; whoever applies
// an operation catches them there and says which one it was.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// A shape that no array has: a negative size, or more bytes than there are addresses.
class UnnamedSizeError : public ShapeError {
 public:
  using ShapeError::ShapeError;
};
class UnnamedOutOfMemoryError : public OutOfMemoryError {
 public:
  using OutOfMemoryError::OutOfMemoryError;
};

/// f(), whose errors of size get a name: `describe()` gives "add of f32[3], f32[3]". Inline, since it is
/// around every call of a compiled program, and what it catches lies apart anyway.
template <class Describe, class F>
[[gnu::always_inline]] inline auto with_operation(const Describe& describe, const F& f) {
  try {
    return f();
  } catch (const UnnamedSizeError& e) {
    throw ShapeError(describe() + ": " + e.message());
  } catch (const UnnamedOutOfMemoryError& e) {
    throw OutOfMemoryError(describe() + ": " + e.message());
  } catch (const std::bad_alloc& e) {
    throw OutOfMemoryError(describe() + ": out of memory (" + e.what() + ")");
  } catch (const std::length_error& e) {  // a std::vector beyond its limit, or a user's own
    throw OutOfMemoryError(describe() + ": too long (" + e.what() + ")");
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
