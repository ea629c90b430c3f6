// Short last axes, as of points in space: an array of shape (..., 3) in the midst of a computation over
// all pairs becomes three arrays of shape (...). Then lanes run along what is long, nothing of the
// larger shape reaches memory, and a sum over the axis is two additions.
//
//   let r = sub p[n,n,3] q[n,n,3], s = mul r r, d = reduce_sum[axes=(2,)] s
//   ->  let r0 = sub p0[n,n] q0, r1 = sub p1 q1, r2 = sub p2 q2, ..., d = add (add s0 s2) s1
//
// Short rows times a small matrix are sums of columns times numbers.
//
// Worth it where what lies in memory before and after is much smaller than what is computed in between,
// and where rows are folded, of what lies in memory, too: their columns are then taken apart and put together in registers
// (codegen_columns.cpp). What is connected by such equations is taken apart as a whole or not at all.
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/codegen/codegen.hpp"
#include "compiler/disjoint_sets.hpp"
#include "compiler/forms.hpp"
#include "compiler/passes/halves.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/simplify.hpp"
#include "compiler/passes/zero_signs.hpp"
#include "core/element.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using detail::JaxprBuilder;

constexpr std::int64_t kShortest = 2;
// Of what is much larger than what lies around it, such as pairs of points; of other rows, which vectors hold no whole
// number of, for the most part; and of rows that are stacked.
constexpr std::int64_t kLongestOfPairs = 32, kLongestRow = 15, kLongestStacked = kSmallMatrix;
// Elements of what is computed in between; of rows of more than kShortRow, which become as many equations.
constexpr std::int64_t kLeastSize = 1 << 11, kLeastOfLongerRows = 1 << 16;
constexpr std::int64_t kLeastGain = 4;  // how many times larger that is than what lies around it
constexpr std::int64_t kLeastMade = 1 << 9;    // of what is put together of columns
constexpr std::int64_t kLeastRows = 1 << 12;   // elements of arrays whose rows are folded
constexpr std::int64_t kLongestMoved = 5;      // rows that are moved as a whole in between
constexpr std::int64_t kLongestFolded = 6;     // rows that nothing else tells apart than a fold
constexpr std::int64_t kLongestF32Folded = 8;  // the same of f32
constexpr std::size_t kMostFactors = 72;       // bytes of a matrix that rows are multiplied by
constexpr std::size_t kOfFactor =
    5;  // equations: it is cut out, a number, repeated, multiplied by and added
constexpr std::size_t kMostEquations =
    20'000;  // of a program, and of columns that take the place of rows

// Complex numbers go through calls, of which there would be one for each column.
bool has_axis_of(const Aval& a, std::int64_t longest) {
  return !is_complex(a.dtype) && a.ndim() >= 1 && a.shape.back() >= kShortest &&
         a.shape.back() <= longest && a.size() > 0;
}
bool has_short_axis(const Aval& a) { return has_axis_of(a, kLongestRow); }
/// The same of longer rows, which are taken apart where they are stacked, as those of small matrices are, or much larger than
/// what lies around them.
bool may_be_apart(const Aval& a) { return has_axis_of(a, kLongestOfPairs); }
Shape without_last(Shape shape) {
  shape.pop_back();
  return shape;
}
/// Whether whole rows are put together in registers, from a vector of each column. More than four columns of bytes
/// take too many shuffles.
bool by_columns(const Aval& a) {
  constexpr std::int64_t kOfBytes = 4;
  return (is_native(a.dtype) || detail::is_small_float(a.dtype)) && a.ndim() >= 2 &&
         (size_of(a.dtype) > 1 || a.shape.back() <= kOfBytes);
}
/// Whether transposes turn squares of as many vectors as there are rows (emit_transpose.cpp), which is faster.
bool by_squares(const Aval& out) {
  if (size_of(out.dtype) == 1)  // of 32 bytes
    return out.shape.back() == 4 && runtime::target_vector_bytes() < 64;
  const auto lanes = static_cast<std::int64_t>(runtime::target_vector_bytes() / size_of(out.dtype));
  return out.shape.back() % lanes == 0;
}
/// Whether vectors hold several rows but no whole number of them, or pairs: what is repeated along each row has to be
/// picked element by element then.
bool tears_vectors(const Aval& a) {
  if (!by_columns(a)) return false;
  const auto lanes = static_cast<std::int64_t>(runtime::target_vector_bytes() / size_of(a.dtype));
  const std::int64_t row = a.shape.back();
  return row == 2 ? lanes >= 8 : row < lanes && lanes % row != 0;
}
Aval component(const Aval& a) { return a.with_shape(without_last(a.shape)).strong(); }

Aval one_of(const Aval& a) {
  Shape shape = without_last(a.shape);
  shape.push_back(1);
  return a.with_shape(std::move(shape)).strong();
}

/// What an equation does with the last axis.
enum class Role : std::uint8_t {
  none,     ///< it needs its operands as they are
  through,  ///< component k of the result from components k of the operands
  spread,   ///< all components of the result are the same
  folded,   ///< a result without the axis from all components of the operand
  planes,   ///< the components are planes of an operand whose axes have another order
  joined,   ///< the components are those of the operands, one operand after the other
  part,     ///< some components of the operand
  turned,   ///< the components are those of the operand, the last one first
  padded,   ///< the components are those of the operand, and between and beside them one value
  counted,  ///< component k is k
  column,   ///< one component of the operand
  product,  ///< the components are sums of products of the operand's with numbers
};

/// Whether a slice leaves all axes but the last as they are.
bool cuts_last_axis(const Shape& from, const SliceParams& p) {
  return leaves_dimensions(from, p, from.size() - 1);
}

/// Whether nothing is put before, behind or between the elements of the axes but the last, and nothing is taken away.
bool pads_last_axis(const Aval& from, const PadParams& p) {
  const auto& [low, high, interior] = p.padding_config.back();
  return from.size() > 0 && low >= 0 && high >= 0 && interior >= 0 &&
         std::all_of(p.padding_config.begin(), p.padding_config.end() - 1, pads_nothing);
}

/// Whether what moves elements does so along other axes than the last.
bool leaves_last_axis(const Jaxpr& jaxpr, const Eqn& eqn) {
  const PrimitiveBase* p = eqn.primitive;
  const Shape& to = jaxpr.aval(eqn.outputs[0]).shape;
  const auto last = static_cast<std::int64_t>(to.size()) - 1;
  if (to.back() > kLongestMoved) return false;
  const auto apart = [&](const Atom& a) { return a.is_var() && may_be_apart(jaxpr.aval(a)); };
  if (p == &concatenate_p) {
    return eqn.params.as<ConcatenateParams>().dimension != last &&
           std::all_of(eqn.inputs.begin(), eqn.inputs.end(), apart);
  }
  if (eqn.inputs.empty() || !apart(eqn.inputs[0])) return false;
  const Shape& from = jaxpr.aval(eqn.inputs[0]).shape;
  if (p == &slice_p) return takes_whole_axis(eqn.params.as<SliceParams>(), from, from.size() - 1);
  if (p == &dynamic_slice_p)
    return eqn.params.as<DynamicSliceParams>().slice_sizes.back() == from.back();
  if (p == &pad_p) return pads_nothing(eqn.params.as<PadParams>().padding_config.back());
  return p == &rev_p && !eqn.params.as<DimensionsParams>().dimensions.contains(last);
}

/// Whether a transpose moves an axis to the end, and leaves the others in their order.
bool brings_to_end(const Shape& order) {
  for (std::size_t d = 0; d + 2 < order.size(); ++d) {
    if (order[d] > order[d + 1]) return false;
  }
  return order.back() + 1 != order.ndim();
}

bool is_product_of_rows(const Jaxpr& jaxpr, const Eqn& eqn) {
  return eqn.primitive == &dot_general_p && eqn.inputs[0].is_var() && eqn.inputs[1].is_var() &&
         multiplies_rows(jaxpr.aval(eqn.inputs[0]), jaxpr.aval(eqn.inputs[1]),
                         jaxpr.aval(eqn.outputs[0]), eqn.params.as<DotGeneralParams>());
}

/// Whether a slice is one component of its operand.
bool takes_column(const Jaxpr& jaxpr, const Eqn& eqn) {
  return eqn.primitive == &slice_p && eqn.inputs[0].is_var() &&
         may_be_apart(jaxpr.aval(eqn.inputs[0])) && jaxpr.aval(eqn.outputs[0]).shape.back() == 1 &&
         cuts_last_axis(jaxpr.aval(eqn.inputs[0]).shape, eqn.params.as<SliceParams>());
}

// Longer rows are taken apart only where they are stacked of single columns.
Role joined_role(const Jaxpr& jaxpr, const Eqn& eqn) {
  const bool is_short = has_short_axis(jaxpr.aval(eqn.outputs[0]));
  return is_short || weaves(jaxpr, eqn) ? Role::joined : Role::none;
}

Role role_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  if (eqn.effect != Effect::none || eqn.outputs.size() != 1) return Role::none;
  const Aval& out = jaxpr.aval(eqn.outputs[0]);
  const PrimitiveBase* p = eqn.primitive;
  const bool is_short = has_short_axis(out);
  if (combination(p) != nullptr) {
    if (!eqn.inputs[0].is_var() || !may_be_apart(jaxpr.aval(eqn.inputs[0]))) return Role::none;
    const auto last = static_cast<std::int64_t>(jaxpr.aval(eqn.inputs[0]).ndim()) - 1;
    const Shape axes = reduction_axes(eqn);
    if (axes.contains(last)) return Role::folded;
    return may_be_apart(out) && out.shape.back() == jaxpr.aval(eqn.inputs[0]).shape.back()
               ? Role::through
               : Role::none;
  }
  if (is_product_of_rows(jaxpr, eqn)) return Role::product;
  if (takes_column(jaxpr, eqn)) return Role::column;
  if (!may_be_apart(out)) return Role::none;
  if (p == &broadcast_in_dim_p) {
    const Shape& dims = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
    const auto last = static_cast<std::int64_t>(out.ndim()) - 1;
    if (dims.empty() || dims.back() != last) return Role::spread;
    const Shape& from = jaxpr.aval(eqn.inputs[0]).shape;
    if (from.back() == 1) return Role::spread;
    return Role::through;
  }
  if (p == &reshape_p) {
    if (!eqn.inputs[0].is_var()) return Role::none;
    const Shape& from = jaxpr.aval(eqn.inputs[0]).shape;
    return from.ndim() >= 1 && from.back() == out.shape.back() ? Role::through : Role::none;
  }
  if (form_of(jaxpr, eqn) == Form::element || leaves_last_axis(jaxpr, eqn)) return Role::through;
  if (p == &concatenate_p) {
    const bool last = eqn.params.as<ConcatenateParams>().dimension + 1 == out.ndim();
    return by_columns(out) && last ? joined_role(jaxpr, eqn) : Role::none;
  }
  if (!is_short) return Role::none;
  if (p == &iota_p) {
    const auto last = static_cast<std::int64_t>(out.ndim()) - 1;
    return eqn.params.as<IotaParams>().dimension == last ? Role::counted : Role::none;
  }
  if (p == &transpose_p) {
    const Shape& order = eqn.params.as<TransposeParams>().permutation;
    if (order.back() + 1 == order.ndim()) return Role::through;
    return by_columns(out) && !by_squares(out) && brings_to_end(order) ? Role::planes : Role::none;
  }
  if (p == &slice_p) {
    const Aval& from = jaxpr.aval(eqn.inputs[0]);
    return by_columns(out) && has_short_axis(from) &&
                   cuts_last_axis(from.shape, eqn.params.as<SliceParams>())
               ? Role::part
               : Role::none;
  }
  if (p == &rev_p) {
    // Vectors hold whole rows of 8, as fast. Columns of what is turned along other axes, too, are read one by one.
    const bool last = eqn.params.as<DimensionsParams>().dimensions ==
                      Shape{static_cast<std::int64_t>(out.ndim()) - 1};
    return by_columns(out) && last && out.shape.back() < kShortRow ? Role::turned : Role::none;
  }
  if (p == &pad_p) {
    return by_columns(out) && pads_last_axis(jaxpr.aval(eqn.inputs[0]), eqn.params.as<PadParams>())
               ? Role::padded
               : Role::none;
  }
  return Role::none;
}

/// Which variables are taken apart: sets of those that equations connect.
class Choice {
 public:
  explicit Choice(const Jaxpr& jaxpr)
      : jaxpr_(jaxpr),
        producers_(detail::producers(jaxpr)),
        sets_(static_cast<std::size_t>(jaxpr.num_vars())) {
    std::size_t equations = jaxpr.eqns().size();
    for (const Eqn& eqn : jaxpr.eqns()) {
      roles_.push_back(role_of(jaxpr, eqn));
      if (roles_.back() == Role::product) {
        equations += kOfFactor * static_cast<std::size_t>(jaxpr.aval(eqn.inputs[1]).size());
        if (equations > kMostEquations) roles_.back() = Role::none;
      }
      if (roles_.back() != Role::through) continue;
      for (const Atom& a : eqn.inputs) {
        if (a.is_var() && may_be_apart(jaxpr.aval(a))) sets_.join(a.var(), eqn.outputs[0]);
      }
    }
    leave_products();
    weigh();
  }

  bool any() const { return any_; }
  bool apart(Var v) {
    return may_be_apart(jaxpr_.aval(v)) && chosen_[static_cast<std::size_t>(sets_.find(v))];
  }
  Role role(std::size_t e) const { return roles_[e]; }

 private:
  using Sizes = std::vector<std::int64_t>;  // of each set, the largest of what is asked for
  Sizes no_sizes() const { return Sizes(static_cast<std::size_t>(jaxpr_.num_vars()), 0); }
  void note(Sizes& what, Var v) {
    if (!may_be_apart(jaxpr_.aval(v))) return;
    std::int64_t& most = what[static_cast<std::size_t>(sets_.find(v))];
    most = std::max(most, jaxpr_.aval(v).size());
  }
  // What equations make whole, and what they read so, but for inputs, which lie in memory in any case, in whatever shape.
  void note_whole(std::size_t e) {
    const Eqn& eqn = jaxpr_.eqns()[e];
    const auto is_input = [&](const Atom& a) {
      return a.is_var() && a.var() < jaxpr_.num_inputs();
    };
    const bool reshapes = eqn.primitive == &reshape_p;
    for (const Var v : eqn.outputs)
      note(reshapes && is_input(eqn.inputs[0]) ? seen_whole_ : made_whole_, v);
    Sizes& read = reshapes ? reshaped_ : read_whole_;
    for (const Atom& a : eqn.inputs) {
      if (a.is_var() && !is_input(a)) note(read, a.var());
    }
  }

  // Products of what others make stay products, as do those of matrices whose products are needed as a whole, by
  // products of batches most often. So it goes on from one to the next, forwards and backwards.
  void leave_products() {
    made_whole_ = seen_whole_ = read_whole_ = reshaped_ = no_sizes();
    std::vector<std::size_t> products;
    for (std::size_t e = 0; e < roles_.size(); ++e) {
      if (roles_[e] == Role::none) note_whole(e);
      if (roles_[e] == Role::product) products.push_back(e);
    }
    for (bool any = true; any; std::reverse(products.begin(), products.end())) {
      any = false;
      for (const std::size_t e : products) {
        if (roles_[e] != Role::product || !stays(jaxpr_.eqns()[e])) continue;
        roles_[e] = Role::none;
        note_whole(e);
        any = true;
      }
    }
  }
  bool stays(const Eqn& product) {
    const Var x = product.inputs[0].var(), out = product.outputs[0];
    const bool of_matrices = jaxpr_.aval(x).ndim() > 2;
    const auto set = static_cast<std::size_t>(sets_.find(x));
    return made_whole_[set] > 0 || seen_whole_[set] > 0 ||
           (of_matrices && (read_whole_[static_cast<std::size_t>(sets_.find(out))] > 0 ||
                            reshaped_[static_cast<std::size_t>(sets_.find(out))] > 0));
  }

  // Whether one axis is not as good as both.
  bool tells_rows_apart(std::size_t e) const {
    const Eqn& eqn = jaxpr_.eqns()[e];
    if (roles_[e] == Role::none || roles_[e] == Role::folded || eqn.primitive == &reshape_p)
      return false;
    if (roles_[e] == Role::spread) return jaxpr_.aval(eqn.inputs[0]).size() > 1;
    return roles_[e] != Role::through ||
           !(form_of(jaxpr_, eqn) == Form::element || leaves_last_axis(jaxpr_, eqn));
  }
  // Whether a fold of the last axis is one of the axis before, too: it asks for no rows then (merge_axes.cpp), and
  // for what is taken apart only where others do.
  bool folds_before_last(const Eqn& eqn) const {
    const Shape& shape = jaxpr_.aval(eqn.inputs[0]).shape;
    auto d = static_cast<std::int64_t>(shape.size()) - 2;
    while (d >= 0 && shape[static_cast<std::size_t>(d)] == 1) --d;
    return reduction_axes(eqn).contains(d);
  }

  // Whether a fold alone is faster by columns of whole vectors than row by row. Rows of four bytes or of four 16 bits, which
  // lie within pieces of a register, are not where registers have 32 bytes.
  static bool gains_from_columns(const Aval& rows) {
    const std::int64_t k = rows.shape.back();
    if (k == 4 && size_of(rows.dtype) < 4 && runtime::target_vector_bytes() < 64) return false;
    return k <= (rows.dtype == DType::f32 ? kLongestF32Folded : kLongestFolded);
  }

  // The same of what an equation folds, which may be converted from bytes: rows of eight of these, or four, are taken apart in
  // registers of 16 (codegen_columns.cpp).
  bool folds_by_columns(const Atom& a) const {
    const int e = producers_[static_cast<std::size_t>(a.var())];
    const auto* made = e < 0 ? nullptr : &jaxpr_.eqns()[static_cast<std::size_t>(e)];
    const bool converts = made != nullptr && made->primitive == &convert_element_type_p;
    const Aval& rows = jaxpr_.aval(converts && made->inputs[0].is_var() ? made->inputs[0] : a);
    const std::int64_t k = rows.shape.back();
    const bool gains = k == kShortRow || (k == 4 && runtime::target_vector_bytes() >= 32);
    return (gains && size_of(rows.dtype) == 1) || gains_from_columns(jaxpr_.aval(a));
  }

  // Whether rows come in the opposite order, the elements of each as they were: pixels of a picture that is mirrored.
  // Bytes need registers that are shuffled by bytes.
  bool turns_rows_around(const Eqn& eqn) const {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    return eqn.primitive == &rev_p && gains_from_columns(out) &&
           (size_of(out.dtype) >= 4 || runtime::target_vector_bytes() >= 32) &&
           eqn.params.as<DimensionsParams>().dimensions.contains(out.ndim() - 2);
  }

  // The largest thing that lies in memory, and the largest that is computed.
  void weigh() {
    const auto n = static_cast<std::size_t>(jaxpr_.num_vars());
    Sizes around = no_sizes(), between = around, folded = around, spread = around, made = around,
          folded_both = around, told = around, torn = around, folded_whole = around,
          equations = around, alone = around, mirrored = around, transposed = around;
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v) note(around, v);
    for (const Atom& a : jaxpr_.outs()) {
      if (a.is_var()) note(around, a.var());
    }
    for (std::size_t e = 0; e < roles_.size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      const bool none = roles_[e] == Role::none;
      if (roles_[e] == Role::planes || roles_[e] == Role::joined || roles_[e] == Role::padded ||
          roles_[e] == Role::turned || roles_[e] == Role::product)
        note(made, eqn.outputs[0]);
      if (roles_[e] == Role::through && turns_rows_around(eqn)) note(mirrored, eqn.outputs[0]);
      if (roles_[e] == Role::through && eqn.primitive == &transpose_p)
        note(transposed, eqn.outputs[0]);
      if (roles_[e] == Role::product) note(made, eqn.inputs[0].var());
      for (const Atom& a : eqn.inputs) {
        if (a.is_var() && none) note(around, a.var());
        if (a.is_var() && none && form_of(jaxpr_, eqn) == Form::reduction)
          note(folded_whole, a.var());
        if (!a.is_var() || roles_[e] != Role::folded) continue;
        note(folds_before_last(eqn) ? folded_both : folded, a.var());
        if (!folds_before_last(eqn) && folds_by_columns(a)) note(alone, a.var());
      }
      for (const Var v : eqn.outputs) {
        if (tells_rows_apart(e)) note(told, v);
        note(none ? around : between, v);
        if (!none && may_be_apart(jaxpr_.aval(v)))
          ++equations[static_cast<std::size_t>(sets_.find(v))];
        if (roles_[e] != Role::spread || jaxpr_.aval(eqn.inputs[0]).size() == 1) continue;
        note(spread, v);
        if (tears_vectors(jaxpr_.aval(v))) note(torn, v);
      }
    }
    chosen_.resize(n);
    Sizes longest = no_sizes();
    for (Var v = 0; v < jaxpr_.num_vars(); ++v) {
      if (may_be_apart(jaxpr_.aval(v)))
        longest[static_cast<std::size_t>(sets_.find(v))] = jaxpr_.aval(v).shape.back();
    }
    for (std::size_t v = 0; v < n; ++v) {
      const bool larger = between[v] >= kLeastGain * around[v];
      const std::int64_t made_or_read = std::max(made_whole_[v], read_whole_[v]);
      const std::int64_t whole = std::max(made_or_read, seen_whole_[v]);
      // Rows that are folded and whose results their elements need, all in one pass: lanes run over rows.
      if (told[v] > 0) folded[v] = std::max(folded[v], folded_both[v]);
      const bool rows = kLeastGain * whole <= folded[v] && folded[v] >= kLeastRows &&
                        (spread[v] >= kLeastRows || longest[v] <= kLongestFolded);
      const bool folds = kLeastGain * made_or_read <= alone[v] && alone[v] >= kLeastRows;
      const bool repeated = kLeastGain * whole <= torn[v] && torn[v] >= kLeastRows;
      const bool is_beyond_rows = longest[v] > kLongestRow;
      const bool few = equations[v] * longest[v] <= static_cast<std::int64_t>(kMostEquations);
      const bool stacked =
          made[v] >= kLeastMade && few && longest[v] <= kLongestStacked &&
          !(is_beyond_rows && std::max({folded_whole[v], folded[v], folded_both[v]}) > 0);
      const bool turned = mirrored[v] >= kLeastMade && 2 * mirrored[v] >= between[v] && few &&
                          transposed[v] == 0;  // not the edge of a picture alone
      const bool large = between[v] >= (longest[v] > kShortRow ? kLeastOfLongerRows : kLeastSize);
      chosen_[v] = stacked || folds || turned ||
                   (large && ((larger && (few || longest[v] <= kShortRow)) ||
                              (!is_beyond_rows && (rows || repeated))));
      any_ |= chosen_[v];
    }
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producers_;
  DisjointSets sets_;
  std::vector<Role> roles_;
  Sizes made_whole_, read_whole_;
  Sizes seen_whole_;  // inputs in another shape
  Sizes reshaped_;    // to rows of another length: written as rows, as results are
  std::vector<bool> chosen_;
  bool any_ = false;
};

class Splitter {
 public:
  Splitter(const Jaxpr& jaxpr, bool zero_signs)
      : jaxpr_(jaxpr),
        producers_(detail::producers(jaxpr)),
        tells_zero_signs_(zero_signs),
        zero_signs_(zero_signs_that_matter(jaxpr)),
        choice_(jaxpr),
        whole_(vars()),
        components_(vars()) {}

  Jaxpr run() {
    bool changed = choice_.any();
    for (Var v = 0; v < jaxpr_.num_inputs(); ++v)
      whole(v) = Atom::var(b_.add_input(jaxpr_.aval(v)));
    for (std::size_t e = 0; e < jaxpr_.eqns().size(); ++e) {
      const Eqn& eqn = jaxpr_.eqns()[e];
      const Role role = choice_.role(e);
      if (role == Role::product) {
        multiply(eqn);
      } else if (role == Role::column && choice_.apart(eqn.inputs[0].var())) {
        const std::int64_t k = eqn.params.as<SliceParams>().start_indices.back();
        where_ = eqn.where;
        whole(eqn.outputs[0]) = reshaped(apart(eqn.inputs[0].var())[static_cast<std::size_t>(k)],
                                         jaxpr_.aval(eqn.outputs[0]));
      } else if (role == Role::folded && choice_.apart(eqn.inputs[0].var())) {
        fold(eqn);
      } else if (role == Role::spread && choice_.apart(eqn.outputs[0])) {
        spread(eqn);
      } else if (role == Role::through && choice_.apart(eqn.outputs[0]) && !is_small_part(eqn)) {
        through(eqn);
      } else if (role != Role::none && role != Role::through && role != Role::folded &&
                 choice_.apart(eqn.outputs[0])) {
        parts(eqn.outputs[0]) = columns(eqn, role);
      } else {
        keep(eqn, changed);
      }
    }
    if (!changed) return jaxpr_;
    Atoms outs;
    for (const Atom& a : jaxpr_.outs()) outs.push_back(as_whole(a));
    return b_.build(std::move(outs)).jaxpr;
  }

 private:
  std::size_t vars() const { return static_cast<std::size_t>(jaxpr_.num_vars()); }
  std::optional<Atom>& whole(Var v) { return whole_[static_cast<std::size_t>(v)]; }
  Atoms& parts(Var v) { return components_[static_cast<std::size_t>(v)]; }
  Atom add(const PrimitiveBase& p, Params params, Atoms in, const Aval& out) {
    return Atom::var(b_.add_eqn1(p, std::move(params), std::move(in), out, Effect::none, where_));
  }
  Atom reshaped(Atom a, const Aval& out) {
    return add(reshape_p, Params::of(ReshapeParams{out.shape}), {std::move(a)}, out);
  }

  // Of an array that lies in memory: where the part begins is not known, but that it is no more than half of the
  // array, of which all would be taken apart.
  bool is_small_part(const Eqn& eqn) {
    return eqn.primitive == &dynamic_slice_p && whole(eqn.inputs[0].var()) &&
           2 * jaxpr_.aval(eqn.outputs[0]).size() <= jaxpr_.aval(eqn.inputs[0]).size();
  }

  // x[..., k] for each k.
  Atoms& apart(Var v) {
    Atoms& out = parts(v);
    const Aval& aval = jaxpr_.aval(v);
    if (out.empty()) out = planes(*whole(v), aval, aval.ndim() - 1, component(aval));
    return out;
  }
  // The slices of one element along an axis, without that axis.
  Atoms planes(const Atom& x, const Aval& aval, std::int64_t axis, const Aval& plane) {
    const auto d = static_cast<std::size_t>(axis);
    Atoms out;
    for (std::int64_t k = 0; k < aval.shape[d]; ++k) {
      SliceParams p{Shape(aval.shape.size(), 0), aval.shape, Shape(aval.shape.size(), 1)};
      p.start_indices[d] = k;
      p.limit_indices[d] = k + 1;
      Shape one = aval.shape;
      one[d] = 1;
      out.push_back(
          reshaped(add(slice_p, Params::of(p), {x}, aval.with_shape(one).strong()), plane));
    }
    return out;
  }
  static void append(Atoms& to, const Atoms& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  Atom as_whole(const Atom& a) {
    if (a.is_literal()) return a;
    std::optional<Atom>& out = whole(a.var());
    if (out) return *out;
    const Aval& aval = jaxpr_.aval(a);
    Atoms columns;
    for (const Atom& part : parts(a.var())) columns.push_back(reshaped(part, one_of(aval)));
    ConcatenateParams p;
    p.dimension = static_cast<std::int64_t>(aval.ndim()) - 1;
    out = add(concatenate_p, Params::of(p), std::move(columns), aval);
    return *out;
  }

  void keep(const Eqn& eqn, bool& changed) {
    Atoms in;
    for (const Atom& a : eqn.inputs) in.push_back(as_whole(a));
    const auto split = [&](const Jaxpr& j) { return split_short_axes(j, tells_zero_signs_); };
    Params params = detail::map_jaxprs(eqn.params, split, changed);
    const Vars& out = b_.add_eqn(*eqn.primitive, std::move(params), std::move(in),
                                 detail::avals_of(jaxpr_, eqn.outputs), eqn.effect, eqn.where);
    for (std::size_t i = 0; i < out.size(); ++i) whole(eqn.outputs[i]) = Atom::var(out[i]);
  }

  void fold(const Eqn& eqn) {
    where_ = eqn.where;
    const Atom& x = eqn.inputs[0];
    const Aval of = component(jaxpr_.aval(x));
    const Primitive<>& combine = *combination(eqn.primitive);
    Atom folded = fold_halves(apart(x.var()), [&](const Atom& a, const Atom& b) {
      return add(combine, Params(), {a, b}, of);
    });
    if (needs_zero(eqn)) { folded = add(add_p, Params(), {folded, filled(b_, 0, of, where_)}, of); }
    Shape axes;
    for (const std::int64_t d : reduction_axes(eqn)) {
      if (d + 1 < static_cast<std::int64_t>(jaxpr_.aval(x).ndim())) axes.push_back(d);
    }
    whole(eqn.outputs[0]) = axes.empty() ? folded
                                         : add(*eqn.primitive, Params::of(AxesParams{axes}),
                                               {folded}, jaxpr_.aval(eqn.outputs[0]));
  }

  // Rows times a matrix of numbers, whose products are added in order.
  void multiply(const Eqn& eqn) {
    where_ = eqn.where;
    const Var out = eqn.outputs[0];
    const Aval column = component(jaxpr_.aval(eqn.inputs[0]));
    const Atoms x = apart(eqn.inputs[0].var());
    const Atom by = as_whole(eqn.inputs[1]);
    const Aval& factors = jaxpr_.aval(eqn.inputs[1]);
    const auto terms = static_cast<std::size_t>(
        eqn.params.as<DotGeneralParams>().dimension_numbers.rhs_contracting[0]);
    const std::int64_t columns = factors.size() / static_cast<std::int64_t>(x.size());
    const bool from_zero = !tells_zero_signs_ || zero_signs_[static_cast<std::size_t>(out)];
    Atoms sums;
    for (std::int64_t j = 0; j < columns; ++j) {
      std::optional<Atom> sum;
      if (from_zero) sum = filled(b_, 0, column, where_);
      for (std::size_t k = 0; k < x.size(); ++k) {
        Shape place(factors.shape.size(), j);
        place[terms] = static_cast<std::int64_t>(k);
        const Atom factor = repeated(b_, number_at(by, factors, place), column, where_);
        const Atom product = add(mul_p, Params(), {x[k], factor}, column);
        sum = sum ? add(add_p, Params(), {*sum, product}, column) : product;
      }
      sums.push_back(*sum);
    }
    if (factors.ndim() == 1) whole(out) = sums[0];
    else parts(out) = std::move(sums);
  }
  Atom number_at(const Atom& x, const Aval& aval, const Shape& place) {
    SliceParams p{place, place, {}};
    for (std::int64_t& limit : p.limit_indices) ++limit;
    const Aval one = aval.with_shape(Shape(aval.shape.size(), 1)).strong();
    return reshaped(add(slice_p, Params::of(std::move(p)), {x}, one), one.with_shape({}));
  }

  // Sums begin with 0: those over other axes, too, do so by themselves, and of the rest it cannot always be told.
  bool needs_zero(const Eqn& eqn) const {
    const Aval &of = jaxpr_.aval(eqn.inputs[0]), &out = jaxpr_.aval(eqn.outputs[0]);
    if (of.size() > out.size() * of.shape.back()) return false;
    return begins_with_zero(jaxpr_, eqn, producers_, tells_zero_signs_ ? &zero_signs_ : nullptr);
  }

  void spread(const Eqn& eqn) {
    where_ = eqn.where;
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    BroadcastInDimParams p = eqn.params.as<BroadcastInDimParams>();
    p.shape.pop_back();
    Atom x = as_whole(eqn.inputs[0]);
    if (!p.broadcast_dimensions.empty() && p.broadcast_dimensions.back() == p.shape.ndim()) {
      p.broadcast_dimensions.pop_back();  // a last dimension of one element
      x = reshaped(x, component(jaxpr_.aval(eqn.inputs[0])));
    }
    const Atom one = add(broadcast_in_dim_p, Params::of(std::move(p)), {x}, component(out));
    parts(eqn.outputs[0]).assign(static_cast<std::size_t>(out.shape.back()), one);
  }

  // x[..., k] of a result that only moves what it is made of.
  Atoms columns(const Eqn& eqn, Role role) {
    where_ = eqn.where;
    Atoms out;
    if (role == Role::planes) {
      const Atom x = as_whole(eqn.inputs[0]);
      const Aval& aval = jaxpr_.aval(eqn.inputs[0]);
      const std::int64_t axis = eqn.params.as<TransposeParams>().permutation.back();
      return planes(x, aval, axis, component(jaxpr_.aval(eqn.outputs[0])));
    }
    if (role == Role::padded) return padded(eqn);
    if (role == Role::counted) return counted(eqn);
    for (const Atom& a : eqn.inputs) append(out, columns_of(a));
    if (role == Role::turned) std::reverse(out.begin(), out.end());
    if (role == Role::joined || role == Role::turned) return out;
    const auto& p = eqn.params.as<SliceParams>();
    const std::int64_t step = stride_of(p, p.start_indices.size() - 1);
    Atoms some;
    for (std::int64_t k = p.start_indices.back(); k < p.limit_indices.back(); k += step)
      some.push_back(out[static_cast<std::size_t>(k)]);
    return some;
  }

  // x[..., k] of an operand, whose last axis may be of one element or none.
  Atoms columns_of(const Atom& a) {
    const Aval& aval = jaxpr_.aval(a);
    if (aval.size() == 0) return {};
    return aval.shape.back() == 1 ? Atoms{reshaped(as_whole(a), component(aval))} : apart(a.var());
  }
  Atoms padded(const Eqn& eqn) {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const Aval column = component(out);
    const auto& [low, high, interior] = eqn.params.as<PadParams>().padding_config.back();
    const Atom value = repeated(b_, as_whole(eqn.inputs[1]), column, where_);
    Atoms made(static_cast<std::size_t>(out.shape.back()), value);
    auto at = static_cast<std::size_t>(low);
    for (const Atom& x : columns_of(eqn.inputs[0])) {
      made[at] = x;
      at += static_cast<std::size_t>(interior) + 1;
    }
    return made;
  }

  Atoms counted(const Eqn& eqn) {
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    const Aval column = component(out);
    Atoms made;
    for (std::int64_t k = 0; k < out.shape.back(); ++k)
      made.push_back(filled(b_, k, column, where_));
    return made;
  }

  void through(const Eqn& eqn) {
    where_ = eqn.where;
    const Aval& out = jaxpr_.aval(eqn.outputs[0]);
    Atoms made;
    std::map<std::vector<int>, Atom> known;  // components that are all the same stay one
    // Where a part begins along the last axis, which is whole, is no matter.
    const std::size_t operands = eqn.inputs.size() - (eqn.primitive == &dynamic_slice_p ? 1 : 0);
    for (std::size_t k = 0; k < static_cast<std::size_t>(out.shape.back()); ++k) {
      Atoms in;
      std::vector<int> key;
      for (std::size_t i = 0; i < operands; ++i) {
        const Atom& a = eqn.inputs[i];
        in.push_back(a.is_var() && may_be_apart(jaxpr_.aval(a)) ? apart(a.var())[k] : as_whole(a));
        key.push_back(in.back().is_var() ? in.back().var() : -1);
      }
      const auto found = known.find(key);
      made.push_back(found != known.end()
                         ? found->second
                         : known.emplace(key, add(*eqn.primitive, params(eqn), in, component(out)))
                               .first->second);
    }
    parts(eqn.outputs[0]) = std::move(made);
  }
  static Params params(const Eqn& eqn) {
    const PrimitiveBase* p = eqn.primitive;
    if (p == &broadcast_in_dim_p) {
      BroadcastInDimParams out = eqn.params.as<BroadcastInDimParams>();
      out.shape.pop_back();
      out.broadcast_dimensions.pop_back();
      return Params::of(std::move(out));
    }
    if (p == &slice_p) {
      SliceParams out = eqn.params.as<SliceParams>();
      out.start_indices.pop_back();
      out.limit_indices.pop_back();
      if (!out.strides.empty()) out.strides.pop_back();
      return Params::of(std::move(out));
    }
    if (p == &dynamic_slice_p) {
      DynamicSliceParams out = eqn.params.as<DynamicSliceParams>();
      out.slice_sizes.pop_back();
      return Params::of(std::move(out));
    }
    if (p == &pad_p) {
      PadParams out = eqn.params.as<PadParams>();
      out.padding_config.pop_back();
      return Params::of(std::move(out));
    }
    if (p == &reshape_p)
      return Params::of(ReshapeParams{without_last(eqn.params.as<ReshapeParams>().new_sizes)});
    if (p == &transpose_p)
      return Params::of(
          TransposeParams{without_last(eqn.params.as<TransposeParams>().permutation)});
    return eqn.params;
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producers_;
  const bool tells_zero_signs_;
  const std::vector<bool> zero_signs_;  // that matter
  Choice choice_;
  JaxprBuilder b_;
  std::vector<std::optional<Atom>> whole_;
  std::vector<Atoms> components_;
  SourceLocation where_;
};

}  // namespace

bool multiplies_rows(const Aval& x, const Aval& by, const Aval& out, const DotGeneralParams& p) {
  const DotDimensionNumbers& dn = p.dimension_numbers;
  const bool native = x.dtype == DType::f32 || x.dtype == DType::f64;
  if (!native || by.dtype != x.dtype || out.dtype != x.dtype || !dn.lhs_batch.empty() ||
      dn.lhs_contracting != Shape{x.ndim() - 1} || dn.rhs_contracting.size() != 1)
    return false;
  const std::size_t size = size_of(x.dtype);
  if (!has_short_axis(x) || x.size() < kLeastSize || by.ndim() > 2 ||
      static_cast<std::size_t>(by.size()) * size > kMostFactors)
    return false;
  // Where the columns of the result fill a vector, or rows of 8 are summed, products with lanes along these are
  // faster, as they are for larger matrices: on Zen 3 rows of 8 by 1 take 0.86 of the time, of 4 by 4 x 8 0.7. For 3 x 3
  // columns take 0.43 of it, and their kernel goes on with the results, for which 4 x 4 is worth it, too.
  if (by.ndim() == 1) return x.shape.back() != kShortRow;
  return has_short_axis(out) && by_columns(out) &&
         static_cast<std::size_t>(out.shape.back()) * size < runtime::target_vector_bytes();
}

Jaxpr split_short_axes(const Jaxpr& jaxpr, bool zero_signs) {
  if (jaxpr.eqns().size() > kMostEquations) return jaxpr;
  return Splitter(jaxpr, zero_signs).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
