// Shared by the random functions: checked keys.
#pragma once

#include <utility>

#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace random {

/// TypeError unless this is a key, u32[2].
void check_key(const char* name, const Array& key);
/// The two words of a key. TypeError when it is not u32[2].
std::pair<Array, Array> key_words(const char* name, const Array& key);

}  // namespace random
}  // namespace v1
}  // namespace telamon
