// The neutral JSON form of arrays and JAX programs (see docs/how-to/jax.md).
#pragma once

#include <nlohmann/json.hpp>

#include "telamon/interop.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {

using Json = nlohmann::json;

/// {"dtype", "shape", "data"}
TELAMON_API Array array_from_json(const Json& json);
TELAMON_API Json array_to_json(const Array& x);
/// {"jaxpr", "consts"}; MissingPrimitiveError names all primitives that are unknown, nested ones too.
TELAMON_API ClosedJaxpr program_from_json(const Json& closed);

}  // namespace interop
}  // namespace v1
}  // namespace telamon
