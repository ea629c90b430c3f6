// Which loops are cellular. Dimensions that must be indexed alike are one class (union-find); a class
// whose elements are mixed anywhere is unrolled.
#include "compiler/plan/cells.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "compiler/disjoint_sets.hpp"
#include "compiler/forms.hpp"
#include "compiler/plan/dot.hpp"
#include "core/integers.hpp"
#include "jaxpr/rewrite.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

constexpr std::int64_t kMostUnrolled = 64;  // elements of a variable
constexpr std::int64_t kMostWork = 3000;    // operations after unrolling
constexpr std::int64_t kMostCalls = 40;  // of functions on single numbers; vectors are worth more
constexpr std::int64_t kSmallAxis = 4;   // rather unrolled, beside a larger one
// The last axis, along which lanes would be few: as long as so many equations come of it. Its numbers lie one after the other
// in memory, and are as many chains of operations.
constexpr std::int64_t kShortRow = 15, kMostEquations = 1024;
// Vectors whose lanes lie far apart in memory are shuffled together with others, or read and written element by element: so
// much code for each that loops with hundreds of them took seconds to compile, above all where lanes do not run along the
// last axis.
constexpr std::int64_t kNear = 4, kMostApart = 48, kMostApartTurned = 8, kMostWithSteps = 72;

// What a loop with products, or with values that are the same for many cells, takes in cells and in kernels: in
// operations of about a quarter of a nanosecond (measured on Zen 3: filters of 3 to 6 states alone and in batches of
// 256, networks of 4 to 64 and their gradients).
struct Costs {
  static constexpr std::int64_t kLanes = 8, kCall = 28, kKernel = 60;
  // Of shapes that are only compiled for, they may be any number.
  double cells = 0, kernels = kKernel;
  bool products = false, repeated = false;
  bool spilled = false;  // products of more numbers than there are registers
};

/// A program of a loop, and what is known of its variables.
struct ClassedProgram {
  explicit ClassedProgram(const Jaxpr& j)
      : jaxpr(&j), state(static_cast<std::size_t>(j.num_vars()), false) {}
  const Jaxpr* jaxpr;
  // The class of each dimension of each variable; of what is around the loop, of few of them.
  std::unordered_map<std::size_t, std::vector<int>> dims;
  std::vector<bool> state;  // depends on what trips hand on
  std::map<int, std::vector<std::unique_ptr<ClassedProgram>>> inner;
};

class Analysis {
 public:
  /// Whether a short last axis may be unrolled.
  explicit Analysis(bool unrolls_rows) : unrolls_rows_(unrolls_rows) {}
  bool has_unrolled_row() const { return has_unrolled_row_; }

  std::optional<CellLoop> run(const Jaxpr& jaxpr, const Eqn& eqn) {
    ClassedProgram around(jaxpr);
    for (const Atom& a : eqn.inputs) {
      if (a.is_var() && !around.dims.contains(static_cast<std::size_t>(a.var())))
        new_dims(around, a.var());
    }
    for (const Var v : eqn.outputs) new_dims(around, v);
    region(around, eqn, -1, true);
    if (!ok_) return std::nullopt;
    auto& programs = around.inner[-1];
    CellLoop out;
    if (!choose_axes(programs, out) || !label(around, eqn, programs, out)) return std::nullopt;
    return out;
  }

 private:
  // ---- classes -----------------------------------------------------------------------------------
  int new_class(std::int64_t size) {
    size_.push_back(size);
    mixed_.push_back(false);
    return classes_.add();
  }
  void join(int a, int b) {
    a = classes_.find(a);
    b = classes_.find(b);
    if (a == b) return;
    classes_.join(b, a);
    if (mixed_[static_cast<std::size_t>(b)]) mixed_[static_cast<std::size_t>(a)] = true;
  }
  void mix(int c) { mixed_[static_cast<std::size_t>(classes_.find(c))] = true; }
  void new_dims(ClassedProgram& s, Var v) {
    auto& dims = s.dims[static_cast<std::size_t>(v)];
    for (const std::int64_t n : s.jaxpr->aval(v).shape) {
      if (n == 0) refuse();  // no cell has a number of it, or there is no cell
      dims.push_back(new_class(n));
    }
  }
  std::vector<int>& dims(ClassedProgram& s, const Atom& a) {
    return s.dims[static_cast<std::size_t>(a.var())];
  }
  static bool is_state(const ClassedProgram& s, const Atom& a) {
    return a.is_var() && s.state[static_cast<std::size_t>(a.var())];
  }
  void join_all(const std::vector<int>& a, const std::vector<int>& b) {
    for (std::size_t d = 0; d < a.size() && d < b.size(); ++d) join(a[d], b[d]);
  }
  void refuse() { ok_ = false; }

  // ---- programs ----------------------------------------------------------------------------------
  void program(ClassedProgram& s) {
    for (std::size_t e = 0; ok_ && e < s.jaxpr->eqns().size(); ++e) {
      const Eqn& eqn = s.jaxpr->eqns()[e];
      for (const Var v : eqn.outputs) new_dims(s, v);
      const bool state = std::any_of(eqn.inputs.begin(), eqn.inputs.end(),
                                     [&](const Atom& a) { return is_state(s, a); });
      for (const Var v : eqn.outputs) s.state[static_cast<std::size_t>(v)] = state;
      if (eqn.effect != Effect::none) return refuse();
      equation(s, eqn, static_cast<int>(e), state);
    }
  }

  void equation(ClassedProgram& s, const Eqn& eqn, int e, bool state) {
    const auto out = [&](std::size_t i) -> std::vector<int>& {
      return s.dims[static_cast<std::size_t>(eqn.outputs[i])];
    };
    switch (form_of(*s.jaxpr, eqn)) {
      case Form::element:
        for (const Atom& a : eqn.inputs) {
          if (is_state(s, a)) join_all(dims(s, a), out(0));
        }
        for (std::size_t i = 1; i < eqn.outputs.size(); ++i) join_all(out(0), out(i));
        return;
      case Form::reshape:
        if (state) reshape(dims(s, eqn.inputs[0]), out(0));
        return;
      case Form::reduction: return reduction(s, eqn, state);
      case Form::dot: return product(s, eqn);
      case Form::region: return region(s, eqn, e, false);
      case Form::index: return state ? index(s, eqn, out(0)) : void();
      default: return refuse();
    }
  }

  void reshape(const std::vector<int>& from, const std::vector<int>& to) {
    std::vector<int> a, b;
    const auto nontrivial = [&](const std::vector<int>& in, std::vector<int>& out) {
      for (const int c : in) {
        if (size_[static_cast<std::size_t>(c)] != 1) out.push_back(c);
      }
    };
    nontrivial(from, a);
    nontrivial(to, b);
    std::size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
      std::size_t i2 = i + 1, j2 = j + 1;
      std::int64_t m = size_[static_cast<std::size_t>(a[i])],
                   n = size_[static_cast<std::size_t>(b[j])];
      if (m == n) {
        join(a[i++], b[j++]);
        continue;
      }
      while (m != n) {
        if (m < n && i2 < a.size()) m *= size_[static_cast<std::size_t>(a[i2++])];
        else if (n < m && j2 < b.size()) n *= size_[static_cast<std::size_t>(b[j2++])];
        else return refuse();
      }
      for (; i < i2; ++i) mix(a[i]);
      for (; j < j2; ++j) mix(b[j]);
    }
  }

  void reduction(ClassedProgram& s, const Eqn& eqn, bool state) {
    const Shape axes = reduction_axes(eqn);
    const Shape& shape = s.jaxpr->aval(eqn.inputs[0]).shape;
    if (elements_along(axes, shape) > kMostUnrolled || finds_place(eqn)) return refuse();
    if (!state) return;
    const std::vector<int>& in = dims(s, eqn.inputs[0]);
    std::size_t kept = 0;
    for (std::size_t d = 0; d < in.size(); ++d) {
      if (axes.contains(static_cast<std::int64_t>(d))) {
        mix(in[d]);
        continue;
      }
      for (const Var v : eqn.outputs) join(in[d], s.dims[static_cast<std::size_t>(v)][kept]);
      ++kept;
    }
  }

  void product(ClassedProgram& s, const Eqn& eqn) {
    const DotDimensionNumbers& dn = eqn.params.as<DotGeneralParams>().dimension_numbers;
    const std::vector<int>& out = s.dims[static_cast<std::size_t>(eqn.outputs[0])];
    std::size_t next = dn.lhs_batch.size();
    for (const bool right : {false, true}) {
      const Atom& a = eqn.inputs[right ? 1 : 0];
      const Shape& batch = right ? dn.rhs_batch : dn.lhs_batch;
      const Shape& contracting = right ? dn.rhs_contracting : dn.lhs_contracting;
      const Shape& shape = s.jaxpr->aval(a).shape;
      if (elements_along(contracting, shape) > kMostUnrolled) return refuse();
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const auto at = std::find(batch.begin(), batch.end(), static_cast<std::int64_t>(d));
        const bool contracted = contracting.contains(static_cast<std::int64_t>(d));
        const std::size_t o =
            at != batch.end() ? static_cast<std::size_t>(at - batch.begin()) : next;
        if (at == batch.end() && !contracted) ++next;
        if (!is_state(s, a)) continue;
        if (contracted) mix(dims(s, a)[d]);
        else join(dims(s, a)[d], out[o]);
      }
    }
  }

  void index(ClassedProgram& s, const Eqn& eqn, const std::vector<int>& out) {
    const PrimitiveBase* p = eqn.primitive;
    const auto each = [&](const Atom& a, const std::function<void(std::size_t, int)>& f) {
      if (!is_state(s, a)) return;
      const std::vector<int> in = dims(s, a);
      for (std::size_t d = 0; d < in.size(); ++d) f(d, in[d]);
    };
    const auto same = [&](std::size_t d, int in) {
      return size_[static_cast<std::size_t>(in)] == size_[static_cast<std::size_t>(out[d])];
    };
    const auto both_mixed = [&](std::size_t d, int in) {
      mix(in);
      mix(out[d]);
    };
    if (p == &broadcast_in_dim_p) {
      const Shape& to = eqn.params.as<BroadcastInDimParams>().broadcast_dimensions;
      each(eqn.inputs[0], [&](std::size_t d, int in) {
        const auto o = static_cast<std::size_t>(to[d]);
        if (same(o, in)) join(in, out[o]);
      });
    } else if (p == &transpose_p) {
      const Shape& order = eqn.params.as<TransposeParams>().permutation;
      each(eqn.inputs[0], [&](std::size_t d, int in) {
        const auto at = std::find(order.begin(), order.end(), static_cast<std::int64_t>(d));
        join(in, out[static_cast<std::size_t>(at - order.begin())]);
      });
    } else if (p == &slice_p) {
      each(eqn.inputs[0], [&](std::size_t d, int in) {
        if (same(d, in)) join(in, out[d]);
        else both_mixed(d, in);
      });
    } else if (p == &pad_p) {
      const auto& config = eqn.params.as<PadParams>().padding_config;
      each(eqn.inputs[0], [&](std::size_t d, int in) {
        const auto [low, high, interior] = config[d];
        if (low == 0 && high == 0 && interior == 0) join(in, out[d]);
        else both_mixed(d, in);
      });
    } else if (p == &rev_p) {
      const Shape& turned = eqn.params.as<DimensionsParams>().dimensions;
      each(eqn.inputs[0], [&](std::size_t d, int in) {
        if (turned.contains(static_cast<std::int64_t>(d))) both_mixed(d, in);
        else join(in, out[d]);
      });
    } else if (p == &concatenate_p) {
      const auto axis = static_cast<std::size_t>(eqn.params.as<ConcatenateParams>().dimension);
      mix(out[axis]);
      for (const Atom& a : eqn.inputs) {
        each(a, [&](std::size_t d, int in) {
          if (d == axis) both_mixed(d, in);
          else join(in, out[d]);
        });
      }
    } else if (p == &dynamic_slice_p) {
      // Where to read may depend on the state, what is read may not: registers have no addresses.
      if (is_state(s, eqn.inputs[0])) refuse();
    } else {
      refuse();
    }
  }

  // ---- loops and branches ------------------------------------------------------------------------
  ClassedProgram& inner(ClassedProgram& s, int e, const Jaxpr& jaxpr) {
    auto& list = s.inner[e];
    list.push_back(std::make_unique<ClassedProgram>(jaxpr));
    for (Var v = 0; v < jaxpr.num_inputs(); ++v) new_dims(*list.back(), v);
    return *list.back();
  }
  // Operand i of the equation is input j of the program.
  void pass(ClassedProgram& s, const Eqn& eqn, std::size_t i, ClassedProgram& to, std::size_t j,
            bool handed_on) {
    const Atom& a = eqn.inputs[i];
    to.state[j] = handed_on || is_state(s, a);
    // Memory can be read at any index, registers cannot.
    if (is_state(s, a)) join_all(dims(s, a), to.dims[j]);
  }
  void join_result(ClassedProgram& s, const Atom& result, const std::vector<int>& with) {
    if (result.is_var()) join_all(dims(s, result), with);
  }

  void region(ClassedProgram& s, const Eqn& eqn, int e, bool outermost) {
    if (eqn.effect != Effect::none) return refuse();
    for (const Var v : eqn.outputs) {
      s.state[static_cast<std::size_t>(v)] = true;
      if (!is_native_type(s.jaxpr->aval(v).dtype)) return refuse();
    }
    if (eqn.primitive == &scan_p) return scan(s, eqn, e, outermost);
    if (eqn.primitive == &while_p) return repeat(s, eqn, e);
    branch(s, eqn, e, outermost);
  }
  static bool is_native_type(DType d) {
    return !is_complex(d) && d != DType::f16 && d != DType::bf16 && d != DType::float0;
  }
  const std::vector<int>& result(ClassedProgram& s, const Eqn& eqn, std::size_t i) {
    return s.dims[static_cast<std::size_t>(eqn.outputs[i])];
  }

  void scan(ClassedProgram& s, const Eqn& eqn, int e, bool outermost) {
    const auto& p = eqn.params.as<ScanParams>();
    const auto consts = static_cast<std::size_t>(p.num_consts);
    const auto carries = static_cast<std::size_t>(p.num_carry);
    ClassedProgram& body = inner(s, e, p.jaxpr);
    for (std::size_t i = 0; i < consts + carries; ++i) pass(s, eqn, i, body, i, i >= consts);
    for (std::size_t i = consts + carries; i < eqn.inputs.size(); ++i) {
      if (is_state(s, eqn.inputs[i])) return refuse();  // rows of registers
      body.state[i] = outermost;  // what becomes a row of ys must be told apart by cells, too
    }
    program(body);
    if (!ok_) return;
    for (std::size_t i = 0; i < carries; ++i) {
      join_result(body, p.jaxpr.outs()[i], body.dims[consts + i]);
      join_all(body.dims[consts + i], result(s, eqn, i));
    }
    if (!outermost && eqn.outputs.size() > carries) return refuse();
  }

  void repeat(ClassedProgram& s, const Eqn& eqn, int e) {
    const auto& p = eqn.params.as<WhileParams>();
    const auto cond_consts = static_cast<std::size_t>(p.cond_nconsts);
    const auto body_consts = static_cast<std::size_t>(p.body_nconsts);
    const std::size_t first = cond_consts + body_consts, carries = eqn.inputs.size() - first;
    ClassedProgram& cond = inner(s, e, p.cond_jaxpr);
    ClassedProgram& body = inner(s, e, p.body_jaxpr);
    for (std::size_t i = 0; i < cond_consts; ++i) pass(s, eqn, i, cond, i, false);
    for (std::size_t i = 0; i < body_consts; ++i) pass(s, eqn, cond_consts + i, body, i, false);
    for (std::size_t i = 0; i < carries; ++i) {
      pass(s, eqn, first + i, cond, cond_consts + i, true);
      pass(s, eqn, first + i, body, body_consts + i, true);
    }
    program(cond);
    program(body);
    if (!ok_) return;
    for (std::size_t i = 0; i < carries; ++i) {
      const std::vector<int>& carry = body.dims[body_consts + i];
      join_all(cond.dims[cond_consts + i], carry);
      join_result(body, p.body_jaxpr.outs()[i], carry);
      join_all(carry, result(s, eqn, i));
      // Each element goes on as long as its own condition holds.
      join_result(cond, p.cond_jaxpr.outs()[0], carry);
    }
  }

  void branch(ClassedProgram& s, const Eqn& eqn, int e, bool outermost) {
    const auto& p = eqn.params.as<CondParams>();
    // Alone, branches over arrays are better run as kernels.
    for (const Var v : eqn.outputs) {
      if (outermost && s.jaxpr->aval(v).size() > kMostUnrolled) return refuse();
    }
    for (const Jaxpr& j : p.branches) {
      ClassedProgram& body = inner(s, e, j);
      for (std::size_t i = 1; i < eqn.inputs.size(); ++i) pass(s, eqn, i, body, i - 1, outermost);
      program(body);
      if (!ok_) return;
      for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
        // What does not depend on the state is at hand at any index.
        if (is_state(body, j.outs()[i])) join_result(body, j.outs()[i], result(s, eqn, i));
      }
    }
  }

  // ---- labels ------------------------------------------------------------------------------------
  bool is_axis(int c) {
    c = classes_.find(c);
    return size_[static_cast<std::size_t>(c)] > 1 && !mixed_[static_cast<std::size_t>(c)];
  }

  static std::int64_t equations(const ClassedProgram& s) {
    auto all = static_cast<std::int64_t>(s.jaxpr->eqns().size());
    for (const auto& [e, programs] : s.inner)
      for (const auto& program : programs) all += equations(*program);
    return all;
  }
  // Whether the last of these axes is so short that its numbers are rather those of a cell.
  bool is_unrolled_row(const std::vector<std::unique_ptr<ClassedProgram>>& programs,
                       const std::vector<int>& axes) const {
    const auto size = [&](int c) { return size_[static_cast<std::size_t>(c)]; };
    if (axes.size() < 2 || size(axes.back()) > kShortRow ||
        std::none_of(axes.begin(), axes.end(), [&](int c) { return size(c) > kShortRow; }))
      return false;
    std::int64_t all = 0;
    for (const auto& program : programs) all += equations(*program);
    return all * size(axes.back()) <= kMostEquations;
  }

  // The axes are those of the component of the state that has most of them.
  bool choose_axes(std::vector<std::unique_ptr<ClassedProgram>>& programs, CellLoop& out) {
    std::vector<int> best;
    for (auto& program : programs) {
      for (Var v = 0; v < program->jaxpr->num_inputs(); ++v) {
        if (!program->state[static_cast<std::size_t>(v)]) continue;
        std::vector<int> axes;
        for (const int c : program->dims[static_cast<std::size_t>(v)]) {
          if (is_axis(c)) axes.push_back(classes_.find(c));
        }
        if (axes.size() > best.size()) best = axes;
      }
    }
    const bool large = std::any_of(best.begin(), best.end(), [&](int c) {
      return size_[static_cast<std::size_t>(c)] > kSmallAxis;
    });
    if (large) {
      std::erase_if(best, [&](int c) { return size_[static_cast<std::size_t>(c)] <= kSmallAxis; });
      if (unrolls_rows_ && is_unrolled_row(programs, best)) {
        has_unrolled_row_ = true;
        best.pop_back();
      }
    }
    if (best.size() > 3) return false;
    // Lanes run along the last axis, or along the largest where that is short.
    if (best.size() > 1 && size_[static_cast<std::size_t>(best.back())] < 16) {
      const auto largest = std::max_element(best.begin(), best.end(), [&](int a, int b) {
        return size_[static_cast<std::size_t>(a)] < size_[static_cast<std::size_t>(b)];
      });
      turned_ = largest != best.end() - 1;
      std::iter_swap(largest, best.end() - 1);
    }
    for (const int c : best) {
      axis_of_[c] = static_cast<int>(out.axes.size());
      out.axes.push_back(size_[static_cast<std::size_t>(c)]);
    }
    return axis_of_.size() == best.size();
  }

  bool label(ClassedProgram& around, const Eqn& eqn,
             std::vector<std::unique_ptr<ClassedProgram>>& programs, CellLoop& out) {
    work_ = calls_ = 0;
    costs_ = {};
    out.programs = labels_of(programs, out);
    for (const Var v : eqn.outputs) out.results.push_back(labels_of(around, v));
    if (!ok_ || work_ > kMostWork || (out.axes.empty() && calls_ > kMostCalls)) return false;
    if (kernels_are_faster(!out.axes.empty())) return false;
    out.work = static_cast<int>(work_);
    const std::size_t which = eqn.primitive == &while_p ? 1 : 0;
    const ClassedProgram& body = *programs[which];
    const std::vector<Labels>& labels = out.programs[which].labels;
    for (const Atom& a : body.jaxpr->outs()) {
      if (a.is_literal()) continue;
      const Labels& of_a = labels[static_cast<std::size_t>(a.var())];
      if (unrolled(body.jaxpr->aval(a).shape, of_a) > kMostUnrolled) return false;
    }
    const std::size_t rows = eqn.primitive == &scan_p
                                 ? static_cast<std::size_t>(eqn.params.as<ScanParams>().num_carry)
                                 : body.jaxpr->outs().size();
    if (!few_lie_apart(body, labels, rows, out)) return false;
    return out.values <= 512 && (!out.axes.empty() || largest_ <= 16);
  }

  // The numbers that a cell has of a variable, and how far those of its neighbour lie from them.
  static std::pair<std::int64_t, std::int64_t> numbers_and_step(const Jaxpr& jaxpr,
                                                                const std::vector<Labels>& labels,
                                                                Var v, int axis) {
    const Shape& shape = jaxpr.aval(v).shape;
    const Labels& of_v = labels[static_cast<std::size_t>(v)];
    return {unrolled(shape, of_v), step_along(axis, shape, of_v)};
  }

  // Counts the numbers of the state, and whether few enough of them, and of rows, which results of the body from number
  // `rows` on are, have lanes that lie apart.
  bool few_lie_apart(const ClassedProgram& body, const std::vector<Labels>& labels,
                     std::size_t rows, CellLoop& out) const {
    const int lanes = static_cast<int>(out.axes.size()) - 1;
    std::int64_t state = 0, state_with_steps = 0, of_rows = 0;
    for (Var v = 0; v < body.jaxpr->num_inputs(); ++v) {
      if (!body.state[static_cast<std::size_t>(v)]) continue;
      const auto [numbers, step] = numbers_and_step(*body.jaxpr, labels, v, lanes);
      out.values += static_cast<int>(numbers);
      if (step > kNear) state += numbers;
      else if (step > 1) state_with_steps += numbers;
    }
    out.lies_apart = state > 0;
    for (std::size_t i = rows; i < body.jaxpr->outs().size(); ++i) {
      const Atom& row = body.jaxpr->outs()[i];
      if (!row.is_var()) continue;
      const auto [numbers, step] = numbers_and_step(*body.jaxpr, labels, row.var(), lanes);
      if (step > 1) of_rows += numbers;
      out.lies_apart |= step > kNear;
    }
    const std::int64_t most = turned_ ? kMostApartTurned : kMostApart;
    return state <= most && of_rows <= most && state_with_steps + of_rows <= kMostWithSteps;
  }

  // Every cell computes `n` elements of an equation's result, though they may be the same for many. Kernels compute
  // each once, with lanes along rows where these are not short.
  void count(const Jaxpr& jaxpr, const Eqn& eqn, std::int64_t n,
             const std::vector<Labels>& labels_of_all, const CellLoop& whole) {
    const Labels& labels = labels_of_all[static_cast<std::size_t>(eqn.outputs[0])];
    const bool product = eqn.primitive == &dot_general_p;
    // What a reduction folds has been counted where it was computed.
    const std::int64_t terms = product ? terms_of(jaxpr, eqn) : 1, cost = element_cost(eqn);
    std::int64_t cells = 1, different = 1;
    for (std::size_t axis = 0; axis < whole.axes.size(); ++axis) {
      cells *= whole.axes[axis];
      if (std::find(labels.begin(), labels.end(), static_cast<int>(axis)) != labels.end())
        different *= whole.axes[axis];
    }
    const bool call = cost >= 8;
    const Shape& shape = jaxpr.aval(eqn.outputs[0]).shape;
    const std::int64_t row = shape.empty() ? 1 : shape.back();
    const std::int64_t lanes =
        product ? std::clamp<std::int64_t>(row, 1, Costs::kLanes) : Costs::kLanes;
    const std::int64_t each = call ? Costs::kCall : 1;
    work_ += n * terms;
    if (call) calls_ += n;
    const double elements = static_cast<double>(each * n * terms);
    costs_.cells += elements * static_cast<double>(detail::ceil_div(cells, Costs::kLanes));
    costs_.kernels +=
        std::ceil(elements * static_cast<double>(different) / static_cast<double>(lanes));
    if (product || form_of(jaxpr, eqn) == Form::reduction) costs_.kernels += Costs::kKernel;
    costs_.products |= product;
    costs_.spilled |= product && in_registers(jaxpr, eqn, labels_of_all, whole) >=
                                     runtime::target_vector_registers();
    costs_.repeated |= different < cells;
  }
  // The numbers of a cell that a product with a matrix which is the same for all lanes takes or gives, whichever are fewer,
  // with as many sums.
  static std::int64_t in_registers(const Jaxpr& jaxpr, const Eqn& eqn,
                                   const std::vector<Labels>& labels, const CellLoop& whole) {
    const std::int64_t terms = std::max<std::int64_t>(terms_of(jaxpr, eqn), 1);
    const int lanes = static_cast<int>(whole.axes.size()) - 1;
    std::int64_t numbers = 0;
    for (const Atom& a : eqn.inputs) {
      if (!a.is_var() || lanes < 0) continue;
      const Labels& of_a = labels[static_cast<std::size_t>(a.var())];
      if (std::find(of_a.begin(), of_a.end(), lanes) == of_a.end())
        numbers = std::max(numbers, 2 * std::min(terms, jaxpr.aval(a).size() / terms));
    }
    return numbers;
  }
  // Fewer kernels have less to begin with, but memory between them: they have to be well ahead where cells have lanes, and
  // registers enough. What a product reads again for each vector of cells, kernels of products read for several (on Zen 4,
  // networks of 12 numbers take 0.8 of the time in cells, of 16 as long, but three times as long to compile, of 24 1.4 times as
  // long, of 48 twice).
  bool kernels_are_faster(bool lanes) const {
    const double ahead = costs_.spilled ? 0.5 : lanes ? 2. : 1.;
    return (costs_.products || costs_.repeated) && costs_.cells > ahead * costs_.kernels;
  }

  Labels labels_of(ClassedProgram& scope, Var v) {
    Labels labels;
    for (const int c : scope.dims[static_cast<std::size_t>(v)]) {
      const auto axis = axis_of_.find(classes_.find(c));
      labels.push_back(axis == axis_of_.end() ? kUnrolled : axis->second);
    }
    return labels;
  }
  // Refuses what is too large to be unrolled, or differs by pairs of cells: it has an axis twice.
  void note_state(const Aval& aval, const Labels& labels, CellLoop& whole) {
    const std::int64_t n = unrolled(aval.shape, labels);
    largest_ = std::max(largest_, n);
    if (n > kMostUnrolled) refuse();
    for (std::size_t a = 0; a < labels.size(); ++a) {
      const auto before = labels.begin() + static_cast<std::ptrdiff_t>(a);
      if (labels[a] != kUnrolled && std::find(labels.begin(), before, labels[a]) != before)
        refuse();
    }
    if (is_float(aval.dtype) || aval.size() > 1)
      whole.widest = std::max(whole.widest, size_of(aval.dtype));
  }
  std::vector<CellLoop::Program> labels_of(std::vector<std::unique_ptr<ClassedProgram>>& programs,
                                           CellLoop& whole) {
    std::vector<CellLoop::Program> out;
    for (auto& scope : programs) {
      CellLoop::Program program;
      const Jaxpr& jaxpr = *scope->jaxpr;
      for (Var v = 0; v < jaxpr.num_vars(); ++v) {
        program.labels.push_back(labels_of(*scope, v));
        if (scope->state[static_cast<std::size_t>(v)])
          note_state(jaxpr.aval(v), program.labels.back(), whole);
      }
      for (std::size_t e = 0; e < jaxpr.eqns().size(); ++e) {
        const Eqn& eqn = jaxpr.eqns()[e];
        if (eqn.outputs.empty()) continue;
        const auto v = static_cast<std::size_t>(eqn.outputs[0]);
        const std::int64_t n = unrolled(jaxpr.aval(eqn.outputs[0]).shape, program.labels[v]);
        if (scope->state[v]) count(jaxpr, eqn, n, program.labels, whole);
        const auto found = scope->inner.find(static_cast<int>(e));
        if (found == scope->inner.end()) continue;
        CellLoop loop;
        loop.programs = labels_of(found->second, whole);
        for (const Var r : eqn.outputs)
          loop.results.push_back(program.labels[static_cast<std::size_t>(r)]);
        program.loops.emplace(static_cast<int>(e), std::move(loop));
      }
      out.push_back(std::move(program));
    }
    return out;
  }

  bool unrolls_rows_, has_unrolled_row_ = false;
  bool ok_ = true, turned_ = false;  ///< turned: lanes run along another axis than the last
  DisjointSets classes_;
  std::vector<std::int64_t> size_;
  std::vector<bool> mixed_;
  std::map<int, int> axis_of_;
  std::int64_t work_ = 0, calls_ = 0, largest_ = 1;
  Costs costs_;
};

}  // namespace

std::int64_t step_along(int axis, const Shape& shape, const Labels& labels) {
  const auto at = std::find(labels.begin(), labels.end(), axis);
  if (axis < 0 || at == labels.end()) return 0;
  return std::accumulate(shape.begin() + (at - labels.begin()) + 1, shape.end(), std::int64_t{1},
                         std::multiplies<>());
}

std::int64_t elements_along(const Shape& dims, const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= shape[static_cast<std::size_t>(d)];
  return n;
}

std::int64_t unrolled(const Shape& shape, const Labels& labels) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) n *= labels[d] == kUnrolled ? shape[d] : 1;
  return n;
}

std::optional<CellLoop> cell_loop(const Jaxpr& jaxpr, const Eqn& eqn) {
  Analysis analysis(true);
  std::optional<CellLoop> found = analysis.run(jaxpr, eqn);
  if (found || !analysis.has_unrolled_row()) return found;
  return Analysis(false).run(jaxpr, eqn);
}

std::optional<CellLoop> worthwhile_cell_loop(const Jaxpr& jaxpr, const Eqn& eqn) {
  constexpr std::int64_t kLong = 4096;
  if (eqn.primitive == &scan_p && eqn.params.as<ScanParams>().num_carry == 0) {
    const std::vector<Aval>& avals = eqn.params.as<ScanParams>().jaxpr.avals();
    if (std::any_of(avals.begin(), avals.end(), [](const Aval& a) { return a.size() >= kLong; }))
      return std::nullopt;
  }
  return cell_loop(jaxpr, eqn);
}

bool is_cellular(const Eqn& eqn, const Avals& operands, const Avals& results) {
  detail::JaxprBuilder b;
  Atoms inputs, outs;
  for (const Aval& aval : operands) inputs.push_back(Atom::var(b.add_input(aval)));
  for (const Var v : b.add_eqn(*eqn.primitive, eqn.params, inputs, results, eqn.effect))
    outs.push_back(Atom::var(v));
  const Jaxpr alone = b.build(outs, detail::JaxprBuilder::DeadCode::keep).jaxpr;
  return cell_loop(alone, alone.eqns()[0]).has_value();
}

std::int64_t expected_trips(const Eqn& eqn) {
  constexpr std::int64_t kGuess = 32;
  return eqn.primitive == &scan_p   ? std::max<std::int64_t>(eqn.params.as<ScanParams>().length, 1)
         : eqn.primitive == &cond_p ? 1
                                    : kGuess;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
