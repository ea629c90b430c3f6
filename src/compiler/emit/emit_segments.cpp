// Kernels that are cut into functions (segments.hpp): the functions, and the loop that calls them.
#include "compiler/emit/emit.hpp"
#include "compiler/fusion/index_space.hpp"
#include "compiler/plan/segments.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

/// What the code of a function and of the loop have in common: where the values of one of the vectors
/// lie on the tape. For the first of them `vector` is the tape itself.
class OnTape {
 public:
  OnTape(CodeGen& gen, const Jaxpr& jaxpr, const Segments& segments, Pointer tape, Pointer vector)
      : gen_(gen), jaxpr_(jaxpr), segments_(segments), tape_(tape), vector_(vector) {}

  bool contains(Var v) const { return segments_.places.contains(v); }
  void store(Var v, Scalar x) { store(dtype(v), gen_.index(place(v)), x); }
  void store(DType type, Scalar place, Scalar x) {
    if (in_bits(type)) gen_.store_bits(vector_, place, x);
    else gen_.store(vector_, type, gen_.lane_index(place), x);
  }
  Scalar load(Var v) {
    const Scalar at = gen_.index(place(v));
    return in_bits(dtype(v)) ? gen_.load_bits(vector_, at)
                             : gen_.load_now(vector_, dtype(v), gen_.lane_index(at));
  }
  void store_number(DType type, Scalar place, Scalar x) { gen_.store(tape_, type, place, x); }
  Scalar load_number(Var v) { return gen_.load_now(tape_, dtype(v), gen_.index(place(v))); }
  /// Counted in elements.
  std::int64_t place(Var v) const {
    return segments_.places.at(v) / static_cast<std::int64_t>(size_of(dtype(v)));
  }

 private:
  DType dtype(Var v) const { return jaxpr_.aval(v).dtype; }
  bool in_bits(DType type) const { return type == DType::bool_ && segments_.lanes > 1; }

  CodeGen& gen_;
  const Jaxpr& jaxpr_;
  const Segments& segments_;
  Pointer tape_;
  Pointer vector_;
};

/// The values of one stretch: what it does not compute itself is on the tape.
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
      : k_(k),
        gen_(k.gen),
        kernel_(k.kernel()),
        segments_(*kernel_.segments),
        inputs_(segments_.inputs) {}

  void run() {
    for (const auto& stretches : segments_.functions) emit_function(stretches);
    emit_loop();
  }

 private:
  void emit_function(const std::vector<Segments::Stretch>& stretches) {
    std::size_t size = 0;
    for (const Segments::Stretch& stretch : stretches) size += stretch.size();
    CodeGen& gen = gen_.part(size);
    const CodeGen::SegmentArguments given = gen.begin_segment(gen_.segment_name(kernel_.name));
    for (const Segments::Stretch& stretch : stretches) {
      gen.set_lanes(segments_.lanes, segments_.lanes);
      for_each(gen, given, [&](OnTape& tape, Scalar) { emit_stretch(gen, stretch, tape); });
    }
    names_.push_back(gen.finish_segment(size));
  }
  // Of one vector at a time there is no loop.
  void for_each(CodeGen& gen, const CodeGen::SegmentArguments& given,
                const std::function<void(OnTape& tape, Scalar address)>& body) const {
    const auto one = [&](Pointer vector, Scalar address) {
      OnTape tape(gen, k_.scope.jaxpr, segments_, given.tape, vector);
      body(tape, address);
    };
    const Scalar first = gen.address(given.tape);
    if (segments_.vectors == 1) return gen.region([&] { one(given.tape, first); });
    gen.loop_entered(first, given.end, segments_.vector_bytes,
                     [&](Scalar address) { one(gen.pointer_to(address), address); });
  }
  void emit_stretch(CodeGen& gen, const Segments::Stretch& stretch, OnTape& tape) {
    Kernel part;
    part.shape = kernel_.shape;
    part.members.insert(stretch.begin(), stretch.end());
    for (const int e : stretch) {
      for (const Atom& a : k_.eqn(e).inputs) add_unplaced(a, part.members);
    }
    SegmentGenerator value_at(gen, k_, part, tape);
    const Point at{kernel_.shape, std::nullopt, gen.lane_index(gen.index(0))};
    for (const int e : stretch) {
      for (const Var v : k_.eqn(e).outputs) {
        if (tape.contains(v)) tape.store(v, value_at(v, here(at, v)));
      }
    }
  }
  // What an operand goes by, or is made of each time.
  void add_unplaced(const Atom& a, std::set<int>& members) const {
    if (!a.is_var()) return;
    const int e = k_.producer[static_cast<std::size_t>(a.var())];
    if (!segments_.names.contains(e) && !segments_.again.contains(e)) return;
    if (!members.insert(e).second) return;
    for (const Atom& operand : k_.eqn(e).inputs) add_unplaced(operand, members);
  }
  // The same row-major index, in the shape that the variable has.
  Point here(const Point& at, Var v) const {
    return {k_.scope.jaxpr.aval(v).shape, std::nullopt, at.flat};
  }

  void emit_loop() {
    const Value& tape_value = k_.value(kernel_.tape);
    memory_ = gen_.pointer(k_.in_chunks ? Location{Location::Kind::chunk, 0} : tape_value.location);
    Generator value_at(gen_, k_.plan, k_.scope, kernel_, k_.producer);
    gen_.set_lanes(1, 1);
    OnTape tape(gen_, k_.scope.jaxpr, segments_, memory_, memory_);
    Vars numbers = segments_.uniforms;
    for (const Table& t : tables_of(numbers, tape)) {
      for_each(t, [&](Pointer from, Scalar to) {
        tape.store_number(t.dtype, to, gen_.load_now(from, t.dtype, gen_.index(0)));
      });
    }
    for (const Var v : numbers) {
      const Shape& shape = k_.scope.jaxpr.aval(v).shape;
      const Point origin{shape, Index(shape.size(), gen_.index(0)), gen_.index(0)};
      tape.store_number(k_.scope.jaxpr.aval(v).dtype, gen_.index(tape.place(v)),
                        value_at(v, origin));
    }
    tables_ = tables_of(inputs_, tape);
    const std::int64_t size = kernel_.shape.num_elements();
    if (size == 1) return step(value_at, gen_.index(0), gen_.index(1));
    stream_ = should_stream(k_);
    const int lanes = segments_.lanes;
    const Scalar whole = gen_.index(size / lanes * lanes), stop = gen_.min(k_.end, whole);
    gen_.set_lanes(lanes, lanes);
    gen_.loop_carried(k_.begin, stop, lanes * segments_.vectors, {},
                      [&](Scalar base, const Scalars&) {
                        const Scalar left = gen_.div(gen_.sub(stop, base), gen_.index(lanes));
                        step(value_at, base, gen_.min(left, gen_.index(segments_.vectors)));
                        return Scalars{};
                      });
    if (stream_) gen_.finish_streaming();
    if (const auto rest = static_cast<int>(size % lanes); rest > 0) {
      gen_.if_then(gen_.compare(Compare::gt, k_.end, whole), [&] {
        gen_.set_lanes(lanes, rest);
        step(value_at, whole, gen_.index(1));
      });
    }
    gen_.set_lanes(1, 1);
  }
  /// Values of one type that lie in memory of one kind.
  struct Table {
    DType dtype;
    Location::Kind kind;
    std::int64_t from, to, size;  // places
  };
  // LLVM takes long for blocks of thousands of loads and stores: what is read of many values goes through a loop
  // over the table of where they lie, and where they go on the tape. Leaves the others in `vars`.
  std::vector<Table> tables_of(Vars& vars, const OnTape& tape) {
    constexpr std::size_t kFew = 16;
    std::map<std::pair<DType, Location::Kind>, Vars> alike;
    Vars others;
    for (const Var v : vars) {
      if (kernel_.members.contains(k_.producer[static_cast<std::size_t>(v)])) others.push_back(v);
      else alike[{k_.scope.jaxpr.aval(v).dtype, place_of(v).kind}].push_back(v);
    }
    std::vector<Table> tables;
    for (const auto& [type, same] : alike) {
      if (same.size() <= kFew || !k_.plan.emit.input_tables) {
        others.insert(others.end(), same.begin(), same.end());
        continue;
      }
      std::vector<std::int64_t> from, to;
      for (const Var v : same) {
        from.push_back(place_of(v).index);
        to.push_back(tape.place(v));
      }
      const std::int64_t first = gen_.add_places(from);
      tables.push_back({type.first, type.second, first, gen_.add_places(to), std::ssize(same)});
    }
    vars = std::move(others);
    return tables;
  }
  Location place_of(Var v) const { return k_.value(k_.value_of(v)).location; }
  // body(where a value lies, where it goes)
  void for_each(const Table& t, const std::function<void(Pointer from, Scalar to)>& body) {
    gen_.loop(gen_.index(0), gen_.index(t.size), [&](Scalar i) {
      body(gen_.pointer(t.kind, gen_.place_at(t.from, i)), gen_.place_at(t.to, i));
    });
  }
  // Some vectors from `base` on. The functions work on whole ones: of the last one, the lanes beyond are
  // zeros.
  void step(Generator& value_at, Scalar base, Scalar vectors) {
    const int lanes = gen_.lanes(), active = gen_.active();
    const Scalar first = gen_.address(memory_);
    const CodeGen::SegmentArguments given{
        memory_, gen_.add(first, gen_.mul(vectors, gen_.index(segments_.vector_bytes)))};
    const auto point = [&](Scalar address) {
      const Scalar element =
          gen_.div(gen_.sub(address, first), gen_.index(segments_.vector_bytes / lanes));
      return Point{kernel_.shape, std::nullopt, gen_.lane_index(gen_.add(base, element))};
    };
    const auto put = [&](OnTape& tape, DType type, Scalar place, Scalar value) {
      gen_.set_lanes(lanes, lanes);
      tape.store(type, place, value);
      gen_.set_lanes(lanes, active);
    };
    for (const Table& t : tables_) {
      for_each(t, [&](Pointer from, Scalar to) {
        for_each(gen_, given, [&](OnTape& tape, Scalar address) {
          put(tape, t.dtype, to, gen_.load(from, t.dtype, *point(address).flat));
        });
      });
    }
    for_each(gen_, given, [&](OnTape& tape, Scalar address) {
      const Point at = point(address);
      // One after the other: LLVM takes long to find places for many values that are alive at once.
      for (const Var v : inputs_) {
        put(tape, k_.scope.jaxpr.aval(v).dtype, gen_.index(tape.place(v)),
            value_at(v, here(at, v)));
      }
    });
    for (const std::string& name : names_) gen_.call_segment(name, given);
    for_each(gen_, given, [&](OnTape& tape, Scalar address) {
      const Point at = point(address);
      gen_.set_streaming(stream_);
      for (const Var v : kernel_.roots) {
        gen_.set_lanes(lanes, lanes);
        Scalars columns;
        for (const Atom& a : columns_of_root(k_.scope.jaxpr, kernel_, k_.producer, v))
          columns.push_back(result(tape, value_at, a));
        gen_.set_lanes(lanes, active);
        if (kernel_.woven.contains(v))
          value_at.store_columns(v, at, static_cast<int>(columns.size()),
                                 [&](int c) { return columns[static_cast<std::size_t>(c)]; });
        else value_at.store(k_.value_of(v), at, columns[0]);
      }
      gen_.set_streaming(false);
    });
  }
  Scalar result(OnTape& tape, Generator& value_at, const Atom& column) {
    const Atom a = segments_.named(k_.scope.jaxpr, k_.producer, column);
    if (a.is_literal()) return value_at.literal(a.literal());
    const bool number = kernel_.shape.num_elements() > 1 && k_.scope.jaxpr.aval(a).size() == 1;
    return number ? tape.load_number(a.var()) : tape.load(a.var());
  }

  KernelContext& k_;
  CodeGen& gen_;
  const Kernel& kernel_;
  const Segments& segments_;
  std::vector<std::string> names_;
  Pointer memory_;             // the tape
  std::vector<Table> tables_;  // of inputs
  Vars inputs_;                // those that are in none of them
  bool stream_ = false;
};

}  // namespace

void emit_segments(KernelContext& k) { SegmentsEmitter(k).run(); }

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
