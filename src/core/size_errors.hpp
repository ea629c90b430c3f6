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

/// Throws an OutOfMemoryError that was made beforehand, for where there is no memory to make one.
[[noreturn]] TELAMON_API void throw_spare_out_of_memory();

/// Throws text() as an OutOfMemoryError, or the spare one where there is no memory for a text.
template <class Text>
[[noreturn]] void throw_out_of_memory(const Text& text) {
  try {
    throw OutOfMemoryError(text());
  } catch (const std::bad_alloc&) { throw_spare_out_of_memory(); }
}

/// f(), whose errors of size get a name: `describe()` gives "add of f32[3], f32[3]". Inline, since it is
/// around every call of a compiled program, and what it catches lies apart anyway.
template <class Describe, class F>
[[gnu::always_inline]] inline auto with_operation(const Describe& describe, const F& f) {
  try {
    return f();
  } catch (const UnnamedSizeError& e) {
    throw ShapeError(describe() + ": " + e.message());
  } catch (const UnnamedOutOfMemoryError& e) {
    throw_out_of_memory([&] { return describe() + ": " + e.message(); });
  } catch (const std::bad_alloc& e) {
    throw_out_of_memory([&] { return describe() + ": out of memory (" + e.what() + ")"; });
  } catch (const std::length_error& e) {  // a std::vector beyond its limit, or a user's own
    throw OutOfMemoryError(describe() + ": too long (" + e.what() + ")");
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
