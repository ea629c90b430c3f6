// In which way a call's signature is new.
#pragma once

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

/// Whether that function, under that name, has been jitted at that place as another object, and called
/// before; remembers it. `function` is the same for what may be the same function (a line may jit
/// several), `object` tells objects apart.
bool jitted_here_before(const void* function, const std::string& name, SourceLocation where,
                        const void* object);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
