// The core of vmap over flat lists of arrays: axis checks, then the batching interpreter.
#include <map>

#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "telamon/detail/flat.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

std::string argument(const LeafName& leaf_name, std::size_t i, const Array& x) {
  return "argument " + (leaf_name ? leaf_name(i) : "[" + std::to_string(i) + "]") + " of type " +
         x.aval().to_string();
}

std::string sizes_text(std::span<const Array> args, std::span<const BatchAxis> axes,
                       const LeafName& leaf_name) {
  std::map<std::int64_t, int> count;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (axes[i]) ++count[args[i].shape(*axes[i])];
  }
  std::string text = "vmap got inconsistent sizes for array axes to be mapped:";
  for (const auto& [size, n] : count) {
    text += "\n  * ";
    bool first = true;
    int listed = 0;
    for (std::size_t i = 0; i < args.size() && listed < 5; ++i) {
      if (!axes[i] || args[i].shape(*axes[i]) != size) continue;
      text += (first ? "" : ", ") +
              ("axis " + std::to_string(*axes[i]) + " of " + argument(leaf_name, i, args[i]));
      first = false;
      ++listed;
    }
    if (n > listed) text += ", and " + std::to_string(n - listed) + " more";
    text += n == 1 ? " has size " : " have size ";
    text += std::to_string(size);
  }
  return text;
}

}  // namespace

Arrays vmap_arrays(const FlatFunction& f, std::span<const Array> args, const VmapSpec& spec,
                   const LeafName& leaf_name, std::string name) {
  std::vector<BatchAxis> axes = spec.in_axes;
  std::optional<std::int64_t> size = spec.axis_size;
  bool consistent = true, any = false;
  if (size && *size < 0)
    throw ValueError("vmap: axis_size must not be negative, got " + std::to_string(*size));
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!axes[i]) continue;
    any = true;
    const int ndim = args[i].ndim();
    if (ndim == 0) {
      throw ValueError("vmap was requested to map its " + argument(leaf_name, i, args[i]) +
                       " along axis " + std::to_string(*axes[i]) +
                       ", but the array has rank 0: a scalar has no axes. Use none as its entry "
                       "of in_axes, so that every call gets the same value");
    }
    if (*axes[i] < -ndim || *axes[i] >= ndim) {
      throw ValueError("vmap was requested to map its " + argument(leaf_name, i, args[i]) +
                       " along axis " + std::to_string(*axes[i]) + ", but the array has rank " +
                       std::to_string(ndim) + " (its axes are in range [-" + std::to_string(ndim) +
                       ", " + std::to_string(ndim) + "))");
    }
    if (*axes[i] < 0) axes[i] = *axes[i] + ndim;
    const std::int64_t here = args[i].shape(*axes[i]);
    if (!size) size = here;
    consistent = consistent && *size == here;
  }
  if (!any && !spec.axis_size)
    throw ValueError("vmap must have at least one non-none value in in_axes");
  if (!consistent) {
    std::string text = sizes_text(args, axes, leaf_name);
    if (spec.axis_size) text += "\n  * axis_size is " + std::to_string(*spec.axis_size);
    throw ValueError(text);
  }
  return vmap_flat(f, {*size, spec.axis_name}, args, axes, spec.out_axes, std::move(name));
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
