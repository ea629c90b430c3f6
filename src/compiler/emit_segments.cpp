// Kernels that are cut into functions (segments.hpp): the functions, and the loop that calls them.
#include "compiler/emit.hpp"
#include "compiler/segments.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// What the code of a function and of the loop have in common: where values lie on the tape.
class OnTape {
 public:
  OnTape(CodeGen& gen, const Jaxpr& jaxpr, const Segments& segments, Pointer tape)
      : gen_(gen), jaxpr_(jaxpr), segments_(segments), tape_(tape) {}

  bool contains(Var v) const { return segments_.places.contains(v); }
  Pointer pointer(Var v) {
    return gen_.offset(tape_, DType::i8, gen_.index(segments_.places.at(v)));
  }
  DType dtype(Var v) const { return jaxpr_.aval(v).dtype; }
  Pointer memory() const { return tape_; }
  void store(Var v, Scalar x) {
    gen_.store(pointer(v), dtype(v), gen_.lane_index(gen_.index(0)), x);
  }
  Scalar load(Var v) { return gen_.load_now(pointer(v), dtype(v), gen_.lane_index(gen_.index(0))); }
  void store_number(Var v, Scalar x) { gen_.store(pointer(v), dtype(v), gen_.index(0), x); }
  Scalar load_number(Var v) { return gen_.load_now(pointer(v), dtype(v), gen_.index(0)); }

 private:
  CodeGen& gen_;
  const Jaxpr& jaxpr_;
  const Segments& segments_;
  Pointer tape_;
};

/// The values of one function: what it does not compute itself is on the tape.
class SegmentGenerator final : public Generator {
 public:
  SegmentGenerator(CodeGen& gen, const KernelContext& k, const Kernel& part, OnTape& tape)
      : Generator(gen, k.plan, k.scope, part, k.producer),
        tape_(tape),
        space_(k.kernel().shape.num_elements()) {}

 protected:
  Scalar outside(Var v, const Point&) override {
    return space_ > 1 && jaxpr().aval(v).size() == 1 ? tape_.load_number(v) : tape_.load(v);
  }
  bool reads_arrays() const override { return false; }

 private:
  OnTape& tape_;
  std::int64_t space_;
};

class SegmentsEmitter {
 public:
  explicit SegmentsEmitter(KernelContext& k)
      : k_(k), gen_(k.gen), kernel_(k.kernel()), segments_(*kernel_.segments) {}

  void run() {
    for (std::size_t s = 0; s < segments_.equations.size(); ++s) emit_function(s);
    emit_loop();
  }

 private:
  void emit_function(std::size_t s) {
    CodeGen& gen = gen_.part(segments_.equations[s].size());
    names_.push_back(gen_.segment_name(kernel_.name));
    const Pointer memory = gen.begin_segment(names_.back());
    gen.set_lanes(segments_.lanes, segments_.lanes);
    OnTape tape(gen, k_.scope.jaxpr, segments_, memory);
    Kernel part;
    part.shape = kernel_.shape;
    part.members.insert(segments_.equations[s].begin(), segments_.equations[s].end());
    for (const int e : segments_.equations[s]) {
      for (const Atom& a : k_.eqn(e).inputs) add_names(a, part.members);
    }
    SegmentGenerator value_at(gen, k_, part, tape);
    const Point at{kernel_.shape, std::nullopt, gen.lane_index(gen.index(0))};
    for (const int e : segments_.equations[s]) {
      for (const Var v : k_.eqn(e).outputs) {
        if (tape.contains(v)) tape.store(v, value_at(v, here(at, v)));
      }
    }
    gen.finish_segment();
  }
  // What an operand goes by.
  void add_names(Atom a, std::set<int>& members) const {
    while (a.is_var()) {
      const int e = k_.producer[static_cast<std::size_t>(a.var())];
      if (e < 0 || !segments_.names.contains(e) || !members.insert(e).second) return;
      a = k_.eqn(e).inputs[0];
    }
  }
  // The same row-major index, in the shape that the variable has.
  Point here(const Point& at, Var v) const {
    return {k_.scope.jaxpr.aval(v).shape, std::nullopt, at.flat};
  }

  void emit_loop() {
    const Value& tape_value = k_.value(kernel_.tape);
    const Pointer memory =
        gen_.pointer(k_.in_chunks ? Location{Location::Kind::chunk, 0} : tape_value.location);
    OnTape tape(gen_, k_.scope.jaxpr, segments_, memory);
    Generator value_at(gen_, k_.plan, k_.scope, kernel_, k_.producer);
    gen_.set_lanes(1, 1);
    for (const Var v : segments_.uniforms) {
      const Shape& shape = k_.scope.jaxpr.aval(v).shape;
      const Point origin{shape, Index(shape.size(), gen_.index(0)), gen_.index(0)};
      tape.store_number(v, value_at(v, origin));
    }
    const std::int64_t size = kernel_.shape.num_elements();
    if (size == 1) return step(tape, value_at, gen_.index(0));
    stream_ = should_stream(k_);
    vector_loop(gen_, k_.begin, k_.end, size, segments_.lanes,
                [&](Scalar base) { step(tape, value_at, base); });
  }

  // One vector. The functions work on whole vectors: of the last one, the lanes beyond are zeros.
  void step(OnTape& tape, Generator& value_at, Scalar base) {
    const int lanes = gen_.lanes(), active = gen_.active();
    const Point at{kernel_.shape, std::nullopt, gen_.lane_index(base)};
    std::vector<Scalar> values;
    for (const Var v : segments_.inputs) values.push_back(value_at(v, here(at, v)));
    gen_.set_lanes(lanes, lanes);
    for (std::size_t i = 0; i < values.size(); ++i) tape.store(segments_.inputs[i], values[i]);
    for (const std::string& name : names_) gen_.call_segment(name, tape.memory());
    values.clear();
    for (const Var v : kernel_.roots) values.push_back(result(tape, value_at, v));
    gen_.set_lanes(lanes, active);
    gen_.set_streaming(stream_);
    for (std::size_t i = 0; i < values.size(); ++i)
      value_at.store(k_.value_of(kernel_.roots[i]), at, values[i]);
    gen_.set_streaming(false);
  }
  Scalar result(OnTape& tape, Generator& value_at, Var root) {
    const Atom a = segments_.named(k_.scope.jaxpr, k_.producer, Atom::var(root));
    if (a.is_literal()) return value_at.literal(a.literal());
    const bool number = kernel_.shape.num_elements() > 1 && k_.scope.jaxpr.aval(a).size() == 1;
    return number ? tape.load_number(a.var()) : tape.load(a.var());
  }

  KernelContext& k_;
  CodeGen& gen_;
  const Kernel& kernel_;
  const Segments& segments_;
  std::vector<std::string> names_;
  bool stream_ = false;
};

}  // namespace

void emit_segments(KernelContext& k) { SegmentsEmitter(k).run(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
