// The type-erased transformations: flat lists of arrays in, flat lists out. The templates of the
// public headers flatten arguments, call these, and unflatten results.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/detail/function.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

using FlatFunction = Function<Arrays(std::span<const Array>)>;

/// Paths of the flattened leaves, made only when an error needs them.
using LeafName = Function<std::string(std::size_t leaf)>;

/// Values and tangents. Tangents of integer results are float0 arrays; those of integer arguments
/// may be empty handles or float0 arrays.
struct PushedForward {
  Arrays primals, tangents;
};
TELAMON_API PushedForward jvp_arrays(const FlatFunction& f, std::span<const Array> primals,
                                     std::span<const Array> tangents, const LeafName& leaf_name);

/// A linear map known by its program: the tangent map of a function at a point. Copies share it.
class TELAMON_API LinearMap {
 public:
  /// Tangents of the inputs to tangents of the results.
  Arrays apply(std::span<const Array> tangents) const;
  /// Cotangents of the results to cotangents of the inputs. Nothing flows back from aux results, which
  /// are the last and have no cotangents. `complaint` opens the error about a cotangent of the wrong type.
  Arrays transpose(std::span<const Array> cotangents,
                   const char* complaint =
                       "unexpected type (e.g. shape/dtype) for argument to VJP function") const;
  const std::vector<Aval>& in_avals() const { return state_->in_avals; }
  const std::vector<Aval>& out_avals() const { return state_->out_avals; }
  const Jaxpr& jaxpr() const { return state_->jaxpr; }
  const Arrays& consts() const { return state_->consts; }

  struct State {
    std::vector<Aval> in_avals, out_avals;  // of the primals
    Jaxpr jaxpr;  // (consts, tangents of inexact inputs) -> nonzero tangents
    Arrays consts;
    std::vector<bool> nonzero_out;
  };
  explicit LinearMap(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  // No moves: a moved-from one is a copy, and stays valid.
  LinearMap(const LinearMap&) = default;
  LinearMap& operator=(const LinearMap&) = default;

 private:
  std::shared_ptr<const State> state_;
};
struct LinearizedArrays {
  Arrays primals;
  LinearMap map;
};
TELAMON_API LinearizedArrays linearize_arrays(const FlatFunction& f, std::span<const Array> primals,
                                              std::string name);

/// Value and gradient of a function whose first result is the scalar to differentiate.
struct ValueAndGradient {
  Arrays results;
  Arrays gradients;
};
TELAMON_API ValueAndGradient value_and_grad_arrays(const FlatFunction& f,
                                                   std::span<const Array> primals, bool allow_int,
                                                   const LeafName& leaf_name, std::string name);

/// The transposed map of a linear function at the given example arguments.
TELAMON_API LinearMap linear_map_of(const FlatFunction& f, std::span<const Aval> avals);

/// One batch axis per leaf (nullopt: not mapped), possibly negative; checked against the shapes.
struct VmapSpec {
  std::vector<BatchAxis> in_axes;
  Function<std::vector<BatchAxis>(std::size_t num_results)> out_axes;
  std::optional<std::int64_t> axis_size;
  std::string axis_name;
};
TELAMON_API Arrays vmap_arrays(const FlatFunction& f, std::span<const Array> args,
                               const VmapSpec& spec, const LeafName& leaf_name, std::string name);

TELAMON_API ClosedJaxpr stage_arrays(const FlatFunction& f, std::span<const Array> args,
                                     std::string name);
/// Arrays of the given avals that hold no storage to speak of.
TELAMON_API Arrays placeholders(std::span<const Aval> avals);

/// The rows of the Jacobian: result i gives, for each input, an array of shape out_i + in_j.
/// Forward mode pushes the standard basis of the inputs, reverse mode pulls that of the results.
using Blocks = std::vector<Arrays>;  // [result][input]
struct JacobianArrays {
  Arrays results;
  Blocks blocks;
};
TELAMON_API JacobianArrays jacfwd_arrays(const FlatFunction& f, std::span<const Array> primals,
                                         const LeafName& leaf_name);
TELAMON_API JacobianArrays jacrev_arrays(const FlatFunction& f, std::span<const Array> primals,
                                         const LeafName& leaf_name);

/// TypeError unless all leaves are of an inexact dtype.
TELAMON_API void check_differentiable(const char* what, std::span<const Array> primals,
                                      const LeafName& leaf_name);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
