// From what is written to what it is computed from: each window moves the index by where it begins.
#include "compiler/plan/windows.hpp"

#include <algorithm>

#include "compiler/forms.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// The sum, by dimensions, of an offset and what a window says of each.
template <class Begin>
Shape moved(Shape offset, const Begin& begin) {
  for (std::size_t d = 0; d < offset.size(); ++d) offset[d] += begin(d);
  return offset;
}

std::optional<Shape> through_slice(const SliceParams& p, const Shape& offset) {
  for (std::size_t d = 0; d < offset.size(); ++d)
    if (stride_of(p, d) != 1) return std::nullopt;
  return moved(offset, [&](std::size_t d) { return p.start_indices[d]; });
}

std::optional<Shape> through_pad(const PadParams& p, const Shape& offset) {
  for (const auto& [low, high, interior] : p.padding_config)
    if (interior != 0) return std::nullopt;
  return moved(offset, [&](std::size_t d) { return -p.padding_config[d][0]; });
}

/// Of the window: it begins where it fits.
std::optional<Shape> through_update(const Jaxpr& jaxpr, const Eqn& eqn, const Shape& offset) {
  const Shape &whole = jaxpr.aval(eqn.inputs[0]).shape, &window = jaxpr.aval(eqn.inputs[1]).shape;
  for (std::size_t d = 0; d < offset.size(); ++d)
    if (!eqn.inputs[2 + d].is_literal()) return std::nullopt;
  return moved(offset, [&](std::size_t d) {
    const auto begin = eqn.inputs[2 + d].literal().item<std::int64_t>();
    return -std::clamp<std::int64_t>(begin, 0, whole[d] - window[d]);
  });
}

}  // namespace

Windows::Windows(const Jaxpr& jaxpr, const std::vector<int>& producer, const Cluster& loop)
    : jaxpr_(jaxpr), shape_(loop.kernel.shape) {
  const Shape here(shape_.size(), 0);
  for (const auto& [e, align] : loop.align) {
    if (align == Align::iteration && jaxpr.aval(eqn(e).outputs[0]).shape == shape_) note(e, here);
  }
  const std::set<int>& members = loop.kernel.members;
  std::for_each(members.rbegin(), members.rend(), [&](int e) {
    for (std::size_t i = 0; i < eqn(e).inputs.size(); ++i) {
      const Atom& a = eqn(e).inputs[i];
      const int p = a.is_var() ? producer[static_cast<std::size_t>(a.var())] : -1;
      if (members.contains(p)) note(p, of_operand(e, i));
    }
  });
}

bool Windows::is_read_in_place(int e, std::size_t i) const {
  const Offset offset = of_operand(e, i);
  return offset && jaxpr_.aval(eqn(e).inputs[i]).shape == shape_ &&
         std::all_of(offset->begin(), offset->end(), [](std::int64_t n) { return n == 0; });
}

Windows::Offset Windows::of_operand(int e, std::size_t i) const {
  const auto found = offsets_.find(e);
  if (found == offsets_.end() || !found->second) return std::nullopt;
  const Shape& offset = *found->second;
  const Eqn& x = eqn(e);
  const bool is_window = i == (x.primitive == &dynamic_update_slice_p ? 1 : 0);
  if (x.primitive == &slice_p) return through_slice(x.params.as<SliceParams>(), offset);
  if (x.primitive == &pad_p && is_window) return through_pad(x.params.as<PadParams>(), offset);
  if (x.primitive == &dynamic_update_slice_p && is_window) return through_update(jaxpr_, x, offset);
  // Beside the window an update is what it is written over, at the same index.
  const bool goes_on =
      x.primitive == &dynamic_update_slice_p || form_of(jaxpr_, x) == Form::element;
  const bool alike = jaxpr_.aval(x.inputs[i]).shape == jaxpr_.aval(x.outputs[0]).shape;
  return goes_on && alike ? found->second : std::nullopt;
}

void Windows::note(int e, const Offset& offset) {
  const auto [at, is_new] = offsets_.try_emplace(e, offset);
  if (!is_new && at->second != offset) at->second = std::nullopt;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
