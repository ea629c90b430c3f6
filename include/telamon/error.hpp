// The exceptions that Telamon throws. Everything a user can cause is an Error; a fault of ours is an
// InternalError.
#pragma once

#include <stdexcept>
#include <string>

#include "telamon/config.hpp"
#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {

/// Base of all errors. `what()` is the message followed, when known, by the call site and the
/// transformations under way:
///   add got incompatible shapes: f32[3] and f32[4]
///     at train.cpp:31 in loss
///     while tracing jit(loss), grad(loss)
/// A message that does not name the function that was called there, begins with it: "trace: diagonal: axis 1 ...".
class TELAMON_API Error : public std::runtime_error {
 public:
  /// Adds the current call site and the transformations under way to `message`.
  explicit Error(const std::string& message);
  /// The message alone, without the call and its site and the transformations.
  const std::string& message() const { return message_; }
  SourceLocation where() const { return where_; }

 private:
  std::string message_;
  SourceLocation where_;
};

/// A value of the wrong type, dtype or tree structure.
class TELAMON_API TypeError : public Error {
 public:
  using Error::Error;
};
/// A value of the right type that is out of its domain (axes, sizes, modes).
class TELAMON_API ValueError : public Error {
 public:
  using Error::Error;
};
/// Shapes that do not fit together.
class TELAMON_API ShapeError : public TypeError {
 public:
  using TypeError::TypeError;
};
/// An index or axis out of range.
class TELAMON_API IndexError : public ValueError {
 public:
  using ValueError::ValueError;
};
/// An array that the machine has no memory for.
class TELAMON_API OutOfMemoryError : public Error {
 public:
  using Error::Error;
};
/// Transformations within transformations without end: a function that calls itself under jit.
class TELAMON_API RecursionError : public Error {
 public:
  using Error::Error;
};
/// A primitive lacks the rule that a transformation needs.
class TELAMON_API NotImplementedError : public Error {
 public:
  using Error::Error;
};
/// The value of a tracer was asked for where only its shape and dtype are known.
class TELAMON_API ConcretizationError : public TypeError {
 public:
  using TypeError::TypeError;
};
/// A tracer was used after its transformation had ended, or on another thread.
class TELAMON_API LeakedTracerError : public Error {
 public:
  using Error::Error;
};
/// An array was used whose buffer had been donated to a call.
class TELAMON_API DonatedBufferError : public Error {
 public:
  using Error::Error;
};
/// A file or text that cannot be read.
class TELAMON_API ParseError : public ValueError {
 public:
  using ValueError::ValueError;
};
/// A fault of Telamon itself: please report it.
class TELAMON_API InternalError : public Error {
 public:
  using Error::Error;
};

namespace detail {
[[noreturn]] TELAMON_API void check_failed(const char* condition, const char* file, int line,
                                           const std::string& message);
}  // namespace detail

}  // namespace v1
}  // namespace telamon
