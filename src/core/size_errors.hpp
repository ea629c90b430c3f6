// Errors of sizes and memory. They arise where arrays are made, below any operation; whoever applies
// an operation catches them there and says which one it was.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>

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

/// Throws an UnnamedOutOfMemoryError that was made beforehand, for where there is no memory to make one:
/// further out, where less is in use, it may get its name.
[[noreturn]] TELAMON_API void throw_spare_out_of_memory();

/// Throws text() as an OutOfMemoryError, or the spare one where there is no memory for a text.
template <class Text>
[[noreturn]] void throw_out_of_memory(const Text& text) {
  try {
    throw OutOfMemoryError(text());
  } catch (const std::bad_alloc&) { throw_spare_out_of_memory(); }
}

/// Within a handler: a lack of memory that has no name yet as the OutOfMemoryError of describe(). What a
/// user has derived from std::bad_alloc goes on as it is, and so does all else.
template <class Describe>
[[noreturn]] void rethrow_lack_of_memory(const Describe& describe) {
  try {
    throw;
  } catch (const UnnamedOutOfMemoryError& e) {
    throw_out_of_memory([&] { return describe() + ": " + e.message(); });
  } catch (const std::bad_alloc& e) {
    if (typeid(e) != typeid(std::bad_alloc) && typeid(e) != typeid(std::bad_array_new_length))
      throw;
    throw_out_of_memory([&] { return describe() + ": out of memory"; });
  }
}

/// f(), whose errors of size get a name: `describe()` gives "add of f32[3], f32[3]". Inline, since it is
/// around every call of a compiled program, and what it catches lies apart anyway.
template <class Describe, class F>
[[gnu::always_inline]] inline auto with_operation(const Describe& describe, const F& f) {
  try {
    return f();
  } catch (const UnnamedSizeError& e) {
    throw ShapeError(describe() + ": " + e.message());
  } catch (const UnnamedOutOfMemoryError&) {
    rethrow_lack_of_memory(describe);
  } catch (const std::bad_alloc&) {
    rethrow_lack_of_memory(describe);
  } catch (const std::length_error& e) {  // a std::vector beyond its limit, or a user's own
    throw OutOfMemoryError(describe() + ": too long (" + e.what() + ")");
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
