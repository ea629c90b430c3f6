// checkify: errors as values. What goes wrong in a traced program (a failed check, a NaN, a division
// by zero, an index out of bounds) becomes a result of it, which survives jit, vmap and loops.
//
//   Array f(const Array& x, const Array& i) {
//     tl::check(i >= 0, "the index must not be negative, but it is {}", i);
//     return tl::log(x(i));
//   }
//   auto [error, y] = tl::jit(tl::checkify(f, tl::all_checks))(x, -1);
//   if (auto text = error.get()) std::cerr << *text << "\n";    // or error.throw_()
//
// The first error is told. Values are computed to the end whatever goes wrong, as without checkify.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telamon/detail/call.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

/// What is looked for; sets are joined by `|`.
enum class Checks : std::uint8_t { none = 0, user = 1, nan = 2, div = 4, index = 8 };
constexpr Checks operator|(Checks a, Checks b) {
  return static_cast<Checks>(static_cast<int>(a) | static_cast<int>(b));
}
constexpr bool contains(Checks set, Checks what) {
  return (static_cast<int>(set) & static_cast<int>(what)) != 0;
}
inline constexpr Checks user_checks = Checks::user;    ///< calls of `check`
inline constexpr Checks nan_checks = Checks::nan;      ///< operations that give a NaN
inline constexpr Checks div_checks = Checks::div;      ///< divisions by zero
inline constexpr Checks index_checks = Checks::index;  ///< indices out of bounds
inline constexpr Checks float_checks = nan_checks | div_checks;
inline constexpr Checks automatic_checks = float_checks | index_checks;
inline constexpr Checks all_checks = automatic_checks | user_checks;

/// A failed check: thrown by `ErrorValue::throw_`, and by `check` itself where nobody made it a value.
class TELAMON_API CheckError : public Error {
 public:
  using Error::Error;
};

namespace detail {

/// A place of a program where an error may arise, and how to tell it.
struct ErrorSite {
  std::string message;              // each {} stands for a value
  std::string where;                // "train.cpp:31 in loss"
  std::vector<std::int64_t> slots;  // where its values are in the payload
  std::vector<std::int64_t>
      lanes;                       // the shape of the batch of which it is one: the last value says
                                   // which example
  std::vector<std::int64_t> axes;  // of an index: the values are its place, and what it is
  std::vector<std::int64_t> bounds;  // the shape that is indexed
};

}  // namespace detail

/// Whether something went wrong, and what. A pytree, so it may be a result of any transformed
/// function; under vmap there is one for each example.
struct ErrorValue {
  Array code;  ///< i32: 0, or the number of the site, counted from 1
  std::vector<Array> payload;
  std::vector<detail::ErrorSite> sites;

  /// What went wrong first; nothing if all is well. A line for each example that failed.
  TELAMON_API std::optional<std::string> get() const;
  /// The line it came from, "train.cpp:31 in loss": of the first example that failed. "" if unknown.
  TELAMON_API std::string where() const;
  /// A CheckError, which tells both, unless all is well.
  TELAMON_API void throw_() const;
  /// bool, of the shape of the batch; may be traced.
  TELAMON_API Array is_error() const;
};

struct CheckParams {
  std::string message;
  Shape lanes;  ///< the shape of the batch, which leads that of every operand
};
/// Operands: bool, values. No results: the effect is an error.
extern TELAMON_API const Primitive<CheckParams> check_p;

namespace detail {

TELAMON_API void check_arrays(const Array& pred, std::string_view message, Arrays values);

/// The results of f behind the error: its code and payload.
struct CheckedArrays {
  ErrorValue error;
  Arrays results;
};
TELAMON_API CheckedArrays checkify_arrays(const FlatFunction& f, std::span<const Array> args,
                                          Checks checks);

template <class F>
class Checkified {
 public:
  Checkified(F f, Checks checks, SourceLocation where)
      : f_(std::move(f)), checks_(checks), where_(where) {}
  using signature = signature_of<F>;  ///< for its parameters; the result type differs
  bool identity(KeyBuilder& key) const {
    key.add(static_cast<int>(checks_));
    return code_identity(*f_, key);
  }

  template <class... X>
  auto operator()(const X&... x) const {
    return in_function("checkify", where_, [&] {
      const auto args = bind_args<F>(x...);
      Arrays leaves;
      flatten_into(args, leaves, "checkify", "args");
      TreeCall call(*f_, args);
      CheckedArrays checked = checkify_arrays(call.flat(), leaves, checks_);
      return std::pair{std::move(checked.error), call.result(checked.results)};
    });
  }

 private:
  Callee<F> f_;
  Checks checks_;
  SourceLocation where_;  // where the checks were asked for
};

}  // namespace detail

/// Asserts that `pred`, a scalar bool, holds. Each `{}` in the message stands for one of the values.
/// `checkify` makes it an error value; where nobody does, a CheckError is thrown when it is evaluated.
template <class... X>
void check(const Operand& pred, std::string_view message, const X&... values) {
  detail::in_call("check", pred.where, [&] {
    detail::check_arrays(pred.array, message, Arrays{Operand(values).array...});
  });
}

/// f with its errors as values: std::pair{ErrorValue, result of f}. Values are not known inside f.
template <class F>
auto checkify(F f, Checks checks = user_checks, SourceLocation where = SourceLocation::current()) {
  return detail::Checkified<F>(std::move(f), checks, where);
}

}  // namespace v1
}  // namespace telamon
