// Kernels of rows whose elements have gaps between them, as the gradients of x[::2]: lanes run over the elements of the
// operand, with which those of the gaps behind them are put together in registers. Nothing is asked or divided for each
// element of the result.
#include <algorithm>
#include <optional>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/index_space.hpp"
#include "core/integers.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kLongestGroup = 8;  // an element and the gap behind it
constexpr std::size_t kMostEquations = 64;

/// A row of the result is groups of `width` elements, of which each such padding has one of its operand or none.
struct Gaps {
  struct Padding {
    int e;
    std::int64_t first, place;  ///< the group of the operand's first element, and its place there
  };
  std::int64_t width = 0, begin = 0, end = 0;  ///< groups in which all paddings have one
  std::vector<Padding> paddings;
};

/// Whether the kernel wants the element of the result that it is at, and none beside it.
bool is_read_in_place(const KernelContext& k, Var v) {
  const auto& members = k.kernel().members;
  return std::all_of(members.begin(), members.end(), [&](int e) {
    const Eqn& eqn = k.eqn(e);
    const auto& in = eqn.inputs;
    return std::find(in.begin(), in.end(), Atom::var(v)) == in.end() ||
           form_of(k.scope.jaxpr, eqn) == Form::element;
  });
}

std::optional<Gaps> find_gaps(const KernelContext& k, std::size_t inner, int lanes) {
  const Kernel& kernel = k.kernel();
  const std::int64_t size = kernel.shape[inner];
  if (!k.plan.emit.seams || lanes == 1 || !kernel.woven.empty() ||
      kernel.members.size() > kMostEquations)
    return {};
  Gaps gaps;
  for (const int e : kernel.members) {
    const Eqn& eqn = k.eqn(e);
    if (eqn.primitive != &pad_p) continue;
    const Shape &from = k.scope.jaxpr.aval(eqn.inputs[0]).shape,
                &to = k.scope.jaxpr.aval(eqn.outputs[0]).shape;
    if (to != kernel.shape || from.num_elements() == 0) continue;
    const auto [low, high, interior] = eqn.params.as<PadParams>().padding_config[inner];
    if (interior == 0) continue;
    const std::int64_t width = interior + 1;
    if (width > kLongestGroup || (gaps.width != 0 && gaps.width != width) ||
        !is_read_in_place(k, eqn.outputs[0]))
      return {};
    const std::int64_t place = (low % width + width) % width, first = (low - place) / width;
    if (gaps.width == 0) gaps.end = size / width;
    gaps.width = width;
    gaps.begin = std::max(gaps.begin, first);
    gaps.end = std::min(gaps.end, first + from[inner]);
    gaps.paddings.push_back({e, first, place});
  }
  const auto is_bool = [&](Var v) { return k.scope.jaxpr.aval(v).dtype == DType::bool_; };
  const bool serves = gaps.width != 0 && gaps.end - gaps.begin >= lanes &&
                      std::none_of(kernel.roots.begin(), kernel.roots.end(), is_bool);
  return serves ? std::optional(gaps) : std::nullopt;
}

class GapsEmitter {
 public:
  GapsEmitter(KernelContext& k, Generator& values, std::size_t inner, int lanes, const Gaps& gaps)
      : k_(k),
        gen_(k.gen),
        values_(values),
        shape_(k.kernel().shape),
        inner_(inner),
        lanes_(lanes),
        gaps_(gaps) {}

  void row(const Index& index) {
    const std::int64_t size = shape_[inner_], groups = gaps_.end - gaps_.begin;
    const std::int64_t first = gaps_.begin * gaps_.width, last = gaps_.end * gaps_.width;
    const bool part = inner_ == outer_dim(shape_) || k_.by_columns || k_.kernel().linear;
    const Scalar from = part ? block_at(k_.begin) : gen_.index(0);
    const Scalar to = part ? block_at(k_.end) : gen_.index(groups);
    const auto when = [&](Compare how, Scalar bound, std::int64_t is) {
      return part ? std::optional(gen_.compare(how, bound, gen_.index(is))) : std::nullopt;
    };
    edge(index, 0, first, when(Compare::le, k_.begin, 0));
    const auto blocks = [&] {
      vector_loop(k_, from, to, groups, lanes_,
                  [&](Scalar base) {
                    const Scalar group = gen_.within(base, 0, groups - lanes_);
                    block(index, gen_.lane_index(gen_.add(group, gen_.index(gaps_.begin))));
                  },
                  {.narrow_tail = true});
    };
    // The last block is of one part alone.
    if (part) gen_.if_then(gen_.compare(Compare::lt, from, to), blocks);
    else blocks();
    edge(index, last, size, when(Compare::ge, k_.end, size));
  }

 private:
  Index at(const Index& index, Scalar inner) const {
    Index full = index;
    full.push_back(inner);
    full.resize(shape_.size(), gen_.index(0));
    return full;
  }

  // What lies before the groups, or behind them: of parts of a row, in the first or the last.
  void edge(const Index& index, std::int64_t begin, std::int64_t end, std::optional<Scalar> here) {
    if (begin == end) return;
    const auto elements = [&] {
      vector_loop(k_, gen_.index(0), gen_.index(end - begin), end - begin, lanes_,
                  [&](Scalar base) {
                    const Scalar i = gen_.lane_index(gen_.add(base, gen_.index(begin)));
                    store_roots(k_, values_, {shape_, at(index, i), std::nullopt});
                  });
    };
    if (here) gen_.if_then(*here, elements);
    else elements();
  }

  // Of the first block that begins at this element or behind it: the first group. Blocks are of the part that they
  // begin in.
  Scalar block_at(Scalar element) {
    const std::int64_t block = gaps_.width * lanes_;
    const Scalar first = gen_.index(gaps_.begin * gaps_.width);
    const Scalar before = gen_.max(gen_.sub(element, first), gen_.index(0));
    const Scalar blocks = gen_.div(gen_.add(before, gen_.index(block - 1)), gen_.index(block));
    return gen_.min(gen_.mul(blocks, gen_.index(lanes_)), gen_.index(gaps_.end - gaps_.begin));
  }

  // All elements of these groups are computed before the first is stored, which may overwrite an operand.
  void block(const Index& index, Scalar group) {
    const auto& roots = k_.kernel().roots;
    Scalars elements;
    for (const Gaps::Padding& p : gaps_.paddings) elements.push_back(element(p, index, group));
    std::vector<Scalars> columns(roots.size());
    const Scalar first = gen_.mul(group, gen_.index(gaps_.width));
    for (std::int64_t c = 0; c < gaps_.width; ++c) {
      const Point point{shape_, at(index, gen_.add(first, gen_.index(c))), std::nullopt};
      for (std::size_t p = 0; p < elements.size(); ++p) {
        const Eqn& eqn = k_.eqn(gaps_.paddings[p].e);
        const bool has_one = c == gaps_.paddings[p].place;
        values_.define(eqn.outputs[0], point, has_one ? elements[p] : between(eqn));
      }
      for (std::size_t r = 0; r < roots.size(); ++r) columns[r].push_back(values_(roots[r], point));
    }
    const Scalar begin = values_.flat({shape_, at(index, first), std::nullopt});
    for (std::size_t r = 0; r < roots.size(); ++r) {
      const int to = k_.value_of(roots[r]);
      gen_.store_columns(values_.pointer(to), k_.value(to).aval.dtype, begin, columns[r]);
    }
  }
  Scalar between(const Eqn& pad) {
    return values_(pad.inputs[1], {Shape{}, Index{}, gen_.index(0)});
  }

  // The element in a group: what would be there if it were all of the group.
  Scalar element(const Gaps::Padding& padding, const Index& index, Scalar group) {
    const Eqn& eqn = k_.eqn(padding.e);
    PadParams p = eqn.params.as<PadParams>();
    const std::int64_t n = k_.scope.jaxpr.aval(eqn.inputs[0]).shape[inner_];
    p.padding_config[inner_] = {padding.first, gaps_.end - padding.first - n, 0};
    return values_.with_params(eqn, Params::of(std::move(p)), at(index, group));
  }

  KernelContext& k_;
  CodeGen& gen_;
  Generator& values_;
  const Shape& shape_;
  std::size_t inner_;
  int lanes_;
  const Gaps& gaps_;
};

}  // namespace

bool emit_gaps(KernelContext& k, std::size_t inner, int lanes, const LoopBounds& outer) {
  const std::optional<Gaps> gaps = find_gaps(k, inner, lanes);
  if (!gaps) return false;
  Generator values = k.generator();
  GapsEmitter emitter(k, values, inner, lanes, *gaps);
  loop_nest(k.gen, outer, [&](const Index& index) { emitter.row(index); });
  return true;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
