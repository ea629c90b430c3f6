// Slices at places that no call changes: what a program takes of an array by indices that are captured arrays, or computed
// of numbers of the program alone, is made of slices, which other passes understand, and kernels read without a look at an
// index. (Places that count in the text of the program: simplify_places.cpp.)
//
//   b:f32[n,3] = gather[dimension 1] a [2, 0, 1]
//   ->  p = slice[(0,2):(n,3)] a, q = slice[(0,0):(n,2)] a, b = concatenate[dimension=1] p q
//
// Places that count along their dimensions, as those of windows do, become iotas, which the rules of the simplifier about
// places understand.
//
// From here on their values are in the text of the program, and so in its key in the disk cache.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include "compiler/forms.hpp"
#include "compiler/passes/numbers.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/simplify.hpp"
#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "jaxpr/rewrite.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMostIndices = 1 << 14, kMostCounted = 1 << 20;
constexpr std::size_t kMostRuns = 8;  // more slices gain little, and take long to compile

/// first, first + step, ...
struct Run {
  std::int64_t first = 0, step = 1, count = 1;
  std::int64_t last() const { return first + (count - 1) * step; }
};

/// One run, or some of neighbours that go up; nothing where these are many, or a place is outside.
std::optional<std::vector<Run>> runs_of(const std::vector<std::int64_t>& places,
                                        std::int64_t size) {
  const auto inside = [&](std::int64_t place) { return place >= 0 && place < size; };
  if (!std::all_of(places.begin(), places.end(), inside)) return std::nullopt;
  const auto runs = [&](std::int64_t step) {
    std::vector<Run> out;
    for (const std::int64_t place : places) {
      if (!out.empty() && place == out.back().last() + step) {
        ++out.back().count;
      } else if (out.push_back({place, step}); out.size() > kMostRuns) {
        break;
      }
    }
    return out;
  };
  const std::int64_t step = places.size() > 1 ? places[1] - places[0] : 1;
  std::vector<Run> found = step == 0 ? std::vector<Run>() : runs(step);
  if (found.size() != 1) found = runs(1);
  if (found.size() > kMostRuns) return std::nullopt;
  return found;
}

class Places {
 public:
  Places(const Jaxpr& jaxpr, const Arrays& known)
      : jaxpr_(jaxpr), producer_(detail::producers(jaxpr)), atoms_(jaxpr) {
    for (std::size_t i = 0; i < known.size(); ++i) {
      const auto v = static_cast<Var>(i);
      if (is_few(v)) known_.emplace(v, known[i]);
    }
  }

  static bool has_places(const Eqn& e) { return e.primitive == &gather_p || is_scatter(e); }

  Jaxpr run() {
    bool changed = false;
    atoms_.push_inputs(b_);
    for (const Eqn& e : jaxpr_.eqns()) {
      follow(e);
      if (const auto taken = e.primitive == &gather_p ? slices(e) : std::nullopt) {
        changed = true;
        atoms_.push(*taken);
        continue;
      }
      Atoms in = atoms_(e.inputs);
      if (const auto places = has_places(e) ? counted(e) : std::nullopt) {
        changed = true;
        in[1] = *places;
      }
      atoms_.push(b_.add_eqn(*e.primitive, e.params, std::move(in), atoms_.out_avals(e), e.effect,
                             e.where));
    }
    if (!changed) return jaxpr_;
    return b_.build(atoms_(jaxpr_.outs()), detail::JaxprBuilder::DeadCode::keep).jaxpr;
  }

 private:
  bool is_few(Var v) const {
    const Aval& aval = jaxpr_.aval(v);
    return is_integer(aval.dtype) && aval.size() <= kMostCounted;
  }
  // What is computed of iotas and of numbers that are known: (arange(n) + 1) % n.
  std::optional<Array> value(Var v, int depth = 0) {
    constexpr int kDeepest = 16;
    if (const auto found = known_.find(v); found != known_.end()) return found->second;
    const int at = producer_[static_cast<std::size_t>(v)];
    if (at < 0 || depth > kDeepest || jaxpr_.aval(v).size() > kMostIndices) return std::nullopt;
    const Eqn& e = jaxpr_.eqns()[static_cast<std::size_t>(at)];
    const bool counts = is_integer(jaxpr_.aval(v).dtype) || jaxpr_.aval(v).dtype == DType::bool_;
    if (!counts || e.outputs.size() != 1 || e.params.has_jaxprs() ||
        !is_fusible(form_of(jaxpr_, e)))
      return std::nullopt;
    Arrays in;
    for (const Atom& a : e.inputs) {
      const auto x = a.is_literal() ? std::optional(a.literal()) : value(a.var(), depth + 1);
      if (!x) return std::nullopt;
      in.push_back(*x);
    }
    const auto made = evaluated(*e.primitive, e.params, in);
    if (!made) return std::nullopt;
    return known_.emplace(v, made->at(0)).first->second;
  }
  // The same numbers in another shape.
  void follow(const Eqn& e) {
    const bool moves = e.primitive == &reshape_p || e.primitive == &broadcast_in_dim_p;
    if (!moves || !e.inputs[0].is_var() ||
        jaxpr_.aval(e.outputs[0]).size() != jaxpr_.aval(e.inputs[0]).size())
      return;
    const auto found = known_.find(e.inputs[0].var());
    if (found == known_.end()) return;
    const Arrays x = {found->second};
    known_.emplace(e.outputs[0], e.primitive->rules().impl(e.params, x).at(0));
  }

  static std::vector<std::int64_t> numbers(const Array& x) {
    const Array wide = convert_element_type_p.bind1({DType::i64}, {x});
    const Array dense = detail::contiguous(wide);
    const auto* const first = detail::data_of<std::int64_t>(dense);
    return {first, first + dense.size()};
  }

  std::optional<Atom> slices(const Eqn& e) {
    if (!e.inputs[1].is_var()) return std::nullopt;
    const Aval &of = jaxpr_.aval(e.inputs[0]), &out = jaxpr_.aval(e.outputs[0]);
    const auto axis = gathered_axis(of, out, e.params.as<GatherParams>());
    const auto places = axis && out.size() > 0 ? value(e.inputs[1].var()) : std::nullopt;
    if (!places || places->size() > kMostIndices) return std::nullopt;
    const auto runs = runs_of(numbers(*places), of.shape[*axis]);
    if (!runs) return std::nullopt;
    Atoms parts;
    for (const Run& run : *runs) parts.push_back(slice(atoms_(e.inputs[0]), of, *axis, run, e));
    if (parts.size() == 1) return parts[0];
    ConcatenateParams p;
    p.dimension = static_cast<std::int64_t>(*axis);
    return add(concatenate_p, Params::of(p), std::move(parts), out, e);
  }
  // Index vectors of which each component is so much more along each dimension, as what it is computed of.
  std::optional<Atom> counted(const Eqn& e) {
    const auto found = e.inputs[1].is_var() ? known_.find(e.inputs[1].var()) : known_.end();
    if (found == known_.end() || found->second.size() == 0) return std::nullopt;
    const Aval aval = jaxpr_.aval(e.inputs[1]);
    const std::vector<std::int64_t> all = numbers(found->second);
    // What is below 0 of unsigned integers is beyond those of 63 bits.
    const std::int64_t least = is_signed_integer(aval.dtype) ? INT32_MIN : 0;
    const auto is_far = [=](std::int64_t n) { return n < least || n > INT32_MAX; };
    const auto leaps = [](std::int64_t step) { return std::abs(step) > INT32_MAX; };
    if (std::any_of(all.begin(), all.end(), is_far)) return std::nullopt;
    const auto vectors = static_cast<std::size_t>(aval.shape.back());
    Shape shape = aval.shape;
    shape[shape.size() - 1] = 1;
    const Aval column{shape, DType::i32, false};
    Atoms columns;
    for (std::size_t k = 0; k < vectors; ++k) {
      const auto steps = steps_of(all, shape, k, vectors);
      if (!steps || std::any_of(steps->begin(), steps->end(), leaps)) return std::nullopt;
      columns.push_back(filled(b_, all[k], column, e.where));
      for (std::size_t d = 0; d < steps->size(); ++d) {
        if ((*steps)[d] == 0) continue;
        const IotaParams along{column.dtype, shape, static_cast<std::int64_t>(d)};
        const Atom iota = add(iota_p, Params::of(along), {}, column, e);
        const Atom step = filled(b_, (*steps)[d], column, e.where);
        const Atom scaled = add(mul_p, {}, {iota, step}, column, e);
        columns.back() = add(add_p, {}, {columns.back(), scaled}, column, e);
      }
    }
    if (vectors == 1) return columns[0];
    const ConcatenateParams p{static_cast<std::int64_t>(shape.size()) - 1};
    return add(concatenate_p, Params::of(p), std::move(columns), {aval.shape, column.dtype, false},
               e);
  }
  /// By how much every `of`th of these numbers from the kth on goes up along each dimension, if always by the same.
  static std::optional<std::vector<std::int64_t>> steps_of(const std::vector<std::int64_t>& all,
                                                           const Shape& shape, std::size_t k,
                                                           std::size_t of) {
    std::vector<std::int64_t> steps(shape.size(), 0);
    std::size_t stride = of;  // of a dimension, in `all`
    for (std::size_t d = shape.size(); d-- > 0;) {
      const auto size = static_cast<std::size_t>(shape[d]);
      if (size > 1) steps[d] = all[k + stride] - all[k];
      // As far as dimensions have been looked at, each block is the one before it and a step.
      for (std::size_t i = stride; i < size * stride; i += of)
        if (all[k + i] - all[k + i - stride] != steps[d]) return std::nullopt;
      stride *= size;
    }
    return steps;
  }
  // Backwards as a slice that goes forwards, and then turned.
  Atom slice(const Atom& x, const Aval& of, std::size_t axis, const Run& run, const Eqn& e) {
    SliceParams p{Shape(of.shape.size(), 0), of.shape, Shape(of.shape.size(), 1)};
    p.start_indices[axis] = std::min(run.first, run.last());
    p.limit_indices[axis] = std::max(run.first, run.last()) + 1;
    p.strides[axis] = std::abs(run.step);
    Shape shape = of.shape;
    shape[axis] = run.count;
    const Aval part = of.with_shape(shape).strong();
    const Atom out = add(slice_p, Params::of(p), {x}, part, e);
    if (run.step > 0) return out;
    return add(rev_p, Params::of(DimensionsParams{{static_cast<std::int64_t>(axis)}}), {out}, part,
               e);
  }
  Atom add(const PrimitiveBase& p, Params params, Atoms in, const Aval& out, const Eqn& e) {
    return Atom::var(b_.add_eqn1(p, std::move(params), std::move(in), out, Effect::none, e.where));
  }

  const Jaxpr& jaxpr_;
  const std::vector<int> producer_;
  detail::JaxprBuilder b_;
  detail::Renaming atoms_;
  std::map<Var, Array> known_;
};

}  // namespace

Jaxpr slice_at_known_places(const Jaxpr& jaxpr, const Arrays& known) {
  const std::vector<Eqn>& eqns = jaxpr.eqns();
  if (std::none_of(eqns.begin(), eqns.end(), Places::has_places)) return jaxpr;
  const detail::EvalScope scope;
  return Places(jaxpr, known).run();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
