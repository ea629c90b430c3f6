// In which way a call's signature is new.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telamon/aval.hpp"
#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// What a jitted function is cached by.
struct Signature {
  std::vector<Aval> avals;
  std::string key;  ///< of structure and static values
  DType default_float = DType::f32, default_int = DType::i32;
  friend bool operator==(const Signature&, const Signature&) = default;
};

struct Difference {
  std::string text;
  int kinds = 1;  ///< "(shape, dtype)" is two
};
/// The ways in which they differ, one for each leaf and argument:
///   "args[0].w is f32[4,3], was f32[5,3] (shape)". `names` are those of `now`'s leaves; `statics_now`,
/// `statics_then`: what each argument holds besides arrays, empty where that is not known.
std::vector<Difference> differences(const Signature& now, const Signature& then,
                                    const std::vector<std::string>& names,
                                    const std::vector<std::string>& statics_now,
                                    const std::vector<std::string>& statics_then);

/// A line each, of the first ones: trees have thousands of leaves.
std::string text_of(const std::vector<Difference>& differences);

/// What was jitted at a place before.
struct JittedThere {
  std::size_t number = 1;        ///< of the function among those of its name that the line jits
  bool as_other_object = false;  ///< the function was, and that object called
};
/// Remembers that this function, under that name, is jitted there. `function` is the same for what may
/// be the same function; `object` is the number of the jitted object, which no other has had.
JittedThere jitted_there(const void* function, const std::string& name, SourceLocation where,
                         std::uint64_t object);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
