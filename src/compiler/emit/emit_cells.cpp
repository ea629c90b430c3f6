// Cellular loops (cells.hpp): loops over blocks of cells, with lanes along the last axis; inside, the
// trips, whose state is carried in registers. Blocks are as many vectors wide as registers allow, so
// that several chains of operations are under way at once; where a cell's code is short and has no loop,
// that over the cells has its trips side by side instead, as any other (codegen_interleave.cpp).
#include <algorithm>
#include <numeric>

#include "compiler/emit/emit.hpp"
#include "compiler/forms.hpp"
#include "compiler/fusion/fuse.hpp"
#include "compiler/plan/turns.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/error.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// All trips of a loop together, in equations, in operations of a cell, and in pieces of memory.
constexpr std::int64_t kUnrolledWork = 48, kUnrolledOperations = 512, kUnrolledPieces = 128;

/// An element of an operand of a loop.
using Read = std::function<Scalar(std::size_t operand, const Point& at)>;
/// The elements of each result, by number: the unrolled dimensions count.
using Elements = std::vector<Scalars>;

class CellEmitter;

/// The values of a body's variables, at the cell at hand.
class Body final : public Generator {
 public:
  Body(CellEmitter& owner, CodeGen& gen, const Plan& plan, const Scope& scope, const Kernel& kernel,
       const std::vector<int>& producer, const CellLoop::Program& program, Read read)
      : Generator(gen, plan, scope, kernel, producer),
        owner_(owner),
        producer_(producer),
        program_(program),
        read_(std::move(read)) {}

  /// Runs the loops in it. Before anything else, so that they stand where the body begins.
  void run_loops();

 protected:
  Scalar outside(Var v, const Point& at) override { return read_(static_cast<std::size_t>(v), at); }
  bool reads_arrays() const override { return false; }
  Scalar other(const Eqn& eqn, Var v, const Point& at) override;

 private:
  Scalar reduce(const Eqn& eqn, const Point& at);
  Scalar product(const Eqn& eqn, const Point& at);

  CellEmitter& owner_;
  const std::vector<int>& producer_;
  const CellLoop::Program& program_;
  Read read_;
  std::map<int, Elements> loops_;
};

class CellEmitter {
 public:
  explicit CellEmitter(KernelContext& k) : k_(k), gen_(k.gen), loop_(*k.kernel().cell) {}

  void run() {
    const std::vector<std::int64_t>& axes = loop_.axes;
    if (std::find(axes.begin(), axes.end(), 0) != axes.end()) return;
    axis_.assign(axes.size(), gen_.index(0));
    if (axes.empty()) {
      gen_.set_lanes(1, 1);
      return cell();
    }
    LoopBounds outer = bounds_of(gen_, std::span(axes).first(axes.size() - 1));
    if (!outer.empty()) outer[0] = {k_.begin, k_.end};
    const std::int64_t size = axes.back();
    loop_nest(gen_, outer, [&](const Index& index) {
      std::copy(index.begin(), index.end(), axis_.begin());
      const bool chunked = index.empty();
      vector_loop(k_, chunked ? k_.begin : gen_.index(0), chunked ? k_.end : gen_.index(size), size,
                  lanes(size),
                  [&](Scalar base) {
                    axis_.back() = gen_.lane_index(base);
                    cell();
                  },
                  {.overlap = overlap(size), .has_loops = !is_straight()});
    });
  }

  /// The loop or branch `eqn`: its results' elements.
  Elements region(const Eqn& eqn, const CellLoop& loop, const Read& read, bool outermost) {
    if (eqn.primitive == &scan_p) return scan(eqn, loop, read, outermost);
    if (eqn.primitive == &while_p) return repeat(eqn, loop, read);
    return branch(eqn, loop, read);
  }

  /// The element of that number at the cell at hand.
  Point point(const Shape& shape, const Labels& labels, std::int64_t number) {
    Index index(shape.size(), gen_.index(0));
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (labels[d] != kUnrolled) {
        index[d] = axis_[static_cast<std::size_t>(labels[d])];
      } else {
        index[d] = gen_.index(number % shape[d]);
        number /= shape[d];
      }
    }
    return {shape, index, std::nullopt};
  }
  std::int64_t number(const Labels& labels, const Point& at, Generator& generator) {
    const Index index = generator.indices(at);
    std::int64_t n = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (labels[d] != kUnrolled) continue;
      std::int64_t i = 0;
      if (at.shape[d] != 1 && !CodeGen::known_constant(index[d], i))
        throw InternalError("a loop's state is indexed by what is not known");
      n = n * at.shape[d] + i;
    }
    return n;
  }

 private:
  /// A program of a loop, with what its Body refers to.
  struct Program {
    Program(const Jaxpr& jaxpr) : scope{jaxpr, {}}, producer(producers(jaxpr)) {
      for (std::size_t e = 0; e < jaxpr.eqns().size(); ++e)
        kernel.members.insert(static_cast<int>(e));
    }
    Scope scope;
    Kernel kernel;
    std::vector<int> producer;
  };

  // Whether a cell's code has no loop.
  bool is_straight() const {
    const Eqn& eqn = k_.eqn(k_.kernel().eqn);
    if (eqn.primitive != &scan_p || !loop_.programs[0].loops.empty()) return false;
    const auto& p = eqn.params.as<ScanParams>();
    return trips_together(p, loop_) == p.length;
  }
  // Whether the loop over cells is like any other, whose trips are done side by side: that code is short, too.
  bool is_short(std::int64_t size) const {
    constexpr std::int64_t kMostWork = 64, kLeastVectors = 16;
    if (!k_.plan.emit.interleave || size < kLeastVectors * full_lanes() || !is_straight())
      return false;
    const auto& p = k_.eqn(k_.kernel().eqn).params.as<ScanParams>();
    return detail::saturating_mul(p.length, loop_.work) <= kMostWork;
  }
  CodeGen::Overlap overlap(std::int64_t size) const {
    if (!is_short(size)) return {};
    return {k_.plan.emit.loop_stages, k_.plan.emit.interleave};
  }

  int full_lanes() const { return static_cast<int>(runtime::target_vector_bytes() / loop_.widest); }
  int lanes(std::int64_t size) const {
    const int full = full_lanes();
    if (is_short(size) || loop_.lies_apart) return full;
    int wide = full;
    while (wide < 8 * full && wide < size && loop_.values * wide < 8 * full) wide *= 2;
    return wide;
  }

  void cell() {
    const Eqn& eqn = k_.eqn(k_.kernel().eqn);
    const Jaxpr& jaxpr = k_.scope.jaxpr;
    Kernel none;
    Generator memory(gen_, k_.plan, k_.scope, none, k_.producer);
    const Read read = [&](std::size_t i, const Point& at) {
      const Value& value = k_.value(k_.step.reads[i]);
      // One number, where the whole operand repeats it.
      if (value.aval.size() > 1) return load(i, at, memory);
      return gen_.load(gen_.pointer(value.location), value.aval.dtype, gen_.index(0));
    };
    const Elements results = region(eqn, loop_, read, true);
    for (std::size_t i = 0; i < results.size(); ++i) {  // ys are stored row by row
      const Shape& shape = jaxpr.aval(eqn.outputs[i]).shape;
      const auto elements = static_cast<std::int64_t>(results[i].size());
      store(
          k_.step.writes[i], shape, loop_.results[i], elements, memory,
          [&](std::int64_t n) { return results[i][static_cast<std::size_t>(n)]; },
          [](const Point& at) { return at; });
    }
  }

  // ---- memory ------------------------------------------------------------------------------------
  // An element of an array; with the others of its cell, where these lie one after the other and next to those of the next
  // cell.
  Scalar load(std::size_t operand, const Point& at, Generator& memory) {
    const Value& value = k_.value(k_.step.reads[operand]);
    const Pointer from = gen_.pointer(value.location);
    Index index = memory.indices(at);
    std::int64_t numbers = 1, number = 0;
    for (std::size_t d = index.size(); d-- > 0;) {
      std::int64_t i = 0;
      if (at.shape[d] != 1 && !CodeGen::known_constant(index[d], i)) break;
      number += i * numbers;
      numbers *= at.shape[d];
      index[d] = gen_.index(0);
    }
    if (in_columns(numbers) && is_read_whole(operand, numbers)) {
      const Scalar first = memory.flat({at.shape, index, std::nullopt});
      const int k = static_cast<int>(numbers);
      if (gen_.goes_by_rows(first, k))
        return gen_.load_columns(from, value.aval.dtype, first,
                                 k)[static_cast<std::size_t>(number)];
    }
    return gen_.load(from, value.aval.dtype, memory.flat(at));
  }
  // So many elements of a result, by number, at places that are made of their points; those of a cell that lie one after the
  // other together.
  void store(int to, const Shape& shape, const Labels& labels, std::int64_t elements,
             Generator& memory, const std::function<Scalar(std::int64_t)>& element,
             const std::function<Point(const Point&)>& place) {
    const Value& value = k_.value(to);
    const std::int64_t step = step_along(static_cast<int>(axis_.size()) - 1, shape, labels);
    const bool together = in_columns(step) && numbers_behind(shape, labels) == step;
    for (std::int64_t n = 0; n < elements;) {
      const Point first = place(point(shape, labels, n));
      if (!together) {
        memory.store(to, first, element(n++));
        continue;
      }
      gen_.store_columns(gen_.pointer(value.location), value.aval.dtype, memory.flat(first),
                         static_cast<int>(step), [&](int c) { return element(n + c); });
      n += step;
    }
  }
  bool in_columns(std::int64_t numbers) const {
    return k_.plan.emit.load_columns && gen_.lanes() > 1 && numbers > 1 &&
           numbers <= static_cast<std::int64_t>(kMostWoven);
  }
  // Whether it pays to load so many numbers of each cell where one is read. Of many numbers of a row, a trip has to read some,
  // or most is loaded in vain; what is read before the first trip is not worth much code.
  bool is_read_whole(std::size_t operand, std::int64_t numbers) const {
    constexpr std::int64_t kFew = 24;
    if (numbers <= kSmallMatrix) return true;
    const Eqn& eqn = k_.eqn(k_.kernel().eqn);
    if (eqn.primitive != &scan_p) return numbers <= kFew;
    const auto& p = eqn.params.as<ScanParams>();
    const bool row =
        operand >= static_cast<std::size_t>(p.num_consts) + static_cast<std::size_t>(p.num_carry);
    return row ? 4 * numbers_read(p.jaxpr, static_cast<Var>(operand)) >= numbers : numbers <= kFew;
  }
  // Of what a cell has of an input, the numbers that the body reads: slices of it, or all.
  std::int64_t numbers_read(const Jaxpr& body, Var input) const {
    const std::vector<Labels>& labels = loop_.programs[0].labels;
    const auto numbers_of = [&](Var v) {
      return unrolled(body.aval(v).shape, labels[static_cast<std::size_t>(v)]);
    };
    const auto is_input = [&](const Atom& a) { return a.is_var() && a.var() == input; };
    std::int64_t read = 0;
    for (const Eqn& e : body.eqns()) {
      if (std::none_of(e.inputs.begin(), e.inputs.end(), is_input)) continue;
      if (e.primitive != &slice_p) return numbers_of(input);
      read += numbers_of(e.outputs[0]);
    }
    const bool handed_on = std::any_of(body.outs().begin(), body.outs().end(), is_input);
    return handed_on ? numbers_of(input) : read;
  }
  // The elements of a cell that lie one after the other.
  static std::int64_t numbers_behind(const Shape& shape, const Labels& labels) {
    std::int64_t numbers = 1;
    for (std::size_t d = shape.size(); d-- > 0 && labels[d] == kUnrolled;) numbers *= shape[d];
    return numbers;
  }

  // ---- the state as a flat list ------------------------------------------------------------------
  // Initial values: vectors from the start where cells differ.
  Scalars initial(const Jaxpr& body, const CellLoop::Program& program, std::size_t first,
                  std::size_t operand, std::size_t n, const Read& read) {
    Scalars out;
    for (std::size_t i = 0; i < n; ++i) {
      const Shape& shape = body.aval(static_cast<Var>(first + i)).shape;
      const Labels& labels = program.labels[first + i];
      const bool wide = std::find(labels.begin(), labels.end(),
                                  static_cast<int>(axis_.size()) - 1) != labels.end() &&
                        !axis_.empty();
      for (std::int64_t e = 0; e < unrolled(shape, labels); ++e) {
        const Scalar x = read(operand + i, point(shape, labels, e));
        out.push_back(wide ? gen_.splat(x) : x);
      }
    }
    return out;
  }
  // Where each component begins.
  static std::vector<std::size_t> offsets(const Jaxpr& body, const CellLoop::Program& program,
                                          std::size_t first, std::size_t n) {
    std::vector<std::size_t> out{0};
    for (std::size_t i = 0; i < n; ++i) {
      out.push_back(out.back() +
                    static_cast<std::size_t>(unrolled(body.aval(static_cast<Var>(first + i)).shape,
                                                      program.labels[first + i])));
    }
    return out;
  }
  Elements apart(const Scalars& flat, const std::vector<std::size_t>& offset) {
    Elements out;
    for (std::size_t i = 0; i + 1 < offset.size(); ++i) {
      out.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(offset[i]),
                       flat.begin() + static_cast<std::ptrdiff_t>(offset[i + 1]));
    }
    return out;
  }

  // ---- loops -------------------------------------------------------------------------------------
  // Rows that lie as a transposition has them: of each variable, or result, the numbers of each trip of a turn. Those of a
  // cell lie one after the other, trip by trip.
  using TurnedRows = std::map<std::size_t, std::vector<Scalars>>;

  // The pieces of memory that a trip reads and writes for a block of cells: rows of a scan whose elements lie apart are
  // as many as there are lanes.
  std::int64_t pieces(const ScanParams& p, const CellLoop::Program& program) const {
    const int lanes = static_cast<int>(loop_.axes.size()) - 1;
    std::int64_t all = 0;
    const auto add = [&](const Atom& a) {
      if (a.is_literal()) return;
      const Shape& shape = p.jaxpr.aval(a).shape;
      const Labels& labels = program.labels[static_cast<std::size_t>(a.var())];
      all += unrolled(shape, labels) * (step_along(lanes, shape, labels) > 1 ? full_lanes() : 1);
    };
    for (Var v = p.num_consts + p.num_carry; v < p.jaxpr.num_inputs(); ++v) add(Atom::var(v));
    for (auto i = static_cast<std::size_t>(p.num_carry); i < p.jaxpr.outs().size(); ++i)
      add(p.jaxpr.outs()[i]);
    return all;
  }
  // How many trips stand one after the other in the code of a loop. A few short ones are code without a loop. What
  // is only handed on, or written down, is work as well; and of loads and stores, LLVM compares each with the others.
  std::int64_t trips_together(const ScanParams& p, const CellLoop& loop) const {
    const auto work =
        static_cast<std::int64_t>(std::max(p.jaxpr.eqns().size(), p.jaxpr.outs().size()));
    const auto of_all = [&](std::int64_t of_trip) {
      return detail::saturating_mul(p.length, of_trip);
    };
    const bool is_short = of_all(work) <= kUnrolledWork &&
                          of_all(loop.work) <= kUnrolledOperations &&
                          of_all(pieces(p, loop.programs[0])) <= kUnrolledPieces;
    const auto [worthwhile, most] = turned_trips(p, loop);
    if (is_short && p.length <= most) return p.length;
    const std::int64_t of_work =
        std::max<std::int64_t>(kUnrolledOperations / std::max(loop.work, 1), 1);
    return std::max(trips_of_turn(p), std::min({worthwhile, most, of_work}));
  }
  // Of rows that lie by cells, those of a few trips are neighbours: as many as pay to be moved together, and as may be.
  struct TurnedTrips {
    std::int64_t worthwhile = 1, most;
  };
  TurnedTrips turned_trips(const ScanParams& p, const CellLoop& loop) const {
    constexpr std::int64_t kNarrow = 16;  // bytes of a row
    TurnedTrips trips{.most = p.length};
    const auto note = [&](const Atom& row, const Shape& order) {
      if (order.empty()) return;
      const Aval& aval = p.jaxpr.aval(row);
      const Labels& labels = loop.programs[0].labels[static_cast<std::size_t>(row.var())];
      if (!goes_by_cells(order, labels)) return;
      const std::int64_t numbers = unrolled(aval.shape, labels);
      const bool narrow = numbers * static_cast<std::int64_t>(size_of(aval.dtype)) <= kNarrow;
      trips.worthwhile = std::max<std::int64_t>(trips.worthwhile, numbers == 1 ? 8
                                                                  : narrow     ? 2
                                                                               : 1);
      trips.most = std::min(trips.most, kMostMovedTogether / numbers);
    };
    for (std::size_t i = 0; i < loop.turned_operands.size(); ++i)
      note(Atom::var(static_cast<Var>(i)), loop.turned_operands[i]);
    for (std::size_t i = 0; i < loop.turned_results.size(); ++i)
      note(p.jaxpr.outs()[i], loop.turned_results[i]);
    return trips;
  }
  Elements scan(const Eqn& eqn, const CellLoop& loop, const Read& read, bool outermost) {
    const auto& p = eqn.params.as<ScanParams>();
    const auto consts = static_cast<std::size_t>(p.num_consts);
    const auto carries = static_cast<std::size_t>(p.num_carry);
    const CellLoop::Program& program = loop.programs[0];
    const Program body(p.jaxpr);
    const std::vector<std::size_t> offset = offsets(p.jaxpr, program, consts, carries);
    const Scalars init = initial(p.jaxpr, program, consts, consts, carries, read);
    const auto row_of = [&](Scalar trip) {
      return p.reverse ? gen_.sub(gen_.index(p.length - 1), trip) : trip;
    };
    TurnedRows xs, ys;  // of the trips of a turn
    const auto turn = [&](Scalar trip, std::size_t of_turn, const Scalars& state) {
      const Scalar row = row_of(trip);
      Body* self = nullptr;
      Body values(
          *this, gen_, k_.plan, body.scope, body.kernel, body.producer, program,
          [&](std::size_t v, const Point& at) {
            if (v < consts) return read(v, at);
            if (v < consts + carries) {
              const std::int64_t n = number(program.labels[v], at, *self);
              return state[offset[v - consts] + static_cast<std::size_t>(n)];
            }
            if (const auto x = xs.find(v); x != xs.end())
              return x
                  ->second[of_turn][static_cast<std::size_t>(number(program.labels[v], at, *self))];
            const Point of_row = with_row(row, p.length, at, *self);
            return read(v, outermost ? turned(of_row, loop_.turned_operands[v]) : of_row);
          });
      self = &values;
      values.run_loops();
      Scalars next = components(values, p.jaxpr, program, consts, carries);
      if (outermost) store_rows(values, p, program, row, ys);
      return next;
    };
    const auto turns = [&](Scalar first, std::int64_t count, Scalars state) {
      if (count == 0) return state;
      const Scalar last = gen_.add(first, gen_.index(count - 1));
      const Scalar lowest = row_of(p.reverse ? last : first);
      if (outermost) xs = load_turned(p, program, lowest, count);
      ys.clear();
      for (std::int64_t k = 0; k < count; ++k)
        state = turn(gen_.add(first, gen_.index(k)), static_cast<std::size_t>(k), state);
      if (outermost) store_turned(p, program, lowest, ys);
      return state;
    };
    const std::int64_t together = trips_together(p, loop);
    if (together == p.length) return apart(turns(gen_.index(0), p.length, init), offset);
    const std::int64_t rest = p.length % together;
    const Scalars last = gen_.loop_carried(
        gen_.index(0), gen_.index(p.length - rest), together, init,
        [&](Scalar trip, const Scalars& state) { return turns(trip, together, state); });
    return apart(turns(gen_.index(p.length - rest), rest, last), offset);
  }
  Point with_row(Scalar row, std::int64_t length, const Point& at, Generator& generator) {
    Point out{at.shape, generator.indices(at), std::nullopt};
    out.shape.insert(0, length);
    out.indices->insert(out.indices->begin(), row);
    return out;
  }
  // The new state: the elements of the body's first results.
  Scalars components(Body& values, const Jaxpr& body, const CellLoop::Program& program,
                     std::size_t first, std::size_t n) {
    Scalars out;
    for (std::size_t i = 0; i < n; ++i) {
      const Shape& shape = body.aval(static_cast<Var>(first + i)).shape;
      for (std::int64_t e = 0; e < unrolled(shape, program.labels[first + i]); ++e)
        out.push_back(values(body.outs()[i], point(shape, program.labels[first + i], e)));
    }
    return out;
  }
  void store_rows(Body& values, const ScanParams& p, const CellLoop::Program& program, Scalar row,
                  TurnedRows& of_turn) {
    for (std::size_t i = static_cast<std::size_t>(p.num_carry); i < p.jaxpr.outs().size(); ++i) {
      const Atom& out = p.jaxpr.outs()[i];
      const Shape& shape = p.jaxpr.aval(out).shape;
      const Labels labels =
          out.is_var() ? program.labels[static_cast<std::size_t>(out.var())] : Labels{};
      const auto element = [&](std::int64_t n) { return values(out, point(shape, labels, n)); };
      const std::int64_t elements = unrolled(shape, labels);
      const Shape& order = loop_.turned_results[i];
      if (order.empty()) {
        store(k_.step.writes[i], shape, labels, elements, values, element,
              [&](const Point& at) { return with_row(row, p.length, at, values); });
      } else if (goes_by_cells(order, labels)) {
        Scalars& numbers = of_turn[i].emplace_back();
        for (std::int64_t n = 0; n < elements; ++n) numbers.push_back(element(n));
      } else {
        for (std::int64_t n = 0; n < elements; ++n) {
          const Point at = with_row(row, p.length, point(shape, labels, n), values);
          values.store(k_.step.writes[i], turned(at, order), element(n));
        }
      }
    }
  }

  // ---- rows that lie as a transposition has them ---------------------------------------------------
  // Whether the numbers of a cell's rows lie one after the other, trip by trip. Of others the lanes do.
  static bool goes_by_cells(const Shape& order, const Labels& row) {
    return !order.empty() &&
           (order.back() == 0 || row[static_cast<std::size_t>(order.back() - 1)] == kUnrolled);
  }
  static Point turned(const Point& at, const Shape& order) {
    if (order.empty()) return at;
    Point out{{}, Index{}, std::nullopt};
    for (const std::int64_t d : order) {
      out.shape.push_back(at.shape[static_cast<std::size_t>(d)]);
      out.indices->push_back((*at.indices)[static_cast<std::size_t>(d)]);
    }
    return out;
  }
  // Where the first number of a row lies.
  Scalar place_of_row(const ScanParams& p, Var v, const Shape& order, const Labels& labels,
                      Scalar row, Generator& memory) {
    const Point first = point(p.jaxpr.aval(v).shape, labels, 0);
    return memory.flat(turned(with_row(row, p.length, first, memory), order));
  }
  TurnedRows load_turned(const ScanParams& p, const CellLoop::Program& program, Scalar lowest,
                         std::int64_t count) {
    TurnedRows rows;
    Kernel none;
    Generator memory(gen_, k_.plan, k_.scope, none, k_.producer);
    for (std::size_t i = 0; i < loop_.turned_operands.size(); ++i) {
      const Shape& order = loop_.turned_operands[i];
      const Labels& labels = program.labels[i];
      if (!goes_by_cells(order, labels)) continue;
      const auto v = static_cast<Var>(i);
      const auto numbers = static_cast<std::ptrdiff_t>(unrolled(p.jaxpr.aval(v).shape, labels));
      const Value& value = k_.value(k_.step.reads[i]);
      const Scalars all = gen_.load_columns(gen_.pointer(value.location), value.aval.dtype,
                                            place_of_row(p, v, order, labels, lowest, memory),
                                            static_cast<int>(count * numbers));
      for (auto at = all.begin(); at != all.end(); at += numbers)
        rows[i].emplace_back(at, at + numbers);
      if (p.reverse) std::reverse(rows[i].begin(), rows[i].end());
    }
    return rows;
  }
  void store_turned(const ScanParams& p, const CellLoop::Program& program, Scalar lowest,
                    TurnedRows& rows) {
    Kernel none;
    Generator memory(gen_, k_.plan, k_.scope, none, k_.producer);
    for (auto& [i, of_trips] : rows) {
      const Var v = p.jaxpr.outs()[i].var();
      if (p.reverse) std::reverse(of_trips.begin(), of_trips.end());
      Scalars all;
      for (const Scalars& numbers : of_trips) all.insert(all.end(), numbers.begin(), numbers.end());
      const Value& value = k_.value(k_.step.writes[i]);
      gen_.store_columns(gen_.pointer(value.location), value.aval.dtype,
                         place_of_row(p, v, loop_.turned_results[i],
                                      program.labels[static_cast<std::size_t>(v)], lowest, memory),
                         all);
    }
  }

  Elements repeat(const Eqn& eqn, const CellLoop& loop, const Read& read) {
    const auto& p = eqn.params.as<WhileParams>();
    const auto cond_consts = static_cast<std::size_t>(p.cond_nconsts);
    const auto body_consts = static_cast<std::size_t>(p.body_nconsts);
    const std::size_t first = cond_consts + body_consts, carries = eqn.inputs.size() - first;
    const Program cond(p.cond_jaxpr), body(p.body_jaxpr);
    const CellLoop::Program &for_cond = loop.programs[0], &for_body = loop.programs[1];
    const std::vector<std::size_t> offset = offsets(p.body_jaxpr, for_body, body_consts, carries);
    // One program with the state at hand: its constants begin at `operand`.
    const auto with_state = [&](const Program& program, const CellLoop::Program& labels,
                                std::size_t operand, std::size_t consts, const Scalars& state,
                                const std::function<void(Body&)>& then) {
      Body* self = nullptr;
      Body values(*this, gen_, k_.plan, program.scope, program.kernel, program.producer, labels,
                  [&](std::size_t v, const Point& at) {
                    if (v < consts) return read(operand + v, at);
                    const std::int64_t n = number(labels.labels[v], at, *self);
                    return state[offset[v - consts] + static_cast<std::size_t>(n)];
                  });
      self = &values;
      values.run_loops();
      then(values);
    };
    const Atom& test = p.cond_jaxpr.outs()[0];
    const Shape& lanes = p.cond_jaxpr.aval(test).shape;
    const Labels of_test(for_body.labels[body_consts].begin(),
                         for_body.labels[body_consts].begin() + lanes.ndim());
    Scalars holds;  // of each unrolled element of the condition
    const Scalars last = gen_.loop_while(
        initial(p.body_jaxpr, for_body, body_consts, first, carries, read),
        [&](const Scalars& state) {
          Scalar any;
          with_state(cond, for_cond, 0, cond_consts, state, [&](Body& values) {
            holds.clear();
            for (std::int64_t e = 0; e < unrolled(lanes, of_test); ++e)
              holds.push_back(values(test, point(lanes, of_test, e)));
            any = holds[0];
            for (std::size_t e = 1; e < holds.size(); ++e) any = gen_.or_(any, holds[e]);
          });
          return gen_.any_lane(any);
        },
        [&](const Scalars& state) {
          Scalars next;
          with_state(body, for_body, cond_consts, body_consts, state, [&](Body& values) {
            next = components(values, p.body_jaxpr, for_body, body_consts, carries);
          });
          if (lanes.empty()) return next;
          return where_it_holds(holds, offset, next, state);
        });
    return apart(last, offset);
  }
  // Cells whose condition does not hold keep what they have.
  Scalars where_it_holds(const Scalars& holds, const std::vector<std::size_t>& offset, Scalars next,
                         const Scalars& state) {
    for (std::size_t i = 0; i + 1 < offset.size(); ++i) {
      const auto each = static_cast<std::size_t>(offset[i + 1] - offset[i]) / holds.size();
      for (std::size_t e = offset[i]; e < offset[i + 1]; ++e)
        next[e] = gen_.select(holds[(e - offset[i]) / each], next[e], state[e]);
    }
    return next;
  }

  Elements branch(const Eqn& eqn, const CellLoop& loop, const Read& read) {
    const auto& p = eqn.params.as<CondParams>();
    const Scalar which = gen_.convert(read(0, {Shape{}, Index{}, std::nullopt}), DType::i64);
    std::vector<std::size_t> offset{0};
    for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
      offset.push_back(offset.back() + static_cast<std::size_t>(unrolled(
                                           p.branches[0].out_avals()[i].shape, loop.results[i])));
    }
    const std::function<Scalars(std::size_t)> from = [&](std::size_t b) -> Scalars {
      const auto this_one = [&] {
        const Program body(p.branches[b]);
        Body values(*this, gen_, k_.plan, body.scope, body.kernel, body.producer, loop.programs[b],
                    [&](std::size_t v, const Point& at) { return read(v + 1, at); });
        values.run_loops();
        Scalars out;
        for (std::size_t i = 0; i < eqn.outputs.size(); ++i) {
          const Atom& result = p.branches[b].outs()[i];
          const Shape& shape = p.branches[b].aval(result).shape;
          for (std::int64_t e = 0; e < unrolled(shape, loop.results[i]); ++e)
            out.push_back(values(result, point(shape, loop.results[i], e)));
        }
        return out;
      };
      if (b + 1 == p.branches.size()) return this_one();
      const Scalar here =
          gen_.compare(Compare::le, which, gen_.index(static_cast<std::int64_t>(b)));
      return gen_.if_else(here, this_one, [&] { return from(b + 1); });
    };
    return apart(from(0), offset);
  }

  KernelContext& k_;
  CodeGen& gen_;
  const CellLoop& loop_;
  Index axis_;  // the cell at hand
};

void Body::run_loops() {
  for (const auto& [e, loop] : program_.loops) {
    const Eqn& eqn = jaxpr().eqns()[static_cast<std::size_t>(e)];
    loops_[e] = owner_.region(
        eqn, loop, [&](std::size_t i, const Point& at) { return (*this)(eqn.inputs[i], at); },
        false);
  }
}

Scalar Body::other(const Eqn& eqn, Var v, const Point& at) {
  switch (form_of(jaxpr(), eqn)) {
    case Form::region: {
      const int e = producer_[static_cast<std::size_t>(v)];
      const auto result = static_cast<std::size_t>(v - eqn.outputs[0]);
      const std::int64_t n = owner_.number(program_.labels[static_cast<std::size_t>(v)], at, *this);
      return loops_.at(e)[result][static_cast<std::size_t>(n)];
    }
    case Form::reduction: return reduce(eqn, at);
    case Form::dot: return product(eqn, at);
    default: return Generator::other(eqn, v, at);
  }
}

Scalar Body::reduce(const Eqn& eqn, const Point& at) {
  const Atom& x = eqn.inputs[0];
  const Shape& shape = jaxpr().aval(x).shape;
  const Shape axes = reduction_axes(eqn);
  const auto& rule = std::get<Lowering::Reduction>(lowering_of(*eqn.primitive).form);
  const Index kept = indices(at);
  const std::int64_t folded = elements_along(axes, shape);
  Scalar sum = rule.identity(gen(), eqn.params, jaxpr().aval(x).dtype);
  for (std::int64_t n = 0; n < folded; ++n) {
    Index index(shape.size(), gen().index(0));
    std::int64_t rest = n;
    std::size_t next = kept.size();
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (axes.contains(static_cast<std::int64_t>(d))) {
        index[d] = gen().index(rest % shape[d]);
        rest /= shape[d];
      } else {
        index[d] = kept[--next];
      }
    }
    const Scalar element = (*this)(x, Point{shape, index, std::nullopt});
    // Sums begin with 0: that of several -0.0 is 0.
    const bool first = n == 0 && (folded == 1 || eqn.primitive != &reduce_sum_p);
    sum = first ? element : rule.combine(gen(), eqn.params, sum, element);
  }
  return sum;
}

Scalar Body::product(const Eqn& eqn, const Point& at) {
  const DotDimensionNumbers& dn = eqn.params.as<DotGeneralParams>().dimension_numbers;
  const Index out = indices(at);
  const DType type = jaxpr().aval(eqn.outputs[0]).dtype;
  const auto contracted = [&](bool right, std::size_t i) {
    return static_cast<std::size_t>((right ? dn.rhs_contracting : dn.lhs_contracting)[i]);
  };
  const std::int64_t folded = elements_along(dn.lhs_contracting, jaxpr().aval(eqn.inputs[0]).shape);
  const auto element = [&](bool right, std::int64_t n) {
    const Atom& x = eqn.inputs[right ? 1 : 0];
    const Shape& shape = jaxpr().aval(x).shape;
    const Shape& batch = right ? dn.rhs_batch : dn.lhs_batch;
    Index index(shape.size(), gen().index(0));
    std::vector<bool> set(shape.size(), false);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      index[static_cast<std::size_t>(batch[i])] = out[i];
      set[static_cast<std::size_t>(batch[i])] = true;
    }
    for (std::size_t i = dn.lhs_contracting.size(); i-- > 0;) {
      const std::size_t d = contracted(right, i);
      index[d] = gen().index(n % shape[d]);
      n /= shape[d];
      set[d] = true;
    }
    std::size_t next = batch.size();
    if (right) {
      next += static_cast<std::size_t>(jaxpr().aval(eqn.inputs[0]).ndim()) - dn.lhs_batch.size() -
              dn.lhs_contracting.size();
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (!set[d]) index[d] = out[next++];
    }
    return gen().convert((*this)(x, Point{shape, index, std::nullopt}), type);
  };
  Scalar sum = gen().constant(type, 0);
  for (std::int64_t n = 0; n < folded; ++n)
    sum = gen().fma(element(false, n), element(true, n), sum);
  return sum;
}

}  // namespace

void emit_cells(KernelContext& k) { CellEmitter(k).run(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
