// Where memory runs out, errors name the function that the user called.
#pragma once

#include <new>

#include "telamon/config.hpp"
#include "telamon/detail/transform_site.hpp"
#include "telamon/error.hpp"
#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Within a handler: a lack of memory that has no name yet as the OutOfMemoryError of `what`. All else goes
/// on as it is, and so does what a user has derived from std::bad_alloc.
[[noreturn]] TELAMON_API void name_lack_of_memory(const char* what);

/// f(), whose lack of memory has the name `what`: "make_jaxpr: out of memory".
template <class F>
decltype(auto) naming_lack_of_memory(const char* what, const F& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) { name_lack_of_memory(what); } catch (const OutOfMemoryError&) {
    name_lack_of_memory(what);
  }
}

/// The same of a transformation, under its TransformSite.
template <class F>
decltype(auto) in_transform(const char* name, SourceLocation where, const F& f) {
  const TransformSite site(name, where);
  return naming_lack_of_memory(name, f);
}

/// The same of a function whose line and name are those of all that it applies, under its CallSite. The
/// name must live forever.
template <class F>
decltype(auto) in_call(const char* name, SourceLocation where, const F& f) {
  const CallSite site(where, name);
  return naming_lack_of_memory(name, f);
}

/// The same of a function that is not among the transformations under way.
template <class F>
decltype(auto) in_function(const char* name, SourceLocation where, const F& f) {
  const TransformSite site(nullptr, where);
  return naming_lack_of_memory(name, f);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
